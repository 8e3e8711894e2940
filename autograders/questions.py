"""A question in full: the public half that ships, and the hidden half that never does."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import pickle
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from lecture_lib.notebook.question import PublicQuestion
from lecture_lib.notebook.questions import PUBLIC_QUESTIONS

from . import judges
from .bank import Answer, read_answers
from .judges.common import HiddenCase, all_unanswered
from .probes.codec import MalformedObservation, decode, encode
from .seeds import generator
from .verdict import Verdict, zero

ANSWERS = Path(__file__).parent / "answers"
UNANSWERED = "unanswered"


@dataclass(frozen=True)
class Question:
    """One graded question. Its probe is the public half's `parts`, run on hidden cases in the student's process."""

    public: PublicQuestion
    hidden: ModuleType

    @property
    def id(self) -> str:
        """The nbgrader id of the answer cell; the test cell's has `-test` behind it."""
        return self.public.id

    @property
    def test_id(self) -> str:
        """The nbgrader id of the test cell."""
        return f"{self.id}-test"

    @property
    def points(self) -> float:
        """The most that the question is worth."""
        return float(sum(points for _, points in self.hidden.PARTS))

    def answers(self) -> list[Answer]:
        """The bank's answers, right ones first."""
        return read_answers(ANSWERS / self.id)

    def draw(self, secret: bytes, version: str, index: int) -> list[HiddenCase]:
        """The hidden cases of one set of the pool; the same arguments give the same cases, bit by bit.

        What the judge computes for them once (a reference curve, a trained model) is kept with them: a class shares
        eight sets. Each call gives a copy of its own.
        """
        cases: list[HiddenCase] = pickle.loads(_drawn(self.hidden.draw, secret, version, self.id, index)[0])
        return cases

    def inputs(self, secret: bytes, version: str, index: int) -> str:
        """The inputs of these cases as they travel to the student's process: JSON."""
        return _drawn(self.hidden.draw, secret, version, self.id, index)[1]

    def judge(self, cases: Sequence[HiddenCase], published: Sequence[Any]) -> Verdict:
        """The verdict on what a notebook published: exactly one observation of this question, of these cases."""
        if not published:
            return self.zero("nothing was observed: the test cell did not run to its end")
        if len(published) > 1:
            return self.zero(f"{len(published)} observations were published where one is expected", "forged")
        try:
            observations = _read(self.id, published[0], len(cases))
        except MalformedObservation as error:
            return self.zero(f"the observation is malformed: {error}")
        if all_unanswered(observations):
            parts = zero(self.id, self.hidden.PARTS, "not answered").parts
            return Verdict(self.id, parts, misconception=UNANSWERED)
        try:
            verdict: Verdict = self.hidden.judge(cases, observations)
        except Exception as error:
            # Whatever a student's process sent, it costs this question only; a judge's own fault is found by verify.
            return self.zero(f"the observation could not be judged ({type(error).__name__}: {str(error)[:100]})")
        return self._explained(verdict)

    def zero(self, incident: str, misconception: str | None = None) -> Verdict:
        """No points, with the reason."""
        return zero(self.id, self.hidden.PARTS, incident, misconception)

    def _explained(self, verdict: Verdict) -> Verdict:
        known = self.public.misconceptions.get(verdict.misconception or "")
        if known is None:
            return verdict
        return replace(verdict, meaning=known.what, look_at=known.look_at)


@functools.lru_cache(maxsize=512)  # two notebooks of 14 questions with eight sets each have 224
def _drawn(draw: Callable[..., Any], secret: bytes, version: str, question_id: str, index: int) -> tuple[bytes, str]:
    cases = draw(generator(secret, version, question_id, index))
    return pickle.dumps(cases, pickle.HIGHEST_PROTOCOL), json.dumps(encode_inputs(cases))


def _read(question_id: str, published: Any, cases: int) -> list[dict[str, Any]]:
    if not isinstance(published, Mapping) or published.get("question") != question_id:
        raise MalformedObservation("it is of another question")
    entries = published.get("cases")
    if not isinstance(entries, list) or len(entries) != cases:
        raise MalformedObservation(f"it does not hold {cases} cases")
    observations = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise MalformedObservation("a case is not a mapping")
        observation = {str(part): decode(seen) for part, seen in entry.items()}
        if not all(isinstance(seen, dict) for seen in observation.values()):
            raise MalformedObservation("a part of a case is not a mapping")
        observations.append(observation)
    return observations


def encode_inputs(cases: Sequence[HiddenCase]) -> list[Any]:
    """The cases' inputs as JSON-ready data; their keys and kinds stay here."""
    return [encode(dict(case.inputs)) for case in cases]


def inputs_digest(inputs: str) -> str:
    """A digest of a question's inputs: observations can be judged again only against the inputs they were made on."""
    return hashlib.sha256(inputs.encode()).hexdigest()[:16]


def _found() -> dict[str, Question]:
    """A question for every judge with an ID, in the order of the public halves."""
    modules = [
        importlib.import_module(f"{judges.__name__}.{file.name}") for file in pkgutil.iter_modules(judges.__path__)
    ]
    hidden = {module.ID: module for module in modules if hasattr(module, "ID")}
    return {name: Question(public, hidden[name]) for name, public in PUBLIC_QUESTIONS.items()}


QUESTIONS = _found()


def by_test_id(grade_id: str) -> Question | None:
    """The question whose test cell has this nbgrader id, or None."""
    return QUESTIONS.get(grade_id.removesuffix("-test")) if grade_id.endswith("-test") else None


def questions_of(grade_ids: Sequence[str]) -> Iterator[Question]:
    """The questions whose test cells are among `grade_ids`, in that order."""
    return (question for grade_id in grade_ids if (question := by_test_id(grade_id)) is not None)
