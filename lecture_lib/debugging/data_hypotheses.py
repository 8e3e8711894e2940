"""Rungs 1, 2 and 4, by comparison: what simple learners, and training on other versions of the data, say of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from .comparing import confirmed, trials
from .events import Batch, LossCall
from .evidence import Evidence
from .finding import Finding
from .loss_rules import sample
from .probes import chance, learner, score, table, without_own
from .program import Program
from .untouched import untouched
from .watching import fingerprints

NEAR = 0.97  # score of one column alone that gives the target away
SATISFIED = 0.9  # score of a constant answer that makes a metric worthless


def not_together(evidence: Evidence) -> Finding | None:
    """D09: labels fit the inputs of training no better than chance, and those of validation, or of a neighbour, do."""
    plain, val, program = evidence.plain, evidence.val, evidence.program
    if plain is None or val is None or len(val.y) < 60 or program.loss_fn is None or not evidence.run.rows:
        return None
    best = min(row.val_loss for row in evidence.run.rows if not math.isnan(row.val_loss))
    if best < 0.85 * evidence.constant_loss:
        return None
    train = table(evidence, plain)
    if train is not None:
        spread = math.sqrt(max(chance(train) * (1 - chance(train)), 0.05) / len(train.y))
        if score(train, without_own(train)) > chance(train) + 4 * spread:
            return None
    shifted = _neighbouring(evidence)
    if shifted:
        return Finding("D09", shifted, certain=False)
    half = len(val.y) // 2
    with untouched(program, evidence.seed):
        generator = torch.Generator().manual_seed(evidence.seed)
        data = TensorDataset(val.x[:half], val.y[:half])
        program.train_loader = DataLoader(data, min(plain.batch_size, 32), shuffle=True, generator=generator)
        try:
            for _ in range(max(10, 2 * trials(evidence).epochs)):
                program.run_epoch()
            other = evidence.measure(val.part(slice(half, None)))
        except Exception:
            return None
    if not other[0] < 0.85 * evidence.constant_loss:
        return None
    return Finding(
        "D09",
        f"trained on training pairs the program has a validation loss of {best:.3g} (a constant "
        f"{evidence.constant_loss:.3g}), trained on half of the validation pairs {other[0]:.3g} on the other half",
        {"training": best, "validation": other[0]},
        certain=False,
    )


def _neighbouring(evidence: Evidence) -> str:
    """Whether the labels fit the inputs of the row before or after, in the data set's order."""
    data = getattr(evidence.program.train_loader, "dataset", None)
    tensors = getattr(data, "tensors", None)
    if tensors is None or len(tensors) != 2:
        return ""
    from .evidence import Examples

    x, y = tensors
    for step in (-1, 1):
        moved = table(evidence, Examples(x, y.roll(step, 0), 1))
        if moved is not None and score(moved, without_own(moved)) > chance(moved) + 0.15:
            return f"labels fit the inputs {abs(step)} row {'before' if step > 0 else 'after'} them, not their own"
    return ""


def noisy_labels(evidence: Evidence) -> Finding | None:
    """D10: held-out training labels are far harder to name than validation labels, for the program itself."""
    plain, val, program = evidence.plain, evidence.val, evidence.program
    if plain is None or val is None or program.loss_fn is None or evidence.spec.shift_expected or not _hint(evidence):
        return None
    gaps = []
    for half in (0, 1):
        with untouched(program, evidence.seed + half):
            seen, kept = plain.part(slice(half, None, 2)), plain.part(slice(1 - half, None, 2))
            generator = torch.Generator().manual_seed(evidence.seed)
            data = TensorDataset(seen.x, seen.y)
            program.train_loader = DataLoader(data, plain.batch_size, shuffle=True, generator=generator)
            try:
                losses = []
                for _ in range(trials(evidence).epochs):
                    program.run_epoch()
                    losses.append((evidence.measure(kept)[0], evidence.measure(val)[0]))
            except Exception:
                return None
            own, other = min(losses, key=lambda both: both[0])  # before it learns them by heart
            gaps.append((own - other) / evidence.constant_loss)
    if min(gaps) < 0.1:
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


def gives_target_away(evidence: Evidence) -> Finding | None:
    """D21: one column alone names the target."""
    train, val = table(evidence, evidence.plain), table(evidence, evidence.val)
    if train is None or val is None or chance(val) > SATISFIED:
        return None
    if evidence.spec.task == "sequence":
        return _word_gives_tag_away(evidence)
    if not 3 <= train.x.shape[1] <= 1200:
        return None
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.tree import DecisionTreeClassifier

    scores = {}
    for number in np.flatnonzero(train.x.std(axis=0) > 0):
        one = (
            DecisionTreeClassifier(max_leaf_nodes=4 * len(np.unique(train.y)), random_state=0)
            if train.classes
            else KNeighborsRegressor(5)
        )
        one.fit(train.x[:600, [number]], train.y[:600])
        found = score(val, one.predict(val.x[:, [number]]))
        if train.classes and found > 0.6:  # a number that counts through the classes
            nearest = KNeighborsClassifier(3).fit(train.x[:, [number]], train.y)
            found = max(found, score(val, nearest.predict(val.x[:, [number]])))
        scores[int(number)] = found
    column = max(scores, key=scores.__getitem__)
    best = scores[column]
    # In an easy task many columns say much; one that gives the target away, or copies of it, stands alone.
    alike = np.abs(np.corrcoef(train.x[:, list(scores)].T)[list(scores).index(column)])
    others = [found for found, like in zip(scores.values(), alike, strict=True) if like < 0.9]
    if best < NEAR or max(others, default=0.0) > best - 0.15:
        return None
    return Finding("D21", f"column {column} alone scores {best:.2f} in validation", {"column": column, "score": best})


def _word_gives_tag_away(evidence: Evidence) -> Finding | None:
    train, val = evidence.train, evidence.val
    assert train is not None
    assert val is not None
    best: dict[int, int] = {}
    for word in train.x.unique().tolist():
        tags = train.y[(train.x == word) & (train.y >= 0)]
        if len(tags):
            best[word] = int(tags.mode().values)
    kept = val.y >= 0
    words, wanted = val.x[kept].tolist(), val.y[kept].tolist()
    right = float(np.mean([best.get(word) == tag for word, tag in zip(words, wanted, strict=True)]))
    several = len(set(wanted)) > 1
    if right < 0.995 or not several:
        return None
    return Finding("D21", f"the id of a word alone names {right:.1%} of its labels", {"score": right})


def constant_answers(evidence: Evidence) -> list[Tensor]:
    """Outputs for validation that do not depend on the inputs."""
    outputs, val = evidence.run.outputs[1], evidence.val
    if outputs is None or val is None:
        return []
    task, y = evidence.spec.task, val.y
    if task == "regression" and y.is_floating_point():
        train = evidence.train.y if evidence.train is not None else y
        return [torch.zeros_like(outputs) + train.double().mean(dim=0).to(outputs).reshape(1, *outputs.shape[1:])]
    if y.is_floating_point() or outputs.ndim != y.ndim + 1:
        signs = [torch.full_like(outputs, value) for value in (-8.0, 8.0)]
        return [one.sigmoid() if float(outputs.min()) >= 0 and float(outputs.max()) <= 1 else one for one in signs]
    shares = torch.bincount(y[y >= 0].flatten(), minlength=outputs.shape[1])[: outputs.shape[1]].double()
    scores = (shares / shares.sum()).clamp(min=1e-6).to(outputs)
    return [scores.reshape(1, -1, *[1] * (outputs.ndim - 2)).expand_as(outputs)]


def worthless_metric(evidence: Evidence) -> Finding | None:
    """D16, E03: a constant answer scores near the top."""
    program, val, outputs = evidence.program, evidence.val, evidence.run.outputs[1]
    if program.metric is None or val is None or outputs is None:
        return None
    scores = [float(program.metric(one, val.y)) for one in constant_answers(evidence)]
    best = max((one for one in scores if math.isfinite(one)), default=0.0)
    if best < SATISFIED:
        return None
    model = float(program.metric(outputs, val.y))
    named = outputs.argmax(dim=1) if outputs.ndim > 1 and outputs.shape[1] > 1 else outputs.flatten() > 0
    only_one = len(named.unique()) == 1 or model < best
    fault = "D16" if evidence.spec.task == "classification" and only_one else "E03"
    return Finding(
        fault, f"one answer for all scores {best:.3f}, the model {model:.3f}", {"constant": best, "model": model}
    )


def targets_unscaled(evidence: Evidence) -> Finding | None:
    """D36: targets far from 0 and 1; standardised ones are learnt better."""
    train = evidence.train
    if evidence.spec.task != "regression" or train is None or not train.y.is_floating_point():
        return None
    mean, deviation = train.y.double().mean(dim=0), train.y.double().std(dim=0).clamp(min=1e-12)
    size = float((mean**2 + deviation**2).sqrt().max())
    uneven = max(float((mean / deviation).abs().max()), float(deviation.max() / deviation.min()))
    if 1 / 30 < size < 30 and uneven < 30:
        return None
    outputs = evidence.run.outputs[0]
    y = train.y[: len(outputs)] if outputs is not None else train.y
    before = float("inf") if outputs is None else _unexplained(outputs, y)
    after = []
    for seed in range(3):
        with untouched(evidence.program, evidence.seed + seed) as program:
            program.train_loader = _Standardised(program.train_loader, mean, deviation)
            for _ in range(trials(evidence).epochs):
                program.run_epoch()
            found = evidence.measure(train.part(slice(0, 1000)))[2]
        scaled = (train.y[:1000].double() - mean) / deviation
        after.append(_unexplained(found, scaled) if found is not None else math.inf)
    if not min(before, 2.0) - max(after) > 0.1:
        return None
    return Finding(
        "D36",
        f"targets have mean {float(mean.abs().max()):.3g} and deviation {float(deviation.max()):.3g}; unexplained is "
        f"{before:.2g} of their variance, with standardised targets {max(after):.2g} at most",
        {"before": before, "after": after},
        certain=False,
    )


def _unexplained(outputs: Tensor, y: Tensor) -> float:
    y = y.double().reshape(outputs.shape)
    ratio = ((outputs.double() - y) ** 2).mean(dim=0) / y.var(dim=0, unbiased=False).clamp(min=1e-30)
    return float(ratio.max()) if bool(ratio.isfinite().all()) else math.inf


class _Standardised:
    """A loader whose targets are standardised."""

    def __init__(self, loader: Any, mean: Tensor, deviation: Tensor) -> None:
        self._loader, self._mean, self._deviation = loader, mean, deviation

    def __iter__(self) -> Iterator[Any]:
        for x, y, *rest in self._loader:
            yield x, ((y.double() - self._mean) / self._deviation).to(y), *rest

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def augmentation_harms(evidence: Evidence) -> Finding | None:
    """D28: without augmentation, in the loader or in the step, the program validates better."""
    program, recording = evidence.program, evidence.run.recording
    if evidence.val is None or program.loss_fn is None or evidence.plain is None:
        return None
    data = evidence.plain
    known = {row for batch in recording.of(Batch) for row in batch.rows}
    fed = {row for one in recording.fed[True] if one.ndim for row in fingerprints(one)}
    in_step = bool(fed) and not fed & known and program.forward is None
    if program.plain_loader is None and not in_step:
        return None

    @contextmanager
    def plain(program: Program) -> Iterator[None]:
        generator = torch.Generator().manual_seed(int(torch.randint(2**31, ())))
        dataset = TensorDataset(data.x, data.y)
        program.train_loader = DataLoader(dataset, data.batch_size, shuffle=True, generator=generator)
        if in_step:
            program.train_epoch = program.step = None
        yield

    return confirmed(evidence, "D28", "trained without augmentation", plain, validation=True)


def weighted_wrongly(evidence: Evidence) -> Finding | None:
    """D35: weights and sampling together leave the classes more unequal than they are, or turned round."""
    train, val = evidence.train, evidence.val
    calls = [one for one in evidence.run.recording.of(LossCall) if isinstance(one.options.get("weight"), Tensor)]
    if train is None or val is None or evidence.spec.task != "classification" or train.y.is_floating_point():
        return None
    sampled = hasattr(getattr(evidence.program.train_loader, "sampler", None), "weights")
    weight = calls[0].options["weight"].double() if calls else None
    pair = sample(evidence)
    if not calls and pair is not None:
        weight = _weights_by_gradient(evidence, *pair)
    if weight is None and not sampled:
        return None
    stored = getattr(getattr(evidence.program.train_loader, "dataset", None), "tensors", (None, train.y))[1]
    classes = int(max(stored.max(), train.y.max())) + 1
    prior = torch.bincount(stored.long().flatten(), minlength=classes).double()
    seen = torch.bincount(train.y.long().flatten(), minlength=classes).double()
    if weight is None or len(weight) < classes:
        weight = torch.ones(classes, dtype=torch.double)
    present = prior > 0
    given = (seen * weight[:classes])[present]
    given, prior = given / given.sum(), prior[present] / prior.sum()
    unequal, was = float(given.max() / given.min().clamp(min=1e-6)), float(prior.max() / prior.min())
    turned = float(np.corrcoef(given.log().numpy(), prior.log().numpy())[0, 1]) < -0.3 and unequal > 2.0
    if not (unequal > 1.5 * was or (turned and was > 1.5)):
        return None
    low, high = int(given.argmin()), int(given.argmax())
    return Finding(
        "D35",
        f"the loss counts class {high} {unequal:.1f} times as much as class {low}; in the data the most frequent class "
        f"is {was:.1f} times as frequent as the rarest",
        {"unequal": unequal, "was": was},
    )


def _weights_by_gradient(evidence: Evidence, outputs: Tensor, targets: Tensor) -> Tensor | None:
    """How much the loss weights an example of each class, from its gradient at equal scores."""
    if outputs.ndim != 2 or targets.ndim != 1:
        return None
    scores = torch.zeros_like(outputs).requires_grad_()
    gradient = torch.autograd.grad(evidence.own_loss(scores, targets), scores)[0].abs().sum(dim=1)
    found = torch.zeros(outputs.shape[1], dtype=torch.double)
    for label in range(outputs.shape[1]):
        if bool((targets == label).any()):
            found[label] = float(gradient[targets == label].mean())
    if not bool((found > 0).all()) or float(found.max() / found.min()) < 1.05:
        return None
    return found / found.mean()


def no_better_than_baseline(evidence: Evidence) -> Finding | None:
    """E01: a constant answer, or a linear model, does as well or clearly better."""
    train, val = table(evidence, evidence.plain), table(evidence, evidence.val)
    outputs = evidence.run.outputs[1]
    if train is None or val is None or outputs is None or evidence.val is None:
        return None
    if evidence.spec.task == "sequence":
        kept = evidence.val.y >= 0
        predicted = outputs.argmax(dim=1)[kept][: len(val.y)].numpy()
    elif train.classes:
        predicted = (
            outputs.argmax(dim=1) if outputs.ndim > 1 and outputs.shape[1] > 1 else outputs.flatten() > 0
        ).numpy()
    else:
        if outputs.shape != evidence.val.y.shape:
            return None
        predicted = outputs.flatten().double().numpy()
    if len(predicted) < len(val.y):
        return None
    predicted = predicted[: len(val.y)]
    model, dumb = score(val, predicted), chance(val)
    linear_says = learner(train, linear=True).fit(train.x, train.y).predict(val.x)
    linear = score(val, linear_says)
    if train.classes:
        only_model = int(((predicted == val.y) & (linear_says != val.y)).sum())
        only_linear = int(((predicted != val.y) & (linear_says == val.y)).sum())
        z = (only_linear - only_model) / math.sqrt(max(only_linear + only_model, 1))
        spread = math.sqrt(dumb * (1 - dumb) / len(val.y))
    else:
        errors = [(one - val.y) ** 2 / max(val.y.var(), 1e-12) for one in (predicted, linear_says)]
        difference = errors[0] - errors[1]
        z = float(difference.mean() / max(difference.std() / math.sqrt(len(val.y)), 1e-12))
        spread = 0.05
    if model < dumb + 2 * spread:
        return Finding("E01", f"the model scores {model:.2f}, one answer for all {dumb:.2f}", {"model": model}, False)
    if linear > model + 0.03 and z > 3:
        return Finding("E01", f"the model scores {model:.2f}, a linear one {linear:.2f}", {"linear": linear}, False)
    return None


def other_statistics(evidence: Evidence) -> Finding | None:
    """D04: what the model is fed has another level or scale than declared, or than it remembers."""
    fed = [one for one in evidence.run.recording.fed[True] if one.is_floating_point()]
    if not fed or fed[0].ndim < 2 or any(one.shape[1:] != fed[0].shape[1:] for one in fed):
        return None
    x = torch.cat(fed).double()
    over = [0] if x.ndim == 2 else [0, *range(2, x.ndim)]
    spec = evidence.spec
    if spec.input_mean is not None and spec.input_std is not None:
        a, b = x.mean(dim=over), x.std(dim=over)
        if len(spec.input_mean) == 1:
            a, b = x.mean(), x.std()
        off, ratio = a.abs().max(), b.log2().abs().max()
        if off > 0.75 or ratio > 1:
            return Finding(
                "D04",
                f"fed are channels of mean {_short(a)} and deviation {_short(b)}; standardised as declared they are "
                "near 0 and 1",
                {"off": float(off), "log2_ratio": float(ratio)},
            )
    return _remembered(evidence, x)


def _remembered(evidence: Evidence, x: Tensor) -> Finding | None:
    """The first batch normalisation of a pretrained model remembers what its inputs were like."""
    norms = [m for m in evidence.program.model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms or norms[0].running_mean is None or int(norms[0].num_batches_tracked or 0) < 10:
        return None
    seen: list[Tensor] = []
    handle = norms[0].register_forward_pre_hook(lambda module, args: seen.append(args[0].detach()))
    from .model_rules import outputs_of

    outputs_of(evidence, evidence.train.x[:256]) if evidence.train is not None else None
    handle.remove()
    if not seen:
        return None
    y = seen[0].double()
    over = [0, *range(2, y.ndim)]
    assert norms[0].running_var is not None
    deviation = norms[0].running_var.double().clamp(min=1e-12).sqrt()
    off = ((y.mean(dim=over) - norms[0].running_mean.double()) / deviation).abs().median()
    ratio = (y.std(dim=over) / deviation).clamp(min=1e-6).log2().abs().median()
    if off < 0.75 and ratio < 1.0:
        return None
    return Finding(
        "D04",
        f"before the first batch normalisation channels lie {off:.2g} deviations from what it remembers, with "
        f"{2 ** float(ratio):.2g} times its deviation",
        {"off": float(off)},
        certain=False,
    )


def _short(values: Tensor) -> str:
    return ", ".join(f"{one:.2g}" for one in values.flatten()[:4].tolist())
