"""Unknown names in fns and blocks that nothing calls yet: elaboration sees a body only where it is called."""

from __future__ import annotations

from collections.abc import Iterator

from rlxlang.diagnostics import Diagnostic, did_you_mean, error
from rlxlang.frontend import ast
from rlxlang.ir import SURFACES
from rlxlang.tools.lsp.analysis import Analysis
from rlxlang.tools.lsp.index import FUNCTIONS, Definition, Use
from rlxlang.tools.lsp.workspace import Workspace


def unknown_names(workspace: Workspace, analysis: Analysis) -> list[Diagnostic]:
    """E0201 and E0202 for names in bodies that have not been elaborated.

    Nothing is reported where a name may come from a statement or a module that could not be read.
    """
    document = analysis.document
    index = document.index
    if not analysis.complete or document.parsed.lost or document.parsed.is_vague:
        return []
    with workspace.still():
        targets = [*index.wildcards, *(d.target for d in index.of_kind("import", "module"))]
        if any(t is not None and not workspace.exports(t, document.path) for t in targets if not _is_init(t)):
            return []
        found: list[Diagnostic] = []
        for definition in index.of_kind("fn", "block"):
            node = definition.node
            if not isinstance(node, (ast.Fn, ast.Block)) or analysis.has_run(node.body.span):
                continue
            for use in _uses_in(index.uses, node.body):
                if use.role in ("value", "function") and not workspace.resolve(use, document):
                    found.append(_report(use, index.visible(use.span.start)))
    return found


def _is_init(target: ast.Ref | ast.Str | None) -> bool:
    return isinstance(target, ast.Ref) and target.text == "init"


def _uses_in(uses: list[Use], body: ast.Body) -> Iterator[Use]:
    return (use for use in uses if body.span.start <= use.span.start < body.span.end)


def _report(use: Use, visible: list[Definition]) -> Diagnostic:
    if use.role == "value":
        names = [d.name for d in visible if d.kind not in FUNCTIONS]
        notes = [f"`{use.name}` is a function: call it, `{use.name}(…)`"] if use.name in SURFACES else []
        return error(
            "E0201", f"unknown name `{use.name}`", use.span, notes=notes, helps=[did_you_mean(use.name, names)]
        )
    what = "method" if use.method else "function"
    names = [*(d.name for d in visible if d.kind in FUNCTIONS), *SURFACES, "dim", "grad"]
    return error("E0202", f"unknown {what} `{use.name}`", use.span, helps=[did_you_mean(use.name, names)])
