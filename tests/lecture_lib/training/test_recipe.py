"""What the recipe promises to be exact, each against an independent oracle."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lecture_lib.data import TensorLoader, load_digits, stratified_split
from lecture_lib.training import evaluate, train
from lecture_lib.training._run.batches import Batch
from lecture_lib.training._run.guard import FiniteGuard, NonFiniteError, StepIndex
from lecture_lib.training.accumulation import windows
from lecture_lib.training.clipping import Gradients
from lecture_lib.training.precision import Precision

EXACT = 1e-15


@pytest.fixture(autouse=True)
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make_model(seed: int = 0, **extra: nn.Module) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), *extra.values(), nn.Linear(8, 3))


def make_batches(sizes: list[int], seed: int = 1) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(size, 6, generator=generator, dtype=torch.float64), torch.randint(3, (size,), generator=generator))
        for size in sizes
    ]


def masked(batches: list[Any], shares: list[float]) -> list[Any]:
    """The same batches with a share of the labels ignored."""
    found = []
    for (x, y), share in zip(batches, shares, strict=True):
        y = y.clone()
        y[: round(share * len(y))] = -100
        found.append((x, y))
    return found


def joined(batches: list[Any], size: int) -> list[Any]:
    """Each window of `size` batches as one."""
    windows = [batches[start : start + size] for start in range(0, len(batches), size)]
    return [tuple(torch.cat(parts) for parts in zip(*window, strict=True)) for window in windows]


def difference(a: nn.Module, b: nn.Module) -> float:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return max(float((x - y).abs().max()) for x, y in pairs)


def no_metric(outputs: Any, labels: Any) -> float:
    return 0.0


CASES: dict[str, list[Any]] = {
    "even": make_batches([8] * 6),
    "short last batch": make_batches([8, 8, 8, 8, 8, 3]),
    "all of different size": make_batches([1, 9, 4, 7, 2, 5]),
    "incomplete last window": make_batches([8] * 8),
    "window of one batch at the end": make_batches([8, 8, 8, 5]),
    "masked labels, unequal counts": masked(make_batches([8] * 6), [0.0, 0.5, 0.25, 0.75, 0.0, 0.875]),
    "an all-masked batch": masked(make_batches([8] * 6), [0.0, 1.0, 0.25, 0.75, 0.0, 0.5]),
    "an all-masked batch first": masked(make_batches([8] * 6), [1.0, 0.5, 0.25, 1.0, 0.0, 1.0]),
    "an all-masked window": masked(make_batches([8] * 6), [1.0, 1.0, 1.0, 0.75, 0.0, 0.5]),
}
LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "module": nn.CrossEntropyLoss(),
    "function": F.cross_entropy,
    "class weights": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)),
    "label smoothing": nn.CrossEntropyLoss(label_smoothing=0.1),
}


@pytest.mark.parametrize("momentum", [0.0, 0.9], ids=["sgd", "momentum"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", CASES)
def test_accumulation_equals_one_big_batch(name: str, loss: str, momentum: float) -> None:
    batches, loss_fn = CASES[name], LOSSES[loss]
    ours, big, start = make_model(), make_model(), make_model()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05, momentum=momentum)
    train(ours, batches, batches, optimizer, loss_fn, 1, accumulate=3, metric=no_metric)

    optimizer = torch.optim.SGD(big.parameters(), lr=0.05, momentum=momentum)
    for x, y in joined(batches, 3):
        if (y != -100).any():
            optimizer.zero_grad()
            loss_fn(big(x), y).backward()
            optimizer.step()
    assert difference(ours, start) > 1e-3
    assert difference(ours, big) <= EXACT


def test_dividing_by_k_would_not_be_seen_as_equal() -> None:
    """The oracle tells: the usual division by K is 1e-3 off where sizes differ."""
    batches = CASES["all of different size"]
    ours, usual = make_model(), make_model()
    train(ours, batches, batches, torch.optim.SGD(ours.parameters(), lr=0.05), F.cross_entropy, 1, accumulate=3)
    optimizer = torch.optim.SGD(usual.parameters(), lr=0.05)
    for number, (x, y) in enumerate(batches, 1):
        (F.cross_entropy(usual(x), y) / 3).backward()
        if number % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
    assert difference(ours, usual) > 1e-4


def test_a_count_function_says_what_a_loss_of_ones_own_is_the_mean_of() -> None:
    """Sequences: the mean over the tokens that are there."""
    generator = torch.Generator().manual_seed(0)
    batches = []
    for size, length in [(4, 3), (2, 7), (5, 2), (1, 9)]:
        x, y = torch.randn(size, length, 6, generator=generator), torch.randn(size, length, 3, generator=generator)
        batches.append((x, (y, torch.rand(size, length, generator=generator) > 0.3)))

    def loss_fn(outputs: torch.Tensor, labels: Any) -> torch.Tensor:
        y, there = labels
        return ((outputs - y) ** 2).mean(-1)[there].mean()

    ours, big = make_model(), make_model()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    history = train(
        ours, batches, batches, optimizer, loss_fn, 1, accumulate=4, metric=no_metric, count=lambda y: y[1].sum()
    )
    optimizer = torch.optim.SGD(big.parameters(), lr=0.05)
    terms = [((big(x) - y) ** 2).mean(-1)[there] for x, (y, there) in batches]
    loss = torch.cat(terms).mean()
    loss.backward()
    optimizer.step()
    assert difference(ours, big) <= EXACT
    assert history.rows[0].train_loss == pytest.approx(loss.item(), abs=1e-14)
    with torch.no_grad():
        expected = torch.cat([((big(x) - y) ** 2).mean(-1)[there] for x, (y, there) in batches]).mean()
    assert history.rows[0].val_loss == pytest.approx(expected.item(), abs=1e-14)


@pytest.mark.parametrize("counted", [-1, float("nan"), torch.ones(2), None, "3"], ids=repr)
def test_a_count_that_is_none_is_named(counted: Any) -> None:
    batches = make_batches([4])
    model = make_model()
    with pytest.raises(ValueError, match=r"batch 1: count gave .* for labels of shape \[4\]"):
        train(
            model,
            batches,
            batches,
            torch.optim.SGD(model.parameters(), lr=0.1),
            F.cross_entropy,
            1,
            count=lambda _: counted,
        )


@pytest.mark.parametrize("loss_fn", [nn.MSELoss(), nn.L1Loss(), F.mse_loss], ids=["mse", "l1", "function"])
def test_losses_of_entries_count_entries(loss_fn: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [
        (torch.randn(n, length, 6, generator=generator), torch.randn(n, length, 3, generator=generator))
        for n, length in [(4, 3), (2, 7), (1, 1)]
    ]
    ours, big = make_model(), make_model()
    train(
        ours, batches, batches, torch.optim.SGD(ours.parameters(), lr=0.05), loss_fn, 1, accumulate=3, metric=no_metric
    )
    flat = [(x.reshape(-1, 6), y.reshape(-1, 3)) for x, y in batches]
    optimizer = torch.optim.SGD(big.parameters(), lr=0.05)
    loss_fn(big(torch.cat([x for x, _ in flat])), torch.cat([y for _, y in flat])).backward()
    optimizer.step()
    assert difference(ours, big) <= EXACT


def test_segmentation_with_an_ignored_class() -> None:
    """Labels [B, H, W], of which unequal parts are ignored."""
    generator = torch.Generator().manual_seed(0)
    batches = []
    for share in (0.1, 0.6, 0.9):
        y = torch.randint(3, (2, 4, 4), generator=generator)
        y[torch.rand(2, 4, 4, generator=generator) < share] = 255
        batches.append((torch.randn(2, 5, 4, 4, generator=generator), y))
    loss_fn = nn.CrossEntropyLoss(ignore_index=255)
    ours = nn.Conv2d(5, 3, 1)
    big = copy.deepcopy(ours)
    train(
        ours, batches, batches, torch.optim.SGD(ours.parameters(), lr=0.5), loss_fn, 1, accumulate=3, metric=no_metric
    )
    x, y = joined(batches, 3)[0]
    loss_fn(big(x), y).backward()
    torch.optim.SGD(big.parameters(), lr=0.5).step()
    assert difference(ours, big) <= EXACT


@pytest.mark.parametrize(
    ("make", "says"),
    [(lambda: nn.BatchNorm1d(8), "BatchNorm1d takes its mean and variance"), (nn.Dropout, "Dropout draws its noise")],
    ids=["BatchNorm1d", "Dropout"],
)
def test_where_the_identity_is_impossible_a_warning_says_so(make: Callable[[], nn.Module], says: str) -> None:
    batches = make_batches([8] * 4)
    model = make_model(layer=make())
    with pytest.warns(UserWarning, match=f"accumulate=2: {says}"):
        train(model, batches, batches, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1, accumulate=2)


POSSIBLE: dict[str, Callable[[], nn.Module]] = {
    "frozen BatchNorm": lambda: nn.BatchNorm1d(8).eval(),
    "Dropout of 0": lambda: nn.Dropout(0.0),
    "LayerNorm": lambda: nn.LayerNorm(8),
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_no_warning_where_it_is_possible(name: str) -> None:
    batches = make_batches([8] * 4)
    model = make_model(layer=POSSIBLE[name]())
    train(model, batches, batches, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1, accumulate=2)


def test_every_batch_that_was_read_is_counted_once() -> None:
    """A resumed run skips as many; those of a window without anything to learn from belong to the next one."""
    batches = CASES["an all-masked window"]
    assert [window.read for window in windows(batches, 3, F.cross_entropy)] == [6]
    assert [window.read for window in windows(batches, 2, F.cross_entropy)] == [4, 2]
    assert [window.read for window in windows(batches, 4, F.cross_entropy)] == [4, 2]


def test_a_metric_gets_the_examples_that_have_a_label_whatever_the_loss_weighs() -> None:
    batches = masked(make_batches([4, 6]), [0.5, 0.0])
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([0.0, 3.0, 0.5], dtype=torch.float64))
    found = evaluate(make_model(), batches, weighted, metric=lambda outputs, labels: len(outputs) + len(labels) / 100)
    assert found.metric == 8.08
    assert found.examples == 10


# Clipping.


def test_clipping_is_once_a_window_on_the_mean_gradient() -> None:
    batches = CASES["all of different size"]
    ours, big = make_model(), make_model()
    train(
        ours,
        batches,
        batches,
        torch.optim.SGD(ours.parameters(), lr=1.0),
        F.cross_entropy,
        1,
        accumulate=3,
        max_norm=0.1,
    )
    optimizer = torch.optim.SGD(big.parameters(), lr=1.0)
    for x, y in joined(batches, 3):
        optimizer.zero_grad()
        F.cross_entropy(big(x), y).backward()
        norm = torch.cat([p.grad.flatten() for p in big.parameters()]).norm()
        assert norm > 0.1
        for parameter in big.parameters():
            parameter.grad.mul_(0.1 / norm)
        optimizer.step()
    assert difference(ours, big) <= EXACT


def test_gradients_whose_squares_overflow_are_clipped_too() -> None:
    model = nn.Linear(2, 1, bias=False).float()
    nn.init.ones_(model.weight)
    batches = [(torch.full((1, 2), 1e30, dtype=torch.float32), torch.zeros(1, 1, dtype=torch.float32))]

    def loss_fn(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return outputs.mean()  # its gradient is [1e30, 1e30], the squares of which float32 does not hold

    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    train(model, batches, batches, optimizer, loss_fn, 1, max_norm=0.25, metric=no_metric)
    assert model.weight.tolist() == [pytest.approx([1 - 0.25 / 2**0.5] * 2)]


def test_gradients_that_were_there_before_are_not_learned_from() -> None:
    batches = make_batches([8, 8])
    ours, expected = make_model(), make_model()
    F.cross_entropy(ours(batches[0][0]), batches[0][1]).backward()
    for model in (ours, expected):
        train(model, batches, batches, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1)
    assert difference(ours, expected) == 0


# Structures of batches.


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.cat([left, right], dim=1))


def test_tuples_dicts_and_structures_of_ones_own_train_alike() -> None:
    pairs = make_batches([8, 8, 5])
    models = []
    structures: list[tuple[Callable[..., Any], Any]] = [
        (lambda x, y: (x[:, :2], x[:, 2:], y), None),
        (lambda x, y: [[x[:, :2], x[:, 2:]], y], None),
        (lambda x, y: {"left": x[:, :2], "right": x[:, 2:], "labels": y, "ids": list(range(len(y)))}, None),
        (lambda x, y: {"x": x, "answer": y}, lambda batch: ((batch["x"][:, :2], batch["x"][:, 2:]), batch["answer"])),
    ]
    for make, rule in structures:
        torch.manual_seed(0)
        model = TwoInputs()
        batches = [make(x, y) for x, y in pairs]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        history = train(model, batches, batches, optimizer, F.cross_entropy, 2, unpack=rule)
        expected = evaluate(model, batches, F.cross_entropy, unpack=rule)
        assert history.rows[-1].val_loss == expected.loss
        assert expected.examples == 21
        models.append(model)
    assert all(difference(models[0], model) == 0 for model in models[1:])


@pytest.mark.parametrize(
    ("batch", "rule", "error", "says"),
    [
        ({"x": torch.ones(2, 6), "answer": torch.zeros(2).long()}, None, ValueError, "expected under exactly one of"),
        ({"x": torch.ones(2, 6), "y": 1, "labels": 2}, None, ValueError, "exactly one of"),
        ((torch.ones(2, 6), torch.zeros(2).long()), lambda batch: None, TypeError, "unpack returned of type NoneType"),
        ((torch.ones(2, 6),), None, TypeError, "batch 1 is a tuple of 1"),
    ],
    ids=["no labels", "two labels", "unpack", "one part"],
)
def test_a_structure_that_cannot_be_read_is_named(batch: Any, rule: Any, error: Any, says: str) -> None:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(error, match=says):
        train(model, [batch], [batch], optimizer, F.cross_entropy, 1, unpack=rule)


# The average of the weights.


def test_the_average_is_what_is_evaluated_and_kept_and_the_model_ends_with_its_own_weights() -> None:
    batches = make_batches([8, 8, 5])
    ours, expected, average = make_model(), make_model(), make_model()
    history = train(
        ours, batches, batches, torch.optim.SGD(ours.parameters(), lr=0.1), F.cross_entropy, 2, accumulate=2, ema=0.3
    )
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1)
    losses, updates = [], 0
    for _ in range(2):
        for x, y in joined(batches, 2):
            optimizer.zero_grad()
            F.cross_entropy(expected(x), y).backward()
            optimizer.step()
            updates += 1
            decay = min(0.3, (1 + updates) / (10 + updates))  # 0.3 holds from the third update on
            with torch.no_grad():
                for mean, weight in zip(average.parameters(), expected.parameters(), strict=True):
                    mean.copy_(decay * mean + (1 - decay) * weight)
        losses.append(evaluate(average, batches, F.cross_entropy).loss)
    assert difference(ours, expected) <= EXACT
    assert [row.val_loss for row in history.rows] == pytest.approx(losses, abs=1e-14)
    ours.load_state_dict(history.best_state)
    assert difference(ours, average) <= EXACT


# What would fail later fails before.


def never(outputs: Any, labels: Any) -> torch.Tensor:
    pytest.fail("time was spent")


def test_a_validation_batch_that_does_not_fit_is_found_before_training_and_leaves_no_trace() -> None:
    batches = make_batches([8] * 2)
    model, before = make_model(layer=nn.BatchNorm1d(8)), make_model(layer=nn.BatchNorm1d(8))
    wrong = [(torch.ones(2, 5), torch.zeros(2).long())]
    stream = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        train(model, batches, wrong, torch.optim.SGD(model.parameters(), lr=0.1), never, 1)
    assert caught.value.__notes__ == ["batch 1: inputs of shape [2, 5] and dtype float64.", *caught.value.__notes__[1:]]
    assert difference(model, before) == 0
    assert torch.equal(stream, torch.get_rng_state())
    assert model.training


def test_a_validation_label_out_of_range_is_found_before_training_and_statistics_stay() -> None:
    batches = make_batches([8] * 2)
    model, before = make_model(layer=nn.BatchNorm1d(8)), make_model(layer=nn.BatchNorm1d(8))
    wrong = [(batches[0][0], torch.full((8,), 3))]
    with pytest.raises(ValueError, match="val_loader, batch 1: a label is 3"):
        train(model, batches, wrong, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1)
    assert difference(model, before) == 0


@pytest.mark.parametrize("which", ["train_loader", "val_loader"])
@pytest.mark.parametrize("kind", ["TensorLoader", "DataLoader"])
def test_a_label_out_of_range_anywhere_in_data_at_hand_is_found_before_training(which: str, kind: str) -> None:
    def loader(labels: torch.Tensor) -> Any:
        x = torch.randn(len(labels), 6)
        if kind == "TensorLoader":
            return TensorLoader(x, labels, batch_size=4)
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, labels), batch_size=4)

    good, bad = torch.arange(40) % 3, torch.arange(40) % 3
    bad[37] = 3
    loaders = {"train_loader": loader(good), "val_loader": loader(good), which: loader(bad)}
    model, before = make_model(), make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=f"{which}: a label is 3 and the model has 3 outputs"):
        train(model, loss_fn=F.cross_entropy, optimizer=optimizer, epochs=1, **loaders)
    assert difference(model, before) == 0


# What is not finite.


def poisoned(size: int = 8) -> list[Any]:
    batches = make_batches([size] * 4)
    batches[2][0][3, 0] = float("nan")
    return batches


def test_the_error_names_epoch_step_rate_and_examples() -> None:
    x, y = (torch.cat(parts) for parts in zip(*poisoned(), strict=True))
    loader = TensorLoader(x, y, batch_size=8)
    model, before = make_model(), make_model()
    clean = make_batches([8] * 2)
    with pytest.raises(
        FloatingPointError, match=r"epoch 1, step 3, learning rate 0\.1, examples \[16, 17, .*the loss is nan"
    ):
        train(model, loader, clean, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert difference(model, before) > 0
    batches = [{"input": x, "labels": y, "ids": ["a", "b"]}]
    x[0] = float("inf")
    with pytest.raises(FloatingPointError, match=r"examples \['a', 'b'\]"):
        train(model, batches, clean, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, 1)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_not_finite_is_skipped_and_counted_when_asked(where: str) -> None:
    batches = poisoned() if where == "loss" else make_batches([8] * 4)
    kept = [batch for number, batch in enumerate(batches) if number != 2]
    calls = 0

    def loss_fn(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        loss = F.cross_entropy(outputs, labels)
        if outputs.requires_grad:
            calls += 1
            if where == "gradient" and calls == 3:
                return loss + (outputs * 0).sum().sqrt()  # finite, with an infinite derivative
        return loss

    ours, expected = make_model(), make_model()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1, momentum=0.9)
    history = train(ours, batches, kept, optimizer, loss_fn, 1, non_finite="skip")
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1, momentum=0.9)
    reference = train(expected, kept, kept, optimizer, F.cross_entropy, 1)
    assert difference(ours, expected) == 0
    assert (history.rows[0].skipped, history.rows[0].steps) == (1, 4)
    assert history.rows[0].train_loss == reference.rows[0].train_loss


def test_on_a_device_that_waits_the_weights_stay_finite_and_the_error_comes_at_the_next_look() -> None:
    """The guard as on a GPU, tried on the CPU."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    guard = FiniteGuard(model, optimizer, Precision("fp32", "cpu"), deferred=True)
    for number, (x, y) in enumerate(poisoned(), 1):
        optimizer.zero_grad()
        with guard.attempt(StepIndex(1, number, 0.1)):
            outputs = model(x)
            loss = F.cross_entropy(outputs, y)
            guard.check_loss(loss, outputs, Batch(x, y, None, number))
            loss.backward()
            guard.check_losses_and_buffers()
            guard.check_gradients(Gradients(model.parameters()))
            optimizer.step()
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    with pytest.raises(FloatingPointError, match=r"epoch 1, step 4, .*not finite"):
        guard.look()


@pytest.mark.parametrize("deferred", [False, True], ids=["at once", "deferred"])
def test_a_parameter_without_entries_is_finite(deferred: bool) -> None:
    """A largest magnitude of nothing is an error in torch; a layer for no inputs is none."""
    model = make_model()
    model.register_parameter("nothing", nn.Parameter(torch.empty(0, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    guard = FiniteGuard(model, optimizer, Precision("fp32", "cpu"), deferred=deferred)
    x, y = make_batches([8])[0]
    (F.cross_entropy(model(x), y) + model.nothing.sum()).backward()
    gradients = Gradients(model.parameters())
    gradients.norm = float("nan")  # so that each gradient is looked at
    guard.check_gradients(gradients)
    guard.look()
    model[0].weight.grad.fill_(float("nan"))
    if deferred:
        guard.check_gradients(gradients)
        with pytest.raises(FloatingPointError, match="not finite"):
            guard.look()
    else:
        with pytest.raises(NonFiniteError, match=r"the gradient of 0\.weight is not"):
            guard.check_gradients(gradients)


def test_a_warning_points_at_the_line_that_called_train() -> None:
    batches = make_batches([8, 8])
    model = nn.Sequential(make_model(), nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.warns(UserWarning, match="not exactly one big batch") as caught:
        train(model, batches, batches, optimizer, F.cross_entropy, 1, accumulate=2)
    assert caught[0].filename == __file__


def test_an_epoch_of_skipped_steps_is_an_error_that_says_so() -> None:
    x, y = make_batches([8])[0]
    model = make_model()
    with pytest.raises(ValueError, match="led to no step in epoch 1: each was skipped"):
        train(
            model,
            [(x * float("nan"), y)] * 2,
            [(x, y)],
            torch.optim.SGD(model.parameters(), lr=0.1),
            F.cross_entropy,
            1,
            non_finite="skip",
        )


# Stopping.


def test_patience_stops_after_epochs_without_improvement_and_keeps_the_best() -> None:
    batches = make_batches([8, 8])
    x, y = batches[0]
    worse = [(x, (y + 1) % 3)]  # what is learned makes validation worse
    model = make_model()
    history = train(
        model, batches[:1], worse, torch.optim.SGD(model.parameters(), lr=0.5), F.cross_entropy, 50, patience=3
    )
    assert len(history.rows) == history.best.epoch + 3 < 50
    assert "no lower validation loss for 3 epoch(s)" in history.stopped


def test_a_stop_request_ends_the_run_after_the_step_and_on_epoch_sees_every_row() -> None:
    batches = make_batches([8] * 4)
    model = make_model()
    seen: list[Any] = []
    steps = iter([False] * 5 + [True])
    history = train(
        model,
        batches,
        batches,
        torch.optim.SGD(model.parameters(), lr=0.1),
        F.cross_entropy,
        9,
        stop=lambda: next(steps),
        on_epoch=seen.append,
    )
    assert history.stopped == "asked to stop after step 6"
    assert seen == history.rows
    assert len(seen) == 1


def test_gradient_norms_by_layer_are_the_epochs_mean_before_clipping() -> None:
    batches = make_batches([8] * 2)
    ours, expected = make_model(), make_model()
    history = train(
        ours,
        batches,
        batches,
        torch.optim.SGD(ours.parameters(), lr=0.1),
        F.cross_entropy,
        2,
        gradient_norms=True,
        max_norm=0.01,
    )
    norms = []
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1)
    for x, y in batches * 2:
        optimizer.zero_grad()
        F.cross_entropy(expected(x), y).backward()
        norms.append([torch.cat([p.grad.flatten() for p in expected[place].parameters()]).norm() for place in (0, 2)])
        torch.nn.utils.clip_grad_norm_(expected.parameters(), 0.01)
        optimizer.step()
    for place, layer in enumerate(("0", "2")):
        for epoch, of_epoch in enumerate((norms[:2], norms[2:])):
            mean = sum(float(row[place]) for row in of_epoch) / 2
            assert history.rows[epoch].gradient_norms[layer] == pytest.approx(mean, rel=1e-5)


# Precision, through train: the parts have their own tests.


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_digits_are_learned_as_well_and_what_is_stored_stays_fp32(precision: str) -> None:
    torch.set_default_dtype(torch.float32)
    digits = load_digits()
    kept, held_out = stratified_split(digits.labels, (0.8, 0.2), seed=0)
    x = digits.images.flatten(1)
    found = {}
    for name in ("fp32", precision):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        seen = set()
        model[2].register_forward_hook(lambda module, inputs, output, seen=seen: seen.add(output.dtype))
        loader = TensorLoader(x[kept], digits.labels[kept], batch_size=64, shuffle=True, seed=0)
        held = TensorLoader(x[held_out], digits.labels[held_out], batch_size=256)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        found[name] = train(model, loader, held, optimizer, F.cross_entropy, 8, precision=name, max_norm=1.0)
        computed = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
        assert seen == {computed}
        stored = [value for state in optimizer.state.values() for value in state.values()]
        assert {value.dtype for value in [*model.parameters(), *stored]} == {torch.float32}
    assert found[precision].best.val_metric >= found["fp32"].best.val_metric - 0.005
    assert found[precision].rows[-1].val_loss != found["fp32"].rows[-1].val_loss


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_clipping_sees_the_true_size_of_the_gradient(precision: str) -> None:
    """FP16's are scaled by 65,536 until they are unscaled."""
    torch.set_default_dtype(torch.float32)
    x, y = make_batches([32])[0]
    batches = [(x.float(), y)]
    model, before = make_model(), make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    train(model, batches, batches, optimizer, F.cross_entropy, 1, precision=precision, max_norm=0.01)
    moved = [new - old for new, old in zip(model.parameters(), before.parameters(), strict=True)]
    assert torch.cat([change.flatten() for change in moved]).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_an_overflow_in_fp16_is_a_skipped_step_not_an_error() -> None:
    torch.set_default_dtype(torch.float32)
    x, y = make_batches([32])[0]
    batches = [(x.float(), y)] * 3
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    calls = 0

    def loss_fn(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += outputs.requires_grad
        # Times the scale of 65,536 more than FP16 holds, in the first step only.
        return F.cross_entropy(outputs, labels) * (1e4 if calls == 1 and outputs.requires_grad else 1.0)

    history = train(model, batches, batches[:1], optimizer, loss_fn, 1, precision="fp16", gradient_norms=True)
    assert all(0 < norm < 10 for norm in history.rows[0].gradient_norms.values())
    assert (history.rows[0].skipped, history.rows[0].steps) == (1, 3)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
