"""Do the tests notice a wrong rule? Delete or negate one term of a derivative or batching rule and see whether they fail.

`python tools/mutate_rules.py --count 100 --seed 0` takes a random hundred of all such changes, one after the other, in a copy of the
tree, and lists those that no test noticed. It takes about a quarter of a minute for each that is noticed, a minute for others.
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = (
    "rlxlang",
    "backends",
    "grammar",
    "stdlib",
    "tests",
    "examples",
    "pyproject.toml",
    "tools",
    "docs",
    "README.md",
)
TESTS = ("tests/conformance", "tests/transforms", "tests/ops")
_RULE = ("jvp", "vjp", "batch", "gradient", "slope", "tangent", "partial", "pull")


@dataclass(frozen=True)
class Mutation:
    """One change of a text: characters `start` to `end` of a file become `text`."""

    file: Path
    line: int
    start: int
    end: int
    text: str
    what: str

    def apply(self, tree: Path) -> str:
        """Write the changed file below `tree`; returns what was there."""
        path = tree / self.file.relative_to(ROOT)
        before = path.read_text("utf-8")
        path.write_text(before[: self.start] + self.text + before[self.end :], "utf-8")
        return before


def mutations(file: Path) -> Iterator[Mutation]:
    """All changes of the rules in a file."""
    source = file.read_text("utf-8")
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    raw = source.encode()

    def place(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        return len(raw[:first].decode()), len(raw[:last].decode())

    for rule in _rules(ast.parse(source)):
        for node in ast.walk(rule):
            if not isinstance(node, ast.Call) or not _is_emit(node.func):
                continue
            start, end = place(node)
            name = ast.unparse(node.func)
            shown = " ".join(source[start:end].split())
            if name in ("emit.add", "emit.sub") and len(node.args) == 3:
                for kept in node.args[1 : 3 if name == "emit.add" else 2]:
                    low, high = place(kept)
                    text = source[low:high]
                    yield Mutation(file, node.lineno, start, end, text, f"{shown}  ->  {' '.join(text.split())}")
            elif name in ("emit.mul", "emit.div", "emit.neg", "emit.dot", "emit.reduce_sum", "emit.scale", "emit.take"):
                yield Mutation(file, node.lineno, start, end, f"emit.neg(b, {source[start:end]})", f"{shown}  ->  -(…)")


def _rules(tree: ast.Module) -> Iterator[ast.AST]:
    """Functions that are rules or parts of rules, by their names, and functions without a name that take a builder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if any(word in node.name for word in _RULE) and node.args.args and node.args.args[0].arg == "b":
                yield node
        elif isinstance(node, ast.Lambda) and node.args.args and node.args.args[0].arg == "b":
            yield node


def _is_emit(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "emit"


def ops_of(file: Path) -> list[str]:
    """The names of the rows that a file adds to the table, as far as they are written there."""
    calls = (n for n in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(n, ast.Call) and n.args)
    names = [c.args[0].value for c in calls if isinstance(c.args[0], ast.Constant) and not _is_emit(c.func)]
    return sorted({n for n in names if isinstance(n, str) and n.isidentifier()})


def is_noticed(tree: Path, tests: tuple[str, ...], ops: list[str]) -> bool:
    """Whether a test fails in the copy of the tree; those of `ops` are asked first."""
    return (bool(ops) and _fails(tree, ("tests/conformance", "-k", " or ".join(ops)))) or _fails(tree, tests)


def _fails(tree: Path, tests: tuple[str, ...]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode not in (0, 1, 2, 5):
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.returncode in (1, 2)


def main() -> int:
    """Run; the exit code is 1 when a change was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many changes to try (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: 0)")
    parser.add_argument("--file", help="only changes of this file, `softmax.py`")
    parser.add_argument("--list", action="store_true", help="list the changes and run nothing")
    options = parser.parse_args()
    files = sorted((ROOT / "rlxlang" / "ops").glob("*.py"))
    found = list(dict.fromkeys(m for f in files if options.file in (None, f.name) for m in mutations(f)))
    random.Random(options.seed).shuffle(found)
    chosen = found[: options.count]
    if options.list:
        for m in chosen:
            print(f"{m.file.relative_to(ROOT)}:{m.line}: {m.what}")
        print(f"{len(chosen)} of {len(found)}")
        return 0
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in PARTS:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
            copy(ROOT / part, tree / part)
        if is_noticed(tree, TESTS, []):
            print("the tests fail without any change")
            return 1
        for number, m in enumerate(chosen, 1):
            before = m.apply(tree)
            noticed = is_noticed(tree, TESTS, ops_of(m.file))
            (tree / m.file.relative_to(ROOT)).write_text(before, "utf-8")
            print(f"{number:4} {'noticed ' if noticed else 'SURVIVED'} {m.file.name}:{m.line}: {m.what}", flush=True)
            if not noticed:
                survivors.append(m)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
