"""Contractions against the interpreter: layouts, batches, epilogues, element types."""

from __future__ import annotations

import numpy as np
import pytest

from rlxlang.backends.llvm import LlvmBackend, pool
from rlxlang.backends.reference import ReferenceBackend
from rlxlang.kernels import (
    Accumulator,
    Apply,
    Buffer,
    Const,
    Contract,
    Gathered,
    Index,
    Load,
    Operand,
    Program,
    Store,
)
from rlxlang.types import F16, F32, F64, I8, I32, I64, U64, Dim

BACKEND = LlvmBackend()
REFERENCE = ReferenceBackend()


def program(buffers, contract, axes=(), threads=2, dims=()):
    made = tuple(Buffer(i, kind, dtype, shape, f"b{i}") for i, (kind, dtype, shape) in enumerate(buffers))
    listed = tuple(dict.fromkeys((*(Dim.axis(a) for a in axes), *dims)))
    outputs = tuple(b.id for b in made if b.kind == "output")
    return Program("test", axes, made, (contract,), listed, 0, threads, outputs)


def values(rng, shape, dtype):
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(0 if dtype.kind == "uint" else -9, 10, shape).astype(dtype.numpy)


def check(made, arrays, sizes=None, *, executable=None, rtol=1e-5, atol=3e-5):
    executable = executable or BACKEND.compile(made)
    given = dict(enumerate(arrays))
    wanted = REFERENCE.compile(made).run(given, sizes or {})
    found = executable.run(given, sizes or {})
    for got, want in zip(found, wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(got, want)
    return found


def matrix(buffer, rows, columns, transposed):
    """A matrix [rows, columns], kept transposed or not."""
    return Operand(buffer, 0, (), 1, rows) if transposed else Operand(buffer, 0, (), columns, 1)


@pytest.mark.parametrize("dtype", [F32, F64, I8, I32, I64, U64], ids=str)
@pytest.mark.parametrize("sides", ["nn", "tn", "nt", "tt"])
def test_layouts(rng, dtype, sides):
    for m, n, k in [(1, 4, 4), (5, 1, 7), (3, 17, 9), (33, 40, 21), (1, 1, 100), (16, 16, 0), (0, 3, 4)]:
        left, right = matrix(0, m, k, sides[0] == "t"), matrix(1, k, n, sides[1] == "t")
        shapes = [(k, m) if sides[0] == "t" else (m, k), (n, k) if sides[1] == "t" else (k, n)]
        contract = Contract("product", (), m, n, k, left, right, 2, dtype)
        buffers = [("input", dtype, shapes[0]), ("input", dtype, shapes[1]), ("output", dtype, (m, n))]
        check(program(buffers, contract), [values(rng, s, dtype) for s in shapes])


@pytest.mark.parametrize("sides", ["nn", "tn", "nt"])
def test_dynamic_sizes(rng, sides):
    m, n, k = (Dim.axis(a) for a in ("?m", "?n", "?k"))
    left, right = matrix(0, m, k, sides[0] == "t"), matrix(1, k, n, sides[1] == "t")
    shapes = [(k, m) if sides[0] == "t" else (m, k), (n, k) if sides[1] == "t" else (k, n)]
    bias = Load(3, Index(0, (0, 1)), F32)
    value = Apply("maximum", (Apply("add", (Accumulator(F32), bias), F32), Const(0.0, F32)), F32)
    epilogue = (Store(2, Index(0, (n, 1)), value),)
    contract = Contract("product", (), m, n, k, left, right, 2, F32, epilogue)
    buffers = [("input", F32, shapes[0]), ("input", F32, shapes[1]), ("output", F32, (m, n)), ("input", F32, (n,))]
    made = program(buffers, contract, ("?m", "?n", "?k"))
    executable = BACKEND.compile(made)
    for sizes in [(1, 1, 1), (0, 4, 3), (3, 0, 4), (5, 6, 0), (7, 33, 12), (65, 70, 130), (1, 300, 200), (300, 1, 200)]:
        named = dict(zip(("?m", "?n", "?k"), sizes, strict=True))
        number = {m: sizes[0], n: sizes[1], k: sizes[2]}
        a, b = (values(rng, tuple(number[d] for d in s), F32) for s in shapes)
        bias_value = values(rng, sizes[1], F32)
        wanted = REFERENCE.compile(made).run({0: a, 1: b, 3: bias_value}, named)[0]
        found = executable.run({0: a, 1: b, 3: bias_value}, named)[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("keeps", [True, False])
def test_epilogue_over_a_batch(rng, size, keeps):
    """Scale per batch, bias per column, residual per element; the sum and its sign are stored, one of them transposed."""
    h, m, n, k = 4, size, size + 1, size + 2
    scale, bias = Load(3, Index(0, (1, 0, 0)), F32), Load(4, Index(0, (0, 0, 1)), F32)
    residual = Load(5, Index(0, (m * n, n, 1)), F32)
    total = Apply("fma", (Accumulator(F32), scale, Apply("add", (bias, residual), F32)), F32)
    sign = Apply("cast", (Apply("sign", (total,), F32),), I32)
    epilogue = (Store(6, Index(0, (m * n, 1, m)), total), Store(7, Index(0, (m * n, n, 1)), sign))
    left, right = Operand(0, 0, (m * k,), k, 1), Operand(1, 0, (k * n,), n, 1)
    contract = Contract("product", (h,), m, n, k, left, right, 2, F32, epilogue, keeps)
    kind = "output" if keeps else "temp"
    buffers = [("input", F32, (h, m, k)), ("input", F32, (h, k, n)), (kind, F32, (h, m, n)), ("input", F32, (h,))]
    buffers += [("input", F32, (n,)), ("input", F32, (h, m, n)), ("output", F32, (h, n, m)), ("output", I32, (h, m, n))]
    made = program(buffers, contract)
    made = Program("test", (), made.buffers, made.steps, (), h * m * n * 4, 2, made.outputs)
    arrays = {i: values(rng, b[2], b[1]) for i, b in enumerate(buffers) if b[0] == "input"}
    wanted = REFERENCE.compile(made).run(arrays, {})
    found = BACKEND.compile(made).run(arrays, {})
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("size", [5, 24])
def test_batches_that_do_not_compose(rng, size, epilogue):
    """Heads interleaved with rows, the right operand shared by some batch axes: x[b, m, h, k] @ y[h, k, n]."""
    b, h, m, n, k = 3, 2, size, size + 3, size
    left, right = Operand(0, 0, (m * h * k, k), h * k, 1), Operand(1, 0, (0, k * n), n, 1)
    per_batch = Load(3, Index(0, (h, 1, 0, 0)), F32)
    value = Apply("mul", (Accumulator(F32), per_batch), F32)
    stores = (Store(2, Index(0, (h * m * n, m * n, n, 1)), value),) if epilogue else ()
    contract = Contract("product", (b, h), m, n, k, left, right, 2, F32, stores)
    buffers = [("input", F32, (b, m, h, k)), ("input", F32, (h, k, n)), ("output", F32, (b, h, m, n))]
    buffers.append(("input", F32, (b, h)))
    arrays = {i: values(rng, s[2], F32) for i, s in enumerate(buffers) if i != 2}
    made = program(buffers, contract)
    wanted = REFERENCE.compile(made).run(arrays, {})[0]
    np.testing.assert_allclose(BACKEND.compile(made).run(arrays, {})[0], wanted, rtol=1e-5, atol=3e-5)


def test_short_floats_are_widened(rng):
    contract = Contract("product", (), 6, 20, 9, matrix(0, 6, 9, False), matrix(1, 9, 20, False), 2, F32)
    buffers = [("input", F16, (6, 9)), ("input", F32, (9, 20)), ("output", F32, (6, 20))]
    check(program(buffers, contract), [values(rng, (6, 9), F16), values(rng, (9, 20), F32)])


def test_epilogue_scatters_to_gathered_rows(rng):
    m, n, k = 30, 40, 20
    place = Gathered(Load(3, Index(0, (1, 0)), I64), 100, n)
    stores = (Store(4, Index(0, (0, 1), (place,)), Accumulator(F32)),)
    contract = Contract("product", (), m, n, k, matrix(0, m, k, False), matrix(1, k, n, False), 2, F32, stores)
    buffers = [("input", F32, (m, k)), ("input", F32, (k, n)), ("output", F32, (m, n)), ("input", I64, (m,))]
    buffers.append(("output", F32, (100, n)))
    index = rng.permutation(100)[:m]
    a, b = values(rng, (m, k), F32), values(rng, (k, n), F32)
    found = BACKEND.compile(program(buffers, contract)).run({0: a, 1: b, 3: index}, {})
    np.testing.assert_allclose(found[1][index], a @ b, rtol=1e-5, atol=3e-5)


def test_results_do_not_depend_on_the_number_of_threads(rng):
    m, n, k = 300, 320, 310
    value = Apply("tanh", (Accumulator(F32),), F32)
    stores = (Store(2, Index(0, (n, 1)), value),)
    contract = Contract("product", (), m, n, k, matrix(0, m, k, False), matrix(1, k, n, False), 2, F32, stores)
    buffers = [("input", F32, (m, k)), ("input", F32, (k, n)), ("output", F32, (m, n))]
    executable = BACKEND.compile(program(buffers, contract))
    arrays = {0: values(rng, (m, k), F32), 1: values(rng, (k, n), F32)}
    found = []
    for threads in (1, 2):
        with pool.threads(threads):
            found.append(executable.run(arrays, {})[0].tobytes())
    assert found[0] == found[1]
