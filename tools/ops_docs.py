"""Write `docs/ops.md`: every function of the language that computes, and every row of the op table.

`python tools/ops_docs.py --update` writes the page; without the option it only says whether the page is up to date.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ops.md"
sys.path.insert(0, str(ROOT))

from rlxlang import ops  # noqa: E402
from rlxlang.ir import OPS, SURFACES, UNDEFINED, VIA_DECOMPOSITION, ZERO, Op, Surface  # noqa: E402

assert ops.METHODS  # importing `ops` fills the tables

_HEAD = """# Operations

Made by `python tools/ops_docs.py --update` from the op table. Every function is called by name, `softmax(x, axis: -1)`, as a method,
`x.softmax(-1)`, and is a method of `rlx.Tensor` in Python. An `axis` may be negative; `axes` is an integer or a list, all axes when left
out. Floats compute in their own type, F16 and BF16 in F32; NaN passes through `min`, `max`, `clamp` and reductions. Everything has
derivatives of both modes to any order and a batching rule, but for what is marked: † has the derivative zero, ‡ refuses to be
differentiated. What gives integers or Bool has none.
"""

_ROWS_HEAD = """## The op table

What the functions above become: the ops of the graph, as `str(func)` and `rlx ir` show them. One that is *composite* is
decomposed into others where a device has no kernel of its own for it; its derivative may be a rule of its own nevertheless.

| op | meaning | |
|---|---|---|"""

# Title -> modules of `rlxlang.ops` whose functions it lists, in the order of the page.
GROUPS: dict[str, tuple[str, ...]] = {
    "Arithmetic, comparison, functions of one element": ("surface_arithmetic", "gamma"),
    "Complex numbers": ("surface_complex",),
    "Reductions": ("surface_reduction",),
    "Along an axis": ("surface_order", "surface_sorting"),
    "Making tensors": ("surface_make",),
    "Shape": ("surface_shape", "surface_slice"),
    "Indexing": ("surface_indexing", "surface_gather"),
    "Contraction": ("surface_contraction", "surface_products", "einsum"),
    "Linear algebra": ("surface_linear",),
    "Attention and position": ("attention", "rotary", "surface_position"),
    "Convolution, pooling, images": ("convolution", "pooling", "resampling"),
    "Normalisation": ("normalization", "surface_norm"),
    "Losses": ("loss", "surface_loss"),
    "Random numbers": ("surface_random",),
    "Signals": ("surface_signal",),
    "Quantisation": ("surface_quantize", "surface_quantize_products"),
    "Gradients": ("gradient",),
}


def page() -> str:
    """The text of the page.

    Raises:
        ValueError: A function is in a module that no group names.
    """
    found: dict[str, list[Surface]] = defaultdict(list)  # other names come with their own records, which are the same
    title_of = {f"rlxlang.ops.{m}": title for title, modules in GROUPS.items() for m in modules}
    for surface in SURFACES.values():
        module = surface.build.__module__
        if module not in title_of:
            raise ValueError(f"`{surface.name}` is in {module}, which no group of tools/ops_docs.py names")
        if surface not in found[title_of[module]]:
            found[title_of[module]].append(surface)
    parts = [_HEAD, *_contents(found)]
    for title in GROUPS:
        if found[title]:
            parts += ["", f"## {title}", "", "| call | gives |", "|---|---|"]
            parts += [
                f"| `{_cell(s.signature())}`{_mark(s.name)}{_aliases(s)} | {_cell(s.doc)} |" for s in found[title]
            ]
    parts += ["", _ROWS_HEAD]
    parts += [
        f"| `{op.name}`{_mark(op.name)} | {_cell(op.doc)} | {_kind(op)} |"
        for op in sorted(OPS.values(), key=lambda o: o.name)
    ]
    return "\n".join(parts) + "\n"


def _contents(found: dict[str, list[Surface]]) -> list[str]:
    lines = []
    for title in GROUPS:
        if found[title]:
            anchor = "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")
            lines.append(f"- [{title}](#{anchor}): {', '.join(f'`{s.name}`' for s in found[title])}")
    return lines


def _mark(name: str) -> str:
    op = OPS.get(name)
    if op is None:
        return ""
    return " †" if op.vjp is ZERO else " ‡" if op.vjp is UNDEFINED else ""


def _aliases(surface: Surface) -> str:
    others = [name for name, s in SURFACES.items() if s is surface and name != surface.name]
    return f", also {', '.join(f'`{n}`' for n in others)}" if others else ""


def _kind(op: Op) -> str:
    return "composite" if op.lower is VIA_DECOMPOSITION else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the page or compare it; returns the exit code."""
    text = page()
    if "--update" in arguments:
        PAGE.write_text(text, "utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text("utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)} is out of date: python tools/ops_docs.py --update")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
