"""The watch over a kernel: where it fails itself, that is said, and no answer is blamed."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from nbclient.exceptions import DeadKernelError

from autograders.sandbox.limits import Limits
from autograders.sandbox.watch import Watch, WatchError


def test_a_watch_that_fails_is_named_and_not_the_kernel_that_it_had_to_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(os.getpid(), Limits(), (0.0, 0.0))
    killed: list[bool] = []

    def fails(*arguments: Any) -> None:
        raise OSError("Too many open files")

    monkeypatch.setattr(watch, "_poll", fails)
    monkeypatch.setattr(watch, "kill", lambda: killed.append(True))

    def run_until_killed() -> None:
        with watch.cell(10):
            while not killed:
                time.sleep(0.01)
            raise DeadKernelError("the kernel died")

    with pytest.raises(WatchError, match="Too many open files"):
        run_until_killed()
    assert watch.ended is None
