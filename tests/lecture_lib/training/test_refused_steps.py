"""A step that is refused leaves weights, buffers and the optimizer's state as they were, bit for bit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.training import train
from lecture_lib.training._run.guard import FiniteGuard, NonFiniteError
from lecture_lib.training._run.terms import Terms
from lecture_lib.training.accumulation import windows
from lecture_lib.training.precision import Precision
from lecture_lib.training.step import TrainingStep

INF, NAN = math.inf, math.nan


def make_batches(count: int = 4, size: int = 8) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(size, 6, generator=generator), torch.randint(3, (size,), generator=generator))
        for _ in range(count)
    ]


def spoiled(batches: list[Any], number: int, value: float) -> list[Any]:
    """The same batches; one input of one of them is replaced."""
    found = [(x.clone(), y) for x, y in batches]
    found[number][0][2, 3] = value
    return found


class CodeBook(nn.Module):
    """Buffers that forward replaces, that begin infinite, that share their memory, that are not there at first."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("highest", torch.full((8,), -INF))
        self.register_buffer("mask", torch.full((8, 8), -INF).triu(1))
        self.register_buffer("positions", torch.arange(8.0).expand(3, 8))
        self.register_buffer("unset", None)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(dim=0)
            self.highest = torch.maximum(self.highest, x.detach().amax(dim=0))
            self.unset = x.detach().sum()
        return x - self.mean + self.mask.softmax(dim=1).sum() * 0 + self.positions[0] * 0


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm": lambda: nn.BatchNorm1d(8),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)),
    "replaced buffers": CodeBook,
}


def make_model(layer: nn.Module, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), layer, nn.Tanh(), nn.Linear(8, 3))


def contents(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    assert first.keys() == second.keys()
    return all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.filterwarnings("ignore:accumulate=:UserWarning")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("value", [NAN, INF], ids=str)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_skipped_step_is_as_if_its_batches_were_not_there(
    layer: str, value: float, accumulate: int, precision: str
) -> None:
    """The oracle is the same run without the window; a layer that draws at its making is the same by its seed."""
    batches = make_batches(6)
    ours = make_model(LAYERS[layer]())
    oracle = copy.deepcopy(ours)
    held = make_batches(2)
    without = batches[:2] + batches[2 + accumulate :]
    histories = []
    for model, data, skip in ((ours, spoiled(batches, 2, value), "skip"), (oracle, without, "raise")):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        histories.append(
            train(
                model, data, held, optimizer, F.cross_entropy, 1,
                accumulate=accumulate, precision=precision, non_finite=skip, ema=0.9,
            )
        )  # fmt: skip
    assert histories[0].rows[0].skipped == 1
    assert same(contents(ours), contents(oracle))
    assert histories[0].rows[0].val_loss == histories[1].rows[0].val_loss
    assert math.isfinite(histories[0].rows[0].val_loss)


@pytest.mark.parametrize("layer", LAYERS)
def test_an_error_leaves_what_the_last_step_left(layer: str) -> None:
    batches = make_batches()
    ours = make_model(LAYERS[layer]())
    oracle = copy.deepcopy(ours)
    optimizer = torch.optim.Adam(ours.parameters(), lr=0.01)
    with pytest.raises(NonFiniteError, match=r"step 3, .* Weights and buffers are those before this step"):
        train(ours, spoiled(batches, 2, NAN), batches, optimizer, F.cross_entropy, 1)
    train(oracle, batches[:2], batches, torch.optim.Adam(oracle.parameters(), lr=0.01), F.cross_entropy, 1)
    assert same(contents(ours), contents(oracle))


def test_the_objects_that_others_hold_are_those_that_get_their_values_back() -> None:
    model = make_model(CodeBook())
    held, before = model[1].mean, model[1].mean.clone()
    with pytest.raises(NonFiniteError):
        train(
            model, spoiled(make_batches(1), 0, NAN), make_batches(1), torch.optim.SGD(model.parameters(), lr=0.1),
            F.cross_entropy, 1,
        )  # fmt: skip
    assert model[1].mean is held
    assert torch.equal(held, before)
    assert model[1].unset is None


@pytest.mark.parametrize("non_finite", ["raise", "skip"])
def test_a_buffer_that_overflows_behind_a_finite_loss_is_refused(non_finite: str) -> None:
    """The variance of inputs of 1e30 is infinite, and what is divided by it is 0: loss and gradient are finite."""
    batches = make_batches()
    large = [(x * 1e30 if number == 2 else x, y) for number, (x, y) in enumerate(batches)]
    model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if non_finite == "raise":
        with pytest.raises(NonFiniteError, match=r"buffer 0\.running_var would not be") as caught:
            train(model, large, batches, optimizer, F.cross_entropy, 1)
        assert caught.value.kind == "buffer"
    else:
        history = train(model, large, batches, optimizer, F.cross_entropy, 1, non_finite="skip")
        assert history.rows[0].skipped == 1
        assert math.isfinite(history.rows[0].val_loss)
    assert all(value.isfinite().all() for value in model.state_dict().values())


def test_buffers_that_are_infinite_on_purpose_are_not_refused() -> None:
    model = make_model(CodeBook())
    history = train(
        model, make_batches(), make_batches(), torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1
    )
    assert history.rows[0].skipped == 0
    assert model[1].highest.isfinite().all()
    assert torch.equal(model[1].mask, torch.full((8, 8), -INF).triu(1))


def test_an_error_in_a_later_micro_batch_puts_the_buffers_back() -> None:
    batches = make_batches()
    model = make_model(nn.BatchNorm1d(8))
    before = contents(model)
    broken = [batches[0], (torch.zeros(8, 5), batches[1][1])]
    with pytest.warns(UserWarning, match="accumulate=2"), pytest.raises(RuntimeError, match="cannot be multiplied"):
        train(model, broken, batches, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1, accumulate=2)
    assert same(contents(model), before)


# Updates.


class Normalised(torch.optim.Optimizer):
    """Steps of one length, by a norm that is 0 where there is no gradient."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["steps"] = self.state[parameter].get("steps", 0) + 1
                parameter -= group["lr"] * parameter.grad / parameter.grad.norm()


UPDATES: dict[str, tuple[Callable[[Any], torch.optim.Optimizer], float]] = {
    "SGD, rate": (lambda p: torch.optim.SGD(p, lr=1e30), 1e20),
    "SGD, momentum": (lambda p: torch.optim.SGD(p, lr=1e28, momentum=0.9, nesterov=True), 1e20),
    "SGD, infinite rate": (lambda p: torch.optim.SGD(p, lr=INF), 1.0),
    "SGD, weight decay": (lambda p: torch.optim.SGD(p, lr=1e19, weight_decay=1e25), 1.0),
    "Adam, rate": (lambda p: torch.optim.Adam(p, lr=1e39), 1.0),
    "Adam, squares of the gradient": (lambda p: torch.optim.Adam(p, lr=1e-3), 1e25),
    "AdamW, weight decay": (lambda p: torch.optim.AdamW(p, lr=1e20, weight_decay=1e20), 1.0),
    "RMSprop": (lambda p: torch.optim.RMSprop(p, lr=1e39), 1.0),
    "RMSprop, centered": (lambda p: torch.optim.RMSprop(p, lr=1e38, centered=True), 1.0),
    "Adagrad": (lambda p: torch.optim.Adagrad(p, lr=1e39), 1.0),
    "NAdam": (lambda p: torch.optim.NAdam(p, lr=1e39), 1.0),
}


@pytest.mark.parametrize("non_finite", ["raise", "skip"])
@pytest.mark.parametrize("name", UPDATES)
def test_an_update_that_overflows_is_taken_back(name: str, non_finite: str) -> None:
    make, scale = UPDATES[name]
    batches = [(x * scale, y) for x, y in make_batches(2)]
    model = nn.Linear(6, 3)
    before = contents(model)
    optimizer = make(model.parameters())
    state = str(optimizer.state_dict())
    if non_finite == "raise":
        with pytest.raises(NonFiniteError, match=r"the optimizer's update would make .* not finite") as caught:
            train(model, batches, make_batches(), optimizer, F.cross_entropy, 1)
        assert caught.value.kind == "update"
    else:
        with pytest.raises(ValueError, match="led to no step"):
            train(model, batches, make_batches(), optimizer, F.cross_entropy, 1, non_finite="skip")
    assert same(contents(model), before)
    assert str(optimizer.state_dict()) == state


def test_an_optimizer_that_divides_by_zero_loses_that_step_only() -> None:
    batches = make_batches(4)
    blank = [*batches[:2], (torch.zeros(8, 6), batches[2][1]), batches[3]]
    models = []
    for data, non_finite in ((blank, "skip"), ([*batches[:2], batches[3]], "raise")):
        torch.manual_seed(0)
        model = nn.Linear(6, 3, bias=False)  # inputs of 0 have a gradient of 0
        optimizer = Normalised(model.parameters(), lr=0.1)
        history = train(model, data, batches, optimizer, F.cross_entropy, 1, non_finite=non_finite)
        assert history.rows[0].skipped == (non_finite == "skip")
        assert optimizer.state[model.weight]["steps"] == 3
        models.append(model)
    assert torch.equal(models[0].weight, models[1].weight)
    assert models[0].weight.isfinite().all()


def test_half_precision_weights_overflow_early() -> None:
    model = nn.Linear(6, 3).half()
    before = contents(model)
    batches = [(x.half(), y) for x, y in make_batches(1)]

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs.float(), labels)

    with pytest.raises(NonFiniteError, match=r"update would make .*weight not finite"):
        train(model, batches, batches, torch.optim.SGD(model.parameters(), lr=1e6), loss_fn, 1)
    assert same(contents(model), before)


def test_weights_that_grow_by_decay_alone_are_stopped_before_they_overflow() -> None:
    """Nothing is measured at most steps: the bound alone must notice it."""
    model = nn.Linear(6, 3)
    optimizer = torch.optim.AdamW([{"params": model.parameters()}], lr=1.0, weight_decay=1e3)
    with pytest.raises(FloatingPointError):
        train(model, make_batches(40), make_batches(), optimizer, lambda o, y: o.sum() * 0.0, 1)
    assert all(value.isfinite().all() for value in model.state_dict().values())


def test_ordinary_steps_copy_and_measure_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from lecture_lib.training._run import updates

    calls = []
    largest = updates._largest
    monkeypatch.setattr(updates, "_largest", lambda tensors: calls.append(len(tensors)) or largest(tensors))
    monkeypatch.setattr(updates, "Snapshot", lambda *_: pytest.fail("a copy was made"))
    optimizers = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad)
    for make in optimizers:
        model = nn.Linear(6, 3)
        train(model, make_batches(30), make_batches(), make(model.parameters(), lr=0.01), F.cross_entropy, 3)
    assert len(calls) == 2 * len(optimizers)  # weights and state, once for each optimizer


# As on a GPU: nothing is waited for, and the error comes at the next look.


def deferred_run(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[Any], precision: str = "fp32"
) -> FiniteGuard:
    device = torch.device("cpu")
    format_ = Precision(precision, device)
    guard = FiniteGuard(model, optimizer, format_, deferred=True)
    terms = Terms(F.cross_entropy, None, matters=False)
    step = TrainingStep(model, F.cross_entropy, optimizer, device, format_, guard, terms)
    for window in windows(batches, 1, F.cross_entropy):
        step.learn(window)
    return guard


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("value", [NAN, 1e30], ids=["nan", "overflow"])
def test_a_deferred_guard_masks_buffers_and_updates(value: float, precision: str) -> None:
    """The oracle is the run that ends before the bad batch; what comes after it is refused until the look."""
    batches = make_batches(5)
    models = [nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    ours, oracle = (torch.optim.SGD(model.parameters(), lr=0.1) for model in models)
    guard = deferred_run(models[0], ours, spoiled(batches, 3, value), precision)
    with pytest.raises(FloatingPointError, match="a loss, gradient, buffer or update since the last look"):
        guard.look()
    deferred_run(models[1], oracle, batches[:3], precision).look()
    assert same(contents(models[0]), contents(models[1]))


@pytest.mark.parametrize(
    "make",
    [lambda p: Normalised(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=1e39)],
    ids=["normalised steps", "SGD at 1e39"],
)
def test_a_deferred_guard_takes_back_updates_that_overflow(make: Callable[[Any], torch.optim.Optimizer]) -> None:
    model = nn.Linear(6, 3, bias=False)
    before = contents(model)
    guard = deferred_run(model, make(model.parameters()), [(torch.zeros(8, 6), make_batches()[0][1]), *make_batches(2)])
    with pytest.raises(FloatingPointError, match="since the last look"):
        guard.look()
    assert same(contents(model), before)
