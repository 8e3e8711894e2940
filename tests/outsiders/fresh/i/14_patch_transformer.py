"""A small vision transformer reads digit images as sixteen patches, with a linear warm-up and a cosine decay after it.

Fault: The schedule is written in optimizer steps (80 for the warm-up, epochs x batches in all), but scheduler.step()
stands one level too far left and runs once in an epoch: the run ends within the warm-up, at a fifth of the rate, and
never decays. The twin steps the schedule after every batch.

Measured (seeds 0 and 1): validation accuracy 0.816 and 0.824 with the fault, 0.933 and 0.951 in the twin (loss 0.686
and 0.701, 0.203 and 0.152); the highest learning rate is 0.001 instead of 0.005.
"""

import math

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("schedule", "step")
EPOCHS = 15
WARM_UP = 80
WIDTH = 32


def datasets(seed):
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    train, val = train_test_split(range(len(labels)), test_size=0.25, random_state=seed, stratify=digits.target)
    images = (images - images[train].mean()) / images[train].std()
    patches = images.unfold(1, 2, 2).unfold(2, 2, 2).flatten(1, 2).flatten(2)
    return TensorDataset(patches[train], labels[train]), TensorDataset(patches[val], labels[val])


class PatchTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(4, WIDTH)
        self.position = nn.Parameter(0.1 * torch.randn(16, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, patches):
        return self.head(self.encoder(self.lift(patches) + self.position).mean(1))


def warm_up_and_cosine(optimizer, total):
    def factor(step):
        if step < WARM_UP:
            return (step + 1) / WARM_UP
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - WARM_UP) / (total - WARM_UP))))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_epoch(program):
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
    program.scheduler.step()


def train_epoch_twin(program):
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
        program.scheduler.step()


def accuracy(outputs, targets):
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed, epoch):
    torch.manual_seed(seed)
    train, val = datasets(seed)
    model = PatchTransformer()
    shuffle = torch.Generator().manual_seed(seed)
    loader = DataLoader(train, batch_size=64, shuffle=True, generator=shuffle)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=loader,
        val_loader=DataLoader(val, batch_size=150),
        scheduler=warm_up_and_cosine(optimizer, EPOCHS * len(loader)),
        train_epoch=epoch,
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=10, epochs=EPOCHS, scheduler_steps="batch")


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, train_epoch)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, train_epoch_twin)
