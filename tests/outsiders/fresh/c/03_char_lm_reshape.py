"""Character language model (GRU) on a text of made-up words.

Fault: the stream of characters is cut into sequences by `ids.reshape(LENGTH, -1).T` (from a tutorial whose model wants
time first) in place of `ids.reshape(-1, LENGTH)`. The shape is right, but neighbours in a sequence are characters that
lie hundreds of places apart in the text: there is nothing to learn but how often each character comes. Nothing
crashes, and validation is cut in the same way.

Validation after 10 epochs (seeds 0, 1): twin loss 0.57, 0.58, accuracy 0.82, 0.82; faulty loss 2.83, 2.85, accuracy
0.15, 0.17.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs", "labels")
LENGTH, LETTERS = 33, 20


def text(seed: int, characters: int) -> Tensor:
    """Words from a lexicon of forty, after Zipf, with id 0 for the space."""
    lexicon = np.random.default_rng(seed)
    words = [lexicon.integers(1, LETTERS + 1, lexicon.integers(3, 8)).tolist() for _ in range(40)]
    weight = 1 / np.arange(1, 41)
    ids: list[int] = []
    while len(ids) < characters:
        ids += [*words[lexicon.choice(40, p=weight / weight.sum())], 0]
    return torch.tensor(ids[:characters])


def sequences(ids: Tensor, time_first: bool) -> TensorDataset:
    """Inputs and, one place on, targets."""
    ids = ids[: len(ids) // LENGTH * LENGTH]
    rows = ids.reshape(LENGTH, -1).T if time_first else ids.reshape(-1, LENGTH)
    return TensorDataset(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())


class CharModel(nn.Module):
    """Embedding, GRU and a line."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(LETTERS + 1, 24)
        self.rnn = nn.GRU(24, 48, batch_first=True)
        self.out = nn.Linear(48, LETTERS + 1)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.rnn(self.embedding(ids))[0])


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy over all positions."""
    return F.cross_entropy(outputs.reshape(-1, LETTERS + 1), targets.reshape(-1))


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """How often the next character is guessed."""
    return float((outputs.argmax(-1) == targets).float().mean())


def build(seed: int, time_first: bool) -> tuple[Program, Spec]:
    """The program."""
    ids = text(seed, 33000)
    train, val = sequences(ids[:26400], time_first), sequences(ids[26400:], time_first)
    torch.manual_seed(seed)
    model = CharModel()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, batch_size=32, shuffle=True),
        val_loader=DataLoader(val, batch_size=64),
        metric=accuracy,
    )
    return program, Spec(task="sequence", classes=LETTERS + 1, epochs=10, causal=True)


def make(seed: int) -> tuple[Program, Spec]:
    """Sequences of characters that are no neighbours."""
    return build(seed, True)


def twin(seed: int) -> tuple[Program, Spec]:
    """Sequences of neighbours."""
    return build(seed, False)
