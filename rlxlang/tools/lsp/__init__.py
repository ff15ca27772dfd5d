"""`rlx lsp`: a language server over standard input and output, and the analysis that it shows.

`Workspace`, `Document` and what works on them know nothing of the protocol: the REPL and notebooks complete with them.
"""

from __future__ import annotations

import argparse
import sys

from rlxlang.tools.cli import FAILED

EXAMPLES = """\
examples:
  rlx lsp                      for the settings of an editor, see editors/README.md
  rlx lsp --log rlx-lsp.log    with what the server does in a file
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--stdio", action="store_true", help="speak over standard input and output (always so)")
    parser.add_argument("--log", metavar="FILE", help="write a log")


def run(options: argparse.Namespace) -> int:
    """Serve until the client ends the session; returns the exit code: 1 when it ends without a `shutdown`."""
    try:
        from rlxlang.tools.lsp.server import serve
    except ModuleNotFoundError as missing:
        if missing.name not in ("pygls", "lsprotocol"):
            raise
        print("rlx lsp: the language server needs pygls: pip install 'rlxlang[lsp]'", file=sys.stderr)
        return FAILED
    return serve(options.log)
