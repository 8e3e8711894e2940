"""Faults G18 to G23: the gradient has the wrong sign, does not reach all layers, or cannot be computed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .loss_layers import of_labels
from .loss_programs import other, parts_of
from .programs import BASES, PAD, TAGS, WORDS, Tagger, make

Batch = tuple[Tensor, Tensor]


@case("G18", "maximize", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=3e-3, maximize=True)

    return other(base, seed, optimizer=optimizer)


@case("G18", "minus in the step", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        loss = -p.loss_fn(p.model(x), y)
        loss.backward()
        p.optimizer.step()

    return make(base, seed, step=step)


@case("G18", "log-likelihood minimised", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def log_likelihood(outputs: Tensor, targets: Tensor) -> Tensor:
        if base == "regression":
            return -0.5 * ((outputs - targets) ** 2).mean()
        return of_labels(outputs.log_softmax(dim=1), targets).mean()

    return other(base, seed, loss_fn=log_likelihood)


class Cut(nn.Module):
    """Takes the gradient away, as `x = x.detach()` in a forward does."""

    def forward(self, x: Tensor) -> Tensor:
        return x.detach()


class FromNumpy(nn.Module):
    """Puts negative activations to zero in numpy."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy().clip(min=0))


class CutTagger(Tagger):
    """A tagger whose memory runs on `data`."""

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden.data).transpose(1, 2)


def before_the_head(base: str, layer: nn.Module) -> nn.Module:
    """The model of a base program with one more layer in front of the last."""
    model = parts_of(base).model()
    return nn.Sequential(*list(model)[:-1], layer, model[-1])


@case("G20", "detached features", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, model=CutTagger if base == "sequence" else lambda: before_the_head(base, Cut()))


@case("G20", "through numpy and back", "digits", "shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, model=lambda: before_the_head(base, FromNumpy()))


@case("G20", "features without gradient in what is done around the model", "digits", "regression", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        if base == "sequence":
            with torch.no_grad():
                hidden, _ = model.memory(model.embedding(x))
            return model.head(hidden).transpose(1, 2)
        with torch.no_grad():
            features = model[:-1](x)
        return model[-1](features)

    return make(base, seed, forward=forward)


@case("G21", "no_grad around the step", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        with torch.no_grad():
            loss = p.loss_fn(p.model(x), y)
        loss.backward()
        p.optimizer.step()

    return make(base, seed, step=step)


@case("G21", "decorated epoch", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def run(p: Program, train: bool) -> None:
        p.model.train(train)
        for x, y in p.train_loader:
            loss = p.loss_fn(p.model(x), y)
            if train:
                p.optimizer.zero_grad()
                loss.backward()
                p.optimizer.step()

    @torch.no_grad()
    def train_epoch(p: Program) -> None:
        run(p, train=True)

    return make(base, seed, train_epoch=train_epoch)


@case("G21", "outputs of inference mode", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        with torch.inference_mode():
            outputs = p.model(x)
        p.loss_fn(outputs.clone(), y).backward()
        p.optimizer.step()

    return make(base, seed, step=step)


@case("G23", "loss and penalty each with backward", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: Batch) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        outputs = p.model(x)
        loss = p.loss_fn(outputs, y)
        loss.backward()
        (loss + 1e-3 * outputs.pow(2).mean()).backward()
        p.optimizer.step()

    return make(base, seed, step=step)


@case("G23", "backward of the running loss", *BASES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        running = torch.zeros(())
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            running = 0.9 * running + 0.1 * p.loss_fn(p.model(x), y)
            running.backward()
            p.optimizer.step()

    return make(base, seed, train_epoch=train_epoch)


@case("G23", "memory carried from batch to batch", "one long text")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    class Reader(nn.Module):
        """Ids [B, T] to scores of the next [B, C, T]; goes on from the batch before."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
            self.memory = nn.GRU(16, 32, batch_first=True)
            self.head = nn.Linear(32, TAGS)
            self.state: Tensor | None = None

        def forward(self, ids: Tensor) -> Tensor:
            state = self.state if self.state is not None and self.state.shape[1] == len(ids) else None
            hidden, self.state = self.memory(self.embedding(ids), state)
            return self.head(hidden).transpose(1, 2)

    torch.manual_seed(seed)
    text = torch.randint(1, WORDS, (16, 8 * 10))
    tags = torch.cat([text[:, :1], text[:, :-1]], dim=1) % TAGS
    batches = list(zip(text.split(10, dim=1), tags.split(10, dim=1), strict=True))
    model = Reader()
    program = Program(model, torch.optim.Adam(model.parameters(), lr=5e-3), F.cross_entropy, batches[:6], batches[6:])
    return program, Spec(task="sequence", classes=TAGS, epochs=10, causal=True)
