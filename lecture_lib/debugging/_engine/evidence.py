"""What the rungs look at: the data, and a recorded run of the program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from ...training._run.preserve import preserved_modes
from ...training._run.structures import map_tensors
from ..program import Program, Spec
from ..recorder import Recorder
from .assumptions import NotAskedError
from .chance import scores_by_chance
from .events import Recording
from .influence import influential, untied
from .inspection import fingerprints
from .instrumentation import authors_line, watch
from .normalisation import evaluates_a_copy, modes_of_norms, statistics_anew
from .preserve import untouched
from .read_examples import drawn_anew, read, read_each_input
from .run_data import EpochRow, Examples, RecordedRun
from .yardstick import lowest_loss


class Evidence:
    """A program, its spec, and what has been found out about it; each thing is looked at once.

    Args:
        program: stays as it is.
        spec: what its author means.
        seed: of the recorded run.

    """

    def __init__(self, program: Program, spec: Spec, seed: int = 0) -> None:
        self.program, self.spec, self.seed = program, spec, seed
        self.unseen: list[str] = []  # what could not be looked at, and why
        self.not_asked: dict[str, list[str]] = {}  # reason -> names of rules
        self.question_count = 0  # rules and comparisons that gave an answer
        self.refused: list[str] = []  # for each that could not be, why
        self.end = math.inf  # seconds of computing time of this process after which no run is begun
        wrapped = type(program.model).__name__
        if hasattr(program.model, "_orig_mod") or wrapped in ("DataParallel", "DistributedDataParallel"):
            self.unseen.append(f"layers inside of the {wrapped}: pass the model as it was before it was wrapped")

    @classmethod
    def of_recording(cls, recording: Recording, spec: Spec) -> Evidence:
        """A recording and nothing else."""
        evidence = cls(Program(nn.Identity(), [], None, ()), spec)
        evidence.__dict__.update(run=RecordedRun(recording), train=None, val=None, plain=None, examples=spec.examples)
        return evidence

    def left_out(self) -> list[str]:
        """What could not be looked at since this was last called, and why."""
        reasons = self.unseen + [f"{', '.join(names)}: {reason}" for reason, names in self.not_asked.items()]
        self.unseen, self.not_asked = [], {}
        return reasons

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.program.device

    @property
    def epochs(self) -> int:
        """Of a run."""
        return self.spec.epochs or 5

    @cached_property
    def train(self) -> Examples | None:
        """Training examples in the order of one epoch."""
        if self.program.train_loader is None:
            self.unseen.append("questions about training examples: the program has no train_loader")
        return self._examples(self.program.train_loader, "training")

    @cached_property
    def val(self) -> Examples | None:
        """Validation examples."""
        return self._examples(self.program.val_loader, "validation")

    @cached_property
    def test(self) -> Examples | None:
        """Test examples, where the program has some."""
        return self._examples(self.program.test_loader, "test")

    @cached_property
    def plain(self) -> Examples | None:
        """Training examples without augmentation, where the program tells them apart; otherwise as they come."""
        if self.program.plain_loader is None:
            return self.train
        return self._examples(self.program.plain_loader, "training without augmentation")

    @cached_property
    def augmented(self) -> bool:
        """Whether training's inputs are changed at random: the program says so, or other ones come in each epoch."""
        program = self.program
        return program.plain_loader is not None or drawn_anew(program.train_loader, program)

    @cached_property
    def each_input(self) -> list[tuple[Examples, Examples]]:
        """Training and validation examples with each of their inputs by itself, for programs that have several, too."""
        if self.train is not None and self.val is not None:
            return [(self.train, self.val)]
        loaders = (self.program.train_loader, self.program.val_loader)
        return list(zip(*(read_each_input(loader, self.program, self.spec) for loader in loaders), strict=False))

    def _examples(self, loader: Iterable[Any] | None, name: str) -> Examples | None:
        examples, reason = read(loader, self.program, self.spec, self.outputs)
        if reason:
            self.unseen.append(f"questions about {name} examples: {reason}")
        return examples

    @cached_property
    def run(self) -> RecordedRun:
        """The whole run, recorded: as many epochs as declared, each followed by an evaluation."""
        return self.record(self.epochs)

    def record(self, epochs: int) -> RecordedRun:
        """Train for some epochs under a recorder and put everything back."""
        program = self.program
        train = self.train.part(slice(0, 1000)) if self.train else None
        with untouched(program, self.seed):
            recorder = Recorder(program.model, program.optimizers)
            run = RecordedRun(recorder.recording)
            # An evaluation may need a model that was trained.
            with suppress(Exception), untouched(program, self.seed):
                run.untrained = self._reported()
            if program.loss_fn is not None:
                _ = self.own_loss  # taken before it is watched: what the ladder asks it is no part of the run
            test = self.test  # read before it is watched who reads it
            watch(program, recorder, run)
            tied = untied(self)
            try:
                run.before = self.measure(train)[0]
                with recorder, modes_of_norms(program.model) as modes:
                    for _ in range(epochs):
                        recorder.mark("epoch")
                        program.run_epoch()
                        recorder.mark("end of epoch")
                        recorder.mark("evaluation")
                        reported = self._reported()
                        recorder.mark("end of evaluation")
                        # The ladder's own measurements are no part of the run.
                        with recorder.paused():
                            loss, metric, _ = self.measure(self.val)
                            val_loss = loss if self._comparable else math.nan
                            run.rows.append(EpochRow(self.measure(train)[0], val_loss, metric, reported))
                run.evaluates_a_copy = evaluates_a_copy(modes)
                run.outputs = (self.measure(train)[2], self.measure(self.val)[2])
                run.outputs_of_test = self.measure(test)[2]
                recorder.recording.untied = tied or untied(self)
                run.statistics = statistics_anew(self, run.evaluates_a_copy)
                run.by_chance = scores_by_chance(program, self.val, run.rows[-1].reported) if run.rows else []
            except Exception as error:
                run.error, run.line = error, authors_line(error)
            recorder.recording.influential = influential(self, recorder.recording)
        return run

    @contextmanager
    def trained(self) -> Iterator[Program]:
        """The program after the whole run, put back afterwards."""
        with untouched(self.program, self.seed) as program:
            for _ in range(self.epochs):
                program.run_epoch()
            yield program

    @property
    def _comparable(self) -> bool:
        """Whether the loss means the same for both splits: pairs, say, may be validated as single examples."""
        splits = [split for split in (self.train, self.val) if split is not None]
        return len({(split.x.ndim, split.y.ndim, split.y.is_floating_point()) for split in splits}) < 2

    def _reported(self) -> dict[str, float]:
        program = self.program
        if program.evaluate is None and program.val_loader is None:
            return {}
        try:
            return program.run_evaluation()
        except Exception:
            if program.evaluate is None and self.val is None:
                return {}  # what the usual evaluation makes of batches that it does not know is no fault of the program
            raise

    def cooled(self, outputs: Tensor | None, y: Tensor, least: float = 0.1) -> float:
        """Loss with the best temperature, `least` or more; infinite where there are no logits."""
        if outputs is None or self.spec.task != "classification" or outputs.ndim != 2:
            return math.inf
        y = y[: len(outputs)]
        return min(float(self.own_loss(outputs / t, y)) for t in torch.logspace(math.log10(least), 2, 31))

    def measure(self, examples: Examples | None) -> tuple[float, float, Tensor | None]:
        """Loss, metric and outputs for examples in evaluation mode; NaN and None for what cannot be had."""
        program = self.program
        if examples is None:
            return math.nan, math.nan, None
        with preserved_modes(program.model), torch.no_grad():
            program.model.eval()
            try:
                parts = [self.outputs(x) for x, _ in examples.batches()]
                if not all(isinstance(part, Tensor) for part in parts):
                    return math.nan, math.nan, None
                outputs, y = torch.cat(parts), examples.y.to(self.device)
                loss = self._loss_of(outputs, y) if program.loss_fn else math.nan
                metric = float(program.metric(outputs, y)) if program.metric else math.nan
                outputs = outputs.cpu()
            except Exception:  # the author's own evaluation says what is wrong with it
                return math.nan, math.nan, None
        return loss, metric, outputs

    def _loss_of(self, outputs: Tensor, y: Tensor) -> float:
        """The loss of many examples.

        One that couples samples is asked about batches of the program's size: of more samples it is another loss, and
        one of all triplets takes the third power of their number.
        """
        rows = self._batch_of_couples
        if not rows or not len(outputs) == len(y) >= 2 * rows:
            return float(self.own_loss(outputs, y))
        whole = len(y) // rows * rows
        batches = zip(outputs[:whole].split(rows), y[:whole].split(rows), strict=True)
        return fmean(float(self.own_loss(*batch)) for batch in batches)

    @property
    def _batch_of_couples(self) -> int:
        """How many samples a loss that couples them gets at once; 0 for other losses, to which it is all the same."""
        return self.train.batch_size if self.train is not None and self.spec.couples_samples else 0

    @cached_property
    def tensors_out(self) -> str:
        """'' where the model gives a tensor; otherwise why its outputs are not looked at."""
        if self.train is None:
            return ""
        with untouched(self.program), torch.no_grad():
            self.program.model.eval()
            outputs = self.outputs(self.train.x[:8])
        return "" if isinstance(outputs, Tensor) else f"the model's output is not a tensor ({type(outputs).__name__})"

    def outputs(self, x: Any) -> Any:
        """What the program gives for inputs, a tensor or a structure of tensors, fed where the model is."""
        return self.program.outputs(map_tensors(x, lambda tensor: tensor.to(self.device)))

    @cached_property
    def own_loss(self) -> Callable[[Any, Any], Tensor]:
        """The program's loss function, unwatched; it is asked where the model is."""
        own = self.program.loss_fn
        assert own is not None

        def loss(outputs: Any, targets: Any) -> Tensor:
            try:
                return own(outputs.to(self.device), targets.to(self.device))
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                raise NotAskedError(f"the loss_fn does not take what this is asked with, {text}") from error

        return loss

    @cached_property
    def examples(self) -> int | None:
        """How many examples an epoch is to see."""
        if self.spec.examples:
            return self.spec.examples
        try:
            return len(self.program.train_loader.dataset)  # type: ignore[union-attr]
        except (AttributeError, TypeError):
            return None

    @cached_property
    def full_spec(self) -> Spec:
        """The spec, with the number of examples filled in."""
        examples = self.examples
        if examples and self.train is not None:
            # Equal examples, such as empty margins, cannot be counted apart.
            different = len(set(fingerprints(self.train.x)))
            examples = int(examples * different / len(self.train.x))
        return replace(self.spec, examples=examples)

    @cached_property
    def constant_loss(self) -> float:
        """Loss on training examples of the best answer that is the same for all; of the untrained model without it."""
        untrained = max(abs(self.run.before), 1e-6) if math.isfinite(self.run.before) else 1.0
        most = slice(0, self._batch_of_couples or 1000)
        outputs = self.measure(self.train.part(most))[2] if self.train else None
        if self.train is None or outputs is None or outputs.ndim == 0 or self.program.loss_fn is None:
            return untrained
        y = self.train.y[: len(outputs)]
        if y.is_floating_point() and not y.isfinite().all():
            return untrained
        answer = torch.zeros_like(outputs[:1])
        if y.is_floating_point() and y.shape == outputs.shape and self.spec.task == "regression":
            answer = y.mean(dim=0, keepdim=True)
        try:
            # In proportion to the answer, so that targets in the thousands are reached too.
            rate = 0.1 * max(float(answer.abs().max()), 1.0)
            best = lowest_loss(self.own_loss, answer, outputs, y, rate, steps=100)
        except Exception:
            return untrained
        return best if 0 < best < math.inf else untrained
