"""Write `docs/stdlib.md`: every fn and block of the standard library with its signature, its text and the parameters it makes.

`python tools/stdlib_docs.py --update` writes the page; without the option it only says whether the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "stdlib.md"
sys.path.insert(0, str(ROOT))

from rlxlang.diagnostics import Source  # noqa: E402
from rlxlang.frontend import ast  # noqa: E402
from rlxlang.frontend.parse import parse_module  # noqa: E402
from rlxlang.frontend.walk import walk  # noqa: E402
from rlxlang.resources import stdlib_modules, stdlib_source  # noqa: E402

_HEAD = """# The standard library

Written in the language itself, in `stdlib/`; `python tools/stdlib_docs.py --update` makes this page from those texts. `use nn;` brings in
a module, whose items are called `nn::dense(x, 64)`; `use nn::{dense};` brings in items under their own names. A `fn` computes; a
`block` also makes parameters, named after the call: `nn::dense(x, 64) as fc` makes `fc.w` and `fc.b`. These names are what
checkpoints contain; they do not change.
"""


def page() -> str:
    """The text of the page."""
    parts = [_HEAD]
    modules = [module_of(name) for name in stdlib_modules()]
    for module in modules:
        parts.append(f"- [{module.source.name}](#{module.source.name}): {', '.join(_names(module))}")
    for module in modules:
        parts.append(_module(module))
    return "\n".join(parts) + "\n"


def module_of(name: str) -> ast.Module:
    """The parsed text of a module.

    Raises:
        ValueError: There is no such module, or it is no program.
    """
    text = stdlib_source(name)
    module = parse_module(Source(name, text)).module if text is not None else None
    if module is None:
        raise ValueError(f"no module `{name}`")
    return module


def items(module: ast.Module) -> Iterator[ast.Fn | ast.Block]:
    """The fns and blocks of a module, in order."""
    return (s for s in module.statements if isinstance(s, (ast.Fn, ast.Block)))


def _names(module: ast.Module) -> list[str]:
    return [f"`{item.name.text}`" for item in items(module)]


def _module(module: ast.Module) -> str:
    doc = next((s.doc for s in module.statements if isinstance(s, ast.Graph)), "")
    return "\n".join([f"\n## {module.source.name}\n", _joined(doc), *map(_item, items(module))])


def _item(item: ast.Fn | ast.Block) -> str:
    lines = [f"\n### `{item.name.text}`\n", "```rlx", _signature(item), "```", _joined(item.doc)]
    made = list(_parameters(item.body, ""))
    if made:
        lines += ["", "Makes:", "", *(f"- {line}" for line in made)]
    return "\n".join(lines)


def _signature(item: ast.Fn | ast.Block) -> str:
    kind = "block" if isinstance(item, ast.Block) else "fn"
    formals = [formal.span.text for formal in item.formals]
    line = f"{kind} {item.name.text}({', '.join(formals)})"
    if len(line) <= 100:
        return line
    return "\n".join([f"{kind} {item.name.text}(", *(f"  {formal}," for formal in formals), ")"])


def _parameters(body: ast.Body, condition: str) -> Iterator[str]:
    """What the statements of a body make: parameters, and blocks called in it."""
    for statement in body.statements:
        match statement:
            case ast.Param():
                yield f"`{statement.span.text.removeprefix('param ').removesuffix(';')}`{condition}"
            case ast.If():
                for branch in statement.branches:
                    yield from _parameters(branch.body, f"{condition}, if `{branch.condition.span.text}`")
                if statement.orelse is not None:
                    others = " and ".join(f"not `{b.condition.span.text}`" for b in statement.branches)
                    yield from _parameters(statement.orelse, f"{condition}, if {others}")
            case ast.RepeatRange() | ast.RepeatTimes() | ast.Scan() | ast.Loop():
                yield from _parameters(statement.body, condition)
            case _:
                yield from (f"{line}{condition}" for line in _calls(statement))


def _calls(statement: Any) -> Iterator[str]:
    """The named calls in a statement, in order."""
    named = [node for node in walk(statement) if isinstance(node, ast.Named)]
    for node in sorted(named, key=lambda n: n.span.start):
        called = next(n for n in walk(node.call) if isinstance(n, (ast.Call, ast.Method)))
        block = called.func.text if isinstance(called, ast.Call) else called.name.text
        yield f"`{node.name.span.text.strip(chr(34))}`: a `{block}`"


def _joined(doc: str) -> str:
    """Lines of a paragraph, joined: the page is wrapped where it is shown."""
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in doc.strip().split("\n\n"))


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is up to date."""
    if arguments == ["--update"]:
        PAGE.write_text(page(), "utf-8")
        return 0
    if arguments:
        print(__doc__)
        return 2
    if PAGE.is_file() and PAGE.read_text("utf-8") == page():
        return 0
    print(f"{PAGE.relative_to(ROOT)} is out of date: python tools/stdlib_docs.py --update")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
