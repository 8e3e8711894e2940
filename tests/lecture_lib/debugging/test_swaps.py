"""Replacing parts: the yardstick and the reference parts against independent ones, and what a swap says of programs."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from bank.programs import make
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Climb, Program, Spec, climb
from lecture_lib.debugging._engine import yardstick
from lecture_lib.debugging._engine.reference_parts import reference_model, reference_step, standard_loss
from lecture_lib.debugging._engine.split_trials import SplitTrials, _fades, clearest
from lecture_lib.debugging._engine.swap_results import VALIDATIONS
from lecture_lib.debugging.swaps import Swaps, swap_parts

pytestmark = pytest.mark.slow


def saying(outputs: Tensor) -> Program:
    """A program whose model gives these outputs for the examples 0, 1, 2, ..."""

    class Said(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return outputs[x[:, 0].long()]

    return Program(Said(), torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.1), F.mse_loss)


def error(outputs: Tensor, y: Tensor, spec: Spec | None = None) -> float:
    numbers = torch.arange(len(y), dtype=torch.float32)[:, None]
    return yardstick.error(saying(outputs), list(zip(numbers.split(30), y.split(30), strict=True)), spec or Spec())


class TestYardstick:
    def test_classes_against_scikit_learn(self) -> None:
        generator = torch.Generator().manual_seed(0)
        y = torch.randint(4, (300,), generator=generator)
        scores = torch.randn(300, 4, generator=generator) + 2 * F.one_hot(y, 4)
        right = balanced_accuracy_score(y, scores.argmax(dim=1), adjusted=True)
        assert error(scores, y) == pytest.approx(1 - right)

    def test_numbers_against_scikit_learn(self) -> None:
        generator = torch.Generator().manual_seed(0)
        y = torch.randn(200, 3, generator=generator) * torch.tensor([1.0, 50.0, 0.1])
        said = y + torch.randn(200, 3, generator=generator) * torch.tensor([0.5, 3.0, 0.01])
        assert error(said, y) == pytest.approx(1 - r2_score(y, said, multioutput="uniform_average"), rel=1e-4)

    @pytest.mark.parametrize("shape", [(200,), (200, 1), (200, 3)])
    def test_labels_that_are_there_or_not_against_scikit_learn(self, shape: tuple[int, ...]) -> None:
        generator = torch.Generator().manual_seed(0)
        y = (torch.rand(shape, generator=generator) < 0.2).float()
        scores = (torch.randn(shape, generator=generator) + y).mul(4).round().div(4)  # with ties
        area = roc_auc_score(y.numpy(), scores.numpy())
        assert error(scores, y, Spec(task="multi-label")) == pytest.approx(2 * (1 - area))

    def test_positions_that_are_left_out_do_not_count(self) -> None:
        y = torch.tensor([[0, 1, 1, 2], [0, -100, -100, 1]])
        scores = F.one_hot(torch.tensor([[0, 1, 1, 0], [0, 2, 2, 1]]), 3).float()
        assert error(scores, y, Spec(task="sequence")) == pytest.approx((1 / 6) / (1 - 3 / 6))
        assert error(scores.transpose(1, 2), y, Spec(task="sequence")) == pytest.approx((1 / 6) / (1 - 3 / 6))

    def test_what_is_not_finite_is_worst(self) -> None:
        assert error(torch.full((10, 2), torch.nan), torch.tensor([0, 1] * 5)) == yardstick.WORST


def weights_after(step: Callable[[nn.Module, Any, list[Any]], None], optimizer: type[Any], **settings: Any) -> Tensor:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    batches = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(6)]
    step(model, optimizer(model.parameters(), **settings), batches)
    return torch.cat([one.detach().flatten() for one in model.parameters()])


class TestReferenceParts:
    def test_the_step_is_the_loop_that_is_declared(self) -> None:
        def by_hand(model: nn.Module, optimizer: Any, batches: list[Any]) -> None:
            for window in (batches[0:2], batches[2:4], batches[4:6]):
                optimizer.zero_grad()
                x, y = (torch.cat([batch[i] for batch in window]) for i in (0, 1))
                F.mse_loss(model(x), y).backward()
                next(model.parameters()).grad = None
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()

        def by_reference(model: nn.Module, optimizer: Any, batches: list[Any]) -> None:
            spec = Spec(accumulate=2, max_norm=0.1, frozen=("0.weight",))
            program = Program(model, optimizer, F.mse_loss, batches)
            step = reference_step(spec, F.mse_loss)
            for batch in batches:
                step(program, batch)

        settings = {"lr": 0.5, "momentum": 0.9}
        expected, found = (weights_after(one, torch.optim.SGD, **settings) for one in (by_hand, by_reference))
        torch.testing.assert_close(found, expected)

    def test_the_step_of_an_optimizer_that_asks_for_the_loss_again(self) -> None:
        def by_hand(model: nn.Module, optimizer: Any, batches: list[Any]) -> None:
            for x, y in batches:

                def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                    optimizer.zero_grad()
                    loss = F.mse_loss(model(x), y)
                    loss.backward()
                    return loss

                optimizer.step(closure)

        def by_reference(model: nn.Module, optimizer: Any, batches: list[Any]) -> None:
            step = reference_step(Spec(), F.mse_loss)
            for batch in batches:
                step(Program(model, optimizer, F.mse_loss, batches), batch)

        expected, found = (weights_after(one, torch.optim.LBFGS, lr=0.5) for one in (by_hand, by_reference))
        torch.testing.assert_close(found, expected)

    def test_the_standard_loss_finds_the_axis_of_the_classes(self) -> None:
        scores, y = torch.randn(4, 7, 3), torch.randint(3, (4, 7))
        expected = F.cross_entropy(scores.reshape(-1, 3), y.flatten())
        for given in (scores, scores.transpose(1, 2)):
            torch.testing.assert_close(standard_loss(given, y, Spec(task="sequence")), expected)

    @pytest.mark.parametrize(
        ("x", "outputs"),
        [
            (torch.randn(8, 5), (8, 3)),
            (torch.randn(8, 5), (8,)),
            (torch.randn(8, 2, 9, 9), (8, 4)),
            (torch.randint(9, (8, 6)), (8, 4)),
            (torch.randint(9, (8, 6)), (8, 6, 4)),
            (torch.randint(9, (8, 6)), (8, 4, 6)),
        ],
    )
    def test_the_model_fits_inputs_and_outputs(self, x: Tensor, outputs: tuple[int, ...]) -> None:
        assert reference_model(x, torch.zeros(outputs), causal=True)(x).shape == outputs


def two_rooms(seed: int, **parts: Any) -> tuple[Program, Spec]:
    """A small net on two standardised columns, which are told apart by their product's sign."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(900, 2, generator=generator)
    y = (x.prod(dim=1) > 0).long()
    train, val = TensorDataset(x[:600], y[:600]), TensorDataset(x[600:], y[600:])
    model = parts.get("model", lambda: nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)))()
    program = Program(
        model,
        parts.get("optimizer", lambda model: torch.optim.Adam(model.parameters(), lr=0.01))(model),
        parts.get("loss_fn", F.cross_entropy),
        DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        DataLoader(val, 100),
        step=parts.get("step"),
    )
    return program, Spec(task="classification", classes=2, epochs=12)


class Halved(nn.Module):
    """Its first layer gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).relu().detach())


def without_the_last_classes(outputs: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(outputs, torch.zeros_like(y))


def uphill(program: Program, batch: Any) -> None:
    program.optimizers[0].zero_grad()
    (-F.cross_entropy(program.model(batch[0]), batch[1])).clamp(min=-3).backward()
    program.optimizers[0].step()


def slow_second_moment(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01, eps=10.0)


PLANTED: dict[str, tuple[str, dict[str, Any]]] = {
    "a detached layer": ("model", {"model": Halved}),
    "one label for all in the loss": ("loss", {"loss_fn": without_the_last_classes}),
    "uphill": ("step", {"step": uphill}),
    "an eps of 10": ("optimizer", {"optimizer": slow_second_moment}),
}


class TestSwaps:
    @pytest.mark.parametrize(("part", "parts"), PLANTED.values(), ids=PLANTED)
    def test_a_planted_fault_lies_in_the_part_that_helps(self, part: str, parts: dict[str, Any]) -> None:
        found = swap_parts(make=lambda seed: two_rooms(seed, **parts))
        assert found.explained is not None, found
        assert found.explained.part == part, found
        assert len(found.explained.gains) == 3
        assert min(found.explained.gains) > 0.04

    def test_nothing_explains_a_sound_program(self) -> None:
        found = swap_parts(make=two_rooms)
        assert found.explained is None, found
        assert found.errors[0] < 0.15

    def test_a_program_without_a_factory_is_put_back_bit_for_bit(self) -> None:
        program, spec = make("regression", 0)
        before = copy.deepcopy(program.model.state_dict()), copy.deepcopy(program.optimizers[0].state_dict())
        swap_parts(program, spec, budget=5)
        after = program.model.state_dict(), program.optimizers[0].state_dict()
        assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
        assert before[1] == after[1]
        assert program.step is None
        assert not program.model._forward_hooks
        assert not program.model._forward_pre_hooks

    def test_what_the_budget_leaves_out_is_listed(self) -> None:
        program, spec = make("regression", 0)
        found = swap_parts(program, spec, budget=0.0)
        assert not found.trials
        assert found.unaffordable
        assert "the budget is used up" in str(found)

    def test_a_loop_that_keeps_its_own_loss_is_asked_with_the_plain_step(self) -> None:
        def step(program: Program, batch: Any) -> None:
            program.optimizers[0].zero_grad()
            without_the_last_classes(program.model(batch[0]), batch[1]).backward()
            program.optimizers[0].step()

        found = swap_parts(make=lambda seed: two_rooms(seed, step=step, loss_fn=lambda a, b: F.cross_entropy(a, b)))
        assert found.explained is not None
        assert found.explained.part == "step", found

    def test_without_validation_targets_the_reason_is_said(self) -> None:
        program, spec = make("digits", 0)
        program.val_loader = None
        climbed = climb(program, spec, budget=5)
        assert climbed.swaps is None
        assert any("there are no validation examples" in text for one in climbed.results for text in one.unchecked)

    def test_climb_tells_the_part_where_no_rule_knows_a_name(self) -> None:
        blind = {"loss_fn": without_the_last_classes}
        found: Climb = climb(*two_rooms(0, **blind))
        assert [(one.fault, one.part, one.kind, one.certain) for one in found.findings] == [
            (None, "loss", "swap", False)
        ]
        assert "something is wrong with the loss (rung 3, loss)" in str(found)
        assert isinstance(found.swaps, Swaps)
        assert climb(*two_rooms(0, **blind), budget=0).swaps is None

    def test_a_setting_that_helps_when_it_is_replaced_names_the_fault(self) -> None:
        found = climb(*two_rooms(0, optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=9e-6)))
        assert [(one.fault, one.part) for one in found.findings] == [("H02", "optimizer")], found.swaps


def squared(outputs: Tensor, y: Tensor) -> float:
    return float(F.mse_loss(outputs, y))


def swapped_arguments(outputs: Tensor, y: Tensor) -> float:
    return float(r2_score(outputs.numpy(), y.numpy()))


def of_the_wrong_axis(outputs: Tensor, y: Tensor) -> float:
    return float((outputs.argmin(dim=1) == y).float().mean())


class TestMetrics:
    @pytest.mark.parametrize(("base", "metric"), [("regression", squared), ("digits", of_the_wrong_axis)])
    def test_a_metric_that_prefers_worse_answers_is_certain(self, base: str, metric: Callable[..., float]) -> None:
        program, spec = make(base, 0)
        program.metric = metric
        found = climb(program, spec, budget=0, go_on=True)
        assert ("metric", "violation") in {(one.part, one.kind) for one in found.findings}, found

    def test_an_evaluation_that_prefers_worse_answers_is_certain(self) -> None:
        def evaluate(program: Program) -> dict[str, float]:
            wrong, count = 0.0, 0
            program.model.eval()
            with torch.no_grad():
                for x, y in program.val_loader or ():
                    wrong += float((program.model(x).argmax(dim=1) != y).sum())
                    count += len(y)
            return {"accuracy": wrong / count}

        program, spec = make("digits", 0)
        program.evaluate, program.metric = evaluate, None
        found = climb(program, spec, budget=0, go_on=True)
        assert ("metric", "violation") in {(one.part, one.kind) for one in found.findings}, found

    def test_usual_metrics_are_not_accused(self) -> None:
        def macro(outputs: Tensor, y: Tensor) -> float:
            return float(balanced_accuracy_score(y.numpy(), outputs.argmax(dim=1).numpy()))

        program, spec = make("digits", 0)
        program.metric = macro
        assert climb(program, spec, budget=0).findings == []
        program, spec = make("regression", 0)
        program.metric = lambda outputs, y: -float(np.sqrt(squared(outputs, y)))
        assert climb(program, spec, budget=0).findings == []

    @pytest.mark.parametrize("counted", [True, False])
    def test_a_metric_that_counts_padding_is_certain(self, counted: bool) -> None:
        def accuracy(outputs: Tensor, y: Tensor) -> float:
            right = outputs.argmax(dim=1).masked_fill(y == -100, -100) == y
            return float((right if counted else right[y != -100]).float().mean())

        program, spec = make("sequence", 0)
        program.metric = accuracy
        found = climb(program, spec, budget=0, go_on=True)
        assert [one.part for one in found.findings] == (["metric"] if counted else []), found


@pytest.mark.parametrize(
    ("told_in_val", "faded"), [((0.9, 0.5, 0.5), False), ((0.1, 0.5, 0.5), True), ((0.1, 0.05, 0.05), False)]
)
def test_a_column_that_says_less_in_validation_is_told_from_worse_labels(
    told_in_val: tuple[float, ...], faded: bool
) -> None:
    def table(told: tuple[float, ...], seed: int) -> tuple[Tensor, list[Tensor]]:
        generator = torch.Generator().manual_seed(seed)
        y, noise = torch.randn(2000, generator=generator), torch.randn(2000, 3, generator=generator)
        share = torch.tensor(told)
        return (share * y[:, None] + (1 - share**2).sqrt() * noise).double(), [y]

    (x_train, y_train), (x_val, y_val) = table((0.9, 0.5, 0.5), 0), table(told_in_val, 1)
    assert _fades([x_train, x_val], [y_train, y_val]) == faded


def persons(seed: int, of_people: bool) -> tuple[Program, Spec]:
    """Answers that belong to a person, whose eight examples lie side by side; nobody of validation is in training.

    Without people the inputs tell the answers, and training has them the wrong way round.
    """
    generator = torch.Generator().manual_seed(seed)
    count = 200 if of_people else 1600
    who = torch.randn(count, 6, generator=generator).repeat_interleave(1600 // count, dim=0)
    x = who + 0.1 * torch.randn(1600, 6, generator=generator)
    y = (who[:, 0] > 0).long()
    if of_people:
        y = torch.randint(2, (count,), generator=generator).repeat_interleave(1600 // count)
    else:
        y[:800] = 1 - y[:800]
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    shuffled = DataLoader(TensorDataset(x[:800], y[:800]), 32, shuffle=True, generator=generator)
    val_loader = DataLoader(TensorDataset(x[800:], y[800:]), 200)
    return Program(model, optimizer, F.cross_entropy, shuffled, val_loader), Spec(task="classification", epochs=10)


@pytest.mark.parametrize("of_people", [True, False], ids=["neighbours", "labels the wrong way round"])
def test_that_validation_teaches_itself_counts_only_without_neighbours(of_people: bool) -> None:
    program, spec = persons(0, of_people)
    trials = SplitTrials(program, spec, lambda seed: persons(seed, of_people), 0, time.process_time() + 60)
    found = trials.data()
    told = [trial.description for trial in found if clearest([trial])]
    refused = [reason for reason in trials.failed if "neighbours" in reason]
    assert (VALIDATIONS in told, bool(refused)) == (not of_people, of_people)
