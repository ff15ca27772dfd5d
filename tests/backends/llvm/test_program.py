"""Whole programs: steps, loops, memory, the call path, the cache."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rlxlang.backends.llvm import LlvmBackend, cache
from rlxlang.backends.llvm.vector import AVX2, BASELINE
from rlxlang.diagnostics.errors import RlxBackendError, RlxTypeError
from rlxlang.kernels import Apply, Buffer, Const, Index, Load, Nest, Pass, Program, Reduce, Reduced, Store
from rlxlang.types import C64, F32, F64, I64, Dim

BACKEND = LlvmBackend()


def load_programs() -> ModuleType:
    if "backend_programs" not in sys.modules:
        file = Path(__file__).resolve().parents[1] / "programs.py"
        spec = importlib.util.spec_from_file_location("backend_programs", file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["backend_programs"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["backend_programs"])
    return sys.modules["backend_programs"]


programs = load_programs()


@pytest.mark.parametrize("name", programs.EXAMPLES)
def test_example(name, rng):
    programs.check(BACKEND, programs.EXAMPLES[name](rng))


@pytest.mark.parametrize("target", [AVX2, BASELINE], ids=lambda t: t.name)
def test_examples_with_narrower_vectors(target, rng):
    backend = LlvmBackend(target)
    for make in programs.EXAMPLES.values():
        programs.check(backend, make(rng))


def scale_program(shape, *, kind="input", factor=3.0):
    """y = factor · x over one axis, through a temporary."""
    n = shape[0]
    x, half = Load(0, Index(0, (1,)), F32), Load(1, Index(0, (1,)), F32)
    first = Nest(
        "first", (n,), (), (Pass((), (Store(1, Index(0, (1,)), Apply("mul", (x, Const(factor, F32)), F32)),)),), (), 0
    )
    second = Nest("second", (n,), (), (Pass((), (Store(2, Index(0, (1,)), Apply("add", (half, x), F32)),)),), (), 0)
    buffers = (Buffer(0, kind, F32, shape, "x"), Buffer(1, "temp", F32, shape), Buffer(2, "output", F32, shape, "y"))
    axes = ("?n",) if isinstance(n, Dim) else ()
    return Program("scale", axes, buffers, (first, second), (n,) if axes else (), n * 4, 2, (2,))


def exact(*shapes):
    def prepare(args):
        arrays = [np.ascontiguousarray(a, np.float32) for a in args]
        return arrays, ({"?n": arrays[0].shape[0]} if shapes else {})

    return prepare


def test_bound_call_serves_every_size_on_the_fast_path(rng):
    function = BACKEND.compile(scale_program((Dim.axis("?n"),))).bind({}, exact("?n"), "array", "scale")
    for n in [3, 100, 0, 3, 5, 7, 9, 11, 13, 15, 17, 19, 3]:
        x = rng.standard_normal(n).astype(np.float32)
        np.testing.assert_allclose(function(x), 4 * x, rtol=1e-6)
    assert function.__name__ == "scale"
    np.testing.assert_allclose(function([1, 2, 3]), [4, 8, 12])


def test_inputs_by_name_are_refused():
    function = BACKEND.compile(scale_program((2,))).bind({}, exact(), "array", "scale")
    with pytest.raises(RlxTypeError, match=r"scale takes its inputs by position, not as `x=`"):
        function(x=np.ones(2, np.float32))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_bound_calls_go_on_in_the_child_of_a_fork(rng):
    n = 300_000
    function = BACKEND.compile(scale_program((n,))).bind({}, exact(), "array", "scale")
    x = rng.standard_normal(n).astype(np.float32)
    function(x)
    child = os.fork()
    if child == 0:
        right = np.allclose(function(x), 4 * x, rtol=1e-6) and np.allclose(function(list(x)), 4 * x, rtol=1e-6)
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_allclose(function(x), 4 * x, rtol=1e-6)


def test_bound_call_results(rng):
    x = rng.standard_normal(10).astype(np.float32)
    executable = BACKEND.compile(scale_program((10,)))
    (only,) = executable.bind({}, exact(), "tuple", "scale")(x)
    np.testing.assert_allclose(only, 4 * x, rtol=1e-6)
    square = Apply("mul", (Load(0, Index(0, (1,)), F32),) * 2, F32)
    reduce = Reduce("s", "sum", square, F32)
    final = Store(1, Index(0, (0,)), Reduced("s", F32))
    norm = Nest("norm", (), (10,), (Pass((reduce,)),), (final,), 0)
    buffers = (Buffer(0, "input", F32, (10,), "x"), Buffer(1, "output", F32, (), "y"))
    executable = BACKEND.compile(Program("norm", (), buffers, (norm,), (), 0, 1, (1,)))
    found = executable.bind({}, exact(), "float", "norm")(x)
    assert isinstance(found, float)
    assert found == pytest.approx(float((x * x).sum()), rel=1e-6)


def test_state_is_updated_in_place_by_bound_calls():
    state, step = np.zeros(40, np.float32), Load(1, Index(0, (1,)), F32)
    value = Apply("add", (Load(0, Index(0, (1,)), F32), step), F32)
    nest = Nest("add", (40,), (), (Pass((), (Store(0, Index(0, (1,)), value),)),), (), 0)
    buffers = (Buffer(0, "state", F32, (40,), "w"), Buffer(1, "input", F32, (40,), "x"))
    executable = BACKEND.compile(Program("train", (), buffers, (nest,), (), 0, 1, ()))
    function = executable.bind({0: state}, exact(), "tuple", "train")
    for _ in range(3):
        assert function(np.ones(40, np.float32)) == ()
    np.testing.assert_array_equal(state, np.full(40, 3, np.float32))


def test_calls_from_many_threads(rng):
    n = 200_000
    function = BACKEND.compile(scale_program((n,))).bind({}, exact(), "array", "scale")
    executable = BACKEND.compile(scale_program((n,)))
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
        for _ in range(5):
            found = (function(x), executable.run({0: x}, {})[0])
            wrong.extend(seed for y in found if not np.allclose(y, 4 * x, rtol=1e-6))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_a_known_key_needs_no_code_generation(rng, monkeypatch):
    made = scale_program((12,), factor=5.0)
    BACKEND.compile(made, b"key of the program")
    monkeypatch.setattr("rlxlang.backends.llvm.emit_program.ProgramEmitter", None)
    x = rng.standard_normal(12).astype(np.float32)
    before = cache.info().hits
    executable = BACKEND.compile(made, b"key of the program")
    assert cache.info().hits == before + 1
    np.testing.assert_allclose(executable.run({0: x}, {})[0], 6 * x, rtol=1e-6)


def test_a_program_without_steps_and_one_without_elements():
    empty = Program("empty", (), (), (), (), 0, 1, ())
    assert BACKEND.compile(empty).run({}, {}) == []
    found = BACKEND.compile(scale_program((0,))).run({0: np.zeros(0, np.float32)}, {})
    assert found[0].shape == (0,)


def test_inspection():
    made = scale_program((64,))
    assert "i32 @rlx_main(ptr %buffers, ptr %dims)" in BACKEND.llvm_ir(made)
    assert "rlx_main:" in BACKEND.assembly(made)
    rows = BACKEND.dispatch_rows(made)
    assert [(row.kernel, row.kind) for row in rows] == [("first", "map"), ("second", "map")]


def test_unsupported_dtype_is_named():
    nest = Nest("c", (3,), (), (Pass((), (Store(1, Index(0, (1,)), Load(0, Index(0, (1,)), C64)),)),), (), 0)
    buffers = (Buffer(0, "input", C64, (3,), "x"), Buffer(1, "output", C64, (3,), "y"))
    with pytest.raises(RlxBackendError, match="C64"):
        BACKEND.compile(Program("c", (), buffers, (nest,), (), 0, 1, (1,)))


def test_a_size_that_is_not_listed_is_an_internal_fault():
    with pytest.raises(RlxBackendError, match=r"\?n is not among the dims"):
        BACKEND.compile(replace(scale_program((Dim.axis("?n"),)), dims=()))


def test_many_kernels_in_one_program(rng):
    """A chain of 300 kernels over two alternating temporaries."""
    n, steps = 33, []
    for i in range(300):
        source, target = (0 if i == 0 else 1 + i % 2), (3 if i == 299 else 1 + (i + 1) % 2)
        value = Apply("add", (Load(source, Index(0, (1,)), F64), Const(float(i), F64)), F64)
        steps.append(Nest(f"s{i}", (n,), (), (Pass((), (Store(target, Index(0, (1,)), value),)),), (), 0))
    buffers = (
        Buffer(0, "input", F64, (n,), "x"),
        Buffer(1, "temp", F64, (n,), offset=0),
        Buffer(2, "temp", F64, (n,), offset=320),
        Buffer(3, "output", F64, (n,), "y"),
    )
    x = rng.standard_normal(n)
    found = BACKEND.compile(Program("chain", (), buffers, tuple(steps), (), 640, 1, (3,))).run({0: x}, {})
    np.testing.assert_allclose(found[0], x + sum(range(300)))


def test_constants_are_copied_in(rng):
    table = rng.integers(0, 100, 20)
    nest = Nest("c", (20,), (), (Pass((), (Store(1, Index(0, (1,)), Load(0, Index(0, (1,)), I64)),)),), (), 0)
    buffers = (Buffer(0, "constant", I64, (20,), data=table[::-1]), Buffer(1, "output", I64, (20,), "y"))
    executable = BACKEND.compile(Program("c", (), buffers, (nest,), (), 0, 1, (1,)))
    np.testing.assert_array_equal(executable.run({}, {})[0], table[::-1])
