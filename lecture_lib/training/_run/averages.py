"""The exponential moving average of the weights: often better than the last ones, for one line a step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from .checks import is_number


class ExponentialMovingAverage:
    """Keep average = decay · average + (1 - decay) · weights, beginning with the weights at construction.

    With warm-up the n-th update uses min(decay, (1 + n) / (10 + n)), n counted from 1, so that the first weights do not
    weigh on a short run; without, decay 0.999 remembers them for thousands of steps.

    Parameters are averaged, a tied one once. Buffers are not: the model keeps its own while the averages are
    applied, because the statistics of batch normalisation are running averages already.
    Source: Polyak and Juditsky 1992; the warm-up is that of tf.train.ExponentialMovingAverage.

    Args:
        model: its parameters are read at every update; the model is not changed.
        decay: weight of the old average, 0 or more and below 1.
        warmup: begin with a smaller decay.

    Attributes:
        updates: how many there were.

    Raises:
        ValueError: decay outside [0, 1), or a parameter in half precision, whose average would not move.

    """

    def __init__(self, model: nn.Module, decay: float, *, warmup: bool = True) -> None:
        if not is_number(decay) or not 0 <= decay < 1:
            raise ValueError(f"decay is {decay}; pass a number from 0 to below 1, such as 0.999.")
        parameters = {name: p for name, p in model.named_parameters() if p.is_floating_point() or p.is_complex()}
        for name, parameter in parameters.items():
            if parameter.dtype in (torch.float16, torch.bfloat16):
                raise ValueError(
                    f"{name} has dtype {parameter.dtype}, in which small updates of an average vanish. Keep the model "
                    "in float32 and train with precision='bf16', which converts only while it computes."
                )
        self.decay, self.warmup, self.updates = decay, warmup, 0
        self._names = list(parameters)
        self._parameters: list[Tensor] = list(parameters.values())
        self._averages = [parameter.detach().clone() for parameter in self._parameters]
        self._applied = False

    @torch.no_grad()
    def update(self) -> None:
        """Take the model's present weights in; once after each optimizer step."""
        self._require_not_applied("update")
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warmup else self.decay
        torch._foreach_lerp_(self._averages, self._parameters, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has the averaged weights inside and its own afterwards, also after an exception.

        Evaluate inside, or copy `model.state_dict()`; an optimizer step inside would change the averages. Nothing is
        copied: the two exchange their memory.

        Raises:
            RuntimeError: the averages are applied already.

        """
        self._require_not_applied("applied")
        self._exchange()
        self._applied = True
        try:
            yield
        finally:
            self._exchange()
            self._applied = False

    def state_dict(self) -> dict[str, Any]:
        """The averages by parameter name, live as in a model's state_dict, and the number of updates."""
        self._require_not_applied("state_dict")
        return {"updates": self.updates, "averages": dict(zip(self._names, self._averages, strict=True))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the averages of a stored run.

        Raises:
            ValueError: they have other names or shapes than this model's parameters.

        """
        self._require_not_applied("load_state_dict")
        stored = {name: list(average.shape) for name, average in state["averages"].items()}
        own = {name: list(average.shape) for name, average in zip(self._names, self._averages, strict=True)}
        if stored != own:
            name = next(name for name in {**own, **stored} if stored.get(name) != own.get(name))
            raise ValueError(
                f"the stored average of {name} has shape {stored.get(name)} and the model's parameter {own.get(name)} "
                "(None: there is none). Build the model as it was when the averages were stored."
            )
        for name, average in zip(self._names, self._averages, strict=True):
            average.copy_(state["averages"][name])
        self.updates = state["updates"]

    def _exchange(self) -> None:
        for index, parameter in enumerate(self._parameters):
            # `.data`, so that the optimizer goes on with the same parameter objects.
            parameter.data, self._averages[index] = self._averages[index], parameter.data

    def _require_not_applied(self, call: str) -> None:
        if self._applied:
            raise RuntimeError(
                f"{call} inside `with ema.applied()`: the model has the averaged weights there. Leave the block first."
            )
