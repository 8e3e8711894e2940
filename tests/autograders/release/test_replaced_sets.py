"""A set of hidden inputs on which a grader is seen to err is replaced, and everything that draws knows of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograders import notebooks
from autograders.course import Course, ReleaseError
from autograders.grading.job import Packer
from autograders.grading.journal import Record
from autograders.grading.regrade import _judge_again
from autograders.grading.states import State
from autograders.questions.hidden_cases import DrawnCases
from autograders.questions.in_process import functions_of, observed
from autograders.questions.question import QUESTIONS, inputs_digest
from autograders.questions.seeds import POOL, CourseSets, SecretError, create_secret, read_secret
from autograders.questions.verdict_cache import Result
from autograders.questions.verify import Outcome, Sets
from autograders.release import release, release_check

ERRING, ASSIGNMENT = "03b-baseline", "03b-debug-ladder"


def verify_erring_on(*bad: int):
    """A trial of the graders in which one answer to ERRING gets other points on these sets."""

    def verify(questions, sets: Sets) -> Iterator[Outcome]:
        for question in questions:
            answer = question.answers()[0]
            declared = Result(answer.points, answer.misconception, None)
            other = Result(answer.points / 2, None, None)
            errs = bad if question.id == ERRING else ()
            yield Outcome(question.id, answer, tuple(other if i in errs else declared for i in sets.indices), sets)

    return verify


@pytest.fixture
def secret() -> bytes:
    return bytes(range(32))


def replaced(secret: bytes, before: dict = {}) -> dict:  # noqa: B006 - read only
    return release_check.verify_on(secret, {ASSIGNMENT: "v1"}, before, progress=False)


def test_nothing_is_replaced_where_all_answers_get_what_they_declare(secret, monkeypatch, capsys) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on())
    assert replaced(secret) == {}
    assert capsys.readouterr().err == ""


def test_a_set_is_replaced_by_the_next_on_which_all_answers_hold(secret, monkeypatch, capsys) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on(2, 6, POOL, POOL + 2))
    assert replaced(secret) == {"v1": {ERRING: {2: POOL + 1, 6: POOL + 3}}}
    told = capsys.readouterr().err
    assert "on set 2, 6" in told
    assert "please report" in told


def test_what_an_earlier_release_chose_stays_where_it_holds(secret, monkeypatch) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on(2, POOL + 1))
    before = {"v1": {ERRING: {5: POOL + 4, 2: POOL + 1}}, "v0": {ERRING: {0: 9}}}
    assert replaced(secret, before) == {"v1": {ERRING: {2: POOL, 5: POOL + 4}}}


@pytest.mark.parametrize("bad", [range(POOL), range(5), [0, *range(POOL, 2 * POOL)]], ids=["all", "most", "no other"])
def test_a_grader_that_errs_too_often_is_refused(secret, monkeypatch, bad) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on(*bad))
    with pytest.raises(release_check.WrongVerdicts, match=ERRING):
        replaced(secret)


def test_a_release_writes_what_it_replaced(course: Course, shorter: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(notebooks, "NOTEBOOKS", shorter)
    monkeypatch.setattr(release_check, "verify", verify_erring_on(3))
    versions = release.release(course, [ASSIGNMENT])
    version = versions[ASSIGNMENT]
    assert json.loads((course.root / "sets.json").read_text("utf-8")) == {version: {ERRING: {"3": POOL}}}

    # Whoever draws the third set of that question in that version gets the ninth, and nothing else changes.
    sets, own = CourseSets(course.root), read_secret(course.secret)
    assert sets.seed(ERRING, version, 3) == (own, version, POOL)
    assert sets.seed(ERRING, version, 4) == (own, version, 4)
    assert sets.seed(ERRING, "another version", 3) == (own, "another version", 3)
    assert sets.seed("03b-inspect", version, 3) == (own, version, 3)

    drawn = DrawnCases(course.root, ASSIGNMENT, notebooks.read(course.notebook("release", ASSIGNMENT)))
    monkeypatch.setattr(DrawnCases, "pool", 3)
    question = QUESTIONS[ERRING]
    assert drawn.inputs(question) == question.inputs(own, version, POOL) != question.inputs(own, version, 3)

    # A regrade judges on the same inputs.
    answer = next(each for each in question.answers() if each.points == question.points)
    published = observed(question, functions_of(question, answer), drawn.inputs(question))
    verdict = question.judge(drawn.cases(question), [published])
    entered = json.loads(json.dumps(verdict.as_record()))
    record = Record(
        "ada", ASSIGNMENT, None, version, State.GRADED, pool=3, questions={ERRING: entered},
        observations={ERRING: [published]}, inputs={ERRING: inputs_digest(drawn.inputs(question))},
    )  # fmt: skip
    assert verdict.points == question.points
    assert _judge_again(record, sets, None)[1] == []

    # Another machine that grades gets the list too.
    submission = course.notebook("submitted", ASSIGNMENT, "ada")
    submission.parent.mkdir(parents=True)
    shutil.copyfile(course.notebook("release", ASSIGNMENT), submission)
    parcel = Packer(course).pack(ASSIGNMENT, "ada")
    assert parcel is not None
    assert parcel.course["sets.json"] == course.replaced_sets.read_bytes()

    # A release that is refused changes nothing.
    monkeypatch.setattr(release_check, "verify", verify_erring_on(*range(POOL)))
    with pytest.raises(ReleaseError, match=ERRING):
        release.release(course, [ASSIGNMENT])
    assert json.loads((course.root / "sets.json").read_text("utf-8")) == {version: {ERRING: {"3": POOL}}}


@pytest.mark.parametrize("content", ["", "[]", '{"v": {"q": {"first": 8}}}', '{"v": 3}'])
def test_a_damaged_list_is_told_and_not_taken_for_none(tmp_path: Path, content: str) -> None:
    create_secret(tmp_path / "secret")
    (tmp_path / "sets.json").write_text(content, "utf-8")
    with pytest.raises(SecretError, match=r"sets\.json cannot be read"):
        CourseSets(tmp_path)
