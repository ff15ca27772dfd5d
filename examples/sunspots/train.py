"""Train a recurrent network on the sunspots of 1700 to 1948, and let it forecast those of 1949 to 2008.

python examples/sunspots/train.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import rlx

Array: TypeAlias = "np.ndarray[Any, Any]"

HERE = Path(__file__).parent
FIRST_TEST_YEAR = 1949
CYCLE = 11  # years


def data() -> tuple[Array, Array]:
    """Years and mean sunspot numbers of them."""
    table = np.loadtxt(HERE / "sunspots.csv", delimiter=",", skiprows=1)
    return table[:, 0].astype(int), table[:, 1]


def scaled(numbers: Array) -> Array:
    """Counts in the scale of the network: the square root evens out how far they spread."""
    return (np.sqrt(numbers) / 10).astype(np.float32)


def counts(values: Array) -> Array:
    """The way back."""
    return np.maximum(values, 0) ** 2 * 100


def windows(values: Array, length: int) -> Array:
    """All stretches of consecutive values."""
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(values, length))


def train(numbers: Array, steps: int, **configs: Any) -> rlx.Func:
    """The network that has learned a series."""
    model = rlx.load(HERE / "sunspots.rlx", **configs).init_params(seed=0)
    trainer = model.trainer(rlx.optim.AdamW(1e-2, weight_decay=0.1), rlx.LrSchedule.cosine(1e-2, 1e-5, steps))
    batch = windows(scaled(numbers), 64)
    for _ in range(steps):
        trainer.step(series=batch)
    return trainer.func()


def forecast(model: rlx.Func, known: Array, years: int) -> Array:
    """The years after each series of a batch, each forecast from those before it, forecast ones included."""
    series = scaled(known)
    for _ in range(years):
        following = model.run_dict(series=series)["next"][:, -1:]
        series = np.concatenate([series, following], axis=1)
    return counts(series[:, -years:])


def errors(model: rlx.Func, years: Array, numbers: Array) -> dict[str, dict[str, float]]:
    """Root mean square errors of forecasts of one year, and of the eleven years of a cycle."""
    first = int(np.flatnonzero(years == FIRST_TEST_YEAR)[0])
    truth = numbers[first:]
    ahead = counts(model.run_dict(series=scaled(numbers)[None])["next"][0, first - 1 : -1])
    origins = np.arange(first, len(numbers) - CYCLE + 1)
    future = np.stack([numbers[k : k + CYCLE] for k in origins])
    before = np.stack([numbers[k - 128 : k] for k in origins])
    last_cycle, last_value = before[:, -CYCLE:], np.repeat(before[:, -1:], CYCLE, axis=1)

    def rms(a: Array, b: Array) -> float:
        return float(np.sqrt(np.mean((a - b) ** 2)))

    return {
        "the network": {"1 year": rms(ahead, truth), "11 years": rms(forecast(model, before, CYCLE), future)},
        "as eleven years before": {
            "1 year": rms(numbers[first - CYCLE : -CYCLE], truth),
            "11 years": rms(last_cycle, future),
        },
        "as the year before": {"1 year": rms(numbers[first - 1 : -1], truth), "11 years": rms(last_value, future)},
    }


if __name__ == "__main__":
    all_years, all_numbers = data()
    learned = train(all_numbers[all_years < FIRST_TEST_YEAR], steps=250)
    print(f"{'error of forecasts of':24}{'1 year':>10}{'11 years':>10}")
    for name, row in errors(learned, all_years, all_numbers).items():
        print(f"{name:24}{row['1 year']:10.1f}{row['11 years']:10.1f}")
