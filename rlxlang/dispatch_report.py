"""Which kernel of a device runs which op of a graph."""

from __future__ import annotations

from collections import Counter

from rlxlang.device import Device, backend_of, thread_count
from rlxlang.diagnostics import RlxBackendError, escape
from rlxlang.ir import VIA_DECOMPOSITION, Graph
from rlxlang.kernels import Branch, Contract, Copy, Library, Loop, Sort, Step, While

Row = tuple[str, str, str]
_HEAD: Row = ("kernel", "kind", "ops")


def dispatch_report(graph: Graph, device: Device) -> str:
    """A table with a row for each kernel and the ops it computes, then the ops that were decomposed or have no kernel.

    Raises:
        RlxBackendError: E0701 the device is not there.
    """
    head = f"`{escape(graph.name)}` on {device}"
    if device.kind == "reference":
        counts = Counter(n.op.name for n in graph.nodes if n.op.name not in ("input", "constant"))
        rows = [("NumPy", "reference", f"{name} ×{k}" if k > 1 else name) for name, k in sorted(counts.items())]
        return _table(head, rows, [])
    backend = backend_of(device)
    from rlxlang.lower import lower

    names = {n.op.name for n in graph.nodes if n.op.lower is VIA_DECOMPOSITION}
    notes = [f"decomposed: {', '.join(sorted(names))}"] if names else []
    try:
        lowered = lower(graph, threads=thread_count())
        backend.compile(lowered.program)
    except RlxBackendError as problem:
        return _table(head, [], [*notes, *(f"unsupported: {d.message}" for d in problem.diagnostics)])
    return _table(head, [_row(step) for step in lowered.program.walk()], notes)


def _row(step: Step) -> Row:
    if isinstance(step, Copy):
        return "copy", "copy", f"buffer {step.source} to {step.target}"
    if isinstance(step, Library):
        return step.name, "library", f"{', '.join(step.ops)} (NumPy: {step.routine})"
    if isinstance(step, Loop):
        return step.name, "loop", f"{step.count} times {len(step.body)} kernels"
    if isinstance(step, While):
        bound = "" if step.limit is None else f", {step.limit} times at most"
        return step.name, "while", f"{len(step.body)} kernels{bound}"
    if isinstance(step, Branch):
        return step.name, "branch", f"{len(step.then)} or {len(step.orelse)} kernels"
    ops = ", ".join(step.ops)
    if isinstance(step, Contract):
        fused = " with epilogue" if step.epilogue else ""
        return step.name, "product", f"{ops} ({step.m}×{step.k}×{step.n}{fused})"
    if isinstance(step, Sort):
        return step.name, "sort", f"{ops} (the first {step.count} of {step.length}, {step.rows} rows)"
    reduces = any(p.reduces for p in step.passes)
    return step.name, "reduce" if reduces else "map", ops


def _table(head: str, rows: list[Row], notes: list[str]) -> str:
    cells = [_HEAD, *rows]
    widths = [max(len(r[k]) for r in cells) for k in range(3)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in cells]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join([head, *lines, *notes]) + "\n"
