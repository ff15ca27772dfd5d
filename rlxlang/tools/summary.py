"""`rlx summary`: what a model is made of, how much work it is, and which kernels do it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from rlxlang.diagnostics import RlxBackendError, escape
from rlxlang.func import Func
from rlxlang.kernels import Branch, Contract, Copy, Library, Loop, Nest, Program, Sort, Step, While, bodies
from rlxlang.tools.data import add_model_arguments, load_model
from rlxlang.types import Dim, DimLike, axes_of, evaluate, product

EXAMPLES = """\
examples:
  rlx summary digits.rlx
  rlx summary gpt.rlx --set layers=12
"""

Row = Sequence[str]
_TYPICAL_SIZE = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_model_arguments(parser)
    parser.add_argument("--no-kernels", action="store_true", help="leave the kernels out")


def run(options: argparse.Namespace) -> int:
    """Print; returns the exit code."""
    print(described(load_model(options), kernels=not options.no_kernels))
    return 0


def described(func: Func, kernels: bool = True) -> str:
    """The summary of a function as text."""
    graph = func.graph
    parts = [f"graph {escape(func.name)}", "", *_interface(func), ""]
    sizes = [product(p.node.shape) for p in graph.params]
    fixed = [n for n in sizes if isinstance(n, int)]
    memory = sum(n * p.node.dtype.bytes for n, p in zip(sizes, graph.params, strict=True) if isinstance(n, int))
    parts.append(
        f"parameters  {sum(fixed):,} in {len(fixed)} tensor{'' if len(fixed) == 1 else 's'}, {readable_bytes(memory)}"
    )
    if len(fixed) < len(sizes):
        parts.append(f"            and {len(sizes) - len(fixed)} tensors of dynamic shape")
    if not kernels:
        return "\n".join(parts)
    from rlxlang.lower import lower

    try:
        program = lower(graph).program
    except RlxBackendError as problem:
        return "\n".join([*parts, f"kernels     none: {problem.diagnostics[0].message}"])
    parts.append(f"work        {readable(work(program))} floating-point operations in products per run")
    parts.append(f"temporaries {_arena(program)}")
    return "\n".join([*parts, "", *_kernels(program)])


def _interface(func: Func) -> list[str]:
    rows: list[Row] = [("kind", "name", "type", "elements", "start")]
    for entry in func.graph.inputs:
        count = product(entry.node.shape)
        start = str(entry.init) if entry.init is not None else ""
        rows.append((entry.kind, escape(entry.name), str(entry.node.type), readable(count), start))
    for output in func.graph.outputs:
        rows.append((output.role, escape(output.name), str(output.node.type), readable(product(output.node.shape)), ""))
    return table(rows)


def table(rows: Sequence[Row]) -> list[str]:
    """Rows with aligned columns and a line below the first."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return lines


def readable(number: DimLike) -> str:
    """A number with separators, or a size with its axes."""
    return str(number) if isinstance(number, Dim) else f"{number:,}"


def readable_bytes(size: float) -> str:
    """A number of bytes in the unit that suits it."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def work(program: Program) -> DimLike:
    """Multiplications and additions in the matrix products of a run; those in a loop once per step.

    A `while` loop counts to its limit, or once where it has none; of a choice both branches count.
    """
    total: DimLike = 0
    todo: list[tuple[Step, DimLike]] = [(step, 1) for step in program.steps]
    while todo:
        step, times = todo.pop()
        if isinstance(step, Loop):
            todo += [(inner, times * step.count) for inner in step.body]
        elif isinstance(step, While):
            turns = times if step.limit is None else times * step.limit
            todo += [(inner, turns) for sequence in bodies(step) for inner in sequence]
        elif isinstance(step, Branch):
            todo += [(inner, times) for sequence in bodies(step) for inner in sequence]
        elif isinstance(step, Contract):
            total = total + 2 * times * product(step.batch) * step.m * step.n * step.k
    return total


def _arena(program: Program) -> str:
    """Memory of a run, for one size of all dynamic axes where there are such."""
    if not isinstance(program.arena, Dim):
        return readable_bytes(program.arena)
    axes = axes_of(program.arena)
    size = evaluate(program.arena, dict.fromkeys(axes, _TYPICAL_SIZE))
    return f"{readable_bytes(size)} when {' = '.join(axes)} = {_TYPICAL_SIZE}"


def _kernels(program: Program) -> list[str]:
    rows: list[Row] = [("kernel", "kind", "extents", "ops")]
    todo: list[tuple[Step, str]] = [(step, "") for step in reversed(program.steps)]
    while todo:
        step, indent = todo.pop()
        rows.append(_kernel(step, indent))
        for sequence in reversed(bodies(step)):
            todo += [(inner, indent + "  ") for inner in reversed(sequence)]
    return table(rows)


def _kernel(step: Step, indent: str) -> Row:
    if isinstance(step, Contract):
        return indent + step.name, "product", _extents((*step.batch, step.m, step.n, step.k)), " ".join(step.ops)
    if isinstance(step, Nest):
        kind = "map" if not step.inner else "rows" if len(step.passes) > 1 else "reduction"
        return indent + step.name, kind, _extents((*step.outer, *step.inner)), " ".join(step.ops)
    if isinstance(step, Loop):
        return indent + step.name, "loop", str(step.count), ""
    if isinstance(step, While):
        return indent + step.name, "while", "" if step.limit is None else f"≤ {step.limit}", ""
    if isinstance(step, Branch):
        return indent + step.name, "branch", f"{len(step.then)} or {len(step.orelse)} steps", ""
    if isinstance(step, Library):
        return indent + step.name, "library", step.routine, " ".join(step.ops)
    if isinstance(step, Sort):
        return indent + step.name, "sort", _extents((step.rows, step.length)), " ".join(step.ops)
    assert isinstance(step, Copy)
    return indent + "-", "copy", "", ""


def _extents(dims: Iterable[DimLike]) -> str:
    return " × ".join(str(d) for d in dims) or "1"
