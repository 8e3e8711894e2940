"""Sequences of 16 page visits: does the customer buy? What matters is also the order; a small transformer.

Fault: the positional encoding is laid out for (time, batch, width), as in PyTorch's old tutorial, and is used in
a model that works on (batch, time, width). It adds the code of its row in the batch to every visit of a sequence:
the shapes broadcast, and the model knows nothing of order. It comes about when the class is copied and
`batch_first=True` is set in the encoder.

Measured (seeds 0 and 1): validation accuracy 0.60 and 0.60 after 12 epochs; twin 0.92 and 0.94.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers", "model")

PAGES, STEPS, WIDTH, LONGEST = 20, 16, 32, 512


def visits(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pages visited and whether the customer buys: price (0) seen after review (1), or often in the shop (2-5)."""
    page = torch.randint(2, PAGES, (count, STEPS), generator=generator)
    place = torch.rand(count, STEPS, generator=generator).argsort(1)[:, :2]
    page.scatter_(1, place, torch.tensor([0, 1]).expand(count, 2))
    after = (place[:, 0] > place[:, 1]).float()
    liking = 2.5 * (after - 0.5) + 0.5 * ((page >= 2) & (page < 6)).sum(1) - 1.55
    return page, (liking + 0.4 * torch.randn(count, generator=generator) > 0).long()


class PositionalEncoding(nn.Module):
    """Adds sines and cosines of the position."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        angle = torch.arange(LONGEST)[:, None] * torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(1e4) / WIDTH))
        code = torch.stack([angle.sin(), angle.cos()], 2).flatten(1)
        self.register_buffer("code", code[None] if batch_first else code[:, None])
        self.batch_first = batch_first

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) or (time, batch, width), as the layout is."""
        return x + (self.code[:, : x.size(1)] if self.batch_first else self.code[: x.size(0)])


class Buyer(nn.Module):
    """Embedding, positions, two transformer layers, mean over the visits."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(PAGES, WIDTH)
        self.position = PositionalEncoding(batch_first)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, page: Tensor) -> Tensor:
        """(batch, time) -> logits."""
        return self.head(self.encoder(self.position(self.embedding(page))).mean(1))


def accuracy(logits: Tensor, bought: Tensor) -> float:
    """Share of customers judged rightly."""
    return (logits.argmax(1) == bought).float().mean().item()


def build(seed: int, batch_first: bool) -> tuple[Program, Spec]:
    """The program, with the positions laid out for batches first or for time first."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train = TensorDataset(*visits(2000, generator))
    val = TensorDataset(*visits(800, generator))

    model = Buyer(batch_first)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3),
        loss_fn=F.cross_entropy,
        train_loader=DataLoader(train, 64, shuffle=True, generator=generator),
        val_loader=DataLoader(val, 64),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=2, epochs=12)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, batch_first=False)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with the batch first."""
    return build(seed, batch_first=True)
