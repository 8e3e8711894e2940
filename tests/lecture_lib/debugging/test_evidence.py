"""What is asked about a program beside its run, and what that leaves in the recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.debugging import Program, Spec
from lecture_lib.debugging._engine.assumptions import NotAskedError
from lecture_lib.debugging._engine.events import LossCall
from lecture_lib.debugging._engine.evidence import Evidence
from lecture_lib.debugging._engine.run_data import Examples
from lecture_lib.debugging.faults.data_rules import ordered_by_class
from lecture_lib.debugging.faults.evaluation_rules import resumed_run_differs
from lecture_lib.debugging.faults.input_rules import changes_with_its_batch
from lecture_lib.debugging.faults.metric_rules import full_marks_for_anything
from lecture_lib.debugging.faults.split_rules import shifts

ROWS = 8


def evidence_of(loss: Callable[[Tensor, Tensor], Tensor], *, couples_samples: bool = True) -> Evidence:
    model, x = nn.Linear(4, 1), torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
    loaders = (DataLoader(TensorDataset(part, part[:, :1]), ROWS) for part in (x[:32], x[32:]))
    program = Program(model, torch.optim.SGD(model.parameters(), 0.1), loss, *loaders)
    return Evidence(program, Spec(epochs=2, couples_samples=couples_samples))


def of_pairs(outputs: Tensor, targets: Tensor) -> Tensor:
    """0/0 where all targets are equal, which they are in no batch of the program."""
    different = (targets != targets.T).float()
    return (different / (1 + (outputs - outputs.T).abs())).sum() / different.sum()


def test_what_the_ladder_asks_of_the_loss_is_no_part_of_the_run() -> None:
    evidence = evidence_of(of_pairs)
    recording = evidence.run.recording
    calls = len(recording.of(LossCall))
    assert calls >= 8
    assert evidence.own_loss(torch.zeros(4, 1), torch.ones(4, 1)).isnan()
    assert len(recording.of(LossCall)) == calls
    assert recording.broke is None


@pytest.mark.parametrize(("couples", "most"), [(True, ROWS), (False, 44)])
def test_a_loss_that_couples_samples_is_asked_about_batches_of_the_programs_size(couples: bool, most: int) -> None:
    sizes = []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        sizes.append(len(outputs))
        return (outputs - targets).square().mean()

    evidence = evidence_of(loss, couples_samples=couples)
    x = torch.ones(44, 4)
    sizes.clear()
    measured, _, outputs = evidence.measure(Examples(x, torch.zeros(44, 1), ROWS, torch.device("cpu")))
    assert outputs is not None
    assert measured == pytest.approx(outputs.square().mean().item())
    assert max(sizes) == most
    assert sum(sizes) == (40 if couples else 44)


def recall_of(nearest: Callable[[Tensor], Tensor], labels_of: Callable[[Tensor], Tensor] = lambda y: y) -> Evidence:
    """Embeddings of two classes that lie apart, evaluated by whose label the nearest one has."""
    x = torch.tensor([[-1.0, 0.0], [1.0, 0.0]]).repeat(20, 1) + torch.randn(
        40, 2, generator=torch.Generator().manual_seed(0)
    )
    y = torch.tensor([0, 1]).repeat(20)
    loaders = (DataLoader(TensorDataset(part, labels), ROWS) for part, labels in ((x, y), (x, labels_of(y))))
    model = nn.Linear(2, 2)

    def evaluate(program: Program) -> dict[str, float]:
        assert program.val_loader is not None
        pairs = [(program.model(inputs), labels) for inputs, labels in program.val_loader]
        embeddings, labels = (torch.cat(part) for part in zip(*pairs, strict=True))
        found = nearest(torch.cdist(embeddings, embeddings))
        return {"recall@1": (labels[found] == labels).float().mean().item()}

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    program = Program(model, optimizer, nn.CrossEntropyLoss(), *loaders, evaluate=evaluate)
    return Evidence(program, Spec(epochs=1))


def others(distances: Tensor) -> Tensor:
    return distances.fill_diagonal_(torch.inf).argmin(1)


def test_a_retrieval_that_finds_the_query_itself_has_full_marks_for_anything() -> None:
    finding = full_marks_for_anything(recall_of(lambda distances: distances.argmin(1)))
    assert finding is not None
    assert finding.part == "metric"
    assert "1 before any training" in finding.evidence


def test_full_marks_that_are_earned_or_could_not_be_missed_are_no_fault() -> None:
    assert full_marks_for_anything(recall_of(others)) is None
    assert full_marks_for_anything(recall_of(others, torch.zeros_like)) is None  # every example has one label


def frozen_program(loss: Callable[[Tensor, Tensor], Tensor]) -> tuple[Program, nn.Module]:
    """A program without functions of its own, whose normalisation stays in evaluation mode."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model[1].eval()
    loader = DataLoader(TensorDataset(torch.randn(20, 3), torch.arange(20) % 2), 5)
    return Program(model, torch.optim.SGD(model.parameters(), lr=0.1), loss, loader, loader), model


def test_a_programs_own_epoch_and_evaluation_leave_frozen_layers_frozen() -> None:
    program, model = frozen_program(F.cross_entropy)
    program.run_epoch()
    program.run_evaluation()
    assert [module.training for module in model] == [True, False, True]


def test_an_evaluation_that_fails_leaves_the_modes() -> None:
    def fails(outputs: Tensor, targets: Tensor) -> Tensor:
        raise RuntimeError("no loss")

    program, model = frozen_program(fails)
    with pytest.raises(RuntimeError, match="no loss"):
        program.run_evaluation()
    assert [module.training for module in model] == [True, False, True]


def standardised(x: Tensor) -> Tensor:
    return (x - x.mean(dim=0)) / x.std(dim=0)


@pytest.mark.parametrize(
    ("change", "couples", "accused"),
    [
        (standardised, False, True),
        (standardised, True, False),
        (lambda x: x / 3, False, False),
        (lambda x: x + torch.randn_like(x), False, False),
        (lambda x: F.pad(x, (0, len(x) % 5)), False, False),
    ],
    ids=["its own statistics", "declared", "fixed statistics", "drawn anew", "padded"],
)
def test_examples_that_change_with_their_batch(
    change: Callable[[Tensor], Tensor], couples: bool, accused: bool
) -> None:
    def collate(samples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        x, y = zip(*samples, strict=True)
        return change(torch.stack(x)), torch.stack(y)

    data = TensorDataset(torch.randn(70, 4) * torch.arange(1, 5) + torch.arange(70)[:, None], torch.arange(70) % 2)
    model = nn.Linear(4, 2)
    loaders = DataLoader(data, 16), DataLoader(data, 16, collate_fn=collate)
    program = Program(model, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, *loaders)
    finding = changes_with_its_batch(Evidence(program, Spec(couples_samples=couples)))
    assert (finding is not None) == accused
    assert finding is None or (finding.part, finding.certain) == ("inputs", True)


@pytest.mark.parametrize(("later", "told"), [(True, False), (False, True)])
def test_inputs_that_drift_are_expected_where_validation_is_declared_to_be_later(later: bool, told: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(600, 4, generator=generator), torch.arange(600) % 2
    x[400:, 0] += 1
    loaders = [DataLoader(TensorDataset(x[rows], y[rows]), 50) for rows in (slice(0, 400), slice(400, 600))]
    model = nn.Linear(4, 2)
    program = Program(model, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, *loaders)
    spec = Spec(task="classification", val_times=list(range(200)) if later else None)
    finding = shifts(Evidence(program, spec))
    assert (finding.fault if finding else None) == ("D25" if told else None)


class Dimmed(Dataset[tuple[Tensor, Tensor]]):
    """Images that are dimmed at random whenever they are read."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self.x[row] * torch.rand(1), self.y[row]


def dimmed_batches(samples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    x, y = zip(*samples, strict=True)
    return torch.stack(x) * torch.rand(len(x), 1), torch.stack(y)


class DimmedLoader:
    """A loader around another one, with a generator of its own."""

    def __init__(self, loader: DataLoader[tuple[Tensor, ...]]) -> None:
        self.loader, self.generator = loader, torch.Generator().manual_seed(0)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in self.loader:
            yield x * torch.rand(len(x), 1, generator=self.generator), y


@pytest.mark.parametrize(
    ("kind", "rows", "told"),
    [
        ("examples are augmented", 400, None),
        ("examples are augmented", 6000, None),  # more than are read
        ("batches are augmented", 400, None),
        ("the loader augments", 400, None),
        ("augmented, and validation differs", 400, "D25"),
        ("dimmed once and for all", 400, "D25"),
        ("dimmed once and for all", 6000, "D25"),
    ],
)
def test_an_augmentation_in_the_loader_is_no_shift(kind: str, rows: int, told: str | None) -> None:
    """Validation is not augmented, so it always differs; what training's examples come from has to be compared."""
    generator = torch.Generator().manual_seed(0)
    x, y = 1 + torch.rand(rows + 400, 4, generator=generator), torch.arange(rows + 400) % 2
    (x_train, x_val), (y_train, y_val) = x.split((rows, 400)), y.split((rows, 400))
    if kind == "augmented, and validation differs":
        x_val = x_val + 1
    plain = DataLoader(TensorDataset(x_train, y_train), 50, shuffle=True)
    loaders: dict[str, Any] = {
        "examples are augmented": DataLoader(Dimmed(x_train, y_train), 50, shuffle=True),
        "batches are augmented": DataLoader(plain.dataset, 50, shuffle=True, collate_fn=dimmed_batches),
        "the loader augments": DimmedLoader(plain),
        "augmented, and validation differs": DataLoader(Dimmed(x_train, y_train), 50, shuffle=True),
        "dimmed once and for all": DataLoader(TensorDataset(0.5 * x_train, y_train), 50, shuffle=True),
    }
    model = nn.Linear(4, 2)
    val_loader = DataLoader(TensorDataset(x_val, y_val), 50)
    parts = model, torch.optim.SGD(model.parameters(), lr=0.1), F.cross_entropy, loaders[kind], val_loader
    program = Program(*parts, plain_loader=plain if kind == "augmented, and validation differs" else None)
    evidence = Evidence(program, Spec(task="classification"))
    if told is None:
        with pytest.raises(NotAskedError, match="plain_loader="):
            shifts(evidence)
    else:
        finding = shifts(evidence)
        assert finding is not None
        assert finding.fault == told


@pytest.mark.parametrize(("batch_size", "sorted_by_class"), [(100, True), (200, False)])
def test_where_a_label_stands_within_its_batch_is_no_order(batch_size: int, sorted_by_class: bool) -> None:
    """A batch of positives followed by the negatives that were drawn for them."""
    y = torch.cat([torch.ones(100), torch.zeros(100)]).repeat(5)
    x = torch.randn(len(y), 4, generator=torch.Generator().manual_seed(0))
    model = nn.Linear(4, 1)
    loader, val = (DataLoader(TensorDataset(x, y[:, None]), batch_size) for _ in range(2))
    program = Program(model, torch.optim.SGD(model.parameters(), 0.1), nn.BCEWithLogitsLoss(), loader, val)
    finding = ordered_by_class(Evidence(program, Spec(task="multi-label", epochs=1)))
    assert (finding is not None) == sorted_by_class


@pytest.mark.parametrize("whole", [True, False])
def test_a_resumed_run_may_have_another_order_and_no_other_weights(whole: bool) -> None:
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(x, x[:, :1]), ROWS, shuffle=True, generator=generator)

    def save(program: Program) -> dict[str, Any]:
        return {"model": model.state_dict(), **({"optimizer": optimizer.state_dict()} if whole else {})}

    def load(program: Program, state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        if whole:
            optimizer.load_state_dict(state["optimizer"])

    val = DataLoader(TensorDataset(x, x[:, :1]), ROWS)
    program = Program(model, optimizer, nn.MSELoss(), loader, val, save=save, load=load)
    finding = resumed_run_differs(Evidence(program, Spec(task="regression", epochs=1)))
    assert (finding is None) == whole
