"""The TextMate grammar, run through the engine of Visual Studio Code; `conftest` says what it needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.frontend.test_highlight import KEYWORDS

ROOT = Path(__file__).resolve().parents[2]
GRAMMAR = ROOT / "grammar" / "rlx.tmLanguage.json"

Token = tuple[str, list[str]]
Tokenize = Callable[[str], list[Token]]


@pytest.fixture(scope="module")
def tokenize(node: Callable[..., str]) -> Tokenize:
    """Return a function from a text to its tokens that are not blank."""

    def run(text: str) -> list[Token]:
        (lines,) = json.loads(node("tokenize.cjs", str(GRAMMAR), text=json.dumps([text])))
        return [(text, scopes) for line in lines for text, scopes in line if text.strip()]

    return run


def scopes_of(tokens: list[Token], text: str) -> list[str]:
    """Return the innermost scope of every token with this text."""
    return [(scopes or [""])[-1].removesuffix(".rlx") for found, scopes in tokens if found.strip() == text]


PROGRAM = """\
/// Documented.
graph "mlp"; // the name
/* a /* nested */
   still a comment */
use nn::{dense as fc};
config hidden: int = 2_56u32;
input x @ "ids": [F16; ?batch, ?, 784];
param w[3] @ "h.{i}\\n{{x}}": [hidden, 0xff] = he_normal();
const eps = 1e-6f32 : F32;
fn f(u, n: int = 4) { return relu(u) div n; }
remat block b(x) { param w: [3]; let y = x @ w; }
let h = nn::dense(x, 128, act: "relu") as "h.{i}";
let (p, q) = h.split(1, 2);
repeat i in 0..3 { let h = h[new, 1..9 by 2, ...]; }
scan s = h over t in xs reverse { let s = s + t; emit s as hs; }
loop z = s while max(z) > inf max 10 { let z = -z ** 2; }
if true { let k = layers[0].w; } else if z != h { let k = !z; } else { let k = z; }
out loss = mean(h);
tap k;
"""

EXPECTED = [
    ("Documented.", ["comment.line.documentation"]),
    ("graph", ["storage.type.graph"]),
    ("use", ["keyword.control.import"]),
    ("config", ["storage.type.config"]),
    ("hidden", ["variable.other.constant.definition", "variable.other"]),
    ("int", ["support.type", "support.type"]),
    ("2_56", ["constant.numeric.integer.decimal"]),
    ("u32", ["storage.type.numeric"]),
    ("0xff", ["constant.numeric.integer.hexadecimal"]),
    ("1e-6", ["constant.numeric.float"]),
    ("f32", ["storage.type.numeric"]),
    ("input", ["storage.type.declaration"]),
    ("param", ["storage.type.declaration"] * 2),
    ("const", ["storage.type.declaration"]),
    ("F16", ["support.type.dtype"]),
    ("F32", ["support.type.dtype"]),
    ("?batch", ["constant.other.dimension"]),
    ("?", ["constant.other.dimension"]),
    ("i", ["constant.other.placeholder"] * 2 + ["variable.other.definition"]),
    ("\\n", ["constant.character.escape"]),
    ("{{", ["constant.character.escape"]),
    ("he_normal", ["entity.name.function.call"]),
    ("fn", ["storage.type.function"]),
    ("f", ["entity.name.function"]),
    ("u", ["variable.parameter", "variable.other"]),
    ("n", ["variable.parameter", "variable.other"]),
    ("return", ["keyword.control.flow"]),
    ("div", ["keyword.operator.word"]),
    ("remat", ["storage.modifier"]),
    ("block", ["storage.type.function"]),
    ("let", ["storage.type.let"] * 9),
    ("nn", ["entity.name.namespace"] * 2),
    ("act", ["variable.parameter.named"]),
    ("split", ["entity.name.function.method"]),
    ("p", ["variable.other.definition"]),
    ("repeat", ["keyword.control.loop"]),
    ("in", ["keyword.control.loop"] * 2),
    ("..", ["keyword.operator.range"] * 2),
    ("...", ["keyword.operator.range"]),
    ("new", ["keyword.operator.word"]),
    ("by", ["keyword.operator.word"]),
    ("scan", ["keyword.control.loop"]),
    ("over", ["keyword.control.loop"]),
    ("reverse", ["keyword.control.loop"]),
    ("emit", ["keyword.control.flow"]),
    ("hs", ["entity.name.instance"]),
    ("loop", ["keyword.control.loop"]),
    ("while", ["keyword.control.loop"]),
    ("max", ["entity.name.function.call", "keyword.control.loop"]),
    ("inf", ["constant.language"]),
    ("true", ["constant.language"]),
    ("if", ["keyword.control.conditional"] * 2),
    ("else", ["keyword.control.conditional"] * 2),
    ("**", ["keyword.operator.arithmetic"]),
    ("!=", ["keyword.operator.comparison"]),
    ("out", ["keyword.other.output"]),
    ("tap", ["keyword.other.output"]),
]


def test_a_program(tokenize: Tokenize) -> None:
    tokens = tokenize(PROGRAM)
    found = [(text, scopes_of(tokens, text)) for text, _ in EXPECTED]
    assert found == EXPECTED
    inner = [scopes for text, scopes in tokens if "still a comment" in text]
    assert [scope[0] for scope in inner] == ["comment.block.rlx"]
    assert not any("invalid" in scope for _, scopes in tokens for scope in scopes)


def test_keywords_are_names_elsewhere(tokenize: Tokenize) -> None:
    tokens = tokenize(
        "let out = let + repeat + if + input;\nlet a = x.max(1).for.in(emit);\n"
        "let c = loop(over, scan: param) - by;\nlet new = graph;\nlet div = x\n  + output;"
    )
    words = [scopes[-1] for text, scopes in tokens if text.strip().isalpha()]
    assert sum(word.startswith(("keyword.", "storage.")) for word in words) == 5  # let


def test_errors_stay_on_their_line(tokenize: Tokenize) -> None:
    tokens = tokenize('let a = f("open);\nlet b = "\\q" + 1;\nparam w @ "h.{": [3];\nlet c = 2;')
    assert scopes_of(tokens, "let") == ["storage.type.let"] * 3
    assert scopes_of(tokens, "\\q") == ["invalid.illegal.escape"]
    assert scopes_of(tokens, "{") == ["invalid.illegal.brace"]


def test_every_model_has_no_invalid_token(tokenize: Tokenize) -> None:
    for folder in ("examples", "benchmarks", "stdlib"):
        for file in sorted((ROOT / folder).rglob("*.rlx"))[:5]:
            for text, scopes in tokenize(file.read_text("utf-8")):
                assert scopes, text
                assert not any("invalid" in scope for scope in scopes), text


def test_every_keyword_of_the_grammar_has_a_scope(tokenize: Tokenize) -> None:
    for word, text in KEYWORDS.items():
        tokens = tokenize(text)
        scopes = scopes_of(tokens, word) + scopes_of(tokens, f"{word}!")
        assert len(scopes) == 1, text
        assert scopes[0].startswith(("keyword.", "storage.", "support.")), (text, scopes)
