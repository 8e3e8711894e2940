"""A quiz whose options each have an answer of their own: what that choice would lead to, not only right or wrong."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass

_CHOICES: dict[str, str] = {}


@dataclass(frozen=True)
class QuizAnswer:
    """What is said to a choice; the other options' answers are folded below it. Text where there is no HTML."""

    head: str
    chosen: tuple[tuple[str, str], ...] = ()
    unchosen: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        lines = [self.head, *(f"({option}) {answer}" for option, answer in self.chosen)]
        if self.unchosen:
            lines.append("Other choices have other answers: " + ", ".join(f"({option})" for option, _ in self.unchosen))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        chosen = "".join(f"<p>({_safe(option)}) {_safe(answer)}</p>" for option, answer in self.chosen)
        folded = "".join(
            f"<details><summary>What would have been said to ({_safe(option)})</summary>{_safe(answer)}</details>"
            for option, answer in self.unchosen
        )
        return (
            '<div role="status" style="border-left:4px solid #0072B2;padding:0.4em 0.8em">'
            f"<p><strong>{_safe(self.head)}</strong></p>{chosen}{folded}</div>"
        )


def quiz(key: str, choice: str | None, answers: Mapping[str, str]) -> None:
    """Show the answer to the option that was chosen, and to the one chosen earlier where that was another.

    It never stops a notebook: without a choice, or with one that is no option, it says what to do.

    Args:
        key: the quiz's name, under which the choice is remembered for when the quiz is asked again.
        choice: an option, such as "c", "(c)" or "C"; None: the remembered one, if there is any.
        answers: option -> what is said to whoever chooses it.

    """
    from IPython.display import display

    display(quiz_answer(choice, answers, _CHOICES.get(key)))
    option = _option(choice, answers)
    if option is not None:
        _CHOICES[key] = option


def quiz_answer(choice: object, answers: Mapping[str, str], earlier: object = None) -> QuizAnswer:
    """As `quiz`, but returns what is shown instead of showing it; `earlier` is the choice that was recorded."""
    before = _option(earlier, answers)
    option = before if choice is None else _option(choice, answers)
    listed = ", ".join(f'"{name}"' for name in answers)
    if option is None:
        problem = "No choice yet" if choice is None else f"There is no option {choice!r}"
        return QuizAnswer(f"{problem}. Put one of {listed} into the cell and run it again.")
    options = [option]
    head = f"You chose ({option})."
    if before not in (None, option):
        head = f"You chose ({option}); earlier it was ({before})."
        options.append(str(before))
    # Where a quiz is only asked, every option has the same answer, and there is nothing to fold.
    chosen_answers = {answers[name] for name in options}
    unchosen = tuple((name, answer) for name, answer in answers.items() if answer not in chosen_answers)
    return QuizAnswer(head, tuple((name, answers[name]) for name in options), unchosen)


def _option(choice: object, answers: Mapping[str, str]) -> str | None:
    """The option that a student means by "C", "(c)" or " c "."""
    wanted = str(choice).strip(" ().").lower()
    return next((name for name in answers if name.lower() == wanted), None) if choice is not None else None


def _safe(text: str) -> str:
    return html.escape(text)
