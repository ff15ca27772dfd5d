"""``python -m rlxlang``: the command line."""

from __future__ import annotations

from rlxlang.tools.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
