"""The argument record of a matrix product, and the call as generated code makes it.

A product is described by one record of 64-bit slots in memory, so that a call passes a single pointer: calls with many
arguments cost more than a small product. Strides are counted in elements. `a` has the element (i, p) at
`a + i * a_row + p * a_column`, `b` the element (p, j) at `b + p * b_row + j * b_column`; one of the two strides of each
must be 1 unless the axis it belongs to has size 1. The columns of `c` are contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlxlang.backends.llvm.text import Function, Operand

SLOT_BYTES = 8


@dataclass(frozen=True, slots=True)
class Record:
    """A record of 8-byte slots that generated code reads and writes by field name.

    Attributes:
        fields: Name and type (`"i64"` or `"ptr"`) of every slot, in order.
    """

    fields: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The field names, in order."""
        return tuple(name for name, _ in self.fields)

    def index(self, name: str) -> int:
        """Return the slot number of a field.

        Raises:
            KeyError: There is no field of this name.
        """
        for position, (known, _) in enumerate(self.fields):
            if known == name:
                return position
        raise KeyError(name)

    def load(self, function: Function, record: str, name: str) -> str:
        """Emit the load of a field."""
        position = self.index(name)
        return function.load(self.fields[position][1], function.gep_bytes(record, SLOT_BYTES * position))

    def load_all(self, function: Function, record: str) -> dict[str, Operand]:
        """Emit the loads of all fields."""
        return {name: self.load(function, record, name) for name in self.names}

    def store(self, function: Function, record: str, values: Mapping[str, Operand]) -> None:
        """Emit the stores of the given fields.

        Raises:
            KeyError: A name is not a field.
        """
        for name, value in values.items():
            position = self.index(name)
            type_name = self.fields[position][1]
            text: Operand = "null" if type_name == "ptr" and value == 0 else value
            function.store(type_name, text, function.gep_bytes(record, SLOT_BYTES * position))

    def allocate(self, function: Function) -> str:
        """Reserve stack space for one record."""
        return function.alloca("i64", len(self.fields), align=SLOT_BYTES)


ARGUMENTS = Record(
    (
        ("batch", "i64"),  # number of products
        ("m", "i64"),  # rows of a and c
        ("n", "i64"),  # columns of b and c
        ("k", "i64"),  # columns of a, rows of b
        ("a", "ptr"),
        ("a_row", "i64"),
        ("a_column", "i64"),
        ("a_batch", "i64"),  # 0: the same matrix in every product
        ("b", "ptr"),
        ("b_row", "i64"),
        ("b_column", "i64"),
        ("b_batch", "i64"),
        ("c", "ptr"),
        ("c_row", "i64"),
        ("c_batch", "i64"),
        ("accumulate", "i64"),  # 0: c = a @ b, 1: c += a @ b
        ("epilogue", "ptr"),  # void (ptr context, i64 batch, i64 m0, i64 m1, i64 n0, i64 n1), or null
        ("context", "ptr"),  # first argument of the epilogue
        ("threads", "i64"),  # 0 or 1: the calling thread alone; more: split for about so many threads
    )
)
"""The record that `gemm_f32` and `gemm_f64` take."""

DEFAULTS: Mapping[str, Operand] = {
    "batch": 1,
    "a_column": 1,
    "a_batch": 0,
    "b_column": 1,
    "b_batch": 0,
    "c_batch": 0,
    "accumulate": 0,
    "epilogue": 0,
    "context": 0,
    "threads": 1,
}


def entry_name(dtype: str) -> str:
    """Return the symbol that multiplies matrices of a dtype (`"float32"` or `"float64"`)."""
    return {"float32": "gemm_f32", "float64": "gemm_f64"}[dtype]


def emit_gemm_call(function: Function, dtype: str, **values: Operand) -> str:
    """Emit a call of the matrix product: fill a record on the stack and pass it.

    The symbol (`gemm_f32` or `gemm_f64`) is declared in the caller's module; link it with
    `gemm_symbols(dtype)`.

    Args:
        function: The function that makes the call.
        dtype: `"float32"` or `"float64"`.
        values: The fields of `ARGUMENTS`; those of `DEFAULTS` may be left out.

    Returns:
        The i32 status: 0, or what `parallel_for` returned.

    Raises:
        TypeError: A field is missing or unknown.
    """
    given = {**DEFAULTS, **values}
    missing = [name for name in ARGUMENTS.names if name not in given]
    unknown = [name for name in given if name not in ARGUMENTS.names]
    if missing or unknown:
        raise TypeError(f"emit_gemm_call: missing fields {missing}, unknown fields {unknown}")
    record = ARGUMENTS.allocate(function)
    ARGUMENTS.store(function, record, given)
    return function.call("i32", entry_name(dtype), [("ptr", record)])
