"""The moving average against its closed form in float64 and PyTorch's AveragedModel."""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from lecture_lib.training._run.averages import ExponentialMovingAverage
from lecture_lib.training.checkpoint import save_atomically


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def move(model: nn.Module, generator: torch.Generator) -> None:
    """A step of training, as far as an average can see."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
        model(torch.randn(8, 4, generator=generator))


def values(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def averages(ema: ExponentialMovingAverage) -> list[torch.Tensor]:
    return [average.clone() for average in ema.state_dict()["averages"].values()]


def equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


@pytest.mark.parametrize("warmup", [True, False], ids=["warm-up", "plain"])
@pytest.mark.parametrize("decay", [0.0, 0.2, 0.9, 0.999], ids=str)
def test_closed_form(decay, warmup):
    """Each past weight counts its own share times every later decay."""
    model, generator = make_model(), torch.Generator().manual_seed(1)
    ema = ExponentialMovingAverage(model, decay, warmup=warmup)
    history = [values(model)]
    decays = [min(decay, (1 + n) / (10 + n)) if warmup else decay for n in range(1, 31)]
    for _ in decays:
        move(model, generator)
        ema.update()
        history.append(values(model))
    shares = [1.0, *(1 - d for d in decays)]
    counts = [share * math.prod(decays[n:]) for n, share in enumerate(shares)]
    assert sum(counts) == pytest.approx(1)
    for index, average in enumerate(averages(ema)):
        expected = sum(count * step[index].double() for count, step in zip(counts, history, strict=True))
        torch.testing.assert_close(average.double(), expected, rtol=1e-5, atol=1e-5)
    assert ema.updates == 30


def test_equals_averaged_model_with_its_buffers():
    model, generator = make_model(), torch.Generator().manual_seed(1)
    ema = ExponentialMovingAverage(model, 0.9, warmup=False)
    theirs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    theirs.update_parameters(model)  # the first update copies
    for _ in range(20):
        move(model, generator)
        ema.update()
        theirs.update_parameters(model)
    with ema.applied():
        ours = copy.deepcopy(model.state_dict())
    expected = theirs.module.state_dict()
    assert ours["1.num_batches_tracked"].item() == 20
    assert ours.keys() == expected.keys()
    assert all(torch.equal(ours[name], expected[name]) for name in expected)


@pytest.mark.parametrize("stop", [None, ValueError, KeyboardInterrupt], ids=["finishes", "raises", "interrupted"])
def test_the_model_has_the_averages_inside_and_its_own_weights_afterwards(stop):
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    ema = ExponentialMovingAverage(model, 0.5)
    for _ in range(3):
        model(torch.ones(4, 4)).square().sum().backward()
        optimizer.step()
        ema.update()
    own, averaged = values(model), averages(ema)
    places = {parameter.data_ptr() for parameter in model.parameters()}
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    with nullcontext() if stop is None else pytest.raises(stop):  # noqa: SIM117
        with ema.applied():
            assert equal(values(model), averaged)
            assert not equal(averaged, own)
            assert places.isdisjoint({parameter.data_ptr() for parameter in model.parameters()})
            if stop is not None:
                raise stop
    assert equal(values(model), own)
    assert equal(averages(ema), averaged)
    assert {parameter.data_ptr() for parameter in model.parameters()} == places
    assert equal([parameter.grad for parameter in model.parameters()], gradients)
    # The optimizer still steps the model's weights, and the average still follows them.
    optimizer.step()
    ema.update()
    assert not equal(values(model), own)
    assert not equal(averages(ema), averaged)


def test_at_construction_the_average_is_the_model_and_a_copy():
    model = make_model()
    before = values(model)
    ema = ExponentialMovingAverage(model, 0.9)
    move(model, torch.Generator().manual_seed(1))
    assert equal(averages(ema), before)
    assert not any(average.requires_grad for average in averages(ema))


def test_a_tied_parameter_is_averaged_once_and_stays_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight

    model = Tied()
    ema = ExponentialMovingAverage(model, 0.5, warmup=False)
    start = values(model)[0]
    with torch.no_grad():
        model.head.weight.add_(1.0)
    ema.update()
    torch.testing.assert_close(averages(ema), [start + 0.5])
    with ema.applied():
        assert model.head.weight is model.embedding.weight
        torch.testing.assert_close(model.head.weight.detach(), start + 0.5)


def test_frozen_and_whole_number_parameters_keep_their_values():
    model = make_model()
    model[0].requires_grad_(False)
    model.table = nn.Parameter(torch.arange(3), requires_grad=False)
    ema = ExponentialMovingAverage(model, 0.9)
    before = model[0].weight.clone()
    for _ in range(5):
        ema.update()
    with ema.applied():
        assert torch.equal(model[0].weight, before)
        assert model.table.tolist() == [0, 1, 2]


def test_a_stored_average_goes_on_bit_for_bit(tmp_path):
    generator, model = torch.Generator().manual_seed(1), make_model()
    ema = ExponentialMovingAverage(model, 0.99)
    for _ in range(4):
        move(model, generator)
        ema.update()
    save_atomically(ema.state_dict(), tmp_path / "ema.pt")
    resumed = ExponentialMovingAverage(model, 0.99)
    state = torch.load(tmp_path / "ema.pt", weights_only=True)
    resumed.load_state_dict(state)
    for _ in range(4):
        move(model, generator)
        ema.update()
        resumed.update()
    assert resumed.updates == 8
    assert equal(averages(resumed), averages(ema))
    assert not equal(list(state["averages"].values()), averages(resumed))  # loaded, not aliased


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (nn.Sequential(nn.Linear(4, 6)), r"average of 1\.weight has shape None"),
        (
            nn.Sequential(nn.Linear(4, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 3)),
            r"0\.weight has shape \[7, 4\]",
        ),
    ],
    ids=["names", "shapes"],
)
def test_the_average_of_another_model_is_refused(other, says):
    ema = ExponentialMovingAverage(make_model(), 0.9)
    before = averages(ema)
    with pytest.raises(ValueError, match=says):
        ema.load_state_dict(ExponentialMovingAverage(other, 0.9).state_dict())
    assert equal(averages(ema), before)


@pytest.mark.parametrize("what", ["update", "state_dict", "applied"])
def test_inside_applied_there_is_nothing_to_update_or_store(what):
    ema = ExponentialMovingAverage(make_model(), 0.9)
    with ema.applied(), pytest.raises(RuntimeError, match=rf"{what} inside.*Leave the block first"):
        getattr(ema, what)().__enter__() if what == "applied" else getattr(ema, what)()


@pytest.mark.parametrize("decay", [-0.1, 1.0, 1, 2.0, math.nan, True, False], ids=repr)
def test_a_decay_outside_its_range_is_refused(decay):
    with pytest.raises(ValueError, match=r"decay is .*; pass a number from 0 to below 1"):
        ExponentialMovingAverage(make_model(), decay)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_parameters_are_refused(dtype):
    with pytest.raises(ValueError, match=rf"0\.weight has dtype {dtype}.*float32"):
        ExponentialMovingAverage(make_model().to(dtype), 0.999)
