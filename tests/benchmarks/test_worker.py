"""The worker's side of the timing protocol, and the workloads' definition."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks import worker, workloads


def conversation(workload: worker.Workload, lines: str, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """Serve ``workload`` with ``lines`` on standard input; return what was printed."""
    printed = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    monkeypatch.setattr("sys.stdout", printed)
    worker.serve(workload)
    return printed.getvalue().splitlines()


def test_worker_answers_every_go(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    workload = worker.Workload(lambda: calls.append(None), [1.0, 2.0])
    ready, first, second = map(json.loads, conversation(workload, "go 0\ngo 0\nquit\ngo 0\n", monkeypatch))
    assert ready["ready"] is True
    assert ready["check"] == [1.0, 2.0]
    assert ready["first_call_s"] >= 0
    assert first["n"] == second["n"] == 1
    assert first["min_s"] <= first["median_s"]
    assert len(calls) == 3


def test_one_shot_is_not_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    workload = worker.Workload(lambda: calls.append(None), [], is_one_shot=True)
    _, answer = conversation(workload, "go 60\nquit\n", monkeypatch)
    assert json.loads(answer)["n"] == 1
    assert len(calls) == 1


def test_unknown_words_and_workloads_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="go SECONDS"):
        conversation(worker.Workload(lambda: None, []), "start\n", monkeypatch)
    with pytest.raises(SystemExit, match=r"no workload 'nothing'.*mlp_sgd"):
        worker.main(["nothing"])


def test_draws_are_fixed() -> None:
    first, again = workloads.mlp(batches=1), workloads.mlp(batches=1)
    np.testing.assert_array_equal(first["x"][0], again["x"][0])
    assert first["params"]["w1"][0, 0] == pytest.approx(0.006350335, rel=1e-6)
    assert first["y"][0].dtype == np.int32


def test_dynamic_batches_never_repeat_a_size() -> None:
    sizes = [len(x) for x in workloads.dynamic_batches(count=20, largest=40)["x"]]
    assert len(set(sizes)) == 20
    assert max(sizes) <= 40


@pytest.mark.parametrize("name", ["mlp_train", "mlp_infer", "elementwise", "softmax", "layernorm", "tiny"])
def test_models_exist(name: str) -> None:
    assert (worker.MODELS / f"{name}.rlx").is_file()
