"""Matrix products as native code, against NumPy in double precision."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest

from rlxlang.backends.llvm import jit, pool
from rlxlang.backends.llvm.gemm import ARGUMENTS, emit_gemm_call, entry_name
from rlxlang.backends.llvm.gemm.module import GemmModule, l2_bytes
from rlxlang.backends.llvm.gemm.policy import tiling
from rlxlang.backends.llvm.text import Function, ModuleText
from rlxlang.backends.llvm.vector import AVX2, AVX512, BASELINE, VectorTarget, target_of_host

HOST = target_of_host()
# Narrower vectors run on wider machines, so the paths of older machines are tested here too.
TARGETS = [target for target in (AVX512, AVX2, BASELINE) if target.width_bits <= HOST.width_bits]
if HOST not in TARGETS:
    TARGETS.append(HOST)

DTYPES = {"float32": np.float32, "float64": np.float64}
EPILOGUE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 5)
PARALLEL_FOR = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32
)
RANGE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class ChunkedPool:
    """Stands in for the thread pool: hands out the ranges one by one, last first, and counts them."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self._capped = PARALLEL_FOR(self._run)
        self.symbols = {
            "parallel_for": ctypes.cast(self._capped, ctypes.c_void_p).value or 0,
            "parallel_for_capped": ctypes.cast(self._capped, ctypes.c_void_p).value or 0,
        }

    def _run(self, function: int, context: int, count: int, grain: int, most: int) -> int:
        call = RANGE(function)
        self.ranges = [(low, min(low + grain, count)) for low in range(0, count, grain)]
        for low, high in reversed(self.ranges):
            status: int = call(context, low, high, 0)
            if status:
                return status
        return 0


POOL = ChunkedPool()


@cache
def linked(dtype: str, target: VectorTarget) -> dict[str, int]:
    """Return a module linked to this file's pool: the one that the rest of the process uses has the real one."""
    return GemmModule(dtype, target, l2_bytes()).load(POOL.symbols)


@dataclass
class Product:
    """One call: sizes, operands (as NumPy views of their buffers) and what is checked afterwards."""

    dtype: str
    target: VectorTarget
    accumulate: bool = False
    threads: int = 1
    epilogue: Callable[[int, int, int, int, int], None] | None = None
    status: int = field(default=-1, init=False)

    def run(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        """c[batch, m, n] (+)= a[batch, m, k] @ b[batch, k, n] with whatever strides the views have."""
        size = DTYPES[self.dtype]().itemsize
        record = np.zeros(len(ARGUMENTS.fields), np.int64)
        callback = EPILOGUE(lambda _context, *ranges: self.epilogue(*ranges)) if self.epilogue else None
        values = {
            "batch": c.shape[0],
            "m": c.shape[1],
            "n": c.shape[2],
            "k": a.shape[2],
            "c": c.ctypes.data,
            "c_row": c.strides[1] // size,
            "c_batch": c.strides[0] // size,
            "accumulate": int(self.accumulate),
            "epilogue": ctypes.cast(callback, ctypes.c_void_p).value or 0 if callback else 0,
            "context": 0,
            "threads": self.threads,
        }
        for name, view in (("a", a), ("b", b)):
            values[name] = view.ctypes.data
            values[f"{name}_row"] = view.strides[1] // size
            values[f"{name}_column"] = view.strides[2] // size
            values[f"{name}_batch"] = 0 if view.shape[0] == 1 else view.strides[0] // size
        for name, value in values.items():
            record[ARGUMENTS.index(name)] = value
        address = linked(self.dtype, self.target)[entry_name(self.dtype)]
        function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
        self.status = function(record.ctypes.data)
        assert self.status == 0


@dataclass(frozen=True)
class Case:
    """Sizes and layout of one product."""

    batch: int
    m: int
    n: int
    k: int
    a_transposed: bool = False
    b_transposed: bool = False
    a_shared: bool = False
    b_shared: bool = False
    padding: int = 0


def stored(
    rng: np.random.Generator, dtype: str, batch: int, rows: int, columns: int, transposed: bool, padding: int
) -> np.ndarray:
    """Return random numbers [batch, rows, columns] in a buffer of rows (or columns) longer by `padding`."""
    first, second = (columns, rows) if transposed else (rows, columns)
    buffer = rng.standard_normal((batch, first, second + padding)).astype(DTYPES[dtype])
    view = buffer[:, :, :second]
    return view.swapaxes(1, 2) if transposed else view


def operands(rng: np.random.Generator, dtype: str, case: Case) -> tuple[np.ndarray, np.ndarray]:
    a_batch = 1 if case.a_shared else case.batch
    b_batch = 1 if case.b_shared else case.batch
    a = stored(rng, dtype, a_batch, case.m, case.k, case.a_transposed, case.padding)
    b = stored(rng, dtype, b_batch, case.k, case.n, case.b_transposed, case.padding)
    return a, b


def check(rng: np.random.Generator, product: Product, case: Case) -> None:
    """Run a product in the middle of a larger buffer; nothing around c may change."""
    a, b = operands(rng, product.dtype, case)
    guard = 3
    buffer = rng.standard_normal((case.batch, case.m + 2 * guard, case.n + 2 * guard)).astype(DTYPES[product.dtype])
    before = buffer.copy()
    inside = np.s_[:, guard : guard + case.m, guard : guard + case.n]
    c = buffer[inside]
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if product.accumulate:
        expected = expected + before[inside]
    product.run(a, b, c)
    unit = np.finfo(DTYPES[product.dtype]).eps
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + np.abs(before[inside])
    assert np.all(np.abs(c - expected) <= unit * (2 + case.k) * bound), case
    before[inside] = c
    np.testing.assert_array_equal(buffer, before)


SIZES = [1, 2, 3, 5, 6, 7, 8, 12, 13, 15, 16, 17, 31, 33, 47, 48, 63, 64, 65, 80, 100, 129]


def random_case(rng: np.random.Generator) -> Case:
    m, n, k = (int(rng.choice(SIZES)) for _ in range(3))
    flags = [bool(flag) for flag in rng.integers(0, 2, 4)]
    return Case(int(rng.choice([1, 1, 2, 3])), m, n, k, *flags, padding=int(rng.choice([0, 0, 1, 5])))


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> VectorTarget:
    chosen: VectorTarget = request.param
    return chosen


@pytest.fixture(params=sorted(DTYPES))
def dtype(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


def test_random_products(rng: np.random.Generator, dtype: str, target: VectorTarget) -> None:
    for _ in range(250):
        product = Product(dtype, target, accumulate=bool(rng.integers(2)))
        check(rng, product, random_case(rng))


@pytest.mark.parametrize(
    "case",
    [
        Case(1, 130, 520, 300),  # wide rows of b
        Case(1, 130, 512, 600),  # packed by copying: rows of b alias; two blocks along k
        Case(1, 70, 96, 700, b_transposed=True),  # packed by transposing, two blocks along k
        Case(1, 9, 130, 300, b_transposed=True),  # dot form
        Case(1, 1, 70, 301, b_transposed=True),  # dot form, one row
        Case(1, 300, 1, 77),  # one column, computed as one row
        Case(1, 300, 1, 77, a_transposed=True),
        Case(1, 400, 33, 600, a_transposed=True),  # several blocks of rows
        Case(5, 20, 31, 40, b_shared=True),  # batch merged into the rows
        Case(5, 1, 31, 40, b_shared=True, padding=3),
        Case(20, 1, 31, 400, b_shared=True, b_transposed=True),
        Case(5, 1, 1, 40, b_shared=True),
        Case(5, 31, 1, 40, a_shared=True),
    ],
    ids=str,
)
def test_large_forms(rng: np.random.Generator, dtype: str, target: VectorTarget, case: Case) -> None:
    for accumulate in (False, True):
        check(rng, Product(dtype, target, accumulate=accumulate), case)


def test_dense_column(rng: np.random.Generator, dtype: str, target: VectorTarget) -> None:
    """One column whose elements follow one another takes the swapped form; its epilogue sees c's own axes."""
    for a_transposed in (False, True):
        b = stored(rng, dtype, 2, 90, 1, True, 0)
        c = np.full((2, 150, 1), 7, DTYPES[dtype])
        shared = stored(rng, dtype, 1, 150, 90, a_transposed, 0)
        Product(dtype, target).run(shared, b, c)
        np.testing.assert_allclose(c, shared.astype(np.float64) @ b, rtol=0, atol=90 * 9 * np.finfo(c.dtype).eps)
        a = stored(rng, dtype, 2, 150, 90, a_transposed, 0)
        seen = np.zeros(c.shape, np.int64)

        def epilogue(batch: int, m0: int, m1: int, n0: int, n1: int, seen: np.ndarray = seen) -> None:
            seen[batch, m0:m1, n0:n1] += 1

        Product(dtype, target, epilogue=epilogue).run(a, b, c)
        np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=0, atol=90 * 9 * np.finfo(c.dtype).eps)
        assert np.all(seen == 1)


def test_empty_sum_stores_zero(rng: np.random.Generator, dtype: str, target: VectorTarget) -> None:
    for shape in ((2, 9, 70), (1, 1, 1), (1, 40, 1)):
        batch, m, n = shape
        a, b = np.zeros((batch, m, 0), DTYPES[dtype]), np.zeros((batch, 0, n), DTYPES[dtype])
        calls: list[tuple[int, ...]] = []
        c = rng.standard_normal(shape).astype(DTYPES[dtype])
        kept = c.copy()

        def epilogue(*ranges: int, calls: list[tuple[int, ...]] = calls) -> None:
            calls.append(ranges)

        Product(dtype, target, accumulate=True, epilogue=epilogue).run(a, b, c)
        np.testing.assert_array_equal(c, kept)
        Product(dtype, target).run(a, b, c)
        assert np.all(c == 0)
        assert sum((m1 - m0) * (n1 - n0) for _, m0, m1, n0, n1 in calls) == c.size


def test_empty_result_touches_nothing(dtype: str, target: VectorTarget) -> None:
    for shape in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        batch, m, n = shape

        def epilogue(*ranges: int) -> None:
            pytest.fail("there is no block to finish")

        a, b = np.zeros((batch, m, 5), DTYPES[dtype]), np.zeros((batch, 5, n), DTYPES[dtype])
        Product(dtype, target, epilogue=epilogue).run(a, b, np.zeros(shape, DTYPES[dtype]))


@pytest.mark.parametrize("threads", [1, 3])
def test_epilogue_sees_every_finished_element_once(
    rng: np.random.Generator, dtype: str, target: VectorTarget, threads: int
) -> None:
    cases = [
        Case(2, 130, 300, 270),
        Case(1, 60, 200, 500, b_transposed=True),
        Case(1, 30, 200, 500, b_transposed=True),
        Case(1, 200, 512, 1100),
        Case(3, 7, 10, 4),
    ]
    for case in cases:
        a, b = operands(rng, dtype, case)
        c = np.zeros((case.batch, case.m, case.n), DTYPES[dtype])
        seen = np.zeros(c.shape, np.int64)
        finished = np.zeros_like(c)
        widths: list[int] = []

        def epilogue(
            batch: int,
            m0: int,
            m1: int,
            n0: int,
            n1: int,
            c: np.ndarray = c,
            seen: np.ndarray = seen,
            finished: np.ndarray = finished,
            widths: list[int] = widths,
        ) -> None:
            widths.append(n1 - n0)
            seen[batch, m0:m1, n0:n1] += 1
            finished[batch, m0:m1, n0:n1] = c[batch, m0:m1, n0:n1]
            c[batch, m0:m1, n0:n1] *= 2

        Product(dtype, target, threads=threads, epilogue=epilogue).run(a, b, c)
        assert np.all(seen == 1), case
        # Wide blocks, because epilogues are vectorised along the columns.
        assert max(widths) >= min(case.n, 64)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(finished, exact, rtol=0, atol=np.finfo(c.dtype).eps * 40 * case.k)
        np.testing.assert_array_equal(c, 2 * finished)


def test_result_does_not_depend_on_threads(rng: np.random.Generator, dtype: str, target: VectorTarget) -> None:
    cases = [
        Case(1, 133, 300, 784),
        Case(1, 300, 133, 784, a_transposed=True),
        Case(1, 260, 512, 600),
        Case(1, 50, 300, 784, b_transposed=True),
        Case(1, 90, 300, 784, b_transposed=True),
        Case(1, 1, 600, 3000),
        Case(40, 64, 64, 32),
    ]
    for case in cases:
        a, b = operands(rng, dtype, case)
        results = []
        for threads in (1, 2, 7):
            c = np.full((case.batch, case.m, case.n), np.nan, DTYPES[dtype])
            POOL.ranges = []
            Product(dtype, target, threads=threads).run(a, b, c)
            assert (len(POOL.ranges) > 1) == (threads > 1), case
            results.append(c)
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])


def test_small_products_stay_on_one_thread(rng: np.random.Generator) -> None:
    POOL.ranges = []
    check(rng, Product("float32", HOST, threads=8), Case(1, 64, 64, 32))
    assert POOL.ranges == []


def test_real_pool(rng: np.random.Generator) -> None:
    """The product called from generated code, split by the native thread pool."""
    loaded = jit.load(jit.compile_object(pool.pool_ir()), pool.EXPORTS, immortal=True)
    symbols = GemmModule("float32", HOST, 1 << 20).load(loaded.symbols())
    ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(loaded.address("pool_set_threads"))(2)
    module = ModuleText("caller")
    f = Function(module, "caller", [("ptr", "a"), ("ptr", "b"), ("ptr", "c")], "i32")
    f.ret(
        emit_gemm_call(
            f, "float32", m=300, n=400, k=200, a="%a", a_row=200, b="%b", b_row=400, c="%c", c_row=400, threads=2
        )
    )
    caller = jit.compile_and_load(module.render(), ["caller"], symbols)
    a = rng.standard_normal((300, 200)).astype(np.float32)
    b = rng.standard_normal((200, 400)).astype(np.float32)
    c = np.empty((300, 400), np.float32)
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(caller.address("caller"))
    for _ in range(20):
        c[:] = np.nan
        assert call(a.ctypes.data, b.ctypes.data, c.ctypes.data) == 0
        np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=0, atol=1e-3)
    ctypes.CFUNCTYPE(None)(loaded.address("pool_stop"))()


def test_emit_call_names_every_field() -> None:
    f = Function(ModuleText(), "f")
    with pytest.raises(TypeError, match="missing fields"):
        emit_gemm_call(f, "float32", m=1)
    with pytest.raises(TypeError, match="unknown fields"):
        emit_gemm_call(f, "float32", rows=1)


class GuardedArrays:
    """Arrays that end where unreadable memory begins."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return a copy of a contiguous array whose last byte is the last one that may be read."""
        page = mmap.PAGESIZE
        length = -(-values.nbytes // page) * page
        mapping = mmap.mmap(-1, length + page)
        self._maps.append(mapping)
        whole = np.frombuffer(mapping, np.uint8)
        protect = ctypes.CDLL(None).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert protect(whole.ctypes.data + length, page, 0) == 0
        placed = whole[length - values.nbytes : length].view(values.dtype).reshape(values.shape)
        placed[...] = values
        return placed


@pytest.fixture
def guarded() -> GuardedArrays:
    return GuardedArrays()


def test_reads_and_writes_end_with_the_arrays(
    rng: np.random.Generator, guarded: GuardedArrays, dtype: str, target: VectorTarget
) -> None:
    cases = [random_case(rng) for _ in range(30)]
    cases += [Case(1, 130, 513, 260), Case(1, 9, 37, 300, b_transposed=True), Case(1, 1, 9, 300, b_transposed=True)]
    cases += [Case(1, 40, 37, 300, b_transposed=True, a_transposed=True), Case(1, 129, 1, 31)]
    for case in cases:
        a_shape = (case.batch, case.k, case.m) if case.a_transposed else (case.batch, case.m, case.k)
        b_shape = (case.batch, case.n, case.k) if case.b_transposed else (case.batch, case.k, case.n)
        a = guarded.place(rng.standard_normal(a_shape).astype(DTYPES[dtype]))
        b = guarded.place(rng.standard_normal(b_shape).astype(DTYPES[dtype]))
        c = guarded.place(np.zeros((case.batch, case.m, case.n), DTYPES[dtype]))
        a = a.swapaxes(1, 2) if case.a_transposed else a
        b = b.swapaxes(1, 2) if case.b_transposed else b
        Product(dtype, target, accumulate=True).run(a, b, c)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(c, exact, rtol=0, atol=np.finfo(c.dtype).eps * 40 * case.k)


def test_transpose(rng: np.random.Generator, guarded: GuardedArrays, dtype: str, target: VectorTarget) -> None:
    size = DTYPES[dtype]().itemsize
    address = linked(dtype, target)[f"transpose_{size}"]
    function = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 3
    )(address)
    shapes = [(int(rng.choice(SIZES)), int(rng.choice(SIZES))) for _ in range(40)]
    for rows, columns in [*shapes, (1, 1000), (1000, 1), (300, 517), (0, 5), (5, 0)]:
        bits = rng.integers(0, 2**63, (rows, columns), dtype=np.int64).astype(f"i{size}")
        source = guarded.place(bits) if bits.size else bits
        target_array = guarded.place(np.zeros((columns, rows), bits.dtype)) if bits.size else np.zeros((columns, rows))
        assert function(target_array.ctypes.data, rows, source.ctypes.data, columns, rows, columns) == 0
        np.testing.assert_array_equal(target_array, bits.T)
    padded = rng.standard_normal((40, 50)).astype(DTYPES[dtype])
    result = np.full((33, 60), 5, DTYPES[dtype])
    assert function(result.ctypes.data, 60, padded.ctypes.data, 50, 21, 33) == 0
    np.testing.assert_array_equal(result[:, :21], padded[:21, :33].T)
    assert np.all(result[:, 21:] == 5)


def test_warm_load_generates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = GemmModule("float32", HOST, 1 << 20)
    code = module.object_code()

    def render(self: GemmModule) -> str:
        raise AssertionError("a warm start must not generate the module")

    monkeypatch.setattr(GemmModule, "render", render)
    assert module.object_code() == code


@pytest.mark.parametrize("l2_bytes", [1 << 18, 1 << 20, 1 << 22])
def test_tiles_fit_the_registers(dtype: str, l2_bytes: int) -> None:
    for target, registers in ((AVX512, 32), (AVX2, 16), (BASELINE, 16)):
        sizes = tiling(target, dtype, l2_bytes)
        for vectors, rows in enumerate(sizes.rows, start=1):
            assert rows * vectors + vectors + 1 <= registers
        assert sizes.row_block % sizes.rows[-1] == 0
        assert sizes.packed_bytes <= 512 << 10
