"""The library as a whole: its texts are clean, canonical, documented and tested, and its page is true."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import rlxlang as rlx
from rlxlang.frontend import ast
from rlxlang.ir import SURFACES
from rlxlang.resources import stdlib_modules, stdlib_source

TESTS = Path(__file__).resolve().parent
TOOL = TESTS.parents[1] / "tools" / "stdlib_docs.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """Return the program that writes the page."""
    spec = importlib.util.spec_from_file_location("stdlib_docs", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", stdlib_modules())
def test_a_text_is_clean_and_canonical(name: str) -> None:
    source = stdlib_source(name)
    assert source is not None
    assert rlx.format(source) == source, f"rlx fmt stdlib/{name}.rlx"
    assert rlx.check(f"use {name}; use {name}::*; input x: []; out x;") == []
    assert max(len(line) for line in source.splitlines()) <= 140


@pytest.mark.parametrize("name", stdlib_modules())
def test_items_are_documented_and_hide_nothing(name: str, tool: ModuleType) -> None:
    module = tool.module_of(name)
    assert any(isinstance(s, ast.Graph) and s.doc for s in module.statements)
    for item in tool.items(module):
        assert item.doc.strip().endswith("."), item.name.text
        assert "Source:" in item.doc, f"{item.name.text} does not say its source"
        assert item.name.text not in SURFACES, f"{item.name.text} hides an op"
        for formal in item.formals:
            typed = formal.type is not None or isinstance(formal.default, ast.Ref)
            assert typed or formal.default is None or re.fullmatch(r"[-0-9.]+", formal.default.span.text)


@pytest.mark.parametrize("name", stdlib_modules())
def test_every_item_is_in_a_test(name: str, tool: ModuleType) -> None:
    text = (TESTS / f"test_{name}.py").read_text("utf-8")
    for item in tool.items(tool.module_of(name)):
        assert re.search(rf"\b{item.name.text}\(", text), f"no test calls {item.name.text}"


def test_the_page_is_true(tool: ModuleType) -> None:
    assert tool.main([]) == 0
    assert tool.main(["--what"]) == 2
    page = tool.page()
    assert "- `w: [dim(x, -1), n] = lecun_normal(weight_gain(act))`" in page
    assert "- `b: [n] = zeros()`, if `bias`" in page
    assert "- `layers.{i}`: a `encoder_layer`" in page
