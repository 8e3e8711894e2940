"""Learning to rank (ListNet): twelve documents for a query, scored by an MLP, after what clicks say of them.

Fault: the rank of each document, which the loss makes its target distribution of, is taken as
`relevance.argsort(descending=True)`. That is which document stands at each place, not the place at which each document
stands (for which argsort is needed twice). Both are permutations of 0..11, so nothing crashes, in validation neither;
the labels are as good as shuffled.

Rank correlation in validation after 15 epochs (seeds 0, 1): twin 0.93, 0.93; faulty 0.05, 0.03 (0.36, 0.42 with the
true places).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels",)
DOCUMENTS, FEATURES = 12, 8


def ranks(relevance: Tensor, twice: bool) -> Tensor:
    """The place of each document, from 0 for the best."""
    order = relevance.argsort(dim=1, descending=True)
    return order.argsort(dim=1) if twice else order


def data(count: int, generator: torch.Generator, twice: bool) -> TensorDataset:
    """Queries with their documents' features, and the documents' ranks."""
    x = torch.randn(count, DOCUMENTS, FEATURES, generator=generator)
    relevance = x[..., 0] + 0.8 * x[..., 1] * x[..., 2] - 0.7 * x[..., 3].abs()
    relevance = relevance + 0.3 * torch.randn(count, DOCUMENTS, generator=generator)
    return TensorDataset(x, ranks(relevance, twice))


class Scorer(nn.Module):
    """A score for each document."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).squeeze(-1)


def list_net(scores: Tensor, places: Tensor) -> Tensor:
    """Cross-entropy between the distributions that places and scores give over a query's documents."""
    wanted = (-places.float() / 2).softmax(1)
    return -(wanted * scores.log_softmax(1)).sum(1).mean()


def spearman(scores: Tensor, places: Tensor) -> float:
    """Rank correlation, averaged over queries."""
    mine = scores.argsort(dim=1, descending=True).argsort(dim=1).float()
    middle = (DOCUMENTS - 1) / 2
    return float(((mine - middle) * (places - middle)).mean() / ((mine - middle) ** 2).mean())


def build(seed: int, twice: bool) -> tuple[Program, Spec]:
    """The program."""
    generator = torch.Generator().manual_seed(seed)
    train, val = data(800, generator, twice), data(300, generator, twice)
    torch.manual_seed(seed)
    model = Scorer()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=list_net,
        train_loader=DataLoader(train, batch_size=32, shuffle=True),
        val_loader=DataLoader(val, batch_size=100),
        metric=spearman,
    )
    return program, Spec(epochs=15)


def honest(program: Program, seed: int) -> float:
    """Rank correlation with the true places."""
    x, places = data(300, torch.Generator().manual_seed(seed + 1000), True).tensors
    program.model.eval()
    with torch.no_grad():
        return spearman(program.model(x), places)


def make(seed: int) -> tuple[Program, Spec]:
    """Argsort once."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """Argsort twice."""
    return build(seed, True)
