"""Sizes of axes: integers, or polynomials with integer coefficients over named dynamic axes.

An atom of a polynomial is a named axis or `floor(p / q)`, `p mod q`, `min(p, q)`, `max(p, q)` of polynomials. Constant
polynomials are plain Python integers, so static code never sees this class. Every axis has a size of zero or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd, prod
from typing import TypeAlias


class DimProblem(ValueError):
    """A size that cannot be: a negative or inexact quotient of static numbers, an unknown axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A named dynamic axis; `name` is written as in the source, `?batch`, `?`, `?1`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Compound:
    """`floor`, `mod`, `min` or `max` of two sizes."""

    kind: str
    left: DimLike
    right: DimLike

    def __str__(self) -> str:
        if self.kind in ("min", "max"):
            return f"{self.kind}({self.left}, {self.right})"
        sign = "div" if self.kind == "floor" else "%"
        return f"({_parenthesised(self.left)} {sign} {_parenthesised(self.right)})"


Atom: TypeAlias = Axis | Compound
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
DimLike: TypeAlias = "int | Dim"


def _atom_key(atom: Atom) -> tuple[int, str]:
    return (0 if isinstance(atom, Axis) else 1, str(atom))


def _parenthesised(value: DimLike) -> str:
    several = isinstance(value, Dim) and (len(value.terms) > 1 or value.terms[0][1] != 1)
    return f"({value})" if several else str(value)


class Dim:
    """A non-constant polynomial over atoms, in normal form; immutable, hashable, equal by value."""

    __slots__ = ("_hash", "terms")

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)

    @staticmethod
    def axis(name: str) -> Dim:
        """The size of the dynamic axis `name` (with its question mark)."""
        return Dim(((((Axis(name), 1),), 1),))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self._hash == other._hash and self.terms == other.terms

    def __add__(self, other: DimLike) -> DimLike:
        return _normal([*_terms(self), *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> DimLike:
        return _normal([(m, -c) for m, c in self.terms])

    def __sub__(self, other: DimLike) -> DimLike:
        return _normal([*_terms(self), *((m, -c) for m, c in _terms(other))])

    def __rsub__(self, other: DimLike) -> DimLike:
        return _normal([*_terms(other), *((m, -c) for m, c in self.terms)])

    def __mul__(self, other: DimLike) -> DimLike:
        return _normal([(_times(m, n), c * d) for m, c in self.terms for n, d in _terms(other)])

    __rmul__ = __mul__

    def __floordiv__(self, other: DimLike) -> DimLike:
        return floor_div(self, other)

    def __rfloordiv__(self, other: DimLike) -> DimLike:
        return floor_div(other, self)

    def __mod__(self, other: DimLike) -> DimLike:
        return mod(self, other)

    def __str__(self) -> str:
        parts = []
        for monomial, coefficient in self.terms:
            factors = [str(a) if p == 1 else f"{a}**{p}" for a, p in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            text = "*".join(factors)
            parts.append((" - " if coefficient < 0 else " + ") + text)
        first = parts[0]
        return (("-" if first.startswith(" - ") else "") + first[3:]) + "".join(parts[1:])

    def __repr__(self) -> str:
        return f"Dim({self})"


def _terms(value: DimLike) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(value, Dim):
        return value.terms
    return (((), value),) if value else ()


def _times(left: Monomial, right: Monomial) -> Monomial:
    if not left:
        return right
    if not right:
        return left
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _atom_key(item[0])))


def _normal(terms: Iterable[tuple[Monomial, int]]) -> DimLike:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in total.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    # Highest degree first, then by name; the constant comes last.
    kept.sort(key=lambda item: (-sum(p for _, p in item[0]), [(_atom_key(a), -p) for a, p in item[0]]))
    return Dim(tuple(kept))


def _atom(kind: str, left: DimLike, right: DimLike) -> Dim:
    return Dim(((((Compound(kind, left, right), 1),), 1),))


def exact_quotient(left: DimLike, right: DimLike) -> DimLike | None:
    """`left / right` where the division is exact for all sizes of the axes, else None."""
    if right == 0:
        return None
    if left == right:
        return 1
    if isinstance(left, int) and isinstance(right, int):
        return left // right if left % right == 0 else None
    divisor = _terms(right)
    if len(divisor) != 1:
        factor = _scalar_multiple(left, right)
        return factor
    (monomial, coefficient) = divisor[0]
    need = dict(monomial)
    quotient = []
    for term, c in _terms(left):
        powers = dict(term)
        if c % coefficient or any(powers.get(a, 0) < p for a, p in need.items()):
            return None
        rest = tuple((a, p - need.get(a, 0)) for a, p in term if p > need.get(a, 0))
        quotient.append((rest, c // coefficient))
    return _normal(quotient)


def _scalar_multiple(left: DimLike, right: DimLike) -> DimLike | None:
    """The k with left == k * right for a right of several terms, found from the leading terms."""
    if not isinstance(left, Dim) or not isinstance(right, Dim):
        return None
    lead = exact_quotient(_normal([left.terms[0]]), _normal([right.terms[0]]))
    if lead is None:
        return None
    return lead if lead * right == left else None


def floor_div(left: DimLike, right: DimLike) -> DimLike:
    """`floor(left / right)`.

    Raises:
        DimProblem: The divisor is the static number 0.
    """
    if right == 0:
        raise DimProblem(f"division of {left} by zero")
    exact = exact_quotient(left, right)
    if exact is not None:
        return exact
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    return _atom("floor", left, right)


def mod(left: DimLike, right: DimLike) -> DimLike:
    """`left - right * floor(left / right)`, with the sign of the divisor."""
    if right == 0:
        raise DimProblem(f"remainder of {left} by zero")
    if exact_quotient(left, right) is not None:
        return 0
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    return _atom("mod", left, right)


def minimum(left: DimLike, right: DimLike) -> DimLike:
    """The smaller size."""
    difference = left - right
    if isinstance(difference, int):
        return left if difference <= 0 else right
    return _atom("min", *sorted((left, right), key=str))


def maximum(left: DimLike, right: DimLike) -> DimLike:
    """The larger size."""
    difference = left - right
    if isinstance(difference, int):
        return left if difference >= 0 else right
    return _atom("max", *sorted((left, right), key=str))


def ceil_div(left: DimLike, right: DimLike) -> DimLike:
    """`ceil(left / right)` for a positive divisor."""
    return floor_div(left + right - 1, right)


def product(dims: Iterable[DimLike]) -> DimLike:
    """The product of sizes; 1 for none."""
    result: DimLike = 1
    for dim in dims:
        result = result * dim
    return result


def dims_equal(left: DimLike, right: DimLike) -> bool | None:
    """Whether two sizes are equal: True for all sizes of the axes, False for none, None when it depends on them."""
    difference = left - right
    if isinstance(difference, int):
        return difference == 0
    if is_nonnegative(difference - 1) or is_nonnegative(-difference - 1):
        return False
    constant = sum(c for m, c in difference.terms if not m)
    divisor = gcd(*(c for m, c in difference.terms if m))
    if divisor > 1 and constant % divisor:
        return False
    return None


def is_nonnegative(value: DimLike) -> bool | None:
    """Whether a size is zero or more: True for all sizes of the axes, False for none, None when it depends on them or is not seen."""
    if isinstance(value, int):
        return value >= 0
    if not all(power % 2 == 0 or _atom_is_nonnegative(atom) for monomial, _ in value.terms for atom, power in monomial):
        return None
    if all(c > 0 for _, c in value.terms):
        return True
    constant = sum(c for m, c in value.terms if not m)
    return False if constant < 0 and all(c < 0 for _, c in value.terms) else None


def _atom_is_nonnegative(atom: Atom) -> bool:
    if isinstance(atom, Axis):
        return True
    if atom.kind == "min":
        return is_nonnegative(atom.left) is True and is_nonnegative(atom.right) is True
    if atom.kind == "max":
        return is_nonnegative(atom.left) is True or is_nonnegative(atom.right) is True
    if not isinstance(atom.right, int) or atom.right <= 0:
        return False
    return atom.kind == "mod" or is_nonnegative(atom.left) is True


def axes_of(value: DimLike) -> tuple[str, ...]:
    """Names of the dynamic axes that a size depends on, sorted."""
    names: set[str] = set()
    todo: list[DimLike] = [value]
    while todo:
        dim = todo.pop()
        for monomial, _ in _terms(dim):
            for atom, _ in monomial:
                if isinstance(atom, Axis):
                    names.add(atom.name)
                else:
                    todo += [atom.left, atom.right]
    return tuple(sorted(names))


def evaluate(value: DimLike, sizes: Mapping[str, int]) -> int:
    """The number that a size has for given sizes of the axes.

    Raises:
        DimProblem: An axis has no size in `sizes`, or a divisor is zero.
    """
    if not isinstance(value, Dim):
        return value
    total = 0
    for monomial, coefficient in value.terms:
        total += coefficient * prod(_evaluate_atom(a, sizes) ** p for a, p in monomial)
    return total


def _evaluate_atom(atom: Atom, sizes: Mapping[str, int]) -> int:
    if isinstance(atom, Axis):
        if atom.name not in sizes:
            raise DimProblem(f"the size of `{atom.name}` is not known")
        return sizes[atom.name]
    left, right = evaluate(atom.left, sizes), evaluate(atom.right, sizes)
    if atom.kind == "min":
        return min(left, right)
    if atom.kind == "max":
        return max(left, right)
    if right == 0:
        raise DimProblem(f"`{atom}` divides by zero")
    return left // right if atom.kind == "floor" else left % right


def substitute(value: DimLike, replacement: Mapping[str, DimLike]) -> DimLike:
    """The size with some axes replaced by other sizes."""
    if not isinstance(value, Dim) or not replacement:
        return value
    total: DimLike = 0
    for monomial, coefficient in value.terms:
        part: DimLike = coefficient
        for atom, power in monomial:
            if isinstance(atom, Axis):
                new: DimLike = replacement.get(atom.name, Dim.axis(atom.name))
            else:
                left, right = substitute(atom.left, replacement), substitute(atom.right, replacement)
                new = {"floor": floor_div, "mod": mod, "min": minimum, "max": maximum}[atom.kind](left, right)
            for _ in range(power):
                part = part * new
        total = total + part
    return total
