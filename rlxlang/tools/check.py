"""`rlx check`: everything that is wrong with models, as text or as JSON for editors and builds."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import Diagnostic, error, render
from rlxlang.loading import check
from rlxlang.tools.cli import wants_colour
from rlxlang.tools.data import configs

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
        files = _models(Path(name))
        count += len(files)
        if not files:
            found.append((name, error("E0128", f"there is no .rlx file in {name}")))
        found += [(str(file), d) for file in files for d in check(file, config=settings)]
    if options.format == "json":
        print(json.dumps([record(file, d) for file, d in found], indent=2, ensure_ascii=False))
    else:
        _print(found, count)
    failed = any(d.is_error or options.strict for _, d in found)
    return 1 if failed else 0


def _models(path: Path) -> list[Path]:
    return sorted(path.rglob("*.rlx")) if path.is_dir() else [path]


def _print(found: Sequence[tuple[str, Diagnostic]], files: int) -> None:
    colour = wants_colour(sys.stdout)
    for _, diagnostic in found:
        print(render(diagnostic, colour=colour), end="\n\n")
    errors = sum(d.is_error for _, d in found)
    print(f"{_counted(files, 'file')}: {_counted(errors, 'error')}, {_counted(len(found) - errors, 'warning')}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def record(file: str, diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic for JSON; lines and columns are counted from 1 and null where there is no place."""
    span = diagnostic.span
    start = span.source.line_column(span.start) if span else (None, None)
    end = span.source.line_column(span.end) if span else (None, None)
    return {
        "file": span.source.name if span else file,
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "line": start[0],
        "column": start[1],
        "end_line": end[0],
        "end_column": end[1],
        "notes": _texts(diagnostic.notes),
        "helps": _texts(diagnostic.helps),
    }


def _texts(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line]
