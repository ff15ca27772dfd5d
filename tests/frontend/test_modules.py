"""`use`: texts of files and of the standard library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.diagnostics import Source
from rlxlang.frontend import elaborate_source

BLOCKS = """
/// How wide things are.
config width = 3;
config given: int;
const half = 0.5 : F32;
input unseen: [2];
param lost: [2];
let doubled = width * 2;
fn twice(x) { return x + x; }
fn quad(x) { return twice(twice(x)); }
fn sized(x) { return x * width + doubled; }
fn needs(x) { return x * given; }
fn reads(x) { return x * unseen; }
block scale(x) { param s: [dim(x, -1)] = ones(); return x * s * half; }
out twice(unseen);
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "blocks.rlx").write_text(BLOCKS.replace("out twice(unseen);", "out y = twice(unseen);"))
    return tmp_path


def load(folder: Path, text: str, **configs: object) -> rlx.Func:
    (folder / "main.rlx").write_text(text)
    return rlx.load(folder / "main.rlx", config=configs)


def found(folder: Path, text: str) -> list[tuple[str, str]]:
    """Code and place of all that is wrong or worth a warning."""
    (folder / "main.rlx").write_text(text)
    return [(d.code, d.span.text if d.span else "") for d in rlx.check(folder / "main.rlx")]


ONE = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("use", "call", "expected"),
    [
        ('use "lib/blocks.rlx";', "blocks::quad(x)", 4),
        ('use "lib/blocks.rlx" as b;', "b::quad(x) + b::half", 4.5),
        ('use "lib/blocks.rlx"::{quad};', "quad(x)", 4),
        ('use "lib/blocks.rlx"::{quad as q, half as h,};', "q(x).q() * h", 8),
        ('use "lib/blocks.rlx"::*;', "quad(x) * width * half", 6),
        ('use "lib/blocks.rlx"::{sized};', "sized(x)", 9),
        ('use "lib/blocks.rlx"::{width as k};', "x * k", 3),
        ('use "./lib/../lib/blocks.rlx" as a; use "lib/blocks.rlx" as b;', "a::twice(x) + b::twice(x)", 4),
        ('use "lib/blocks.rlx"::{twice}; use "lib/blocks.rlx";', "twice(x) + blocks::twice(x)", 4),
        ('use "lib/blocks.rlx"::{width}; config k = width + 1;', "x * k", 4),
    ],
)
def test_what_is_brought_in(folder: Path, use: str, call: str, expected: float) -> None:
    func = load(folder, f"{use} input x: [3]; let y = {call};")
    np.testing.assert_allclose(func(x=ONE), np.full(3, expected))
    assert found(folder, f"{use} input x: [3]; let y = {call};") == []


@pytest.mark.parametrize("use", ['use "lib/blocks.rlx";', 'use "lib/blocks.rlx"::{scale as half_};'])
def test_blocks_of_another_file_make_parameters(folder: Path, use: str) -> None:
    name = "half_" if "{" in use else "blocks::scale"
    func = load(folder, f"{use} input x: [?, 3]; let h = {name}(x); let y = {name}(h) as last; out z = y * last.s;")
    assert func.param_names() == ["scale_0.s", "last.s"]
    np.testing.assert_allclose(func.init_params(seed=0)(x=ONE[None]), [[0.25] * 3])


def test_the_text_itself_goes_before_what_it_uses(folder: Path) -> None:
    text = 'use "lib/blocks.rlx"::*; fn twice(x) { return x * 10; } input x: [3]; let y = twice(x) + quad(x);'
    assert found(folder, text) == [("W0903", "twice")]
    np.testing.assert_allclose(
        load_quietly(folder, text)(x=ONE), np.full(3, 14)
    )  # quad calls the twice of its own file


def load_quietly(folder: Path, text: str) -> rlx.Func:
    with pytest.warns(rlx.RlxWarning):
        return load(folder, text)


def test_files_use_files_from_where_they_lie(folder: Path) -> None:
    (folder / "lib" / "more.rlx").write_text(
        'use "blocks.rlx" as b; const three = 3 : F32; fn six(x) { return b::twice(x) * three; }'
    )
    func = load(folder, 'use "lib/more.rlx"; input x: [3]; let y = more::six(x);')
    np.testing.assert_allclose(func(x=ONE), np.full(3, 6))


def test_a_rule_comes_with_its_fn(folder: Path) -> None:
    (folder / "r.rlx").write_text("fn f(x) { return x * 2; } vjp f(x, g) { return g * 100; }")
    func = load(folder, 'use "r.rlx"::{f as h}; input x: [3]; out loss = sum(h(x));')
    np.testing.assert_allclose(func.grad(["x"])(x=ONE), np.full(3, 100))


@pytest.mark.parametrize(
    ("text", "code", "place", "said"),
    [
        ('use "lib/block.rlx";', "E0203", '"lib/block.rlx"', "blocks.rlx"),
        ('use "lib/blocks";', "E0203", '"lib/blocks"', "blocks.rlx"),
        ('use "lib";', "E0203", '"lib"', ""),
        ("use zzq;", "E0203", "zzq", '"zzq.rlx"'),
        ("use a::b::c;", "E0203", "a::b::c", ""),
        ('use "lib/blocks.rlx"::{twise};', "E0204", "twise", "twice"),
        ('use "lib/blocks.rlx"::{unseen};', "E0204", "unseen", ""),
        ('use "lib/blocks.rlx"::{lost};', "E0204", "lost", ""),
        ('use "lib/blocks.rlx"; let y = blocks::twise(x);', "E0204", "twise", "twice"),
        ('use "lib/blocks.rlx"; let y = blocks::twice;', "E0204", "twice", "call it"),
        ('use "lib/blocks.rlx"; let y = blocks::half(x);', "E0220", "blocks::half(x)", ""),
        ('use "lib/blocks.rlx"; let y = block::twice(x);', "E0203", "block", "blocks"),
        ('use "lib/blocks.rlx"; let y = blocks::a::b;', "E0204", "b", ""),
        ('use "lib/blocks.rlx"; let y = blocks::given * x;', "E0201", "blocks::given", "no default"),
        ('use "lib/blocks.rlx"; let y = blocks::twice(x) as t;', "E0114", "blocks::twice(x) as t", "a fn"),
        ('use "lib/blocks.rlx"; let y = blocks::scale(x, x);', "E0220", "blocks::scale(x, x)", "scale(x)"),
        ('use "lib/blocks.rlx"::{twice}; use "lib/other.rlx"::{twice};', "E0210", "twice", "as"),
        ('use "lib/blocks.rlx" as m; use "lib/other.rlx" as m;', "E0210", "m", "as"),
        ("let y = nn::dense(x, 3);", "E0203", "nn", "use nn;"),
    ],
)
def test_what_is_wrong(folder: Path, text: str, code: str, place: str, said: str) -> None:
    (folder / "lib" / "other.rlx").write_text("fn twice(x) { return x; }")
    (folder / "main.rlx").write_text(f"input x: [3]; {text} out z = x;")
    errors = [d for d in rlx.check(folder / "main.rlx") if d.is_error]
    assert [(d.code, d.span.text if d.span else "") for d in errors] == [(code, place)]
    assert said in str(errors[0])


@pytest.mark.parametrize("call", ["needs", "reads"])
def test_a_body_that_reads_what_a_used_text_does_not_have(folder: Path, call: str) -> None:
    (folder / "main.rlx").write_text(f'use "lib/blocks.rlx" as b; input x: [2]; let y = b::{call}(x);')
    (problem,) = rlx.check(folder / "main.rlx")
    assert problem.code == "E0201"
    assert problem.span is not None
    assert problem.span.source.name.endswith("blocks.rlx")
    assert [f.text for f in problem.chain] == [f"in `{call}`, called here"]


def test_cycles_are_errors(folder: Path) -> None:
    (folder / "a.rlx").write_text('use "b.rlx"; fn f(x) { return x; }')
    (folder / "b.rlx").write_text('use "a.rlx"; fn g(x) { return x; }')
    (folder / "main.rlx").write_text('use "a.rlx"; input x: [3]; let y = a::f(x);')
    (problem,) = rlx.check(folder / "main.rlx")
    assert (problem.code, problem.message) == ("E0214", "`a.rlx` uses itself: a.rlx → b.rlx → a.rlx")
    assert found(folder, 'use "main.rlx"; input x: [3]; let y = x;') == [("E0214", '"main.rlx"')]


def test_what_is_wrong_in_a_used_text_is_shown_there(folder: Path) -> None:
    (folder / "bad.rlx").write_text("const j = 1 div 0;\nfn f(x) { return x; }\nconst k = 1\n")
    (folder / "main.rlx").write_text('use "bad.rlx"; input x: [3]; let y = bad::f(x);')
    problems = rlx.check(folder / "main.rlx")
    assert [d.code for d in problems] == ["E0352", "E0103"]
    assert all(d.span is not None and d.span.source.name.endswith("bad.rlx") for d in problems)


def test_a_used_text_that_is_no_text(folder: Path) -> None:
    (folder / "bad.rlx").write_bytes(b"fn f(x) { return x; } // \xff")
    assert found(folder, 'use "bad.rlx"; input x: [3]; let y = bad::f(x);') == [("E0127", '"bad.rlx"')]


def test_warnings_of_used_texts_stay_with_them(folder: Path) -> None:
    (folder / "w.rlx").write_text("fn norm(x) { let unused = x; return x; } let lonely = 3;")
    assert found(folder, 'use "w.rlx"; input x: [3]; let y = w::norm(x);') == []
    assert found(folder, 'use "w.rlx"::{norm}; input x: [3]; let y = norm(x);') == [("W0903", "norm")]


def test_an_editor_gives_the_text_it_shows(tmp_path: Path) -> None:
    shown = {"other.rlx": "fn f(x) { return x * 7; }"}
    source = Source("main.rlx", 'use "other.rlx"; input x: []; let y = other::f(x);')
    assert elaborate_source(source, base_path=tmp_path, read=lambda path: shown[path.name]).graph is not None


def test_a_text_without_a_file_starts_at_the_present_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    func = rlx.loads('use "lib/blocks.rlx"; input x: [3]; let y = blocks::twice(x);')
    np.testing.assert_allclose(func(x=ONE), np.full(3, 2))


def test_a_changed_file_is_read_again(folder: Path) -> None:
    text = 'use "lib/blocks.rlx"; input x: [3]; let y = blocks::twice(x);'
    np.testing.assert_allclose(load(folder, text)(x=ONE), np.full(3, 2))
    (folder / "lib" / "blocks.rlx").write_text("fn twice(x) { return x * 5; }")
    np.testing.assert_allclose(load(folder, text)(x=ONE), np.full(3, 5))


@pytest.mark.parametrize("use", ["use init;", "use init::{he_normal, zeros};", "use init::*;", ""])
def test_initialisers_are_a_module(use: str) -> None:
    call = "init::he_normal()" if use in ("use init;", "") else "he_normal()"
    func = rlx.loads(f"{use} param w: [3, 3] = {call}; input x: [3]; let y = x @ w;").init_params(seed=0)
    assert func(x=ONE).shape == (3,)


def test_an_initialiser_that_does_not_exist() -> None:
    (problem,) = rlx.check("use init::{he_norma}; input x: [3]; let y = x;")
    assert (problem.code, "he_normal" in problem.helps[0]) == ("E0204", True)
