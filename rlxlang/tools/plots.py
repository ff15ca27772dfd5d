"""Loss curves as pictures; needs matplotlib."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rlxlang.diagnostics import RlxRuntimeError, RlxValueError

if TYPE_CHECKING:
    from rlxlang.training import History


def require_matplotlib(path: str | Path) -> None:
    """Refuse to plot, before the work is done, where matplotlib is missing or does not write such files.

    Raises:
        RlxRuntimeError: It is not installed.
        RlxValueError: It has no format for the suffix of `path`.
    """
    if find_spec("matplotlib") is None:
        raise RlxRuntimeError("`--plot` needs matplotlib", helps=("pip install 'rlxlang[examples]'",))
    from matplotlib.backend_bases import FigureCanvasBase

    formats = FigureCanvasBase.get_supported_filetypes()
    suffix = Path(path).suffix.removeprefix(".").lower()
    if suffix and suffix not in formats:
        raise RlxValueError(
            f"`{path}`: there is no picture format `{suffix}`", notes=(f"there are {', '.join(formats)}",)
        )


def plot_losses(history: History, title: str, path: str | Path) -> None:
    """Draw the losses of a run over its epochs into a picture file.

    Raises:
        RlxRuntimeError: The file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    epochs = [e.epoch for e in history.epochs]
    axes.plot(epochs, history.losses, label="training")
    if history.val_losses:
        axes.plot([e.epoch for e in history.epochs if e.val], history.val_losses, label="held out")
    axes.set_title(title)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss")
    if min([*history.losses, *history.val_losses], default=0) > 0:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as problem:
        raise RlxRuntimeError(f"`{path}` cannot be written: {problem}") from problem
