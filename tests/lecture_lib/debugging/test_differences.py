"""What differs from the reference before training, and what it is good for: order, names, the part of a symptom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Finding, Program, Spec, find_faults, record
from lecture_lib.debugging._engine.assumptions import NotAskedError
from lecture_lib.debugging._engine.batches import alike
from lecture_lib.debugging._engine.changes import all_of, initialised_anew
from lecture_lib.debugging._engine.difference import Difference
from lecture_lib.debugging._engine.differences import differences
from lecture_lib.debugging._engine.replace_data import _standard, _statistics
from lecture_lib.debugging._engine.replace_layers import without_dropout
from lecture_lib.debugging._engine.replace_training import has_hooks, plain_loop, without_hooks
from lecture_lib.debugging._engine.runs import Runs
from lecture_lib.debugging._engine.split_trials import shifted
from lecture_lib.debugging._engine.swap_results import VALIDATIONS, Swaps, Trial
from lecture_lib.debugging.recording_symptoms import constant_loss
from lecture_lib.debugging.swaps import _Attempt, _Comparison, swap_parts
from lecture_lib.debugging.symptoms import located, too_short

Step = Callable[[Program, Any], None]


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))


def program_of(
    step: Step | None = None,
    model: Callable[[], nn.Module] = net,
    loss_fn: Any = F.cross_entropy,
    scale: float = 1.0,
    rate: float = 0.01,
    spec: Spec | None = None,
    classes: int = 3,
    schedule: Any = None,
) -> tuple[Program, Spec]:
    """A classifier of three classes on four columns."""
    torch.manual_seed(0)
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    y = x[:, :3].argmax(dim=1).clamp(max=classes - 1)
    network = model()
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    train, val = TensorDataset(scale * x[:200], y[:200]), TensorDataset(scale * x[200:], x[200:, :3].argmax(dim=1))
    program = Program(
        network,
        optimizer,
        loss_fn,
        DataLoader(train, 20, shuffle=True, generator=torch.Generator().manual_seed(0)),
        DataLoader(val, 100),
        step=step,
        scheduler=schedule(optimizer) if schedule else None,
    )
    return program, spec or Spec(task="classification", classes=3, epochs=4)


def found_in(program: Program, spec: Spec) -> list[Difference]:
    runs = Runs(program, spec, None, 0, 1e9)
    found, refused = differences(runs, runs.watch())
    assert refused == []
    return found


def usual(program: Program, batch: Any) -> None:
    program.optimizers[0].zero_grad()
    program.loss_fn(program.model(batch[0]), batch[1]).backward()  # type: ignore[misc]
    program.optimizers[0].step()


def never_cleared(program: Program, batch: Any) -> None:
    program.loss_fn(program.model(batch[0]), batch[1]).backward()  # type: ignore[misc]
    program.optimizers[0].step()


def of_another_loss(program: Program, batch: Any) -> None:
    program.optimizers[0].zero_grad()
    F.multi_margin_loss(program.model(batch[0]), batch[1]).backward()
    program.optimizers[0].step()


def cleared_too_early(program: Program, batch: Any) -> None:
    program.loss_fn(program.model(batch[0]), batch[1]).backward()  # type: ignore[misc]
    program.optimizers[0].zero_grad()
    program.optimizers[0].step()


def weights_times(factor: float) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        model = net()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(factor)
        return model

    return make


def doubled(outputs: Tensor, y: Tensor) -> Tensor:
    return 2 * F.cross_entropy(outputs, y)


def of_numbers(outputs: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs, F.one_hot(y, 3).float())


DECLARED = Spec(task="classification", classes=3, epochs=4, max_norm=0.1)
CASES: dict[str, tuple[dict[str, Any], list[tuple[str, str | None]]]] = {
    "sound": ({}, []),
    "a sound step of its own, with dropout": ({"step": usual}, []),
    "gradients never cleared": ({"step": never_cleared}, [("step", None)]),
    "another loss in the step": ({"step": of_another_loss}, [("step", None)]),
    "no gradient at the step": ({"step": cleared_too_early}, [("step", None)]),
    "declared clipping left out": ({"step": usual, "spec": DECLARED}, [("step", None)]),
    "twice the loss": ({"loss_fn": doubled}, [("loss", None)]),
    "a usual loss, and not of this task": ({"loss_fn": of_numbers}, [("loss", None)]),
    "the standard loss by another name": ({"loss_fn": lambda outputs, y: F.cross_entropy(outputs, y)}, []),
    "a schedule that ends early": (
        {"schedule": lambda one: torch.optim.lr_scheduler.ExponentialLR(one, 0.001)},
        [("schedule", None)],
    ),
    "a class that training has not": ({"classes": 2}, [("labels", None)]),
    "large weights": ({"model": weights_times(5)}, [("initialisation", "A02")]),
    "small weights": ({"model": weights_times(0.05)}, [("initialisation", "A03")]),
    "inputs in their units": ({"scale": 1000.0}, [("inputs", "D01")]),
    "a rate of 1 for Adam": ({"rate": 1.0}, [("optimizer", "H01")]),
}


@pytest.mark.parametrize(("parts", "expected"), CASES.values(), ids=CASES)
def test_what_differs_before_training(parts: dict[str, Any], expected: list[tuple[str, str | None]]) -> None:
    found = [(one.part, one.fault) for one in found_in(*program_of(**parts))]
    assert [one for one in found if one[1] != "A08"] == expected  # large inputs make the first gradient large, too


def test_the_program_is_put_back_bit_for_bit() -> None:
    program, spec = program_of(never_cleared)
    before = {name: value.clone() for name, value in program.model.state_dict().items()}
    found_in(program, spec)
    assert all(torch.equal(before[name], value) for name, value in program.model.state_dict().items())
    assert all(parameter.grad is None for parameter in program.model.parameters())
    assert isinstance(program.train_loader, DataLoader)


def test_what_outputs_mean_is_not_guessed_where_the_loss_relates_samples_and_no_task_is_declared() -> None:
    with pytest.raises(NotAskedError, match="what the outputs mean is not known"):
        swap_parts(*program_of(spec=Spec(epochs=2, couples_samples=True)), budget=1)


class TestReplacements:
    def test_the_plain_step_lets_no_hook_of_the_author_in_between(self) -> None:
        def nothing_left(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad.zero_()

        program, spec = program_of()
        program.optimizers[0].register_step_pre_hook(nothing_left)
        next(program.model.parameters()).register_hook(lambda gradient: 0 * gradient)
        assert has_hooks(program)
        before = next(program.model.parameters()).detach().clone()
        program.run_epoch()
        assert torch.equal(before, next(program.model.parameters()))
        with plain_loop(spec)(program):
            program.run_epoch()
        assert not torch.equal(before, next(program.model.parameters()))
        assert has_hooks(program)
        with without_hooks(program):
            assert not has_hooks(program)

    def test_columns_in_their_units_are_standardised_each_by_itself(self) -> None:
        x = torch.randn(500, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1e5, 1.0, 0.0])
        found = _standard(x, *_statistics(x))
        torch.testing.assert_close(found[:, :2].std(dim=0), torch.ones(2), rtol=0.01, atol=0)
        assert float(found[:, 2].abs().max()) == 0
        assert float(_standard(torch.full((1, 3), 1e9), *_statistics(x)).max()) == 10

    def test_dropout_that_evaluation_does_not_switch_off_lies_in_the_evaluation(self) -> None:
        class Always(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.last = nn.Linear(4, 64), nn.Linear(64, 3)

            def forward(self, x: Tensor) -> Tensor:
                return self.last(F.dropout(self.first(x).relu(), 0.8))

        spec = Spec(task="classification", classes=3, epochs=20)
        found = swap_parts(make=lambda seed: program_of(model=Always, spec=spec), budget=30)
        assert found.explained is not None, found
        assert (found.explained.part, found.explained.fault) == ("metric", "G24"), found

    def test_targets_far_from_1_are_learnt_when_they_are_standardised(self) -> None:
        def far(seed: int) -> tuple[Program, Spec]:
            torch.manual_seed(seed)
            x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
            y = 1000 + 100 * x.sum(dim=1, keepdim=True)
            model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
            train, val = TensorDataset(x[:200], y[:200]), TensorDataset(x[200:], y[200:])
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            program = Program(model, optimizer, nn.MSELoss(), DataLoader(train, 20, shuffle=True), DataLoader(val, 100))
            return program, Spec(task="regression", epochs=10)

        found = swap_parts(make=far, budget=30)
        assert found.explained is not None, found
        assert (found.explained.part, found.explained.fault) == ("labels", "D36"), found

    def test_several_changes_at_once_are_all_taken_back(self) -> None:
        program, _ = program_of()
        x = torch.ones(50, 4)
        before = program.model[0].weight.detach().clone()
        with all_of(without_dropout, initialised_anew)(program):
            assert torch.equal(program.model(x), program.model(x))
            assert not torch.equal(before, program.model[0].weight)
        assert not torch.equal(program.model(x), program.model(x))

    def test_the_authors_evaluation_runs_after_each_epoch(self) -> None:
        program, spec = program_of()
        modes: list[bool] = []
        program.step = lambda p, batch: modes.append(p.model.training) or usual(p, batch)  # type: ignore[func-returns-value]
        seen: list[int] = []
        program.evaluate = lambda p: float(seen.append(len(modes)) or 0)  # type: ignore[func-returns-value]
        Runs(program, spec, None, 0, 1e9).error(0)
        assert seen == [10, 20, 30, 40]

    def test_dropout_is_off_inside_and_on_again_behind(self) -> None:
        program, _ = program_of()
        x = torch.ones(50, 4)
        with without_dropout(program):
            assert torch.equal(program.model(x), program.model(x))
        assert not torch.equal(program.model(x), program.model(x))


def tried(part: str, gain: float, general: bool = False) -> _Attempt:
    trial = Trial(part, "in another way", general, (0.9 - gain,), (0.9,))
    return _Attempt(None, (), 1.0, trial)  # type: ignore[arg-type]


class TestSplits:
    def test_rows_are_taken_with_the_classes_of_others(self) -> None:
        y = torch.tensor([0] * 90 + [1] * 10)
        many, few = [(torch.arange(100), y)], [(torch.arange(12), torch.tensor([0, 1] * 6))]
        found = alike(many, few, lambda batch: batch[1])
        assert torch.bincount(torch.cat([batch[1] for batch in found])).tolist() == [6, 6]
        small = [(x, labels) for x, labels in zip(torch.arange(100).split(10), y.split(10), strict=True)]
        (whole,) = alike(small, few, lambda batch: batch[1])  # no batch with the last class alone
        assert torch.bincount(whole[1]).tolist() == [6, 6]
        assert len(set(whole[1][:6].tolist())) == 2
        numbers = [(torch.arange(100), y.float())]
        assert sum(len(batch[0]) for batch in alike(numbers, few, lambda batch: batch[1].float())) == 12

    @pytest.mark.parametrize(("offset", "elsewhere"), [(0.0, False), (2.0, True)])
    def test_targets_that_lie_elsewhere(self, offset: float, elsewhere: bool) -> None:
        y = torch.randn(2, 200, generator=torch.Generator().manual_seed(0))
        assert shifted([y[0]], [y[1] + offset]) == elsewhere
        assert not shifted([y[0].long()], [(y[1] + offset).long()])


class TestDecisions:
    def comparison(self, plain: float = 0.9, **answers: Any) -> Any:
        comparison = _Comparison(None, Spec(), None, 0, 1e9)
        comparison.plain, comparison.took = plain, 1e-9
        comparison._differences = answers.get("differences", [])
        comparison._repeat = lambda one, seeds: one.trial  # type: ignore[method-assign]
        comparison._confirmations = {}
        comparison.error = lambda number, *changes, epochs=1.0: answers.get("patient", plain)  # type: ignore[assignment]
        return comparison

    def test_of_several_that_help_the_part_that_differs_is_named(self) -> None:
        weights = Difference("initialisation", "weights are large", "A02")
        helps = [tried("layers", 0.6), tried("initialisation", 0.5)]
        assert self.comparison()._decide(helps, []).part == "layers"
        flat = Difference("initialisation", "tanhs are flat, for that reason", "A06")
        explained = self.comparison(differences=[weights, flat])._decide(helps, [])
        assert (explained.part, explained.fault) == ("initialisation", "A02")

    def test_what_is_merely_faster_is_no_fault(self) -> None:
        helps = [tried("layers", 0.5)]
        assert self.comparison(patient=0.4)._decide(helps, []).part == "layers"
        comparison = self.comparison(patient=0.2)
        assert comparison._decide(helps, []) is None
        assert comparison._patient == (10.0, 0.2)

    def test_the_model_is_blamed_only_when_all_other_parts_were_tried(self) -> None:
        helps = [tried("model", 0.8, general=True), tried("layers", 0.5, general=True)]
        assert self.comparison()._decide(helps, []).part == "layers"
        assert self.comparison()._decide(helps[:1], []).part == "model"
        comparison = self.comparison()
        comparison.unaffordable = [("layers", "ReLUs")]
        assert comparison._decide(helps[:1], []) is None

    def test_pairs_that_do_not_even_teach_each_other_do_not_belong_together(self) -> None:
        told = Trial("labels", VALIDATIONS, False, (0.2, 0.2, 0.2), (1.0, 1.0, 1.0))
        for own, fault in ((1.0, "D09"), (0.2, None)):
            data = [told, Trial("labels", "training's own examples to be judged by", False, (own,), (1.0,))]
            assert self.comparison()._decide([], data).fault == fault

    def test_where_whole_runs_are_too_long_a_short_one_must_beat_a_whole_one(self) -> None:
        comparison = self.comparison(plain=0.5)
        del comparison._repeat
        comparison.took, comparison.end = 1e9, comparison.end
        comparison._base = {(False, 0.125): 0.9}
        for error, confirmed in ((0.3, True), (0.6, False)):
            trial = Trial("layers", f"{error}", False, (error,), (0.9,))
            comparison.error = lambda number, *changes, epochs=1.0, error=error: error if len(changes) else 0.9
            one = _Attempt(type("R", (), {"change": 0})(), (), 0.125, trial)  # type: ignore[arg-type]
            assert (comparison._confirmed(one, 3) is not None) == confirmed


def swaps(**more: Any) -> Swaps:
    return Swaps((0.8,), 0.7, (Trial("layers", "dropout off", False, (0.8,), (0.8,)),), (), (), **more)


class TestSymptoms:
    def test_a_symptom_gets_the_part_that_differs_and_was_not_replaced(self) -> None:
        finding = Finding(None, "0.1", {}, False, symptom="a number is off")
        step, layers = Difference("step", "half the gradient"), Difference("layers", "flat")
        assert located(finding, swaps(differences=(step, layers))).part == "step"
        assert "half the gradient" in located(finding, swaps(differences=(step,))).evidence
        assert located(finding, swaps(differences=(step, Difference("loss", "twice")))).part == ""
        assert located(finding, swaps(differences=(layers,))).part == ""

    def test_a_run_that_ends_long_before_all_is_learnt(self) -> None:
        found = too_short(None, swaps(patient=(10.0, 0.1)))  # type: ignore[arg-type]
        assert found is not None
        assert (found.part, found.kind) == ("schedule", "symptom")
        assert "error 0.80, after 10 times the epochs 0.10" in found.evidence
        assert too_short(None, swaps(patient=(10.0, 0.6))) is None  # type: ignore[arg-type]


def recorded(labels: str, steps: int = 120) -> list[Finding]:
    """A script's training on 120 batches, and an evaluation."""
    torch.manual_seed(0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0 if labels == "rate 0" else 0.3)
    x = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    right = x[:, :3].argmax(dim=1)
    other = torch.randint(3, (400,), generator=torch.Generator().manual_seed(1))
    with record(model, optimizer) as recording:
        for number in range(steps):
            rows = torch.arange(32) + 32 * (number % 8)
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows]), (other if labels == "no matter" else right)[rows]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            F.cross_entropy(model(x[256:]), (right + (labels == "renumbered"))[256:] % 3)
    return list(find_faults(recording))


class TestRecordings:
    @pytest.mark.parametrize(
        ("labels", "symptom"),
        [
            ("right", None),
            ("rate 0", "no lower than a constant answer's"),
            ("no matter", "no lower than a constant answer's"),
            ("renumbered", "no better than chance"),
        ],
    )
    def test_a_script_whose_numbers_are_off_has_a_symptom(self, labels: str, symptom: str | None) -> None:
        found = recorded(labels)
        assert [one.kind for one in found] == ([] if symptom is None else ["symptom"]), found
        if symptom is not None:
            assert symptom in str(found[0])
            assert "`--climb` replaces them" in str(found[0])

    def test_a_few_steps_say_nothing(self) -> None:
        assert recorded("no matter", steps=20) == []

    @pytest.mark.parametrize("loss", ["cross_entropy", "mse_loss"])
    def test_the_loss_of_a_constant_answer(self, loss: str) -> None:
        y = torch.tensor([0, 0, 1, 2]) if loss == "cross_entropy" else torch.tensor([[1.0], [3.0]])
        from lecture_lib.debugging._engine.events import LossCall

        found = constant_loss([LossCall(loss, None, y, {}, 1.0, 1.0, True)])
        assert found == pytest.approx(1.0397 if loss == "cross_entropy" else 1.0, rel=1e-4)
        assert constant_loss([LossCall(loss, None, y, {"reduction": "sum"}, 1.0, 1.0, True)]) is None
