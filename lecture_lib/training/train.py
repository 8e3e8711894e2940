"""The training recipe: one function, boring to read."""

import copy
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lecture_lib.training import checks
from lecture_lib.training.checkpoint import save_atomically
from lecture_lib.training.evaluate import (
    Batches,
    LossFunction,
    Metric,
    accuracy,
    evaluate,
    require_mean,
    resolve_device,
)
from lecture_lib.training.history import Epoch, History

Schedule = Callable[[Optimizer, int], LRScheduler]  # optimizer, total optimizer steps -> a scheduler for each step


def train(
    model: nn.Module,
    train_loader: Batches,
    val_loader: Batches,
    optimizer: Optimizer,
    loss_fn: LossFunction,
    epochs: int,
    *,
    metric: Metric = accuracy,
    schedule: Schedule | None = None,
    device: torch.device | str | None = None,
    best_path: str | Path | None = None,
    progress: bool = False,
) -> History:
    """Train the model in place, evaluate after each epoch, and keep a copy of the best weights.

    Each epoch puts every module into train mode, also one that was frozen with eval().

    model: gives outputs for inputs [B, ...]; its parameters are changed
    optimizer: over the model's parameters; its learning rate holds unless a schedule sets it
    train_loader, val_loader: batches of (inputs [B, ...], labels [B, ...])
    loss_fn: outputs, labels -> mean loss of the batch
    epochs: passes over train_loader, 1 or more
    metric: outputs, labels -> mean of the batch, on validation data
    schedule: optimizer, total_steps -> scheduler, stepped once after each optimizer step
    device: where batches go; default: where the model's parameters are
    best_path: also keep the best state_dict in this file; it loads with weights_only=True
    progress: show a bar over the epochs

    Returns the History; `model.load_state_dict(history.best_state)` brings the best weights back.
    Raises FloatingPointError when a loss or gradient is not finite, before it reaches the weights;
    ValueError, TypeError or FileNotFoundError, before time is spent, for a run that cannot work.
    Source: lecture part 3, the recipe.
    """
    _check_run(model, train_loader, val_loader, optimizer, loss_fn, epochs, schedule, best_path)
    device = resolve_device(model, device)
    scheduler = _make_scheduler(schedule, optimizer, train_loader, epochs)
    history = History()
    step, best_loss = 0, math.inf
    for epoch in _with_progress(range(1, epochs + 1), progress):
        model.train()
        total_loss, examples = 0.0, 0
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            step += 1
            learning_rate = float(optimizer.param_groups[0]["lr"])

            loss = require_mean(loss_fn(model(x), y))
            total_loss += checks.require_finite_loss(loss, epoch, step, learning_rate) * len(y)
            examples += len(y)

            optimizer.zero_grad()
            loss.backward()
            checks.require_finite_gradients(model, epoch, step, learning_rate)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
        if examples == 0:
            raise ValueError(f"train_loader gave 0 examples in epoch {epoch}. Pass one with data for every epoch.")

        validation = evaluate(model, val_loader, loss_fn, metric=metric, device=device)
        row = Epoch(epoch, total_loss / examples, validation.loss, validation.metric, learning_rate, step)
        history.rows.append(row)
        # False for NaN too: such an epoch is never the best.
        if -math.inf < validation.loss < best_loss:
            best_loss = validation.loss
            history.best_state = _copy_state(model)
            if best_path is not None:
                save_atomically(history.best_state, best_path)
    return history


def _check_run(
    model: nn.Module,
    train_loader: Batches,
    val_loader: Batches,
    optimizer: Optimizer,
    loss_fn: LossFunction,
    epochs: int,
    schedule: Schedule | None,
    best_path: str | Path | None,
) -> None:
    """Refuse a run that cannot work before it costs time."""
    if not isinstance(epochs, int) or epochs < 1:
        raise ValueError(f"epochs is {epochs!r}; training takes a whole number of epochs, 1 or more.")
    checks.require_trainable(model, optimizer)
    checks.require_batches(train_loader, "train_loader")
    checks.require_batches(val_loader, "val_loader")
    checks.require_schedule(schedule)
    checks.require_mean_loss(loss_fn)
    if best_path is not None and not Path(best_path).parent.is_dir():
        raise FileNotFoundError(f"best_path {best_path}: its folder does not exist. Make it before training.")
    if best_path is not None and Path(best_path).is_dir():
        raise IsADirectoryError(f"best_path {best_path} is a folder. Name a file in it, for example best.pt.")


def _make_scheduler(
    schedule: Schedule | None, optimizer: Optimizer, train_loader: Batches, epochs: int
) -> LRScheduler | None:
    if schedule is None:
        return None
    batches = checks.count_batches(train_loader)
    if batches is None:
        raise TypeError("a schedule needs the number of steps, and train_loader has no len(). Give it one.")
    return checks.require_scheduler(schedule(optimizer, epochs * batches))


def _with_progress(epochs: range, progress: bool) -> Iterable[int]:
    if not progress:
        return epochs
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm. Run: pip install tqdm") from None
    bar: Iterable[int] = tqdm(epochs, unit="epoch")
    return bar


def _copy_state(model: nn.Module) -> dict[str, Any]:
    """The weights as they are now; state_dict() itself holds live tensors, which the next step changes."""
    return {
        name: value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else copy.deepcopy(value)
        for name, value in model.state_dict().items()
    }
