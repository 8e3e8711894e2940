"""A quiz without points: every option has an answer of its own."""

from __future__ import annotations

from collections.abc import Mapping


def quiz(key: str, choice: str | None, answers: Mapping[str, str]) -> None:
    """Show what is to be said about the option that was chosen.

    Args:
        key: names the quiz.
        choice: the option, such as "c"; None while none is chosen.
        answers: option -> its answer, Markdown.

    """
    from IPython.display import Markdown, display

    if choice is None:
        print(f"{key}: nothing chosen yet. Replace None by one of {', '.join(answers)} and run this cell again.")
    elif choice in answers:
        display(Markdown(f"**({choice})** {answers[choice]}"))
    else:
        print(f"{key}: there is no option {choice!r}; the options are {', '.join(answers)}.")
