"""What the rungs look at: the data, and a recorded run of the program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..training.preserve import preserved_modes
from .events import Recording
from .observed import Examples, Row, Run
from .observing import _attribute, _some, _tensor, authors_line, watch
from .program import Program, Spec
from .recorder import Recorder
from .untouched import untouched
from .watching import fingerprints


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
        self.trials: Any = None  # runs with one thing changed, see `comparing`
        wrapped = type(program.model).__name__
        if hasattr(program.model, "_orig_mod") or wrapped in ("DataParallel", "DistributedDataParallel"):
            self.unseen.append(f"layers inside of the {wrapped}: pass the model as it was before it was wrapped")

    @classmethod
    def of_recording(cls, recording: Recording, spec: Spec) -> Evidence:
        """A recording and nothing else."""
        evidence = cls(Program(nn.Identity(), [], None, ()), spec)
        evidence.__dict__.update(run=Run(recording), train=None, val=None, plain=None, examples=spec.examples)
        return evidence

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next((one.device for one in self.program.model.parameters()), torch.device("cpu"))

    @cached_property
    def train(self) -> Examples | None:
        """Training examples in the order of one epoch."""
        return self._examples(self.program.train_loader, "training")

    @cached_property
    def val(self) -> Examples | None:
        """Validation examples."""
        return self._examples(self.program.val_loader, "validation")

    @cached_property
    def plain(self) -> Examples | None:
        """Training examples without augmentation, where the program tells them apart; otherwise as they come."""
        if self.program.plain_loader is None:
            return self.train
        return self._examples(self.program.plain_loader, "training without augmentation")

    def _examples(self, loader: Iterable[Any] | None, name: str) -> Examples | None:
        if loader is None:
            return None
        with untouched(self.program):
            try:
                parts = list(_some(loader, self.program.parts))
                x, y = (self._joined([_tensor(part[i]) for part in parts], i) for i in (0, 1))
            except Exception as error:
                self.unseen.append(f"{name} data: {type(error).__name__}: {error}")
                return None
        return Examples(x, y, len(parts[0][0]), parts[0][0].device) if len(x) else None

    def _joined(self, parts: list[Tensor], target: int) -> Tensor:
        """Batches one after the other; sequences that each batch fills up by itself get the length of the longest."""
        lengths = {one.shape[1] for one in parts if one.ndim == 2 and not one.is_floating_point()}
        if len(lengths) > 1:
            ignored = -100 if self.spec.ignore_index is None else self.spec.ignore_index
            filler = ignored if target else self.spec.padding_index or 0
            parts = [F.pad(one, (0, max(lengths) - one.shape[1]), value=filler) for one in parts]
        return torch.cat(parts)

    @cached_property
    def run(self) -> Run:
        """The whole run, recorded: as many epochs as declared, each followed by an evaluation."""
        return self.record(self.spec.epochs or 5)

    def record(self, epochs: int) -> Run:
        """Train for some epochs under a recorder and put everything back."""
        program = self.program
        train = self.train.part(slice(0, 1000)) if self.train else None
        with untouched(program, self.seed):
            recorder = Recorder(program.model, program.optimizers)
            run = Run(recorder.recording)
            watch(program, recorder, run)
            tied = self._untied()
            try:
                run.before = self.measure(train)[0]
                with recorder:
                    for _ in range(epochs):
                        recorder.mark("epoch")
                        program.run_epoch()
                        recorder.mark("end of epoch")
                        recorder.mark("evaluation")
                        reported = program.run_evaluation() if program.evaluate or program.val_loader else {}
                        recorder.mark("end of evaluation")
                        with recorder.paused():
                            run.rows.append(Row(self.measure(train)[0], *self.measure(self.val)[:2], reported))
                run.outputs = (self.measure(train)[2], self.measure(self.val)[2])
                recorder.recording.untied = tied or self._untied()
                run.statistics = self._statistics()
            except Exception as error:
                run.error, run.line = error, authors_line(error)
            self._influence(recorder.recording)
        return run

    def _statistics(self) -> tuple[float, float]:
        norms = [m for m in self.program.model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        if self.train is None or not norms or any(m.running_mean is None for m in norms):
            return Run(Recording()).statistics
        part = self.train.part(slice(0, 512))
        loss, _, outputs = self.measure(part)
        before = min(loss, self.cooled(outputs, part.y, least=1.0))  # too high confidence is another matter
        self.program.model.eval()
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.train()
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches
        with torch.no_grad():
            for x, _ in self.train.batches():
                self.outputs(x)
        after = self.measure(part)[0]
        with torch.no_grad():  # the model is in evaluation mode, its norms are not: each batch has its own statistics
            for norm in norms:
                norm.train()
            own = [self.own_loss(self.outputs(x), y) * len(y) for x, y in part.batches()]
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        return before, min(after, float(sum(own)) / len(part.y))

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
                found = [self.outputs(x) for x, _ in examples.batches()]
                if not all(isinstance(one, Tensor) for one in found):
                    return math.nan, math.nan, None
                outputs, y = torch.cat(found), examples.y.to(self.device)
                loss = float(self.own_loss(outputs, y)) if program.loss_fn else math.nan
                metric = float(program.metric(outputs, y)) if program.metric else math.nan
                outputs = outputs.cpu()
            except Exception:  # the author's own evaluation says what is wrong with it
                return math.nan, math.nan, None
        return loss, metric, outputs

    def outputs(self, x: Tensor) -> Any:
        """What the program gives for inputs, fed where the model is."""
        return self.program.outputs(x.to(self.device))

    @cached_property
    def own_loss(self) -> Callable[[Any, Any], Tensor]:
        """The program's loss function, unwatched; it is asked where the model is."""
        own = self.program.loss_fn
        assert own is not None
        return lambda outputs, targets: own(outputs.to(self.device), targets.to(self.device))

    @cached_property
    def examples(self) -> int | None:
        """How many examples an epoch is to see."""
        if self.spec.examples:
            return self.spec.examples
        try:
            return len(self.program.train_loader.dataset)  # type: ignore[attr-defined]
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
        outputs = self.measure(self.train.part(slice(0, 1000)))[2] if self.train else None
        if self.train is None or outputs is None or outputs.ndim == 0 or self.program.loss_fn is None:
            return untrained
        y = self.train.y[: len(outputs)]
        if y.is_floating_point() and not y.isfinite().all():
            return untrained
        answer = torch.zeros_like(outputs[:1]).requires_grad_()
        if y.is_floating_point() and y.shape == outputs.shape and self.spec.task == "regression":
            answer = y.mean(dim=0, keepdim=True).requires_grad_()
        optimizer = torch.optim.Adam([answer], lr=0.1 * max(float(answer.detach().abs().max()), 1.0))
        best = math.inf
        try:
            for _ in range(100):
                loss = self.own_loss(answer.expand_as(outputs), y)
                best = min(best, float(loss.detach()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        except Exception:
            return untrained
        return best if 0 < best < math.inf else untrained

    def _untied(self) -> list[tuple[str, str]]:
        model = self.program.model
        pairs = [(a, b, _attribute(model, a), _attribute(model, b)) for a, b in self.spec.tied]
        return [(a, b) for a, b, one, other in pairs if one is not other or one is None]

    def _influence(self, recording: Recording) -> None:
        """Which of the parameters that no loss reached change the outputs when they change."""
        if self.train is None:
            return
        missing = [
            (key, p)
            for key, p in ((id(p), p) for p in self.program.model.parameters())
            if key not in recording.reached and p.requires_grad
        ]
        examples = self.train.part(slice(0, 8))
        before = self.measure(examples)[2] if missing else None
        found = set()
        for key, parameter in missing:
            value = parameter.detach().clone()
            with torch.no_grad():
                parameter.add_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter).to(parameter))
                after = self.measure(examples)[2]
                parameter.copy_(value)
            if before is not None and after is not None and not torch.equal(before, after):
                found.add(key)
        recording.influential = frozenset(found) if before is not None else None
