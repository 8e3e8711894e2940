"""Whether the verdict on an answer depends on the set of hidden inputs: the answer bank on many fresh sets.

Each course draws a new secret, so each class sees other inputs. Here every answer, and the empty one, is observed and
judged on sets that no run has seen; each must get what it declares on all of them. The whole takes four to five hours
of computing, 03b-overfit alone one and a half; `--shard 1/4` takes a quarter of the questions. What a run has found is
kept in `build/verdicts.sqlite`, so that a run with the same secret goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from pathlib import Path

from harness import ROOT, Row, at_most, report

sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")


def main() -> None:
    """Verify the bank on fresh sets."""
    from tqdm import tqdm

    from autograders.questions.question import QUESTIONS
    from autograders.questions.verify import Sets, verify

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two sets: a look, not a result")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    parser.add_argument("--sets", type=int, metavar="N", help="sets of each question (default: 200, quick: 2)")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="only part I of N")
    parser.add_argument("--question", action="append", metavar="ID", help="only this question (repeatable)")
    parser.add_argument("--secret", metavar="HEX", help="draw the sets of an earlier run again")
    parser.add_argument("--workers", type=int, help="answers at a time (default: one for each processor)")
    options = parser.parse_args()
    count = options.sets or (2 if options.quick else 200)
    part, parts = map(int, options.shard.split("/"))
    secret = bytes.fromhex(options.secret) if options.secret else secrets.token_bytes(32)
    print(f"secret {secret.hex()}", file=sys.stderr, flush=True)
    questions = [QUESTIONS[name] for name in options.question or QUESTIONS][part - 1 :: parts]
    outcomes = []
    for outcome in tqdm(verify(questions, Sets(secret, "sets", range(count)), workers=options.workers), unit="answer"):
        outcomes.append(outcome)
        if not outcome.holds:
            tqdm.write(str(outcome))
    rows = []
    for question in questions:
        own = [outcome for outcome in outcomes if outcome.question == question.id]
        wrong = sum(len(outcome.differing) for outcome in own)
        rows.append(at_most(f"{question.id}: other verdicts, of {len(own)} × {count}", wrong, "verdicts", 0, "0"))
    rows.append(Row("answers", len(outcomes), "answers"))
    report("sets", rows, options.json)


if __name__ == "__main__":
    main()
