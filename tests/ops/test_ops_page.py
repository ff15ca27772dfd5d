"""`docs/ops.md` lists every function and every op."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rlxlang.ir import OPS, SURFACES

TOOL = Path(__file__).resolve().parents[2] / "tools" / "ops_docs.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ops_docs", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(tool: ModuleType) -> None:
    assert tool.main([]) == 0, "python tools/ops_docs.py --update"


def test_everything_is_listed(tool: ModuleType) -> None:
    text = tool.page()
    for name in SURFACES:
        assert f"`{name}(" in text or f"`{name}`" in text, name
    for name in OPS:
        assert f"| `{name}`" in text, name
    assert all(s.doc for s in SURFACES.values())
    assert all(op.doc for op in OPS.values())
