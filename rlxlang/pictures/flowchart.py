"""A scene as a flowchart of Mermaid: groups as subgraphs, types on the first edge of each value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlxlang.pictures import measure, theme
from rlxlang.pictures.scene import Box, Group, Scene

_SHAPES = {
    "input": ("([", "])"), "output": ("[[", "]]"), "tap": ("([", "])"), "carry": ("([", "])"), "result": ("([", "])"),
    "param": ("{{", "}}"), "const": ("[", "]"), "seed": ("([", "])"), "jump": (">", "]"),
}  # fmt: skip
# Characters that mean something inside of quoted texts, or to the page around the picture.
_SPECIAL = re.compile(r"[\"#&<>`;\\]")


def mermaid_text(scene: Scene, *, downwards: bool) -> str:
    """The text; every text in it is quoted, with special characters as entities."""
    return "".join(f"{line}\n" for line in _lines(scene, downwards))


def _lines(scene: Scene, downwards: bool) -> Iterator[str]:
    yield f"flowchart {'TD' if downwards else 'LR'}"
    classes: dict[str, list[str]] = {}
    todo: list[tuple[Box | Group | None, int]] = [(m, 1) for m in reversed(scene.root.members)]
    while todo:
        member, depth = todo.pop()
        pad = "  " * depth
        if member is None:
            yield f"{pad}end"
        elif isinstance(member, Box):
            yield from (f"{pad}{line}" for line in _box(member, classes))
        else:
            title = " ".join(text for _, text in measure.head_texts(member))
            yield f"{pad}subgraph {member.key}[{_quoted(title or ' ')}]"
            todo.append((None, depth))
            todo += [(m, depth + 1) for m in reversed(member.members)]
    for value in scene.values:
        label = f"|{_quoted(value.type)}|"
        for source in value.sources:
            for target in dict.fromkeys(t for t, _ in value.targets):
                yield f"  {source.key} -->{label} {target.key}"
                label = ""
    for name, keys in sorted(classes.items()):
        yield f"  classDef {name} fill:{theme.fill_of(name)},stroke:{theme.stroke_of(name)},color:#1c2733"
        yield f"  class {','.join(keys)} {name}"


def _box(box: Box, classes: dict[str, list[str]]) -> Iterator[str]:
    kind = (box.category or "plain") if box.kind == "op" else box.kind
    classes.setdefault(kind, []).append(box.key)
    label = f"{box.title} {box.args}".strip()
    words = _escaped(label) + (f"<br/>{_escaped(box.name)}" if box.name else "")
    left, right = _SHAPES.get(box.kind, ("[", "]"))
    yield f'{box.key}{left}"{words}"{right}'
    for k, beside in enumerate(box.satellites):
        key = f"{box.key}s{k}"
        classes.setdefault(beside.kind, []).append(key)
        left, right = _SHAPES[beside.kind]
        yield f"{key}{left}{_quoted(beside.text)}{right} --- {box.key}"


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """A text with special characters as entities of Mermaid, `#34;`."""
    return _SPECIAL.sub(lambda match: f"#{ord(match[0])};", text).replace("\n", " ")
