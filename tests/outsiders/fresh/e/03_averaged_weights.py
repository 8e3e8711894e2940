"""Small images: digits with a CNN with batch norm; an exponential moving average of the weights is validated.

Fault: the average follows `parameters()` only. The buffers of its batch norms keep mean 0 and variance 1 of the
start, so that the averaged weights run with statistics that are not theirs. The update was copied from a project
whose models had layer norm.

Measured (seeds 0 and 1): validation accuracy 0.32 and 0.28 faulty, 0.99 and 0.99 twin.
"""

import copy

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)


def block(inside, outside):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU())


class WithAverage(nn.Module):
    """A network and the moving average of it: the first is trained, the second is what evaluation sees."""

    def __init__(self, net, decay):
        super().__init__()
        self.net = net
        self.ema = copy.deepcopy(net).requires_grad_(False)
        self.ema.eval()
        self.decay = decay

    def train(self, mode=True):
        super().train(mode)
        self.ema.eval()
        return self

    def forward(self, x):
        return self.net(x) if self.training else self.ema(x)


@torch.no_grad()
def follow(model, buffers):
    for average, now in zip(model.ema.parameters(), model.net.parameters(), strict=False):
        average.lerp_(now, 1 - model.decay)
    if buffers:
        for average, now in zip(model.ema.buffers(), model.net.buffers(), strict=False):
            average.copy_(now)


def accuracy(out, y):
    return (out.argmax(1) == y).float().mean().item()


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    digits = load_digits()
    images = (torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16 - 0.305) / 0.376
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    a, b = order[:1300], order[1300:]
    net = nn.Sequential(
        block(1, 12),
        block(12, 16),
        nn.MaxPool2d(2),
        block(16, 24),
        block(24, 32),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    model = WithAverage(net, decay=0.97)
    optimizer = torch.optim.AdamW(model.net.parameters(), lr=3e-3, weight_decay=1e-2)

    def step(program, batch):
        x, y = batch
        loss = program.loss_fn(program.model(x), y)
        program.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        program.optimizer.step()
        follow(program.model, buffers=ok)

    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(
            TensorDataset(images[a], labels[a]), 32, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(TensorDataset(images[b], labels[b]), 128),
        step=step,
        metric=accuracy,
    )
    spec = Spec(task="classification", classes=10, epochs=8, frozen=("ema.*",), eval_modules=("ema", "ema.*"))
    return program, spec


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
