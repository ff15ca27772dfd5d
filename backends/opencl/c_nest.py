"""Loop kernels in OpenCL C: a work-item for every outer point, the inner axes as loops inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlxlang.backends.opencl.c_expr import Emitter, KernelScope, Layout
from rlxlang.backends.opencl.c_functions import Functions
from rlxlang.backends.opencl.c_reduce import Accumulation, accumulation
from rlxlang.backends.opencl.c_types import register_type
from rlxlang.kernels import Nest, Pass
from rlxlang.types import DimLike, product


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """How a kernel is launched.

    Attributes:
        function: Name of the kernel function.
        title: Name of the step, for errors.
        source: Text of the function.
        roots: Memory objects that are its first arguments; `ARENA` stands for the arena.
        views: Views whose byte offsets are arguments, after the table of sizes.
        items: Work-items wanted along each axis of the launch; those beyond return at once.
        local: Size of a work-group.
        scratch: Bytes of private memory of each work-item. When there is some, a bounded number of work-items share the work.
        empty: Sizes of which any being zero means that there is nothing to do.
    """

    function: str
    title: str
    source: str
    roots: tuple[int, ...]
    views: tuple[int, ...]
    items: tuple[DimLike, ...]
    local: tuple[int, ...]
    scratch: DimLike = 0
    empty: tuple[DimLike, ...] = ()


def indent(lines: Sequence[str]) -> list[str]:
    """The lines two columns further in."""
    return [f"  {line}" for line in lines]


def nest_kernel(
    nest: Nest,
    function: str,
    layout: Layout,
    functions: Functions,
    *,
    has_fp64: bool,
    is_cpu: bool,
) -> KernelPlan:
    """The kernel of a nest."""
    scope = KernelScope(layout, functions)
    outer = [f"i{k}" for k in range(len(nest.outer))]
    inner = [f"i{k}" for k in range(len(nest.outer), len(nest.extents))]
    body: list[str] = []
    reduced: dict[str, str] = {}
    for walked in nest.passes:
        body += _pass_lines(walked, nest, scope, outer, inner, reduced, has_fp64=has_fp64)
    if nest.finals:
        emitter = Emitter(scope, [*outer, *("0L" for _ in inner)], reduced)
        emitter.store_all(nest.finals)
        body += ["{", *indent(emitter.lines), "}"]
    total = scope.dim(product(nest.outer))
    split = split_point("point", nest.outer, outer, scope)
    limited = scope.scratch != 0
    # A long walk in each work-item gains nothing from neighbours on a CPU; a map is vectorised across them.
    width = 1 if (is_cpu and nest.inner and not 0 <= nest.vector_axis < len(nest.outer)) else 64
    head = scope.head()
    first = "const long start = get_global_id(0);"
    if limited:
        lines = [*head, first, f"for (long point = start; point < {total}; point += get_global_size(0)) {{"]
        lines += [*indent([*split, *body]), "}"]
    else:
        lines = [*head, first, f"if (start >= {total}) return;", "const long point = start;", *split, *body]
    source = "\n".join(
        [
            f"kernel __attribute__((reqd_work_group_size({width}, 1, 1)))",
            f"void {function}({scope.parameters()}) {{",
            *indent(lines),
            "}",
        ]
    )
    return KernelPlan(
        function,
        nest.name,
        source,
        scope.roots,
        scope.views,
        (product(nest.outer),),
        (width,),
        scope.scratch,
        nest.outer,
    )


def split_point(number: str, extents: Sequence[DimLike], names: Sequence[str], scope: KernelScope) -> list[str]:
    """Statements that take a flat number apart into positions, the last axis fastest."""
    if len(extents) == 1:
        return [f"const long {names[0]} = {number};"]
    lines = []
    rest = number
    for k in range(len(extents) - 1, 0, -1):
        size = scope.dim(extents[k])
        lines.append(f"const long {names[k]} = {rest} % {size};")
        lines.append(f"const long rest{k} = {rest} / {size};")
        rest = f"rest{k}"
    if extents:
        lines.append(f"const long {names[0]} = {rest};")
    return lines


def _pass_lines(
    walked: Pass,
    nest: Nest,
    scope: KernelScope,
    outer: list[str],
    inner: list[str],
    reduced: dict[str, str],
    *,
    has_fp64: bool,
) -> list[str]:
    """One walk over the inner points; adds its results to `reduced`."""
    before: list[str] = []
    counter = scope.fresh()
    accumulations = [accumulation(r, scope.fresh(), has_fp64) for r in walked.reduces]
    before += [a.declare() for a in accumulations]
    emitter = Emitter(scope, [*outer, *inner], reduced)
    values = [[emitter.value(e) for e in a.reduce.exprs] for a in accumulations]
    for each, (value, *factor) in zip(accumulations, values, strict=True):
        _take(each, emitter, value, counter, factor)
    emitter.store_all(walked.stores)
    counts = any(r.op in ("argmax", "argmin") for r in walked.reduces)
    lines = [*before]
    if counts:
        lines.append(f"long {counter} = 0;")
    opening = [
        f"for (long {name} = 0; {name} < {scope.dim(extent)}; ++{name}) {{"
        for name, extent in zip(inner, nest.inner, strict=True)
    ]
    within = [*emitter.lines, *([f"++{counter};"] if counts else [])]
    lines += [*(opening or ["{"]), *indent(within), "}" * max(len(opening), 1)]
    for each in accumulations:
        result = scope.fresh()
        lines.append(f"const {register_type(each.reduce.dtype)} {result} = {each.result(scope)};")
        reduced[each.reduce.name] = result
    return lines


def _take(each: Accumulation, emitter: Emitter, value: str, counter: str, factor: Sequence[str]) -> None:
    """Update a reduction with a value, after multiplication by a factor if there is one, and name its running result."""
    reduce = each.reduce
    if reduce.prefix and reduce.exclusive:
        emitter.running[reduce.name] = emitter.local(reduce.dtype, each.result(emitter.scope))
    emitter.lines += [each.times(emitter, f) for f in factor]
    emitter.lines += each.update(emitter, value, counter)
    if reduce.prefix and not reduce.exclusive:
        emitter.running[reduce.name] = emitter.local(reduce.dtype, each.result(emitter.scope))
