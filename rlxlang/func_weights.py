"""Files of parameters as methods of `Func`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from rlxlang.checkpoint import PathLike
    from rlxlang.foreign_weights import Rename
    from rlxlang.func import Func


class WeightMethods:
    """What `Func` inherits: parameters from files and to them."""

    __slots__ = ()

    def load_weights(
        self,
        path: PathLike | Sequence[PathLike],
        *,
        strict: bool = True,
        rename: Rename | None = None,
        transpose: Sequence[str] = (),
    ) -> Func:
        """The function with its parameters bound from a file; see `rlxlang.checkpoint.load_weights`."""
        from rlxlang.checkpoint import load_weights

        return load_weights(cast("Func", self), path, strict, rename=rename, transpose=transpose)

    def save_weights(self, path: PathLike, metadata: Mapping[str, str] | None = None) -> None:
        """Save the bound parameters under their run-time names; see `rlxlang.checkpoint.save_weights`."""
        from rlxlang.checkpoint import save_weights

        save_weights(cast("Func", self), path, metadata)
