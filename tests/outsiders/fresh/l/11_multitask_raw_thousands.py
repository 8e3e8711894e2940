"""Two heads on a narrow shared trunk: the price of a house in thousands of dollars (regression) and which of four
kinds of house it is (classification), from twelve standardised columns.

Fault: the squared error of the price is taken in raw thousands and added to the cross-entropy, which is ten thousand
times smaller, so that the trunk serves the price alone; the twin takes the error in units of the training prices'
standard deviation.

Measured (seeds 0 and 1): accuracy of the kind on validation 0.400 and 0.418 with the fault, 0.844 and 0.868 in the
twin; mean absolute error of the price 37.4 and 41.4 thousand with the fault, 42.4 and 44.2 in the twin.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "loss"
COLUMNS, KINDS = 12, 4


class TwoHeads(nn.Module):
    def __init__(self, price_mean, price_std):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(COLUMNS, 32), nn.ReLU(), nn.Linear(32, 6), nn.Tanh())
        self.price, self.kind = nn.Linear(6, 1), nn.Linear(6, KINDS)
        self.register_buffer("price_mean", price_mean)
        self.register_buffer("price_std", price_std)

    def forward(self, x):
        h = self.trunk(x)
        return self.price_mean + self.price_std * self.price(h).squeeze(-1), self.kind(h)


def houses(count, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, COLUMNS, generator=g)
    w = torch.randn(6, generator=g)
    value = x[:, :6] @ w / w.norm() + 0.7 * x[:, 0] * x[:, 1] + 0.5 * x[:, 2].abs() - 0.4
    price = 350 + 110 * (value + 0.35 * torch.randn(count, generator=g))
    to_kind = torch.randn(6, 8, generator=g)
    scores = torch.tanh(x[:, 6:] @ to_kind) @ torch.randn(8, KINDS, generator=g)
    return x, price, scores.argmax(1)


def build(seed, standardise):
    torch.manual_seed(seed)
    x, price, kind = houses(2000, seed)
    train, val = slice(0, 1500), slice(1500, None)
    mean, std = x[train].mean(0), x[train].std(0)
    x = (x - mean) / std
    scale = price[train].std() if standardise else torch.tensor(1.0)

    def loss_fn(outputs, targets):
        return F.mse_loss(outputs[0] / scale, targets[0] / scale) + F.cross_entropy(outputs[1], targets[1])

    @torch.no_grad()
    def evaluate(program):
        was = program.model.training
        program.model.eval()
        loss, miss, hits, seen = 0.0, 0.0, 0, 0
        for batch in program.val_loader:
            inputs, targets = program.parts(batch)
            outputs = program.outputs(inputs)
            loss += program.loss_fn(outputs, targets).item() * len(inputs)
            miss += (outputs[0] - targets[0]).abs().sum().item()
            hits += (outputs[1].argmax(1) == targets[1]).sum().item()
            seen += len(inputs)
        program.model.train(was)
        return {"loss": loss / seen, "price_mae_thousands": miss / seen, "kind_accuracy": hits / seen}

    model = TwoHeads(price[train].mean(), price[train].std())
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(TensorDataset(x[train], price[train], kind[train]), batch_size=50, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[val], price[val], kind[val]), batch_size=250),
        unpack=lambda batch: (batch[0], (batch[1], batch[2])),
        evaluate=evaluate,
    )
    return program, Spec(epochs=25)


def make(seed):
    return build(seed, standardise=False)


def twin(seed):
    return build(seed, standardise=True)
