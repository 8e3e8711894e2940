"""03a-checkpoint: a run that is stopped, and goes on from a file as if it never had been."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, StepLR

from ..._common.randomness import preserved_random_streams
from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion


def _make(inputs: Inputs, weight: np.ndarray) -> tuple[nn.Linear, Optimizer, LRScheduler]:
    model: nn.Linear = nn.utils.skip_init(nn.Linear, weight.shape[1], 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(weight))
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["learning_rate"], momentum=inputs["momentum"])
    return model, optimizer, StepLR(optimizer, step_size=2, gamma=inputs["gamma"])


def _train(run: tuple[nn.Linear, Optimizer, LRScheduler], inputs: Inputs, epochs: range) -> None:
    """One step for each example; where the order is shuffled, it is drawn from torch's ambient stream."""
    model, optimizer, scheduler = run
    x, y = torch.tensor(inputs["x"]), torch.tensor(inputs["y"])
    for _ in epochs:
        for i in torch.randperm(len(x)) if inputs["shuffle"] else torch.arange(len(x)):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x[i]), y[i]).backward()
            optimizer.step()
        scheduler.step()


def _stopped(functions: Functions, inputs: Inputs, path: Path) -> np.ndarray:
    """Train for the epochs before the stop and save; the weights at the stop."""
    torch.manual_seed(inputs["seed"])
    run = _make(inputs, inputs["weight"])
    _train(run, inputs, range(inputs["stop"]))
    functions["save_run"](str(path), *run, inputs["stop"])
    return run[0].weight.detach().numpy().copy()


def _resumed(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    with preserved_random_streams(), tempfile.TemporaryDirectory() as folder:
        path, moved = Path(folder) / "run.pt", Path(folder) / "moved.pt"
        _stopped(functions, inputs, path)
        path.rename(moved)  # what goes on has the file, and nothing else
        torch.manual_seed(inputs["another_seed"])
        run = _make(inputs, inputs["another_weight"])
        done = functions["resume_run"](str(moved), *run)
        _train(run, inputs, range(int(done), inputs["epochs"]))
        return {"weight": run[0].weight}


def _file(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    with preserved_random_streams(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.pt"
        at_stop = _stopped(functions, inputs, path)
        if not path.is_file():
            return {"weight": "there is no file"}
        try:
            with warnings.catch_warnings():  # about formats that are refused anyway
                warnings.simplefilter("ignore")
                saved = torch.load(path, weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError):
            return {"weight": "not read: it holds more than tensors, numbers and texts"}
        fitting = [array.reshape(at_stop.shape) for array in _arrays(saved) if array.size == at_stop.size]
        # The file's structure is free: of what is as large as the weights, what is nearest to them.
        nearest = min(fitting, key=lambda array: float(np.abs(array - at_stop).max()), default=None)
        return {"weight": "no weights in it" if nearest is None else nearest}


def _arrays(saved: Any) -> Iterator[np.ndarray]:
    """Every tensor, and every list of numbers, that is somewhere in a loaded file."""
    if isinstance(saved, Tensor):
        yield saved.detach().double().numpy()
    elif isinstance(saved, dict):
        for part in saved.values():
            yield from _arrays(part)
    elif isinstance(saved, list | tuple):
        try:
            yield np.asarray(saved, dtype=np.float64)
        except (TypeError, ValueError):
            for part in saved:
                yield from _arrays(part)


def _case(**changes: Any) -> dict[str, Any]:
    """One example (1, 1), learning rate 0.25: each epoch of plain SGD halves the distance of the weight to 1."""
    return {
        "x": np.array([[1.0]]),
        "y": np.array([[1.0]]),
        "weight": np.array([[0.0]]),
        "another_weight": np.array([[5.0]]),
        "learning_rate": 0.25,
        "momentum": 0.0,
        "gamma": 1.0,
        "shuffle": False,
        "seed": 1,
        "another_seed": 3,
        "stop": 2,
        "epochs": 4,
        **changes,
    }


def _weight(value: float, part: str = "resumed") -> dict[str, dict[str, np.ndarray]]:
    return {part: {"weight": np.array([[value]])}}


QUESTION = PublicQuestion(
    id="03a-checkpoint",
    title="save and resume",
    functions=("save_run", "resume_run"),
    parts={"resumed": _resumed, "file": _file},
    ready_made=("lecture_lib.training.train",),
    relative_tolerance=1e-10,
    cases=(
        PublicCase(
            name="plain SGD, stopped after 2 of 4 epochs",
            inputs=_case(),
            expected={**_weight(0.9375), **_weight(0.75, "file")},
            mistakes={
                "nothing-written": {"file": {"weight": "there is no file"}},
                "no-weights": {"file": {"weight": "no weights in it"}},
                "objects-pickled": {"file": {"weight": "not read: it holds more than tensors, numbers and texts"}},
                "weights-lost": _weight(2.0),
                "epoch-lost": _weight(0.984375),
                "epoch-off-by-one": _weight(0.875),
            },
        ),
        PublicCase(
            name="with momentum 0.5",
            inputs=_case(momentum=0.5),
            expected=_weight(1.25),
            mistakes={"momentum-lost": _weight(1.0)},
        ),
        PublicCase(
            name="the rate divided by 4 after every second epoch, stopped after 3 of 6",
            inputs=_case(gamma=0.25, stop=3, epochs=6),
            expected=_weight(0.8203697204589844),
            mistakes={
                "only-weights": _weight(0.9521484375),
                "optimizer-lost": _weight(0.916259765625),
                "schedule-lost": _weight(0.8377532958984375),
            },
        ),
        PublicCase(
            name="three examples in a shuffled order",
            inputs=_case(x=np.ones((3, 1)), y=np.array([[1.0], [2.0], [4.0]]), shuffle=True),
            expected=_weight(2.01318359375),
            mistakes={"random-lost": _weight(2.10693359375), "random-restarted": _weight(2.88818359375)},
        ),
    ),
    misconceptions={
        "nothing-written": Misconception(
            "there is no file at the path",
            "where the file is written, and under which name",
        ),
        "objects-pickled": Misconception(
            "the file cannot be loaded with weights_only=True: whole objects are in it, or torch.save did not write it",
            "what of each object is data: its state_dict",
        ),
        "no-weights": Misconception(
            "nothing in the file is as large as the model's weights",
            "whether the model's state_dict is in what you save",
        ),
        "weights-lost": Misconception(
            "the resumed run went on with the new model's own weights",
            "whether the model is given its state back, or only the others are",
        ),
        "epoch-lost": Misconception(
            "the resumed run began again at its first epoch",
            "the number that is returned, and where it comes from",
        ),
        "epoch-off-by-one": Misconception(
            "the resumed run skipped an epoch or did one twice",
            "whether the number is that of the epochs done, or of the one in which the run was",
        ),
        "momentum-lost": Misconception(
            "the resumed run began without momentum: the optimizer's running averages were not in it",
            "what an optimizer remembers from step to step",
        ),
        "only-weights": Misconception(
            "only the weights came back: rate, momentum and schedule began anew",
            "what besides the model changes from epoch to epoch",
        ),
        "optimizer-lost": Misconception(
            "the schedule came back and the optimizer did not: its rate and momentum are those of a new one",
            "where the learning rate is kept that the next step uses",
        ),
        "schedule-lost": Misconception(
            "the rate came back with the optimizer, but the schedule counts from 0 again",
            "how the schedule knows when it is time for the next change",
        ),
        "random-lost": Misconception(
            "the resumed run drew its orders from the random stream as it was found, not as it was at the stop",
            "what the order of the examples is drawn from",
        ),
        "random-restarted": Misconception(
            "the random stream began at its seed again: the resumed run saw the first epochs' orders once more",
            "whether a seed says how far a stream has come",
        ),
    },
)
