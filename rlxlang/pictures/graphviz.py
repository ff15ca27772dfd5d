"""A scene in the language of Graphviz: groups as clusters, types on the first edge of each value."""

from __future__ import annotations

from collections.abc import Iterator

from rlxlang.pictures import labels, measure, theme
from rlxlang.pictures.scene import Box, Group, Scene

_SHAPES = {
    "input": "shape=box style=\"rounded,filled\"",
    "output": "shape=box style=\"rounded,filled\" peripheries=2",
    "tap": "shape=box style=\"rounded,filled,dashed\"",
    "carry": "shape=box style=\"rounded,filled\"",
    "result": "shape=box style=\"rounded,filled,dashed\"",
    "summary": "shape=box3d style=filled",
}  # fmt: skip
_BESIDE = {"param": "shape=hexagon", "const": "shape=box", "seed": "shape=oval", "jump": "shape=plain"}


def dot_text(scene: Scene, *, downwards: bool) -> str:
    """The text; strings are quoted, so that any name may stand in them."""
    return "".join(f"{line}\n" for line in _lines(scene, downwards))


def _lines(scene: Scene, downwards: bool) -> Iterator[str]:
    yield f"digraph {_quoted(scene.name)} {{"
    yield f'  rankdir={"TB" if downwards else "LR"} fontname="Helvetica" newrank=true'
    yield '  node [fontname="Helvetica" fontsize=12 height=0.3 margin="0.12,0.05"]'
    yield '  edge [fontname="Helvetica" fontsize=10 color="#8190a3" fontcolor="#64748b" arrowsize=0.7]'
    todo: list[tuple[Box | Group | None, int]] = [(m, 1) for m in reversed(scene.root.members)]
    while todo:
        member, depth = todo.pop()
        pad = "  " * depth
        if member is None:
            yield f"{pad}}}"
        elif isinstance(member, Box):
            yield from (f"{pad}{line}" for line in _box(member))
        else:
            yield f"{pad}subgraph cluster_{member.key} {{"
            title = " ".join(text for _, text in measure.head_texts(member))
            yield f'{pad}  label={_quoted(title)} labeljust=l style=rounded color="#a9b6c6" fontsize=11'
            todo.append((None, depth))
            todo += [(m, depth + 1) for m in reversed(member.members)]
    for value in scene.values:
        label = f" label={_quoted(value.type)}"
        for source in value.sources:
            for target in dict.fromkeys(t for t, _ in value.targets):
                yield f"  {source.key} -> {target.key}{f' [{label.strip()}]' if label else ''}"
                label = ""
    yield "}"


def _box(box: Box) -> Iterator[str]:
    kind = (box.category or "plain") if box.kind == "op" else box.kind
    shape = _SHAPES.get(box.kind, "shape=box style=filled")
    label = f"{box.title} {box.args}".strip() + (f"\n{box.name}" if box.name else "")
    colours = f'color="{theme.stroke_of(kind)}" fillcolor="{theme.fill_of(kind)}"'
    yield f"{box.key} [label={_quoted(label)} tooltip={_quoted(chr(10).join(labels.tooltip(box)))} {shape} {colours}]"
    for k, beside in enumerate(box.satellites):
        colours = f'color="{theme.stroke_of(beside.kind)}" fillcolor="{theme.fill_of(beside.kind)}"'
        yield f"{box.key}s{k} [label={_quoted(beside.text)} {_BESIDE[beside.kind]} style=filled fontsize=10 {colours}]"
        yield f"{box.key}s{k} -> {box.key} [arrowhead=none]"


def _quoted(text: str) -> str:
    """A string of the language: quotes and backslashes escaped, line ends as escapes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
