"""Loading a text again: from the record on disk, with the same results, warnings and errors."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang import warm
from rlxlang.backends.llvm import cache
from rlxlang.backends.llvm.plan import CONSTANT_LIMIT, Plan, PlanBuffer, PlanLibrary, plan_from_bytes, plan_to_bytes
from rlxlang.diagnostics import Source
from rlxlang.types import BOOL, F32, F64, Dim, floor_div
from rlxlang.types.dim import mod

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = """
config scale: float = 2.0;
/// Rows.
input x: [?n, 4];
input y: [?m, 3];
input unused: [2];
param w: [4, 3] = he_normal();
let z = x @ w * scale + y;
tap h = sum(z, axes: 0);
out total = mean(z * z);
"""
HEAVY = ("lark", "rlxlang.frontend", "rlxlang.ops", "rlxlang.lower", "rlxlang.scope", "rlxlang.kernels")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("RLX_CACHE_DIR", str(folder))
    return folder


def load(text: str = TEXT, name: str = "m.rlx", **configs: float) -> rlx.Func:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rlx.loads(text, name, **configs)


def is_outline(func: rlx.Func) -> bool:
    return func.traced._graph is None


def run_process(program: str, folder: pathlib.Path, **environment: str) -> str:
    variables = {**os.environ, "RLX_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, cwd=folder.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def problem(call: Callable[[], object]) -> str:
    with pytest.raises(rlx.RlxError) as caught:
        call()
    return f"{type(caught.value).__name__} {caught.value}"


def test_the_second_load_makes_no_nodes() -> None:
    first, second = load(), load()
    assert not is_outline(first)
    assert is_outline(second)
    assert second.name == first.name == "m"
    assert second.input_names() == ["x", "y", "unused"]
    assert second.param_names() == ["w"]
    assert second.output_names() == first.output_names() == ["total", "h"]
    assert second.param_shape_of("w") == (4, 3)
    assert repr(second) == repr(first)
    a, b = first.init_params(seed=3), second.init_params(seed=3)
    np.testing.assert_array_equal(a.param_binding("w"), b.param_binding("w"))
    feeds = {"x": np.ones((2, 4), np.float32), "y": np.ones((2, 3), np.float32), "unused": [0, 0]}
    for left, right in zip(a.run(**feeds), b.jit().run(**feeds), strict=True):
        np.testing.assert_array_equal(left, right)
    assert is_outline(second)
    assert second.summary() == first.summary()
    assert str(second) == str(first)
    assert not is_outline(second)


def test_transforms_of_an_outline() -> None:
    feeds = {"x": np.ones((2, 4), np.float32), "y": np.ones((2, 3), np.float32), "unused": [0, 0]}
    want = load().init_params(seed=0).value_and_grad(["w"]).run(**feeds)
    func = load().init_params(seed=0).value_and_grad(["w"])
    assert is_outline(func)
    for left, right in zip(want, func.run(**feeds), strict=True):
        np.testing.assert_array_equal(left, right)
    assert is_outline(func)
    assert problem(lambda: load().grad("nothing")) == problem(lambda: load().grad("nothing"))


def test_warnings_are_repeated() -> None:
    texts = []
    for _ in range(3):
        with pytest.warns(rlx.RlxWarning, match="`unused` is not used") as caught:
            rlx.loads(TEXT, "m.rlx")
        assert [w.filename for w in caught] == [__file__]
        texts.append(str(caught[0].message))
    assert len(set(texts)) == 1


def test_errors_are_the_same() -> None:
    def faults(func: rlx.Func) -> list[str]:
        bound = func.init_params(seed=0)
        x, y, z = np.ones((2, 4), np.float32), np.ones((3, 3), np.float32), np.zeros(2, np.float32)
        return [
            problem(lambda: func.run(x=x, y=y, unused=z)),
            problem(lambda: bound.run(x=x, y=y, unused=z)),
            problem(lambda: bound.jit().call(x, y, z)),
            problem(lambda: bound.run(x=x[:, :3], y=y, unused=z)),
            problem(lambda: bound.run(x=x, y=y)),
            problem(lambda: bound.run(x=x, yy=y, unused=z)),
            problem(lambda: func.with_param("v", x)),
            problem(lambda: func.with_param("w", x)),
            problem(lambda: bound.run(x=x.astype(np.int64), y=y, unused=z)),
        ]

    first, second = load(), load()
    assert is_outline(second)
    expected = faults(first)
    assert faults(second) == expected
    assert "m.rlx:8:" in expected[1]
    assert "`?n` = 2" in expected[1]


def test_a_wrong_text_is_never_kept(own_folder: pathlib.Path) -> None:
    wrong = "input x: [2]; out y = relo(x);"
    assert problem(lambda: load(wrong)) == problem(lambda: load(wrong))
    assert not list(own_folder.rglob("graph/*"))


def test_what_the_key_is_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    assert is_outline(load())
    for changed in (
        load(TEXT + "\n"),
        load(name="other.rlx"),
        load(scale=3.0),
    ):
        assert not is_outline(changed)
    for value in (1, 1.0, True, "1", (1,), [1], (1.0,)):
        key = warm.text_key(Source("m", ""), {"n": value})
        others = [warm.text_key(Source("m", ""), {"n": v}) for v in (2, 2.0, False, "2", (2,), [2], (2.0,))]
        assert key is not None
        assert key not in others
    keys = [warm.text_key(Source("m", ""), {"n": v}) for v in (1, 1.0, True, "1", (1,), [1], 0.0, -0.0)]
    assert len(set(keys)) == len(keys)
    assert warm.text_key(Source("m", ""), {"n": object()}) is None
    monkeypatch.setattr(warm, "__version__", "0.0.0")
    assert not is_outline(load())
    monkeypatch.undo()


def test_another_compiler_reads_nothing_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    monkeypatch.setattr(cache, "source_salt", lambda: "another")
    assert not is_outline(load())


def test_threads_and_target_have_plans_of_their_own() -> None:
    from rlxlang.backends.llvm import LlvmBackend
    from rlxlang.backends.llvm.vector import target_of_host

    backend = LlvmBackend()
    keys = {
        backend.plan_key("k", 1),
        backend.plan_key("k", 2),
        backend.plan_key("l", 1),
        backend.plan_key("k", 1, "a=b"),
    }
    assert len(keys) == 4
    assert LlvmBackend(target_of_host()).plan_key("k", 1) not in keys


def test_damaged_entries_are_made_again(own_folder: pathlib.Path) -> None:
    feeds = {"x": np.ones((2, 4), np.float32), "y": np.ones((2, 3), np.float32), "unused": [0, 0]}
    want = load().init_params(seed=0).run(**feeds)
    assert {p.parent.name for p in own_folder.rglob("*") if p.is_file()} >= {"graph", "plan", "obj"}
    for namespace in ("graph", "plan", "obj"):
        for file in (own_folder / namespace).iterdir():
            file.write_bytes(file.read_bytes()[:-1] + b"?")
        func = load()
        assert is_outline(func) == (namespace != "graph")
        for left, right in zip(want, func.init_params(seed=0).run(**feeds), strict=True):
            np.testing.assert_array_equal(left, right)


def test_a_record_that_is_none() -> None:
    for data in (b"", b"N", b"not marshal", b"\xe9\x01"):
        assert warm.from_bytes(data, None) is None


def test_without_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("RLX_CACHE_DIR", str(file))
    for _ in range(2):
        func = load("input x: [?n]; param w: [3] = 2.0; out y = x + sum(w);").init_params(seed=0)
        assert not is_outline(func)
        assert func(x=[1, 2]).tolist() == [7, 8]


def test_sizes_of_a_plan() -> None:
    text = "input x: [?n, 3]; out y = concat([x * 2.0, x], axis: 0); out n = reshape(x, [3 * ?n]);"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    want = load(text).run(x=x)
    func = load(text)
    assert is_outline(func)
    for size in (2, 1, 0):
        got = func.run(x=x[:size])
        assert got[0].shape == (2 * size, 3)
        assert got[1].shape == (3 * size,)
    for left, right in zip(want, func.run(x=x), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_plan_survives_the_disk() -> None:
    n = Dim.axis("?n")
    buffers = (
        PlanBuffer(0, "input", F32, (n, 3), "x", None, 0),
        PlanBuffer(1, "constant", F64, (2, 2), "", np.arange(4.0).reshape(2, 2), 0),
        PlanBuffer(2, "temp", BOOL, (n * n - 2, floor_div(n + 1, 2)), "", None, n * 64),
    )
    call = PlanLibrary("solve", (0, 1), (2,), (("lower", True), ("what", "eigh")), "m.rlx:1:2")
    given = Plan("g", ("?n",), buffers, (n, mod(n, 3)), 64 * n + 128, (0,), ((2, n, 3),), (n, 7), (call,))
    data = plan_to_bytes(given, "key")
    assert data is not None
    found, key = plan_from_bytes(data)
    assert key == "key"
    for field in ("name", "axes", "dims", "arena", "outputs", "contracts", "loops"):
        assert getattr(found, field) == getattr(given, field)
    for one, other in zip(found.buffers, buffers, strict=True):
        assert one._replace(data=None) == other._replace(data=None)
        assert (one.data is None) == (other.data is None)
        if one.data is not None:
            np.testing.assert_array_equal(one.data, other.data)
    with pytest.raises(ValueError, match="not a plan"):
        plan_from_bytes(data[:-3])
    assert (
        plan_to_bytes(given._replace(buffers=(buffers[1]._replace(data=np.zeros(CONSTANT_LIMIT // 8 + 1)),)), "k")
        is None
    )


PROGRAM = f"""
import sys, warnings
import numpy as np
import rlxlang as rlx
warnings.simplefilter("ignore")
func = rlx.load("m.rlx").init_params(seed=1)
jitted = func.jit()
x, y = np.ones((2, 4), np.float32), np.ones((2, 3), np.float32)
results = [*jitted.call(x, y, np.zeros(2, np.float32)), *func.run(x=x, y=y, unused=[0, 0])]
print(jitted.device, [r.tobytes().hex() for r in results])
print(*sorted(name for name in sys.modules if name in {HEAVY!r}))
"""


def test_a_warm_process_imports_no_compiler(tmp_path: pathlib.Path, own_folder: pathlib.Path) -> None:
    (tmp_path / "m.rlx").write_text(TEXT)
    cold_values, cold_modules = run_process(PROGRAM, own_folder).splitlines()
    warm_values, *warm_modules = run_process(PROGRAM, own_folder).splitlines()
    assert warm_values == cold_values
    assert cold_values.startswith("cpu")
    assert "rlxlang.lower" in cold_modules.split()
    assert not "".join(warm_modules).split()


def test_two_processes_at_once(tmp_path: pathlib.Path, own_folder: pathlib.Path) -> None:
    (tmp_path / "m.rlx").write_text(TEXT)
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=variables, cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [process.communicate()[0].splitlines()[0] for process in running]
    assert all(process.returncode == 0 for process in running)
    assert outputs[0] == outputs[1]
    assert not list(own_folder.rglob("*.tmp"))
