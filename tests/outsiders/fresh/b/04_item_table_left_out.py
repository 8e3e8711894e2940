"""A recommender with two optimizers, SparseAdam for embeddings and Adam for the rest: the table of the items is in
neither, so that it stays random and the ratings are explained by the users and the offsets alone.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam, Optimizer, SparseAdam
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("optimizer",)
EPOCHS = 25
USERS, ITEMS = 150, 90


class Recommender(nn.Module):
    """The rating is the product of two embeddings and of offsets of both."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.user_embedding = nn.Embedding(USERS, width, sparse=True)
        self.item_embedding = nn.Embedding(ITEMS, width, sparse=True)
        self.user_offset = nn.Embedding(USERS, 1)
        self.item_offset = nn.Embedding(ITEMS, 1)
        self.offset = nn.Parameter(torch.zeros(1))
        for table in (self.user_embedding, self.item_embedding):
            nn.init.normal_(table.weight, std=0.3)
        nn.init.zeros_(self.user_offset.weight)
        nn.init.zeros_(self.item_offset.weight)

    def forward(self, pairs: Tensor) -> Tensor:
        user, item = pairs.unbind(1)
        product = (self.user_embedding(user) * self.item_embedding(item)).sum(1)
        return product + self.user_offset(user).squeeze(1) + self.item_offset(item).squeeze(1) + self.offset


def ratings(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Standardised ratings of all pairs, in random order."""
    users = torch.randn(USERS, 3, generator=generator)
    items = torch.randn(ITEMS, 3, generator=generator)
    likes = users @ items.T + 0.7 * torch.randn(USERS, 1, generator=generator)
    likes = likes + 0.7 * torch.randn(1, ITEMS, generator=generator)
    likes = likes + 0.5 * torch.randn(USERS, ITEMS, generator=generator)
    order = torch.randperm(USERS * ITEMS, generator=generator)
    pairs = torch.cartesian_prod(torch.arange(USERS), torch.arange(ITEMS))
    return pairs[order], likes.flatten()[order]


def optimizers(model: Recommender, whole: bool) -> list[Optimizer]:
    dense = [p for name, p in model.named_parameters() if not name.endswith("embedding.weight")]
    sparse = [model.user_embedding.weight, model.item_embedding.weight] if whole else [model.user_embedding.weight]
    return [SparseAdam(sparse, lr=5e-3), Adam(dense, lr=5e-3)]


def step(program: Program, batch: tuple[Tensor, Tensor]) -> None:
    pairs, targets = batch
    program.model.zero_grad()
    program.loss_fn(program.outputs(pairs), targets).backward()
    for optimizer in program.optimizers:
        optimizer.step()


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - (outputs - targets).square().sum() / (targets - targets.mean()).square().sum())


def build(seed: int, whole: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    pairs, y = ratings(torch.Generator().manual_seed(seed))
    y = (y - y[:7500].mean()) / y[:7500].std()
    train = TensorDataset(pairs[:7500], y[:7500])
    val = TensorDataset(pairs[7500:10000], y[7500:10000])
    model = Recommender()
    program = Program(
        model=model,
        optimizer=optimizers(model, whole),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(train, batch_size=100, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=500),
        step=step,
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, whole=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, whole=True)
