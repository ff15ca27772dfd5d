"""Imports point downwards only (docs/architecture.md, "Layers")."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAPPED = {"backends": "rlxlang.backends", "grammar": "rlxlang.grammar", "stdlib": "rlxlang.stdlib"}

# From the bottom up. A row lists groups; a group is one package, or several modules that may
# import each other. A group may import itself and the groups of the rows before its own.
LAYERS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("rlxlang._version",), ("rlxlang._source_tree",), ("rlxlang.grammar",), ("rlxlang.stdlib",)),
    (("rlxlang.diagnostics",), ("rlxlang.resources",)),
    (("rlxlang.types",),),
    (("rlxlang.ir",), ("rlxlang.kernels",)),
    (("rlxlang.ops",),),
    (("rlxlang.interp",), ("rlxlang.transforms",), ("rlxlang.passes",)),
    (("rlxlang.lower",),),
    (("rlxlang.frontend",),),
    (("rlxlang.backends",), ("rlxlang.pictures",)),
    (
        (
            "rlxlang.checkpoint",
            "rlxlang.combinators",
            "rlxlang.compiler",
            "rlxlang.config",
            "rlxlang.debugging",
            "rlxlang.device",
            "rlxlang.dispatch_report",
            "rlxlang.foreign_weights",
            "rlxlang.forward_pass",
            "rlxlang.func",
            "rlxlang.func_html",
            "rlxlang.func_summary",
            "rlxlang.func_training",
            "rlxlang.func_transforms",
            "rlxlang.func_weights",
            "rlxlang.grad_mode",
            "rlxlang.gradient_check",
            "rlxlang.graph_key",
            "rlxlang.hessian_estimates",
            "rlxlang.initializers",
            "rlxlang.inputs",
            "rlxlang.loading",
            "rlxlang.resident",
            "rlxlang.schedules",
            "rlxlang.scope",
            "rlxlang.trainer",
            "rlxlang.trainer_fit",
            "rlxlang.trainer_host",
            "rlxlang.trainer_progress",
            "rlxlang.trainer_step",
            "rlxlang.training",
            "rlxlang.warm",
        ),
    ),
    (("rlxlang.optim",), ("rlxlang.lowp",)),
    (("rlxlang.tools",),),
    (("rlxlang.__main__",), ("rlxlang.notebook",)),
)
ROW_OF = {name: row for row, groups in enumerate(LAYERS) for group in groups for name in group}
GROUP_OF = {name: group for groups in LAYERS for group in groups for name in group}

# A backend is handed kernels and knows nothing of graphs and ops.
BACKENDS = ("llvm", "opencl", "reference")
BACKEND_MAY_IMPORT = ("rlxlang.kernels", "rlxlang.types", "rlxlang.diagnostics", "rlxlang._version")


def modules() -> list[tuple[str, Path]]:
    """List every module of the package with its file, but for the facade ``rlxlang`` itself."""
    found = []
    for top in ("rlxlang", *MAPPED):
        for file in sorted((ROOT / top).rglob("*.py")):
            parts = list(file.relative_to(ROOT).with_suffix("").parts)
            parts[0] = MAPPED.get(parts[0], parts[0])
            found.append((".".join(parts).removesuffix(".__init__"), file))
    return [(name, file) for name, file in found if name != "rlxlang"]


def home_of(module: str) -> str | None:
    """Return the entry of the table that holds ``module``."""
    return next((name for name in ROW_OF if f"{module}.".startswith(f"{name}.")), None)


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything ``file`` imports, at any depth."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def fault(importer: str, target: str) -> str | None:
    """Say why module ``importer`` may not import ``target``, or return None."""
    if target.split(".")[0] == "rlx":
        return "the package imports itself as rlxlang"
    if target.split(".")[0] != "rlxlang" or target == "rlxlang":
        return None  # importing any module has imported the package itself, which is empty until asked
    home, below = home_of(importer), home_of(target)
    if below is None:
        return "the facade is for users; import the module that defines the name"
    if home is None or GROUP_OF[home] == GROUP_OF[below]:
        return _backend_fault(importer, target)
    if ROW_OF[below] >= ROW_OF[home]:
        return f"{below} is not below {home}"
    if home == "rlxlang.backends" and below not in BACKEND_MAY_IMPORT:
        return f"a backend imports {', '.join(BACKEND_MAY_IMPORT)} only"
    return None


def _backend_fault(importer: str, target: str) -> str | None:
    """Keep backends apart: each may use its own package and what all of them share."""
    one, other = (
        next((name for name in BACKENDS if f".backends.{name}." in f"{path}."), None) for path in (importer, target)
    )
    if one is None or other is None or one == other:
        return None
    return f"backend {one} must not lean on backend {other}"


@pytest.mark.parametrize(("name", "file"), modules(), ids=[name for name, _ in modules()])
def test_imports_point_downwards(name: str, file: Path) -> None:
    assert home_of(name) is not None, f"{name} has no layer: add it to LAYERS and to docs/architecture.md"
    found = [(line, target, fault(name, target)) for line, target in imports(file)]
    faults = [f"{file}:{line}: {target}: {why}" for line, target, why in found if why is not None]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("importer", "target", "is_wrong"),
    [
        ("rlxlang.types.dim", "rlxlang.diagnostics.errors.RlxError", False),
        ("rlxlang.types.dim", "rlxlang.ir.node", True),
        ("rlxlang.ir.node", "rlxlang.kernels.expr", True),
        ("rlxlang.func", "rlxlang.scope.GraphScope", False),
        ("rlxlang.func", "rlxlang.tools.cli", True),
        ("rlxlang.ops.unary", "rlxlang", False),
        ("rlxlang.ops.unary", "rlxlang.Func", True),
        ("rlxlang.ops.unary", "rlx.ir", True),
        ("rlxlang.backends.llvm.emit", "rlxlang.kernels.kernel", False),
        ("rlxlang.backends.llvm.emit", "rlxlang.ir.node", True),
        ("rlxlang.backends.llvm.emit", "rlxlang.backends.base.Backend", False),
        ("rlxlang.backends.llvm.emit", "rlxlang.backends.opencl.device", True),
        ("rlxlang.backends.llvm.emit", "numpy", False),
    ],
)
def test_the_rules_themselves(importer: str, target: str, is_wrong: bool) -> None:
    assert (fault(importer, target) is not None) is is_wrong
