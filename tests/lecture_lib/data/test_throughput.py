"""The throughput measurement names planted bottlenecks, on a clock of its own and with real sleeps."""

from __future__ import annotations

import random
import time
from collections import namedtuple

import matplotlib as mpl
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from lecture_lib.data import TensorLoader, compare_loaders, measure_throughput

pytestmark = pytest.mark.slow

mpl.use("Agg")


class Clock:
    """Time that passes only when something is planted."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Planted:
    """A loader that waits for each batch, and before the first."""

    def __init__(self, sleep, *, batches=10, size=4, each=0.0, start=0.0, only=None):
        self.sleep, self.batches, self.size = sleep, batches, size
        self.each, self.start, self.only, self.epoch = each, start, only, 0

    def __len__(self):
        return self.batches

    def __iter__(self):
        self.epoch += 1
        self.sleep(self.start if self.only in (None, self.epoch) else 0.0)
        for _ in range(self.batches):
            self.sleep(self.each)
            yield torch.zeros(self.size, 2), torch.zeros(self.size)


def planted_step(sleep, *, example=0.0, batch=0.0):
    return lambda pair: sleep(batch + example * len(pair[0]))


CASES = {  # loader, step, what is to be named; seconds
    "slow-transform": ({"each": 0.02}, {"example": 0.001}, "loader"),
    "slow-model": ({"each": 0.002}, {"example": 0.005}, "model"),
    "slow-first-batch": ({"start": 0.2, "each": 0.002}, {"example": 0.001}, "first batch"),
    "tiny-batches": ({"each": 0.002}, {"example": 0.0002, "batch": 0.02}, "tiny batches"),
}


@pytest.mark.parametrize(("loader", "step", "named"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("real", [False, True], ids=["planted-clock", "real-clock"])
def test_the_planted_bottleneck_is_named(loader, step, named, real):
    clock = time.perf_counter if real else Clock()
    sleep = time.sleep if real else clock.sleep
    found = measure_throughput(Planted(sleep, **loader), planted_step(sleep, **step), batches=10, clock=clock)
    assert found.bottleneck == named
    assert named in str(found)
    assert found.first_fix in str(found)


def test_the_figures_are_those_of_the_planted_clock():
    clock = Clock()
    loader = Planted(clock.sleep, each=0.03, start=0.1)
    found = measure_throughput(loader, planted_step(clock.sleep, example=0.002, batch=0.004), clock=clock)
    assert found.loader == pytest.approx(10 / 0.4)
    assert found.step == pytest.approx(1 / 0.012)
    assert found.both == pytest.approx(10 / 0.52)
    assert found.waiting == pytest.approx(0.4 / 0.52)
    wanted = {"loader": 0.3, "first batch": 0.1, "model": 0.08, "tiny batches": 0.04}
    assert found.seconds == pytest.approx(wanted)


@pytest.mark.parametrize("epoch", range(1, 8))  # alone, then one for the batch that is held, then both
def test_a_start_that_is_paid_once_is_not_the_bottleneck(epoch):
    clock = Clock()
    loader = Planted(clock.sleep, each=0.01, start=50.0, only=epoch)
    found = measure_throughput(loader, planted_step(clock.sleep, example=0.001), clock=clock)
    assert found.bottleneck == "loader"
    assert found.seconds["first batch"] == pytest.approx(0)


@pytest.mark.parametrize(("length", "named"), [(10, "first batch"), (1000, "model")], ids=["short-epoch", "long-epoch"])
def test_a_slow_start_is_weighed_against_the_whole_epoch(length, named):
    clock = Clock()
    loader = Planted(clock.sleep, batches=length, start=1.0, each=0.001)
    assert (
        measure_throughput(loader, planted_step(clock.sleep, example=0.01), batches=10, clock=clock).bottleneck == named
    )


def test_an_epoch_of_one_batch_is_all_loading():
    clock = Clock()
    found = measure_throughput(Planted(clock.sleep, batches=1, each=1.0), planted_step(clock.sleep), clock=clock)
    assert (found.bottleneck, found.seconds["first batch"]) == ("loader", 0)


class Slow(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, row):
        time.sleep(0.004)
        return torch.zeros(3), row


@pytest.mark.parametrize(
    ("workers", "fix"), [(0, "raise num_workers"), (1, "cache, simplify or move")], ids=["no-workers", "a-worker"]
)
def test_a_slow_transform_behind_a_dataloader(workers, fix):
    persistent = {"persistent_workers": True} if workers else {}
    loader = DataLoader(Slow(), batch_size=4, num_workers=workers, **persistent)
    found = measure_throughput(loader, lambda batch: None, batches=6)
    assert found.bottleneck == "loader"
    assert found.first_fix.startswith(fix)


class Starting(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, row):
        return torch.zeros(3), row


def _slow_start(worker):
    time.sleep(0.4)


@pytest.mark.parametrize("persistent", [False, True], ids=["anew", "persistent"])
def test_workers_that_start_in_every_epoch(persistent):
    loader = DataLoader(
        Starting(), batch_size=2, num_workers=1, persistent_workers=persistent, worker_init_fn=_slow_start
    )
    found = measure_throughput(loader, lambda batch: time.sleep(0.01 * len(batch[0])), batches=4)
    assert found.bottleneck == ("model" if persistent else "first batch")
    assert persistent or "persistent_workers=True" in found.first_fix


def test_random_streams_and_generators_are_put_back():
    data = TensorDataset(torch.arange(20.0))
    generator = torch.Generator().manual_seed(3)
    loaders = [
        DataLoader(data, batch_size=5, shuffle=True, generator=generator),
        DataLoader(data, batch_size=5, shuffle=True),
        TensorLoader(torch.arange(20.0), batch_size=5, shuffle=True, seed=1),
    ]

    def step(batch):
        random.random(), np.random.random(), torch.rand(1)

    for loader in loaders:
        torch.manual_seed(0)
        expected = [batch[0].tolist() for batch in loader], random.getstate()
        torch.manual_seed(0)
        for owner in {id(one): one for one in (loader, getattr(loader, "sampler", None))}.values():
            if isinstance(getattr(owner, "generator", None), torch.Generator):
                owner.generator.manual_seed(1 if isinstance(loader, TensorLoader) else 3)
        if isinstance(loader, DataLoader) and loader.generator is not None:
            expected = None, random.getstate()
        before = generator.get_state(), np.random.get_state()[1].tolist()
        measure_throughput(loader, step, batches=4)
        assert torch.equal(generator.get_state(), before[0])
        assert np.random.get_state()[1].tolist() == before[1]
        assert random.getstate() == expected[1]
        if expected[0] is not None:
            assert [batch[0].tolist() for batch in loader] == expected[0]


def test_streams_are_put_back_after_an_error():
    loader = TensorLoader(torch.arange(20.0), batch_size=5, shuffle=True, seed=1)
    before = loader.generator.get_state(), torch.get_rng_state()

    def step(batch):
        torch.rand(1)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        measure_throughput(loader, step)
    assert torch.equal(loader.generator.get_state(), before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize(
    "batch",
    [torch.zeros(3, 2), [torch.zeros(3, 2), "name"], {"x": torch.zeros(3, 2)}, Pair(torch.zeros(3, 2), 0)],
    ids=["tensor", "list", "dict", "named-tuple"],
)
def test_batches_of_any_form_are_repeated_in_their_form(batch):
    seen = []
    measure_throughput([batch], seen.append, batches=2)
    assert {type(one) for one in seen} == {type(batch)}
    first = [one if torch.is_tensor(one) else one["x"] if isinstance(one, dict) else one[0] for one in seen]
    assert {len(one) for one in first} == {3, 24}


class Endless(IterableDataset):
    def __iter__(self):
        return iter(torch.zeros(2) for _ in range(10**9))


def test_a_loader_without_a_length_or_an_end():
    seen = []
    measure_throughput(DataLoader(Endless(), batch_size=4), seen.append, batches=5)
    assert len(seen) < 50


def test_bad_input_is_refused():
    loader = TensorLoader(torch.zeros(4, 1), batch_size=2)
    with pytest.raises(ValueError, match=r"batches is 1; .* 2 or more"):
        measure_throughput(loader, print, batches=1)
    with pytest.raises(TypeError, match="gone after one epoch"):
        measure_throughput(iter([torch.zeros(2)]), print)
    with pytest.raises(ValueError, match="the loader gives no batch"):
        measure_throughput([], print)
    with pytest.raises(ValueError, match="settings are empty"):
        compare_loaders(lambda: loader, [], print)


def test_a_table_of_settings_and_its_plot():
    clock = Clock()

    def make(num_workers, pin_memory=False):
        return Planted(clock.sleep, each=0.04 / (1 + num_workers))

    settings = [{"num_workers": 0}, {"num_workers": 3, "pin_memory": False}]
    table = compare_loaders(make, settings, planted_step(clock.sleep, example=0.005), clock=clock)
    assert [setting for setting, _ in table.rows] == settings
    assert [one.bottleneck for _, one in table.rows] == ["loader", "model"]
    assert table.best[0] == settings[1]
    assert [one.both for _, one in table.rows] == pytest.approx([1 / 0.06, 1 / 0.03])
    header, *lines = str(table).splitlines()
    assert "waiting" in header
    assert "num_workers=3, pin_memory=False" in lines[1]
    (ax,) = table.plot().axes
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([1 / 0.06, 1 / 0.03, 1 / 0.04, 1 / 0.01])
    assert "batches per second" in ax.get_xlabel()
    mpl.pyplot.close("all")
