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
from autograders.questions.seeds import (
    POOL,
    CourseSets,
    SecretError,
    Substitutes,
    add_substitutes,
    create_secret,
    read_secret,
    read_substitutes,
)
from autograders.questions.verdict_cache import Result
from autograders.questions.verify import Outcome, Sets
from autograders.release import release, release_check

ERRING, ASSIGNMENT = "03b-baseline", "03b-debug-ladder"


def verify_erring_on(*bad: int, incident: str | None = None):
    """A trial of the graders in which one answer to ERRING gets other points on these sets."""

    def verify(questions, sets: Sets) -> Iterator[Outcome]:
        for question in questions:
            answer = question.answers()[0]
            declared = Result(answer.points, answer.misconception, None)
            other = Result(answer.points / 2, None, incident)
            errs = bad if question.id == ERRING else ()
            yield Outcome(question.id, answer, tuple(other if i in errs else declared for i in sets.indices), sets)

    return verify


def replaced(before: Substitutes | None = None, **options) -> Substitutes:
    return release_check.verify_on(bytes(range(32)), {ASSIGNMENT: "v1"}, before or {}, progress=False, **options)


def test_nothing_is_replaced_where_all_answers_get_what_they_declare(monkeypatch, capsys) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on())
    assert replaced() == {}
    assert capsys.readouterr().err == ""


def test_a_set_is_replaced_by_the_next_on_which_all_answers_hold(monkeypatch, capsys) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on(2, 6, POOL, POOL + 2))
    assert replaced() == {"v1": {ERRING: {2: POOL + 1, 6: POOL + 3}}}
    told = capsys.readouterr().err
    assert f"{ERRING}: set 2 is replaced by set {POOL + 1}, set 6 is replaced by set {POOL + 3}; please report" in told
    assert "on set 2, 6" in told


@pytest.mark.parametrize(
    ("before", "errs", "after"),
    [
        ({5: POOL}, (), {5: POOL}),
        ({5: POOL}, (5,), {5: POOL}),  # nobody gets set 5 any more
        ({5: POOL}, (2,), {5: POOL, 2: POOL + 1}),  # what is given out already stays
        ({5: POOL}, (POOL,), {5: POOL + 1}),  # the substitute errs by now
        ({0: POOL, 1: POOL + 1, 2: POOL + 2, 3: POOL + 3}, (4,), {**{i: POOL + i for i in range(4)}, 4: POOL + 4}),
    ],
)
def test_what_an_earlier_release_chose_stays_where_it_holds(monkeypatch, before, errs, after) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on(*errs))
    assert replaced({"v1": {ERRING: before}, "v0": {ERRING: {0: POOL}}}) == {"v1": {ERRING: after}}


@pytest.mark.parametrize(
    ("errs", "options", "why"),
    [
        (range(POOL), {}, "other inputs would not help"),
        (range(5), {}, "more than 4 of 8 sets err"),
        ([0, *range(POOL, 2 * POOL)], {}, "no other set holds"),
        ([3], {"handed_in": [ASSIGNMENT]}, "students have handed in"),
    ],
    ids=["all", "most", "no other", "handed in"],
)
def test_a_release_is_refused_where_no_set_may_take_the_place(monkeypatch, capsys, errs, options, why) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on(*errs))
    with pytest.raises(release_check.WrongVerdicts, match=f"(?s){ERRING}.*{why}"):
        replaced(**options)
    assert "replaced by" not in capsys.readouterr().err


def test_work_on_another_assignment_is_not_the_reason(monkeypatch) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on(*range(5)))
    versions, another = {ASSIGNMENT: "v1", "03a-training-recipe": "v2"}, ["03a-training-recipe"]
    with pytest.raises(release_check.WrongVerdicts, match="more than 4 of 8 sets err"):
        release_check.verify_on(bytes(range(32)), versions, {}, handed_in=another, progress=False)


def test_a_process_that_ended_says_nothing_about_the_inputs(monkeypatch) -> None:
    monkeypatch.setattr(release_check, "verify", verify_erring_on(3, incident="the process was killed"))
    with pytest.raises(release_check.WrongVerdicts, match="the process was killed"):
        replaced()


def test_lists_of_several_releases_and_questions_are_joined(tmp_path: Path) -> None:
    add_substitutes(tmp_path, {"v1": {"a": {0: 8}}})
    add_substitutes(tmp_path, {"v1": {"b": {1: 9}}, "v2": {"a": {2: 10}}})
    add_substitutes(tmp_path, {"v1": {"a": {3: 11}}})
    assert read_substitutes(tmp_path) == {"v1": {"a": {0: 8, 3: 11}, "b": {1: 9}}, "v2": {"a": {2: 10}}}


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
    task = Packer(course).pack(ASSIGNMENT, "ada")
    assert task is not None
    assert task.course["sets.json"] == course.replaced_sets.read_bytes()

    # Students have handed in: nothing is changed any more, and what errs by now is refused.
    listed = course.replaced_sets.read_bytes()
    release.release(course, [ASSIGNMENT])
    monkeypatch.setattr(release_check, "verify", verify_erring_on(4))
    with pytest.raises(ReleaseError, match="students have handed in"):
        release.release(course, [ASSIGNMENT])
    assert course.replaced_sets.read_bytes() == listed

    # A list without the secret that it belongs to is of no use.
    shutil.rmtree(course.root / "submitted")
    course.secret.unlink()
    monkeypatch.setattr(release_check, "verify", verify_erring_on())
    release.release(course, [ASSIGNMENT])
    assert not course.replaced_sets.exists()


ENTRIES = ('"first": 8', '"3": -1', '"3": 8.9', '"3": true', '"11": 8', '"3": 4', '"1": 8, "2": 8')


@pytest.mark.parametrize("content", ["", "[]", '{"v": 3}', *(f'{{"v": {{"q": {{{entry}}}}}}}' for entry in ENTRIES)])
def test_a_damaged_list_is_told_and_not_taken_for_none(tmp_path: Path, content: str) -> None:
    create_secret(tmp_path / "secret")
    (tmp_path / "sets.json").write_text(content, "utf-8")
    with pytest.raises(SecretError, match=r"sets\.json cannot be read"):
        CourseSets(tmp_path)
