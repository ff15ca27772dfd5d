"""A scene as a tree of lines: what `rlx graph` prints where no file is asked for."""

from __future__ import annotations

from collections import Counter

from rlxlang.pictures import measure
from rlxlang.pictures.scene import Box, Group, Scene, Value


def tree_text(scene: Scene) -> str:
    """A line for each box, below the line of its group."""
    made: dict[Box, list[Value]] = {}
    used: dict[Box, list[tuple[int, Value]]] = {}
    for value in scene.values:
        for source in value.sources:
            made.setdefault(source, []).append(value)
        for target, position in value.targets:
            used.setdefault(target, []).append((position, value))
    names = _names(scene)
    lines = [f"graph {scene.name}"]
    todo: list[tuple[Box | Group, str, bool]] = _children(scene.root, "")
    while todo:
        member, indent, is_last = todo.pop()
        branch, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        if isinstance(member, Group):
            lines.append(f"{indent}{branch}{' '.join(text for _, text in measure.head_texts(member))}")
            todo += _children(member, indent + below)
        else:
            lines.append(f"{indent}{branch}{_line(member, names, made.get(member, []), used.get(member, []))}")
    return "\n".join(lines) + "\n"


def _children(group: Group, indent: str) -> list[tuple[Box | Group, str, bool]]:
    last = len(group.members) - 1
    return [(m, indent, k == last) for k, m in reversed(list(enumerate(group.members)))]


def _names(scene: Scene) -> dict[Box, str]:
    """What the value of each box is called: as in the source, with a number where that is not unique, or a number alone."""
    boxes = scene.boxes()
    plain = {b: b.title if b.kind in ("input", "carry") else b.name for b in boxes}
    count = Counter(plain.values())
    return {b: n if n and (count[n] == 1 or b.kind == "input") else f"{n}%{b.key[1:]}" for b, n in plain.items()}


def _line(box: Box, names: dict[Box, str], made: list[Value], used: list[tuple[int, Value]]) -> str:
    operands = [" or ".join(names[s] for s in v.sources) for _, v in sorted(used, key=lambda entry: entry[0])]
    operands += [s.text for s in box.satellites]
    types = ", ".join(v.type for v in sorted(made, key=lambda v: v.outlet))
    ending = f" : {types}" if types else ""
    if box.kind == "input":
        return f"input {box.title}{ending}"
    if box.kind in ("output", "tap"):
        return f"{'out' if box.kind == 'output' else 'tap'} {box.title} = {', '.join(operands)}"
    if box.kind == "result":
        return f"{box.title} = {', '.join(operands)}"
    if box.kind == "carry":
        return f"{box.args} {names[box]} = {', '.join(operands)}{ending}".lstrip()
    if box.kind == "summary":
        return f"%{box.key[1:]} = {box.title} {box.args}".rstrip() + f" ({', '.join(operands)}): {box.name}{ending}"
    inside = "; ".join(filter(None, (", ".join(operands), box.args)))
    return f"{names[box]} = {box.title}({inside}){ending}"
