"""What the ladder climbs with: a training program in its author's own parts, and what the author means by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..training._run.preserve import enter_train_mode, preserved_modes

Batch = Any
Loader = Iterable[Batch]


class UnknownBatchError(TypeError):
    """A batch of which it is not known what are inputs and what targets."""


@dataclass
class Program:
    """A training program as its author wrote it, in parts that can be run again.

    The functions get the program that they belong to and take model, loaders and optimizer from it: the ladder calls
    them with other loaders too, such as one that repeats a single batch. Nothing that they do stays: weights, buffers,
    modes, optimizer, schedule and random streams are put back afterwards.

    Attributes:
        model: what is trained.
        optimizer: what trains it; a list of several where they take turns.
        loss_fn: (outputs, targets) -> scalar; None where the program's own step is all there is, as in a game of two
            networks.
        train_loader: gives batches, epoch after epoch; None for a program without batches, such as one on one graph or
            in one environment.
        val_loader: gives validation batches.
        test_loader: gives test batches. Reading it during training is a finding.
        plain_loader: the training examples in training's order of magnitude without augmentation, where there is one.
        scheduler: anything with a `step()` that changes the learning rate.
        unpack: batch -> (inputs, targets); default: its first two parts.
        forward: (model, inputs) -> outputs; default: model(inputs). What the author does to a batch before or after the
            model belongs here.
        step: (program, batch): one batch of training. Default: zero_grad, forward, loss, backward, step.
        train_epoch: (program): one epoch of training. Default: `step` for each batch of train_loader.
        evaluate: (program) -> a number, or several by name, over val_loader. Default: the sample-weighted mean loss and
            the metric.
        metric: (outputs, targets) -> a number, higher is better.
        save: (program) -> what a checkpoint holds.
        load: (program, what save gave) -> None: goes on from there, in a program made anew.

    """

    model: nn.Module
    optimizer: Optimizer | Sequence[Optimizer]
    loss_fn: Callable[[Any, Any], Tensor] | None
    train_loader: Loader | None = None
    val_loader: Loader | None = None
    test_loader: Loader | None = None
    plain_loader: Loader | None = None
    scheduler: Any = None
    unpack: Callable[[Batch], tuple[Any, Any]] | None = None
    forward: Callable[[nn.Module, Any], Any] | None = None
    step: Callable[[Program, Batch], Any] | None = None
    train_epoch: Callable[[Program], Any] | None = None
    evaluate: Callable[[Program], Mapping[str, float] | float] | None = None
    metric: Callable[[Any, Any], float] | None = None
    save: Callable[[Program], Any] | None = None
    load: Callable[[Program, Any], None] | None = None

    @property
    def optimizers(self) -> list[Optimizer]:
        """All optimizers."""
        return [self.optimizer] if isinstance(self.optimizer, Optimizer) else list(self.optimizer)

    @property
    def device(self) -> torch.device:
        """Where the model is; the CPU for one without parameters."""
        return next((parameter.device for parameter in self.model.parameters()), torch.device("cpu"))

    def parts(self, batch: Batch) -> tuple[Any, Any]:
        """The inputs and targets of a batch."""
        if self.unpack:
            return self.unpack(batch)
        if not isinstance(batch, (tuple, list)):
            raise UnknownBatchError(
                f"a batch is not a pair ({type(batch).__name__}): pass unpack= to say what is in it"
            )
        if len(batch) < 2:
            raise UnknownBatchError("a batch has one part and no targets: pass unpack= to say what the targets are")
        return batch[0], batch[1]

    def outputs(self, inputs: Any) -> Any:
        """What the program's model gives for inputs, in the mode that the model is in."""
        return self.forward(self.model, inputs) if self.forward else self.model(inputs)

    def run_step(self, batch: Batch) -> None:
        """Train on one batch as the author does."""
        if self.step:
            self.step(self, batch)
            return
        if self.loss_fn is None:
            raise ValueError("the program has neither a step nor a loss_fn. Pass one of them, or train_epoch.")
        inputs, targets = self.parts(batch)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        self.loss_fn(self.outputs(inputs), targets).backward()
        for optimizer in self.optimizers:
            optimizer.step()

    def run_epoch(self) -> None:
        """Train for one epoch as the author does."""
        if self.train_epoch:
            self.train_epoch(self)
            return
        if self.train_loader is None:
            raise ValueError("the program has neither a train_loader nor a train_epoch. Pass one of them.")
        enter_train_mode(self.model)
        for batch in self.train_loader:
            self.run_step(batch)
        if self.scheduler is not None:
            self.scheduler.step()

    def run_evaluation(self) -> dict[str, float]:
        """What the author's evaluation gives, by name."""
        if self.evaluate:
            reported = self.evaluate(self)
            return dict(reported) if isinstance(reported, Mapping) else {"value": float(reported)}
        total, outputs, targets, count = 0.0, [], [], 0
        with preserved_modes(self.model), torch.no_grad():
            self.model.eval()
            for batch in () if self.val_loader is None else self.val_loader:
                x, y = self.parts(batch)
                out = self.outputs(x)
                if self.loss_fn is not None:
                    # Weighted by examples: the last batch may be smaller.
                    total += float(self.loss_fn(out, y)) * len(y)
                count += len(y)
                outputs.append(out)
                targets.append(y)
        reported = {"loss": total / count} if self.loss_fn is not None and count else {}
        if self.metric is not None and count and all(isinstance(part, Tensor) for part in (*outputs, *targets)):
            reported["metric"] = float(self.metric(torch.cat(outputs), torch.cat(targets)))
        return reported


@dataclass(frozen=True)
class Spec:
    """What the author means: what cannot be read from the program, and is no fault because it is meant.

    Names of parameters and modules are as in `named_parameters`, or patterns of them: "backbone.*".

    Attributes:
        task: 'classification', 'regression', 'multi-label' (or binary), 'sequence' (class for each position) or
            'segmentation'; None for anything else: what depends on the kind of labels is then not checked.
        classes: how many; default: as many as the outputs have.
        epochs: how many epochs the whole run is to take, for schedules and for whether it is long enough.
        accumulate: micro-batches for each optimizer step.
        max_norm: gradients are clipped to this global norm.
        frozen: parameters that are not to be trained.
        tied: pairs of names of parameters that are one.
        eval_modules: modules that stay in evaluation mode during training.
        ignore_index: label that the loss leaves out, where some examples have none.
        padding_index: id that fills sequences up.
        causal: an output must not depend on later positions.
        couples_samples: the loss or the model relates the samples of a batch to each other.
        mixes_labels: training mixes or smooths labels.
        examples: how many an epoch of training is to see; default: the length of the loader's data set.
        scheduler_steps: 'batch' or 'epoch': after what the schedule is to be stepped.
        class_weights: weight of each class that the loss is to have, relative to each other.
        input_mean: what the pretrained model's own preprocessing subtracts from each channel, or from all of them.
        input_std: what it divides by.
        train_groups: patient, video, document or user of each training example, in the data set's order.
        val_groups: the same of validation.
        train_times: time of each training example.
        val_times: the same of validation.
        train_classes: name -> index of the classes in training.
        val_classes: the same in validation.
        slices: name -> whether each validation example belongs to it, such as a site or a device.
        shift_expected: validation differs from training on purpose.

    """

    task: str | None = None
    classes: int | None = None
    epochs: int | None = None
    accumulate: int = 1
    max_norm: float | None = None
    frozen: Sequence[str] = ()
    tied: Sequence[tuple[str, str]] = ()
    eval_modules: Sequence[str] = ()
    ignore_index: int | None = None
    padding_index: int | None = None
    causal: bool = False
    couples_samples: bool = False
    mixes_labels: bool = False
    examples: int | None = None
    scheduler_steps: str | None = None
    class_weights: Sequence[float] | None = None
    input_mean: Sequence[float] | None = None
    input_std: Sequence[float] | None = None
    train_groups: Sequence[Any] | None = None
    val_groups: Sequence[Any] | None = None
    train_times: Sequence[float] | None = None
    val_times: Sequence[float] | None = None
    train_classes: Mapping[str, int] | None = None
    val_classes: Mapping[str, int] | None = None
    slices: Mapping[str, Sequence[bool]] | None = None
    shift_expected: bool = False
