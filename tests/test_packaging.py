"""The wheel holds what the checkout holds."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SETUPTOOLS = CONFIG["tool"]["setuptools"]
MAPPED = {folder: package for package, folder in SETUPTOOLS["package-dir"].items()}
TOPS = ("rlx", "rlxlang", *MAPPED)


def package_of(folder: Path) -> str:
    """Return the dotted name under which ``folder`` is installed."""
    path = folder.relative_to(ROOT)
    for top, package in MAPPED.items():
        if path.is_relative_to(top):
            return ".".join([package, *path.relative_to(top).parts])
    return ".".join(path.parts)


def packages() -> dict[str, Path]:
    """Return every package of the checkout with its folder."""
    return {package_of(init.parent): init.parent for top in TOPS for init in (ROOT / top).rglob("__init__.py")}


def test_every_package_folder_is_listed() -> None:
    missing = sorted(set(packages()) - set(SETUPTOOLS["packages"]))
    lines = "\n".join(f'  "{name}",' for name in missing)
    assert not missing, f"add to [tool.setuptools] packages in pyproject.toml:\n{lines}"


def test_every_listed_package_exists() -> None:
    gone = sorted(set(SETUPTOOLS["packages"]) - set(packages()))
    lines = "\n".join(f'  "{name}",' for name in gone)
    assert not gone, f"no __init__.py for these packages; add it, or remove from pyproject.toml:\n{lines}"


def test_every_module_lies_in_a_package() -> None:
    homeless = [
        str(file.relative_to(ROOT))
        for top in TOPS
        for file in (ROOT / top).rglob("*.py")
        if not (file.parent / "__init__.py").is_file()
    ]
    assert not homeless, f"no __init__.py beside {homeless}: a wheel would lack them"


def test_every_data_file_is_listed() -> None:
    folder_of = packages()
    shipped = {
        file
        for package, globs in SETUPTOOLS["package-data"].items()
        for glob in globs
        if package in folder_of
        for file in folder_of[package].glob(glob)
    }
    data = {
        file
        for top in TOPS
        for file in (ROOT / top).rglob("*")
        if file.is_file() and file.suffix not in {".py", ".pyc"}
    }
    lost = sorted(str(file.relative_to(ROOT)) for file in data - shipped)
    assert not lost, f"[tool.setuptools.package-data] in pyproject.toml has no pattern for {lost}"


def test_the_short_name_is_the_same_module() -> None:
    program = (
        "import rlx, rlxlang, rlx.resources, rlxlang.backends\n"
        "assert rlx is rlxlang\n"
        "import rlx.backends as short\n"
        "assert short is rlxlang.backends\n"
        "assert rlxlang.resources.__spec__.name == 'rlxlang.resources'\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=ROOT, check=True)
