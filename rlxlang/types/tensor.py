"""Types of values: a tensor of one element type and shape, or a tuple of such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rlxlang.types.dim import Dim, DimLike, axes_of, product
from rlxlang.types.dtype import DType

Shape: TypeAlias = tuple[DimLike, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape of a tensor; dims are integers or polynomials over dynamic axes."""

    dtype: DType
    shape: Shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> DimLike:
        """Number of elements."""
        return product(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dim is a number."""
        return not any(isinstance(d, Dim) for d in self.shape)

    def with_shape(self, shape: Shape) -> TensorType:
        """The same element type with another shape."""
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape with another element type."""
        return TensorType(dtype, self.shape)

    def axes(self) -> tuple[str, ...]:
        """Names of the dynamic axes in the shape, sorted."""
        return tuple(sorted({name for d in self.shape for name in axes_of(d)}))

    def __str__(self) -> str:
        dims = ", ".join(str(d) for d in self.shape)
        return f"[{self.dtype}; {dims}]" if dims else f"[{self.dtype};]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """The type of a node with several results."""

    items: tuple[TensorType, ...]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.items)) + ")"


ValueType: TypeAlias = TensorType | TupleType


def shape_text(shape: Shape) -> str:
    """A shape as written in messages: `[2*?batch, 64]`."""
    return "[" + ", ".join(map(str, shape)) + "]"
