"""Addresses, loads and stores of kernels.

The address of an access is built from the outside in: the offset at the kernel's entry, then at every loop the stride
times the position, each prefix once. What is left for the innermost loop is one addition, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rlxlang.backends.llvm.emit_apply import element
from rlxlang.backends.llvm.text import Operand, operand_text
from rlxlang.backends.llvm.vector import VectorEmitter
from rlxlang.kernels import Gathered, Index, Load, Store
from rlxlang.types import BOOL, DType

if TYPE_CHECKING:
    from rlxlang.backends.llvm.emit_expr import Evaluator


def memory_element(dtype: DType) -> str:
    """LLVM type of an element in memory."""
    return "i8" if dtype == BOOL else element(dtype)


class Memory:
    """Emits the accesses of one nest.

    Args:
        values: The evaluator of the nest.
        bases: Pointer to the first element of every buffer.
    """

    def __init__(self, values: Evaluator, bases: Mapping[int, str]) -> None:
        self.values = values
        self.bases = bases

    # -- addresses -------------------------------------------------------------------------------------

    def pointer(self, buffer: int, dtype: DType, index: Index, level: int) -> str:
        """Pointer to the element at the positions of the loops up to a level, lane 0 of copy 0."""
        values = self.values
        key = ("p", buffer, self._prefix(index, level), level)
        found = values.find(key)
        if found is not None:
            return found
        function, kind = values.function, memory_element(dtype)
        if level == 0:
            pointer = function.gep(kind, self.bases[buffer], values.size(index.offset))
        else:
            pointer = self.pointer(buffer, dtype, index, level - 1)
            for axis, of_axis in values.levels.of_axis.items():
                if of_axis == level and index.strides[axis] != 0:
                    stride = values.size(index.strides[axis])
                    pointer = function.gep(kind, pointer, function.mul(values.coordinates[axis], stride))
        volatile = False
        for gathered in index.gathered:
            traits = values.traits[id(gathered.value)]
            if traits.level == level and not traits.vector:
                volatile |= traits.volatile
                pointer = function.gep(kind, pointer, self._gathered_scalar(gathered))
        return values.remember(key, pointer, volatile=volatile)

    def _prefix(self, index: Index, level: int) -> object:
        """What distinguishes the addresses of two indices at a level."""
        levels = self.values.levels.of_axis
        strides = tuple(
            (a, index.strides[a]) for a, of_axis in levels.items() if of_axis <= level and index.strides[a] != 0
        )
        traits = self.values.traits
        gathered = tuple(
            g for g in index.gathered if traits[id(g.value)].level <= level and not traits[id(g.value)].vector
        )
        return (index.offset, strides, gathered)

    def prepare(self, access: Load | Store, level: int) -> None:
        """Compute the address up to a level, where anything is added to it there."""
        buffer_dtype = self.values.buffer_dtypes[access.buffer]
        traits = self.values.traits
        if any(traits[id(g.value)].late for g in access.index.gathered):
            return
        self.pointer(access.buffer, buffer_dtype, access.index, level)

    def _gathered_scalar(self, gathered: Gathered) -> Operand:
        values, function = self.values, self.values.function
        dtype = gathered.value.dtype
        size = values.size(gathered.size)
        text = values.s.convert(element(dtype), "i64", values.scalar(gathered.value), signed=dtype.kind == "int")
        position: Operand = text
        if dtype.kind == "int":
            wrapped = function.add(position, size)
            position = function.select(function.icmp("slt", position, 0), wrapped, position)
        position = function.smax(function.smin(position, function.sub(size, 1)), 0)
        return function.mul(position, values.size(gathered.stride))

    def _gathered_lanes(self, gathered: Gathered, v: VectorEmitter, copy: int) -> str:
        values = self.values
        key = ("gather", gathered, copy)
        found = values.find(key)
        if found is not None:
            return found
        dtype = gathered.value.dtype
        size = values.size(gathered.size)
        lanes = v.convert(element(dtype), "i64", values.vector(gathered.value, copy), signed=dtype.kind == "int")
        if dtype.kind == "int":
            wrapped = v.add("i64", lanes, v.splat("i64", size))
            lanes = v.select("i64", v.compare("slt", "i64", lanes, 0), wrapped, lanes)
        last = v.splat("i64", values.function.sub(size, 1))
        lanes = v.maximum("i64", v.minimum("i64", lanes, last), 0)
        stride = values.size(gathered.stride)
        if not (isinstance(stride, int) and stride == 1):
            lanes = v.mul("i64", lanes, v.splat("i64", stride))
        return values.remember(key, lanes)

    def _lanes(self, index: Index, v: VectorEmitter, copy: int) -> tuple[Operand, str | None]:
        """Stride between lanes when they are evenly spaced, or the offset of every lane."""
        values = self.values
        axis = values.levels.vector_axis
        stride: Operand = 0 if axis < 0 else values.size(index.strides[axis])
        irregular = [g for g in index.gathered if values.traits[id(g.value)].vector]
        if not irregular:
            return stride, None
        offsets = self._gathered_lanes(irregular[0], v, copy)
        for gathered in irregular[1:]:
            offsets = v.add("i64", offsets, self._gathered_lanes(gathered, v, copy))
        if not (isinstance(stride, int) and stride == 0) and v.lanes > 1:
            offsets = v.add("i64", offsets, self._strided(stride, v))
        return stride, offsets

    def _strided(self, stride: Operand, v: VectorEmitter) -> str:
        if isinstance(stride, int):
            return v.strided_offsets(stride)
        key = ("lanes", stride, v.lanes)
        return self.values.find(key) or self.values.remember(key, v.strided_offsets(stride))

    def _copy_pointer(self, pointer: str, kind: str, stride: Operand, copy: int, lanes: int) -> str:
        function = self.values.function
        return function.gep(kind, pointer, function.mul(stride, copy * lanes))

    # -- loads -----------------------------------------------------------------------------------------

    def load(self, load: Load, emitter: VectorEmitter, copy: int, in_lanes: bool) -> str:
        """Emit a load; `in_lanes` says whether its address or condition differs between lanes."""
        values = self.values
        kept = values.buffer_dtypes[load.buffer]
        kind = memory_element(kept)
        pointer = self.pointer(load.buffer, kept, load.index, self._depth(load.index))
        fill = int(load.fill) if kept == BOOL else load.fill
        if in_lanes:
            value = self._load_lanes(load, kind, emitter, copy, pointer, fill)
        else:
            where = None if load.where is None else values.scalar(load.where)
            value = emitter.load(kind, pointer, where, fill)
        value = emitter.convert("i8", "i1", value) if kept == BOOL else value
        if kept == load.dtype:
            return value
        signs = {"signed": kept.kind != "uint", "to_signed": load.dtype.kind != "uint"}
        return emitter.convert(element(kept), element(load.dtype), value, **signs)

    def _depth(self, index: Index) -> int:
        """The level from which on the address (of lane 0) no longer changes."""
        values = self.values
        depth = max((lv for a, lv in values.levels.of_axis.items() if index.strides[a] != 0), default=0)
        for gathered in index.gathered:
            traits = values.traits[id(gathered.value)]
            if not traits.vector:
                depth = max(depth, traits.level)
        return depth

    def _load_lanes(self, load: Load, kind: str, v: VectorEmitter, copy: int, pointer: str, fill: int | float) -> str:
        mask = self._mask(None if load.where is None else self.values.vector(load.where, copy), v)
        stride, offsets = self._lanes(load.index, v, copy)
        pointer = self._copy_pointer(pointer, kind, stride, copy, v.lanes)
        if offsets is not None:
            return v.gather(kind, pointer, offsets, mask, fill)
        if v.lanes == 1 or (isinstance(stride, int) and stride == 1):
            return v.load(kind, pointer, mask, fill)
        if isinstance(stride, int) and stride == 0:
            # One place for all lanes, read under a condition that differs between them.
            return v.gather(kind, pointer, v.zero("i64"), mask, fill)
        return v.gather(kind, pointer, self._strided(stride, v), mask, fill)

    def _mask(self, where: str | None, v: VectorEmitter) -> str | None:
        mask = self.values.mask
        if where is None or mask is None:
            return where if mask is None else mask
        return v.and_("i1", mask, where)

    # -- stores ----------------------------------------------------------------------------------------

    def store_scalar(self, store: Store) -> None:
        """Emit a store at one point outside of the vector loop."""
        values, dtype = self.values, self.values.buffer_dtypes[store.buffer]
        pointer = self.pointer(store.buffer, dtype, store.index, self._depth(store.index))
        where = None if store.where is None else values.scalar(store.where)
        value = self._as_stored(values.s, values.scalar(store.value), store)
        self._write(values.s, store, value, pointer, where)

    def store_lanes(self, store: Store, copy: int) -> None:
        """Emit a store in the lanes of one copy."""
        values, v = self.values, self.values.v
        dtype = values.buffer_dtypes[store.buffer]
        kind = memory_element(dtype)
        pointer = self.pointer(store.buffer, dtype, store.index, self._depth(store.index))
        mask = self._mask(None if store.where is None else values.vector(store.where, copy), v)
        value = self._as_stored(v, values.vector(store.value, copy), store)
        stride, offsets = self._lanes(store.index, v, copy)
        pointer = self._copy_pointer(pointer, kind, stride, copy, v.lanes)
        if v.lanes == 1:
            if offsets is not None:
                pointer = values.function.gep(kind, pointer, offsets)
            self._write(v, store, value, pointer, mask)
        elif offsets is None and isinstance(stride, int) and stride == 1:
            self._write(v, store, value, pointer, mask)
        elif self._may_collide(store, stride, offsets):
            self._write_one_by_one(v, store, value, pointer, offsets, mask)
        else:
            lanes = offsets if offsets is not None else self._strided(stride, v)
            if store.mode != "set":
                old = v.gather(kind, pointer, lanes, mask)
                value = self._combine(v, store.mode, dtype, old, value)
            v.scatter(kind, value, pointer, lanes, mask)

    def _may_collide(self, store: Store, stride: Operand, offsets: str | None) -> bool:
        """Whether two lanes may write one place so that order or count matters."""
        if offsets is None:
            return isinstance(stride, int) and stride == 0
        return store.mode != "set" and not self.values.lanes_are_outer

    def _as_stored(self, v: VectorEmitter, value: str, store: Store) -> str:
        dtype, kept = store.value.dtype, self.values.buffer_dtypes[store.buffer]
        if dtype != kept:
            value = v.convert(
                element(dtype),
                element(kept),
                value,
                signed=dtype.kind != "uint",
                to_signed=kept.kind != "uint",
            )
        return v.convert("i1", "i8", value) if kept == BOOL else value

    def _write(self, v: VectorEmitter, store: Store, value: str, pointer: str, mask: str | None) -> None:
        dtype = self.values.buffer_dtypes[store.buffer]
        kind = memory_element(dtype)
        if store.mode != "set":
            value = self._combine(v, store.mode, dtype, v.load(kind, pointer, mask), value)
        v.store(kind, value, pointer, mask)

    @staticmethod
    def _combine(v: VectorEmitter, mode: str, dtype: DType, old: str, new: str) -> str:
        kind, signed = memory_element(dtype), dtype.kind == "int"
        if mode in ("add", "mul"):
            if dtype == BOOL:
                return v.or_(kind, old, new) if mode == "add" else v.and_(kind, old, new)
            return v.add(kind, old, new) if mode == "add" else v.mul(kind, old, new)
        return v.minimum(kind, new, old, signed=signed) if mode == "min" else v.maximum(kind, new, old, signed=signed)

    def _write_one_by_one(
        self, v: VectorEmitter, store: Store, value: str, pointer: str, offsets: str | None, mask: str | None
    ) -> None:
        """Write lane after lane, through copies of the lanes on the stack."""
        function, s = self.values.function, self.values.s
        kind = memory_element(self.values.buffer_dtypes[store.buffer])
        kept_values = self._spill(v, kind, value)
        kept_offsets = None if offsets is None else self._spill(v, "i64", offsets)
        kept_mask = None if mask is None else self._spill(v, "i8", v.convert("i1", "i8", mask))
        with function.loop(0, v.lanes) as loop:
            number = s.load(kind, function.gep(kind, kept_values, loop.index))
            place = pointer
            if kept_offsets is not None:
                place = function.gep(kind, pointer, s.load("i64", function.gep("i64", kept_offsets, loop.index)))
            on = None
            if kept_mask is not None:
                on = s.convert("i8", "i1", s.load("i8", function.gep("i8", kept_mask, loop.index)))
            self._write(s, store, number, place, on)
            loop.next()

    def _spill(self, v: VectorEmitter, kind: str, value: str) -> str:
        place = self.values.function.alloca(kind, v.lanes)
        v.store(kind, operand_text(value), place)
        return place


def element_bytes(dtype: DType) -> int:
    """Bytes of an element in memory."""
    return dtype.bytes
