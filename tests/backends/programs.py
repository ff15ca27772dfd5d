"""Small programs of kernels, written by hand, with what NumPy says they compute: every backend runs them.

`EXAMPLES` maps a name to a function that makes an `Example` from a random generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from rlxlang.backends.base import Backend
from rlxlang.kernels import (
    Accumulator,
    Apply,
    AxisValue,
    Buffer,
    Const,
    Contract,
    Copy,
    Expr,
    Gathered,
    Index,
    Load,
    Loop,
    Nest,
    Operand,
    Pass,
    Program,
    Reduce,
    Reduced,
    Running,
    SizeValue,
    Step,
    Store,
    Window,
    children,
    roots,
)
from rlxlang.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    Dim,
    DimLike,
    DType,
    ceil_div,
    evaluate,
    product,
)

Array: TypeAlias = "np.ndarray[Any, Any]"
N, M = Dim.axis("?n"), Dim.axis("?m")


@dataclass(frozen=True)
class Case:
    """One run: arrays by buffer id, sizes, and the expected outputs (and states)."""

    arrays: Mapping[int, Array]
    sizes: Mapping[str, int]
    expected: Sequence[Array]
    states: Mapping[int, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Example:
    program: Program
    cases: Sequence[Case]
    rtol: float = 1e-6
    atol: float = 1e-6


class Maker:
    """Collects the buffers of a program."""

    def __init__(self, name: str, *axes: str) -> None:
        self.name = name
        self.axes = axes
        self.buffers: list[Buffer] = []
        self.arena: DimLike = 0

    def add(self, kind: str, dtype: DType, *shape: DimLike, data: Array | None = None) -> int:
        number = len(self.buffers)
        offset = self.arena if kind in ("temp", "private") else 0
        name = f"{kind}{number}" if kind in ("input", "param", "state", "output") else ""
        self.buffers.append(Buffer(number, kind, dtype, shape, name, data, offset))
        if kind in ("temp", "private"):
            self.arena = self.arena + ceil_div(product(shape) * dtype.bytes, 64) * 64
        return number

    def load(self, buffer: int, *strides: DimLike, offset: DimLike = 0) -> Load:
        return Load(buffer, Index(offset, strides), self.buffers[buffer].dtype)

    def program(self, *steps: Step, outputs: Sequence[int] | None = None) -> Program:
        chosen = tuple(b.id for b in self.buffers if b.kind == "output") if outputs is None else tuple(outputs)
        draft = Program(self.name, self.axes, tuple(self.buffers), steps, (), self.arena, 1, chosen)
        return Program(self.name, self.axes, tuple(self.buffers), steps, dims_of(draft), self.arena, 1, chosen)


def dims_of(program: Program) -> tuple[DimLike, ...]:
    """Every size of a program that is not a number."""
    found: dict[DimLike, None] = {}

    def index(i: Index) -> None:
        found.update(dict.fromkeys([i.offset, *i.strides]))
        for g in i.gathered:
            found.update(dict.fromkeys([g.size, g.stride]))

    def expression(expr: Expr) -> None:
        todo = [expr]
        while todo:
            e = todo.pop()
            if isinstance(e, Load):
                index(e.index)
            if isinstance(e, SizeValue):
                found[e.dim] = None
            todo += children(e)

    for buffer in program.buffers:
        found.update(dict.fromkeys([*buffer.shape, buffer.offset]))
    for step in program.walk():
        if isinstance(step, Nest | Contract):
            for root in roots(step):
                expression(root)
            stores = (
                step.epilogue
                if isinstance(step, Contract)
                else (*step.finals, *(s for p in step.passes for s in p.stores))
            )
            for store in stores:
                index(store.index)
        if isinstance(step, Nest):
            found.update(dict.fromkeys([*step.extents, product(step.outer)]))
        elif isinstance(step, Contract):
            found.update(dict.fromkeys([*step.batch, step.m, step.n, step.k]))
            for side in (step.left, step.right):
                found.update(dict.fromkeys([side.offset, *side.batch, side.row, side.column]))
        elif isinstance(step, Loop):
            found.update(dict.fromkeys([step.count, *(w.stride for w in step.windows)]))
    return tuple(d for d in found if not isinstance(d, int))


def call(function: str, *args: Expr, dtype: DType | None = None) -> Apply:
    comparison = function in ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite")
    return Apply(function, args, dtype or (BOOL if comparison else args[-1].dtype))


def const(value: float, dtype: DType = F32) -> Const:
    return Const(value, dtype)


def one_pass(name: str, outer: Sequence[DimLike], *stores: Store, inner: Sequence[DimLike] = ()) -> Nest:
    return Nest(name, tuple(outer), tuple(inner), (Pass((), stores),), vector_axis=len(outer) - 1)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


EXAMPLES: dict[str, Callable[[np.random.Generator], Example]] = {}


def example(make: Callable[[np.random.Generator], Example]) -> Callable[[np.random.Generator], Example]:
    EXAMPLES[make.__name__] = make
    return make


@example
def broadcast_map(rng: np.random.Generator) -> Example:
    """relu(x * y + bias), with x transposed, several sizes and a size of zero."""
    p = Maker("broadcast_map", "?n", "?m")
    x, y, bias, out = (
        p.add("input", F32, M, N),
        p.add("input", F32, N, M),
        p.add("param", F32, M),
        p.add("output", F32, N, M),
    )
    value = call("add", call("mul", p.load(x, 1, N), p.load(y, M, 1)), p.load(bias, 0, 1))
    nest = one_pass("map", (N, M), Store(out, Index(0, (M, 1)), call("maximum", value, const(0))))
    cases = []
    for n, m in ((3, 5), (17, 1), (0, 4), (64, 33)):
        a, b, c = normal(rng, m, n), normal(rng, n, m), normal(rng, m)
        cases.append(Case({x: a, y: b, bias: c}, {"?n": n, "?m": m}, [np.maximum(a.T * b + c, 0)]))
    return Example(p.program(nest), cases)


@example
def two_outputs(rng: np.random.Generator) -> Example:
    """A shared subexpression stored twice, once reversed; an output given twice and an input as output."""
    p = Maker("two_outputs")
    x, first, second = p.add("input", F32, 40), p.add("output", F32, 40), p.add("output", F32, 40)
    e = call("exp", p.load(x, 1))
    stores = (Store(first, Index(0, (1,)), e), Store(second, Index(39, (-1,)), call("mul", e, e)))
    a = normal(rng, 40)
    expected = [np.exp(a), np.exp(a)[::-1] ** 2, np.exp(a), a]
    return Example(
        p.program(one_pass("map", (40,), *stores), outputs=(first, second, first, x)), [Case({x: a}, {}, expected)]
    )


@example
def softmax_rows(rng: np.random.Generator) -> Example:
    """Three passes: a maximum, a sum, a store."""
    p = Maker("softmax_rows", "?n", "?m")
    x, out = p.add("input", F32, N, M), p.add("output", F32, N, M)
    v = p.load(x, M, 1)
    e = call("exp", call("sub", v, Reduced("top", F32)))
    passes = (
        Pass((Reduce("top", "max", v, F32),)),
        Pass((Reduce("total", "sum", e, F32),)),
        Pass((), (Store(out, Index(0, (M, 1)), call("div", e, Reduced("total", F32))),)),
    )
    nest = Nest("softmax", (N,), (M,), passes, vector_axis=1)
    cases = []
    for n, m in ((4, 7), (1, 300), (33, 16), (5, 0)):
        a = normal(rng, n, m)
        high = np.exp(a - a.max(axis=1, keepdims=True)) if m else a
        cases.append(Case({x: a}, {"?n": n, "?m": m}, [high / high.sum(axis=1, keepdims=True)]))
    return Example(p.program(nest), cases)


@example
def column_means(rng: np.random.Generator) -> Example:
    """The mean of columns that are long: the sum stays exact."""
    p = Maker("column_means", "?n")
    x, out = p.add("input", F32, N, 3), p.add("output", F32, 3)
    mean = call("div", Reduced("s", F32), call("cast", SizeValue(N, I64), dtype=F32))
    total = Pass((Reduce("s", "sum", p.load(x, 1, 3), F32),))
    nest = Nest("means", (3,), (N,), (total,), (Store(out, Index(0, (1, 0)), mean),), vector_axis=0)
    cases = []
    for n in (1, 1000, 200_000):
        a = (rng.random((n, 3)) + 1).astype(np.float32)
        cases.append(Case({x: a}, {"?n": n}, [a.mean(axis=0, dtype=np.float64).astype(np.float32)]))
    return Example(p.program(nest), cases)


@example
def all_reductions(rng: np.random.Generator) -> Example:
    """Every reduction over two inner axes, with ties and a NaN, and over nothing."""
    p = Maker("all_reductions", "?n")
    x = p.add("input", F32, 4, N, 5)
    v = p.load(x, N * 5, 5, 1)
    big = call("gt", v, const(1))
    rows = [
        ("sum", v, F32, lambda a: a.sum(1, dtype=np.float64)), ("prod", v, F32, lambda a: a.prod(1, dtype=np.float64)),
        ("max", v, F32, lambda a: a.max(1, initial=-np.inf)), ("min", v, F32, lambda a: a.min(1, initial=np.inf)),
        ("any", big, BOOL, lambda a: (a > 1).any(1)), ("all", big, BOOL, lambda a: (a > 1).all(1)),
        ("argmax", v, I32, lambda a: a.argmax(1) if a.size else np.zeros(4)),
        ("argmin", v, I64, lambda a: a.argmin(1) if a.size else np.zeros(4)),
    ]  # fmt: skip
    outs = [p.add("output", dtype, 4) for _, _, dtype, _ in rows]
    walked = Pass(tuple(Reduce(op, op, value, dtype) for op, value, dtype, _ in rows))
    finals = tuple(Store(o, Index(0, (1, 0, 0)), Reduced(r[0], r[2])) for o, r in zip(outs, rows, strict=True))
    nest = Nest("reductions", (4,), (N, 5), (walked,), finals)
    cases = []
    for n in (0, 1, 3):
        a = np.round(normal(rng, 4, n, 5) * 2) / 2
        if n:
            a[1, n - 1, 2] = np.nan
            a[2] = 1.5
        expected = [f(a.reshape(4, -1)).astype(d.numpy) for _, _, d, f in rows]
        cases.append(Case({x: a}, {"?n": n}, expected))
    return Example(p.program(nest), cases)


@example
def integer_reductions(rng: np.random.Generator) -> Example:
    """Reductions of small integers into wider ones, of I64 and of Bool."""
    p = Maker("integer_reductions")
    x, y, z = p.add("input", I8, 6, 50), p.add("input", I64, 6, 50), p.add("input", BOOL, 6, 50)
    a, b, c = p.load(x, 50, 1), p.load(y, 50, 1), p.load(z, 50, 1)
    rows = [
        ("sum", call("cast", a, dtype=I32), I32), ("max", a, I8), ("min", b, I64), ("prod", b, I64),
        ("max", c, BOOL), ("min", c, BOOL), ("argmax", c, I32), ("argmin", a, I64),
    ]  # fmt: skip
    outs = [p.add("output", dtype, 6) for _, _, dtype in rows]
    walked = Pass(tuple(Reduce(f"r{k}", op, value, dtype) for k, (op, value, dtype) in enumerate(rows)))
    finals = tuple(Store(o, Index(0, (1, 0)), Reduced(f"r{k}", rows[k][2])) for k, o in enumerate(outs))
    i8 = rng.integers(-128, 128, (6, 50)).astype(np.int8)
    i64 = rng.integers(-(1 << 40), 1 << 40, (6, 50)) | 1
    bits = rng.random((6, 50)) < 0.05
    expected = [
        i8.sum(1, dtype=np.int32), i8.max(1), i64.min(1), i64.prod(1), bits.any(1), bits.all(1),
        bits.argmax(1).astype(np.int32), i8.argmin(1),
    ]  # fmt: skip
    nest = Nest("reductions", (6,), (50,), (walked,), finals)
    return Example(p.program(nest), [Case({x: i8, y: i64, z: bits}, {}, expected)])


@example
def prefixes(rng: np.random.Generator) -> Example:
    """Running sums, exclusive products, running maxima and their positions."""
    p = Maker("prefixes", "?n")
    x, q = p.add("input", F32, 3, N), p.add("input", I32, 3, N)
    v, w = p.load(x, N, 1), p.load(q, N, 1)
    outs = [p.add("output", d, 3, N) for d in (F32, I32, F32, I64)]
    reduces = (
        Reduce("s", "sum", v, F32, prefix=True),
        Reduce("t", "sum", w, I32, prefix=True, exclusive=True),
        Reduce("m", "max", v, F32, prefix=True),
        Reduce("at", "argmax", v, I64, prefix=True),
    )
    values = (Running("s", F32), Running("t", I32), Running("m", F32), Running("at", I64))
    stores = tuple(Store(o, Index(0, (N, 1)), value) for o, value in zip(outs, values, strict=True))
    nest = Nest("prefix", (3,), (N,), (Pass(reduces, stores),))
    cases = []
    for n in (1, 6, 90):
        a, b = np.round(normal(rng, 3, n), 1), rng.integers(-9, 9, (3, n)).astype(np.int32)
        running = np.maximum.accumulate(a, axis=1)
        places = np.array([[int(row[: j + 1].argmax()) for j in range(n)] for row in a]).reshape(3, n)
        before = np.concatenate([np.zeros((3, 1), np.int32), b.cumsum(1, dtype=np.int32)[:, :-1]], axis=1)
        sums = a.cumsum(1, dtype=np.float64).astype(np.float32)
        cases.append(Case({x: a, q: b}, {"?n": n}, [sums, before, running, places.astype(np.int64)]))
    return Example(p.program(nest), cases)


@example
def recurrences(rng: np.random.Generator) -> Example:
    """Running sums that are multiplied before each addition, with and without the present point."""
    p = Maker("recurrences", "?n")
    x, y = p.add("input", F32, 3, N), p.add("input", F32, 3, N)
    v, w = p.load(x, N, 1), p.load(y, N, 1)
    outs = [p.add("output", F32, 3, N) for _ in range(2)]
    reduces = tuple(Reduce(f"h{e:d}", "sum", v, F32, prefix=True, exclusive=e, factor=w) for e in (False, True))
    stores = tuple(Store(o, Index(0, (N, 1)), Running(r.name, F32)) for o, r in zip(outs, reduces, strict=True))
    nest = Nest("recurrence", (3,), (N,), (Pass(reduces, stores),))
    cases = []
    for n in (1, 7, 60):
        a, b = normal(rng, 3, n), normal(rng, 3, n)
        states = [np.zeros(3)]
        for k in range(n):
            states.append(states[-1] * b[:, k] + a[:, k])
        expected = [np.stack(part, 1).astype(np.float32) for part in (states[1:], states[:-1])]
        cases.append(Case({x: a, y: b}, {"?n": n}, expected))
    return Example(p.program(nest), cases)


@example
def reversed_prefix(rng: np.random.Generator) -> Example:
    """A sum from the end, by a negative stride."""
    p = Maker("reversed_prefix", "?n")
    x, out = p.add("input", F32, N), p.add("output", F32, N)
    reduce = Reduce("s", "sum", p.load(x, -1, offset=N - 1), F32, prefix=True)
    nest = Nest("prefix", (), (N,), (Pass((reduce,), (Store(out, Index(N - 1, (-1,)), Running("s", F32)),)),))
    a = normal(rng, 37)
    expected = a[::-1].cumsum(dtype=np.float64)[::-1].astype(np.float32)
    return Example(p.program(nest), [Case({x: a}, {"?n": 37}, [expected])])


@example
def gather_rows(rng: np.random.Generator) -> Example:
    """Rows of a table by indices that may be negative or outside."""
    p = Maker("gather_rows", "?n")
    table, ids, out = p.add("param", F32, 7, 4), p.add("input", I32, N), p.add("output", F32, N, 4)
    index = Index(0, (0, 1), (Gathered(p.load(ids, 1, 0), 7, 4),))
    nest = one_pass("gather", (N, 4), Store(out, Index(0, (4, 1)), Load(table, index, F32)))
    cases = []
    for n in (9, 0):
        a, i = normal(rng, 7, 4), rng.integers(-20, 20, n).astype(np.int32)
        cases.append(Case({table: a, ids: i}, {"?n": n}, [a[np.clip(np.where(i < 0, i + 7, i), 0, 6)]]))
    return Example(p.program(nest), cases)


@example
def padded_window(rng: np.random.Generator) -> Example:
    """Loads that read nothing outside: a pad of 2 with -1, and a moving sum of three."""
    p = Maker("padded_window", "?n")
    x, out, moving = p.add("input", F32, N), p.add("output", F32, N + 4), p.add("output", F32, N)
    here = AxisValue(0, I64)
    inside = call("and", call("ge", here, const(2, I64)), call("lt", here, SizeValue(N + 2, I64)))
    padded = Load(x, Index(-2, (1,)), F32, inside, -1.0)
    at = call("add", call("sub", AxisValue(0, I64), const(1, I64)), AxisValue(1, I64))
    near = call("and", call("ge", at, const(0, I64)), call("lt", at, SizeValue(N, I64)))
    total = Pass((Reduce("s", "sum", Load(x, Index(-1, (1, 1)), F32, near), F32),))
    cases = []
    for n in (1, 5, 130):
        a = normal(rng, n)
        sums = np.convolve(a.astype(np.float64), np.ones(3), "same")[:n] if n >= 3 else np.array([a.sum()] * n)
        cases.append(Case({x: a}, {"?n": n}, [np.pad(a, 2, constant_values=-1), sums.astype(np.float32)]))
    window = Nest("window", (N,), (3,), (total,), (Store(moving, Index(0, (1, 0)), Reduced("s", F32)),))
    return Example(p.program(one_pass("pad", (N + 4,), Store(out, Index(0, (1,)), padded)), window), cases)


@example
def scatter_duplicates(rng: np.random.Generator) -> Example:
    """Every combining mode on repeated places, after a copy; masked stores."""
    p = Maker("scatter_duplicates", "?n")
    base, ids, x = p.add("input", F32, 6), p.add("input", I64, N), p.add("input", F32, N)
    outs = [p.add("output", F32, 6) for _ in range(5)]
    place = Index(0, (0,), (Gathered(p.load(ids, 1), 6, 1),))
    value = p.load(x, 1)
    positive = call("gt", value, const(0))
    nests: list[Step] = [Copy(base, o) for o in outs]
    for mode, out in zip(("add", "mul", "min", "max"), outs, strict=False):
        nests.append(one_pass(mode, (), Store(out, place, value, mode), inner=(N,)))
    nests.append(one_pass("masked", (), Store(outs[4], place, value, "add", positive), inner=(N,)))
    a, i, b = normal(rng, 6), rng.integers(-6, 6, 40), normal(rng, 40)
    expected = []
    for ufunc in (np.add, np.multiply, np.minimum, np.maximum):
        copy = a.astype(np.float64)
        ufunc.at(copy, i, b)
        expected.append(copy.astype(np.float32))
    copy = a.astype(np.float64)
    np.add.at(copy, i[b > 0], b[b > 0])
    return Example(
        p.program(*nests), [Case({base: a, ids: i, x: b}, {"?n": 40}, [*expected, copy.astype(np.float32)])], 1e-5, 1e-5
    )


@example
def half_precision(rng: np.random.Generator) -> Example:
    """F16 and BF16 in memory, computed in F32; overflow, NaN and rounding at the stores."""
    p = Maker("half_precision")
    x, y, z = p.add("input", F16, 200), p.add("input", BF16, 200), p.add("input", F64, 200)
    outs = [p.add("output", d, 200) for d in (F16, BF16, F16, BF16)]
    total = call("mul", call("cast", p.load(x, 1), dtype=F32), call("cast", p.load(y, 1), dtype=F32))
    wide = p.load(z, 1)
    values = [call("cast", v, dtype=d) for v, d in ((total, F16), (total, BF16), (wide, F16), (wide, BF16))]
    stores = tuple(Store(o, Index(0, (1,)), v) for o, v in zip(outs, values, strict=True))
    a = (rng.standard_normal(200) * 100).astype(np.float16)
    b = (rng.standard_normal(200) * 100).astype(BF16.numpy)
    c = rng.standard_normal(200) * 10.0 ** rng.integers(-9, 6, 200)
    c[:4] = np.nan, np.inf, -np.inf, 65519.9
    with np.errstate(over="ignore"):
        r = a.astype(np.float32) * b.astype(np.float32)
        expected = [r.astype(np.float16), r.astype(BF16.numpy), c.astype(np.float16), c.astype(BF16.numpy)]
    return Example(p.program(one_pass("half", (200,), *stores)), [Case({x: a, y: b, z: c}, {}, expected)], 0, 0)


@example
def private_rows(rng: np.random.Generator) -> Example:
    """A row kept in private memory between passes."""
    p = Maker("private_rows", "?n", "?m")
    x, out, row = p.add("input", F32, N, M), p.add("output", F32, N, M), p.add("private", F32, M)
    small = p.add("private", I8, 3)
    e = call("exp", p.load(x, M, 1))
    kept = p.load(row, 0, 1)
    tag = call("cast", Load(small, Index(1, (0, 0)), I8), dtype=F32)
    passes = (
        Pass(
            (Reduce("s", "sum", e, F32),),
            (Store(row, Index(0, (0, 1)), e), Store(small, Index(1, (0, 0)), const(2, I8))),
        ),
        Pass((), (Store(out, Index(0, (M, 1)), call("mul", call("div", kept, Reduced("s", F32)), tag)),)),
    )
    cases = []
    for n, m in ((3, 4), (300, 19)):
        a = normal(rng, n, m)
        cases.append(Case({x: a}, {"?n": n, "?m": m}, [2 * np.exp(a) / np.exp(a).sum(1, keepdims=True)]))
    return Example(p.program(Nest("rows", (N,), (M,), passes, vector_axis=1)), cases)


@example
def temporaries(rng: np.random.Generator) -> Example:
    """Two temporaries in one arena whose offsets depend on sizes, and a constant."""
    p = Maker("temporaries", "?n")
    x, out = p.add("input", F32, N), p.add("output", F32, N)
    table = p.add("constant", F32, 3, data=np.array([2, 3, 4], np.float32))
    first, second = p.add("temp", F32, N), p.add("temp", F32, N)
    scale = Load(table, Index(1, (0,)), F32)
    steps = (
        one_pass("first", (N,), Store(first, Index(0, (1,)), call("mul", p.load(x, 1), scale))),
        one_pass("second", (N,), Store(second, Index(0, (1,)), call("sub", p.load(x, 1), p.load(first, 1)))),
        Copy(second, first),
        one_pass("last", (N,), Store(out, Index(0, (1,)), call("mul", p.load(first, 1), p.load(second, 1)))),
    )
    cases = [Case({x: a}, {"?n": a.size}, [(-2 * a) ** 2]) for a in (normal(rng, 5), normal(rng, 100), normal(rng, 0))]
    return Example(p.program(*steps), cases, 1e-5)


def _product(p: Maker, a: int, b: int, c: int, **how: Any) -> Contract:
    """C[n, m] = A[n, 9] · B[9, m]."""
    return Contract("product", (), N, M, 9, Operand(a, 0, (), 9, 1), Operand(b, 0, (), M, 1), c, F32, **how)


@example
def matrix_product(rng: np.random.Generator) -> Example:
    """Whole tiles, edges on both sides, and nothing at all."""
    p = Maker("matrix_product", "?n", "?m")
    a, b, c = p.add("input", F32, N, 9), p.add("input", F32, 9, M), p.add("output", F32, N, M)
    cases = []
    for n, m in ((1, 1), (8, 32), (19, 70), (0, 3), (40, 33)):
        x, y = normal(rng, n, 9), normal(rng, 9, m)
        cases.append(Case({a: x, b: y}, {"?n": n, "?m": m}, [x @ y]))
    return Example(p.program(_product(p, a, b, c)), cases, 1e-5, 1e-5)


@example
def transposed_left(rng: np.random.Generator) -> Example:
    """The left operand transposed, as in the gradient of a weight; more columns than a tile has, and fewer."""
    p = Maker("transposed_left", "?n", "?m")
    a, b, c = p.add("input", F32, 9, N), p.add("input", F32, 9, M), p.add("output", F32, N, M)
    step = Contract("product", (), N, M, 9, Operand(a, 0, (), 1, N), Operand(b, 0, (), M, 1), c, F32)
    cases = []
    for n, m in ((11, 33), (3, 10)):
        x, y = normal(rng, 9, n), normal(rng, 9, m)
        cases.append(Case({a: x, b: y}, {"?n": n, "?m": m}, [x.T @ y]))
    return Example(p.program(step), cases, 1e-5, 1e-5)


@example
def fused_epilogue(rng: np.random.Generator) -> Example:
    """Bias and activation on C while it is hot, stored transposed; C itself is not kept."""
    p = Maker("fused_epilogue", "?n", "?m")
    a, b, bias = p.add("input", F32, N, 9), p.add("param", F32, 9, M), p.add("param", F32, M)
    c, out = p.add("temp", F32, N, M), p.add("output", F32, M, N)
    value = call("tanh", call("add", Accumulator(F32), p.load(bias, 0, 1)))
    step = _product(p, a, b, c, epilogue=(Store(out, Index(0, (1, N)), value),), keeps_target=False)
    cases = []
    for n, m in ((3, 5), (16, 64), (9, 45)):
        x, y, z = normal(rng, n, 9), normal(rng, 9, m), normal(rng, m)
        cases.append(Case({a: x, b: y, bias: z}, {"?n": n, "?m": m}, [np.tanh(x @ y + z).T]))
    return Example(p.program(step), cases, 1e-5, 1e-5)


@example
def summed_epilogue(rng: np.random.Generator) -> Example:
    """An epilogue that stores C masked and adds up its columns."""
    p = Maker("summed_epilogue", "?n", "?m")
    a, b = p.add("input", F32, N, 9), p.add("input", F32, 9, M)
    c, out, sums = p.add("output", F32, N, M), p.add("output", F32, N, M), p.add("output", F32, M)
    masked = call("maximum", Accumulator(F32), const(0))
    zero = one_pass("zero", (M,), Store(sums, Index(0, (1,)), const(0)))
    stores = (Store(out, Index(0, (M, 1)), masked), Store(sums, Index(0, (0, 1)), masked, "add"))
    cases = []
    for n, m in ((50, 6), (8, 32)):
        x, y = normal(rng, n, 9), normal(rng, 9, m)
        r = np.maximum(x @ y, 0)
        cases.append(Case({a: x, b: y}, {"?n": n, "?m": m}, [x @ y, r, r.sum(0)]))
    return Example(p.program(zero, _product(p, a, b, c, epilogue=stores)), cases, 1e-5, 2e-5)


@example
def batched_transposed(rng: np.random.Generator) -> Example:
    """A batch of products with the right operand transposed and the left one shared by the batch."""
    p = Maker("batched_transposed", "?n")
    a, b, c = p.add("input", F32, 6, 300), p.add("input", F32, N, 2, 5, 300), p.add("output", F32, N, 2, 6, 5)
    left = Operand(a, 0, (0, 0), 300, 1)
    right = Operand(b, 0, (3000, 1500), 1, 300)
    step = Contract("product", (N, 2), 6, 5, 300, left, right, c, F32)
    x, y = normal(rng, 6, 300), normal(rng, 3, 2, 5, 300)
    expected = np.einsum("ik,bcjk->bcij", x.astype(np.float64), y).astype(np.float32)
    return Example(p.program(step), [Case({a: x, b: y}, {"?n": 3}, [expected])], 1e-5, 1e-4)


@example
def typed_products(rng: np.random.Generator) -> Example:
    """Products of F64, of wrapping I32, of I8 into I32 and of BF16 into F32."""
    p = Maker("typed_products")
    rows = ((F64, F64), (I32, I32), (I8, I32), (BF16, F32), (U8, I32))
    steps, arrays, expected = [], {}, []
    for k, (memory, dtype) in enumerate(rows):
        a, b, c = p.add("input", memory, 5, 7), p.add("input", memory, 7, 11), p.add("output", dtype, 5, 11)
        steps.append(Contract(f"product{k}", (), 5, 11, 7, Operand(a, 0, (), 7, 1), Operand(b, 0, (), 11, 1), c, dtype))
        if memory.is_float:
            arrays[a], arrays[b] = (rng.standard_normal(s).astype(memory.numpy) for s in ((5, 7), (7, 11)))
        else:
            low, high = memory.integer_range
            arrays[a], arrays[b] = (rng.integers(low, high, s).astype(memory.numpy) for s in ((5, 7), (7, 11)))
        expected.append(arrays[a].astype(dtype.numpy) @ arrays[b].astype(dtype.numpy))
    return Example(p.program(*steps), [Case(arrays, {}, expected)], 1e-5, 1e-5)


@example
def empty_product(rng: np.random.Generator) -> Example:
    """A contraction over an axis of size zero gives zeros."""
    p = Maker("empty_product", "?n")
    a, b, c = p.add("input", F32, 3, N), p.add("input", F32, N, 40), p.add("output", F32, 3, 40)
    step = Contract("product", (), 3, 40, N, Operand(a, 0, (), N, 1), Operand(b, 0, (), 40, 1), c, F32)
    cases = [
        Case({a: x, b: y}, {"?n": n}, [x @ y])
        for n, x, y in ((n, normal(rng, 3, n), normal(rng, n, 40)) for n in (0, 2))
    ]
    return Example(p.program(step), cases)


def _scan(reverse: bool) -> Callable[[np.random.Generator], Example]:
    def make(rng: np.random.Generator) -> Example:
        """A recurrence over windows of a stack, with every step's value stacked and the step's number."""
        p = Maker("scan", "?n")
        xs, start = p.add("input", F32, N, 4), p.add("input", F32, 4)
        ys, last, counts = p.add("output", F32, N, 4), p.add("output", F32, 4), p.add("output", I64, N)
        carry, fresh, index = p.add("temp", F32, 4), p.add("temp", F32, 4), p.add("temp", I64, 1)
        x, y, count = p.add("view", F32, 4), p.add("view", F32, 4), p.add("view", I64, 1)
        value = call("add", call("mul", p.load(carry, 1), const(0.5)), p.load(x, 1))
        body: tuple[Step, ...] = (
            one_pass("step", (4,), Store(fresh, Index(0, (1,)), value)),
            Copy(fresh, y),
            Copy(fresh, carry),
            one_pass("count", (1,), Store(count, Index(0, (1,)), p.load(index, 1))),
        )
        windows = (Window(x, xs, 4, reverse), Window(y, ys, 4, reverse), Window(count, counts, 1, reverse))
        steps = (Copy(start, carry), Loop("scan", N, body, windows, index, reverse), Copy(carry, last))
        cases = []
        for n in (5, 0):
            a, h = normal(rng, n, 4), normal(rng, 4)
            out, state = np.zeros_like(a), h
            for i in range(n)[:: -1 if reverse else 1]:
                state = state * np.float32(0.5) + a[i]
                out[i] = state
            cases.append(Case({xs: a, start: h}, {"?n": n}, [out, state, np.arange(n)]))
        return Example(p.program(*steps), cases)

    return make


EXAMPLES["scan"] = _scan(reverse=False)
EXAMPLES["scan_backwards"] = _scan(reverse=True)


@example
def nested_loops(rng: np.random.Generator) -> Example:
    """A loop in a loop, its window on the outer one's window."""
    p = Maker("nested_loops")
    xs, total = p.add("input", F32, 3, 4), p.add("output", F32, 1)
    row, item = p.add("view", F32, 4), p.add("view", F32, 1)
    value = call("add", call("mul", p.load(total, 1), const(0.5)), p.load(item, 1))
    add = one_pass("add", (1,), Store(total, Index(0, (1,)), value))
    inner = Loop("inner", 4, (add,), (Window(item, row, 1, True),))
    steps = (
        one_pass("zero", (1,), Store(total, Index(0, (1,)), const(0))),
        Loop("outer", 3, (inner,), (Window(row, xs, 4),)),
    )
    a, expected = normal(rng, 3, 4), np.float32(0)
    for i in range(3):
        for j in (3, 2, 1, 0):
            expected = expected * np.float32(0.5) + a[i, j]
    return Example(p.program(*steps), [Case({xs: a}, {}, [np.array([expected])])])


@example
def training_state(rng: np.random.Generator) -> Example:
    """A parameter that is updated in place, and a state that is only read."""
    p = Maker("training_state")
    w, rate, g, norm = p.add("state", F32, 30), p.add("state", F32, 1), p.add("input", F32, 30), p.add("output", F32)
    new = call("sub", p.load(w, 1), call("mul", Load(rate, Index(0, (0,)), F32), p.load(g, 1)))
    update = one_pass("update", (30,), Store(w, Index(0, (1,)), new))
    square = Pass((Reduce("s", "sum", call("mul", p.load(g, 1), p.load(g, 1)), F32),))
    total = Nest("norm", (), (30,), (square,), (Store(norm, Index(0, (0,)), call("sqrt", Reduced("s", F32))),))
    a, b, lr = normal(rng, 30), normal(rng, 30), np.array([0.1], np.float32)
    after = {w: a - lr[0] * b, rate: lr.copy()}
    return Example(p.program(update, total), [Case({w: a, rate: lr, g: b}, {}, [np.sqrt((b * b).sum())], after)], 1e-5)


@example
def big_numbers(rng: np.random.Generator) -> Example:
    """Constants at the ends of their types, and a Bool computed from integers."""
    p = Maker("big_numbers")
    out64, out8, outb, outf = (
        p.add("output", I64, 4),
        p.add("output", I8, 4),
        p.add("output", BOOL, 4),
        p.add("output", F32, 4),
    )
    here = AxisValue(0, I64)
    stores = (
        Store(out64, Index(0, (1,)), call("add", const(-(1 << 63), I64), here)),
        Store(out8, Index(0, (1,)), call("add", const(127, I8), call("cast", here, dtype=I8))),
        Store(outb, Index(0, (1,)), call("not", call("eq", here, const(2, I64)))),
        Store(outf, Index(0, (1,)), call("add", const(float("-inf")), call("cast", here, dtype=F32))),
    )
    expected = [
        np.arange(4) + np.iinfo(np.int64).min,
        np.array([127, -128, -127, -126], np.int8),
        np.arange(4) != 2,
        np.full(4, -np.inf, np.float32),
    ]
    return Example(p.program(one_pass("map", (4,), *stores)), [Case({}, {}, expected)])


def check(backend: Backend, found: Example) -> None:
    """Compile an example once and compare every case."""
    executable = backend.compile(found.program)
    for case in found.cases:
        arrays = {k: np.ascontiguousarray(v).copy() for k, v in case.arrays.items()}
        results = executable.run(arrays, case.sizes)
        assert len(results) == len(case.expected)
        pairs = [*zip(results, case.expected, strict=True), *((arrays[k], v) for k, v in case.states.items())]
        for buffer, (result, expected) in zip([*found.program.outputs, *case.states], pairs, strict=True):
            record = found.program.buffers[buffer]
            assert result.dtype == record.dtype.numpy
            assert result.shape == tuple(evaluate(d, case.sizes) for d in record.shape)
            left, right = result, np.asarray(expected)
            if record.dtype.is_float:
                left, right = left.astype(np.float64), right.astype(np.float64)
                np.testing.assert_allclose(left, right, rtol=found.rtol, atol=found.atol, err_msg=f"sizes {case.sizes}")
            else:
                np.testing.assert_array_equal(left, right, err_msg=f"sizes {case.sizes}")
