"""Programs on the other pages run, and links of all pages lead somewhere."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.docs.blocks import ROOT, blocks_of, run_section, sections

PAGES = [
    p for pattern in ("*.md", "docs/*.md", "docs/adr/*.md", "examples/**/*.md") for p in sorted(ROOT.glob(pattern))
]


@pytest.mark.parametrize(
    ("page", "section"),
    sections(
        "README.md",
        "docs/debugging.md",
        "docs/low-precision.md",
        "docs/random.md",
        "docs/training.md",
        "docs/transforms.md",
    ),
)
def test_blocks(
    page: str, section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    run_section(ROOT / page, section, tmp_path, request.config.getoption("--update-golden"))


def test_cells_of_the_page_of_notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from IPython.core.interactiveshell import InteractiveShell

        shell = InteractiveShell.instance(history_load_length=0)
        shell.history_manager.enabled = False
    try:
        shell.user_ns["np"] = np
        cells = [b for b in blocks_of(ROOT / "docs/notebook.md") if b.language == "python" or b.text.startswith("%%")]
        for cell in cells:
            assert shell.run_cell(cell.text.rstrip()).success, cell.text
        assert {"mlp", "p"} <= set(shell.user_ns)
        np.testing.assert_allclose(shell.user_ns["p"].sum(1), 1, rtol=1e-5)
        shell.run_line_magic("unload_ext", "rlxlang")
    finally:
        InteractiveShell.clear_instance()


def _prose(page: Path) -> str:
    """The text of a page without its fenced blocks."""
    lines = page.read_text("utf-8").splitlines()
    inside = {n for b in blocks_of(page) for n in range(b.line - 1, b.line + b.text.count("\n") + 1)}
    return "\n".join(line for n, line in enumerate(lines, 1) if n not in inside)


def _anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make."""
    titles = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in _anchors(target), f"there is no {link}"
