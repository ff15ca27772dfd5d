"""Write ``digits.npz`` from scikit-learn's copy of the data (needs ``pip install scikit-learn``).

The file is part of the repository; this program documents how it was made.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

TARGET = Path(__file__).resolve().parent / "digits.npz"


def main() -> None:
    """Scale the pixels from 0..16 to 0..1 and store images and labels."""
    pixels, labels = load_digits(return_X_y=True)
    x = (pixels / 16.0).astype(np.float32)
    y = labels.astype(np.int32)
    np.savez_compressed(TARGET, x=x, y=y)


if __name__ == "__main__":
    main()
