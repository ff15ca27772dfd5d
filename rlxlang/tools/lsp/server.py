"""The language server: maps requests of the protocol to the analysis, and its answers back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from rlxlang._version import __version__
from rlxlang.diagnostics import InternalError, RlxError
from rlxlang.frontend.format import format_text
from rlxlang.tools.cli import FAILED, OK
from rlxlang.tools.lsp.actions import repairs
from rlxlang.tools.lsp.analysis import Analysis, Document, Stopped
from rlxlang.tools.lsp.complete import complete
from rlxlang.tools.lsp.convert import Converter, path_of
from rlxlang.tools.lsp.cursor import cursor_at
from rlxlang.tools.lsp.hints import hints
from rlxlang.tools.lsp.hover import hover
from rlxlang.tools.lsp.index import Definition
from rlxlang.tools.lsp.outline import folds, symbols
from rlxlang.tools.lsp.rename import Refused, renamable, rename
from rlxlang.tools.lsp.signatures import signature
from rlxlang.tools.lsp.tokens import MODIFIERS, TYPES, tokens
from rlxlang.tools.lsp.workspace import Workspace

DEBOUNCE = 0.2  # seconds of silence before a text that is being typed is checked
_STACK = 256 * 1024 * 1024  # of the thread that elaborates: fns inside fns take room
_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Running:
    """An analysis that is being made."""

    document: Document
    cancelled: threading.Event
    future: Future[Analysis]


class RlxServer(LanguageServer):
    """One session.

    Attributes:
        texts: The texts of the session.
        convert: Places and kinds of the protocol.
        was_shut_down: Whether the client has ended the session in order.
    """

    def __init__(self) -> None:
        super().__init__("rlx", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        self.texts = Workspace()
        self.convert = Converter()
        self.was_shut_down = False
        before = threading.stack_size(_STACK)
        self._worker = ThreadPoolExecutor(1, "analysis")
        self._worker.submit(int).result()  # the thread starts now, with the stack size of now
        threading.stack_size(before)
        self._running: dict[str, _Running] = {}
        self._pending: dict[str, asyncio.Task[None]] = {}

    # ------------------------------------------------------------------ texts
    def document(self, uri: str) -> Document:
        """The present text of a URI.

        Raises:
            JsonRpcInvalidParams: It cannot be read.
        """
        found = self.texts.document(path_of(uri))
        if found is None:
            raise JsonRpcInvalidParams(f"{uri} cannot be read")
        return found

    async def analysis(self, uri: str) -> Analysis:
        """The analysis of the present text of a URI, once it is there."""
        path = path_of(uri)
        while True:
            ready = self.texts.ready(path)
            if ready is not None:
                return ready
            document = self.document(uri)
            running = self._running.get(document.path)
            if running is None or running.document is not document or running.future.done():
                if running is not None:
                    running.cancelled.set()
                cancelled = threading.Event()
                future = self._worker.submit(self.texts.analyse, document, cancelled)
                running = self._running[document.path] = _Running(document, cancelled, future)
            with contextlib.suppress(Stopped):
                return await asyncio.wrap_future(running.future)

    def show(self, uri: str, text: str) -> None:
        """A text has been opened or changed: check it when nothing more comes for a moment."""
        path = path_of(uri)
        self.convert.uris[path] = uri
        self.texts.open(path, text)
        self.check_soon(uri)

    def check_soon(self, uri: str, delay: float = DEBOUNCE) -> None:
        """Publish diagnostics after a delay; a later call starts the delay again."""
        pending = self._pending.pop(uri, None)
        if pending is not None:
            pending.cancel()
        self._pending[uri] = asyncio.get_running_loop().create_task(self._check(uri, delay))

    async def _check(self, uri: str, delay: float) -> None:
        await asyncio.sleep(delay)
        path = path_of(uri)
        if not self.texts.is_open(path):
            return
        analysis = await self.analysis(uri)
        document = analysis.document
        version = self.workspace.get_text_document(uri).version
        if document is not self.texts.document(path):
            return  # changed meanwhile: another check is on its way
        found = self.convert.diagnostics(document, analysis.diagnostics)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, version))
        self._pending.pop(uri, None)

    def check_users(self, uri: str) -> None:
        """Check again the open texts that use a text."""
        for path in self.texts.users(path_of(uri)):
            self.check_soon(self.convert.uri(path))

    @property
    def snippets(self) -> bool:
        """Whether the client fills in snippets."""
        text = self.client_capabilities.text_document
        item = text.completion.completion_item if text and text.completion else None
        return bool(item and item.snippet_support)

    def close(self) -> None:
        """Stop the work that is under way."""
        for running in self._running.values():
            running.cancelled.set()
        self._worker.shutdown(wait=False, cancel_futures=True)


def create() -> RlxServer:
    """A server with all its features."""
    server = RlxServer()
    _session(server)
    _questions(server)
    _edits(server)
    return server


def serve(log: str | None = None) -> int:
    """Serve over standard input and output until the session ends; returns the exit code.

    Args:
        log: A file for a log.
    """
    logging.basicConfig(filename=log, level=logging.INFO if log else logging.CRITICAL, force=True)
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # whatever prints must not come between the messages
    server = create()
    try:
        server.start_io(sys.stdin.buffer, stream)
    finally:
        server.close()
    return OK if server.was_shut_down else FAILED


# ------------------------------------------------------------------------------------------------ the session


def _session(server: RlxServer) -> None:
    @server.feature(lsp.INITIALIZE)
    def initialize(ls: RlxServer, params: lsp.InitializeParams) -> None:
        encoding = str(getattr(ls.workspace.position_encoding, "value", ls.workspace.position_encoding))
        ls.convert.encoding = encoding if encoding in ("utf-8", "utf-16", "utf-32") else "utf-16"  # type: ignore[assignment]
        folders = [folder.uri for folder in params.workspace_folders or ()]
        if not folders and params.root_uri:
            folders = [params.root_uri]
        ls.texts.folders = [Path(path_of(uri)) for uri in folders]

    @server.feature(lsp.INITIALIZED)
    def initialized(ls: RlxServer, params: lsp.InitializedParams) -> None:
        Document("warm", "let a = ;")  # loads the grammar and the table of mistakes, which takes a moment

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(ls: RlxServer, params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        gone = {path_of(folder.uri) for folder in params.event.removed}
        kept = [folder for folder in ls.texts.folders if str(folder) not in gone]
        ls.texts.folders = [*kept, *(Path(path_of(folder.uri)) for folder in params.event.added)]

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(ls: RlxServer, params: lsp.DidOpenTextDocumentParams) -> None:
        ls.show(params.text_document.uri, params.text_document.text)
        ls.check_users(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(ls: RlxServer, params: lsp.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        ls.show(uri, ls.workspace.get_text_document(uri).source)
        ls.check_users(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(ls: RlxServer, params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        ls.texts.close(path_of(uri))
        ls.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
        ls.check_users(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(ls: RlxServer, params: lsp.DidSaveTextDocumentParams) -> None:
        ls.check_soon(params.text_document.uri, 0)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def files_changed(ls: RlxServer, params: lsp.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            ls.check_users(change.uri)

    @server.feature(lsp.SHUTDOWN)
    def shut_down(ls: RlxServer, params: Any) -> None:
        ls.was_shut_down = True


# ------------------------------------------------------------------------------------------------ questions


def _questions(server: RlxServer) -> None:
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
        if path is not None and ls.texts.document(path) is not None:
            start = lsp.Position(0, 0)
            found[path] = lsp.Location(ls.convert.uri(path), lsp.Range(start, start))
    return found


# ------------------------------------------------------------------------------------------------ edits


def _edits(server: RlxServer) -> None:
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
        for diagnostic in analysis.diagnostics:
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
