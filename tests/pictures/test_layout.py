"""Layouts: nothing overlaps, groups hold what is theirs, edges run forwards and around boxes; the steps of the algorithm."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Literal

import pytest

import rlxlang as rlx
from rlxlang import pictures
from rlxlang.ir import Graph
from rlxlang.pictures import measure
from rlxlang.pictures.cells import Cell, connect
from rlxlang.pictures.layout import Placed, Rect, layout
from rlxlang.pictures.metrics import text_width
from rlxlang.pictures.ordering import crossings, order
from rlxlang.pictures.ranks import ranks
from tests.pictures.geometry import check_placed
from tests.pictures.models import BRANCHES, CAUSAL, CONTROL, ENCODER, chain, random_graph

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ("digits/digits.rlx", "pinn/pinn.rlx", "graph_network.rlx", "kalman.rlx")


def placed(
    model: Graph | rlx.Func,
    *,
    fold: bool = True,
    depth: int | None = None,
    direction: Literal["down", "right"] = "down",
    constants: bool = False,
) -> Placed:
    """A picture with places, as `svg` makes it."""
    return pictures.placed_scene(model, fold, depth, direction, constants)


@pytest.mark.parametrize("name", [*EXAMPLES, "lsp", "control", "encoder", "branches"])
def test_models(name: str) -> None:
    texts = {"control": CONTROL, "encoder": ENCODER.replace("LAYERS", "2"), "branches": BRANCHES}
    if name == "lsp":
        func = rlx.load(ROOT / "tests" / "tools" / "lsp" / "models" / "main.rlx")
    elif name in texts:
        func = rlx.loads(texts[name])
    else:
        func = rlx.load(ROOT / "examples" / name)
    check_placed(placed(func))
    check_placed(placed(func, direction="right"))
    check_placed(placed(func, fold=False, constants=True))
    check_placed(placed(func, depth=1, direction="right"))
    check_placed(placed(func, depth=0))


@pytest.mark.parametrize(
    "text", [CONTROL, CAUSAL, ENCODER.replace("LAYERS", "1")], ids=["control", "causal", "encoder"]
)
def test_gradients(text: str) -> None:
    func = rlx.loads(text)
    check_placed(placed(func.grad(func.trainable_names())))


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    graph = random_graph(3 + 7 * seed, seed, (2, 5, 1000)[seed % 3])
    for direction in ("down", "right"):
        check_placed(placed(graph, direction=direction))


@pytest.mark.parametrize(
    "text",
    [
        "input x: [0];\nout y = x;",
        "const c = 1.0 : F32;\nout y = c;",
        "param w: [2, 2];\nout y = w;",
        "input x: [2];\ninput z: [?n, 0];\nlet y = x * 2;\nlet q = z + 1;\nout y;\nout q;",
        "const c = [[1, 2, 3], [4, 5, 6]] : F32;\nconst d = [7] : I32;\nout c;\ntap d;",
        "input x: [2];\nlet y = x + x;\nlet z = y * y;\nout z;",
    ],
    ids=["one node", "constant", "param", "parts", "constants", "twice"],
)
def test_odd_graphs(text: str) -> None:
    func = rlx.loads(text)
    check_placed(placed(func))
    check_placed(placed(func, constants=True, direction="right"))
    assert pictures.text(func)


def test_an_empty_graph() -> None:
    found = placed(Graph("nothing", (), ()))
    assert not found.boxes
    assert pictures.svg(Graph("nothing", (), ())).count("<rect") == 1


def test_wide_fans_and_many_operands() -> None:
    parts = ", ".join(f"tanh(x * {k + 1.5})" for k in range(40))
    check_placed(placed(rlx.loads(f"input x: [4];\nlet y = concat([{parts}], axis: 0);\nout y;")))


def test_the_checks_see_mistakes() -> None:
    good = placed(rlx.loads(ENCODER.replace("LAYERS", "2")))
    box = next(b for b in good.boxes if b.title == "matmul")
    rect = good.boxes[box]
    for wrong in (
        Rect(rect.x, rect.y - 60, rect.width, rect.height),
        Rect(rect.x + 70, rect.y, rect.width, rect.height),
    ):
        good.boxes[box] = wrong
        with pytest.raises(AssertionError):
            check_placed(good)
    good.boxes[box] = rect
    check_placed(good)
    good.curves[0].points = tuple(reversed(good.curves[0].points))  # type: ignore[assignment]
    with pytest.raises(AssertionError, match="backwards"):
        check_placed(good)


def test_the_main_path_is_straight() -> None:
    found = placed(rlx.load(ROOT / "examples" / "digits" / "digits.rlx"))
    path = [r.x + r.width / 2 for b, r in found.boxes.items() if b.title in ("x", "matmul", "add", "relu")]
    assert len(path) == 6
    assert max(path) - min(path) < 0.1


def test_the_same_graph_gives_the_same_text() -> None:
    texts = {pictures.svg(rlx.loads(CONTROL)) for _ in range(2)}
    assert len(texts) == 1
    func = rlx.loads(CONTROL)
    for draw in (pictures.svg, pictures.dot, pictures.mermaid, pictures.html, pictures.text):
        assert draw(func) == draw(func)


@pytest.mark.parametrize(("text", "most"), [(BRANCHES, 0), (CONTROL, 2), (ENCODER.replace("LAYERS", "1"), 0)])
def test_few_crossings(text: str, most: int) -> None:
    assert placed(rlx.loads(text)).crossings <= most


# --------------------------------------------------------------------------------------------- steps of the algorithm


def test_ranks_are_increasing_and_short() -> None:
    # A long path, and a short one beside it whose node hangs on its user.
    edges = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (5, 4, 1)]
    assert ranks(6, edges) == [0, 1, 2, 3, 4, 3]


def test_a_chain_is_pulled_as_a_whole() -> None:
    edges = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 6, 1), (4, 5, 1), (5, 6, 1)]
    found = ranks(7, edges)
    assert found[5] == 3
    assert found[4] == 2


@pytest.mark.parametrize("seed", range(20))
def test_ranks_of_random_graphs(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randrange(2, 30)
    edges = [(s, t, draw.randrange(4)) for s in range(count) for t in range(s + 1, count) if draw.random() < 0.2]
    found = ranks(count, edges)
    assert min(found) == 0
    assert all(found[s] < found[t] for s, t, _ in edges)
    longest = [0] * count
    for s, t, _ in sorted(edges):
        longest[t] = max(longest[t], longest[s] + 1)
    cost = sum(w * (found[t] - found[s]) for s, t, w in edges)
    assert cost <= sum(w * (longest[t] - longest[s]) for s, t, w in edges)


def test_a_cycle_has_no_ranks() -> None:
    with pytest.raises(ValueError, match="cycle"):
        ranks(2, [(0, 1, 1), (1, 0, 1)])


def grid(edges: list[tuple[int, int]], above: int, below: int) -> list[list[Cell]]:
    """Two layers of cells with wires."""
    layers = [[Cell(k, 10, 10, outlets={0: 0.0}) for k in range(n)] for n in (above, below)]
    for k, (s, t) in enumerate(edges):
        connect(layers[0][s], 0, layers[1][t], k, k, 2)
    for layer in layers:
        for k, cell in enumerate(layer):
            cell.place = k
    return layers


@pytest.mark.parametrize("seed", range(10))
def test_crossings_are_counted(seed: int) -> None:
    draw = random.Random(seed)
    edges = [(draw.randrange(6), draw.randrange(6)) for _ in range(12)]
    pairs = itertools.combinations(edges, 2)
    slowly = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs)
    assert crossings(grid(edges, 6, 6)) == slowly


def test_order_removes_crossings() -> None:
    tangled = grid([(0, 3), (1, 2), (2, 1), (3, 0)], 4, 4)
    assert order(tangled) == 0
    assert crossings(tangled) == 0
    assert order(grid([(0, 0), (0, 1), (1, 0), (1, 1)], 2, 2)) == 1  # K(2, 2) has one in any order


def test_widths_of_texts() -> None:
    assert text_width("matmul", 10) == pytest.approx((833 + 556 + 278 + 833 + 556 + 222) / 100)
    assert text_width("层", 10) == 11
    assert text_width("é", 10) > text_width("e\u0301", 10) > 0
    assert text_width("add", 10, bold=True) > text_width("add", 10)


def test_large_graphs_are_laid_out() -> None:
    found = placed(random_graph(400, 1, 6))
    check_placed(found)
    assert len(placed(chain(1000)).boxes) == 1002


def test_long_edges_become_numbers() -> None:
    # Each value of a long chain is used again in reverse order, as in a backward pass.
    lines = ["input x: [4];", "let h0 = x;", *(f"let h{k + 1} = tanh(h{k});" for k in range(60)), "let g = h60;"]
    lines += [f"let g = g * h{k};" for k in reversed(range(60))]
    scene = placed(rlx.loads("\n".join([*lines, "out g;"]))).scene
    jumps = [s for b in scene.boxes() for s in b.satellites if s.kind == "jump"]
    assert 5 < len(jumps) < 60
    marks = {v.type.split("#")[1] for v in scene.values if "#" in v.type}
    assert {s.name.removeprefix("#") for s in jumps} == marks
    assert measure.box_size(scene.boxes()[0], [], downwards=True).width > 0
    check_placed(layout(scene))
