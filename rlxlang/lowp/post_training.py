"""Trained parameters stored as integers of 8 or 4 bits in blocks with scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxNameError, RlxShapeError, RlxValueError
from rlxlang.ir import Builder, GraphInput, GraphOutput, Node, Origin, declare
from rlxlang.lowp.formats import require_floats, require_size
from rlxlang.ops import emit
from rlxlang.ops.surface_quantize_products import stored_weights
from rlxlang.transforms import replay, replay_inputs, unique_name
from rlxlang.types import F32, I8, U8

if TYPE_CHECKING:
    from rlxlang.func import Func

Array: TypeAlias = "np.ndarray[Any, Any]"

# Parts of the greatest |w| of a block that its greatest integer may stand for.
_CLIPS = tuple(1 - 0.025 * k for k in range(17))


def quantize_blocks(w: object, bits: int = 8, block: int = 32, *, search: bool = False) -> tuple[Array, Array]:
    """A matrix as integers with a scale for each block of a row, as the op `dequant_matmul` reads it.

    Args:
        w: Floats [out, in].
        bits: 8, stored as I8, or 4, stored as U8 [out, in / 2] with two numbers plus 8 in a byte, the low bits first.
        block: Elements of a row that share a scale; `in` is a multiple of it.
        search: Whether to look for the scale of each block with the least squared error, among those for 60 to 100 % of its greatest
            |w|; without it the greatest |w| stays what it is.

    Returns:
        The integers, and the scales f32[out, in / block].

    Raises:
        RlxTypeError: It holds no floats.
        RlxShapeError: It is no matrix whose rows consist of blocks.
        RlxValueError: `bits` is neither 4 nor 8, or a block has no element.

    Source:
        Elementary; the blocks of 4 bits are those of Dettmers and Zettlemoyer 2023, "The case for 4-bit precision".
    """
    array = require_floats("quantize_blocks", w)
    if bits not in (4, 8):
        raise RlxValueError(f"`bits` is 4 or 8, and {bits!r} is given")
    require_size("block", block)
    if array.ndim != 2 or array.shape[1] % block or (bits == 4 and array.shape[1] % 2):
        pairs = " and of 2" if bits == 4 and block % 2 else ""
        raise RlxShapeError(
            f"an array of shape {list(array.shape)} is no matrix whose rows have a multiple of {block}{pairs} elements"
        )
    top = (1 << bits - 1) - 1
    blocks = array.astype(np.float64).reshape(array.shape[0], -1, block)
    greatest = np.max(np.abs(blocks), axis=2, keepdims=True, initial=0)
    scale = greatest / top
    if search:
        scale = _best_scale(blocks, greatest, top)
    scale = np.where(scale > 0, scale, 1).astype(np.float32)
    whole = np.clip(np.rint(blocks / scale), -top, top).reshape(array.shape).astype(np.int8)
    if bits == 4:
        pairs_of = (whole + 8).astype(np.uint8).reshape(array.shape[0], -1, 2)
        whole = pairs_of[:, :, 0] | pairs_of[:, :, 1] << 4
    return whole, scale[:, :, 0]


def _best_scale(blocks: Array, greatest: Array, top: int) -> Array:
    best, least = greatest / top, np.full(greatest.shape, np.inf)
    for clip in _CLIPS:
        scale = greatest * clip / top
        safe = np.where(scale > 0, scale, 1)
        rounded = np.clip(np.rint(blocks / safe), -top, top) * safe
        error = np.sum((rounded - blocks) ** 2, axis=2, keepdims=True)
        best, least = np.where(error < least, scale, best), np.minimum(error, least)
    return best


def quantize_weights(
    func: Func,
    bits: int = 8,
    block: int = 32,
    *,
    match: str | Sequence[str] = "*",
    axis: int = -1,
    search: bool = True,
) -> Func:
    """A trained function whose matrices are stored as integers of few bits, each in the place of a parameter.

    A parameter `w` becomes `w.q` and `w.scale`, and is read as their product; all others stay. So the function runs, is saved and
    loaded as any other, in a quarter or an eighth of the memory.

    Args:
        func: The function; the matrices are bound.
        bits: 8 or 4.
        block: Elements that share a scale.
        match: Patterns of names (`*`, `?`); of what matches, the float matrices whose `axis` consists of blocks are stored so.
        axis: The axis along which blocks lie, the one that is contracted: −1 for weights [out, in] of `linear`, 0 for `x @ w`.
        search: See `quantize_blocks`.

    Raises:
        RlxNameError: No parameter matches.
        RlxShapeError: None of those that match is a matrix of blocks.
        RlxValueError: `bits`, `block` or `axis` is out of its range.
    """
    if axis not in (-1, 0, 1):
        raise RlxValueError(f"`axis` is −1, 0 or 1, and {axis!r} is given")
    patterns = (match,) if isinstance(match, str) else tuple(match)
    named = [n for n in func.trainable_names() if any(fnmatchcase(n, p) for p in patterns)]
    if not named:
        raise RlxNameError(
            f"no parameter matches {', '.join(patterns)}", notes=(f"they are {', '.join(func.param_names())}",)
        )
    func.traced.signature.require_params(func.bindings)
    along = axis % 2
    stored: dict[str, tuple[Array, Array]] = {}
    for name in named:
        array = func.bindings[name]
        if (
            array.ndim == 2
            and array.shape[along]
            and array.shape[along] % (block if bits == 8 else np.lcm(block, 2)) == 0
        ):
            stored[name] = quantize_blocks(array if along else array.T, bits, block, search=search)
    if not stored:
        raise RlxShapeError(f"no matrix that matches {', '.join(patterns)} has blocks of {block} along axis {axis}")
    return _with_stored(func, stored, bits, block, along)


def _with_stored(func: Func, stored: Mapping[str, tuple[Array, Array]], bits: int, block: int, along: int) -> Func:
    graph, b = func.graph, Builder()
    env, inputs = replay_inputs(b, graph)
    kept: list[GraphInput] = []
    taken = [e.name for e in inputs if e.name not in stored]
    bindings = {n: a for n, a in func.bindings.items() if n not in stored}
    with b.at(Origin(via=("quantize_weights",))):
        for entry, old in zip(inputs, graph.inputs, strict=True):
            if entry.name not in stored:
                kept.append(entry)
                continue
            parts: list[Node] = []
            for suffix, array, dtype in zip(
                ("q", "scale"), stored[entry.name], (I8 if bits == 8 else U8, F32), strict=True
            ):
                name = unique_name(f"{entry.name}.{suffix}", taken)
                taken.append(name)
                parts.append(b.input(name, dtype, array.shape, "param"))
                kept.append(declare(parts[-1], doc=entry.doc))
                bindings[name] = array
            weights = stored_weights(b, "quantize_weights", parts[0], parts[1], None, bits, block)
            weights = weights if along else emit.transpose(b, weights, (1, 0))
            env[old.node] = emit.cast(b, weights, old.node.dtype)
    replay(b, graph, env)
    outputs = [GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs]
    quantized = type(func).from_graph(b.finish(graph.name, kept, outputs))
    return quantized.with_params(bindings)
