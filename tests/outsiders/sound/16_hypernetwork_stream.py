"""Regression from few points: a hypernetwork writes a small network for each function of a stream.

Unusual: the weights that predict are outputs of the model and no parameters of it. An example is a whole function (a
sine of random amplitude and phase): eight noisy context points go in, and the network that they give is asked at
sixteen other places. Training data is a stream (an iterable data set without a length) that never repeats: each pass
takes up the random stream where the last one ended, so that an epoch is only an agreed number of examples (declared).
Context and query places are from one function, never the same points. The context is a set: a mean makes the order
irrelevant.

Metric: R squared over all queries of 256 unseen functions (0 for a constant answer).
Measured after 20 epochs: seed 0: loss 0.06705, metric 0.9279; seed 1: loss 0.0615, metric 0.9266.
"""

import math

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from lecture_lib.debugging.program import Program, Spec

HIDDEN, CONTEXT, QUERIES, BATCHES, SIZE = 16, 8, 16, 60, 32


def functions(count, generator):
    amplitude = 0.5 + 1.5 * torch.rand(count, 1, generator=generator)
    phase = 2 * math.pi * torch.rand(count, 1, generator=generator)
    x = 4 * torch.rand(count, CONTEXT + QUERIES, generator=generator) - 2
    y = amplitude * torch.sin(1.5 * x + phase)
    y[:, :CONTEXT] += 0.05 * torch.randn(count, CONTEXT, generator=generator)
    context = torch.stack([x[:, :CONTEXT], y[:, :CONTEXT]], 2)
    return context, x[:, CONTEXT:], y[:, CONTEXT:]


class Stream(IterableDataset):
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __iter__(self):
        for _ in range(BATCHES):
            yield functions(SIZE, self.generator)


class Hyper(nn.Module):
    def __init__(self):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU())
        self.write = nn.Sequential(nn.Linear(64, 96), nn.SiLU(), nn.Linear(96, 3 * HIDDEN + 1))

    def forward(self, inputs):
        context, places = inputs
        first, shift, second, offset = self.write(self.point(context).mean(1)).split([HIDDEN] * 3 + [1], dim=1)
        hidden = torch.tanh(places[:, :, None] * first[:, None] + shift[:, None])
        return (hidden * second[:, None]).sum(2) + offset


def unpack(batch):
    context, places, values = batch
    return (context, places), values


def metric(predicted, values):
    return 1 - (mse_loss(predicted, values) / values.var(unbiased=False)).item()


def make(seed):
    torch.manual_seed(seed)
    model = Hyper()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    epochs = 20
    val = TensorDataset(*functions(256, torch.Generator().manual_seed(10_000 + seed)))
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=mse_loss,
        train_loader=DataLoader(Stream(seed), batch_size=None),
        val_loader=DataLoader(val, 64),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs),
        unpack=unpack,
        metric=metric,
    )
    return program, Spec(task="regression", epochs=epochs, examples=BATCHES * SIZE, scheduler_steps="epoch")
