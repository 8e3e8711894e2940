"""Number formats: the choice by hardware, what has which dtype, overflow, and FP32 as the oracle."""

from __future__ import annotations

import copy
import math
import statistics

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lecture_lib.data import TensorLoader, load_digits
from lecture_lib.training.checkpoint import save_atomically
from lecture_lib.training.clipping import clip_by_global_norm
from lecture_lib.training.precision import Precision, choose_precision

# ---------------------------------------------------------------- the choice


@pytest.mark.parametrize(
    ("device", "capability", "expected"),
    [
        ("cpu", None, "fp32"),
        ("mps", None, "fp32"),
        ("cuda", (7, 0), "fp16"),  # V100
        ("cuda", (7, 5), "fp16"),  # T4: torch.cuda.is_bf16_supported() says True, by emulation
        ("cuda", (8, 0), "bf16"),  # A100
        ("cuda:1", (8, 9), "bf16"),
        (torch.device("cuda"), (9, 0), "bf16"),
        ("cuda", (10, 0), "bf16"),
    ],
    ids=["cpu", "mps", "V100", "T4", "A100", "L4", "H100", "B200"],
)
def test_auto_takes_bf16_only_where_the_hardware_has_it(device, capability, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_: True)
    assert choose_precision("auto", device, capability=capability).name == expected


def test_the_capability_is_asked_from_the_device(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: asked.append(device) or (7, 5))
    assert choose_precision("auto", "cuda:1").name == "fp16"
    assert asked == ["cuda:1"]


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(("device", "capability"), [("cpu", None), ("cuda", (7, 5))], ids=["cpu", "T4"])
def test_a_name_is_taken_as_it_is(name, device, capability):
    assert choose_precision(name, device, capability=capability).name == name


@pytest.mark.parametrize("name", ["float32", "FP32", "", None, "mixed"], ids=repr)
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match=rf"precision is {name!r}; pass one of 'fp32', 'bf16', 'fp16', 'auto'"):
        choose_precision(name, "cpu")


@pytest.mark.parametrize("name", ["auto", "fp8"])
def test_a_precision_itself_is_never_auto(name):
    with pytest.raises(ValueError, match="choose_precision"):
        Precision(name, "cpu")


# ---------------------------------------------------------------- one step


def make_model(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def make_batch(count: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 6, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def step(model, optimizer, precision, x, y, max_norm=math.inf) -> tuple[bool, float, torch.dtype]:
    """One step of the recipe: whether it was taken, the norm before clipping, and the dtype of the outputs."""
    optimizer.zero_grad()
    with precision.autocast():
        outputs = model(x)
        loss = F.cross_entropy(outputs, y)
    precision.backward(loss)
    precision.unscale(optimizer)
    norm = clip_by_global_norm(model.parameters(), max_norm).item()
    return precision.step(optimizer), norm, outputs.dtype


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)],
    ids=["fp32", "bf16", "fp16"],
)
def test_only_the_computation_is_in_half_precision(name, dtype):
    model, (x, y) = make_model(), make_batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    precision = Precision(name, "cpu")
    before = copy.deepcopy(model.state_dict())
    taken, _, computed = step(model, optimizer, precision, x, y)
    assert taken is True
    assert computed == dtype
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert {parameter.grad.dtype for parameter in model.parameters()} == {torch.float32}
    moments = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    assert {value.dtype for value in moments} == {torch.float32}
    assert len(moments) == 12  # two moments and a step count for each of 4 parameters
    assert not any(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert (precision.scaler is None) == (name != "fp16")
    assert not torch.is_autocast_enabled("cpu")


def test_fp32_is_the_plain_step_bit_for_bit():
    x, y = make_batch()
    results = []
    for plain in (True, False):
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            if plain:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            else:
                step(model, optimizer, Precision("fp32", "cpu"), x, y)
        results.append(list(model.parameters()))
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize(("name", "tolerance"), [("fp32", 1e-6), ("fp16", 5e-3), ("bf16", 5e-2)], ids=str)
@pytest.mark.parametrize("share", [0.5, 2.0], ids=["clips", "leaves"])
def test_clipping_sees_unscaled_gradients(name, tolerance, share):
    """The oracle is FP32: a norm that is still scaled would be 65,536 times as large."""
    x, y = make_batch()
    oracle = make_model()
    F.cross_entropy(oracle(x), y).backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in oracle.parameters()]).double()
    max_norm = share * expected.norm().item()

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).double()
    _, norm, _ = step(model, optimizer, Precision(name, "cpu"), x, y, max_norm)
    update = before - torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).double()
    assert norm == pytest.approx(expected.norm().item(), rel=tolerance)
    torch.testing.assert_close(update, expected * min(1.0, share), rtol=0, atol=tolerance * max_norm)


# ---------------------------------------------------------------- overflow under FP16


def test_an_overflow_skips_the_step_and_halves_the_scale():
    model, (x, y) = make_model(), make_batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    precision = Precision("fp16", "cpu")
    precision.scaler.set_growth_interval(2)
    step(model, optimizer, precision, x, y)
    assert precision.scaler.get_scale() == 65536.0
    before = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())

    taken, norm, _ = step(model, optimizer, precision, x * 1e4, y)
    assert taken is False
    assert not math.isfinite(norm)
    assert precision.scaler.get_scale() == 32768.0
    torch.testing.assert_close((model.state_dict(), optimizer.state_dict()), before, rtol=0, atol=0)

    assert [step(model, optimizer, precision, x, y)[0] for _ in range(2)] == [True, True]
    assert precision.scaler.get_scale() == 65536.0  # grown again after two steps


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
def test_skipping_works_with_each_kind_of_optimizer(fused):
    model, (x, y) = make_model(), make_batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    precision = Precision("fp16", "cpu")
    before = copy.deepcopy(model.state_dict())
    assert step(model, optimizer, precision, x * 1e4, y)[0] is False
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert step(model, optimizer, precision, x, y)[0] is True


def test_small_gradients_survive_by_the_scale():
    """1e-9 is below FP16's smallest number, 6e-8."""
    gradients = {}
    for name in ("fp32", "fp16"):
        layer = nn.Linear(1, 1, bias=False)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.0)
        precision = Precision(name, "cpu")
        with precision.autocast():
            output = layer(torch.ones(1, 1))
        precision.backward((output.float() * 1e-9).sum())
        precision.unscale(optimizer)
        gradients[name] = layer.weight.grad.item()
    assert torch.tensor(1e-9, dtype=torch.float16) == 0
    assert gradients["fp32"] == pytest.approx(1e-9)
    assert gradients["fp16"] == pytest.approx(1e-9, rel=1e-3)


def test_gradients_that_no_scale_makes_finite_are_an_error():
    model, (x, y) = make_model(), make_batch()
    x[0, 0] = math.nan
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    precision = Precision("fp16", "cpu")
    before = copy.deepcopy(model.state_dict())
    # From 2**16 to 2**-24.
    assert [step(model, optimizer, precision, x, y)[0] for _ in range(40)] == [False] * 40
    with pytest.raises(FloatingPointError, match=r"loss scale has fallen to 2\.98023e-08, below 2\*\*-24"):
        step(model, optimizer, precision, x, y)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


# ---------------------------------------------------------------- resume


def test_a_stored_run_goes_on_with_its_scale(tmp_path):
    x, y = make_batch()

    def run(batches, precision, model, optimizer):
        return [step(model, optimizer, precision, x * scale, y)[0] for scale in batches]

    whole, stopped = [], []
    for results, resume in ((whole, False), (stopped, True)):
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        precision = Precision("fp16", "cpu")
        precision.scaler.set_growth_interval(3)
        results.append(run([1, 1e4, 1, 1], precision, model, optimizer))
        if resume:
            save_atomically(precision.state_dict(), tmp_path / "precision.pt")
            precision = Precision("fp16", "cpu")
            precision.load_state_dict(torch.load(tmp_path / "precision.pt", weights_only=True))
        results.append(run([1, 1e4, 1], precision, model, optimizer))
        results.append(precision.state_dict())
        results.append([parameter.tolist() for parameter in model.parameters()])
    assert whole == stopped
    assert whole[2]["scaler"]["scale"] == 32768.0


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_without_a_scaler_the_state_is_a_name(name):
    state = Precision(name, "cpu").state_dict()
    assert state == {"name": name, "scaler": None}
    Precision(name, "cpu").load_state_dict(state)
    with pytest.raises(ValueError, match=rf"trained in '{name}' and this run is in 'fp16'. Pass precision='{name}'"):
        Precision("fp16", "cpu").load_state_dict(state)


# ---------------------------------------------------------------- a whole training


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn() -> nn.Sequential:
    convolution = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(convolution, nn.Flatten(), nn.Linear(128, 10))


@pytest.fixture
def one_thread():
    """Threads that wait for each other on a busy machine make small layers many times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("build", [mlp, cnn], ids=["mlp", "cnn"])
def test_bf16_learns_the_digits_as_well_as_fp32(build):
    """The median over three seeds differs by at most half a point."""
    digits = load_digits()
    held_out = torch.arange(1797) % 4 == 0
    x, y = digits.images[~held_out], digits.labels[~held_out]
    accuracies = {"fp32": [], "bf16": []}
    for name, found in accuracies.items():
        for seed in range(3):
            torch.manual_seed(seed)
            model = build()
            optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
            precision = Precision(name, "cpu")
            generator = torch.Generator().manual_seed(seed)
            for _ in range(15):
                order = torch.randperm(len(x), generator=generator)
                for batch in TensorLoader(x[order], y[order], batch_size=64):
                    computed = step(model, optimizer, precision, *batch)[2]
            assert computed == (torch.bfloat16 if name == "bf16" else torch.float32)
            with torch.no_grad():
                right = model(digits.images[held_out]).argmax(1) == digits.labels[held_out]
            found.append(right.double().mean().item())
    medians = {name: statistics.median(found) for name, found in accuracies.items()}
    assert medians["fp32"] > 0.95
    assert abs(medians["bf16"] - medians["fp32"]) <= 0.005
