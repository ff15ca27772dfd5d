"""Figures of many batches from what each has counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from rlxlang.training.metrics import Metric

Array: TypeAlias = "np.ndarray[Any, Any]"


class Tally:
    """The counts of a metric so far.

    Attributes:
        metric: The metric.
        parts: How many outputs of a batch belong to it.
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.parts = 3 if metric.kind == "f1" else 2
        self._totals: list[Any] = []
        self._lists: list[list[Array]] = [[], []]

    def add(self, parts: Sequence[Array]) -> None:
        """Add the counts of a batch."""
        if self.metric.kind == "auc":
            for own, part in zip(self._lists, parts, strict=True):
                own.append(np.array(part))
            return
        wide = [p.astype(np.float64 if p.dtype.kind == "f" else np.int64) for p in parts]
        self._totals = [a + p for a, p in zip(self._totals, wide, strict=True)] if self._totals else wide

    def totals(self) -> list[Any]:
        """The counts as JSON has them."""
        return [total.tolist() for total in self._totals]

    def load(self, totals: Sequence[Any]) -> None:
        """Go on from counts."""
        self._totals = [np.array(total) for total in totals]

    def value(self) -> float:
        """The figure; NaN when there is nothing to tell it from."""
        kind = self.metric.kind
        if kind == "auc":
            scores, labels = (np.concatenate(own) if own else np.zeros(0) for own in self._lists)
            return auc(scores, labels)
        if not self._totals:
            return math.nan
        if kind == "f1":
            both, guessed, true = self._totals
            return f1(both, guessed, true, self.metric.average)
        total, count = self._totals
        mean = float(total) / float(count) if count else math.nan
        return _exp(mean) if kind == "perplexity" else mean


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def f1(both: Array, guessed: Array, true: Array, average: str | None) -> float:
    """F1 = 2·both / (guessed + true), from counts by class; a class that never occurs has none. See `Metric` for averages."""
    if average is None and len(both) == 2:
        both, guessed, true = both[1:], guessed[1:], true[1:]
    if average == "micro":
        return _ratio(2 * both.sum(), guessed.sum() + true.sum())
    occurs = guessed + true > 0
    if not occurs.any():
        return math.nan
    each = 2 * both[occurs] / (guessed + true)[occurs]
    if average == "weighted":
        return _ratio(float(each @ true[occurs]), true.sum())
    return float(each.mean())


def _ratio(x: float, y: float) -> float:
    return float(x) / float(y) if y else math.nan


def auc(scores: Array, labels: Array) -> float:
    """Area under the curve of true against false positives.

    It is the share of pairs of a row of class 1 and one of class 0 in which the former has the higher score; ties count half. Rows
    of other labels do not count.

    Source:
        Mann and Whitney 1947; Hanley and McNeil 1982.
    """
    counted = (labels == 0) | (labels == 1)
    scores, positive = scores[counted].astype(np.float64), labels[counted] == 1
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros or np.isnan(scores).any():
        return math.nan
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]  # mean rank of equal scores, from 1
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))
