"""What a classifier does with each class: precision, recall, F1, and who is taken for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.training.data import source_of
from rlxlang.training.evaluation import EVALUATION_BATCH_SIZE
from rlxlang.training.metrics import metrics_of

if TYPE_CHECKING:
    from rlxlang.func import Func

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_CLASSES = 20  # more make no table that can be read


@dataclass(frozen=True, slots=True)
class Classes:
    """How many rows of each class are taken for each.

    Attributes:
        confusion: i64[classes, classes]; rows are true, columns found.
    """

    confusion: Array

    def figures(self) -> list[dict[str, float]]:
        """Precision, recall, F1 and rows of each class; 0 where there is nothing to divide by."""
        hits = np.diag(self.confusion).astype(np.float64)
        true, found = self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        return [
            {
                "precision": float(h / max(f, 1)),
                "recall": float(h / max(t, 1)),
                "f1": float(2 * h / max(t + f, 1)),
                "rows": int(t),
            }
            for h, t, f in zip(hits, true, found, strict=True)
        ]

    def tables(self) -> str:
        """Both tables in text."""
        lines = ["class  precision  recall     F1   rows"]
        for k, row in enumerate(self.figures()):
            lines.append(f"{k:5}{row['precision']:11.3f}{row['recall']:8.3f}{row['f1']:7.3f}{row['rows']:7}")
        width = max(5, len(str(self.confusion.max(initial=0))) + 1)
        lines += ["", "rows: the class, columns: what it is taken for"]
        lines.append(" " * 5 + "".join(f"{k:{width}}" for k in range(len(self.confusion))))
        lines += [f"{k:5}" + "".join(f"{n:{width}}" for n in row) for k, row in enumerate(self.confusion)]
        return "\n".join(lines)


def classes_of(func: Func, data: Mapping[str, Array], seed: int = 0) -> Classes | None:
    """What a classifier does with each class of data; None when the function is none, or has too many classes for a table."""
    pair = metrics_of(func.graph, None)
    if not pair:
        return None
    output, label = pair[0].output, pair[0].label
    assert output is not None
    assert label is not None
    count = next(o.node.shape[-1] for o in func.graph.outputs if o.name == output)
    if not isinstance(count, int) or count > MOST_CLASSES:
        return None
    place, truth_place = func.output_names().index(output), func.input_names().index(label)
    signature = func.traced.signature
    compiled = func.traced.compiled(None)
    confusion = np.zeros((count, count), np.int64)
    for values, _ in source_of(func, data, EVALUATION_BATCH_SIZE).batches():
        feeds, sizes = signature.prepare(signature.with_seed(values, seed), func.bindings)
        found = np.argmax(compiled.run(feeds, func.bindings, sizes)[place], axis=-1).reshape(-1)
        truth = np.asarray(values[truth_place]).reshape(-1)
        counted = (truth >= 0) & (truth < count)
        np.add.at(confusion, (truth[counted], found[counted]), 1)
    return Classes(confusion)
