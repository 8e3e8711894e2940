"""The leakage report finds what is planted and nothing else; the null world finds selection before the split."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from lecture_lib.data import fitted_on_all_data, leakage_report, load_digits
from lecture_lib.data._nearest import near_copies

pytestmark = pytest.mark.slow

mpl.use("Agg")


@pytest.fixture
def parts():
    """600 training and 200 validation digits, all different, and a generator."""
    generator = np.random.default_rng(0)
    order = generator.permutation(1797)
    images = load_digits().images
    return images[order[:600]], images[order[600:800]].clone(), generator


def kinds(report):
    return [leak.kind for leak in report.leaks]


def test_a_random_split_has_no_leak(parts):
    train, validation, _ = parts
    groups, times = (np.arange(600), np.arange(600, 800)), (np.arange(600), np.arange(600, 800))
    assert kinds(leakage_report(train, validation, groups=groups, times=times)) == []


def test_exact_duplicates_are_paired_and_their_labels_compared(parts):
    train, validation, _ = parts
    validation[[3, 50]] = train[[7, 9]]
    labels = torch.zeros(600, dtype=torch.long), torch.ones(200, dtype=torch.long)
    (leak,) = leakage_report(train, validation, labels=labels).leaks
    assert (leak.kind, leak.train.tolist(), leak.validation.tolist()) == ("exact duplicates", [7, 9], [3, 50])
    assert leak.evidence.startswith("2 of 200")
    assert "2 of them with another label" in leak.evidence
    assert (leak.share, leak.p_value) == (0.01, None)
    assert "Remove the copies" in leak.do


def test_copies_inside_one_part_and_the_sign_of_zero_are_no_leak_and_a_leak(parts):
    train, validation, _ = parts
    train[1] = train[0]
    validation[1] = validation[0]
    assert kinds(leakage_report(train, validation)) == []
    assert kinds(leakage_report(np.zeros((2, 3)), np.array([[-0.0, 0, 0], [1, 2, 3]]))) == ["exact duplicates"]


def test_near_duplicates_name_their_pairs(parts):
    train, validation, generator = parts
    chosen = generator.choice(600, 10, replace=False)
    noise = 0.02 * torch.from_numpy(generator.standard_normal((10, 1, 8, 8))).float()
    validation[:10] = train[torch.from_numpy(chosen)] + noise
    (leak,) = leakage_report(train, validation).leaks
    assert leak.kind == "near duplicates"
    assert leak.p_value <= 0.002
    assert leak.validation.tolist() == list(range(10))
    assert leak.train.tolist() == chosen.tolist()


def test_copies_made_before_a_random_split_are_found(parts):
    train, validation, generator = parts
    images = torch.cat([train, validation]).numpy()
    images[-60:] = images[:60] + 0.02 * generator.standard_normal(images[:60].shape)
    images = images[generator.permutation(800)]
    assert kinds(leakage_report(images[:600], images[600:])) == ["near duplicates"]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda g, n: 0.01 * g.standard_normal((n, 2)) + g.integers(5, size=(n, 1)), id="tight-clusters"),
        pytest.param(
            lambda g, n: np.where(g.random((n, 1)) < 0.5, 1e-3, 1) * g.standard_normal((n, 20)), id="two-densities"
        ),
        pytest.param(
            lambda g, n: np.where(g.random((n, 1)) < 0.2, np.eye(50)[0] * g.random((n, 1)), g.standard_normal((n, 50))),
            id="two-dimensions",
        ),
        pytest.param(lambda g, n: g.integers(4, size=(n, 20)).astype(float), id="discrete"),
        pytest.param(lambda g, n: g.standard_cauchy((n, 5)), id="heavy-tails"),
    ],
)
def test_data_that_cluster_do_not_alarm(make):
    for seed in range(10):
        rows = make(np.random.default_rng(seed), 500)
        assert kinds(leakage_report(rows[:400], rows[400:], seed=seed)) == []


def test_the_p_value_of_the_permutation_is_honest():
    """Copies split at random straddle no more than chance: only the gap speaks, and in one dimension it is silent."""
    generator = np.random.default_rng(0)
    p_values = []
    for seed in range(40):
        rows = generator.random((300, 1)).astype(np.float32)
        p_values.append(near_copies(rows[:240], rows[240:], seed=seed).p_value)
    assert np.mean(np.array(p_values) <= 0.1) <= 0.15


def test_distances_are_the_nearest_ones(parts):
    train, validation, _ = parts
    report = leakage_report(train, validation)
    rows, others = train.reshape(600, -1).double(), validation.reshape(200, -1).double()
    torch.testing.assert_close(
        torch.from_numpy(report.to_train).double(), torch.cdist(others, rows).min(dim=1).values, atol=1e-4, rtol=1e-4
    )
    own = NearestNeighbors(n_neighbors=1).fit(rows.numpy()).kneighbors()[0][:, 0]
    np.testing.assert_allclose(report.within_train, own, atol=1e-4)
    (axes,) = report.plot().axes
    assert axes.get_xlabel().startswith("distance")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["training (600)", "validation (200)"]


def test_shared_groups_and_time_order(parts):
    train, validation, _ = parts
    groups = [f"patient {n // 4}" for n in range(600)], [f"patient {n // 4}" for n in range(598, 798)]
    times = np.arange(600), np.arange(599, 799)
    shared, order = leakage_report(train, validation, groups=groups, times=times).leaks
    assert (shared.kind, shared.train.tolist(), shared.validation.tolist()) == (
        "shared groups",
        [596, 597, 598, 599],
        [0, 1],
    )
    assert "patient 149" in shared.evidence
    assert (order.kind, order.train.tolist(), order.validation.tolist()) == ("time order", [599], [0])


ROWS = np.random.default_rng(0).random((50, 3))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(
            {"groups": (np.arange(50), np.arange(49))}, "groups of validation: 49 values for 50", id="lengths"
        ),
        pytest.param({"groups": (["a"] * 50, [1] * 50)}, "in one form", id="two-forms"),
        pytest.param({"groups": "patient"}, "wanted is a pair", id="a-name"),
        pytest.param({"times": ([None] * 50, [1] * 50)}, "times of training: 50 of 50 are missing", id="no-times"),
        pytest.param({"labels": (np.zeros(50), np.zeros(50))}, "labels of training .* float64", id="labels"),
        pytest.param({"train": np.full((50, 3), np.nan)}, "training inputs: 50 of 50 are not finite", id="nan"),
        pytest.param({"validation": ROWS[:, :2]}, "3 features an example, validation 2", id="shapes"),
        pytest.param({"validation": []}, r"validation inputs have shape \[0\]", id="empty"),
        pytest.param({"train": np.array([["a"]])}, "wanted are numbers", id="texts"),
    ],
)
def test_bad_input_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        leakage_report(**{"train": ROWS, "validation": ROWS + 1, **arguments})


# ---------------------------------------------------------------- the null world


def pipeline(all_data):
    """Selects 20 of 300 features that say nothing, on all data or on the training half; nearest mean."""

    def score(x, y):
        train = np.arange(len(y)) < len(y) // 2
        used = train | all_data
        best = np.argsort(-abs(x[used & (y == 1)].mean(axis=0) - x[used & (y == 0)].mean(axis=0)))[:20]
        means = np.stack([x[train & (y == name)][:, best].mean(axis=0) for name in (0, 1)])
        return float((((x[~train][:, None, best] - means) ** 2).sum(axis=2).argmin(axis=1) == y[~train]).mean())

    return score


def test_selection_on_all_data_scores_above_chance_in_the_null_world():
    x, y = np.random.default_rng(0).standard_normal((80, 300)), np.arange(80) % 2
    leaking = fitted_on_all_data(pipeline(True), x, y, seed=0)
    assert leaking.found
    assert leaking.excess > 0.1
    assert leaking.p_value < 1e-6
    assert "Split first" in leaking.do
    honest = fitted_on_all_data(pipeline(False), x, y, seed=0)
    assert (honest.found, honest.do) == (False, "")
    assert abs(honest.excess) < 0.05
    assert honest.null_scores.shape == (30,)
    np.testing.assert_array_equal(honest.null_scores, fitted_on_all_data(pipeline(False), x, y, seed=0).null_scores)


def test_the_majority_class_is_chance_and_a_scaler_leaves_no_trace():
    y = torch.tensor([0] * 70 + [1] * 30)
    result = fitted_on_all_data(lambda x, y: float((y[50:] == 0).float().mean()), torch.zeros(100, 1), y, seed=0)
    assert not result.found
    certain = fitted_on_all_data(lambda x, y: 1.0, torch.zeros(100, 1), y, seed=0)
    assert (certain.found, certain.p_value, certain.excess) == (True, 0.0, pytest.approx(0.3))


@pytest.mark.parametrize(
    ("labels", "permutations", "score", "says"),
    [
        ([0, 1, 0], 30, 0.5, "3 values for 4"),
        ([1, 1, 1, 1], 30, 0.5, "one class only"),
        ([0, 1, 0, 1], 3, 0.5, "permutations is 3"),
        ([0, 1, 0, 1], 30, np.nan, "not finite"),
    ],
    ids=["lengths", "one-class", "permutations", "score"],
)
def test_the_null_world_refuses(labels, permutations, score, says):
    with pytest.raises(ValueError, match=says):
        fitted_on_all_data(lambda x, y: score, np.zeros(4), np.array(labels), seed=0, permutations=permutations)


def test_a_report_reads_as_text() -> None:
    x = np.arange(60.0).reshape(30, 2) ** 2
    assert str(leakage_report(x[:20], x[20:])) == "no leak found"
    text = str(leakage_report(x[:20], np.concatenate([x[20:], x[:1]])))
    assert text.startswith("exact duplicates: 1 ")
    assert "\n  " in text


COARSE = {
    "counts": lambda g, n: g.poisson(1.5, size=(n, 4)),
    "counts of unequal rows": lambda g, n: g.poisson(g.gamma(0.5, 2, size=(n, 1)), size=(n, 8)),
    "counts with their sum": lambda g, n: (lambda c: np.column_stack([c, c.sum(axis=1)]))(g.poisson(1.0, size=(n, 5))),
    "one of five": lambda g, n: np.eye(5)[g.integers(5, size=(n, 4))].reshape(n, -1),
    "answers yes or no": lambda g, n: g.integers(2, size=(n, 10)),
    "answers that go together": lambda g, n: (g.random((n, 1)) + 0.3 * g.standard_normal((n, 8)) > 0.5).astype(float),
    "one number": lambda g, n: g.integers(60, size=(n, 1)),
    "rounded lengths": lambda g, n: np.round(
        g.multivariate_normal(np.full(3, 5), np.full((3, 3), 0.4) + np.eye(3) * 0.1, n), 1
    ),
    "rarely anything": lambda g, n: g.poisson(0.05, size=(n, 20)),
}


@pytest.mark.parametrize("name", COARSE)
def test_coincidences_of_coarse_data_are_no_copies(name):
    """Rows drawn one by one, of which many are equal: the report says how many chance would give."""
    alarms, equal = 0, 0
    for seed in range(20):
        rows = COARSE[name](np.random.default_rng(seed), 500).astype(float)
        report = leakage_report(rows[:400], rows[400:], seed=seed)
        alarms += "exact duplicates" in kinds(report)
        found = sum(any(np.array_equal(row, other) for other in rows[:400]) for row in rows[400:])
        equal += found
        if found and not report.leaks:
            assert f"{found} of 100 validation examples are equal to a training example; chance would give" in str(
                report
            )
    assert equal > 20
    assert alarms == 0


@pytest.mark.parametrize("name", ["counts of unequal rows", "rarely anything", "one of five", "rounded lengths"])
def test_copies_beside_coincidences_are_found(name):
    """Half of validation copied from training: far more than chance gives."""
    for seed in range(5):
        generator = np.random.default_rng(seed)
        rows = COARSE[name](generator, 500).astype(float)
        rows = rows[np.unique(rows, axis=0, return_index=True)[1]] if name == "rarely anything" else rows
        count = len(rows) * 4 // 5
        train, validation = rows[:count], rows[count:].copy()
        validation[::2] = train[generator.choice(count, len(validation[::2]), replace=False)]
        leaks = leakage_report(train, validation, seed=seed).leaks
        assert [leak.kind for leak in leaks][:1] == ["exact duplicates"]
        assert "chance would give" in leaks[0].evidence
        assert leaks[0].p_value is None or leaks[0].p_value <= 0.002


def test_copies_of_measurements_made_before_a_random_split_are_facts(parts):
    """A random split straddles as many again: only that measurements never coincide tells."""
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((500, 6))
    rows[250:280] = rows[:30]
    rows = rows[generator.permutation(500)]
    (leak,) = leakage_report(rows[:400], rows[400:]).leaks
    assert leak.kind == "exact duplicates"
    assert leak.p_value is None
    assert "chance would give 0.0" in leak.evidence
