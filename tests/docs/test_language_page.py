"""The page of the language says what the implementation does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, run_section, sections

PAGE = "docs/language.md"


@pytest.mark.parametrize(("page", "section"), sections(PAGE))
def test_blocks(
    page: str, section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    run_section(ROOT / page, section, tmp_path, request.config.getoption("--update-golden"))
