"""`rlx gradcheck`: compare the derivatives of a model with differences of its values."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from rlxlang.checkpoint import load_weights
from rlxlang.diagnostics import RlxValueError
from rlxlang.func import Func
from rlxlang.gradient_check import MODES, check_grads
from rlxlang.inputs import check_names
from rlxlang.tools.data import add_model_arguments, assignment, load_model, read_npz, selected, value_of
from rlxlang.types import DType, axes_of, evaluate

EXAMPLES = """\
examples:
  rlx gradcheck digits.rlx
  rlx gradcheck gpt.rlx --set layers=2 --size s=5 --order 1 --modes rev
  rlx gradcheck line.rlx --weights line.safetensors --data points.npz --wrt w --wrt b

Inputs that are not given are drawn: floats from a normal distribution, integers from 0 and 1. Exit code 1: a derivative is wrong.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_model_arguments(parser)
    parser.add_argument("--weights", metavar="FILE.safetensors", help="parameters (default: drawn from --seed)")
    parser.add_argument("--data", metavar="FILE.npz", help="inputs by name")
    parser.add_argument(
        "--input", metavar="NAME=VALUE", action="append", default=[],
        help="an input: a number, a list, or a .npy file; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--size", metavar="AXIS=N", action="append", default=[],
        help="size of a dynamic axis of inputs that are drawn (default: 2, 3, 4 …); may be repeated",
    )  # fmt: skip
    parser.add_argument("--wrt", metavar="NAME", action="append", help="an input or param (default: all floats)")
    parser.add_argument("--order", type=int, default=2, help="how often to differentiate (default: 2)")
    parser.add_argument("--modes", default=",".join(MODES), help="fwd, rev or both (default: fwd,rev)")
    parser.add_argument("--device", help="cpu, opencl, opencl:1 or reference (default: the fastest)")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (default: 0)")


def run(options: argparse.Namespace) -> int:
    """Check and print the report; returns the exit code."""
    func = load_model(options)
    func = load_weights(func, options.weights) if options.weights else func.init_params(seed=options.seed)
    inputs = _inputs(options, func)
    modes = tuple(word.strip() for word in options.modes.split(",") if word.strip())
    seed = {} if func.traced.signature.seed is None else {func.traced.signature.seed.name: options.seed}
    report = check_grads(
        func, {**inputs, **seed}, options.order, modes, wrt=options.wrt, device=options.device, seed=options.seed
    )
    print(report)
    return 0


def _inputs(options: argparse.Namespace, func: Func) -> dict[str, object]:
    values: dict[str, object] = {}
    if options.data:
        values.update(selected(func, read_npz(options.data), options.data)[0])
    for text in options.input:
        name, value = assignment(text, "--input")
        check_names([name], func.input_names(), "input", func.name)
        values[name] = value_of(value, name)
    sizes = _sizes(options.size)
    for entry in func.graph.feeds:
        if entry.name in values:  # the sizes that are given hold for what is drawn
            for dim, n in zip(entry.node.shape, np.shape(np.asarray(values[entry.name])), strict=False):
                if not isinstance(dim, int) and str(dim) in axes_of(dim):
                    sizes.setdefault(str(dim), n)
    rng = np.random.default_rng(options.seed)
    for entry in func.graph.feeds:
        if entry.name not in values:
            for axis in entry.node.tensor.axes():
                sizes.setdefault(axis, 2 + len(sizes))
            shape = tuple(d if isinstance(d, int) else evaluate(d, sizes) for d in entry.node.shape)
            values[entry.name] = _drawn(rng, shape, entry.node.dtype)
    return values


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Any:
    if dtype.is_differentiable:
        return rng.normal(size=shape).astype(dtype.numpy)
    return rng.integers(0, 2, size=shape).astype(dtype.numpy)


def _sizes(texts: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        axis, size = assignment(text, "--size")
        if not size.isdigit():
            raise RlxValueError(f"`--size {text}`: a size is a whole number")
        found[axis.removeprefix("?")] = int(size)
    return found
