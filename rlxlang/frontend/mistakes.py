"""Mistakes that are made often, as people bring them from other languages, and what is written here."""

from __future__ import annotations

from typing import NamedTuple

# Words that begin a statement in other languages.
FOREIGN_STATEMENTS = {
    "def": "a function is written `fn f(x) { … }`",
    "func": "a function is written `fn f(x) { … }`",
    "function": "a function is written `fn f(x) { … }`",
    "class": "there are no classes; see `block`",
    "struct": "there are no structs; see `block`",
    "for": "loops are `repeat`, `scan` and `loop`",
    "while": "a while loop is written `loop h = h0 while cond max 100 { … }`",
    "import": "write `use nn;`",
    "from": "write `use nn::{dense};`",
    "else": "`else` must follow the `}` of an `if`",
    "elif": "write `else if` after the `}` of an `if`",
    "var": "write `let`",
    "mut": "every `let` may be bound again",
    "pub": "everything is public",
    "static": "write `const` or `config`",
    "lambda": "there are no closures; write a `fn`",
    "module": "a file is a module",
    "mod": "a file is a module",
    "assert": "sizes are checked by the declared shapes",
    "print": "write `tap y;` to see a value",
}


# Words between operands that are operators in other languages.
FOREIGN_OPERATORS = {"and": "write `&`; comparisons bind tighter", "or": "write `|`; comparisons bind tighter"}


class Mistake(NamedTuple):
    """A mistake told by examples, each of which a parser refuses at the same place.

    Attributes:
        code: Of its diagnostic.
        message: What is wrong.
        help: What is written instead; may be empty.
        examples: Statements with it.
    """

    code: str
    message: str
    help: str
    examples: tuple[str, ...]


MUT = "`let` has no `mut`: every name may be bound again"
COLON = "`:` is missing between the name and the shape"
EXPRESSION = "expected an expression"
OPTION = "an option is written with `:`"
CONDITIONAL = Mistake(
    "E0112",
    "there is no conditional expression",
    "write `where(c, a, b)`, or an `if` statement",
    (
        "let a = b if c else d;",
        "let a = (b if c else d);",
    ),
)
MISTAKES = (
    Mistake(
        "E0111",
        "`&&` is not an operator",
        "write `&`",
        ("let a = b && c;", "let a = (b && c);", "let a = f(b && c);", "repeat b && c {}"),
    ),
    Mistake("E0111", "`||` is not an operator", "write `|`", ("let a = b || c;", "let a = f(b || c);")),
    CONDITIONAL,
    Mistake(
        "E0112",
        "there are no comprehensions",
        "elements are listed, `[a, b]`; a computation is repeated by `repeat` or `scan`",
        ("let a = [b for c in d];", "let a = [f(b) for c in d];", "let a = f(b for c in d);"),
    ),
    Mistake(
        "E0112",
        "there is no assignment operator",
        "write `let h = h + …;`",
        ("let a += 1;", "let a -= 1;", "let a *= 1;", "let a /= 1;", "let a **= 1;", "let a @= b;"),
    ),
    Mistake(
        "E0101",
        "the body of a `fn` stands in braces",
        "write `fn f(x) { return …; }`",
        ("fn f(x) = x;", "fn f() = 1;", "fn f(x): x;", "fn f(x) => x;"),
    ),
    Mistake("E0112", "`=` does not compare", "write `==`", ("if a = b {}", "loop h = a while h = b {}")),
    Mistake(
        "E0112",
        "the arguments of a fn or block are fixed",
        "name each; one that may be missing has a default, `p = none`",
        ("fn f(*a) {}", "fn f(a, *b) {}", "fn f(**a) {}", "fn f(a, **b) {}"),
    ),
    Mistake(
        "E0112", "a shape stands in brackets", "write `[3, 4]`, a scalar is `[]`", ("input x: (3);", "param x: (3);")
    ),
    Mistake("E0112", MUT, "leave it out", ("let mut a = 1;",)),
    Mistake(
        "E0112",
        "`let` takes no type",
        "a cast is written `cast(x, F16)`",
        ("let a: F32 = 1;", "let a: [2] = b;"),
    ),
    Mistake("E0112", "several names stand in parentheses", "write `let (a, b) = …;`", ("let a, b = c;",)),
    Mistake("E0112", "the dtype stands at the end", "write `const x = 1.0 : F32;`", ("const x: F32 = 1.0;",)),
    Mistake(
        "E0121",
        COLON,
        "",
        (
            "input x [2];",
            "input x [2, 3];",
            "input x [?n, 3];",
            "input x [F32; 3];",
            "param w [2] = 1;",
            "param w [2, 3] = 1;",
        ),
    ),
    Mistake(
        "E0121",
        "a declaration has a shape",
        "write `: [dims]`, a scalar is `: []`",
        ("input x;", "param w;", "input x: 3;", "input x: F32;", "param w: F32;", "input x = 2;"),
    ),
    Mistake(
        "E0112",
        OPTION,
        "write `f(x, axis: 1)`",
        ("let a = f(axis=1);", "let a = x.f(axis=1);", "let a = f(x, axis=1);", "let a = x.f(1, axis=1);"),
    ),
    Mistake(
        "E0112",
        "a slice is written with `..`",
        "`x[1..5]`, with a step `x[0..10 by 2]`",
        ("let a = x[1:5];", "let a = x[:5];", "let a = x[:];", "let a = x[1, :];", "let a = x[1..2, :];"),
    ),
    Mistake(
        "E0111",
        "`&` and `~` are allowed only in front of an argument",
        "for `not` write `!`",
        ("let a = &b;", "let a = ~b;", "let a = (~b);", "let a = b + ~c;", "let a = b + &c;"),
    ),
    Mistake(
        "E0112",
        "the result type of a `fn` is inferred",
        "leave out `-> …`",
        ("fn f(x) -> T { }", "fn f() -> T {}"),
    ),
    Mistake("E0111", "`+` has no unary form", "leave it out", ("let a = +b;", "let a = b * +c;", "let a = b + +c;")),
    Mistake(
        "E0110",
        EXPRESSION,
        "",
        ("let a = ;", "let a = b + ;", "let a = (;", "let a = f(;", "let a = b * ;", "out a = ;"),
    ),
    Mistake(
        "E0110",
        "a loop needs a start value",
        "write `scan h = h0 …`",
        ("scan h over x in xs {}", "scan h for 3 {}", "loop h while a {}"),
    ),
    Mistake(
        "E0101",
        "an `if` has braces around its branches",
        "write `if c { … } else { … }`",
        ("if a let b = 1;", "if a { } else let b = 1;"),
    ),
    Mistake(
        "E0115",
        "`..` is not an expression; ranges belong in an index, an argument or `repeat`",
        "write the range where it is used, as in `x[1..4]`; a tensor of numbers is `arange(n)`",
        ("let a = 1..2;", "let a = b + 1 .. 2;"),
    ),
    Mistake(
        "E0101",
        "calling the result of a call is not possible",
        "bind it with `let`, then call a name",
        ("let a = f(x)(y);",),
    ),
    Mistake("E0101", "field or method name expected after `.`", "", ("let a = x.;", "let a = x.1;")),
)
# What stands before an example: a statement at the start, after another, in a body, in a body after another.
PREFIXES = ("", "let z = 1; ", "fn g(x) { ", "repeat 2 { let z = 1; ")
# Words that make a difference to what is meant.
TELLING_WORDS = frozenset({"mut", "if"})
