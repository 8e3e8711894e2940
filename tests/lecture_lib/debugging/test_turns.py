"""Several optimizers: whose loss is in the gradient that each of them steps on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from lecture_lib.debugging import find_faults, record
from lecture_lib.debugging.faults.wiring_rules import gradient_of_anothers_loss
from lecture_lib.debugging.program import Spec

STEPS = 8
Step = Callable[[nn.ModuleDict, dict[str, torch.optim.Optimizer], Tensor], None]


def two_heads(order: str) -> Step:
    """A trunk with two heads; each letter is a backward pass (1, 2) or a step (a, b of the heads, t of the trunk)."""

    def step(model: nn.ModuleDict, optimizers: dict[str, torch.optim.Optimizer], x: Tensor) -> None:
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        for letter in order:
            if letter in "12":
                (model[letter](model["trunk"](x)) - x[:, :1]).square().mean().backward()
            else:
                optimizers[letter].step()

    return step


def game(cleared: bool, weight: float = 1.0) -> Step:
    """A critic and a generator that take turns."""

    def step(model: nn.ModuleDict, optimizers: dict[str, torch.optim.Optimizer], x: Tensor) -> None:
        if cleared:
            optimizers["critic"].zero_grad()
        fake = model["generator"](torch.randn(len(x), 3)).detach()
        # In two passes, as many write it.
        torch.relu(1 - model["critic"](x)).mean().backward()
        torch.relu(1 + model["critic"](fake)).mean().backward()
        optimizers["critic"].step()
        optimizers["critic"].zero_grad()
        optimizers["generator"].zero_grad()
        fake = model["generator"](torch.randn(len(x), 3))
        ((fake - x).square().mean() - weight * model["critic"](fake).mean()).backward()
        optimizers["generator"].step()

    return step


def findings(step: Step, parts: dict[str, list[str]]) -> list[str]:
    torch.manual_seed(0)
    model = nn.ModuleDict(
        {"trunk": nn.Linear(3, 4), "1": nn.Linear(4, 1), "2": nn.Linear(4, 1), "critic": nn.Linear(3, 1)}
    )
    model["generator"] = nn.Linear(3, 3)
    optimizers = {
        name: torch.optim.Adam([p for part in of for p in model[part].parameters()]) for name, of in parts.items()
    }
    with record(nn.ModuleList(model.values()), *optimizers.values()) as recording:
        for _ in range(STEPS):
            step(model, optimizers, torch.randn(16, 3))
    finding = gradient_of_anothers_loss(recording, Spec())
    assert (finding is None) == all("another one had used" not in str(each) for each in find_faults(recording))
    return [] if finding is None else [finding.evidence]


GAME = {"generator": ["generator"], "critic": ["critic"]}


@pytest.mark.parametrize("weight", [1.0, 0.005])
def test_a_critic_that_keeps_the_gradient_of_the_generators_loss(weight: float) -> None:
    (text,) = findings(game(cleared=False, weight=weight), GAME)
    assert f"in {STEPS - 1} of {STEPS} steps of optimizer 2" in text


@pytest.mark.parametrize("weight", [1.0, 0.005])
def test_a_critic_whose_gradients_are_cleared(weight: float) -> None:
    assert findings(game(cleared=True, weight=weight), GAME) == []


@pytest.mark.parametrize(
    ("order", "parts"),
    [
        ("12ab", {"a": ["1"], "b": ["trunk", "2"]}),
        ("12abt", {"a": ["1"], "b": ["2"], "t": ["trunk"]}),
        ("1a2bt", {"a": ["1"], "b": ["2"], "t": ["trunk"]}),
        ("12tab", {"a": ["1"], "b": ["2"], "t": ["trunk"]}),
    ],
)
def test_losses_that_are_added_up_for_a_trunk(order: str, parts: dict[str, list[str]]) -> None:
    assert findings(two_heads(order), parts) == []
