"""The ladder: every fault of the bank is named, no healthy program is, and nothing is moved by looking."""

from __future__ import annotations

import copy
import csv
import math
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from bank import Case, all_cases
from bank.programs import BASES, changed, make
from conftest import ROOT
from helpers.simulated_device import move, other_device
from outsiders.fresh import all_pairs
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.data import TensorLoader
from lecture_lib.debugging import (
    FAULTS,
    PARTS,
    Climb,
    Finding,
    Program,
    Result,
    Spec,
    ascent,
    climb,
    find_faults,
    ladder,
    record,
)
from lecture_lib.debugging._engine import rung_plots
from lecture_lib.debugging._engine.assumptions import NotAskedError
from lecture_lib.debugging._engine.events import Backward, LossCall, Step
from lecture_lib.debugging._engine.evidence import Evidence
from lecture_lib.debugging._engine.measures import MEASURES
from lecture_lib.debugging._engine.preserve import untouched
from lecture_lib.debugging.faults.data_rules import ordered_by_class
from lecture_lib.debugging.faults.evaluation_rules import trained_in_evaluation_mode
from lecture_lib.debugging.faults.label_hypotheses import gives_target_away
from lecture_lib.debugging.faults.loss_rules import unstable
from lecture_lib.debugging.faults.metric_rules import metric_prefers_worse_answers
from lecture_lib.debugging.faults.split_rules import shifts
from lecture_lib.debugging.rungs import RUNGS

pytestmark = pytest.mark.slow

SHARED = ROOT.parent / "shared"
QUICK = ("digits", "sequence", "regression")  # bases on which a run takes a second
BY_COMPARISON = {"D01", "D09", "D10", "D28", "D36", "A02", "A03", "A05", "A06", "A07", "A08", "A18", "A20", "A21"}
BY_COMPARISON |= {"H01", "H02", "H03", "H04", "G15", "E01", "E04", "E05", "E07", "D25", "D26", "D27"}
# Quick ones of them, each of another kind: a model that divides by zero before its first step belongs here too.
COMPARED = (
    "L20-length-of-features-of-nothing-digits",
    "A21-four-layers-of-256,-no-decay-digits",
    "E01-columns-that-know-nothing-regression",
    "E05-the-machine-tells-who-is-ill-x-rays",
    "E05-form-with-a-box-for-each-digit-digits",
)


def chosen(healthy: bool) -> list[Case]:
    """For each row one case, the quickest: what `make test` looks at; comparisons of runs are for `make bench`."""
    rows: dict[str, list[Case]] = defaultdict(list)
    for case in all_cases():
        if case.healthy == healthy and case.row not in BY_COMPARISON:
            rows[case.row].append(case)
    return [min(cases, key=lambda one: (one.base not in QUICK, str(one))) for cases in rows.values()]


def climbed(case: Case, seed: int = 1) -> Climb:
    with threadpool_limits(1):
        return climb(*case.make(seed), budget=0)


@pytest.mark.parametrize("case", chosen(healthy=False), ids=str)
@pytest.mark.filterwarnings("ignore")
def test_the_fault_is_named_first_and_at_its_rung(case: Case) -> None:
    found = climbed(case)
    assert found.findings, found
    assert found.findings[0].fault == case.row, found
    assert found.results[-1].rung.number == FAULTS[case.row].rung
    assert "could not be asked" not in str(found)
    assert "not climbed" in str(found) or found.results[-1].rung.number == 7


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.filterwarnings("ignore")
def test_a_fault_that_only_comparisons_show_is_named(name: str) -> None:
    case = next(one for one in all_cases() if str(one) == name)
    assert [one.fault for one in climbed(case).findings] == [case.row]


@pytest.mark.parametrize("name", ["K32-the-same-program-regression", *COMPARED])
@pytest.mark.filterwarnings("ignore")
def test_a_program_on_another_device_is_told_the_same(name: str, request: pytest.FixtureRequest) -> None:
    """Model and data lie there, as on a GPU, and nothing of the CPU mixes with them."""
    if name in COMPARED and not request.config.getoption("--full"):
        pytest.skip("long: in make test-full")
    case = next(one for one in all_cases() if str(one) == name)
    here = climbed(case)
    program, spec = case.make(1)
    move(program)
    with other_device(), threadpool_limits(1):
        there = climb(program, spec, budget=0)
    assert [one.fault for one in there.findings] == [one.fault for one in here.findings]
    assert [one.unchecked for one in there.results] == [one.unchecked for one in here.results]


def test_the_other_device_refuses_what_a_gpu_refuses() -> None:
    with other_device() as device:
        there = torch.ones(2, 2).to(device)
        assert there.device == device
        assert (2 * there @ there).sum().cpu().item() == 16
        with pytest.raises(RuntimeError, match="same device"):
            there + torch.ones(2, 2)
        with pytest.raises(RuntimeError, match=r"numpy\(\) is not supported"):
            there.numpy()


def test_every_row_has_two_variants() -> None:
    rows: dict[str, set[str]] = defaultdict(set)
    for case in all_cases():
        rows[case.row].add(case.variant)
    assert {row for row in rows if not row.startswith("K")} == set(FAULTS) - {""}
    assert {row for row, variants in rows.items() if len(variants) < 2} == set()
    assert len([row for row in rows if row.startswith("K")]) == 24


@pytest.mark.skipif(not (SHARED / "faults.csv").exists(), reason="the table of faults is not beside the repository")
def test_faults_have_the_rungs_of_the_table() -> None:
    with Path(SHARED / "faults.csv").open(encoding="utf-8") as file:
        table = {row["id"]: int(row["rung"]) for row in csv.DictReader(file)}
    assert {name: fault.rung for name, fault in FAULTS.items() if name} == table


def test_a_fault_lies_in_one_or_two_parts() -> None:
    for name, fault in FAULTS.items():
        assert 1 <= len(set(fault.parts) & set(PARTS)) == len(fault.parts) <= 2, name
    assert {part for fault in FAULTS.values() for part in fault.parts} == set(PARTS)


def test_a_finding_says_what_it_rests_on_and_where_it_lies() -> None:
    broken = Finding("L01", "the outputs sum to 1")
    assert (broken.kind, broken.part) == ("violation", "loss")
    assert Finding("H01", "a tenth of the rate", {"gain": 0.4}, certain=False).kind == "swap"
    assert Finding("D25", "means differ", {"p": 1e-6}, certain=False).kind == "difference"


@pytest.mark.parametrize(("taken", "size"), [(1, 25), (2, 25), (4, 25), (2, 200)])
def test_steps_are_counted_against_the_declared_accumulation(taken: int, size: int) -> None:
    """Two batches of 200 are the whole epoch: less than a window, and stepped at its end."""
    left = iter(range(1_000_000))

    def step(program: Program, batch: Any) -> None:
        (F.cross_entropy(program.model(batch[0]), batch[1]) / taken).backward()
        if next(left) % taken == taken - 1:
            program.optimizers[0].step()
            program.optimizers[0].zero_grad()

    torch.manual_seed(0)
    train, val = (TensorLoader(*two_moons(seed), batch_size=size, shuffle=True, seed=0) for seed in (0, 1))
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    program = Program(model, torch.optim.Adam(model.parameters(), 1e-2), F.cross_entropy, train, val, step=step)
    found = climb(program, Spec("classification", classes=2, epochs=10, accumulate=4), budget=0).findings
    told = [one.evidence for one in found if one.fault == "G06"]
    assert told == ([] if taken == 4 or size == 200 else [f"{taken} batches for each step; declared: 4"]), found


@pytest.mark.parametrize("which", ["make", "twin"])
def test_an_average_that_keeps_old_statistics_is_no_fault_of_the_layers(which: str) -> None:
    pair = next(pair for pair in all_pairs() if pair.name == "b/02_average_without_buffers")
    found = climb(*getattr(pair, which)(0), budget=0).findings
    told = [one for one in found if one.fault == "P17"]
    assert [one.part for one in told] == ([] if which == "twin" else ["step"]), found


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("c/05_triplet_masked_min", "loss"),  # its metric is one of embeddings, its loss lowest for equal outputs
        ("c/08_lambda_returns_rate", "schedule"),
        ("c/11_rank_is_one_argsort", ""),  # noticed, without a part; right outputs fall where its targets, ranks, rise
        ("c/14_sampler_class_weights", "inputs"),
        pytest.param(
            "c/15_tags_padded_with_outside", None, marks=pytest.mark.full
        ),  # not found; padding moves the outputs by next to nothing
    ],
)
@pytest.mark.parametrize("which", ["make", pytest.param("twin", marks=pytest.mark.full)])
def test_programs_by_others_whose_twins_are_sound(name: str, part: str | None, which: str) -> None:
    pair = next(pair for pair in all_pairs() if pair.name == name)
    found = climb(*getattr(pair, which)(0), budget=0).findings
    assert [one.part for one in found] == ([] if which == "twin" or part is None else [part]), found


def few_different_rows(seed: int) -> tuple[Program, Spec]:
    """Three columns of yes and no: eight different inputs in 1,000 rows."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 2, (1200, 3), generator=generator).float()
    y = (x.sum(dim=1) % 2).long()
    train, val = TensorDataset(x[:1000], y[:1000]), TensorDataset(x[1000:], y[1000:])
    model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2))
    loaders = DataLoader(train, 50, shuffle=True, generator=generator), DataLoader(val, 100)
    program = Program(model, torch.optim.Adam(model.parameters(), 1e-2), F.cross_entropy, *loaders)
    return program, Spec("classification", classes=2, epochs=5)


def test_equal_inputs_are_not_a_few_examples_drawn_again() -> None:
    assert not [one for one in climb(*few_different_rows(0), budget=0).findings if one.fault == "D34"]


@pytest.mark.parametrize(
    ("schedule", "accused"),
    [
        (lambda optimizer: OneCycleLR(optimizer, max_lr=1e-3, total_steps=6), False),  # sets a rate of its own
        (lambda optimizer: LambdaLR(optimizer, lambda epoch: (epoch + 1) / 200), True),  # a warm-up longer than the run
        (lambda optimizer: LambdaLR(optimizer, lambda epoch: 0.9**epoch), False),
        (lambda optimizer: LambdaLR(optimizer, lambda epoch: 0.01 * 0.9**epoch), True),
    ],
)
def test_only_a_schedule_that_multiplies_by_next_to_nothing_is_accused(
    schedule: Callable[[torch.optim.Optimizer], Any], accused: bool
) -> None:
    program, spec = few_different_rows(0)
    program.scheduler = schedule(program.optimizers[0])
    found = climb(program, spec, budget=0, go_on=True).findings
    assert ("schedule" in [one.part for one in found if one.certain]) == accused, found


def state_of(program: Program) -> list[Any]:
    model = program.model
    return [
        {name: value.clone() for name, value in model.state_dict().items()},
        [(p.requires_grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()],
        [module.training for module in model.modules()],
        copy.deepcopy([optimizer.state_dict() for optimizer in program.optimizers]),
        [torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()],
        program.train_loader.generator.get_state(),  # type: ignore[attr-defined]
        [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()],
        {name: id(value) for name, value in vars(program).items()},
    ]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (Tensor, np.ndarray)):
        return bool((torch.as_tensor(a) == torch.as_tensor(b)).all())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@cache
def healthy(base: str) -> tuple[Climb, bool]:
    """A climb with a healthy program that has been trained for an epoch, and whether all was as before afterwards."""
    program, spec = make(base, 3)
    program.run_epoch()  # so that there is an optimizer's state, and gradients
    before = state_of(program)
    with threadpool_limits(1):
        found = climb(program, spec, go_on=base == "regression", budget=0)
    return found, same(before, state_of(program))


@pytest.mark.parametrize("base", BASES)
def test_a_climb_leaves_the_program_as_it_was(base: str) -> None:
    found, unchanged = healthy(base)
    assert found.results
    assert unchanged


def test_every_rule_and_measure_leaves_the_program_as_it_was() -> None:
    program, spec = make("digits", 3)
    program.run_epoch()
    evidence = Evidence(program, spec, 0)
    moved = []
    before = state_of(program)
    for rung in RUNGS:
        for rule in (*rung.rules, *rung.hypotheses, MEASURES[rung.number]):
            with threadpool_limits(1):
                rule(evidence)
            if not same(before, state_of(program)):
                moved.append(rule.__name__)
                before = state_of(program)
    assert not moved


def test_the_finder_sweeps_the_rates_of_an_optimizer_with_a_scheduler() -> None:
    """Even one that starts at a rate of 0; afterwards the scheduler counts the optimizer's steps as before."""
    program, spec = make("digits", 3)
    with threadpool_limits(1):
        alone = MEASURES[5](Evidence(program, spec, 0))
    program, spec = make("digits", 3)
    optimizer = program.optimizers[0]
    program.scheduler = LambdaLR(optimizer, lambda step: min(1.0, step / 100))
    evidence, counted = Evidence(program, spec, 0), optimizer.step
    with threadpool_limits(1):
        assert MEASURES[5](evidence)["suggested"] == alone["suggested"]
    assert optimizer.step == counted
    assert optimizer.param_groups[0]["lr"] == 0.0


def test_the_first_rung_shows_how_a_batch_differs_from_the_lectures() -> None:
    program, spec = make("digits", 3)
    assert MEASURES[1](Evidence(program, spec, 0))["differs from the batch contract"] == []
    data = program.train_loader.dataset  # type: ignore[attr-defined]
    data.tensors = (data.tensors[0] * 1000, data.tensors[1])
    (difference,) = MEASURES[1](Evidence(program, spec, 0))["differs from the batch contract"]
    assert difference.startswith("inputs, range: "), difference


def test_a_state_that_moved_is_seen() -> None:
    program, _ = make("digits", 3)
    before = state_of(program)
    assert same(before, state_of(program))
    program.run_epoch()
    assert not same(before, state_of(program))


def test_untouched_puts_plain_attributes_and_fields_back() -> None:
    program, _ = make("digits", 0)
    program.model.calls = 3  # type: ignore[assignment]
    program.model.seen = torch.zeros(2)

    def change() -> None:
        with untouched(program) as inside:
            inside.model.calls = 4  # type: ignore[assignment]
            inside.model.seen.add_(1)
            inside.model.other = 5  # type: ignore[assignment]
            inside.train_loader = []
            inside.optimizers[0].param_groups[0]["lr"] = 9.0
            raise RuntimeError

    with pytest.raises(RuntimeError):
        change()
    assert program.model.calls == 3
    assert torch.equal(program.model.seen, torch.zeros(2))
    assert not hasattr(program.model, "other")
    assert len(program.train_loader) > 0  # type: ignore[arg-type]
    assert program.optimizers[0].param_groups[0]["lr"] == 3e-3


def plain_script(fault: str) -> tuple[nn.Module, torch.optim.Optimizer, Callable[[], None]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    if fault == "L01":
        model.append(nn.Softmax(dim=1))
    optimizer = torch.optim.SGD((model[2] if fault == "P03" else model).parameters(), lr=0.1)
    x, y = torch.randn(60, 4), torch.randint(3, (60,))

    def run() -> None:
        for start in range(0, 60, 10):
            if fault != "G01":
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x[start : start + 10]), y[start : start + 10])
            if fault == "G18":
                loss = -loss
            loss.backward()
            if fault != "G03":
                optimizer.step()

    return model, optimizer, run


@pytest.mark.parametrize("fault", ["", "G01", "G03", "G18", "L01", "P03"])
def test_a_script_with_a_loop_of_its_own_is_recorded_and_diagnosed(fault: str) -> None:
    model, optimizer, run = plain_script(fault)
    twin_model, _, twin = plain_script(fault)
    with record(model, optimizer) as recording:
        run()
    twin()
    for mine, theirs in zip(model.parameters(), twin_model.parameters(), strict=True):
        assert torch.equal(mine, theirs)  # recording changes nothing
    assert [found.fault for found in find_faults(recording)] == ([fault] if fault else [])


def two_moons(seed: int = 0) -> tuple[Tensor, Tensor]:
    from sklearn.datasets import make_moons

    upper, lower = (make_moons((200, 0) if kind == 0 else (0, 200), noise=0.1, random_state=seed)[0] for kind in (0, 1))
    x = torch.tensor(np.concatenate([upper, lower]), dtype=torch.float32)
    return x, torch.arange(400) // 200


def test_the_published_notebook_with_a_validation_split_of_one_class() -> None:
    """Two moons stacked class by class, the last fifth taken for validation: only one class is left there."""
    x, y = two_moons()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    program = Program(
        model,
        torch.optim.Adam(model.parameters(), lr=0.01),
        F.cross_entropy,
        TensorLoader(x[:320], y[:320], batch_size=32, shuffle=True, seed=0),
        TensorLoader(x[320:], y[320:], batch_size=80),
        metric=lambda out, target: float((out.argmax(dim=1) == target).float().mean()),
    )
    found = climb(program, Spec(task="classification", classes=2, epochs=10), budget=0)
    assert found.findings
    assert found.findings[0].rung == 1
    assert found.findings[0].fault == "D26"
    assert found.results[0].seen["validation classes"] == {1: 80}


def test_the_published_notebook_with_an_overfit_batch_of_one_class() -> None:
    """Its first eight rows are of one class: rung 3 says so and takes others, which show a missing zero_grad."""
    x, y = two_moons()
    val = torch.arange(0, 400, 5)
    train = torch.tensor([row for row in range(400) if row % 5])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))

    def train_epoch(program: Program) -> None:
        for inputs, labels in program.train_loader:
            program.loss_fn(program.model(inputs), labels).backward()  # type: ignore[misc]
            program.optimizers[0].step()

    program = Program(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        F.cross_entropy,
        TensorLoader(x[train], y[train], batch_size=8),
        TensorLoader(x[val], y[val], batch_size=80),
        train_epoch=train_epoch,
    )
    found = climb(program, Spec(task="classification", classes=2, epochs=4), go_on=True)
    assert [one.fault for one in found.findings][:2] == ["D15", "G01"]
    assert "holds one class only" in found.results[2].seen["first batch"]


@pytest.mark.parametrize("base", BASES)
def test_a_healthy_program_learns_one_batch_by_heart(base: str) -> None:
    found, _ = healthy(base)
    assert not found.findings, found
    seen = found.results[2].seen
    assert seen["learnt"], seen
    assert seen["attainable"] < 0.01 < seen["start"]
    assert found.results[4].seen["why"]
    assert len(found.results[5].seen["validation loss"]) == len(found.rows)


def test_a_crash_is_reported_with_the_authors_line_and_its_cause() -> None:
    def train_epoch(program: Program) -> None:
        for x, y in program.train_loader:
            program.loss_fn(program.model(x), y + 5).backward()  # type: ignore[misc]

    program, spec = make("digits", 0, train_epoch=train_epoch)
    found = climb(program, spec)
    assert found.findings[0].fault == "D12"
    assert "test_ladder.py, line" in found.findings[0].evidence
    assert "y + 5" in found.findings[0].evidence
    assert "out of bounds" in found.findings[0].evidence


@pytest.mark.parametrize(("factor", "named"), [(1e25, False), (math.nan, True)], ids=["overflow", "0/0"])
def test_outputs_that_only_overflow_are_not_taken_for_a_division_by_zero(factor: float, named: bool) -> None:
    class Scaled(nn.Module):
        """Two factors after a layer: finite in double precision unless they are not numbers themselves."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) * factor * factor

    found = climb(*make("regression", 0, parts=changed("regression", model=Scaled)), budget=0)
    assert ("L20" in {one.fault for one in found.findings}) == named


def test_a_missing_target_is_no_fault_of_the_loss() -> None:
    (case,) = [one for one in all_cases() if str(one) == "D06-missing-target-regression"]
    evidence = Evidence(*case.make(1), 1)
    assert evidence.run.recording.broke is not None
    assert unstable(evidence) is None


def test_a_metric_is_not_accused_where_targets_are_not_the_tasks() -> None:
    """No answer to a mask of 0 and 255 is better than another: what is unequal there says nothing of the metric."""
    (case,) = [one for one in all_cases() if str(one) == "L11-masks-of-0-and-255-masks"]
    with pytest.raises(NotAskedError, match="targets lie from 0 to 255, and the task wants 0 to 1"):
        metric_prefers_worse_answers(Evidence(*case.make(1), 1))
    (finding, *_) = climb(*case.make(1), budget=0).findings
    assert finding.fault == "L11"


def test_an_unknown_error_keeps_its_text() -> None:
    def train_epoch(program: Program) -> None:
        raise KeyError("no such column: age")

    found = climb(*make("regression", 0, train_epoch=train_epoch))
    assert found.findings[0].fault == ""
    assert "no such column: age" in found.findings[0].evidence


def test_a_loop_that_never_steps_ends() -> None:
    def train_epoch(program: Program) -> None:
        for x, y in program.train_loader:
            program.loss_fn(program.model(x), y).backward()  # type: ignore[misc]

    found = climb(*make("digits", 0, train_epoch=train_epoch))
    assert [one.fault for one in found.findings] == ["G03"]


def test_a_rule_that_breaks_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_rule(evidence: Any) -> None:
        raise IndexError("nothing there")

    first = ladder.RUNGS[0]
    monkeypatch.setattr(ascent, "RUNGS", (replace(first, rules=(broken_rule, *first.rules)), *ladder.RUNGS[1:]))
    case = next(one for one in all_cases() if one.row == "G03" and one.base == "regression")
    found = climbed(case)
    assert found.results[0].unchecked[0] == "broken rule: this rule could not be asked: IndexError: nothing there"
    assert "comparisons of runs" in found.results[0].unchecked[1]
    assert "not checked: broken rule" in str(found)
    assert [one.fault for one in found.findings] == ["G03"]


def test_a_climb_reads_as_text_and_as_a_picture() -> None:
    case = next(one for one in all_cases() if one.row == "G01" and one.base == "regression")
    found = climbed(case)
    text = str(found)
    assert text.splitlines()[0] == "rung 1, data: holds"
    assert "  training examples: 800" in text.splitlines()
    assert "gradients are never cleared (G01, rung 3, step)" in text
    assert "Call optimizer.zero_grad() before each backward." in text
    assert "not climbed: 4 small subset, 5 learning rate, 6 full run, 7 errors" in text
    upper, lower = found.plot().axes
    assert len(upper.patches) == 7
    assert lower.get_xlabel() == "epoch"
    assert len(lower.lines) == 3


def test_each_rung_has_a_text_and_a_picture_of_its_numbers() -> None:
    labels = {
        "digits": [
            "class",
            "loss",
            "loss",
            "loss",
            "learning rate",
            "epoch",
            "mean confidence of a fifth of the examples",
        ],
        "regression": ["% of the examples", "loss", "loss", "loss", "learning rate", "epoch", "% of the examples"],
    }
    for base, wanted in labels.items():
        results = healthy(base)[0].results
        assert [result.plot().axes[0].get_xlabel() for result in results] == wanted
        assert all(len(result.rung.why) > 100 and result.verdict == "holds" for result in results)
        plt.close("all")


def test_a_rung_without_numbers_says_so_in_its_picture() -> None:
    result = Result(RUNGS[2], (), (), {})
    (text,) = result.plot().axes[0].texts
    assert text.get_text() == "nothing could be measured"


def test_a_layer_that_trains_in_evaluation_mode_is_named_as_a_layer() -> None:
    """Layers of nn.Sequential have numbers for names: "with 1 in evaluation mode" would read as a count."""
    x, y = two_moons()
    model = nn.Sequential(nn.Linear(2, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 2)).eval()
    loader = TensorLoader(x, y, batch_size=50, shuffle=True, seed=0)

    def train_epoch(program: Program) -> None:
        for batch in loader:
            program.run_step(batch)

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    program = Program(model, optimizer, F.cross_entropy, loader, train_epoch=train_epoch)
    evidence = Evidence(program, Spec(task="classification", epochs=2))
    found = trained_in_evaluation_mode(evidence)
    assert found is not None
    assert found.evidence == "epoch 1 trained with layer '1' in evaluation mode"


@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_body_rests_in_evaluation_mode(frozen: bool) -> None:
    """Its batch normalisation and its dropout belong there; those of a body that learns do not."""
    x, y = two_moons()
    body = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.Sequential(nn.ReLU(), nn.Dropout(0.1)))
    body.requires_grad_(not frozen)
    model = nn.Sequential(body, nn.Linear(16, 2))

    def train_epoch(program: Program) -> None:
        model.train()
        body.eval()
        for batch in loader:
            program.run_step(batch)

    loader = TensorLoader(x, y, batch_size=50, shuffle=True, seed=0)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    program = Program(model, optimizer, F.cross_entropy, loader, train_epoch=train_epoch)
    found = trained_in_evaluation_mode(Evidence(program, Spec(task="classification", epochs=1, frozen=("0.*",))))
    assert (found is None) == frozen


@pytest.mark.parametrize(
    ("order", "accumulate", "named"), [("sorted", 4, True), ("mixed", 4, False), ("mixed", 1, True)]
)
def test_micro_batches_of_one_class_are_mixed_by_accumulation(order: str, accumulate: int, named: bool) -> None:
    """A step over four of them sees several classes, unless they come one class after another."""
    batches = [(torch.randn(5, 3), torch.full((5,), number % 4)) for number in range(80)]
    if order == "sorted":
        batches.sort(key=lambda batch: int(batch[1][0]))
    else:
        random.Random(0).shuffle(batches)
    model = nn.Linear(3, 4)
    program = Program(model, torch.optim.SGD(model.parameters(), lr=0.01), F.cross_entropy, batches)
    spec = Spec(task="classification", classes=4, epochs=1, accumulate=accumulate)
    assert (ordered_by_class(Evidence(program, spec)) is not None) == named


def test_rows_of_one_group_are_no_evidence_of_a_shift() -> None:
    """Twelve scans of each of 50 patients, whose classes happen to have other shares than those of 50 others."""
    generator = torch.Generator().manual_seed(0)
    loaders = []
    for ill in (17, 25):
        y = (torch.arange(50) < ill).long().repeat_interleave(12)
        x = torch.randn(600, 4, generator=generator) + 2.0 * y[:, None]
        loaders.append(TensorLoader(x, y, batch_size=50, shuffle=True, seed=0))
    model = nn.Linear(4, 2)
    program = Program(model, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, *loaders)
    patients = torch.arange(50).repeat_interleave(12).tolist()
    groups = {"train_groups": patients, "val_groups": [patient + 50 for patient in patients]}
    spec = Spec(task="classification", classes=2, epochs=1)
    assert shifts(Evidence(program, replace(spec, **groups))) is None
    found = shifts(Evidence(program, spec))
    assert found is not None
    assert found.fault == "D26"


@pytest.mark.parametrize(("names", "part"), [(torch.arange(9), "labels"), (torch.arange(9).flip(0), "inputs")])
def test_labels_that_are_the_words_themselves_are_not_shifted(names: Tensor, part: str) -> None:
    """Where a label is another name of its word, the inputs give it away; where it is the word, labels lack a shift."""
    words = torch.randint(9, (200, 12), generator=torch.Generator().manual_seed(0))
    loaders = [TensorLoader(words[rows], names[words[rows]], batch_size=50) for rows in (slice(100), slice(100, 200))]
    model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
    loss_fn = lambda outputs, y: F.cross_entropy(outputs.flatten(0, 1), y.flatten())  # noqa: E731
    program = Program(model, torch.optim.Adam(model.parameters()), loss_fn, *loaders)
    found = gives_target_away(Evidence(program, Spec(task="sequence", classes=9, epochs=1, causal=True)))
    assert found is not None
    assert found.part == part


def test_what_is_not_learnt_without_a_known_cause_is_unsure() -> None:
    result = Result(RUNGS[2], (), (), {"learnt": False})
    assert result.verdict == "unsure"
    assert "no question explains why" in str(result)


class ReadsOfValues(TorchDispatchMode):
    """Counts how often a tensor's value is read; on a GPU each of them waits for all that was asked before."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_between_its_looks_the_recorder_reads_no_value() -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    counts = []
    with record(model, optimizer):
        for _ in range(40):
            with ReadsOfValues() as reads:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
            counts.append(reads.count)
    assert min(counts[:12]) > 0
    assert counts[12:] == [0] * 28


@pytest.mark.parametrize("asked", [torch.autograd.grad, None])
def test_the_recorder_hears_every_backward_and_the_losses_where_it_looks(asked: Any) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    with record(model, optimizer) as recording:
        for _ in range(40):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            if asked:
                for parameter, gradient in zip(model.parameters(), asked(loss, list(model.parameters())), strict=True):
                    parameter.grad = gradient
            else:
                loss.backward()
            optimizer.step()
        with torch.no_grad():
            nn.functional.mse_loss(model(x), y)
    assert len(recording.of(Backward)) == len(recording.of(Step)) == 40
    losses = recording.of(LossCall)
    # 12 at the start and the evaluation's; with `grad`, which nothing else can see, all.
    assert len(losses) == (41 if asked else 13)
    assert not losses[-1].grad
    assert torch.autograd.backward.__module__ == "torch.autograd"


def test_a_run_that_resumes_rightly_is_no_finding() -> None:
    def save(p: Program) -> dict[str, Any]:
        generator = p.train_loader.generator  # type: ignore[attr-defined]
        parts = {"model": p.model.state_dict(), "optimizer": p.optimizers[0].state_dict()}
        return {**parts, "order": generator.get_state(), "stream": torch.get_rng_state()}

    def load(p: Program, saved: dict[str, Any]) -> None:
        p.model.load_state_dict(saved["model"])
        p.optimizers[0].load_state_dict(saved["optimizer"])
        p.train_loader.generator.set_state(saved["order"])  # type: ignore[attr-defined]
        torch.set_rng_state(saved["stream"])

    found = climb(*make("regression", 0, save=save, load=load), budget=0)
    assert not found.findings, found


def test_a_wrapped_model_says_what_is_not_seen() -> None:
    program, spec = make("regression", 0)
    program.model = nn.DataParallel(program.model)
    found = climb(program, spec, budget=0)
    assert not found.findings, found
    assert any("layers inside of the DataParallel" in text for text in found.results[0].unchecked)


def test_a_loss_that_hardly_moves_is_drawn_flat() -> None:
    figure, ax = plt.subplots()
    rung_plots.run(ax, {"training loss": [2.3047, 2.3035], "validation loss": [2.3048, 2.3034]})
    low, high = ax.get_ylim()
    assert high - low > 0.4
    assert low < 2.3034 < 2.3048 < high
    plt.close(figure)
