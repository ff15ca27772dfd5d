"""Building graphs from Python: `GraphScope` declares, `Tensor` computes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import (
    RlxNameError,
    RlxShapeError,
    RlxTypeError,
    RlxValueError,
    did_you_mean,
    error,
    warn_all,
    warning,
)
from rlxlang.grad_mode import is_stopped
from rlxlang.initializers import as_initializer
from rlxlang.inputs import convert, fault, python_array
from rlxlang.ir import (
    SURFACES,
    Builder,
    Graph,
    GraphInput,
    GraphOutput,
    Initializer,
    MaskKind,
    Node,
    RangeValue,
    Surface,
    declare,
)
from rlxlang.ops import METHODS
from rlxlang.types import (
    DTYPES,
    Dim,
    DimLike,
    DimProblem,
    DType,
    PromotionProblem,
    TypeProblem,
    from_numpy,
    weak_dtype,
)

DTypeLike: TypeAlias = "DType | str | np.dtype[Any] | type"
ShapeLike: TypeAlias = "Sequence[int | str | Dim] | int | str | Dim"
Operand: TypeAlias = "Tensor | np.ndarray[Any, Any] | float | bool | complex | Sequence[Any]"

_AXIS = re.compile(r"\?\w*")


@contextmanager
def typed_errors() -> Iterator[None]:
    """Turn what a shape rule refuses into the exception of its code."""
    try:
        yield
    except TypeProblem as problem:
        raise fault(problem.code, problem.message, notes=problem.notes, helps=(problem.help,)) from None
    except PromotionProblem as problem:
        raise RlxTypeError(error("E0302", str(problem), helps=("convert one with `cast`",))) from None
    except DimProblem as problem:
        raise RlxValueError(error("E0352", str(problem))) from None


def as_dtype(value: DTypeLike) -> DType:
    """An element type: itself, its name in the language (`"F32"`), or a NumPy dtype.

    Raises:
        RlxNameError: E0208 there is none of this name.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        found = DTYPES.get(value) or next((d for n, d in DTYPES.items() if n.lower() == value.lower()), None)
        if found is not None:
            return found
    try:
        known = from_numpy(np.dtype(value))
    except TypeError:
        known = None
    if known is None:
        raise RlxNameError(
            f"there is no dtype {value!r}",
            code="E0208",
            notes=(f"dtypes are {', '.join(DTYPES)}",),
            helps=(did_you_mean(str(value), DTYPES),),
        )
    return known


def as_dim(value: object) -> DimLike:
    """A size: an integer of 0 or more, a `Dim`, or a dynamic axis `"?"`, `"?batch"`.

    Raises:
        RlxShapeError: Not any of these.
    """
    if isinstance(value, Dim):
        return value
    if isinstance(value, str) and _AXIS.fullmatch(value):
        return Dim.axis(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise RlxShapeError(
        f"{value!r} is no size of an axis",
        helps=('sizes are integers of 0 or more, and dynamic axes such as "?batch"',),
    )


def as_shape(value: ShapeLike) -> tuple[DimLike, ...]:
    """A shape from a sequence of sizes, or from one size."""
    if isinstance(value, (int, np.integer, str, Dim)):
        return (as_dim(value),)
    return tuple(as_dim(d) for d in value)


# --------------------------------------------------------------------------------------------- tensors


class Tensor:
    """A value of a graph that is being built: every op of the language is a method, operators work as in NumPy.

    Attributes:
        scope: The graph it belongs to.
        node: Its node.
    """

    __slots__ = ("node", "scope")

    __array_ufunc__ = None  # NumPy arrays on the left leave operators to this class

    def __init__(self, scope: GraphScope, node: Node) -> None:
        self.scope = scope
        self.node = node

    @property
    def shape(self) -> tuple[DimLike, ...]:
        """Its dims: integers, or `Dim` for dynamic ones."""
        return self.node.tensor.shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.node.tensor.dtype

    @property
    def rank(self) -> int:
        """Number of axes."""
        return self.node.tensor.rank

    ndim = rank

    def __getattr__(self, name: str) -> Callable[..., Any]:
        surface = _method(name)
        if surface is None:
            hint = did_you_mean(name, [n for n, s in SURFACES.items() if s.method])
            raise AttributeError(f"a Tensor has no attribute or op `{name}`{'; ' + hint if hint else ''}")

        def method(*positional: Any, **named: Any) -> Any:
            return self.scope.call(surface, (self, *positional), named)

        method.__name__ = method.__qualname__ = name
        method.__doc__ = f"{surface.signature()}\n\n{surface.doc}"
        return method

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(n for n, s in SURFACES.items() if s.method)})

    def __getitem__(self, index: Any) -> Tensor:
        from rlxlang.frontend.indexing import index_tensor  # the frontend is loaded when it is first needed

        items = [self.scope.index_item(i) for i in (index if isinstance(index, tuple) else (index,))]
        with typed_errors():
            found = index_tensor(self.scope.builder, self.node, items)
        warn_all([warning("W0906", text) for text in found.warnings])
        return self.scope.computed(found.node)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.rank or not isinstance(self.shape[0], int):
            raise RlxTypeError(f"a tensor {self.node.type} cannot be iterated: its first axis has no known size")
        return (self[k] for k in range(self.shape[0]))

    def __len__(self) -> int:
        if not self.rank or not isinstance(self.shape[0], int):
            raise RlxTypeError(f"a tensor {self.node.type} has no known length")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise RlxTypeError(
            "a Tensor has no value while the graph is built, so it cannot decide an `if`",
            code="E0303",
            helps=("choose with `where(condition, a, b)`; combine with `&`, `|`, `~`",),
        )

    def __float__(self) -> float:
        raise RlxTypeError("a Tensor has no value while the graph is built", code="E0303")

    __int__ = __index__ = __float__

    def __array__(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]:
        raise RlxTypeError("a Tensor has no value while the graph is built", code="E0303")

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<Tensor {self.node.op.name} {self.node.type}>"

    def __pos__(self) -> Tensor:
        return self.scope.computed(self.node)


def _method(name: str) -> Surface | None:
    """The surface of a method; a trailing underscore makes way for Python's own words (`x.and_(y)`)."""
    for spelling in (name, name.removesuffix("_")):
        surface = METHODS.get(spelling) or SURFACES.get(spelling)
        if surface is not None and surface.method:
            return surface
    return None


def _binary(surface: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Tensor, other: Operand) -> Tensor:
        return self.scope.operate(surface, self, other)

    def reflected(self: Tensor, other: Operand) -> Tensor:
        return self.scope.operate(surface, other, self)

    return forward, reflected


def _unary(surface: str) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        return self.scope.operate(surface, self)

    return method


_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_div", "mod": "mod", "pow": "pow",
    "matmul": "matmul", "and": "bit_and", "or": "bit_or", "xor": "bit_xor", "lshift": "shift_left", "rshift": "shift_right",
}  # fmt: skip
for _python, _surface in _BINARY.items():
    _forward, _reflected = _binary(_surface)
    setattr(Tensor, f"__{_python}__", _forward)
    setattr(Tensor, f"__r{_python}__", _reflected)
for _python in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Tensor, f"__{_python}__", _binary(_python)[0])
for _python, _surface in {"neg": "neg", "abs": "abs", "invert": "bit_not"}.items():
    setattr(Tensor, f"__{_python}__", _unary(_surface))


# --------------------------------------------------------------------------------------------- the scope


class GraphScope:
    """A graph that is being built: inputs, params and constants are declared here.

    Functions of the language without a tensor operand (`zeros`, `arange`, …) are methods.
    """

    def __init__(self) -> None:
        self.builder = Builder()
        self._inputs: dict[str, GraphInput] = {}

    def input(self, name: str, shape: ShapeLike, dtype: DTypeLike = "F32", *, doc: str = "") -> Tensor:
        """An input that each run is given.

        Args:
            name: Run-time name.
            shape: Sizes: integers, `"?"` or `"?name"` for dynamic axes, or `Dim`.
            dtype: Element type.
            doc: Shown by `summary`.

        Raises:
            RlxNameError: E0212 the name is taken, E0208 an unknown dtype.
            RlxShapeError: A size that is none.
        """
        return self._declare(name, "input", shape, dtype, None, doc)

    def param(
        self,
        name: str,
        shape: ShapeLike,
        dtype: DTypeLike = "F32",
        init: Initializer | float | str | None = None,
        *,
        doc: str = "",
    ) -> Tensor:
        """A parameter that is bound once.

        Args:
            name: Run-time name.
            shape: As for `input`.
            dtype: Element type.
            init: How `init_params(seed=…)` starts it: a number, or a call such as `"he_normal()"`.
            doc: Shown by `summary`.

        Raises:
            RlxNameError: E0212 the name is taken, E0208 an unknown dtype, E0202 an unknown initialiser.
            RlxShapeError: A size that is none.
        """
        return self._declare(name, "param", shape, dtype, as_initializer(init), doc)

    def _declare(
        self, name: str, kind: str, shape: ShapeLike, dtype: DTypeLike, init: Initializer | None, doc: str
    ) -> Tensor:
        if type(name) is not str or not name:
            raise RlxTypeError(f"a name is a string that is not empty, not {name!r}")
        if name in self._inputs:
            raise RlxNameError(f"the name `{name}` is declared twice", code="E0212")
        node = self.builder.input(name, as_dtype(dtype), as_shape(shape), kind)
        self._inputs[name] = declare(node, init, doc)
        return Tensor(self, node)

    def constant(self, value: object, dtype: DTypeLike | None = None) -> Tensor:
        """A constant: a number, a list or an array.

        Args:
            value: The data. Python numbers give I32, F32 or Bool; arrays keep their dtype.
            dtype: Convert to this.

        Raises:
            RlxTypeError: No numbers, or a dtype without counterpart.
        """
        return Tensor(self, self._constant(value, None if dtype is None else as_dtype(dtype)))

    def _constant(self, value: object, dtype: DType | None = None) -> Node:
        if dtype is not None:
            array = np.asarray(value)
            kept = (
                array.astype(dtype.numpy)
                if isinstance(value, (np.ndarray, np.generic))
                else convert(value, dtype, "the constant")
            )
            return self.builder.constant(kept)
        if isinstance(value, np.ndarray) or (isinstance(value, np.generic) and not isinstance(value, float)):
            array = np.asarray(value)
            if from_numpy(array.dtype) is None:
                raise RlxTypeError(f"arrays of dtype {array.dtype} cannot be constants", code="E0301")
            if array.dtype == np.float64:
                hint = ("convert it with `.astype(np.float32)`",)
                warn_all([warning("W0907", "a float64 array makes a constant of dtype F64", helps=hint)], stacklevel=4)
            return self.builder.constant(array)
        array = python_array(value, "the constant")
        kind = {"b": True, "i": 0, "u": 0, "f": 0.0, "c": 0j}[array.dtype.kind]
        return self.builder.constant(convert(value, weak_dtype(kind), "the constant"))

    # ----------------------------------------------------------------------------------------- calls

    def call(self, surface: Surface, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call a function of the language on tensors of this scope.

        Raises:
            RlxTypeError: Wrong arguments or dtypes.
            RlxShapeError: Shapes that do not fit.
        """
        with typed_errors():
            bound = surface.bind(positional, named)
            kinds = {p.name: p.kind for p in surface.parameters}
            arguments = {k: self._argument(v, kinds[k]) for k, v in bound.items()}
            return self.wrap(surface.build(self.builder, **arguments))

    def wrap(self, result: Any) -> Any:
        """Nodes as tensors of this scope."""
        if isinstance(result, Node):
            return self.computed(result)
        if isinstance(result, (tuple, list)):
            return tuple(self.wrap(r) for r in result)
        return result

    def operate(self, name: str, *operands: Operand) -> Tensor:
        """Apply an operator."""
        with typed_errors():
            nodes = [self._argument(o, "tensor") for o in operands]
            return self.computed(SURFACES[name].build(self.builder, *nodes))

    def computed(self, node: Node) -> Tensor:
        """What an op has made as a tensor of this scope, without derivative inside of `no_grad`."""
        if is_stopped() and node.dtype.is_differentiable:
            node = self.builder.emit("stop_gradient", node)
        return Tensor(self, node)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        surface = SURFACES.get(name) or SURFACES.get(name.removesuffix("_"))
        if surface is None:
            raise AttributeError(f"a GraphScope has no attribute or function `{name}`")

        def function(*positional: Any, **named: Any) -> Any:
            return self.call(surface, positional, named)

        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"{surface.signature()}\n\n{surface.doc}"
        return function

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor of this scope.

        Raises:
            RlxTypeError: It belongs to another graph.
        """
        if tensor.scope is not self:
            raise RlxTypeError("tensors of two graphs cannot meet", helps=("declare both with the same scope",))
        return tensor.node

    def _argument(self, value: Any, kind: str) -> Any:
        """A Python argument as surfaces take it."""
        if isinstance(value, Tensor):
            return self.node_of(value)
        if kind == "tensor" and isinstance(value, (list, tuple)) and not _holds_tensor(value):
            return self._constant(list(value))
        if isinstance(value, np.ndarray) or (
            isinstance(value, np.generic) and kind == "tensor" and not isinstance(value, float)
        ):
            return self._constant(value)
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, (list, tuple)):
            return tuple(self._argument(v, _ITEM_KINDS.get(kind, kind)) for v in value)
        if isinstance(value, slice):
            return _as_range(value)
        if kind == "dtype" and value is not None:
            return as_dtype(value)
        if kind == "mask" and isinstance(value, str):
            return MaskKind(value)
        if kind in ("dims", "dim") and isinstance(value, str):
            return as_dim(value)
        return value

    def index_item(self, item: Any) -> Any:
        """One item of `x[…]` as the language has it."""
        from rlxlang.frontend.indexing import EllipsisItem, NewAxisItem

        if item is Ellipsis:
            return EllipsisItem()
        if item is None:
            return NewAxisItem()
        if isinstance(item, slice):
            return _as_range(item)
        if isinstance(item, (bool, np.bool_)):
            raise RlxTypeError("Bool values do not index", code="E0301", helps=("choose with `where`",))
        if isinstance(item, (int, np.integer)):
            return int(item)
        if isinstance(item, Dim):
            return item
        if isinstance(item, Tensor):
            return self.node_of(item)
        if isinstance(item, (list, np.ndarray)):
            return self._constant(item)
        raise RlxTypeError(f"a Tensor cannot be indexed by {type(item).__name__}", code="E0306")

    def expression_value(self, value: Any) -> Any:
        """A Python value as an expression of the language has it: lists become lists, arrays constants."""
        from rlxlang.frontend.values import ListValue

        if isinstance(value, (list, tuple)):
            return ListValue(tuple(self.expression_value(v) for v in value))
        return self._argument(value, "any")

    def finish(self, name: str, outputs: Sequence[GraphOutput]) -> Graph:
        """The graph built so far."""
        return self.builder.finish(name, self._inputs.values(), outputs)


_ITEM_KINDS = {"tensors": "tensor", "axes": "axis", "dims": "dim", "ints": "int"}


def _holds_tensor(value: Sequence[Any]) -> bool:
    todo: list[Any] = list(value)
    while todo:
        item = todo.pop()
        if isinstance(item, Tensor):
            return True
        if isinstance(item, (list, tuple)):
            todo.extend(item)
    return False


def _as_range(value: slice) -> RangeValue:
    ends: list[Any] = []
    for end in (value.start, value.stop, value.step):
        if end is not None and not isinstance(end, (int, np.integer, Dim)):
            raise RlxTypeError(f"the ends of a slice are integers, not {type(end).__name__}", code="E0303")
        ends.append(int(end) if isinstance(end, np.integer) else end)
    return RangeValue(ends[0], ends[1], 1 if ends[2] is None else ends[2])


# --------------------------------------------------------------------------------------------- functions


def _scope_of(tensors: Sequence[Any], what: str) -> GraphScope:
    for item in tensors:
        if isinstance(item, Tensor):
            return item.scope
    raise RlxTypeError(f"`{what}` needs at least one Tensor", code="E0304")


def cat(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Tensors joined along an axis.

    Raises:
        RlxShapeError: Other axes differ.
    """
    scope = _scope_of(tensors, "cat")
    result: Tensor = scope.call(SURFACES["concat"], (list(tensors),), {"axis": axis})
    return result


def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis.

    Raises:
        RlxShapeError: The shapes differ.
    """
    scope = _scope_of(tensors, "stack")
    result: Tensor = scope.call(SURFACES["stack"], (list(tensors),), {"axis": axis})
    return result


def trace(name: str, build: Callable[[GraphScope], Any]) -> Graph:
    """The graph of a Python function of a scope.

    The outputs are called `out`, or `out_0`, `out_1` … when there are several, or by the keys of a returned dict.

    Raises:
        RlxTypeError: Something that is no Tensor is returned.
        RlxValueError: E0605 nothing is returned.
    """
    scope = GraphScope()
    result = build(scope)
    if isinstance(result, Mapping):
        named = list(result.items())
    elif isinstance(result, (list, tuple)):
        named = [(f"out_{k}" if len(result) > 1 else "out", r) for k, r in enumerate(result)]
    else:
        named = [("out", result)]
    if not named:
        raise RlxValueError(f"`{name}` returns no output", code="E0605")
    outputs = []
    for key, value in named:
        if not isinstance(value, Tensor):
            raise RlxTypeError(f"`{name}` must return tensors, {type(value).__name__} is returned", code="E0304")
        outputs.append(GraphOutput(key, scope.node_of(value)))
    return scope.finish(name, outputs)
