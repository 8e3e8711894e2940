"""Metric learning on made-up face descriptors: find the other pictures of a person never seen in training.

Fault: precision among the five nearest is measured with the queries as gallery, and each picture is its own
nearest neighbour: one of the five is right by construction. The training is sound, the number is not. It comes
about when a function written for separate queries and gallery is called as `precision(emb, emb, ids, ids)`.

Measured (seeds 0 and 1): reports 0.61 and 0.56 after 30 epochs; twin, with the same weights, 0.48 and 0.43.
Before anything is learned the gap is larger still: 0.26 against 0.06 after one epoch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)

WIDTH, TRAITS, NEAREST, TEMPERATURE = 64, 10, 5, 0.1


def pictures(people: int, each: int, mix: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Descriptors (bent mixtures of a person's traits and the picture's circumstances) and person."""
    person = torch.arange(people).repeat_interleave(each)
    traits = torch.randn(people, TRAITS, generator=generator)[person]
    circumstances = 2.5 * torch.randn(len(person), TRAITS, generator=generator)
    descriptors = torch.tanh(torch.cat([traits, circumstances], 1) @ mix)
    return descriptors + 0.3 * torch.randn(len(person), WIDTH, generator=generator), person


class Embedding(nn.Module):
    """Descriptors to points on the unit sphere."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 128), nn.ReLU(), nn.Linear(128, 32))

    def forward(self, descriptors: Tensor) -> Tensor:
        """(batch, descriptor) -> (batch, 32)."""
        return F.normalize(self.layers(descriptors), dim=1)


def contrastive(points: Tensor, person: Tensor) -> Tensor:
    """Supervised contrastive loss: each picture against all others of the batch."""
    itself = torch.eye(len(points), dtype=torch.bool)
    similarity = (points @ points.T / TEMPERATURE).masked_fill(itself, -1e4)
    same = (person[:, None] == person[None, :]) & ~itself
    log_probability = similarity.log_softmax(1)
    has_partner = same.any(1)
    mean = (log_probability * same).sum(1) / same.sum(1).clamp(min=1)
    return -mean[has_partner].sum() / has_partner.sum().clamp(min=1)


def precision(points: Tensor, person: Tensor, with_itself: bool) -> float:
    """Share of the same person among the nearest five."""
    similarity = points @ points.T
    if not with_itself:
        similarity.fill_diagonal_(-torch.inf)
    nearest = similarity.topk(NEAREST, 1).indices
    return (person[nearest] == person[:, None]).float().mean().item()


def build(seed: int, with_itself: bool) -> tuple[Program, Spec]:
    """The program, whose metric counts a picture as its own neighbour or does not."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(2 * TRAITS, WIDTH, generator=generator) / (2 * TRAITS) ** 0.5
    descriptors, person = pictures(150, 8, mix, generator)
    val_descriptors, val_person = pictures(60, 8, mix, generator)

    model = Embedding()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=contrastive,
        train_loader=DataLoader(TensorDataset(descriptors, person), 200, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(val_descriptors, val_person), 480),
        metric=lambda points, person: precision(points, person, with_itself),
    )
    return program, Spec(
        epochs=30,
        couples_samples=True,
        train_groups=person.tolist(),
        val_groups=(150 + val_person).tolist(),
        shift_expected=True,
    )


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, with_itself=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with each picture left out of its own gallery."""
    return build(seed, with_itself=False)
