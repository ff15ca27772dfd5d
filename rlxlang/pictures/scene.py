"""What a picture shows, before anything has a place: boxes in nested groups, and values that run between boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from rlxlang.diagnostics import Span
from rlxlang.ir import Node


@dataclass(slots=True, eq=False, repr=False)
class Satellite:
    """A parameter, constant or seed beside the box that uses it.

    Attributes:
        kind: `param`, `const` or `seed`.
        name: Run-time name of a parameter; the text of a constant.
        shown: The name without that of the group around it.
        dims: Its shape, `[64, 128]`; a dtype stands in front of it where it is not F32.
        tooltip: Lines that tell more.
        elements: How many numbers it has; 0 where that is dynamic.
    """

    kind: str
    name: str
    shown: str
    dims: str
    tooltip: tuple[str, ...] = ()
    elements: int = 0

    @property
    def text(self) -> str:
        """Name and shape."""
        return f"{self.shown} {self.dims}".strip()


@dataclass(slots=True, eq=False, repr=False)
class Box:
    """A leaf of the picture.

    Attributes:
        kind: `op`, `input`, `carry`, `result`, `output`, `tap`, or `summary` for a group that is not opened.
        title: The op, or the name of an input or output.
        args: What follows the title: constants, options.
        name: What the source calls the value.
        category: Family of the op, for its colour.
        tooltip: Lines that tell more.
        node: The op, of which `labels.tooltip` tells more still.
        satellites: Parameters, constants and seeds that it uses.
        span: Where it stands in the source.
        serial: Boxes sorted by it are in topological order.
        group: The group it lies in.
        key: A name in files, `b12`; unique within the picture.
    """

    kind: str
    title: str
    args: str = ""
    name: str = ""
    category: str = ""
    tooltip: tuple[str, ...] = ()
    node: Node | None = None
    satellites: list[Satellite] = field(default_factory=list)
    span: Span | None = None
    serial: tuple[int, ...] = ()
    group: Group | None = None
    key: str = ""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.title}>"


@dataclass(slots=True, eq=False, repr=False)
class Group:
    """Boxes that belong together: a call, an iteration, the body of a loop, what a transform added.

    Attributes:
        kind: `root`, `call`, `block`, `iteration`, `transform` or `body`.
        title: Name of the call; see `note`.
        note: What is called, or how a body runs.
        path: Run-time name of a block's instance, `encoder.0`, else that of the group around it.
        members: Boxes and groups inside, in topological order.
        parent: The group around it.
        times: How many equal groups in a chain it stands for.
        span: The call.
        key: A name in files, `g3`; unique within the picture.
    """

    kind: str
    title: str = ""
    note: str = ""
    path: str = ""
    members: list[Box | Group] = field(default_factory=list)
    parent: Group | None = None
    times: int = 1
    span: Span | None = None
    key: str = ""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.title} of {len(self.members)}>"


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """A tensor on its way from where it is made to where it is used.

    Attributes:
        sources: The box that makes it; one for each branch of a choice.
        targets: Boxes that use it, with the position of the operand.
        type: Element type and shape, `f32 [batch, 784]`.
        outlet: Which result of the box it is.
        border: The group at whose lower border the type stands, where its boxes inside have other types.
    """

    sources: list[Box] = field(default_factory=list)
    targets: list[tuple[Box, int]] = field(default_factory=list)
    type: str = ""
    outlet: int = 0
    border: Group | None = None


Member: TypeAlias = Box | Group


@dataclass(slots=True, eq=False, repr=False)
class Scene:
    """A picture without places."""

    name: str
    root: Group
    values: list[Value]

    def boxes(self) -> list[Box]:
        """All boxes, in topological order within each group."""
        return [m for m in walk(self.root) if isinstance(m, Box)]

    def groups(self) -> list[Group]:
        """All groups but the root, outer ones first."""
        return [m for m in walk(self.root) if isinstance(m, Group) and m is not self.root]


def walk(group: Group) -> Iterator[Member]:
    """A group and everything in it, outer ones first, in order."""
    todo: list[Member] = [group]
    while todo:
        member = todo.pop()
        yield member
        if isinstance(member, Group):
            todo.extend(reversed(member.members))


def first_serial(member: Member) -> tuple[int, ...]:
    """The place of a member in the topological order: that of its first box."""
    while isinstance(member, Group):
        if not member.members:
            return ()
        member = member.members[0]
    return member.serial


def parent_of(member: Member) -> Group | None:
    """The group around a member."""
    return member.group if isinstance(member, Box) else member.parent


def ancestors(member: Member) -> list[Group]:
    """The groups around a member, innermost first."""
    found = []
    group = parent_of(member)
    while group is not None:
        found.append(group)
        group = group.parent
    return found


def adopt(group: Group, member: Member) -> None:
    """Put a member into a group; where it was before it must have been taken out."""
    group.members.append(member)
    if isinstance(member, Box):
        member.group = group
    else:
        member.parent = group


def number(scene: Scene) -> None:
    """Give boxes and groups their keys."""
    boxes = groups = 0
    for member in walk(scene.root):
        if isinstance(member, Box):
            member.key, boxes = f"b{boxes}", boxes + 1
        else:
            member.key, groups = f"g{groups}", groups + 1
