"""Native matrix products against NumPy, alternating in one process.

Both sides run with the same number of threads; the best of several turns counts, and the ratio is the median of the
ratios of neighbouring turns. Run it with the variables OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE unset:

    python benchmarks/gemm_vs_numpy.py --threads 1
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@dataclass(frozen=True, slots=True)
class Shape:
    """One product; `a_transposed` and `b_transposed` say how the operands are stored."""

    m: int
    n: int
    k: int
    batch: int = 1
    a_transposed: bool = False
    b_transposed: bool = False
    dtype: str = "float32"

    def __str__(self) -> str:
        forms = f"{'T' if self.a_transposed else 'N'}{'T' if self.b_transposed else 'N'}"
        return f"{self.batch}x({self.m}x{self.n}x{self.k}) {forms} {self.dtype}"


SHAPES = (
    Shape(128, 256, 784),
    Shape(128, 10, 256),
    Shape(784, 256, 128, a_transposed=True),
    Shape(128, 256, 10, b_transposed=True),
    *(Shape(rows, 512, 784) for rows in (1, 7, 64, 300, 512)),
    *(Shape(rows, 512, 512) for rows in (1, 7, 64, 300, 512)),
    Shape(512, 1, 784),
    Shape(1024, 1024, 1024),
    Shape(64, 64, 32, batch=96),
    Shape(64, 64, 32, batch=96, b_transposed=True),
    Shape(128, 128, 64, batch=12),
    Shape(128, 128, 64, batch=12, b_transposed=True),
    *(Shape(rows, 512, 784, b_transposed=True) for rows in (1, 7, 64, 300)),
    Shape(256, 256, 256, dtype="float64"),
)

IDLE_SECONDS = 0.06
WARM_CALLS = 5
TURN_SECONDS = 0.004


def main() -> None:
    """Measure all shapes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", default="", help="measure the shapes whose name contains this")
    options = parser.parse_args()
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        # OpenBLAS reads it when it is loaded.
        os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    print(f"{'shape':<36}{'GF':>8}{'numpy':>8}{'ratio':>8}")
    for shape in SHAPES:
        if options.only in str(shape):
            ours, theirs, ratio = measure(shape, options.threads, options.turns)
            print(f"{shape!s:<36}{ours:8.1f}{theirs:8.1f}{ratio:8.2f}", flush=True)


def measure(shape: Shape, threads: int, turns: int) -> tuple[float, float, float]:
    """Return GFLOP/s of both sides (best turns) and the median ratio of their speeds."""
    import numpy as np

    from rlxlang.backends.llvm import pool
    from rlxlang.backends.llvm.gemm import ARGUMENTS, entry_name, gemm_symbols
    from rlxlang.backends.llvm.runtime import runtime

    native = runtime()
    pool.set_threads(threads)
    rng = np.random.default_rng(0)
    dtype = np.dtype(shape.dtype)

    def aligned(*sizes: int) -> np.ndarray:
        count = int(np.prod(sizes))
        raw = np.zeros(count * dtype.itemsize + 64, np.uint8)
        start = -raw.ctypes.data % 64
        values = raw[start : start + count * dtype.itemsize].view(dtype).reshape(sizes)
        values[...] = rng.standard_normal(sizes)
        return values

    def operand(rows: int, columns: int, transposed: bool) -> np.ndarray:
        if transposed:
            return aligned(shape.batch, columns, rows).swapaxes(1, 2)
        return aligned(shape.batch, rows, columns)

    a = operand(shape.m, shape.k, shape.a_transposed)
    b = operand(shape.k, shape.n, shape.b_transposed)
    c, expected = aligned(shape.batch, shape.m, shape.n), aligned(shape.batch, shape.m, shape.n)
    record = np.zeros(len(ARGUMENTS.fields), np.int64)
    values = {"batch": shape.batch, "m": shape.m, "n": shape.n, "k": shape.k, "threads": threads}
    for name, view in (("a", a), ("b", b), ("c", c)):
        values |= {name: view.ctypes.data}
        values |= {f"{name}_batch": view.strides[0] // dtype.itemsize, f"{name}_row": view.strides[1] // dtype.itemsize}
        if name != "c":
            values |= {f"{name}_column": view.strides[2] // dtype.itemsize}
    for name, value in values.items():
        record[ARGUMENTS.index(name)] = value
    address = gemm_symbols(shape.dtype, native.symbols())[entry_name(shape.dtype)]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
    argument = ctypes.c_void_p(record.ctypes.data)
    if shape.batch == 1:
        a, b, expected, c = a[0], b[0], expected[0], c[0]

    flops = 2 * shape.batch * shape.m * shape.n * shape.k
    repeats = max(3, int(TURN_SECONDS / threads / (flops / (8e10 * threads) + 2e-6)))
    function(argument)
    np.matmul(a, b, out=expected)
    np.testing.assert_allclose(c, expected, rtol=1e-3, atol=1e-3)
    ours, theirs = [], []
    for _ in range(turns):
        if threads > 1:
            # OpenBLAS' workers spin for about 25 ms after a product and would hold a core against ours.
            time.sleep(IDLE_SECONDS)
            for _ in range(WARM_CALLS):
                function(argument)
        start = time.perf_counter()
        for _ in range(repeats):
            function(argument)
        end_ours = time.perf_counter()
        for _ in range(WARM_CALLS if threads > 1 else 1):
            np.matmul(a, b, out=expected)
        start_theirs = time.perf_counter()
        for _ in range(repeats):
            np.matmul(a, b, out=expected)
        end = time.perf_counter()
        ours.append((end_ours - start) / repeats)
        theirs.append((end - start_theirs) / repeats)
    ratio = statistics.median(their / our for our, their in zip(ours, theirs, strict=True))
    return flops / min(ours) / 1e9, flops / min(theirs) / 1e9, ratio


if __name__ == "__main__":
    main()
