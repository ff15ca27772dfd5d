"""The requests that the server answers: each maps the protocol to the analysis, and its answer back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams

from rlxlang.diagnostics import InternalError, RlxError
from rlxlang.frontend.format import format_text
from rlxlang.tools.lsp.actions import repairs
from rlxlang.tools.lsp.analysis import Document
from rlxlang.tools.lsp.complete import complete
from rlxlang.tools.lsp.cursor import cursor_at
from rlxlang.tools.lsp.hints import hints
from rlxlang.tools.lsp.hover import hover
from rlxlang.tools.lsp.index import Definition
from rlxlang.tools.lsp.outline import around, folds, symbols
from rlxlang.tools.lsp.rename import Refused, renamable, rename
from rlxlang.tools.lsp.signatures import signature
from rlxlang.tools.lsp.tokens import MODIFIERS, TYPES, tokens
from rlxlang.tools.lsp.unknown import unknown_names

if TYPE_CHECKING:
    from rlxlang.tools.lsp.server import RlxServer

_MOST_SYMBOLS = 500  # of a workspace in one answer
_log = logging.getLogger(__name__)


def add_questions(server: RlxServer) -> None:
    """Register what asks about a text."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def on_hover(ls: RlxServer, params: lsp.HoverParams) -> lsp.Hover | None:
        analysis = await ls.analysis(params.text_document.uri)
        found = hover(ls.texts, analysis, ls.convert.offset(analysis.document, params.position))
        if found is None:
            return None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found.text), ls.convert.range(found.span))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def on_definition(ls: RlxServer, params: lsp.DefinitionParams) -> list[lsp.Location]:
        document = ls.document(params.text_document.uri)
        found: dict[str, lsp.Location] = {}
        for occurrence in document.index.at(ls.convert.offset(document, params.position)):
            if not isinstance(occurrence, Definition) and occurrence.role == "module":
                found |= _module_file(ls, document, occurrence)
                continue
            for definition in ls.texts.resolve(occurrence, document):
                found[str(definition.span)] = ls.convert.location(definition.span)
        return list(found.values())

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def on_references(ls: RlxServer, params: lsp.ReferenceParams) -> list[lsp.Location]:
        document = ls.document(params.text_document.uri)
        occurrences = document.index.at(ls.convert.offset(document, params.position))
        if not occurrences:
            return []
        spans = ls.texts.occurrences(occurrences[0], document)
        if not params.context.include_declaration:
            declared = {(d.span.source.name, d.span.start) for d in ls.texts.resolve(occurrences[0], document)}
            spans = [span for span in spans if (span.source.name, span.start) not in declared]
        return [ls.convert.location(span) for span in spans]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def on_highlight(ls: RlxServer, params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        document = ls.document(params.text_document.uri)
        occurrences = document.index.at(ls.convert.offset(document, params.position))
        if not occurrences:
            return []
        written = {d.span.start for d in document.index.definitions}
        here = [s for s in ls.texts.occurrences(occurrences[0], document) if s.source.name == document.path]
        kinds = lsp.DocumentHighlightKind
        return [
            lsp.DocumentHighlight(ls.convert.range(span), kinds.Write if span.start in written else kinds.Read)
            for span in here
        ]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def on_symbols(ls: RlxServer, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = ls.document(params.text_document.uri)
        ready = ls.texts.ready(document.path)
        return [ls.convert.symbol(symbol) for symbol in symbols(document, ready)]

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def on_folding(ls: RlxServer, params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        document = ls.document(params.text_document.uri)
        kinds = {"comment": lsp.FoldingRangeKind.Comment}
        return [lsp.FoldingRange(fold.start, fold.stop, kind=kinds.get(fold.kind)) for fold in folds(document)]

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def on_hints(ls: RlxServer, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        analysis = await ls.analysis(params.text_document.uri)
        document = analysis.document
        start, stop = ls.convert.offset(document, params.range.start), ls.convert.offset(document, params.range.end)
        kinds = {"type": lsp.InlayHintKind.Type, "parameter": lsp.InlayHintKind.Parameter}
        return [
            lsp.InlayHint(ls.convert.position(document.source, hint.offset), hint.text, kind=kinds[hint.kind])
            for hint in hints(ls.texts, analysis, start, stop)
        ]

    @server.feature(lsp.TEXT_DOCUMENT_SELECTION_RANGE)
    def on_selection(ls: RlxServer, params: lsp.SelectionRangeParams) -> list[lsp.SelectionRange]:
        document = ls.document(params.text_document.uri)
        found: list[lsp.SelectionRange] = []
        for position in params.positions:
            outer: lsp.SelectionRange | None = None
            for span in reversed(around(document, ls.convert.offset(document, position))):
                outer = lsp.SelectionRange(ls.convert.range(span), outer)
            found += [] if outer is None else [outer]
        return found

    @server.feature(lsp.WORKSPACE_SYMBOL)
    def on_workspace_symbol(ls: RlxServer, params: lsp.WorkspaceSymbolParams) -> list[lsp.WorkspaceSymbol]:
        kinds = {"fn": lsp.SymbolKind.Function, "block": lsp.SymbolKind.Class, "config": lsp.SymbolKind.Constant}
        return [
            lsp.WorkspaceSymbol(ls.convert.location(d.span), d.name, kinds.get(d.kind, lsp.SymbolKind.Variable))
            for d in ls.texts.symbols(params.query)[:_MOST_SYMBOLS]
        ]

    legend = lsp.SemanticTokensLegend(list(TYPES), list(MODIFIERS))

    @server.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)
    def on_tokens(ls: RlxServer, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        document = ls.document(params.text_document.uri)
        data: list[int] = []
        line, character = 0, 0
        for token in tokens(ls.texts, document):
            start, end = (ls.convert.position(document.source, o) for o in (token.start, token.end))
            if end.line != start.line:
                continue
            data += [start.line - line, start.character - (character if start.line == line else 0)]
            data += [end.character - start.character, token.type, token.modifiers]
            line, character = start.line, start.character
        return lsp.SemanticTokens(data)


def _module_file(ls: RlxServer, document: Document, use: Any) -> dict[str, lsp.Location]:
    """The first line of the file of a module."""
    modules = [use.base] if isinstance(use.base, Definition) else list(use.found)
    found: dict[str, lsp.Location] = {}
    for module in modules:
        path = ls.texts.target(module.target, document.path)
        other = None if path is None else ls.texts.document(path)
        if other is not None:
            start = lsp.Position(0, 0)
            found[other.path] = lsp.Location(ls.convert.uri(other.path), lsp.Range(start, start))
    return found


# ------------------------------------------------------------------------------------------------ edits


def add_edits(server: RlxServer) -> None:
    """Register what changes a text or helps to write it."""

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", ":", "(", ",", "?", '"', "/"])
    )
    def on_completion(ls: RlxServer, params: lsp.CompletionParams) -> lsp.CompletionList:
        document = ls.document(params.text_document.uri)
        offset = ls.convert.offset(document, params.position)
        found = complete(ls.texts, document, offset, ls.texts.latest(document.path))
        typed = len(cursor_at(document.text, document.trivia, offset).word)
        place = lsp.Range(ls.convert.position(document.source, offset - typed), params.position)
        return lsp.CompletionList(False, [ls.convert.completion(document, c, place, ls.snippets) for c in found])

    @server.feature(
        lsp.TEXT_DOCUMENT_SIGNATURE_HELP,
        lsp.SignatureHelpOptions(trigger_characters=["(", ","], retrigger_characters=[":"]),
    )
    def on_signature(ls: RlxServer, params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        document = ls.document(params.text_document.uri)
        found = signature(ls.texts, document, ls.convert.offset(document, params.position))
        if found is None:
            return None
        parameters = [
            lsp.ParameterInformation(label, lsp.MarkupContent(lsp.MarkupKind.Markdown, doc) if doc else None)
            for label, doc in found.parameters
        ]
        doc = lsp.MarkupContent(lsp.MarkupKind.Markdown, found.doc) if found.doc else None
        information = lsp.SignatureInformation(found.label, doc, parameters, found.active)
        return lsp.SignatureHelp([information], 0, found.active)

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def on_prepare(ls: RlxServer, params: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder:
        document = ls.document(params.text_document.uri)
        try:
            span, name = renamable(ls.texts, document, ls.convert.offset(document, params.position))
        except Refused as reason:
            raise JsonRpcInvalidParams(str(reason)) from None
        return lsp.PrepareRenamePlaceholder(ls.convert.range(span), name)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def on_rename(ls: RlxServer, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        document = ls.document(params.text_document.uri)
        try:
            edits = rename(ls.texts, document, ls.convert.offset(document, params.position), params.new_name)
        except Refused as reason:
            raise JsonRpcInvalidParams(str(reason)) from None
        changes: dict[str, list[lsp.TextEdit]] = {}
        for edit in edits:
            place = changes.setdefault(ls.convert.uri(edit.span.source.name), [])
            place.append(lsp.TextEdit(ls.convert.range(edit.span), edit.text))
        return lsp.WorkspaceEdit(changes)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def on_formatting(ls: RlxServer, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        document = ls.document(params.text_document.uri)
        try:
            text = format_text(document.text, document.path)
        except (RlxError, InternalError) as problem:
            _log.info("not formatted: %s", problem)
            return None
        if "\r\n" in document.text:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        if text == document.text:
            return []
        end = ls.convert.position(document.source, len(document.text))
        return [lsp.TextEdit(lsp.Range(lsp.Position(0, 0), end), text)]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]))
    async def on_action(ls: RlxServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        analysis = await ls.analysis(params.text_document.uri)
        document = analysis.document
        start, stop = ls.convert.offset(document, params.range.start), ls.convert.offset(document, params.range.end)
        found: list[lsp.CodeAction] = []
        for diagnostic in (*analysis.diagnostics, *unknown_names(ls.texts, analysis)):
            span = diagnostic.span
            if span is None or span.source.name != document.path or span.end < start or span.start > stop:
                continue
            shown = ls.convert.diagnostic(document, diagnostic)
            for repair in repairs(document, diagnostic):
                edits = [lsp.TextEdit(ls.convert.range(edit.span), edit.text) for edit in repair.edits]
                change = lsp.WorkspaceEdit({params.text_document.uri: edits})
                kind = lsp.CodeActionKind.QuickFix
                found.append(lsp.CodeAction(repair.title, kind, [shown], repair.preferred or None, edit=change))
        return found
