"""The same training of a digits MLP by hand, by the recipe and by the well-known trainers.

Each contender trains a fresh model for some epochs: cross-entropy, SGD, the global norm clipped to 1, a progress bar
that writes to nowhere, and one validation batch at the end of each epoch where the trainer cannot do without.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.data import TensorLoader, load_digits
from lecture_lib.training import train

BATCH_SIZE, RATE, MAX_NORM = 64, 0.1, 1.0
Train = Callable[[nn.Module, Iterable[Any], int], object]


def model() -> nn.Sequential:
    """64-32-10, the same weights each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Digits as rows [1797, 64], and their labels."""
    digits = load_digits()
    return digits.images.flatten(1), digits.labels


def loader(kind: str) -> Iterable[Any]:
    """Batches of 64 in a new order each epoch."""
    x, y = data()
    if kind == "TensorLoader":
        return TensorLoader(x, y, batch_size=BATCH_SIZE, shuffle=True, seed=0)
    generator = torch.Generator().manual_seed(0)
    return DataLoader(TensorDataset(x, y), batch_size=BATCH_SIZE, shuffle=True, generator=generator)


def validation() -> list[Any]:
    """One small batch: what every contender evaluates."""
    x, y = data()
    return [(x[:BATCH_SIZE], y[:BATCH_SIZE])]


def by_hand(network: nn.Module, batches: Iterable[Any], epochs: int) -> nn.Module:
    """The loop that one writes without a library."""
    from tqdm import tqdm

    optimizer, loss_fn = torch.optim.SGD(network.parameters(), lr=RATE), nn.CrossEntropyLoss()
    for _ in range(epochs):
        total, examples = 0.0, 0
        for x, y in tqdm(batches, file=io.StringIO()):
            optimizer.zero_grad()
            loss = loss_fn(network(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
            optimizer.step()
            total += loss.item() * len(y)
            examples += len(y)
        network.eval()
        with torch.no_grad():
            for x, y in validation():
                loss_fn(network(x), y).item()
        network.train()
    return network


def recipe(network: nn.Module, batches: Iterable[Any], epochs: int) -> nn.Module:
    """The course's own, everything that it looks after on."""
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    with contextlib.redirect_stderr(io.StringIO()):
        train(
            network, batches, validation(), optimizer, nn.CrossEntropyLoss(), epochs, max_norm=MAX_NORM, progress=True
        )
    return network


def ignite(network: nn.Module, batches: Iterable[Any], epochs: int) -> nn.Module:
    """PyTorch-Ignite's Engine with its progress bar."""
    from ignite.engine import Engine, Events, create_supervised_evaluator
    from ignite.handlers.tqdm_logger import ProgressBar
    from ignite.metrics import Loss

    optimizer, loss_fn = torch.optim.SGD(network.parameters(), lr=RATE), nn.CrossEntropyLoss()

    def step(engine: Any, batch: Any) -> float:
        network.train()
        optimizer.zero_grad()
        x, y = batch
        loss = loss_fn(network(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
        optimizer.step()
        return loss.item()

    trainer = Engine(step)
    ProgressBar(file=io.StringIO()).attach(trainer, output_transform=lambda loss: {"loss": loss})
    evaluator = create_supervised_evaluator(network, {"loss": Loss(loss_fn)})
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(validation()))
    trainer.run(batches, max_epochs=epochs)
    return network


def accelerate(network: nn.Module, batches: Iterable[Any], epochs: int) -> nn.Module:
    """Hugging Face Accelerate around the loop by hand, with its prepare and its clipping."""
    from accelerate import Accelerator
    from tqdm import tqdm

    accelerator = Accelerator(cpu=True)
    optimizer, loss_fn = torch.optim.SGD(network.parameters(), lr=RATE), nn.CrossEntropyLoss()
    prepared, optimizer, batches = accelerator.prepare(network, optimizer, batches)
    for _ in range(epochs):
        for x, y in tqdm(batches, file=io.StringIO()):
            with accelerator.accumulate(prepared):
                optimizer.zero_grad()
                loss = loss_fn(prepared(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(prepared.parameters(), MAX_NORM)
                optimizer.step()
                loss.item()
        prepared.eval()
        with torch.no_grad():
            for x, y in validation():
                loss_fn(prepared(x), y).item()
        prepared.train()
    return network


def lightning(network: nn.Module, batches: Iterable[Any], epochs: int) -> nn.Module:
    """Lightning's Trainer with its progress bar, without checkpoints and loggers."""
    import lightning as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.loss_fn = network, nn.CrossEntropyLoss()

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            x, y = batch
            loss = self.loss_fn(self.network(x), y)
            self.log("loss", loss, prog_bar=True, batch_size=len(y))
            return loss

        def validation_step(self, batch: Any, number: int) -> None:
            x, y = batch
            self.log("val_loss", self.loss_fn(self.network(x), y), batch_size=len(y))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=RATE)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            devices=1,
            gradient_clip_val=MAX_NORM,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        trainer.fit(Module(), batches, DataLoader(TensorDataset(*validation()[0]), batch_size=BATCH_SIZE))
    return network


def fastai(network: nn.Module, batches: Iterable[Any], epochs: int) -> nn.Module:
    """fastai's Learner with its recorder and progress bar."""
    from fastai.callback.training import GradientClip
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.optimizer import OptimWrapper

    def optimizer(parameters: Any, lr: float, **_: Any) -> Any:
        return OptimWrapper(parameters, torch.optim.SGD, lr=lr)

    held = DataLoader(TensorDataset(*validation()[0]), batch_size=BATCH_SIZE)
    with contextlib.redirect_stdout(io.StringIO()):
        learner = Learner(
            DataLoaders(batches, held), network, nn.CrossEntropyLoss(), opt_func=optimizer, lr=RATE,
            cbs=GradientClip(MAX_NORM),
        )  # fmt: skip
        learner.fit(epochs)
    return network


PEERS: dict[str, Train] = {
    "PyTorch-Ignite": ignite,
    "Accelerate": accelerate,
    "Lightning": lightning,
    "fastai": fastai,
}
