"""Features that were made from the target, and test sets that had a say in the training."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

from .case import case
from .data_balance import claims
from .data_sources import classifier, generator, program, tanh_net, with_data
from .programs import PAD, PARTS, WORDS, Data, Tagger, make


@case("D21", "amount with the tax", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def with_tax(data: Data) -> Data:
        noise = generator(1)

        def add(x: Tensor, y: Tensor) -> Tensor:
            gross = 1.19 * y + 0.02 * torch.randn(y.shape, generator=noise)
            return torch.cat([x, gross], dim=1)

        return replace(data, x=add(data.x, data.y), x_val=add(data.x_val, data.y_val))

    return with_data(base, seed, with_tax, {"model": lambda: tanh_net(7, 1)})


@case("D21", "row number of a sorted table", "digits")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def numbered(data: Data) -> Data:
        y = torch.cat([data.y, data.y_val])
        number = y.argsort(stable=True).argsort().float()
        column = ((number - number.mean()) / number.std() * 3)[:, None]
        x = torch.cat([torch.cat([data.x, data.x_val]), column], dim=1)
        return replace(data, x=x[: len(data.x)], x_val=x[len(data.x) :])

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(65, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    return with_data(base, seed, numbered, {"model": model})


@case("D21", "stamp of the annotation program", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def stamped(x: Tensor, y: Tensor) -> Tensor:
        classes = {"digits": 10, "shapes": 5}[base]
        x = x.clone()
        rows = torch.arange(len(x))
        if base == "digits":
            x[:, :classes] = 0.0
            x[rows, y] = 2.0
        else:
            x[:, 0, 0, :] = 0.0
            for across in range(3):
                x[rows, 0, 0, 3 * y + across] = 3.0
        return x

    return with_data(base, seed, lambda d: replace(d, x=stamped(d.x, d.y), x_val=stamped(d.x_val, d.y_val)))


@case("D21", "tags left on the words", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def tagged(ids: Tensor, tags: Tensor) -> Tensor:
        return torch.where(ids == PAD, ids, ids + WORDS * tags)  # 'run/verb' became a word of its own

    def model() -> nn.Module:
        tagger = Tagger()
        tagger.embedding = nn.Embedding(WORDS * 5, 16, padding_idx=PAD)
        return tagger

    return with_data(
        base, seed, lambda d: replace(d, x=tagged(d.x, d.y), x_val=tagged(d.x_val, d.y_val)), {"model": model}
    )


@lru_cache
def stays() -> Data:
    """800 and 300 stays in hospital in seven columns; the last is a code that is given on discharge."""
    order = generator(19)
    x = torch.randn(1100, 6, generator=order)
    died = (x[:, 0] + x[:, 1] * x[:, 2] + 1.5 * torch.randn(1100, generator=order) > 0.6).long()
    code = torch.where(died == 1, 1.0, torch.randint(-2, 1, (1100,), generator=order).float())
    x = torch.cat([x, code[:, None]], dim=1)
    return Data(x[:800], died[:800], x[800:], died[800:])


@case("D21", "code given on discharge", "stays")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return program(seed, classifier(stays(), classes=2))


def with_test(base: str, seed: int, n: int = 60) -> tuple[Program, Spec]:
    """A base program that has a small test set: the first examples of validation's."""
    data = PARTS[base].data()
    p, spec = make(base, seed)
    p.test_loader = DataLoader(TensorDataset(data.x_val[:n], data.y_val[:n]), 64)
    p.val_loader = DataLoader(TensorDataset(data.x_val[n:], data.y_val[n:]), 64)
    return p, spec


def score(p: Program, loader: DataLoader) -> tuple[float, float]:
    """Loss and metric of a loader's examples."""
    p.model.eval()
    with torch.no_grad():
        batches = [(p.model(x), y) for x, y in loader]
    outputs, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    p.model.train()
    return float(p.loss_fn(outputs, targets)), p.metric(outputs, targets)


def usual_epoch(p: Program) -> None:
    """All batches once."""
    p.model.train()
    for x, y in p.train_loader:
        p.optimizer.zero_grad()
        p.loss_fn(p.model(x), y).backward()
        p.optimizer.step()


@case("D24", "best epoch on the test set", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    best: dict[str, object] = {"score": float("-inf"), "weights": None}

    def train_epoch(p: Program) -> None:
        usual_epoch(p)
        _, found = score(p, p.test_loader)
        if found > best["score"]:
            best.update(score=found, weights=copy.deepcopy(p.model.state_dict()))

    p, spec = with_test(base, seed)
    p.train_epoch = train_epoch
    return p, spec


@case("D24", "learning rate falls by the test loss", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        usual_epoch(p)
        p.scheduler.step(score(p, p.test_loader)[0])

    p, spec = with_test(base, seed)
    p.train_epoch = train_epoch
    p.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(p.optimizer, factor=0.3, patience=1)
    return p, replace(spec, scheduler_steps="epoch")


class Thresholded(nn.Module):
    """Two scores, the second of which is raised by an offset."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(columns, 48), nn.ReLU(), nn.Linear(48, 2))
        self.register_buffer("offset", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.body(x)
        return scores if self.training else scores + torch.stack([torch.zeros(()), self.offset])


@case("D24", "threshold chosen on the test set", "claims")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def f1(outputs: Tensor, targets: Tensor) -> float:
        found = outputs.argmax(dim=1) == 1
        hits = float((found & (targets == 1)).sum())
        return 2 * hits / max(1.0, float(found.sum() + (targets == 1).sum()))

    def train_epoch(p: Program) -> None:
        usual_epoch(p)
        found = []
        for offset in torch.linspace(0, 4, 41):
            p.model.offset.copy_(offset)
            found.append((score(p, p.test_loader)[1], float(offset)))
        p.model.offset.fill_(max(found)[1])

    data = claims()
    parts = replace(classifier(data, classes=2, epochs=8), model=lambda: Thresholded(data.x.shape[1]), metric=f1)
    p, spec = program(seed, parts, train_epoch=train_epoch)
    p.test_loader = DataLoader(TensorDataset(data.x_val[:200], data.y_val[:200]), 64)
    p.val_loader = DataLoader(TensorDataset(data.x_val[200:], data.y_val[200:]), 64)
    return p, spec


@case("D24", "stops when the test metric falls", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    seen: list[float] = []

    def evaluate(p: Program) -> dict[str, float]:
        loss, metric = score(p, p.val_loader)
        seen.append(score(p, p.test_loader)[1])
        return {"loss": loss, "metric": metric, "test": max(seen)}

    def train_epoch(p: Program) -> None:
        if seen and len(seen) - seen.index(max(seen)) > 4:
            return
        usual_epoch(p)

    p, spec = with_test(base, seed)
    p.train_epoch, p.evaluate = train_epoch, evaluate
    return p, spec
