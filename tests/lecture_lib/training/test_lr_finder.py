"""The learning-rate finder: its sweep, its rules, and the state that it leaves."""

from __future__ import annotations

import copy
import json
import math
import random
import warnings
from dataclasses import asdict

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from lecture_lib.data import TensorLoader, load_digits, stratified_split
from lecture_lib.training import LRFinderResult, evaluate, find_lr, suggest_learning_rates, train
from lecture_lib.training._run.losses import require_labels
from lecture_lib.training._run.lr_suggestions import trend, valley_floor
from lecture_lib.training.lr_finder import RunningAverage, sweep_rates

# facts.md, "finder's table"
TABLE_RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
TABLE_LOSSES = (3.2, 2.5, 1.1, 0.9, 2.8)
# A fifth of the fall above the minimum is 1.36, which the lines between the points cross here, in decades.
FLOOR = (-3 + (2.5 - 1.36) / (2.5 - 1.1), -1 + (1.36 - 0.9) / (2.8 - 0.9))
FLOOR_OF_TABLE = 10 ** (FLOOR[0] + (FLOOR[1] - FLOOR[0]) / 3)


def make_data(count: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 6, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))


# ---------------------------------------------------------------- rules on plain numbers


def test_rules_on_the_lectures_table():
    suggestions, reason = suggest_learning_rates(TABLE_RATES, TABLE_LOSSES)
    assert suggestions == {
        "valley_floor": pytest.approx(FLOOR_OF_TABLE),
        "minimum_over_10": pytest.approx(1e-2),
        "steepest": 1e-3,
    }
    assert "falls by 72%" in reason
    assert "lowest at learning rate 0.1" in reason
    assert "The suggestion lies a third of the way across" in reason


def test_default_suggestion_on_the_lectures_table():
    suggestions, reason = suggest_learning_rates(TABLE_RATES, TABLE_LOSSES)
    result = LRFinderResult(TABLE_RATES, TABLE_LOSSES, TABLE_LOSSES, "table", suggestions, reason)
    assert result.suggestion == pytest.approx(FLOOR_OF_TABLE)
    assert f"{result.suggestion:.1e}" == "2.0e-02"  # the docstring's


def test_the_valleys_floor_is_read_between_the_points():
    """A fifth of the fall above the minimum is 1.4, a fifth of the way from 1 to 3: 0.2 decades off on either side."""
    rates = np.geomspace(1e-6, 1.0, 7)
    curve = np.array([3.0, 3.0, 1.0, 1.0, 1.0, 3.0, 3.0])
    assert math.log10(valley_floor(rates, curve)) == pytest.approx(-4.2 + 2.4 / 3)
    # Another valley is no part of it: from 1.11 decades below the end up to 1.
    curve = np.array([3.0, 1.3, 3.0, 3.0, 1.2, 1.0, 3.0])
    assert math.log10(valley_floor(rates, curve)) == pytest.approx(-2 - 1 / 9 + (1 + 1 / 9 + 0.2) / 3)


def test_in_a_narrow_valley_the_default_keeps_its_distance_from_the_edge():
    """Half of the fall is lost again half a decade behind the minimum, or the sweep ends."""
    rates = np.geomspace(1e-4, 1.0, 5)
    assert valley_floor(rates, np.array([3.0, 3.0, 1.0, 3.0, 3.0])) == pytest.approx(10**-1.5 / 7)
    assert valley_floor(rates[:4], np.array([3.0, 3.0, 3.0, 1.0])) == pytest.approx(10**-1.0 / 7)


def plain_trend(rates, losses):
    """The definition, point by point; the weights of an inner point are the yardstick for all."""
    count = max(1, len(losses) // 10)
    start = sum(losses[:count]) / count
    rows = [[max(0.0, 1 - math.log10(other / rate) ** 2) ** 2 for other in rates] for rate in rates]
    whole = max(map(sum, rows))
    return [start - sum(w * max(start - loss, 0) for w, loss in zip(row, losses, strict=True)) / whole for row in rows]


def test_the_trend_is_a_weighted_mean_of_both_sides():
    rates = np.geomspace(1e-5, 1.0, 23)
    losses = np.random.default_rng(0).normal(2.0, 0.5, 23)
    np.testing.assert_allclose(trend(rates, losses), plain_trend(rates, losses), rtol=1e-9)
    np.testing.assert_allclose(trend(TABLE_RATES, TABLE_LOSSES), TABLE_LOSSES, rtol=1e-9)


def test_the_trend_does_not_delay_what_a_running_average_delays():
    rates = np.geomspace(1e-6, 10.0, 100)
    losses = 2.3 - 2 * np.exp(-(((np.log10(rates) + 2) / 0.7) ** 2))
    assert abs(math.log10(rates[np.argmin(trend(rates, losses))] / 1e-2)) < 0.04
    assert math.log10(rates[np.argmin(smooth(losses, 0.9))] / 1e-2) > 0.3


def test_how_wildly_a_run_diverges_does_not_matter():
    rates = np.geomspace(1e-6, 10.0, 100).tolist()
    mild = [2.0 if rate < 1e-3 else 1.0 if rate < 1e-1 else 3.0 for rate in rates]
    wild = [loss if loss < 3 else 1e9 for loss in mild]
    assert suggest_learning_rates(rates, mild) == suggest_learning_rates(rates, wild)


def test_noise_moves_the_default_less_than_the_steepest_slope():
    rates = np.geomspace(1e-6, 10.0, 100)
    losses = 2.3 - 1.8 * np.exp(-((np.log10(rates) + 2) ** 2))
    found = [
        suggest_learning_rates(rates.tolist(), (losses + np.random.default_rng(seed).normal(0, 0.3, 100)).tolist())[0]
        for seed in range(50)
    ]
    spreads = {rule: np.ptp(np.log10([one[rule] for one in found])) for rule in found[0]}
    assert spreads["valley_floor"] < min(0.3, spreads["steepest"], spreads["minimum_over_10"])


def test_steepest_is_measured_on_the_logarithm_of_the_rate():
    """Slopes at the inner points: -0.67, -0.7, -1 a decade, though -2, -2.1, -2 across their neighbours."""
    rates = [1e-5, 1e-4, 1e-2, 1e-1, 1.0]
    losses = [5.0, 4.5, 3.0, 2.4, 1.0]
    assert suggest_learning_rates(rates, losses)[0]["steepest"] == 1e-1


def test_steepest_ignores_falls_behind_the_minimum_and_the_ends():
    # Behind the minimum the loss jumps up and falls again, faster; the first fall is at an end.
    rates = np.geomspace(1e-6, 1.0, 7).tolist()
    losses = [5.0, 3.0, 2.5, 1.0, 9.0, 8.0, 1.5]
    assert suggest_learning_rates(rates, losses)[0]["steepest"] == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ([2.3, 2.3, 2.3, 2.3], "falls by 0.0%"),
        ([2.0, 2.5, 3.0, 9.0], "falls by 0.0%"),
        ([2.0, 1.95, 1.81, 2.5], "falls by 9.5%"),
        ([-2.0, -2.1, -2.19, -1.0], "falls by 9.5%"),
        ([2.0, 1.0], "2 point"),
        ([], "0 point"),
    ],
    ids=["flat", "rising", "too-little", "negative", "two-points", "none"],
)
def test_no_suggestion_for_a_curve_that_never_falls_but_what_to_do(losses, says):
    suggestions, reason = suggest_learning_rates(np.geomspace(1e-6, 1e-3, len(losses)).tolist(), losses)
    assert suggestions == {}
    assert says in reason
    assert "Lengthen the sweep" in reason


@pytest.mark.parametrize("losses", [[2.0, 1.9, 1.79, 2.5], [-2.0, -2.1, -2.21, -1.0]], ids=["positive", "negative"])
def test_a_fall_of_more_than_a_tenth_is_enough(losses):
    suggestions, _ = suggest_learning_rates([1e-4, 1e-3, 1e-2, 1e-1], losses)
    assert suggestions["steepest"] == 1e-3
    assert suggestions["minimum_over_10"] == pytest.approx(1e-3)


def test_a_minimum_at_the_end_is_said_to_be_unfinished():
    _, falling = suggest_learning_rates([1e-3, 1e-2, 1e-1], [3.0, 2.0, 1.0])
    _, turned = suggest_learning_rates([1e-3, 1e-2, 1e-1], [3.0, 1.0, 2.0])
    assert "raise stop" in falling
    assert "raise stop" not in turned


def test_rates_and_losses_of_different_length_are_refused():
    with pytest.raises(ValueError, match="3 rates and 2 losses"):
        suggest_learning_rates([1, 2, 3], [1, 2])


def test_sweep_reaches_both_ends_by_the_lectures_factor():
    rates = sweep_rates(1e-7, 10.0, 100)
    assert (len(rates), rates[0], rates[-1]) == (100, 1e-7, 10.0)
    factors = np.array(rates[1:]) / np.array(rates[:-1])
    np.testing.assert_allclose(factors, (10 / 1e-7) ** (1 / 99), rtol=1e-12)
    assert round(factors[0], 4) == 1.2045


def smooth(losses, smoothing):
    average = RunningAverage(smoothing)
    return [average.add(loss) for loss in losses]


def test_smoothing_is_corrected_for_its_start():
    losses = [3.0, 1.0, 2.0]
    # Weighted means, newest weight 1: the definition written out.
    assert smooth(losses, 0.9) == pytest.approx([3.0, (1 + 0.9 * 3) / 1.9, (2 + 0.9 * 1 + 0.81 * 3) / (1 + 0.9 + 0.81)])
    assert smooth(losses, 0.9)[0] == losses[0]
    assert smooth([5.0] * 20, 0.98) == pytest.approx([5.0] * 20)
    assert smooth(losses, 0.0) == losses


def test_smoothing_delays_the_curve_as_the_docstring_says():
    assert smooth(range(500), 0.9)[-1] == pytest.approx(499 - 9)
    assert 9 * math.log10(10 / 1e-6) / 99 == pytest.approx(0.64, abs=0.005)


# ---------------------------------------------------------------- the sweep


def flat_sweep(model, batches, rates, momentum):
    """The sweep without a function in it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=momentum)
    losses = []
    for step, rate in enumerate(rates):
        x, y = batches[step % len(batches)]
        optimizer.param_groups[0]["lr"] = rate
        loss = F.cross_entropy(model(x), y)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return tuple(losses)


def test_losses_equal_a_flat_sweep_that_cycles_through_a_short_loader():
    x, y = make_data(40)
    batches = [(x[:25], y[:25]), (x[25:], y[25:])]
    model = make_model().eval()  # swept in train mode nevertheless
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    torch.manual_seed(1)
    result = find_lr(model, batches, optimizer, F.cross_entropy, start=1e-4, stop=0.1, steps=7)
    torch.manual_seed(1)
    expected = flat_sweep(make_model_in_state(model).train(), batches, result.learning_rates, 0.9)
    assert result.losses == expected
    assert result.learning_rates == pytest.approx(tuple(1e-4 * 1000 ** (i / 6) for i in range(7)))
    assert result.learning_rates[-1] == 0.1
    assert result.smoothed == pytest.approx(smooth(expected, 0.9))
    assert result.stopped_because.startswith("reached stop")


def make_model_in_state(model: nn.Module) -> nn.Module:
    random_state = torch.get_rng_state()
    copy = make_model()
    torch.set_rng_state(random_state)
    copy.load_state_dict(model.state_dict())
    return copy


@pytest.mark.parametrize("tensor_rate", [False, True], ids=["number", "tensor"])
def test_ratios_of_the_groups_rates_are_kept(tensor_rate):
    model, data = make_model(), make_data()
    make = torch.tensor if tensor_rate else float
    optimizer = torch.optim.SGD(
        [
            {"params": model[0].parameters(), "lr": make(0.2)},
            {"params": model[4].parameters(), "lr": make(0.05)},
        ]
    )
    used = []
    optimizer.register_step_pre_hook(
        lambda opt, *_: used.append(tuple(float(group["lr"]) for group in opt.param_groups))
    )
    result = find_lr(model, [data], optimizer, F.cross_entropy, start=1e-4, stop=1e-2, steps=5)
    assert [rate for rate, _ in used] == pytest.approx(result.learning_rates)
    assert [rate / second for rate, second in used] == pytest.approx([4.0] * 5)


def scripted(losses):
    """A loss function that returns these values, one a step, whatever the model does."""
    values = iter(losses)
    return lambda outputs, labels: outputs.sum() * 0 + next(values, 1.0)  # at the end, at the starting weights


def run_scripted(losses, **options):
    model, data = make_model(), make_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    defaults = {"start": 1e-4, "stop": 1.0, "steps": 5, "smoothing": 0.0}
    return find_lr(model, [data], optimizer, scripted(losses), **{**defaults, **options})


def test_a_whole_sweep_over_the_lectures_table():
    result = run_scripted(TABLE_LOSSES)
    assert result.suggestions == {
        "valley_floor": pytest.approx(FLOOR_OF_TABLE),
        "minimum_over_10": pytest.approx(1e-2),
        "steepest": pytest.approx(1e-3),
    }
    assert result.losses == pytest.approx(TABLE_LOSSES)


@pytest.mark.parametrize(
    ("losses", "kept", "ends"),
    [
        ([1.0, 0.5, 1.9, 2.1, 9.0], 4, "diverged at learning rate 0.1, step 4"),
        ([1.0, 0.5, 1.9, 1.9, 1.9], 5, "reached stop"),
        ([-1.0, -2.0, 4.1, 0.0, 0.0], 3, "diverged at learning rate 0.01, step 3"),
        ([-1.0, -2.0, 3.9, 0.0, 0.0], 5, "reached stop"),
    ],
    ids=["above-four-times-the-best", "below-it", "negative-above", "negative-below"],
)
def test_sweep_stops_when_the_loss_diverges(losses, kept, ends):
    result = run_scripted(losses)
    assert len(result.losses) == len(result.learning_rates) == len(result.smoothed) == kept
    assert ends in result.stopped_because


def test_divergence_is_judged_on_the_smoothed_loss():
    assert len(run_scripted([1.0, 1.0, 5.0, 1.0, 1.0], smoothing=0.9).losses) == 5
    assert len(run_scripted([1.0, 1.0, 5.0, 1.0, 1.0], smoothing=0.0).losses) == 3


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf], ids=str)
def test_a_non_finite_loss_ends_the_sweep_and_is_not_recorded(bad):
    result = run_scripted([3.0, 2.0, 1.0, bad, 0.1])
    assert result.losses == pytest.approx((3.0, 2.0, 1.0))
    assert f"the loss became {bad}" in result.stopped_because
    assert "step 4" in result.stopped_because
    assert result.suggestions["minimum_over_10"] == pytest.approx(1e-3)


def test_a_sweep_that_is_lost_at_once_has_no_suggestion():
    result = run_scripted([math.nan])
    assert result.losses == ()
    assert result.suggestion is None
    assert "Look at the inputs" in result.reason


def test_result_is_plain_data():
    stored = json.loads(json.dumps(asdict(run_scripted(TABLE_LOSSES))))
    assert set(stored) == {"learning_rates", "losses", "smoothed", "stopped_because", "suggestions", "reason"}


# ---------------------------------------------------------------- the state that it leaves


class OwnBatchSampler:
    """Two batches of 16 of 40, drawn with replacement."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def __iter__(self):
        for _ in range(2):
            yield torch.randint(40, (16,), generator=self.generator).tolist()


class Program:
    """A training program in the middle of its work, with every kind of state that a sweep could move."""

    def __init__(self, optimizer: str, loader: str) -> None:
        self.model = make_model()
        self.model.register_buffer("lookup", torch.tensor([math.nan, -0.0, 3.0]), persistent=False)
        x, y = make_data()
        make = {
            "sgd": lambda groups: torch.optim.SGD(groups, lr=0.3, momentum=0.9),
            "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.3, amsgrad=True),
            "tensor-rate": lambda groups: torch.optim.Adam(groups, lr=torch.tensor(0.3)),
        }
        self.temperature = nn.Parameter(torch.ones(()))  # trained, but no part of the model
        # Not the last layer: its gradients are nobody's to clear.
        groups = [{"params": [*self.model[:4].parameters(), self.temperature]}]
        self.optimizer = make[optimizer](groups)
        generator = torch.Generator().manual_seed(4)
        dataset = TensorDataset(x, y)
        sampler = RandomSampler(dataset, generator=generator)
        halves = [(x[:20], y[:20]), (x[20:], y[20:])]
        sampler_of_2 = RandomSampler(halves, generator=generator)
        self.loader = {
            "tensor-loader": lambda: TensorLoader(x, y, batch_size=16, shuffle=True, seed=4),
            "dataloader": lambda: DataLoader(dataset, batch_size=16, shuffle=True),
            "dataloader-generator": lambda: DataLoader(dataset, 16, shuffle=True, generator=generator),
            "batch-sampler": lambda: DataLoader(dataset, batch_sampler=BatchSampler(sampler, 16, False)),
            "own-batch-sampler": lambda: DataLoader(dataset, batch_sampler=OwnBatchSampler(generator)),
            # Examples that are batches already.
            "unbatched": lambda: DataLoader(halves, None, sampler=sampler_of_2),
        }[loader]()
        self.generator = self.loader.generator if loader == "tensor-loader" else generator
        # Two steps, so that the optimizer has state and the generators have moved; then a waiting gradient.
        # What a scheduler leaves in a group that it was made for.
        self.optimizer.param_groups[0].update(initial_lr=0.02, max_lr=0.5, min_lr=2e-6)
        for _, (xs, ys) in zip(range(2), self.loader, strict=False):
            self.loss(self.model(xs), ys).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.loss(self.model(x), y).backward()
        self.model[4].bias.grad = None
        self.model[0].bias.requires_grad_(False)
        self.model[1].eval()

    def loss(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(outputs * self.temperature, labels)

    def state(self) -> dict:
        """Everything, bit for bit and with the identity of the objects."""
        tensors = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        tensors["temperature"] = self.temperature
        return {
            "tensors": {name: (id(tensor), frozen(tensor)) for name, tensor in tensors.items()},
            "requires_grad": {name: tensor.requires_grad for name, tensor in tensors.items()},
            "gradients": {name: (id(tensor.grad), frozen(tensor.grad)) for name, tensor in tensors.items()},
            "modes": [module.training for module in self.model.modules()],
            "groups": frozen(self.optimizer.param_groups),
            "rates": [id(g["lr"]) if torch.is_tensor(g["lr"]) else None for g in self.optimizer.param_groups],
            "optimizer": {id(key): frozen(value) for key, value in self.optimizer.state.items()},
            "torch": frozen(torch.get_rng_state()),
            "python": random.getstate(),
            "numpy": str(np.random.get_state(legacy=False)),
            "generator": frozen(self.generator.get_state()),
        }


def frozen(value: object) -> object:
    """Plain data with the bytes of every tensor: NaN equals NaN, and -0.0 differs from 0.0."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.detach().numpy().tobytes()
    if isinstance(value, dict):
        return {key: frozen(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [frozen(entry) for entry in value]
    return value


PROGRAMS = [
    ("sgd", "tensor-loader"),
    ("adamw", "dataloader"),
    ("adamw", "dataloader-generator"),
    ("tensor-rate", "batch-sampler"),
    ("sgd", "own-batch-sampler"),
    ("sgd", "unbatched"),
]


class Failing:
    """A loader, its generators included, that fails in its second batch."""

    def __init__(self, loader) -> None:
        self.loader = loader

    def __getattr__(self, name: str):
        return getattr(self.loader, name)

    def __iter__(self):
        for number, batch in enumerate(self.loader):
            if number == 1:
                raise RuntimeError("in mid-sweep")
            yield batch


ENDS = ["finishes", "loss-raises", "model-raises", "loader-raises", "interrupted", "diverges", "nan"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("optimizer", "loader"), PROGRAMS, ids=["-".join(names) for names in PROGRAMS])
def test_everything_is_as_before(optimizer, loader, end):
    program = Program(optimizer, loader)
    calls = []

    def intrusive_loss(outputs, labels):
        """Touches what a plain sweep would not, and may fail in the middle."""
        calls.append(None)
        random.random()
        np.random.rand()
        program.model[0].bias.requires_grad_(True)
        program.model.lookup.add_(1)
        program.model[1].running_mean = program.model[1].running_mean + 1  # another object under the same name
        if len(calls) == 7:
            assert program.state() != before
            if end == "loss-raises":
                raise RuntimeError("in mid-sweep")
            if end == "interrupted":
                raise KeyboardInterrupt
        factor = {"diverges": 1e6, "nan": math.nan}.get(end, 1.0) if len(calls) >= 7 else 1.0
        return program.loss(outputs, labels) * factor

    def failing_hook(module, arguments):
        if len(calls) == 7:
            raise RuntimeError("in mid-sweep")

    hook = program.model[3].register_forward_pre_hook(failing_hook) if end == "model-raises" else None
    batches = Failing(program.loader) if end == "loader-raises" else program.loader
    before = program.state()

    def sweep():
        return find_lr(program.model, batches, program.optimizer, intrusive_loss, steps=20)

    if end.endswith("raises"):
        with pytest.raises(RuntimeError, match="in mid-sweep"):
            sweep()
    elif end == "interrupted":
        with pytest.raises(KeyboardInterrupt):
            sweep()
    else:
        result = sweep()
        because = {"finishes": "reached stop", "diverges": "diverged", "nan": "became nan"}[end]
        assert because in result.stopped_because
        swept = len(result.losses) + (end == "nan")
        assert swept > 3
        assert len(calls) in (swept, swept + len(result.losses))  # some at the starting weights
    if hook is not None:
        hook.remove()
    after = program.state()
    for part, value in before.items():
        assert after[part] == value, part
    assert after.keys() == before.keys()


def test_an_optimizer_with_a_scheduler_is_refused():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    OneCycleLR(optimizer, max_lr=0.5, total_steps=9)
    with pytest.raises(ValueError, match=r"a scheduler is attached.*Call find_lr first"):
        find_lr(model, [make_data(8)], optimizer, F.cross_entropy)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_in_each_precision_goes_as_if_never_swept(precision):
    """The scaler of FP16 too, which the sweep's skipped steps would move."""
    finished = []
    for swept in (False, True):
        model, (x, y) = make_model(), make_data()
        loader = TensorLoader(x, y, batch_size=16, shuffle=True, seed=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        torch.manual_seed(3)
        if swept:
            find_lr(model, loader, optimizer, F.cross_entropy, precision=precision, steps=30)
        history = train(model, loader, loader, optimizer, F.cross_entropy, 2, precision=precision)
        finished.append((frozen(model.state_dict()), [row.train_loss for row in history.rows]))
    assert finished[0] == finished[1]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_sweep_trains_as_train_does(precision, accumulate):
    """A flat sweep's losses are those of the windows that train would see, in every precision; all is as before."""
    x, y = make_data(40)
    sizes = [8, 3, 8, 8, 1, 12]
    batches = list(zip(x.split(sizes), y.split(sizes), strict=True))
    model = make_model()
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
    options = {"accumulate": accumulate, "precision": precision, "max_norm": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BatchNorm and accumulation
        found = find_lr(model, batches[:3], optimizer, F.cross_entropy, start=1e-12, stop=2e-12, steps=4, **options)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert len(found.losses) == 4
    windows = [batches[:3]] if accumulate == 3 else [[batch] for batch in batches[:3]]
    tolerance = {"fp32": 1e-5, "bf16": 3e-2, "fp16": 3e-3}[precision]
    for number, loss in enumerate(found.losses):
        window = windows[number % len(windows)]
        with torch.no_grad():
            sums = [F.cross_entropy(copy.deepcopy(model).train()(xs), ys, reduction="sum") for xs, ys in window]
        expected = sum(map(float, sums)) / sum(len(ys) for _, ys in window)
        assert loss == pytest.approx(expected, rel=tolerance)


def test_structures_of_batches_and_counts_go_through_the_sweep_too():
    x, y = make_data(8)
    masked = y.clone()
    masked[:4] = -1
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = find_lr(
        model,
        [{"pixels": x, "digit": masked}],
        optimizer,
        lambda outputs, labels: F.cross_entropy(outputs, labels, ignore_index=-1),
        unpack=lambda batch: (batch["pixels"], batch["digit"]),
        count=lambda labels: (labels >= 0).sum(),
        steps=3,
        start=1e-12,
        stop=2e-12,
    )
    with torch.no_grad():
        expected = F.cross_entropy(copy.deepcopy(model).train()(x), masked, ignore_index=-1)
    assert found.losses[0] == pytest.approx(float(expected), rel=1e-5)


def test_a_batch_of_which_nothing_counts_is_no_step():
    x, y = make_data(8)
    nothing, all_of_it = (x[:4], torch.full((4,), -1)), (x[4:], y[4:])
    model = make_model()[:1]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn, options = nn.CrossEntropyLoss(ignore_index=-1), {"start": 1e-12, "stop": 2e-12, "steps": 3}
    found = find_lr(model, [nothing, all_of_it], optimizer, loss_fn, **options)
    assert found.losses == pytest.approx([loss_fn(model(all_of_it[0]), all_of_it[1]).item()] * 3)
    assert found.stopped_because.startswith("reached stop")
    with pytest.raises(ValueError, match="0 batches to learn from"):
        find_lr(model, [nothing, nothing], optimizer, loss_fn, **options)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_loader_that_can_be_read_only_once_is_named_and_the_model_as_before(accumulate):
    class Once:
        def __init__(self, batches) -> None:
            self.batches = iter(batches)

        def __iter__(self):
            return self.batches

    model = make_model()
    before = frozen(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"nothing in epoch 2, after 2 steps.*Pass a loader or a list.*or take fewer"):
        find_lr(model, Once([make_data()] * 2 * accumulate), optimizer, F.cross_entropy, accumulate=accumulate)
    assert frozen(model.state_dict()) == before
    found = find_lr(model, Once([make_data()] * 3), optimizer, F.cross_entropy, steps=3)
    assert len(found.losses) == 3


def test_a_bar_shows_the_steps_when_wanted(capsys):
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    find_lr(model, [make_data()], optimizer, F.cross_entropy, steps=7, stop=1e-3)
    assert capsys.readouterr().err == ""
    find_lr(model, [make_data()], optimizer, F.cross_entropy, steps=7, stop=1e-3, progress=True)
    assert "7/7" in capsys.readouterr().err


def test_a_fresh_optimizer_is_fresh_again_and_training_goes_as_if_never_swept():
    finished = []
    for swept in (False, True):
        model, (x, y) = make_model(), make_data()
        loader = TensorLoader(x, y, batch_size=16, shuffle=True, seed=0)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        torch.manual_seed(3)
        if swept:
            find_lr(model, loader, optimizer, F.cross_entropy)
            assert len(optimizer.state) == 0
        train(model, loader, loader, optimizer, F.cross_entropy, 2)
        finished.append(frozen(model.state_dict()))
    assert finished[0] == finished[1]


# ---------------------------------------------------------------- refused, drawn, used


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"start": 0.0}, "start is 0.0"),
        ({"start": 1.0, "stop": 1.0}, "start is 1.0"),
        ({"stop": math.inf}, "stop inf"),
        ({"stop": math.nan}, "stop nan"),
        ({"steps": 2}, "steps is 2"),
        ({"smoothing": 1.0}, "smoothing is 1.0"),
        ({"smoothing": -0.1}, "smoothing is -0.1"),
        ({"diverge_factor": 1.0}, "diverge_factor is 1.0"),
        ({"device": "meta"}, "model is on cpu"),
        ({"loader": []}, "loader has 0 batches"),
        ({"loader": iter([make_data()])}, "loader is an iterator"),
        ({"optimizer": torch.optim.SGD(make_model().parameters(), lr=0.1)}, "another model"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_sweep_that_cannot_work_is_refused(options, says):
    model = make_model()

    def loss_fn(outputs, labels):
        pytest.fail("time was spent")

    arguments = {"loader": [make_data()], "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}
    with pytest.raises(ValueError, match=says):
        find_lr(model, loss_fn=loss_fn, **{**arguments, **options})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"steps": 50.0}, "steps is 50.0, of type float"),
        ({"start": "1e-5"}, "start is '1e-5', of type str; pass a number, without quotes"),
        ({"stop": "1"}, "stop is '1'"),
        ({"smoothing": None}, "smoothing is None"),
        ({"diverge_factor": "4"}, "diverge_factor is '4'"),
        ({"loss_fn": nn.CrossEntropyLoss}, "loss_fn is the class CrossEntropyLoss"),
        ({"loader": make_data()}, "loader is data"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_settings_of_another_type_are_refused(options, says):
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(TypeError, match=says):
        find_lr(model, **{"loader": [make_data()], "optimizer": optimizer, "loss_fn": F.cross_entropy, **options})


def test_a_batch_that_does_not_fit_is_named():
    model, (x, y) = make_model(), make_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"batch 2: labels have dtype float32.*y\.long\(\)"):
        find_lr(model, [(x, y), (x, y.float())], optimizer, F.cross_entropy)


@pytest.mark.parametrize("whole", ["train", "eval"])
def test_frozen_modules_stay_frozen_in_a_model_that_trains(whole):
    model = make_model().train(whole == "train")
    model[1].eval()
    seen = set()

    def loss_fn(outputs, labels):
        seen.add(tuple(module.training for module in model.modules()))
        return F.cross_entropy(outputs, labels)

    find_lr(model, [make_data()], torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, steps=3)
    assert seen == {tuple(module is not model[1] or whole == "eval" for module in model.modules())}


def test_a_first_loss_that_is_not_finite_is_not_blamed_on_the_sweep():
    model = make_model()
    inputs, labels = make_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = find_lr(model, [(inputs * float("nan"), labels)], optimizer, F.cross_entropy)
    assert result.suggestion is None
    assert "Look at the inputs" in result.reason
    assert "Lengthen" not in result.reason


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"ignore_index": -1}], ids=str)
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2), (3, 3), (4, 1)], ids=str)
def test_torch_refuses_on_the_cpu_whatever_we_refuse(shape, options):
    """That is why a step there leaves the look at the labels to torch, and explains a failure afterwards."""
    loss_fn, outputs = nn.CrossEntropyLoss(**options), torch.zeros(shape)
    shapes = [(), (4,), (3,), (4, 1), (4, 3), (4, 2), (4, 3, 2), (4, 1, 2)]
    dtypes = [torch.long, torch.int32, torch.uint8, torch.bool, torch.float32, torch.float64]
    refused = 0
    for labels in (torch.full(of, value).to(to) for of in shapes for to in dtypes for value in (-1, 0, 2, 3)):
        try:
            require_labels(loss_fn, outputs, labels, "batch 1")
        except (ValueError, TypeError):
            refused += 1
            with pytest.raises((RuntimeError, ValueError, IndexError)):
                loss_fn(outputs, labels)
    assert refused > 50


def test_a_sum_of_losses_is_refused():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="reduction='sum'"):
        find_lr(model, [make_data()], optimizer, torch.nn.CrossEntropyLoss(reduction="sum"))


def test_refused_at_the_first_step():
    class Empty:
        def __iter__(self):
            return iter([])

    model = make_model()
    zero_rate = torch.optim.SGD(model.parameters(), lr=0.0)
    with pytest.raises(ValueError, match=r"first parameter group's rate is 0\.0"):
        find_lr(model, [make_data()], zero_rate, F.cross_entropy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="0 batches"):
        find_lr(model, Empty(), optimizer, F.cross_entropy)
    with pytest.raises(ValueError, match="reduction='mean'"):
        find_lr(model, [make_data()], optimizer, nn.CrossEntropyLoss(reduction="none"))


def test_the_legend_stands_above_the_curves():
    figure = run_scripted(TABLE_LOSSES).plot()
    figure.draw_without_rendering()
    (ax,) = figure.axes
    assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1
    plt.close(figure)


def test_plot_marks_every_suggestion_on_a_log_axis_and_the_default_boldly():
    result = run_scripted(TABLE_LOSSES)
    figure = result.plot()
    (ax,) = figure.axes
    raw, smooth_line, *marks = ax.get_lines()
    assert raw.get_alpha() < 1
    assert tuple(raw.get_ydata()) == result.losses
    assert tuple(smooth_line.get_ydata()) == tuple(trend(result.learning_rates, result.losses))
    words = {"valley_floor": "a third across", "minimum_over_10": "a tenth of", "steepest": "steepest fall"}
    for mark, (rule, rate) in zip(marks, result.suggestions.items(), strict=True):
        assert mark.get_xdata()[0] == rate
        assert mark.get_label().startswith(words[rule])
    (floor,) = ax.patches
    assert floor.get_label() == "bottom of the valley"
    assert floor.get_x() < result.suggestion < floor.get_x() + floor.get_width()
    assert ax.get_ylim()[0] >= 0
    assert len({mark.get_color() for mark in marks}) == len({mark.get_linestyle() for mark in marks}) == len(marks)
    *others, boldest = sorted(marks, key=lambda mark: mark.get_linewidth())
    assert boldest.get_xdata()[0] == result.suggestion
    assert all(mark.get_linewidth() < boldest.get_linewidth() for mark in others)
    assert (ax.get_xscale(), bool(ax.get_xlabel()), bool(ax.get_ylabel())) == ("log", True, True)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "a third across the bottom, 2.0e-02 (suggestion)" in labels
    assert sum("suggestion" in label for label in labels) == 1
    plt.close(figure)


@pytest.mark.parametrize("losses", [[2.0] * 5, [math.nan]], ids=["flat", "empty"])
def test_plot_without_a_suggestion_says_so_in_given_axes(losses):
    figure, ax = plt.subplots()
    assert run_scripted(losses).plot(ax) is figure
    assert [text.get_text() for text in ax.texts] == ["no suggestion"]
    plt.close(figure)


@pytest.mark.parametrize("seed", range(3))
def test_suggested_rate_trains_the_digits_to_97_percent(seed):
    """03a's recipe: AdamW, one cycle up to the suggestion, 8 epochs of batches of 64."""
    digits = load_digits()
    parts = stratified_split(digits.labels, (0.6, 0.2, 0.2), seed=0)
    images, labels = zip(*((digits.images[part], digits.labels[part]) for part in parts), strict=True)
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )
    train_loader = TensorLoader(images[0], labels[0], batch_size=64, shuffle=True, seed=seed)
    val_loader = TensorLoader(images[1], labels[1], batch_size=256)
    optimizer = torch.optim.AdamW(model.parameters())
    max_lr = find_lr(model, train_loader, optimizer, F.cross_entropy).suggestion
    assert 1e-3 < max_lr < 1e-1
    history = train(
        model,
        train_loader,
        val_loader,
        optimizer,
        F.cross_entropy,
        8,
        schedule=lambda opt, total: OneCycleLR(opt, max_lr, total_steps=total),
    )
    model.load_state_dict(history.best_state)
    held_out = evaluate(model, TensorLoader(images[2], labels[2], batch_size=256), F.cross_entropy)
    assert held_out.metric >= 0.97


def narrow(seed: int, noise: float, depth: float) -> list[float]:
    """100 losses around 2 that fall by depth in the steps 70 to 77 only."""
    losses = 2 + noise * np.random.default_rng(seed).standard_normal(100)
    losses[70:78] -= depth
    return losses.tolist()


@pytest.mark.parametrize(
    ("noise", "depth", "says"),
    [
        (0.05, 0.5, "The loss falls by 2"),
        (0.05, 0.0, "No suggestion: the loss falls by"),
        (0.4, 0.2, "No suggestion: the loss falls by"),
        (0.1, 1.5, "The loss falls by "),
    ],
    ids=["a narrow valley", "noise alone", "a fall within the noise", "a deep narrow valley"],
)
def test_a_fall_is_told_from_noise_also_in_a_narrow_valley(noise: float, depth: float, says: str) -> None:
    rates = np.geomspace(1e-6, 10, 100).tolist()
    for seed in range(10):
        suggestions, reason = suggest_learning_rates(rates, narrow(seed, noise, depth))
        assert says in reason, (seed, reason)
        assert bool(suggestions) == says.startswith("The loss"), seed
        assert not suggestions or 1e-3 < suggestions["valley_floor"] < 1


@pytest.mark.parametrize("batch_size", [16, 32])
@pytest.mark.parametrize("seed", range(6))
def test_a_fall_beneath_the_noise_of_batches_is_found(seed, batch_size):
    """Diabetes: the squared error of a batch varies by a quarter, and the sweep halves it."""
    from sklearn.datasets import load_diabetes

    inputs, targets = (torch.from_numpy(part).float() for part in load_diabetes(return_X_y=True))
    inputs, targets = inputs / inputs.std(dim=0), ((targets - targets.mean()) / targets.std())[:, None]
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    loader = TensorLoader(inputs, targets, batch_size=batch_size, shuffle=True, seed=seed)
    result = find_lr(model, loader, torch.optim.Adam(model.parameters()), nn.MSELoss())
    assert result.suggestion is not None, result.reason


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_noise_of_batches_is_still_no_fall(seed, accumulate):
    """Weights that do not matter: the loss of each batch is that at the start, however much batches differ."""
    model, (x, _) = make_model(), make_data(400)
    y = torch.randn(400, generator=torch.Generator().manual_seed(seed)) ** 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = TensorLoader(x, y, batch_size=16, shuffle=True, seed=seed)
    before = copy.deepcopy(model.state_dict())
    result = find_lr(
        model, loader, optimizer, lambda o, y: (y**2).mean() + 0 * o.sum(), accumulate=accumulate, stop=1.0
    )
    assert result.suggestion is None
    assert "the loss falls by" in result.reason
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("rates", "losses"),
    [
        ([1e-3, 1e-2, 1e-1], [2.0, math.nan, 1.0]),
        ([1e-3, 1e-2, 1e-1], [2.0, 1.0, math.inf]),
        ([1e-1, 1e-2, 1e-3], [2.0, 1.0, 0.5]),
        ([0.0, 1e-2, 1e-1], [2.0, 1.0, 0.5]),
        ([1e-3, 1e-3, 1e-1], [2.0, 1.0, 0.5]),
    ],
)
def test_a_curve_that_no_sweep_gives_is_refused_with_the_point(rates, losses):
    with pytest.raises(ValueError, match=r"point [012] of the curve"):
        suggest_learning_rates(rates, losses)
