"""Pictures of graphs: SVG, Graphviz, Mermaid, a page with pan and zoom, and a tree of text (layer of tools).

A picture shows every op with what the source calls its value, the types of what runs between ops, parameters beside the ops
that use them, and calls, iterations and bodies of loops as nested groups. Equal groups in a chain, the layers of a deep network,
are drawn once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from rlxlang.diagnostics import RlxValueError
from rlxlang.ir import Graph

if TYPE_CHECKING:
    from rlxlang.pictures.layout import Placed
    from rlxlang.pictures.scene import Scene

__all__ = ["dot", "html", "mermaid", "svg", "text"]

Direction: TypeAlias = Literal["down", "right"]
Theme: TypeAlias = Literal["auto", "light", "dark", "page"]


class _HasGraph(Protocol):
    @property
    def graph(self) -> Graph: ...


Drawable: TypeAlias = "Graph | _HasGraph"


def svg(
    model: Drawable,
    *,
    fold: bool = True,
    depth: int | None = None,
    direction: Direction = "down",
    theme: Theme = "auto",
    constants: bool = False,
) -> str:
    """A picture as SVG, which browsers and editors show.

    The layout is layered (Sugiyama, Tagawa and Toda 1981; Gansner et al. 1993; Brandes and Köpf 2002), group by group from the
    inside outwards. The same graph gives the same text.

    Args:
        model: A `Func` or its graph.
        fold: Draw equal groups in a chain once, and ops that only move numbers as part of the op they were emitted with.
        depth: Draw groups that lie in more than `depth` groups as one box with the number of its ops and parameters; left out:
            only where there would be too many boxes.
        direction: `down`, or `right`.
        theme: `auto` follows the light or dark scheme of the page, `page` is for a page of unknown colours: no style sheet, no
            background, letters in the colour of the page.
        constants: Draw constants beside their users also where they fit into the box.

    Raises:
        RlxValueError: A wrong option, or more boxes than can be drawn.
    """
    from rlxlang.pictures.drawing import draw

    _one_of("theme", theme, ("auto", "light", "dark", "page"))
    return draw(placed_scene(model, fold, depth, direction, constants), theme)


def dot(
    model: Drawable,
    *,
    fold: bool = True,
    depth: int | None = None,
    direction: Direction = "down",
    constants: bool = False,
) -> str:
    """The picture in the language of Graphviz, with groups as clusters; see `svg` for the options.

    Raises:
        RlxValueError: A wrong option, or more boxes than can be drawn.
    """
    from rlxlang.pictures.graphviz import dot_text

    _one_of("direction", direction, ("down", "right"))
    return dot_text(scene_of(model, fold, depth, constants), downwards=direction == "down")


def mermaid(
    model: Drawable,
    *,
    fold: bool = True,
    depth: int | None = None,
    direction: Direction = "down",
    constants: bool = False,
) -> str:
    """The picture as a flowchart of Mermaid, which Markdown on many sites shows; see `svg` for the options.

    Raises:
        RlxValueError: A wrong option, or more boxes than can be drawn.
    """
    from rlxlang.pictures.flowchart import mermaid_text

    _one_of("direction", direction, ("down", "right"))
    return mermaid_text(scene_of(model, fold, depth, constants), downwards=direction == "down")


def html(
    model: Drawable,
    *,
    fold: bool = True,
    depth: int | None = None,
    direction: Direction = "down",
    constants: bool = False,
) -> str:
    """A page that needs nothing else: the picture with pan and zoom, and the source beside it; see `svg` for the options.

    Raises:
        RlxValueError: A wrong option, or more boxes than can be drawn.
    """
    from rlxlang.pictures.pages import page

    return page(placed_scene(model, fold, depth, direction, constants))


def text(model: Drawable, *, fold: bool = True, depth: int | None = None, constants: bool = False) -> str:
    """The picture as a tree of lines, one for each box; see `svg` for the options.

    Raises:
        RlxValueError: A wrong option, or more boxes than can be drawn.
    """
    from rlxlang.pictures.tree import tree_text

    return tree_text(scene_of(model, fold, depth, constants))


def scene_of(model: Drawable, fold: bool = True, depth: int | None = None, constants: bool = False) -> Scene:
    """What is shown of a model, without places; see `svg`.

    Raises:
        RlxValueError: A wrong option, or more boxes than can be drawn.
    """
    from rlxlang.pictures.closing import fit
    from rlxlang.pictures.grouping import tidy
    from rlxlang.pictures.reading import read
    from rlxlang.pictures.repeats import fold_repeats
    from rlxlang.pictures.scene import number

    if depth is not None and (isinstance(depth, bool) or depth < 0):
        raise RlxValueError(f"`depth` is a number of groups, 0 or more, not {depth!r}")
    graph = model if isinstance(model, Graph) else model.graph
    scene = read(graph, fold=fold, constants=constants)
    tidy(scene)
    if fold:
        fold_repeats(scene)
    fit(scene, depth)
    number(scene)
    return scene


def placed_scene(model: Drawable, fold: bool, depth: int | None, direction: str, constants: bool) -> Placed:
    """The same with places; see `svg`.

    Raises:
        RlxValueError: A wrong option, or more boxes than can be drawn.
    """
    from rlxlang.pictures.jumps import cut_long_edges
    from rlxlang.pictures.layout import layout

    _one_of("direction", direction, ("down", "right"))
    scene = scene_of(model, fold, depth, constants)
    cut_long_edges(scene)
    return layout(scene, downwards=direction == "down")


def _one_of(option: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise RlxValueError(f"`{option}` is {', '.join(known[:-1])} or {known[-1]}, not {value!r}")
