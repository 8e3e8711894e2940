"""The recipe: evaluation, history, checkpoints and the loop, against computations written by hand."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import re
import stat
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from torch import nn
from torch.optim.lr_scheduler import ConstantLR, OneCycleLR, ReduceLROnPlateau
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from lecture_lib.data import TensorLoader
from lecture_lib.training import Epoch, History, accuracy, evaluate, find_lr, one_cycle, save_atomically, train


def make_data(count: int = 50, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 6, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def make_model(seed: int = 0) -> nn.Sequential:
    """With batch statistics and dropout: both differ between the modes, and dropout draws at random."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same_weights(first: dict, second: dict) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def streams() -> tuple:
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state(legacy=False))


def draw_everywhere() -> None:
    torch.rand(3)
    np.random.rand(3)
    random.random()


class Elsewhere:
    """A tensor that must be moved before use; remembers where to."""

    moves: list[torch.device]

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.moves = tensor, []

    def __len__(self) -> int:
        return len(self.tensor)

    def to(self, device: torch.device) -> torch.Tensor:
        self.moves.append(device)
        return self.tensor.to(device)


# ---------------------------------------------------------------- accuracy and evaluate


def test_accuracy_is_the_fraction_of_largest_outputs_at_the_label():
    outputs = torch.tensor([[0.1, 0.9], [0.8, 0.2], [-1.0, -2.0], [3.0, 4.0]])
    assert accuracy(outputs, torch.tensor([1, 1, 0, 1])) == 0.75


@pytest.mark.parametrize(
    ("outputs", "labels"),
    [
        (torch.zeros(4, 1), torch.zeros(4, dtype=torch.int64)),
        (torch.zeros(4), torch.zeros(4, dtype=torch.int64)),
        (torch.zeros(4, 3), torch.zeros(4, 1, dtype=torch.int64)),
        (torch.zeros(4, 3), torch.zeros(1, dtype=torch.int64)),
        (torch.zeros(4, 3), torch.zeros(4)),
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)),
    ],
    ids=["one-column", "one-dimension", "column-labels", "one-label", "float-labels", "empty"],
)
def test_accuracy_refuses_what_would_broadcast(outputs, labels):
    with pytest.raises(ValueError, match=r"outputs \[B, C\]"):
        accuracy(outputs, labels)


@pytest.mark.parametrize("batch_size", [1, 7, 25, 49, 50, 64])
def test_evaluate_equals_one_pass_over_everything(batch_size):
    model, (x, y) = make_model(), make_data()
    train(model, [(x, y)], [(x, y)], torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, epochs=3)
    result = evaluate(model, TensorLoader(x, y, batch_size=batch_size), nn.CrossEntropyLoss())
    model.eval()
    with torch.no_grad():
        outputs = model(x)
    assert result.loss == pytest.approx(F.cross_entropy(outputs, y).item(), rel=1e-6)
    assert result.metric == pytest.approx((outputs.argmax(1) == y).double().mean().item(), rel=1e-9)
    assert result.examples == 50


def test_logits_at_zero_give_the_lectures_initial_loss():
    model = nn.Linear(6, 10)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    x, y = torch.randn(50, 6, generator=torch.Generator().manual_seed(0)), torch.arange(10).repeat(5)
    result = evaluate(model, TensorLoader(x, y, batch_size=16), nn.CrossEntropyLoss())
    assert result.loss == pytest.approx(math.log(10), rel=1e-6)
    assert round(result.loss, 4) == 2.3026


def test_evaluate_builds_no_graph_and_touches_no_gradient_or_buffer():
    model, (x, y) = make_model(), make_data()
    before, graphs = weights(model), []

    def loss_fn(outputs, labels):
        graphs.append(outputs.requires_grad)
        return F.cross_entropy(outputs, labels)

    evaluate(model, TensorLoader(x, y, batch_size=20), loss_fn)
    assert len(graphs) >= 3  # a loss that is not known is also asked about parts of batches
    assert not any(graphs)
    assert same_weights(weights(model), before)
    assert all(parameter.grad is None for parameter in model.parameters())


def fail(outputs, labels):
    draw_everywhere()
    raise RuntimeError("in the middle")


def draw(outputs, labels):
    draw_everywhere()
    return F.cross_entropy(outputs, labels)


@pytest.mark.parametrize("loss_fn", [draw, fail], ids=["finishes", "raises"])
def test_evaluate_restores_each_mode_and_every_random_stream(loss_fn):
    model, (x, y) = make_model(), make_data()
    model.train()
    model[1].eval()  # a frozen batch normalisation
    modes = [module.training for module in model.modules()]
    # A shuffled DataLoader draws from torch's ambient stream.
    loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
    before = streams()
    try:
        evaluate(model, loader, loss_fn)
    except RuntimeError:
        assert loss_fn is fail
    assert [module.training for module in model.modules()] == modes
    assert streams() == before


def test_evaluate_leaves_cached_tensors_usable_in_training():
    class Caches(nn.Linear):
        cache = None

        def forward(self, x):
            if self.cache is None:
                self.cache = torch.ones(3)
            return super().forward(x) * self.cache

    model, (x, y) = Caches(6, 3), make_data()
    evaluate(model, [(x, y)], F.cross_entropy)
    F.cross_entropy(model(x), y).backward()
    assert model.weight.grad is not None


@pytest.mark.parametrize(
    ("loader", "loss_fn", "options", "says"),
    [
        ([], F.cross_entropy, {}, "0 examples"),
        (iter([]), F.cross_entropy, {}, "0 examples"),
        ([make_data()], nn.CrossEntropyLoss(reduction="none"), {}, "reduction='none'.*reduction='mean'"),
        ([make_data()], F.cross_entropy, {"device": "meta"}, r"model is on cpu.*model\.to\('meta'\)"),
    ],
    ids=["empty-list", "used-up", "loss-per-example", "other-device"],
)
def test_evaluate_refuses(loader, loss_fn, options, says):
    with pytest.raises(ValueError, match=says):
        evaluate(make_model(), loader, loss_fn, **options)


# ---------------------------------------------------------------- the loop


def flat_loop(model, train_loader, x_val, y_val, optimizer, scheduler, epochs):
    """The recipe without a function in it: what train must equal, bit for bit."""
    rows, steps = [], 0
    for epoch in range(1, epochs + 1):
        model.train()
        total, count = 0.0, 0
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            total, count = total + loss.item() * len(y), count + len(y)
            optimizer.zero_grad()
            loss.backward()
            rate = optimizer.param_groups[0]["lr"]
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            steps += 1
        model.eval()
        with torch.no_grad():
            outputs = model(x_val)
        rows.append((epoch, total / count, F.cross_entropy(outputs, y_val).item(), rate, steps))
    return rows


@pytest.mark.parametrize("scheduled", [False, True], ids=["constant", "one-cycle"])
def test_train_equals_the_flat_loop_bit_for_bit(scheduled):
    (x, y), (x_val, y_val) = make_data(50), make_data(20, seed=1)
    results = []
    for ours in (True, False):
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        # 50 examples in batches of 16: a ragged last one. DataLoader and dropout share the ambient stream.
        loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
        schedule = (lambda opt, total: OneCycleLR(opt, 0.1, total_steps=total)) if scheduled else None
        torch.manual_seed(5)
        if ours:
            model.eval()  # however it comes, it is trained in train mode
            # The validation loader draws from the ambient stream too, and must not move the training's.
            val_loader = DataLoader(TensorDataset(x_val, y_val), batch_size=8, shuffle=True)
            history = train(model, loader, val_loader, optimizer, F.cross_entropy, 3, schedule=schedule)
            rows = [(r.epoch, r.train_loss, r.val_loss, r.learning_rate, r.steps) for r in history.rows]
        else:
            scheduler = schedule(optimizer, 3 * 4) if schedule else None
            rows = flat_loop(model, loader, x_val, y_val, optimizer, scheduler, 3)
        results.append((weights(model), rows))
    (our_weights, our_rows), (their_weights, their_rows) = results
    assert same_weights(our_weights, their_weights)
    for ours, theirs in zip(our_rows, their_rows, strict=True):
        assert ours[:2] == theirs[:2]
        assert ours[2] == pytest.approx(theirs[2], rel=1e-6)
        assert ours[3:] == theirs[3:]


def one_weight(value: float = 2.0, bias: float = 1.0) -> nn.Linear:
    model = nn.Linear(1, 1)
    nn.init.constant_(model.weight, value)
    nn.init.constant_(model.bias, bias)
    return model


def no_metric(outputs, labels):
    return 0.0


def test_one_step_of_the_lectures_worked_example():
    model = one_weight()
    batches = [(torch.tensor([[3.0]]), torch.tensor([[10.0]]))]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = train(model, batches, batches, optimizer, F.mse_loss, 1, metric=no_metric)
    assert model.weight.item() == pytest.approx(2.18)
    assert model.bias.item() == pytest.approx(1.06)
    assert history.rows[0].train_loss == pytest.approx(9)
    assert history.rows[0].val_loss == pytest.approx(5.76)


def test_schedule_is_made_for_all_steps_and_stepped_after_each():
    model, (x, y) = make_model(), make_data(50)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    used, totals = [], []
    optimizer.register_step_pre_hook(lambda opt, *_: used.append(opt.param_groups[0]["lr"]))

    def schedule(opt, total_steps):
        totals.append(total_steps)
        return torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)

    loader = TensorLoader(x, y, batch_size=20)
    history = train(model, loader, loader, optimizer, F.cross_entropy, 2, schedule=schedule)
    assert totals == [6]
    assert used == [0.5**step for step in range(6)]
    assert [row.learning_rate for row in history.rows] == [0.25, 0.5**5]


def test_best_is_the_lowest_validation_loss_not_the_last_and_a_stored_copy(tmp_path):
    # Training pulls the weight from 0 to 10; validation is best where it passes 4.
    model = one_weight(0.0, 0.0)
    model.bias.requires_grad_(False)
    train_batches = [(torch.tensor([[1.0]]), torch.tensor([[10.0]]))]
    val_batches = [(torch.tensor([[1.0]]), torch.tensor([[4.0]]))]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []

    def remember(outputs, labels):
        seen.append(model.weight.item())
        return 0.0

    path = tmp_path / "best.pt"
    history = train(
        model, train_batches, val_batches, optimizer, F.mse_loss, 6, metric=remember, checkpoints=path.parent
    )
    best = min(range(6), key=lambda epoch: abs(seen[epoch] - 4))
    assert 0 < best < 5
    assert history.best.epoch == best + 1
    assert history.best_state["weight"].item() == seen[best]
    assert model.weight.item() == seen[-1] != seen[best]
    assert same_weights(torch.load(path, weights_only=True), history.best_state)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["best.pt", "last.pt"]
    # The copy is nobody else's: neither the model nor a second look can change it.
    with torch.no_grad():
        model.weight.fill_(99)
    assert history.best_state["weight"].item() == seen[best]
    model.load_state_dict(history.best_state)
    assert model.weight.item() == seen[best]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf], ids=str)
def test_an_epoch_without_a_finite_validation_loss_is_never_the_best(bad):
    model = one_weight()
    batches = [(torch.tensor([[3.0]]), torch.tensor([[10.0]]))]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss_fn(outputs, labels):
        loss = F.mse_loss(outputs, labels)
        # Bad in the first and last validation (without a graph), good in the one between.
        if not torch.is_grad_enabled():
            loss_fn.validations += 1
            return loss if loss_fn.validations == 2 else loss * 0 + bad
        return loss

    loss_fn.validations = 0
    seen = []

    def remember(outputs, labels):
        seen.append(model.weight.item())
        return 0.0

    history = train(model, batches, batches, optimizer, loss_fn, 3, metric=remember)
    assert history.best.epoch == 2
    assert history.best_state["weight"].item() == seen[1]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("value", [math.nan, math.inf], ids=str)
def test_non_finite_loss_never_reaches_the_weights(value):
    model = make_model()
    x, y = make_data(40)
    batches = [(x[i : i + 10], y[i : i + 10]) for i in range(0, 40, 10)]
    after_each, calls = [], []

    def loss_fn(outputs, labels):
        loss = F.cross_entropy(outputs, labels)
        if torch.is_grad_enabled():
            calls.append(None)
            after_each.append([parameter.clone() for parameter in model.parameters()])
        return loss * value if len(calls) == 7 else loss  # 4 steps, then the third of the second epoch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.125, momentum=0.9)
    backwards = []
    model[0].weight.register_hook(lambda gradient: backwards.append(None))
    says = rf"epoch 2, step 7, learning rate 0\.125: the loss is {value}"
    with pytest.raises(FloatingPointError, match=says):
        train(model, batches, [(x, y)], optimizer, loss_fn, 5)
    assert len(backwards) == 6
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), after_each[-1], strict=True))


def test_non_finite_gradient_of_a_finite_loss_never_reaches_the_weights():
    model, (x, y) = make_model(), make_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    before = [parameter.clone() for parameter in model.parameters()]

    def loss_fn(outputs, labels):  # 0, and the slope of the root is infinite there
        return (outputs * 0).sum().sqrt()

    says = r"epoch 1, step 1, learning rate 0\.125.*gradient of 0\.weight"
    with pytest.raises(FloatingPointError, match=says):
        train(model, [(x, y)], [(x, y)], optimizer, loss_fn, 1)
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))


def test_non_finite_sparse_gradient_is_refused_too():
    model = nn.Sequential(nn.Embedding(5, 3, sparse=True))
    batches = [(torch.tensor([1, 1, 2]), torch.tensor([0, 1, 2]))]
    before = weights(model)
    with pytest.raises(FloatingPointError, match=r"gradient of 0\.weight"):
        train(
            model,
            batches,
            batches,
            torch.optim.SGD(model.parameters(), lr=0.1),
            lambda outputs, labels: (outputs * 0).sum().sqrt(),
            1,
        )
    assert same_weights(weights(model), before)


def test_large_finite_gradients_are_not_refused():
    model = nn.Linear(4, 1, bias=False)
    nn.init.zeros_(model.weight)
    batches = [(torch.full((1, 4), 1e30), torch.tensor([[1.0]]))]  # the squares of these overflow
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-36)
    train(model, batches, batches, optimizer, F.l1_loss, 1, metric=no_metric)
    assert model.weight.tolist()[0] == pytest.approx([1e-6] * 4)


def test_sparse_gradients_train():
    model = nn.Sequential(nn.Embedding(5, 3, sparse=True))
    batches = [(torch.tensor([1, 1, 2]), torch.tensor([0, 1, 2]))]
    before = weights(model)["0.weight"]
    train(model, batches, batches, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1)
    changed = (weights(model)["0.weight"] != before).any(dim=1)
    assert changed.tolist() == [False, True, True, False, False]


def frozen_model() -> nn.Module:
    return make_model().requires_grad_(False)


DATA = [make_data(8)]
REFUSED = {
    "no-epochs": (make_model, {"epochs": 0}, ValueError, "epochs is 0"),
    "empty-training": (make_model, {"train_loader": []}, ValueError, "train_loader has 0 batches"),
    "empty-validation": (make_model, {"val_loader": []}, ValueError, "val_loader has 0 batches"),
    "one-shot": (make_model, {"train_loader": iter(DATA)}, ValueError, "train_loader is an iterator"),
    "one-shot-validation": (make_model, {"val_loader": iter(DATA)}, ValueError, "val_loader is an iterator"),
    "frozen": (frozen_model, {}, ValueError, "no trainable parameters"),
    "foreign-optimizer": (
        make_model,
        {"optimizer": torch.optim.SGD(make_model(1).parameters(), lr=0.1)},
        ValueError,
        "6 parameter tensor.*another model",
    ),
    "device": (make_model, {"device": "meta"}, ValueError, r"model\.to\('meta'\)"),
    "made-scheduler": (
        make_model,
        {"schedule": OneCycleLR(torch.optim.SGD(make_model().parameters(), lr=1.0), 0.1, total_steps=9)},
        TypeError,
        "schedule is a OneCycleLR.*Pass a function",
    ),
    "half-epochs": (make_model, {"epochs": 1.5}, TypeError, "epochs is 1.5, of type float; .*whole number"),
    "schedule-without-return": (
        make_model,
        {"schedule": lambda optimizer, total_steps: None},
        TypeError,
        "schedule returned NoneType.*`return` missing",
    ),
    "plateau": (
        make_model,
        {"schedule": lambda optimizer, _: ReduceLROnPlateau(optimizer)},
        TypeError,
        "ReduceLROnPlateau, which waits",
    ),
    "loss-class": (make_model, {"loss_fn": nn.CrossEntropyLoss}, TypeError, r"the class CrossEntropyLoss.*\(\)"),
    "sum": (make_model, {"loss_fn": nn.CrossEntropyLoss(reduction="sum")}, ValueError, "reduction='sum'"),
    "folder": (make_model, {"checkpoints": __file__}, NotADirectoryError, "checkpoints .* is a file. Name a folder"),
    "resume": (make_model, {"resume": True}, ValueError, "resume=True without checkpoints"),
    "every": (make_model, {"checkpoint_every": 5}, ValueError, "checkpoint_every=5 without checkpoints"),
    "accumulate": (make_model, {"accumulate": 0}, ValueError, "accumulate is 0; pass a whole number, 1 or more"),
    "patience": (make_model, {"patience": 1.5}, TypeError, "patience is 1.5"),
    "non-finite": (make_model, {"non_finite": "ignore"}, ValueError, "'raise' or 'skip'"),
    "precision": (make_model, {"precision": "fp8"}, ValueError, "precision is 'fp8'; pass one of 'fp32', 'bf16'"),
    "max_norm": (make_model, {"max_norm": 0.0}, ValueError, "max_norm is 0.0"),
    "stop": (make_model, {"stop": 3}, TypeError, "stop is 3, of type int; pass a function"),
    "unwritable": (make_model, {"checkpoints": "/proc/no/folder"}, OSError, "cannot be made.*may write to"),
    "ema-text": (make_model, {"ema": "0.9"}, ValueError, "decay is 0.9"),
    "ema": (make_model, {"ema": 1.0}, ValueError, "decay is 1.0"),
    "words-for-epochs": (make_model, {"epochs": "2"}, TypeError, "epochs is '2', of type str"),
    "scheduler-class": (
        make_model,
        {"schedule": OneCycleLR},
        TypeError,
        r"the class OneCycleLR; train calls .*, and OneCycleLR wants max_lr there.*lambda",
    ),
    "schedule-of-one-argument": (
        make_model,
        {"schedule": lambda optimizer: ConstantLR(optimizer)},
        TypeError,
        r"cannot be called with \(optimizer, total_steps\): too many positional arguments",
    ),
    "schedule-with-an-argument-bound": (
        make_model,
        {"schedule": partial(OneCycleLR, max_lr=0.1)},
        TypeError,
        r"schedule partial cannot be called with \(optimizer, total_steps\)",
    ),
    "no-reduction": (
        make_model,
        {"loss_fn": nn.MSELoss(reduction="none")},
        ValueError,
        "a mean over the batch is expected",
    ),
    "loss-not-callable": (make_model, {"loss_fn": "mse"}, TypeError, "loss_fn is a str"),
    "unknown-device": (make_model, {"device": "gpu"}, ValueError, "device is 'gpu'.*'cuda'"),
    "data-for-batches": (
        make_model,
        {"train_loader": make_data(8)},
        TypeError,
        r"train_loader is data \(Tensor \[8, 6\] and Tensor \[8\]\).*TensorLoader",
    ),
    "validation-data-for-batches": (make_model, {"val_loader": make_data(8)}, TypeError, "val_loader is data"),
    "one-tensor-for-batches": (make_model, {"train_loader": make_data(8)[0]}, TypeError, "train_loader is data"),
}


@pytest.mark.parametrize(("make", "change", "error", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_a_run_that_cannot_work_is_refused_before_time_is_spent(make, change, error, says):
    model = make()

    def loss_fn(outputs, labels):
        pytest.fail("time was spent")

    arguments = {
        "train_loader": DATA,
        "val_loader": DATA,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss_fn": loss_fn,
        "epochs": 1,
    }
    before = weights(model)
    with pytest.raises(error, match=says):
        train(model, **{**arguments, **change})
    assert same_weights(before, weights(model))


def pair(x=None, y=None, count: int = 8) -> tuple:
    """A batch of 8 whose inputs or labels are given."""
    good = make_data(count)
    return good[0] if x is None else x, good[1] if y is None else y


WANTED = r"CrossEntropyLoss wants class indices \(torch.long\), shape \[8\]\. "
UNFIT = {
    "float-labels": (
        pair(y=torch.zeros(8)),
        ValueError,
        rf"^batch 2: labels have dtype float32; {WANTED}Call y\.long\(\), or pass probabilities of shape \[8, 3\]\.$",
    ),
    "int32-labels": (pair(y=torch.zeros(8, dtype=torch.int32)), ValueError, r"dtype int32.*Call y\.long\(\)"),
    "label-column": (
        pair(y=torch.zeros(8, 1, dtype=torch.int64)),
        ValueError,
        rf"labels have shape \[8, 1\]; {WANTED}Call y\.squeeze\(1\)",
    ),
    "float-column": (pair(y=torch.zeros(8, 1)), ValueError, r"float32 and shape \[8, 1\].*y\.squeeze\(1\)\.long\(\)"),
    "one-hot": (pair(y=torch.eye(8, 3, dtype=torch.int64)), ValueError, r"Call y\.argmax\(dim=1\)"),
    "fewer-labels": (pair(y=torch.zeros(7, dtype=torch.int64)), ValueError, r"labels have shape \[7\].*its own label"),
    "labels-from-1": (
        pair(y=torch.tensor([1, 2, 3, 1, 2, 3, 1, 2])),
        ValueError,
        "batch 2: a label is 3 and the model has 3 outputs, so labels lie from 0 to 2. Subtract 1",
    ),
    "label-below-0": (pair(y=torch.full((8,), -1)), ValueError, "a label is -1"),
    "pixels": (
        pair(x=torch.zeros(8, 6, dtype=torch.uint8)),
        ValueError,
        r"batch 2: inputs have dtype uint8; the model's parameters are float32\. Pass x\.float\(\) / 255",
    ),
    "float64": (pair(x=torch.zeros(8, 6).double()), ValueError, r"dtype float64.*x\.to\(torch\.float32\)"),
    "one-example": (pair(count=1), ValueError, r"batch 2: it holds 1 example.*drop_last=True"),
    "three-parts": ((*pair(), 0), TypeError, "batch 2: the labels are a int, not a tensor"),
    "inputs-only": (pair()[0], TypeError, "batch 2 is a Tensor; a batch is a pair"),
    "arrays": (pair(y=np.zeros(8)), TypeError, "batch 2: the labels are a ndarray, not a tensor"),
    "an-example": ((torch.zeros(6), torch.tensor(1)), ValueError, "the labels are a single number.*DataLoader"),
}


@pytest.mark.parametrize("loss_fn", [nn.CrossEntropyLoss(), F.cross_entropy], ids=["module", "function"])
@pytest.mark.parametrize(("batch", "error", "says"), UNFIT.values(), ids=UNFIT.keys())
def test_a_batch_that_does_not_fit_is_named_with_the_remedy(batch, error, says, loss_fn):
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(error, match=says):
        train(model, [pair(), batch], DATA, optimizer, loss_fn, 1)


@pytest.mark.parametrize(
    ("outputs", "labels", "loss_fn"),
    [
        ((4, 3), torch.full((4, 3), 1 / 3), nn.CrossEntropyLoss()),
        ((4, 3), torch.tensor([0, 1, 2, 0], dtype=torch.uint8), nn.CrossEntropyLoss()),
        ((4, 3), torch.tensor([0, 1, 9, 0]), nn.CrossEntropyLoss(ignore_index=9)),
        ((4, 3), torch.tensor([0, 1, -100, 0]), F.cross_entropy),
        ((4, 3, 2, 2), torch.zeros(4, 2, 2, dtype=torch.int64), nn.CrossEntropyLoss()),
        ((4, 3), torch.zeros(4, 3), nn.MSELoss()),
    ],
    ids=["probabilities", "uint8", "ignored", "ignored-by-default", "pixels", "regression"],
)
def test_whatever_torch_takes_is_not_refused(outputs, labels, loss_fn):
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, math.prod(outputs[1:])), nn.Unflatten(1, outputs[1:]))
    batches = [(torch.zeros(4, 6), labels)]
    train(model, batches, batches, torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, 1, metric=no_metric)


def test_a_model_that_converts_its_inputs_itself_is_not_refused():
    class Scales(nn.Linear):
        def forward(self, x):
            return super().forward(x.float() / 255)

    model = Scales(6, 3)
    batches = [pair(x=torch.zeros(8, 6, dtype=torch.uint8))]
    train(model, batches, batches, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1)


@pytest.mark.parametrize(
    ("loss_fn", "error", "says"),
    [
        (
            lambda outputs, y: F.cross_entropy(outputs, y).item(),
            TypeError,
            r"batch 1: .*returned a float.*without \.item",
        ),
        (
            lambda outputs, y: F.cross_entropy(outputs, y, reduction="none"),
            ValueError,
            r"shape \[8\].*the batch's mean",
        ),
    ],
    ids=["a-float", "one-for-each-example"],
)
def test_a_loss_that_is_no_scalar_tensor_is_refused(loss_fn, error, says):
    model = make_model()
    with pytest.raises(error, match=says):
        train(model, DATA, DATA, torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, 1)


def test_other_failures_keep_their_error_and_gain_the_shapes():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught:
        train(model, [pair(x=torch.zeros(8, 5))], DATA, optimizer, F.cross_entropy, 1)
    assert caught.value.__notes__[0] == "batch 1: inputs of shape [8, 5] and dtype float32."
    with pytest.raises(ValueError, match="Target size") as caught:
        train(model, DATA, DATA, optimizer, lambda *both: F.binary_cross_entropy_with_logits(*both), 1)
    assert (
        caught.value.__notes__[0]
        == "batch 1: outputs of shape [8, 3] and dtype float32, labels of shape [8] and dtype int64."
    )


def test_cuda_without_a_gpu_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device is 'cuda:0' and torch finds no GPU on this machine"):
        evaluate(make_model(), DATA, F.cross_entropy, device="cuda:0")


class NoLength(IterableDataset):
    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def test_a_loader_without_length_trains_but_has_no_schedule():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    streamed = DataLoader(NoLength(DATA), batch_size=None)  # has __len__, which raises
    for loader in (NoLength(DATA), streamed):
        assert train(model, loader, loader, optimizer, F.cross_entropy, 2).rows[-1].steps == 2
    with pytest.raises(TypeError, match="a schedule needs the number of steps"):
        train(model, NoLength(DATA), DATA, optimizer, F.cross_entropy, 1, schedule=lambda *_: None)
    with pytest.raises(ValueError, match="0 examples in epoch 1"):
        train(model, NoLength([]), DATA, optimizer, F.cross_entropy, 1)


def test_one_trainable_parameter_in_the_optimizer_is_enough():
    model = make_model()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[4].parameters(), lr=0.1)
    before = weights(model)
    train(model, DATA, DATA, optimizer, F.cross_entropy, 1)
    assert torch.equal(weights(model)["0.weight"], before["0.weight"])
    assert not torch.equal(weights(model)["4.weight"], before["4.weight"])


def test_batches_go_to_the_models_device():
    model, (x, y) = make_model(), make_data()
    batches = [(Elsewhere(x), Elsewhere(y))], [(Elsewhere(x), Elsewhere(y))]
    train(model, *batches, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1)
    # The validation batch goes there twice: it is tried before training.
    for times, (batch,) in enumerate(batches, 1):
        assert [tensor.moves for tensor in batch] == [[torch.device("cpu")] * times] * 2


@pytest.mark.parametrize("progress", [True, False], ids=["bar", "silent"])
def test_progress_is_shown_when_asked_for(progress, capsys):
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, DATA, DATA, optimizer, F.cross_entropy, 2, progress=progress)
    assert ("2/2" in capsys.readouterr().err) == progress


# ---------------------------------------------------------------- modes, gradients, a run that is stopped


@pytest.mark.parametrize("whole", ["train", "eval"])
def test_frozen_modules_stay_frozen_in_a_model_that_trains(whole):
    """In every batch of every epoch and afterwards, also when the loss switches the modes."""
    model = make_model()
    model.train(whole == "train")
    model[1].eval()
    before = weights(model)
    seen = []

    def loss_fn(outputs, labels):
        if torch.is_grad_enabled():
            seen.append([module.training for module in model.modules()])
            model.train()
        return F.cross_entropy(outputs, labels)

    train(model, DATA, DATA, torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, 2)
    frozen = [module is not model[1] or whole == "eval" for module in model.modules()]
    assert seen == [frozen] * 2
    assert [module.training for module in model.modules()] == frozen
    assert torch.equal(weights(model)["1.running_mean"], before["1.running_mean"]) == (whole == "train")


def test_gradients_outside_the_optimizer_neither_stop_the_run_nor_add_up():
    model, (x, y) = make_model(), make_data(8)
    optimizer = torch.optim.SGD(model[4].parameters(), lr=0.0)
    gradients = []
    model[0].weight.register_post_accumulate_grad_hook(lambda weight: gradients.append(weight.grad.clone()))
    model[2].eval()  # without dropout the same batch has the same gradient
    train(model, [(x, y)], DATA, optimizer, F.cross_entropy, 3)
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])
    # A gradient that no step uses may be infinite.
    model[0].weight.register_hook(lambda gradient: gradient * math.inf)
    train(model, [(x, y)], DATA, optimizer, F.cross_entropy, 1)


def test_a_parameter_outside_the_model_is_checked_and_cleared():
    model = make_model()
    temperature = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([*model.parameters(), temperature], lr=0.1)
    gradients = []
    temperature.register_post_accumulate_grad_hook(lambda p: gradients.append(p.grad.item()))
    train(model, DATA, DATA, optimizer, lambda outputs, y: (outputs * 0).mean() + temperature, 3)
    assert gradients == [1.0] * 3
    says = r"gradient of a parameter \[\] outside the model is not"
    with pytest.raises(FloatingPointError, match=says):
        train(model, DATA, DATA, optimizer, lambda outputs, y: (outputs * 0).mean() + (temperature * 0).sqrt(), 1)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, "nan"], ids=["interrupted", "not-finite"])
def test_a_stopped_run_carries_its_history_and_best_weights(stop):
    model = make_model()
    calls = []

    def loss_fn(outputs, labels):
        calls.append(None)
        loss = F.cross_entropy(outputs, labels)
        if len(calls) == 5:  # each epoch is a step and a validation
            if stop == "nan":
                return loss * math.nan
            raise stop
        return loss

    model[1].eval()
    modes = [module.training for module in model.modules()]
    with pytest.raises(FloatingPointError if stop == "nan" else stop) as caught:
        train(model, DATA, DATA, torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, 9)
    history = caught.value.history
    assert [row.epoch for row in history.rows] == [1, 2]
    assert "2 finished epoch(s)" in caught.value.__notes__[-1]
    assert "history = sys.last_value.history" in caught.value.__notes__[-1]
    assert [module.training for module in model.modules()] == modes
    # The recipe goes on as after a whole run.
    model.load_state_dict(history.best_state)
    assert evaluate(model, DATA, F.cross_entropy).loss == history.best.val_loss


# ---------------------------------------------------------------- history and checkpoints


def test_best_weights_of_a_run_that_was_never_finite_are_an_error():
    model = make_model()

    def loss_fn(outputs, labels):
        loss = F.cross_entropy(outputs, labels)
        return loss if torch.is_grad_enabled() else loss * math.nan

    history = train(model, DATA, DATA, torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, 2)
    with pytest.raises(ValueError, match=r"no best weights: 2 epoch\(s\) and none with a finite validation loss"):
        model.load_state_dict(history.best_state)


def test_every_colour_comes_from_the_palette():
    library = ROOT / "lecture_lib"
    for folder in ("data", "training", "debugging"):
        for path in (library / folder).rglob("*.py"):
            assert not re.search(r"#[0-9A-Fa-f]{6}", path.read_text("utf-8")), path


def epoch(number: int, val_loss: float, train_loss: float = 1.0) -> Epoch:
    return Epoch(number, train_loss, val_loss, 0.5, 0.1, number * 10)


def test_best_is_the_first_of_a_tie_and_an_error_without_epochs():
    history = History([epoch(1, 3.0), epoch(2, 2.0), epoch(3, 2.0), epoch(4, math.nan)])
    assert history.best.epoch == 2
    with pytest.raises(ValueError, match=r"0 epoch\(s\)"):
        _ = History().best


def test_rows_are_plain_data():
    history = History([epoch(1, 3.0)])
    expected = {
        "epoch": 1,
        "train_loss": 1.0,
        "val_loss": 3.0,
        "val_metric": 0.5,
        "learning_rate": 0.1,
        "steps": 10,
        "skipped": 0,
        "gradient_norms": {},
    }
    assert json.loads(json.dumps(history.as_rows())) == [expected]


@pytest.mark.parametrize(("lowest", "scale"), [(0.5, "log"), (0.0, "linear")], ids=["positive", "reaches-0"])
def test_plot_shows_the_curves_apart_without_colour_and_marks_the_best(lowest, scale):
    history = History([epoch(1, 3.0), epoch(2, 2.0), epoch(3, 2.5, train_loss=lowest)])
    figure = history.plot()
    losses, metric = figure.axes
    train_line, val_line, best_line = losses.get_lines()
    (metric_line,) = metric.get_lines()
    assert list(train_line.get_ydata()) == [1.0, 1.0, lowest]
    assert list(val_line.get_ydata()) == [3.0, 2.0, 2.5]
    assert list(metric_line.get_ydata()) == [0.5] * 3
    assert set(best_line.get_xdata()) == {2}
    lines = [train_line, val_line, metric_line]
    assert {line.get_color() for line in lines} == {"#0072B2", "#D55E00", "#009E73"}
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines}) == 3
    assert losses.get_yscale() == scale
    assert all(label for label in (losses.get_xlabel(), losses.get_ylabel(), metric.get_ylabel()))
    assert "best: epoch 2" in " ".join(text.get_text() for text in losses.get_legend().get_texts())
    plt.close(figure)


def test_plot_draws_into_given_axes():
    figure, (_, right) = plt.subplots(1, 2)
    assert History([epoch(1, 3.0)]).plot(right) is figure
    assert len(right.get_lines()) == 3
    plt.close(figure)


def test_content_is_on_disk_before_it_takes_the_final_name(tmp_path, monkeypatch):
    """A power cut or kill between the two must find either file whole."""
    events = []
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(descriptor):
        events.append(("fsync", os.fstat(descriptor).st_size > 0, (tmp_path / "state.pt").exists()))
        fsync(descriptor)

    def watched_replace(source, target):
        assert source.parent == tmp_path  # another file system could not be renamed from in one step
        assert torch.equal(torch.load(source, weights_only=True)["w"], torch.ones(2))
        events.append("replace")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    save_atomically({"w": torch.ones(2)}, tmp_path / "state.pt")
    assert events == [("fsync", True, False), "replace", ("fsync", True, True)]  # the file, then the folder


def test_saved_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    save_atomically({}, tmp_path / "state.pt")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "state.pt")]
    assert modes[0] == modes[1]


def test_saving_into_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        save_atomically({}, tmp_path / "missing" / "state.pt")


class TestARefusedRun:
    """What a run that cannot begin leaves behind: nothing."""

    def test_the_schedules_first_rate_goes_with_it(self):
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        before = copy.deepcopy(optimizer.state_dict()["param_groups"])
        unfit = [(x[:, :-1], y) for x, y in DATA]
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            train(model, unfit, DATA, optimizer, F.cross_entropy, 1, schedule=one_cycle(0.1))
        assert optimizer.state_dict()["param_groups"] == before

    @pytest.mark.parametrize("other", ["method", "rate", "schedule"])
    def test_a_refused_resume_changes_neither_weights_nor_rates(self, other, tmp_path):
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, DATA, DATA, optimizer, F.cross_entropy, 1, checkpoints=tmp_path)
        again = make_model()
        with torch.no_grad():
            next(again.parameters()).add_(1)
        rate = 0.01 if other == "rate" else 0.1
        method = torch.optim.Adam if other == "method" else torch.optim.SGD
        optimizer = method(again.parameters(), lr=rate)
        before = copy.deepcopy(again.state_dict())
        with pytest.raises(ValueError, match=r"other settings|optimizer"):
            train(
                again, DATA, DATA, optimizer, F.cross_entropy, 1, checkpoints=tmp_path, resume=True,
                schedule=one_cycle(0.1) if other == "schedule" else None,
            )  # fmt: skip
        assert all(torch.equal(before[name], value) for name, value in again.state_dict().items())
        assert optimizer.param_groups[0]["lr"] == rate
        assert "initial_lr" not in optimizer.param_groups[0]


@pytest.mark.parametrize("loss_fn", [torch.nn.MSELoss(), torch.nn.HuberLoss(), F.l1_loss], ids=["MSE", "Huber", "l1"])
def test_labels_that_a_loss_would_stretch_are_refused(loss_fn):
    """[B, 1] against [B] gives a mean over [B, B]: every output is pulled to the mean of all labels."""
    model = torch.nn.Linear(5, 1)
    data = [(torch.randn(4, 5), torch.randn(4)) for _ in range(2)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = copy.deepcopy(model.state_dict())
    for call in (
        lambda: train(model, data, data, optimizer, loss_fn, 1, metric=lambda o, y: 0.0),
        lambda: evaluate(model, data, loss_fn, metric=lambda o, y: 0.0),
        lambda: find_lr(model, data, optimizer, loss_fn),
    ):
        with pytest.raises(ValueError, match=r"\[4, 1\] and labels \[4\].*broadcast them to \[4, 4\].*squeeze"):
            call()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 2)])
def test_labels_in_a_list_reach_the_metric_one_for_each_example(sizes):
    batches = [
        (torch.randn(size, 5), [torch.full((1, 3), 10.0 * number + row) for row in range(size)])
        for number, size in enumerate(sizes)
    ]
    seen = []

    def metric(outputs, labels):
        seen.append((len(outputs), [label[0, 0].item() for label in labels]))
        return 0.0

    def loss_fn(outputs, labels):
        return torch.stack([((outputs[row] - label) ** 2).mean() for row, label in enumerate(labels)]).mean()

    evaluate(torch.nn.Linear(5, 3), batches, loss_fn, metric=metric, count=len)
    assert seen == [(sum(sizes), [10.0 * number + row for number, size in enumerate(sizes) for row in range(size)])]


def test_a_layer_that_was_put_in_after_the_optimizer_was_made_is_told():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    last = list(model)[-1]
    model[-1] = torch.nn.Linear(last.in_features, last.out_features)
    with pytest.warns(UserWarning, match="Was a layer replaced after the optimizer was made"):
        train(model, DATA, DATA, optimizer, F.cross_entropy, 1)


def test_a_parameter_of_the_loss_and_a_part_that_rests_are_no_replaced_layer():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, outputs, labels):
            return F.cross_entropy(outputs * self.scale, labels)

    model, loss_fn = make_model(), Scaled()
    optimizer = torch.optim.SGD([*list(model.parameters())[-2:], *loss_fn.parameters()], lr=0.1)
    train(model, DATA, DATA, optimizer, loss_fn, 1)
