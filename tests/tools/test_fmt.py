"""`rlx fmt`: files, folders, standard input, exit codes."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from rlxlang.tools.cli import main

UGLY = "let a=1 ; // c\r\n"
NEAT = "let a = 1;  // c\n"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with a neat, an ugly and a foreign file."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "neat.rlx").write_text(NEAT, "utf-8")
    (tmp_path / "sub" / "ugly.rlx").write_bytes(UGLY.encode())
    (tmp_path / "notes.txt").write_text(UGLY, "utf-8")
    return tmp_path


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))


def test_files_of_a_folder_are_rewritten(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (models / "neat.rlx").stat().st_mtime_ns
    assert main(["fmt", str(models)]) == 0
    assert capsys.readouterr().out == f"changed {models / 'sub' / 'ugly.rlx'}\n"
    assert (models / "sub" / "ugly.rlx").read_bytes() == NEAT.encode()
    assert (models / "notes.txt").read_bytes() == UGLY.encode()
    assert (models / "neat.rlx").stat().st_mtime_ns == before
    assert sorted(p.name for p in models.rglob("*.*")) == ["neat.rlx", "notes.txt", "ugly.rlx"]
    assert main(["fmt", str(models)]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(os.name == "nt", reason="modes and links of POSIX")
def test_mode_and_link_stay(models: Path) -> None:
    file, link = models / "sub" / "ugly.rlx", models / "link.rlx"
    file.chmod(0o640)
    link.symlink_to(file)
    assert main(["fmt", str(link)]) == 0
    assert link.is_symlink()
    assert file.read_text("utf-8") == NEAT
    assert file.stat().st_mode & 0o777 == 0o640


def test_check_writes_nothing(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fmt", "--check", str(models)]) == 1
    assert capsys.readouterr().out == f"would change {models / 'sub' / 'ugly.rlx'}\n"
    assert (models / "sub" / "ugly.rlx").read_bytes() == UGLY.encode()
    assert main(["fmt", "--check", str(models / "neat.rlx")]) == 0


def test_diff_writes_nothing(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = models / "sub" / "ugly.rlx"
    file.write_text("let a=1;", "utf-8")
    assert main(["fmt", "--diff", str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"--- {file}",
        f"+++ {file}",
        "@@ -1 +1 @@",
        "-let a=1;",
        "\\ No newline at end of file",
        "+let a = 1;",
    ]
    assert file.read_text("utf-8") == "let a=1;"


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    give(monkeypatch, 'graph "näme"  ;'.encode())
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["fmt", "-"]) == 0
    assert out.buffer.getvalue() == 'graph "näme";\n'.encode()  # type: ignore[attr-defined]
    give(monkeypatch, b"let a=1;")
    assert main(["fmt", "--check", "-"]) == 1


def test_errors_do_not_stop_other_files(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (models / "broken.rlx").write_text("let a = ;\nlet = 3;\n", "utf-8")
    (models / "latin.rlx").write_bytes(b"// \xe9\n")
    assert main(["fmt", str(models), str(models / "none.rlx")]) == 1
    err = capsys.readouterr().err
    assert "broken.rlx:1:9" in err
    assert "broken.rlx:2" in err
    assert "latin.rlx is not valid UTF-8 at byte 3" in err
    assert "none.rlx cannot be read" in err
    assert (models / "broken.rlx").read_text("utf-8") == "let a = ;\nlet = 3;\n"
    assert (models / "sub" / "ugly.rlx").read_text("utf-8") == NEAT


def test_a_file_that_cannot_be_replaced_is_reported(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    assert main(["fmt", str(models)]) == 1
    assert "cannot be written: Permission denied" in capsys.readouterr().err
    assert sorted(p.name for p in (models / "sub").iterdir()) == ["ugly.rlx"]
    assert (models / "sub" / "ugly.rlx").read_bytes() == UGLY.encode()


@pytest.mark.parametrize("words", [["fmt"], ["fmt", "-", "a.rlx"], ["fmt", "--wrong", "a.rlx"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "rlx" in capsys.readouterr().err
