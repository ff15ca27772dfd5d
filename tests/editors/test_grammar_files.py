"""The TextMate grammar and the extension of Visual Studio Code, without Node.js."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlxlang.frontend.checks import DTYPES
from rlxlang.frontend.format import format_text
from rlxlang.resources import grammar_text

ROOT = Path(__file__).resolve().parents[2]
GRAMMAR = ROOT / "grammar" / "rlx.tmLanguage.json"
EXTENSION = ROOT / "editors" / "vscode"


def read(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def rules(node: Any) -> Iterator[dict[str, Any]]:
    """Every rule of the grammar, the grammar itself among them."""
    if isinstance(node, list):
        for item in node:
            yield from rules(item)
    elif isinstance(node, dict):
        yield node
        for value in node.values():
            yield from rules(value)


RULES = list(rules(read(GRAMMAR)))
PATTERNS = [rule[key] for rule in RULES for key in ("match", "begin", "end") if isinstance(rule.get(key), str)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_compiles(pattern: str) -> None:
    # Only what Python's `re` and Oniguruma share is used.
    re.compile(pattern, re.MULTILINE)


def test_captures_count_groups() -> None:
    for rule in RULES:
        for key, captures in (("match", "captures"), ("begin", "beginCaptures"), ("end", "endCaptures")):
            if isinstance(rule.get(key), str) and captures in rule:
                assert max(map(int, rule[captures])) <= re.compile(rule[key]).groups, rule[key]


def test_includes_exist_and_everything_is_included() -> None:
    repository = set(read(GRAMMAR)["repository"])
    included = {rule["include"].removeprefix("#") for rule in RULES if "include" in rule}
    assert included == repository


def test_names_end_with_the_language() -> None:
    names = [rule["name"] for rule in RULES if "name" in rule and "scopeName" not in rule]
    assert names
    assert all(name.endswith(".rlx") for name in names)


def test_every_keyword_dtype_and_operator_occurs() -> None:
    words = set(re.findall(r"[A-Za-z0-9_]+", " ".join(re.sub(r"\\[a-zA-Z]", " ", p) for p in PATTERNS)))
    keywords = set(re.findall(r"^_?[A-Z]+\.\d: /(\w+)(?:\\b|!)", grammar_text(), re.MULTILINE))
    assert {"let", "remat", "by", "vec"} <= keywords
    assert keywords | set(DTYPES) <= words
    operators = re.findall(r'^[A-Z]+: "([^"]+)"', grammar_text(), re.MULTILINE)
    assert "**" in operators
    matches = [re.compile(p) for p in PATTERNS]
    for operator in operators:
        assert any(m.fullmatch(operator) for m in matches), operator


@pytest.mark.parametrize(
    ("number", "scope"),
    [
        ("1_000", "constant.numeric.integer.decimal.rlx"),
        ("2u32", "constant.numeric.integer.decimal.rlx"),
        ("0xfF_f0", "constant.numeric.integer.hexadecimal.rlx"),
        ("0b10", "constant.numeric.integer.binary.rlx"),
        ("1e-6f32", "constant.numeric.float.rlx"),
        ("1f32", "constant.numeric.float.rlx"),
        (".5", "constant.numeric.float.rlx"),
    ],
)
def test_numbers(number: str, scope: str) -> None:
    found = [rule for rule in read(GRAMMAR)["repository"]["numbers"]["patterns"] if re.fullmatch(rule["match"], number)]
    assert found[0]["captures"]["1"]["name"] == scope


def test_the_extension_has_the_grammar() -> None:
    copy = EXTENSION / "syntaxes" / "rlx.tmLanguage.json"
    assert copy.read_bytes() == GRAMMAR.read_bytes(), f"copy {GRAMMAR} to {copy}"


def test_the_extension_is_complete() -> None:
    manifest = read(EXTENSION / "package.json")
    contributes = manifest["contributes"]
    (language,) = contributes["languages"]
    assert language["extensions"] == [".rlx"]
    files = [language["configuration"], *(e["path"] for k in ("grammars", "snippets") for e in contributes[k])]
    assert all((EXTENSION / file).is_file() for file in files)
    assert contributes["grammars"][0]["scopeName"] == read(GRAMMAR)["scopeName"]
    assert (EXTENSION / manifest["main"]).is_file()
    lock = read(EXTENSION / "package-lock.json")
    assert lock["packages"][""]["dependencies"] == manifest["dependencies"]
    assert lock["packages"][""]["devDependencies"] == manifest["devDependencies"]


def test_the_language_configuration() -> None:
    configuration = read(EXTENSION / "language-configuration.json")
    assert configuration["comments"] == {"lineComment": "//", "blockComment": ["/*", "*/"]}
    word = re.compile(configuration["wordPattern"])
    assert all(word.fullmatch(text) for text in ("hidden", "?batch", "?", "1_000u32", "0.5f32"))
    more = re.compile(configuration["indentationRules"]["increaseIndentPattern"])
    less = re.compile(configuration["indentationRules"]["decreaseIndentPattern"])
    assert all(more.search(text) for text in ("fn f(x) {", "let a = f(", "} else {  // c", "const m = ["))
    assert not any(more.search(text) for text in ("let a = f(x);", "// f(", "}", "let a = b"))
    assert all(less.search(text) for text in ("}", "  );", "]"))
    docs = re.compile(configuration["onEnterRules"][0]["beforeText"])
    assert docs.search("  /// doc")
    assert not docs.search("//// rule")


SNIPPETS = read(EXTENSION / "snippets" / "rlx.json")
# `default` of `${1:default}`, the first of `${1|a,b|}`.
PLACE = re.compile(r"\$\{\d+(?::([^}]*)|\|([^,|]*)[^|]*\|)\}")


@pytest.mark.parametrize("name", sorted(SNIPPETS))
def test_snippets_are_formatted_programs(name: str) -> None:
    body = SNIPPETS[name]["body"]
    text = "\n".join([body] if isinstance(body, str) else body)
    text = PLACE.sub(lambda match: match[1] or match[2] or "", text) + "\n"
    assert "$" not in text
    assert format_text(text) == text
