"""The commands about the questions: `autograde verify` and `mutate`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..course import CourseError
from ..questions.seeds import POOL
from .class_commands import FAILED, OK, Add

_MOST_LINES = 30  # of what is said about an answer that did not get what it declares
_MOST_SECONDS = 2
"""The computing time that grading one answer may take."""

if TYPE_CHECKING:
    from ..questions.question import Question


def add_question_commands(add: Add) -> None:
    """Add the commands to a parser."""
    command = add("verify", _verify, "Run the bank of answers through probe and judge.", course=False)
    text = f"sets of hidden inputs (default: {POOL}, the pool of a course)"
    command.add_argument("--sets", type=int, default=POOL, metavar="N", help=text)
    command.add_argument("--question", action="append", metavar="ID", help="only this question (repeatable)")
    command.add_argument("--update", action="store_true", help="write the table into guide/answer-tables.md")

    text = "print the computing time of grading each question's slowest right answer, and verify nothing"
    command.add_argument("--times", action="store_true", help=text)

    text = "Edit right answers as a slip would, and find the edits that still get full points."
    command = add("mutate", _mutate, text, course=False)
    command.add_argument("--question", action="append", metavar="ID", help="only this question (repeatable)")
    command.add_argument("--all", action="store_true", help="list also the mutants that are right on the whole domain")
    command.add_argument("--update", action="store_true", help="write their rows into guide/answer-tables.md")


def _verify(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from ..questions.verify import Sets, count, table, update_table, verify, where_it_differs

    wanted = _wanted(options)
    if options.times:
        return _times(wanted)
    runs = verify(wanted, Sets(indices=range(options.sets)))
    outcomes = list(tqdm(runs, desc="verifying", unit="answer", total=count(wanted)))
    print(table(outcomes))
    if options.update:
        update_table(outcomes)
    wrong = [outcome for outcome in outcomes if not outcome.holds]
    print(f"\n{len(outcomes)} answers on {options.sets} sets of hidden inputs, {len(wrong)} not as declared")
    print("\n".join(f"  {outcome}" for outcome in wrong), end="\n" if wrong else "")
    if wrong:
        lines = list(where_it_differs(wrong[0]))
        print(f"\n{wrong[0].question}, {wrong[0].answer.name}, on", "\n".join(lines[:_MOST_LINES]))
        if len(lines) > _MOST_LINES:
            print(f"... and {len(lines) - _MOST_LINES} more lines")
    return FAILED if wrong else OK


def _times(questions: list[Question]) -> int:
    from ..questions.in_process import slowest

    print(f"{'question':<16}{'observing':>10}{'judging':>9}{'both':>7}   {'a set is drawn in':<19}slowest right answer")
    too_slow = []
    for question in questions:
        cost = slowest(question)
        too_slow += [question.id] if cost.grading > _MOST_SECONDS else []
        numbers = f"{cost.observing:>10.2f}{cost.judging:>9.2f}{cost.grading:>7.2f}   {cost.drawing:<19.2f}"
        print(f"{question.id:<16}{numbers}{cost.answer}", flush=True)
    print(f"\nseconds of computing time; above {_MOST_SECONDS} s: {', '.join(too_slow) or 'none'}")
    return FAILED if too_slow else OK


def _wanted(options: argparse.Namespace) -> list[Question]:
    """The questions that a command is about. Raises CourseError for one that the course does not have."""
    from ..questions.question import QUESTIONS

    unknown = sorted(set(options.question or ()) - set(QUESTIONS))
    if unknown:
        raise CourseError(f"no question {', '.join(unknown)}; there are: {', '.join(QUESTIONS)}")
    wanted = [question for name, question in QUESTIONS.items() if not options.question or name in options.question]
    if missing := [f"  {question.id}: {entry}" for question in wanted for entry in question.not_filled_in()]:
        raise CourseError("not filled in yet; what these lines ask for is missing:\n" + "\n".join(missing))
    return wanted


def _mutate(options: argparse.Namespace) -> int:
    from collections import Counter

    from tqdm import tqdm

    from ..questions.mutate import WRONG_FATES, Fate, mutate, update_table

    worst = OK
    for question in _wanted(options):
        counts: Counter[Fate] = Counter()
        for answer, mutant, fate, why in tqdm(mutate(question), desc=question.id, unit="mutant"):
            counts[fate] += 1
            if fate in WRONG_FATES or (options.all and fate is Fate.SAME):
                # print would break the progress bar's line.
                tqdm.write(f"{question.id}, {answer.name}: {mutant}\n    {fate}{f': {why}' if why else ''}")
                worst = FAILED if fate in WRONG_FATES else worst
        summary = ", ".join(f"{count} {fate}" for fate, count in counts.most_common())
        print(f"{question.id}: {counts.total()} mutants: {summary}")
        if options.update:
            update_table({question.id: counts})
    return worst
