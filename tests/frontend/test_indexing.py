"""Indices of tensors and lists against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.elaboration import graph_of, only_error, underlined, value, warnings_of

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("index", "want"),
    [
        ("0", X[0]),
        ("1, 2", X[1, 2]),
        ("-1, .., 1", X[-1, :, 1]),
        ("..., 0", X[..., 0]),
        ("1, ..., 0", X[1, ..., 0]),
        ("..., 1..3", X[..., 1:3]),
        (".., ..2", X[:, :2]),
        (".., 1..=1", X[:, 1:2]),
        (".., 0..=-1", X),
        (".., -2..", X[:, -2:]),
        (".., .., 0..4 by 3", X[:, :, 0:4:3]),
        (".., .., 3..0 by -2", X[:, :, 3:0:-2]),
        (".., .. by -1", X[:, ::-1]),
        (".., 2..1", X[:, 2:1]),
        ("new, 1, new", X[np.newaxis, 1, np.newaxis]),
        ("..., new", X[..., np.newaxis]),
        ("new, ..", X[np.newaxis]),
        (".., ids", X[:, [2, 0, 0]]),
        (".., [2, -1]", X[:, [2, -1]]),
        ("1, ids, new, 0..2", X[1, [2, 0, 0]][:, None, 0:2]),
        ("k - 1, min(k, 5)", X[0, 1]),
    ],
)
def test_tensors(index: str, want: Any) -> None:
    text = f"input x: [2, 3, 4]; config k = 1; const ids = [2, 0, 0]; let unused = ids; out unused, y = x[{index}];"
    graph = graph_of(text)
    assert graph.outputs[1].node.shape == want.shape
    assert (
        value(f"input x: [2, 3, 4]; config k = 1; const ids = [2, 0, 0]; out y = x[{index}];", {"x": X}).tolist()
        == want.tolist()
    )


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize(
    ("index", "like"),
    [
        ("0", 0),
        ("-2", -2),
        ("1..", slice(1, None)),
        ("..-1", slice(None, -1)),
        ("1..?n", slice(1, None)),
        (".. by 2", slice(None, None, 2)),
    ],
)
def test_dynamic_axes(index: str, like: Any, n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    assert value(f"input x: [?n]; out y = x[{index}];", {"x": x}).tolist() == x[like].tolist()


def test_a_bound_past_a_dynamic_axis_is_a_guard() -> None:
    graph = graph_of("input x: [?n]; out y = x[..4], z = x[5];")
    assert {str(s.guard) for s in graph.guards} == {"4 <= ?n", "6 <= ?n"}


def test_clamped_bounds_warn() -> None:
    assert warnings_of("input x: [3]; out y = x[0..7];") == [("W0906", "x[0..7]")]
    assert value("input x: [3]; out y = x[-9..7];", {"x": [1, 2, 3]}).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("index", "code", "place", "message"),
    [
        ("2", "E0406", "x[2]", "index 2 is out of range for axis 0 of size 2"),
        ("-3", "E0406", "x[-3]", "out of range"),
        ("[0, 5]", "E0406", "x[[0, 5]]", "index 5 is out of range"),
        ("0, 0, 0, 0", "E0404", "x[0, 0, 0, 0]", "4 items"),
        ("..., ...", "E0404", "x[..., ...]", "at most one"),
        ("true", "E0303", "x[true]", "not `true`"),
        ("1.0", "E0303", "x[1.0]", "not the number 1.0"),
        ("x > 3", "E0301", "x[x > 3]", "Bool"),
        ("x", "E0301", "x[x]", "F32"),
        ("0..2 by 0", "E0350", "x[0..2 by 0]", "other than 0"),
        ("..sum(x)", "E0303", "sum(x)", "a tensor [F32;]"),
        ("[0], [1]", "E0404", "x[[0], [1]]", "one integer tensor"),
        ("i", "E0201", "i", "unknown name `i`"),
    ],
)
def test_errors(index: str, code: str, place: str, message: str) -> None:
    found = only_error(f"input x: [2, 3, 4]; out y = x[{index}];")
    assert (found.code, underlined(found)) == (code, place)
    assert message in found.message


@pytest.mark.parametrize(
    ("expression", "code", "place", "message"),
    [
        ("w[2]", "E0406", "2", "index 2 is out of range for the family `w` of 2"),
        ("w[-1]", "E0406", "-1", "out of range"),
        ("w[0, 0]", "E0404", "w[0, 0]", "one index"),
        ("w[sum(w[0])]", "E0303", "sum(w[0])", "known while the graph is built"),
        ("w[..]", "E0303", "..", "a range"),
        ("split(w[0], 0, 2)[2]", "E0406", "2", "the list of 2"),
        ("3[0]", "E0304", "3", "cannot be indexed"),
    ],
)
def test_errors_of_lists(expression: str, code: str, place: str, message: str) -> None:
    found = only_error(f"param w[2]: [4]; out y = {expression};")
    assert (found.code, underlined(found)) == (code, place)
    assert message in found.message
