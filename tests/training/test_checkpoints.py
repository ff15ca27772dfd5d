"""Checkpoints of a run: killed, interrupted, damaged, best, old."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.checkpoint import load_weights, read_tensors, write_tensors
from rlxlang.tools.cli import main
from rlxlang.trainer import Trainer
from rlxlang.training import Checkpoint
from rlxlang.training.run_state import read_run
from tests.training import runs

KILLS = 3
ROOT = Path(__file__).resolve().parents[2]


class States(Checkpoint):
    """Remembers the state after every step, and writes nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.by_position: dict[tuple[int, int], dict[str, bytes]] = {}

    def after_step(self, trainer: Trainer, loss: float = 0.0) -> None:
        self.by_position[trainer.call_count, trainer.epoch] = runs.state(trainer)

    def after_epoch(self, trainer: Trainer, record: Any) -> None:
        self.after_step(trainer)

    def end(self, trainer: Trainer) -> None:
        return


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trainer, States, Any]:
    """The run that nothing interrupts, and its states."""
    trainer, states = runs.begun(), States(tmp_path_factory.mktemp("states"))
    history = runs.finish(trainer, checkpoint=states)
    return trainer, states, history


@pytest.fixture(autouse=True)
def plain_interrupt() -> Iterator[None]:
    """Ctrl-C as Python has it, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def steps(folder: Path) -> int:
    """The step of the newest checkpoint, 0 where there is none."""
    return max([int(file.stem.removeprefix("step_")) for file in folder.glob("step_*.safetensors")], default=0)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_killed_at_any_moment(straight: tuple[Trainer, States, Any], tmp_path: Path) -> None:
    trainer, states, _ = straight
    rng = np.random.default_rng(0)
    reached = 0
    for _ in range(KILLS):
        command = [sys.executable, runs.__file__, str(tmp_path)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert child.stdout is not None
        child.stdout.readline()
        # Each life writes something, however slow the machine is.
        while steps(tmp_path) <= reached and child.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.1))
        child.kill()
        child.communicate()
        for file in tmp_path.glob("step_*.safetensors"):
            run = read_run(file)
            where = run.position["calls"], run.position["epoch"]
            assert runs.saved_state(run) == states.by_position[where]
            reached = max(reached, run.position["step"])
    assert reached > 0
    last = runs.resumed(tmp_path)
    assert last.step_count == reached
    runs.finish(last, checkpoint=Checkpoint(tmp_path))
    assert runs.state(last) == runs.state(trainer)
    assert not [name for name in names(tmp_path) if name.endswith(".tmp")]


def test_interrupted_by_the_keyboard(straight: tuple[Trainer, States, Any], tmp_path: Path) -> None:
    trainer, _, history = straight

    class Impatient(Checkpoint):
        def after_step(self, trainer: Trainer, loss: float = 0.0) -> None:
            if trainer.call_count == 17:
                os.kill(os.getpid(), signal.SIGINT)

    first = runs.begun()
    with pytest.raises(KeyboardInterrupt, match=r"step 5, saved as .*step_00000005\.safetensors"):
        runs.finish(first, checkpoint=Impatient(tmp_path, None))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert names(tmp_path) == ["step_00000005.safetensors"]
    second = runs.resumed(tmp_path)
    assert (second.epoch, second.batch) == (2, 3)
    rest = runs.finish(second)
    assert runs.state(second) == runs.state(trainer)
    # Those of the epoch that was interrupted, too.
    assert rest.losses == history.losses[2:]
    assert [epoch.train for epoch in rest.epochs] == [epoch.train for epoch in history.epochs[2:]]


def test_a_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    def stubborn(trainer: Trainer, record: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second one has not interrupted")

    with pytest.raises(KeyboardInterrupt):
        runs.finish(runs.begun(), callbacks=[stubborn])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_of_the_last_epoch_is_not_lost(tmp_path: Path) -> None:
    def enough(trainer: Trainer, record: Any) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return True

    with pytest.raises(KeyboardInterrupt, match="training ended with step 2"):
        runs.finish(runs.begun(), callbacks=[enough])


def test_rlx_train_tells_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(trainer: Trainer, *given: Any, **options: Any) -> None:
        raise KeyboardInterrupt("training stopped after step 3")

    monkeypatch.setattr(Trainer, "fit", stop)
    (tmp_path / "model.rlx").write_text(runs.MODEL)
    np.savez(tmp_path / "model.npz", **runs.data())
    assert main(["train", str(tmp_path / "model.rlx"), "--out", str(tmp_path / "w"), "--quiet"]) == 130
    assert capsys.readouterr().err == "interrupted: training stopped after step 3\n"


def test_which_files_stay(tmp_path: Path) -> None:
    runs.begun(accumulate=1).fit(runs.data(), 5, 8, checkpoint=tmp_path / "a")
    assert names(tmp_path / "a") == [f"step_{7 * epoch:08d}.safetensors" for epoch in (3, 4, 5)]
    runs.begun(accumulate=1).fit(runs.data(), 5, 8, checkpoint=Checkpoint(tmp_path / "b" / "c", every=2, keep=9))
    assert names(tmp_path / "b" / "c") == [f"step_{7 * epoch:08d}.safetensors" for epoch in (2, 4, 5)]
    runs.begun(accumulate=1).fit(runs.data(), 2, 8, checkpoint=Checkpoint(tmp_path / "d", None, every_steps=4, keep=9))
    assert names(tmp_path / "d") == [f"step_{step:08d}.safetensors" for step in (4, 8, 12, 14)]
    weights = load_weights(rlx.loads(runs.MODEL), tmp_path / "d" / "step_00000014.safetensors")
    assert weights.param_binding("w1") is not None


@pytest.mark.parametrize(("monitor", "mode"), [(True, None), ("accuracy", None), ("accuracy", "min")])
def test_the_best_state_stays(tmp_path: Path, monitor: bool | str, mode: str | None) -> None:
    figures: list[float] = []
    steps: list[int] = []
    sign = -1 if monitor == "accuracy" and mode is None else 1

    def note(trainer: Trainer, record: Any) -> None:
        figures.append(sign * record.val["loss" if monitor is True else "accuracy"])
        steps.append(trainer.step_count)
        trainer.schedule = rlx.LrSchedule.constant(0.3 * len(steps))  # it gets worse

    keeper = Checkpoint(tmp_path, best=monitor, mode=mode)
    trainer = runs.begun(accumulate=1)
    trainer.fit(runs.data(), 6, 8, val=runs.data(), callbacks=[note], checkpoint=keeper)
    kept = runs.resumed(tmp_path / "best.safetensors")
    assert kept.step_count == steps[int(np.argmin(figures))]
    # Another run that goes on from here knows what was best.
    keeper = Checkpoint(tmp_path, best=monitor, mode=mode)
    trainer.fit(runs.data(), 1, 8, val=runs.data(), callbacks=[note], checkpoint=keeper)
    assert runs.resumed(tmp_path / "best.safetensors").step_count == steps[int(np.argmin(figures))]


def test_patience_goes_on(tmp_path: Path) -> None:
    def worse(trainer: Trainer, record: Any) -> None:
        trainer.schedule = rlx.LrSchedule.constant(3.0)

    def fitted(trainer: Trainer, epochs: int) -> Any:
        return trainer.fit(runs.data(), epochs, 8, patience=3, callbacks=[worse], checkpoint=tmp_path)

    straight = runs.begun(accumulate=1)
    whole = straight.fit(runs.data(), 20, 8, patience=3, callbacks=[worse])
    assert whole.stopped_early
    first = runs.begun(accumulate=1)
    fitted(first, len(whole.epochs) - 1)
    second = runs.resumed(tmp_path)
    second.schedule = rlx.LrSchedule.constant(3.0)
    assert fitted(second, 20).losses == whole.losses[-1:]
    assert second.param("w1").tobytes() == straight.param("w1").tobytes()


def test_damaged_files_are_passed_over(tmp_path: Path) -> None:
    runs.begun(accumulate=1).fit(runs.data(), 3, 8, checkpoint=tmp_path)
    newest, older, oldest = sorted(tmp_path.iterdir(), reverse=True)
    content = bytearray(newest.read_bytes())
    content[-3] ^= 1
    newest.write_bytes(content)
    older.write_bytes(older.read_bytes()[:-5])
    with pytest.warns(rlx.RlxWarning, match="older checkpoint") as caught:
        assert runs.resumed(tmp_path).step_count == 7
    assert len(caught) == 2
    with pytest.raises(rlx.RlxValueError, match=r"step_00000021\.safetensors` is damaged"):
        runs.resumed(newest)
    oldest.unlink()
    (tmp_path / "empty").mkdir()
    with pytest.raises(rlx.RlxValueError, match="no checkpoint in"):
        runs.resumed(tmp_path)
    with pytest.raises(rlx.RlxRuntimeError, match="there is no checkpoint in"):
        runs.resumed(tmp_path / "empty")


def test_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    runs.begun(accumulate=1).save(path)
    changed = rlx.loads("// a comment changes nothing\n" + runs.MODEL, name="another name")
    schedule = runs.OPTIONS["schedule"]
    assert Trainer.resume(path, changed, rlx.optim.AdamW(), schedule=schedule).step_count == 0
    changed = rlx.loads(runs.MODEL.replace("0.2", "rate") + "config rate = 0.3;", rate=0.4)
    with pytest.raises(
        rlx.RlxValueError, match=r"is a run of the model [0-9a-f]{16}, .* is the model [0-9a-f]{16}"
    ) as caught:
        Trainer.resume(path, changed, rlx.optim.AdamW(), schedule=schedule)
    assert caught.value.diagnostics[0].notes[1] == "the run was given no configs, the function rate = 0.4"
    resumed = Trainer.resume(path, changed, rlx.optim.AdamW(), schedule=schedule, same_model=False)
    assert resumed.max_grad_norm == 1.0
    with pytest.raises(rlx.RlxValueError, match="`schedule`"):
        Trainer.resume(path, rlx.loads(runs.MODEL), rlx.optim.AdamW())
    assert Trainer.resume(path, rlx.loads(runs.MODEL), rlx.optim.AdamW(), schedule=None).schedule is None


def test_another_order_of_the_data_is_refused(tmp_path: Path) -> None:
    trainer = runs.begun(accumulate=1)
    trainer.fit(runs.data(), 2, 8, seed=5, checkpoint=Checkpoint(tmp_path, None, every_steps=10, keep=1))
    trainer.batch = 0
    trainer.save(tmp_path / "whole.safetensors")
    tensors, facts = read_tensors(tmp_path / "step_00000014.safetensors")
    facts["position"] = facts["position"].replace('"batch": 0', '"batch": 3')
    write_tensors(tmp_path / "step_00000014.safetensors", tensors, facts)
    with pytest.raises(rlx.RlxValueError, match=r"after 3 batches of rows 50, .*seed 5.*seed 6"):
        runs.resumed(tmp_path).fit(runs.data(), 1, 8, seed=6)
    with pytest.raises(rlx.RlxValueError, match="batches as they came"):
        runs.resumed(tmp_path).fit([runs.data()], 1)
    assert len(runs.resumed(tmp_path).fit(runs.data(), 1, 8, seed=5).epochs) == 1


def test_a_folder_belongs_to_one_run(tmp_path: Path) -> None:
    runs.begun(accumulate=1).fit(runs.data(), 1, 8, checkpoint=tmp_path)
    with pytest.raises(rlx.RlxValueError, match="is at step 7, this one is at step 0"):
        runs.begun(accumulate=1).fit(runs.data(), 1, 8, checkpoint=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(rlx.RlxRuntimeError, match="cannot hold checkpoints"):
        runs.begun(accumulate=1).fit(runs.data(), 1, 8, checkpoint=tmp_path / "file")
    with pytest.raises(rlx.RlxValueError, match="`keep`"):
        Checkpoint(tmp_path, keep=0)
    for name, mode in (("error", None), ("accuracy", "least")):
        with pytest.raises(rlx.RlxValueError, match="least or the greatest"):
            Checkpoint(tmp_path, best=name, mode=mode)
    with pytest.raises(rlx.RlxValueError, match="no such figure"):
        runs.begun(accumulate=1).fit(runs.data(), 1, 8, checkpoint=Checkpoint(tmp_path / "b", best="accuracy"))
