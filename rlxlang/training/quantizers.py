"""Quantizers of parameters: by name, compiled into the step, and functions in Python.

Gradients are computed at the rounded parameters and applied to the exact ones (straight through).
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from rlxlang.compiler import Traced
from rlxlang.device import Device
from rlxlang.diagnostics import RlxValueError, did_you_mean
from rlxlang.ir import SURFACES, Builder, Graph, GraphInput, GraphOutput, Node, Origin, declare
from rlxlang.ops import emit
from rlxlang.transforms import expand
from rlxlang.types import F32, FORMAT_NAMES, Dim, FloatFormat, find_format

Array: TypeAlias = "np.ndarray[Any, Any]"
# A name for all matrices, or names by patterns of parameters; None leaves them alone.
Spec: TypeAlias = "str | Mapping[str, str | None]"

_INTEGERS = re.compile(r"int(\d+)")
_GREATEST_BITS = 16
_SCALED_BITS = 8  # formats of so few bits need a scale


class Quantizer(Protocol):
    """Rounds parameters.

    Attributes:
        is_compiled: Whether it can be part of a compiled step.
    """

    is_compiled: ClassVar[bool]

    def arrays(self, params: Mapping[str, Array], device: Device | None) -> dict[str, Array]:
        """The rounded parameters by name; those that are left alone need not be among them."""
        ...


# --------------------------------------------------------------------------------------------- names


@dataclass(frozen=True, slots=True)
class Rounding:
    """What the name of a quantizer means for a matrix, whose last axis is contracted.

    Attributes:
        kind: `format`, `mx`, `nvfp4` or `int`.
        size: Elements of a block, or bits of integers.
        format: Of the elements.
    """

    kind: str
    size: int = 0
    format: FloatFormat | None = None

    @classmethod
    def of(cls, spec: object) -> Rounding:
        """The meaning of a name.

        Raises:
            RlxValueError: It has none.
        """
        name, *more = str(spec).strip().lower().split(":")
        found: Rounding | None = None
        if isinstance(spec, str) and (integers := _INTEGERS.fullmatch(name)) and not more:
            bits = int(integers[1])
            found = cls("int", bits) if 2 <= bits <= _GREATEST_BITS else None
        elif isinstance(spec, str) and name == "mx" and len(more) <= 2:
            own, size = find_format(more[0] if more else "e4m3"), _size(more[1:], 32)
            found = cls("mx", size, own) if own is not None and size else None
        elif isinstance(spec, str) and name == "nvfp4" and len(more) <= 1:
            size = _size(more, 16)
            found = cls("nvfp4", size) if size else None
        elif isinstance(spec, str) and not more:
            own = find_format(name)
            found = None if own is None else cls("format", 0, own)
        if found is None or (found.format is not None and not found.format.fits(F32)):
            raise RlxValueError(
                f"there is no quantizer {spec!r}",
                notes=(
                    f'formats: {", ".join(FORMAT_NAMES)}, or "fXmYeZ" within F32',
                    'blocks: "nvfp4" or "nvfp4:16", "mx:e4m3" or "mx:e4m3:32"; integers: "int2" to "int16"',
                ),
                helps=(did_you_mean(str(spec), [*FORMAT_NAMES, "nvfp4", "mx", "int8", "int4"]),),
            )
        return found

    def node(self, b: Builder, x: Node) -> Node:
        """A matrix rounded."""
        if self.kind == "nvfp4":
            return _built("nvfp4", b, x, -1, self.size)
        if self.kind == "int":
            return _built("fake_quantize", b, x, self.size, 0)
        if self.kind == "mx":
            return _built("mx", b, x, self.format, -1, self.size)
        assert self.format is not None
        if self.format.bits > _SCALED_BITS:
            return _built("to_format", b, x, self.format)
        wide = emit.widen(b, x)
        flat = emit.reshape(b, emit.unary(b, "abs", wide), (wide.tensor.size,))
        greatest = emit.reduce_max(b, emit.pad_axis(b, flat, 0, 0, 1), (0,))  # that of nothing is 0
        scale = emit.scale(b, greatest, 1 / self.format.max)
        tiny = float(np.finfo(scale.dtype.numpy).tiny)
        scale = emit.select(b, emit.compare(b, "ge", scale, tiny), scale, b.full_like(scale, 1))
        spread = emit.broadcast_to(b, scale, wide.shape)
        rounded = _built("to_format", b, emit.div(b, wide, spread), self.format)
        return emit.cast(b, emit.mul(b, rounded, spread), x.dtype)


def _size(given: Sequence[str], usual: int) -> int:
    """The elements of a block; 0 for what is no number."""
    if not given:
        return usual
    return int(given[0]) if given[0].isdecimal() else 0


def _built(op: str, b: Builder, *args: Any) -> Node:
    node: Node = SURFACES[op].build(b, *args)
    return node


# --------------------------------------------------------------------------------------------- parameters


class NamedQuantizer:
    """A quantizer by name, as nodes of a step.

    It rounds the float parameters of at least two axes; biases and gains stay. Blocks, and the groups that share a scale, lie along
    the axes over which the first product with the parameter sums: the last one of `linear` weights [out, in], the first one of
    `x @ w`, all but the first one of convolutions. Where no product is seen, as for embeddings, it is the last.

    Args:
        graph: The forward graph.
        spec: The name of a quantizer, or names by patterns of parameters, of which the first that matches counts.

    Raises:
        RlxValueError: There is no such quantizer, or it rounds nothing.
    """

    is_compiled: ClassVar[bool] = True

    def __init__(self, graph: Graph, spec: Spec) -> None:
        self.spec = spec if isinstance(spec, str) else dict(spec)
        patterns = {"*": spec} if isinstance(spec, str) else dict(spec)
        roundings = {pattern: None if one is None else Rounding.of(one) for pattern, one in patterns.items()}
        self._plan: dict[str, tuple[Rounding, tuple[int, ...]]] = {}
        self._entries = {e.name: e for e in graph.params}
        axes = contracted_axes(graph)
        used = set()
        for entry in graph.params:
            if not _is_rounded(entry):
                continue
            pattern = next((p for p in patterns if fnmatchcase(entry.name, p)), None)
            used.add(pattern)
            rounding = None if pattern is None else roundings[pattern]
            if rounding is not None:
                own = axes.get(entry.name) or (len(entry.node.shape) - 1,)
                self._plan[entry.name] = rounding, own
        idle = [p for p in patterns if p not in used]
        if idle or not self._plan:
            matrices = [e.name for e in graph.params if _is_rounded(e)]
            what = f"the pattern {idle[0]!r} matches no parameter that is left" if idle else "it rounds no parameter"
            raise RlxValueError(
                f"`quant` of `{graph.name}`: {what}",
                notes=(f"parameters with two axes or more, of known sizes: {', '.join(matrices) or 'none'}",),
            )
        self._traced: Traced | None = None

    @property
    def names(self) -> list[str]:
        """The parameters that it rounds."""
        return list(self._plan)

    def nodes(self, b: Builder, params: Mapping[str, Node]) -> dict[str, Node]:
        """The rounded parameters by name."""
        with b.at(Origin(via=("quant",))):
            return {name: _rounded(b, params[name], *plan) for name, plan in self._plan.items()}

    def arrays(self, params: Mapping[str, Array], device: Device | None) -> dict[str, Array]:
        """See `Quantizer`."""
        if self._traced is None:
            self._traced = Traced(self.graph())
        return run_quantizer(self._traced, params, device)

    def graph(self) -> Graph:
        """The graph from parameters to rounded parameters."""
        b = Builder()
        given = {n: b.input(n, self._entries[n].node.dtype, self._entries[n].node.shape, "param") for n in self._plan}
        outputs = [GraphOutput(name, node) for name, node in self.nodes(b, given).items()]
        return b.finish("quant", [declare(node) for node in given.values()], outputs)


def run_quantizer(traced: Traced, params: Mapping[str, Array], device: Device | None) -> dict[str, Array]:
    """The rounded parameters of the graph of a `NamedQuantizer` by name."""
    names = [o.name for o in traced.outline.outputs]
    results = traced.compiled(device).run([], {name: params[name] for name in names}, {})
    return dict(zip(names, results, strict=True))


def _is_rounded(entry: GraphInput) -> bool:
    shape = entry.node.shape
    return entry.node.dtype.is_float and len(shape) > 1 and not any(isinstance(d, Dim) for d in shape)


def _rounded(b: Builder, x: Node, rounding: Rounding, contracted: Sequence[int]) -> Node:
    """A parameter rounded as a matrix of its kept and its contracted axes."""
    kept = [k for k in range(len(x.shape)) if k not in contracted]
    perm = (*kept, *contracted)
    moved = emit.transpose(b, x, perm)
    sizes = [int(d) for d in moved.shape]
    matrix = emit.reshape(b, moved, (math.prod(sizes[: len(kept)]), math.prod(sizes[len(kept) :])))
    back = emit.reshape(b, rounding.node(b, matrix), sizes)
    return emit.transpose(b, back, [perm.index(k) for k in range(len(perm))])


def contracted_axes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """The axes of parameters over which the first product with them sums; a parameter without product is not among them."""
    found: dict[str, tuple[int, ...]] = {}
    views = {k: (e.name, tuple(range(len(e.node.shape)))) for k, e in enumerate(graph.inputs) if e.kind == "param"}
    _find_products(graph, views, found)
    return found


def _find_products(
    graph: Graph, given: Mapping[int, tuple[str, tuple[int, ...]]], found: dict[str, tuple[int, ...]]
) -> None:
    """Look for products with parameters, in bodies of scans, too.

    Args:
        graph: Where to look.
        given: The parameters that some inputs are, by position: the name, and which of its axes each axis is.
        found: Filled with the axes that are summed.
    """
    whole = expand(graph, "lower")[0]
    views = {whole.inputs[k].node: view for k, view in given.items()}
    for node in whole.nodes:
        source = views.get(node.inputs[0]) if node.inputs else None
        if node.op.name == "cast" and source is not None:
            views[node] = source
        elif node.op.name == "transpose" and source is not None:
            views[node] = source[0], tuple(source[1][k] for k in node.attrs["perm"])
        elif node.op.name == "dot_general":
            for operand, axes in zip(node.inputs, node.attrs["contract"], strict=True):
                if operand in views:
                    name, order = views[operand]
                    found.setdefault(name, tuple(sorted(order[k] for k in axes)))
        elif node.op.name == "scan":
            carries, slices = node.attrs["carries"], node.attrs["sources"]
            seen = {k: views[x] for k, x in enumerate(node.inputs) if k >= carries and x in views}
            # A step sees a slice of what the scan runs over.
            inner = {k: (n, axes[1:] if k < carries + slices else axes) for k, (n, axes) in seen.items()}
            if inner:
                _find_products(node.attrs["body"], inner, found)


# --------------------------------------------------------------------------------------------- functions


class PythonQuantizer:
    """A quantizer that is a function: `quant(w)` or `quant(name, shape, w)`, which changes its argument or returns an array.

    Args:
        names: The parameters to give to it.
        quant: The function.
    """

    is_compiled: ClassVar[bool] = False

    def __init__(self, names: Sequence[str], quant: Callable[..., Any]) -> None:
        self._names, self._quant = list(names), _named(quant)

    def arrays(self, params: Mapping[str, Array], device: Device | None) -> dict[str, Array]:
        """See `Quantizer`."""
        result = {}
        for name in self._names:
            copy = np.array(params[name], order="C")
            returned = self._quant(name, copy.shape, copy)
            result[name] = copy if returned is None else np.asarray(returned, copy.dtype, order="C").reshape(copy.shape)
        return result


def _named(quant: Callable[..., Any]) -> Callable[..., Any]:
    """A quantizer of name, shape and array, from one of these or of the array alone."""
    try:
        inspect.signature(quant).bind(None)
    except TypeError:  # one argument is not enough
        return quant
    except ValueError:  # it has no signature
        pass
    return lambda name, shape, w: quant(w)


def quantizer_of(graph: Graph, names: Sequence[str], quant: object) -> NamedQuantizer | PythonQuantizer:
    """The quantizer of the option `quant` of a trainer.

    Args:
        graph: The forward graph.
        names: The parameters that are trained.
        quant: A name, names by patterns, or a function.

    Raises:
        RlxValueError: It is none of these.
    """
    if isinstance(quant, (str, Mapping)):
        return NamedQuantizer(graph, quant)
    if not callable(quant):
        raise RlxValueError(
            f"`quant` is a name, a mapping of patterns to names, or a function; {type(quant).__name__} is given"
        )
    return PythonQuantizer(names, quant)
