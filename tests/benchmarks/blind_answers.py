"""How the graders do on answers by somebody who saw only the notebooks: FOLDER/<question>/right_*.py and wrong_*.py.

A right answer must get full points on every set of hidden inputs, and its check must say so. A wrong one must lose
points on every set; its misconception should be named, and its check must not say that it is right. Whether the name
fits is for a reader: the table has the first line of each file beside it. The answers run in this process, so use it
for files that you trust.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT, Row, interval, report

sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")


@dataclass(frozen=True)
class Outcome:
    """What one answer got.

    Attributes:
        name: question and file.
        about: the first line of the file.
        right: what its author says it is.
        shares: of the points, set by set.
        named: the misconceptions that the judge named, over all sets.
        checked_right: whether the visible check called it right.

    """

    name: str
    about: str
    right: bool
    shares: list[float]
    named: list[str]
    checked_right: bool

    @property
    def full(self) -> int:
        """On how many sets it got full points."""
        return sum(share == 1 for share in self.shares)

    def __str__(self) -> str:
        shares = " ".join(f"{share:.2f}" for share in self.shares)
        return f"{self.name:32} {shares}  {'right' if self.checked_right else 'wrong'}  {self.named}  {self.about}"


def outcomes(folder: Path, count: int) -> Iterator[Outcome]:
    """Every answer of the folder on so many sets."""
    from tqdm import tqdm

    from autograders.questions.bank import Answer
    from autograders.questions.in_process import functions_of, observed
    from autograders.questions.question import QUESTIONS
    from lecture_lib.notebook.check import RIGHT, check_result

    for path in tqdm(sorted(folder.glob("*/*.py")), unit="answer"):
        question = QUESTIONS[path.parent.name]
        source = path.read_text("utf-8")
        functions = functions_of(question, Answer(path.stem, source, 0, None, ""))
        lines = check_result(question.id, *functions.values()).lines
        verdicts = []
        for seed in range(count):
            sets = b"blind", "blind", seed
            published = observed(question, functions, question.inputs(*sets))
            verdicts.append(question.judge(question.draw(*sets), [published]))
        yield Outcome(
            f"{question.id}/{path.stem}",
            source.partition("\n")[0].lstrip("# "),
            path.stem.startswith("right"),
            [verdict.points / question.points for verdict in verdicts],
            sorted({str(verdict.misconception) for verdict in verdicts}),
            all(line.state == RIGHT for line in lines),
        )


def rows_of(found: list[Outcome], count: int) -> list[Row]:
    """The shares with their intervals."""
    right, wrong = [one for one in found if one.right], [one for one in found if not one.right]
    lost = [one for one in wrong if one.full == 0]
    named = [one for one in lost if "None" not in one.named]
    kept = [one for one in right if one.full == count and one.checked_right]
    shares = [
        ("right answers with full points, called right", len(kept), len(right)),
        ("wrong answers that lose points on every set", len(lost), len(wrong)),
        ("  of these with a misconception named", len(named), len(lost)),
        ("  of these called right by the check", sum(one.checked_right for one in lost), len(lost)),
    ]
    return [Row(f"{what} {interval(n, of)}", 100 * n / of if of else None, "%") for what, n, of in shares]


def main() -> None:
    """Judge a folder of answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one set: a look, not a result")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    parser.add_argument("--sets", type=int, metavar="N", help="sets of hidden inputs (default: 4, quick: 1)")
    parser.add_argument("folder", type=Path, nargs="?", help="without it nothing is measured")
    options = parser.parse_args()
    count = options.sets or (1 if options.quick else 4)
    found = list(outcomes(options.folder, count)) if options.folder else []
    print(*found, sep="\n")
    report("blind answers", rows_of(found, count) if found else [], options.json)


if __name__ == "__main__":
    main()
