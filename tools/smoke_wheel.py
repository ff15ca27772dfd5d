"""Install a wheel into a fresh environment and use it from outside the checkout.

python tools/smoke_wheel.py dist/rlxlang-0.1.0-py3-none-any.whl
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PROGRAM = """
import sys
import rlx, rlxlang
assert rlx is rlxlang, "rlx and rlxlang are two modules"
assert "site-packages" in rlxlang.__file__, rlxlang.__file__
import rlx.backends, rlxlang.backends, rlxlang.grammar, rlxlang.stdlib
assert rlx.backends is rlxlang.backends, "rlx.backends is a second module"
from rlxlang.resources import grammar_text
assert grammar_text(), "the grammar is not in the wheel"
missing = [name for name in rlx.__all__ if getattr(rlx, name, None) is None]
assert not missing, f"public names that do not resolve: {missing}"
from rlxlang.diagnostics import CODES
from rlxlang.resources import error_page
for code in CODES:
    assert error_page(code).startswith(f"# {code}: "), f"the page of {code} is not in the wheel"
from rlxlang.tools.cli import main
assert main(["explain", "E0401"]) == 0
print("wheel works:", rlx.__version__, "on", sys.version.split()[0])
"""


def main(wheel: str) -> int:
    """Return 0 when the program above runs against ``wheel``."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.check_call([python, "-m", "pip", "install", "--quiet", str(Path(wheel).resolve())])
        return subprocess.call([python, "-c", PROGRAM], cwd=folder)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
