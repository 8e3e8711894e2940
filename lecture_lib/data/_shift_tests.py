"""The tests behind the shift report; each answers one question about two samples."""

from __future__ import annotations

import numpy as np

from ._permutation import FOLDS

MOST_COLUMNS, COMPONENTS = 64, 32  # more columns than that are reduced to so many principal components
LANDMARKS = 250
LEAST_PROBABILITY = 1e-3  # one confident mistake must not decide


def standardised(rows: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and variance 1, outliers cut at 5; constant columns are 0."""
    spread = rows.std(axis=0)
    return np.clip((rows - rows.mean(axis=0)) / np.where(spread > 1e-12, spread, 1), -5, 5).astype(np.float32)


def reduced(columns: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Few columns as they are, many as principal components; and what these leave over in each row, [N, 0 or 1]."""
    from sklearn.decomposition import PCA

    if columns.shape[1] <= MOST_COLUMNS:
        return columns, columns[:, :0]
    components = min(COMPONENTS, len(columns) // 4)
    pca = PCA(components, random_state=seed).fit(columns)
    scores = pca.transform(columns)
    remainder = ((columns - pca.inverse_transform(scores)) ** 2).sum(axis=1, keepdims=True)
    return scores, np.log(remainder + 1e-6)


def with_squares(columns: np.ndarray, seed: int) -> np.ndarray:
    """What a linear test looks at: components for means, squares for spread, the remainder for noise and blur."""
    scores, remainder = reduced(columns, seed)
    scores = standardised(scores)
    return standardised(np.concatenate([scores, scores**2, remainder], axis=1))


def strata_of(*columns: np.ndarray) -> np.ndarray:
    """One whole number, from 0, for each combination of values."""
    return np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def feature_by_feature(columns: np.ndarray, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kolmogorov-Smirnov distance of each feature, and its p value after Holm's correction."""
    from scipy.stats import ks_2samp

    tests = [ks_2samp(column[part == 0], column[part == 1], method="asymp") for column in columns.T]
    distances, p_values = np.array([(test.statistic, test.pvalue) for test in tests]).T
    order = np.argsort(p_values)
    adjusted = np.empty_like(p_values)
    # Holm: the smallest of m p values counts m times, the next m - 1 times, and none falls below one before it.
    adjusted[order] = np.maximum.accumulate(p_values[order] * np.arange(len(tests), 0, -1))
    return distances, np.minimum(adjusted, 1)


def class_balance(classes: np.ndarray, part: np.ndarray) -> tuple[float, float]:
    """Cramér's V of class and part, corrected for its bias, and the chi-squared p value.

    Source: Bergsma 2013, A bias-correction for Cramér's V, https://doi.org/10.1016/j.jkss.2012.10.002
    """
    from scipy.stats import chi2_contingency

    names = strata_of(classes)
    counts = np.stack([np.bincount(names[part == side], minlength=names.max() + 1) for side in (0, 1)])
    result = chi2_contingency(counts, correction=False)
    n, kinds = len(part), counts.shape[1]
    phi = max(0.0, result.statistic / n - (kinds - 1) / (n - 1))
    # With two parts the smaller side of the table is 2, corrected 2 - 1 / (n - 1).
    return float(np.sqrt(phi / (1 - 1 / (n - 1)))), float(result.pvalue)


def surprises(columns: np.ndarray, classes: np.ndarray, part: np.ndarray, seed: int) -> np.ndarray:
    """How surprising each label is: its log-loss minus the loss that the model expects, in nats, [N].

    The models are of training examples and never include the one that is judged. Without the subtraction, inputs that
    are harder by themselves would look like other labels. A validation example is judged by one fold's model, as the
    training examples of that fold are: the two are then alike in everything but their part.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    generator = np.random.default_rng(seed)
    folds, result = np.empty(len(part), dtype=np.int64), np.empty(len(part))
    for side in (0, 1):
        members = generator.permutation(np.flatnonzero(part == side))
        folds[members] = np.arange(len(members)) % FOLDS
    # A width that follows the spread of the data, as scikit-learn's gamma="scale".
    gamma = 1 / max(float(columns.var(axis=0).sum()), 1e-12)
    for fold in range(FOLDS):
        fitted, judged = (part == 0) & (folds != fold), np.flatnonzero(folds == fold)
        # A fold may hold one class only where the others are rare.
        kernel = Nystroem(gamma=gamma, n_components=min(LANDMARKS, int(fitted.sum())), random_state=0)
        several = len(np.unique(classes[fitted])) > 1
        model = make_pipeline(kernel, LogisticRegression(C=10, max_iter=1000) if several else DummyClassifier())
        model.fit(columns[fitted], classes[fitted])
        probabilities = np.zeros((len(judged), classes.max() + 1))
        probabilities[:, model.classes_] = model.predict_proba(columns[judged])
        losses = -np.log(np.maximum(probabilities, LEAST_PROBABILITY))
        result[judged] = losses[np.arange(len(judged)), classes[judged]] - (probabilities * losses).sum(axis=1)
    return result
