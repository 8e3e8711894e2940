"""Ready-made schedules against their closed formulas at every step, and parameter groups."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, CosineAnnealingWarmRestarts, LambdaLR, MultiStepLR

from lecture_lib.data import TensorLoader
from lecture_lib.training import plot_schedule, schedule_rates, train
from lecture_lib.training._run.schedule import make_scheduler
from lecture_lib.training.checkpoint import save_atomically
from lecture_lib.training.parameter_groups import parameter_groups
from lecture_lib.training.schedules import one_cycle, step_decay, warmup_cosine, with_warmup


def make_optimizer(kind=torch.optim.SGD, rates=(0.4, 0.1), **options) -> torch.optim.Optimizer:
    groups = [{"params": [nn.Parameter(torch.ones(2))], "lr": rate} for rate in rates]
    optimizer = kind(groups, **options)
    for group in optimizer.param_groups:
        group["params"][0].grad = torch.ones(2)
    return optimizer


def rates_of_a_run(schedule, optimizer, total_steps) -> list[list[float]]:
    """Each group's rate at each optimizer step."""
    scheduler = schedule(optimizer, total_steps)
    rates = []
    for _ in range(total_steps):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return rates


def cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


# ---------------------------------------------------------------- closed formulas


@pytest.mark.parametrize("total", [1, 2, 3, 10, 97])
@pytest.mark.parametrize("final", [0.0, 0.1, 1.0], ids=str)
@pytest.mark.parametrize("warmup", [0, 1, 0.0, 0.1, 0.5, 0.99], ids=repr)
def test_warmup_and_cosine(warmup, final, total):
    rise = warmup if isinstance(warmup, int) else math.ceil(round(warmup * total, 9))
    expected = [
        (t + 1) / (rise + 1) if t < rise else cosine(1, final, (t - rise) / (total - rise)) for t in range(total)
    ]
    rates = rates_of_a_run(warmup_cosine(warmup, final), make_optimizer(), total)
    assert [first for first, _ in rates] == pytest.approx([0.4 * factor for factor in expected])
    assert [second for _, second in rates] == pytest.approx([0.1 * factor for factor in expected])
    assert all(rate > 0 for pair in rates for rate in pair)


def test_warmup_and_cosine_by_hand():
    rates = rates_of_a_run(warmup_cosine(3), make_optimizer(rates=[1.0]), 7)
    falling = [1, 0.5 + math.sqrt(2) / 4, 0.5, 0.5 - math.sqrt(2) / 4]
    assert [rate for (rate,) in rates] == pytest.approx([0.25, 0.5, 0.75, *falling])


@pytest.mark.parametrize("total", [1, 2, 4, 10, 97])
@pytest.mark.parametrize("warmup", [0.1, 0.25, 0.3, 0.5], ids=str)
def test_one_cycle(warmup, total):
    """Smith and Topin's cycle in PyTorch's numbers: from a 25th of the peak, down to a 10,000th of that."""
    peak = warmup * total - 1
    expected, momenta = [], []
    for t in range(total):
        if t < peak:
            expected.append(cosine(1 / 25, 1, t / peak))
            momenta.append(cosine(0.95, 0.85, t / peak))
        else:
            start = min(peak, total - 1)
            expected.append(cosine(1, 1 / 250_000, (t - start) / (total - 1 - start)))
            momenta.append(cosine(0.85, 0.95, (t - start) / (total - 1 - start)))
    optimizer = make_optimizer(momentum=0.9)
    seen = []
    optimizer.register_step_pre_hook(lambda opt, *_: seen.append(opt.param_groups[0]["momentum"]))
    rates = rates_of_a_run(one_cycle(2.0, warmup), optimizer, total)
    assert [first for first, _ in rates] == pytest.approx([2.0 * factor for factor in expected])
    assert [second for _, second in rates] == pytest.approx([0.5 * factor for factor in expected])
    assert seen == pytest.approx(momenta)


@pytest.mark.parametrize(
    ("kind", "options", "name", "moves"),
    [
        (torch.optim.SGD, {"momentum": 0.9}, "momentum", True),
        (torch.optim.SGD, {}, "momentum", False),
        (torch.optim.RMSprop, {}, "momentum", False),
        (torch.optim.AdamW, {}, "betas", True),
        (torch.optim.Adam, {"betas": (0.0, 0.9)}, "betas", False),
        (torch.optim.Adagrad, {}, None, False),
    ],
    ids=["sgd-momentum", "sgd", "rmsprop", "adamw", "adam-without-beta", "adagrad"],
)
def test_one_cycle_moves_momentum_only_where_there_is_some(kind, options, name, moves):
    optimizer = make_optimizer(kind, **options)
    before = optimizer.param_groups[0].get(name)
    seen = []
    optimizer.register_step_pre_hook(lambda opt, *_: seen.append(opt.param_groups[0].get(name)))
    rates_of_a_run(one_cycle(0.01), optimizer, 10)
    assert (set(seen) != {before}) == moves


@pytest.mark.parametrize(
    ("every", "total", "drops"),
    [
        (2, 7, [2, 4, 6]),
        (100, 7, []),
        (1 / 3, 30, [10, 20]),
        (10 / 30, 100, [34, 68]),
        (0.07, 100, range(7, 100, 7)),
        (0.5, 2, [1]),
        (0.5, 1, []),
        (1e-9, 3, [1, 2]),
    ],
    ids=["steps", "longer-than-the-run", "third", "10-of-30-epochs", "rounding", "two-steps", "one-step", "tiny"],
)
def test_step_decay(every, total, drops):
    rates = rates_of_a_run(step_decay(every, 0.5), make_optimizer(), total)
    factors = [0.5 ** sum(drop <= t for drop in drops) for t in range(total)]
    assert [first for first, _ in rates] == pytest.approx([0.4 * factor for factor in factors])
    assert [second for _, second in rates] == pytest.approx([0.1 * factor for factor in factors])


# ---------------------------------------------------------------- in a run

SCHEDULES = [warmup_cosine(0.2, 0.1), warmup_cosine(3), one_cycle(0.5), step_decay(1 / 4, 0.5), step_decay(5)]
NAMES = ["warmup-cosine", "warmup-steps", "one-cycle", "step-fraction", "step-steps"]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=NAMES)
def test_a_stored_schedule_goes_on_with_the_same_rates(schedule, tmp_path):
    expected = rates_of_a_run(schedule, make_optimizer(momentum=0.9), 20)
    optimizer = make_optimizer(momentum=0.9)
    scheduler = schedule(optimizer, 20)
    rates = []
    for step in range(20):
        if step == 7:
            save_atomically([optimizer.state_dict(), scheduler.state_dict()], tmp_path / "state.pt")
            optimizer = make_optimizer(rates=(9.0, 9.0), momentum=0.9)
            scheduler = schedule(optimizer, 20)
            stored = torch.load(tmp_path / "state.pt", weights_only=True)
            optimizer.load_state_dict(stored[0])
            scheduler.load_state_dict(stored[1])
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    assert rates == expected


@pytest.mark.parametrize("schedule", SCHEDULES, ids=NAMES)
def test_train_steps_it_once_after_each_optimizer_step(schedule):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 4, generator=generator), torch.randint(0, 3, (40,), generator=generator)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=0.01)
    used = []
    optimizer.register_step_pre_hook(lambda opt, *_: used.append([group["lr"] for group in opt.param_groups]))
    loader = TensorLoader(x, y, batch_size=16)
    train(model, loader, loader, optimizer, F.cross_entropy, 4, schedule=schedule)
    assert used == rates_of_a_run(schedule, make_optimizer(torch.optim.AdamW, (0.01, 0.01)), 12)


@pytest.mark.parametrize(
    ("batches", "accumulate", "steps"), [(8, 1, 8), (8, 4, 2), (7, 3, 3), (2, 5, 1)], ids=["1", "even", "short", "one"]
)
def test_steps_are_counted_in_windows(batches, accumulate, steps):
    totals = []

    def schedule(optimizer, total_steps):
        totals.append(total_steps)
        return step_decay(1)(optimizer, total_steps)

    make_scheduler(schedule, make_optimizer(), [None] * batches, 3, accumulate=accumulate)
    assert totals == [3 * steps]


def test_one_cycle_keeps_the_groups_ratio_after_a_schedule_that_ended_at_0():
    optimizer = make_optimizer()
    rates_of_a_run(warmup_cosine(0), optimizer, 5)
    rates = rates_of_a_run(one_cycle(1.0), optimizer, 5)
    assert all(first == pytest.approx(4 * second) for first, second in rates)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: warmup_cosine(-1), "warmup is -1; pass a whole number of steps, 0 or more"),
        (lambda: warmup_cosine(1.0), r"warmup is 1\.0; pass a whole number"),
        (lambda: warmup_cosine(math.nan), "warmup is nan"),
        (lambda: warmup_cosine(0.1, 1.5), r"final is 1\.5; pass a multiple of the rate from 0 to 1"),
        (lambda: step_decay(0), "every is 0; pass a whole number of steps, 1 or more"),
        (lambda: step_decay(0.0), r"every is 0\.0"),
        (lambda: step_decay(1.5), r"every is 1\.5"),
        (lambda: step_decay(2, 0.0), r"factor is 0\.0; pass a number above 0 and at most 1"),
        (lambda: one_cycle(0.0), r"max_lr is 0\.0; pass a rate above 0"),
        (lambda: one_cycle(math.inf), "max_lr is inf"),
        (lambda: one_cycle(0.1, 1), "warmup is 1; pass the rising fraction"),
        (lambda: warmup_cosine(9)(make_optimizer(), 8), "warmup is 9 steps and the run has 8"),
        (lambda: one_cycle(0.1)(make_optimizer(rates=(0.0, 0.1)), 8), r"first parameter group's rate is 0\.0"),
    ],
)
def test_values_out_of_range_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize("schedule", [warmup_cosine, one_cycle, step_decay], ids=lambda s: s.__name__)
@pytest.mark.parametrize("value", [True, None, "0.1"], ids=repr)
def test_what_is_no_number_is_refused(schedule, value):
    with pytest.raises(TypeError, match="pass a number"):
        schedule(value)


@pytest.mark.parametrize("schedule", [warmup_cosine, one_cycle, step_decay], ids=lambda s: s.__name__)
def test_a_schedule_that_was_not_called_is_refused(schedule):
    with pytest.raises(TypeError, match=r"of type SGD; .*Call the factory .* schedule=warmup_cosine\(0\.1\)"):
        make_scheduler(schedule, make_optimizer(), [None] * 5, 2)


# ---------------------------------------------------------------- parameter groups


class Text(nn.Module):
    """Tied embeddings, every kind of normalisation, a temperature, and a layer that is frozen."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.frozen = nn.Linear(4, 4)
        self.convolution = nn.Conv1d(4, 4, 3)
        self.norms = nn.ModuleList([nn.LayerNorm(4), nn.LayerNorm([2, 4]), nn.RMSNorm([2, 4]), nn.BatchNorm1d(4)])
        self.head = nn.Linear(4, 7)
        self.head.weight = self.embedding.weight
        self.again = self.head
        self.temperature = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(3, 4))
        self.frozen.requires_grad_(False)


def test_matrices_decay_and_biases_and_norms_do_not():
    model = Text()
    decayed, spared = parameter_groups(model, 0.05)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert [names[id(p)] for p in decayed["params"]] == ["embedding.weight", "convolution.weight"]
    assert [names[id(p)] for p in spared["params"]] == [
        "temperature",
        "bias",
        "convolution.bias",
        *(f"norms.{name}" for name in ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "3.weight", "3.bias"]),
        "head.bias",
    ]
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.05, 0.0)


def test_every_trainable_parameter_is_there_exactly_once():
    model = Text()
    grouped = [id(parameter) for group in parameter_groups(model, 0.1) for parameter in group["params"]]
    trainable = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    assert len(grouped) == len(trainable)
    assert set(grouped) == trainable


def test_one_step_without_gradients_signal_shrinks_the_matrices_only():
    """AdamW with zero gradients multiplies by 1 - lr · weight_decay."""
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    torch.optim.AdamW(parameter_groups(model, 0.5), lr=0.1).step()
    values = {name: parameter.mean().item() for name, parameter in model.named_parameters()}
    assert values == {"0.weight": pytest.approx(0.95), "0.bias": 1.0, "1.weight": 1.0, "1.bias": 1.0}


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW], ids=["sgd", "adamw"])
@pytest.mark.parametrize("model", [nn.LayerNorm(3), nn.Linear(3, 3, bias=False)], ids=["nothing-decays", "all-decays"])
def test_an_empty_group_does_no_harm(model, kind):
    optimizer = kind(parameter_groups(model, 0.1), lr=0.1)
    model(torch.randn(2, 3)).square().sum().backward()
    optimizer.step()
    assert sorted(len(group["params"]) > 0 for group in optimizer.param_groups) == [False, True]


@pytest.mark.parametrize(
    ("weight_decay", "error"),
    [(-0.1, ValueError), (math.nan, ValueError), (math.inf, ValueError), (True, TypeError), ("0.1", TypeError)],
    ids=repr,
)
def test_a_decay_that_is_no_number_from_0_is_refused(weight_decay, error):
    with pytest.raises(error, match=rf"weight_decay is {weight_decay!r}; pass a .*number, 0 or more"):
        parameter_groups(nn.Linear(2, 2), weight_decay)


def test_a_model_with_nothing_to_train_is_refused():
    with pytest.raises(ValueError, match="no trainable parameters"):
        parameter_groups(nn.Linear(2, 2).requires_grad_(False), 0.1)


# ---------------------------------------------------------------- warm-up before any schedule, and pictures


MAIN = {
    "step": (step_decay(5, 0.5), lambda t, total: 0.5 ** (t // 5)),
    "multi-step": (
        lambda optimizer, total: MultiStepLR(optimizer, [3, 7], gamma=0.2),
        lambda t, total: 0.2 ** ((t >= 3) + (t >= 7)),
    ),
    "cosine": (
        lambda optimizer, total: CosineAnnealingLR(optimizer, total),
        lambda t, total: cosine(1, 0, t / total),
    ),
    "restarts": (
        lambda optimizer, total: CosineAnnealingWarmRestarts(optimizer, 4),
        lambda t, total: cosine(1, 0, t % 4 / 4),
    ),
    "one-cycle": (
        one_cycle(0.4, warmup=0.5),
        lambda t, total: (
            cosine(1 / 25, 1, t / (total / 2 - 1))
            if t <= total / 2 - 1
            else cosine(1, 1 / 25e4, (t - total / 2 + 1) / (total / 2))
        ),
    ),
    "constant": (lambda optimizer, total: LambdaLR(optimizer, lambda step: 1.0), lambda t, total: 1.0),
}


@pytest.mark.parametrize("warmup", [0, 1, 4, 0.2], ids=repr)
@pytest.mark.parametrize("name", MAIN)
def test_warmup_before_any_schedule(name, warmup):
    """(t + 1) / (W + 1) of the rate at its start, then its closed formula, for each group."""
    schedule, formula = MAIN[name]
    total = 24
    rise = warmup if isinstance(warmup, int) else 5
    optimizer = make_optimizer(momentum=0.9)
    rates = rates_of_a_run(with_warmup(schedule, warmup), optimizer, total)
    main = [formula(t, total - rise) for t in range(total - rise)]
    expected = [main[0] * (t + 1) / (rise + 1) for t in range(rise)] + main
    assert [first for first, _ in rates] == pytest.approx([0.4 * factor for factor in expected])
    assert [second for _, second in rates] == pytest.approx([0.1 * factor for factor in expected])


def test_warmup_is_resumed():
    """A scheduler that is loaded goes on where the saved one was, before and after the end of the warm-up."""
    schedule = with_warmup(step_decay(3, 0.5), 4)
    whole = rates_of_a_run(schedule, make_optimizer(), 12)
    for stopped in (2, 4, 7):
        optimizer = make_optimizer()
        scheduler = schedule(optimizer, 12)
        for _ in range(stopped):
            optimizer.step()
            scheduler.step()
        again = make_optimizer()
        resumed = schedule(again, 12)
        again.load_state_dict(optimizer.state_dict())
        resumed.load_state_dict(scheduler.state_dict())
        rates = []
        for _ in range(stopped, 12):
            rates.append([group["lr"] for group in again.param_groups])
            again.step()
            resumed.step()
        assert [first for first, _ in rates] == pytest.approx([first for first, _ in whole[stopped:]])


@pytest.mark.parametrize("warmup", [-1, 1.5, float("nan")], ids=str)
def test_warmup_out_of_range(warmup):
    with pytest.raises(ValueError, match="warmup is"):
        with_warmup(step_decay(3), warmup)


def test_warmup_must_leave_a_step():
    with pytest.raises(ValueError, match="warmup is 10 steps and the run has 10"):
        with_warmup(step_decay(3), 10)(make_optimizer(), 10)


def test_the_rates_of_a_schedule_are_those_of_training():
    """schedule_rates without training; the run with the same schedule, with training."""
    optimizer = make_optimizer(rates=(0.3,), momentum=0.9)
    used = [rate for (rate,) in rates_of_a_run(one_cycle(0.2), optimizer, 15)]
    assert schedule_rates(one_cycle(0.2), 15, 0.3) == pytest.approx(used)


@pytest.mark.parametrize(
    ("total", "rate", "error"),
    [(0, 0.1, ValueError), (2.0, 0.1, TypeError), (True, 0.1, TypeError), (3, 0.0, ValueError), (3, "1", TypeError)],
    ids=str,
)
def test_rates_of_a_run_that_cannot_be(total, rate, error):
    with pytest.raises(error, match="pass a"):
        schedule_rates(step_decay(2), total, rate)


def test_a_schedule_is_drawn_as_stairs_with_its_rates():
    figure = plot_schedule({"cosine": warmup_cosine(2), "step": step_decay(3)}, 10, 0.5)
    (axis,) = figure.axes
    assert axis.get_xlabel() == "optimizer step"
    assert axis.get_ylabel() == "learning rate"
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["cosine", "step"]
    cosine_line, step_line = axis.get_lines()
    assert list(cosine_line.get_xdata()) == list(range(10))
    assert step_line.get_ydata() == pytest.approx([0.5 * 0.1 ** (t // 3) for t in range(10)])
    assert {line.get_drawstyle() for line in axis.get_lines()} == {"steps-post"}
    assert cosine_line.get_linestyle() != step_line.get_linestyle()
    plt.close(figure)


def test_one_schedule_needs_no_legend_and_none_is_refused():
    figure = plot_schedule(step_decay(3), 10)
    assert figure.axes[0].get_legend() is None
    plt.close(figure)
    with pytest.raises(ValueError, match="no schedule"):
        plot_schedule({}, 10)


# ---------------------------------------------------------------- a second run with the same optimizer


def peak_of_a_second_run(rate: float | None) -> float:
    """The highest rate of a second run with warm-up and cosine, after `rate` was set, or nothing."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = TensorLoader(torch.randn(20, 3), torch.arange(20) % 2, batch_size=2)
    rates: list[float] = []

    def schedule(optimizer, total_steps):
        scheduler = warmup_cosine(0.2)(optimizer, total_steps)
        step = scheduler.step
        scheduler.step = lambda: (rates.append(optimizer.param_groups[0]["lr"]), step())
        return scheduler

    train(model, loader, loader, optimizer, F.cross_entropy, 1, schedule=schedule)
    rates.clear()
    if rate is not None:
        optimizer.param_groups[0]["lr"] = rate
    train(model, loader, loader, optimizer, F.cross_entropy, 1, schedule=schedule)
    return max(rates)


@pytest.mark.parametrize(("rate", "peak"), [(0.001, 0.001), (None, 0.1)])
def test_a_second_run_starts_from_the_rate_that_was_set_since_the_first(rate, peak):
    """Without one it starts from the group's own rate again, and not from the end of the first schedule."""
    assert peak_of_a_second_run(rate) == pytest.approx(peak)
