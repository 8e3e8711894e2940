"""The training recipe: one function, boring to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from torch.optim import Optimizer

from ._run.history import Epoch, History
from ._run.run import Options, TrainingRun
from .evaluate import accuracy, evaluate
from .types import Batches, Count, LossFunction, Metric, Schedule, Unpack


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

    A run that fails or is interrupted loses nothing: the exception carries the finished epochs and the best weights as
    `.history`. In a notebook: `import sys; history = sys.last_value.history`.
    Source: lecture part 3, the recipe.

    Args:
        model: gives outputs for inputs [B, ...]; its parameters are changed.
        train_loader: batches (inputs [B, ...], labels [B, ...]), longer tuples that end with the labels, or dicts of
            the model's arguments with "labels"; read once an epoch.
        val_loader: batches of the same kind, read after each epoch, none of which the model learns from.
        optimizer: over the model's parameters; its learning rate holds unless a schedule sets it.
        loss_fn: outputs, labels -> mean loss of the batch.
        epochs: passes over train_loader, 1 or more.
        metric: a function of all validation outputs and labels (on the CPU), or an object with update, compute and
            reset, as those of torchmetrics.
        accumulate: K, batches in a window, 1 or more.
        max_norm: clip the global norm of the window's gradient to this, above 0.
        precision: "fp32"; "bf16" or "fp16" (autocast; parameters, gradients and optimizer state stay FP32); "auto".
        schedule: optimizer, total_steps -> scheduler, stepped once after each optimizer step.
        ema: decay of an exponential moving average of the weights, for example 0.999; smaller in the first steps. The
            average is evaluated and kept as best; the model ends with its own weights.
        patience: stop after this many epochs in a row without a lower validation loss.
        checkpoints: a folder for `last.pt` (everything, to resume from) and `best.pt` (the best weights).
        checkpoint_every: optimizer steps between writes of `last.pt`; default: after each epoch.
        resume: continue from `last.pt` if there is one. On the CPU the weights are then bit for bit those of a run that
            was never stopped, given the same arguments and a loader without persistent workers.
        non_finite: "raise", or "skip" the step and count it in the history.
        count: labels -> how many of them the batch's mean loss averages over, such as those that are not masked.
            Torch's own losses need none; others are asked about batches with other labels.
        unpack: batch -> (inputs, labels), for batches of another structure.
        device: where batches go; default: where the model's parameters are.
        gradient_norms: keep each layer's gradient norm, before clipping, in the history: the epoch's mean.
        on_epoch: called with the epoch's row; an exception from it ends the run.
        stop: asked after each optimizer step; True ends the run, after a last checkpoint.
        progress: show a bar over the steps.

    Returns:
        The history; `model.load_state_dict(history.best_state)` brings the best weights back.

    Raises:
        FloatingPointError: a loss, gradient, buffer or update is not finite. On the CPU weights and buffers are those
            before the step. On a GPU the error comes at the end of the epoch or at a checkpoint; until then such steps
            are taken with gradients of zero, and the weights stay finite.
        ValueError, TypeError, OSError: arguments that cannot work (before training starts), or an unfit batch.
        ImportError: progress without tqdm.

    """
    options = Options(
        epochs=epochs,
        metric=metric,
        accumulate=accumulate,
        max_norm=max_norm,
        precision=precision,
        schedule=schedule,
        ema=ema,
        patience=patience,
        checkpoints=checkpoints,
        checkpoint_every=checkpoint_every,
        resume=resume,
        non_finite=non_finite,
        count=count,
        unpack=unpack,
        device=device,
        gradient_norms=gradient_norms,
        on_epoch=on_epoch,
        stop=stop,
        progress=progress,
    )
    # TrainingRun refuses arguments that cannot work and, with resume=True, restores last.pt.
    with TrainingRun(model, train_loader, val_loader, optimizer, loss_fn, options) as run:
        while not run.is_over:
            for window in run.windows():
                loss_sum, taken = run.step.learn(window, run.index(window))
                # A step that was skipped changed no weights, so schedule and average wait too.
                if taken and run.scheduler is not None:
                    run.scheduler.step()
                if taken and run.average is not None:
                    run.average.update()
                run.record(window, loss_sum, taken)
                if run.is_asked_to_stop():
                    return run.history
            with run.averaged_weights():
                validation = evaluate(
                    model,
                    run.val_loader,
                    loss_fn,
                    metric=metric,
                    precision=run.precision,
                    count=run.val_terms,
                    unpack=unpack,
                    device=run.device,
                    processes=run.processes,
                )
                # Inside the block: the best weights must be those that were evaluated, the averages if there are any.
                run.keep_best(validation)
            run.end_epoch(validation)
    return run.history
