"""The training recipe: one function, boring to read."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from . import checks
from .batches import Batches, LossFunction, forward, mean_loss, unpack
from .checkpoint import save_atomically
from .evaluate import Metric, accuracy, evaluate
from .finite import require_finite_gradients, require_finite_loss
from .history import Epoch, History, carried_by_exceptions
from .preserve import enter_train_mode, module_modes, preserved_modes, set_modes
from .schedule import Schedule, make_scheduler


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

    A model in eval mode is put into train mode. In a model in train mode, modules that you put into eval mode stay
    there, such as a frozen batch normalisation.

    A run that stops early loses nothing: the exception, KeyboardInterrupt included, carries the finished epochs and
    the best weights as `.history`. In a notebook: `import sys; history = sys.last_value.history`.
    Source: lecture part 3, the recipe.

    Args:
        model: gives outputs for inputs [B, ...]; its parameters are changed.
        train_loader: batches of (inputs [B, ...], labels [B, ...]), read once an epoch.
        val_loader: batches of the same kind, read after each epoch, none of which the model learns from.
        optimizer: over the model's parameters; its learning rate holds unless a schedule sets it.
        loss_fn: outputs, labels -> mean loss of the batch.
        epochs: passes over train_loader, 1 or more.
        metric: outputs, labels -> mean of the batch, on validation data.
        schedule: optimizer, total_steps -> scheduler, stepped once after each optimizer step.
        device: where batches go; default: where the model's parameters are.
        best_path: also keep the best state_dict in this file; it loads with weights_only=True.
        progress: show a bar over the epochs.

    Returns:
        The history; `model.load_state_dict(history.best_state)` brings the best weights back.

    Raises:
        FloatingPointError: a loss or gradient is not finite; it has not reached the weights.
        ValueError, TypeError, FileNotFoundError, IsADirectoryError: the run cannot work; before time is spent, or at
            the batch that does not fit.
        ImportError: progress without tqdm.

    """
    checks.require_whole(epochs, "epochs", 1)
    checks.require_trainable(model, optimizer)
    checks.require_batches(train_loader, "train_loader")
    checks.require_batches(val_loader, "val_loader")
    checks.require_loss_function(loss_fn)
    if best_path is not None:
        checks.require_file_path(best_path, "best_path")
    device = checks.resolve_device(model, device)
    scheduler = make_scheduler(schedule, optimizer, train_loader, epochs)

    enter_train_mode(model)
    modes = module_modes(model)
    history = History()
    step, best_loss = 0, math.inf
    with carried_by_exceptions(history), preserved_modes(model):
        for epoch in _with_progress(range(1, epochs + 1), progress):
            set_modes(modes)
            total_loss, examples = 0.0, 0
            for number, batch in enumerate(train_loader, 1):
                x, y = unpack(batch, number, device)
                step += 1
                learning_rate = float(optimizer.param_groups[0]["lr"])

                outputs = forward(model, x, number)
                loss = mean_loss(loss_fn, outputs, y, number)
                total_loss += require_finite_loss(loss, epoch, step, learning_rate) * len(y)
                examples += len(y)

                optimizer.zero_grad()
                model.zero_grad()  # also what the optimizer leaves alone, where gradients would add up for ever
                loss.backward()
                require_finite_gradients(model, optimizer, epoch, step, learning_rate)
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
