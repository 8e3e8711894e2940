"""The bug zoo: programs that are what they are called, and visible cases that the judges' references confirm."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autograders.questions.descriptions import fix, rate
from lecture_lib.data import load_digits
from lecture_lib.notebook.questions.overfit_programs import floor_of_smoothing
from lecture_lib.notebook.questions.zoo import CHECKLIST, gap_after, small_run
from lecture_lib.training import suggest_learning_rates


@pytest.mark.parametrize(("smoothing", "classes"), [(0.1, 10), (0.3, 4), (0.0, 5)])
def test_the_floor_is_the_lowest_loss_that_pytorch_reaches(smoothing: float, classes: int) -> None:
    """Against a numerical minimum, and the lecture's 0.5003."""
    logit = torch.linspace(0, 20, 20_001, dtype=torch.float64)
    logits = torch.zeros(len(logit), classes, dtype=torch.float64)
    logits[:, 0] = logit
    target = torch.zeros(len(logit), dtype=torch.long)
    losses = torch.nn.functional.cross_entropy(logits, target, label_smoothing=smoothing, reduction="none")
    assert floor_of_smoothing(smoothing, classes) == pytest.approx(losses.min().item(), abs=1e-6)
    if (smoothing, classes) == (0.1, 10):
        assert round(floor_of_smoothing(smoothing, classes), 4) == 0.5003


@pytest.mark.parametrize("name", CHECKLIST)
def test_only_the_healthy_program_and_plain_labels_never_cleared_reach_their_floor(name: str) -> None:
    reached = all(abs(gap_after(100, seed=seed, **CHECKLIST[name])) <= 0.15 for seed in range(3, 6))
    assert reached == (name in {"healthy", "never cleared"})


def test_a_small_run_leaves_the_random_stream_alone_and_knows_permuted_labels() -> None:
    digits, state = load_digits(), torch.get_rng_state()
    loss, constant = small_run(digits.images, digits.labels, 0)
    permuted_loss, permuted_constant = small_run(digits.images, digits.labels, 0, permuted=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert loss < constant < permuted_loss
    assert constant == pytest.approx(permuted_constant)


def test_the_reference_of_repaired_training_is_what_pytorch_does() -> None:
    data = fix.draw(np.random.default_rng(0))[0].inputs["schedule"]
    model = torch.nn.Linear(4, 3, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(data["weight"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=data["rate"])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    for _ in range(data["epochs"]):
        for x, y in zip(data["x"], data["y"], strict=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(torch.tensor(x)), torch.tensor(y)).backward()
            optimizer.step()
        scheduler.step()
    assert fix.train(data, halved="after")["weight"] == pytest.approx(model.weight.detach().numpy(), abs=1e-12)


def test_the_library_s_rules_choose_in_the_good_range_of_hidden_curves(repetitions) -> None:
    """A range that a sound rule leaves would fail right answers: two of the rules, on clean curves."""
    for seed in range(repetitions(30, 300)):
        for case in rate.draw(np.random.default_rng(seed)):
            finite = np.isfinite(case.inputs["losses"])
            rates, losses = (case.inputs[name][finite].tolist() for name in ("rates", "losses"))
            found = suggest_learning_rates(rates, losses)[0] if rates else {}
            if case.key["good"] is None:
                assert not found
                continue
            smallest, largest = case.key["good"]
            assert smallest <= found["valley_floor"] <= largest
            if case.kind != "noisy":
                assert smallest <= found["minimum_over_10"] <= largest
                assert smallest <= found["steepest"] <= largest
