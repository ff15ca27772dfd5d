"""Locate packaged data: the grammar, the standard library and the pages of the diagnostic codes."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path


def grammar_text(name: str = "rlx.lark") -> str:
    """Return the text of the grammar file ``name``.

    Raises:
        FileNotFoundError: the package holds no such file.
    """
    return files("rlxlang.grammar").joinpath(name).read_text("utf-8")


def stdlib_source(name: str) -> str | None:
    """Return the source of the stdlib module ``name``, or None when there is no such module.

    Args:
        name: dotted module name, ``nn`` or ``nn.dense``.
    """
    file = files("rlxlang.stdlib").joinpath(*name.split(".")[:-1], f"{name.split('.')[-1]}.rlx")
    return file.read_text("utf-8") if file.is_file() else None


def stdlib_modules() -> tuple[str, ...]:
    """Return the names of all top-level stdlib modules, sorted."""
    entries = files("rlxlang.stdlib").iterdir()
    return tuple(sorted(entry.name.removesuffix(".rlx") for entry in entries if entry.name.endswith(".rlx")))


@cache
def stdlib_homes(name: str) -> tuple[str, ...]:
    """Return the stdlib modules that have a fn or block called ``name``, sorted."""
    head = re.compile(rf"^(?:remat )?(?:fn|block) {re.escape(name)}\(", re.MULTILINE)
    return tuple(module for module in stdlib_modules() if head.search(stdlib_source(module) or ""))


def error_page(code: str) -> str:
    """Return the page about a diagnostic code, as Markdown.

    Raises:
        FileNotFoundError: there is no page of that name.
    """
    return files("rlxlang.error_pages").joinpath(f"{code}.md").read_text("utf-8")


def error_page_file(code: str) -> Path | None:
    """Return the file of the page about a diagnostic code; None when the package lies in no folder, or has no page."""
    file = files("rlxlang.error_pages").joinpath(f"{code}.md")
    return file if isinstance(file, Path) and file.is_file() else None
