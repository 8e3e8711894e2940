"""03c: the references on optimizers, groups and schedules against PyTorch; acceptable recipes against their limits."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import MultiStepLR, ReduceLROnPlateau

from autograders.probes.codec import decode, encode
from autograders.questions.descriptions import choose, groups, optimizers, plan
from autograders.questions.question import QUESTIONS
from lecture_lib.notebook.observe import observe
from lecture_lib.notebook.questions.choose import quality
from lecture_lib.notebook.questions.groups import QUESTION as GROUPS
from lecture_lib.training import one_cycle, schedule_rates, step_decay, warmup_cosine


def torch_path(inputs, make, **settings):
    """The parameter after each step of an optimizer of PyTorch, with the rates of a case."""
    parameter = nn.Parameter(torch.tensor(inputs["parameter"]))
    optimizer = make([parameter], lr=1.0, **settings)
    path = []
    for gradient, rate in zip(inputs["gradients"], inputs["rates"], strict=True):
        optimizer.param_groups[0]["lr"] = rate
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        path.append(parameter.detach().numpy().copy())
    return path


def expected_paths(inputs):
    decay = {"weight_decay": inputs["weight_decay"]}
    adam = {"betas": tuple(map(float, inputs["betas"])), "eps": inputs["eps"], **decay}
    momentum, optim = inputs["momentum"], torch.optim
    # PyTorch refuses Nesterov's step without momentum; it is plain SGD.
    nesterov = {"momentum": momentum, "nesterov": momentum > 0, **decay}
    return {
        optimizers.SGD: torch_path(inputs, optim.SGD, momentum=momentum, dampening=inputs["dampening"], **decay),
        optimizers.NESTEROV: torch_path(inputs, optim.SGD, **nesterov),
        optimizers.RMSPROP: torch_path(inputs, optim.RMSprop, alpha=inputs["alpha"], eps=inputs["eps"]),
        optimizers.ADAM: torch_path(inputs, optim.Adam, **adam),
        optimizers.ADAMW: torch_path(inputs, optim.AdamW, **adam),
    }


@pytest.mark.parametrize("seed", range(3))
def test_optimizers_agree_with_pytorch(seed):
    rng = np.random.default_rng(seed)
    cases = [*optimizers.draw(rng), *(optimizers.domain(rng) for _ in range(20)), *optimizers.QUESTION.visible_cases]
    for case in cases:
        reference = optimizers.paths(case)
        for name, expected in expected_paths(case.inputs).items():
            for got, wanted in zip(reference[name], expected, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", ["03c-optimizers", "03d-gradients"])
def test_a_tensor_without_axes_has_the_dtype_of_the_others(name):
    """On its way to a kernel such a number became a float, and then float32, which `lerp` refuses beside float64."""
    question, dtypes, axes = QUESTIONS[name], set(), set()

    def note(*arguments, **_):
        for argument in arguments:
            entries = argument if isinstance(argument, list) else [argument]
            tensors = [entry for entry in entries if isinstance(entry, torch.Tensor)]
            dtypes.update(entry.dtype for entry in tensors)
            axes.update(entry.ndim for entry in tensors)
        raise NotImplementedError

    rng = np.random.default_rng(0)
    for _ in range(40):
        inputs = decode(json.loads(json.dumps(encode(dict(question.description.domain(rng).inputs)))))
        observe(question.public, dict.fromkeys(question.public.functions, note), inputs)
    assert dtypes == {torch.float64}
    assert 0 in axes


@pytest.mark.parametrize("seed", range(3))
def test_rates_agree_with_pytorch(seed):
    rng = np.random.default_rng(seed)
    for case in [*plan.draw(rng), *(plan.domain(rng) for _ in range(20))]:
        inputs, reference = case.inputs, plan.rates(case)
        each, total = plan.steps_of(inputs)
        milestones = [milestone * each for milestone in inputs["milestones"]]
        multi_step = schedule_rates(
            lambda optimizer, _, milestones=milestones, factor=inputs["factor"]: MultiStepLR(
                optimizer, milestones, factor
            ),
            total,
            inputs["rate"],
        )
        cosine = schedule_rates(
            warmup_cosine(inputs["warmup"], inputs["final"] / inputs["rate"]), total, inputs["rate"]
        )
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=inputs["rate"])
        scheduler = ReduceLROnPlateau(
            optimizer, factor=inputs["factor"], patience=inputs["patience"], threshold=0.0, eps=0.0
        )
        plateau = []
        for loss in inputs["losses"]:
            plateau.append(optimizer.param_groups[0]["lr"])
            scheduler.step(loss)
        np.testing.assert_allclose(reference[plan.MULTI_STEP], multi_step)
        np.testing.assert_allclose(reference[plan.WARMUP], cosine)
        np.testing.assert_allclose(reference[plan.PLATEAU], plateau)


def by_owner(model, body_rate, head_rate, weight_decay):
    found, seen = [], set()
    for part, rate in ((model.body, body_rate), (model.head, head_rate)):
        for module in part.modules():
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.requires_grad and id(parameter) not in seen:
                    seen.add(id(parameter))
                    matrix = name == "weight" and isinstance(module, nn.Linear | nn.Conv1d | nn.Embedding)
                    decay = weight_decay if matrix else 0.0
                    found.append({"params": [parameter], "lr": rate, "weight_decay": decay})
    return found


@pytest.mark.parametrize("seed", range(3))
def test_groups_agree_with_the_modules_themselves(seed):
    """The reference knows only the list of layers; the observation walks the model that was built from it."""
    rng = np.random.default_rng(seed)
    for case in [*groups.draw(rng), *(groups.domain(rng) for _ in range(20)), *groups.QUESTION.visible_cases]:
        observed = GROUPS.parts["groups"]({"make_groups": by_owner}, case.inputs)
        for path, expected in groups.fields(case).items():
            np.testing.assert_allclose(observed[path.split(".")[1]], expected, err_msg=path)


LOSSES = {
    "mse": lambda outputs, y: F.mse_loss(outputs[:, 0], y),
    "huber": lambda outputs, y: F.huber_loss(outputs[:, 0], y),
    "bce_with_logits": lambda outputs, y: F.binary_cross_entropy_with_logits(outputs[:, 0], y.float()),
    "cross_entropy": F.cross_entropy,
}


def quality_of(case, loss, optimizer_name, schedule_name, seed):
    task, targets = case.inputs["task"], torch.tensor(case.inputs["y"])
    x, held_out = (torch.tensor(case.inputs[name] / 100, dtype=torch.float32) for name in ("x", "held_out"))
    numbers = task["target"] == choose.NUMBER
    shift, scale = (targets.mean(), targets.std()) if numbers else (0.0, 1.0)
    y = ((targets - shift) / scale).float() if numbers else targets.long()
    torch.manual_seed(seed)
    wide = int(y.max()) + 1 if loss == "cross_entropy" else 1
    network = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, wide))
    rate = 0.01 if optimizer_name == "adamw" else 0.05
    optimizer = (
        torch.optim.AdamW(network.parameters(), rate)
        if optimizer_name == "adamw"
        else torch.optim.SGD(network.parameters(), rate, momentum=0.9)
    )
    schedules = {"cosine": warmup_cosine(0), "warmup_cosine": warmup_cosine(0.1), "step": step_decay(0.4)}
    scheduler = {**schedules, "one_cycle": one_cycle(rate)}[schedule_name](optimizer, 100)
    for _ in range(100):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        LOSSES[loss](network(x[rows]), y[rows]).backward()
        optimizer.step()
        scheduler.step()
    with torch.no_grad():
        outputs = network(held_out) * scale + shift if numbers else network(held_out)
    return quality(outputs.numpy(), task["target"], case.key["labels"])


@pytest.mark.parametrize("name", choose.TASKS)
def test_every_acceptable_recipe_exceeds_its_limit_with_a_margin(name):
    """And a constant answer is below it with a margin, too."""
    case = choose.data_case(np.random.default_rng(0), name)
    sets = choose.acceptable(case.inputs["task"])
    limit = choose.LIMITS[name]
    for loss, optimizer, schedule in product(sets["loss"], sets["optimizer"], sets["schedule"]):
        assert quality_of(case, loss, optimizer, schedule, seed=0) > limit + 0.05, (loss, optimizer, schedule)
    labels = case.key["labels"]
    constant = 0.0 if name == "diabetes" else np.bincount(labels).max() / len(labels)
    assert constant < limit - 0.1
