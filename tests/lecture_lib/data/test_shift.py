"""The shift report: each kind is found, named, and not mistaken for another."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import torch
from scipy.stats import kstest, spearmanr
from scipy.stats.contingency import association
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from lecture_lib.data import load_digits, shift_report
from lecture_lib.data._permutation import associated, permutations_of, predicted
from lecture_lib.data._shift_result import LIMITS, RESPONSES
from lecture_lib.data._shift_tests import class_balance, feature_by_feature, strata_of

mpl.use("Agg")
KINDS = ("covariate", "label", "concept", "temporal")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small matrices: threads that wait for each other on a busy machine take ten times as long."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    order = np.random.default_rng(0).permutation(1797)
    return data.images.numpy()[order], data.labels.numpy()[order]


def split(digits, train=600, validation=200):
    images, labels = digits
    return images[:train], images[train : train + validation].copy(), labels[:train], labels[train:][:validation].copy()


def found(report):
    return {shift.kind for shift in report.shifts if shift.found}


def test_a_random_split_has_no_shift(digits):
    train, validation, labels, others = split(digits)
    report = shift_report(train, validation, labels=(labels, others), times=(np.arange(600), 600 + np.arange(200)))
    assert tuple(shift.kind for shift in report.shifts) == KINDS
    assert [shift.found for shift in report.shifts] == [False] * 4
    assert (report.primary, report.features, report.limits) == (None, (), LIMITS)
    assert not any(shift.response for shift in report.shifts)
    again = shift_report(
        torch.from_numpy(train),
        torch.from_numpy(validation),
        labels=(labels, others),
        times=(range(600), range(600, 800)),
    )
    assert again == report


def test_covariate_shift_is_found_with_its_features(digits):
    train, validation, labels, others = split(digits)
    validation[:, 0, 3, 4] += 0.5
    report = shift_report(train, validation, labels=(labels, others))
    assert (found(report), report.primary) == ({"covariate"}, "covariate")
    assert report.features[0][0] == 3 * 8 + 4
    assert report["covariate"].response == RESPONSES["covariate"]
    # Without labels too, but then nothing can be said about them.
    report = shift_report(train, validation)
    assert [shift.found for shift in report.shifts] == [True, None, None, None]
    assert "labels were not given" in report["label"].evidence


@pytest.mark.parametrize("change", ["noise", "contrast"])
def test_shifts_without_a_change_of_one_mean_are_seen(digits, change):
    train, validation, *_ = split(digits)
    if change == "noise":
        validation += 0.1 * np.random.default_rng(0).standard_normal(validation.shape).astype(np.float32)
    else:
        validation = (validation - train.mean(axis=0)) * 0.7 + train.mean(axis=0)
    assert shift_report(train, validation)["covariate"].found


def test_label_shift_is_not_taken_for_covariate_shift(digits):
    images, labels = digits
    often = np.flatnonzero(labels < 3)[:120]
    rest = np.setdiff1d(np.arange(1797), often)
    validation, train = np.concatenate([often, rest[:80]]), rest[80:800]
    report = shift_report(images[train], images[validation], labels=(labels[train], labels[validation]))
    assert (found(report), report.primary) == ({"label"}, "label")
    # The inputs alone do look different; only the classes explain it.
    assert shift_report(images[train], images[validation])["covariate"].found


def test_concept_shift_is_found_where_inputs_are_alike(digits):
    train, validation, labels, others = split(digits)
    moved = np.where(np.random.default_rng(0).random(200) < 0.3, (others + 1) % 10, others)
    report = shift_report(train, validation, labels=(labels, moved))
    assert (found(report), report.primary) == ({"concept"}, "concept")
    # Very different inputs: other labels and harder inputs cannot be told apart.
    report = shift_report(train, 1 - validation, labels=(labels, moved))
    assert (report["concept"].found, report["concept"].effect, report.primary) == (None, None, "covariate")
    assert "too different" in report["concept"].evidence


def test_covariate_shift_towards_hard_inputs_is_no_concept_shift():
    """The rule stays; validation has more examples near its boundary, which any model gets wrong more often."""
    claims = []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        x = generator.standard_normal((1500, 10))
        y = (x[:, 0] + 0.5 * generator.standard_normal(1500) > 0).astype(int)
        hard = np.exp(-2 * x[:, 0] ** 2)
        chosen = generator.choice(1500, 200, replace=False, p=hard / hard.sum())
        others = np.setdiff1d(np.arange(1500), chosen)[:600]
        report = shift_report(x[others], x[chosen], labels=(y[others], y[chosen]), seed=seed)
        claims.append(report["concept"].found)
    assert not any(claims)


def test_drift_is_named_temporal_and_needs_a_trend_inside_a_part(digits):
    train, validation, labels, others = split(digits)
    times = np.arange(600), 600 + np.arange(200)
    drifting = [
        x + (0.2 * t / 800).astype(np.float32)[:, None, None, None]
        for x, t in zip((train, validation), times, strict=True)
    ]
    report = shift_report(*drifting, labels=(labels, others), times=times)
    assert report.primary == "temporal"
    step = shift_report(train, validation + 0.2, labels=(labels, others), times=times)
    assert (found(step), step.primary) == ({"covariate"}, "covariate")


def test_the_plot_shows_every_kind_with_its_answer(digits):
    train, validation, labels, others = split(digits)
    (axes,) = shift_report(train, validation + 0.2, labels=(labels, others)).plot().axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(reversed(KINDS))
    said = [text.get_text().split(" (")[0] for text in axes.texts]
    assert said == ["cannot tell", "cannot tell", "not found", "found"]


# ---------------------------------------------------------------- the tests behind it


def test_permutations_stay_in_their_strata():
    generator = np.random.default_rng(0)
    strata, target = generator.integers(5, size=60), generator.standard_normal(60)
    columns = permutations_of(target, strata, generator)
    np.testing.assert_allclose(columns[:, 0], target, rtol=1e-6)
    assert (columns[:, 1:] != columns[:, :1]).any(axis=0).all()
    for stratum in range(5):
        here = strata == stratum
        np.testing.assert_allclose(
            np.sort(columns[here], axis=0), np.sort(columns[here][:, :1], axis=0).repeat(1000, 1)
        )


def test_slope_and_correlation_are_those_of_the_references():
    generator = np.random.default_rng(0)
    x, part = generator.standard_normal((300, 3)).astype(np.float32), np.repeat([0, 1], [200, 100])
    x[part == 1, 0] += 1
    one = np.zeros(300, dtype=int)
    result = predicted(x, part, one, 0)
    assert 0.5 + result.slope == pytest.approx(roc_auc_score(part, result.values), abs=1e-4)
    assert result.p_value == 0.001
    time = generator.permutation(300) / 300
    result = predicted(np.stack([time, generator.standard_normal(300)], axis=1).astype(np.float32), time, one, 0)
    assert result.correlation == pytest.approx(spearmanr(time, result.values).statistic, abs=1e-4)
    values = generator.standard_normal(300)
    assert associated(values, part, one, 0).slope == pytest.approx(
        values[part == 1].mean() - values[part == 0].mean(), abs=1e-5
    )


@pytest.mark.parametrize("kind", ["predicted", "associated", "constant"])
def test_p_values_are_even_without_a_shift(kind):
    p_values = []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        part, strata = np.repeat([0, 1], [80, 40]), generator.integers(3, size=120)
        if kind == "associated":
            p_values.append(associated(strata + generator.standard_normal(120), part, strata, seed).p_value)
        else:
            x = generator.standard_normal((120, 4)).astype(np.float32) * (kind == "predicted")
            p_values.append(predicted(x, part, strata, seed).p_value)
    if kind == "constant":
        assert min(p_values) > 0.001  # features that say nothing: ties are not ranked by the part
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_cramers_v_and_holm_are_those_of_the_references():
    generator = np.random.default_rng(0)
    part = np.repeat([0, 1], [3000, 3000])
    classes = np.where(generator.random(6000) < 0.3 + 0.3 * part, 1, generator.integers(2, 4, size=6000))
    effect, p_value = class_balance(classes, part)
    counts = np.array([[np.sum((classes == name) & (part == side)) for name in (1, 2, 3)] for side in (0, 1)])
    assert effect == pytest.approx(association(counts, "cramer"), abs=0.005)
    assert p_value < 1e-20
    columns = generator.standard_normal((200, 3))
    columns[100:, 1] += 1
    distances, adjusted = feature_by_feature(columns, np.repeat([0, 1], 100))
    raw = [kstest(column[:100], column[100:], method="asymp").pvalue for column in columns.T]
    low, middle, high = np.sort(raw)
    expected = {low: 3 * low, middle: max(3 * low, 2 * middle), high: max(3 * low, 2 * middle, high)}
    np.testing.assert_allclose(adjusted, [min(1, expected[p]) for p in raw])
    assert distances.argmax() == 1


def test_strata_are_combinations():
    assert strata_of(np.array([5, 5, 7, 7]), np.array([0, 1, 0, 0])).tolist() == [0, 1, 2, 2]


ROWS = np.random.default_rng(0).random((50, 3))
LABELS = np.arange(50) % 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param({"train": ROWS[:20]}, "20 training and 50 validation examples; 40 or more", id="few"),
        pytest.param({"validation": ROWS[:, :2]}, "3 features an example, validation 2", id="shapes"),
        pytest.param({"validation": np.full((50, 3), np.inf)}, "not finite", id="infinite"),
        pytest.param({"labels": (LABELS, LABELS[:9])}, "labels of validation: 9 values for 50", id="lengths"),
        pytest.param({"labels": (np.ones(50, int), np.ones(50, int))}, "one class only", id="one-class"),
        pytest.param({"labels": LABELS}, "wanted is a pair", id="no-pair"),
        pytest.param(
            {"times": (np.full(50, np.nan), np.arange(50))}, "times of training: 50 of 50 are miss", id="times"
        ),
        pytest.param(
            {"times": (np.arange(50), np.arange(50).astype("datetime64[s]"))}, "give both in one form", id="two-forms"
        ),
    ],
)
def test_bad_input_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        shift_report(**{"train": ROWS, "validation": ROWS, **arguments})


@pytest.mark.parametrize("rows", [1, 2], ids=["constant", "one-value-a-class"])
def test_odd_inputs_give_an_answer(rows):
    x = np.repeat(ROWS[:rows], 50 // rows, axis=0)
    labels = np.array([0] * 49 + [1]), np.array([0] * 49 + [2])
    assert shift_report(x, x, labels=labels, times=(np.zeros(50), np.ones(50)))["covariate"].found is False


def test_a_report_reads_as_text() -> None:
    x = np.random.default_rng(0).normal(size=(300, 2))
    y = np.arange(300) % 2
    text = str(shift_report(x[:200], x[200:], labels=(y[:200], y[200:]))).splitlines()
    assert [line.split()[0] for line in text[:4]] == ["covariate", "label", "concept", "temporal"]
    assert text[3].split(maxsplit=3)[1:3] == ["cannot", "tell"]
    assert text[4] == "nothing to act on"
    shifted = str(shift_report(x[:200], x[200:] + 2, labels=(y[:200], y[200:])))
    assert "covariate  found" in shifted
    assert "\nact first on: covariate\n" in shifted
