"""`%%rlx` and `%rlx` in IPython's own shell, and what a `Func` looks like on a page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.diagnostics import Diagnostic, error
from rlxlang.func_html import source_html
from rlxlang.notebook import CellError, cell_completions, diagnostics_html, evaluate, parse_options

MODEL = """%%rlx mlp --config d=3
config d = 1;
input x: [?n, 2];
param w: [2, d] = ones();
let h = x @ w;
"""


@pytest.fixture(scope="module")
def ipython(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A shell of IPython in this process, its files in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from IPython.core.interactiveshell import InteractiveShell

            shell = InteractiveShell.instance(history_load_length=0)
            shell.history_manager.enabled = False
            shell.run_line_magic("load_ext", "rlxlang")
        yield shell
        InteractiveShell.clear_instance()


@pytest.fixture
def shell(ipython: Any) -> Any:
    """The shell with an empty namespace."""
    ipython.reset(new_session=False)
    ipython.user_ns["np"] = np
    return ipython


def run(shell: Any, cell: str) -> Any:
    """Run a cell that must succeed; gives its value."""
    result = shell.run_cell(cell, silent=False)
    assert result.success, result.error_in_exec
    return result.result


def failure(shell: Any, cell: str) -> CellError:
    """Run a cell that must fail with diagnostics."""
    problem = shell.run_cell(cell).error_in_exec
    assert isinstance(problem, CellError)
    return problem


def test_a_cell_defines_a_function(shell: Any) -> None:
    assert run(shell, MODEL) is None
    func = shell.user_ns["mlp"]
    assert isinstance(func, rlx.Func)
    assert func.name == "mlp"
    assert func.param_shape_of("w") == (2, 3)
    x = np.float32([[1, 2]])
    np.testing.assert_array_equal(func.init_params(seed=0)(x=x), [[3, 3, 3]])


def test_the_default_name_and_show(shell: Any) -> None:
    shown = run(shell, "%%rlx --show\ninput x: [2];\nlet y = x + 1;")
    assert shown is shell.user_ns["model"]


def test_bind_takes_arrays_and_params_of_the_namespace(shell: Any) -> None:
    shell.user_ns["table"] = np.float32([10, 20])
    shell.user_ns["w"] = rlx.Param(np.float32([1, 2]))
    run(shell, "%%rlx f\nbind table, w;\nlet y = table * w;")
    func = shell.user_ns["f"]
    assert func.param_names() == ["w"]
    np.testing.assert_array_equal(func(), [10, 40])


def test_errors_are_diagnostics_on_the_lines_of_the_cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    problem = failure(shell, "%%rlx f\ninput x: [3];\nlet y = x + nothing;")
    assert [d.code for d in problem.diagnostics] == ["E0201"]
    assert capsys.readouterr().out == (
        "error[E0201]: unknown name `nothing`\n --> f:3:13\n  |\n3 | let y = x + nothing;\n  |             ^^^^^^^\n"
    )
    assert "f" not in shell.user_ns


def test_syntax_errors_are_diagnostics_too(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failure(shell, "%%rlx f\ninput x: [3;\nlet y = x;")
    out = capsys.readouterr().out
    assert out.startswith("error[E0101]: ")
    assert "Traceback" not in out


def test_a_failing_cell_stops_the_run(shell: Any) -> None:
    failure(shell, "%%rlx f\nlet y = z;")
    assert failure(shell, "a = %rlx q\nb = 1").diagnostics
    assert "b" not in shell.user_ns


def test_a_missing_binding_says_what_to_do_here(shell: Any) -> None:
    (diagnostic,) = failure(shell, "%%rlx f\nbind t;\nlet y = t;").diagnostics
    assert diagnostic.code == "E0215"
    assert diagnostic.help == "assign it in a cell above, to an array, a list or an `rlx.Param`"


def test_errors_as_html(shell: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pages: list[str] = []
    monkeypatch.setattr("rlxlang.notebook.show_html", lambda html: pages.append(html) or True)
    error = failure(shell, "%%rlx f --html\nlet y = z < 1;")
    assert "z &lt; 1" in pages[0]
    # A kernel renders an error for the page and for the answer to the request.
    assert error._render_traceback_() == ["1 error"]
    assert len(pages) == 1
    assert capsys.readouterr().out == "1 error\n"


def test_warnings_are_shown(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always", rlx.RlxWarning)
        run(shell, "%%rlx f\ninput a: [3];\nlet y = 1.0;")
    assert capsys.readouterr().err.startswith("warning[W0902]: input `a` is not used\n --> f:2:7\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b", "`%%rlx` takes one name, 2 are given: a, b"),
        ("--confg d=1", "`%%rlx` has no option `--confg`"),
        ("2x", "`2x` is no name"),
        ("f --config =3", "`--config =3` is not of the form NAME=VALUE"),
        ('f "', '`%%rlx f "`: No closing quotation'),
    ],
)
def test_wrong_options(shell: Any, line: str, message: str) -> None:
    assert failure(shell, f"%%rlx {line}\nlet y = 1;").diagnostics[0].message == message


def test_options() -> None:
    options = parse_options("net --config d=64 act=relu -c eps=1e-3 --html")
    assert (options.name, options.html, options.show) == ("net", True, False)
    assert options.configs == {"d": 64, "act": "relu", "eps": 1e-3}


# ------------------------------------------------------------------------------------------------ %rlx


def test_an_expression_over_arrays(shell: Any) -> None:
    shell.user_ns.update(x=np.arange(6.0).reshape(2, 3), k=2, shape=[3, 2], v=[1.0, 2.0])
    np.testing.assert_array_equal(run(shell, "%rlx x * k"), [[0, 2, 4], [6, 8, 10]])
    assert run(shell, "%rlx x * k").dtype == np.float32
    np.testing.assert_array_equal(run(shell, "y = %rlx x.reshape(shape)\ny"), [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(run(shell, "%rlx v + 1"), [2, 3])
    assert run(shell, "%rlx 7 div 2") == 3
    assert [part.shape for part in run(shell, "%rlx split(x, 1, 3)")] == [(2, 1)] * 3


def test_an_expression_that_is_wrong(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.user_ns["values"] = np.ones(3)
    assert failure(shell, "%rlx valeus + 1").diagnostics[0].help == "did you mean `values`?"
    assert failure(shell, "%rlx values @").diagnostics[0].code == "E0110"
    assert failure(shell, "%rlx np + 1").diagnostics[0].code == "E0306"
    assert failure(shell, "%rlx values.reshape([2, 2])").diagnostics[0].code.startswith("E04")
    assert "Traceback" not in capsys.readouterr().out


def test_usage(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%rlx")
    assert "--config NAME=VALUE" in capsys.readouterr().out


def test_evaluate_takes_integers_as_i32() -> None:
    assert evaluate("n + 1", {"n": np.arange(3)}).dtype == np.int32
    with pytest.raises(rlx.RlxValueError):
        evaluate("n + 1", {"n": np.array([2**40])})


# ------------------------------------------------------------------------------------------------ completion


def completed(shell: Any, text: str) -> list[str]:
    """What IPython proposes at the end of a text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [c.text for c in shell.Completer.completions(text, len(text))]


def test_completion_in_cells(shell: Any) -> None:
    assert completed(shell, "%%rlx f\ninput height: [3];\nlet y = heig") == ["height"]
    assert "softmax" in completed(shell, "%%rlx f\ninput x: [3];\nlet y = x.soft")
    assert "softmax" in completed(shell, "y = %rlx soft")
    shell.user_ns["heights"] = np.ones(3)
    assert "heights" in completed(shell, "%rlx heig")


def test_completion_elsewhere_is_pythons(shell: Any) -> None:
    assert cell_completions("import numpy", 0, 12, shell) == (None, "")
    assert cell_completions("%%rlx f", 0, 7, shell) == (None, "")


def test_unload(shell: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shell.run_line_magic("unload_ext", "rlxlang")
        assert not shell.Completer.custom_matchers
        shell.run_line_magic("load_ext", "rlxlang")
        shell.run_line_magic("reload_ext", "rlxlang")
    assert len(shell.Completer.custom_matchers) == 1


# ------------------------------------------------------------------------------------------------ pages


class Page(HTMLParser):
    """Collects the elements of a page and checks that they are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.elements.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = """
/// <script>alert(1)</script> & "quoted"
input x @ "<b onmouseover=x>": [3];
let y = x * 2; // </div></pre><script> \u202e
"""


def test_a_function_on_a_page() -> None:
    func = rlx.loads(HOSTILE, "<img src=x>")
    html = func._repr_html_()
    page = Page(html)
    names = {tag for tag, _ in page.elements}
    assert not names & {"script", "img", "b", "link", "style", "iframe"}
    assert "<script>alert(1)</script>" in page.text
    assert "\u202e" not in html
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert not re.search(r"https?:|url\(|background:\s*#|javascript:", attributes.get("style") or "")
        assert "src" not in attributes
        assert "href" not in attributes


def test_a_function_without_source_is_a_table() -> None:
    func = rlx.Func("double", lambda s: s.input("x", [3]) * 2.0)
    page = Page(func._repr_html_())
    assert "source" not in page.text
    assert "double: 0 parameters" in page.text


def test_source_is_coloured() -> None:
    html = source_html('let y = f(x, "a<b"); // c')
    assert Page(html).text == 'let y = f(x, "a<b"); // c'
    assert re.search(r"<span style=\"color:#\w{6}\">let</span>", html)


def test_a_large_source_is_cut() -> None:
    func = rlx.loads("input x: [2];\nlet y = x;\n" + "// filler\n" * 5000)
    text = Page(func._repr_html_()).text
    assert "\n…graph" in text
    assert len(text) < 21_000


def test_diagnostics_on_a_page() -> None:
    diagnostics: list[Diagnostic] = [error("E0201", "<&>", helps=["try <this>"])]
    page = Page(diagnostics_html(diagnostics))
    assert page.text == "error[E0201]: <&>\n  = help: try <this>"


def test_the_extension_is_loaded_lazily() -> None:
    init = (Path(rlx.__file__)).read_text("utf-8")
    assert "import rlxlang.notebook" not in init
    assert callable(rlx.load_ipython_extension)
