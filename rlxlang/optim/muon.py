"""Momentum with orthogonal steps for matrices, AdamW for the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxShapeError, RlxValueError
from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import HOST, Arithmetic, Value
from rlxlang.optim.groups import require_not_negative
from rlxlang.optim.settings import Betas, Momentum, beta_scalars

Array: TypeAlias = "np.ndarray[Any, Any]"

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_LEAST_NORM = 1e-7
_SCALES = ("rms", "spectral")


class Muon(Algorithm):
    """Matrices move along their orthogonalised momentum, all other parameters as with AdamW.

    `m = μ·m + g; u = g + μ·m; θ −= lr·(s·orth(u) + λθ)`, kernels of convolutions seen as matrices of their first axis.

    Args:
        lr: Learning rate of matrices.
        momentum: μ in [0, 1), Nesterov.
        steps: Newton–Schulz iterations.
        weight_decay: λ, decoupled.
        scale: `"rms"` for s = 0.2·√max(rows, columns), `"spectral"` for s = √max(1, rows/columns).
        adamw: Patterns of names of matrices that AdamW updates, `("embed*", "head")`.
        adamw_lr: Learning rate of AdamW; a schedule scales it as it scales `lr`.
        betas: Of AdamW.
        eps: Of AdamW.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; the scale 0.2 is Liu et al. 2025.
    """

    algorithm = "Muon"
    betas = Betas()
    momentum = Momentum(is_optional=False)

    def __init__(
        self,
        lr: float = 0.02,
        momentum: float = 0.95,
        steps: int = 5,
        weight_decay: float = 0.0,
        scale: str = "rms",
        adamw: Sequence[str] = (),
        adamw_lr: float = 3e-4,
        betas: Sequence[float] = (0.9, 0.95),
        eps: float = 1e-8,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        require_not_negative(self.algorithm, steps=steps, adamw_lr=adamw_lr, eps=eps)
        if scale not in _SCALES:
            raise RlxValueError(f"`Muon`: `scale` is {' or '.join(map(repr, _SCALES))}, {scale!r} is given")
        self.betas, self.momentum = betas, momentum
        self.steps, self.scale, self.eps = int(steps), scale, float(eps)
        self.adamw = (adamw,) if isinstance(adamw, str) else tuple(adamw)
        self.adamw_lr, self._base_lr = float(adamw_lr), float(lr)

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`m`, and `v` for what AdamW updates."""
        is_matrix = len(shape) >= 2 and not any(fnmatchcase(name, pattern) for pattern in self.adamw)
        return {"m": shape} if is_matrix else {"m": shape, "v": shape}

    def hyper(self, t: int) -> dict[str, float]:
        """The momentum, the decays of AdamW, its rate relative to `lr`, and its corrections."""
        ratio = self.adamw_lr / self._base_lr if self._base_lr else 1.0
        beta1, beta2 = self.betas
        unbias = {"unbias1": 1.0 / (1.0 - beta1**t), "unbias2": 1.0 / (1.0 - beta2**t)}
        return {"momentum": self.momentum, **beta_scalars(self.betas), "ratio": ratio, **unbias}

    def update(
        self,
        x: Arithmetic,
        param: Value,
        grad: Value,
        slots: Mapping[str, Value],
        hyper: Mapping[str, Value],
        weight_decay: float,
    ) -> tuple[Value, dict[str, Value]]:
        """See the class."""
        if "v" in slots:
            m = hyper["beta1"] * slots["m"] + hyper["rest1"] * grad
            v = hyper["beta2"] * slots["v"] + hyper["rest2"] * (grad * grad)
            move = (m * hyper["unbias1"]) / (x.sqrt(v * hyper["unbias2"]) + self.eps)
            rate, changed = hyper["lr"] * hyper["ratio"], {"m": m, "v": v}
        else:
            m = hyper["momentum"] * slots["m"] + grad
            move = self._orthogonal(x, grad + hyper["momentum"] * m)
            rate, changed = hyper["lr"], {"m": m}
        if weight_decay:
            move = move + weight_decay * param
        return param - rate * move, changed

    def _orthogonal(self, x: Arithmetic, value: Value) -> Value:
        shape = tuple(value.shape)
        rows, columns = shape[0], math.prod(shape[1:])
        matrix = x.reshape(value, (rows, columns))
        factor = (
            0.2 * math.sqrt(max(rows, columns)) if self.scale == "rms" else math.sqrt(max(1.0, rows / max(columns, 1)))
        )
        return x.reshape(factor * orthogonalised(x, matrix, rows, columns, self.steps), shape)


def orthogonalised(x: Arithmetic, matrix: Value, rows: int, columns: int, steps: int) -> Value:
    """A matrix whose singular values have been drawn towards 1 by a quintic Newton–Schulz iteration."""
    a, b, c = _COEFFICIENTS
    flat = x.transpose(matrix) if rows > columns else matrix
    flat = flat / (x.sqrt(x.sum(flat * flat)) + _LEAST_NORM)
    for _ in range(steps):
        gram = x.matmul(flat, x.transpose(flat))
        flat = a * flat + x.matmul(b * gram + c * x.matmul(gram, gram), flat)
    return x.transpose(flat) if rows > columns else flat


def newton_schulz_orth(matrix: Array, steps: int = 5) -> Array:
    """A matrix with the same singular vectors and singular values between about 0.7 and 1.2.

    Args:
        matrix: float[rows, columns].
        steps: Iterations of the quintic polynomial.

    Raises:
        RlxShapeError: It is no matrix.

    Source:
        Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks".
    """
    if np.ndim(matrix) != 2:
        raise RlxShapeError(f"`newton_schulz_orth` takes a matrix, the shape is {list(np.shape(matrix))}")
    rows, columns = np.shape(matrix)
    result: Array = orthogonalised(HOST, np.asarray(matrix), rows, columns, steps)
    return result
