"""`rlx explain`: what a diagnostic code means, with a wrong program and the right one."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rlxlang.diagnostics import CODES, RlxNameError, display_width, nearest
from rlxlang.resources import error_page
from rlxlang.tools.cli import wants_colour

EXAMPLES = """\
examples:
  rlx explain E0401
  rlx explain 401 w903
  rlx explain                  every code with its title
"""

_CODE = re.compile(r"([EW]?)0*([0-9]{1,4})")
_FENCE = re.compile(r"^```(.*)$")
_CAPTIONS = {"wrong": "Wrong:", "right": "Right:", "text": "Message:", "": "File:"}
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a page: prose, of which `language` is empty, or a block.

    Attributes:
        text: Without fences and empty lines around it.
        language: What the block is written in: rlx, python, console, or text for a message.
        role: `wrong`, `right` or empty.
    """

    text: str
    language: str = ""
    role: str = ""

    @property
    def caption(self) -> str:
        """The line above a block."""
        return _CAPTIONS["text" if self.language == "text" else self.role]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("codes", metavar="CODE", nargs="*", help="such as E0401, e0401 or 401 (default: list all)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Print pages, or the list of all codes; returns the exit code."""
    codes = [code_of(word) for word in options.codes]
    if options.format == "json":
        print(json.dumps([record(code) for code in codes or CODES], indent=2, ensure_ascii=False))
    elif not codes:
        print("\n".join(f"{code}  {row.title}" for code, row in CODES.items()))
    elif wants_colour(sys.stdout):
        for code in codes:
            _show(error_page(code))
    else:
        print("\n\n".join(plain(error_page(code)) for code in codes))
    return 0


def record(code: str) -> dict[str, Any]:
    """A code for JSON: `code`, `title`, and the `page` in Markdown."""
    return {"code": code, "title": CODES[code].title, "page": error_page(code)}


def code_of(word: str) -> str:
    """The code that a word means: in any case, without its letter, without leading zeros.

    Raises:
        RlxNameError: E0200 there is no such code; the help line names near ones.
    """
    text = word.strip().upper()
    written = _CODE.fullmatch(text)
    if written is not None:
        letter, number = written[1], written[2].rjust(4, "0")
        for code in [f"{letter}{number}"] if letter else [f"E{number}", f"W{number}"]:
            if code in CODES:
                return code
        text = (letter or "E") + number
    near = nearest(text, CODES)
    helps = [f"near are {', '.join(f'{code} ({CODES[code].title})' for code in near)}"] if near else []
    raise RlxNameError(f"there is no code `{word}`", code="E0200", helps=[*helps, "`rlx explain` lists all codes"])


# ------------------------------------------------------------------------------------------------ pages


def parts(page: str) -> Iterator[Part]:
    """The prose and the blocks of a page, in order, without its heading."""
    lines: list[str] = []
    info: str | None = None
    for line in page.split("\n")[1:]:
        fence = _FENCE.match(line)
        if fence is None:
            lines.append(line)
            continue
        text = "\n".join(lines).strip("\n")
        if info is not None:
            language, _, role = info.partition(" ")
            yield Part(text, language, role)
        elif text:
            yield Part(text)
        lines = []
        info = fence[1] if info is None else None
    if rest := "\n".join(lines).strip("\n"):
        yield Part(rest)


def _heading(page: str) -> str:
    return page.split("\n", 1)[0].removeprefix("# ")


def plain(page: str) -> str:
    """A page as text for files and pipes: blocks are indented and have captions, prose is wrapped."""
    out = [_heading(page)]
    for part in parts(page):
        if part.language:
            block = "\n".join(f"    {line}".rstrip() for line in part.text.split("\n"))
            out.append(f"{part.caption}\n\n{block}")
        else:
            out.extend(_wrapped(" ".join(paragraph.split("\n"))) for paragraph in part.text.split("\n\n"))
    return "\n\n".join(out)


def _wrapped(text: str) -> str:
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and display_width(longer) > _WIDTH:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def _show(page: str) -> None:
    """A page on a terminal."""
    from rich.console import Console, Group
    from rich.markdown import Markdown
    from rich.padding import Padding
    from rich.text import Text

    console = Console()
    shown: list[Any] = [Text(_heading(page), style="bold"), Text()]
    for part in parts(page):
        if part.language:
            style = {"wrong": "bold red", "right": "bold green"}.get(part.role, "bold")
            shown += [Text(part.caption, style=style), Padding(_block(part), (1, 0, 1, 4))]
        else:
            shown += [Markdown(part.text), Text()]
    console.print(Group(*shown[:-1]), width=min(console.width, _WIDTH))


def _block(part: Part) -> Any:
    from rich.syntax import Syntax
    from rich.text import Text

    if part.language == "text":
        return Text(part.text)
    if part.language != "rlx":
        return Syntax(part.text, part.language, background_color="default")
    from rlxlang.frontend.highlight import RlxLexer

    return Syntax(part.text, RlxLexer(), background_color="default")
