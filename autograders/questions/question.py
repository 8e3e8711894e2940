"""A question in full: the public half that ships, and the description that never does."""

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
from typing import Any

import torch

from lecture_lib.notebook.misconceptions import words_of
from lecture_lib.notebook.question import Misconception, PublicQuestion
from lecture_lib.notebook.registry import public_questions, visible_cases_path

from ..intake.reading.submission_limits import MAX_MESSAGE
from ..notebooks import not_filled_in
from ..probes.codec import MalformedObservation, decode, encode
from ..reasons import Kind, Reason
from ..setting import ANSWERS, DESCRIPTIONS, ROOT, SETTING
from .bank import Answer, read_answers
from .cases import Case, all_unanswered
from .description import Description
from .judgement import Simulated
from .observation_size import reason_of, refuse_large
from .seeds import choice, generator
from .variants import Variant
from .verdict import UNANSWERED, Part, Verdict, zero

NOT_OBSERVED = Reason(Kind.NOT_OBSERVED, "nothing was observed: the test cell did not run to its end")
_MOST_LEFT = 200
"""Characters of a text, and texts, about what an answer left changed."""


@dataclass(frozen=True)
class Question:
    """One graded question. Its probe is the public half's `parts`, run on hidden cases in the student's process."""

    public: PublicQuestion
    description: Description
    file: Path
    """Where the description is written."""
    variants: tuple[Variant, ...] = ()
    """What a course can be given; none where every course has the same."""

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
        return float(sum(self.description.points.values()))

    def answers(self) -> list[Answer]:
        """The bank's answers, right ones first; to the first variant where there are several."""
        path = ANSWERS / f"{self.id}.md"
        return read_answers(path, self.variants[0].words) if self.variants else read_answers(path)

    @property
    def variant(self) -> Variant | None:
        """The only variant, or the first: the one that the notebook in the repository holds."""
        return self.variants[0] if self.variants else None

    def of_course(self, secret: bytes) -> Question:
        """The question as a course asks it: with the one variant that its secret chooses."""
        return self._only(self.variants[choice(secret, self.id, len(self.variants))]) if self.variants else self

    def of_each_course(self) -> list[Question]:
        """The question as each course could ask it: once for every variant."""
        return [self._only(variant) for variant in self.variants] or [self]

    def _only(self, variant: Variant) -> Question:
        return replace(self, description=variant.description, variants=(variant,))

    def _of(self, cases: Sequence[Case]) -> Description:
        """The description of the variant that cases were drawn for."""
        names = {case.variant for case in cases}
        return next((each.description for each in self.variants if each.name in names), self.description)

    def words(self, mistake: str | None) -> Misconception | None:
        """The words for a known mistake, also for one whose words no visible check has."""
        return words_of(self.public, mistake) or self.description.misconceptions().get(mistake or "")

    def not_filled_in(self) -> list[str]:
        """What the author of a new question has still to write, by file and line."""
        public = visible_cases_path(self.id).with_name(self.file.name)
        files = [path for path in (public, self.file, ANSWERS / f"{self.id}.md") if path.exists()]
        return [f"{path.relative_to(ROOT)}, {entry}" for path in files for entry in not_filled_in(path)]

    def draw(self, secret: bytes, version: str, index: int) -> list[Case]:
        """The hidden cases of one set of the pool; the same arguments give the same cases, bit by bit.

        What the judge computes for them once (a reference curve, a trained model) is kept with them: a class shares
        eight sets. Each call gives a copy of its own.
        """
        question = self.of_course(secret)
        cases: list[Case] = pickle.loads(_drawn(question.description.draw_set, secret, version, self.id, index)[0])
        return [replace(case, variant=question.variant.name) for case in cases] if question.variant else cases

    def inputs(self, secret: bytes, version: str, index: int) -> str:
        """The inputs of these cases as they travel to the student's process: JSON."""
        return _drawn(self.of_course(secret).description.draw_set, secret, version, self.id, index)[1]

    def judge(self, cases: Sequence[Case], published: Sequence[Any], simulated: Simulated | None = None) -> Verdict:
        """The verdict on what a notebook published: exactly one observation of this question, of these cases.

        `simulated`: as `Description.judge` has it.
        """
        if not published:
            return self.zero(NOT_OBSERVED)
        if len(published) > 1:
            count = len(published)
            text = f"{count} observations were published where one is expected"
            return self.zero(Reason(Kind.PUBLISHED_TWICE, text, str(count)), "forged")
        try:
            observations = self.read(published[0], len(cases))
        except MalformedObservation as error:
            return self.zero(Reason(Kind.MALFORMED, f"the observation is malformed: {error}"))
        if all_unanswered(observations):
            parts = tuple(Part(name, 0.0, maximum, "not answered") for name, maximum in self.description.points.items())
            return Verdict(self.id, parts, misconception=UNANSWERED)
        try:
            verdict = self._of(cases).judge(cases, observations, simulated)
        except Exception as error:
            # Whatever a student's process sent, it costs this question only; a judge's own fault is found by verify.
            problem = f"{type(error).__name__}: {str(error)[:100]}"
            return self.zero(Reason(Kind.NOT_JUDGED, f"the observation could not be judged ({problem})"))
        return replace(self._explained(verdict), left=_left(published[0]))

    def read(self, published: Any, cases: int) -> list[dict[str, Any]]:
        """The observations of so many cases, decoded. Raises MalformedObservation for anything else."""
        return _read(self.id, published, cases)

    def zero(self, incident: Reason, misconception: str | None = None) -> Verdict:
        """No points, with the reason."""
        return zero(self.id, self.description.points.items(), incident, misconception)

    def _explained(self, verdict: Verdict) -> Verdict:
        parts = tuple(replace(part, message=part.message[:MAX_MESSAGE]) for part in verdict.parts)
        verdict = replace(verdict, parts=parts)
        words = self.words(verdict.misconception)
        if words is None:
            return verdict
        return replace(verdict, meaning=words.what, look_at=words.look_at)


def answers_to(grade_id: str) -> list[Answer]:
    """The bank's answers to a question, to one that is answered in words too."""
    return QUESTIONS[grade_id].answers() if grade_id in QUESTIONS else read_answers(ANSWERS / f"{grade_id}.md")


def answer_to(grade_id: str, name: str) -> str:
    """The source of one answer of the bank."""
    return next(answer.source for answer in answers_to(grade_id) if answer.name == name)


@functools.lru_cache(maxsize=512)  # 34 questions with eight sets each have 272
def _drawn(draw: Callable[..., Any], secret: bytes, version: str, question_id: str, index: int) -> tuple[bytes, str]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the process that judges: several add up in another order, and small work is slower
    try:
        cases = draw(generator(secret, version, question_id, index))
    finally:
        torch.set_num_threads(threads)
    return pickle.dumps(cases, pickle.HIGHEST_PROTOCOL), json.dumps(encode_inputs(cases))


def _read(question_id: str, published: Any, cases: int) -> list[dict[str, Any]]:
    # Limits come first: nothing below may walk through data of a size that a student's process chose.
    if (reason := reason_of(published)) is not None:
        raise MalformedObservation(reason)
    refuse_large(published)
    # Code of an answer can publish too, with another question's name or other cases.
    if not isinstance(published, Mapping) or published.get("question") != question_id:
        raise MalformedObservation("it is of another question")
    entries = published.get("cases")
    if not isinstance(entries, list) or len(entries) != cases:
        raise MalformedObservation(f"it does not hold {cases} cases")
    observations = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise MalformedObservation("a case is not a mapping")
        observation = {str(part): decode(outcome) for part, outcome in entry.items()}
        if not all(isinstance(outcome, dict) for outcome in observation.values()):
            raise MalformedObservation("a part of a case is not a mapping")
        observations.append(observation)
    return observations


def _left(published: Mapping[str, Any]) -> tuple[str, ...]:
    """What the published parts say was left changed, each once; anything else that is there is passed over."""
    parts = [outcome for case in published["cases"] for outcome in case.values() if isinstance(outcome, Mapping)]
    lists = [published.get("left"), *(decode(outcome).get("left") for outcome in parts)]
    texts = [
        text[:_MOST_LEFT] for listed in lists if isinstance(listed, list) for text in listed if isinstance(text, str)
    ]
    # A text that cannot be printed was not written by our probe, and could move a terminal's cursor.
    return tuple(dict.fromkeys(text for text in texts if text.isprintable()))[:_MOST_LEFT]


def encode_inputs(cases: Sequence[Case]) -> list[Any]:
    """The cases' inputs as JSON-ready data; their keys and kinds stay here."""
    return [encode(dict(case.inputs)) for case in cases]


def inputs_digest(inputs: str) -> str:
    """A digest of a question's inputs: observations can be judged again only against the inputs they were made on."""
    return hashlib.sha256(inputs.encode()).hexdigest()[:16]


def _found() -> dict[str, Question]:
    """Every description, in the order of the public halves."""
    modules = [
        importlib.import_module(f"{SETTING.descriptions}.{file.name}")
        for file in pkgutil.iter_modules([str(DESCRIPTIONS)])
    ]
    described = {module.QUESTION.id: module for module in modules if hasattr(module, "QUESTION")}
    return {
        name: Question(public, module.QUESTION, Path(str(module.__file__)), getattr(module, "VARIANTS", ()))
        for name, public in public_questions().items()
        for module in [described[name]]
    }


QUESTIONS = _found()


def by_test_id(grade_id: str) -> Question | None:
    """The question whose test cell has this nbgrader id, or None."""
    return QUESTIONS.get(grade_id.removesuffix("-test")) if grade_id.endswith("-test") else None


def questions_of(grade_ids: Sequence[str]) -> Iterator[Question]:
    """The questions whose test cells are among `grade_ids`, in that order."""
    return (question for grade_id in grade_ids if (question := by_test_id(grade_id)) is not None)
