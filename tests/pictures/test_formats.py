"""SVG, pages, Graphviz, Mermaid and trees as texts: well-formed, with every name escaped, and the same boxes in each."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

import rlxlang as rlx
from rlxlang import pictures
from rlxlang.ir import Builder, Graph, GraphOutput, declare
from rlxlang.types import F32
from tests.pictures.models import CONTROL, ENCODER

SPACE = "{http://www.w3.org/2000/svg}"
NASTY = "<b>\"&'`#;]]>\\ \u202e\x07 {x} | -->\n</script><!--"


def nasty() -> Graph:
    """A graph whose names are full of signs that mean something in one format or another."""
    b = Builder()
    x, w = b.input(NASTY, F32, (2,)), b.input(f"w{NASTY}", F32, (2,), "param")
    node = b.emit("add", b.emit("tanh", x), w)
    return b.finish(NASTY, [declare(x), declare(w)], [GraphOutput(f"y{NASTY}", node)])


def words(picture: str) -> list[str]:
    """The letters of an SVG."""
    return [t.text or "" for t in ET.fromstring(picture).iter(f"{SPACE}text")]


@pytest.mark.parametrize("theme", ["auto", "light", "dark", "page"])
@pytest.mark.parametrize("direction", ["down", "right"])
def test_svg_is_well_formed(theme: pictures.Theme, direction: pictures.Direction) -> None:
    picture = pictures.svg(rlx.loads(CONTROL), theme=theme, direction=direction)
    root = ET.fromstring(picture)
    assert root.tag == f"{SPACE}svg"
    _, _, width, height = map(float, (root.get("viewBox") or "").split())
    assert (width, height) == (float(root.get("width") or 0), float(root.get("height") or 0))
    assert {"scan", "matmul", "w [4, 4]", "f32 [6, b, 4]"} <= set(words(picture))
    assert "data-" not in picture
    assert not re.search(r"(href|src)=|url\(|@import|<script", picture)


def test_themes() -> None:
    func = rlx.loads(CONTROL)
    assert "prefers-color-scheme: dark" in pictures.svg(func)
    light, dark = pictures.svg(func, theme="light"), pictures.svg(func, theme="dark")
    assert light != dark
    assert "prefers" not in light + dark
    page = pictures.svg(func, theme="page")
    assert "<style" not in page
    assert "class=" not in page
    assert 'fill="currentColor"' in page


def test_the_parts_look_different() -> None:
    picture = pictures.svg(
        rlx.loads(
            "input x: [3];\nparam w: [3];\nconst c = [1, 2, 3, 4, 5] : F32;\nlet y = x * w;\nout y;\ntap z = dropout(sum(c) + y, 0.5);"
        )
    )
    for kind in ("input", "param", "const", "output", "tap", "seed", "plain"):
        assert re.search(rf'<(rect|path) class="rlx-{kind}"', picture), kind


def test_tooltips_tell_the_place() -> None:
    root = ET.fromstring(pictures.svg(rlx.loads("input x: [?b, 4];\nparam w: [4, 5];\nlet h = x @ w;\nout h;", "m")))
    titles = [t.text or "" for t in root.iter(f"{SPACE}title")]
    product = next(t for t in titles if t.startswith("dot_general"))
    assert product.splitlines()[1:] == ["f32 [b, 5]", "40*?b floating-point operations", "m:3:9", "let h = x @ w;"]
    assert any(t.startswith("param w\n[F32; 4, 5]\nm:2:7") for t in titles)


def test_odd_names_in_svg() -> None:
    shown = words(pictures.svg(nasty()))
    assert any("</script>" in text for text in shown)
    assert not any("\u202e" in text or "\x07" in text or "\n" in text for text in shown)


class Tags(HTMLParser):
    """Collects tags, and what stands in scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)


def test_the_page_stands_alone() -> None:
    func = rlx.loads(ENCODER.replace("LAYERS", "2"), "enc")
    page = pictures.html(func)
    found = Tags(page)
    assert not any({"src", "href"} & attributes.keys() for _, attributes in found.tags)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", page)
    values, program = found.scripts
    boxes = {a["data-b"] for _, a in found.tags if "data-b" in a}
    ends = {key for value in json.loads(values) for side in value for key in side}
    assert ends == boxes
    pieces = {int(a["data-v"] or -1) for _, a in found.tags if "data-v" in a}
    assert pieces == {k for k, (_, targets) in enumerate(json.loads(values)) if targets}
    lines = {a["data-line"] for t, a in found.tags if t == "div" and "data-line" in a}
    places = {a["data-line"] for t, a in found.tags if t == "g" and "data-line" in a}
    assert places
    assert places <= lines
    assert program.count("{") == program.count("}")
    assert page.count("<details") == 4  # the text itself, and three modules of the library
    assert page.index("<summary>enc</summary>") < page.index("<summary>stdlib")


def test_odd_names_in_the_page() -> None:
    found = Tags(pictures.html(nasty()))
    assert [t for t, _ in found.tags].count("script") == 2
    assert not [t for t, _ in found.tags if t == "b"]
    hostile = rlx.loads('graph "<script>";\ninput x @ "</pre><img>": [2];\nlet y = x * 2; // </div><b>\nout y;')
    assert not [t for t, _ in Tags(pictures.html(hostile)).tags if t in ("b", "img")]


STRING = r'"(?:[^"\\\n]|\\.)*"'


def test_dot() -> None:
    text = pictures.dot(rlx.loads(CONTROL))
    bare = re.sub(STRING, '""', text)
    assert bare.count("{") == bare.count("}") == 1 + 6
    assert bare.startswith('digraph "" {')
    assert text.count("subgraph cluster_") == 6
    nodes = set(re.findall(r"^ *(b\d+(?:s\d+)?) \[", bare, re.MULTILINE))
    edges = re.findall(r"^ *(\w+) -> (\w+)", bare, re.MULTILINE)
    assert {end for edge in edges for end in edge} <= nodes
    assert 'label="f32 [6, b, 4]"' in text
    assert "rankdir=LR" in pictures.dot(rlx.loads(CONTROL), direction="right")


def test_odd_names_in_dot() -> None:
    bare = re.sub(STRING, '""', pictures.dot(nasty()))
    assert '"' not in bare.replace('""', "")
    assert "script" not in bare
    assert bare.count("{") == bare.count("}") == 1


def test_mermaid() -> None:
    text = pictures.mermaid(rlx.loads(CONTROL))
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "flowchart TD"
    assert lines.count("end") == sum(line.startswith("subgraph ") for line in lines) == 6
    nodes = {m[1] for line in lines if (m := re.match(r"(b\d+(?:s\d+)?)[\[({>]", line))}
    edges = [m.groups() for line in lines if (m := re.match(r"(b\d+) -->(?:\|\"[^\"]*\"\|)? (b\d+)$", line))]
    assert edges
    assert {end for edge in edges for end in edge} <= nodes
    assert pictures.mermaid(rlx.loads(CONTROL), direction="right").startswith("flowchart LR")


def test_odd_names_in_mermaid() -> None:
    for line in pictures.mermaid(nasty()).splitlines():
        quoted = re.findall(r'"([^"]*)"', line)
        assert line.count('"') == 2 * len(quoted)
        for text in quoted:
            assert not re.search(r"[<>`\\]|&(?!#)|#(?!\d+;)", text.replace("<br/>", ""))


def test_tree() -> None:
    text = pictures.text(
        rlx.loads(
            'graph "mlp";\nuse nn::{dense};\ninput x: [?batch, 784];\ninput y: [I32; ?batch];\n'
            'let h = dense(x, 128, "relu") as hidden;\nlet logits = dense(h, 10) as head;\n'
            "out loss = mean(softmax_cross_entropy(logits, y));\ntap logits;"
        )
    )
    assert text == (
        "graph mlp\n"
        "├─ input x : f32 [batch, 784]\n"
        "├─ input y : i32 [batch]\n"
        "├─ hidden dense\n"
        "│  ├─ y%2 = matmul(x, w [784, 128]) : f32 [batch, 128]\n"
        "│  ├─ y%3 = add(y%2, b [128]) : f32 [batch, 128]\n"
        "│  └─ y%4 = relu(y%3) : f32 [batch, 128]\n"
        "├─ head dense\n"
        "│  ├─ y%5 = matmul(y%4, w [128, 10]) : f32 [batch, 10]\n"
        "│  └─ y%6 = add(y%5, b [10]) : f32 [batch, 10]\n"
        "├─ %7 = softmax_cross_entropy(y%6, y) : f32 [batch]\n"
        "├─ loss = mean(%7) : f32\n"
        "├─ out loss = loss\n"
        "└─ tap logits = y%6\n"
    )
