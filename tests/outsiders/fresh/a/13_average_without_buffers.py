"""The averaged copy of the network, which is the one that is evaluated, follows the parameters and never the buffers:
its batch normalisation still uses the mean and variance of the first day.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("step", "model")
LEADS, LENGTH, RHYTHMS = 3, 64, 5


def recordings(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pulse curves of five rhythms: rate and shape of the beat differ."""
    y = torch.randint(RHYTHMS, (count,), generator=generator)
    rate = torch.tensor([3.0, 4.5, 6.0, 3.0, 6.0])[y] * (1 + 0.08 * torch.randn(count, generator=generator))
    sharp = torch.tensor([1.0, 1.0, 1.0, 4.0, 4.0])[y]
    phase = 6.28 * torch.rand(count, generator=generator)
    time = torch.linspace(0, 1, LENGTH)
    beat = torch.sin(6.28 * rate[:, None] * time + phase[:, None])
    beat = beat.sign() * beat.abs() ** sharp[:, None]
    gain = torch.tensor([1.0, -0.6, 0.3])[None, :, None]
    return beat[:, None] * gain + 0.5 * torch.randn(count, LEADS, LENGTH, generator=generator), y


def network() -> nn.Sequential:
    layers: list[nn.Module] = []
    for fan_in, fan_out in ((LEADS, 16), (16, 24), (24, 32)):
        layers += [
            nn.Conv1d(fan_in, fan_out, 5, padding=2, bias=False),
            nn.BatchNorm1d(fan_out),
            nn.ReLU(),
            nn.MaxPool1d(2),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, RHYTHMS))


class Averaged(nn.Module):
    """Trains one network and evaluates the moving average of its weights."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.average = copy.deepcopy(net).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) if self.training else self.average(x)

    @torch.no_grad()
    def update(self, tensors: Callable[[nn.Module], Iterable[Tensor]], decay: float = 0.95) -> None:
        for mean, new in zip(tensors(self.average), tensors(self.net), strict=True):
            if mean.is_floating_point():
                mean.lerp_(new, 1 - decay)
            else:
                mean.copy_(new)


def all_tensors(module: nn.Module) -> Iterable[Tensor]:
    return module.state_dict().values()


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, tensors: Callable[[nn.Module], Iterable[Tensor]]) -> tuple[Program, Spec]:
    generator = torch.Generator().manual_seed(seed)
    x, y = recordings(2400, generator)
    x = (x - x[:1900].mean((0, 2), keepdim=True)) / x[:1900].std((0, 2), keepdim=True)
    torch.manual_seed(seed)
    model = Averaged(network())
    loss_fn = nn.CrossEntropyLoss()

    def step(program: Program, batch: tuple[Tensor, Tensor]) -> None:
        program.optimizer.zero_grad()
        loss_fn(program.model(batch[0]), batch[1]).backward()
        program.optimizer.step()
        program.model.update(tensors)

    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.net.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=loss_fn,
        train_loader=DataLoader(TensorDataset(x[:1900], y[:1900]), batch_size=50, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(x[1900:], y[1900:]), batch_size=250),
        step=step,
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=RHYTHMS, epochs=15, frozen=("average.*",))


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, nn.Module.parameters)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, all_tensors)
