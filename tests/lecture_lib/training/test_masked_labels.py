"""Losses that nobody named: what a batch counts is found out, or asked for; the oracle is one big batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.training import evaluate, find_lr, train

EXACT = 1e-14
CLASSES = 4
WEIGHT = torch.tensor([1.0, 3.0, 0.5, 0.25], dtype=torch.float64)


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Wrapped(nn.Module):
    def __init__(self, loss_fn: Callable[..., Tensor]) -> None:
        super().__init__()
        self.loss_fn = loss_fn

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return self.loss_fn(outputs, labels)


class Focal(nn.CrossEntropyLoss):
    """Derives from a loss that is known and divides by something else."""

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        each = F.cross_entropy(outputs, labels, reduction="none", ignore_index=-100)
        return ((1 - (-each).exp()) ** 2 * each).mean()


def clamped(outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean over labels that are there, 0 if there are none."""
    there = labels >= 0
    each = F.cross_entropy(outputs, labels.clamp(min=0), reduction="none")
    return (each * there).sum() / there.sum().clamp(min=1)


def flat(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs.reshape(-1, CLASSES), labels.reshape(-1))


LOSSES: dict[str, tuple[Callable[[Any, Any], Tensor], int]] = {
    "partial": (partial(F.cross_entropy, label_smoothing=0.1), -100),
    "partial, ignore_index": (partial(F.cross_entropy, ignore_index=255), 255),
    "partial, weights": (partial(F.cross_entropy, weight=WEIGHT), -100),
    "partial of a partial": (partial(partial(F.cross_entropy, ignore_index=7), weight=WEIGHT), 7),
    "partial of a lambda": (partial(lambda o, y, masked: F.cross_entropy(o, y, ignore_index=masked), masked=9), 9),
    "lambda": (lambda o, y: F.cross_entropy(o, y), -100),
    "lambda, ignored class": (lambda o, y: F.cross_entropy(o, y, ignore_index=0), 0),
    "lambda, weights": (lambda o, y: F.cross_entropy(o, y, weight=WEIGHT), -100),
    "lambda, regularised": (lambda o, y: 2 * F.cross_entropy(o, y) + 0.5, -100),
    "module": (Wrapped(nn.CrossEntropyLoss(ignore_index=-1)), -1),
    "module, weights, smoothing": (Wrapped(nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.2)), -100),
    "nll_loss": (F.nll_loss, -100),
    "nll_loss of log-probabilities": (lambda o, y: F.nll_loss(o.log_softmax(1), y, weight=WEIGHT), -100),
    "partial of nll_loss": (partial(F.nll_loss, ignore_index=-1, weight=WEIGHT), -1),
    "NLLLoss": (nn.NLLLoss(ignore_index=5), 5),
    "clamped": (clamped, -100),
    "mean over all": (Focal(), -100),
}


def make_batches(masked: int, sizes: tuple[int, ...] = (8, 5, 9, 8, 3)) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    found = []
    for number, size in enumerate(sizes):
        x = torch.randn(size, 6, generator=generator)
        y = torch.randint(CLASSES, (size,), generator=generator)
        y[: (0, size // 2, size, 1, 2)[number % 5]] = masked
        found.append((x, y))
    return found


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def joined(batches: list[Any]) -> tuple[Tensor, Tensor]:
    return torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])


def constant(outputs: Any, labels: Any) -> float:
    return 0.0


@pytest.mark.parametrize("name", LOSSES)
def test_accumulation_and_evaluation_equal_one_big_batch(name: str) -> None:
    loss_fn, masked = LOSSES[name]
    batches = make_batches(masked)
    x, y = joined(batches)
    ours, big = make_model(), make_model()
    with torch.no_grad():
        expected = loss_fn(big(x), y).item()
    assert evaluate(big, batches, loss_fn, metric=constant).loss == pytest.approx(expected, rel=1e-12)

    train(ours, batches, batches, torch.optim.SGD(ours.parameters(), lr=0.5), loss_fn, 1, accumulate=5, metric=constant)
    optimizer = torch.optim.SGD(big.parameters(), lr=0.5)
    loss_fn(big(x), y).backward()
    optimizer.step()
    pairs = zip(ours.parameters(), big.parameters(), strict=True)
    assert all(torch.allclose(a, b, rtol=0, atol=EXACT) for a, b in pairs)


@pytest.mark.parametrize("name", [name for name in LOSSES if "class" not in name])
def test_the_default_metric_leaves_masked_examples_out(name: str) -> None:
    loss_fn, masked = LOSSES[name]
    batches = make_batches(masked)
    x, y = joined(batches)
    model = make_model()
    if name == "mean over all":
        return  # divides by all labels: none is masked for it but -100, which no class is
    there = y != masked
    expected = (model(x).argmax(dim=1) == y)[there].double().mean().item()
    assert evaluate(model, batches, loss_fn).metric == pytest.approx(expected)


@pytest.mark.parametrize("masked", [-100, 250])
def test_positions_of_sequences_and_pictures(masked: int) -> None:
    generator = torch.Generator().manual_seed(0)
    batches = []
    for share in (0.1, 0.7, 0.4):
        y = torch.randint(CLASSES, (3, 5), generator=generator)
        y[torch.rand(3, 5, generator=generator) < share] = masked
        batches.append((torch.randn(3, 5, 6, generator=generator), y))

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs.reshape(-1, CLASSES), labels.reshape(-1), ignore_index=masked)

    ours, big = make_model(), make_model()
    x, y = joined(batches)
    expected = loss_fn(big(x), y)
    assert evaluate(ours, batches, loss_fn, metric=constant).loss == pytest.approx(expected.item(), rel=1e-12)
    train(ours, batches, batches, torch.optim.SGD(ours.parameters(), lr=0.5), loss_fn, 1, accumulate=3, metric=constant)
    expected.backward()
    torch.optim.SGD(big.parameters(), lr=0.5).step()
    assert torch.allclose(ours[0].weight, big[0].weight, rtol=0, atol=EXACT)


def test_a_mean_of_each_sequence_first_is_one_over_sequences() -> None:
    generator = torch.Generator().manual_seed(0)
    batches = []
    for size, share in ((3, 0.1), (2, 0.4), (5, 0.3)):
        y = torch.randint(CLASSES, (size, 5), generator=generator)
        y[torch.rand(size, 5, generator=generator) < share] = -100
        y[:, 0] = 0
        batches.append((torch.randn(size, 5, 6, generator=generator), y))

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        return torch.stack([F.cross_entropy(*one) for one in zip(outputs, labels, strict=True)]).mean()

    model = make_model()
    x, y = joined(batches)
    found = evaluate(model, batches, loss_fn, metric=constant).loss
    assert found == pytest.approx(loss_fn(model(x), y).item(), rel=1e-12)


@pytest.mark.parametrize("masked", [0, -100])
def test_a_first_batch_without_any_label_says_nothing_and_hides_nothing(masked: int) -> None:
    batches = make_batches(masked)
    batches = [(batches[0][0], torch.full_like(batches[0][1], masked)), *batches[1:]]
    model = make_model()
    x, y = joined(batches)

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs, labels, ignore_index=masked)

    found = evaluate(model, batches, loss_fn)
    assert found.loss == pytest.approx(loss_fn(model(x), y).item(), rel=1e-12)
    assert found.metric == pytest.approx((model(x).argmax(dim=1) == y)[y != masked].double().mean().item())


def test_an_untrained_layer_of_zeros_says_nothing_and_hides_nothing() -> None:
    """All examples have the loss log(4) at first, whatever they weigh."""
    batches = make_batches(-100)
    models = [make_model(), make_model()]
    for model in models:
        nn.init.zeros_(model[2].weight)
        nn.init.zeros_(model[2].bias)
    loss_fn = LOSSES["lambda, weights"][0]
    train(
        models[0], batches, batches, torch.optim.SGD(models[0].parameters(), lr=0.5), loss_fn, 1, accumulate=5,
        metric=constant,
    )  # fmt: skip
    x, y = joined(batches)
    loss_fn(models[1](x), y).backward()
    torch.optim.SGD(models[1].parameters(), lr=0.5).step()
    assert torch.allclose(models[0][2].weight, models[1][2].weight, rtol=0, atol=EXACT)


UNKNOWN: dict[str, Callable[[Any, Any], Tensor]] = {
    "first position left out": lambda o, y: F.cross_entropy(o[:, :-1].reshape(-1, CLASSES), y[:, 1:].reshape(-1)),
    "one batch size only": lambda o, y: F.cross_entropy(o.reshape(15, CLASSES), y.reshape(15)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_loss_that_cannot_be_counted_is_asked_for_its_count(name: str) -> None:
    loss_fn = UNKNOWN[name]
    generator = torch.Generator().manual_seed(0)
    batches = []
    for share in (0.1, 0.4):
        y = torch.randint(CLASSES, (3, 5), generator=generator)
        y[torch.rand(3, 5, generator=generator) < share] = -100
        batches.append((torch.randn(3, 5, 6, generator=generator), y))
    model = make_model()
    for run in (
        lambda: evaluate(model, batches, loss_fn, metric=constant),
        lambda: train(
            model, batches, batches[:1], torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, 1, accumulate=2,
            metric=constant,
        ),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"batch \d: .*Pass count=.*labels != -100"):
            run()
    known = evaluate(model, batches, loss_fn, metric=constant, count=lambda y: (y[:, 1:] != -100).sum())
    assert known.loss > 0


@pytest.mark.parametrize("value", [float("nan"), -1.0, 0.0], ids=str)
def test_masked_values_of_a_regression_are_noticed(value: float) -> None:
    """A mean over entries that are there; which those are, no label of its own says."""
    generator = torch.Generator().manual_seed(0)
    batches = []
    for share in (0.0, 0.3, 0.8):
        y = torch.randn(8, CLASSES, generator=generator)
        y[torch.rand(8, CLASSES, generator=generator) < share] = value
        batches.append((torch.randn(8, 6, generator=generator), y))

    def there(y: Tensor) -> Tensor:
        return ~y.isnan() if value != value else y != value

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        return ((outputs - labels)[there(labels)] ** 2).mean()

    model = make_model()
    with pytest.raises(ValueError, match="Pass count="):
        evaluate(model, batches, loss_fn, metric=constant)
    x, y = joined(batches)
    found = evaluate(model, batches, loss_fn, metric=constant, count=lambda y: there(y).sum()).loss
    assert found == pytest.approx(loss_fn(model(x), y).item())


@pytest.mark.parametrize(
    "loss_fn",
    [
        lambda o, y: ((o - y) ** 2).mean(),
        partial(F.mse_loss),
        Wrapped(nn.SmoothL1Loss()),
        lambda o, y: F.kl_div(o.log_softmax(1), y.softmax(1), reduction="batchmean"),
    ],
    ids=["lambda", "partial", "module", "batchmean"],
)
def test_plain_regressions_are_means_over_examples(loss_fn: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [
        (torch.randn(n, 6, generator=generator), torch.randn(n, CLASSES, generator=generator)) for n in (8, 3, 5)
    ]
    model = make_model()
    x, y = joined(batches)
    found = evaluate(model, batches, loss_fn, metric=constant).loss
    assert found == pytest.approx(loss_fn(model(x), y).item(), rel=1e-12)


SUMS: dict[str, Callable[[Any, Any], Tensor]] = {
    "partial": partial(F.cross_entropy, reduction="sum"),
    "lambda": lambda o, y: F.cross_entropy(o, y, reduction="sum"),
    "module": Wrapped(nn.CrossEntropyLoss(reduction="sum")),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_is_refused_however_it_is_wrapped(name: str) -> None:
    batches = make_batches(-100, (8, 8))
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for run in (
        lambda: train(model, batches, batches, optimizer, SUMS[name], 1),
        lambda: find_lr(model, batches, optimizer, SUMS[name], accumulate=2),
        lambda: evaluate(model, batches, SUMS[name]),
    ):
        with pytest.raises(ValueError, match=r"Use reduction='mean'|Pass count="):
            run()


def test_a_loss_that_draws_is_not_asked_and_its_stream_goes_on() -> None:
    def noisy(outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs + 0.1 * torch.randn_like(outputs), labels)

    batches = make_batches(0, (8, 8))
    model = make_model()
    before = torch.get_rng_state()
    assert evaluate(model, batches, noisy).loss > 0
    assert torch.equal(before, torch.get_rng_state())


def test_a_known_loss_is_never_called_for_its_count() -> None:
    """A plain run pays for nothing."""
    calls = []

    class Counting(nn.Module):
        def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
            calls.append(len(labels))
            return F.cross_entropy(outputs, labels)

    batches = make_batches(1, (8,))
    model = make_model()
    train(model, batches, batches, torch.optim.SGD(model.parameters(), lr=0.1), Counting(), 2)
    assert calls == [8] * 4


def test_a_loss_in_float32_is_weighed_too() -> None:
    """Class weights that are FP32 refuse float64 outputs."""
    torch.set_default_dtype(torch.float32)
    weight = torch.tensor([1.0, 3.0, 0.5, 0.25])
    batches = make_batches(-100)
    model = make_model()
    x, y = joined(batches)

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs, labels, weight=weight)

    assert evaluate(model, batches, loss_fn).loss == pytest.approx(loss_fn(model(x), y).item(), rel=1e-5)


@pytest.mark.parametrize(
    "loss_fn",
    [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.1), nn.CrossEntropyLoss(weight=WEIGHT)],
)
def test_mixed_labels_are_weighed_exactly(loss_fn: nn.Module) -> None:
    """Targets of mixup, one distribution for each example: windows of uneven batches are one step on all examples."""
    x = torch.randn(22, 3)
    targets = torch.softmax(torch.randn(22, CLASSES), dim=1)
    batches = [(x[rows], targets[rows]) for rows in torch.arange(22).split(8)]
    validation = [(x, targets.argmax(1))]
    first, second = nn.Linear(3, CLASSES), nn.Linear(3, CLASSES)
    second.load_state_dict(first.state_dict())
    train(first, batches, validation, torch.optim.SGD(first.parameters(), 0.3), loss_fn, 1, accumulate=3)
    loss_fn(second(x), targets).backward()
    torch.optim.SGD(second.parameters(), 0.3).step()
    torch.testing.assert_close(first.weight, second.weight, rtol=EXACT, atol=EXACT)
