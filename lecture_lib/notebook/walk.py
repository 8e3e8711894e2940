"""The tape walked forwards and back: a slider and four buttons over the picture of what is known at each step."""

from __future__ import annotations

import html
from typing import Any

from ..tape import Tensor, Trace, picture, trace
from .figures import display_caption
from .widgets import display_widget, widget_data


def show_walk(result: Tensor, /, *, caption: str, **names: Tensor) -> None:
    """Show the graph of a result step by step: values forwards, then gradients back. No `.grad` changes.

    Without ipywidgets, or without a front end that could run them, the finished graph is shown. Below a widget it is
    folded, for a notebook that is opened again without its kernel.

    Args:
        result: a number on the tape, before `backward()`.
        caption: the conclusion, in a sentence.
        names: tensors of the graph by the name to show: `show_walk(loss, caption=…, w=w, b=b)`.

    Raises:
        RuntimeError, TypeError, ValueError: as `tape.draw`.

    """
    from IPython.display import display

    rows = trace(result, **names)
    data, metadata = picture(rows)._repr_mimebundle_()
    if widget := widget_data(lambda: walk_widget(rows)):
        text = "(In a running notebook: the tape, to be walked.)"
        display_widget(widget, text, "The finished graph", data["text/html"], data["text/plain"])
    else:
        display(data, raw=True, metadata=metadata)
    display_caption(caption)


def walk_widget(rows: Trace) -> Any:
    """The walk as an ipywidgets box: [slider, buttons, sentence, picture].

    Tab reaches the slider and the buttons; the arrow keys move the one, Enter and Space press the others.
    """
    import ipywidgets

    slider = ipywidgets.IntSlider(max=rows.last_position, description="Step", layout={"width": "30em"})
    sentence, graph = ipywidgets.HTML(), ipywidgets.HTML()

    def button(text: str, tooltip: str, target: Any) -> Any:
        made = ipywidgets.Button(description=text, tooltip=tooltip, layout={"width": "7em"})
        # At either end the slider stays where it is. The button is not disabled there: it would lose the focus.
        made.on_click(lambda _: setattr(slider, "value", target()))
        return made

    buttons = ipywidgets.HBox(
        [
            button("First", "To the start: only the leaves have values", lambda: slider.min),
            button("Back", "One step back", lambda: slider.value - 1),
            button("Forward", "One step forward", lambda: slider.value + 1),
            button("Last", "To the end: all gradients are complete", lambda: slider.max),
        ]
    )

    def show(_: object = None) -> None:
        moment = rows.at(slider.value)
        text = html.escape(f"Step {moment.position} of {rows.last_position}. {moment.sentence}")
        # The paragraph is a new one each time; screen readers announce a new element only when it is an alert.
        sentence.value = f'<p role="alert">{text}</p>'
        graph.value = f'<div style="overflow-x:auto">{picture(rows, moment, ink="currentColor").svg}</div>'

    slider.observe(show, names="value")
    show()
    return ipywidgets.VBox([slider, buttons, sentence, graph])
