"""A network learns an embedding in which samples of one identity are neighbours, by one proxy per identity.

Fault: OneCycleLR is made with `total_steps=epochs * len(train_loader)`, that is for a step after each batch, but
`scheduler.step()` stands one level too far out and is called after each epoch, as with the schedules that the author
used before. The rate so stays near its first value, a 25th of `max_lr`, for the whole training: no warm-up, no peak.

Measured (seeds 0 and 1): recall@1 in validation 0.890 and 0.916 faulty, 0.965 and 0.955 repaired; loss 0.49
and 0.42 faulty, 0.19 and 0.16 repaired.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("schedule",)
EPOCHS = 12
IDENTITIES = 40


class ProxyNet(nn.Module):
    """Embedding network; its outputs are scaled cosines between the embedding and each identity's proxy."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 16))
        self.proxies = nn.Parameter(torch.randn(IDENTITIES, 16))

    def embed(self, x: Tensor) -> Tensor:
        return F.normalize(self.encoder(x), dim=1)

    def forward(self, x: Tensor) -> Tensor:
        return 12 * self.embed(x) @ F.normalize(self.proxies, dim=1).T


def _loaders(seed: int) -> tuple[DataLoader, DataLoader]:
    generator = torch.Generator().manual_seed(seed)
    identity = torch.randn(IDENTITIES, 10, generator=generator)
    mixing = torch.randn(30, 64, generator=generator) / 30**0.5
    y = torch.arange(IDENTITIES).repeat_interleave(90)[torch.randperm(IDENTITIES * 90, generator=generator)]
    nuisance = 1.6 * torch.randn(len(y), 20, generator=generator)
    x = torch.tanh(torch.cat([identity[y], nuisance], dim=1) @ mixing)
    train, val = slice(0, 2600), slice(2600, None)
    x = (x - x[train].mean(0)) / x[train].std(0)
    train_set, val_set = TensorDataset(x[train], y[train]), TensorDataset(x[val], y[val])
    return DataLoader(train_set, 64, shuffle=True, generator=generator), DataLoader(val_set, 256)


def _evaluate(program: Program) -> dict[str, float]:
    was = program.model.training
    program.model.eval()
    with torch.no_grad():
        x, y = (torch.cat(part) for part in zip(*program.val_loader, strict=True))
        loss = program.loss_fn(program.model(x), y).item()
        embedding = program.model.embed(x)
        similarity = (embedding @ embedding.T).fill_diagonal_(-2)
    program.model.train(was)
    return {"loss": loss, "recall@1": (y[similarity.argmax(1)] == y).float().mean().item()}


def _train_epoch(program: Program) -> None:
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
    program.scheduler.step()


def _train_epoch_repaired(program: Program) -> None:
    program.model.train()
    for batch in program.train_loader:
        program.run_step(batch)
        program.scheduler.step()


def make(seed: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    train_loader, val_loader = _loaders(seed)
    model = ProxyNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    total = EPOCHS * len(train_loader)
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=train_loader,
        val_loader=val_loader,
        scheduler=torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=total),
        train_epoch=_train_epoch,
        evaluate=_evaluate,
    )
    return program, Spec(task="classification", classes=IDENTITIES, epochs=EPOCHS, scheduler_steps="batch")


def twin(seed: int) -> tuple[Program, Spec]:
    program, spec = make(seed)
    program.train_epoch = _train_epoch_repaired
    return program, spec
