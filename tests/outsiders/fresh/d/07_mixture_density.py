"""Mixture density network for an inverse problem: several joint angles reach the same height, and all should be given.

Fault: the loss weights each component's negative log likelihood with its mixture weight and sums, -sum(pi * log N),
instead of taking -log(sum(pi * N)). It reads like the expectation that one has in mind, and it falls nicely, but each
x then gets one wide component instead of several narrow ones. The evaluation uses torch.distributions and is right.

Measured, negative log likelihood on validation (lower is better), faulty / twin: seed 0: 0.728 / -0.718; seed 1:
0.821 / -0.537.
"""

import math

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily, Normal
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
COMPONENTS = 5


class MixtureNet(nn.Module):
    """Gives log weights, means and log widths next to each other."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.head = nn.Linear(48, 3 * COMPONENTS)
        with torch.no_grad():
            # Means start spread out, or all components stay the same.
            self.head.bias[COMPONENTS : 2 * COMPONENTS] = torch.linspace(-1.5, 1.5, COMPONENTS)

    def forward(self, x: Tensor) -> Tensor:
        weights, means, widths = self.head(self.body(x)).chunk(3, 1)
        return torch.cat([weights.log_softmax(1), means, widths.clamp(-4, 3)], 1)


def mixture_nll(out: Tensor, y: Tensor) -> Tensor:
    log_weights, means, log_widths = out.chunk(3, 1)
    log_normal = -0.5 * ((y - means) / log_widths.exp()) ** 2 - log_widths - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(log_weights + log_normal, 1).mean()


def weighted_nll(out: Tensor, y: Tensor) -> Tensor:
    log_weights, means, log_widths = out.chunk(3, 1)
    log_normal = -0.5 * ((y - means) / log_widths.exp()) ** 2 - log_widths - 0.5 * math.log(2 * math.pi)
    return -(log_weights.exp() * log_normal).sum(1).mean()


def evaluate(program: Program) -> dict[str, float]:
    was = program.model.training
    program.model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for x, y in program.val_loader:
            log_weights, means, log_widths = program.model(x).chunk(3, 1)
            mixture = MixtureSameFamily(Categorical(logits=log_weights), Normal(means, log_widths.exp()))
            total -= float(mixture.log_prob(y[:, 0]).sum())
            count += len(y)
    program.model.train(was)
    return {"nll": total / count}


def arm(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    angle = torch.rand(count, 1, generator=generator) * 2 - 1
    height = angle + 0.9 * torch.sin(2 * math.pi * angle) + 0.08 * torch.randn(count, 1, generator=generator)
    return height, 1.5 * angle


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(70 + seed)
    train, val = arm(2000, generator), arm(800, generator)
    model = MixtureNet()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        torch.optim.Adam(model.parameters(), lr=5e-3),
        mixture_nll if ok else weighted_nll,
        train_loader=DataLoader(TensorDataset(*train), batch_size=100, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(*val), batch_size=200),
        evaluate=evaluate,
    )
    return program, Spec(epochs=50)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
