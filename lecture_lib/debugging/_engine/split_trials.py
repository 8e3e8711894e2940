"""Training's examples in the place of validation's, and the other way round: which of them can be learnt."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from torch.utils.data import DataLoader

from ...training._run.structures import tensors_of
from .batches import alike, cut, first_rows, halves, has_stored_examples, learning_from, length, read_batches
from .inspection import fingerprints
from .instrumentation import why_not
from .read_examples import drawn_anew
from .runs import Runs
from .swap_results import VALIDATIONS, Trial
from .windows import continued

SEEDS = 3
RESERVED = 3  # runs for which time is kept, to try what helped with other seeds
FEWEST = 60  # examples of each split, to compare them
TOLD = 0.3  # of the error must go when one split's examples stand in for the other's
APART = 0.7  # share of examples of which a forest knows whether they are training's or validation's
FADED, MOST_KINDS = 0.25, 20  # correlation that a column loses from training to validation; classes at most
ELSEWHERE = 0.3  # gap between the shares of the two splits' targets below some number
OWN = "training's own examples to be judged by"
MOSTLY, ROWS = 0.5, 10_000  # of the examples, of so many
MOSTLY_DIFFERENT = 0.9  # as many different inputs, as a share of all
EASIER = 0.08  # error by which validation must be easier than training's own examples to be asked again


Table = torch.Tensor | None
"""Examples in rows; None where they do not fit into one table."""


class SplitTrials(Runs):
    """Runs in which one split stands in for the other."""

    def data(self) -> list[Trial]:
        """Training's examples against validation's: which of the two can be learnt, and whether they agree."""
        if self.spec.shift_expected:
            return []  # each split is answered better by what learns from it, on purpose
        with self.fresh(0) as (program, _):
            # As they are stored: learning from images that are changed at random is harder, and no fault.
            plain = program.plain_loader
            changed = plain is None and drawn_anew(program.train_loader, program)
            train = read_batches(program.train_loader if plain is None else plain)
            val = read_batches(program.val_loader)
            x, y = ([[program.parts(batch)[place] for batch in split] for split in (train, val)] for place in (0, 1))
            tables = [_flat(split) for split in x]
            apart = _told_apart(*tables) or _fades(tables, y)
            elsewhere = shifted(*y)
        counts = [sum(map(length, batches)) for batches in (train, val)]
        if min(counts) < FEWEST:
            return []
        # What tells the two splits apart is where they disagree: inputs, or what one of them says of the target, the
        # range of the targets, or else the labels.
        part = "inputs" if apart else "split" if elsewhere else "labels"
        # As in training, but several batches even where validation is small.
        size = min(length(train[0]), max(counts[1] // 8, 1))
        trials = []
        # Copies of an example, members of a group or windows that overlap would be on both sides of what is held out.
        sources = [(VALIDATIONS, val)] if not (changed or _overlap(x[1])) and self.spec.val_groups is None else []
        if tables[0] is None or len(set(fingerprints(tables[0]))) > MOSTLY_DIFFERENT * counts[0]:
            sources += [(OWN, train)] if not _overlap(x[0]) and self.spec.train_groups is None else []
        for description, source in sources:
            if self.left < (RESERVED + 4) * self.length * self.took:
                self.unaffordable.append((part, description))
                continue
            errors, without = [], []
            try:
                for number in range(SEEDS):
                    learning, held_out = halves(source, self.seed + number)
                    if source is train:
                        learning, held_out = first_rows(learning, counts[1]), first_rows(held_out, counts[1])
                        usual, judges = learning, val
                    else:
                        usual, judges = alike(train, learning, lambda batch: program.parts(batch)[1]), held_out
                    # Fewer examples need more epochs for as many steps; three times the epochs at most.
                    many = min(counts[0] / max(sum(map(length, learning)), 1), 3.0) * self.length
                    errors.append(self.error(number, learning_from(cut(learning, size)), epochs=many, judges=held_out))
                    without.append(self.error(number, learning_from(cut(usual, size)), epochs=many, judges=judges))
                    # Training's own examples may be harder to answer than validation's: a symptom, which needs a
                    # second seed.
                    easier = source is train and errors[0] > without[0] + EASIER
                    if errors[-1] > (1 - TOLD) * without[-1] and not (easier and number == 0):
                        break
            except Exception as problem:
                self.failed.append(f"{part}, {description}: {why_not(problem)}")
                continue
            trial = Trial(part, description, False, tuple(errors), tuple(without))
            split = "val_loader" if source is val else "train_loader"
            if clearest([trial]) and self._neighbours_help(split, size, trial, many):
                self.failed.append(f"{part}, {description}: what helps is their neighbours in the stored order")
            else:
                trials.append(trial)
        return trials

    def _neighbours_help(self, split: str, size: int, trial: Trial, epochs: float) -> bool:
        """Whether more than half of the gain is gone when a split's first half, as stored, is to teach its second.

        Windows of a series, or examples of one person, lie side by side: by chance each has a neighbour in the other
        half. Where the two halves have other labels, as in a sorted file, nothing follows.
        """
        with self.fresh(0) as (program, _):
            batches = cut(read_batches(as_stored(getattr(program, split))), size)
            first, second = batches[: len(batches) // 2], batches[len(batches) // 2 :]
            labels = [[program.parts(batch)[1] for batch in half] for half in (first, second)]
        if shifted(*labels) or _other_classes(*labels):
            return False
        error = self.error(0, learning_from(first), epochs=epochs, judges=second)
        return error > (fmean(trial.errors) + fmean(trial.without)) / 2


def as_stored(loader: Any) -> Any:
    """A loader that gives the same examples in the order in which they are stored, where there is one."""
    stored = has_stored_examples(loader)
    return DataLoader(loader.dataset, loader.batch_size, collate_fn=loader.collate_fn) if stored else loader


def clearest(data: Sequence[Trial]) -> Trial | None:
    """What the splits' examples in each other's place say by themselves."""
    clear = [
        trial for trial in data if len(trial.gains) > 2 and min(trial.gains) >= max(0.15, TOLD * fmean(trial.without))
    ]
    return max(clear, key=lambda trial: trial.gain, default=None)


def shifted(train: Sequence[Any], val: Sequence[Any]) -> bool:
    """Whether numbers to be predicted lie elsewhere in one of the two splits: the largest gap between their shares."""
    if not all(isinstance(y, torch.Tensor) and y.is_floating_point() for y in (*train, *val)):
        return False
    a, b = (torch.cat([targets.double().flatten().cpu() for targets in split]).sort().values for split in (train, val))
    values = torch.cat([a, b]).sort().values
    below = [torch.searchsorted(ordered, values, right=True) / len(ordered) for ordered in (a, b)]
    return float((below[0] - below[1]).abs().max()) > ELSEWHERE


def _other_classes(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether the second has classes that the first does not have."""
    if not all(isinstance(y, torch.Tensor) and not y.is_floating_point() for y in (*first, *second)):
        return False
    a, b = (set(torch.cat([labels.flatten() for labels in split]).tolist()) for split in (first, second))
    return not b <= a


def _fades(inputs: Sequence[Table], targets: Sequence[Sequence[Any]]) -> bool:
    """Whether one column of inputs says much more of the target in training than in validation, and no other does."""
    correlations = []
    for columns, batches in zip(inputs, targets, strict=True):
        single = all(isinstance(y, torch.Tensor) and y.ndim and y.numel() == len(y) for y in batches)
        if columns is None or columns.shape[1] < 2 or not single:
            return False
        wanted = torch.cat([y.reshape(-1, 1).double().cpu() for y in batches])
        kinds = wanted[:, 0].unique()
        numbers = (wanted == kinds).double() if 2 < len(kinds) <= MOST_KINDS else wanted
        products = _standardised(columns).T @ _standardised(numbers) / len(columns)
        correlations.append(products.abs().amax(dim=1))
    if correlations[0].shape != correlations[1].shape:
        return False
    fall = correlations[0] - correlations[1]
    most = int(fall.argmax())
    others = torch.arange(len(fall)) != most
    return bool(fall[most] > FADED) and bool(fall[others].mean() < fall[most] / 4)


def _standardised(table: torch.Tensor) -> torch.Tensor:
    centred = table - table.mean(dim=0)
    return centred / centred.square().mean(dim=0).sqrt().clamp(min=1e-12)


def _overlap(batches: Sequence[Any]) -> bool:
    """Whether examples are windows of a series that mostly go on in one another."""
    if not all(isinstance(x, torch.Tensor) and x.shape[1:] == batches[0].shape[1:] for x in batches):
        return False
    rows = torch.cat([x.cpu() for x in batches])[:ROWS]
    return continued(rows[: ROWS // 10], rows) > MOSTLY


def _flat(batches: Sequence[Any]) -> Table:
    """Batches as one table; None where they have other widths."""
    rows = [torch.cat([leaf.reshape(len(leaf), -1) for leaf in tensors_of(batch)], dim=1) for batch in batches]
    return torch.cat(rows).double().nan_to_num().cpu() if len({row.shape[1] for row in rows}) == 1 else None


def _told_apart(train: Table, val: Table) -> bool:
    """Whether inputs alone say which of the two splits an example is from."""
    from sklearn.ensemble import RandomForestClassifier

    if train is None or val is None or train.shape[1] != val.shape[1]:
        return False
    tables = [train, val]
    count, generator = min(*map(len, tables), 600), torch.Generator().manual_seed(0)
    x = torch.cat([table[torch.randperm(len(table), generator=generator)[:count]] for table in tables]).numpy()
    y = [0] * count + [1] * count
    forest = RandomForestClassifier(60, min_samples_leaf=3, oob_score=True, random_state=0).fit(x, y)
    return bool(forest.oob_score_ > APART)
