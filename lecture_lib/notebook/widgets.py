"""Whether a widget can be shown: where nobody could work it, a static picture stands alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

# Set by Jupyter's server and by Colab for the kernels that they start; a notebook that is only executed has neither.
STARTED_FOR_A_READER = ("JPY_SESSION_NAME", "COLAB_RELEASE_TAG")


def has_front_end() -> bool:
    """Whether a reader sits in front of this kernel, as far as a kernel can know: Jupyter, Colab or VS Code."""
    from IPython import get_ipython

    shell = get_ipython()
    in_vscode = shell is not None and "__vsc_ipynb_file__" in shell.user_ns
    return in_vscode or any(name in os.environ for name in STARTED_FOR_A_READER)


def widget_data(make: Callable[[], Any]) -> dict[str, Any]:
    """The display data of a widget; empty where ipywidgets is missing, or no front end could run it.

    A notebook that is only executed keeps no widget: its random ids would change the file at every run.

    Args:
        make: returns an ipywidgets box, or None where there is nothing to show.

    """
    if not has_front_end():
        return {}
    try:
        widget = make()
    except ImportError:
        return {}
    return {} if widget is None else dict(widget._repr_mimebundle_())


def display_widget(widget: dict[str, Any], text: str, summary: str, folded: str, alt: str) -> None:
    """Display a widget, and folded below it what a page without a kernel can show in its place.

    Args:
        widget: from `widget_data`.
        text: what a reader without HTML sees of the widget.
        summary: the name of what is folded.
        folded: HTML.
        alt: what is folded in words.

    """
    from IPython.display import display

    display({**widget, "text/plain": text}, raw=True)
    # An output of its own: without the kernel JupyterLab shows an error in place of all that the widget's holds.
    display({"text/html": f"<details><summary>{summary}</summary>{folded}</details>", "text/plain": alt}, raw=True)
