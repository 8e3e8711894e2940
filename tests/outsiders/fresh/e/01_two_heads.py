"""Multi-task: from a scanned digit, its class and its total ink; one shared trunk and two heads.

Fault: the loop over the tasks' losses clears the gradients before each backward, so that only the last task's
gradients reach the optimizer. It came in when a single-task loop (zero_grad, backward) was wrapped in `for task in
losses`.

Measured (seeds 0 and 1): accuracy 0.08 and 0.05 faulty, 0.96 and 0.97 twin (the ink is learnt in both).
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)


class Scans(Dataset):
    """Digits with two targets, given as dictionaries."""

    def __init__(self, rows):
        digits = load_digits()
        pixels = torch.tensor(digits.data[rows.numpy()], dtype=torch.float32) / 16
        self.image = (pixels - 0.305) / 0.376
        self.digit = torch.tensor(digits.target[rows.numpy()])
        self.ink = (pixels.sum(1) - 19.5) / 2.9

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        return {"image": self.image[i], "digit": self.digit[i], "ink": self.ink[i]}


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU())
        self.ink = nn.Linear(48, 1)
        self.digit = nn.Linear(48, 10)

    def forward(self, x):
        h = self.trunk(x)
        return {"digit": self.digit(h), "ink": self.ink(h).squeeze(1)}


def unpack(batch):
    return batch["image"], {"digit": batch["digit"], "ink": batch["ink"]}


def task_losses(out, y):
    return {"digit": F.cross_entropy(out["digit"], y["digit"]), "ink": F.mse_loss(out["ink"], y["ink"])}


def total_loss(out, y):
    return sum(task_losses(out, y).values())


def evaluate(program):
    program.model.eval()
    right = squared = count = 0
    with torch.no_grad():
        for batch in program.val_loader:
            x, y = program.parts(batch)
            out = program.outputs(x)
            right += (out["digit"].argmax(1) == y["digit"]).sum().item()
            squared += ((out["ink"] - y["ink"]) ** 2).sum().item()
            count += len(x)
    program.model.train()
    return {"accuracy": right / count, "ink_mse": squared / count}


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    order = torch.randperm(1797, generator=torch.Generator().manual_seed(seed))
    train, val = Scans(order[:1400]), Scans(order[1400:])
    model = TwoHeads()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def step(program, batch):
        x, y = program.parts(batch)
        losses = task_losses(program.outputs(x), y)
        if ok:
            program.optimizer.zero_grad()
        for loss in losses.values():
            if not ok:
                program.optimizer.zero_grad()
            loss.backward(retain_graph=True)
        program.optimizer.step()

    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=total_loss,
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 128),
        unpack=unpack,
        step=step,
        evaluate=evaluate,
    )
    return program, Spec(epochs=15)


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
