"""``rlx`` is the short name of :mod:`rlxlang`.

``import rlx`` yields the ``rlxlang`` module object itself, and ``import rlx.a.b``
the very module object ``rlxlang.a.b``: one module under two names, so no
registry is ever built twice and ``rlx.optim is rlxlang.optim`` holds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import CodeType, ModuleType
from typing import Any


def _real_name(alias: str) -> str:
    return "rlxlang." + alias.removeprefix("rlx.")


class _AliasLoader:
    """Hand out ``rlxlang.x`` when asked for ``rlx.x``; execute nothing twice."""

    _spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(_real_name(spec.name))
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # importlib has just written the alias' spec over the real one.
        module.__spec__ = self._spec

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code ``python -m rlx`` runs."""
        real = find_spec(_real_name(fullname))
        loader: Any = real.loader if real else None
        return loader.get_code(real.name) if real and loader else None


class _AliasFinder:
    """Resolve every ``rlx.*`` import to ``rlxlang.*``."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if not fullname.startswith("rlx."):
            return None
        real = find_spec(_real_name(fullname))
        if real is None:
            return None
        is_package = real.submodule_search_locations is not None
        return spec_from_loader(fullname, _AliasLoader(), origin=real.origin, is_package=is_package)


sys.meta_path.insert(0, _AliasFinder())
sys.modules[__name__] = import_module("rlxlang")
