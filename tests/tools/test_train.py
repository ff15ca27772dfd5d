"""`rlx train` with settings from files, run folders, sweeps and data of several kinds, and `rlx eval`."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.checkpoint import read_tensors, write_tensors
from rlxlang.tools.cli import main
from rlxlang.tools.optimizer_options import RATES, SCHEDULES

MODEL = """
graph "flowers";
config hidden = 4;
input x: [?batch, 2];
input y: [I32; ?batch];
param w: [2, hidden] = he_normal();
param v: [hidden, 3] = he_normal();
let logits = dropout(relu(x @ w), 0.1) @ v;
out loss = mean(softmax_cross_entropy(logits, y));
tap logits;
"""


@pytest.fixture(autouse=True)
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A model and its data in the present folder; gives the data."""
    monkeypatch.chdir(tmp_path)
    Path("flowers.rlx").write_text(MODEL, "utf-8")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120).astype(np.int32)
    x = (rng.normal(size=(120, 2)) * 0.5 + np.array([[2, 0], [0, 2], [-2, -2]])[y]).astype(np.float32)
    np.savez("flowers.npz", x=x, y=y)
    return {"x": x, "y": y}


def train(*words: str) -> int:
    return main(["train", "flowers.rlx", "--epochs", "3", *words])


def weights(path: str = "flowers.safetensors") -> dict[str, Any]:
    return read_tensors(path)[0]


def assert_same_bits(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert sorted(first) == sorted(second)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


# --------------------------------------------------------------------------------------------- optimizers


@pytest.mark.parametrize("name", ["sgd", "muon", "soap", "adafactor", "lion", "kronpsgd", "sophia"])
def test_optimizers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--optimizer", name, "--quiet", "--epochs", "1") == 0
    assert "held-out accuracy" in capsys.readouterr().out


def test_every_optimizer_and_schedule_has_a_name() -> None:
    own = {n.lower() for n in rlx.optim.__all__ if isinstance(getattr(rlx.optim, n), type)}
    others = {"algorithm", "chain", "clipbyglobalnorm", "clipbyvalue", "clipperlayer", "gradienttransform", "lookahead"}
    assert own - set(RATES) == others | {"optimizer", "skipnonfinite"}
    for make in SCHEDULES.values():
        schedule = make(0.5, 100, 0)
        assert 0 <= schedule.lr_at(99) <= schedule.lr_at(30) <= 0.5
    assert SCHEDULES["linear"](0.5, 100, 10).lr_at(4) == pytest.approx(0.25)
    assert SCHEDULES["linear"](0.5, 100, 10).lr_at(10) == 0.5


def test_settings_of_optimizers_reach_them(capsys: pytest.CaptureFixture[str]) -> None:
    train(
        "--optimizer",
        "adamw",
        "--opt",
        "betas=0.5,0.6",
        "--opt",
        "eps=0.1",
        "--lr",
        "0.01",
        "--schedule",
        "constant",
        "--quiet",
    )
    data = dict(np.load("flowers.npz"))
    func = rlx.load("flowers.rlx").init_params(seed=0)
    opt = rlx.optim.AdamW(0.01, betas=(0.5, 0.6), eps=0.1)
    order = np.random.default_rng(0).permutation(120)[:96]
    trainer = func.trainer(opt, rlx.LrSchedule.constant(0.01))
    trainer.fit({n: a[order] for n, a in data.items()}, 3, batch_size=32, progress=False)
    assert_same_bits(weights(), {n: np.asarray(a) for n, a in trainer.func().bindings.items()})


# --------------------------------------------------------------------------------------------- settings and folders


def test_settings_of_a_file_stand_under_those_of_the_line() -> None:
    Path("run.toml").write_text(
        'epochs = 2\noptimizer = "sgd"\nlr = 0.05\nmetrics = "accuracy,f1"\n[set]\nhidden = 6\n[opt]\nnesterov = true\n',
        "utf-8",
    )
    assert main(["train", "flowers.rlx", "--settings", "run.toml", "--run-dir", "a", "--epochs", "1"]) == 0
    assert weights("a/weights.safetensors")["w"].shape == (2, 6)
    with Path("a/log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1"]
    assert "val_f1" in rows[0]
    assert main(["train", "flowers.rlx", "--settings", "a/settings.toml", "--run-dir", "b"]) == 0
    assert_same_bits(weights("a/weights.safetensors"), weights("b/weights.safetensors"))


def test_a_run_goes_on_bit_for_bit(capsys: pytest.CaptureFixture[str]) -> None:
    """Stopped by Ctrl-C after some epochs, in a process of its own."""
    words = ["train", "flowers.rlx", "--epochs", "400", "--optimizer", "adamw", "--quiet", "--batch-size", "4"]
    assert main([*words, "--run-dir", "whole"]) == 0
    command = [sys.executable, "-m", "rlxlang", *words, "--run-dir", "part"]
    root = str(Path(rlx.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True)
    deadline = time.monotonic() + 120
    while not list(Path("part/checkpoints").glob("step_*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    if process.returncode == 0:
        pytest.skip("the run was over before it could be interrupted")
    assert process.returncode == 130, said
    assert "interrupted: training stopped after step" in said
    assert not Path("part/weights.safetensors").exists()
    assert main([*words, "--run-dir", "part"]) == 1
    assert "holds a run already" in capsys.readouterr().err
    assert main([*words, "--run-dir", "part", "--lr", "0.5", "--resume"]) == 1
    assert "lr = 0.5" in capsys.readouterr().err
    assert main([*words, "--run-dir", "part", "--resume"]) == 0
    assert_same_bits(weights("whole/weights.safetensors"), weights("part/weights.safetensors"))


def test_a_report_tells_what_came_out() -> None:
    assert train("--run-dir", "r", "--metrics", "accuracy,f1", "--ema", "0.9", "--quiet") == 0
    text = Path("r/report.md").read_text("utf-8")
    assert "best epoch" in text
    assert "| f1 |" in text
    assert "what it is taken for" in text
    result = json.loads(Path("r/result.json").read_text("utf-8"))
    assert set(result["figures"]) == {"loss", "accuracy", "f1"}
    assert result["epochs"] == 3


def test_a_sweep_runs_each_point_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--run-dir", "grid", "--sweep", "lr=0.001,0.1", "--sweep", "hidden=2,5", "--quiet"]
    assert train(*words) == 0
    table = capsys.readouterr().out.splitlines()[-5:]
    assert table[0].split() == ["lr", "hidden", "loss", "accuracy"]
    scores = [float(line.split()[-1]) for line in table[1:]]
    assert scores == sorted(scores, reverse=True)
    assert weights("grid/lr=0.1,hidden=5/weights.safetensors")["w"].shape == (2, 5)
    stamps = {p: p.stat().st_mtime_ns for p in Path("grid").rglob("weights.safetensors")}
    assert len(stamps) == 4
    Path("grid/lr=0.1,hidden=5/result.json").unlink()
    assert train(*words) == 0
    again = {p for p in stamps if p.stat().st_mtime_ns != stamps[p]}
    assert again == {Path("grid/lr=0.1,hidden=5/weights.safetensors")}


# --------------------------------------------------------------------------------------------- data


def write_csv(arrays: dict[str, Any], words: bool = True) -> None:
    names = ["iris", "lily", "rose"]
    rows = ["length,width,kind"]
    for (a, b), k in zip(arrays["x"], arrays["y"], strict=True):
        rows.append(f"{float(a)!r},{float(b)!r},{names[k] if words else k}")
    Path("flowers.csv").write_text("\n".join(rows) + "\n", "utf-8")


def test_data_of_all_kinds_train_the_same(arrays: dict[str, Any]) -> None:
    write_csv(arrays)
    write_tensors("data.safetensors", arrays)
    Path("flower_data.py").write_text(
        "import numpy as np\ndef load():\n    return dict(np.load('flowers.npz'))\n", "utf-8"
    )
    assert train("--out", "npz.st", "--quiet") == 0
    columns = ["--columns", "x=length,width", "--columns", "y=kind"]
    for place, more in (("flowers.csv", columns), ("data.safetensors", []), ("flower_data:load", [])):
        assert train("--data", place, *more, "--quiet") == 0
        assert_same_bits(weights("npz.st"), weights())


def test_a_model_is_run_on_columns(arrays: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(arrays)
    words = [
        "run",
        "flowers.rlx",
        "--seed",
        "0",
        "--data",
        "flowers.csv",
        "--columns",
        "x=length,width",
        "--output",
        "o.npz",
    ]
    assert main(words) == 0
    func = rlx.load("flowers.rlx").init_params(seed=0)
    with np.load("o.npz") as file:
        np.testing.assert_allclose(file["logits"], func.run(arrays, seed=0)[1], rtol=1e-5)
    assert "left out, since they need `y`: loss" in capsys.readouterr().out


def test_held_out_data_of_a_file_of_its_own(arrays: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("val.npz", x=arrays["x"][:30], y=arrays["y"][:30])
    assert train("--val", "val.npz") == 0
    assert "120 rows to train on, 30 held out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1.0,,rose", "line 3 of `bad.csv`: the field of column `width` is empty"),
        ("1.0,wide,rose", "'wide' in column `width` is no number"),
        ("1.0,2.0", "line 3 of `bad.csv` has 2 fields, the header 3"),
    ],
)
def test_bad_lines_are_named(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.csv").write_text(f"length,width,kind\n1,2,rose\n{line}\n", "utf-8")
    assert train("--data", "bad.csv", "--columns", "x=length,width", "--columns", "y=kind") == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--optimizer", "adamw", "--opt", "beta=1"], "did you mean `betas`?"),
        (["--optimizer", "lion", "--opt", "betas=3"], "betas"),
        (["--schedule", "one_cycle", "--warmup", "5"], "begins with one"),
        (["--warmup", "-1"], "--warmup"),
        (["--resume"], "--run-dir"),
        (["--run-dir", "none", "--resume"], "no run to go on with"),
        (["--sweep", "lr=1,2"], "--run-dir"),
        (["--run-dir", "s", "--sweep", "lr=a"], "no value of `--lr`"),
        (["--run-dir", "s", "--sweep", "lr="], "has no values"),
        (["--run-dir", "s", "--sweep", "quiet=1"], "no option of a single run"),
        (["--settings", "none.toml"], "cannot be read"),
        (["--columns", "x=a"], "for CSV files"),
        (["--data", "nothing_here:load"], "ModuleNotFoundError"),
        (["--metrics", "acuracy"], "accuracy"),
        (["--quant", "e9m9"], "e9m9"),
    ],
)
def test_what_is_wrong_is_said_before_training(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(*words) == 1
    said = capsys.readouterr()
    assert message in said.err
    assert "epoch 1" not in said.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch = 3", "did you mean `epochs`?"),
        ('epochs = "three"', "`epochs` is a whole number"),
        ("quiet = 1", "true or false"),
        ('optimizer = "adamm"', "one of"),
        ("set = 3", "table"),
        ("epochs = ", "no TOML"),
        ('model = "a.rlx"', "no setting `model`"),
    ],
)
def test_wrong_settings_are_named(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.toml").write_text(text + "\n", "utf-8")
    assert train("--settings", "bad.toml") == 1
    assert message in capsys.readouterr().err


# --------------------------------------------------------------------------------------------- eval


def test_evaluation(arrays: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--quiet", "--epochs", "20") == 0
    capsys.readouterr()
    words = ["eval", "flowers.rlx", "--weights", "flowers.safetensors", "--data", "flowers.npz"]
    assert main([*words, "--metrics", "accuracy,f1", "--format", "json", "--predictions", "p.npz"]) == 0
    report = json.loads(capsys.readouterr().out)
    with np.load("p.npz") as file:
        found = np.argmax(file["logits"], axis=1)
    truth = arrays["y"]
    confusion = np.array([[np.sum((truth == t) & (found == f)) for f in range(3)] for t in range(3)])
    assert report["confusion"] == confusion.tolist()
    assert report["metrics"]["accuracy"] == pytest.approx(np.mean(found == truth))
    first = report["classes"][0]
    assert first["recall"] == pytest.approx(confusion[0, 0] / confusion[0].sum())
    assert first["precision"] == pytest.approx(confusion[0, 0] / confusion[:, 0].sum())
    assert report["metrics"]["f1"] == pytest.approx(np.mean([row["f1"] for row in report["classes"]]), abs=1e-6)
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "120 rows" in text
    assert "precision" in text
    assert main([*words[:-2], "--data", "none.npz"]) == 1
