"""03a-checkpoint: a run that is stopped, and goes on from a file in another process as if it had never been stopped."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, StepLR

from ..question import Functions, Inputs, PublicQuestion

FILE, MOVED = "run at the stop", "moved.run"
"""A path is what it is: no ending says what the file holds."""
NO_FILE, NO_WEIGHTS = "there is no file", "no weights in it"
NOT_READ = "not read: it holds more than tensors, numbers and texts"


class Centred(nn.Module):
    """Subtracts a running mean, a buffer that follows each example in train mode, and adds a frozen parameter.

    It follows the first example by `rate` of the way, and example number n, whose count is a buffer too, by `rate` / n.
    """

    def __init__(self, mean: np.ndarray, rate: float, shift: np.ndarray) -> None:
        super().__init__()
        self.running_mean, self.examples = nn.Buffer(torch.tensor(mean)), nn.Buffer(torch.tensor(0))
        self.shift = nn.Parameter(torch.tensor(shift), requires_grad=False)
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """One example [F]."""
        if self.training:
            self.examples.add_(1)
            self.running_mean.lerp_(x, self.rate / self.examples.item())
        return x - self.running_mean + self.shift


Run = tuple[nn.Sequential, Optimizer, LRScheduler]


def _make(inputs: Inputs, prefix: str = "") -> Run:
    linear: nn.Linear = nn.utils.skip_init(nn.Linear, inputs["weight"].shape[1], 1, dtype=torch.float64)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(inputs[f"{prefix}weight"]))
        linear.bias.zero_()
    centred = Centred(inputs[f"{prefix}mean"], inputs["mean_rate"], inputs[f"{prefix}shift"])
    model = nn.Sequential(centred, linear)
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["learning_rate"], momentum=inputs["momentum"])
    return model, optimizer, StepLR(optimizer, inputs["step_size"], inputs["gamma"])


def _train(run: Run, inputs: Inputs, epochs: range) -> None:
    """One step for each example; a shuffled order is drawn from torch's own stream."""
    model, optimizer, scheduler = run
    x, y = torch.tensor(inputs["x"]), torch.tensor(inputs["y"])
    for _ in epochs:
        for i in torch.randperm(len(x)) if inputs["shuffle"] else torch.arange(len(x)):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x[i]), y[i]).backward()
            optimizer.step()
            if inputs["after_each_example"]:
                scheduler.step()
        if not inputs["after_each_example"]:
            scheduler.step()


def _until_the_stop(inputs: Inputs, save: Callable[..., object]) -> np.ndarray:
    """Train for the epochs before the stop, save before the first and after the last; the weights at the stop."""
    torch.manual_seed(inputs["seed"])
    run = _make(inputs)
    save(*run, 0)
    _train(run, inputs, range(inputs["stop"]))
    save(*run, inputs["stop"])
    return run[0][1].weight.detach().numpy().copy()  # type: ignore[operator]  # a Linear


def _in_another_process(work: Callable[[], object]) -> None:
    """Run `work` in a copy of this process, so that only the files that it writes remain.

    Where it fails, it runs here once more, and its exception is raised. Only Linux copies a process that uses threads.
    """
    if sys.platform == "linux":
        with warnings.catch_warnings():  # of threads, which the copy does not have and does not need
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            code = 1
            try:
                torch.set_num_threads(1)
                work()
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1] == 0:
            return
    work()


def _saved(functions: Functions, inputs: Inputs, path: Path) -> None:
    """The file that the student's `save_run` leaves at `path`."""
    save_run = functions["save_run"]

    def work() -> None:
        os.chdir(path.parent)  # what is written by a relative name does not survive
        _until_the_stop(inputs, lambda *run: save_run(str(path), *run))

    folder = Path.cwd()
    try:
        _in_another_process(work)
    finally:
        os.chdir(folder)


def _resumed(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as new_folder:
        path, moved = Path(folder) / "run.pt", Path(new_folder) / "moved.pt"
        _saved(functions, inputs, path)
        if path.is_file():
            path.rename(moved)  # what goes on has the file, and nothing else
        torch.manual_seed(inputs["another_seed"])
        run = _make(inputs, "another_")
        done = int(functions["resume_run"](str(moved), *run))
        _train(run, inputs, range(done, inputs["epochs"]))
        return {"weight": run[0][1].weight}


def _file(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    at_stop = _until_the_stop(inputs, lambda *run: None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        _saved(functions, inputs, path)
        if not path.is_file():
            return {"weight": NO_FILE}
        try:
            with warnings.catch_warnings():  # about formats that are refused anyway
                warnings.simplefilter("ignore")
                saved = torch.load(path, weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError):
            return {"weight": NOT_READ}
    # The file's structure is free: of what is as large as the weights, what is nearest to them.
    fitting = [window.reshape(at_stop.shape) for array in _arrays(saved) for window in _windows(array, at_stop.size)]
    nearest = min(fitting, key=lambda array: float(np.abs(array - at_stop).max()), default=None)
    near = nearest is not None and np.abs(nearest - at_stop).max() < 1e-3
    return {"weight": nearest if near else NO_WEIGHTS}


def _windows(array: np.ndarray, size: int) -> np.ndarray:
    flat = array.ravel()
    return np.lib.stride_tricks.sliding_window_view(flat, size) if flat.size >= size else np.zeros((0, size))


def _arrays(saved: Any) -> Iterator[np.ndarray]:
    """Every tensor, and every list of numbers, in a loaded file, except tensors of integers."""
    if isinstance(saved, Tensor):
        if saved.is_floating_point():
            yield saved.detach().double().numpy()
    elif isinstance(saved, dict):
        for part in saved.values():
            yield from _arrays(part)
    elif isinstance(saved, list | tuple):
        if all(isinstance(entry, int | float) for entry in saved):
            yield np.asarray(saved, dtype=np.float64)
        for part in saved:
            yield from _arrays(part)


QUESTION = PublicQuestion(
    id="03a-checkpoint",
    title="save and resume",
    functions=("save_run", "resume_run"),
    parts={"file": _file, "resumed": _resumed},
    ready_made=("lecture_lib.training.train",),
    relative_tolerance=1e-10,  # the same run with sums in another order; rounded weights are wrong
)
