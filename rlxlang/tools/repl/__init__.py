"""`rlx repl`: type expressions and statements, see values."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rlxlang.tools.cli import FAILED, OK, wants_colour

EXAMPLES = """\
examples:
  rlx repl                        an empty session; `:help` lists its commands
  rlx repl model.rlx --set d=64   with a model loaded
  echo 'softmax(stack([1.0, 2.0]))' | rlx repl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("model", metavar="MODEL.rlx", nargs="?", help="a model to start with")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="value of a config; may be repeated"
    )
    parser.add_argument("--weights", metavar="FILE.safetensors", help="parameters, as `rlx train` saves them")
    parser.add_argument("--device", default="auto", help="auto, cpu, opencl, opencl:1 or reference (default: auto)")
    parser.add_argument("--seed", type=int, default=0, help="of parameters and of what is drawn (default: 0)")
    parser.add_argument("--no-history", action="store_true", help="neither read nor write the history of lines")


def run(options: argparse.Namespace) -> int:
    """Run a session; returns the exit code: 1 when something failed and nobody was there to see it."""
    from rlxlang.device import Device
    from rlxlang.tools.data import configs
    from rlxlang.tools.repl.commands import run_command
    from rlxlang.tools.repl.interrupt import is_busy
    from rlxlang.tools.repl.keeping import load_program
    from rlxlang.tools.repl.loop import make_robust, run_lines, stream_reader
    from rlxlang.tools.repl.session import Session
    from rlxlang.tools.repl.shell import Shell
    from rlxlang.tools.repl.values import Values

    make_robust(sys.stdin, sys.stdout)
    device = None if options.device == "auto" else Device.parse(options.device)
    session = Session(device, values=Values(options.seed))

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    shell = Shell(session, write, wants_colour(sys.stdout))
    with shell.guarded():
        if options.model:
            load_program(shell, Path(options.model), configs(options.set))
        if options.weights:
            run_command(shell, f":load {options.weights}")
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal and _has_toolkit():
        from rlxlang.tools.repl.terminal import run_terminal

        run_terminal(shell, with_history=not options.no_history)
    else:
        run_lines(shell, stream_reader(sys.stdin, sys.stdout))
    code = FAILED if shell.failed and not is_terminal else OK
    if is_busy():  # leaving the usual way would wait for it
        sys.stdout.flush()
        os._exit(code)
    return code


def _has_toolkit() -> bool:
    try:
        import prompt_toolkit
    except ModuleNotFoundError:
        print("lines cannot be edited without prompt_toolkit: pip install 'rlxlang[repl]'", file=sys.stderr)
        return False
    return bool(prompt_toolkit)
