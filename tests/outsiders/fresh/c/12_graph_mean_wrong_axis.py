"""Regression on the nodes of one graph with a small graph network that takes the mean over neighbours.

Fault: the adjacency matrix is divided by `adjacency.sum(1)` without keepdim=True. As the matrix is square, that
broadcasts without complaint and divides column j by the degree of j: not a mean over the neighbours of a node, but a
sum in which neighbours with many links hardly count. Nothing crashes, and training goes down, not far.

R2 of validation after 25 epochs (seeds 0, 1): twin 0.95, 0.93; faulty 0.72, 0.63.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model", "layers")
NODES, FEATURES = 900, 6


def links(generator: torch.Generator) -> Tensor:
    """Who has many links gets more."""
    adjacency = torch.zeros(NODES, NODES)
    adjacency[:4, :4] = 1 - torch.eye(4)
    for node in range(4, NODES):
        degree = adjacency[:node, :node].sum(1) + 1
        friends = torch.multinomial(degree, 3, generator=generator)
        adjacency[node, friends] = adjacency[friends, node] = 1
    return adjacency


class GraphNet(nn.Module):
    """Each node and the mean over its neighbours, two lines, for the nodes that are asked for."""

    def __init__(self, features: Tensor, adjacency: Tensor, keepdim: bool) -> None:
        super().__init__()
        self.register_buffer("features", features)
        self.register_buffer("mean_over", adjacency / adjacency.sum(1, keepdim=keepdim))
        self.inner = nn.Linear(FEATURES, 24)
        self.own, self.others = nn.Linear(24, 24), nn.Linear(24, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, nodes: Tensor) -> Tensor:
        hidden = self.inner(self.features).relu()
        hidden = (self.own(hidden) + self.others(self.mean_over @ hidden)).relu()
        return self.out(hidden)[nodes]


def r2(outputs: Tensor, targets: Tensor) -> float:
    """Share of the variance that is explained."""
    return 1 - float(((outputs - targets) ** 2).mean() / targets.var(unbiased=False))


def build(seed: int, keepdim: bool) -> tuple[Program, Spec]:
    """The program."""
    generator = torch.Generator().manual_seed(seed)
    adjacency = links(generator)
    features = torch.randn(NODES, FEATURES, generator=generator)
    signal = features[:, 0] + features[:, 1].abs()
    y = (adjacency @ signal / adjacency.sum(1) + 0.3 * features[:, 2])[:, None]
    y = (y - y.mean()) / y.std() + 0.2 * torch.randn(NODES, 1, generator=generator)
    nodes = torch.randperm(NODES, generator=generator)
    train, val = nodes[:600], nodes[600:]
    torch.manual_seed(seed)
    model = GraphNet(features, adjacency, keepdim)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-2),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(TensorDataset(train, y[train]), batch_size=60, shuffle=True),
        val_loader=DataLoader(TensorDataset(val, y[val]), batch_size=300),
        metric=r2,
    )
    return program, Spec(task="regression", epochs=25)


def make(seed: int) -> tuple[Program, Spec]:
    """Divided along the wrong axis."""
    return build(seed, False)


def twin(seed: int) -> tuple[Program, Spec]:
    """Divided along the right axis."""
    return build(seed, True)
