"""The command `rlx`: picks the subcommand, and turns errors into messages and exit codes.

Exit codes: 0 all is well, 1 the model or the data are wrong, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rlxlang._version import __version__

OK, FAILED, USAGE = 0, 1, 2

# Subcommand -> what it does; each is a module of this package with `add_arguments` and `run`.
COMMANDS = {
    "train": "train a model on arrays",
    "eval": "find loss and metrics of a trained model",
    "run": "compute the outputs of a model",
    "check": "report errors and warnings of models",
    "ir": "show what a model becomes: syntax tree, graph, kernels, code",
    "explain": "say what the code of an error or warning means",
    "gradcheck": "compare derivatives with differences of values",
    "repl": "evaluate expressions and statements as they are typed",
    "fmt": "write models in the canonical layout",
    "lsp": "serve editors: the language server",
    "graph": "draw a model: SVG, a page, Graphviz, Mermaid, a tree of lines",
    "summary": "describe a model: parameters, sizes, work, kernels",
    "devices": "list the devices of this machine",
}

_EPILOG = """\
examples:
  rlx train mlp.rlx --data mnist.npz --epochs 10
  rlx run mlp.rlx --weights mlp.safetensors --data mnist.npz --index 3
  rlx check models/*.rlx --strict

`rlx COMMAND --help` describes a command.
"""


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command line; only the subcommand that is asked for is imported."""
    top = argparse.ArgumentParser(
        prog="rlx",
        description="A small language for differentiable tensor programs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"rlxlang {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, purpose in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=purpose,
            description=purpose.capitalize() + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == command:
            module = import_module(f"rlxlang.tools.{name}")
            sub.epilog = module.EXAMPLES
            module.add_arguments(sub)
            sub.set_defaults(run=module.run, parser=sub)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    from rlxlang.diagnostics import RlxError, RlxWarning

    words = list(sys.argv[1:] if arguments is None else arguments)
    command = next((word for word in words if not word.startswith("-")), None)
    with warnings.catch_warnings():
        warnings.simplefilter("always", RlxWarning)
        warnings.showwarning = _show_warning
        try:
            options = _options(command, words)
            code: int = options.run(options)
            sys.stdout.flush()
        except SystemExit as end:  # argparse has printed help or what is wrong
            return int(end.code or 0)
        except RlxError as problem:
            _report(problem)
            return FAILED
        except BrokenPipeError:  # the reader of a pipe, `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except KeyboardInterrupt as end:
            print(f"interrupted: {end}" if str(end) else "interrupted", file=sys.stderr)
            return 130
    return code


def _options(command: str | None, words: Sequence[str]) -> argparse.Namespace:
    """What the command line says, and under it what the file of `--settings` says.

    Raises:
        RlxError: That file is wrong.
        SystemExit: The command line is wrong, or asks for help.
    """
    top = parser(command)
    options = top.parse_args(words)
    path = getattr(options, "settings", None)
    if path is None:
        return options
    from rlxlang.tools.settings import read_settings

    options.parser.set_defaults(**read_settings(path, options.parser))
    return top.parse_args(words)


def _report(problem: Any) -> None:
    from rlxlang.diagnostics import render_all

    sys.stdout.flush()
    print(render_all(problem.diagnostics, colour=wants_colour(sys.stderr)), file=sys.stderr)
    hint(problem.diagnostics, sys.stderr)


def hint(diagnostics: Sequence[Any], stream: Any) -> None:
    """On a terminal, say how to read more about codes."""
    codes = list(dict.fromkeys(d.code for d in diagnostics))
    if codes and stream.isatty():
        print(f"\nmore about it: rlx explain {' '.join(codes[:5])}", file=stream)


def _show_warning(message: Warning | str, *rest: Any, **named: Any) -> None:
    print(message, file=sys.stderr)


def wants_colour(stream: Any) -> bool:
    """Whether to colour what goes to a stream: a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR")


if __name__ == "__main__":
    raise SystemExit(main())
