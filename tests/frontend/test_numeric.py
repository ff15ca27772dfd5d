"""The lint of numbers: what it names, and what it leaves alone."""

from __future__ import annotations

import pytest

import rlxlang as rlx

HEAD = "input x: [2]; const c = [1.0, 0.0, -2.0]; "


def _found(text: str) -> list[str]:
    return [d.message for d in rlx.check(HEAD + "out z = sum(x) + sum(c); " + text) if d.code == "W0908"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("out y = log(c);", "`log` of 0 at 1 gives -infinity"),
        ("out y = sqrt(c);", "`sqrt` of -2 at 2 gives NaN"),
        ("out y = c ** -1.0;", "`recip` of 0 at 1 gives infinity"),
        ("out y = exp(c * 50.0);", ""),
        ("out y = exp(c * 100.0);", "`exp` of 100 at 0 gives infinity"),
        ("out y = x / 0.0;", "`div` by 0 gives NaN or infinity"),
        ("input t: [3]; out y = t / c;", "`div` by a constant that is 0 at 1 gives NaN or infinity"),
        ("out y = x % 0.0;", "`mod` by 0 gives NaN"),
        ("out y = mean(x[2..]);", "`mean` over 0 elements gives NaN"),
        ("out y = var(x[..1], ddof: 1);", "`var` over 1 element less `ddof` 1 gives NaN"),
        ("out y = std(x, ddof: 1);", ""),
        ("out y = cast(c * 40000.0, F16) * 2.0;", "`cast` of -80000 at 2 gives -infinity in F16"),
        ("out y = cast(c * 30000.0, F16) * 2.0;", "`mul` of -60000 and 2 at 2 gives -infinity in F16"),
        ("out y = log(zeros([5000, 7]));", "`log` of 0 gives -infinity"),
        ("input n: [?n]; out y = n + log(zeros([?n]));", "`log` of 0 gives -infinity"),
        ("let m = sum(log(c)); out y = m * 2.0;", "`log` of 0 at 1 gives -infinity"),
        ("out y = inf - inf + x;", ""),
        ("scan h = x for 3 { let h = h + log(c)[2]; } out y = h;", "`log` of 0 at 1 gives -infinity"),
        ("input s: [3]; out y = softmax(where(c > 5.0, s, -inf));", "`where` gives -infinity everywhere: its condition is false"),
    ],
)  # fmt: skip
def test_what_is_named(text: str, message: str) -> None:
    assert _found(text) == ([message] if message else [])


@pytest.mark.parametrize(
    "text",
    [
        "input t: [3]; out y = where(c > 0.0, t / c, 0.0), v = where(c > 0.0, log(c), 0.0);",
        "out y = softmax(where(x > 0.0, x, -inf));",
        "let low = -inf; out y = max(x) + maximum(x, low);",
        "out y = x / (x - x);",  # a matter of run time
        "out y = log(x * 0.0);",
        "out y = c * 1000000.0 / 3.0, i = [1, 2] div 0;",
        "out y = x / 3.0;",
        "out y = mean(x[2..][.., new], 1);",  # an empty result
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert _found(text) == []


def test_places_and_switches() -> None:
    (found,) = [d for d in rlx.check(HEAD + "fn f(v) { return log(v); } out y = f(c) + sum(x);") if d.code == "W0908"]
    assert found.severity == "warning"
    assert found.span is not None
    assert found.span.text == "log(v)"
    assert [f.name for f in found.chain] == ["f"]
    with pytest.warns(rlx.RlxWarning, match="W0908"):
        rlx.loads(HEAD + "out y = log(c) + sum(x);")
