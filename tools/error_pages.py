"""The pages about diagnostic codes, `docs/errors/`: run their programs, compare the messages, write the index.

`python tools/error_pages.py --update [E0401 …]` writes the messages of the pages (of all, or of those named) and the index; without
`--update` the command says what is out of date. How a page is written stands in the index, which is made from the texts below.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "errors"
INDEX = PAGES / "README.md"
sys.path.insert(0, str(ROOT))

import rlxlang as rlx  # noqa: E402
from rlxlang.diagnostics import CODES, RlxError, RlxWarning, render_all  # noqa: E402
from rlxlang.ir import GraphInput  # noqa: E402
from rlxlang.tools.cli import main as command  # noqa: E402
from rlxlang.types import evaluate  # noqa: E402
from tests.docs.blocks import Block, blocks_of, rewrite  # noqa: E402

_FILE = re.compile(r'^graph "(\w+)";', re.MULTILINE)
_CODE = re.compile(r"^(?:error|warning)\[([EW]\d{4})\]", re.MULTILINE)
_KINDS = tuple(f"{language} {word}" for language in ("rlx", "python", "console") for word in ("wrong", "right"))
# What differs from one machine to the next, and what the pages say for it.
_LOCAL = ((rlx.__version__, "X.Y.Z"), (platform.platform(), "SYSTEM"), (platform.python_version(), "3.X"))
_SIZE = 4  # of every dynamic axis when a right program is run

_RANGES = {
    "E00": "The compiler itself",
    "E01": "Syntax",
    "E02": "Names, imports and arguments",
    "E03": "Types and dtypes",
    "E04": "Shapes and axes",
    "E05": "Transforms",
    "E06": "Expansion of repeat, fn, block and scan",
    "E07": "Devices",
    "E08": "Running",
    "W09": "Warnings",
}
_HEAD = """# Diagnostic codes

Every error and warning of rlxlang has a code, and every code a page: what it means, a wrong program, what is printed for it, the
right program, and why. `rlx explain E0401` shows a page in the terminal; editors link to it.
"""
_TAIL = """
## How a page is written

The pages are run as tests, and `python tools/error_pages.py --update` writes this index and the messages of the pages. A page begins
with `# CODE: title`, the title being that of `rlxlang/diagnostics/codes.py`. The first words of a fence say what is done with the block:

| fence | what is done with it |
|---|---|
| `rlx` | a file that later blocks of the page use; its name is that of its `graph "name";` |
| `rlx wrong` | a model, saved as `model.rlx` or under its name, and checked: it must get this code, and no other |
| `rlx right` | a model that must load without a warning, in canonical layout; it is run once |
| `python wrong`, `python right` | run with `rlx` and NumPy's `np` imported; errors, warnings and what they print count |
| `console wrong`, `console right` | lines `$ rlx …` are run; what they print counts |
| `text` | what the wrong block before it gets; written by the tool |
"""


@dataclass(frozen=True, slots=True)
class Case:
    """Wrong programs that share a remedy, each with what is said about it, and right ones."""

    wrong: list[tuple[Block, Block]] = field(default_factory=list)
    right: list[Block] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Page:
    """A page, its code, its cases and the files that they use."""

    path: Path
    code: str
    files: tuple[Block, ...]
    cases: tuple[Case, ...]


def pages() -> list[Path]:
    """The files of the pages, by code."""
    return sorted(path for path in PAGES.glob("*.md") if path != INDEX)


def read(path: Path) -> Page:
    """Read a page.

    Raises:
        ValueError: the page does not keep to the form that the index describes.
    """
    code = path.stem
    row = CODES.get(code)
    if row is None:
        raise ValueError(f"{path.name}: there is no such code")
    heading = f"# {code}: {row.title}"
    if not path.read_text("utf-8").startswith(f"{heading}\n\n"):
        raise ValueError(f"{path.name}: the page begins with `{heading}`")
    files: list[Block] = []
    cases = [Case()]
    blocks = iter(blocks_of(path))
    for block in blocks:
        where = f"{path.name}:{block.line}"
        if block.language == "rlx":
            files.append(block)
        elif block.language not in _KINDS:
            raise ValueError(f"{where}: a block is `rlx` or one of {', '.join(_KINDS)}; found `{block.language}`")
        elif block.language.endswith("right"):
            cases[-1].right.append(block)
        else:
            message = next(blocks, None)
            if message is None or message.language != "text":
                raise ValueError(f"{where}: a `text` block follows a wrong program")
            if cases[-1].right:
                cases.append(Case())
            cases[-1].wrong.append((block, message))
    for case in cases:
        if not case.wrong or not case.right:
            raise ValueError(f"{path.name}: a wrong program and a right one belong together")
    return Page(path, code, tuple(files), tuple(cases))


def check_page(path: Path) -> None:
    """Run the programs of a page.

    Raises:
        ValueError: a program gets another code or message than the page says, a right one any, or the form is wrong.
    """
    page = read(path)
    with _folder(page):
        for case in page.cases:
            for wrong, message in case.wrong:
                found = message_of(page, wrong)
                if found != message.text:
                    raise ValueError(f"{path.name}:{message.line}: out of date ({_update(page)})\n{found}")
            for right in case.right:
                _check_right(page, right)


def update_page(path: Path) -> None:
    """Write the messages of a page, and its right models in canonical layout.

    Raises:
        ValueError: a wrong program gets another code than that of the page, or the form is wrong.
    """
    page = read(path)
    shown: dict[int, str] = {}
    with _folder(page):
        for case in page.cases:
            shown |= {message.line: message_of(page, wrong) for wrong, message in case.wrong}
            shown |= {block.line: rlx.format(block.text) for block in case.right if block.language == "rlx right"}
    rewrite(path, blocks_of(path), shown)


@contextlib.contextmanager
def _folder(page: Page) -> Iterator[None]:
    """A folder with the files of a page, as the current one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in page.files:
                Path(_name(block)).write_text(block.text, "utf-8")
            yield
        finally:
            os.chdir(before)


def _name(block: Block) -> str:
    named = _FILE.search(block.text)
    return f"{named[1] if named else 'model'}.rlx"


def _update(page: Page) -> str:
    return f"python tools/error_pages.py --update {page.code}"


def message_of(page: Page, block: Block) -> str:
    """What a wrong program gets.

    Raises:
        ValueError: it gets nothing, or another code than that of the page.
    """
    said = _outcome(page, block).rstrip("\n") + "\n"
    codes = set(_CODE.findall(said))
    if codes != {page.code}:
        raise ValueError(f"{page.path.name}:{block.line}: {page.code} expected\n{said}")
    for here, shown in (*_LOCAL, (f"{Path.cwd()}{os.sep}", "")):
        said = said.replace(here, shown)
    return said


def _outcome(page: Page, block: Block) -> str:
    """Everything that is said about a program."""
    if block.language.startswith("rlx"):
        Path(_name(block)).write_text(block.text, "utf-8")
        return render_all(rlx.check(_name(block)))
    if block.language.startswith("console"):
        return _run_commands(block)
    said: list[str] = []
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _execute(page, block)
        except RlxError as problem:
            said.append(str(problem))
        except Exception as problem:
            raise ValueError(f"{page.path.name}:{block.line}: {type(problem).__name__}: {problem}") from problem
    strange = [w for w in caught if not issubclass(w.category, RlxWarning)]
    if strange:
        raise ValueError(f"{page.path.name}:{block.line}: {strange[0].message}")
    return "\n\n".join(filter(None, [out.getvalue(), *(str(w.message) for w in caught), *said]))


def _execute(page: Page, block: Block) -> None:
    names: dict[str, Any] = {"__name__": "__page__", "rlx": rlx, "np": np}
    exec(compile("\n" * (block.line - 1) + block.text, str(page.path), "exec"), names)


def _run_commands(block: Block) -> str:
    out = io.StringIO()
    for line in block.text.splitlines():
        words = shlex.split(line.removeprefix("$ rlx "))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            command(words)
    return out.getvalue()


def _check_right(page: Page, block: Block) -> None:
    where = f"{page.path.name}:{block.line}"
    said = _outcome(page, block)
    if _CODE.search(said) or (said and not block.language.startswith("console")):
        raise ValueError(f"{where}: the right program gets\n{said}")
    if block.language == "rlx right":
        if rlx.format(block.text) != block.text:
            raise ValueError(f"{where}: not in canonical layout ({_update(page)})")
        _run_model(_name(block))


def _run_model(file: str) -> None:
    """Run a model on numbers that suit its inputs; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        func = rlx.load(file)
        values = {entry.name: _value(entry) for entry in func.graph.inputs if entry.kind != "seed"}
        params = {name: values.pop(name) for name in func.param_names() if name not in func.bindings}
        func.with_params(params).run_on("reference", values)


def _value(entry: GraphInput) -> Any:
    type_ = entry.node.tensor
    shape = [evaluate(dim, dict.fromkeys(type_.axes(), _SIZE)) for dim in type_.shape]
    return np.ones(shape, type_.dtype.numpy)


def index() -> str:
    """The text of the index."""
    parts = [_HEAD]
    for prefix, title in _RANGES.items():
        rows = [row for code, row in CODES.items() if code.startswith(prefix)]
        parts += [f"## {title}\n", *(f"- [{row.code}]({row.code}.md) {row.title}" for row in rows), ""]
    return "\n".join(parts).rstrip("\n") + "\n" + _TAIL


def without_page() -> list[str]:
    """The codes without a page."""
    return sorted(CODES.keys() - {path.stem for path in pages()})


def main(arguments: list[str]) -> int:
    """Write messages and index, or say what is out of date."""
    update = arguments[:1] == ["--update"]
    wanted = arguments[update:]
    chosen = [PAGES / f"{code}.md" for code in wanted] or pages()
    faults = []
    for path in chosen:
        try:
            (update_page if update else check_page)(path)
        except (ValueError, OSError) as problem:
            faults.append(str(problem))
    if update:
        INDEX.write_text(index(), "utf-8")
    elif not INDEX.is_file() or INDEX.read_text("utf-8") != index():
        faults.append("docs/errors/README.md is out of date: python tools/error_pages.py --update")
    if not wanted:
        faults += [f"{code} has no page" for code in without_page()]
    print("\n\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
