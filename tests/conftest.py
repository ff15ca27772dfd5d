"""Shared fixtures: the seed of the run, golden files, and caches that leave the user's alone."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import hypothesis
import numpy as np
import pytest

TESTS = Path(__file__).resolve().parent

# A busy machine must not fail a test, so hypothesis has no deadline.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="seed of the rng fixture (default: drawn anew)")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")
    if config.getoption("--seed") is None:
        # Workers of pytest-xdist inherit the environment, and so the seed and the folder.
        drawn = 0 if os.environ.get("CI") else random.SystemRandom().randrange(2**32)
        config.option.seed = int(os.environ.setdefault("RLX_TEST_SEED", str(drawn)))
    if "RLX_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="rlx-test-cache-")
        os.environ["RLX_CACHE_DIR"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.getoption('--seed')} (repeat with --seed {config.getoption('--seed')})"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a generator that depends on the run's seed and the test's name alone."""
    name = request.node.nodeid.encode("utf-8")
    return np.random.default_rng([request.config.getoption("--seed"), *name])


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return ``golden(name, text)``: compare ``text`` with ``tests/golden/<name>``."""
    update: bool = request.config.getoption("--update-golden")
    command = f"python -m pytest '{request.node.nodeid}' --update-golden"

    def compare(name: str, text: str) -> None:
        file = TESTS / "golden" / name
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
            return
        assert file.is_file(), f"{file} is missing; write it with\n    {command}"
        assert text == file.read_text("utf-8"), f"{file} differs; if the new text is right, run\n    {command}"

    return compare
