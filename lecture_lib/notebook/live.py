"""Training curves that grow while the model trains, with a button that stops the run."""

from __future__ import annotations

import html
import threading
from typing import Any

import torch

from .._common.pictures import image_tag
from ..training import Epoch, History, train
from .figures import as_png, show_figure
from .widgets import has_front_end


class LiveRun:
    """A run of `train` in a thread of its own, shown while it goes on; made by `train_live`.

    The kernel stays free, so that a click on the button reaches it. Until `history` has been read the model is being
    trained: leave it, and torch's random stream, alone.

    Attributes:
        box: what is shown: a line of text that a screen reader announces, the curves, and the button. Tab reaches the
            button, Enter or Space presses it.

    """

    def __init__(self, arguments: tuple[Any, ...], settings: dict[str, Any]) -> None:
        import ipywidgets

        self._rows: list[Epoch] = []
        self._stop, self._ended = threading.Event(), threading.Event()
        self._last_word, self._said_its_end = threading.Lock(), False
        self._result: History | None = None
        self._error: BaseException | None = None
        self._status = ipywidgets.HTML()
        self._curves = ipywidgets.HTML(layout={"max_width": "480px"})
        self.button = ipywidgets.Button(description="Stop the run", tooltip="ends it after the present step")
        self.button.on_click(lambda _: self.stop())
        self.box = ipywidgets.VBox([self._status, self._curves, self.button])
        self._say("the first epoch is under way")
        # A new thread would take torch's own number of threads, and sum in another order.
        call = (arguments, settings, torch.get_num_threads())
        threading.Thread(target=self._train, args=call, name="train_live", daemon=True).start()

    def stop(self) -> None:
        """End the run after its present step, as the button does."""
        # Said before the run hears of it: what the run says of its end comes last.
        with self._last_word:
            if not self._said_its_end:
                self._say("stopping after this step")
        self._stop.set()
        self.button.disabled = True

    @property
    def history(self) -> History:
        """What `train` returned, once it has: waits for the end of the run.

        An interrupt of the kernel while it waits stops the run as the button does, and the history comes back.

        Raises:
            BaseException: what ended the run, if something did.

        """
        try:
            self._ended.wait()
        except KeyboardInterrupt:
            self.stop()
            self._ended.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _train(self, arguments: tuple[Any, ...], settings: dict[str, Any], threads: int) -> None:
        torch.set_num_threads(threads)
        try:
            self._result = train(*arguments, **settings, on_epoch=self._show, stop=self._stop.is_set)
            self._say_at_the_end(self._result.stopped or f"done: {self._last()}")
        except BaseException as error:
            # Raised again where the history is asked for; a thread's own exception would only be printed.
            self._error = error
            self._say_at_the_end(f"ended by {type(error).__name__}: {error}")
        finally:
            self.button.disabled = True
            self._ended.set()

    def _show(self, row: Epoch) -> None:
        self._rows.append(row)
        if picture := _drawn(self._rows):
            alt = f"Training and validation loss up to {self._last()}"
            self._curves.value = image_tag(picture, "png", alt)
        self._say(self._last())

    def _last(self) -> str:
        return _losses(self._rows[-1])

    def _say_at_the_end(self, text: str) -> None:
        with self._last_word:
            self._said_its_end = True
            self._say(text)

    def _say(self, text: str) -> None:
        self._status.value = f'<span role="status" aria-live="polite">{html.escape(text)}</span>'


def train_live(*arguments: Any, **settings: Any) -> LiveRun | StaticRun:
    """Start `train` with live curves and a stop button; `train_live(…).history` is what `train(…)` returns.

    Without ipywidgets, or where nobody sits in front of the kernel, the run goes to its end first and its curves are
    shown as a figure.
    Source: lecture part 3, curves as a language.

    Args:
        *arguments: those of `train`.
        **settings: those of `train`, without on_epoch and stop, which the widget takes.

    Raises:
        TypeError: on_epoch or stop is among them.

    """
    taken = sorted({"on_epoch", "stop"} & settings.keys())
    if taken:
        raise TypeError(f"train_live uses {' and '.join(taken)} itself. Call train for functions of your own.")
    if not has_front_end():
        return StaticRun(train(*arguments, **settings))
    try:
        run = LiveRun(arguments, settings)
    except ImportError:
        return StaticRun(train(*arguments, **settings))
    from IPython.display import display

    display(run.box)
    return run


class StaticRun:
    """A run that is over, shown as a figure, or as lines of text where there is nothing finite to draw."""

    def __init__(self, history: History) -> None:
        self.history = history
        try:
            figure = history.plot()
        except ValueError as error:
            print(f"No curves: {error}", *map(_losses, history.rows), sep="\n")
            return
        last = history.rows[-1]
        show_figure(
            figure,
            caption=f"The losses of {len(history.rows)} epochs; the best one is marked.",
            alt=f"Training loss ends at {last.train_loss:.3g}, validation loss at {last.val_loss:.3g}.",
        )


def _losses(row: Epoch) -> str:
    return f"epoch {row.epoch}, training loss {row.train_loss:.3g}, validation loss {row.val_loss:.3g}"


def _drawn(rows: list[Epoch]) -> bytes:
    """The curves so far as a PNG; empty while there is nothing finite to draw."""
    # Not pyplot, whose figures belong to the main thread.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.4))
    try:
        History(rows=rows).plot(figure.subplots())
    except ValueError:
        return b""
    return as_png(figure, dpi=90)
