"""The judges of curves, split, shift, buckets and ablate beside references of their own."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from conftest import ROOT
from helpers.approximate_numbers import NUMBER

from autograders import notebooks
from autograders.questions.cases import Case
from autograders.questions.descriptions import ablate, buckets, curves
from autograders.questions.question import QUESTIONS
from lecture_lib.notebook.questions.curves import ACTIONS, LABELS
from lecture_lib.notebook.questions.shift import ARRAYS
from lecture_lib.notebook.questions.split import CLASSES, COLUMNS, TOLERANCE, facts


@cache
def cases_of(name: str, seeds: int) -> list[Case]:
    return [case for seed in range(seeds) for case in QUESTIONS[name].draw(b"test", str(seed), seed)]


def drawn(name: str, seeds: int) -> list[Case]:
    """Without the cases that are added from the domain."""
    draw = QUESTIONS[name].description.draw
    return [case for seed in range(seeds) for case in draw(np.random.default_rng(seed))]


def test_the_hidden_curves_follow_the_stated_rules_with_room_to_spare() -> None:
    """Each kind has the label that it is drawn for, also when every limit is moved by a tenth."""
    labels = {kind: label for label, kinds in curves.KINDS.items() for kind in kinds}
    for case in drawn("03b-curves", 40):
        for wider in (0.9, 1.0, 1.1):
            found = by_the_text(case.inputs["train_loss"], case.inputs["val_loss"], np.median, wider)
            assert found == labels[case.kind], case.kind


def by_the_text(train: np.ndarray, val: np.ndarray, end, wider: float) -> str:
    a, b = (float(end(curve[-5:])) for curve in (train, val))
    if not (np.isfinite(train).all() and np.isfinite(val).all()) or a > wider * 2 * train[0]:
        return "diverging"
    if a >= (1 - wider * 0.02) * train[0]:
        return "dead"
    if np.sum(np.diff(train) / train[:-1] > wider * 0.1) >= wider * 0.25 * (len(train) - 1):
        return "oscillating"
    if a > wider * 0.5 * train[0]:
        return "under"
    if b <= (1 + wider * 0.02) * a:
        return "leak"
    if b > (1 + wider * 0.2) * val.min() or b > wider * 2 * a:
        return "over"
    return "sweet spot"


def test_every_label_has_one_action_of_the_list() -> None:
    assert set(curves.ACTIONS) == set(LABELS)
    assert set(curves.ACTIONS.values()) == set(ACTIONS)


def test_whole_groups_always_come_within_the_tolerance() -> None:
    """Whatever whole groups are drawn by number, the smallest or the largest: sizes and classes fit."""
    for case in drawn("03b-split", 10):
        table, fraction = case.inputs["table"], case.inputs["val_fraction"]
        if case.kind == "later days":
            assert len(set(table["day"].tolist())) == len(table["day"])
            continue
        column, labels = np.asarray(table[COLUMNS[case.kind]]), table["label"]
        strata = labels if case.kind == "new patients" else np.zeros(len(column))
        for stratum in np.unique(strata):
            sizes = np.sort(np.unique(column[strata == stratum], return_counts=True)[1])
            count = round(fraction * len(sizes))
            for chosen in (sizes[:count], sizes[-count:]):
                assert abs(chosen.sum() / sizes.sum() - fraction) < TOLERANCE, case.kind


def test_patients_that_are_drawn_at_random_are_out_of_balance_in_some_table_of_every_set() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        balanced = []
        for case in QUESTIONS["03b-split"].draw(b"test", str(seed), seed):
            if case.kind == "new patients":
                patients = np.unique(case.inputs["table"]["patient"])
                chosen = rng.permutation(patients)[: round(case.inputs["val_fraction"] * len(patients))]
                in_val = np.isin(case.inputs["table"]["patient"], chosen)
                said = facts({"train": np.flatnonzero(~in_val), "val": np.flatnonzero(in_val)}, case.inputs)
                assert said["a patient in both parts"] == "no"
                balanced.append(said[CLASSES])
        assert "no" in balanced


def test_the_shifts_are_what_their_names_say() -> None:
    """Counted once more, value by value, over the drawn examples: changed by far or not at all."""

    def shares(x: np.ndarray, y: np.ndarray) -> dict[str, list[float]]:
        return {
            "x": [float(np.mean(x == a)) for a in range(3)],
            "y": [float(np.mean(y == b)) for b in range(2)],
            "y|x": [float(np.mean(y[x == a])) for a in range(3)],
            "x|y": [float(np.mean(x[y == b] == a)) for a, b in product(range(3), range(2))],
        }

    def gaps(first: dict[str, list[float]], second: dict[str, list[float]]) -> dict[str, float]:
        return {name: max(abs(a - b) for a, b in zip(first[name], second[name], strict=True)) for name in first}

    for case in cases_of("03b-shift", 12):
        x, y, t, x_val, y_val, t_val = (case.inputs[name] for name in ARRAYS)
        assert t.max() < t_val.min()
        early = t < np.median(t)
        inside = gaps(shares(x[early], y[early]), shares(x[~early], y[~early]))
        between = gaps(shares(x, y), shares(x_val, y_val))
        assert all(gap < 0.065 or gap > 0.135 for gap in between.values()), case.kind
        changed = {name for name, gap in between.items() if gap > 0.1}
        rules = (("covariate", "x", "y|x"), ("label", "y", "x|y"), ("concept", "y|x", "x"))
        word = next((kind for kind, moved, kept in rules if moved in changed and kept not in changed), "none")
        assert case.key == ("temporal" if max(inside.values()) > 0.1 else word)


def test_no_size_of_a_shift_is_the_limit() -> None:
    """Counted in fractions: at exactly a tenth, rounding decides, and two right ways to compute it may differ."""

    def shares(pairs: Counter[tuple[int, int]]) -> list[list[Fraction]]:
        n = sum(pairs.values())
        x, y = (Counter({a: sum(pairs[p] for p in pairs if p[axis] == a) for a in range(3)}) for axis in (0, 1))
        cells = list(product(range(3), range(2)))
        return [
            [Fraction(x[a], n) for a in range(3)],
            [Fraction(y[b], n) for b in range(2)],
            [Fraction(pairs[a, b], x[a] or 1) for a, b in cells],
            [Fraction(pairs[a, b], y[b] or 1) for a, b in cells],
        ]

    for case in cases_of("03b-shift", 12):
        x, y, t, x_val, y_val, _ = (case.inputs[name].tolist() for name in ARRAYS)
        rows = list(zip(x, y, strict=True))
        middle = len(rows) // 2
        early = [day <= np.median(t) for day in t]
        for first, second in (
            (rows, list(zip(x_val, y_val, strict=True))),
            (rows[:middle], rows[middle:]),
            (
                [r for r, e in zip(rows, early, strict=True) if e],
                [r for r, e in zip(rows, early, strict=True) if not e],
            ),
        ):
            for before, after in zip(shares(Counter(first)), shares(Counter(second)), strict=True):
                gaps = [abs(a - b) for a, b in zip(before, after, strict=True)]
                assert Fraction(1, 10) not in (max(gaps), sum(gaps), sum(gaps) / len(gaps)), case.kind


def test_every_half_that_may_be_compared_has_every_input_and_label() -> None:
    """A share of nothing is nan in one answer and 0 in another: the name of a mistake differed on 5 of 80 sets."""
    for case in cases_of("03b-shift", 12):
        x, y, t, *_ = (case.inputs[name].tolist() for name in ARRAYS)
        orders = [range(len(x)), sorted(range(len(x)), key=t.__getitem__)]
        halves = [order[: len(x) // 2] for order in orders] + [order[len(x) // 2 :] for order in orders]
        for border in (sum(t) / len(t), (min(t) + max(t)) / 2):
            halves += [[i for i, day in enumerate(t) if (day <= border) is earlier] for earlier in (True, False)]
        for half in halves:
            assert ({x[i] for i in half}, {y[i] for i in half}) == ({0, 1, 2}, {0, 1}), case.kind


def test_the_ceilings_are_those_of_the_library() -> None:
    from lecture_lib.analysis import bucket_errors

    for case in cases_of("03b-buckets", 5):
        # As many examples as make these mistakes the share that the accuracy says, to the next whole example.
        mistakes, accuracy = case.inputs["mistakes"], case.inputs["accuracy"]
        examples = round(len(mistakes) * 100 / (100 - accuracy))
        found = bucket_errors(
            np.arange(examples) < len(mistakes), lambda row, names=mistakes: [names[row]] if row < len(names) else []
        )
        ceilings = {row.name: 100 * row.ceiling for row in found.rows}
        exact = 100 * (1 - len(mistakes) / examples)
        assert ceilings == pytest.approx(buckets.ceilings(mistakes, exact))


def test_the_intervals_and_verdicts_are_those_of_scipy_and_of_the_library() -> None:
    from scipy import stats

    from lecture_lib.experiments import ablate as ablate_with_library

    for case in cases_of("03b-ablate", 20):
        if case.kind not in ablate.PROPER:
            continue
        base, changed = (np.array(case.inputs[name]) for name in ("base_scores", "changed_scores"))
        gain, low, high = ablate.interval(base.tolist(), changed.tolist())
        expected = stats.ttest_rel(changed, base).confidence_interval(0.95)
        assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-9)
        assert gain == pytest.approx((changed - base).mean())
        scores = {False: base, True: changed}
        seeds = case.inputs["seeds"]

        def run(config, seed, scores=scores, seeds=seeds):
            return scores[config["on"]][seeds.index(seed)]

        found = ablate_with_library(run, {"on": False}, {"it": {"on": True}}, seeds)
        assert found.effects[0].verdict == case.kind
        assert min(abs(low), abs(high)) > 0.05 * (high - low)


def test_the_quantile_is_the_one_that_the_notebook_states() -> None:
    from scipy import stats

    assert pytest.approx(stats.t.isf(0.025, 2), rel=1e-12) == ablate.QUANTILE
    assert round(ablate.QUANTILE, 3) == 4.303
    assert "4.303" in (ROOT / "notebooks" / "03b-debug-ladder.py").read_text("utf-8")


def test_the_paired_interval_is_much_narrower() -> None:
    visible = QUESTIONS["03b-ablate"].public.cases[0]
    assert visible.mistakes["unpaired"]["reading"]["low"] < 0 < visible.expected["reading"]["low"]


SHOWN = [
    'The answer is "overfit".',
    "healthy: healthy.",
    "three hidden units: underfit.",
    "rate 0.000001: flat.",
    "during training: training ≈ 0.58, validation ≈ 0.25",
    "both in evaluation mode: training ≈ 0.15, validation ≈ 0.25",
    "It is 100 %.",
    "by video: mean accuracy over twenty splits ≈ 50 %",
    "by row: ['shared groups']",
    "by video: no leak found",
    "training ends on day 319, validation begins on day 320",
    "unchanged: none",
    "darker: covariate",
    "few of 5 to 9: label",
    'The answer is "concept".',
    "ill 50%: positive 50%, of these ill 90%",
    "It is 100 %.",
    "4 × 1200 predictions, accuracy ≈ 90 %",
    "mistakes: 100",
    "It is 87.76 %.",
    "detect: alone +1, in its turn +1",
    "align: alone +9, in its turn +9",
    "read: alone +1, in its turn +8",
    "augmentation: +2.1",
    "bigger model: +0.4",
    "both: +2.0",
    "It is -0.1 points.",
    "lower rate: gain ≈ -51.4 points, worse",
    "wider: gain ≈ -0.2 points, noise",
    "different: ['config.hidden', 'seed']",
]


def test_the_notebook_computes_what_its_sections_state() -> None:
    nb = notebooks.read(notebooks.master_path("03b-debug-ladder"))
    shown = "\n".join(output.get("text", "") for cell in nb.cells for output in cell.get("outputs", []))
    shown = NUMBER.sub("≈ NUMBER", shown)  # nbval says how far such a number may lie from the stored one
    assert [line for line in SHOWN if NUMBER.sub("≈ NUMBER", line) not in shown] == []


@pytest.mark.parametrize("name", ["curves", "split", "shift", "buckets", "ablate"])
def test_the_public_half_holds_no_reference(name: str) -> None:
    """What decides a hidden case is written in the judge, not in what ships."""
    public = inspect.getsource(__import__(f"lecture_lib.notebook.questions.{name}", fromlist=["QUESTION"]))
    assert not re.search(r"np\.median|most_common|stdev|def _rule|def _decide", public)
