"""The ladder on sound programs in the shapes of real ones: no false finding, no broken rule, and a reason for each
question that cannot be asked.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.sound_programs import CASES, Make
from helpers.sound_programs.scripts import SCRIPTS, Script
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.data import TensorLoader, shapes, stratified_split
from lecture_lib.debugging import Climb, Program, Spec, climb, find_faults, ladder, record
from lecture_lib.debugging._engine.assumptions import NotAskedError, classes_second, picture

pytestmark = pytest.mark.slow

# Long ones: in `make test-full`.
LONG = {
    "forecast of the next steps, [B, T, 3] to [B, 6]",
    "autoencoder that unpacks its inputs as targets",
    "shapes moved by a pixel in the data set",
    "L-BFGS on the whole data",
    "a loss that takes the outputs alone",
    "a number for a series [B, T, 3]",
    "8 x 8 digits moved by a pixel in the data set",
    "8 x 8 digits as pictures, moved by a pixel, in a short run",
    "sequence to sequence, the loss summed over the steps of the decoder",
    "L-BFGS in large batches, in the author's step",
    "8 x 8 digits moved by a pixel in the step",
    "classes of series [B, T, 3]",
    "8 x 8 digits as pictures",
    "tagger with outputs [B, T, C] and a loss that reshapes them",
    "the same with as many tags as words in a sentence",
}
BROKEN = "this rule could not be asked"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sound" in metafunc.fixturenames:
        full = metafunc.config.getoption("--full")
        cases = {name: case for name, case in CASES.items() if full or name not in LONG}
        metafunc.parametrize("sound", cases.values(), ids=list(cases))


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_found_in_a_sound_program(sound: tuple[Make, tuple[str, ...]]) -> None:
    make_program, reasons = sound
    with threadpool_limits(1):
        found = climb(*make_program(), budget=0)
    assert not found.findings, found
    unchecked = "\n".join(text for result in found.results for text in result.unchecked)
    assert BROKEN not in unchecked
    assert [one for one in reasons if one not in unchecked] == [], unchecked


def test_statistics_that_lag_behind_fast_weights_are_no_fault() -> None:
    drawn = shapes(2000, seed=0, size=20)
    torch.manual_seed(0)
    first = nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.BatchNorm2d(16), nn.ReLU()
    second = nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()
    model = nn.Sequential(*first, *second, nn.Flatten(), nn.Dropout(0.0), nn.Linear(800, 5))
    few, others = stratified_split(drawn.labels, (0.4, 0.6), seed=0)
    train = TensorLoader(drawn.images[few], drawn.labels[few], batch_size=32, shuffle=True, seed=0)
    val = TensorLoader(drawn.images[others], drawn.labels[others], batch_size=600)
    program = Program(model, torch.optim.Adam(model.parameters(), 0.003), nn.CrossEntropyLoss(), train, val)
    with threadpool_limits(1):
        found = climb(program, Spec(task="classification", classes=5, epochs=6), budget=1)
    assert [finding for finding in found.findings if finding.certain or finding.fault == "P17"] == [], found


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_found_in_a_recording_of_a_sound_script(name: str) -> None:
    script: Script = SCRIPTS[name][0]
    torch.manual_seed(0)
    model, optimizers, run = script()
    with record(model, *optimizers) as recording:
        run()
    found = find_faults(recording)
    assert not found, found
    assert BROKEN not in str(found)
    assert SCRIPTS[name][1] in str(found)


def test_a_model_can_be_copied_and_saved_while_it_is_recorded(tmp_path: Path) -> None:
    """For an average of the weights, a target network, the best so far; what the copy does is not the model's."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    with record(model, optimizer) as recording:
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            seen = len(recording.events)
            torch.save(model, tmp_path / "model.pt")
            copy.deepcopy(optimizer)
            assert torch.equal(copy.deepcopy(model)(x), torch.load(tmp_path / "model.pt", weights_only=False)(x))
            assert len(recording.events) == seen
    assert not find_faults(recording)


def test_gradients_inside_a_loss_are_no_batches_of_a_step() -> None:
    """Learning to learn: each task's loss takes a step of its own, and all tasks have one backward pass."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def after_a_step() -> Tensor:
        scale, phase, x = 1 + torch.rand(1), 3 * torch.rand(1), 6 * torch.rand(20, 1) - 3
        y, parameters = scale * torch.sin(x + phase), dict(model.named_parameters())
        loss = F.mse_loss(functional_call(model, parameters, (x[:10],)), y[:10])
        gradients = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
        moved = {name: one - 0.1 * own for (name, one), own in zip(parameters.items(), gradients, strict=True)}
        return F.mse_loss(functional_call(model, moved, (x[10:],)), y[10:])

    with record(model, optimizer) as recording:
        for _ in range(30):
            optimizer.zero_grad()
            torch.stack([after_a_step() for _ in range(4)]).mean().backward()
            optimizer.step()
    found = find_faults(recording)
    assert not found, found


def test_a_step_outside_of_the_loop_is_still_found_without_a_loader() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(60, 4), torch.randint(3, (60,))
    with record(model, optimizer) as recording:
        for _ in range(3):
            for start in range(0, 60, 10):
                optimizer.zero_grad()
                F.cross_entropy(model(x[start : start + 10]), y[start : start + 10]).backward()
            optimizer.step()
    (found,) = find_faults(recording)
    assert (found.fault, found.certain) == ("G06", False)  # six losses of one batch would look the same


def test_optimizers_are_told_apart_from_parameters_that_none_holds() -> None:
    """Of three optimizers each holds a part; a fourth part that none holds is still named."""
    torch.manual_seed(0)
    model = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in model[:3]]
    with record(model, *optimizers) as recording:
        for _ in range(8):
            for optimizer in optimizers:
                optimizer.zero_grad()
                x = torch.randn(5, 3)
                for layer in model:
                    x = layer(x).tanh()
                x.square().mean().backward()
                optimizer.step()
    found = find_faults(recording)
    assert [one.fault for one in found] == ["P03"]
    assert "3.weight" in found[0].evidence
    assert "2.weight" not in found[0].evidence


def test_a_rule_that_breaks_on_a_recording_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_rule(evidence: Any) -> None:
        raise IndexError("nothing there")

    first = ladder.RUNGS[0]
    monkeypatch.setattr(ladder, "RUNGS", (replace(first, rules=(broken_rule, *first.rules)), *ladder.RUNGS[1:]))
    monkeypatch.setattr(ladder, "OF_RECORDINGS", ladder.OF_RECORDINGS | {broken_rule})
    model = nn.Linear(2, 1)
    with record(model, torch.optim.SGD(model.parameters(), lr=0.1)) as recording:
        pass
    found = find_faults(recording)
    assert found.unchecked == (f"broken rule: {BROKEN}: IndexError: nothing there",)
    assert str(found) == f"nothing found\nnot checked: broken rule: {BROKEN}: IndexError: nothing there"


@pytest.mark.parametrize(
    ("shape", "is_one"),
    [
        ((3, 32, 32), True),
        ((1, 16, 16), True),
        ((1, 8, 8), False),
        ((24, 3), False),
        ((64,), False),
        ((12, 8, 8), False),
    ],
)
def test_series_boards_and_small_pictures_are_no_photographs(shape: tuple[int, ...], is_one: bool) -> None:
    assert picture(shape) == is_one


def test_the_axis_of_the_classes_is_not_guessed() -> None:
    labels = torch.zeros(2, 4, dtype=torch.long)
    classes_second(torch.zeros(2, 5, 4), labels, [])  # [B, C, T]
    classes_second(torch.zeros(2, 4, 4), labels, [torch.zeros(7, 4, 4)])  # as PyTorch's loss was given it
    for shape in ((2, 4, 5), (2, 4, 4)):
        with pytest.raises(NotAskedError, match="last axis may hold the classes"):
            classes_second(torch.zeros(shape), labels, [torch.zeros(8, 5)])


def upside_down(where: str, labels: bool = False) -> tuple[Program, Spec]:
    """A classifier of two classes whose metric, or whose validation labels, are the wrong way round."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 5, generator=generator)
    y = (x[:, 0] + 0.5 * x[:, 1] + 0.3 * torch.randn(600, generator=generator) > 0).float()
    if labels:
        y[400:] = 1 - y[400:]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))

    def area(outputs: Tensor, targets: Tensor) -> float:
        return float(roc_auc_score(targets.numpy(), (outputs if labels else -outputs).numpy()))

    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        with torch.no_grad():
            if where == "evaluation of its own data":
                return {"val_auc": area(p.model(x[400:]), y[400:])}
            found = [(p.model(a), b) for a, b in p.val_loader]
        return {"auc": area(torch.cat([a for a, _ in found]), torch.cat([b for _, b in found]))}

    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=0.01),
        F.binary_cross_entropy_with_logits,
        DataLoader(TensorDataset(x[:400], y[:400]), 40, shuffle=True),
        DataLoader(TensorDataset(x[400:], y[400:]), 40),
        metric=area if where == "metric" else None,
        evaluate=None if where == "metric" else evaluate,
    ), Spec(epochs=12)


@pytest.mark.parametrize("labels", [False, True], ids=["metric upside down", "labels upside down"])
@pytest.mark.parametrize("where", ["metric", "evaluation", "evaluation of its own data"])
@pytest.mark.filterwarnings("ignore")
def test_nothing_holds_beside_a_metric_worse_than_chance(where: str, labels: bool) -> None:
    with threadpool_limits(1):
        found = climb(*upside_down(where, labels), go_on=labels, budget=0)
    last = found.rows[-1]
    assert (last.val_metric if where == "metric" else max(last.reported.values())) < 0.1
    assert "holds" not in {result.verdict for result in found.results}
    if labels:
        assert found.results[-1].rung.number == 7
        assert "worse than chance" in str(found)
    else:  # tried with right and with random answers, the metric itself is wrong
        assert [(one.part, one.rung, one.certain) for one in found.findings] == [("metric", 6, True)]
    found.plot()


def test_a_rung_that_measured_nothing_does_not_hold() -> None:
    found: Climb = climb(*CASES["autoencoder on TensorDataset(x), the author's own loop"][0](), budget=0)
    assert {result.verdict for result in found.results} == {"not asked"}
    found.plot()
