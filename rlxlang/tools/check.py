"""`rlx check`: everything that is wrong with models, as text or as JSON for editors and builds."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlxlang.diagnostics import Diagnostic, Source, Span, error, escape, render
from rlxlang.loading import check
from rlxlang.tools.cli import hint, wants_colour
from rlxlang.tools.data import configs
from rlxlang.tools.files import models_in

if TYPE_CHECKING:
    from rlxlang.tools.lsp.analysis import Document

EXAMPLES = """\
examples:
  rlx check model.rlx
  rlx check models/ --strict            every .rlx file below; warnings count as errors
  rlx check model.rlx --format json     for editors
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="models, or folders of them")
    parser.add_argument("--strict", action="store_true", help="warnings fail, too")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: %(default)s)")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="value of a config")


def run(options: argparse.Namespace) -> int:
    """Check; returns the exit code: 1 when there are errors (with `--strict` also warnings)."""
    settings = configs(options.set)
    found: list[tuple[str, Diagnostic]] = []
    count = 0
    for name in options.files:
        files = models_in(Path(name))
        count += len(files)
        if not files:
            found.append((name, error("E0128", f"there is no .rlx file in {name}")))
        found += [(str(file), d) for file in files for d in check(file, config=settings) if not _needless(d)]
    if options.format == "json":
        print(json.dumps([record(file, d) for file, d in found], indent=2, ensure_ascii=False))
    else:
        _print(found, count)
    failed = any(d.is_error or options.strict for _, d in found)
    return 1 if failed else 0


def _needless(diagnostic: Diagnostic) -> bool:
    """Whether it asks a file for an output that only holds parts for other files."""
    if diagnostic.code != "E0605" or diagnostic.span is None:
        return False
    from rlxlang.tools.lsp.analysis import is_library

    return is_library(_document(diagnostic.span.source))


def _print(found: Sequence[tuple[str, Diagnostic]], files: int) -> None:
    colour = wants_colour(sys.stdout)
    for _, diagnostic in found:
        print(render(diagnostic, colour=colour), end="\n\n")
    errors = sum(d.is_error for _, d in found)
    print(f"{_counted(files, 'file')}: {_counted(errors, 'error')}, {_counted(len(found) - errors, 'warning')}")
    hint([diagnostic for _, diagnostic in found], sys.stdout)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def record(file: str, diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic for JSON: everything that it says, and the repairs that an editor would offer for it.

    Lines and columns are counted from 1 and null where there is no place. `labels` are all places with their remarks, the one
    of the mistake first; `chain` are the calls around it, innermost first; `fixes` are edits to choose from.
    """
    span, primary = diagnostic.span, diagnostic.primary
    labels = sorted(diagnostic.labels, key=lambda label: label is not primary)
    return {
        **_place(file, span),
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": escape(diagnostic.message),
        "notes": _texts(diagnostic.notes),
        "helps": _texts(diagnostic.helps),
        "labels": [{**_place(file, label.span), "text": escape(label.text)} for label in labels],
        "chain": [{**_place(file, frame.span), "text": escape(frame.text)} for frame in diagnostic.chain],
        "fixes": [] if span is None else _fixes(file, span.source, diagnostic),
    }


def _place(file: str, span: Span | None) -> dict[str, Any]:
    start = span.source.line_column(span.start) if span else (None, None)
    end = span.source.line_column(span.end) if span else (None, None)
    name = escape(span.source.name if span else file)
    return {"file": name, "line": start[0], "column": start[1], "end_line": end[0], "end_column": end[1]}


def _fixes(file: str, source: Source, diagnostic: Diagnostic) -> list[dict[str, Any]]:
    # The repairs are those of the language server; texts without diagnostics need none of it.
    from rlxlang.tools.lsp.actions import repairs

    found = repairs(_document(source), diagnostic)
    return [
        {
            "title": escape(repair.title),
            "preferred": repair.preferred,
            "edits": [{**_place(file, edit.span), "text": escape(edit.text, keep="\n")} for edit in repair.edits],
        }
        for repair in found
    ]


@lru_cache(maxsize=8)
def _document(source: Source) -> Document:
    from rlxlang.tools.lsp.analysis import Document

    return Document(source.name, source.text)


def _texts(lines: Iterable[str]) -> list[str]:
    return [escape(line) for line in lines if line]
