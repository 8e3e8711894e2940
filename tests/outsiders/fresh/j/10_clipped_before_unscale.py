"""Handwritten digits with a residual network of full layers, trained in half precision with a gradient scaler.

The forward pass runs under autocast, the scaler multiplies the loss, and gradients are clipped to a global norm of 2
before SGD with momentum takes its step.

Fault: the gradients are clipped while they are still multiplied by the scale, so that nearly every step is cut to a
small fraction of what it should be. The twin calls unscale_ before clipping.

Measured (seeds 0 and 1): accuracy 0.836 and 0.791 with the fault, 0.960 and 0.958 in the twin.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)
MAX_NORM = 2.0


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.inner(self.norm(x))


def build(seed: int, unscale: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32), torch.tensor(digits.target)
    train, val = train_test_split(torch.arange(len(y)), test_size=0.25, stratify=y, random_state=seed)
    x = (x - x[train].mean()) / x[train].std()
    model = nn.Sequential(nn.Linear(64, 64), Block(64), Block(64), nn.LayerNorm(64), nn.Linear(64, 10))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)

    def forward(model, inputs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(inputs).float()

    def step(program, batch):
        inputs, targets = batch
        program.optimizer.zero_grad(set_to_none=True)
        loss = program.loss_fn(program.outputs(inputs), targets)
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(program.optimizer)
        nn.utils.clip_grad_norm_(program.model.parameters(), MAX_NORM)
        scaler.step(program.optimizer)
        scaler.update()

    program = Program(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[train], y[train]), batch_size=32, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[val], y[val]), batch_size=150),
        forward=forward,
        step=step,
        metric=lambda out, target: float((out.argmax(1) == target).float().mean()),
    )
    return program, Spec(task="classification", classes=10, epochs=8, max_norm=MAX_NORM)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, unscale=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, unscale=True)
