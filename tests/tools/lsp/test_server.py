"""The language server as an editor sees it: a process that speaks the protocol over standard input and output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from rlxlang.diagnostics import CODES
from rlxlang.tools.cli import main

MODELS = Path(__file__).parent / "models"
TEXT = """\
graph "mlp";
config hidden = 256;
/// The images.
input x: [?batch, 784];
param w1: [784, hidden] = he_normal();
fn f(a, n: int = 2) {
  let r = a * n;
  return r;
}
let h = relu(x @ w1);
let g = f(h, n: 3);
out q = g.sum(axes: 1);
"""


@pytest.fixture(scope="module")
def uri(client: Any) -> str:
    """The text, open."""
    return str(client.open("model.rlx", TEXT))


def spot(line: int, start: int, end: int) -> dict[str, Any]:
    """A range within a line."""
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def test_what_the_server_can_do(client: Any) -> None:
    found = client.initialized["capabilities"]
    assert client.initialized["serverInfo"]["name"] == "rlx"
    assert found["textDocumentSync"] == {"openClose": True, "change": 1, "save": True}
    for name in (
        "hover",
        "definition",
        "references",
        "documentHighlight",
        "documentSymbol",
        "foldingRange",
        "documentFormatting",
    ):
        assert found[f"{name}Provider"] is True, name
    for name in ("completion", "signatureHelp", "codeAction", "inlayHint", "semanticTokens", "rename"):
        assert found[f"{name}Provider"], name
    assert found["positionEncoding"] == "utf-16"


# ------------------------------------------------------------------------------------------------ questions


@pytest.mark.parametrize(
    ("marked", "value", "place"),
    [
        ("let |h =", "```rlx\nlet h: [F32; ?batch, 256]\n```", spot(9, 4, 5)),
        ("input |x", "```rlx\ninput x: [F32; ?batch, 784]\n```\n\nThe images.", spot(3, 6, 7)),
        ("= re|lu(", "```rlx\nrelu(x)\n```\n\nmax(x, 0); the derivative at 0 is 0.\n\ngives `[F32; ?batch, 256]`", spot(9, 8, 12)),
        ("hidden|] =", "```rlx\nconfig hidden: int = 256\n```", spot(4, 16, 22)),
    ],
)  # fmt: skip
def test_hover(client: Any, uri: str, marked: str, value: str, place: dict[str, Any]) -> None:
    found = client.request("textDocument/hover", **client.at(uri, marked))
    assert found == {"contents": {"kind": "markdown", "value": value}, "range": place}


def test_hover_of_nothing(client: Any, uri: str) -> None:
    assert client.request("textDocument/hover", **client.at(uri, "let h |=")) is None


def test_definition(client: Any, uri: str) -> None:
    for marked, place in (
        ("x @ |w1", (4, 6)),
        ("= |f(h", (5, 3)),
        ("h, |n: 3", (5, 8)),
        ("[784, |hidden", (1, 7)),
        ("|relu(x", None),
    ):
        found = client.lines_of(client.request("textDocument/definition", **client.at(uri, marked)))
        assert found == ([] if place is None else [("model.rlx", *place)])


def test_references(client: Any, uri: str) -> None:
    place = client.at(uri, "let |h =")
    found = client.request("textDocument/references", **place, context={"includeDeclaration": True})
    assert client.lines_of(found) == [("model.rlx", 9, 4), ("model.rlx", 10, 10)]
    found = client.request("textDocument/references", **place, context={"includeDeclaration": False})
    assert client.lines_of(found) == [("model.rlx", 10, 10)]


def test_highlights(client: Any, uri: str) -> None:
    found = client.request("textDocument/documentHighlight", **client.at(uri, "a |* n")) or []
    assert found == []
    found = client.request("textDocument/documentHighlight", **client.at(uri, "= |a * n"))
    assert found == [{"range": spot(5, 5, 6), "kind": 3}, {"range": spot(6, 10, 11), "kind": 2}]


def test_symbols(client: Any, uri: str) -> None:
    client.published(uri)
    found = client.request("textDocument/documentSymbol", textDocument={"uri": uri})
    shown = [(s["name"], s["kind"], s.get("detail"), [c["name"] for c in s["children"]]) for s in found]
    assert shown == [
        ('"mlp"', 2, "graph", []),
        ("hidden", 14, "int = 256", []),
        ("x", 11, "[F32; ?batch, 784]", []),
        ("w1", 8, "[F32; 784, 256]", []),
        ("f", 12, "(a, n: int = 2)", ["r"]),
        ("h", 13, "[F32; ?batch, 256]", []),
        ("g", 13, "[F32; ?batch, 256]", []),
        ("q", 24, "[F32; ?batch]", []),
    ]
    assert found[4]["selectionRange"] == spot(5, 3, 4)
    assert found[4]["range"] == {"start": {"line": 5, "character": 0}, "end": {"line": 8, "character": 1}}


def test_folding(client: Any, uri: str) -> None:
    found = client.request("textDocument/foldingRange", textDocument={"uri": uri})
    assert found == [{"startLine": 5, "endLine": 7}]


def test_inlay_hints(client: Any, uri: str) -> None:
    whole = {"start": {"line": 9, "character": 0}, "end": {"line": 12, "character": 0}}
    found = client.request("textDocument/inlayHint", textDocument={"uri": uri}, range=whole)
    assert [(h["position"]["line"], h["position"]["character"], h["label"], h["kind"]) for h in found] == [
        (9, 5, ": [F32; ?batch, 256]", 1),
        (10, 5, ": [F32; ?batch, 256]", 1),
        (10, 10, "a: ", 2),
        (11, 5, ": [F32; ?batch]", 1),
    ]


def test_semantic_tokens(client: Any, uri: str) -> None:
    legend = client.initialized["capabilities"]["semanticTokensProvider"]["legend"]["tokenTypes"]
    data = client.request("textDocument/semanticTokens/full", textDocument={"uri": uri})["data"]
    line = character = 0
    found = []
    for k in range(0, len(data), 5):
        character = data[k + 1] + (character if data[k] == 0 else 0)
        line += data[k]
        found.append((line, TEXT.splitlines()[line][character : character + data[k + 2]], legend[data[k + 3]]))
    assert found[:4] == [
        (1, "hidden", "variable"),
        (3, "x", "variable"),
        (3, "?batch", "typeParameter"),
        (4, "w1", "variable"),
    ]
    assert found[-3:] == [(11, "g", "variable"), (11, "sum", "method"), (11, "axes", "parameter")]


def test_selection(client: Any, uri: str) -> None:
    place = client.at(uri, "h, |n: 3")
    [found] = client.request(
        "textDocument/selectionRange", textDocument=place["textDocument"], positions=[place["position"]]
    )
    texts = []
    while found is not None:
        texts.append(client.covered(uri, found["range"]))
        found = found.get("parent")
    assert texts == ["n", "n: 3", "f(h, n: 3)", "let g = f(h, n: 3);", TEXT]


def test_symbols_of_the_workspace(client: Any, uri: str) -> None:
    found = client.request("workspace/symbol", query="HID")
    assert [(s["name"], s["kind"], s["location"]["range"]) for s in found if s["location"]["uri"] == uri] == [
        ("hidden", 14, spot(1, 7, 13))
    ]


# ------------------------------------------------------------------------------------------------ edits


def test_completion(client: Any, uri: str) -> None:
    found = client.request("textDocument/completion", **client.at(uri, "g.su|m("))
    assert found["isIncomplete"] is False
    first = next(item for item in found["items"] if item["label"] == "sub")
    assert first["textEdit"] == {"range": spot(11, 10, 12), "newText": "sub"}
    assert first["documentation"]["kind"] == "markdown"
    options = client.request("textDocument/completion", **client.at(uri, "sum(|axes"))["items"]
    assert [(o["label"], o["textEdit"]["newText"]) for o in options[:2]] == [
        ("axes:", "axes: "),
        ("keep_dim:", "keep_dim: "),
    ]


def test_completion_while_typing(client: Any) -> None:
    uri = client.open("typing.rlx", "input x: [2];\n")
    client.published(uri)
    client.change(uri, "input x: [2];\nlet y = x.\nlet z = 1;\n")
    items = client.request("textDocument/completion", **client.at(uri, "x.|"))["items"]
    assert {"relu", "sum", "matmul"} <= {item["label"] for item in items}
    client.change(uri, "input x: [2];\nle\nlet z = 1;\n")
    items = client.request("textDocument/completion", **client.at(uri, "le|\n"))["items"]
    assert [(i["label"], i["insertTextFormat"], i["textEdit"]["newText"]) for i in items] == [
        ("let", 2, "let ${1:name} = $0;")
    ]
    client.close(uri)


def test_signature(client: Any, uri: str) -> None:
    found = client.request("textDocument/signatureHelp", **client.at(uri, "f(h, |n: 3"))
    assert found["activeSignature"] == 0
    assert found["activeParameter"] == 1
    [signature] = found["signatures"]
    assert signature["label"] == "fn f(a, n: int = 2)"
    assert [p["label"] for p in signature["parameters"]] == ["a", "n: int = 2"]
    assert client.request("textDocument/signatureHelp", **client.at(uri, "|let h")) is None


def test_rename(client: Any, uri: str) -> None:
    place = client.at(uri, "config |hidden")
    assert client.request("textDocument/prepareRename", **place) == {"range": spot(1, 7, 13), "placeholder": "hidden"}
    edits = client.request("textDocument/rename", **place, newName="width")["changes"]
    assert edits == {
        uri: [{"range": spot(1, 7, 13), "newText": "width"}, {"range": spot(4, 16, 22), "newText": "width"}]
    }


@pytest.mark.parametrize(
    ("marked", "new", "reason"),
    [
        ("|relu(x", "f", "`relu` belongs to the language"),
        ("let |h", "1h", "`1h` is not a name"),
        ("fn f(|a, n", "n", "`n` cannot be the name here: parameter `n` appears twice"),
    ],
)
def test_rename_refuses(client: Any, uri: str, marked: str, new: str, reason: str) -> None:
    answer = client.ask("textDocument/rename", **client.at(uri, marked, newName=new))
    assert answer["error"]["message"] == reason
    if "relu" in marked:
        assert client.ask("textDocument/prepareRename", **client.at(uri, marked))["error"]["message"] == reason


def test_formatting(client: Any, uri: str) -> None:
    options = {"tabSize": 2, "insertSpaces": True}
    assert client.request("textDocument/formatting", textDocument={"uri": uri}, options=options) == []
    other = client.open("crlf.rlx", "input   x: [2];\r\nout y = x ;\r\n")
    [edit] = client.request("textDocument/formatting", textDocument={"uri": other}, options=options)
    assert edit == {
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 2, "character": 0}},
        "newText": "input x: [2];\r\nout y = x;\r\n",
    }
    client.change(other, "let a = ;")
    assert client.request("textDocument/formatting", textDocument={"uri": other}, options=options) is None
    client.close(other)


def test_code_actions(client: Any) -> None:
    uri = client.open("repair.rlx", "input x: [2];\nout y = sigmod(x);\n")
    whole = {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}}
    [action] = client.request(
        "textDocument/codeAction", textDocument={"uri": uri}, range=whole, context={"diagnostics": []}
    )
    assert (action["title"], action["kind"], action["isPreferred"]) == ("Replace by `sigmoid`", "quickfix", True)
    assert action["edit"]["changes"] == {uri: [{"range": spot(1, 8, 14), "newText": "sigmoid"}]}
    assert [d["code"] for d in action["diagnostics"]] == ["E0202"]
    first = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 5}}
    assert (
        client.request("textDocument/codeAction", textDocument={"uri": uri}, range=first, context={"diagnostics": []})
        == []
    )
    client.close(uri)


# ------------------------------------------------------------------------------------------------ diagnostics


def test_diagnostics(client: Any) -> None:
    uri = client.open("wrong.rlx", "input x: [2, 3];\nparam w: [4, 4];\nlet unused = 1;\nout y = x @ w;\n")
    found = client.published(uri)
    assert [(d["code"], d["severity"], d["range"]) for d in found] == [("E0402", 1, spot(3, 10, 11))]
    [product] = found
    assert product["source"] == "rlx"
    assert product["message"] == (
        "the inner sizes of `@` differ: 3 and 4\nnote: the left operand is [F32; 2, 3], the right one [F32; 4, 4]"
    )
    related = [(r["message"], r["location"]["range"]) for r in product["relatedInformation"]]
    assert related == [("[F32; 2, 3]", spot(3, 8, 9)), ("[F32; 4, 4]", spot(3, 12, 13))]
    client.change(uri, "input x: [2, 3];\nlet unused = 1;\nout y = x;\n")
    [unused] = client.published(uri)
    assert (unused["code"], unused["severity"], unused["tags"], unused["range"]) == ("W0902", 2, [1], spot(1, 4, 10))
    client.change(uri, "input x: [2, 3];\nout y = x;\n")
    assert client.published(uri) == []
    client.close(uri)
    assert client.published_again(uri) == []


def test_values_given_when_loading_are_remarks(client: Any) -> None:
    uri = client.open("given.rlx", "config n: int;\nbind t;\ninput x: [n];\nout y = x + t;\n")
    assert [(d["code"], d["severity"]) for d in client.published(uri)] == [("E0353", 3), ("E0215", 3)]
    client.close(uri)


def test_calls_around_an_error_are_related(client: Any) -> None:
    uri = client.open("chain.rlx", "input x: [2];\nfn f(v) {\n  return v.reshape(3);\n}\nout y = f(x);\n")
    [found] = client.published(uri)
    assert found["code"] == "E0405"
    assert found["range"]["start"]["line"] == 2
    assert [(r["message"], r["location"]["range"]) for r in found["relatedInformation"]] == [
        ("in `f`, called here", spot(4, 8, 12))
    ]
    client.close(uri)


def test_only_the_last_of_quick_changes_is_checked(client: Any) -> None:
    uri = client.open("quick.rlx", "let a = ")
    for k in range(20):
        client.change(uri, f"let a = {k}")
    client.change(uri, "input x: [2]; out y = x;")
    assert client.published(uri) == []
    assert len(client.diagnostics[uri]) <= 3
    client.close(uri)


# ------------------------------------------------------------------------------------------------ several files


@pytest.fixture
def session(fresh: Any, tmp_path: Path) -> Any:
    """A session over a copy of the models."""
    for file in MODELS.glob("*.rlx"):
        (tmp_path / file.name).write_text(file.read_text())
    found = fresh(tmp_path)
    yield found
    assert found.end() == 0


def test_across_files(session: Any) -> None:
    uri = session.open("main.rlx", (MODELS / "main.rlx").read_text())
    blocks = (MODELS / "blocks.rlx").read_text()
    line = {text: k for k, text in enumerate(blocks.splitlines())}
    assert session.published(uri) == []

    def definition(marked: str) -> list[tuple[str, int, int]]:
        found: list[tuple[str, int, int]] = session.lines_of(
            session.request("textDocument/definition", **session.at(uri, marked))
        )
        return found

    dense = line['block dense(x, n: int, act: str = "none") {']
    assert definition("= |fc(h, 8)") == [("blocks.rlx", dense, 6)]
    assert definition("::{|dense") == [("blocks.rlx", dense, 6)]
    assert definition("blk::|pair") == [("blocks.rlx", line["block pair(x, n: int) {"], 6)]
    assert definition("= |blk::") == [("blocks.rlx", 0, 0)]
    assert definition('use "|blocks.rlx" as') == [("blocks.rlx", 0, 0)]
    assert definition("inner.|w;") == [("blocks.rlx", line["  param w: [dim(x, -1), n] = he_normal();"], 8)]
    references = session.request(
        "textDocument/references", **session.at(uri, "+ |twice("), context={"includeDeclaration": True}
    )
    assert session.lines_of(references) == [
        ("blocks.rlx", line["fn twice(x) {"], 3),
        ("blocks.rlx", line["  return twice(y) * half;"], 9),
        ("main.rlx", 3, 32),
        ("main.rlx", 56, 53),
    ]
    # An unsaved change of the other file counts at once, and the open user of that file is checked again.
    other = session.open("blocks.rlx", blocks.replace("fn twice(x) {", "\n\nfn twice(x, y) {"))
    found = session.published_again(uri)
    assert (found[0]["code"], found[0]["range"]) == ("E0223", spot(40, 8, 16))  # at the call that leads there
    assert session.lines_of([r["location"] for r in found[0]["relatedInformation"]])[0][0] == "blocks.rlx"
    assert (
        session.lines_of(session.request("textDocument/definition", **session.at(uri, "+ |twice(")))[0][1]
        == line["fn twice(x) {"] + 2
    )
    session.close(other)
    assert session.published_again(uri) == []
    # On disk, too.
    (session.folder / "blocks.rlx").write_text(blocks.replace("twice", "thrice"))
    session.notify("workspace/didChangeWatchedFiles", changes=[{"uri": session.uri("blocks.rlx"), "type": 2}])
    assert "E0204" in [d["code"] for d in session.published_again(uri)]


def test_a_session_in_utf_8(fresh: Any, tmp_path: Path) -> None:
    session = fresh(tmp_path, ["utf-8", "utf-16"], snippets=False)
    assert session.initialized["capabilities"]["positionEncoding"] == "utf-8"
    text = 'input x: [2]; // 🙂 é\r\n/* 🙂 */ let alpha = x; out y @ "🙂";\rout beta = /* é🙂 */ alpha;'
    uri = session.open("text.rlx", text.replace(' out y @ "🙂";', ""))
    place = session.request("textDocument/hover", **session.at(uri, "*/ |alpha;"))["range"]
    assert session.covered(uri, place) == "alpha"
    assert place["start"] == {"line": 2, "character": 24}
    items = session.request("textDocument/completion", **session.at(uri, "\n|/*"))["items"]
    assert {"let", "out"} <= {i["textEdit"]["newText"] for i in items}  # no snippets
    assert session.end() == 0


def test_utf_16_and_line_ends(client: Any) -> None:
    text = "/// 🙂\r\ninput x: [2]; /* 𝔁🙂é */ let alpha = x;\rlet b = 1; /* 🙂 */ out beta = alpha + b;\n"
    uri = client.open("wide.rlx", text)
    assert client.published(uri) == []
    place = client.request("textDocument/hover", **client.at(uri, "= |alpha"))["range"]
    assert client.covered(uri, place) == "alpha"
    edits = client.request("textDocument/rename", **client.at(uri, "let |alpha"), newName="gamma")["changes"][uri]
    assert [client.covered(uri, e["range"]) for e in edits] == ["alpha", "alpha"]
    assert [e["range"]["start"] for e in edits] == [{"line": 1, "character": 30}, {"line": 2, "character": 31}]
    client.close(uri)


# ------------------------------------------------------------------------------------------------ what goes wrong


def test_unknown_texts_and_methods_are_errors_that_end_nothing(client: Any, uri: str) -> None:
    nowhere = {"textDocument": {"uri": client.uri("nowhere.rlx")}, "position": {"line": 0, "character": 0}}
    assert "error" in client.ask("textDocument/hover", **nowhere)
    assert "error" in client.ask("textDocument/unheardOf")
    beyond = {"textDocument": {"uri": uri}, "position": {"line": 999, "character": 999}}
    assert client.request("textDocument/hover", **beyond) is None


def test_a_text_that_is_no_file(client: Any) -> None:
    uri = "untitled:Untitled-1"
    client.version += 1
    client.texts[uri] = "input x: [2]; out y = relu(x);"
    item = {"uri": uri, "languageId": "rlx", "version": client.version, "text": client.texts[uri]}
    client.notify("textDocument/didOpen", textDocument=item)
    assert client.published(uri) == []
    assert client.request("textDocument/definition", **client.at(uri, "(|x)"))[0]["uri"] == uri
    client.close(uri)


def test_without_pygls_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    monkeypatch.delitem(sys.modules, "rlxlang.tools.lsp.server", raising=False)
    monkeypatch.delitem(sys.modules, "rlxlang.tools.lsp.convert", raising=False)
    assert main(["lsp"]) == 1
    assert capsys.readouterr().err == "rlx lsp: the language server needs pygls: pip install 'rlxlang[lsp]'\n"


def test_codes_lead_to_their_pages() -> None:
    pytest.importorskip("pygls")
    from rlxlang.tools.lsp.convert import page_of

    for code in CODES:
        found = page_of(code)
        assert found is not None, code
        page = Path(url2pathname(urlsplit(found.href).path))
        assert page.read_text("utf-8").startswith(f"# {code}: ")
    assert page_of("E9999") is None


def test_the_server_ends_with_its_client(fresh: Any, tmp_path: Path) -> None:
    session = fresh(tmp_path)
    session.open("text.rlx", "input x: [2]; let h = x; repeat 300 { repeat 300 { let h = h + 1; } } out h;")
    session.process.stdin.close()
    assert session.process.wait(60) == 1
    session.kill()


def test_a_request_that_is_taken_back_takes_nothing_from_others(client: Any) -> None:
    uri = client.open("slow.rlx", "input x: [2]; let h = x; repeat 2000 { let h = h + 1; } out y = h;")
    place = client.at(uri, "out |y")
    client.send({"id": "first", "method": "textDocument/hover", "params": place})
    client.notify("$/cancelRequest", id="first")
    assert client.request("textDocument/hover", **place)["contents"]["value"] == "```rlx\nout y: [F32; 2]\n```"
    client.close(uri)


def test_a_session_that_is_not_shut_down_fails(fresh: Any, tmp_path: Path) -> None:
    session = fresh(tmp_path)
    session.notify("exit")
    assert session.process.wait(60) == 1
    session.kill()
