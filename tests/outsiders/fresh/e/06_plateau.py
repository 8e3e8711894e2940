"""Multi-label: which of six topics a text has, from a bag of words; the rate falls on a plateau of F1.

Fault: ReduceLROnPlateau is left in its default mode "min" but is given the F1 score. Each improvement counts as a bad
epoch, and the rate is cut tenfold every third epoch. The scheduler was fed with the loss before the F1 came in.

Measured (seeds 0 and 1): validation F1 0.59 and 0.60 faulty, 0.81 and 0.79 twin.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("schedule",)
TOPICS, WORDS = 6, 120


def texts(count, words, g):
    """Counts of words: every topic of a text adds some of its own words to a common background."""
    y = (torch.rand(count, TOPICS, generator=g) < 0.3).float()
    x = torch.poisson(0.25 + y @ words, generator=g)
    return torch.log1p(x), y


def micro_f1(out, y):
    guess = (out > 0).float()
    hit = (guess * y).sum()
    return (2 * hit / (guess.sum() + y.sum()).clamp(min=1)).item()


@torch.no_grad()
def validate(program):
    program.model.eval()
    outs, ys = zip(*((program.model(x), y) for x, y in program.val_loader), strict=False)
    program.model.train()
    out, y = torch.cat(outs), torch.cat(ys)
    return {"loss": program.loss_fn(out, y).item(), "f1": micro_f1(out, y)}


def train_epoch(program):
    program.model.train()
    for x, y in program.train_loader:
        program.optimizer.zero_grad()
        loss = program.loss_fn(program.model(x), y)
        loss.backward()
        program.optimizer.step()
    program.scheduler.step(validate(program)["f1"])


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    words = (torch.rand(TOPICS, WORDS, generator=g) < 0.12).float() * torch.rand(TOPICS, WORDS, generator=g)
    train, val = texts(2000, words, g), texts(500, words, g)
    model = nn.Sequential(nn.Linear(WORDS, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, TOPICS))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max" if ok else "min", factor=0.1, patience=2
    )
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(TensorDataset(*train), 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(*val), 250),
        scheduler=scheduler,
        train_epoch=train_epoch,
        evaluate=validate,
        metric=micro_f1,
    )
    return program, Spec(task="multi-label", classes=TOPICS, epochs=25, scheduler_steps="epoch")


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
