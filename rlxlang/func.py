"""`Func`: an immutable function of named inputs and parameters, and `Jitted`, its compiled call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.compiler import Compiled, Traced
from rlxlang.debugging import is_watching
from rlxlang.device import Device, thread_count
from rlxlang.diagnostics import Diagnostic, RlxError, RlxValueError, raise_all
from rlxlang.func_training import TrainingMethods
from rlxlang.func_transforms import TransformMethods
from rlxlang.func_weights import WeightMethods
from rlxlang.inputs import check_names, check_shape, convert, described, fault
from rlxlang.ir import Graph, GraphInput
from rlxlang.types import Dim, shape_text

if TYPE_CHECKING:
    from rlxlang.scope import GraphScope, Tensor

Array: TypeAlias = "np.ndarray[Any, Any]"
Inputs: TypeAlias = "Mapping[str, object] | Iterable[tuple[str, object]] | None"


class Func(TransformMethods, TrainingMethods, WeightMethods):
    """A function of named inputs and parameters, traced into a graph.

    It never changes: binding parameters and transforming give new ones, which share what has been compiled.

    Args:
        name: Name of the function.
        build: Gets a `GraphScope`, declares inputs and params there, and returns a `Tensor` or several of them.

    Example:
        >>> import rlxlang as rlx
        >>> f = rlx.Func("double", lambda s: s.input("x", [3]) * 2.0)  # doctest: +SKIP
        >>> f(x=[1.0, 2.0, 3.0])  # doctest: +SKIP
        array([2., 4., 6.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_bindings", "_calls", "traced")

    _bindings: Mapping[str, Array]
    _calls: dict[tuple[Device | None, int], Callable[..., Any] | None]

    def __init__(self, name: str, build: Callable[[GraphScope], Tensor | Sequence[Tensor]]) -> None:
        from rlxlang.scope import trace

        self._set(Traced(trace(name, build)), {})

    def _set(self, traced: Traced, bindings: Mapping[str, Array]) -> None:
        object.__setattr__(self, "traced", traced)
        object.__setattr__(self, "_bindings", MappingProxyType(dict(bindings)))
        object.__setattr__(self, "_calls", {})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Func cannot be changed: `{name}`")

    # ----------------------------------------------------------------------------------------- make

    @classmethod
    def new(cls, name: str, build: Callable[[GraphScope], Tensor | Sequence[Tensor]]) -> Func:
        """Trace a function; the same as `Func(name, build)`."""
        return cls(name, build)

    @classmethod
    def multi(cls, name: str, build: Callable[[GraphScope], Sequence[Tensor]]) -> Func:
        """Trace a function that returns several tensors."""
        return cls(name, build)

    @classmethod
    def from_graph(cls, graph: Graph) -> Func:
        """The function of a graph; nothing is bound."""
        return cls._over(Traced(graph), {})

    @classmethod
    def _over(cls, traced: Traced, bindings: Mapping[str, Array]) -> Func:
        func = object.__new__(cls)
        func._set(traced, bindings)
        return func

    # ----------------------------------------------------------------------------------------- parameters

    def with_param(self, name: str, data: object) -> Func:
        """The function with one parameter bound; a former value is replaced.

        Args:
            name: Run-time name.
            data: An array of the declared dtype and shape; it is copied.

        Raises:
            RlxNameError: E0807 there is no such parameter.
            RlxShapeError: E0805 the shape differs.
            RlxTypeError: E0806 the dtype differs.
        """
        return self.with_params({name: data})

    def with_params(self, params: Mapping[str, object]) -> Func:
        """The function with several parameters bound; see `with_param`, but everything that is wrong is reported together."""
        entries = {e.name: e for e in self._outline.params}
        found: dict[str, Array] = {}
        wrong: list[Diagnostic] = []
        for name, value in params.items():
            try:
                check_names([name], list(entries), "param", self.name)
                found[name] = _frozen(entries[name], value)
            except RlxError as problem:
                wrong += problem.diagnostics
        if wrong:
            raise_all(wrong)
        return self._rebound(found)

    def _rebound(self, new: Mapping[str, Array]) -> Func:
        """The function with arrays bound that nobody else will write to."""
        return self._over(self.traced, {**self._bindings, **new})

    @property
    def bindings(self) -> Mapping[str, Array]:
        """All bound parameters by name; the arrays cannot be written to."""
        return self._bindings

    def param_binding(self, name: str) -> Array | None:
        """The value of a parameter, read-only, or None when it has none.

        Raises:
            RlxNameError: E0807 there is no such parameter.
        """
        check_names([name], self.param_names(), "param", self.name)
        return self._bindings.get(name)

    def param_names(self) -> list[str]:
        """Names of all parameters, in order of declaration."""
        return [e.name for e in self._outline.params]

    def param_shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of a parameter, where a dynamic axis reads 0; None when there is no such parameter."""
        entry = next((e for e in self._outline.params if e.name == name), None)
        return None if entry is None else tuple(0 if isinstance(d, Dim) else d for d in entry.node.shape)

    def init_params(
        self, fn: Callable[[str, tuple[int, ...]], object] | None = None, *, seed: int | None = None
    ) -> Func:
        """The function with all parameters bound.

        Args:
            fn: `fn(name, dims)` gives the array of each parameter.
            seed: Instead of `fn`: use the initialisers of the source, each with its own stream of this seed and its name.

        Raises:
            RlxValueError: Neither or both are given, a float parameter has no initialiser, or an axis is dynamic.
        """
        if (fn is None) == (seed is None):
            raise RlxValueError("`init_params` takes either a function or `seed=`")
        if fn is not None:
            shapes = self._static_shapes(self._outline.params, "init_params")
            return self.with_params({n: _checked_call(fn, n, s) for n, s in shapes.items()})
        assert seed is not None
        return self._initialised(seed)

    def _initialised(self, seed: int) -> Func:
        from rlxlang.initializers import draw

        entries = [e for e in self._outline.params if e.init is not None or e.node.dtype.is_differentiable]
        without = [e.name for e in entries if e.init is None]
        if without:
            raise RlxValueError(
                f"`{self.name}`: no initialiser is given for {', '.join(f'`{n}`' for n in without)}",
                helps=("write one, `param w: [4, 4] = he_normal();`, or use `init_params(fn)` or `init_randn`",),
            )
        shapes = self._static_shapes(entries, "init_params")
        return self.with_params(
            {e.name: draw(e.init, e.name, shapes[e.name], e.node.dtype, seed) for e in entries if e.init is not None}
        )

    def init_randn(self, seed: int, stddev: float = 1.0) -> Func:
        """The function with all float parameters bound to normal numbers of standard deviation `stddev`.

        The same seed gives the same numbers everywhere; see `initializers.randn_params`.

        Raises:
            RlxValueError: A parameter has a dynamic axis.
        """
        from rlxlang.initializers import randn_params

        entries = [e for e in self._outline.params if e.node.dtype.is_differentiable]
        return self.with_params(randn_params(entries, self._static_shapes(entries, "init_randn"), seed, stddev))

    def _static_shapes(self, entries: Iterable[GraphInput], what: str) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for entry in entries:
            if not entry.node.tensor.is_static:
                raise RlxValueError(
                    f"`{what}`: {described(entry)} has dynamic axes, {shape_text(entry.node.shape)}",
                    span=entry.node.origin.span,
                    helps=(f"bind it: `func.with_param({entry.name!r}, array)`",),
                )
            shapes[entry.name] = tuple(entry.node.shape)
        return shapes

    # ----------------------------------------------------------------------------------------- look

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.traced.graph

    @property
    def _outline(self) -> Graph:
        """Names and types without nodes; a function loaded from the cache has its graph made only for nodes."""
        return self.traced.outline

    @property
    def name(self) -> str:
        """Name of the function."""
        return self._outline.name

    @property
    def output_count(self) -> int:
        """Number of outputs, taps included."""
        return len(self._outline.outputs)

    def input_names(self) -> list[str]:
        """Names of the inputs that each run is given, in order of declaration."""
        return [e.name for e in self._outline.feeds]

    def output_names(self) -> list[str]:
        """Names of the outputs and then of the taps."""
        return [o.name for o in self._outline.outputs]

    def summary(self) -> str:
        """A table of inputs, parameters and outputs with their types and sizes."""
        from rlxlang.func_summary import summary

        return summary(self)

    def dispatch_report(self, device: Device | str | None = None) -> str:
        """Which kernel runs which op: a table, then what was decomposed, or what the device cannot run and why.

        Args:
            device: Where; the fastest device that can run the function when left out.

        Raises:
            RlxBackendError: E0701 the device is not there.
        """
        from rlxlang.dispatch_report import dispatch_report

        return dispatch_report(self.graph, self.traced.fastest() if device is None else Device.parse(device))

    def __str__(self) -> str:
        from rlxlang.ir.printer import print_graph

        return print_graph(self.graph, exact=False)

    def __repr__(self) -> str:
        outputs = ", ".join(self.output_names())
        return f"<Func {self.name}({', '.join([*self.input_names(), *self.param_names()])}) -> {outputs}>"

    def _repr_html_(self) -> str:
        from rlxlang.func_html import func_html

        return func_html(self)

    # ----------------------------------------------------------------------------------------- run

    def run(self, inputs: Inputs = None, **named: object) -> list[Array]:
        """All outputs, on the fastest device that can run the function.

        Args:
            inputs: Arrays by name; names that are no Python words go here.
            named: Arrays by keyword. A function that draws random numbers without a key of their own takes `seed=` beside them: an
                integer, 0 when left out. One seed gives the same numbers on every device and at any number of threads.

        Raises:
            RlxNameError: E0807 an unknown input.
            RlxRuntimeError: E0803 an input is missing, E0809 a parameter is not bound, E0801 sizes that do not fit.
            RlxShapeError: E0805, E0808 a wrong shape.
            RlxTypeError: E0806 a wrong dtype.
        """
        return self._run(None, inputs, named)

    def run_on(self, device: Device | str, inputs: Inputs = None, **named: object) -> list[Array]:
        """All outputs, on a given device; see `run`.

        Raises:
            RlxBackendError: The device is not there or cannot run the function.
        """
        return self._run(Device.parse(device), inputs, named)

    def run_dict(self, inputs: Inputs = None, **named: object) -> dict[str, Array]:
        """All outputs by name; see `run`."""
        return dict(zip(self.output_names(), self._run(None, inputs, named), strict=True))

    def __call__(self, *values: object, **named: object) -> Array | tuple[Array, ...]:
        """The output, or a tuple of all of them; inputs by position in order of declaration, or by name."""
        outputs = self._run(None, *merged(self.input_names(), values, named, self.name))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _run(self, device: Device | None, inputs: Inputs, named: Mapping[str, object], seed: int = 0) -> list[Array]:
        signature = self.traced.signature
        values = signature.by_position(inputs, named, seed)
        key = (device, -1 if is_watching() else thread_count())
        call = self._calls.get(key)
        if call is None and key not in self._calls:
            # A function that is run once, as in a training step, does not pay for a bound call.
            signature.require_params(self._bindings)
            feeds, sizes = signature.prepare(values, self._bindings)
            results = self.traced.compiled(device).run(feeds, self._bindings, sizes)
            self._calls[key] = None
            return results
        if call is None:
            call = self._calls[key] = self._bound(self.traced.compiled(device))
        result = call(*values)
        return [result] if self.output_count == 1 else list(result)

    def _bound(self, compiled: Compiled) -> Callable[..., Any]:
        """A call with the parameters fixed: one array, or a tuple of all outputs."""
        signature, bindings = self.traced.signature, self._bindings
        result = "array" if self.output_count == 1 else "tuple"
        return compiled.bind(bindings, lambda values: signature.prepare(values, bindings), result, self.name)

    def jit(self, device: Device | str | None = None) -> Jitted:
        """Compile now, with the parameters as they are; calls of the result go straight to the compiled code.

        Raises:
            RlxRuntimeError: E0809 a parameter is not bound.
            RlxBackendError: The device is not there or cannot run the function.
        """
        return Jitted(self, None if device is None else Device.parse(device))

    def jit_on(self, device: Device | str) -> Jitted:
        """`jit` for a given device."""
        return self.jit(device)


class Jitted:
    """A compiled function with its parameters bound.

    Attributes:
        func: What was compiled.
        device: Where it runs.
        call: The fastest call: inputs by position in order of declaration; one array, or a tuple of all outputs. Where random numbers
            are drawn it takes `seed=` too.
    """

    __slots__ = ("_bound", "_names", "call", "device", "func")

    call: Callable[..., Any]

    def __init__(self, func: Func, device: Device | None) -> None:
        signature = func.traced.signature
        signature.require_params(func.bindings)
        compiled = func.traced.compiled(device)
        self.func = func
        self.device = compiled.device
        self._names = signature.feed_names
        self._bound = func._bound(compiled)
        self.call = self._bound if signature.seed_place is None else self._seeded

    def __call__(self, *values: object, **named: object) -> Array | tuple[Array, ...]:
        """The output, or a tuple of all of them; inputs by position or by name."""
        if named:
            inputs, rest = merged(self._names, values, named, self.func.name)
            return self._bound(*self.func.traced.signature.by_position(inputs, rest))  # type: ignore[no-any-return]
        result: Array | tuple[Array, ...] = self.call(*values)
        return result

    def _seeded(self, *values: object, seed: object = 0) -> Array | tuple[Array, ...]:
        """The call of a graph that draws random numbers of its seed."""
        result: Array | tuple[Array, ...] = self._bound(*self.func.traced.signature.with_seed(values, seed))
        return result

    def run(self, inputs: Inputs = None, **named: object) -> list[Array]:
        """All outputs; see `Func.run`."""
        result = self._bound(*self.func.traced.signature.by_position(inputs, named))
        return list(result) if self.func.output_count != 1 else [result]

    def run_dict(self, inputs: Inputs = None, **named: object) -> dict[str, Array]:
        """All outputs by name; see `Func.run`."""
        return dict(zip(self.func.output_names(), self.run(inputs, **named), strict=True))

    def __repr__(self) -> str:
        return f"<Jitted {self.func.name} on {self.device}>"


def merged(
    names: Sequence[str], values: tuple[object, ...], named: Mapping[str, object], func: str
) -> tuple[dict[str, object], Mapping[str, object]]:
    """Positional values as a mapping by name, beside the named ones."""
    if len(values) > len(names):
        plural = "s" * (len(names) != 1)
        notes = (f"its inputs are {', '.join(names)}; params are bound" if names else "it has no inputs",)
        raise fault("E0220", f"`{func}` takes {len(names)} input{plural}, {len(values)} are given", notes=notes)
    return dict(zip(names, values, strict=False)), named


def _frozen(entry: GraphInput, value: object) -> Array:
    """A private read-only array of a parameter's dtype, its shape checked."""
    array = convert(value, entry.node.dtype, described(entry))
    check_shape(entry, array.shape)
    if array is value or array.base is not None or not array.flags.owndata:
        array = np.array(array, order="C")
    array.flags.writeable = False
    return array


def _checked_call(fn: Callable[[str, tuple[int, ...]], object], name: str, shape: tuple[int, ...]) -> object:
    value = fn(name, shape)
    if value is None:
        raise RlxValueError(f"`init_params`: the function returned None for `{name}`")
    return value
