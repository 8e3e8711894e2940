"""The training recipe: one function, boring to read."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Optimizer

from . import checks
from .batches import Batches, LossFunction, Unpack
from .ema import ExponentialMovingAverage
from .evaluate import Metric, accuracy, evaluate
from .finite import FiniteGuard, Moment
from .history import Epoch, History, carried_by_exceptions
from .losses import Count
from .position import Position, Run
from .precision import choose_precision
from .preflight import try_validation_batch
from .preserve import enter_train_mode, module_modes, preserved_modes, set_modes
from .processes import join_processes, warn_about_equal_noise
from .progress import Progress
from .recipe import Recipe
from .schedule import Schedule, make_scheduler
from .sharing import share
from .windows import warn_when_not_exact, windows


def train(
    model: nn.Module,
    train_loader: Batches,
    val_loader: Batches,
    optimizer: Optimizer,
    loss_fn: LossFunction,
    epochs: int,
    *,
    metric: Metric = accuracy,
    accumulate: int = 1,
    max_norm: float | None = None,
    precision: str = "fp32",
    schedule: Schedule | None = None,
    ema: float | None = None,
    patience: int | None = None,
    checkpoints: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    non_finite: Literal["raise", "skip"] = "raise",
    count: Count | None = None,
    unpack: Unpack | None = None,
    device: torch.device | str | None = None,
    gradient_norms: bool = False,
    on_epoch: Callable[[Epoch], object] | None = None,
    stop: Callable[[], bool] | None = None,
    progress: bool = False,
) -> History:
    """Train the model in place, evaluate after each epoch, and keep a copy of the best weights.

    One optimizer step learns from a window of `accumulate` batches, exactly as from one batch that holds them all,
    also where they differ in size or in masked labels, unless the model takes batch statistics (BatchNorm) or draws
    noise (dropout): then a warning says so. The last window of an epoch may be shorter.

    A model in eval mode is put into train mode. In a model in train mode, modules that you put into eval mode stay
    there, such as a frozen batch normalisation.

    Started by `torchrun`, several processes train one model: each learns from its share of every batch of the same
    loader (batch_size counts the examples of all), DistributedDataParallel averages the gradients, weighted by each
    process's count, and the validation data are divided too. The first process writes, shows progress and calls
    on_epoch. Losses and steps are those of one process with the whole batches, up to rounding.

    A run that stops early loses nothing: the exception, KeyboardInterrupt included, carries the finished epochs and
    the best weights as `.history`. In a notebook: `import sys; history = sys.last_value.history`.
    Source: lecture part 3, the recipe.

    Args:
        model: gives outputs for inputs [B, ...]; its parameters are changed.
        train_loader: batches (inputs [B, ...], labels [B, ...]), longer tuples that end with the labels, or dicts of
            the model's arguments with "labels"; read once an epoch.
        val_loader: batches of the same kind, read after each epoch, none of which the model learns from.
        optimizer: over the model's parameters; its learning rate holds unless a schedule sets it.
        loss_fn: outputs, labels -> mean loss of the batch.
        epochs: passes over train_loader, 1 or more.
        metric: outputs, labels -> mean of the batch, on validation data.
        accumulate: K, batches in a window, 1 or more.
        max_norm: clip the global norm of the window's gradient to this, above 0.
        precision: "fp32"; "bf16" or "fp16" (autocast; parameters, gradients and optimizer state stay FP32); "auto".
        schedule: optimizer, total_steps -> scheduler, stepped once after each optimizer step.
        ema: decay of an exponential moving average of the weights, for example 0.999, smaller in the first steps; it is
            what is evaluated and kept as best, while the model ends with its own weights.
        patience: stop after this many epochs in a row without a lower validation loss.
        checkpoints: a folder for `last.pt` (everything, to resume from) and `best.pt` (the best weights).
        checkpoint_every: optimizer steps between writes of `last.pt`; default: after each epoch.
        resume: go on from `last.pt` if there is one. On the CPU the weights are then bit for bit those of a run that
            was never stopped, given the same arguments and a loader without persistent workers.
        non_finite: "raise", or "skip" the step and count it.
        count: labels -> how many terms the batch's mean loss is the mean of; default: see `losses.count_terms`.
        unpack: batch -> (inputs, labels), for batches of another structure.
        device: where batches go; default: where the model's parameters are.
        gradient_norms: keep each layer's gradient norm, before clipping, in the history: the epoch's mean.
        on_epoch: called with the epoch's row; an exception from it ends the run.
        stop: asked after each optimizer step; True ends the run, after a last checkpoint.
        progress: show a bar over the steps.

    Returns:
        The history; `model.load_state_dict(history.best_state)` brings the best weights back.

    Raises:
        FloatingPointError: a loss or gradient is not finite; it has not reached the weights.
        ValueError, TypeError, OSError: the run cannot work; before time is spent, or at the batch that does not fit.
        ImportError: progress without tqdm.

    """
    checks.require_settings(epochs, accumulate, patience, checkpoint_every, max_norm, non_finite)
    checks.require_functions(count=count, unpack=unpack, on_epoch=on_epoch, stop=stop)
    checks.require_trainable(model, optimizer)
    checks.require_batches(train_loader, "train_loader")
    checks.require_batches(val_loader, "val_loader")
    checks.require_loss_function(loss_fn)
    device = checks.resolve_device(model, device)
    processes = join_processes(device)
    autocast = choose_precision(precision, device)
    scheduler = make_scheduler(schedule, optimizer, train_loader, epochs, accumulate=accumulate)
    folder = checks.resolve_folder(checkpoints, resume, checkpoint_every)
    try_validation_batch(model, train_loader, val_loader, loss_fn, unpack, autocast, device)
    enter_train_mode(model)
    settings = {
        "epochs": epochs,
        "accumulate": accumulate,
        "precision": autocast.name,
        "max_norm": max_norm,
        "ema": ema,
        "schedule": type(scheduler).__name__,
        "batches": checks.count_batches(train_loader),
        "processes": processes.count,
    }
    if processes.count > 1:
        checks.require_all_in_model(model, optimizer)
        others = {"patience": patience, "non_finite": non_finite, "checkpoint_every": checkpoint_every}
        processes.require_same({**settings, **others, "resume": resume, "stop": stop is not None})
        train_loader = share(train_loader, processes, "train_loader")
        val_loader = share(val_loader, processes, "val_loader")
        warn_about_equal_noise(model, processes)
    warn_when_not_exact(model, accumulate, processes)

    deferred = device.type == "cuda" and non_finite == "raise"
    guard = FiniteGuard(model, optimizer, deferred=deferred, processes=processes)
    recipe = Recipe(
        model, loss_fn, optimizer, device, autocast, guard, max_norm, non_finite, gradient_norms, processes=processes
    )
    average = None if ema is None else ExponentialMovingAverage(model, ema)
    history = History()
    run = Run(
        model,
        optimizer,
        train_loader,
        history,
        scheduler,
        average,
        autocast,
        settings,
        folder,
        checkpoint_every,
        processes,
    )
    position = run.resumed() if resume else Position()
    if position.step == 0:
        run.save(position)  # so that even a run that dies in its first step begins again where it began
    history.stopped = position.out_of(patience)
    modes = module_modes(model)
    bar = Progress(progress and processes.first, train_loader, epochs, accumulate, position.step)
    with carried_by_exceptions(history), processes.explained(), preserved_modes(model), bar:
        while position.epoch <= epochs and not history.stopped:
            set_modes(modes)
            batches, first = run.batches(position), position.batches + 1
            for window in windows(batches, accumulate, loss_fn, count, unpack, train_loader, first, processes):
                position.learning_rate = float(optimizer.param_groups[0]["lr"])
                moment = Moment(position.epoch, position.step + 1, position.learning_rate, window.ids)
                loss_sum, taken = recipe.learn(window, moment, position.norms)
                if taken and scheduler is not None:
                    scheduler.step()
                if taken and average is not None:
                    average.update()
                position.add(window, loss_sum, taken)
                bar.step()
                if run.due(position):
                    guard.look(moment)
                    run.save(position)
                if stop is not None and processes.any(stop()):
                    history.stopped = f"asked to stop after step {position.step}"
                    run.save(position)
                    return history
            position.share(processes)
            position.require_examples()
            guard.look(Moment(position.epoch, position.step, position.learning_rate))

            processes.share_buffers(model)
            with nullcontext() if average is None else average.applied():
                validation = evaluate(
                    model,
                    val_loader,
                    loss_fn,
                    metric=metric,
                    precision=autocast,
                    count=count,
                    unpack=unpack,
                    device=device,
                    processes=processes,
                )
                # False for NaN too: such an epoch is never the best.
                improved = -math.inf < validation.loss < position.best_loss
                if improved:
                    history.best_state = _copy_state(model)
            history.rows.append(position.row(validation))
            position.judge(validation.loss, improved)
            if improved:
                run.save_best()
            history.stopped = position.out_of(patience)
            position.next_epoch()
            run.save(position)
            bar.epoch(history.rows[-1])
            if on_epoch is not None and processes.first:
                on_epoch(history.rows[-1])
    return history


def _copy_state(model: nn.Module) -> dict[str, Any]:
    """The weights as they are now; state_dict() itself holds live tensors, which the next step changes."""
    return {
        name: value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else copy.deepcopy(value)
        for name, value in model.state_dict().items()
    }
