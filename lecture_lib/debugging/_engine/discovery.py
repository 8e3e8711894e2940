"""Find the models and optimizers of a script that knows nothing of the ladder, and record their training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from ..recorder import Recorder
from .events import Recording
from .inspection import held_by

WAITS = 3  # steps after which recording begins even if an optimizer has taken none yet


class Discovery:
    """Watches which models are called and which optimizers step, and records them from the second step on.

    The first steps are needed to see what there is: a model is whatever is called from outside of any other module and
    holds parameters that an optimizer trains.

    Attributes:
        recorder: None until something was found to record.
        steps: that were taken before recording began.

    """

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.steps = 0
        self._optimizers: list[Optimizer] = []
        self._stepped: set[int] = set()
        self._roots: list[nn.Module] = []
        self._depth = 0
        self._stack = ExitStack()

    @property
    def recording(self) -> Recording | None:
        """What was seen; None where nothing was trained."""
        return None if self.recorder is None else self.recorder.recording

    def _made(self, optimizer: Optimizer) -> None:
        if not any(registered is optimizer for registered in self._optimizers):
            self._optimizers.append(optimizer)

    def _before(self, module: nn.Module, args: Any) -> None:
        self._depth += 1
        if self._depth > 1 or self.recorder is not None:
            return
        if all(root is not module for root in self._roots):
            self._roots.append(module)
        waiting = [optimizer for optimizer in self._optimizers if id(optimizer) not in self._stepped]
        if self.steps and (not waiting or self.steps >= WAITS):
            self._begin(module, args)

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        self._depth = max(0, self._depth - 1)

    def _took_a_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._made(optimizer)
        self._stepped.add(id(optimizer))
        if self.recorder is None:
            self.steps += 1

    def _begin(self, called: nn.Module, args: Any) -> None:
        trained = held_by(self._optimizers)
        roots = [root for root in self._roots if any(id(p) in trained for p in root.parameters())]
        inner = {id(module) for root in roots for module in root.modules() if module is not root}
        roots = [root for root in roots if id(root) not in inner]
        if not roots:
            return
        used = [optimizer for optimizer in self._optimizers if id(optimizer) in self._stepped]
        self.recorder = Recorder(roots[0] if len(roots) == 1 else nn.ModuleList(roots), used)
        self.recorder.recording.stepped_before = False  # but for the few steps that it took to find the models
        self._stack.enter_context(self.recorder)
        if any(root is called for root in roots):
            self.recorder.forward(called, args)  # its hooks were hung up too late for this call

    @contextmanager
    def watching(self) -> Iterator[Discovery]:
        """Watch what runs inside."""
        # Optimizers made inside are known before their first step, so that recording can wait for it.
        original = Optimizer.__init__

        def made(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            self._made(optimizer)

        with self._stack as stack:
            stack.enter_context(mock.patch.object(Optimizer, "__init__", made))
            stack.callback(register_module_forward_pre_hook(self._before).remove)
            stack.callback(register_module_forward_hook(self._after, always_call=True).remove)
            stack.callback(register_optimizer_step_post_hook(self._took_a_step).remove)
            yield self
