"""A mixture of six linear experts, of which a router picks two for each example, on a table with four regimes that
follow different linear rules.

Fault: the chosen experts are averaged with equal weight, and the router's probabilities serve for the choice alone, so
that no gradient reaches it; the twin weights the chosen experts by their renormalised probabilities.

Measured (seeds 0 and 1): validation accuracy 0.558 and 0.609 with the fault, 0.899 and 0.835 in the twin.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "model"


class MixtureOfExperts(nn.Module):
    def __init__(self, width, classes, experts=6, k=2, weight_by_probability=True):
        super().__init__()
        self.router = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, experts))
        self.experts = nn.ModuleList(nn.Linear(width, classes) for _ in range(experts))
        self.k = k
        self.weight_by_probability = weight_by_probability

    def forward(self, x):
        probabilities = self.router(x).softmax(-1)
        top, chosen = probabilities.topk(self.k, dim=-1)
        share = top / top.sum(-1, keepdim=True) if self.weight_by_probability else torch.full_like(top, 1 / self.k)
        gates = torch.zeros_like(probabilities).scatter(-1, chosen, share)
        answers = torch.stack([expert(x) for expert in self.experts], dim=1)
        return (gates.unsqueeze(-1) * answers).sum(1)


def regimes(count, rules, generator):
    x = torch.randn(count, 10, generator=generator)
    regime = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0).long()
    scores = torch.einsum("nd,ndc->nc", x[:, 2:], rules[regime])
    return TensorDataset(x, scores.argmax(1))


def accuracy(logits, y):
    return (logits.argmax(1) == y).float().mean().item()


def build(seed, **options):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    rules = torch.randn(4, 8, 3, generator=generator)
    model = MixtureOfExperts(10, 3, **options)
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-2),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(regimes(3000, rules, generator), batch_size=64, shuffle=True),
        val_loader=DataLoader(regimes(1000, rules, generator), batch_size=500),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=3, epochs=25)


def make(seed):
    return build(seed, weight_by_probability=False)


def twin(seed):
    return build(seed)
