"""A client of the language server that speaks the protocol by hand over standard input and output."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 60  # seconds for one answer on a busy machine
ENCODINGS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
UNIT = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


class Client:
    """One session with a server in a process of its own."""

    def __init__(self, folder: Path, encodings: list[str] | None = None, snippets: bool = True) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rlxlang", "lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.counter = 0
        self.version = 0
        self.texts: dict[str, str] = {}
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.diagnostics: dict[str, list[tuple[int, list[Any]]]] = {}
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        general = {} if encodings is None else {"positionEncodings": encodings}
        item = {"snippetSupport": snippets}
        capabilities = {"general": general, "textDocument": {"completion": {"completionItem": item}}}
        root = {"uri": folder.as_uri(), "name": "models"}
        self.initialized = self.request(
            "initialize", processId=None, rootUri=folder.as_uri(), capabilities=capabilities, workspaceFolders=[root]
        )
        self.encoding = self.initialized["capabilities"].get("positionEncoding", "utf-16")
        self.notify("initialized")

    # ------------------------------------------------------------------ messages
    def _listen(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := stream.readline():
            length = 0
            while header.strip():
                name, _, value = header.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
                header = stream.readline()
            self.messages.put(json.loads(stream.read(length)))
        self.messages.put(None)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def request(self, method: str, **params: Any) -> Any:
        """Send a request and wait for its answer; an error is an assertion."""
        answer = self.ask(method, **params)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and give the whole answer."""
        self.counter += 1
        self.send({"id": self.counter, "method": method, "params": params})
        while True:
            message = self._next()
            if message.get("id") == self.counter and "method" not in message:
                return message

    def _next(self) -> dict[str, Any]:
        message = self.messages.get(timeout=PATIENCE)
        assert message is not None, self.process.stderr.read() if self.process.stderr else "the server has ended"
        if message.get("method") == "textDocument/publishDiagnostics":
            found = message["params"]
            self.diagnostics.setdefault(found["uri"], []).append((found.get("version") or 0, found["diagnostics"]))
        return message

    # ------------------------------------------------------------------ texts
    def uri(self, name: str) -> str:
        """The URI of a file of the folder."""
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> str:
        """Open a text as a file of the folder that need not exist; gives its URI."""
        uri = self.uri(name)
        self.version += 1
        self.texts[uri] = text
        item = {"uri": uri, "languageId": "rlx", "version": self.version, "text": text}
        self.notify("textDocument/didOpen", textDocument=item)
        return uri

    def change(self, uri: str, text: str) -> None:
        """Replace an open text."""
        self.version += 1
        self.texts[uri] = text
        document = {"uri": uri, "version": self.version}
        self.notify("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])

    def close(self, uri: str) -> None:
        """Close a text."""
        self.notify("textDocument/didClose", textDocument={"uri": uri})

    def published(self, uri: str, version: int | None = None) -> list[Any]:
        """The diagnostics of a version of a text (the last one), once they are there."""
        wanted = self.version if version is None else version
        while not any(v >= wanted for v, _ in self.diagnostics.get(uri, ())):
            self._next()
        return self.diagnostics[uri][-1][1]

    def published_again(self, uri: str) -> list[Any]:
        """The next diagnostics of a text."""
        count = len(self.diagnostics.get(uri, ()))
        while len(self.diagnostics.get(uri, ())) == count:
            self._next()
        return self.diagnostics[uri][-1][1]

    # ------------------------------------------------------------------ places
    def position(self, uri: str, offset: int) -> dict[str, int]:
        """The position of an offset, counted here and not by the server's code."""
        before = self.texts[uri][:offset].replace("\r\n", "\n").replace("\r", "\n")
        line = before.rpartition("\n")[2]
        return {
            "line": before.count("\n"),
            "character": len(line.encode(ENCODINGS[self.encoding])) // UNIT[self.encoding],
        }

    def at(self, uri: str, marked: str, **params: Any) -> dict[str, Any]:
        """Parameters for the place of `|` in a piece of a text."""
        offset = self.texts[uri].index(marked.replace("|", "")) + marked.index("|")
        return {"textDocument": {"uri": uri}, "position": self.position(uri, offset), **params}

    def covered(self, uri: str, place: dict[str, Any]) -> str:
        """The characters of a range of a text; the inverse of `position`."""
        text = self.texts[uri]
        offsets = [
            next(
                o for o in range(len(text) + 1) if self.position(uri, o) == place[end] and text[o - 1 : o + 1] != "\r\n"
            )
            for end in ("start", "end")
        ]
        return text[offsets[0] : offsets[1]]

    def lines_of(self, places: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
        """File name, line and character of locations."""
        found = []
        for place in places:
            start = place["range"]["start"]
            found.append((place["uri"].rpartition("/")[2], start["line"], start["character"]))
        return found

    # ------------------------------------------------------------------ the end
    def end(self) -> int:
        """End the session in order; gives the exit code of the server."""
        self.request("shutdown")
        self.notify("exit")
        code = self.process.wait(PATIENCE)
        self.kill()
        return code

    def kill(self) -> None:
        """End the process, whatever its state."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self.listener.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A session that many tests share: each opens texts of its own names."""
    pytest.importorskip("pygls")
    found = Client(tmp_path_factory.mktemp("models"))
    yield found
    assert found.end() == 0


@pytest.fixture
def fresh() -> type[Client]:
    """The class, for sessions of a test's own."""
    pytest.importorskip("pygls")
    return Client
