"""Rung 1, by comparison: whether training labels are right."""

from __future__ import annotations

import math

import numpy as np

from .._engine.evidence import Evidence
from .._engine.probes import chance, table
from .finding import Finding
from .label_hypotheses import trained_on

LIKE = 15  # neighbours that are asked for a label


def noisy_labels(evidence: Evidence) -> Finding | None:
    """D10: labels of training are wrong where nothing makes them hard."""
    return _harder_than_validation(evidence) or _contradicted(evidence)


def _contradicted(evidence: Evidence) -> Finding | None:
    """Labels differ from their neighbours' where these agree most, hardly less than elsewhere: no border is near."""
    data = table(evidence, evidence.plain)
    if data is None or not data.classes or evidence.spec.task == "sequence" or len(data.y) < 5 * LIKE:
        return None
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    rows = StandardScaler().fit_transform(data.x)
    near = NearestNeighbors(n_neighbors=LIKE).fit(rows).kneighbors(return_distance=False)
    classes = np.unique(data.y)
    votes = np.stack([(data.y[near] == one).mean(axis=1) for one in classes])
    wrong, agreed = classes[votes.argmax(axis=0)] != data.y, votes.max(axis=0)
    sure = wrong[agreed >= np.quantile(agreed, 0.8)]
    share, elsewhere = float(sure.mean()), float(wrong.mean())
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


def _harder_than_validation(evidence: Evidence) -> Finding | None:
    """Held-out training labels are far harder to name than validation labels, for the program itself."""
    plain, val, program = evidence.plain, evidence.val, evidence.program
    if plain is None or val is None or program.loss_fn is None or evidence.spec.shift_expected or not _hint(evidence):
        return None
    gaps = []
    for half in (0, 1):
        losses = trained_on(half, plain, evidence)
        if not losses:
            return None
        least = min(own for own, _ in losses)  # before it learns them by heart; one epoch alone says little
        own, other = np.mean([both for both in losses if both[0] <= 1.15 * least], axis=0)
        if other > 0.7 * evidence.constant_loss:
            return None  # nothing is learnt that noise could hide
        gaps.append((own - other) / evidence.constant_loss)
    if min(gaps) < 0.05 or sum(gaps) / 2 < 0.1:
        return None
    return Finding(
        "D10",
        f"trained on half of the training data the program errs more on the other half than in validation: loss "
        f"{own:.3g} against {other:.3g}",
        {"gaps": gaps},
        certain=False,
    )


def _hint(evidence: Evidence) -> bool:
    """Whether a run that learns leaves more loss on training labels than on validation labels, before it memorises."""
    gaps = [row.train_loss - row.val_loss for row in evidence.run.rows]
    return bool(gaps) and max(gaps) > 0.05 * evidence.constant_loss
