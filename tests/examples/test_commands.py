"""The page of the examples lists them all, and its commands and programs run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlxlang.tools.cli import main
from tests.docs.blocks import ROOT, run_section, sections
from tests.examples.models import EXAMPLES

PAGE = "examples/README.md"
TEXT = (ROOT / PAGE).read_text("utf-8")
COMMANDS = re.findall(r"`rlx ([^`]*)`", TEXT)
# What takes long to compile is made smaller.
SMALLER = {
    "vision_transformer.rlx": ("--set", "depth=1"),
    "flow.rlx": ("--set", "layers=2"),
    "residual_network.rlx": ("--set", "stages=1"),
}


@pytest.fixture(autouse=True)
def _folder_of_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the folder whose data are short."""
    for path in EXAMPLES.rglob("*.rlx"):
        copy = tmp_path / path.relative_to(EXAMPLES)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    with np.load(EXAMPLES / "digits" / "digits.npz") as data:
        np.savez(tmp_path / "digits" / "digits.npz", **{n: data[n][:160] for n in data.files})
    monkeypatch.chdir(tmp_path)


def test_all_are_listed() -> None:
    linked = set(re.findall(r"^\| \[(\w+)\]", TEXT, re.MULTILINE))
    assert linked == {path.stem for path in EXAMPLES.rglob("*.rlx")}
    assert all((EXAMPLES / link).exists() for link in re.findall(r"\]\(([^)]+)\)", TEXT))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: "-".join(c.split()[:2]))
def test_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)
    if words[0] == "train":
        words += ["--epochs", "1", *SMALLER.get(words[1], ())]
    assert main(words) == 0
    assert "nan" not in capsys.readouterr().out


@pytest.mark.parametrize(("page", "section"), sections(PAGE))
def test_programs(page: str, section: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run_section(ROOT / page, section, tmp_path, request.config.getoption("--update-golden"))
