"""Numbers that are not what they should be where no identity and no replacement of a part explains them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import torch

from ._engine.chance import SCORES, no_better_than_chance
from ._engine.evidence import Evidence
from ._engine.instrumentation import why_not
from ._engine.swap_results import FAR, VALIDATIONS, Swaps, Trial
from ._engine.yardstick import error
from .faults.finding import Finding

FEWEST = 60  # examples of a split; of fewer a number says little
COLUMNS = 5  # inputs with fewer columns may well rest on one
NOTHING = 0.95  # error from which on nothing is learnt, relative to a constant answer's
GOOD = 0.3  # error below which an answer can be too good
ALONE = 0.05  # error that all other columns may add together
AWAY = 0.05  # by which a share falls below that of the untrained program, beyond chance
DRAWS, EASIER = 40, 0.05  # resamples of a split; share of a score by which validation must be better than test
NEARER = 0.8  # of the distance between training examples, to which validation's are nearer to them than chance allows


def symptoms(evidence: Evidence, swaps: Swaps | None) -> list[Finding]:
    """The first symptom of the list below, the one that says most first; nothing where all numbers are as usual."""
    for look in SYMPTOMS:
        try:
            finding = look(evidence, swaps)
        except Exception as error:  # such as an author's metric that does not take every choice of examples
            evidence.unseen.append(f"symptoms: {why_not(error)}")
            continue
        if finding is not None:
            return [finding]
    return []


def _tried(swaps: Swaps | None) -> str:
    if swaps is None or not swaps.trials:
        return "No part could be replaced to find out more."
    parts = list(dict.fromkeys(trial.part for trial in swaps.trials))
    return f"{len(swaps.trials)} replacements were tried ({', '.join(parts)}), and none explains it."


def _symptom(symptom: str, evidence: str, swaps: Swaps | None, look: str, where: str = "") -> Finding:
    return Finding(None, evidence, {}, False, where, symptom, _tried(swaps), look)


def _all_else_replaced(swaps: Swaps | None) -> bool:
    """Whether a plain network learnt nothing either, and neither did the program from validation's own examples."""
    if swaps is None or swaps.best < NOTHING:
        return False
    whole = any(trial.part == "model" and trial.general for trial in swaps.trials)
    return whole and any(trial.description == VALIDATIONS for trial in swaps.trials)


def by_chance(evidence: Evidence, swaps: Swaps | None) -> Finding | None:
    """The validation metric is what targets of other examples give, or less."""
    doubt = no_better_than_chance(evidence.program, evidence.val, evidence.run)
    if not doubt or evidence.val is None or len(evidence.val.y) < FEWEST:
        return None
    learnt = evidence.run.rows[-1].train_loss < 0.5 * evidence.constant_loss
    if learnt:
        look = "Training examples are learnt and validation's are not: look at a few of both beside their labels."
    else:
        look = "Training examples are not learnt either: look at a few of them beside their labels, then at the loss."
    where = "inputs" if _all_else_replaced(swaps) else ""
    return _symptom("the validation metric is no better than chance", doubt, swaps, look, where)


def easier_than_its_own(evidence: Evidence, swaps: Swaps | None) -> Finding | None:
    """Held-out training examples are far harder than validation: it has met training's, or their labels are wrong."""
    own = swaps.own if swaps is not None else None
    spec = evidence.spec
    if own is None or spec.shift_expected or spec.mixes_labels:
        return None
    harder = [-gain for gain in own.gains]
    if len(harder) < 2 or min(harder) < 0.08 or np.mean(harder) < 0.35 * np.mean(own.errors) or evidence.augmented:
        return None
    near = _nearness(evidence)
    met = near is not None and near < NEARER
    where = "split" if met else "labels" if near is not None else ""
    look = {
        "split": "Validation examples lie nearer to training's than these do to each other: look for copies.",
        "labels": "Look at training examples that the trained model gets wrong: are their labels right?",
        "": "Look for validation examples that are in training too, and for wrong labels in training.",
    }[where]
    numbers = f"error {np.mean(own.errors):.2f} on training examples that were held out, {np.mean(own.without):.2f} on "
    finding = _symptom(
        "validation is far easier than training examples that were held out", numbers + "validation", swaps, look, where
    )
    return replace(finding, fault="D10" if where == "labels" else None)


def easier_than_test(evidence: Evidence, swaps: Swaps | None) -> Finding | None:
    """The trained model scores clearly higher on validation than on test, and chance does not explain it."""
    val, test, spec = evidence.val, evidence.test, evidence.spec
    outputs, of_test = evidence.run.outputs[1], evidence.run.outputs_of_test
    if val is None or test is None or outputs is None or of_test is None or min(len(outputs), len(of_test)) < FEWEST:
        return None
    # A test that is later still may have another answer.
    if spec.shift_expected or spec.val_times is not None:
        return None
    (ours, spread), (theirs, spread_of_test) = (
        _resampled(evidence, answers, examples.y) for answers, examples in ((outputs, val), (of_test, test))
    )
    if not ours - theirs > max(4 * math.hypot(spread, spread_of_test), EASIER * max(abs(ours), abs(theirs))):
        return None
    numbers = f"{abs(ours):.3g} on validation, {abs(theirs):.3g} on test"
    look = "Look for what validation shares with training and test does not: rows, or statistics and labels of theirs."
    return _symptom("validation is easier than test for the trained model", numbers, swaps, look, "split")


def _resampled(evidence: Evidence, outputs: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Mean and spread of a score, higher for better outputs, over examples drawn with replacement."""
    score = evidence.program.metric or (lambda answers, targets: -float(evidence.own_loss(answers, targets)))
    generator = torch.Generator().manual_seed(evidence.seed)
    draws = [torch.randint(len(outputs), (len(outputs),), generator=generator) for _ in range(DRAWS)]
    scores = [float(score(outputs[rows], y[rows])) for rows in draws]
    return fmean(scores), stdev(scores)


def _nearness(evidence: Evidence) -> float | None:
    """How near validation examples are to their nearest training example, relative to what training's are."""
    train, val = evidence.plain, evidence.val
    if train is None or val is None or min(len(train.y), len(val.y)) < FEWEST:
        return None
    train_rows, val_rows = (torch.from_numpy(examples.flat()[:1000]).nan_to_num() for examples in (train, val))
    if train_rows.shape[1:] != val_rows.shape[1:]:
        return None
    within = torch.cdist(train_rows, train_rows).fill_diagonal_(torch.inf).amin(dim=1)
    across = torch.cdist(val_rows, train_rows).amin(dim=1)
    return float(across.quantile(0.25) / within.quantile(0.25).clamp(min=1e-12))


def one_column(evidence: Evidence, swaps: Swaps | None) -> Finding | None:
    """A good answer rests on a single column of the inputs, and on nothing else."""
    val, train = evidence.val, evidence.train
    if val is None or train is None or val.x.ndim != 2 or val.x.shape[1] < COLUMNS or len(val.y) < FEWEST:
        return None
    if not val.x.is_floating_point() or swaps is None or swaps.errors[0] > GOOD:
        return None
    generator = torch.Generator().manual_seed(0)
    # One order for all columns: those that are exchanged together still belong to one example.
    order = torch.randperm(len(val.x), generator=generator)
    with evidence.trained() as program:

        def error_with(changed: Sequence[int]) -> float:
            x = val.x.clone()
            x[:, list(changed)] = x[order][:, list(changed)]
            return error(program, [(x, val.y)], evidence.spec)

        columns = range(val.x.shape[1])
        alone = [error_with([column]) for column in columns]
        most = int(np.argmax(alone))
        rest = error_with([column for column in columns if column != most])
        plain = error_with([])
    if rest > plain + ALONE or alone[most] < 0.5:
        return None
    return _symptom(
        "the answer rests on one input",
        f"error {plain:.2f}; with column {most} from other examples {alone[most]:.2f}, with all others {rest:.2f}",
        swaps,
        f"Would column {most} be known when the model is used? Look at how it was made.",
        "inputs",
    )


def far_from_the_best(evidence: Evidence, swaps: Swaps | None) -> Finding | None:
    """A program with much of it replaced is far better, also than a run three times as long."""
    if swaps is None or swaps.far is None:
        return None
    far: Trial = swaps.far
    return _symptom(
        "the program is far from what a simple one reaches",
        f"{far}; after three times the epochs the program as it is has {swaps.tripled:.2f}",
        swaps,
        "Much was replaced at once. Replace half of it, and go on with the half that helps.",
        far.part if swaps.alone else "",
    )


def nothing_learnt(evidence: Evidence, swaps: Swaps | None) -> Finding | None:
    """Neither the program nor any replacement is better than a constant answer."""
    if swaps is None or not swaps.trials or swaps.best < NOTHING:
        return None
    return _symptom(
        "nothing is learnt, with no replacement",
        f"error {swaps.errors[0]:.2f}, the lowest with a part replaced {swaps.best:.2f}, a constant answer's 1",
        swaps,
        "Look at a few examples as the model gets them, beside their labels: could you tell one from the other?",
        "inputs" if _all_else_replaced(swaps) else "",
    )


def worse_than_untrained(evidence: Evidence, swaps: Swaps | None) -> Finding | None:
    """Training lowers its loss, and a score that is a share falls below what it was before training."""
    run, count = evidence.run, len(evidence.val.y) if evidence.val is not None else 0
    if count < FEWEST or not run.rows or not run.rows[-1].train_loss < run.before:
        return None
    for name, before in run.untrained.items():
        after = [row.reported.get(name, math.nan) for row in run.rows]
        if not (SCORES.search(name) or name == "metric") or not all(0 <= value <= 1 for value in (before, *after)):
            continue
        chance = 2 * math.sqrt(before * (1 - before) / count)
        if max(after) <= before and after[-1] < before - AWAY - chance:
            text = f"'{name}' is {before:.3g} before training and {after[-1]:.3g} after it, while the loss falls"
            look = "Does the loss pull together what the score wants together? Look at a few targets beside the loss."
            return _symptom("training leads away from what is scored", text, swaps, look, "loss")
    return None


def too_short(evidence: Evidence, swaps: Swaps | None) -> Finding | None:
    """What helps is merely faster: with much more time the program as it is does as well."""
    if swaps is None or swaps.patient is None:
        return None
    times, reached = swaps.patient
    if swaps.errors[0] - reached < max(FAR, 0.5 * swaps.errors[0]):
        return None
    finding = _symptom(
        "the run ends long before what it could learn is learnt",
        f"error {swaps.errors[0]:.2f}, after {times:.0f} times the epochs {reached:.2f}",
        swaps,
        "Train longer, then look at the rate and its schedule.",
        "schedule",
    )
    return replace(finding, fault="H04")


SYMPTOMS: tuple[Callable[[Evidence, Swaps | None], Finding | None], ...] = (
    easier_than_its_own,
    easier_than_test,
    one_column,
    worse_than_untrained,
    by_chance,
    too_short,
    far_from_the_best,
    nothing_learnt,
)


def located(finding: Finding, swaps: Swaps | None) -> Finding:
    """A symptom without a part gets the only one that differs from its reference and was never replaced."""
    if not finding.symptom or finding.part or swaps is None:
        return finding
    tried = {trial.part for trial in swaps.trials}
    suspects = [difference for difference in swaps.differences if difference.part not in tried]
    if len({difference.part for difference in suspects}) != 1:
        return finding
    differs = f"{finding.evidence}; what differs from a plain program: {'; '.join(map(str, suspects))}"
    return replace(finding, evidence=differs, where=suspects[0].part)
