"""Real training runs whose pattern is known from how they were set up: each pattern in two or more ways.

What is drawn from the seed: the task (digits, or a random network's classes or values), sizes, widths, activations,
batch sizes, optimizers, rates and epochs. No run is left out after it was trained.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.data import TensorLoader, load_digits
from lecture_lib.training import History, accuracy, train

Run = History | FloatingPointError
HELD = 500, 2000  # validation examples: real images, synthetic ones


@dataclass(frozen=True)
class Task:
    """Data to learn from and to validate on; labels are classes (int64) or values (float32 [N, 1])."""

    x: Tensor
    y: Tensor
    val_x: Tensor
    val_y: Tensor

    @property
    def classes(self) -> int:
        """How many; 0 when the labels are values."""
        return 0 if self.y.is_floating_point() else int(max(self.y.max(), self.val_y.max())) + 1

    def noisy(self, share: float, draw: random.Random) -> Task:
        """With that share of all labels, validation's too, replaced by random ones."""
        generator = torch.Generator().manual_seed(draw.randrange(2**31))

        def flipped(labels: Tensor) -> Tensor:
            other = torch.randint(self.classes, labels.shape, generator=generator)
            return torch.where(torch.rand(labels.shape, generator=generator) < share, other, labels)

        return replace(self, y=flipped(self.y), val_y=flipped(self.val_y))


@cache
def _digits() -> tuple[Tensor, Tensor]:
    digits = load_digits()
    return (digits.images.flatten(1) - 0.3) / 0.4, digits.labels


def digits(examples: int, draw: random.Random) -> Task:
    """Real images, at random."""
    x, y = _digits()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(draw.randrange(2**31)))
    chosen, held = order[:examples], order[-HELD[0] :]
    return Task(x[chosen], y[chosen], x[held], y[held])


def teacher(examples: int, draw: random.Random, *, classes: int = 0, inputs: int = 10, noise: float = 0.0) -> Task:
    """Labels that a random network gives to random inputs; values have variance 1 before the noise is added."""
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    x = torch.randn(examples + HELD[1], inputs, generator=generator)
    hidden = torch.tanh(x @ torch.randn(inputs, 12, generator=generator) * 1.5 / inputs**0.5)
    outputs = hidden @ torch.randn(12, max(classes, 1), generator=generator)
    outputs = (outputs - outputs.mean(0)) / outputs.std(0)
    noisy = outputs + noise * torch.randn(outputs.shape, generator=generator)
    y = noisy.argmax(1) if classes else noisy
    return Task(x[:examples], y[:examples], x[examples:], y[examples:])


def rings(examples: int, draw: random.Random) -> Task:
    """A disc inside a ring, off centre, so that a line tells some of it."""
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    x = torch.randn(examples + HELD[1], 2, generator=generator)
    y = ((x - torch.tensor([1.0, 0.0])).norm(dim=1) < 1.2).long()
    return Task(x[:examples], y[:examples], x[examples:], y[examples:])


def mlp(
    task: Task,
    width: int,
    depth: int,
    draw: random.Random,
    *,
    dropout: float = 0.0,
    activations: Sequence[type[nn.Module]] = (nn.ReLU, nn.Tanh),
) -> nn.Sequential:
    """Layers of one width; depth 0 is a linear model."""
    torch.manual_seed(draw.randrange(2**31))
    activation = draw.choice(activations)
    sizes = [task.x.shape[1], *[width] * depth]
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), activation(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], task.classes or 1))


class Blurred:
    """A loader whose inputs get fresh noise in each epoch: an augmentation that validation does not see."""

    def __init__(self, loader: TensorLoader, noise: float, seed: int) -> None:
        self.loader, self.noise = loader, noise
        self.noises = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in self.loader:
            yield x + self.noise * torch.randn(x.shape, generator=self.noises), y


def mean_error(outputs: Tensor, labels: Tensor) -> float:
    """The mean absolute error."""
    return F.l1_loss(outputs, labels).item()


def fit(
    task: Task,
    model: nn.Module,
    draw: random.Random,
    *,
    adam: float | None = None,
    sgd: float | None = None,
    momentum: float = 0.0,
    decay: float = 0.0,
    epochs: int,
    batch_size: int | None = None,
    noise: float = 0.0,
    growth: float = 1.0,
) -> Run:
    """Train with `train`; what a non-finite loss raises is returned."""
    size = batch_size or draw.choice([16, 32, 64])
    loader = TensorLoader(task.x, task.y, batch_size=size, shuffle=True, seed=draw.randrange(2**31))
    batches = Blurred(loader, noise, draw.randrange(2**31)) if noise else loader
    torch.manual_seed(draw.randrange(2**31))  # of dropout
    if adam is not None:
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=adam, weight_decay=decay)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=sgd or 0.1, momentum=momentum, weight_decay=decay)
    loss_fn, metric = (F.cross_entropy, accuracy) if task.classes else (F.mse_loss, mean_error)
    validation = TensorLoader(task.val_x, task.val_y, batch_size=HELD[1])

    def schedule(optimizer: torch.optim.Optimizer, total_steps: int) -> Any:
        return torch.optim.lr_scheduler.ExponentialLR(optimizer, growth)

    try:
        return train(model, batches, validation, optimizer, loss_fn, epochs, metric=metric, schedule=schedule)
    except FloatingPointError as error:
        return error


def between(draw: random.Random, low: float, high: float) -> float:
    """A number drawn evenly on a log scale."""
    return low * (high / low) ** draw.random()


def _task(draw: random.Random, examples: int) -> Task:
    """Some noise in the synthetic ones, as real data has."""
    kind = draw.choice(["digits", "classes", "values"])
    if kind == "digits":
        return digits(min(examples, 1200), draw)
    if kind == "classes":
        return teacher(examples, draw, classes=draw.choice([2, 3, 5]), noise=0.1)
    return teacher(examples, draw, noise=draw.uniform(0.25, 0.35))


# Each pattern: functions of a random stream.


def healthy_adam(draw: random.Random) -> Run:
    """Enough data for the model, a sensible rate."""
    examples, inputs = draw.randint(2500, 4000), draw.randint(3, 5)
    classes = teacher(examples, draw, classes=draw.choice([2, 3, 5]), inputs=inputs, noise=0.1)
    values = teacher(examples, draw, inputs=inputs, noise=draw.uniform(0.25, 0.35))
    task = draw.choice([digits(1200, draw), classes, values])
    model = mlp(task, draw.choice([32, 64]), 1, draw)
    return fit(task, model, draw, adam=between(draw, 2e-3, 4e-3), epochs=draw.randint(10, 15), batch_size=64)


def healthy_sgd(draw: random.Random) -> Run:
    """The same with momentum."""
    task = digits(draw.randint(900, 1200), draw)
    model = mlp(task, draw.choice([16, 32, 64]), 1, draw)
    return fit(task, model, draw, sgd=between(draw, 0.004, 0.012), momentum=0.9, epochs=draw.randint(8, 15))


def healthy_unfinished(draw: random.Random) -> Run:
    """Still falling when it ends."""
    task = digits(draw.randint(600, 1200), draw)
    model = mlp(task, draw.choice([32, 64]), 1, draw)
    return fit(task, model, draw, sgd=between(draw, 0.01, 0.05), epochs=draw.randint(8, 15))


def flat_rate(draw: random.Random) -> Run:
    """A rate far too small."""
    task = _task(draw, draw.randint(300, 1500))
    model = mlp(task, draw.choice([16, 64]), draw.choice([1, 2]), draw)
    return fit(task, model, draw, sgd=between(draw, 1e-7, 1e-5), epochs=draw.randint(8, 30))


def flat_dead(draw: random.Random) -> Run:
    """Units that no input reaches: only the last bias learns."""
    task = _task(draw, draw.randint(300, 1500))
    model = nn.Sequential(nn.Linear(task.x.shape[1], 32), nn.ReLU(), nn.Linear(32, task.classes or 1))
    torch.manual_seed(draw.randrange(2**31))
    nn.init.normal_(model[0].weight, std=0.1)
    nn.init.constant_(model[0].bias, -30.0)
    return fit(task, model, draw, sgd=between(draw, 0.003, 0.1), epochs=draw.randint(8, 30))


def flat_inputs(draw: random.Random) -> Run:
    """Inputs that were lost on the way: all are 0."""
    task = digits(draw.randint(300, 1200), draw)
    task = replace(task, x=torch.zeros_like(task.x), val_x=torch.zeros_like(task.val_x))
    model = mlp(task, 32, 1, draw)
    return fit(task, model, draw, adam=between(draw, 3e-4, 3e-3), epochs=draw.randint(8, 30))


def oscillating_classes(draw: random.Random) -> Run:
    """Steps that jump over the valley and yet return: the slopes of this loss are bounded."""
    task = teacher(draw.randint(300, 1000), draw, classes=draw.choice([2, 3]), noise=0.5)
    size = len(task.x) // draw.randint(8, 14)
    return fit(
        task, mlp(task, 0, 0, draw), draw, sgd=between(draw, 6, 15), epochs=draw.randint(12, 30), batch_size=size
    )


def oscillating_values(draw: random.Random) -> Run:
    """Just below the largest stable rate, where the noise of small batches is amplified."""
    task = teacher(draw.randint(300, 1000), draw, noise=draw.uniform(0.3, 0.5))
    return fit(
        task, mlp(task, 0, 0, draw), draw, sgd=between(draw, 0.25, 0.32), epochs=draw.randint(12, 30), batch_size=8
    )


def oscillating_deep(draw: random.Random) -> Run:
    """A network on noisy classes."""
    task = teacher(draw.randint(300, 1000), draw, classes=draw.choice([2, 3]), noise=0.5)
    model = mlp(task, 32, 1, draw, activations=[nn.Tanh])  # ReLUs would die
    return fit(task, model, draw, sgd=between(draw, 5, 10), epochs=draw.randint(12, 30), batch_size=16)


def exploding_values(draw: random.Random) -> Run:
    """Steps that overshoot a square loss by more each time."""
    task = teacher(draw.randint(300, 1000), draw, noise=0.2)
    model = mlp(task, draw.choice([16, 64]), draw.choice([0, 1, 2]), draw)
    return fit(task, model, draw, sgd=between(draw, 2.0, 20.0), epochs=10)


def exploding_slowly(draw: random.Random) -> Run:
    """Just beyond the largest stable rate of a linear model, a few steps an epoch."""
    task = teacher(draw.randint(300, 1000), draw, noise=0.2)
    model = mlp(task, 0, 0, draw)
    rows = torch.cat([task.x, torch.ones(len(task.x), 1)], 1)
    largest = float(torch.linalg.eigvalsh(2 * rows.T @ rows / len(rows))[-1])
    rate = between(draw, 2.3, 3.0) / largest
    return fit(task, model, draw, sgd=rate, epochs=draw.randint(10, 20), batch_size=(len(task.x) + 1) // 2)


def exploding_later(draw: random.Random) -> Run:
    """A rate that is sensible at first and grows in each step."""
    task = teacher(draw.randint(300, 1000), draw, noise=0.2)
    model = mlp(task, draw.choice([16, 64]), draw.choice([1, 2]), draw)
    growth = between(draw, 1.02, 1.1)
    return fit(task, model, draw, sgd=0.02, growth=growth, epochs=30)


def overfit_digits(draw: random.Random) -> Run:
    """Few real images, a large model."""
    task = digits(draw.randint(40, 90), draw)
    model = mlp(task, draw.choice([64, 128]), draw.choice([1, 2]), draw)
    return fit(task, model, draw, adam=between(draw, 1e-3, 2e-3), epochs=draw.randint(25, 40), batch_size=16)


def overfit_values(draw: random.Random) -> Run:
    """Few examples of many inputs."""
    task = teacher(draw.randint(40, 70), draw, inputs=30)
    model = mlp(task, draw.choice([64, 128]), 1, draw)
    return fit(task, model, draw, adam=between(draw, 1e-3, 2e-3), epochs=draw.randint(30, 45), batch_size=16)


def underfit_linear(draw: random.Random) -> Run:
    """A line where a curve is needed."""
    task = rings(draw.randint(1500, 3000), draw)
    model = mlp(task, 0, 0, draw)
    nn.init.zeros_(model[0].weight)  # where it starts is no matter of luck
    return fit(task, model, draw, adam=between(draw, 2e-3, 5e-3), epochs=draw.randint(25, 40), batch_size=64)


def underfit_narrow(draw: random.Random) -> Run:
    """Ten digits through one unit."""
    task = digits(draw.randint(600, 1200), draw)
    model = mlp(task, 1, 1, draw, activations=[nn.Tanh])
    return fit(task, model, draw, adam=between(draw, 3e-3, 1e-2), epochs=draw.randint(25, 35), batch_size=16)


def underfit_decay(draw: random.Random) -> Run:
    """So much weight decay that the weights cannot grow."""
    task = digits(draw.randint(600, 1200), draw)
    model = mlp(task, 32, 1, draw)
    decay = between(draw, 0.2, 0.25)
    return fit(task, model, draw, sgd=0.1, decay=decay, epochs=draw.randint(12, 25), batch_size=32)


def worsens_labels(draw: random.Random) -> Run:
    """Wrong labels, learned by heart after the right ones."""
    task = digits(draw.randint(150, 300), draw).noisy(draw.uniform(0.2, 0.4), draw)
    model = mlp(task, draw.choice([64, 128]), draw.choice([1, 2]), draw)
    return fit(task, model, draw, adam=between(draw, 2e-3, 5e-3), epochs=draw.randint(40, 55), batch_size=16)


def worsens_classes(draw: random.Random) -> Run:
    """Noise near the border of classes, a large model, many epochs."""
    task = teacher(draw.randint(100, 200), draw, classes=draw.choice([2, 3, 5]), noise=0.7)
    model = mlp(task, draw.choice([64, 128]), 2, draw)
    return fit(task, model, draw, adam=between(draw, 3e-3, 5e-3), epochs=draw.randint(35, 50), batch_size=16)


def below_dropout(draw: random.Random) -> Run:
    """Units dropped in training only."""
    task = digits(draw.randint(900, 1200), draw)
    model = mlp(task, draw.choice([32, 64]), draw.choice([1, 2]), draw, dropout=draw.uniform(0.6, 0.75))
    return fit(task, model, draw, adam=between(draw, 1e-3, 2e-3), epochs=draw.randint(15, 30))


def below_augmented(draw: random.Random) -> Run:
    """Noise on the training inputs only."""
    task = digits(draw.randint(900, 1200), draw)
    model = mlp(task, draw.choice([64, 128]), draw.choice([1, 2]), draw)
    noise = draw.uniform(1.0, 1.5)
    return fit(task, model, draw, adam=between(draw, 1e-3, 2e-3), epochs=draw.randint(15, 30), noise=noise)


def leakage_repeated(draw: random.Random) -> Run:
    """Noisy labels, and the validation examples are in the training data many times."""
    task = digits(draw.randint(500, 700), draw).noisy(draw.uniform(0.3, 0.5), draw)
    held, times = draw.randint(30, 60), draw.randint(12, 18)
    val_x, val_y = task.val_x[:held], task.val_y[:held]
    x, y = torch.cat([task.x, val_x.repeat(times, 1)]), torch.cat([task.y, val_y.repeat(times)])
    model = mlp(task, 128, 1, draw)
    return fit(Task(x, y, val_x, val_y), model, draw, adam=between(draw, 3e-3, 5e-3), epochs=draw.randint(25, 30))


def leakage_target(draw: random.Random) -> Run:
    """The label is among the inputs."""
    task = digits(draw.randint(600, 1200), draw)

    def leaking(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x, 3 * F.one_hot(y, 10)], 1)

    task = Task(leaking(task.x, task.y), task.y, leaking(task.val_x, task.val_y), task.val_y)
    model = mlp(task, draw.choice([32, 64, 128]), 1, draw)
    return fit(task, model, draw, adam=between(draw, 3e-3, 1e-2), epochs=draw.randint(8, 20))


def leakage_duplicates(draw: random.Random) -> Run:
    """Noisy labels, learned by heart, and validation is a part of the training data."""
    task = digits(draw.randint(200, 250), draw).noisy(draw.uniform(0.1, 0.2), draw)
    task = replace(task, val_x=task.x[:150], val_y=task.y[:150])
    model = mlp(task, 128, 2, draw)
    return fit(task, model, draw, adam=between(draw, 1.5e-3, 2.2e-3), epochs=draw.randint(55, 65), batch_size=16)


WAYS: dict[str, tuple[Callable[[random.Random], Run], ...]] = {
    "healthy": (healthy_adam, healthy_sgd, healthy_unfinished),
    "flat": (flat_rate, flat_dead, flat_inputs),
    "oscillating": (oscillating_classes, oscillating_values, oscillating_deep),
    "exploding": (exploding_values, exploding_slowly, exploding_later),
    "overfit": (overfit_digits, overfit_values),
    "underfit": (underfit_linear, underfit_narrow, underfit_decay),
    "improves then worsens": (worsens_labels, worsens_classes),
    "validation below training": (below_dropout, below_augmented),
    "leakage-like": (leakage_repeated, leakage_target, leakage_duplicates),
}


def run_of(way: Callable[[random.Random], Run], seed: int) -> Run:
    """The run that a way gives for a seed."""
    return way(random.Random(f"{way.__name__}-{seed}"))
