"""Derivatives measured: forward and reverse mode against differences of the values, to any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxTransformError, RlxValueError
from rlxlang.inputs import check_names
from rlxlang.ir import Graph
from rlxlang.types import F64

if TYPE_CHECKING:
    from rlxlang.func import Func

Array: TypeAlias = "np.ndarray[Any, Any]"
Arrays: TypeAlias = dict[str, Array]
Function: TypeAlias = Callable[[Arrays], list[Array]]

MODES = ("fwd", "rev")
# Of differences of fourth order: their error is of the order of step⁴, that of rounding 1e-16 / step. Shorter ones are taken where
# the first disagrees: the longer a step, the more corners (of `relu`, `max`, `abs`) lie between its ends.
_STEPS = (1e-3, 1e-5, 1e-7)
_DIRECTIONS = 2
_DETACHED = (
    "stop_gradient",
    "custom",
    "reverse_gradient",
    "clip_gradient",
    "round",
)  # whose derivatives are not those of their values
_ELEMENTS = 24  # so many single elements of a gradient are measured


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found for one input or param in one mode.

    Attributes:
        name: The input or param.
        mode: Modes from the innermost to the outermost, `rev` or, of a second derivative, `rev fwd`.
        compared: How many numbers were compared.
        kinks: How many of them were passed over: the function has no derivative there, and what is given lies between its slopes.
        error: Greatest difference, relative to the tolerance: above 1 is wrong.
        place: Where that is: `d loss / d w [0, 2]`, or a direction.
        expected: What the differences of the values give there.
        given: What the derivative gives there.
    """

    name: str
    mode: str
    compared: int
    kinks: int
    error: float
    place: str
    expected: float
    given: float

    @property
    def ok(self) -> bool:
        """Whether all numbers agree."""
        return self.error <= 1


@dataclass(frozen=True, slots=True)
class GradientReport:
    """All findings; `str` gives a table."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether all numbers agree."""
        return all(f.ok for f in self.findings)

    def __str__(self) -> str:
        rows = [("name", "mode", "numbers", "kinks", "worst", "where", "expected", "given", "")]
        for f in self.findings:
            verdict = "" if f.ok else "WRONG"
            worst = f"{f.error:.2g}"
            numbers = (f"{f.expected:.8g}", f"{f.given:.8g}")
            rows.append((f.name, f.mode, str(f.compared), str(f.kinks), worst, f.place, *numbers, verdict))
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def check_grads(
    func: Func,
    inputs: Mapping[str, object] | None = None,
    order: int = 2,
    modes: Sequence[str] = MODES,
    *,
    wrt: Sequence[str] | None = None,
    device: str | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    seed: int = 0,
    **named: object,
) -> GradientReport:
    """Compare the derivatives of a function with differences of its values, all in F64.

    Forward mode is compared along random directions; reverse mode with random cotangents, along directions and, element by
    element, where the gradient is largest and in random places. Each order above 1 checks the derivatives of both modes again.

    Args:
        func: The function, its params bound.
        inputs: Arrays by name.
        order: 1 for first derivatives, 2 for second ones too, and so on.
        modes: `fwd`, `rev` or both.
        wrt: Inputs and params; all floats when left out.
        device: Where to compute; the fastest device when left out.
        rtol: Allowed difference relative to the larger number.
        atol: Allowed difference relative to the largest number of its kind, or to 1.
        seed: Of directions and cotangents, and of what the function draws.
        named: Arrays by keyword.

    Returns:
        A finding per input, mode and order.

    Raises:
        RlxTransformError: E0504 a derivative is wrong; the message is the report. E0501 there is no derivative.
        RlxValueError: An unknown mode, an order below 1, or nothing to differentiate.
        RlxError: As `Func.run`.

    Source: central differences of fourth order (Abramowitz, Stegun 25.3.21 combined at two steps).
    """
    if order < 1 or int(order) != order:
        raise RlxValueError(f"`order` is 1 or more, and {order!r} is given")
    if unknown := [m for m in modes if m not in MODES]:
        raise RlxValueError(f"unknown mode {unknown[0]!r}", helps=("the modes are `fwd` and `rev`",))
    wide, values = _in_f64(func, dict(inputs or {}), named, seed)
    floats = [e.name for e in wide.graph.inputs if e.node.dtype.is_differentiable]
    names = floats if wrt is None else list(wrt)
    check_names(names, [e.name for e in wide.graph.inputs], "input or param", func.name)
    if not names:
        raise RlxValueError(f"`{func.name}` has no float inputs or params to differentiate in")
    rng = np.random.default_rng(seed)
    limits = _Limits(rtol, atol, device)
    found = tuple(_check(wide, values, names, int(order), modes, (), rng, limits))
    report = GradientReport(found)
    if not report.ok:
        wrong = [f for f in found if not f.ok]
        first = max(wrong, key=lambda f: f.error)
        raise RlxTransformError(
            f"derivatives of `{func.name}` in {', '.join(dict.fromkeys(f'`{f.name}`' for f in wrong))} are wrong",
            code="E0504",
            notes=(
                f"{first.place} by `{first.mode}` is {first.given:.8g}; differences of the values give {first.expected:.8g}",
                str(report),
            ),
            helps=(_reasons(func.graph),),
        )
    return report


def _reasons(graph: Graph) -> str:
    """What of a graph may make derivatives other than those of its values, on purpose or not."""
    places = [
        f"`{n.attrs['body'].name if n.op.name == 'custom' else n.op.name}`"
        + (f" at {n.origin.span.location}" if n.origin.span is not None else "")
        for n in graph.nodes
        if n.op.name in _DETACHED
    ]
    if not places:
        return "is an input read at a corner, or does a condition decide by the value itself?"
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    shown = ", ".join(list(dict.fromkeys(places))[:3])
    return (
        f"derivatives stop or follow rules of their own in {shown}{more}: leave out by `wrt` what they reach on purpose"
    )


@dataclass(frozen=True, slots=True)
class _Limits:
    rtol: float
    atol: float
    device: str | None


def _in_f64(func: Func, inputs: dict[str, object], named: Mapping[str, object], seed: int) -> tuple[Func, Arrays]:
    """The function in F64 with nothing bound, and the values of all its inputs and params."""
    from rlxlang.func import Func
    from rlxlang.transforms import widened

    signature = func.traced.signature
    signature.require_params(func.bindings)
    given = signature.by_position(inputs, named, seed)
    feeds, _ = signature.prepare(given, func.bindings)
    graph = widened(func.graph)  # taps have no cotangents
    graph = Graph(graph.name, graph.inputs, tuple(o for o in graph.outputs if o.role != "tap"), graph.guards)
    names = [*(e.name for e in func.graph.arguments), *func.bindings]
    arrays = dict(zip(names, [*feeds, *func.bindings.values()], strict=True))
    return Func.from_graph(graph), {e.name: np.asarray(arrays[e.name]).astype(e.node.dtype.numpy) for e in graph.inputs}


def _runner(func: Func, device: str | None) -> Function:
    """The function of a dict of arrays, params among them."""
    params = set(func.param_names())

    def run(values: Arrays) -> list[Array]:
        bound = func.with_params({n: a for n, a in values.items() if n in params})
        feeds = {n: a for n, a in values.items() if n not in params}
        return bound.run(feeds) if device is None else bound.run_on(device, feeds)

    return run


def _check(
    func: Func,
    values: Arrays,
    names: Sequence[str],
    order: int,
    modes: Sequence[str],
    outer: tuple[str, ...],
    rng: np.random.Generator,
    limits: _Limits,
) -> Iterator[Finding]:
    """Findings of a function, then those of its derivatives up to an order."""
    outputs = [o.name for o in func.graph.outputs]
    floats = [k for k, o in enumerate(func.graph.outputs) if o.node.dtype == F64]
    plain = _runner(func, limits.device)
    base = plain(values)
    for mode in modes:
        label = " ".join((*outer, mode))
        derived = func.jvp(names) if mode == "fwd" else func.vjp(names)
        # New inputs come last: a tangent for each name, or a cotangent for each float output; so do the new outputs.
        added = [e.name for e in derived.graph.inputs[len(func.graph.inputs) :]]
        shapes = [values[n].shape for n in names] if mode == "fwd" else [base[k].shape for k in floats]
        extra = {n: _direction(rng, s) for n, s in zip(added, shapes, strict=True)}
        if mode == "rev" and shapes == [()]:  # the gradient itself, which is what people know
            extra = {n: np.ones(()) for n in added}
        run = _runner(derived, limits.device)
        for place, name in enumerate(names):
            measured = _Measured(plain, values, name, floats)
            tally = _Tally(name, label, limits)
            if mode == "fwd":
                tangents = {n: np.zeros_like(a) for n, a in extra.items()}
                _compare_forward(run, measured, tangents, added[place], outputs, rng, tally)
            else:
                _compare_reverse(run, measured, extra, len(outputs) + place, rng, tally)
            yield tally.finding()
        if order > 1:
            chosen = type(func).from_graph(_with_outputs(derived, derived.graph.outputs[len(outputs) :]))
            needed = {e.name for e in chosen.graph.inputs}
            more = {n: a for n, a in {**values, **extra}.items() if n in needed}
            left = [n for n in names if n in needed]
            if left:
                yield from _check(chosen, more, left, order - 1, modes, (*outer, mode), rng, limits)


def _with_outputs(func: Func, outputs: Sequence[Any]) -> Any:
    graph = func.graph
    needed = set(Graph("", (), tuple(outputs)).nodes)
    inputs = tuple(e for e in graph.inputs if e.node in needed or e.kind == "param")
    axes = {a for e in inputs for a in e.node.tensor.axes()}
    dynamic = {a for o in outputs for a in o.node.tensor.axes()}
    return Graph(graph.name, graph.inputs if dynamic - axes else inputs, tuple(outputs), graph.guards)


def _direction(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of both signs and of different size, none near 0."""
    return np.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape))


@dataclass(frozen=True, slots=True)
class _Slopes:
    """Derivatives of some outputs by differences: central ones, those from either side, and what rounding may add."""

    central: list[Array]
    left: list[Array]
    right: list[Array]
    rounding: float

    def weighted(self, weights: Sequence[Array]) -> _Slopes:
        """The derivative of the weighted sum of all entries."""

        def total(slopes: list[Array]) -> list[Array]:
            return [np.asarray(sum(float((w * s).sum()) for w, s in zip(weights, slopes, strict=True)), np.float64)]

        count = sum(float(np.abs(w).sum()) for w in weights)
        return _Slopes(total(self.central), total(self.left), total(self.right), self.rounding * count)


@dataclass
class _Measured:
    """Values of the float outputs along a line through an input."""

    run: Function
    values: Arrays
    name: str
    floats: Sequence[int]

    def slopes(self, direction: Array) -> Iterator[_Slopes]:
        """The derivatives along a direction, by shorter and shorter steps."""
        start = self.values[self.name]
        for step in _STEPS:
            scale = step * max(1.0, float(np.abs(start).max(initial=0.0)))
            with np.errstate(all="ignore"):
                five = [self._at(start + k * scale * direction) for k in (-2, -1, 0, 1, 2)]
                yield _Slopes(
                    [(8 * (r - a) - (rr - aa)) / (12 * scale) for aa, a, _, r, rr in zip(*five, strict=True)],
                    [(m - a) / scale for _, a, m, _, _ in zip(*five, strict=True)],
                    [(r - m) / scale for _, _, m, r, _ in zip(*five, strict=True)],
                    1e-15 * _size_of(five[2]) / scale,
                )

    def _at(self, place: Array) -> list[Array]:
        moved = self.run({**self.values, self.name: place})
        return [moved[i] for i in self.floats]


@dataclass
class _Tally:
    """Counts comparisons and keeps the worst."""

    name: str
    mode: str
    limits: _Limits
    compared: int = 0
    kinks: int = 0
    worst: tuple[float, str, float, float] = field(default=(0.0, "", 0.0, 0.0))

    def compare(
        self,
        given: Sequence[Array],
        slopes: Iterator[_Slopes],
        size: float,
        place: Callable[[int, tuple[int, ...]], str],
    ) -> None:
        """Derivatives of several outputs against differences, by shorter steps until they agree.

        Args:
            given: A derivative for each output.
            slopes: Differences for each output, the longest step first.
            size: The largest number of its kind.
            place: Says where an entry is: number of the output, indices.
        """
        errors = [np.full(g.shape, np.inf) for g in given]
        expected = [np.zeros(g.shape) for g in given]
        corners = [np.zeros(g.shape, bool) for g in given]
        for measured in slopes:
            for k, g in enumerate(given):
                central, left, right = measured.central[k], measured.left[k], measured.right[k]
                limit = self._limit(g, central, max(size, _size_of(measured.central)), measured.rounding)
                error = _relative(g, central, limit)
                # A corner: the slopes differ by far more than a curve's would, and what is given lies between them.
                low, high = np.minimum(left, right), np.maximum(left, right)
                corner = high - low > 1e-2 * (1 + np.abs(high) + np.abs(low))
                corners[k] = corner & (g >= low - 10 * limit) & (g <= high + 10 * limit)
                better = error < errors[k]
                errors[k] = np.where(better, error, errors[k])
                expected[k] = np.where(better, central, expected[k])
            if all((e <= 1).all() for e in errors):
                break
        for k, g in enumerate(given):
            passed = corners[k] & (errors[k] > 1)
            self.kinks += int(passed.sum())
            self._keep(k, np.where(passed, 0.0, errors[k]), expected[k], g, place)

    def _limit(self, given: Array, expected: Array, size: float, rounding: float) -> Array:
        largest = np.maximum(np.abs(given), np.abs(expected))
        return np.asarray(self.limits.rtol * largest + self.limits.atol * max(1.0, size) + rounding)

    def _keep(
        self, output: int, error: Array, expected: Array, given: Array, place: Callable[[int, tuple[int, ...]], str]
    ) -> None:
        self.compared += error.size
        if error.size and float(error.max()) >= self.worst[0]:
            at = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
            self.worst = (float(error[at]), place(output, at), float(expected[at]), float(given[at]))

    def finding(self) -> Finding:
        """What was found."""
        return Finding(self.name, self.mode, self.compared, self.kinks, *self.worst)


def _relative(given: Array, expected: Array, limit: Array) -> Array:
    """The difference in units of what is allowed; two NaN or equal infinities agree."""
    with np.errstate(invalid="ignore"):
        error = np.abs(given - expected) / limit
    error = np.where((given == expected) | (np.isnan(given) & np.isnan(expected)), 0.0, error)
    return np.where(np.isnan(error), np.inf, error)


def _size_of(arrays: Sequence[Array]) -> float:
    return max((float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in arrays), default=0.0)


def _compare_forward(
    run: Function,
    measured: _Measured,
    tangents: Arrays,
    tangent: str,
    outputs: Sequence[str],
    rng: np.random.Generator,
    tally: _Tally,
) -> None:
    """Along random directions of one input, `tangent`; the other tangents are zeros."""
    name = measured.name
    for _ in range(_DIRECTIONS):
        direction = _direction(rng, measured.values[name].shape)
        found = run({**measured.values, **tangents, tangent: direction})[len(outputs) :]
        given = [found[k] for k in measured.floats]
        tally.compare(
            given, measured.slopes(direction), 0.0, lambda k, at: f"tangent of {outputs[measured.floats[k]]} {list(at)}"
        )


def _compare_reverse(
    run: Function,
    measured: _Measured,
    cotangents: Arrays,
    index: int,
    rng: np.random.Generator,
    tally: _Tally,
) -> None:
    """The gradient of one input, output `index`, along random directions and element by element."""
    name, start = measured.name, measured.values[measured.name]
    gradient = run({**measured.values, **cotangents})[index]
    weights = list(cotangents.values())

    def along(direction: Array) -> Iterator[_Slopes]:
        return (s.weighted(weights) for s in measured.slopes(direction))

    scale = _size_of([gradient])
    size = gradient.size
    largest = np.argsort(-np.abs(gradient.reshape(-1)))[: _ELEMENTS // 2]
    chosen: Any = np.unique(np.concatenate([largest, rng.permutation(size)[: _ELEMENTS // 2]])) if size else []
    for flat in chosen:
        at = np.unravel_index(int(flat), start.shape)
        unit = np.zeros_like(start)
        unit[at] = 1.0
        place = f"d_{name} {[int(i) for i in at]}"
        tally.compare([np.asarray(gradient[at])], along(unit), scale, lambda *_, place=place: place)
    if tally.worst[0] > 1:  # an element says more than a direction
        return
    for _ in range(_DIRECTIONS):
        direction = _direction(rng, start.shape)
        given = np.asarray((gradient * direction).sum())
        tally.compare([given], along(direction), scale, lambda *_: f"d_{name} along a direction")
