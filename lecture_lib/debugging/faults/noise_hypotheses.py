"""Rung 1, by comparison: whether training labels agree with those of their neighbours."""

from __future__ import annotations

import math

import numpy as np

from .._engine.evidence import Evidence
from .._engine.probes import chance, table
from .finding import Finding

LIKE = 15  # neighbours that are asked for a label


def noisy_labels(evidence: Evidence) -> Finding | None:
    """D10: labels differ from their neighbours' where these agree most, hardly less than elsewhere.

    Near a border between classes they differ only where neighbours disagree, too. Nothing is trained for it, and no
    replacement of a part would show it: wrong labels in both splits leave the best error as high as it is.
    """
    data = table(evidence, evidence.plain)
    if data is None or not data.classes or evidence.spec.task == "sequence" or len(data.y) < 5 * LIKE:
        return None
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    rows = StandardScaler().fit_transform(data.x)
    near = NearestNeighbors(n_neighbors=LIKE).fit(rows).kneighbors(return_distance=False)
    classes = np.unique(data.y)
    votes = np.stack([(data.y[near] == label).mean(axis=1) for label in classes])
    wrong, agreed = classes[votes.argmax(axis=0)] != data.y, votes.max(axis=0)
    sure = wrong[agreed >= np.quantile(agreed, 0.8)]
    share, elsewhere = float(sure.mean()), float(wrong.mean())
    # Three standard errors below the share, so that few examples have to disagree more.
    least, room = share - 3 * math.sqrt(share * (1 - share) / len(sure)), 1 - chance(data)
    if room - elsewhere < 0.4 * room or elsewhere > 1.5 * share or least < 0.1:
        return None
    return Finding(
        "D10",
        f"of the {len(sure)} training examples whose {LIKE} neighbours agree most, {share:.0%} have another label than "
        f"these; of all examples {elsewhere:.0%}",
        {"contradicted": share, "all": elsewhere},
        certain=False,
    )
