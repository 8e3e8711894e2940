"""Runs side by side: what the figure says in words is what the runs did."""

from __future__ import annotations

import pytest

from lecture_lib.notebook import show_runs
from lecture_lib.training import Epoch, History


def test_every_run_is_told_in_the_alternative_text(capsys: pytest.CaptureFixture[str]) -> None:
    slow = History(rows=[Epoch(n, 2.3, 2.31, 0.1, 0.1, n) for n in (1, 2, 3)])
    fast = History(rows=[Epoch(n, 2.0 / n, 2.2 / n, 0.5, 0.1, n) for n in (1, 2)])
    show_runs({"slow": slow, "fast": fast}, caption="One falls.")
    shown = capsys.readouterr().out
    assert "slow: training ends at 2.3, validation at 2.3; fast: training ends at 1.0, validation at 1.1" in shown
