"""`rlx graph`: a picture of a model."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import RlxRuntimeError, RlxValueError, did_you_mean
from rlxlang.func import Func
from rlxlang.tools.data import add_model_arguments, load_model, require_writable

EXAMPLES = """\
examples:
  rlx graph digits.rlx                              a tree of lines
  rlx graph digits.rlx -o digits.svg
  rlx graph gpt.rlx -o gpt.html                     with pan and zoom, and the source beside it
  rlx graph digits.rlx -o grad.svg --transform grad
  rlx graph gpt.rlx --set layers=48 --depth 1 --format mermaid >> README.md
"""

# By the ending of the file.
FORMATS = {
    ".svg": "svg",
    ".dot": "dot",
    ".gv": "dot",
    ".mmd": "mermaid",
    ".html": "html",
    ".htm": "html",
    ".txt": "text",
}
_TRANSFORMS: dict[str, Callable[[Func, list[str]], Func]] = {
    "grad": lambda f, names: f.grad(names) if names else f.grad_all(),
    "value_and_grad": lambda f, names: f.value_and_grad(names) if names else f.value_and_grad_all(),
    "jvp": lambda f, names: f.jvp(names or f.trainable_names()),
    "vjp": lambda f, names: f.vjp(names or f.trainable_names()),
    "hvp": lambda f, names: f.hvp(names or f.trainable_names()),
    "remat": lambda f, names: f.remat(),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_model_arguments(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where the picture goes (default: a tree of lines is printed)"
    )
    parser.add_argument(
        "--format", choices=("svg", "html", "dot", "mermaid", "text"), help="(default: by the ending of FILE, or text)"
    )
    parser.add_argument(
        "--transform", metavar="NAME[:A,B]", action="append", default=[],
        help=f"draw a transform of the model, of all float parameters or of those that are named: {', '.join(_TRANSFORMS)};"
        " may be repeated",
    )  # fmt: skip
    parser.add_argument("--depth", type=int, metavar="N", help="draw groups inside of N others as one box")
    parser.add_argument(
        "--unfold", action="store_true", help="draw every one of equal layers, and every op that only moves numbers"
    )
    parser.add_argument("--constants", action="store_true", help="draw small constants beside the boxes, not in them")
    parser.add_argument("--right", action="store_true", help="from left to right instead of down")
    parser.add_argument(
        "--theme", choices=("auto", "light", "dark"), default="auto", help="of an SVG (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Draw; returns the exit code."""
    chosen = _format(options)
    if options.output:
        require_writable(options.output)
    func = load_model(options)
    for text in options.transform:
        func = transformed(func, text)
    picture = drawn(func, chosen, options)
    if not options.output:
        print(picture, end="")
        return 0
    try:
        Path(options.output).write_text(picture, "utf-8")
    except OSError as problem:
        raise RlxRuntimeError(f"`{options.output}` cannot be written: {problem.strerror or problem}") from problem
    print(f"saved to {options.output}")
    return 0


def _format(options: argparse.Namespace) -> str:
    if options.format:
        return str(options.format)
    if not options.output:
        return "text"
    ending = Path(options.output).suffix.lower()
    if ending not in FORMATS:
        raise RlxValueError(
            f"the ending of `{options.output}` names no format",
            helps=(f"write {', '.join(FORMATS)}, or give `--format`",),
        )
    return FORMATS[ending]


def transformed(func: Func, text: str) -> Func:
    """The function after `--transform NAME:A,B`.

    Raises:
        RlxValueError: There is no such transform.
        RlxError: What the transform refuses.
    """
    name, _, rest = text.partition(":")
    transform = _TRANSFORMS.get(name)
    if transform is None:
        raise RlxValueError(
            f"`--transform {text}`: there is no transform `{name}`",
            helps=(did_you_mean(name, _TRANSFORMS) or f"write {', '.join(_TRANSFORMS)}",),
        )
    return transform(func, [n.strip() for n in rest.split(",") if n.strip()])


def drawn(func: Func, chosen: str, options: argparse.Namespace) -> str:
    """The picture in a format."""
    from rlxlang import pictures

    shared: dict[str, Any] = {"fold": not options.unfold, "depth": options.depth, "constants": options.constants}
    if chosen == "text":
        return pictures.text(func, **shared)
    shared["direction"] = "right" if options.right else "down"
    if chosen == "svg":
        return pictures.svg(func, theme=options.theme, **shared)
    draw = {"html": pictures.html, "dot": pictures.dot, "mermaid": pictures.mermaid}[chosen]
    return draw(func, **shared)
