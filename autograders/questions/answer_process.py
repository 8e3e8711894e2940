"""Observes a program's functions on sets of hidden inputs, in a process of its own with a limit on computing time."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import multiprocessing
import os
import resource
import signal
import time
import types
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from ..course import CELL_SECONDS
from ..probes import observe_question
from ..reasons import Kind, Reason
from .question import QUESTIONS, Question

IDLE_SECONDS = 60
"""How long a process may wait without computing, by the clock. A busy machine gives every process a turn sooner."""
_CLOCK_PER_CPU = 40  # a program that sleeps between short pieces of work ends after this many times its limit
PRELOADED = ["autograders.questions.fork_server"]


@dataclass(frozen=True)
class Observed:
    """What a program published for one set of inputs, or why nothing came back."""

    published: list[Any]
    incident: Reason | None = None


class Program(NamedTuple):
    """A program, one set of encoded inputs on which its functions are observed, and the seed it starts with."""

    sources: Sequence[str]
    cases: list[Any]
    seed: int = 0


def observe_sets(
    question: Question, sources: Sequence[str], sets: Sequence[list[Any]], seconds: int = CELL_SECONDS
) -> Generator[Observed]:
    """Run `sources` anew for each set of encoded inputs and observe the question's functions on it."""
    return observe_programs(question, [Program(sources, cases, seed) for seed, cases in enumerate(sets)], seconds)


def observe_programs(
    question: Question, programs: Sequence[Program], seconds: int = CELL_SECONDS
) -> Generator[Observed]:
    """Run each program and observe the question's functions on its inputs.

    One process serves all. When it ends, runs out of computing time or waits for ever, that program has an incident
    and the next one gets a new process. `seconds` of computing time are for each program; the clock plays no part, so
    that a busy machine gives the same result.
    """
    done = 0
    while done < len(programs):
        with _started(question, programs[done:], seconds) as (process, receiver):
            while done < len(programs):
                observed = _receive(process, receiver, seconds)
                yield observed
                done += 1
                if observed.incident is not None:
                    break


@contextlib.contextmanager
def _started(question: Question, programs: Sequence[Program], seconds: int) -> Iterator[Any]:
    # A fork would copy the locks that this process's threads hold; spawning would import PyTorch for every answer.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_observe, args=(sender, question.id, programs, seconds), daemon=True)
    process.start()
    # While this copy of the writing end is open, the end of the other process would not be seen as end of file.
    sender.close()
    try:
        yield process, receiver
    finally:
        process.kill()
        process.join()
        receiver.close()


def _receive(process: Any, receiver: Connection, seconds: int) -> Observed:
    """The next observation of a process, or what became of it."""
    started = moved = time.monotonic()
    used = 0.0
    while not receiver.poll(0.2 if seconds > 1 else 0.05):
        now = time.monotonic()
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(process.pid).cpu_times()
            if times.user + times.system > used:
                used, moved = times.user + times.system, now
        if now - moved > IDLE_SECONDS or now - started > seconds * _CLOCK_PER_CPU:
            text = f"out of time: it computed nothing for {IDLE_SECONDS} seconds, or hardly anything"
            return Observed([], Reason(Kind.OUT_OF_TIME, text))
    try:
        # Bytes, read as JSON: nothing that a student's process sends is ever unpickled.
        return Observed([json.loads(receiver.recv_bytes())])
    except (EOFError, ValueError):
        process.join(IDLE_SECONDS)
        # The signal that the kernel sends at the soft limit of RLIMIT_CPU.
        if process.exitcode == -signal.SIGXCPU:
            return Observed([], Reason(Kind.OUT_OF_TIME, f"out of time: it computed for more than {seconds} seconds"))
        text = f"nothing was observed: its process ended (exit code {process.exitcode})"
        return Observed([], Reason(Kind.NOT_OBSERVED, text))


@functools.lru_cache(maxsize=64)  # the same cells for each set
def _compiled(source: str, file: str) -> types.CodeType:
    return compile(source, file, "exec")


def _observe(sender: Connection, question_id: str, programs: Sequence[Program], seconds: int) -> None:
    import numpy as np
    import torch

    from lecture_lib.notebook.process_state import reset_process
    from lecture_lib.notebook.replaced_functions import remember_functions

    remember_functions()  # nothing to do after the server's, whose imports may have failed without a word
    torch.set_num_threads(1)
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        for program in programs:
            # RLIMIT_CPU counts from the start of the process, in whole seconds, and earlier programs used some of them.
            limit = math.ceil(time.process_time()) + seconds
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            torch.manual_seed(program.seed)  # whatever an answer draws, a second run draws it too
            np.random.seed(program.seed)
            # As in a notebook, where code below `if __name__ == "__main__"` runs.
            namespace: dict[str, Any] = {"__name__": "__main__"}
            reset_process()  # whatever the last program left
            for source in program.sources:
                exec(_compiled(source, question_id), namespace)
            functions = tuple(namespace[name] for name in QUESTIONS[question_id].public.functions)
            sender.send_bytes(json.dumps(observe_question(question_id, functions, program.cases)).encode())
