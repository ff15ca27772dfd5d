"""`:doc`: what a word of the language means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlxlang.diagnostics import CODES
from rlxlang.frontend.initializer_calls import INITIALIZERS
from rlxlang.ir import SURFACES
from rlxlang.ops import METHODS
from rlxlang.resources import stdlib_modules
from rlxlang.tools.lsp import words

if TYPE_CHECKING:
    from rlxlang.tools.repl.session import Session


def documentation(word: str, session: Session) -> str | list[str]:
    """What is known of a word; all words that are known, when there is nothing."""
    name = word.strip().strip("`").removeprefix(".").removesuffix("()").removesuffix("(")
    parts = [*_own(name, session), *_op(name)]
    if name in INITIALIZERS:
        form, doc = words.initializer_form(name)
        parts.append(f"initialiser {form}\n  {doc}")
    if name in words.STATEMENTS:
        parts.append(f"keyword {name}\n  {words.STATEMENTS[name][0]}")
    if name in words.JOINING:
        parts.append(f"keyword {name}\n  {words.JOINING[name]}")
    if name in words.DTYPE_DOCS:
        parts.append(f"dtype {name}\n  {words.DTYPE_DOCS[name]}")
    if words.CONSTANT_DOCS.get(name):
        parts.append(f"{name}\n  {words.CONSTANT_DOCS[name]}")
    if name.upper() in CODES:
        code = CODES[name.upper()]
        parts.append(f"{code.code}\n  {code.title}")
    if name in stdlib_modules():
        parts.append(f"module {name}\n  bring it in by `use {name};`")
    return "\n\n".join(parts) if parts else known_words()


def all_words() -> dict[str, list[str]]:
    """Everything that `:doc` knows but for codes and what the session defines, by what it is."""
    return {
        "ops": sorted([*SURFACES, "dim", "grad"]),
        "initialisers": [*INITIALIZERS],
        "keywords": [*words.STATEMENTS, *words.JOINING],
        "dtypes": [*words.DTYPE_DOCS],
        "modules": [*stdlib_modules()],
    }


def known_words() -> list[str]:
    """Everything that `:doc` knows, but for what the session defines."""
    return list(dict.fromkeys([*(name for names in all_words().values() for name in names), *CODES]))


def _op(name: str) -> list[str]:
    found = []
    function = words.op_form(name)
    if function is not None:
        found.append(_form(*function))
        for text, takes in words.op_parameters(name):
            if takes:
                found[-1] += f"\n    {text:<20}  {takes}"
    method = METHODS.get(name)
    if method is not None and method is not SURFACES.get(name):
        found.append(_form(f"method {method.signature()}", method.doc))
    return found


def _form(form: str, doc: str) -> str:
    return "\n".join([form, *(f"  {line}".rstrip() for line in doc.strip().splitlines())])


def _own(name: str, session: Session) -> list[str]:
    """What the session defines under a name."""
    found = []
    for entry in session.text.entries:
        if name in {n for _, n in entry.names}:
            doc = getattr(entry.statement, "doc", "")
            first = entry.statement.span.text.partition("{")[0].rstrip()
            found.append(_form(first, doc))
    return found
