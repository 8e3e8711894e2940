"""Symptoms: numbers that are not what they should be and that nothing explains; how a climb ends; what is asked new."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Climb, Finding, Program, Spec
from lecture_lib.debugging._engine.evidence import Evidence
from lecture_lib.debugging._engine.replace_training import stepped_once_an_epoch
from lecture_lib.debugging._engine.swap_results import Swaps, Trial
from lecture_lib.debugging.faults.named_metrics import reports_otherwise
from lecture_lib.debugging.ladder import Result
from lecture_lib.debugging.rungs import RUNGS
from lecture_lib.debugging.swaps import OWN, SHORTEST, _Comparison
from lecture_lib.debugging.symptoms import SYMPTOMS, easier_than_test, symptoms

Change = Callable[[Tensor, Tensor], None]


def as_they_are(x: Tensor, y: Tensor) -> None:
    """A sound program."""


def target_in_a_column(x: Tensor, y: Tensor) -> None:
    x[:, 5] = y + 0.1 * torch.randn(len(y), generator=torch.Generator().manual_seed(5))


def other_labels(x: Tensor, y: Tensor) -> None:
    y[:] = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(5))]


def copies(x: Tensor, y: Tensor) -> None:
    noise = torch.randn(300, 8, generator=torch.Generator().manual_seed(5))
    x[600:], y[600:] = x[:300] + 0.05 * noise, y[:300]


def eight_columns(change: Change = as_they_are, epochs: int = 12, **fields: Any) -> Evidence:
    """A net on eight columns, of which the product of the first two tells the class."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(900, 8, generator=generator)
    y = (x[:, :2].prod(dim=1) > 0).long()
    change(x, y)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    program = Program(
        model,
        torch.optim.Adam(model.parameters(), lr=0.01),
        F.cross_entropy,
        DataLoader(TensorDataset(x[:600], y[:600]), 32, shuffle=True, generator=torch.Generator().manual_seed(0)),
        DataLoader(TensorDataset(x[600:], y[600:]), 128),
        **{"metric": lambda outputs, y: float((outputs.argmax(dim=1) == y).float().mean()), **fields},
    )
    return Evidence(program, Spec(task="classification", classes=2, epochs=epochs))


def swaps(error: float = 0.05, **more: Any) -> Swaps:
    """What replacing parts has shown: nothing, if not said otherwise."""
    trial = Trial("layers", "dropout off", False, (error,), (error,))
    return Swaps((error,), error, (trial,), (), (), **more)


def held_out(own: float, validation: float) -> Trial:
    return Trial("labels", OWN, False, (own, own), (validation, validation))


class TestSymptoms:
    def test_a_symptom_is_never_certain_and_names_no_part_by_itself(self) -> None:
        with pytest.raises(ValueError, match="never certain"):
            Finding(None, "", symptom="a number is off")
        found = Finding(None, "0.1", {}, False, "", "a number is off", "Nothing helped.", "Look there.")
        assert (found.kind, found.part, found.parts, found.rung, found.certain) == ("symptom", "", (), 6, False)
        assert str(found).splitlines() == [
            "something is wrong; cause unknown: a number is off (rung 6): 0.1",
            "  Nothing helped.",
            "  Look there.",
        ]
        assert Finding("E01", "0.1", {}, False, symptom="no better than a baseline").part == ""

    def test_a_sound_program_has_none(self) -> None:
        assert symptoms(eight_columns(), swaps(own=held_out(0.06, 0.05))) == []

    def test_an_answer_that_rests_on_one_column(self) -> None:
        (found,) = symptoms(eight_columns(target_in_a_column), swaps())
        assert (found.part, found.kind) == ("inputs", "symptom")
        assert "with column 5 from other examples" in found.evidence

    @pytest.mark.parametrize("tried", [None, swaps(1.0)], ids=["nothing replaced", "parts replaced"])
    def test_a_metric_no_better_than_chance(self, tried: Swaps | None) -> None:
        (found,) = symptoms(eight_columns(other_labels), tried)
        assert found.part == ""
        assert "no better than chance" in str(found)
        assert ("1 replacements were tried (layers)" in str(found)) == (tried is not None)

    @pytest.mark.parametrize(("change", "part"), [(copies, "split"), (as_they_are, "labels")])
    def test_validation_that_is_easier_than_held_out_training_examples(self, change: Change, part: str) -> None:
        """Where validation's examples are not nearer than chance allows, it is training's labels that make it hard."""
        (found,) = symptoms(eight_columns(change), swaps(own=held_out(0.6, 0.2)))
        assert found.part == part
        assert "error 0.60 on training examples that were held out, 0.20 on validation" in found.evidence

    @pytest.mark.parametrize("reason", ["shift", "augmentation", "one seed"])
    def test_validation_that_may_be_easier(self, reason: str) -> None:
        evidence = eight_columns()
        if reason == "shift":
            evidence.spec = Spec(task="classification", classes=2, epochs=12, shift_expected=True)
        if reason == "augmentation":
            evidence.program.plain_loader = evidence.program.train_loader
        trial = Trial("labels", OWN, False, (0.6,), (0.2,)) if reason == "one seed" else held_out(0.6, 0.2)
        assert symptoms(evidence, swaps(own=trial)) == []

    @pytest.mark.parametrize("alone", [True, False])
    def test_a_program_far_from_the_best_one(self, alone: bool) -> None:
        far = Trial("model", "a plain network", True, (0.1, 0.1), (0.5, 0.5))
        (found,) = symptoms(eight_columns(), swaps(0.5, far=far, tripled=0.45, alone=alone))
        assert found.part == ("model" if alone else "")
        assert "a plain network: error 0.10 in place of 0.50" in found.evidence
        assert "after three times the epochs the program as it is has 0.45" in found.evidence


class TestEnding:
    def test_it_says_what_was_asked_and_what_could_not_be(self) -> None:
        found = Climb((), question_count=41, refused=("no loader", "no loader", "no metric"))
        assert found.ending == "nothing found: 41 questions asked, 3 not asked"
        assert str(found).splitlines()[-1] == f"{found.ending} (no loader; no metric)"
        assert found.plot().axes[0].get_xlabel() == found.ending

    def test_it_counts_what_was_found(self) -> None:
        result = Result(RUNGS[5], (Finding(None, "", {}, False, symptom="a number is off"),), ())
        assert Climb((result,), question_count=2).ending == "1 finding: 2 questions asked, 0 not asked"
        assert result.verdict == "fails"


def accuracy(program: Program) -> dict[str, float]:
    """Over all validation examples."""
    pairs = [(program.model(x).argmax(dim=1), y) for x, y in program.val_loader or ()]
    return {
        "val_accuracy": float((torch.cat([a for a, _ in pairs]) == torch.cat([b for _, b in pairs])).float().mean())
    }


def in_percent(program: Program) -> dict[str, float]:
    return {"accuracy": 100 * accuracy(program)["val_accuracy"]}


def of_the_batches(program: Program) -> dict[str, float]:
    """The mean of the batches' accuracies: the last batch, of 44, counts as much as one of 128."""
    return {
        "acc": sum(float((program.model(x).argmax(1) == y).float().mean()) for x, y in program.val_loader or ()) / 3
    }


def of_the_losses(program: Program) -> dict[str, float]:
    assert program.loss_fn is not None
    return {"loss": sum(float(program.loss_fn(program.model(x), y)) for x, y in program.val_loader or ()) / 3}


def weighted_loss(program: Program) -> dict[str, float]:
    assert program.loss_fn is not None
    total = sum(float(program.loss_fn(program.model(x), y)) * len(y) for x, y in program.val_loader or ())
    return {"loss": total / 300}


def one_batch_only(program: Program) -> dict[str, float]:
    x, y = next(iter(program.val_loader or ()))
    return {"accuracy": float((program.model(x[:9]).argmax(dim=1) == y[:9]).float().mean())}


class TestReports:
    @pytest.mark.parametrize("evaluate", [accuracy, in_percent, weighted_loss], ids=lambda one: one.__name__)
    def test_a_number_that_is_what_its_name_says(self, evaluate: Any) -> None:
        assert reports_otherwise(eight_columns(epochs=1, evaluate=evaluate)) is None

    @pytest.mark.parametrize("evaluate", [of_the_batches, of_the_losses], ids=lambda one: one.__name__)
    def test_a_mean_of_means_is_another_number(self, evaluate: Any) -> None:
        def hard_end(x: Tensor, y: Tensor) -> None:
            x[856:], y[856:] = 20.0, 0  # the last batch is the smallest one, and unlike the others

        found = reports_otherwise(eight_columns(hard_end, epochs=1, evaluate=evaluate))
        assert found is not None
        assert (found.part, found.kind, found.certain) == ("metric", "difference", False)

    def test_an_evaluation_of_other_examples_is_not_asked(self) -> None:
        with pytest.raises(Exception, match="each validation batch"):
            reports_otherwise(eight_columns(epochs=1, evaluate=one_batch_only))


class TestReplacements:
    def test_a_schedule_that_steps_each_batch_is_stepped_once_an_epoch(self) -> None:
        program = eight_columns().program
        scheduler = torch.optim.lr_scheduler.ExponentialLR(program.optimizers[0], 0.5)

        def train_epoch(p: Program) -> None:
            for batch in p.train_loader or ():
                p.run_step(batch)
                p.scheduler.step()

        program.scheduler, program.train_epoch = scheduler, train_epoch
        with stepped_once_an_epoch(program):
            program.run_epoch()
            program.run_epoch()
            assert program.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.01 * 0.5**2)
        program.run_epoch()  # 19 batches: its own calls count again
        assert program.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.01 * 0.5**21)

    def test_what_is_mended_without_doubt_has_its_name(self) -> None:
        found = Trial("layers", "dropout off", False, (0.1,), (0.5,), "A18").finding()
        assert (found.fault, found.part, found.kind, found.certain) == ("A18", "layers", "swap", False)
        assert Trial("layers", "no detach", False, (0.1,), (0.5,)).finding().fault is None

    @pytest.mark.parametrize(("took", "length"), [(0.0, 1.0), (1e9, SHORTEST)])
    def test_runs_are_shorter_where_the_budget_does_not_hold_all_of_them(self, took: float, length: float) -> None:
        comparison = _Comparison(None, Spec(), None, 0, 1e6)
        comparison.took = took
        assert comparison._length(20) == length


@pytest.mark.parametrize(("leaks", "later", "told"), [(True, False, True), (False, False, False), (True, True, False)])
def test_a_test_that_is_harder_than_validation(leaks: bool, later: bool, told: bool) -> None:
    """A column holds most answers of training and validation, and none of the test's; a later test may be harder."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1200, 8, generator=generator)
    y = (x[:, 0] + torch.randn(1200, generator=generator) > 0).long()
    if leaks:
        x[:900, 7] += 2.0 * y[:900] - 1
    train, val, test = (TensorDataset(x[rows], y[rows]) for rows in (slice(600), slice(600, 900), slice(900, 1200)))
    evidence = eight_columns(epochs=4)
    program = evidence.program
    program.train_loader = DataLoader(train, 32, shuffle=True, generator=generator)
    program.val_loader, program.test_loader = DataLoader(val, 64), DataLoader(test, 64)
    spec = replace(evidence.spec, val_times=list(range(300)) if later else None)
    finding = easier_than_test(Evidence(program, spec), None)
    assert (finding is not None) == told
    assert finding is None or (finding.part, finding.kind, finding.certain) == ("split", "symptom", False)


def test_why_a_symptom_could_not_be_looked_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(evidence: Evidence, swaps: Swaps | None) -> None:
        raise ValueError("only one class")

    evidence = eight_columns(target_in_a_column)
    expected = symptoms(evidence, swaps())
    monkeypatch.setattr("lecture_lib.debugging.symptoms.SYMPTOMS", (broken, *SYMPTOMS))
    evidence.left_out()
    assert symptoms(evidence, swaps()) == expected
    assert evidence.left_out() == ["symptoms: this rule could not be asked: ValueError: only one class"]
