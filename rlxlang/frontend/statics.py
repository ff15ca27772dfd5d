"""Arithmetic of values that are known while the graph is built: unbounded ints, float64, sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from rlxlang.frontend.values import ListValue
from rlxlang.types import Dim, DimProblem, TypeProblem, exact_quotient, floor_div
from rlxlang.types.dim import maximum, minimum, mod

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LARGEST_BITS = 1 << 13  # of a static integer; beyond, the program is wrong and arithmetic would stall
_LONGEST_SIZE = 2000  # characters of a size; beyond, a loop has squared a polynomial and arithmetic would stall
_LONGEST_STRING = 1 << 16
_LONGEST_LIST = 1_000_000
_MOST_TERMS = 4096  # of a product of sizes before like terms meet


def _fault(message: str, help_: str = "") -> TypeProblem:
    return TypeProblem("E0352", message, (), help_)


def binary(op: str, left: Any, right: Any) -> Any:
    """The value of `left op right` for static operands.

    Raises:
        TypeProblem: E0352 for a division by zero or an operator that does not exist for these operands.
    """
    if op in _COMPARISONS:
        return _compare(op, left, right)
    if isinstance(left, str) or isinstance(right, str):
        if op == "+" and isinstance(left, str) and isinstance(right, str):
            return limited(left + right)
        raise _fault(f"`{op}` is not defined for strings")
    if op in ("&", "|", "^"):
        return _logical(op, left, right)
    if isinstance(left, Dim) or isinstance(right, Dim):
        return _size(op, left, right)
    return limited(_number(op, left, right))


def limited(value: Any) -> Any:
    """A static value, refused when it is larger than static arithmetic allows.

    Raises:
        TypeProblem: E0352.
    """
    if isinstance(value, int) and value.bit_length() > _LARGEST_BITS:
        raise _fault("the integer is too large", f"static integers have at most {_LARGEST_BITS} bits")
    if isinstance(value, str) and len(value) > _LONGEST_STRING:
        raise _fault("the string is too long", f"strings have at most {_LONGEST_STRING} characters")
    if isinstance(value, ListValue) and value.leaves > _LONGEST_LIST:
        raise _fault("the list is too long", f"lists have at most {_LONGEST_LIST} values")
    if isinstance(value, Dim) and (len(value.terms) > _LONGEST_SIZE or len(str(value)) > _LONGEST_SIZE):
        raise _fault("the size is too complicated", "keep the sizes of a model to a few terms")
    return value


def _compare(op: str, left: Any, right: Any) -> bool:
    if isinstance(left, str) != isinstance(right, str):
        if op in ("==", "!="):
            return op == "!="
        raise _fault(f"`{op}` cannot order a string and a number")
    if isinstance(left, Dim) or isinstance(right, Dim):
        if op in ("==", "!=") and left == right:
            return op == "=="
        raise _fault(
            f"`{left} {op} {right}` is not known while the graph is built", "compare sizes at run time with a tensor"
        )
    return bool(_COMPARISONS[op](left, right))


def _logical(op: str, left: Any, right: Any) -> Any:
    table = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
    if isinstance(left, (bool, int)) and isinstance(right, (bool, int)) and type(left) is type(right):
        return table[op](left, right)
    raise _fault(f"`{op}` takes two Bools or two integers")


def _size(op: str, left: Any, right: Any) -> Any:
    if isinstance(left, float) or isinstance(right, float):
        raise _fault(f"a dynamic size and a float cannot be combined by `{op}` while the graph is built")
    left, right = (int(v) if isinstance(v, bool) else v for v in (left, right))
    try:
        if op == "+":
            return limited(left + right)
        if op == "-":
            return limited(left - right)
        if op == "*":
            return _times(left, right)
        if op == "div":
            return limited(floor_div(left, right))
        if op == "%":
            return limited(mod(left, right))
        if op == "/":
            exact = exact_quotient(left, right)
            return exact if exact is not None else limited(floor_div(left, right))
        if op == "**" and isinstance(right, int) and 0 <= right <= 16:
            result: Any = 1
            for _ in range(right):
                result = _times(result, left)
            return result
    except DimProblem as problem:
        raise _fault(str(problem)) from None
    raise _fault(f"`{op}` is not defined for dynamic sizes")


def _times(left: Any, right: Any) -> Any:
    counts = [len(v.terms) if isinstance(v, Dim) else 1 for v in (left, right)]
    if counts[0] * counts[1] > _MOST_TERMS:
        raise _fault("the size is too complicated", "keep the sizes of a model to a few terms")
    return limited(left * right)


def is_sizes(op: str, left: Any, right: Any) -> bool:
    """Whether `left op right` of sizes and numbers is a size; else it is known only at run time, as a tensor."""
    if isinstance(left, float) or isinstance(right, float):
        return False
    if op in _COMPARISONS:
        return op in ("==", "!=") and bool(left == right)
    if op == "**":
        return isinstance(right, int) and not isinstance(right, bool) and 0 <= right <= 16
    return op in ("+", "-", "*", "div", "%", "/")


def needs_exact(op: str, left: Any, right: Any) -> bool:
    """Whether a quotient of sizes must be checked at run time to be exact."""
    return op == "/" and (isinstance(left, Dim) or isinstance(right, Dim)) and exact_quotient(left, right) is None


def _number(op: str, left: Any, right: Any) -> Any:
    left, right = (int(v) if isinstance(v, bool) else v for v in (left, right))
    if op in ("/", "div", "%") and right == 0:
        raise _fault(f"`{left} {op} {right}` divides by zero")
    try:
        if op == "+":
            return left + right
        if op == "-":
            return left - right
        if op == "*":
            return left * right
        if op == "/":
            whole = isinstance(left, int) and isinstance(right, int) and left % right == 0
            return left // right if whole else left / right
        if op == "div":
            return left // right
        if op == "%":
            return left % right
        if op == "**":
            return _power(left, right)
    except OverflowError:
        raise _fault(f"`{left} {op} {right}` is too large") from None
    raise _fault(f"`{op}` needs a tensor", "`@` multiplies matrices" if op == "@" else "")


def _power(base: Any, exponent: Any) -> Any:
    integers = isinstance(base, int) and isinstance(exponent, int)
    if integers and abs(base) > 1 and exponent * abs(base).bit_length() > _LARGEST_BITS:
        raise _fault(f"`{base} ** {exponent}` is too large")
    if base == 0 and exponent < 0:
        raise _fault(f"`{base} ** {exponent}` divides by zero")
    result = base**exponent
    if isinstance(result, complex):
        raise _fault(f"`{base} ** {exponent}` is not a real number")
    return result


def unary(op: str, value: Any) -> Any:
    """`-x` or `!x` of a static value.

    Raises:
        TypeProblem: E0352 for an operand the operator does not take.
    """
    if op == "!":
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return ~value
        raise _fault("`!` takes a Bool or an integer")
    if isinstance(value, (bool, str)):
        raise _fault(f"`-` is not defined for {'Bools' if isinstance(value, bool) else 'strings'}")
    return -value


def _rounding(function: Callable[[float], int]) -> Callable[[Any], int]:
    def apply(value: Any) -> int:
        return value if isinstance(value, int) else int(function(value))

    return apply


_UNARY: dict[str, Callable[[Any], Any]] = {
    name: getattr(math, name)
    for name in (
        "exp",
        "log",
        "log2",
        "log10",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "erf",
    )
}
_UNARY |= {"abs": abs, "floor": _rounding(math.floor), "ceil": _rounding(math.ceil), "trunc": _rounding(math.trunc)}
_UNARY |= {"round": _rounding(round), "expm1": math.expm1, "log1p": math.log1p, "rsqrt": lambda x: 1 / math.sqrt(x)}
_UNARY |= {"square": lambda x: x * x, "recip": lambda x: 1 / x, "exp2": lambda x: 2.0**x}

STATIC_FUNCTIONS = frozenset((*_UNARY, "min", "max", "pow", "minimum", "maximum"))


def call(name: str, args: Sequence[Any]) -> Any:
    """A function of `STATIC_FUNCTIONS` of static numbers.

    Raises:
        TypeProblem: E0352 outside of its domain, E0220 for a wrong number of arguments.
    """
    if name in ("min", "max", "minimum", "maximum"):
        if len(args) < 2:
            raise TypeProblem("E0220", f"static `{name}` takes two or more numbers, {len(args)} given")
        result = args[0]
        for value in args[1:]:
            sized = isinstance(result, Dim) or isinstance(value, Dim)
            smaller = name.startswith("min")
            if sized:
                result = minimum(result, value) if smaller else maximum(result, value)
            else:
                result = min(result, value) if smaller else max(result, value)
        return result
    if any(isinstance(a, Dim) for a in args):
        raise _fault(f"`{name}` of a dynamic size is not known while the graph is built")
    try:
        if name == "pow":
            if len(args) != 2:
                raise TypeProblem("E0220", f"static `pow` takes two numbers, {len(args)} given")
            return _power(*args)
        if len(args) != 1:
            raise TypeProblem("E0220", f"static `{name}` takes one number, {len(args)} given")
        return _UNARY[name](args[0])
    except (ValueError, ZeroDivisionError, OverflowError) as problem:
        raise _fault(f"`{name}({', '.join(map(str, args))})`: {problem}") from None
