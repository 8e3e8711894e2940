"""Link prediction in a friendship graph of 400 people: a graph network over learned vectors scores pairs.

Fault: the list of friendships holds each twice, (a, b) and (b, a), as undirected graphs are stored, and is split
at random by rows. Four of five friendships in validation stand the other way round in training, among the
examples and in the graph that messages pass along. Score and loss are symmetric, so they were simply trained on.
The classic slip with edge lists in this form; libraries have an `is_undirected` option to avoid it.

Measured (seeds 0 and 1): reports an area under the curve of 0.75 and 0.78 after 12 epochs; twin, honestly split,
0.62 and 0.59.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)

PEOPLE, CIRCLES, WIDTH = 400, 10, 12


def friendships(generator: torch.Generator) -> Tensor:
    """Each friendship once, as (smaller, larger): frequent within a circle, rare without."""
    circle = torch.randint(CIRCLES, (PEOPLE,), generator=generator)
    likely = torch.where(circle[:, None] == circle[None, :], 0.15, 0.01)
    return torch.nonzero((torch.rand(PEOPLE, PEOPLE, generator=generator) < likely).triu(1))


def split(pairs: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows for training and for validation, at random."""
    order = torch.randperm(len(pairs), generator=generator)
    count = int(share * len(pairs))
    return pairs[order[count:]], pairs[order[:count]]


def both_ways(pairs: Tensor) -> Tensor:
    """Each friendship as two rows."""
    return torch.cat([pairs, pairs.flip(1)])


def with_strangers(pairs: Tensor, friends: Tensor, generator: torch.Generator) -> TensorDataset:
    """The pairs with label 1 and as many pairs that are no friends with label 0."""
    drawn = torch.randint(PEOPLE, (2 * len(pairs), 2), generator=generator)
    strangers = drawn[~friends[drawn[:, 0], drawn[:, 1]] & (drawn[:, 0] != drawn[:, 1])][: len(pairs)]
    labels = torch.cat([torch.ones(len(pairs)), torch.zeros(len(strangers))])
    return TensorDataset(torch.cat([pairs, strangers]), labels)


def matrix(pairs: Tensor) -> Tensor:
    """Adjacency matrix of pairs given both ways."""
    adjacency = torch.zeros(PEOPLE, PEOPLE)
    adjacency[pairs[:, 0], pairs[:, 1]] = 1
    return adjacency


class LinkModel(nn.Module):
    """A learned vector for each person, averaged with those of the friends; the score is an inner product."""

    def __init__(self, adjacency: Tensor) -> None:
        super().__init__()
        self.vectors = nn.Parameter(0.3 * torch.randn(PEOPLE, WIDTH))
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("average", F.normalize(adjacency + torch.eye(PEOPLE), p=1, dim=1))

    def forward(self, pairs: Tensor) -> Tensor:
        """(batch, 2) -> scores."""
        nodes = self.vectors + self.mix(self.average @ self.vectors)
        return (nodes[pairs[:, 0]] * nodes[pairs[:, 1]]).sum(1)


def area_under_curve(scores: Tensor, labels: Tensor) -> float:
    """Share of (friends, strangers) in which the friends score higher."""
    return (scores[labels > 0.5][:, None] > scores[labels < 0.5][None, :]).float().mean().item()


def build(seed: int, rows: bool) -> tuple[Program, Spec]:
    """The program, splitting rows of the doubled list or friendships."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    pairs = friendships(generator)
    friends = matrix(both_ways(pairs)) > 0
    if rows:
        train, val = split(both_ways(pairs), 0.2, generator)
    else:
        train, val = (both_ways(part) for part in split(pairs, 0.2, generator))

    model = LinkModel(matrix(train))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3),
        loss_fn=F.binary_cross_entropy_with_logits,
        train_loader=DataLoader(with_strangers(train, friends, generator), 256, shuffle=True, generator=generator),
        val_loader=DataLoader(with_strangers(val, friends, generator), 500),
        metric=area_under_curve,
    )
    return program, Spec(task="multi-label", epochs=12)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, rows=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with friendships split before they are doubled."""
    return build(seed, rows=False)
