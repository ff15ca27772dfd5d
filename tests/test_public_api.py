"""The public names and their signatures, as a reviewed snapshot."""

from __future__ import annotations

import ast
import enum
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rlxlang

ROOT = Path(__file__).resolve().parents[1]


def type_checking_names() -> set[str]:
    """Return the names that the TYPE_CHECKING block shows to a type checker."""
    tree = ast.parse((ROOT / "rlxlang" / "__init__.py").read_text("utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imported = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imported for alias in node.names}


def test_the_three_lists_agree() -> None:
    assert set(rlxlang.__all__) == set(rlxlang._EXPORTS) | {"__version__"}
    assert type_checking_names() == set(rlxlang._EXPORTS)


def test_no_function_is_hidden_by_a_module_of_its_name() -> None:
    # Importing rlxlang.x binds the module to the attribute x of the package.
    files = {path.stem for path in (ROOT / "rlxlang").iterdir() if not path.stem.startswith("_")}
    functions = {name for name, target in rlxlang._EXPORTS.items() if ":" in target}
    assert not files & functions


@pytest.mark.parametrize("name", sorted(rlxlang._EXPORTS))
def test_public_name_resolves(name: str) -> None:
    assert getattr(rlxlang, name) is not None
    assert name in dir(rlxlang)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        rlxlang.no_such_name  # noqa: B018


def test_snapshot(golden: Callable[[str, str], None]) -> None:
    names = sorted(rlxlang.__all__)
    golden("public_api.txt", "".join(f"{line}\n" for name in names for line in described(name)))


def described(name: str) -> Iterator[str]:
    """Yield a line for a public name and one for each public member of a class."""
    value = getattr(rlxlang, name)
    if inspect.ismodule(value):
        members = sorted(getattr(value, "__all__", []))
        yield f"{name}: module"
        for member in members:
            yield f"  {member}{signature(getattr(value, member))}"
    elif inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__)
        yield f"{name}({bases}){'' if issubclass(value, enum.Enum) else signature(value)}"
        members = {}
        for base in reversed(value.__mro__):
            if base.__module__.startswith("rlxlang"):
                members |= vars(base)
        for member, static in sorted(members.items()):
            if not member.startswith("_"):
                yield f"  .{member}{signature(static)}"
    elif callable(value):
        yield f"{name}{signature(value)}"
    else:
        yield name


def signature(value: object) -> str:
    """Return `` (arguments) -> result`` of a callable, and nothing for anything else."""
    inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if not callable(inner):
        return ""
    try:
        return str(inspect.signature(inner))
    except ValueError:
        return "(...)"
