"""Textual LLVM IR: modules, functions, structured control flow.

The builder writes LLVM assembly directly (opaque pointers). No object graph stands behind it: a value is the text that
names it (`"%v12"`, a parameter `"%n"`, a literal), so building is a few string operations per instruction and the
backend pays only LLVM's own parser. Integer helpers accept Python ints and fold them, which keeps kernels that are
specialised on static sizes free of arithmetic on constants without any IR pass.

Loops carry values in phi nodes (never in stack slots) and are guarded, bottom-tested loops: no IR pass runs that could
promote slots or rotate loops later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

Operand = int | str
"""An operand: the text of a value (`"%v3"`, `"@table"`, `"0x3FF0000000000000"`) or a Python int or bool."""

DEFAULT_ATTRIBUTES = 'nounwind "no-trapping-math"="true"'


def operand_text(value: Operand) -> str:
    """Return how an operand is written in an instruction."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _wrap(value: int, type_name: str) -> int:
    """Reduce a folded value to the signed range of an integer type."""
    bits = int(type_name[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _truncated_quotient(a: int, b: int) -> int:
    """Divide as LLVM's `sdiv` does: towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_SIGNED_PREDICATES = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
}


class ModuleText:
    """One LLVM module under construction.

    Args:
        name: Module identifier; it appears in diagnostics of LLVM only.
        attributes: Attributes given to every function that does not bring its own, for instance
            `'nounwind "prefer-vector-width"="512"'`.
    """

    def __init__(self, name: str = "module", *, attributes: str = DEFAULT_ATTRIBUTES) -> None:
        self.name = name
        self.attributes = attributes
        self._functions: list[Function] = []
        self._defined: set[str] = set()
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._attribute_groups: dict[str, int] = {}
        self._metadata: dict[str, int] = {}

    def declare(self, name: str, result: str, parameters: Sequence[str], attributes: str = "") -> str:
        """Declare an external function once; repeated declarations of one name must agree.

        Args:
            name: Symbol without `@`.
            result: Result type.
            parameters: Parameter types, in order.
            attributes: Function attributes appended to the declaration.

        Returns:
            `@name`.

        Raises:
            ValueError: The name is already declared with another signature.
        """
        text = f"declare {result} @{name}({', '.join(parameters)}) {attributes}".rstrip()
        known = self._declarations.setdefault(name, text)
        if known != text:
            raise ValueError(f"conflicting declarations: {known!r} and {text!r}")
        return f"@{name}"

    def define_global(
        self,
        name: str,
        type_name: str,
        initializer: str,
        *,
        constant: bool = False,
        linkage: str = "internal",
        align: int = 0,
    ) -> str:
        """Add a global variable or constant; the same name again must carry the same text. Returns `@name`."""
        kind = "constant" if constant else "global"
        tail = f", align {align}" if align else ""
        text = f"@{name} = {linkage} {kind} {type_name} {initializer}{tail}"
        known = self._globals.setdefault(name, text)
        if known != text:
            raise ValueError(f"conflicting globals named {name}")
        return f"@{name}"

    def constant(self, name: str, type_name: str, initializer: str, *, align: int = 0) -> str:
        """Add a private constant, for instance a lookup table. Returns `@name`."""
        return self.define_global(name, type_name, initializer, constant=True, linkage="private", align=align)

    def metadata(self, node: str) -> str:
        """Add a metadata node such as `!{!"branch_weights", i32 1, i32 1000}` once; returns its name `!N`."""
        return f"!{self._metadata.setdefault(node, len(self._metadata))}"

    def branch_weights(self, taken: int, otherwise: int) -> str:
        """Return the metadata name of branch weights for a two-way branch."""
        return self.metadata(f'!{{!"branch_weights", i32 {taken}, i32 {otherwise}}}')

    def attribute_group(self, attributes: str) -> str:
        """Return the group `#N` that stands for these function attributes."""
        return f"#{self._attribute_groups.setdefault(attributes, len(self._attribute_groups))}"

    def is_defined(self, name: str) -> bool:
        """Whether a function of this name has been defined (begun) in the module."""
        return name in self._defined

    def add_function(self, function: Function) -> None:
        """Register a function; called by `Function` itself."""
        if function.name in self._defined:
            raise ValueError(f"function {function.name} is defined twice")
        self._defined.add(function.name)
        self._functions.append(function)

    def render(self) -> str:
        """Return the whole module as LLVM assembly."""
        functions = [function.render() for function in self._functions]
        declarations = [text for name, text in self._declarations.items() if name not in self._defined]
        parts = [f'source_filename = "{self.name}"', *self._globals.values(), *declarations, *functions]
        parts += [f"attributes #{number} = {{ {text} }}" for text, number in self._attribute_groups.items()]
        parts += [f"!{number} = {node}" for node, number in self._metadata.items()]
        return "\n".join(parts) + "\n"


class Loop:
    """A loop inside its `with` block: `index`, `carried`, and after it `results`.

    Attributes:
        index: The induction variable.
        carried: The carried values as they are at the start of an iteration.
        results: After the block: the carried values after the last iteration (the initial ones for zero trips).
    """

    def __init__(self, index: str, carried: tuple[str, ...]) -> None:
        self.index = index
        self.carried = carried
        self.results: tuple[str, ...] = ()
        self._next: tuple[str, ...] | None = None

    def next(self, *values: Operand) -> None:
        """Set the carried values of the next iteration; must be called once when anything is carried."""
        if len(values) != len(self.carried):
            raise ValueError(f"the loop carries {len(self.carried)} values, {len(values)} were given")
        self._next = tuple(operand_text(value) for value in values)

    def next_values(self) -> tuple[str, ...]:
        """The values given to `next`."""
        if self._next is None:
            if self.carried:
                raise ValueError("a loop with carried values needs a call of next()")
            return ()
        return self._next


class Branch:
    """A two-way branch whose arms may hand values to a merge point.

    Used as `with function.if_else(c) as branch:` around `with branch.then():` and `with branch.otherwise():`;
    each arm calls `merge(...)`, and after the outer block `results` holds the merged values.
    """

    def __init__(self, function: Function, types: tuple[str, ...], labels: tuple[str, str, str]) -> None:
        self._function = function
        self._types = types
        self._then_label, self._else_label, self._join_label = labels
        self._incoming: list[tuple[tuple[str, ...], str]] = []
        self._given: tuple[str, ...] | None = None
        self._arms: list[str] = []
        self.results: tuple[str, ...] = ()

    def merge(self, *values: Operand) -> None:
        """Hand the values of this arm to the merge point."""
        if len(values) != len(self._types):
            raise ValueError(f"the branch merges {len(self._types)} values, {len(values)} were given")
        self._given = tuple(operand_text(value) for value in values)

    @contextmanager
    def then(self) -> Iterator[None]:
        """Emit the arm taken when the condition holds."""
        with self._arm(self._then_label):
            yield

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Emit the arm taken when the condition does not hold."""
        with self._arm(self._else_label):
            yield

    @contextmanager
    def _arm(self, label: str) -> Iterator[None]:
        self._given = None
        self._arms.append(label)
        self._function.label(label)
        yield
        if self._function.terminated:
            return
        self._incoming.append((self._given_values(), self._function.block))
        self._function.jump(self._join_label)

    def _given_values(self) -> tuple[str, ...]:
        """The values of the arm that just ended."""
        if self._given is not None:
            return self._given
        if self._types:
            raise ValueError("an arm of a merging branch needs a call of merge()")
        return ()

    def close(self) -> None:
        """Emit the merge point; called when the outer block ends."""
        if sorted(self._arms) != sorted((self._then_label, self._else_label)):
            raise ValueError("if_else needs exactly one then() and one otherwise()")
        self._function.label(self._join_label)
        if not self._incoming:
            self._function.emit("unreachable")
            self._function.terminated = True
            return
        merged = []
        for position, type_name in enumerate(self._types):
            sources = [(values[position], block) for values, block in self._incoming]
            merged.append(self._function.phi(type_name, sources))
        self.results = tuple(merged)


class OneSidedBranch:
    """A branch without an else arm; `merge` gives the values that replace the defaults when it is taken."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.given: tuple[str, ...] | None = None
        self.results: tuple[str, ...] = ()

    def merge(self, *values: Operand) -> None:
        """Hand the values of the taken arm to the merge point."""
        if len(values) != self._count:
            raise ValueError(f"the branch merges {self._count} values, {len(values)} were given")
        self.given = tuple(operand_text(value) for value in values)


class Function:
    """One function under construction; creating it registers it in the module.

    Args:
        module: The module that will contain the function.
        name: Symbol without `@`.
        params: `(type, name)` pairs; the type may carry parameter attributes (`"ptr noalias readonly"`). Parameter
            `n` is written `%n` in operands. Names of the form `v<digits>` are reserved.
        ret: Result type.
        linkage: For instance `"internal"`; empty means external.
        attributes: Function attributes; None takes the module's.
    """

    def __init__(
        self,
        module: ModuleText,
        name: str,
        params: Sequence[tuple[str, str]] = (),
        ret: str = "void",
        *,
        linkage: str = "",
        attributes: str | None = None,
    ) -> None:
        self.module = module
        self.name = name
        self.params = tuple(params)
        self.ret_type = ret
        self.linkage = linkage
        self.attributes = module.attributes if attributes is None else attributes
        self.block = "entry"
        self.terminated = False
        self._lines: list[str | list[str]] = []
        self._allocas: list[str] = []
        self._values = 0
        self._labels = 0
        for _, parameter in self.params:
            if parameter[:1] == "v" and parameter[1:].isdigit():
                raise ValueError(f"parameter name {parameter!r} is reserved for values")
        module.add_function(self)

    # -- plain emission --------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        """Append one instruction without a result."""
        self._lines.append(f"  {text}")

    def new_value(self) -> str:
        """Reserve a value name."""
        self._values += 1
        return f"%v{self._values}"

    def value(self, text: str) -> str:
        """Append one instruction and return the name of its result."""
        name = self.new_value()
        self._lines.append(f"  {name} = {text}")
        return name

    def new_label(self, hint: str = "b") -> str:
        """Reserve a block label."""
        self._labels += 1
        return f"{hint}.{self._labels}"

    def label(self, label: str) -> None:
        """Start the block `label`; the block before it must have ended with a terminator."""
        self._lines.append(f"{label}:")
        self.block = label
        self.terminated = False

    def jump(self, label: str) -> None:
        """End the block with an unconditional branch."""
        self.emit(f"br label %{label}")
        self.terminated = True

    def jump_if(self, condition: Operand, then: str, otherwise: str, weights: tuple[int, int] | None = None) -> None:
        """End the block with a conditional branch; `weights` are relative frequencies (then, otherwise)."""
        tail = f", !prof {self.module.branch_weights(*weights)}" if weights else ""
        self.emit(f"br i1 {operand_text(condition)}, label %{then}, label %{otherwise}{tail}")
        self.terminated = True

    def ret(self, value: Operand | None = None) -> None:
        """End the block by returning."""
        self.emit("ret void" if value is None else f"ret {self.ret_type} {operand_text(value)}")
        self.terminated = True

    def phi(self, type_name: str, sources: Sequence[tuple[Operand, str]]) -> str:
        """Emit a phi; `sources` are (value, predecessor label). Must stand at the start of a block."""
        arms = ", ".join(f"[ {operand_text(value)}, %{block} ]" for value, block in sources)
        return self.value(f"phi {type_name} {arms}")

    def render(self) -> str:
        """Return the function's definition."""
        if not self.terminated:
            raise ValueError(f"function {self.name}: block {self.block} has no terminator")
        params = ", ".join(f"{type_name} %{name}" for type_name, name in self.params)
        group = self.module.attribute_group(self.attributes)
        head = f"define {self.linkage} {self.ret_type} @{self.name}({params}) {group} {{"
        lines = [head, "entry:", *self._allocas]
        for line in self._lines:
            if isinstance(line, str):
                lines.append(line)
            else:
                lines.extend(line)
        lines.append("}")
        return "\n".join(lines)

    # -- integers --------------------------------------------------------------------------------------

    def _binary(self, op: str, a: Operand, b: Operand, type_name: str) -> Operand:
        return self.value(f"{op} {type_name} {operand_text(a)}, {operand_text(b)}")

    def add(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Return a + b (wrapping)."""
        if isinstance(a, int) and isinstance(b, int):
            return _wrap(a + b, type_name)
        if a == 0 and isinstance(a, int):
            return b
        if b == 0 and isinstance(b, int):
            return a
        return self._binary("add", a, b, type_name)

    def sub(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Return a - b (wrapping)."""
        if isinstance(a, int) and isinstance(b, int):
            return _wrap(a - b, type_name)
        if isinstance(b, int) and b == 0:
            return a
        return self._binary("sub", a, b, type_name)

    def mul(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Return a * b (wrapping)."""
        if isinstance(a, int) and isinstance(b, int):
            return _wrap(a * b, type_name)
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            if b == 0:
                return 0
            if b == 1:
                return a
        return self._binary("mul", a, b, type_name)

    def sdiv(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Return a / b towards zero; the caller excludes b = 0 and MIN / -1."""
        if isinstance(b, int):
            if isinstance(a, int) and b != 0:
                return _wrap(_truncated_quotient(a, b), type_name)
            if b == 1:
                return a
        return self._binary("sdiv", a, b, type_name)

    def srem(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Remainder of `sdiv`, with the sign of a."""
        if isinstance(b, int):
            if isinstance(a, int) and b != 0:
                return _wrap(a - b * _truncated_quotient(a, b), type_name)
            if b == 1:
                return 0
        return self._binary("srem", a, b, type_name)

    def udiv(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Return a / b, unsigned."""
        if isinstance(b, int):
            if isinstance(a, int) and b != 0:
                mask = (1 << int(type_name[1:])) - 1
                return _wrap((a & mask) // (b & mask), type_name)
            if b == 1:
                return a
        return self._binary("udiv", a, b, type_name)

    def urem(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Return a mod b, unsigned."""
        if isinstance(b, int):
            if isinstance(a, int) and b != 0:
                mask = (1 << int(type_name[1:])) - 1
                return _wrap((a & mask) % (b & mask), type_name)
            if b == 1:
                return 0
        return self._binary("urem", a, b, type_name)

    def ceil_div(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Least integer not below a / b, for a >= 0 and b > 0."""
        return self.udiv(self.add(a, self.sub(b, 1, type_name), type_name), b, type_name)

    def and_(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Bitwise and."""
        if isinstance(a, int) and isinstance(b, int):
            return a & b
        return self._binary("and", a, b, type_name)

    def or_(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Bitwise or."""
        if isinstance(a, int) and isinstance(b, int):
            return a | b
        return self._binary("or", a, b, type_name)

    def xor(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Bitwise exclusive or."""
        if isinstance(a, int) and isinstance(b, int):
            return a ^ b
        return self._binary("xor", a, b, type_name)

    def shl(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Return a << b, for 0 <= b < width."""
        if isinstance(a, int) and isinstance(b, int):
            return _wrap(a << b, type_name)
        if isinstance(b, int) and b == 0:
            return a
        return self._binary("shl", a, b, type_name)

    def lshr(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Return a >> b with zeros shifted in, for 0 <= b < width."""
        if isinstance(a, int) and isinstance(b, int):
            return _wrap((a & ((1 << int(type_name[1:])) - 1)) >> b, type_name)
        return self._binary("lshr", a, b, type_name)

    def ashr(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Return a >> b with the sign shifted in, for 0 <= b < width."""
        if isinstance(a, int) and isinstance(b, int):
            return a >> b
        return self._binary("ashr", a, b, type_name)

    def _extremum(self, op: str, a: Operand, b: Operand, type_name: str) -> Operand:
        if isinstance(a, int) and isinstance(b, int):
            if op[0] == "s":
                return min(a, b) if op == "smin" else max(a, b)
            mask = (1 << int(type_name[1:])) - 1
            pick = min if op == "umin" else max
            return pick(a, b, key=lambda number: number & mask)
        if a == b:
            return a
        return self.call(type_name, f"llvm.{op}.{type_name}", [(type_name, a), (type_name, b)])

    def smin(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Signed minimum."""
        return self._extremum("smin", a, b, type_name)

    def smax(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Signed maximum."""
        return self._extremum("smax", a, b, type_name)

    def umin(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Unsigned minimum."""
        return self._extremum("umin", a, b, type_name)

    def umax(self, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Unsigned maximum."""
        return self._extremum("umax", a, b, type_name)

    def icmp(self, predicate: str, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """Compare integers or pointers; two ints give a Python bool."""
        if isinstance(a, int) and isinstance(b, int):
            if predicate in _SIGNED_PREDICATES:
                return bool(_SIGNED_PREDICATES[predicate](a, b))
            mask = (1 << int(type_name[1:])) - 1
            return bool(_SIGNED_PREDICATES["s" + predicate[1:]](a & mask, b & mask))
        return self._binary(f"icmp {predicate}", a, b, type_name)

    def select(self, condition: Operand, a: Operand, b: Operand, type_name: str = "i64") -> Operand:
        """A if the condition holds, else b."""
        if isinstance(condition, int):
            return a if condition else b
        if a == b and isinstance(a, int) == isinstance(b, int):
            return a
        a_text, b_text = operand_text(a), operand_text(b)
        return self.value(f"select i1 {condition}, {type_name} {a_text}, {type_name} {b_text}")

    def not_(self, condition: Operand) -> Operand:
        """Negate an i1."""
        if isinstance(condition, int):
            return not condition
        return self._binary("xor", condition, True, "i1")

    def trunc(self, value: Operand, source: str, target: str) -> Operand:
        """Keep the low bits."""
        if isinstance(value, int):
            return _wrap(value, target)
        return self.value(f"trunc {source} {value} to {target}")

    def sext(self, value: Operand, source: str, target: str) -> Operand:
        """Widen, keeping the signed value."""
        if isinstance(value, int):
            return value
        return self.value(f"sext {source} {value} to {target}")

    def zext(self, value: Operand, source: str, target: str) -> Operand:
        """Widen with zeros."""
        if isinstance(value, int):
            return value & ((1 << int(source[1:])) - 1)
        return self.value(f"zext {source} {value} to {target}")

    # -- memory ----------------------------------------------------------------------------------------

    def gep_bytes(self, pointer: str, offset: Operand) -> str:
        """Pointer plus a byte offset (i64)."""
        return self.gep("i8", pointer, offset)

    def gep(self, type_name: str, pointer: str, index: Operand) -> str:
        """Pointer plus `index` elements (i64) of a type."""
        if isinstance(index, int) and index == 0:
            return pointer
        return self.value(f"getelementptr {type_name}, ptr {pointer}, i64 {operand_text(index)}")

    def load(self, type_name: str, pointer: str, align: int = 0) -> str:
        """Load one value; without `align` the type's natural alignment is assumed."""
        tail = f", align {align}" if align else ""
        return self.value(f"load {type_name}, ptr {pointer}{tail}")

    def store(self, type_name: str, value: Operand, pointer: str, align: int = 0) -> None:
        """Store one value; without `align` the type's natural alignment is assumed."""
        tail = f", align {align}" if align else ""
        self.emit(f"store {type_name} {operand_text(value)}, ptr {pointer}{tail}")

    def alloca(self, type_name: str, count: int = 1, align: int = 64) -> str:
        """Reserve stack space for `count` values in the entry block (once per call, also inside loops)."""
        name = self.new_value()
        self._allocas.append(f"  {name} = alloca {type_name}, i64 {count}, align {align}")
        return name

    def prefetch(self, pointer: str, *, locality: int = 3, write: bool = False) -> None:
        """Prefetch a data cache line; locality 3 keeps it in the nearest cache, 0 is non-temporal."""
        arguments: list[tuple[str, Operand]] = [
            ("ptr", pointer),
            ("i32", int(write)),
            ("i32", locality),
            ("i32", 1),
        ]
        self.call("void", "llvm.prefetch.p0", arguments)

    def opaque(self, type_name: str, value: Operand) -> str:
        """Hide a register value from the code generator's address rewriting (an empty inline assembly)."""
        return self.value(f'call {type_name} asm "", "=r,0"({type_name} {operand_text(value)})')

    def memory_barrier(self) -> None:
        """Keep the code generator from moving memory accesses across this point; no instruction results."""
        self.emit('call void asm sideeffect "", "~{memory}"()')

    # -- calls -----------------------------------------------------------------------------------------

    def call(
        self,
        ret: str,
        name: str,
        arguments: Sequence[tuple[str, Operand]],
        *,
        flags: str = "",
        attributes: str = "",
    ) -> str:
        """Call a function by name, declaring it when the module does not define it.

        Args:
            ret: Result type.
            name: Symbol or intrinsic name without `@`.
            arguments: `(type, value)` pairs; a type may carry attributes (`"ptr align 4"`).
            flags: Fast-math flags, for instance `"reassoc"`.
            attributes: Call-site attributes.

        Returns:
            The result's name; `""` for void.
        """
        if not self.module.is_defined(name):
            self.module.declare(
                name,
                ret,
                [type_name.split(" ")[0] if type_name.startswith("ptr") else type_name for type_name, _ in arguments],
            )
        return self.call_pointer(ret, f"@{name}", arguments, flags=flags, attributes=attributes)

    def call_pointer(
        self,
        ret: str,
        callee: str,
        arguments: Sequence[tuple[str, Operand]],
        *,
        flags: str = "",
        attributes: str = "",
    ) -> str:
        """Call through a function pointer value or an `@symbol` that is declared elsewhere."""
        inner = ", ".join(f"{type_name} {operand_text(value)}" for type_name, value in arguments)
        prefix = f"call {flags} " if flags else "call "
        text = f"{prefix}{ret} {callee}({inner}) {attributes}".rstrip()
        if ret == "void":
            self.emit(text)
            return ""
        return self.value(text)

    # -- control flow ----------------------------------------------------------------------------------

    @contextmanager
    def loop(
        self,
        start: Operand,
        end: Operand,
        step: Operand = 1,
        carried: Sequence[tuple[str, Operand]] = (),
        *,
        type_name: str = "i64",
    ) -> Iterator[Loop]:
        """Emit `for index in start, start + step, … while index < end`.

        The loop is guarded and tested at the bottom. A negative literal step counts down while index > end.
        `end + step` must not overflow.

        Args:
            start: First index.
            end: Bound, excluded.
            step: Increment, not zero; a value (not a literal) is taken to be positive.
            carried: `(type, initial value)` of the values carried from iteration to iteration.
            type_name: Integer type of the index.

        Yields:
            The loop; its `next` must be called when anything is carried, and `results` is set after the block.
        """
        predicate = "sgt" if isinstance(step, int) and step < 0 else "slt"
        body, after = self.new_label("loop"), self.new_label("done")
        entered = self.icmp(predicate, start, end, type_name)
        always = entered is True
        before = self.block
        if always:
            self.jump(body)
        else:
            self.jump_if(entered, body, after)
        self.label(body)
        phis: list[str] = []
        self._lines.append(phis)
        loop = Loop(self.new_value(), tuple(self.new_value() for _ in carried))
        yield loop
        if self.terminated:
            raise ValueError("the body of a loop must not end its last block")
        following = loop.next_values()
        index_next = self.value(f"add nsw {type_name} {loop.index}, {operand_text(step)}")
        again = self.icmp(predicate, index_next, end, type_name)
        latch = self.block
        self.jump_if(again, body, after)
        phis.append(
            f"  {loop.index} = phi {type_name} [ {operand_text(start)}, %{before} ], [ {index_next}, %{latch} ]"
        )
        for name, (kind, initial), value in zip(loop.carried, carried, following, strict=True):
            phis.append(f"  {name} = phi {kind} [ {operand_text(initial)}, %{before} ], [ {value}, %{latch} ]")
        self.label(after)
        if always:
            loop.results = following
            return
        merged = []
        for (kind, initial), value in zip(carried, following, strict=True):
            merged.append(self.phi(kind, [(initial, before), (value, latch)]))
        loop.results = tuple(merged)

    @contextmanager
    def if_(
        self, condition: Operand, merge: Sequence[tuple[str, Operand]] = (), *, cold: bool = False
    ) -> Iterator[OneSidedBranch]:
        """Emit a block that runs when the condition holds.

        Args:
            condition: An i1.
            merge: `(type, value when not taken)`; the block calls `merge(...)` and `results` has the merged values.
            cold: Mark the block as rarely taken.
        """
        then, after = self.new_label("then"), self.new_label("endif")
        before = self.block
        self.jump_if(condition, then, after, (1, 10000) if cold else None)
        self.label(then)
        branch = OneSidedBranch(len(merge))
        yield branch
        ended, last = self.terminated, self.block
        if not ended:
            if merge and branch.given is None:
                raise ValueError("a merging if_ needs a call of merge()")
            self.jump(after)
        self.label(after)
        if ended:
            branch.results = tuple(operand_text(value) for _, value in merge)
            return
        taken = branch.given or ()
        merged = []
        for (type_name, value), replacement in zip(merge, taken, strict=True):
            merged.append(self.phi(type_name, [(value, before), (replacement, last)]))
        branch.results = tuple(merged)

    @contextmanager
    def if_else(
        self, condition: Operand, types: Sequence[str] = (), *, weights: tuple[int, int] | None = None
    ) -> Iterator[Branch]:
        """Emit a two-way branch; see `Branch`. `types` are those of the merged values."""
        labels = (self.new_label("then"), self.new_label("else"), self.new_label("endif"))
        self.jump_if(condition, labels[0], labels[1], weights)
        branch = Branch(self, tuple(types), labels)
        yield branch
        branch.close()
