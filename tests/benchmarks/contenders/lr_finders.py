"""Learning-rate finders in their documented default use: a model and its optimizer in, a rate out, or None.

All get the same batches and, as each lets one set them, the same number of steps and the same bounds.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from lecture_lib.training import find_lr

START, STOP, STEPS = 1e-6, 10.0, 100
# model, optimizer, loss function, loader, last rate -> rate by the rule's name
Finder = Callable[[nn.Module, Optimizer, nn.Module, Any, float], Mapping[str, float | None]]


def ours(model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, loader: Any, stop: float) -> Mapping[str, Any]:
    """The course's own: the default first."""
    found = find_lr(model, loader, optimizer, loss_fn, start=START, stop=stop, steps=STEPS)
    return {name: found.suggestions.get(name) for name in ("valley_floor", "minimum_over_10", "steepest")}


def torch_lr_finder(
    model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, loader: Any, stop: float
) -> Mapping[str, Any]:
    """torch-lr-finder: plot() suggests the steepest gradient of the smoothed loss."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from torch_lr_finder import LRFinder

    with _silent():
        finder = LRFinder(model, optimizer, loss_fn, device="cpu")
        finder.range_test(loader, start_lr=START, end_lr=stop, num_iter=STEPS)
        figure, ax = plt.subplots()
        found = finder.plot(ax=ax)
        plt.close(figure)
        finder.reset()
    return {"steepest": float(found[1]) if isinstance(found, tuple) else None}


def fastai(model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, loader: Any, stop: float) -> Mapping[str, Any]:
    """fastai's Learner.lr_find with the rules valley, its default, and minimum (over 10)."""
    from fastai.callback.schedule import minimum, valley
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.optimizer import OptimWrapper

    settings = {name: value for name, value in optimizer.defaults.items() if name in ("momentum", "weight_decay")}

    def make(parameters: Any, lr: float, **_: Any) -> Any:
        return OptimWrapper(parameters, type(optimizer), lr=lr, **settings)

    with _silent(), tempfile.TemporaryDirectory() as folder:
        learner = Learner(DataLoaders(loader, loader), model, loss_fn, opt_func=make, path=folder)
        with learner.no_bar():
            found = learner.lr_find(
                start_lr=START, end_lr=stop, num_it=STEPS, show_plot=False, suggest_funcs=(valley, minimum)
            )
    return {"valley": float(found.valley), "minimum": float(found.minimum)}


def lightning(
    model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, loader: Any, stop: float
) -> Mapping[str, Any]:
    """Lightning's Tuner.lr_find: the steepest gradient."""
    import lightning as pl
    from lightning.pytorch.tuner import Tuner

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.lr = model, 1e-3

        def training_step(self, batch: Any, number: int) -> Any:
            x, y = batch
            return loss_fn(self.model(x), y)

        def configure_optimizers(self) -> Optimizer:
            optimizer.param_groups[0]["lr"] = self.lr
            return optimizer

    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with _silent(), tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_model_summary=False,
            enable_progress_bar=False, default_root_dir=folder, max_epochs=1000,
        )  # fmt: skip
        tuner = Tuner(trainer)
        found = tuner.lr_find(Module(), train_dataloaders=loader, min_lr=START, max_lr=stop, num_training=STEPS)
        return {"steepest": None if found is None else found.suggestion()}


def ignite(model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, loader: Any, stop: float) -> Mapping[str, Any]:
    """PyTorch-Ignite's FastaiLRFinder: the steepest gradient before the minimum."""
    from ignite.engine import create_supervised_trainer
    from ignite.handlers import FastaiLRFinder

    with _silent():
        trainer = create_supervised_trainer(model, optimizer, loss_fn)
        finder = FastaiLRFinder()
        kept = {"model": model, "optimizer": optimizer}
        with finder.attach(trainer, to_save=kept, num_iter=STEPS, start_lr=START, end_lr=stop) as sweep:
            sweep.run(loader)
        try:
            return {"steepest": float(finder.lr_suggestion())}
        except RuntimeError:  # its way to say that the curve has no such place
            return {"steepest": None}


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


OURS = "ours"
FINDERS: dict[str, Finder] = {
    OURS: ours,
    "torch-lr-finder": torch_lr_finder,
    "fastai": fastai,
    "Lightning": lightning,
    "Ignite": ignite,
}
