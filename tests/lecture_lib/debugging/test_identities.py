"""Identities that were found on programs by others: each accuses the fault, and no sound program that resembles it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from outsiders.fresh import all_pairs
from outsiders.sound import all_sound
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.debugging import Program, Spec, climb

LENGTH = 16
QUICK = ("01_poisson_exposure", "06_two_towers", "09_lbfgs_closure", "13_known_label_noise", "14_balanced_sampler")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("d/04_count_plateau", "schedule"),
        ("d/06_cox_survival", "loss"),
        ("d/08_diabetes_r2", "metric"),
        ("d/10_causal_tcn", "layers"),
        ("d/13_segmentation_flips", "inputs"),
        ("d/14_tags_vocabulary", "inputs"),
        ("e/15_teacher_forcing", "inputs"),
        ("f/13_forecast_future", "layers"),
        ("f/16_friends_both_ways", "split"),
        ("j/04_window_holds_target", "labels"),
        ("j/06_accuracy_over_padding", "metric"),
        ("j/14_sigmoid_on_standardised", "layers"),
        ("k/04_tiny_language_model", "loss"),
        ("n/02_syllables", "layers"),
        ("n/08_ring", "step"),
        ("p/12_spoken_commands", "layers"),
    ],
)
@pytest.mark.parametrize("which", ["make", pytest.param("twin", marks=pytest.mark.full)])
def test_a_fault_that_its_author_wrote_without_knowing_the_rules(name: str, part: str, which: str) -> None:
    pair = next(pair for pair in all_pairs() if pair.name == name)
    found = climb(*getattr(pair, which)(0), budget=0).findings
    assert [one.part for one in found] == ([] if which == "twin" else [part]), found


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in all_sound()]
)
def test_nothing_certain_is_said_of_sound_programs_that_look_suspicious(name: str) -> None:
    """When they were first climbed, three had an alarm, and one of these was called certain."""
    assert [one for one in climb(*all_sound()[name](0), budget=0).findings if one.certain] == []


class Decoder(nn.Module):
    """Gives the next id after those that it is given, and shifts them itself, if it is to."""

    def __init__(self, shifts: bool) -> None:
        super().__init__()
        self.shifts, self.embedding = shifts, nn.Embedding(13, 16)
        self.gru, self.head = nn.GRU(16, 32, batch_first=True), nn.Linear(32, 12)

    def forward(self, source: Tensor, given: Tensor) -> Tensor:
        if self.shifts:
            given = torch.cat([torch.full_like(given[:, :1], 12), given[:, :-1]], dim=1)
        state = self.embedding(source).mean(dim=1).repeat(1, 2)[None]
        return self.head(self.gru(self.embedding(given), state)[0])


@pytest.mark.parametrize("shifts", [True, False])
def test_a_decoder_may_be_given_the_targets_if_it_shifts_them(shifts: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 12, (300, 8), generator=generator)
    torch.manual_seed(0)
    model = Decoder(shifts)
    program = Program(
        model,
        torch.optim.Adam(model.parameters(), 5e-3),
        lambda outputs, targets: F.cross_entropy(outputs.flatten(0, 1), targets.flatten()),
        DataLoader(TensorDataset(x[:200], x[:200].flip(1)), 20, shuffle=True),
        DataLoader(TensorDataset(x[200:], x[200:].flip(1)), 50),
        unpack=lambda batch: ((batch[0], batch[1]), batch[1]),
        forward=lambda model, inputs: model(*inputs),
    )
    assert parts_of(program, Spec("sequence", classes=12, epochs=3)) == (set() if shifts else {"inputs"})


def parts_of(program: Program, spec: Spec) -> set[str]:
    """What `climb` accuses without comparing runs."""
    return {one.part for one in climb(program, spec, budget=0, go_on=True).findings}


class Filter(nn.Module):
    """A convolution over the last axis of [N, C, T], padded at its front, at its end, or at both."""

    def __init__(self, channels: int, front: int, end: int) -> None:
        super().__init__()
        self.padding = (front, end)
        self.first, self.second = nn.Conv1d(channels, 24, 3), nn.Conv1d(24, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(F.pad(x, self.padding))))


def signals(channels: int, front: int, end: int) -> tuple[Program, Spec]:
    """Each channel is followed by the one step before; there are as many channels as steps, or fewer."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, channels, LENGTH, generator=generator)
    y = F.pad(x, (1, 0))[..., :-1].roll(1, 1)
    torch.manual_seed(0)
    model = Filter(channels, front, end)
    train, val = TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], y[300:])
    loaders = DataLoader(train, 20, shuffle=True), DataLoader(val, 50)
    program = Program(model, torch.optim.Adam(model.parameters(), 5e-3), nn.MSELoss(), *loaders)
    return program, Spec("regression", epochs=3, causal=True)


@pytest.mark.parametrize("channels", [4, LENGTH])
@pytest.mark.parametrize(("front", "end", "accused"), [(2, 0, False), (1, 1, True), (0, 2, True)])
def test_positions_on_the_last_axis_may_see_only_what_is_before(
    channels: int, front: int, end: int, accused: bool
) -> None:
    """Channels are no positions: that a later channel changes an earlier one accuses nobody."""
    assert ("layers" in parts_of(*signals(channels, front, end))) == accused


class Readings(nn.Module):
    """A GRU over [N, T, features], one way or both, with a class for each step: not as many as there are features."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.gru = nn.GRU(5, 16, batch_first=True, bidirectional=both)
        self.head = nn.Linear(32 if both else 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gru(x)[0])


@pytest.mark.parametrize("both", [True, False])
def test_the_labels_say_which_axis_holds_the_positions(both: bool) -> None:
    x = torch.randn(300, LENGTH, 5, generator=torch.Generator().manual_seed(0))
    y = (x[..., 0].cumsum(dim=1).sign() + 1).long()
    torch.manual_seed(0)
    model = Readings(both)
    program = Program(
        model,
        torch.optim.Adam(model.parameters(), 5e-3),
        lambda outputs, targets: F.cross_entropy(outputs.flatten(0, 1), targets.flatten()),
        DataLoader(TensorDataset(x[:200], y[:200]), 20, shuffle=True),
        DataLoader(TensorDataset(x[200:], y[200:]), 50),
    )
    assert ("layers" in parts_of(program, Spec("sequence", classes=3, epochs=3, causal=True))) == both


class Words(nn.Module):
    """A GRU over ids, one way or both."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.embedding, self.gru = nn.Embedding(12, 16), nn.GRU(16, 16, batch_first=True, bidirectional=both)
        self.head = nn.Linear(32 if both else 16, 12)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.gru(self.embedding(ids))[0])


@pytest.mark.parametrize(("both", "ahead", "accused"), [(True, True, True), (False, True, False), (True, False, False)])
def test_who_predicts_the_next_input_may_not_read_it_even_undeclared(both: bool, ahead: bool, accused: bool) -> None:
    """Where targets are the inputs themselves, as tags are, reading both ways is sound."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randint(1, 4, (300, LENGTH + 1), generator=generator)
    text = steps.cumsum(dim=1) % 12
    x, y = text[:, :-1], text[:, 1:] if ahead else (text[:, :-1] * 5 + 1) % 12
    torch.manual_seed(0)
    model = Words(both)
    loaders = (
        DataLoader(TensorDataset(x[:200], y[:200]), 20, shuffle=True),
        DataLoader(TensorDataset(x[200:], y[200:]), 50),
    )
    program = Program(
        model,
        torch.optim.Adam(model.parameters(), 5e-3),
        lambda outputs, targets: F.cross_entropy(outputs.flatten(0, 1), targets.flatten()),
        *loaders,
    )
    assert ("layers" in parts_of(program, Spec("sequence", classes=12, epochs=3))) == accused


class Drawn(Dataset[tuple[Tensor, Tensor]]):
    """Images and masks; what turns each is drawn anew each time."""

    def __init__(self, images: Tensor, masks: Tensor, turn: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        self.images, self.masks, self.turn = images, masks, turn

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.turn(self.images[index], self.masks[index])


def coin() -> bool:
    return bool(torch.rand(()) < 0.5)


def together(image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """A quarter turn of both, or none."""
    return (image.rot90(1, (-2, -1)), mask.rot90(1, (-2, -1))) if coin() else (image, mask)


def image_alone(image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    return (image.flip(-2), mask) if coin() else (image, mask)


def two_people(image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The second one draws everything a little smaller."""
    return image, (F.max_pool2d(-mask[None].float(), 3, 1, 1)[0] == -1).long() if coin() else mask


@pytest.mark.parametrize(("turn", "accused"), [(together, False), (image_alone, True), (two_people, False)])
def test_only_masks_that_are_turned_otherwise_than_their_images_are_a_fault(turn: Any, accused: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(200, 12, 12, generator=generator)
    masks = torch.zeros(200, 12, 12, dtype=torch.long)
    for number, (row, column) in enumerate(torch.randint(0, 7, (200, 2), generator=generator).tolist()):
        masks[number, row : row + 5, column : column + 5] = 1
    images = (images + masks)[:, None]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1))
    train = DataLoader(Drawn(images[:150], masks[:150], turn), 10, shuffle=True)
    val = DataLoader(TensorDataset(images[150:], masks[150:]), 25)
    program = Program(model, torch.optim.Adam(model.parameters(), 5e-3), F.cross_entropy, train, val)
    said = climb(program, Spec("segmentation", epochs=2), budget=0, go_on=True).findings
    assert bool([one for one in said if "drawn twice" in one.evidence]) == accused, said


def neighbours(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs of one batch form a curve, which is to be smooth."""
    return F.mse_loss(outputs, targets) + (outputs[1:] - outputs[:-1]).square().mean()


def halves(outputs: Tensor, targets: Tensor) -> Tensor:
    """The second half of a batch holds the first half's partners."""
    first, second = outputs.chunk(2)
    return F.mse_loss(outputs, targets) + (first - second).square().mean()


def weighted_by_place(outputs: Tensor, targets: Tensor) -> Tensor:
    return (torch.linspace(0.1, 2, len(outputs))[:, None] * (outputs - targets).square()).mean()


@pytest.mark.parametrize(
    ("loss_fn", "shuffle", "accused"),
    [
        (neighbours, True, False),
        (halves, True, False),
        (weighted_by_place, True, True),
        (weighted_by_place, False, False),  # a batch in order, as of time, may weigh the later ones more
    ],
)
def test_a_loss_may_not_depend_on_the_order_of_examples_that_are_shuffled(
    loss_fn: Any, shuffle: bool, accused: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(480, 4, generator=generator)
    y = x[:, :1] * x[:, 1:2] + x[:, 2:3]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    loaders = (
        DataLoader(TensorDataset(x[:360], y[:360]), 24, shuffle=shuffle),
        DataLoader(TensorDataset(x[360:], y[360:]), 24),
    )
    program = Program(model, torch.optim.Adam(model.parameters(), 5e-3), loss_fn, *loaders)
    said = climb(program, Spec("regression", epochs=3, couples_samples=True), budget=0, go_on=True).findings
    assert bool([one for one in said if "in another order" in one.evidence]) == accused, said


@pytest.mark.parametrize(
    ("mode", "given", "accused"),
    [
        ("min", "loss", False),
        pytest.param("max", "loss", True, marks=pytest.mark.full),
        pytest.param("max", "metric", False, marks=pytest.mark.full),
        ("min", "metric", True),
    ],
)
def test_a_plateau_is_waited_for_in_the_direction_of_what_is_given(mode: Any, given: str, accused: bool) -> None:
    pair = next(pair for pair in all_pairs() if pair.name == "a/15_plateau_of_accuracy")
    program, spec = pair.twin(0)
    program.scheduler = ReduceLROnPlateau(program.optimizers[0], mode=mode)

    def epoch(program: Program) -> None:
        program.model.train()
        for batch in program.train_loader or ():
            program.run_step(batch)
        program.scheduler.step(program.run_evaluation()[given])

    program.train_epoch = epoch
    assert ("schedule" in parts_of(program, replace(spec, epochs=4))) == accused
