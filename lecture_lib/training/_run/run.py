"""A run of train: its set-up, and what happens around its steps and epochs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from ..accumulation import Window, warn_when_not_exact, windows
from ..clipping import gradient_norms
from ..evaluate import Evaluation
from ..precision import choose_precision
from ..step import TrainingStep
from ..types import Batches, Count, LossFunction, Metric, Schedule, Unpack
from . import checks
from .averages import ExponentialMovingAverage
from .guard import FiniteGuard, StepIndex
from .history import Epoch, History, carried_by_exceptions
from .preflight import try_validation_batch
from .preserve import enter_train_mode, module_modes, preserved_modes, set_modes, settings_of_a_refused_run
from .processes import join_processes, warn_about_equal_noise
from .progress import Progress
from .resume import Checkpoints
from .schedule import make_scheduler, remember_rates
from .score import require_metric
from .sharing import share
from .state import TrainingState
from .terms import Terms


@dataclass(frozen=True)
class Options:
    """The keyword arguments of `train`."""

    epochs: int
    metric: Metric
    accumulate: int
    max_norm: float | None
    precision: str
    schedule: Schedule | None
    ema: float | None
    patience: int | None
    checkpoints: str | Path | None
    checkpoint_every: int | None
    resume: bool
    non_finite: Literal["raise", "skip"]
    count: Count | None
    unpack: Unpack | None
    device: Any
    gradient_norms: bool
    on_epoch: Callable[[Epoch], object] | None
    stop: Callable[[], bool] | None
    progress: bool

    def require_sound(self) -> None:
        """ValueError and TypeError for options that no run can work with."""
        checks.require_settings(
            self.epochs, self.accumulate, self.patience, self.checkpoint_every, self.max_norm, self.non_finite
        )
        checks.require_functions(count=self.count, unpack=self.unpack, on_epoch=self.on_epoch, stop=self.stop)


class TrainingRun:
    """Everything that `train` works with. The constructor refuses what cannot work and resumes a run that can go on.

    Args: as in `train`.

    Attributes:
        step: takes the optimizer steps.
        scheduler, average: None without.
        history: of the finished epochs.
        state: how far the run has come.
        device, precision, processes, val_loader, val_terms: for `evaluate`.

    """

    def __init__(
        self,
        model: nn.Module,
        train_loader: Batches,
        val_loader: Batches,
        optimizer: Optimizer,
        loss_fn: LossFunction,
        options: Options,
    ) -> None:
        options.require_sound()
        checks.require_parts(model, optimizer, loss_fn)
        checks.require_batches(train_loader, "train_loader")
        checks.require_batches(val_loader, "val_loader")
        require_metric(options.metric)
        self.model, self.optimizer, self.loss_fn, self.options = model, optimizer, loss_fn, options
        self.train_loader, self.val_loader = train_loader, val_loader
        self.device = checks.resolve_device(model, options.device)
        self.processes = join_processes(self.device)
        self.precision = choose_precision(options.precision, self.device)
        # Undoes the set-up where it fails; where it succeeds, __exit__ does so at the end of the run.
        with ExitStack() as undo:
            undo.enter_context(settings_of_a_refused_run(optimizer))
            self._set_up()
            self._undo = undo.pop_all()

    def _set_up(self) -> None:
        model, optimizer, options = self.model, self.optimizer, self.options
        # Before the scheduler is made, which moves the rates to its first ones.
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.scheduler = make_scheduler(
            options.schedule, optimizer, self.train_loader, options.epochs, accumulate=options.accumulate
        )
        folder = checks.resolve_folder(options.checkpoints, options.resume, options.checkpoint_every)
        self._count_terms()
        enter_train_mode(model)
        settings = {
            "epochs": options.epochs,
            "accumulate": options.accumulate,
            "precision": self.precision.name,
            "max_norm": options.max_norm,
            "ema": options.ema,
            "schedule": type(self.scheduler).__name__,
            "learning rates": rates if self.scheduler is None else None,
            "batches": checks.count_batches(self.train_loader),
            "processes": self.processes.count,
        }
        if self.processes.count > 1:
            self._share(settings)
        warn_when_not_exact(model, options.accumulate, self.processes)
        self.average = None if options.ema is None else ExponentialMovingAverage(model, options.ema)
        self.history = History()
        self._checkpoints = Checkpoints(
            model, optimizer, self.train_loader, self.history, self.scheduler, self.average, self.precision, settings,
            folder, options.checkpoint_every, self.processes,
        )  # fmt: skip
        self.step = self._make_step()
        self.state = self._checkpoints.resumed() if options.resume else TrainingState()
        if self.state.step == 0:
            # So that even a run that dies in its first step begins again where it began.
            self._checkpoints.save(self.state)
        self.history.stopped = self.state.out_of(options.patience)
        self._modes = module_modes(model)
        self._bar = Progress(
            options.progress and self.processes.first,
            self.train_loader,
            options.epochs,
            options.accumulate,
            self.state.step,
        )

    def _count_terms(self) -> None:
        """Find out what the batches' mean losses are means of; a batch of validation data shows the loss at work."""
        options, loss_fn = self.options, self.loss_fn
        outputs, batch = try_validation_batch(
            self.model, self.train_loader, self.val_loader, loss_fn, options.unpack, self.precision, self.device
        )
        batches, val_batches = checks.count_batches(self.train_loader), checks.count_batches(self.val_loader)
        several = options.accumulate > 1 or self.processes.count > 1
        self.terms = Terms(loss_fn, options.count, matters=several)
        self.val_terms = Terms(loss_fn, options.count, matters=several or val_batches != 1)
        for terms in (self.terms, self.val_terms):
            terms.observe(outputs, batch)
        if several or {batches, val_batches} != {1}:
            self.terms.require_mean()

    def _share(self, settings: dict[str, Any]) -> None:
        """Divide the batches among several processes, which must agree about everything."""
        options = self.options
        checks.require_all_in_model(self.model, self.optimizer)
        extras = {name: getattr(options, name) for name in ("patience", "non_finite", "checkpoint_every", "resume")}
        self.processes.require_same({**settings, **extras, "stop": options.stop is not None})
        self.train_loader = share(self.train_loader, self.processes, "train_loader")
        self.val_loader = share(self.val_loader, self.processes, "val_loader")
        warn_about_equal_noise(self.model, self.processes)

    def _make_step(self) -> TrainingStep:
        skip = self.options.non_finite == "skip"
        self._guard = FiniteGuard(
            self.model,
            self.optimizer,
            self.precision,
            deferred=self.device.type == "cuda" and not skip,
            skip=skip,
            processes=self.processes,
        )
        self._layer_norms: dict[str, float | None] = {}
        return TrainingStep(
            self.model,
            self.loss_fn,
            self.optimizer,
            self.device,
            self.precision,
            self._guard,
            self.terms,
            self.options.max_norm,
            self._measure_layers if self.options.gradient_norms else None,
        )

    def __enter__(self) -> TrainingRun:
        self._undo.enter_context(carried_by_exceptions(self.history))
        self._undo.enter_context(self.processes.explained())
        self._undo.enter_context(preserved_modes(self.model))
        self._undo.enter_context(self._bar)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        remember_rates(self.optimizer)
        self._undo.__exit__(kind, error, traceback)

    @property
    def is_over(self) -> bool:
        """Whether no epoch is left, or the run was stopped."""
        return self.state.epoch > self.options.epochs or bool(self.history.stopped)

    def windows(self) -> Iterator[Window]:
        """The rest of the epoch's windows, each of them for one step."""
        options, state = self.options, self.state
        # on_epoch may have put the model into eval mode.
        set_modes(self._modes)
        batches, first = self._checkpoints.batches(state), state.batches + 1
        for window in windows(
            batches, options.accumulate, self.loss_fn, self.terms, options.unpack, self.train_loader, first,
            self.processes,
        ):  # fmt: skip
            state.learning_rate = float(self.optimizer.param_groups[0]["lr"])
            yield window
        state.share(self.processes)
        state.require_examples()
        self._guard.look()
        # Each process has running statistics of its own share; all evaluate with the first one's.
        self.processes.share_buffers(self.model)

    def index(self, window: Window) -> StepIndex:
        """Where in the run the step for a window is, for messages."""
        return StepIndex(self.state.epoch, self.state.step + 1, self.state.learning_rate, window.ids)

    def record(self, window: Window, loss_sum: Tensor | float, taken: bool) -> None:
        """Count a step, show it, and write a checkpoint when one is due."""
        self.state.add(window, loss_sum, taken, self._layer_norms)
        self._bar.step()
        if self._checkpoints.due(self.state):
            self._save()

    def is_asked_to_stop(self) -> bool:
        """Whether `stop` ends the run after this step; a checkpoint is written then."""
        stop = self.options.stop
        if stop is None or not self.processes.any(stop()):
            return False
        self._save()
        self.history.stopped = f"asked to stop after step {self.state.step}"
        return True

    def _save(self) -> None:
        """Write a checkpoint. On a GPU errors wait for a look, and no checkpoint may hold what one would refuse."""
        self._guard.look()
        self._checkpoints.save(self.state)

    def averaged_weights(self) -> AbstractContextManager[Any]:
        """The weights that are evaluated: the average's, where there is one."""
        return nullcontext() if self.average is None else self.average.applied()

    def keep_best(self, validation: Evaluation) -> None:
        """Copy the weights as they are now, if no epoch was better."""
        # False for NaN too: such an epoch is never the best.
        self._improved = -math.inf < validation.loss < self.state.best_loss
        if self._improved:
            self.history.best_state = _copy_state(self.model)

    def end_epoch(self, validation: Evaluation) -> None:
        """Add the epoch to the history, write the checkpoints, and tell the caller."""
        row = self.state.row(validation)
        self.history.rows.append(row)
        self.state.judge(validation.loss, self._improved)
        if self._improved:
            self._checkpoints.save_best()
        self.history.stopped = self.state.out_of(self.options.patience)
        # Before the checkpoint, so that a resumed run does not repeat this epoch.
        self.state.next_epoch()
        self._checkpoints.save(self.state)
        self._bar.epoch(row)
        if self.options.on_epoch is not None and self.processes.first:
            self.options.on_epoch(row)

    def _measure_layers(self) -> None:
        self._layer_norms = gradient_norms(self.model)


def _copy_state(model: nn.Module) -> dict[str, Any]:
    """The weights as they are now; state_dict() itself holds live tensors, which the next step changes."""
    return {
        name: value.detach().to("cpu", copy=True) if isinstance(value, Tensor) else copy.deepcopy(value)
        for name, value in model.state_dict().items()
    }
