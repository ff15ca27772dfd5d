"""Code blocks of Markdown pages, run, and compared with what the pages say of them.

`rlx`: saved as `NAME.rlx` after its `graph "NAME";`, else as `model.rlx`, and checked. A comment `// error E0201` or
`/* warning W0903 */` names what is reported for its line; nothing else may be reported, except that the values of `bind`s and of
configs without a default may be missing, and that a text of definitions needs no output.

`python`: executed, with the names of earlier blocks of the section.

`console`: lines `$ rlx …` are executed, and the lines below each, if there are any, are what it prints; `…` stands for any text.

`text`: what the block above it prints; below an `rlx` block, the diagnostics of that.

Files are shared by a page, names by a section (a heading of the second level).
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rlxlang as rlx
from rlxlang.diagnostics import Diagnostic, render
from rlxlang.tools.cli import main

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^( *)(`{3,})(.*)$")
_GRAPH = re.compile(r'^graph "(\w+)";', re.MULTILINE)
_EXPECTED = re.compile(r"/[/*] (?:error|warning) ((?:[EW]\d{4})(?:, [EW]\d{4})*)")
_FEEDS = re.compile(r"^(input|let|out|scan|loop|repeat)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, the number of its first line, and the heading it stands under."""

    language: str
    text: str
    line: int
    section: str

    @property
    def file(self) -> str:
        """The name under which a model is saved."""
        named = _GRAPH.search(self.text)
        return f"{named[1] if named else 'model'}.rlx"


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    section, fence, start, language = "", "", 0, ""
    lines = page.read_text("utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        match = _FENCE.match(line)
        if match and not fence:
            fence, start, language = match[2], number + 1, match[3].strip()
        elif match and match[2] == fence and not match[3].strip():
            text = "".join(f"{part}\n" for part in lines[start - 1 : number - 1])
            found.append(Block(language, text, start, section))
            fence = ""
        elif not fence and line.startswith("## "):
            section = line[3:].strip()
    assert not fence, f"{page.name}: the block of line {start} is never closed"
    return found


def sections(*pages: str) -> list[tuple[str, str]]:
    """Pages and their sections that have blocks to run, as parameters of a test; pages are paths below the root."""
    found: dict[tuple[str, str], None] = {}
    for page in pages:
        blocks = blocks_of(ROOT / page)
        found |= {(page, b.section): None for b in blocks if b.language in ("rlx", "python", "console")}
    return list(found)


def run_section(page: Path, section: str, folder: Path, update: bool = False) -> None:
    """Run the blocks of a section in a folder, which must be the current one.

    Args:
        page: The page.
        section: The heading.
        folder: Where its models are saved, those of earlier sections too.
        update: Rewrite `text` blocks that differ.
    """
    blocks = blocks_of(page)
    runner = Runner(page, folder)
    shown: dict[int, str] = {}
    here = [n for n, b in enumerate(blocks) if b.section == section]
    for block in blocks[: here[0]]:
        if block.language == "rlx":
            runner.save(block)
    for number in here:
        block = blocks[number]
        if block.language not in ("rlx", "python", "console"):
            continue
        output = runner.run(block).rstrip()
        output += "\n" if output else ""
        after = blocks[number + 1] if number + 1 in here else None
        if after is None or after.language != "text":
            where = f"{page.name}:{block.line}"
            assert not output.strip() or block.language == "rlx", (
                f"{where} prints what the page does not show:\n{output}"
            )
        elif update and after.text != output:
            shown[after.line] = output
        elif not update:
            assert after.text == output, f"{page.name}:{after.line} differs (--update-golden writes it):\n{output}"
    if shown:
        rewrite(page, blocks, shown)


def rewrite(page: Path, blocks: Sequence[Block], shown: dict[int, str]) -> None:
    """Replace the texts of blocks; `shown` gives them by the number of their first line."""
    lines = page.read_text("utf-8").splitlines()
    for block in reversed(blocks):
        if block.line in shown:
            lines[block.line - 1 : block.line - 1 + block.text.count("\n")] = shown[block.line].splitlines()
    page.write_text("\n".join(lines) + "\n", "utf-8")


class Runner:
    """Runs the blocks of one section of a page.

    Args:
        page: The page, for messages.
        folder: Where models are saved.
    """

    def __init__(self, page: Path, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.names: dict[str, Any] = {"__name__": "__page__"}

    def save(self, block: Block) -> Path:
        """Save a model."""
        path = self.folder / block.file
        path.write_text(block.text, "utf-8")
        return path

    def run(self, block: Block) -> str:
        """Run a block; gives what it prints."""
        kinds: dict[str, Callable[[Block], str]] = {
            "rlx": self._model,
            "python": self._python,
            "console": self._console,
        }
        return kinds[block.language](block)

    def _model(self, block: Block) -> str:
        path = self.save(block)
        lines = block.text.splitlines()
        expected = {
            (number, code)
            for number, line in enumerate(lines, 1)
            for match in _EXPECTED.finditer(line)
            for code in match[1].split(", ")
        }
        found = [d for d in rlx.check(path) if not self._may_be_missing(d, block, expected)]
        places = {(line_of(d), d.code) for d in found}
        if not expected:
            formatted = rlx.format(block.text)
            assert rlx.format(formatted) == formatted, f"{self.page.name}:{block.line}"
        text = "\n\n".join(render(d, colour=False).rstrip() for d in found)
        where = f"{self.page.name}:{block.line}"
        assert places == expected, f"{where}: expected {sorted(expected)}, found {sorted(places)}\n{text}"
        return f"{text}\n".replace(str(path), path.name) if found else ""

    @staticmethod
    def _may_be_missing(problem: Diagnostic, block: Block, expected: set[tuple[int, str]]) -> bool:
        if (line_of(problem), problem.code) in expected:
            return False
        return problem.code in ("E0215", "E0353") or (problem.code == "E0605" and not _FEEDS.search(block.text))

    def _python(self, block: Block) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = compile("\n" * (block.line - 1) + block.text, str(self.page), "exec")
            exec(code, self.names)
        return out.getvalue()

    def _console(self, block: Block) -> str:
        for part in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE):
            command, _, shown = part.partition("\n")
            if not command.startswith("$ rlx "):
                continue
            with contextlib.redirect_stdout(io.StringIO()) as out:
                status = main(shlex.split(command[len("$ rlx ") :]))
            printed = out.getvalue()
            assert status == 0 or shown, f"{self.page.name}: `{command}` ends with {status}:\n{printed}"
            pattern = re.escape(shown.strip()).replace("…", ".*")
            assert not shown or re.fullmatch(pattern, printed.strip(), re.DOTALL), f"`{command}` prints\n{printed}"
        return ""


def line_of(problem: Diagnostic) -> int:
    """The line a diagnostic points to, 0 for none."""
    return problem.span.source.line_column(problem.span.start)[0] if problem.span else 0
