"""The command `rlx`: what it prints, writes and returns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlxlang.checkpoint import read_tensors
from rlxlang.tools.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.rlx"
LINE = """
graph "line";
config factor = 1.0;
input x: [?n, 2]; input y: [?n];
param w: [2] = ones();
let p = sum(x * w, 1) * factor;
out loss = mean(square(p - y));
out p;
"""


@pytest.fixture
def line(tmp_path: Path) -> Path:
    """A model with its data beside it, in an empty folder."""
    (tmp_path / "line.rlx").write_text(LINE)
    x = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    np.savez(tmp_path / "line.npz", x=x, y=x @ np.float32([2, -1]))
    np.save(tmp_path / "digits.npy", x)
    return tmp_path / "line.rlx"


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_train_reads_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(DIGITS), "--epochs", "15"]) == 0
    out = capsys.readouterr().out
    last = out.strip().splitlines()[-1]
    assert last.startswith("held-out accuracy ")
    assert float(last.split()[2]) >= 96.5
    assert "1,438 rows to train on, 359 held out" in out
    assert out.count("val accuracy") == 15
    arrays, _ = read_tensors(tmp_path / "digits.safetensors")
    assert {n: a.shape for n, a in arrays.items()} == {"w1": (64, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)}

    # The labels of the data are not needed to read an image.
    data = np.load(DIGITS.with_suffix(".npz"))
    np.save(tmp_path / "image.npy", data["x"][:1])
    assert main(["run", str(DIGITS), "--weights", "digits.safetensors", "--input", "x=image.npy"]) == 0
    out = capsys.readouterr().out
    assert f"class {data['y'][0]}," in out
    assert "left out, since they need `y`: loss" in out


def test_train_has_options(line: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "train",
        str(line),
        "--data",
        str(line.with_suffix(".npz")),
        "--epochs",
        "40",
        "--batch-size",
        "8",
        "--quiet",
    ]
    words += ["--optimizer", "sgd", "--momentum", "0.5", "--lr", "0.1", "--schedule", "linear", "--seed", "4"]
    words += [
        "--set",
        "factor=2",
        "--val-fraction",
        "0.25",
        "--out",
        "w.st",
        "--device",
        "reference",
        "--max-grad-norm",
        "5",
    ]
    assert main(words) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    assert captured.out.startswith("held-out loss ")
    assert captured.err == ""
    np.testing.assert_allclose(read_tensors(tmp_path / "w.st")[0]["w"], [1, -0.5], atol=1e-3)


def test_train_without_held_out_rows(line: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(line), "--epochs", "1", "--val-fraction", "0"]) == 0
    assert "training loss" in capsys.readouterr().out


def test_train_draws_losses(line: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert main(["train", str(line), "--epochs", "2", "--plot", "loss.png"]) == 0
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_arrays_that_are_no_inputs_are_named(line: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = dict(np.load(line.with_suffix(".npz")))
    np.savez(line.with_suffix(".npz"), more=np.zeros(3), **arrays)
    assert main(["train", str(line), "--epochs", "1"]) == 0
    assert "not an input, so not used: more" in capsys.readouterr().out


def test_run_writes_outputs(line: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(line.with_suffix(".npz"))
    assert main(["run", str(line), "--seed", "0", "--data", data, "--output", "out.npz"]) == 0
    with np.load(tmp_path / "out.npz") as out, np.load(data) as given:
        np.testing.assert_allclose(out["p"], given["x"].sum(1), rtol=1e-5)
        assert out["loss"].shape == ()
    capsys.readouterr()
    assert main(["run", str(line), "--seed", "0", "--data", data, "--index", "-1"]) == 0
    assert "p (float32 [1])" in capsys.readouterr().out
    assert main(["run", str(line), "--seed", "0", "--input", "x=[[1, 2], [3, 4]]", "--set", "factor=10"]) == 0
    assert "p (float32 [2]): [30., 70.]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "none.rlx"], "none.rlx"),
        (["train", "line.rlx", "--data", "none.npz"], "cannot be read"),
        (["train", "line.rlx", "--data", "line.rlx"], "no .npz"),
        (["train", "line.rlx", "--set", "factor"], "NAME=VALUE"),
        (["train", "line.rlx", "--set", "facto=1"], "factor"),
        (["train", "line.rlx", "--val-fraction", "1"], "val-fraction"),
        (["train", "line.rlx", "--batch-size", "0"], "batch_size"),
        (["train", "line.rlx", "--lr", "-1"], "lr"),
        (["train", "line.rlx", "--momentum", "0.5"], "momentum"),
        (["train", "line.rlx", "--device", "tpu"], "tpu"),
        (["train", "line.rlx", "--epochs", "-1"], "--epochs"),
        (["train", "line.rlx", "--data", "digits.npy"], "no .npz"),
        (["train", "line.rlx", "--epochs", "1000000", "--out", "no/w.st"], "cannot be written"),
        (["train", "line.rlx", "--epochs", "1000000", "--out", "."], "cannot be written"),
        (["train", "line.rlx", "--epochs", "1000000", "--plot", "no/p.png"], "cannot be written"),
        (["run", "line.rlx", "--input", "x=[[1, 2]]"], "--weights"),
        (["run", "line.rlx", "--seed", "0"], "no output"),
        (["run", "line.rlx", "--seed", "0", "--input", "z=1"], "`z`"),
        (["run", "line.rlx", "--seed", "0", "--input", "x=[[1, 2"], "not understood"),
        (["run", "line.rlx", "--seed", "0", "--data", "line.npz", "--index", "60"], "60 rows"),
        (["run", "line.rlx", "--weights", "line.npz", "--data", "line.npz"], "has no param `x`"),
        (["summary", "none.rlx"], "none.rlx"),
    ],
)
def test_errors_are_messages(line: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error[")
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_a_picture_of_unknown_format(line: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert main(["train", str(line), "--epochs", "1000000", "--plot", "loss.abc"]) == 1
    assert "no picture format `abc`" in capsys.readouterr().err


def test_labels_that_are_no_class_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(DIGITS.with_suffix(".npz")) as data:
        np.savez(tmp_path / "from_one.npz", x=data["x"], y=data["y"] + 1)
    assert main(["train", str(DIGITS), "--data", "from_one.npz", "--epochs", "1"]) == 1
    assert "holds the label 10, there are 10 classes" in capsys.readouterr().err


def test_data_beside_the_model_may_be_missing(line: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line.with_suffix(".npz").unlink()
    assert main(["train", str(line)]) == 1
    assert "--data" in capsys.readouterr().err
    np.savez(line.with_suffix(".npz"), z=np.zeros(3))
    assert main(["train", str(line)]) == 1
    assert "the inputs are x, y" in capsys.readouterr().err


def test_check(line: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(line)]) == 0
    assert "1 file: 0 errors" in capsys.readouterr().out
    (tmp_path / "wrong.rlx").write_text("input x: [2];\nout y = x @ nothing;\n")
    assert main(["check", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "error[E0201]" in out
    assert "2 files: 1 error" in out
    assert main(["check", str(tmp_path), "--format", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["code"], found["line"], found["column"]) == ("E0201", 2, 13)
    assert found["file"].endswith("wrong.rlx")


def test_check_asks_no_output_of_parts_for_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "parts.rlx").write_text("fn twice(x) {\n  return 2 * x;\n}\n")
    assert main(["check", str(tmp_path)]) == 0
    assert "1 file: 0 errors" in capsys.readouterr().out
    (tmp_path / "parts.rlx").write_text("input x: [2];\nfn twice(x) {\n  return 2 * x;\n}\n")
    assert main(["check", str(tmp_path)]) == 1
    assert "E0605" in capsys.readouterr().out


def test_json_says_all_that_a_diagnostic_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "wrong.rlx"
    model.write_text("input x: [4];\nlet width = 2;\nfn f(v) { return v * wdith; }\nlet y = f(x);\nout y, y;\n")
    assert main(["check", str(model), "--format", "json"]) == 1
    unknown, twice = json.loads(capsys.readouterr().out)
    assert (unknown["severity"], unknown["message"]) == ("error", "unknown name `wdith`")
    assert (unknown["line"], unknown["column"], unknown["end_line"], unknown["end_column"]) == (3, 22, 3, 27)
    assert unknown["helps"] == ["did you mean `width`?"]
    assert [(c["line"], c["column"], "f" in c["text"]) for c in unknown["chain"]] == [(4, 9, True)]
    (fix,) = unknown["fixes"]
    assert fix["preferred"]
    assert [(e["line"], e["column"], e["end_column"], e["text"]) for e in fix["edits"]] == [(3, 22, 27, "width")]
    assert [(p["line"], p["column"], p["text"]) for p in twice["labels"]] == [(5, 8, ""), (5, 5, "listed here first")]
    assert twice["chain"] == twice["fixes"] == twice["notes"] == []


def test_json_of_odd_characters_can_be_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "odd.rlx"
    model.write_text('use "\u202e\x85.rlx"; out y = 1;')
    assert main(["check", str(model), "--format", "json"]) == 1
    assert "\\u{202e}" in capsys.readouterr().out


def test_warnings_fail_when_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "warned.rlx").write_text("input x: [2];\nlet y = x * 2.0; // * 3.0\n// y = 3\nout y; // x\n")
    (tmp_path / "clipped.rlx").write_text("input x: [4];\nout y = x[0..9];\n")
    assert main(["check", "clipped.rlx"]) == 0
    assert "W0906" in capsys.readouterr().out
    assert main(["check", "clipped.rlx", "--strict"]) == 1


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(DIGITS)]) == 0
    out = capsys.readouterr().out
    assert "9,610 in 4 tensors" in out
    assert "18944*?batch" in out
    assert "product" in out
    assert main(["summary", str(DIGITS), "--set", "hidden=32", "--no-kernels"]) == 0
    out = capsys.readouterr().out
    assert "2,410 in 4 tensors" in out
    assert "kernel" not in out


def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert "reference" in out
    assert "fastest: " in out


@pytest.mark.parametrize("words", [[], ["trian"], ["train"], ["train", "m.rlx", "--nothing"], ["check"]])
def test_a_wrong_command_line_is_code_two(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_has_examples(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert "examples:" in capsys.readouterr().out


def test_module_form() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rlxlang", "--version"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "rlxlang")


def test_folders_are_searched_but_for_hidden_ones_environments_and_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (".", "models/deep", ".git", "env/lib", "build/lib", "node_modules/x"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "m.rlx").write_text("input x: [2];\nout y = x;\n")
    (tmp_path / "env/pyvenv.cfg").write_text("")
    assert main(["check", str(tmp_path)]) == 0
    assert "2 files: 0 errors" in capsys.readouterr().out
    assert main(["fmt", "--check", str(tmp_path)]) == 0
    assert main(["check", str(tmp_path / "build")]) == 0
    assert main(["check", str(tmp_path / ".git" / "m.rlx")]) == 0
