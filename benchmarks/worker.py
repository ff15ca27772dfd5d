"""Run one workload for a timing harness: ``python -m benchmarks.worker WORKLOAD``.

The worker builds the workload, runs it once, and prints one JSON line with ``ready``, the
check values and ``first_call_s``. For every line ``go SECONDS`` on standard input it then
repeats the step for that long and prints median, minimum and count of the times (seconds) as
a JSON line; ``quit`` ends it. A step returns when its result is complete and readable.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np

import rlxlang as rlx
from benchmarks import workloads

MODELS = Path(__file__).resolve().parent / "models"
THREADS = 2
TINY_CALLS = 100


@dataclass(frozen=True, slots=True)
class Workload:
    """What the harness times.

    Attributes:
        step: does the work once.
        check: values by which frameworks are compared.
        is_one_shot: the first step is the one that counts; it must not be warmed up.
    """

    step: Callable[[], object]
    check: list[float]
    is_one_shot: bool = False


def load(name: str, params: Mapping[str, np.ndarray], **configs: float) -> rlx.Func:
    """Load ``models/<name>.rlx`` and bind its parameters."""
    return rlx.load(str(MODELS / f"{name}.rlx"), **configs).with_params(params)


def leading(values: object) -> list[float]:
    """Return the first eight values, in row-major order."""
    return [float(value) for value in np.asarray(values, dtype=np.float64).reshape(-1)[:8]]


def inference(func: rlx.Func, x: np.ndarray) -> Workload:
    """Time one call of a model with one input."""
    call = func.jit().call
    return Workload(lambda: call(x), leading(call(x)))


def training(func: rlx.Func, optimizer: rlx.optim.Optimizer, data: Mapping[str, list[np.ndarray]]) -> Workload:
    """Time one training step on ever new batches; the first five losses are the check."""
    trainer = func.trainer(optimizer)
    batches: Iterator[tuple[np.ndarray, np.ndarray]] = cycle(list(zip(data["x"], data["y"], strict=True)))

    def step() -> float:
        x, y = next(batches)
        return trainer.step(x=x, y=y)

    return Workload(step, [step() for _ in range(5)])


def mlp_sgd() -> Workload:
    """Train 784-256-10 with momentum."""
    data = workloads.mlp()
    return training(load("mlp_train", data["params"]), rlx.optim.Sgd(0.1, momentum=0.9), data)


def mlp_adamw() -> Workload:
    """Train 784-256-10 with AdamW."""
    data = workloads.mlp()
    optimizer = rlx.optim.AdamW(1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    return training(load("mlp_train", data["params"]), optimizer, data)


def cnn_sgd() -> Workload:
    """Train a small convolutional network with momentum."""
    data = workloads.cnn()
    return training(load("cnn", data["params"]), rlx.optim.Sgd(0.01, momentum=0.9), data)


def elementwise() -> Workload:
    """Sweep four million values once."""
    data = workloads.elementwise()
    configs = {name: float(data[name]) for name in "abc"}
    return inference(load("elementwise", {}, **configs), data["x"])


def softmax() -> Workload:
    """Normalise 4096 rows of 1024."""
    return inference(load("softmax", {}), workloads.rows()["x"])


def layernorm() -> Workload:
    """Standardise 4096 rows of 1024."""
    data = workloads.rows()
    return inference(load("layernorm", {"g": data["g"], "b": data["b"]}), data["x"])


def tiny() -> Workload:
    """Call a 1×4 by 4×4 layer a hundred times."""
    data = workloads.tiny()
    call = load("tiny", {"w": data["w"], "b": data["b"]}).jit().call
    x = data["x"]

    def step() -> None:
        for _ in range(TINY_CALLS):
            call(x)

    return Workload(step, leading(call(x)))


def dynamic_batches() -> Workload:
    """Infer a hundred batches of different sizes in a process that has compiled nothing."""
    data = workloads.dynamic_batches()
    func = load("mlp_infer", data["params"])
    rlx.fastest_device()  # loads the device's libraries, as importing another framework does; compiles nothing

    def step() -> None:
        call = func.jit().call
        for x in data["x"]:
            call(x)

    return Workload(step, [], is_one_shot=True)


def mlp_cold() -> Workload:
    """Start a process and infer one batch; the harness times the start."""
    data = workloads.dynamic_batches()
    return inference(load("mlp_infer", data["params"]), data["x"][0])


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "cnn_sgd": cnn_sgd,
    "dynamic_batches": dynamic_batches,
    "elementwise": elementwise,
    "layernorm": layernorm,
    "mlp_adamw": mlp_adamw,
    "mlp_cold": mlp_cold,
    "mlp_sgd": mlp_sgd,
    "softmax": softmax,
    "tiny": tiny,
}


def report(record: Mapping[str, object]) -> None:
    """Print one line of the protocol."""
    print(json.dumps(record), flush=True)


def measure(workload: Workload, seconds: float) -> dict[str, float]:
    """Repeat the step for ``seconds`` (once if one-shot) and summarise the times in seconds."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or (time.perf_counter() < end and not workload.is_one_shot):
        began = time.perf_counter()
        workload.step()
        times.append(time.perf_counter() - began)
    times.sort()
    return {"median_s": times[len(times) // 2], "min_s": times[0], "n": len(times)}


def serve(workload: Workload) -> None:
    """Warm up, report, and answer the harness until it ends the conversation."""
    began = time.perf_counter()
    if not workload.is_one_shot:
        workload.step()
    report({"ready": True, "check": workload.check, "first_call_s": time.perf_counter() - began})
    for line in sys.stdin:
        match line.split():
            case ["go", seconds]:
                report(measure(workload, float(seconds)))
            case ["quit"]:
                return
            case _:
                sys.exit(f"expected `go SECONDS` or `quit`, got {line!r}")


def main(arguments: list[str]) -> None:
    """Build the workload named on the command line and serve it."""
    if len(arguments) != 1 or arguments[0] not in WORKLOADS:
        sys.exit(f"no workload {' '.join(arguments)!r}; there are {', '.join(WORKLOADS)}")
    rlx.set_threads(THREADS)
    serve(WORKLOADS[arguments[0]]())


if __name__ == "__main__":
    main(sys.argv[1:])
