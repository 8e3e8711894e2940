"""How late a submission is depends on its times alone: not on when it was graded, nor on who asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograders.grading.lateness import extension_of, lateness, lateness_of
from autograders.intake.times import Due
from autograders.nbgrader.scores import QuestionScore, SubmissionScores
from autograders.reasons import Kind

DUE = datetime(2026, 3, 1, 12)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BERLIN = timezone(HOUR)


@pytest.mark.parametrize(
    ("handed_in", "due", "extension", "mark", "seconds", "words"),
    [
        pytest.param(DUE, DUE, None, "", 0, None, id="on the second"),
        pytest.param(DUE - HOUR, DUE, None, "", 0, None, id="in time"),
        pytest.param(DUE + HOUR, DUE, None, "", 3600, "handed in 1 h after the due date, 5 points", id="late"),
        pytest.param(DUE + HOUR / 120, DUE, None, "", 30, "less than a minute after", id="30 seconds"),
        pytest.param(
            DUE + timedelta(seconds=93_784), DUE, None, "", 93_784, "handed in 1 d 2 h 3 min after", id="a day and more"
        ),
        pytest.param(DUE + HOUR, None, None, "", 0, None, id="no due date"),
        pytest.param(None, DUE, None, "", 0, None, id="no time"),
        pytest.param(DUE + HOUR, DUE, HOUR, "", 0, None, id="extended"),
        pytest.param(DUE + DAY, DUE, HOUR, "", 82_800, "handed in 23 h after", id="extended, and later"),
        pytest.param(DUE - HOUR, DUE, -DAY, "", 0, None, id="extension before the due date, in time"),
        pytest.param(DUE + HOUR, DUE, -DAY, "", 3600, "handed in 1 h after", id="extension before the due date, late"),
        pytest.param(None, DUE, None, "Canvas", 1, "Canvas marks it as handed in late, 5 points", id="marked"),
        pytest.param(DUE - HOUR, DUE, None, "Canvas", 1, "Canvas marks it", id="marked, with a time before"),
        pytest.param(DUE + HOUR, DUE, None, "Canvas", 3600, "handed in 1 h after", id="marked, with a late time"),
        pytest.param(None, DUE, HOUR, "Canvas", 0, None, id="marked and extended"),
        pytest.param(None, None, None, "Canvas", 0, "Canvas marks it as handed in late", id="marked, no due date"),
        pytest.param((DUE + HOUR).replace(tzinfo=UTC), DUE, None, "", 3600, "1 h after", id="a time with its zone"),
        pytest.param(DUE + HOUR, DUE.replace(tzinfo=UTC), None, "", 3600, "1 h after", id="a due date with its zone"),
        pytest.param(DUE.replace(tzinfo=BERLIN) + HOUR, DUE, None, "", 0, None, id="in time in Berlin"),
    ],
)
def test_seconds_points_and_words(
    handed_in: datetime | None,
    due: datetime | None,
    extension: timedelta | None,
    mark: str,
    seconds: float,
    words: str | None,
) -> None:
    late = lateness(handed_in, due, extension, mark, 5.0)
    assert (late.seconds, late.points) == (seconds, 5.0 if seconds else 0.0)
    assert (words or "None") in str(late.reason)
    if late.reason is not None:
        assert late.reason.kind == (Kind.MARKED_LATE if "marks" in str(late.reason) else Kind.LATE)


def submission(timestamp: datetime | None, due: datetime | None, **more: object) -> SubmissionScores:
    questions = [QuestionScore("q", 8.0, None, 8.0, False), QuestionScore("words", None, 1.5, 1.5, False)]
    return SubmissionScores(timestamp, due, None, questions=questions, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "entered", "points"),
    [
        ("zero", 0.0, 9.5),
        ("zero", 3.0, 9.5),
        ("none", 3.0, 0.0),
        (None, 3.0, 3.0),
        (None, 0.0, 0.0),
        (None, 20.0, 9.5),
    ],
)
def test_the_policy_of_assignments_csv_counts_and_without_one_what_the_plugin_entered(
    policy: str | None, entered: float, points: float
) -> None:
    late = submission(DUE + HOUR, DUE, late_submission_penalty=entered)
    assert lateness_of(late, Due(DUE, policy), "").points == points
    assert lateness_of(late, None, "").points == min(entered, 9.5)


@given(st.integers(-400, 400), st.integers(-400, 400), st.integers(-400, 400), st.sampled_from(["zero", "none", None]))
def test_the_due_date_in_the_gradebook_does_not_matter_where_assignments_csv_has_one(
    handed_in: int, entered: int, now: int, policy: str | None
) -> None:
    graded, due = submission(DUE + handed_in * HOUR, DUE + entered * HOUR), DUE + now * HOUR
    late = lateness_of(graded, Due(due, policy), "")
    assert late.seconds == max(0, handed_in - now) * 3600
    assert late.points == (9.5 if handed_in > now and policy == "zero" else 0)
    assert (late.reason is None) == (handed_in <= now)


@pytest.mark.parametrize("moved", [-DAY, DAY])
def test_a_mark_stays_a_mark_when_the_due_date_moves(moved: timedelta) -> None:
    """nbgrader has a second after the due date of that day, which nobody said."""
    entered = submission(DUE + timedelta(seconds=1), DUE)
    assert str(lateness_of(entered, Due(DUE + moved, "none"), "Moodle").reason) == "Moodle marks it as handed in late"


def test_an_extension_moves_with_the_due_date() -> None:
    extended = submission(DUE, DUE)
    extended.extension = DAY
    assert "extended to 2026-03-02 12:00 UTC" in str(extension_of(extended, None))
    assert "extended to 2026-03-09 12:00 UTC" in str(extension_of(extended, Due(DUE + 7 * DAY, None)))
    extended.extension = -DAY
    assert extension_of(extended, None) is None
    assert extension_of(submission(DUE, None), None) is None
