from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rlxlang.backends.opencl import OpenClBackend, available_devices
from rlxlang.backends.opencl.c_types import literal
from rlxlang.backends.opencl.program import program_source
from rlxlang.backends.reference import ReferenceBackend
from rlxlang.diagnostics.errors import RlxBackendError
from rlxlang.kernels import FUNCTIONS, Index, Load, Nest, Pass, Reduce, Reduced, Store
from rlxlang.types import BF16, BOOL, C64, DTYPES, F16, F32, F64, I8, I32, I64, U8, U64, DType

ROOT = Path(__file__).resolve().parents[3]


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


@pytest.fixture(scope="module")
def backend() -> OpenClBackend:
    if not available_devices():
        pytest.skip("there is no OpenCL device")
    return OpenClBackend()


@pytest.mark.parametrize("name", programs.EXAMPLES)
def test_example(name: str, backend: OpenClBackend, rng: np.random.Generator) -> None:
    programs.check(backend, programs.EXAMPLES[name](rng))


@pytest.mark.parametrize(
    "name",
    ["matrix_product", "batched_transposed", "fused_epilogue", "summed_epilogue", "softmax_rows", "private_rows"],
)
def test_example_as_for_a_graphics_processor(name: str, backend: OpenClBackend, rng: np.random.Generator) -> None:
    other = OpenClBackend()
    other._device = replace(other._device, record=replace(backend.device, kind="gpu"))
    programs.check(other, programs.EXAMPLES[name](rng))


# ------------------------------------------------------------------ scalar functions
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    3e38,
    -3e38,
    88.0,
    -104.0,
    2.0**31,
    300.0,
)
# What OpenCL allows and a little more: error in units in the last place.
ULPS = {
    "pow": 16,
    "tan": 6,
    "erfc": 16,
    "exp2": 4,
    "log_sigmoid": 6,
    "softplus": 6,
    "sigmoid": 6,
    "atan2": 6,
    "tanh": 6,
}


def values(dtype: DType, rng: np.random.Generator) -> np.ndarray:
    if dtype.kind == "bool":
        return rng.random(64) < 0.5
    if dtype.is_float:
        drawn = np.concatenate([rng.standard_normal(60) * 3, rng.random(20), 1 + rng.random(20) * 30])
        return np.concatenate([np.array(SPECIAL), drawn]).astype(dtype.numpy)
    low, high = dtype.integer_range
    ends = np.array([0, 1, 2, 3, 5, high, high - 1, low, low + 1], object)
    drawn = [int(v) % (high - low + 1) + low for v in rng.integers(0, 1 << 62, 30)]
    small = rng.integers(0 if low == 0 else -9, 10, 30)
    return np.concatenate([ends, drawn, small, [high]]).astype(dtype.numpy)


def argument_sets(name: str, dtype: DType, rng: np.random.Generator) -> list[np.ndarray]:
    """Every value with every other one for two arguments, all values for one."""
    with np.errstate(over="ignore"):
        drawn = values(dtype, rng)
    arity = FUNCTIONS[name].arity
    if arity == 1:
        return [drawn]
    first, second = (a.reshape(-1) for a in np.meshgrid(drawn, drawn))
    if arity == 2:
        return [first, second]
    third = rng.permutation(second)
    if name == "where":
        return [rng.random(first.size) < 0.5, first, second]
    # Without cancellation, so that it makes no difference whether the product is rounded.
    return [np.abs(first), np.abs(second), np.abs(third)]


def function_program(dtype: DType, rng: np.random.Generator) -> tuple[object, dict[int, np.ndarray], list[str]]:
    """All functions of a dtype in one program, and its casts to every dtype."""
    p = programs.Maker(f"functions_{dtype}")
    arrays, steps, names = {}, [], []
    letter = dtype.kind[0]
    for name, function in FUNCTIONS.items():
        if letter not in function.kinds or (name == "cast") or (dtype in (F16, BF16) and name != "where"):
            continue
        given = argument_sets(name, dtype, rng)
        inputs = [p.add("input", BOOL if a.dtype == bool else dtype, a.size) for a in given]
        arrays.update(zip(inputs, given, strict=True))
        result = BOOL if function.result == "bool" else dtype
        out = p.add("output", result, given[0].size)
        value = programs.call(name, *(p.load(i, 1) for i in inputs), dtype=result)
        steps.append(programs.one_pass(name, (given[0].size,), Store(out, Index(0, (1,)), value)))
        names.append(name)
    x = argument_sets("cast", dtype, rng)[0]
    source = p.add("input", dtype, x.size)
    arrays[source] = x
    targets = [d for d in DTYPES.values() if d != C64]
    outs = [p.add("output", d, x.size) for d in targets]
    stores = (
        Store(o, Index(0, (1,)), programs.call("cast", p.load(source, 1), dtype=d))
        for o, d in zip(outs, targets, strict=True)
    )
    steps.append(programs.one_pass("cast", (x.size,), *stores))
    return p.program(*steps), arrays, [*names, *(f"cast to {d}" for d in targets)]


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d != C64], ids=str)
def test_functions(dtype: DType, backend: OpenClBackend, rng: np.random.Generator) -> None:
    program, arrays, names = function_program(dtype, rng)
    found = backend.compile(program).run(arrays, {})
    expected = ReferenceBackend().compile(program).run(arrays, {})
    wrong = []
    for name, left, right in zip(names, found, expected, strict=True):
        ulps = 0 if "cast" in name else ULPS.get(name, 4)
        good = left == right if left.dtype.kind in "iub" else close(left, right, ulps)
        if not good.all():
            at = np.flatnonzero(~good)[:5]
            wrong.append(f"{name}: {left[at]} instead of {right[at]} (at {at}, {np.count_nonzero(~good)} in all)")
    assert not wrong, "\n".join(wrong)


def close(left: np.ndarray, right: np.ndarray, ulps: int) -> np.ndarray:
    """Equal within units in the last place; denormal results within the smallest normal number."""
    wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
    info = np.finfo(right.dtype) if right.dtype != BF16.numpy else np.finfo(np.float32)
    with np.errstate(all="ignore"):
        error = np.abs(wide_left - wide_right)
        allowed = ulps * np.maximum(np.abs(wide_right) * float(info.eps), float(info.tiny) * float(info.eps))
        same = (wide_left == wide_right) | (np.isnan(wide_left) & np.isnan(wide_right))
        return np.asarray(same | (error <= allowed))


def test_tanh_reaches_one(backend: OpenClBackend) -> None:
    p = programs.Maker("saturated")
    ends = np.array([9.03, 20, -20, np.inf, -np.inf, 400])
    x, y, a, b = p.add("input", F32, 6), p.add("input", F64, 6), p.add("output", F32, 6), p.add("output", F64, 6)
    stores = (Store(o, Index(0, (1,)), programs.call("tanh", p.load(i, 1))) for o, i in ((a, x), (b, y)))
    executable = backend.compile(p.program(programs.one_pass("tanh", (6,), *stores)))
    for found in executable.run({x: ends.astype(np.float32), y: ends * 3}, {}):
        assert found.tolist() == [1, 1, -1, 1, -1, 1]


def test_sums_of_a_million_rows(backend: OpenClBackend, rng: np.random.Generator) -> None:
    p = programs.Maker("long")
    n = 1_000_000
    x, out = p.add("input", F32, n, 2), p.add("output", F32, 2)
    walked = Pass((Reduce("s", "sum", p.load(x, 1, 2), F32),))
    program = p.program(Nest("sum", (2,), (n,), (walked,), (Store(out, Index(0, (1, 0)), Reduced("s", F32)),)))
    a = (rng.random((n, 2)) + 0.1).astype(np.float32)
    exact = a.sum(0, dtype=np.float64)
    np.testing.assert_allclose(backend.compile(program).run({x: a}, {})[0], exact, rtol=1e-6)


def test_sums_without_fp64_are_compensated(backend: OpenClBackend, rng: np.random.Generator) -> None:
    """Compiled as for a device that has no F64."""
    backend = OpenClBackend()
    record = replace(backend.device, fp64=False)
    backend._device = replace(backend._device, record=record)
    p = programs.Maker("compensated", "?n")
    x, out, top = p.add("input", F32, programs.N), p.add("output", F32), p.add("output", F32)
    walked = Pass((Reduce("s", "sum", p.load(x, 1), F32), Reduce("m", "max", p.load(x, 1), F32)))
    finals = (Store(out, Index(0, (0,)), Reduced("s", F32)), Store(top, Index(0, (0,)), Reduced("m", F32)))
    executable = backend.compile(p.program(Nest("sum", (), (programs.N,), (walked,), finals)))
    a = (rng.random(100_000) + 0.1).astype(np.float32)
    for array in (
        a,
        np.array([1e8, 1e-3, -1e8], np.float32),
        np.array([1, np.inf], np.float32),
        np.array([np.nan], np.float32),
    ):
        found = executable.run({x: array}, {"?n": array.size})[0]
        np.testing.assert_allclose(found, np.float32(math.fsum(array)), rtol=1e-6)


def test_f64_is_refused_by_name_where_there_is_none(rng: np.random.Generator) -> None:
    p = programs.Maker("wide")
    x, out = p.add("input", F64, 4), p.add("output", F64, 4)
    nest = programs.one_pass(
        "twice", (4,), Store(out, Index(0, (1,)), programs.call("add", p.load(x, 1), p.load(x, 1)))
    )
    program = p.program(replace(nest, ops=("add",)))
    with pytest.raises(RlxBackendError, match=r"F64[\s\S]*`twice` \(add\)"):
        program_source(program, has_fp64=False, is_cpu=True)
    assert "double" in program_source(program, has_fp64=True, is_cpu=True).text


def test_sources_do_not_depend_on_sizes(rng: np.random.Generator) -> None:
    """No vload16, vstore16, fma() or mad() for processors, and nothing that varies from run to run."""
    for make in programs.EXAMPLES.values():
        program = make(rng).program
        text = program_source(program, has_fp64=True, is_cpu=True).text
        assert text == program_source(program, has_fp64=True, is_cpu=True).text
        assert not any(word in text for word in ("vload16", "vstore16", "fma(", "mad("))


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.5, F32, "1.5f"), (-0.0, F32, "(-0.0f)"), (float("-inf"), F64, "(-as_double(0x7ff0000000000000UL))"), (True, BOOL, "1"),
        (-(1 << 31), I32, "((int)(-2147483647 - 1))"), (300, U8, "((uchar)44)"),
        (-1, U64, "18446744073709551615UL"), (128, I8, "((char)-128)"),
    ],
)  # fmt: skip
def test_literals(value: float, dtype: DType, text: str) -> None:
    assert literal(value, dtype) == text


# ------------------------------------------------------------------ devices
def test_devices_are_described() -> None:
    for record in available_devices():
        assert record.name
        assert record.kind in ("cpu", "gpu", "accelerator")


def test_a_device_that_is_not_there(backend: OpenClBackend) -> None:
    with pytest.raises(RlxBackendError, match="no OpenCL device `abacus`"):
        OpenClBackend("abacus")
    with pytest.raises(RlxBackendError, match="no OpenCL device `99`"):
        OpenClBackend("99")


def test_the_environment_chooses(backend: OpenClBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_OPENCL_DEVICE", "abacus")
    with pytest.raises(RlxBackendError, match="abacus"):
        OpenClBackend()
    monkeypatch.setenv("RLX_OPENCL_DEVICE", "0")
    assert OpenClBackend().device == available_devices()[0]


def run_python(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )


def test_without_pyopencl_there_are_no_devices() -> None:
    done = run_python("""
        import sys
        sys.modules["pyopencl"] = None
        from rlxlang.backends.opencl import OpenClBackend, available_devices
        from rlxlang.diagnostics.errors import RlxBackendError
        assert available_devices() == ()
        try:
            OpenClBackend()
        except RlxBackendError as error:
            print(error)
    """)
    assert "there is no OpenCL device" in done.stdout, done.stderr


def test_importing_does_not_load_pyopencl() -> None:
    done = run_python("import sys, rlxlang.backends.opencl; print('pyopencl' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_a_fork_is_refused(backend: OpenClBackend) -> None:
    done = run_python("""
        import os
        import numpy as np
        from rlxlang.backends.opencl import OpenClBackend, available_devices
        from rlxlang.diagnostics.errors import RlxBackendError
        from rlxlang.kernels import Buffer, Copy, Program
        from rlxlang.types import F32
        buffers = (Buffer(0, "input", F32, (2,), "x"), Buffer(1, "output", F32, (2,), "y"))
        backend = OpenClBackend()
        program = Program("p", (), buffers, (Copy(0, 1),), (), 0, 1, (1,))
        executable = backend.compile(program)
        x = np.ones(2, np.float32)
        executable.run({0: x}, {})
        child = os.fork()
        if child == 0:
            caught = 0
            for work in (lambda: executable.run({0: x}, {}), lambda: backend.compile(program), OpenClBackend):
                try:
                    work()
                except RlxBackendError as error:
                    caught += "fork" in str(error)
            os._exit(caught if available_devices() == () else 99)
        status = os.waitpid(child, 0)[1]
        print(os.waitstatus_to_exitcode(status), executable.run({0: x}, {})[0].tolist())
    """)
    assert done.stdout == "3 [1.0, 1.0]\n", done.stderr


def test_threads_share_an_executable(backend: OpenClBackend, rng: np.random.Generator) -> None:
    example = programs.EXAMPLES["temporaries"](rng)
    executable = backend.compile(example.program)
    faults: list[int] = []

    def work(number: int) -> None:
        x = np.full(number + 1, number, np.float32)
        for _ in range(30):
            (result,) = executable.run({0: x}, {"?n": number + 1})
            if not np.array_equal(result, (-2 * x) ** 2):
                faults.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_bind_prepares_and_runs(backend: OpenClBackend) -> None:
    p = programs.Maker("bound", "?n")
    x, w, y = p.add("input", F32, programs.N), p.add("state", F32, 1), p.add("output", F32, programs.N)
    held = Load(w, Index(0, (0,)), F32)
    scaled = programs.one_pass(
        "scale", (programs.N,), Store(y, Index(0, (1,)), programs.call("mul", p.load(x, 1), held))
    )
    step = programs.one_pass(
        "step", (), Store(w, Index(0, ()), programs.call("add", Load(w, Index(0, ()), F32), programs.const(1)))
    )
    executable = backend.compile(p.program(scaled, step))

    def prepare(args: tuple[object, ...]) -> tuple[list[np.ndarray], dict[str, int]]:
        array = np.asarray(args[0], np.float32)
        return [array], {"?n": array.size}

    state = np.array([2], np.float32)
    assert executable.bind({w: state}, prepare, "float", "f")([1.5]) == 3.0
    assert executable.bind({w: state}, prepare, "array", "f")([1, 2]).tolist() == [3.0, 6.0]  # type: ignore[attr-defined]
    assert executable.bind({w: state}, prepare, "tuple", "f")([1])[0].tolist() == [4.0]  # type: ignore[index]
    assert state.tolist() == [5.0]


def test_read_only_and_small_arrays(backend: OpenClBackend) -> None:
    p = programs.Maker("scalar")
    x, y, count = p.add("input", F16), p.add("output", BF16), p.add("output", I64)
    value = programs.call("cast", programs.call("cast", Load(x, Index(0, ()), F16), dtype=F32), dtype=BF16)
    stores = (Store(y, Index(0, ()), value), Store(count, Index(0, ()), programs.const(3, I64)))
    array = np.array(1.5, np.float16)
    array.flags.writeable = False
    found = backend.compile(p.program(programs.one_pass("scalar", (), *stores))).run({x: array}, {})
    assert [float(v) for v in found] == [1.5, 3.0]
