"""Loop kernels against the interpreter: accesses, functions, reductions, prefixes, stores."""

from __future__ import annotations

import numpy as np
import pytest

from rlxlang.backends.llvm import LlvmBackend, pool
from rlxlang.backends.llvm.vector import AVX2, BASELINE
from rlxlang.backends.reference import ReferenceBackend
from rlxlang.kernels import (
    FUNCTIONS,
    Apply,
    AxisValue,
    Buffer,
    Const,
    Gathered,
    Index,
    Load,
    Nest,
    Pass,
    Program,
    Reduce,
    Reduced,
    Running,
    SizeValue,
    Store,
)
from rlxlang.types import BF16, BOOL, DTYPES, F16, F32, F64, I8, I32, I64, U8, U32, U64, Dim

BACKEND = LlvmBackend()
REFERENCE = ReferenceBackend()
INTEGERS = [d for d in DTYPES.values() if d.is_integer]


def load(buffer, strides, dtype=F32, offset=0, **more):
    return Load(buffer, Index(offset, strides), dtype, **more)


def apply(function, *args, dtype=None):
    return Apply(function, args, dtype or args[-1].dtype)


def store(buffer, strides, value, offset=0, **more):
    return Store(buffer, Index(offset, strides), value, **more)


def program(buffers, steps, *, axes=(), arena=0, threads=2):
    """Buffers as (kind, dtype, shape) or (kind, dtype, shape, extra fields)."""
    made = tuple(Buffer(i, b[0], b[1], b[2], f"b{i}", **(b[3] if len(b) > 3 else {})) for i, b in enumerate(buffers))
    dims = tuple(Dim.axis(a) for a in axes)
    outputs = tuple(b.id for b in made if b.kind == "output")
    return Program("test", axes, made, tuple(steps), dims, arena, threads, outputs)


def check(program, arrays, sizes=None, *, rtol=3e-6, atol=1e-6, executable=None, backend=BACKEND):
    executable = executable or backend.compile(program)
    given = {k: np.ascontiguousarray(a) for k, a in enumerate(arrays)}
    wanted = REFERENCE.compile(program).run({k: a.copy() for k, a in given.items()}, sizes or {})
    found = executable.run({k: a.copy() for k, a in given.items()}, sizes or {})
    for got, want in zip(found, wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if got.dtype.kind in "fV":
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(got, want)
    return found


def values(rng, shape, dtype, *, nan=False):
    if dtype.is_float:
        array = rng.standard_normal(shape).astype(dtype.numpy)
        if nan and array.size > 3:
            array.flat[array.size // 2] = np.nan
        return array
    if dtype == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0 if dtype.kind == "uint" else -5, 6, shape).astype(dtype.numpy)


# -- functions -----------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-30, 1e30, np.inf, -np.inf, np.nan, 700.0, -700.0, 1e-3]


def function_program(dtype, n):
    """Every function that exists for a dtype, each with an output of its own."""
    kind = {"float": "f", "int": "i", "uint": "u", "bool": "b"}[dtype.kind]
    a, b, c = (load(k, (1,), dtype) for k in range(3))
    stores, buffers, names = [], [("input", dtype, (n,))] * 3 + [("input", BOOL, (n,))], []
    for name, row in FUNCTIONS.items():
        if kind not in row.kinds or name == "cast":
            continue
        args = (a, b, c)[: row.arity]
        if name == "where":
            args = (load(3, (1,), BOOL), a, b)
        result = BOOL if row.result == "bool" else dtype
        buffers.append(("output", result, (n,)))
        stores.append(store(len(buffers) - 1, (1,), Apply(name, args, result)))
        names.append(name)
    steps = [Nest(f"f{i}", (n,), (), (Pass((), (s,)),), (), 0) for i, s in enumerate(stores)]
    return program(buffers, steps), names


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_functions_of_floats(rng, dtype):
    first = np.repeat(SPECIAL, len(SPECIAL)).astype(dtype.numpy)
    second = np.tile(SPECIAL, len(SPECIAL)).astype(dtype.numpy)
    first = np.concatenate([first, rng.uniform(-3, 3, 27).astype(dtype.numpy)])
    second = np.concatenate([second, rng.uniform(-3, 3, 27).astype(dtype.numpy)])
    third = rng.standard_normal(first.size).astype(dtype.numpy)
    made, names = function_program(dtype, first.size)
    chosen = values(rng, first.size, BOOL)
    arrays = dict(enumerate([first, second, third, chosen]))
    wanted = REFERENCE.compile(made).run(arrays, {})
    found = BACKEND.compile(made).run(arrays, {})
    tolerance = 2e-6 if dtype == F32 else 1e-13
    for name, got, want in zip(names, found, wanted, strict=True):
        if name == "fma":  # the interpreter may round twice
            assert np.all(np.isnan(want) | np.isclose(got, want, rtol=1e-4, atol=1e-4, equal_nan=True))
            continue
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 1e-3, err_msg=name)


@pytest.mark.parametrize("dtype", [*INTEGERS, BOOL], ids=str)
def test_functions_of_integers(rng, dtype):
    n = 100
    made, names = function_program(dtype, n)
    a, b, c = (values(rng, n, dtype) for _ in range(3))
    if dtype != BOOL:
        low, high = dtype.integer_range
        a[:6], b[:6] = [low, high, low, 0, high, 3], [-1 if low else high, high, low, 0, 0, 2]
    arrays = dict(enumerate([a, b, c, values(rng, n, BOOL)]))
    wanted = REFERENCE.compile(made).run(arrays, {})
    found = BACKEND.compile(made).run(arrays, {})
    for name, got, want in zip(names, found, wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("source", [F16, BF16, F32, F64, I8, I64, U8, U64, BOOL], ids=str)
def test_casts(rng, source):
    n = 45
    array = (rng.standard_normal(n) * 100).astype(np.float64)
    if source.is_float:
        array[:5] = [np.nan, np.inf, -np.inf, 1e10, -0.0]
    if source.kind in ("uint", "bool"):
        array = np.abs(array)
    with np.errstate(over="ignore"):
        array = (array > 1 if source == BOOL else array).astype(source.numpy)
    targets = [F16, BF16, F32, F64, I8, I32, I64, U8, U32, U64, BOOL]
    targets = [t for t in targets if t != source]
    buffers = [("input", source, (n,)), *(("output", t, (n,)) for t in targets)]
    stores = [store(i + 1, (1,), apply("cast", load(0, (1,), source), dtype=t)) for i, t in enumerate(targets)]
    check(program(buffers, [Nest("casts", (n,), (), (Pass((), tuple(stores)),), (), 0)]), [array], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_short_floats_are_moved_without_arithmetic(rng, dtype):
    array = rng.standard_normal((5, 33)).astype(dtype.numpy)
    moved = load(0, (1, 33), dtype, where=apply("lt", AxisValue(0, I64), Const(30, I64), dtype=BOOL), fill=0.5)
    nest = Nest("transpose", (33, 5), (), (Pass((), (store(1, (5, 1), moved),)),), (), 1)
    check(program([("input", dtype, (5, 33)), ("output", dtype, (33, 5))], [nest]), [array], rtol=0)


def test_loads_and_stores_convert(rng):
    """A load or store of another dtype than its buffer's casts."""
    array = values(rng, 50, F16)
    nest = Nest("n", (50,), (), (Pass((), (store(1, (1,), apply("neg", load(0, (1,), F32))),)),), (), 0)
    made = program([("input", F16, (50,)), ("output", F64, (50,))], [nest])
    np.testing.assert_array_equal(BACKEND.compile(made).run({0: array}, {})[0], -array.astype(np.float64))


# -- accesses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [-1, 0, 1])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 17), (16, 100), (0, 4), (4, 0)])
def test_broadcast_transposed_and_strided_loads(rng, n, m, vector):
    total = apply("add", load(0, (m, 1)), apply("mul", load(1, (0, 1)), load(2, (1, 0))))
    total = apply("add", total, apply("sub", load(3, (1, n)), load(4, (2 * m, 2), offset=1)))
    buffers = [("input", F32, (n, m)), ("input", F32, (m,)), ("input", F32, (n,)), ("input", F32, (m, n))]
    buffers += [("input", F32, (n, 2 * m)), ("output", F32, (n, m))]
    nest = Nest("map", (n, m), (), (Pass((), (store(5, (m, 1), total),)),), (), vector)
    check(program(buffers, [nest]), [values(rng, b[2], F32) for b in buffers[:5]])


def test_gathered_loads_wrap_once_and_clamp(rng):
    table, index = values(rng, (10, 24), F32), np.array([0, 9, -1, -10, 12, -20, 3], np.int64)
    row = Gathered(load(1, (1, 0), I64), 10, 24)
    column = Gathered(apply("cast", load(2, (0, 1), I32), dtype=I64), 24, 1)
    embedded = Load(0, Index(0, (0, 1), (row,)), F32)
    picked = Load(0, Index(0, (0, 0), (row, column)), F32)
    stores = (store(3, (24, 1), embedded), store(4, (24, 1), picked))
    nest = Nest("take", (7, 24), (), (Pass((), stores),), (), 1)
    buffers = [("input", F32, (10, 24)), ("input", I64, (7,)), ("input", I32, (24,))]
    buffers += [("output", F32, (7, 24)), ("output", F32, (7, 24))]
    found = check(program(buffers, [nest]), [table, index, rng.integers(-30, 30, 24).astype(np.int32)])
    np.testing.assert_array_equal(found[0][2], table[9])


def test_padding_reads_nothing_outside(rng):
    n = 21
    inside = apply("ge", AxisValue(1, I64), Const(2, I64), dtype=BOOL)
    inside = apply("and", inside, apply("lt", AxisValue(1, I64), Const(n + 2, I64), dtype=BOOL))
    below = apply("gt", AxisValue(0, I64), Const(0, I64), dtype=BOOL)
    padded = load(0, (n, 1), offset=-2 - n, where=apply("and", inside, below), fill=-7.5)
    nest = Nest("pad", (4, n + 5), (), (Pass((), (store(1, (n + 5, 1), padded),)),), (), 1)
    check(program([("input", F32, (3, n)), ("output", F32, (4, n + 5))], [nest]), [values(rng, (3, n), F32)])


def test_positions_and_sizes_as_numbers():
    n = Dim.axis("?n")
    number = apply("add", apply("mul", AxisValue(0, I64), Const(1000, I64)), AxisValue(1, I64))
    number = apply("add", number, apply("mul", SizeValue(n, I64), Const(100000, I64)))
    wide = apply("cast", number, dtype=F64)
    stores = (store(0, (n, 1), number), store(1, (n, 1), wide))
    nest = Nest("iota", (3, n), (), (Pass((), stores),), (), 1)
    made = program([("output", I64, (3, n)), ("output", F64, (3, n))], [nest], axes=("?n",))
    for size in (0, 1, 5, 40):
        check(made, [], {"?n": size})


@pytest.mark.parametrize("vector", [0, 1, 2, 3, -1])
def test_four_axes_in_any_vector_axis(rng, vector):
    a, b, c, d = 2, 3, 5, 19
    value = apply("add", load(0, (d * c * b, d * c, d, 1)), load(1, (1, 0, a, 0)))
    nest = Nest("map", (a, b, c, d), (), (Pass((), (store(2, (d * c * b, d * c, d, 1), value),)),), (), vector)
    buffers = [("input", F32, (a, b, c, d)), ("input", F32, (c, a)), ("output", F32, (a, b, c, d))]
    check(program(buffers, [nest]), [values(rng, (a, b, c, d), F32), values(rng, (c, a), F32)])


def test_one_compilation_serves_all_sizes(rng):
    n, m = Dim.axis("?n"), Dim.axis("?m")
    x = load(0, (m, 1))
    shifted = apply("sub", x, load(1, (1, 0)))
    stores = (store(2, (m, 1), apply("mul", shifted, load(3, (0, 1)))),)
    nest = Nest("map", (n, m), (), (Pass((), stores),), (), 1)
    buffers = [("input", F32, (n, m)), ("input", F32, (n,)), ("output", F32, (n, m)), ("input", F32, (m,))]
    made = program(buffers, [nest], axes=("?n", "?m"))
    executable = BACKEND.compile(made)
    for rows, columns in [(0, 0), (1, 1), (2, 15), (3, 16), (7, 17), (5, 64), (2, 5000), (300, 1), (9, 4097)]:
        sizes = {"?n": rows, "?m": columns}
        arrays = {0: values(rng, (rows, columns), F32), 1: values(rng, rows, F32), 3: values(rng, columns, F32)}
        found = executable.run(arrays, sizes)[0]
        np.testing.assert_array_equal(found, (arrays[0] - arrays[1][:, None]) * arrays[3])


# -- reductions ----------------------------------------------------------------------------------------


def reduction(op, n, m, dtype, form):
    """A reduction of x[n, m] over its columns (`row`, `scalar`), its rows (`column`) or all of it."""
    result = I32 if op.startswith("arg") else BOOL if op in ("any", "all") else dtype
    final = store(1, (1, 0), Reduced("r", result))
    if form == "column":
        reduce = Reduce("r", op, load(0, (1, m), dtype), result)
        nest, shape = Nest("r", (m,), (n,), (Pass((reduce,)),), (final,), 0), (m,)
    elif form == "full":
        reduce = Reduce("r", op, load(0, (m, 1), dtype), result)
        final = store(1, (0, 0), Reduced("r", result))
        nest, shape = Nest("r", (), (n, m), (Pass((reduce,)),), (final,), 1), ()
    else:
        reduce = Reduce("r", op, load(0, (m, 1), dtype), result)
        vector = 1 if form == "row" else -1
        nest, shape = Nest("r", (n,), (m,), (Pass((reduce,)),), (final,), vector), (n,)
    return nest, result, shape


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", [F32, F64, I32, U8, BOOL], ids=str)
def test_reductions(rng, op, dtype):
    if (op in ("sum", "prod")) if dtype == BOOL else op in ("any", "all"):
        pytest.skip("no such reduction of this dtype")
    for n, m in [(0, 3), (3, 0), (1, 1), (3, 15), (2, 16), (17, 17), (5, 100)]:
        array = values(rng, (n, m), dtype, nan=True)
        nests, buffers = [], [("input", dtype, (n, m))]
        for number, form in enumerate(("row", "column", "full", "scalar")):
            nest, result, shape = reduction(op, n, m, dtype, form)
            final = nest.finals[0]
            moved = Store(number + 1, final.index, final.value)
            nests.append(Nest(f"r{form}", nest.outer, nest.inner, nest.passes, (moved,), nest.vector_axis))
            buffers.append(("output", result, shape))
        check(program(buffers, nests), [array], atol=1e-5)


@pytest.mark.parametrize("form", ["row", "column", "full"])
@pytest.mark.parametrize("op", ["sum", "max", "argmax", "min", "argmin"])
def test_reductions_of_any_size(rng, op, form):
    n, m = Dim.axis("?n"), Dim.axis("?m")
    nest, result, shape = reduction(op, n, m, F32, form)
    made = program([("input", F32, (n, m)), ("output", result, shape)], [nest], axes=("?n", "?m"))
    executable = BACKEND.compile(made)
    for rows, columns in [(0, 4), (4, 0), (1, 1), (3, 16), (70, 33), (2, 9000), (900, 3)]:
        array = rng.standard_normal((rows, columns)).round(1).astype(np.float32)
        check(made, [array], {"?n": rows, "?m": columns}, executable=executable, atol=1e-5)


@pytest.mark.parametrize("form", ["row", "column", "full"])
def test_long_sums_are_exact_to_a_few_ulp(rng, form):
    n, m = (1, 100_003) if form != "column" else (100_003, 1)
    array = rng.uniform(0.9, 1.1, (n, m)).astype(np.float32)
    nest, result, shape = reduction("sum", n, m, F32, form)
    found = check(program([("input", F32, (n, m)), ("output", result, shape)], [nest]), [array], rtol=3e-7)
    np.testing.assert_allclose(found[0].reshape(-1)[0], array.astype(np.float64).sum(), rtol=3e-7)


def test_first_extremum_of_equal_ones_wins():
    array = np.zeros((6, 80), np.float32)
    array[1, 5:] = 1
    array[2, 79] = 1
    array[3, 17] = array[3, 40] = np.nan
    array[4] = -np.inf
    array[5, 33] = array[5, 16] = 2
    nest, result, shape = reduction("argmax", 6, 80, F32, "row")
    found = check(program([("input", F32, (6, 80)), ("output", result, shape)], [nest]), [array])
    assert found[0].tolist() == [0, 5, 79, 17, 0, 16]


def test_several_inner_axes_and_windows(rng):
    """A sum over overlapping 3×3 windows, and a maximum over two separated axes."""
    n, m, c = 6, 7, 20
    window = load(0, (m * c, c, 1, m * c, c))
    total = Nest("window", (n - 2, m - 2, c), (3, 3), (Pass((Reduce("s", "sum", window, F32),)),), (
        store(1, ((m - 2) * c, c, 1, 0, 0), Reduced("s", F32)),), 2)  # fmt: skip
    most = Nest("most", (m,), (n, c), (Pass((Reduce("s", "max", load(0, (c, m * c, 1)), F32),)),), (
        store(2, (1, 0, 0), Reduced("s", F32)),), 2)  # fmt: skip
    buffers = [("input", F32, (n, m, c)), ("output", F32, (n - 2, m - 2, c)), ("output", F32, (m,))]
    check(program(buffers, [total, most]), [values(rng, (n, m, c), F32)])


def softmax(n, m):
    x, out = load(0, (m, 1)), load(1, (m, 1))
    power = apply("exp", apply("sub", x, Reduced("most", F32)))
    passes = (
        Pass((Reduce("most", "max", x, F32),)),
        Pass((Reduce("total", "sum", power, F32),), (store(1, (m, 1), power),)),
        Pass((), (store(1, (m, 1), apply("div", out, Reduced("total", F32))),)),
    )
    return Nest("softmax", (n,), (m,), passes, (store(2, (1, 0), Reduced("most", F32)),), 1)


@pytest.mark.parametrize("backend", [BACKEND, LlvmBackend(AVX2), LlvmBackend(BASELINE)], ids=lambda b: b.target.name)
def test_passes_and_several_outputs(rng, backend):
    n, m = Dim.axis("?n"), Dim.axis("?m")
    buffers = [("input", F32, (n, m)), ("output", F32, (n, m)), ("output", F32, (n,))]
    made = program(buffers, [softmax(n, m)], axes=("?n", "?m"))
    executable = backend.compile(made)
    for rows, columns in [(1, 1), (3, 17), (4, 0), (0, 4), (5, 256), (2, 1001)]:
        sizes = {"?n": rows, "?m": columns}
        array = values(rng, (rows, columns), F32)
        check(made, [array], sizes, executable=executable)


def test_private_buffers_hold_a_row(rng):
    n, m = 9, 37
    x, kept = load(0, (m, 1)), load(2, (0, 1))
    square = apply("mul", x, x)
    passes = (
        Pass((Reduce("s", "sum", square, F32),), (store(2, (0, 1), square),)),
        Pass((), (store(1, (m, 1), apply("div", kept, Reduced("s", F32))),)),
    )
    buffers = [("input", F32, (n, m)), ("output", F32, (n, m)), ("private", F32, (m,), {"offset": 64})]
    nest = Nest("normalise", (n,), (m,), passes, (), 1)
    check(program(buffers, [nest], arena=64 + 2 * m * 4), [values(rng, (n, m), F32)])


@pytest.mark.parametrize("op", ["sum", "prod", "max", "argmin"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", [F32, I32], ids=str)
def test_prefixes(rng, op, exclusive, dtype):
    result = I64 if op.startswith("arg") else dtype
    for n, m in [(3, 0), (1, 1), (3, 17), (20, 33)]:
        along = Reduce("p", op, load(0, (m, 1), dtype), result, True, exclusive)
        down = Reduce("p", op, load(0, (1, m), dtype), result, True, exclusive)
        running = Running("p", result)
        nests = [
            Nest("along", (n,), (m,), (Pass((along,), (store(1, (m, 1), running),)),), (), 1),
            Nest("down", (m,), (n,), (Pass((down,), (store(2, (1, m), running),)),), (), 0),
        ]
        buffers = [("input", dtype, (n, m)), ("output", result, (n, m)), ("output", result, (n, m))]
        check(program(buffers, nests), [values(rng, (n, m), dtype)])


def test_deep_expressions(rng):
    """A chain far deeper than Python's stack, and one below a prefix."""
    n, depth = 20, 2000
    above, below = load(0, (1,), F64), Running("p", F64)
    for _ in range(depth):
        above = apply("add", above, Const(1.0, F64))
        below = apply("add", below, Const(1.0, F64))
    prefix = Reduce("p", "sum", load(0, (1,), F64), F64, True)
    nests = [
        Nest("map", (n,), (), (Pass((), (store(1, (1,), above),)),), (), 0),
        Nest("scan", (), (n,), (Pass((prefix,), (store(2, (1,), below),)),), (), 0),
    ]
    buffers = [("input", F64, (n,)), ("output", F64, (n,)), ("output", F64, (n,))]
    check(program(buffers, nests), [values(rng, n, F64)], rtol=1e-9)


# -- combining stores ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["add", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", [F32, I32], ids=str)
def test_scatter_combines_duplicates(rng, mode, dtype):
    n, m, rows = 50, 21, 7
    index = rng.integers(-rows, rows, n).astype(np.int64)
    flat = Nest("start", (rows, m), (), (Pass((), (store(2, (m, 1), Const(1, dtype)),)),), (), 1)
    place = Gathered(load(1, (0, 1), I64), rows, m)
    whole = Store(2, Index(0, (1, 0), (place,)), load(0, (1, m), dtype), mode)
    scatter = Nest("scatter", (m,), (n,), (Pass((), (whole,)),), (), 0)
    # Lanes along the scattered axis: two of them may hit one place.
    single = Gathered(load(1, (1,), I64), rows, 1)
    clear = Nest("clear", (rows,), (), (Pass((), (store(3, (1,), Const(1, dtype)),)),), (), 0)
    colliding = Store(3, Index(0, (0,), (single,)), load(0, (m,), dtype), mode)
    count = Nest("count", (), (n,), (Pass((), (colliding,)),), (), 0)
    buffers = [("input", dtype, (n, m)), ("input", I64, (n,)), ("output", dtype, (rows, m)), ("output", dtype, (rows,))]
    array = values(rng, (n, m), dtype)
    check(program(buffers, [flat, scatter, clear, count]), [array, index], rtol=1e-4)


def test_conditional_stores(rng):
    n = 77
    x = load(0, (1,))
    positive = apply("gt", x, Const(0.0, F32), dtype=BOOL)
    fill = Nest("fill", (n,), (), (Pass((), (store(1, (1,), Const(-1.0, F32)),)),), (), 0)
    some = Nest("some", (n,), (), (Pass((), (store(1, (1,), x, where=positive),)),), (), 0)
    check(program([("input", F32, (n,)), ("output", F32, (n,))], [fill, some]), [values(rng, n, F32)])


def test_strided_stores(rng):
    n = 35
    nests = [
        Nest(
            f"s{k}",
            (n,),
            (),
            (Pass((), (store(1, (2,), apply("neg", load(0, (1,))) if k else load(0, (1,)), k),)),),
            (),
            0,
        )
        for k in range(2)
    ]
    check(program([("input", F32, (n,)), ("output", F32, (n, 2))], nests), [values(rng, n, F32)])


# -- threads -------------------------------------------------------------------------------------------


def test_results_do_not_depend_on_the_number_of_threads(rng):
    n, m = 600, 700
    column, result, shape = reduction("sum", n, m, F32, "column")
    final = Store(3, column.finals[0].index, column.finals[0].value)
    column = Nest("columns", column.outer, column.inner, column.passes, (final,), 0)
    buffers = [("input", F32, (n, m)), ("output", F32, (n, m)), ("output", F32, (n,)), ("output", result, shape)]
    executable = BACKEND.compile(program(buffers, [softmax(n, m), column]))
    array = {0: values(rng, (n, m), F32)}
    found = []
    for threads in (1, 2):
        with pool.threads(threads):
            found.append(executable.run(array, {}))
    for one, two in zip(*found, strict=True):
        assert one.tobytes() == two.tobytes()
