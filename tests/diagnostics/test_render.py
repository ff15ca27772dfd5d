"""The text of diagnostics."""

from __future__ import annotations

import pytest

from rlxlang.diagnostics import Frame, Source, Span, error, render, render_all, warning


def span_of(source, text, nth=0):
    start = -1
    for _ in range(nth + 1):
        start = source.text.index(text, start + 1)
    return Span(source=source, start=start, end=start + len(text))


def lines(text):
    return text.strip("\n").split("\n")


def test_headline_labels_notes_and_helps():
    source = Source("model.rlx", "let w = a;\n\n\nlet y = x @ w;\n")
    found = error(
        "E0402",
        "inner sizes differ",
        span_of(source, "x @ w"),
        label="left has 64 columns",
        secondary=[(span_of(source, "w"), "bound here")],
        notes=["first\nsecond"],
        helps=["try", ""],
    )
    assert lines(render(found)) == [
        "error[E0402]: inner sizes differ",
        " --> model.rlx:4:9",
        "  |",
        "1 | let w = a;",
        "  |     - bound here",
        "...",
        "4 | let y = x @ w;",
        "  |         ^^^^^ left has 64 columns",
        "  |",
        "  = note: first",
        "          second",
        "  = help: try",
    ]


def test_one_line_between_is_shown_instead_of_dots():
    source = Source("m", "a\nb\nc")
    found = error("E0100", "x", span_of(source, "a"), secondary=[(span_of(source, "c"), "")])
    assert lines(render(found))[3:] == ["1 | a", "  | ^", "2 | b", "3 | c", "  | -"]


def test_several_labels_on_a_line_hang_below_it():
    source = Source("m", "left @ mid + right")
    found = error(
        "E0100",
        "x",
        span_of(source, "mid"),
        label="M",
        secondary=[(span_of(source, "left"), "L"), (span_of(source, "right"), "R")],
    )
    assert lines(render(found))[3:] == [
        "1 | left @ mid + right",
        "  | ----   ^^^   ----- R",
        "  | |      |",
        "  | |      M",
        "  | L",
    ]


def test_span_over_lines_marks_first_and_last():
    source = Source("m", "let a = {\n 1;\n 2;\n  };\n")
    found = error("E0104", "x", Span(source=source, start=8, end=source.text.index("}") + 1), label="never")
    assert lines(render(found))[3:] == ["1 | let a = {", "  |         ^", "...", "4 |   };", "  |   ^ never"]


@pytest.mark.parametrize(
    ("text", "marked", "source_row", "mark_row"),
    [
        ("\ta\tbc", "bc", "1 |     a   bc", "  |         ^^"),
        ("let 漢字 = x;", "x", "1 | let 漢字 = x;", "  |            ^"),
        ("漢字", "字", "1 | 漢字", "  |   ^^"),
        ("e\u0301x", "x", "1 | e\u0301x", "  |  ^"),
        ("\ufeffab", "b", "1 | ab", "  |  ^"),
        ("a\x1bb", "b", "1 | a\\u{1b}b", "  |        ^"),
        ("a\u202eb", "b", "1 | a\\u{202e}b", "  |          ^"),
        ("ab\r\ncd", "b", "1 | ab", "  |  ^"),
    ],
    ids=["tab", "wide", "wide-mark", "combining", "bom", "control", "bidi", "crlf"],
)
def test_alignment(text, marked, source_row, mark_row):
    source = Source("m", text)
    assert lines(render(error("E0100", "x", span_of(source, marked))))[3:] == [source_row, mark_row]


@pytest.mark.parametrize(
    ("text", "place", "row", "mark"),
    [("ab", "1:3", "1 | ab", "  |   ^"), ("ab\n", "2:1", "2 |", "  | ^"), ("", "1:1", "1 |", "  | ^")],
)
def test_empty_span_at_the_end(text, place, row, mark):
    source = Source("m", text)
    found = lines(render(error("E0100", "x", Span(source=source, start=len(text), end=len(text)))))
    assert found[1:] == [f" --> m:{place}", "  |", row, mark]


def test_gutter_is_as_wide_as_the_largest_number():
    source = Source("m", "\n" * 99 + "a")
    found = lines(render(error("E0100", "x", span_of(source, "a"))))
    assert found[1:] == ["   --> m:100:1", "    |", "100 | a", "    | ^"]


def test_names_and_messages_are_escaped():
    source = Source("a\x1b[31m\nb", "x")
    text = render(error("E0100", "bad \x07", span_of(source, "x"), notes=["n\x00"]))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert " --> a\\u{1b}[31m\\nb:1:1" in text


def test_unlocated_diagnostic():
    assert render(warning("W0900", "careful", notes=["n"])) == "warning[W0900]: careful\n  = note: n"


def test_colour_only_when_asked():
    source = Source("m", "x")
    found = error("E0100", "x", span_of(source, "x"), label="l")
    assert "\x1b" not in render(found)
    assert "\x1b[1;31m^" in render(found, colour=True)


def test_call_chain_innermost_first():
    source = Source("m", "fn f() { x }\nlet a = g();\nlet b = h();")
    chain = [Frame(span_of(source, "g()"), "in `f` called here"), Frame(span_of(source, "h()"), "in `g` called here")]
    rows = lines(render(error("E0100", "x", span_of(source, "x"), chain=chain)))
    assert rows[5:] == [
        " ::: m:2:9: in `f` called here",
        "  |",
        "2 | let a = g();",
        "  |         ---",
        " ::: m:3:9: in `g` called here",
        "  |",
        "3 | let b = h();",
        "  |         ---",
    ]


def test_long_chain_is_shortened():
    source = Source("m", "x")
    chain = [Frame(span_of(source, "x"), f"call {k}") for k in range(100)]
    text = render(error("E0100", "x", chain=chain))
    assert "92 more calls" in text
    assert "call 99" in text
    assert "call 50" not in text


def test_long_line_is_cut_around_the_span():
    text = " + ".join(["x"] * 5000) + " + y + " + " + ".join(["x"] * 5000)
    source = Source("m", text)
    row, mark = lines(render(error("E0100", "x", span_of(source, "y"))))[3:5]
    assert len(row) < 160
    assert row[mark.index("^")] == "y"


def test_labels_of_two_sources():
    one, two = Source("one", "a"), Source("two", "b")
    text = render(error("E0100", "x", span_of(one, "a"), secondary=[(span_of(two, "b"), "other")]))
    assert " --> one:1:1" in text
    assert " ::: two:1:1" in text


def test_several_are_separated_by_an_empty_line():
    assert render_all([error("E0100", "a"), error("E0100", "b")]) == "error[E0100]: a\n\nerror[E0100]: b"
