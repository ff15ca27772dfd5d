"""Names with places: `@ "h.{i}.w"` and `as "layer.{i}"`."""

from __future__ import annotations

from collections.abc import Mapping

from rlxlang.frontend import ast
from rlxlang.frontend.context import Context
from rlxlang.frontend.names import Scope
from rlxlang.frontend.values import describe

_NOTHING: Mapping[str, str] = {}


def fill(
    context: Context,
    template: ast.Template,
    scope: Scope,
    given: Mapping[str, str] = _NOTHING,
    *,
    of_block: bool = False,
) -> str | None:
    """The name with every place filled; None after an error.

    Any text is a name, since those of other systems must be met, but an empty one and one that does not print.

    Args:
        context: The elaboration.
        template: The name as written.
        scope: Where the names of places are looked up: static ints and strings.
        given: Places that have a value of their own, `{i}` in a family.
        of_block: Whether it names the call of a block, whose parameters follow a dot: then no part between dots is empty.
    """
    known = dict(given)
    for place in template.placeholders:
        if place.text in known:
            continue
        binding = scope.find(place.text)
        if binding is None or not isinstance(binding.value, (int, str)) or isinstance(binding.value, bool):
            found = "unknown" if binding is None else describe(binding.value)
            context.error(
                "E0126", f"`{{{place.text}}}` takes a static int or str, and `{place.text}` is {found}", place.span
            )
            return None
        binding.used = True
        known[place.text] = str(binding.value)
    name = template.substitute(known)
    if not name or not name.isprintable():
        what = "is empty" if not name else "holds a character that does not print"
        context.error("E0126", f"the name {what}", template.span, help_="checkpoints and messages show it")
        return None
    if of_block and not all(name.split(".")):
        help_ = "names of parameters are made of its parts, `layers.0.w`"
        context.error("E0126", f"a part of the name `{name}` is empty", template.span, help_=help_)
        return None
    return name
