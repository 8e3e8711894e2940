"""Transformer with hand-written attention; the class depends on the first and the last token together.

Fault: the heads are split by `view(batch, heads, length, size)` without the transpose, and joined the same way back.
All shapes are right, but each "head" then is a stretch of length/heads neighbouring tokens, and no token can attend to
one outside of its stretch. Nothing crashes; training accuracy creeps up by heart, validation stays near chance.

Validation accuracy after 15 epochs (seeds 0, 1): twin 1.00, 1.00; faulty 0.25, 0.21 (chance 0.25).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model", "layers")
LENGTH, TOKENS, WIDTH, HEADS, CLASSES = 16, 12, 32, 4, 4


class Attention(nn.Module):
    """Self-attention with several heads."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.transposed = transposed
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def split(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> (batch, heads, length, size)."""
        batch, length, _ = x.shape
        if self.transposed:
            return x.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        return x.reshape(batch, HEADS, length, WIDTH // HEADS)

    def join(self, x: Tensor) -> Tensor:
        """And back."""
        batch, _, length, _ = x.shape
        return (x.transpose(1, 2) if self.transposed else x).reshape(batch, length, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        return self.out(self.join(weights @ v))


class Block(nn.Module):
    """Attention and two lines, each with its norm before and its skip around."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(transposed)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """Two blocks; the last token speaks for the sequence."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.positions = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.Sequential(Block(transposed), Block(transposed))
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.norm(self.blocks(self.tokens(ids) + self.positions)[:, -1]))


def data(count: int, generator: torch.Generator) -> TensorDataset:
    """The class is (first + last) mod 4; what stands between is noise."""
    ids = torch.randint(0, TOKENS, (count, LENGTH), generator=generator)
    return TensorDataset(ids, (ids[:, 0] + ids[:, -1]) % CLASSES)


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """Share of right classes."""
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, transposed: bool) -> tuple[Program, Spec]:
    """The program."""
    generator = torch.Generator().manual_seed(seed)
    train, val = data(2000, generator), data(500, generator)
    torch.manual_seed(seed)
    model = Transformer(transposed)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(train, batch_size=64, shuffle=True),
        val_loader=DataLoader(val, batch_size=100),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=CLASSES, epochs=15)


def make(seed: int) -> tuple[Program, Spec]:
    """Heads that are stretches of the sequence."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """Heads that are slices of the width."""
    return build(seed, True)
