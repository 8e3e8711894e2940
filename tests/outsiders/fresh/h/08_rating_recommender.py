"""A recommender predicts ratings by matrix factorisation with biases of users and items.

Fault: the biases are to begin at zero, and as they are nn.Embedding with one column, the author writes a loop that
zeroes every nn.Embedding: the factors of users and of items too. The gradient of either is a product with the other, so
that both are zero for ever. The biases are learned and the loss falls, but no taste ever enters the predictions.

Measured (seeds 0 and 1): RMSE in validation 0.875 and 0.817 faulty, 0.466 and 0.451 repaired.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("initialisation",)
EPOCHS = 20
USERS, ITEMS, RANK = 200, 150, 6


class Factorisation(nn.Module):
    """Mean + bias of the user + bias of the item + product of their factors."""

    def __init__(self, mean: float) -> None:
        super().__init__()
        self.mean = mean
        self.user_factors = nn.Embedding(USERS, RANK)
        self.item_factors = nn.Embedding(ITEMS, RANK)
        self.user_bias = nn.Embedding(USERS, 1)
        self.item_bias = nn.Embedding(ITEMS, 1)
        for factors in (self.user_factors, self.item_factors):
            nn.init.normal_(factors.weight, std=0.1)
        self.zero_biases()

    def zero_biases(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.zeros_(module.weight)

    def forward(self, pairs: Tensor) -> Tensor:
        users, items = pairs[:, 0], pairs[:, 1]
        taste = (self.user_factors(users) * self.item_factors(items)).sum(1)
        return self.mean + self.user_bias(users).squeeze(1) + self.item_bias(items).squeeze(1) + taste


class RepairedFactorisation(Factorisation):
    """The same, zeroing the biases alone."""

    def zero_biases(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Embedding) and module.embedding_dim == 1:
                nn.init.zeros_(module.weight)


def _ratings(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    users, items = torch.randn(USERS, 3, generator=generator), torch.randn(ITEMS, 3, generator=generator)
    bias = 0.4 * torch.randn(USERS, 1, generator=generator) + 0.4 * torch.randn(1, ITEMS, generator=generator)
    noise = 0.4 * torch.randn(USERS, ITEMS, generator=generator)
    table = (3.2 + bias + 0.5 * users @ items.T + noise).clamp(1, 5)
    seen = torch.randperm(USERS * ITEMS, generator=generator)[:14000]
    return torch.stack([seen // ITEMS, seen % ITEMS], dim=1), table.flatten()[seen]


def _negative_rmse(outputs: Tensor, targets: Tensor) -> float:
    return -(outputs - targets).pow(2).mean().sqrt().item()


def _build(seed: int, network: type[Factorisation]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    pairs, ratings = _ratings(seed)
    train_set, val_set = TensorDataset(pairs[:11000], ratings[:11000]), TensorDataset(pairs[11000:], ratings[11000:])
    model = network(ratings[:11000].mean().item())
    generator = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train_set, 100, shuffle=True, generator=generator),
        val_loader=DataLoader(val_set, 500),
        metric=_negative_rmse,
    )
    return program, Spec(task="regression", epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    return _build(seed, Factorisation)


def twin(seed: int) -> tuple[Program, Spec]:
    return _build(seed, RepairedFactorisation)
