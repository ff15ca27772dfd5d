"""What a picture shows: names, constants, parameters, groups, folded repetitions, closed groups."""

from __future__ import annotations

from functools import cache

import pytest

import rlxlang as rlx
from rlxlang import pictures
from rlxlang.pictures.grouping import tidy
from rlxlang.pictures.scene import Box, Group, Scene, Value, ancestors
from tests.pictures.models import CAUSAL, CONTROL, ENCODER, chain


@cache
def scene(text: str, *, fold: bool = True, depth: int | None = None, constants: bool = False) -> Scene:
    """What is shown of a text."""
    return pictures.scene_of(rlx.loads(text), fold, depth, constants)


def one(found: Scene, title: str) -> Box:
    """The only box of a title."""
    (box,) = [b for b in found.boxes() if b.title == title]
    return box


def groups(found: Scene) -> list[str]:
    """Titles of groups with how often each stands there, outer ones first."""
    return [f"{g.title}×{g.times}" if g.times > 1 else g.title for g in found.groups()]


def test_names_of_the_source() -> None:
    found = scene("input x: [3];\nlet h = relu(x);\nlet (a, b) = split((h + 1), 0, 2);\nout y = (a[0] * 2.0);\ntap b;")
    assert one(found, "relu").name == "h"
    assert [b.name for b in found.boxes() if b.title == "slice"] == ["a", "b", ""]
    assert one(found, "mul").name == "y"
    assert one(found, "y").kind == "output"
    assert one(found, "b").kind == "tap"


def test_a_fn_of_one_op_is_no_group_and_its_let_is_the_name() -> None:
    found = scene("fn act(x) { return relu(x); }\ninput x: [3];\nlet h = act(x);\nout h;")
    assert not found.groups()
    assert one(found, "relu").name == "h"


def test_constants_stand_in_the_box() -> None:
    text = "input x: [3];\nlet y = 1.0 - x * 2.5;\nout y;"
    assert one(scene(text), "mul").args == "2.5"
    assert one(scene(text), "sub").args == "1, ·"
    beside = scene(text, constants=True)
    assert [s.text for s in one(beside, "mul").satellites] == ["2.5"]
    assert one(beside, "mul").args == ""


def test_parameters_and_large_constants_stand_beside() -> None:
    found = scene(
        "input x: [2, 3];\nparam w: [3, 3];\nconst m = [[1, 2, 3], [4, 5, 6]] : F32;\nlet y = x @ w * m;\nout y;"
    )
    assert [(s.kind, s.text) for s in one(found, "matmul").satellites] == [("param", "w [3, 3]")]
    assert [(s.kind, s.text) for s in one(found, "mul").satellites] == [("const", "m f32 [2, 3]")]


def test_types_are_told_once_for_each_value() -> None:
    found = scene("input ids: [I32; ?batch, 784];\nlet y = ids + 1;\nlet z = ids * 2;\nout y;\nout z;")
    assert [v.type for v in found.values if v.sources[0].title == "ids"] == ["i32 [batch, 784]"]


def test_calls_are_groups() -> None:
    found = scene(ENCODER.replace("LAYERS", "1"))
    assert groups(found)[:4] == ["enc", "layers.0", "norm1", "attn"]
    query = next(g for g in found.groups() if g.title == "q")
    assert [g.title for g in ancestors(query)] == ["attn", "layers.0", "enc", "enc"]
    assert query.note == "dense"
    weights = [s for m in query.members if isinstance(m, Box) for s in m.satellites]
    assert [(s.name, s.shown) for s in weights] == [("enc.layers.0.attn.q.w", "w"), ("enc.layers.0.attn.q.b", "b")]


def test_ops_that_only_move_numbers_are_part_of_their_op() -> None:
    text = ENCODER.replace("LAYERS", "1")
    assert not [b for b in scene(text).boxes() if b.title in ("reshape", "transpose", "random_bits")]
    assert one(scene(text), "attention").name == "y"
    unfolded = [b.title for b in scene(text, fold=False).boxes()]
    assert unfolded.count("transpose") == 4
    assert "random_bits" in unfolded


def test_bodies_are_groups_with_their_carries() -> None:
    found = scene(CONTROL)
    assert groups(found) == ["if", "then", "else", "scan", "loop", "while"]
    by_title = {g.title: g for g in found.groups()}
    pills = [m for m in by_title["scan"].members if isinstance(m, Box) and m.kind in ("carry", "result")]
    assert [f"{p.args} {p.title}".strip() for p in pills] == [
        "carry h",
        "carry total",
        "slice x",
        "next h",
        "next total",
        "emit hs",
    ]
    assert by_title["scan"].note == "over x · 6 steps"
    assert by_title["loop"].note == "at most 20 steps"
    # What a choice makes comes from either branch; what is closed over comes straight from outside.
    (chosen,) = [v for v in found.values if len(v.sources) == 2 and v.targets[0][0].title == "h"]
    assert [s.title for s in chosen.sources] == ["relu", "mul"]
    inner = next(m for m in by_title["scan"].members if isinstance(m, Box) and m.title == "matmul")
    assert [s.name for s in inner.satellites] == ["w"]


def test_equal_layers_are_drawn_once() -> None:
    found = scene(ENCODER.replace("LAYERS", "4"))
    layer = next(g for g in found.groups() if g.times > 1)
    assert (layer.title, layer.note, layer.times) == ("layers.0…3", "encoder_layer", 4)
    assert len([g for g in found.groups() if g.title == "attn"]) == 1
    names = [s.name for b in found.boxes() for s in b.satellites if s.kind == "param"]
    assert "enc.layers.{i}.attn.q.w" in names
    norm = next(g for g in found.groups() if g.title == "norm")
    first = next(m for m in norm.members if isinstance(m, Box))
    (into,) = [v for v in found.values if any(t is first for t, _ in v.targets)]
    assert layer in ancestors(into.sources[0])
    unfolded = scene(ENCODER.replace("LAYERS", "4"), fold=False)
    assert len([g for g in unfolded.groups() if g.title == "attn"]) == 4
    assert all(g.times == 1 for g in unfolded.groups())


def test_a_shared_mask_lies_outside_of_the_layers() -> None:
    found = scene(CAUSAL, fold=True)
    assert groups(found)[0] == "layers.0…3×4"
    grad = pictures.scene_of(rlx.loads(CAUSAL).grad(["layers.0.attn.q.w"]))
    mask = [b for b in grad.boxes() if b.title == "iota"]
    assert mask
    assert all(g.title != "layers.0" for b in mask for g in ancestors(b))


def test_backward_layers_are_folded_with_forward_layers() -> None:
    func = rlx.loads(CAUSAL)
    found = pictures.scene_of(func.grad(func.trainable_names()))
    assert [g for g in groups(found) if "×" in g] == ["layers.0…3×4", "layers.3…0×4"]
    outputs = {b.title for b in found.boxes() if b.kind == "output"}
    assert "d_layers.{i}.attn.q.w" in outputs
    assert not any("layers.1" in title for title in outputs)


REPEATED = "fn step(h, k) { let a = tanh(h * k); let b = a + h; return b; }\ninput x: [4];\n"


def test_families_of_parameters_are_folded() -> None:
    found = scene(
        'param w[5] @ "h.{i}.w": [4, 4] = he_normal();\ninput x: [3, 4];\nlet h = x;\n'
        "repeat i in 0..5 {\n  let z = h @ w[i];\n  let h = relu(z);\n}\nout h;"
    )
    assert groups(found) == ["i = 0…4×5"]
    assert [s.text for s in one(found, "matmul").satellites] == ["h.{i}.w [4, 4]"]


def test_repetitions_within_repetitions() -> None:
    found = scene(REPEATED + "let h = x;\nrepeat 3 { repeat 4 { let h = step(h, 2.0); } let h = sin(h); }\nout h;")
    assert sorted(g.times for g in found.groups()) == [3, 4]
    assert len(found.boxes()) == 6


@pytest.mark.parametrize(
    "text",
    [
        "let h = x;\nrepeat i in 0..3 { let h = step(h, i + 1.5); }\nout h;",
        "let a = step(x, 2.0);\nlet b = step(a, 2.0);\nlet c = step(b, 2.0);\nout c + a;",
        "let a = step(x, 2.0);\nlet b = step(x * 3.0, 2.0);\nout c = a + b;",
        "let a = step(x, 2.0);\nlet b = step(x, 3.0);\nlet c = step(b, 2.0);\nout c + a;",
    ],
    ids=["other constants", "a middle one is used", "other sources", "no chain"],
)
def test_what_differs_is_not_folded(text: str) -> None:
    found = scene(REPEATED + text.replace("out c + a", "out r = c + a"))
    assert all(g.times == 1 for g in found.groups())


def test_folding_keeps_what_comes_in_and_goes_out() -> None:
    found = scene(REPEATED + "input m: [4];\nlet h = x;\nrepeat 6 { let h = step(h, m); }\nout h;\ntap x2 = x + 1.0;")
    (group,) = found.groups()
    assert group.times == 6
    entering = {
        v.sources[0].title
        for v in found.values
        for t, _ in v.targets
        if t.group is group and v.sources[0].group is not group
    }
    assert entering == {"x", "m"}
    leaving = [
        t.title for v in found.values for t, _ in v.targets if v.sources[0].group is group and t.group is not group
    ]
    assert leaving == ["h"]


def test_closed_groups() -> None:
    text = ENCODER.replace("LAYERS", "3")
    shut = scene(text, depth=0)
    assert not shut.groups()
    box = one(shut, "enc")
    assert (box.kind, box.args) == ("summary", "encoder")
    params = 3 * (4 * (16 * 16 + 16) + 16 * 32 + 32 + 32 * 16 + 16 + 4 * 16) + 2 * 16
    assert box.name.startswith("68 ops · ")
    assert f"{params:,} parameters" in " ".join(box.tooltip)
    deeper = scene(text, depth=2)
    assert groups(deeper) == ["enc", "layers.0…2×3", "norm"]
    assert one(deeper, "attn").name == "9 ops · 1.09 k parameters"


def test_too_many_boxes_are_refused_or_closed() -> None:
    with pytest.raises(rlx.RlxValueError, match="5,002 boxes") as problem:
        pictures.svg(chain(5000))
    assert "blocks" in problem.value.diagnostics[0].help.replace("`", "")
    found = scene(REPEATED + "let h = x;\nrepeat i in 0..300 { let h = step(h, i + 1.5); }\nout h;")
    assert {b.kind for b in found.boxes()} == {"input", "output", "summary"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "up"}, "`direction` is down or right, not 'up'"),
        ({"theme": "blue"}, "`theme` is auto, light, dark or page, not 'blue'"),
        ({"depth": -1}, "`depth` is a number of groups, 0 or more, not -1"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(rlx.RlxValueError) as problem:
        pictures.svg(chain(2), **options)  # type: ignore[arg-type]
    assert problem.value.diagnostics[0].message == message


def test_a_group_that_would_be_left_and_entered_again_is_opened() -> None:
    outer = Group("root", "r")
    loop = Group("block", "loop", parent=outer)
    boxes = [Box("op", f"op{k}", serial=(k,)) for k in range(3)]
    for box, home in zip(boxes, (loop, outer, loop), strict=True):
        box.group = home
        home.members.append(box)
    outer.members.insert(0, loop)
    values = [Value([boxes[0]], [(boxes[1], 0)]), Value([boxes[1]], [(boxes[2], 0)])]
    found = Scene("r", outer, values)
    tidy(found)
    assert outer.members == boxes
