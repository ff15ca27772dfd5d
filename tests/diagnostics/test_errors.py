"""Spans, codes, suggestions, exceptions and the collector."""

from __future__ import annotations

import pickle
import re

import pytest

from rlxlang import diagnostics
from rlxlang.diagnostics import (
    CODES,
    Collector,
    Diagnostic,
    InternalError,
    Label,
    RlxError,
    RlxNameError,
    RlxShapeError,
    RlxSyntaxError,
    RlxTypeError,
    RlxWarning,
    Source,
    Span,
    did_you_mean,
    error,
    error_class,
    nearest,
    raise_all,
    warn_all,
    warning,
)
from rlxlang.diagnostics.suggest import distance


def span(source, start, end):
    return Span(source=source, start=start, end=end)


def test_line_and_column():
    source = Source("m", "ab\r\nc\n")
    assert [source.line_column(k) for k in (0, 1, 4, 6)] == [(1, 1), (1, 2), (2, 1), (3, 1)]
    assert [source.line_text(k) for k in (1, 2, 3)] == ["ab", "c", ""]


def test_spans_are_keyword_only_and_ordered():
    source = Source("m", "abc")
    with pytest.raises(TypeError):
        Span(source, 0, 1)
    with pytest.raises(ValueError, match="not a span"):
        span(source, 2, 1)
    assert span(source, 0, 1).to(span(source, 2, 3)).text == "abc"


def test_codes_are_well_formed():
    assert all(re.fullmatch(r"E0[0-8]\d\d|W09\d\d", code) and row.code == code for code, row in CODES.items())
    for row in CODES.values():
        cls = getattr(diagnostics, row.exception)
        assert issubclass(cls, RlxWarning if row.is_warning else RlxError)


@pytest.mark.parametrize(("code", "severity"), [("E9999", "error"), ("W0900", "error"), ("E0100", "warning")])
def test_code_must_exist_and_fit_the_severity(code, severity):
    with pytest.raises(ValueError, match=code):
        Diagnostic(code, severity, "x")


def test_one_primary_label_at_most():
    place = span(Source("m", "a"), 0, 1)
    with pytest.raises(ValueError, match="primary"):
        Diagnostic("E0100", "error", "x", labels=(Label(place, "", True), Label(place, "", True)))


@pytest.mark.parametrize(
    ("left", "right", "edits"), [("", "abc", 3), ("abc", "acb", 1), ("relu", "gelu", 1), ("ab", "ab", 0)]
)
def test_distance(left, right, edits):
    assert distance(left, right) == distance(right, left) == edits


def test_suggestions():
    names = ["softmax", "softmaxx", "relu", "log_softmax"]
    assert nearest("sofmax", names) == ("softmax", "softmaxx")
    assert nearest("Relu", names) == ("relu",)
    assert nearest("zzz", names) == ()
    assert did_you_mean("sofmax", names) == "did you mean `softmax` or `softmaxx`?"
    assert did_you_mean("zzz", names) == ""
    assert len(nearest("a1", [f"a{k}" for k in range(9)])) == 3


def test_exception_from_a_message():
    with pytest.raises(ValueError, match=r"error\[E0402\]: bad") as caught:
        raise RlxShapeError("bad", code="E0402", notes=["n"])
    assert caught.value.diagnostics[0].notes == ("n",)
    assert RlxTypeError("x").diagnostics[0].code == "E0300"


def test_syntax_error_fills_the_fields_of_python():
    source = Source("m.rlx", "a\nlet b c")
    caught = RlxSyntaxError(error("E0101", "no", span(source, 8, 9)))
    assert isinstance(caught, SyntaxError)
    assert (caught.filename, caught.lineno, caught.offset, caught.text) == ("m.rlx", 2, 7, "let b c")
    assert str(caught).startswith("error[E0101]: no\n --> m.rlx:2:7")


@pytest.mark.parametrize("cls", [RlxSyntaxError, RlxNameError, InternalError])
def test_exceptions_pickle(cls):
    caught = cls("x", helps=["h"])
    again = pickle.loads(pickle.dumps(caught))
    assert type(again) is cls
    assert again.diagnostics == caught.diagnostics
    assert str(again) == str(caught)


def test_internal_error_asks_for_a_report():
    text = str(InternalError("oops", stage="lower", dump="/tmp/g"))
    assert "this is a bug" in text
    assert "stage: lower" in text


def test_raise_all_takes_the_class_of_the_first_error():
    with pytest.raises(RlxNameError) as caught:
        raise_all([warning("W0900", "w"), error("E0201", "a"), error("E0402", "b")])
    assert [d.code for d in caught.value.diagnostics] == ["E0201", "E0402"]
    with pytest.raises(ValueError, match="no error"):
        raise_all([warning("W0900", "w")])
    assert error_class("E0220") is RlxTypeError


def test_warnings_become_python_warnings():
    with pytest.warns(RlxWarning, match="W0902"):
        warn_all([warning("W0902", "unused")])


def test_collector_sorts_and_drops_repetitions():
    source = Source("m", "abc")
    collector = Collector()
    collector.extend(
        [
            error("E0201", "later", span(source, 2, 3)),
            error("E0201", "first", span(source, 0, 1)),
            error("E0201", "again", span(source, 0, 1)),
            error("E0202", "other", span(source, 0, 1)),
        ]
    )
    assert [d.message for d in collector.diagnostics()] == ["first", "other", "later"]
    with pytest.raises(RlxNameError):
        collector.raise_if_errors()


def test_collector_caps_and_says_how_many_more():
    source = Source("m", "a" * 30)
    collector = Collector()
    collector.extend(error("E0201", "x", span(source, k, k + 1)) for k in range(25))
    collector.add(warning("W0900", "w", span(source, 29, 30)))
    found = collector.diagnostics()
    assert len(found) == 21
    assert found[19].notes == ("5 more errors not shown",)


def test_collector_without_errors_raises_nothing():
    collector = Collector()
    collector.add(warning("W0900", "w"))
    collector.raise_if_errors()
    assert len(collector) == 1
