"""A Dask cluster that grades: found, looked at, and refused when it would not give the same scores."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor

from ..course import CourseError
from .job import differences, environment

_SECONDS = 15


@contextlib.contextmanager
def cluster(address: str) -> Iterator[tuple[Executor, int]]:
    """The executor of the cluster whose scheduler is at `address`, and how many worker processes it has.

    Raises CourseError with the remedy when `distributed` is not installed, nobody answers, there is no worker, or one
    has another version of this package or of what it needs.
    """
    try:
        from distributed import Client
    except ImportError:
        raise CourseError(
            "a cluster needs the package `distributed`, which is not installed: pip install -e '.[cluster]', here and "
            "on the workers."
        ) from None
    try:
        # Not as Dask's default client, which whatever else uses Dask in this process would then use.
        client = Client(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        raise CourseError(f"no Dask scheduler answers at {address} ({cause}). Start it: `dask scheduler`.") from None
    with client:
        answers = client.run(environment, on_error="return")
        if not answers:
            raise CourseError(f"the cluster at {address} has no worker. Start some: `dask worker {address}`.")
        problems = []
        for worker, answer in answers.items():
            if isinstance(answer, BaseException):
                problems.append(f"{worker} cannot load this package ({type(answer).__name__}: {answer})")
            elif deviation := differences(environment(), answer):
                problems.append(f"{worker} has {deviation}")
        if problems:
            raise CourseError(
                "not every worker is like this machine, and scores must not depend on where a submission is graded: "
                f"{'; '.join(problems)}. Install the same checkout and packages there. Nothing was graded."
            )
        yield client.get_executor(), len(answers)
