"""Every code has a page, and every page tells the truth: its programs are run and their messages compared."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rlxlang.diagnostics import CODES

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "errors"
SAMPLE = """\
# E0401: shapes do not broadcast

Prose.

```rlx wrong
input x: [2, 3];
input b: [2];
out y = x + b;
```

```text
MESSAGE
```

```rlx right
input x: [2, 3];
input b: [3];
out y = x + b;
```
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """Return the program that runs and writes the pages."""
    spec = importlib.util.spec_from_file_location("error_pages", ROOT / "tools" / "error_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return a file for a page about E0401."""
    return tmp_path / "E0401.md"


@pytest.mark.parametrize("code", CODES)
def test_page(tool: ModuleType, code: str) -> None:
    path = PAGES / f"{code}.md"
    assert path.is_file(), f"write docs/errors/{code}.md, then: python tools/error_pages.py --update {code}"
    tool.check_page(path)


def test_every_page_has_a_code(tool: ModuleType) -> None:
    assert {path.stem for path in tool.pages()} <= CODES.keys()


def test_the_index_is_current(tool: ModuleType) -> None:
    assert tool.INDEX.read_text("utf-8") == tool.index(), "python tools/error_pages.py --update"
    assert all(f"[{code}]({code}.md)" in tool.index() for code in CODES)


def test_messages_are_written_and_compared(tool: ModuleType, page: Path) -> None:
    page.write_text(SAMPLE)
    with pytest.raises(ValueError, match="out of date"):
        tool.check_page(page)
    tool.update_page(page)
    assert "error[E0401]: `+`: shapes [2, 3] and [2] do not fit" in page.read_text()
    tool.check_page(page)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("out y = x + b;\n```\n\n```text", "out y = x + c;\n```\n\n```text", "E0401 expected\nerror.E0201"),
        ("out y = x + b;\n```\n\n```text", "out y = x[0] + x[1];\n```\n\n```text", "E0401 expected\nwarning.W0902"),
        ("input b: [3];\nout y = x + b;", "input b: [3];\nout y = x;", "the right program gets\nwarning.W0902"),
        ("input b: [3];\nout y = x + b;", "input b: [3];\n\n\nout y = x+b;", "not in canonical layout"),
        ("```rlx right", "```rlx wight", "found `rlx wight`"),
        ("# E0401: shapes", "# E0401: Shapes", "the page begins with"),
    ],
)
def test_faults_of_pages_are_found(tool: ModuleType, page: Path, old: str, new: str, problem: str) -> None:
    page.write_text(SAMPLE)
    tool.update_page(page)
    assert page.read_text().count(old) == 1
    page.write_text(page.read_text().replace(old, new))
    with pytest.raises(ValueError, match=problem):
        tool.check_page(page)


def test_a_wrong_program_needs_a_message(tool: ModuleType, page: Path) -> None:
    page.write_text(SAMPLE.replace("```text\nMESSAGE\n```\n\n", ""))
    with pytest.raises(ValueError, match="a `text` block follows"):
        tool.read(page)


def test_a_wrong_program_needs_a_right_one(tool: ModuleType, page: Path) -> None:
    page.write_text(SAMPLE[: SAMPLE.index("```rlx right")])
    with pytest.raises(ValueError, match="belong together"):
        tool.read(page)
