"""Commands whose words depend on the machine or on files; `scripts/commands.txt` has the others."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from rlxlang.checkpoint import read_tensors
from rlxlang.device import Device, devices
from rlxlang.tools.repl.commands import ALIASES, COMMANDS
from rlxlang.tools.repl.help import known_words
from rlxlang.tools.repl.session import Session
from rlxlang.tools.repl.shell import Shell


class Talk:
    """A session that is talked to."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.session = Session()
        self.shell = Shell(self.session, self.said.append)

    def __call__(self, *lines: str) -> str:
        """What lines give."""
        self.said.clear()
        for line in lines:
            assert self.shell.run(line)
        return "".join(self.said)


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Talk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return Talk()


def test_time(talk: Talk) -> None:
    form = r"[\d.e+]+ (s|ms|µs|ns) on \w+, best .* of [\d,]+ runs; first call .*\n"
    assert re.fullmatch(form, talk(":time sum(ones([10]))"))
    assert re.fullmatch(form, talk("input x: [?n]", ":set x = [1, 2]", "let y = dropout(x, 0.5)", ":time y"))


def test_device(talk: Talk) -> None:
    shown = talk(":device")
    assert (
        shown == f"auto: reference for small work, else the fastest\nthere are auto, {', '.join(map(str, devices()))}\n"
    )
    assert talk(":device reference", ":device").startswith("reference\n")
    assert talk.session.device == Device.REFERENCE
    assert talk("ones([2]) + 1") == "[F32; 2] [2. 2.]\n"
    assert talk(":device AUTO") == ""
    assert talk.session.device is None
    assert "error[E0701]: there is no device `nope`" in talk(":device nope")


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_devices_agree(talk: Talk, device: str) -> None:
    if device not in {d.kind for d in devices()}:
        pytest.skip(f"there is no device {device}")
    lines = ("input x: [?n, 3]", ":set x = arange", "let y = sum(dropout(x, 0.5) + rng_uniform([1]) * 0.0, 0)", "y")
    expected = talk(*lines)
    assert talk(f":device {device}", "y") == expected.partition("\n")[2]


def test_large_work_is_compiled(talk: Talk) -> None:
    talk("let y = ones([2000, 600]) * 2", "scan s = 0.0 for 3 { let s = s + 1.0; }")
    assert talk("sum(y)") == "[F32;] 2.4e+06\n"
    assert talk("s") == "[F32;] 3.\n"
    func = talk.session.function
    meaning = talk.session.meaning(talk.shell.expression(talk.session.source("y"), 0), "")
    assert talk.session.device_for(func(meaning.graph, [meaning.value], {})) != Device.REFERENCE


# ------------------------------------------------------------------------------------------------ files


def test_arrays_of_files(talk: Talk, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.float32([1, 2]))
    np.savez(tmp_path / "b.npz", x=np.float32([3, 4]), other=np.float32([5, 6]))
    np.savez(tmp_path / "one.npz", only=np.float32([7, 8]))
    talk("input x: [2]")
    for file, values in (
        ("a.npy", "1. 2."), ('"a.npy"', "1. 2."), ("b.npz", "3. 4."), ("b.npz:other", "5. 6."), ("one.npz", "7. 8."),
        (str(tmp_path / "a.npy"), "1. 2."),
    ):  # fmt: skip
        assert talk(f":set x = {file}", "x") == f"[F32; 2] [{values}]\n"
    assert talk(":bind t = a.npy", "t + 1") == "[F32; 2] [2. 3.]\n"
    assert "`b.npz` has no array `nope`" in talk(":set x = b.npz:nope")
    assert "error[E0807]" in talk(":set y = a.npy")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x93NUMPY\x01\x00", b"PK\x03\x04"])
def test_files_that_hold_no_arrays(talk: Talk, tmp_path: Path, content: bytes) -> None:
    talk("input x: [2]")
    for name in ("bad.npy", "bad.npz"):
        (tmp_path / name).write_bytes(content)
        shown = talk(f":set x = {name}")
        assert shown.startswith(f"error[E0350]: `{name}` is no file of arrays")


@pytest.mark.parametrize(
    "line", [":load ~nobody_of_this_name/m.rlx", ":load .", ":load m\0.rlx", ":set x = ~nobody_x/a.npy"]
)
def test_paths_that_are_none(talk: Talk, line: str) -> None:
    talk("input x: [2]")
    assert talk(line).startswith("error[E0")
    assert talk("1") == "int 1\n"


def test_pickled_arrays_are_refused(talk: Talk, tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object))
    talk("input x: [1]")
    assert talk(":set x = o.npy").startswith("error[E0350]: `o.npy` is no file of arrays")


def test_models(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "blocks.rlx").write_text("fn double(x) { return x * 2; }")
    model = tmp_path / "sub" / "a model.rlx"
    model.write_text('/// A model.\ngraph "m";\nuse "blocks.rlx" as b;\nconfig k = 3;\nlet y = b::double(k);\n')
    assert talk(':load "sub/a model.rlx"') == "a model.rlx: 4 statements\n"
    assert talk("y") == "int 6\n"
    assert talk(":set k = 5", "y") == "int 10\n"
    assert talk(":save sub/copy.rlx") == "4 statements saved to sub/copy.rlx\n"
    assert "config k = 5;" in (tmp_path / "sub" / "copy.rlx").read_text()
    assert "// A model." in (tmp_path / "sub" / "copy.rlx").read_text()
    assert talk(":reset", ":load sub/copy.rlx", "y") == "copy.rlx: 4 statements\nint 10\n"
    assert "error" in talk(":load nope.rlx")
    assert talk("y") == "int 10\n"
    (tmp_path / "bad.rlx").write_text("let y = ;")
    assert "bad.rlx:1:9" in talk(":load bad.rlx")
    assert talk("y") == "int 10\n"
    (tmp_path / "other.rlx").write_text("let q = 1;\n")
    assert "error[E0201]" in talk(":load other.rlx", "y")
    assert talk(":undo", "y").endswith("int 10\n")


def test_weights(talk: Talk, tmp_path: Path) -> None:
    talk("param w: [2] = zeros()", ":set w = [1, 2]", ":save w.safetensors")
    assert read_tensors(tmp_path / "w.safetensors")[0]["w"].tolist() == [1, 2]
    talk(":reset", "param w: [3] = zeros()")
    assert "error[E0" in talk(":load w.safetensors")
    assert talk("param w: [2] = zeros()", ":load w.safetensors", "w") == "w.safetensors: 1 param\n[F32; 2] [1. 2.]\n"
    assert "no parameters to load" in talk(":reset", ":load w.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"nonsense")
    assert "error[E0" in talk("param w: [2]", ":load bad.safetensors")


@pytest.mark.parametrize(
    ("file", "start"),
    [("m.svg", "<svg"), ("m.html", "<!DOCTYPE html>"), ("m.dot", "digraph"), ("m.mmd", "flowchart"), ("m.txt", "")],
)
def test_graph(talk: Talk, tmp_path: Path, file: str, start: str) -> None:
    assert "error[E0605]" in talk(":graph")
    assert "softmax" in talk("input x: [?n, 3]", "let y = softmax(x)", ":graph")
    assert talk(f":graph {file}") == f"saved to {file}\n"
    assert (tmp_path / file).read_text("utf-8").startswith(start)
    assert "names no format" in talk(":graph m.pdf")
    assert "cannot be written" in talk(f":graph nope/{file}")


def test_explain(talk: Talk) -> None:
    assert "nothing has gone wrong yet" in talk(":explain")
    shown = talk(":explain e203")
    assert shown.startswith("E0203: ")
    assert talk("use nope", ":explain").endswith(shown)
    assert "there is no code `E9999`" in talk(":explain E9999")


# ------------------------------------------------------------------------------------------------ help


def test_every_command_has_help(talk: Talk) -> None:
    shown = talk(":help")
    for name, command in COMMANDS.items():
        assert command.form.startswith(f":{name}")
        assert f"  {command.form} " in shown
        assert talk(f":help {name}") == talk(f":help :{name}") == f"{command.form}\n  {command.doc}\n"
    assert set(ALIASES.values()) <= set(COMMANDS)
    assert talk(":") == talk("help") == talk("?") == shown


def test_every_word_has_a_documentation(talk: Talk) -> None:
    for word in known_words():
        shown = talk(f":doc {word}")
        assert not shown.startswith("error"), word
        assert len(shown.splitlines()) > 1, word


def test_doc_lists_what_it_knows(talk: Talk) -> None:
    shown = talk(":doc")
    for word in ("softmax", "he_normal", "scan", "over", "BF16", "nn"):
        assert re.search(rf"\b{word}\b", shown)
    assert max(map(len, shown.splitlines())) <= 100


def test_doc_of_what_the_session_defines(talk: Talk) -> None:
    talk("/// Twice.\nfn double(x, n: int = 2) {\n  return x * n;\n}")
    assert talk(":doc double") == "fn double(x, n: int = 2)\n  Twice.\n"


def test_blanks_and_capitals(talk: Talk) -> None:
    talk("input x: [2]")
    assert talk("  :  Type   x  ") == "[F32; 2]\n"
    assert talk(":type\tx // a comment") == "[F32; 2]\n"
