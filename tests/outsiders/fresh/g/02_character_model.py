"""Predict the next character of the descriptions of scikit-learn's data sets with a GRU.

Fault: the training step never calls `optimizer.zero_grad()`: it was lost when the step was rewritten. Each step uses
the sum of all gradients since the start, in which old ones dominate, so Adam overshoots again and again. Nothing
raises; the loss swings and stays high, as with too high a rate.

Measured (seeds 0 and 1): validation loss 4.57 and 4.36 faulty (4.16 and 4.08 before training), 1.87 and 2.03 repaired;
accuracy 0.279 and 0.156 against 0.512 and 0.463.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)
EPOCHS = 20
LENGTH = 40


class CharacterModel(nn.Module):
    """Embedding, GRU and a linear layer for each position."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(characters, 32)
        self.gru = nn.GRU(32, 96, batch_first=True)
        self.head = nn.Linear(96, characters)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits for the next character at each position: (batch, length, characters)."""
        states, _ = self.gru(self.embed(ids))
        return self.head(states)


def _text() -> str:
    return "\n".join(load().DESCR.lower() for load in (load_diabetes, load_wine, load_digits, load_breast_cancer))


def _windows(ids: Tensor) -> TensorDataset:
    count = (len(ids) - 1) // LENGTH
    return TensorDataset(ids[: count * LENGTH].view(count, LENGTH), ids[1 : count * LENGTH + 1].view(count, LENGTH))


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def _accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(-1) == targets).float().mean())


def _step_faulty(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    inputs, targets = batch
    loss = _loss(program.model(inputs), targets)
    loss.backward()
    program.optimizers[0].step()


def _step_right(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    inputs, targets = batch
    program.optimizers[0].zero_grad()
    loss = _loss(program.model(inputs), targets)
    loss.backward()
    program.optimizers[0].step()


def _build(seed: int, step: Callable[[Program, tuple[Tensor, Tensor]], None]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    text = _text()
    characters = sorted(set(text))
    index = {character: i for i, character in enumerate(characters)}
    ids = torch.tensor([index[character] for character in text])
    windows = _windows(ids)
    train, val = random_split(windows, [0.85, 0.15], generator=torch.Generator().manual_seed(seed))
    model = CharacterModel(len(characters))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=_loss,
        train_loader=DataLoader(train, 16, shuffle=True, generator=torch.Generator().manual_seed(seed), drop_last=True),
        val_loader=DataLoader(val, 64),
        step=step,
        metric=_accuracy,
    )
    return program, Spec(task="sequence", classes=len(characters), epochs=EPOCHS, causal=True)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, _step_faulty)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, _step_right)
