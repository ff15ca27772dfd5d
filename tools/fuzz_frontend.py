"""Feed the front end with broken texts and report what does more than say what is wrong.

    python tools/fuzz_frontend.py --seed 7 --count 100000 --workers 2 --show

For every text: no exception but typed errors, no more than two seconds of processor time, bounded memory; the formatter
keeps the tree and is a fixed point; highlighting and the analysis of the language server never fail. A text that fails
is shortened and printed once for each kind of fault; exits with 1 if there was one.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rlxlang import loading
from rlxlang.diagnostics import render
from rlxlang.frontend import context
from tests.frontend.fuzzing import Texts, failure, shrunk, valid_texts

BATCH = 250  # texts of one seed
MEMORY = 3 << 30  # bytes of address space
SILENCE = 60.0  # seconds after which a worker is taken for stuck
# Texts that expand to more are refused like larger ones would be, and two seconds are enough for them.
STATEMENTS, OPERATIONS = 3000, 15_000


def parts_of(number: int) -> tuple[str, ...]:
    """What is checked of a text: the cheap parts always, the others in turn."""
    return (
        "parse",
        "elaborate",
        "format",
        ("highlight", "analyse", "highlight", "expression", "highlight", "file")[number % 6],
    )


def run_batch(seed: int, shorten: bool, report: Connection) -> None:
    """Check the texts of one seed; sends (fault, text) for each that fails."""
    texts = Texts(seed, valid_texts())
    for number in range(BATCH):
        if number % 50 == 49:
            _check_bytes(texts.data(), report)
            continue
        text = texts.one()
        report.send(("text", text))
        for part in parts_of(number):
            found = failure(text, part)
            if found:
                kind = found
                short = shrunk(text, lambda t, p=part, k=kind: failure(t, p) == k) if shorten else text
                report.send(("fault", found, short))


def _check_bytes(data: bytes, report: Connection) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "t.rlx")
        file.write_bytes(data)
        report.send(("text", repr(data)))
        try:
            for diagnostic in loading.check(file):
                render(diagnostic)
        except Exception as problem:
            report.send(("fault", f"bytes: {type(problem).__name__}", repr(data)))


def work(jobs: Connection, shorten: bool) -> None:
    """A worker: runs the seeds it is sent."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable()
    warnings.simplefilter("error")  # a warning of NumPy or Python is a fault, those of the language are diagnostics
    context.MOST_STATEMENTS, context.MOST_OPERATIONS = STATEMENTS, OPERATIONS
    while True:
        seed = jobs.recv()
        if seed is None:
            return
        run_batch(seed, shorten, jobs)
        jobs.send(("done",))


class Worker:
    """A process with the seed and text it is at."""

    def __init__(self, shorten: bool) -> None:
        self.jobs, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=work, args=(other, shorten), daemon=True)
        self.process.start()
        other.close()
        self.heard = time.monotonic()
        self.text = ""

    def send(self, seed: int | None) -> None:
        """Give the next seed; None ends the worker."""
        self.heard = time.monotonic()
        self.jobs.send(seed)


def main() -> int:
    """Run; returns the exit code."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--seed", type=int, default=0, help=f"first seed; a seed makes {BATCH} texts")
    options.add_argument("--count", type=int, default=10_000, help="how many texts")
    options.add_argument("--workers", type=int, default=1, help="processes")
    options.add_argument("--no-shrink", dest="shrink", action="store_false", help="show texts as they were found")
    options.add_argument("--show", action="store_true", help="print the first text of every fault")
    given = options.parse_args()
    seeds = iter(range(given.seed, given.seed + -(-given.count // BATCH)))
    faults: dict[str, int] = {}
    started, count = time.monotonic(), 0
    valid_texts()  # before the processes are made, so that each has them
    workers = [Worker(given.shrink) for _ in range(given.workers)]

    def fault(name: str, text: str) -> None:
        faults[name] = faults.get(name, 0) + 1
        if faults[name] == 1:
            print(f"{name}", *([repr(text)] if given.show else []), sep="\n  ", flush=True)

    def next_job(worker: Worker) -> None:
        worker.send(next(seeds, None))

    for worker in workers:
        next_job(worker)
    while workers:
        ready = wait_for([w.jobs for w in workers], timeout=5)
        for worker in list(workers):
            if worker.jobs in ready:
                try:
                    message = worker.jobs.recv()
                except EOFError:
                    workers.remove(worker)
                    worker.process.join()
                    if worker.process.exitcode:
                        fault(f"the process ended with {worker.process.exitcode}", worker.text)
                        workers.append(Worker(given.shrink))
                        next_job(workers[-1])
                    continue
                worker.heard = time.monotonic()
                if message[0] == "text":
                    worker.text, count = message[1], count + 1
                    if count % 10_000 == 0:
                        print(f"{count} texts, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
                elif message[0] == "fault":
                    fault(message[1], message[2])
                else:
                    next_job(worker)
            elif time.monotonic() - worker.heard > SILENCE:
                worker.process.kill()  # the end of its pipe is reported above
                worker.heard = time.monotonic()
    print(f"{count} texts, {len(faults)} faults, {time.monotonic() - started:.0f} s", flush=True)
    for name, times in sorted(faults.items()):
        print(f"{times:6} × {name}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
