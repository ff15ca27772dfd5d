"""Train the language model on the characters of Python's help pages, compare it with counts of characters, and let it write.

python examples/characters/train.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import rlx

Array: TypeAlias = "np.ndarray[Any, Any]"

MODEL = Path(__file__).parents[1] / "language_model.rlx"
SIZE = {"depth": 4, "width": 128, "heads": 4, "longest": 96}


class Text:
    """The help pages as numbers of characters, the last tenth kept for validation.

    Attributes:
        alphabet: All characters, in order.
        known: Those to learn from.
        unseen: Those to test on.
    """

    def __init__(self) -> None:
        from pydoc_data.topics import topics

        text = "\n".join(topics[name] for name in sorted(topics))
        self.alphabet = sorted(set(text))
        numbers = self.numbers(text)
        cut = len(numbers) * 9 // 10
        self.known, self.unseen = numbers[:cut], numbers[cut:]

    def numbers(self, text: str) -> Array:
        """The number of each character."""
        place = {char: k for k, char in enumerate(self.alphabet)}
        return np.array([place[char] for char in text], np.int32)

    def entropies(self) -> tuple[float, float]:
        """Bits for each unseen character by the frequencies of known ones: alone, and after the one before it."""
        n = len(self.alphabet)
        single = np.bincount(self.known, minlength=n) + 1.0
        pairs = np.full((n, n), 0.1)
        np.add.at(pairs, (self.known[:-1], self.known[1:]), 1)
        alone = -np.log2(single / single.sum())[self.unseen]
        after = -np.log2(pairs / pairs.sum(axis=1, keepdims=True))[self.unseen[:-1], self.unseen[1:]]
        return float(alone.mean()), float(after.mean())


def train(text: Text, steps: int, batch: int = 32, **configs: Any) -> rlx.Func:
    """The model after so many steps on random places of the text."""
    sizes = {**SIZE, **configs}
    model = rlx.load(MODEL, vocab=len(text.alphabet), **sizes).init_params(seed=0)
    trainer = model.trainer(
        rlx.optim.AdamW(2e-3, betas=(0.9, 0.95), weight_decay=0.1),
        rlx.LrSchedule.warmup_cosine(2e-3, 1e-5, min(100, steps // 4), steps),
        max_grad_norm=1.0,
    )
    places = np.lib.stride_tricks.sliding_window_view(text.known, sizes["longest"])
    rng = np.random.default_rng(0)
    for step in range(steps):
        loss = trainer.step(ids=places[rng.integers(0, len(places), batch)])
        if step % 100 == 99:
            print(f"step {step + 1}: {loss / np.log(2):.2f} bits", flush=True)
    return trainer.func()


def bits(model: rlx.Func, text: Text, length: int) -> float:
    """Bits for each unseen character, in stretches of so many."""
    count = len(text.unseen) // length
    ids = text.unseen[: count * length].reshape(count, length)
    losses = [model.run_dict(ids=part)["loss"] for part in np.array_split(ids, max(1, count // 64))]
    return float(np.mean(losses) / np.log(2))


def write(model: rlx.Func, text: Text, start: str, length: int, longest: int, temperature: float = 0.7) -> str:
    """A text that the model continues, one drawn character after the other."""
    rng = np.random.default_rng(0)
    ids = list(text.numbers(start))
    for _ in range(length):
        # The last place of the longest text had nothing to predict while the model learned.
        logits = (
            model.run_dict(ids=np.array([ids[1 - longest :]], np.int32))["logits"][0, -1].astype(np.float64)
            / temperature
        )
        chances = np.exp(logits - logits.max())
        ids.append(int(rng.choice(len(chances), p=chances / chances.sum())))
    return "".join(text.alphabet[k] for k in ids)


if __name__ == "__main__":
    pages = Text()
    learned = train(pages, steps=1000)
    first, second = pages.entropies()
    print(f"bits for each character not seen before: single characters {first:.2f}, pairs {second:.2f}, ", end="")
    print(f"the model {bits(learned, pages, SIZE['longest']):.2f}")
    print(write(learned, pages, "The assignment ", 300, SIZE["longest"]))
