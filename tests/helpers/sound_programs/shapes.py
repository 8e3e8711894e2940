"""Outputs that the loss reshapes, series, small pictures, batches and outputs of other types, two inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from bank.programs import WORDS, accuracy, changed, digits_data, make, sequence_data
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.data import load_digits
from lecture_lib.debugging import Program, Spec

from .register import sound


class Tagger(nn.Module):
    """Ids [B, T] to scores [B, T, C]."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, tags)

    def forward(self, ids: Tensor) -> Tensor:
        """Scores."""
        return self.head(self.memory(self.embedding(ids))[0])


def reshaped_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean over the words."""
    return F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1), ignore_index=-100)


def of_words(outputs: Tensor, targets: Tensor) -> float:
    """Share of the words that are right."""
    kept = targets != -100
    return float((outputs.argmax(dim=-1) == targets)[kept].float().mean())


@sound("tagger with outputs [B, T, C] and a loss that reshapes them", "last axis")
def _() -> tuple[Program, Spec]:
    parts = changed("sequence", model=lambda: Tagger(5), loss_fn=reshaped_loss, metric=of_words)
    return make("sequence", 0, parts=parts)


@sound("the same with as many tags as words in a sentence", "last axis")
def _() -> tuple[Program, Spec]:
    from dataclasses import replace

    parts = changed("sequence", model=lambda: Tagger(12), loss_fn=reshaped_loss, metric=of_words)
    spec = replace(parts.spec, classes=12)
    found = sequence_data()
    data = replace(found, y=again(found.x, found.y), y_val=again(found.x_val, found.y_val))
    return make("sequence", 0, spec, replace(parts, data=lambda: data))


def again(ids: Tensor, tags: Tensor) -> Tensor:
    """Twelve tags in place of five."""
    return torch.where(tags >= 0, (tags + 5 * (ids % 3)) % 12, tags)


@sound("language model: scores [B, T, V] of the next symbol, task not declared", "last axis")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(5)
    start = torch.randint(0, 11, (900, 1), generator=generator)
    noise = torch.randint(0, 4, (900, 11), generator=generator)
    ids = [start[:, 0]]
    for step in range(11):
        follows = (ids[-1] * 3 + 1) % 11
        drawn = torch.randint(0, 11, (900,), generator=generator)
        ids.append(torch.where(noise[:, step] == 0, drawn, follows))
    text = torch.stack(ids, dim=1)
    x, y = text[:, :-1], text[:, 1:]
    model = Tagger(11)
    return Program(
        model,
        torch.optim.AdamW(model.parameters(), lr=5e-3),
        reshaped_loss,
        DataLoader(TensorDataset(x[:650], y[:650]), 50, shuffle=True),
        DataLoader(TensorDataset(x[650:], y[650:]), 50),
        metric=of_words,
    ), Spec(task="sequence", classes=11, epochs=8, causal=True)


class Decoder(nn.Module):
    """A sentence is read, then said backwards, word by word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 16)
        self.reader, self.writer = nn.GRU(16, 64, batch_first=True), nn.GRUCell(64, 64)
        self.head = nn.Linear(64, 9)

    def forward(self, ids: Tensor) -> Tensor:
        """Scores [B, T, V] of each word."""
        read, last = self.reader(self.words(ids))
        state, outputs = last[0], []
        for step in range(ids.shape[1]):
            state = self.writer(read[:, ids.shape[1] - 1 - step], state)
            outputs.append(self.head(state))
        return torch.stack(outputs, dim=1)


@sound("sequence to sequence, the loss summed over the steps of the decoder", "last axis")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    read = torch.randint(1, 9, (700, 9), generator=torch.Generator().manual_seed(1))
    model = Decoder()

    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        p.optimizer.zero_grad()
        outputs, loss = p.model(batch[0]), torch.zeros(())
        for number in range(outputs.shape[1]):
            loss = loss + F.cross_entropy(outputs[:, number], batch[1][:, number])
        loss.backward()
        p.optimizer.step()

    return Program(
        model,
        torch.optim.AdamW(model.parameters(), lr=5e-3),
        reshaped_loss,
        DataLoader(TensorDataset(read[:500], read[:500].flip(1)), 50, shuffle=True),
        DataLoader(TensorDataset(read[500:], read[500:].flip(1)), 50),
        metric=of_words,
        step=step,
    ), Spec(task="sequence", epochs=10)


def waves(classes: bool) -> tuple[Tensor, Tensor]:
    """Three channels of a sensor over 24 steps, [N, 24, 3], and the movement, or how fast it is."""
    generator = torch.Generator().manual_seed(3)
    label = torch.randint(3, (900,), generator=generator)
    speed = 0.4 + 0.4 * label + 0.1 * torch.rand(900, generator=generator)
    phase = 6.28 * torch.rand(900, 1, generator=generator)
    along = speed[:, None] * torch.arange(24) + phase
    x = torch.stack([along.sin(), along.cos(), 0.3 * torch.randn(900, 24, generator=generator)], dim=2)
    x = x + 0.2 * torch.randn(x.shape, generator=generator)
    y = (speed - speed.mean()) / speed.std()
    return x, (label if classes else y[:, None])


class OverTime(nn.Module):
    """A memory over [B, T, 3], then a layer."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.memory, self.head = nn.GRU(3, 32, batch_first=True), nn.Linear(32, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Scores [B, C], or one number."""
        return self.head(self.memory(x)[0][:, -1])


def over_time(classes: bool) -> tuple[Program, Spec]:
    """A program on the waves."""
    torch.manual_seed(0)
    x, y = waves(classes)
    model = OverTime(3 if classes else 1)
    program = Program(
        model,
        torch.optim.AdamW(model.parameters(), lr=5e-3),
        F.cross_entropy if classes else F.mse_loss,
        DataLoader(TensorDataset(x[:650], y[:650]), 50, shuffle=True),
        DataLoader(TensorDataset(x[650:], y[650:]), 50),
        metric=accuracy if classes else None,
    )
    return program, Spec(task="classification" if classes else "regression", classes=3 if classes else None, epochs=8)


@sound("classes of series [B, T, 3]", "not surely pictures")
def _() -> tuple[Program, Spec]:
    return over_time(True)


@sound("a number for a series [B, T, 3]")
def _() -> tuple[Program, Spec]:
    return over_time(False)


@sound("forecast of the next steps, [B, T, 3] to [B, 6]")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    x, _ = waves(True)
    y = x[:, 18:, 0]
    model = OverTime(6)
    return Program(
        model,
        torch.optim.AdamW(model.parameters(), lr=5e-3),
        F.mse_loss,
        DataLoader(TensorDataset(x[:650, :18], y[:650]), 50, shuffle=True),
        DataLoader(TensorDataset(x[650:, :18], y[650:]), 50),
    ), Spec(task="regression", epochs=10)


def small_pictures(flat: bool) -> tuple[Program, Spec]:
    """Digits of 8 x 8 pixels, [N, 64] or [N, 1, 8, 8]."""
    torch.manual_seed(0)
    found = load_digits()
    x, y = found.images.reshape(-1, 1, 8, 8) / found.images.max(), found.labels
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    x, y = (x.flatten(1) if flat else x)[order], y[order]
    model = (
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        if flat
        else nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)),
        )
    )
    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=2e-3),
        F.cross_entropy,
        DataLoader(TensorDataset(x[:1200], y[:1200]), 50, shuffle=True),
        DataLoader(TensorDataset(x[1200:], y[1200:]), 50),
        metric=accuracy,
    ), Spec(task="classification", classes=10, epochs=10)


@sound("8 x 8 digits in a row")
def _() -> tuple[Program, Spec]:
    return small_pictures(True)


@sound("8 x 8 digits as pictures", "not surely pictures")
def _() -> tuple[Program, Spec]:
    return small_pictures(False)


@sound("a list of dicts as batches, no unpack", "dict")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    data = digits_data()
    p, spec = make("digits", 0)

    def rows(x: Tensor, y: Tensor) -> list[dict[str, Tensor]]:
        return [{"pixels": a, "label": b} for a, b in zip(x, y, strict=True)]

    def train_epoch(p: Program) -> None:
        p.model.train()
        for batch in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(batch["pixels"]), batch["label"]).backward()
            p.optimizer.step()

    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        with torch.no_grad():
            right = [(p.model(b["pixels"]).argmax(1) == b["label"]).float() for b in p.val_loader]
        return {"accuracy": float(torch.cat(right).mean())}

    p.train_loader = DataLoader(rows(data.x, data.y), 64, shuffle=True)
    p.val_loader = DataLoader(rows(data.x_val, data.y_val), 64)
    p.train_epoch, p.evaluate = train_epoch, evaluate
    return p, spec


@sound("the next value of a series with seasons")
def _() -> tuple[Program, Spec]:
    # Two whole periods a window apart: the value after a window says almost as much of its first one as those between.
    hours = torch.arange(700.0)
    noise = 0.08 * torch.randn(700, generator=torch.Generator().manual_seed(21))
    series = torch.sin(2 * torch.pi * hours / 24) + 0.5 * torch.sin(2 * torch.pi * hours / 7) + noise
    windows, at = series.unfold(0, 25, 1), torch.arange(676) + 24
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 1))
    train, val = slice(0, 480), slice(504, None)  # no value is in both
    data = [TensorDataset(windows[part, :-1], windows[part, -1:]) for part in (train, val)]
    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=1e-2),
        nn.MSELoss(),
        DataLoader(data[0], 32, shuffle=True),
        DataLoader(data[1], 64),
    ), Spec(task="regression", epochs=15, train_times=at[train].tolist(), val_times=at[val].tolist())


@dataclass
class Answer:
    """What a model gives."""

    logits: Tensor
    hidden: Tensor
    loss: Tensor | None = None


class Answering(nn.Module):
    """Digits to an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU()), nn.Linear(64, 10)

    def forward(self, pixels: Tensor, labels: Tensor | None = None) -> Answer:
        """Scores, and the loss where labels are given."""
        hidden = self.body(pixels)
        logits = self.head(hidden)
        return Answer(logits, hidden, None if labels is None else F.cross_entropy(logits, labels))


@sound("a dataclass as output", "Answer")
def _() -> tuple[Program, Spec]:
    parts = changed(
        "digits",
        model=Answering,
        loss_fn=lambda answer, y: F.cross_entropy(answer.logits, y),
        metric=lambda answer, y: accuracy(answer.logits, y),
    )
    return make("digits", 0, parts=parts)


@sound("a model that computes its own loss from a dict, no loss_fn", "dict")
def _() -> tuple[Program, Spec]:
    data = digits_data()
    p, spec = make("digits", 0, parts=changed("digits", model=Answering))

    def rows(x: Tensor, y: Tensor) -> list[dict[str, Tensor]]:
        return [{"pixels": a, "labels": b} for a, b in zip(x, y, strict=True)]

    def step(p: Program, batch: dict[str, Tensor]) -> None:
        p.optimizer.zero_grad()
        p.model(**batch).loss.backward()
        p.optimizer.step()

    def evaluate(p: Program) -> float:
        p.model.eval()
        with torch.no_grad():
            return float(sum(p.model(**b).loss * len(b["labels"]) for b in p.val_loader) / 300)

    p.train_loader = DataLoader(rows(data.x, data.y), 64, shuffle=True)
    p.val_loader = DataLoader(rows(data.x_val, data.y_val), 64)
    p.loss_fn, p.metric, p.step, p.evaluate = None, None, step, evaluate
    return p, spec


class Pairs(Dataset[Any]):
    """Two pictures each, and whether they show the same digit; drawn once."""

    def __init__(self, x: Tensor, y: Tensor, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        one = torch.randint(len(x), (count,), generator=generator)
        other = torch.randint(len(x), (count,), generator=generator)
        for number in range(0, count, 2):
            alike = (y == y[one[number]]).nonzero()[:, 0]
            other[number] = alike[int(torch.randint(len(alike), (), generator=generator))]
        self.rows = [(x[a], x[b], (y[a] == y[b]).float()) for a, b in zip(one.tolist(), other.tolist(), strict=True)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.rows[number]


class Siamese(nn.Module):
    """How alike two pictures are."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
        self.head = nn.Linear(24, 1)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """A score."""
        return self.head((self.body(one) - self.body(other)).abs()).squeeze(1)


def siamese(unpacked: bool) -> tuple[Program, Spec]:
    """Pairs of digits; the author's loop takes batches apart by itself."""
    torch.manual_seed(0)
    data, model = digits_data(), Siamese()

    def train_epoch(p: Program) -> None:
        p.model.train()
        for one, other, same in p.train_loader:
            p.optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(p.model(one, other), same).backward()
            p.optimizer.step()

    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        right = []
        with torch.no_grad():
            for one, other, same in p.val_loader:
                right.append(((p.model(one, other) > 0) == (same > 0.5)).float())
        return {"accuracy": float(torch.cat(right).mean())}

    extra: dict[str, Any] = {}
    if unpacked:
        extra["unpack"] = lambda batch: ((batch[0], batch[1]), batch[2])
        extra["forward"] = lambda model, pair: model(*pair)
    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=2e-3),
        F.binary_cross_entropy_with_logits if unpacked else None,
        DataLoader(Pairs(data.x, data.y, 1500, 1), 50, shuffle=True),
        DataLoader(Pairs(data.x_val, data.y_val, 400, 2), 50),
        train_epoch=train_epoch,
        evaluate=evaluate,
        **extra,
    ), Spec(task="multi-label", epochs=8)


@sound("siamese network, two inputs unpacked", "tuple")
def _() -> tuple[Program, Spec]:
    return siamese(True)


@sound("siamese network, batches of three parts that nobody unpacks", "does not take the batches")
def _() -> tuple[Program, Spec]:
    return siamese(False)
