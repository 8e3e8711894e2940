"""Runs of a program with something changed, seed by seed, and what a run of it as it is shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from ..._common.randomness import preserved_random_streams
from ...training._run.preserve import evaluating
from ..program import Program, Spec
from .assumptions import NotAskedError
from .changes import DROPOUT, Change, around_steps, replacing
from .preserve import untouched
from .read_examples import read
from .replace_layers import LAST
from .replacement import Profile
from .run_data import Examples
from .yardstick import WORST, error, pairs_of, refuse_contrary, refuse_other_meaning

Make = Callable[[int], tuple[Program, Spec]]


class Runs:
    """Trains a program with replacements, seed by seed."""

    def __init__(self, program: Program | None, spec: Spec, make: Make | None, seed: int, end: float) -> None:
        self.program, self.spec, self.make, self.seed, self.end = program, spec, make, seed, end
        self.failed: list[str] = []
        self.unaffordable: list[tuple[str, str]] = []
        self.length = 1.0  # of a run, at first
        self.took, self.plain = 0.0, WORST  # seconds of the longest run; error of the program as it is

    @property
    def left(self) -> float:
        """Seconds of computing time."""
        return self.end - time.process_time()

    @contextmanager
    def fresh(self, number: int) -> Iterator[tuple[Program, Spec]]:
        """The program of a seed, untrained, and put back afterwards."""
        if self.make is not None:
            with preserved_random_streams():
                torch.manual_seed(self.seed + number)
                program, spec = self.make(self.seed + number)
                torch.manual_seed(self.seed + number)
                yield program, spec
            return
        assert self.program is not None
        with untouched(self.program, self.seed + number) as program:
            yield program, self.spec

    def error(self, number: int, *changes: Change, epochs: float = 1.0, judges: Sequence[Any] = ()) -> float:
        """Error after a run with some changes; epochs as a multiple of those declared."""
        start = time.process_time()
        with self.fresh(number) as (program, spec):
            pairs = [program.parts(batch) for batch in judges] if judges else pairs_of(program)
            with _all(changes, program) as after:
                for _ in range(max(1, round((spec.epochs or 5) * epochs))):
                    _epoch(program)
                for act in after:
                    act()
                result = error(program, pairs, spec)
        self.took = max(self.took, time.process_time() - start)
        return result

    def _examples(self, program: Program, spec: Spec, split: str) -> Examples | None:
        loader = getattr(program, f"{split}_loader")
        examples, reason = read(loader, program, spec, lambda x: program.outputs(x.to(program.device)))
        if reason:
            self.failed.append(f"inputs and labels: {split} examples: {reason}")
        return examples

    def watch(self) -> Profile:
        """One run of the program as it is, with an eye on what it calls and at what rates it learns."""
        rates: list[list[float]] = []
        curve: list[float] = []
        changed: list[bool] = []
        called: set[str] = set()

        def spy(name: str) -> Callable[..., Any]:
            def call(function: Any, *args: Any, **kwargs: Any) -> Any:
                called.add(name)
                return function(*args, **kwargs)

            return call

        names = [*DROPOUT, *LAST, *(f"{name}_" for name in LAST), "detach", "detach_"]
        with self.fresh(0) as (program, spec):
            if spec.task is None and spec.couples_samples:
                raise NotAskedError("the loss relates samples, no task is declared: what the outputs mean is not known")
            pairs = pairs_of(program)
            train, val = self._examples(program, spec, "train"), self._examples(program, spec, "val")
            if spec.task is None and train is not None:
                with evaluating(program.model), torch.no_grad():
                    outputs = program.outputs(train.x[:64].to(program.device))
                refuse_contrary(program.loss_fn, outputs, train.y[:64].to(program.device))
            rates = [[0.0] * len(optimizer.param_groups) for optimizer in program.optimizers]
            numbers = {id(optimizer): number for number, optimizer in enumerate(program.optimizers)}

            def before(optimizer: Any, args: Any, kwargs: Any) -> None:
                own = rates[numbers[id(optimizer)]]
                if own is rates[0]:
                    curve.append(max(float(group["lr"]) for group in optimizer.param_groups))
                for place, group in enumerate(optimizer.param_groups[: len(own)]):
                    rate = float(group["lr"])
                    # 0 stands for no step yet.
                    changed.append(own[place] not in (0.0, rate))
                    own[place] = max(own[place], rate)

            spies = replacing(**{name: spy(name) for name in names})
            start = time.process_time()
            with around_steps(program, before):
                with spies(program):  # which slows everything down, and sees in one epoch what there is to see
                    _epoch(program)
                for _ in range((spec.epochs or 5) - 1):
                    _epoch(program)
            self.plain = error(program, pairs, spec)
            self.took = time.process_time() - start
            refuse_other_meaning(program, pairs, self.plain)
        with self.fresh(0) as (program, spec), torch.no_grad():
            program.model.eval()
            repeated = [program.outputs(train.x[:8].to(program.device)) for _ in range(2)] if train is not None else []
            outputs = repeated[0].cpu() if repeated and isinstance(repeated[0], torch.Tensor) else None
            random = outputs is not None and not torch.allclose(outputs, repeated[1].cpu(), rtol=1e-3, atol=1e-5)
        # With `make` the programs above have been used up: a new one is untrained.
        program, spec = self.make(self.seed) if self.make is not None else (self.program, self.spec)  # type: ignore[assignment]
        return Profile(program, spec, train, val, outputs, rates, any(changed), curve, random, frozenset(called))


def _epoch(program: Program) -> None:
    """One epoch, and the author's own evaluation, which may leave something behind."""
    program.run_epoch()
    if program.evaluate is not None:
        program.run_evaluation()


@contextmanager
def _all(changes: Sequence[Change], program: Program) -> Iterator[list[Callable[[], None]]]:
    """Several changes at once, the first outermost; gives what they want done after training."""
    with ExitStack() as stack:
        contexts = [stack.enter_context(change(program)) for change in changes]
        yield [context for context in contexts if callable(context)]
