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
from rlxlang.tools.cli import FAILED, OK
from rlxlang.tools.lsp.analysis import Analysis, Document, Stopped, fault_of_ours
from rlxlang.tools.lsp.convert import Converter, path_of
from rlxlang.tools.lsp.features import add_edits, add_questions
from rlxlang.tools.lsp.unknown import unknown_names
from rlxlang.tools.lsp.workspace import Workspace

DEBOUNCE = 0.2  # seconds of silence before a text that is being typed is checked
_STACK = 256 * 1024 * 1024  # of the thread that elaborates: fns inside fns take room
_MOST_SYMBOLS = 500  # of a workspace in one answer
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
                # Whoever stops waiting must not take the result from the others.
                return await asyncio.shield(asyncio.wrap_future(running.future))

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
        try:
            more = unknown_names(self.texts, analysis)
        except Exception as fault:  # nobody waits for this task, so that nothing else would tell
            _log.exception("names of %s", uri)
            more = [fault_of_ours(fault)]
        found = self.convert.diagnostics(document, (*analysis.diagnostics, *more))
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
    add_questions(server)
    add_edits(server)
    return server


def serve(log: str | None = None) -> int:
    """Serve over standard input and output until the session ends; returns the exit code.

    Args:
        log: A file for a log.
    """
    if sys.stdin.isatty():
        print("rlx lsp waits for an editor on standard input; see editors/README.md", file=sys.stderr)
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
