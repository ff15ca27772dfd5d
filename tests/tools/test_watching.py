"""`--debug-nans`, `--debug-checks` and `--trace` of the commands that run models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlxlang.tools.cli import main

TEXT = """\
input x: [?b, 2];
input i: [I32; ?b];
param w: [2] = ones();
out loss = mean(log(x @ w) * gather(w, i));
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.rlx"
    path.write_text(TEXT)
    return str(path)


def test_run(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["run", model, "--seed", "0", "--input", "x=[[1,2],[-3,1]]", "--input", "i=[0,5]"]
    assert main(given) == 0
    assert "nan" in capsys.readouterr().out
    assert main([*given, "--debug-nans"]) == 1
    shown = capsys.readouterr().err
    assert "E0813" in shown
    assert "`log` makes nan at [1]" in shown
    assert main([*given, "--debug-checks"]) == 1
    assert "the position 5 at [1]" in capsys.readouterr().err
    assert main([*given, "--trace"]) == 0
    assert any(line.startswith("log ") and "1 NaN" in line for line in capsys.readouterr().err.splitlines())


def test_train(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(tmp_path / "m.npz")
    out = str(tmp_path / "m.safetensors")
    x = np.ones((10, 2), np.float32)
    x[3] = -1
    np.savez(data, x=x, i=np.zeros(10, np.int32))
    given = ["train", model, "--data", data, "--out", out, "--epochs", "1", "--val-fraction", "0", "--batch-size", "5"]
    assert main([*given, "--debug-nans"]) == 1
    assert "`log` makes nan" in capsys.readouterr().err
