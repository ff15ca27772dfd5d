"""The texts of a session: open buffers before files, their analyses, and names that lead from one text to another."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.resources import stdlib_modules
from rlxlang.tools.lsp.analysis import Analysis, Document, ReadFile, analyse
from rlxlang.tools.lsp.index import EXPORTED, FUNCTIONS, Definition, Use

_MOST_FILES = 2000  # below the folders of a workspace that are searched for references
_DECLARED = ("fn", "block", "config", "const", "input", "param", "bind")


@dataclass(eq=False)
class Workspace:
    """Documents by path.

    Attributes:
        folders: Where references from files that are not open are looked for.
    """

    folders: list[Path] = field(default_factory=list)
    _open: dict[str, str] = field(default_factory=dict)
    _documents: dict[str, Document] = field(default_factory=dict)
    _analyses: dict[str, Analysis] = field(default_factory=dict)
    _still: dict[str, Document | None] | None = None

    # ------------------------------------------------------------------ texts
    def open(self, path: str, text: str) -> None:
        """Show a text in place of the file, or a new version of it."""
        self._open[key_of(path)] = text

    def close(self, path: str) -> None:
        """Show the file again."""
        self._open.pop(key_of(path), None)

    def is_open(self, path: str) -> bool:
        """Whether a text is shown in place of the file."""
        return key_of(path) in self._open

    @property
    def open_paths(self) -> list[str]:
        """The texts that are shown."""
        return list(self._open)

    def read(self, path: Path) -> str:
        """The text of a file as the user sees it.

        Raises:
            OSError: It cannot be read.
            UnicodeDecodeError: It is not UTF-8.
        """
        text = self._open.get(key_of(str(path)))
        return path.read_bytes().decode("utf-8") if text is None else text

    @contextmanager
    def still(self) -> Iterator[None]:
        """Inside, every text is looked at once: for questions that ask for the same few again and again."""
        if self._still is not None:
            yield
            return
        self._still = {}
        try:
            yield
        finally:
            self._still = None

    def document(self, path: str) -> Document | None:
        """The present state of a text; None when it cannot be read."""
        if self._still is None:
            return self._document(path)
        if path not in self._still:
            self._still[path] = self._document(path)
        return self._still[path]

    def _document(self, path: str) -> Document | None:
        key = key_of(path)
        try:
            text = self.read(Path(key))
        except (OSError, ValueError):  # UnicodeDecodeError is a ValueError, a name with a zero byte raises one
            return None
        found = self._documents.get(key)
        if found is None or found.text != text:
            found = self._documents[key] = Document(key, text)
        return found

    def analysis(self, path: str) -> Analysis | None:
        """The analysis of the present state of a text, made when there is none; None when it cannot be read."""
        ready = self.ready(path)
        if ready is not None:
            return ready
        document = self.document(path)
        return None if document is None else self.analyse(document)

    def ready(self, path: str) -> Analysis | None:
        """The analysis of the present state of a text if there is one; looks at the files that it uses, too."""
        document = self.document(path)
        found = None if document is None else self._analyses.get(key_of(path))
        if found is None or found.document is not document:
            return None
        return found if all(self._same(used, text) for used, text in found.used.items()) else None

    def latest(self, path: str) -> Analysis | None:
        """The last analysis of a text, perhaps of an earlier version."""
        return self._analyses.get(key_of(path))

    def analyse(self, document: Document, cancelled: threading.Event | None = None) -> Analysis:
        """Analyse a document and keep the result.

        Raises:
            Stopped: `cancelled` was set.
        """
        reader: ReadFile = self.read
        found = analyse(document, reader, cancelled=cancelled)
        self._analyses[document.path] = found
        return found

    def users(self, path: str) -> list[str]:
        """Open texts whose last analysis read a file."""
        key = key_of(path)
        return [p for p in self._open if p != key and (a := self._analyses.get(p)) is not None and key in a.used]

    def _same(self, path: str, text: str | None) -> bool:
        try:
            return self.read(Path(path)) == text
        except (OSError, ValueError):
            return text is None

    def known_paths(self) -> Iterable[str]:
        """Open texts and the files below the folders of the workspace."""
        found = dict.fromkeys(self._open)
        count = 0
        for folder in self.folders:
            for file in folder.rglob("*.rlx"):
                count += 1
                if count > _MOST_FILES:
                    return found
                found[key_of(str(file))] = None
        return found

    # ------------------------------------------------------------------ from text to text
    def target(self, target: ast.Ref | ast.Str | None, user: str) -> str | None:
        """The file that a `use` statement of the text `user` means; None when there is none."""
        if isinstance(target, ast.Str):
            try:
                return os.path.normpath(Path(user).parent / target.value)
            except (OSError, ValueError):
                return None
        if target is None or target.text not in stdlib_modules():
            return None
        return str(files("rlxlang.stdlib") / f"{target.text}.rlx")

    def exports(self, target: ast.Ref | ast.Str | None, user: str) -> dict[str, Definition]:
        """What a module offers, by name."""
        path = self.target(target, user)
        document = None if path is None else self.document(path)
        return {} if document is None else document.index.exports()

    def resolve(self, occurrence: Definition | Use, document: Document) -> list[Definition]:
        """The definitions that an occurrence of a document stands for, in whatever text they are.

        An imported name leads to its definition, or to the `use` statement when that cannot be found.
        """
        if isinstance(occurrence, Definition):
            return self._imported(occurrence, document)
        if occurrence.found:
            found: dict[Definition, None] = {}
            for definition in occurrence.found:
                found |= dict.fromkeys(self._imported(definition, document))
            return list(found)
        if occurrence.role in ("value", "function"):
            return self._from_wildcards(occurrence, document)
        return self._member(occurrence, document)

    def _imported(self, definition: Definition, document: Document) -> list[Definition]:
        if definition.kind != "import":
            return [definition]
        outside = self.exports(definition.target, document.path).get(definition.item)
        return [definition if outside is None else outside]

    def _from_wildcards(self, use: Use, document: Document) -> list[Definition]:
        for target in document.index.wildcards:
            found = self.exports(target, document.path).get(use.name)
            if found is not None and (found.kind in FUNCTIONS) == (use.role == "function"):
                return [found]
        return []

    def _member(self, use: Use, document: Document) -> list[Definition]:
        """An item of a module, a parameter of a function, a field of an instance."""
        base = use.base
        if base is None:
            return []
        if use.role == "item":
            module = base.base if isinstance(base, Use) and isinstance(base.base, Definition) else base
            modules = [module] if isinstance(module, Definition) else list(module.found)
            found = [self.exports(m.target, document.path).get(use.name) for m in modules]
            return [d for d in found if d is not None]
        for definition in self.resolve(base, document):
            owner = self.owner_document(definition) or document
            callee = [definition]
            if definition.kind == "instance":
                callee = [] if definition.callee is None else self.resolve(definition.callee, owner)
            for function in callee:
                table = function.formals if use.role in ("argument", "option") else function.fields
                if use.name in table:
                    return [table[use.name]]
        return []

    def function(self, document: Document, path: tuple[str, ...]) -> Definition | None:
        """The fn or block that a call of a path means; None for ops and unknown names."""
        index, name = document.index, path[-1]
        if len(path) > 1:
            module = next((d for d in index.of_kind("module") if d.name == path[0]), None)
            found = None if module is None else self.exports(module.target, document.path).get(name)
            return found if found is not None and found.kind in FUNCTIONS else None
        own = [d for d in index.of_kind("fn", "block", "import") if d.name == name]
        if own:
            return next((d for d in self.resolve(own[0], document) if d.kind in FUNCTIONS), None)
        outside = (self.exports(target, document.path).get(name) for target in index.wildcards)
        return next((d for d in outside if d is not None and d.kind in FUNCTIONS), None)

    def owner_document(self, definition: Definition) -> Document | None:
        """The document whose text a definition stands in."""
        return self.document(definition.span.source.name)

    def symbols(self, wanted: str) -> list[Definition]:
        """What the known texts declare and define at top level and whose name holds some letters, by text and place."""
        found: list[Definition] = []
        for path in self.known_paths():
            document = self.document(path)
            if document is not None:
                top = (d for d in document.index.of_kind(*_DECLARED) if d.owner is None)
                found += [d for d in top if wanted.lower() in d.name.lower()]
        return found

    # ------------------------------------------------------------------ all places of a name
    def occurrences(self, occurrence: Definition | Use, document: Document) -> list[Span]:
        """Every place, in every known text, of the variable, function or axis that an occurrence stands for."""
        with self.still():
            return self._occurrences(occurrence, document)

    def _occurrences(self, occurrence: Definition | Use, document: Document) -> list[Span]:
        roots = self.resolve(occurrence, document)
        if not roots:
            return []
        spans: dict[tuple[str, int, int], Span] = {}
        for root in roots:
            home = self.owner_document(root)
            if home is None:
                continue
            for span in home.index.occurrences(root):
                spans[home.path, span.start, span.end] = span
            if _crosses(root):
                for path in self.known_paths():
                    other = self.document(path)
                    if other is not None and root.name in other.text:
                        for span in self._outside(root, other):
                            spans[path, span.start, span.end] = span
        return [spans[key] for key in sorted(spans)]

    def _outside(self, root: Definition, other: Document) -> Iterable[Span]:
        """Places of a text that mean a definition of another text."""
        for use in other.index.uses:
            if (use.name == root.name or use.role in ("value", "function")) and root in self.resolve(use, other):
                yield use.span
        for definition in other.index.of_kind("import"):
            if self.resolve(definition, other) == [root]:
                yield definition.span


def key_of(path: str) -> str:
    """One spelling for every way to write a path."""
    try:
        return str(Path(path).resolve())
    except (OSError, ValueError, RuntimeError):
        return path


def _crosses(definition: Definition) -> bool:
    """Whether other texts can mean a definition: what is exported, and the parameters and fields of functions."""
    if definition.owner is None:
        return definition.kind in EXPORTED
    return definition.owner.owner is None and definition.kind in ("formal", "param", "const", "instance")
