"""What cannot be trained is refused in a sentence that says what to pass instead."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.training import evaluate, find_lr, train
from lecture_lib.training._run.averages import ExponentialMovingAverage
from lecture_lib.training.schedules import step_decay

GENERATOR = torch.Generator().manual_seed(0)
BATCHES = [(torch.randn(8, 6, generator=GENERATOR), torch.randint(3, (8,), generator=GENERATOR)) for _ in range(2)]


class Sharpness(torch.optim.SGD):
    """As sharpness-aware minimisation is written: a closure that may be left out, and may not."""

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        assert closure is not None, "SAM requires closure, but it was not provided"


def run_both(model: Any, optimizer: Any, loss_fn: Any, error: type[Exception], says: str) -> None:
    """By train and by find_lr; both leave the weights as they were."""
    before = [one.clone() for one in model.parameters()] if isinstance(model, nn.Module) else []
    with pytest.raises(error, match=says):
        train(model, BATCHES, BATCHES, optimizer, loss_fn, 1)
    with pytest.raises(error, match=says):
        find_lr(model, BATCHES, optimizer, loss_fn, steps=5)
    if before:
        assert all(map(torch.equal, before, model.parameters()))


@pytest.mark.parametrize("make", [torch.optim.LBFGS, Sharpness], ids=["LBFGS", "SAM"])
def test_optimizers_with_a_closure(make: Callable[..., torch.optim.Optimizer]) -> None:
    model = nn.Linear(6, 3)
    optimizer = make(model.parameters(), lr=0.1)
    run_both(model, optimizer, F.cross_entropy, TypeError, rf"optimizer is {make.__name__}, whose step wants a closure")


def linear(x: Tensor) -> Tensor:
    return x[:, :3]


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(6, 3)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


Swap = Callable[[Any, Any], tuple[Any, Any, Any]]
CE = F.cross_entropy
SWAPPED: dict[str, tuple[Swap, str]] = {
    "loss and optimizer": (lambda m, o: (m, nn.MSELoss(), o), "optimizer is a MSELoss and loss_fn a SGD: they are"),
    "loss function and optimizer": (lambda m, o: (m, CE, o), "and loss_fn a SGD: they are exchanged"),
    "a function for a model": (lambda m, o: (linear, o, CE), "model is the function linear; pass a torch.nn.Module"),
    "no model": (lambda m, o: (None, o, CE), "model is a NoneType"),
    "a class for a model": (lambda m, o: (nn.Linear, o, CE), r"model is the class Linear\. Pass an instance"),
    "a class for an optimizer": (lambda m, o: (m, torch.optim.SGD, CE), "optimizer is the class SGD"),
    "parameters": (lambda m, o: (m, m.parameters(), CE), "optimizer is a generator; pass one of torch.optim"),
    "no optimizer": (lambda m, o: (m, None, CE), "optimizer is a NoneType"),
    "several optimizers": (lambda m, o: (m, [o, o], CE), "optimizer is 2 optimizers; pass one optimizer, with"),
    "no loss": (lambda m, o: (m, o, None), "loss_fn is a NoneType; pass a function"),
    "model and optimizer": (lambda m, o: (o, m, CE), "model is a SGD"),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_parts_that_are_exchanged_or_something_else(name: str) -> None:
    make, says = SWAPPED[name]
    run_both(*make(*parts()), TypeError, says)


@pytest.mark.parametrize(
    ("loader", "says"),
    [
        (None, "is None"),
        (5, "is a int, which gives no batches"),
        (nn.CrossEntropyLoss(), "is a CrossEntropyLoss, which gives no batches"),
    ],
    ids=["none", "a number", "a loss"],
)
@pytest.mark.parametrize("which", ["train_loader", "val_loader", "loader"])
def test_loaders_that_give_nothing(which: str, loader: Any, says: str) -> None:
    model, optimizer = parts()
    loaders = {"train_loader": BATCHES, "val_loader": BATCHES, which: loader}
    run = (
        partial(evaluate, model, loader, F.cross_entropy)
        if which == "loader"
        else partial(train, model, loaders["train_loader"], loaders["val_loader"], optimizer, F.cross_entropy, 1)
    )
    with pytest.raises(TypeError, match=f"{which} {says}"):
        run()
    if loader is None and which == "val_loader":
        with pytest.raises(TypeError, match=r"evaluates after each epoch.*stratified_split"):
            train(model, BATCHES, None, optimizer, F.cross_entropy, 1)


class Detached(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class Rounded(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(x)


GRAPHLESS: dict[str, tuple[Callable[[], nn.Module], Any, str]] = {
    "outputs detached": (lambda: Detached(6, 3), F.cross_entropy, "the model's outputs do not depend on a trainable"),
    "forward without a graph": (lambda: Rounded(6, 3), nn.CrossEntropyLoss(), "Look in forward for detach"),
    "loss detached": (lambda: nn.Linear(6, 3), lambda o, y: F.cross_entropy(o, y).detach(), "loss_fn cuts it off"),
    "loss of predictions": (
        lambda: nn.Linear(6, 3), lambda o, y: (o.argmax(1) != y).float().mean(), "loss_fn cuts it off"
    ),
    "a new tensor": (
        lambda: nn.Linear(6, 3), lambda o, y: torch.tensor(F.cross_entropy(o, y).item()), "loss_fn cuts it off"
    ),
    "complex": (lambda: nn.Linear(6, 3), lambda o, y: (o + 1j * o).mean(), "the loss is complex"),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHLESS)
def test_a_loss_without_a_graph(name: str) -> None:
    make, loss_fn, says = GRAPHLESS[name]
    model = make()
    run_both(model, torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, ValueError, says)


def test_gradients_that_are_switched_off() -> None:
    model, optimizer = parts()
    with torch.no_grad():
        run_both(model, optimizer, F.cross_entropy, ValueError, "gradients are switched off")


def test_evaluation_takes_the_same_care() -> None:
    model, optimizer = parts()
    with pytest.raises(TypeError, match="model is the function linear"):
        evaluate(linear, BATCHES, F.cross_entropy)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="loss_fn is a SGD; pass a function"):
        evaluate(model, BATCHES, optimizer)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="loader is a CrossEntropyLoss"):
        evaluate(model, nn.CrossEntropyLoss(), BATCHES)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda model, optimizer: train(model, BATCHES, BATCHES, optimizer, F.cross_entropy, True), TypeError),
        (lambda model, optimizer: find_lr(model, BATCHES, optimizer, F.cross_entropy, start=True), TypeError),
        (lambda model, optimizer: evaluate(model, BATCHES, F.cross_entropy, count=5), TypeError),
        (lambda model, optimizer: step_decay(1.0), ValueError),
    ],
    ids=["epochs=True", "start=True", "count=5", "a decay after the whole run"],
)
def test_a_setting_that_only_looks_like_one(call: Callable[..., Any], error: type[Exception]) -> None:
    model = nn.Linear(6, 3)
    with pytest.raises(error, match="pass a"):
        call(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_a_decay_may_be_one_of_numpys_numbers() -> None:
    assert ExponentialMovingAverage(nn.Linear(2, 2), np.float32(0.5)).updates == 0
