"""What a page says wrongly is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of, run_section

MODEL = "```rlx\ninput x: [2];\nout y = 2 * x;\n```\n"
PYTHON = '```python\nimport rlx\nprint(rlx.load("model.rlx")(x=[1, 2]))\n```\n'


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(f"# Page\n\n## One\n{text}", "utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        f"{MODEL}{PYTHON}```text\n[2. 4.]\n```\n",
        "```rlx\nout y = x;   // error E0201\nout z = 1 + w;   // error E0201\n```\n",
        "```rlx\ninput x: [2];   // warning W0902\nout y = 1;\n```\n",
        '```rlx\ngraph "parts";\nfn f(x) {\n  return x;\n}\n```\n',
        "```rlx\nbind t;\nconfig n: int;\nout y = t * n;\n```\n",
        "```console\n$ rlx check model.rlx\n… 0 errors, …\n```\n",
    ],
)
def test_true_pages_pass(folder: Path, text: str) -> None:
    (folder / "model.rlx").write_text("out y = 1;", "utf-8")
    run_section(page(folder, text), "One", folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```rlx\ninput x: [2];\nout y = z;\n```\n", "E0201"),
        ("```rlx\ninput x: [2];\nout y = x;   // error E0201\n```\n", "expected"),
        ("```rlx\ninput x: [2]; // error E0201\nout y = z;\n```\n", "expected"),
        ("```rlx\ninput x: [2];\nlet u = x;\nout x;\n```\n", "W0902"),
        ("```rlx\ninput x: [2];\n```\n", "E0605"),
        (f"{MODEL}{PYTHON}```text\n[2. 5.]\n```\n", "differs"),
        (f"{MODEL}{PYTHON}", "does not show"),
        (f"{MODEL}```console\n$ rlx check model.rlx\n1 file: 1 error, 0 warnings\n```\n", "prints"),
        ("```console\n$ rlx check nothing.rlx\n```\n", "ends with 1"),
    ],
)
def test_false_pages_fail(folder: Path, text: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        run_section(page(folder, text), "One", folder)


def test_what_is_printed_is_written(folder: Path) -> None:
    path = page(folder, f"{MODEL}{PYTHON}```text\n```\nand\n{PYTHON}```text\nold\nlines\n```\n")
    run_section(path, "One", folder, update=True)
    assert [b.text for b in blocks_of(path) if b.language == "text"] == ["[2. 4.]\n"] * 2
    run_section(path, "One", folder)
