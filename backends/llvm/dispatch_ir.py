"""LLVM IR of the call path: one METH_FASTCALL function that every compiled function shares.

Its `self` is the tuple (table, slow, fail, …). The table, an int64 array, holds a busy flag, the number of
recorded combinations and pointers to them, most recent first. A combination ("entry") is an int64 array
too:

    entry[0]  address of i32 main(ptr buffers, ptr sizes)
    entry[1]  buffers
    entry[2]  sizes
    entry[3]  1: release the GIL
    entry[4]  result: 0 None, 1 array, 2 tuple, 3 float from f32, 4 float from f64
    entry[5]  number of inputs
    entry[6]  number of outputs
    entry[7]  address of the scalar, for results 3 and 4
    then per input    descr, slot, nd, dims[nd]
    then per output   object or 0, descr, slot, nd, dims[nd]

An argument is taken as it is when its type is exactly ndarray, its descr pointer, rank and dims are those
recorded, and it is C-contiguous and aligned. Anything else calls `slow` with the arguments as they came.

The busy flag guards the buffers: an entry writes addresses into its buffers and main uses them after the
GIL is given up, so a second call meanwhile (another thread, or a finaliser run by an allocation) must not
touch them. It takes the slow path instead. The flag is also what keeps an entry alive that is replaced
while it runs.

Offsets into objects come from `object_layout`, which checks them against what the objects say of themselves.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

import numpy as np

EXPORTS = ("rlx_dispatch",)

TABLE_COUNT = 1
TABLE_ENTRIES = 2
CAPACITY = 8
"""Combinations kept per function."""

ENTRY_HEADER = 8

_NEW_FROM_DESCR = 94  # index into NumPy's C interface table
_CONTIGUOUS_ALIGNED = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED


@dataclass(frozen=True, slots=True)
class ObjectLayout:
    """Offsets in bytes that the call path relies on.

    Attributes:
        head: size of the object header, where the fields of an ndarray begin; the type pointer ends there.
        items: where the items of a tuple begin.
    """

    head: int
    items: int


def object_layout() -> ObjectLayout | None:
    """The layout of objects in this process, or None where it is not the one known here (then ctypes makes calls)."""
    # The flag "t" marks a build without the GIL; `sysconfig` says the same and takes a millisecond to import.
    if sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", ""):
        return None
    if ctypes.sizeof(ctypes.c_void_p) != 8 or not hasattr(np.ndarray, "__basicsize__"):
        return None
    layout = ObjectLayout(head=object.__basicsize__, items=tuple.__basicsize__)
    pair = (layout, np.ndarray)
    array = np.empty((3, 5), np.float32)
    return layout if _tuple_agrees(pair, layout) and _array_agrees(array, layout) else None


def numpy_symbols() -> dict[str, int]:
    """Addresses of NumPy's array type and constructor, which the dispatcher imports."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    interface = ctypes.cast(get_pointer(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return {"rlx_ndarray_type": id(np.ndarray), "rlx_new_from_descr": int(interface[_NEW_FROM_DESCR] or 0)}


def dispatch_ir(layout: ObjectLayout) -> str:
    """LLVM IR of the dispatcher for that layout."""
    text = _DISPATCH
    for name, value in (
        ("TYPE", layout.head - 8),
        ("DATA", layout.head),
        ("ND", layout.head + 8),
        ("DIMS", layout.head + 16),
        ("DESCR", layout.head + 40),
        ("FLAGS", layout.head + 48),
        ("ITEM0", layout.items),
        ("ITEM1", layout.items + 8),
        ("ITEM2", layout.items + 16),
        ("GOOD_FLAGS", _CONTIGUOUS_ALIGNED),
    ):
        text = text.replace(f"${name}$", str(value))
    return text


def _tuple_agrees(pair: tuple[object, object], layout: ObjectLayout) -> bool:
    items = (ctypes.c_void_p * 2).from_address(id(pair) + layout.items)
    return (items[0], items[1]) == (id(pair[0]), id(pair[1]))


def _array_agrees(array: np.ndarray, layout: ObjectLayout) -> bool:
    fields = id(array) + layout.head
    dims = ctypes.c_void_p.from_address(fields + 16).value
    return (
        ctypes.c_void_p.from_address(fields - 8).value == id(np.ndarray)
        and ctypes.c_void_p.from_address(fields).value == array.ctypes.data
        and ctypes.c_int.from_address(fields + 8).value == array.ndim
        and dims is not None
        and tuple((ctypes.c_ssize_t * 2).from_address(dims)) == array.shape
        and ctypes.c_void_p.from_address(fields + 40).value == id(array.dtype)
        and ctypes.c_int.from_address(fields + 48).value & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED
    )


_DISPATCH = """
@rlx_ndarray_type = external global i8
@_Py_NoneStruct = external global i8
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLong(i64)
declare ptr @rlx_new_from_descr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)

; A new reference to an output: the fixed object, or a new array whose address goes into its slot.
; Null on error.
define internal ptr @make_output(ptr %record, ptr %buffers) {
  %fixed = load ptr, ptr %record
  %is_fixed = icmp ne ptr %fixed, null
  br i1 %is_fixed, label %given, label %allocate
given:
  call void @Py_IncRef(ptr %fixed)
  ret ptr %fixed
allocate:
  %descr_at = getelementptr i64, ptr %record, i64 1
  %descr = load ptr, ptr %descr_at
  %slot_at = getelementptr i64, ptr %record, i64 2
  %slot = load i64, ptr %slot_at
  %nd_at = getelementptr i64, ptr %record, i64 3
  %nd = load i64, ptr %nd_at
  %nd32 = trunc i64 %nd to i32
  %dims = getelementptr i64, ptr %record, i64 4
  call void @Py_IncRef(ptr %descr)                       ; the constructor takes over one reference
  %array = call ptr @rlx_new_from_descr(ptr @rlx_ndarray_type, ptr %descr, i32 %nd32, ptr %dims,
                                        ptr null, ptr null, i32 0, ptr null)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %error, label %made
error:
  ret ptr null
made:
  %data_at = getelementptr i8, ptr %array, i64 $DATA$
  %data = load ptr, ptr %data_at
  %place = getelementptr ptr, ptr %buffers, i64 %slot
  store ptr %data, ptr %place
  ret ptr %array
}

define ptr @rlx_dispatch(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) {
entry:
  %argument = alloca ptr
  %named = icmp ne ptr %kwnames, null
  br i1 %named, label %slow, label %take
take:
  %table_at = getelementptr i8, ptr %self, i64 $ITEM0$
  %table_array = load ptr, ptr %table_at
  %table_data_at = getelementptr i8, ptr %table_array, i64 $DATA$
  %table = load ptr, ptr %table_data_at
  %taken = cmpxchg ptr %table, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %taken, 1
  br i1 %free, label %search, label %slow
search:
  %count_at = getelementptr i64, ptr %table, i64 1
  %count = load i64, ptr %count_at
  %first = getelementptr i64, ptr %table, i64 2
  br label %candidate
candidate:
  %k = phi i64 [0, %search], [%k1, %differs]
  %none_left = icmp eq i64 %k, %count
  br i1 %none_left, label %unmatched, label %examine
unmatched:
  store atomic i64 0, ptr %table release, align 8
  br label %slow
differs:
  %k1 = add i64 %k, 1
  br label %candidate
examine:
  %entry_at = getelementptr ptr, ptr %first, i64 %k
  %e = load ptr, ptr %entry_at
  %buffers_at = getelementptr i64, ptr %e, i64 1
  %buffers = load ptr, ptr %buffers_at
  %inputs_at = getelementptr i64, ptr %e, i64 5
  %inputs = load i64, ptr %inputs_at
  %records = getelementptr i64, ptr %e, i64 8
  %same_count = icmp eq i64 %inputs, %nargs
  br i1 %same_count, label %input, label %differs

input:
  %i = phi i64 [0, %examine], [%i1, %accept]
  %record = phi ptr [%records, %examine], [%after_dims, %accept]
  %all = icmp eq i64 %i, %inputs
  br i1 %all, label %matched, label %check_type
check_type:
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg_at
  %type_at = getelementptr i8, ptr %arg, i64 $TYPE$
  %type = load ptr, ptr %type_at
  %is_array = icmp eq ptr %type, @rlx_ndarray_type
  br i1 %is_array, label %check_fields, label %differs
check_fields:
  %want_descr = load ptr, ptr %record
  %want_slot_at = getelementptr i64, ptr %record, i64 1
  %want_slot = load i64, ptr %want_slot_at
  %want_nd_at = getelementptr i64, ptr %record, i64 2
  %want_nd = load i64, ptr %want_nd_at
  %want_dims = getelementptr i64, ptr %record, i64 3
  %descr_at = getelementptr i8, ptr %arg, i64 $DESCR$
  %descr = load ptr, ptr %descr_at
  %nd_at = getelementptr i8, ptr %arg, i64 $ND$
  %nd32 = load i32, ptr %nd_at
  %nd = sext i32 %nd32 to i64
  %flags_at = getelementptr i8, ptr %arg, i64 $FLAGS$
  %flags = load i32, ptr %flags_at
  %flags_seen = and i32 %flags, $GOOD_FLAGS$
  %same_descr = icmp eq ptr %descr, %want_descr
  %same_nd = icmp eq i64 %nd, %want_nd
  %good_flags = icmp eq i32 %flags_seen, $GOOD_FLAGS$
  %ok1 = and i1 %same_descr, %same_nd
  %ok2 = and i1 %ok1, %good_flags
  br i1 %ok2, label %check_dims, label %differs
check_dims:
  %dims_at = getelementptr i8, ptr %arg, i64 $DIMS$
  %dims = load ptr, ptr %dims_at
  br label %dim
dim:
  %j = phi i64 [0, %check_dims], [%j1, %compare]
  %dims_done = icmp eq i64 %j, %nd
  br i1 %dims_done, label %accept, label %compare
compare:
  %want_at = getelementptr i64, ptr %want_dims, i64 %j
  %want = load i64, ptr %want_at
  %size_at = getelementptr i64, ptr %dims, i64 %j
  %size = load i64, ptr %size_at
  %j1 = add i64 %j, 1
  %same_size = icmp eq i64 %want, %size
  br i1 %same_size, label %dim, label %differs
accept:
  %data_at = getelementptr i8, ptr %arg, i64 $DATA$
  %data = load ptr, ptr %data_at
  %place = getelementptr ptr, ptr %buffers, i64 %want_slot
  store ptr %data, ptr %place
  %after_dims = getelementptr i64, ptr %want_dims, i64 %nd
  %i1 = add i64 %i, 1
  br label %input

matched:
  %in_front = icmp eq i64 %k, 0
  br i1 %in_front, label %outputs, label %shift
shift:                                                   ; the entry just used moves to the front
  %s = phi i64 [%k, %matched], [%s1, %shift]
  %s1 = sub i64 %s, 1
  %from = getelementptr ptr, ptr %first, i64 %s1
  %to = getelementptr ptr, ptr %first, i64 %s
  %moved = load ptr, ptr %from
  store ptr %moved, ptr %to
  %shifted = icmp eq i64 %s1, 0
  br i1 %shifted, label %place_front, label %shift
place_front:
  store ptr %e, ptr %first
  br label %outputs

outputs:
  %kind_at = getelementptr i64, ptr %e, i64 4
  %kind = load i64, ptr %kind_at
  switch i64 %kind, label %run [ i64 1, label %single
                                 i64 2, label %several ]
single:
  %single_result = call ptr @make_output(ptr %record, ptr %buffers)
  %single_failed = icmp eq ptr %single_result, null
  br i1 %single_failed, label %no_memory, label %run
several:
  %outputs_at = getelementptr i64, ptr %e, i64 6
  %output_count = load i64, ptr %outputs_at
  %tuple = call ptr @PyTuple_New(i64 %output_count)
  %tuple_failed = icmp eq ptr %tuple, null
  br i1 %tuple_failed, label %no_memory, label %member
member:
  %m = phi i64 [0, %several], [%m1, %filled]
  %output = phi ptr [%record, %several], [%next_output, %filled]
  %full = icmp eq i64 %m, %output_count
  br i1 %full, label %run, label %fill
fill:
  %array = call ptr @make_output(ptr %output, ptr %buffers)
  %array_failed = icmp eq ptr %array, null
  br i1 %array_failed, label %drop_tuple, label %filled
filled:
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %m, ptr %array)
  %out_nd_at = getelementptr i64, ptr %output, i64 3
  %out_nd = load i64, ptr %out_nd_at
  %out_words = add i64 %out_nd, 4
  %next_output = getelementptr i64, ptr %output, i64 %out_words
  %m1 = add i64 %m, 1
  br label %member
drop_tuple:
  call void @Py_DecRef(ptr %tuple)
  br label %no_memory
no_memory:
  store atomic i64 0, ptr %table release, align 8
  ret ptr null

run:
  %result = phi ptr [null, %outputs], [%single_result, %single], [%tuple, %member]
  %main = load ptr, ptr %e
  %sizes_at = getelementptr i64, ptr %e, i64 2
  %sizes = load ptr, ptr %sizes_at
  %release_at = getelementptr i64, ptr %e, i64 3
  %release = load i64, ptr %release_at
  %releasing = icmp ne i64 %release, 0
  br i1 %releasing, label %run_released, label %run_held
run_released:
  %thread = call ptr @PyEval_SaveThread()
  %status_released = call i32 %main(ptr %buffers, ptr %sizes)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %finished
run_held:
  %status_held = call i32 %main(ptr %buffers, ptr %sizes)
  br label %finished
finished:
  %status = phi i32 [%status_released, %run_released], [%status_held, %run_held]
  %scalar_at = getelementptr i64, ptr %e, i64 7
  %scalar = load ptr, ptr %scalar_at
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %deliver, label %failed
deliver:
  switch i64 %kind, label %free_flag [ i64 0, label %deliver_none
                                       i64 3, label %deliver_f32
                                       i64 4, label %deliver_f64 ]
free_flag:
  store atomic i64 0, ptr %table release, align 8
  ret ptr %result
deliver_none:
  store atomic i64 0, ptr %table release, align 8
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
deliver_f32:
  %value32 = load float, ptr %scalar
  %value32_wide = fpext float %value32 to double
  br label %deliver_float
deliver_f64:
  %value64 = load double, ptr %scalar
  br label %deliver_float
deliver_float:
  %value = phi double [%value32_wide, %deliver_f32], [%value64, %deliver_f64]
  store atomic i64 0, ptr %table release, align 8
  %number = call ptr @PyFloat_FromDouble(double %value)
  ret ptr %number

failed:
  store atomic i64 0, ptr %table release, align 8
  %has_result = icmp ne ptr %result, null
  br i1 %has_result, label %drop_result, label %report
drop_result:
  call void @Py_DecRef(ptr %result)
  br label %report
report:
  %status64 = sext i32 %status to i64
  %status_object = call ptr @PyLong_FromLong(i64 %status64)
  %status_failed = icmp eq ptr %status_object, null
  br i1 %status_failed, label %report_failed, label %report_call
report_failed:
  ret ptr null
report_call:
  store ptr %status_object, ptr %argument
  %fail_at = getelementptr i8, ptr %self, i64 $ITEM2$
  %fail = load ptr, ptr %fail_at
  %fail_result = call ptr @PyObject_Vectorcall(ptr %fail, ptr %argument, i64 1, ptr null)
  call void @Py_DecRef(ptr %status_object)
  ret ptr %fail_result

slow:
  %slow_at = getelementptr i8, ptr %self, i64 $ITEM1$
  %slow_callable = load ptr, ptr %slow_at
  %slow_result = tail call ptr @PyObject_Vectorcall(ptr %slow_callable, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %slow_result
}
"""
