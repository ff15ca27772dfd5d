"""`rlx ir`: what a model becomes on its way to machine code."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rlxlang.device import Device, backend_of, thread_count
from rlxlang.diagnostics import RlxRuntimeError, RlxValueError, Source, Span, raise_all
from rlxlang.func import Func
from rlxlang.ir import Graph
from rlxlang.ir.printer import print_graph
from rlxlang.tools.data import add_model_arguments, load_model

if TYPE_CHECKING:
    from rlxlang.backends.llvm import LlvmBackend
    from rlxlang.kernels import Program

EXAMPLES = """\
examples:
  rlx ir digits.rlx
  rlx ir digits.rlx --stage kernels
  rlx ir digits.rlx --grad w1 --grad b1 --stage simplified
  rlx ir digits.rlx --stage asm | less

Stages: ast (the parsed text), graph (after elaboration), simplified (after decomposition and rewriting), kernels (loops over
buffers), llvm and asm (of this processor), opencl (OpenCL C).
"""

STAGES = ("ast", "graph", "simplified", "kernels", "llvm", "asm", "opencl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_model_arguments(parser)
    parser.add_argument("--stage", choices=STAGES, default="graph", help="what to show (default: graph)")
    parser.add_argument(
        "--grad", metavar="NAME", action="append", default=[],
        help="show the loss and its derivative in this input or param instead; may be repeated, `all` means all params",
    )  # fmt: skip
    parser.add_argument(
        "--exact", action="store_true", help="show all numbers of constants, so that a graph can be read back"
    )


def run(options: argparse.Namespace) -> int:
    """Print; returns the exit code."""
    if options.stage == "ast":
        if options.grad:
            raise RlxValueError("`--grad` changes graphs, and `--stage ast` shows the text before there is one")
        print(_parsed(options.model))
        return 0
    func = load_model(options)
    if options.grad:
        func = func.value_and_grad_all() if "all" in options.grad else func.value_and_grad(options.grad)
    if options.stage in _CODE:
        print(_CODE[options.stage](func).rstrip())
    else:
        graph = func.graph if options.stage == "graph" else _simplified(func.graph)
        print(print_graph(graph, exact=options.exact).rstrip())
    return 0


def _parsed(path: str) -> str:
    from rlxlang.frontend.parse import parse_module

    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise RlxRuntimeError(f"`{path}` cannot be read: {problem}") from problem
    result = parse_module(Source(path, text))
    if any(d.is_error for d in result.diagnostics):
        raise_all(result.diagnostics)
    return "\n".join(_tree(result.module, ""))


def _tree(node: Any, pad: str, label: str = "") -> Iterator[str]:
    """A node of the syntax tree: its kind and plain fields on a line, what it holds below."""
    head = f"{pad}{label}{type(node).__name__}"
    below: list[tuple[str, Any]] = []
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Source):
            continue
        if isinstance(value, Span):
            line, column = value.source.line_column(value.start)
            head += f" @{line}:{column}" if field.name == "span" else ""
        elif dataclasses.is_dataclass(value) or (
            isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value))
        ):
            below.append((field.name, value))
        elif value not in (None, (), "", False):
            head += f" {field.name}={value!r}"
    yield head
    for name, value in below:
        for item in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(item):
                if not isinstance(item, Span):
                    yield from _tree(item, pad + "  ", f"{name}: ")
            elif item is not None:
                yield f"{pad}  {name}: {item!r}"


def _program(func: Func) -> Program:
    from rlxlang.lower import lower

    return lower(func.graph, threads=thread_count()).program


def _simplified(graph: Graph) -> Graph:
    from rlxlang.passes import simplify
    from rlxlang.transforms import expand

    return simplify(expand(graph, "lower")[0])


def _kernels(func: Func) -> str:
    from rlxlang.kernels.text import program_text

    return program_text(_program(func))


def _llvm(func: Func) -> str:
    return cast("LlvmBackend", backend_of(Device.CPU)).llvm_ir(_program(func))


def _assembly(func: Func) -> str:
    return cast("LlvmBackend", backend_of(Device.CPU)).assembly(_program(func))


def _opencl(func: Func) -> str:
    from rlxlang.backends.opencl.program import program_source

    # The text for a graphics processor; that for a processor differs in the sizes of tiles and vectors.
    return program_source(_program(func), has_fp64=True, is_cpu=False).text


_CODE: dict[str, Callable[[Func], str]] = {"kernels": _kernels, "llvm": _llvm, "asm": _assembly, "opencl": _opencl}
