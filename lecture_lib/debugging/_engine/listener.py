"""Hear of PyTorch's losses and backward passes as they are called, and at hardly any cost when nobody listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

LOSSES = {
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "gaussian_nll_loss",
    "poisson_nll_loss",
    "multilabel_soft_margin_loss",
}


class Listener(TorchFunctionMode):
    """Calls back for losses, while it is `attentive`, and for backward passes, always.

    A function mode sees every call of PyTorch, and so costs more than a small model's step: it is switched off where
    only backward passes matter. What runs inside `torch.compile` is not heard.

    Args:
        on_loss: called with a loss function's name, arguments, keyword arguments and result.
        on_backward: called with the tensors that a backward pass starts from and the parameters that `autograd.grad`
            is asked for (None for `backward`, which fills `.grad`); returns whether it was one of training.

    """

    def __init__(self, on_loss: Callable[..., None], on_backward: Callable[[Any, Any], bool]) -> None:
        super().__init__()
        self._on_loss, self._on_backward = on_loss, on_backward
        self._needed = self._on = False  # needed: gradients are asked for in ways that only the mode sees
        self._depth = 0
        self._original = torch.autograd.backward
        self._patch = mock.patch.object(torch.autograd, "backward", self._backward)

    def __enter__(self) -> Any:
        """Listen."""
        self._depth = len(_get_current_function_mode_stack())
        self._patch.start()
        self._on = True
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        """Listen no longer."""
        self._patch.stop()
        if self._on:
            super().__exit__(*error)
        self._on = False

    def attend(self, attentive: bool) -> None:
        """Listen to everything, or to backward passes only; nothing changes inside a mode of the program's own."""
        stack = _get_current_function_mode_stack()
        if attentive and not self._on and len(stack) == self._depth:
            super().__enter__()
            self._on = True
        elif not attentive and self._on and not self._needed and stack and stack[-1] is self:
            super().__exit__(None, None, None)
            self._on = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Hear one call of PyTorch."""
        name = getattr(func, "__name__", "")
        kwargs = kwargs or {}
        if name == "grad" and args:
            inputs = args[1] if len(args) > 1 else kwargs.get("inputs", ())
            self._needed |= self._on_backward(args[0], [inputs] if isinstance(inputs, Tensor) else inputs)
        result = func(*args, **kwargs)
        if name in LOSSES and isinstance(result, Tensor):
            self._on_loss(name, args, kwargs, result)
        return result

    def _backward(self, tensors: Tensor | Sequence[Tensor], *args: Any, **kwargs: Any) -> None:
        self._on_backward(tensors, None)
        self._original(tensors, *args, **kwargs)
