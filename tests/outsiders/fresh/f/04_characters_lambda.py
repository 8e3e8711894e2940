"""A small language model of characters (GRU) on the descriptions that come with scikit-learn's data sets.

Fault: the function handed to `LambdaLR` returns the learning rate of the epoch. `LambdaLR` multiplies what it is
given with the optimizer's own learning rate, so 0.004 becomes 0.004 times 0.004. The loss falls, at a crawl. It
comes about when a hand-written `lr_at(epoch)` of another project (one which wrote into `param_groups` itself) is
put into a scheduler.

Measured (seeds 0 and 1): validation loss 4.06 and 4.08 nats a character, accuracy 0.13 and 0.04, after 10 epochs
(first epoch: 4.14); twin 2.10 and 2.09, accuracy 0.44 and 0.43.
"""

from __future__ import annotations

import math

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("schedule",)

LENGTH, EPOCHS, WARMUP, PEAK = 48, 10, 2, 4e-3


class CharacterModel(nn.Module):
    """Logits of the next character at each position."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, 32)
        self.recurrent = nn.GRU(32, 96, batch_first=True)
        self.head = nn.Linear(96, characters)

    def forward(self, text: Tensor) -> Tensor:
        """(batch, time) -> (batch, time, characters)."""
        return self.head(self.recurrent(self.embedding(text))[0])


def windows(text: str, index: dict[str, int]) -> TensorDataset:
    """Stretches of the text and the same one character on."""
    ids = torch.tensor([index.get(character, 0) for character in text])
    starts = range(0, len(ids) - LENGTH - 1, LENGTH)
    inputs = torch.stack([ids[start : start + LENGTH] for start in starts])
    targets = torch.stack([ids[start + 1 : start + LENGTH + 1] for start in starts])
    return TensorDataset(inputs, targets)


def warmup_cosine(epoch: int) -> float:
    """Share of the peak learning rate: a linear rise, then half a cosine."""
    if epoch < WARMUP:
        return (epoch + 1) / (WARMUP + 1)
    return 0.5 * (1 + math.cos(math.pi * (epoch - WARMUP) / (EPOCHS - WARMUP)))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over all positions, in nats for each character."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def accuracy(logits: Tensor, targets: Tensor) -> float:
    """Share of characters foretold."""
    return (logits.argmax(-1) == targets).float().mean().item()


def build(seed: int, absolute: bool) -> tuple[Program, Spec]:
    """The program, whose schedule gives a learning rate or a factor."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    loaders = (datasets.load_breast_cancer, datasets.load_digits, datasets.load_iris, datasets.load_diabetes)
    train_text = "\n".join(loader().DESCR for loader in loaders).lower()
    val_text = datasets.load_wine().DESCR.lower()
    # Index 0 is for characters unknown to the training text.
    index = {character: number for number, character in enumerate(sorted(set(train_text)), 1)}

    model = CharacterModel(len(index) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=PEAK)
    factor = PEAK if absolute else 1.0
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=cross_entropy,
        train_loader=DataLoader(windows(train_text, index), 8, shuffle=True, generator=generator),
        val_loader=DataLoader(windows(val_text, index), 32),
        scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: factor * warmup_cosine(epoch)),
        metric=accuracy,
    )
    return program, Spec(task="sequence", classes=len(index) + 1, epochs=EPOCHS, causal=True, scheduler_steps="epoch")


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, absolute=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with a schedule that gives factors."""
    return build(seed, absolute=False)
