"""The leave-one-out measurement takes away what knows a fault, and puts it back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from contenders import leave_one_out
from harness import interval

from lecture_lib.debugging import FAULTS, PARTS, ladder
from lecture_lib.debugging._engine import differences


def rules() -> dict[str, frozenset[str]]:
    every = [rule for rung in ladder.RUNGS for rule in (*rung.rules, *rung.hypotheses)] + [*differences.COMPARISONS]
    return {rule.__name__: leave_one_out.names_of(rule) for rule in every}


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("leaks", {"D17", "D18", "D19", "D20"}),  # in a table
        ("weights_drawn_otherwise", {"A02", "A03"}),  # a sign that names what a replacement mends
        ("gradients_never_cleared", {"G01"}),  # behind a wrapper
        ("stopped", {"D12", "L05", "L10", "G21", "G23", "P14", "A14"}),  # in pairs
        ("gives_target_away", {"D21"}),  # in what it calls
    ],
)
def test_what_a_rule_can_say_is_read_from_its_code(rule: str, names: set[str]) -> None:
    assert rules()[rule] == names


def test_nothing_that_knows_a_fault_is_asked_and_all_comes_back() -> None:
    before = ladder.RUNGS, ladder.MEASURES, rules()
    for row in FAULTS:
        with leave_one_out.without(row):
            assert not [name for name, names in rules().items() if row in names]
            assert {name for name, names in before[2].items() if row not in names} == set(rules())
    assert (ladder.RUNGS, ladder.MEASURES, rules()) == before


def test_the_sample_has_silent_faults_of_every_part() -> None:
    rows = [case.row for case in leave_one_out.sample()]
    assert len(set(rows)) == len(rows) > leave_one_out.SAMPLE
    assert {FAULTS[row].parts[0] for row in rows[: leave_one_out.SAMPLE]} == set(PARTS)
    assert not leave_one_out.LOUD & set(rows)


def test_wilsons_interval() -> None:
    assert interval(6, 14) == "(6 of 14, 21 to 67 %)"
    assert interval(0, 10) == "(0 of 10, 0 to 28 %)"
