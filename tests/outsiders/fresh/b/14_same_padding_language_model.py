"""The convolutions of a language model of characters are padded on both sides instead of on the left only: each output
sees the character that it is to predict, and the loss falls far below what the language allows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "model")
EPOCHS, LENGTH, ACCUMULATE = 12, 48, 2
WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "child",
    "sees",
    "finds",
    "likes",
    "old",
    "small",
    "red",
    "house",
    "tree",
    "garden",
    "and",
    "near",
    "behind",
    "often",
    "never",
]
LETTERS = sorted({*" .", *"".join(WORDS)})


class Block(nn.Module):
    """A dilated convolution with a residual."""

    def __init__(self, width: int, dilation: int, one_sided: bool) -> None:
        super().__init__()
        reach = 2 * dilation
        self.padding = (reach, 0) if one_sided else (reach // 2, reach // 2)
        self.conv = nn.Conv1d(width, width, 3, dilation=dilation)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm((x + F.relu(self.conv(F.pad(x, self.padding)))).transpose(1, 2)).transpose(1, 2)


class LanguageModel(nn.Module):
    """Logits of the next character at each position."""

    def __init__(self, one_sided: bool, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), width)
        self.blocks = nn.Sequential(*[Block(width, dilation, one_sided) for dilation in (1, 2, 4)])
        self.head = nn.Linear(width, len(LETTERS))

    def forward(self, text: Tensor) -> Tensor:
        return self.head(self.blocks(self.embedding(text).transpose(1, 2)).transpose(1, 2))


def pieces(count: int, generator: torch.Generator) -> TensorDataset:
    """Pieces of random sentences, and the same moved on by one character."""
    text = ""
    while len(text) < count * (LENGTH + 1):
        size = int(torch.randint(3, 9, (1,), generator=generator))
        text += " ".join(WORDS[i] for i in torch.randint(0, len(WORDS), (size,), generator=generator)) + ". "
    ids = torch.tensor([LETTERS.index(letter) for letter in text[: count * (LENGTH + 1)]]).view(count, LENGTH + 1)
    return TensorDataset(ids[:, :-1], ids[:, 1:])


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def train_epoch(program: Program) -> None:
    """One epoch with gradients that are collected over two batches."""
    program.model.train()
    program.optimizers[0].zero_grad()
    for number, (text, following) in enumerate(program.train_loader, start=1):
        (program.loss_fn(program.outputs(text), following) / ACCUMULATE).backward()
        if number % ACCUMULATE == 0:
            program.optimizers[0].step()
            program.optimizers[0].zero_grad()


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(-1) == targets).float().mean())


def honest(program: Program) -> float:
    """Accuracy for the last character of pieces that really end before it."""
    text, following = next(iter(program.val_loader))
    found = [program.outputs(text[:, :t])[:, -1].argmax(-1) == following[:, t - 1] for t in (16, 24, 32, 40)]
    return float(torch.stack(found).float().mean())


def build(seed: int, one_sided: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train, val = pieces(1280, generator), pieces(400, generator)
    model = LanguageModel(one_sided)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=4e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=200),
        train_epoch=train_epoch,
        metric=accuracy,
    )
    spec = Spec(task="sequence", classes=len(LETTERS), epochs=EPOCHS, accumulate=ACCUMULATE, causal=True)
    return program, spec


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, one_sided=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, one_sided=True)
