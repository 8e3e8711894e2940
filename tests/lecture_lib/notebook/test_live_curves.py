"""The live curves: the run that they show is train's own, and the button stops it."""

from __future__ import annotations

import sys
import threading
import time

import pytest
import torch
from torch import nn

from lecture_lib.data import TensorLoader
from lecture_lib.notebook import train_live
from lecture_lib.notebook.live import LiveRun
from lecture_lib.training import train


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits in front."""
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")


X = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def run_parts(epochs: int = 3, loader: object = None) -> tuple:
    """A model with dropout, its loaders and its optimizer: the arguments of train."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    loader = loader or TensorLoader(X, Y, batch_size=8, shuffle=True, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, loader, TensorLoader(X, Y, batch_size=24), optimizer, nn.CrossEntropyLoss(), epochs


class Gated:
    """Batches that wait before the second epoch until the gate opens; the first epoch's end is announced."""

    def __init__(self) -> None:
        self.gate, self.reached, self.epoch = threading.Event(), threading.Event(), 0

    def __len__(self) -> int:
        return 2

    def __iter__(self):
        self.epoch += 1
        if self.epoch > 1:
            self.reached.set()
            self.gate.wait(30)
        yield from [(X[:12], Y[:12]), (X[12:], Y[12:])]


def live(*arguments, **settings) -> LiveRun:
    run = train_live(*arguments, **settings)
    assert isinstance(run, LiveRun)
    return run


def status(run: LiveRun) -> str:
    return run.box.children[0].value


def test_a_live_run_is_the_run_that_train_makes() -> None:
    plain = run_parts()
    expected = train(*plain)
    shown = run_parts()
    history = live(*shown).history
    assert history.as_rows() == expected.as_rows()
    for ours, theirs in zip(shown[0].parameters(), plain[0].parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_curves_the_line_and_the_button_say_that_it_is_over() -> None:
    run = live(*run_parts())
    last = run.history.rows[-1]
    picture = run.box.children[1].value
    assert picture.startswith('<img src="data:image/png;base64,iVBORw0KGgo')
    assert 'alt="Training and validation loss up to epoch 3' in picture
    assert f"done: epoch 3, training loss {last.train_loss:.3g}" in status(run)
    assert 'role="status"' in status(run)
    assert run.button.disabled


def test_the_button_stops_the_run_after_its_present_step() -> None:
    loader = Gated()
    run = live(*run_parts(epochs=50, loader=loader))
    assert loader.reached.wait(30)
    assert not run.button.disabled
    assert "epoch 1, training loss" in status(run)
    run.button.click()
    assert "stopping" in status(run)
    loader.gate.set()
    history = run.history
    assert len(history.rows) == 1
    assert history.stopped == "asked to stop after step 3"
    assert history.has_best
    assert "asked to stop after step 3" in status(run)


def test_what_the_run_says_of_its_end_comes_last() -> None:
    loader = Gated()
    run = live(*run_parts(epochs=50, loader=loader))
    assert loader.reached.wait(30)
    loader.gate.set()
    # The run has said its end, but not done its last things, while the button's own function goes on.
    run.box.children[0].observe(lambda change: "asked to" in change["new"] and time.sleep(0.5), "value")
    run.button.observe(lambda _: time.sleep(0.25), "disabled")
    run.stop()
    assert run.history.stopped.startswith("asked to stop")
    assert "asked to stop after step" in status(run)


def test_an_interrupt_while_it_waits_stops_the_run_too(monkeypatch) -> None:
    loader = Gated()
    run = live(*run_parts(epochs=50, loader=loader))
    assert loader.reached.wait(30)
    waits = run._ended.wait

    def interrupted() -> None:
        monkeypatch.setattr(run._ended, "wait", waits)
        loader.gate.set()
        raise KeyboardInterrupt

    # The gate opens with the interrupt: whichever step it meets, far from the fiftieth epoch.
    monkeypatch.setattr(run._ended, "wait", interrupted)
    assert run.history.stopped.startswith("asked to stop")


def test_what_ends_the_run_is_raised_where_the_history_is_read() -> None:
    run = live(*run_parts(), max_norm=-1.0)
    with pytest.raises(ValueError, match="max_norm"):
        _ = run.history
    assert "ended by ValueError" in status(run)
    assert run.button.disabled


def test_the_functions_that_the_widget_needs_are_refused() -> None:
    with pytest.raises(TypeError, match="train_live uses on_epoch and stop itself"):
        train_live(*run_parts(), on_epoch=print, stop=bool)


def test_without_ipywidgets_the_curves_are_a_figure(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    is_a_figure(capsys)


def test_without_a_reader_they_are_a_figure_too(monkeypatch, capsys) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME")
    is_a_figure(capsys)


def test_losses_that_cannot_be_drawn_are_printed_and_the_history_is_kept(monkeypatch, capsys) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME")
    model, loader, _, *rest = run_parts()
    run = train_live(model, loader, TensorLoader(X * torch.nan, Y, batch_size=24), *rest)
    assert len(run.history.rows) == 3
    shown = capsys.readouterr().out
    assert "none with a finite validation loss" in shown
    for row in run.history.rows:
        assert f"epoch {row.epoch}, training loss {row.train_loss:.3g}, validation loss nan" in shown


def is_a_figure(capsys) -> None:
    before = threading.active_count()
    run = train_live(*run_parts())
    assert not isinstance(run, LiveRun)
    assert threading.active_count() == before
    assert len(run.history.rows) == 3
    assert "Training loss ends at" in capsys.readouterr().out
