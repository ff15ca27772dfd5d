"""From the analysis to the types of the protocol: positions, ranges, diagnostics, kinds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from lsprotocol import types as lsp

from rlxlang.diagnostics import Diagnostic, Frame, Source, Span
from rlxlang.resources import error_page_file
from rlxlang.tools.lsp.analysis import Document
from rlxlang.tools.lsp.complete import Completion
from rlxlang.tools.lsp.outline import Symbol
from rlxlang.tools.lsp.positions import Encoding, Lines
from rlxlang.tools.lsp.workspace import key_of

# Missing values are given when the model is loaded, so an editor can only remark on them.
_GIVEN_LATER = frozenset({"E0215", "E0353"})
_FADED = frozenset({"W0902"})
_MOST_RELATED = 20

_COMPLETION_KINDS = {
    "value": lsp.CompletionItemKind.Variable,
    "config": lsp.CompletionItemKind.Constant,
    "param": lsp.CompletionItemKind.Variable,
    "input": lsp.CompletionItemKind.Variable,
    "fn": lsp.CompletionItemKind.Function,
    "block": lsp.CompletionItemKind.Class,
    "op": lsp.CompletionItemKind.Function,
    "option": lsp.CompletionItemKind.Property,
    "keyword": lsp.CompletionItemKind.Keyword,
    "dtype": lsp.CompletionItemKind.Struct,
    "type": lsp.CompletionItemKind.Struct,
    "module": lsp.CompletionItemKind.Module,
    "constant": lsp.CompletionItemKind.EnumMember,
    "initializer": lsp.CompletionItemKind.Function,
    "axis": lsp.CompletionItemKind.TypeParameter,
    "field": lsp.CompletionItemKind.Field,
    "file": lsp.CompletionItemKind.File,
}
_SYMBOL_KINDS = {
    "graph": lsp.SymbolKind.Module,
    "config": lsp.SymbolKind.Constant,
    "const": lsp.SymbolKind.Constant,
    "input": lsp.SymbolKind.Interface,
    "param": lsp.SymbolKind.Field,
    "bind": lsp.SymbolKind.Field,
    "fn": lsp.SymbolKind.Function,
    "block": lsp.SymbolKind.Class,
    "rule": lsp.SymbolKind.Method,
    "out": lsp.SymbolKind.Event,
}


def page_of(code: str) -> lsp.CodeDescription | None:
    """The page about a code."""
    page = error_page_file(code)
    return lsp.CodeDescription(page.as_uri()) if page is not None else None


def path_of(uri: str) -> str:
    """The file of a URI; for a text that is no file the URI as if it were the name of one."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return key_of(uri)
    return key_of(url2pathname(f"//{parts.netloc}{parts.path}" if parts.netloc else parts.path))


@dataclass(eq=False)
class Converter:
    """Converts places of texts.

    Attributes:
        encoding: The units of characters that client and server have agreed on.
        uris: How the client writes the URIs of the texts that it has opened, by path.
    """

    encoding: Encoding = "utf-16"
    uris: dict[str, str] = field(default_factory=dict)
    _lines: dict[str, Lines] = field(default_factory=dict)

    def uri(self, path: str) -> str:
        """The URI of a text."""
        found = self.uris.get(path)
        if found is None:
            found = Path(path).as_uri() if Path(path).is_absolute() else path
        return found

    def lines(self, name: str, text: str) -> Lines:
        """The lines of a text; those of the last version of each text are kept."""
        found = self._lines.get(name)
        if found is None or found.encoding != self.encoding or (found.text is not text and found.text != text):
            found = self._lines[name] = Lines(text, self.encoding)
        return found

    def offset(self, document: Document, position: lsp.Position) -> int:
        """The offset of a position in a document."""
        return self.lines(document.path, document.text).offset(position.line, position.character)

    def position(self, source: Source, offset: int) -> lsp.Position:
        """The position of an offset."""
        return lsp.Position(*self.lines(source.name, source.text).position(offset))

    def range(self, span: Span) -> lsp.Range:
        """The range of a span."""
        return lsp.Range(self.position(span.source, span.start), self.position(span.source, span.end))

    def location(self, span: Span) -> lsp.Location:
        """The place of a span, with its text."""
        return lsp.Location(self.uri(span.source.name), self.range(span))

    # ------------------------------------------------------------------ diagnostics
    def diagnostics(self, document: Document, found: Iterable[Diagnostic]) -> list[lsp.Diagnostic]:
        """Diagnostics of a document, in order."""
        return [self.diagnostic(document, diagnostic) for diagnostic in found]

    def diagnostic(self, document: Document, diagnostic: Diagnostic) -> lsp.Diagnostic:
        """One diagnostic; what lies in another text is shown at the call or `use` that leads there."""
        place = self._place(document, diagnostic)
        related: list[lsp.DiagnosticRelatedInformation] = []
        for label in diagnostic.labels:
            if label.span != place:
                text = label.text or (diagnostic.message if label.primary else "see here")
                related.append(lsp.DiagnosticRelatedInformation(self.location(label.span), text))
        related += [self._frame(frame) for frame in diagnostic.chain if frame.span != place]
        own = next((label.text for label in diagnostic.labels if label.span == place and label.text), "")
        message = "\n".join(
            [
                diagnostic.message + (f": {own}" if own else ""),
                *(f"note: {note}" for note in diagnostic.notes if note),
                *(f"help: {line}" for line in diagnostic.helps if line),
            ]
        )
        severity = lsp.DiagnosticSeverity.Error if diagnostic.is_error else lsp.DiagnosticSeverity.Warning
        if diagnostic.code in _GIVEN_LATER:
            severity = lsp.DiagnosticSeverity.Information
        return lsp.Diagnostic(
            range=self.range(place),
            message=message,
            severity=severity,
            code=diagnostic.code,
            code_description=page_of(diagnostic.code),
            source="rlx",
            tags=[lsp.DiagnosticTag.Unnecessary] if diagnostic.code in _FADED else None,
            related_information=related[:_MOST_RELATED] or None,
        )

    def _frame(self, frame: Frame) -> lsp.DiagnosticRelatedInformation:
        return lsp.DiagnosticRelatedInformation(self.location(frame.span), frame.text)

    def _place(self, document: Document, diagnostic: Diagnostic) -> Span:
        spans = [label.span for label in (diagnostic.primary, *diagnostic.labels) if label is not None]
        for span in (*spans, *(frame.span for frame in diagnostic.chain)):
            if span.source.name == document.path:
                return span
        return Span(source=document.source, start=0, end=min(len(document.text), 1))

    # ------------------------------------------------------------------ items
    def completion(
        self, document: Document, completion: Completion, place: lsp.Range, snippets: bool
    ) -> lsp.CompletionItem:
        """A proposal that replaces `place`."""
        text = completion.insert or completion.label
        is_snippet = completion.snippet and snippets
        if completion.snippet and not snippets:
            text = completion.label
        return lsp.CompletionItem(
            label=completion.label,
            kind=_COMPLETION_KINDS[completion.kind],
            detail=completion.detail or None,
            documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, completion.doc) if completion.doc else None,
            sort_text=f"{completion.rank:02d}{completion.label}",
            filter_text=completion.label,
            insert_text_format=lsp.InsertTextFormat.Snippet if is_snippet else lsp.InsertTextFormat.PlainText,
            text_edit=lsp.TextEdit(place, text),
        )

    def symbol(self, root: Symbol) -> lsp.DocumentSymbol:
        """An entry of the outline with those below it."""
        return lsp.DocumentSymbol(
            name=root.label,
            detail=root.detail or None,
            kind=_SYMBOL_KINDS.get(root.kind, lsp.SymbolKind.Variable),
            range=self.range(root.whole),
            selection_range=self.range(root.name),
            children=[self.symbol(child) for child in root.children],
        )
