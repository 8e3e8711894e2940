"""Hands submissions out to processes, here or on a cluster, and returns the outcome of each."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from typing import Protocol

from ..course import CourseError
from ..reasons import Kind, Reason
from . import worker
from .attempt import Outcome
from .job import GradingTask
from .pending import Job
from .states import State

RETRIES = 2
"""How often a submission is graded again whose process ended."""


class WorkerLost(RuntimeError):  # noqa: N818 - it is no fault of ours
    """A process ended before it gave its submission back; `counts` when that submission may be what ended it."""

    def __init__(self, reason: str, *, counts: bool, again: bool = True) -> None:
        super().__init__(reason)
        self.counts, self.again = counts, again


class Crew(Protocol):
    """Processes that grade."""

    def has_room(self) -> bool:
        """Whether another submission can be handed out."""

    def submit(self, task: GradingTask) -> Future[Outcome]:
        """Hand out a submission."""

    def result(self, future: Future[Outcome]) -> Outcome:
        """The outcome of a submission that has come back. Raises WorkerLost; CourseError when the run must stop."""


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def outcomes(
    crew: Crew, jobs: Iterable[Job], pack: Callable[[Job], GradingTask | None]
) -> Iterator[tuple[Job, Outcome | None]]:
    """Each job with its outcome, in the order in which they end; None for a job that cannot be handed out.

    A submission whose process ended is handed out again, at most twice, and is set aside then. Raises CourseError when
    the run must stop.
    """
    waiting, out = deque(jobs), dict[Future[Outcome], Job]()
    lost: Counter[Job] = Counter()
    while waiting or out:
        while waiting and crew.has_room():
            job = waiting.popleft()
            task = pack(job)
            if task is None:
                yield job, None
            else:
                out[crew.submit(task)] = job
        for future in wait(out, return_when=FIRST_COMPLETED).done:
            job = out.pop(future)
            try:
                outcome = crew.result(future)
            except WorkerLost as error:
                lost[job] += error.counts
                if error.again and lost[job] <= RETRIES:
                    waiting.append(job)
                    continue
                times = f" ({lost[job]} times)" if lost[job] > 1 else ""
                text = f"the process that graded it ended{times}: {error}"
                outcome = Outcome(State.FAILED, (Reason(Kind.OTHER, text),))
            yield job, outcome


class Processes:
    """Processes of this machine for one run, one at a time in a pool of its own: a broken pool names its submission.

    They are started afresh (spawned), live as long as the run and end with it, however it ends.
    """

    def __init__(self, count: int) -> None:
        self._slots = [_Slot() for _ in range(count)]
        self._busy: dict[Future[Outcome], _Slot] = {}
        self._failed_starts = 0

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an error or Ctrl+C, submissions that still run are cut off; otherwise no process has anything to do.
        for slot in self._slots if kind is not None else ():
            slot.stop()
        for slot in self._slots:
            slot.join()

    def has_room(self) -> bool:
        """Whether a process has nothing to do."""
        return len(self._busy) < len(self._slots)

    def submit(self, task: GradingTask) -> Future[Outcome]:
        """Give a submission to a process that has nothing to do."""
        slot = next(slot for slot in self._slots if slot not in self._busy.values())
        future = slot.submit(task)
        self._busy[future] = slot
        return future

    def result(self, future: Future[Outcome]) -> Outcome:
        """The outcome of a submission. A process that has ended is replaced."""
        slot = self._busy.pop(future)
        try:
            outcome = future.result()
        except BrokenExecutor as error:
            started = slot.has_started()
            slot.join()
            self._failed_starts = 0 if started else self._failed_starts + 1
            if self._failed_starts > RETRIES:
                raise CourseError(
                    f"the grading processes end while they start ({error}). Is there enough memory? `--workers 1` "
                    "grades without them. What was finished is kept."
                ) from None
            raise WorkerLost("it was killed, or ran out of memory", counts=started) from None
        self._failed_starts = 0
        return outcome


class _Slot:
    """One process, and the next one when it ended."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, task: GradingTask) -> Future[Outcome]:
        with _interrupts_wait():
            for _ in range(2):
                pool = self._pool or self._start()
                try:
                    return pool.submit(worker.grade_task, task)
                except BrokenExecutor:  # it was killed while it had nothing to do
                    self.join()
        raise CourseError("a grading process ended twice while it had nothing to do. What was finished is kept.")

    def _start(self) -> ProcessPoolExecutor:
        # Spawned, not forked: this process has threads, and the id of the run in its environment by now.
        context = multiprocessing.get_context("spawn")
        child_end, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, context, worker.start, (child_end, tempfile.gettempdir()))
        self._ready = self._pool.submit(worker.ready)
        return self._pool

    def has_started(self) -> bool:
        return self._ready.done() and not self._ready.cancelled() and self._ready.exception() is None

    def stop(self) -> None:
        """Tell the process to end at once, its kernels first."""
        if self._pool is not None:
            self._lifeline.close()

    def join(self) -> None:
        """Wait until the process has ended, which it does when it has nothing to do."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._lifeline.close()
            self._pool = None


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl+C comes a moment later: a process that is starting would show it as an error of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


class ExecutorCrew:
    """Any executor whose workers are processes with this package: somebody else starts and ends them."""

    def __init__(self, executor: Executor, at_once: int) -> None:
        """Args: the executor, how many submissions it holds at a time."""
        self._executor, self._at_once = executor, at_once
        self._out: set[Future[Outcome]] = set()

    def __enter__(self) -> ExecutorCrew:
        return self

    def __exit__(self, *_: object) -> None:
        for future in self._out:
            future.cancel()

    def has_room(self) -> bool:
        """Whether it can hold another submission."""
        return len(self._out) < self._at_once

    def submit(self, task: GradingTask) -> Future[Outcome]:
        """Hand out a submission."""
        future = self._executor.submit(worker.grade_task, task)
        self._out.add(future)
        return future

    def result(self, future: Future[Outcome]) -> Outcome:
        """The outcome of a submission. If a worker was lost, Dask has already had its submission graded again."""
        self._out.remove(future)
        try:
            return future.result()
        except CourseError:
            raise
        except (BrokenExecutor, CancelledError) as error:
            raise CourseError(
                f"the processes that grade are gone ({type(error).__name__} {error}). What was finished is kept: "
                "start them again, and the same command goes on from there."
            ) from None
        except Exception as error:
            if "distributed" in sys.modules:
                from distributed import KilledWorker

                if isinstance(error, KilledWorker):
                    raise WorkerLost(str(error)[:300], counts=True, again=False) from None
            raise
