"""Programs at the edges: long, wide, empty, of high rank, called by many, after a fork, without a cache."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.types import F32, Dim
from tests.devices.running import DEVICES, Array, Runner, mismatches

ROOT = Path(__file__).resolve().parents[2]


def _graph(build: Callable[[Builder], tuple[list[Node], list[Node]]]) -> Graph:
    b = Builder()
    inputs, outputs = build(b)
    named = [GraphOutput(f"y{k}", n) for k, n in enumerate(outputs)]
    return b.finish("limit", [declare(n) for n in inputs], named)


def _agree(graph: Graph, device: str, *every: dict[str, Array], rtol: float = 1e-5, atol: float = 1e-5) -> None:
    runner = Runner(graph, device)
    for arrays in every:
        differing = mismatches(graph, runner(arrays), evaluate(graph, arrays), rtol, atol)
        assert not differing, "\n".join(differing)


# ------------------------------------------------------------------------------------------ long and wide


@pytest.mark.parametrize("device", DEVICES)
def test_a_chain_of_three_thousand_ops(device: str) -> None:
    def build(b: Builder) -> tuple[list[Node], list[Node]]:
        x = node = b.input("x", F32, (Dim.axis("?n"),))
        for k in range(1000):
            node = b.emit("mul", b.emit("add", node, b.full_like(node, 0.25)), b.full_like(node, 0.5 + k % 3 / 10))
            node = b.emit("maximum", node, b.emit("neg", x))
        return [x], [node]

    _agree(_graph(build), device, {"x": np.linspace(-1, 1, 33, dtype=np.float32)}, rtol=1e-4)


def test_a_chain_of_three_thousand_kernels() -> None:
    def build(b: Builder) -> tuple[list[Node], list[Node]]:
        x = node = b.input("x", F32, (4, 4))
        for _ in range(1000):
            total = b.emit("sum", node, axes=(0,))
            node = b.emit("tanh", b.emit("add", x, b.emit("broadcast_to", total, shape=(4, 4))))
        return [x], [node]

    _agree(_graph(build), "cpu", {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)}, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_a_hundred_inputs_and_outputs(device: str, rng: np.random.Generator) -> None:
    def build(b: Builder) -> tuple[list[Node], list[Node]]:
        inputs = [b.input(f"x{k}", F32, (Dim.axis("?n"),)) for k in range(100)]
        return inputs, [b.emit("add", a, c) for a, c in zip(inputs, reversed(inputs), strict=True)]

    graph = _graph(build)
    for n in (3, 50):
        _agree(graph, device, {f"x{k}": rng.normal(size=n).astype(np.float32) for k in range(100)})
    func = rlx.Func.from_graph(graph)
    arrays = [np.full(3, k, np.float32) for k in range(100)]
    call = func.jit(device)
    for _ in range(3):
        assert all(np.array_equal(y, [99.0] * 3) for y in call(*arrays))


# ------------------------------------------------------------------------------------------ odd graphs


@pytest.mark.parametrize("device", DEVICES)
def test_outputs_that_nothing_computes(device: str) -> None:
    def build(b: Builder) -> tuple[list[Node], list[Node]]:
        x = b.input("x", F32, (Dim.axis("?n"), 3))
        constant = b.constant(np.arange(4, dtype=np.float32))
        twice = b.emit("mul", x, b.full_like(x, 2.0))
        turned = b.emit("transpose", x, perm=(1, 0))
        return [x], [
            x,
            constant,
            twice,
            twice,
            x,
            constant,
            b.full(7.0, F32),
            turned,
            b.emit("flip", twice, axes=(0,)),
            turned,
        ]

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    _agree(_graph(build), device, {"x": x}, {"x": x[:1]}, {"x": x[:0]})
    func = rlx.Func.from_graph(_graph(build))
    outputs = func.run_on(device, x=x)
    for k, output in enumerate(outputs):  # nobody shares memory
        assert not any(np.shares_memory(output, other) for other in [x, *outputs[:k]])


@pytest.mark.parametrize("device", DEVICES)
def test_only_scalars(device: str) -> None:
    def build(b: Builder) -> tuple[list[Node], list[Node]]:
        x, y = b.input("x", F32, ()), b.input("y", F32, ())
        total = b.emit("add", b.emit("mul", x, y), b.emit("sum", x, axes=()))
        product = b.emit("dot_general", x, y, batch=((), ()), contract=((), ()))
        return [x, y], [total, product, b.emit("reshape", total, shape=(1, 1)), b.emit("transpose", x, perm=())]

    _agree(_graph(build), device, {"x": np.array(1.5, np.float32), "y": np.array(-2, np.float32)})


@pytest.mark.parametrize("device", DEVICES)
def test_rank_eight(device: str, rng: np.random.Generator) -> None:
    shape = (2, 3, 1, 2, 3, 2, 1, 2)

    def build(b: Builder) -> tuple[list[Node], list[Node]]:
        x = b.input("x", F32, (Dim.axis("?a"), 3, 1, Dim.axis("?b"), 3, 2, 1, 2))
        turned = b.emit("transpose", x, perm=(7, 2, 5, 0, 3, 6, 1, 4))
        outputs = [
            turned,
            b.emit("sum", x, axes=(1, 3, 6)),
            b.emit("softmax", x, axis=3),
            b.emit("max", turned, axes=(0, 4)),
        ]
        outputs.append(b.emit("flip", b.emit("cumsum", x, axis=1, exclusive=False, reverse=True), axes=(0, 4)))
        contract = ((1, 3, 4, 5, 7), (6, 4, 7, 2, 0))
        outputs.append(b.emit("dot_general", x, turned, batch=((0,), (3,)), contract=contract))
        return [x], outputs

    _agree(
        _graph(build),
        device,
        {"x": rng.normal(size=shape).astype(np.float32)},
        {"x": np.ones((1, 3, 1, 5, 3, 2, 1, 2), np.float32)},
    )


@pytest.mark.parametrize("device", DEVICES)
def test_no_entries(device: str) -> None:
    def build(b: Builder) -> tuple[list[Node], list[Node]]:
        x, y = b.input("x", F32, (0, 3)), b.input("y", F32, (3, Dim.axis("?n")))
        product = b.emit("dot_general", x, y, batch=((), ()), contract=((1,), (0,)))
        nothing = b.emit("dot_general", x, x, batch=((), ()), contract=((0,), (0,)))
        return [x, y], [product, nothing, b.emit("sum", x, axes=(0, 1)), b.emit("prod", x, axes=(0,)), b.emit("exp", x)]

    _agree(
        _graph(build), device, *({"x": np.ones((0, 3), np.float32), "y": np.ones((3, n), np.float32)} for n in (4, 0))
    )


@pytest.mark.parametrize("device", DEVICES)
def test_nan_passes_through(device: str) -> None:
    def build(b: Builder) -> tuple[list[Node], list[Node]]:
        x = b.input("x", F32, (3, 5))
        one = [
            b.emit(n, x) for n in ("exp", "tanh", "relu", "abs", "sqrt", "floor", "sign", "isnan", "gelu", "sigmoid")
        ]
        rows = [b.emit(n, x, axes=(1,)) for n in ("sum", "max", "min", "prod", "logsumexp")]
        others = [b.emit("argmax", x, axis=1), b.emit("argmin", x, axis=1), b.emit("softmax", x, axis=1)]
        others += [
            b.emit("maximum", x, b.full_like(x, 0.5)),
            b.emit("cummax", x, axis=1, exclusive=False, reverse=False),
        ]
        return [x], one + rows + others

    x = np.array([[1, 2, np.nan, 4, 3], [np.nan] * 5, [0, -1, np.inf, -np.inf, 2]], np.float32)
    _agree(_graph(build), device, {"x": x})


# ------------------------------------------------------------------------------------------ calls


def _layer(s: rlx.GraphScope) -> rlx.Tensor:
    x = s.input("x", ["?batch", 3])
    return (x @ s.param("w", [3, 4])).tanh().softmax().cumsum(1)


def _bound() -> rlx.Func:
    return rlx.Func("layer", _layer).init_randn(0, 0.5)


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_that_are_not_contiguous(device: str, rng: np.random.Generator) -> None:
    func = _bound()
    wide = rng.normal(size=(8, 12)).astype(np.float32)
    odd = np.frombuffer(b"\0" + wide.tobytes(), np.uint8)[1:].view(np.float32).reshape(8, 12)
    call = func.jit(device)
    for x in (
        wide[:, ::4],
        wide[::-2, :3],
        np.asfortranarray(wide[:, :3]),
        odd[:, :3],
        wide[:, 2::-1],
        wide[:4, :3].astype(">f4"),
    ):
        want = func.run_on("reference", x=x)[0]
        for got in (func.run_on(device, x=x)[0], call(x), call.call(x)):
            np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_sizes_that_alternate(device: str, rng: np.random.Generator) -> None:
    func = _bound()
    call = func.jit(device)
    x = rng.normal(size=(3000, 3)).astype(np.float32)
    want = func.run_on("reference", x=x)[0]
    for n in (1, 3000, 2, 0, 2999, 1, 7, *range(100, 180), 3000, 1):  # more sizes than are remembered
        np.testing.assert_allclose(call(x[:n]), want[:n], rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_threads_of_python_share_one_jitted(device: str, rng: np.random.Generator) -> None:
    call = _bound().jit(device)
    inputs = [rng.normal(size=(n, 3)).astype(np.float32) for n in (1, 40, 5000, 7)]
    want = [call(x) for x in inputs]

    def work(first: int) -> bool:
        return all(np.array_equal(call(inputs[k % 4]), want[k % 4]) for k in range(first, first + 100))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, range(4)))


@pytest.mark.parametrize("device", DEVICES)
def test_a_call_goes_on_after_a_fault(device: str) -> None:
    call = _bound().jit(device)
    x = np.ones((2, 3), np.float32)
    want = call(x)
    for wrong in (
        np.ones((2, 4), np.float32),
        np.ones((2, 3), np.int32),
        "x",
        np.ones(3, np.float32),
        None,
        [[1, 2], [3]],
    ):
        with pytest.raises(rlx.RlxError):
            call.call(wrong)
        with pytest.raises(rlx.RlxError):
            call.call()
        np.testing.assert_array_equal(call.call(x), want)


class _Moody:
    """An array-like that fails while it is converted."""

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        raise KeyError("no array today")


@pytest.mark.parametrize("device", DEVICES)
def test_a_call_goes_on_after_a_foreign_fault(device: str) -> None:
    call = _bound().jit(device)
    with pytest.raises(rlx.RlxError):
        call.call(_Moody())
    assert call(np.ones((2, 3), np.float32)).shape == (2, 4)


# ------------------------------------------------------------------------------------------ memory


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("device", DEVICES)
def test_calls_keep_no_memory(device: str) -> None:
    call = _bound().jit(device)
    x = np.ones((20_000, 3), np.float32)  # 320 kB of results each
    for _ in range(20):
        call(x)
    gc.collect()
    before, count = _resident(), sys.getrefcount(x)
    for _ in range(200):
        result = call(x)
        with pytest.raises(rlx.RlxError):
            call.call(x[:, :2])
    assert sys.getrefcount(result) == 2
    assert sys.getrefcount(x) == count
    assert _resident() - before < 16e6  # one result in five kept would be more


def test_functions_that_are_gone_keep_no_memory() -> None:
    x = np.ones((200_000, 3), np.float32)  # 3 MB of temporary memory each

    def once() -> None:
        func = _bound()
        func.jit("cpu")(x)

    for _ in range(3):
        once()
    gc.collect()
    before = _resident()
    for _ in range(12):
        once()
    gc.collect()
    assert _resident() - before < 24e6


# ------------------------------------------------------------------------------------------ processes


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )


FORK = """
    import os, sys, warnings
    import numpy as np
    import rlxlang as rlx
    f = rlx.Func("f", lambda s: (s.input("x", ["?n"]) * 2.0).exp().sum())
    call = f.jit({device!r})
    x = np.linspace(0, 1, 300_000, dtype=np.float32)
    want = call(x)
    warnings.simplefilter("ignore")  # of Python 3.12 on forks beside threads
    child = os.fork()
    if not child:
        try:
            same = call(x) == want and call(x[:100]).shape == () and f.run_on({device!r}, x=x[:5])[0] > 0
            os._exit(0 if same else 3)
        except rlx.RlxBackendError as problem:
            print(problem, flush=True)
            os._exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert call(x) == want
    sys.exit(code)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("device", DEVICES)
def test_after_a_fork(device: str) -> None:
    found = _python(FORK.format(device=device))
    if device == "cpu":
        assert found.returncode == 0, found.stderr
    else:
        assert found.returncode == 7, found.stderr
        assert "fork" in found.stdout


USE = """
    import numpy as np
    import rlxlang as rlx
    f = rlx.Func("f", lambda s: (s.input("x", ["?n", 40]) @ s.input("y", [40, 50])).tanh())
    x, y = np.ones((30, 40), np.float32), np.full((40, 50), 0.01, np.float32)
    np.testing.assert_allclose(f.run_on("cpu", x=x, y=y)[0], np.tanh(x @ y), rtol=1e-5)
    np.testing.assert_allclose(f.jit("cpu")(x, y), np.tanh(x @ y), rtol=1e-5)
"""


@pytest.mark.parametrize("damage", ["empty", "garbage", "short", "flipped", "folder"])
def test_damaged_cache_entries_are_rebuilt_in_silence(damage: str, tmp_path: Path) -> None:
    first = _python(USE, RLX_CACHE_DIR=str(tmp_path))
    assert first.returncode == 0, first.stderr
    entries = [f for f in tmp_path.rglob("*") if f.is_file()]
    assert entries
    for entry in entries:
        data = entry.read_bytes()
        if damage == "folder":
            entry.unlink()
            entry.mkdir()
            continue
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :] if data else b""
        entry.write_bytes(
            {"empty": b"", "garbage": b"\x7fELF" + b"x" * 99, "short": data[:middle], "flipped": flipped}[damage]
        )
    for _ in range(2):
        again = _python(USE, RLX_CACHE_DIR=str(tmp_path))
        assert again.returncode == 0, again.stderr
        assert again.stderr == ""


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    for place in (
        tmp_path / "file",
        tmp_path / "file" / "below",
        locked,
        tmp_path / "new" / "deep",
        Path("/proc/nowhere"),
    ):
        found = _python(USE, RLX_CACHE_DIR=str(place))
        assert found.returncode == 0, found.stderr
        assert found.stderr == ""
