"""From a graph to a scene: which nodes become boxes, which become part of one, and in which groups the boxes lie."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rlxlang.diagnostics import Frame, escape
from rlxlang.ir import Graph, GraphOutput, Node, Origin
from rlxlang.pictures import labels
from rlxlang.pictures.absorbing import Absorbed, absorb
from rlxlang.pictures.scene import Box, Group, Satellite, Scene, Value, adopt
from rlxlang.pictures.source_names import SourceNames
from rlxlang.types import TensorType, TupleType

_LAST = 1 << 60  # serial of outputs: behind everything
_BLOCK = re.compile(r"in `(.*)` as `(.*)`, called here", re.DOTALL)
_NOT_NAMED = {"grad", "jvp"}  # a derivative is not the value that the source names


@dataclass(slots=True, eq=False)
class Leaf:
    """An operand that stands beside its users instead of in a box: a parameter, a constant, the seed.

    Attributes:
        kind: `param`, `const` or `seed`.
        node: The node of it.
        text: A constant that is short enough to be written into a box, else "".
        names: What the source calls it.
    """

    kind: str
    node: Node
    text: str = ""
    names: tuple[str, ...] = ()


Operand: TypeAlias = "Value | Leaf"


@dataclass(slots=True, eq=False)
class _Part:
    """A graph to be read: the model itself, or the body of an op.

    Attributes:
        graph: The graph.
        group: Where its boxes go.
        env: What is known of its nodes; its inputs at least.
        origin: Origin of the op around it: its calls and transforms are not told again inside.
        serial: Place of the op around it.
        results: For each output, where its value goes.
        ends: For each output what stands at its end: the title of a box, or "" for the value itself.
    """

    graph: Graph
    group: Group
    env: dict[Node, Operand]
    origin: Origin = field(default_factory=Origin)
    serial: tuple[int, ...] = ()
    results: Sequence[Value | None] = ()
    ends: Sequence[str] = ()


def read(graph: Graph, *, fold: bool = True, constants: bool = False) -> Scene:
    """The scene of a graph, every op in it.

    Args:
        graph: The graph.
        fold: Whether ops that only move numbers disappear in the op that one expression made them for.
        constants: Whether constants that fit into the box of their user are drawn beside it.
    """
    reader = _Reader(fold, constants)
    root = Group("root", escape(graph.name))
    reader.todo.append((_Part(graph, root, {}), False))
    while reader.todo:
        part, is_read = reader.todo.pop()
        if is_read:
            reader.finish(part)
        else:
            reader.part(part)
    return Scene(escape(graph.name), root, _joined(reader.values))


def _joined(values: Iterable[Value]) -> list[Value]:
    """Values with one source and one outlet each: the result of a body is the value inside."""
    found: dict[object, Value] = {}
    for value in values:
        if not value.sources:
            continue
        key = (tuple(id(s) for s in value.sources), value.outlet)
        first = found.setdefault(key, value)
        if first is not value:
            first.targets += value.targets
            first.border = first.border or value.border
    return list(found.values())


class _Reader:
    def __init__(self, fold: bool, constants: bool) -> None:
        self.fold, self.constants = fold, constants
        self.todo: list[tuple[_Part, bool]] = []  # the last one comes first; with the mark only its outputs are left
        self.values: list[Value] = []
        self.names = SourceNames()
        self._groups: dict[tuple[int, object], Group] = {}

    # ------------------------------------------------------------------ one graph
    def part(self, part: _Part) -> None:
        """Read the nodes of one graph; the bodies in it are put on the list, and its outputs below them."""
        self.todo.append((part, True))
        graph, env = part.graph, part.env
        outputs = {o.node for o in graph.outputs}
        absorbed = absorb(graph, outputs) if self.fold else Absorbed()
        named = self._named(graph)
        items: dict[Node, list[Value]] = {}
        for entry in graph.inputs:
            if entry.kind in ("param", "seed") and entry.node not in env:
                env[entry.node] = Leaf(entry.kind, entry.node)
        for node in graph.nodes:
            if node in env or node in absorbed.owner:
                continue
            op = node.op.name
            if op == "input":
                self._input(part, node)
            elif op == "item":
                if node.inputs[0] in items:
                    env[node] = items[node.inputs[0]][node.attrs["index"]]
                else:  # of an operand from outside
                    env[node] = self._box(part, node, node, named.get(node, ""), [node.inputs[0]])[0]
            elif op == "constant":
                env[node] = Leaf(
                    "const", node, labels.constant_text(node.attrs["data"].array), self.names.at(node.origin.span)
                )
            elif (leaf := self._leaf(part, node, absorbed, outputs)) is not None:
                env[node] = env[absorbed.head.get(node, node)] = leaf
            elif op in _BODIES:
                items[node] = _BODIES[op](self, part, node)
                if not isinstance(node.type, TupleType):
                    env[node] = items[node][0]
            else:
                head = absorbed.head.get(node, node)
                name = named.get(head, "") or named.get(node, "")
                results = self._box(part, node, head, name, absorbed.operands(node))
                if isinstance(node.type, TupleType):
                    items[node] = results
                else:
                    env[head] = results[0]

    def finish(self, part: _Part) -> None:
        """The outputs of a graph whose nodes and bodies have been read."""
        for k, output in enumerate(part.graph.outputs):
            self._output(part, k, output)

    def _named(self, graph: Graph) -> dict[Node, str]:
        """What the source calls the value of each node: of the nodes of one expression the last one has the name."""
        last: dict[tuple[int, int, int, int, tuple[str, ...]], list[Node]] = {}
        for node in graph.nodes:
            span = node.origin.span
            if (
                span is not None
                and not _NOT_NAMED & set(node.origin.via)
                and node.op.name not in ("constant", "input", "dim_size")
            ):
                key = (id(span.source), span.start, span.end, id(node.origin.chain), node.origin.via)
                last.setdefault(key, []).append(node)
        found: dict[Node, str] = {}
        for nodes in last.values():
            names = self.names.at(nodes[-1].origin.span)
            tail = nodes[-len(names) :] if names else []
            if len(names) == 1 or (len(tail) == len(names) and len({n.op.name for n in tail}) == 1):
                found |= {n: escape(name) for n, name in zip(tail, names, strict=True) if name != "_"}
        return found

    def _input(self, part: _Part, node: Node) -> None:
        box = Box("input", escape(node.attrs["name"]), span=node.origin.span, serial=(*part.serial, node.serial))
        entry = part.graph.input(node.attrs["name"])
        box.tooltip = (f"input {box.title}", str(node.type), *_doc(entry), *labels.place_lines(node))
        adopt(part.group, box)
        part.env[node] = self._value(box, node.tensor)

    def _leaf(self, part: _Part, node: Node, absorbed: Absorbed, outputs: set[Node]) -> Leaf | None:
        """The operand that a node only spreads, or the seed where it only derives a key from it."""
        given = [part.env.get(i) for i in absorbed.operands(node)]
        if node.op.name == "broadcast_to" and isinstance(given[0], Leaf) and node not in outputs:
            return given[0] if given[0].kind != "const" or given[0].text or self.fold else None
        leaves = [g for g in given if isinstance(g, Leaf)]
        if not self.fold or len(leaves) < len(given) or not leaves or node in outputs:
            return None
        if isinstance(node.type, TupleType) or str(node.dtype) != "U32" or node.op.name in _BODIES:
            return None
        return next((leaf for leaf in leaves if leaf.kind == "seed"), None)

    # ------------------------------------------------------------------ boxes
    def _value(self, box: Box, tensor: TensorType, outlet: int = 0, border: Group | None = None) -> Value:
        value = Value([box], [], labels.type_text(tensor), outlet, border)
        self.values.append(value)
        return value

    def _box(self, part: _Part, node: Node, head: Node, name: str, operands: Sequence[Node]) -> list[Value]:
        box = Box("op", labels.op_title(node), name=name, category=labels.category(node.op.name), span=node.origin.span)
        box.serial = (*part.serial, node.serial)
        group = self._group(part, node.origin)
        adopt(group, box)
        written: list[tuple[int, str]] = []
        for k, operand in enumerate(operands):
            value = part.env[operand]
            if isinstance(value, Value):
                value.targets.append((box, k))
            elif value.text and not self.constants:
                written.append((k, value.text))
            else:
                self._beside(box, value)
        box.args = labels.op_args(node, written)
        box.node = node
        types = head.type.items if isinstance(head.type, TupleType) else (head.type,)
        return [self._value(box, t, k) for k, t in enumerate(types)]

    def _beside(self, box: Box, leaf: Leaf) -> None:
        """A parameter, constant or seed beside a box; one that is used twice stands once."""
        node, path = leaf.node, box.group.path if box.group is not None else ""
        if leaf.kind == "seed":
            new = Satellite("seed", "seed", "seed", "", ("the key of the run's random numbers",))
        elif leaf.kind == "param":
            name = escape(node.attrs["name"])
            shown = name.removeprefix(f"{path}.") if path else name
            tooltip = (f"param {name}", str(node.type), *labels.place_lines(node))
            new = Satellite("param", name, shown, labels.satellite_dims(node.tensor), tooltip, _elements(node.tensor))
        else:
            name = escape(leaf.names[0]) if leaf.names else leaf.text
            dims = "" if leaf.text and not leaf.names else labels.type_text(node.tensor)
            tooltip = (f"constant {leaf.text}".rstrip(), str(node.type), *labels.place_lines(node))
            new = Satellite("const", name, name, dims, tooltip)
        if all((s.kind, s.name, s.dims) != (new.kind, new.name, new.dims) for s in box.satellites):
            box.satellites.append(new)

    def _output(self, part: _Part, k: int, output: GraphOutput) -> None:
        operand = part.env[output.node]
        serial = (*part.serial, _LAST + k)
        if part.group.kind == "root" and not part.serial:
            kind = "output" if output.role == "out" else "tap"
            box = Box(kind, escape(output.name), serial=serial, span=output.node.origin.span)
            box.tooltip = (f"{output.role} {box.title}", str(output.node.type))
            self._end(part, box, operand)
            return
        result, title = part.results[k], part.ends[k]
        inside = isinstance(operand, Value) and all(_is_inside(s, part.group) for s in operand.sources)
        if result is not None and not title and inside and isinstance(operand, Value):
            result.sources += operand.sources
            result.outlet = operand.outlet
            return
        box = Box("result", title or "result", serial=serial, tooltip=(f"{title or 'result'}", str(output.node.type)))
        self._end(part, box, operand)
        if result is not None:
            result.sources.append(box)
            result.outlet = 0

    def _end(self, part: _Part, box: Box, operand: Operand) -> None:
        adopt(part.group, box)
        if isinstance(operand, Value):
            operand.targets.append((box, 0))
        else:
            self._beside(box, operand)

    # ------------------------------------------------------------------ groups
    def _group(self, part: _Part, origin: Origin) -> Group:
        """The group of a node: its transforms, then its calls from the outermost to the innermost."""
        outer, group = part.origin, part.group
        via = origin.via[len(outer.via) :] if origin.via[: len(outer.via)] == outer.via else origin.via
        chain = origin.chain
        if outer.chain and chain[-len(outer.chain) :] == outer.chain:
            chain = chain[: -len(outer.chain)]
        key: object = (via, tuple(map(id, chain)))
        found = self._groups.get((id(part.group), key))
        if found is not None:
            return found
        for name in via:
            group = self._inside(group, name, Group("transform", name, path=group.path))
        for frame in reversed(chain):
            group = self._inside(group, frame, _group_of(frame, group))
        self._groups[id(part.group), key] = group
        return group

    def _inside(self, outer: Group, key: object, new: Group) -> Group:
        found = self._groups.get((id(outer), ("inside", key)))
        if found is None:
            found = self._groups[id(outer), ("inside", key)] = new
            adopt(outer, new)
        return found

    def _body_group(self, part: _Part, node: Node, title: str, note: str) -> Group:
        around = self._group(part, node.origin)
        group = Group("body", title, note, around.path, span=node.origin.span)
        adopt(around, group)
        return group

    def _pill(self, part: _Part, node: Node, group: Group, entry: Any, given: Operand, what: str) -> Value:
        """A box for a value that a body gets anew at each step."""
        box = Box("carry", escape(entry.name), args=what, serial=(*part.serial, node.serial, -1), span=node.origin.span)
        box.tooltip = (f"{what} {box.title}", str(entry.node.type), *labels.place_lines(node))
        adopt(group, box)
        if isinstance(given, Value):
            given.targets.append((box, 0))
        else:
            self._beside(box, given)
        return self._value(box, entry.node.tensor)

    def _results(self, node: Node, border: Group | None) -> list[Value]:
        types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
        found = [Value([], [], labels.type_text(t), 0, border) for t in types]
        self.values += found
        return found

    def _given(self, part: _Part, node: Node) -> list[Operand]:
        return [part.env[i] for i in node.inputs]

    def scan(self, part: _Part, node: Node) -> list[Value]:
        """A scan: pills for carries and slices, the body, and pills for what it hands on."""
        body, carries, sources = node.attrs["body"], node.attrs["carries"], node.attrs["sources"]
        over = ", ".join(e.name for e in body.inputs[carries : carries + sources])
        steps = (
            labels.counted(node.attrs["length"], "step")
            if isinstance(node.attrs["length"], int)
            else f"{node.attrs['length']} steps"
        )
        note = escape(
            " · ".join(
                filter(
                    None, (f"over {over}" if over else "", steps.replace("?", ""), "backwards" * node.attrs["reverse"])
                )
            )
        )
        group = self._body_group(part, node, "scan", note)
        env: dict[Node, Operand] = {}
        for k, (entry, given) in enumerate(zip(body.inputs, self._given(part, node), strict=True)):
            what = "carry" if k < carries else "slice"
            env[entry.node] = self._pill(part, node, group, entry, given, what) if k < carries + sources else given
        results = self._results(node, group)
        emits = [*self.names.at(node.origin.span), *[""] * len(body.outputs)]
        ends = [escape(f"next {e.name}") for e in body.inputs[:carries]]
        ends += [escape(f"emit {name}".rstrip()) for name in emits[: len(body.outputs) - carries]]
        self.todo.append((_Part(body, group, env, node.origin, (*part.serial, node.serial), results, ends), False))
        return results

    def loop(self, part: _Part, node: Node) -> list[Value]:
        """A while loop: pills for the carries, the condition in a group of its own, and the body."""
        condition, body, carries = node.attrs["cond"], node.attrs["body"], node.attrs["carries"]
        limit = node.attrs["limit"]
        group = self._body_group(part, node, "loop", "" if limit is None else f"at most {limit} steps".replace("?", ""))
        inner: dict[Node, Operand] = {}
        test: dict[Node, Operand] = {}
        for k, (entry, twin, given) in enumerate(
            zip(body.inputs, condition.inputs, self._given(part, node), strict=True)
        ):
            value = self._pill(part, node, group, entry, given, "carry") if k < carries else given
            inner[entry.node] = test[twin.node] = value
        around = Group("body", "while", path=group.path)
        adopt(group, around)
        serial = (*part.serial, node.serial)
        self.todo.append((_Part(condition, around, test, node.origin, (*serial, 0), [None], ["goes on"]), False))
        results = self._results(node, group)
        ends = [escape(f"next {e.name}") for e in body.inputs[:carries]]
        self.todo.append((_Part(body, group, inner, node.origin, (*serial, 1), results, ends), False))
        return results

    def choice(self, part: _Part, node: Node) -> list[Value]:
        """A choice: a pill for the condition, and a group for each branch."""
        group = self._body_group(part, node, "if", "")
        predicate, *given = self._given(part, node)
        box = Box("carry", "condition", serial=(*part.serial, node.serial, -1), tooltip=("chooses the branch",))
        adopt(group, box)
        if isinstance(predicate, Value):
            predicate.targets.append((box, 0))
        else:
            self._beside(box, predicate)
        results = self._results(node, None)
        parts: list[tuple[_Part, bool]] = []
        for k, (key, title) in enumerate((("then", "then"), ("orelse", "else"))):
            graph: Graph = node.attrs[key]
            inside = Group("body", title, path=group.path)
            adopt(group, inside)
            env: dict[Node, Operand] = {e.node: g for e, g in zip(graph.inputs, given, strict=True)}
            serial = (*part.serial, node.serial, k)
            parts.append((_Part(graph, inside, env, node.origin, serial, results, [""] * len(results)), False))
        self.todo += reversed(parts)
        return results

    def function(self, part: _Part, node: Node) -> list[Value]:
        """A function with derivative rules of its own, or one that is computed again in the backward pass."""
        body: Graph = node.attrs["body"]
        rules = " and ".join(k for k in ("vjp", "jvp") if node.attrs.get(k) is not None)
        note = (
            "computed again in the backward pass" if node.op.name == "remat" else f"with {rules} rule" if rules else ""
        )
        group = self._body_group(part, node, escape(body.name) or node.op.name, note)
        env: dict[Node, Operand] = {e.node: g for e, g in zip(body.inputs, self._given(part, node), strict=True)}
        results = self._results(node, None)
        self.todo.append(
            (_Part(body, group, env, node.origin, (*part.serial, node.serial), results, [""] * len(results)), False)
        )
        return results


_BODIES = {
    "scan": _Reader.scan,
    "while": _Reader.loop,
    "cond": _Reader.choice,
    "custom": _Reader.function,
    "remat": _Reader.function,
}


def _group_of(frame: Frame, outer: Group) -> Group:
    """The group of one step of a call chain."""
    if not frame.name:
        title = frame.text.removeprefix("in the iteration ").removeprefix("in ").replace("`", "")
        return Group("iteration", escape(title), path=outer.path, span=frame.span)
    block = _BLOCK.fullmatch(frame.text)
    if block is None:
        return Group("call", escape(frame.name), path=outer.path, span=frame.span)
    path = escape(frame.name)
    title = path.removeprefix(f"{outer.path}.") if outer.path else path
    return Group("block", title, escape(block[1]), path, span=frame.span)


def _is_inside(box: Box, group: Group) -> bool:
    around = box.group
    while around is not None:
        if around is group:
            return True
        around = around.parent
    return False


def _doc(entry: Any) -> list[str]:
    return [escape(line) for line in entry.doc.strip().splitlines()[:1]] if entry is not None and entry.doc else []


def _elements(tensor: TensorType) -> int:
    from rlxlang.types import product

    size = product(tensor.shape)
    return size if isinstance(size, int) else 0
