"""What names, numbers and places stand for: metrics, ids, windows, axes, and weights that are 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec
from lecture_lib.debugging._engine.assumptions import NotAskedError
from lecture_lib.debugging._engine.evidence import Evidence
from lecture_lib.debugging._engine.run_data import Examples
from lecture_lib.debugging._engine.windows import continued
from lecture_lib.debugging._engine.yardstick import refuse_other_meaning
from lecture_lib.debugging.faults.data_rules import series_scrambled
from lecture_lib.debugging.faults.evaluation_rules import rate_never_reached
from lecture_lib.debugging.faults.id_rules import (
    _highest_are_missing,
    _own_numbering,
    numbered_anew,
    rows_shared_by_columns,
)
from lecture_lib.debugging.faults.label_hypotheses import gives_target_away
from lecture_lib.debugging.faults.loss_probes import pairing
from lecture_lib.debugging.faults.loss_rules import one_output_rules
from lecture_lib.debugging.faults.metric_rules import evaluation_prefers_worse_answers, line_at_a_half
from lecture_lib.debugging.faults.named_metrics import metric_is_another, reports_otherwise
from lecture_lib.debugging.faults.weight_rules import stuck_at_zero, sure_before_training
from lecture_lib.debugging.symptoms import worse_than_untrained

PADDED = -100


def classes(metric: Any) -> Evidence:
    """Three classes of rows."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    return evidence(x, x[:, :3].argmax(dim=1), nn.Linear(4, 3), F.cross_entropy, "classification", metric)


def tags(metric: Any = None, evaluate: Any = None, count: int = 5) -> Evidence:
    """A tag for each of five words, of which the last two of most sentences are padding."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 9, (200, 5), generator=generator)
    y = x % count
    y[:150, 3:] = PADDED
    model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, count))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    return evidence(x, y, model, loss, "sequence", metric, evaluate)


def numbers(metric: Any) -> Evidence:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    y = x[:, :1] + 2
    return evidence(x, y, nn.Linear(4, 1), F.mse_loss, "regression", metric)


def yes_or_no(metric: Any) -> Evidence:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    y = (x[:, :1] + x[:, 1:2] > 0).float()
    loss = F.binary_cross_entropy_with_logits
    return evidence(x, y, nn.Linear(4, 1), loss, "multi-label", metric)


def evidence(
    x: Tensor, y: Tensor, model: nn.Module, loss: Any, task: Any, metric: Any, evaluate: Any = None
) -> Evidence:
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    program = Program(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss,
        DataLoader(TensorDataset(x[:100], y[:100]), 20, shuffle=True, generator=torch.Generator().manual_seed(0)),
        DataLoader(TensorDataset(x[100:], y[100:]), 30),
        metric=metric,
        evaluate=evaluate,
    )
    return Evidence(program, Spec(task=task, epochs=1))


def accuracy(outputs: Tensor, y: Tensor) -> float:
    return float((outputs.argmax(dim=-1) == y)[y >= 0].double().mean())


def accuracy_with_padding(outputs: Tensor, y: Tensor) -> float:
    known = y >= 0
    return float((outputs.argmax(dim=-1) * known == y * known).double().mean())


def mean_of_sentences(outputs: Tensor, y: Tensor) -> float:
    known = y >= 0
    return float((((outputs.argmax(dim=-1) == y) & known).sum(dim=1) / known.sum(dim=1)).mean())


def r2(outputs: Tensor, y: Tensor) -> float:
    return 1 - float((outputs - y).square().sum() / (y - y.mean()).square().sum())


def r2_of_answers(outputs: Tensor, y: Tensor) -> float:
    return r2(y, outputs)


def r2_from_zero(outputs: Tensor, y: Tensor) -> float:
    return 1 - float((outputs - y).square().sum() / y.square().sum())


def of_logits(outputs: Tensor, y: Tensor) -> float:
    return float(((outputs > 0) == (y > 0)).double().mean())


def above_a_half(outputs: Tensor, y: Tensor) -> float:
    return float(((outputs > 0.5) == (y > 0)).double().mean())


def roc_area(outputs: Tensor, y: Tensor) -> float:
    return float(roc_auc_score(y.numpy(), outputs.numpy()))


def roc_area_of_guesses(outputs: Tensor, y: Tensor) -> float:
    return roc_area((outputs > 0).float(), y)


def of_probabilities(outputs: Tensor, y: Tensor) -> float:
    return above_a_half(outputs.sigmoid(), y)


def brier(outputs: Tensor, y: Tensor) -> float:
    return -float((outputs.sigmoid() - y).square().mean())


def named(function: Any, name: str) -> Any:
    def metric(outputs: Tensor, y: Tensor) -> float:
        return float(function(outputs, y))

    metric.__name__ = name
    return metric


class TestMetricsAreWhatTheirNamesSay:
    @pytest.mark.parametrize(
        ("build", "metric", "name"),
        [
            (classes, accuracy, "accuracy"),
            (classes, lambda outputs, y: 100 * accuracy(outputs, y), "val_acc"),
            (tags, accuracy, "token_accuracy"),
            (tags, mean_of_sentences, "accuracy"),
            (numbers, r2, "r_squared"),
            (numbers, lambda outputs, y: -F.mse_loss(outputs, y), "mse"),
            (numbers, lambda outputs, y: 80 * F.l1_loss(outputs, y), "mae"),  # in the targets' own unit
            (numbers, r2_of_answers, "explained"),
            (yes_or_no, roc_area, "roc_auc"),
            (yes_or_no, roc_area_of_guesses, "share"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_right_one_and_one_without_a_known_name_are_left_alone(self, build: Any, metric: Any, name: str) -> None:
        assert metric_is_another(build(named(metric, name))) is None

    @pytest.mark.parametrize(
        ("build", "metric", "name"),
        [
            (tags, accuracy_with_padding, "accuracy"),
            (numbers, r2_of_answers, "r2"),
            (numbers, r2_from_zero, "r_squared"),
            (numbers, lambda outputs, y: F.mse_loss(outputs, y), "rmse"),
            (numbers, lambda outputs, y: 80 * F.mse_loss(outputs, y).sqrt(), "mae"),
            (yes_or_no, roc_area_of_guesses, "_auc"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_wrong_formula_is_a_difference_in_the_metric(self, build: Any, metric: Any, name: str) -> None:
        found = metric_is_another(build(named(metric, name)))
        assert found is not None
        assert (found.part, found.kind, found.certain) == ("metric", "difference", False)

    @pytest.mark.parametrize(
        ("metric", "accused"), [(of_logits, False), (above_a_half, True), (of_probabilities, False), (brier, False)]
    )
    def test_a_logit_is_yes_from_zero_on(self, metric: Any, accused: bool) -> None:
        found = line_at_a_half(yes_or_no(metric))
        assert (found is not None) == accused

    def test_as_many_classes_as_places(self) -> None:
        """Either axis may be that of the classes, so both readings are allowed."""
        assert metric_is_another(tags(named(accuracy, "accuracy"), count=5)) is None

    @pytest.mark.parametrize("padded", [False, True])
    def test_an_evaluation_that_counts_padding_reports_another_number(self, padded: bool) -> None:
        def evaluate(program: Program) -> dict[str, float]:
            batches = [(program.model(x), y) for x, y in program.val_loader or ()]
            outputs, y = (torch.cat([batch[place] for batch in batches]) for place in (0, 1))
            return {"accuracy": accuracy_with_padding(outputs, y) if padded else accuracy(outputs, y)}

        found = reports_otherwise(tags(evaluate=evaluate))
        assert (found is not None) == padded

    @pytest.mark.parametrize("rooted", [False, True])
    def test_an_evaluation_may_report_errors_in_another_unit_but_no_other_errors(self, rooted: bool) -> None:
        def evaluate(program: Program) -> dict[str, float]:
            squared = torch.cat([(program.model(x) - y).square() for x, y in program.val_loader or ()]).mean()
            return {"mse": 80 * float(squared.sqrt() if rooted else squared)}

        x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
        program = evidence(x, x[:, :1] + 2, nn.Linear(4, 1), F.mse_loss, "regression", None, evaluate)
        assert (reports_otherwise(program) is not None) == rooted

    def test_who_gives_padding_a_class_may_choose_among_the_others(self) -> None:
        """Padding is tag 0 here: the best of the other tags is reported, in place of the best of all."""

        def evaluate(program: Program) -> dict[str, float]:
            batches = [(program.model(x), y) for x, y in program.val_loader or ()]
            outputs, y = (torch.cat([batch[place] for batch in batches]) for place in (0, 1))
            return {"accuracy": float((outputs[..., 1:].argmax(dim=-1) + 1 == y)[y > 0].double().mean())}

        asked = tags(evaluate=evaluate)
        assert reports_otherwise(Evidence(asked.program, replace(asked.spec, ignore_index=0))) is None
        assert reports_otherwise(asked) is not None  # where tag 0 counts, it may not be left out


def table(seed: int, numbering: str, several: bool) -> Evidence:
    """Prices by city; validation has few rows, in which some of 40 cities are missing."""
    generator = torch.Generator().manual_seed(seed)
    level = torch.randn(40, generator=generator)
    share = 1 / (1 + torch.arange(40.0))
    share = share if numbering == "by frequency" else share[torch.randperm(40, generator=generator)]
    city = torch.multinomial(share, 1100, replacement=True, generator=generator)
    price = level[city] + 0.1 * torch.randn(1100, generator=generator)
    known = city[:1000].unique()
    code = torch.searchsorted(known, city)
    if numbering == "its own":
        code[1000:] = torch.searchsorted(city[1000:].unique(), city[1000:])
    area = torch.randn(1100, 1, generator=generator)
    columns = (code, area) if several else (torch.stack([code, torch.zeros_like(code)], dim=1),)
    loaders = [DataLoader(TensorDataset(*(column[rows] for column in (*columns, price))), 50) for rows in SPLIT]
    model = nn.Embedding(40, 1)
    program = Program(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        F.mse_loss,
        *loaders,
        unpack=(lambda batch: ((batch[0], batch[1]), batch[2])) if several else None,
    )
    return Evidence(program, Spec(task="regression"))


SPLIT = (slice(1000), slice(1000, None))


class TestIds:
    @pytest.mark.parametrize("several", [False, True], ids=["one table", "several inputs"])
    @pytest.mark.parametrize("numbering", ["as in training", "by frequency", "its own"])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_column_that_validation_numbers_by_itself(self, seed: int, numbering: str, several: bool) -> None:
        found = numbered_anew(table(seed, numbering, several))
        if numbering != "its own":
            assert found is None
        else:
            assert found is not None
            assert (found.fault, found.part) == ("D03", "inputs")

    def test_numbers_that_are_no_numbering_cost_no_memory(self) -> None:
        """Training has account numbers, far apart, of which a table with an entry for each would not fit anywhere."""
        generator = torch.Generator().manual_seed(0)
        train = torch.randint(10**14, (500, 1), generator=generator)
        val = torch.arange(30).repeat(5)[torch.randperm(150, generator=generator)]
        val = torch.cat([val, torch.tensor([29])])[:, None]  # no order by frequency either
        splits = [Examples(ids, torch.rand(len(ids), generator=generator), 10) for ids in (train, val)]
        assert _own_numbering(*splits, None) == ""

    def test_the_chance_that_just_the_last_ids_are_missing(self) -> None:
        """Beside drawing that often."""
        counts, draws = torch.tensor([30, 20, 8, 6, 4]), 12
        generator = torch.Generator().manual_seed(0)
        drawn = torch.multinomial(counts.double(), draws * 40000, replacement=True, generator=generator).view(-1, draws)
        present = torch.stack([(drawn == label).any(dim=1) for label in range(5)], dim=1)
        for size in (3, 4):
            of_that_size = present[present.sum(dim=1) == size]
            last = of_that_size[:, :size].all(dim=1).double().mean()
            assert _highest_are_missing(counts, size, draws) == pytest.approx(float(last), abs=0.06)
        assert _highest_are_missing(counts, 5, draws) == 1


class Factors(nn.Module):
    """Users times items, and a bias."""

    def __init__(self, std: float) -> None:
        super().__init__()
        self.users, self.items, self.bias = nn.Embedding(20, 3), nn.Embedding(20, 3), nn.Embedding(20, 1)
        for factors, size in ((self.users, std), (self.items, std), (self.bias, 0.0)):
            nn.init.normal_(factors.weight, std=size)

    def forward(self, pairs: Tensor) -> Tensor:
        first, second = pairs.T
        return (self.users(first) * self.items(second)).sum(dim=1) + self.bias(first).squeeze(1)


@pytest.mark.parametrize(("std", "accused"), [(0.0, True), (0.1, False)])
def test_two_factors_that_begin_at_zero_stay_there_and_a_bias_does_not(std: float, accused: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    pairs, y = torch.randint(0, 20, (200, 2), generator=generator), torch.randn(200, generator=generator)
    model = Factors(std)
    program = Program(
        model,
        torch.optim.Adam(model.parameters(), lr=0.01),
        F.mse_loss,
        DataLoader(TensorDataset(pairs, y), 50),
    )
    found = stuck_at_zero(Evidence(program, Spec(task="regression")))
    assert (found is not None) == accused
    if found is not None:
        assert (found.part, found.data["parameters"]) == ("initialisation", ["users.weight", "items.weight"])
    assert not bool(model.bias.weight.any())  # everything was put back


class TestWindows:
    series = torch.randn(400, generator=torch.Generator().manual_seed(0)).cumsum(0)

    @pytest.mark.parametrize("channels", [False, True])
    @pytest.mark.parametrize("stride", [1, 3])
    def test_windows_that_are_divided_at_random_and_in_time(self, stride: int, channels: bool) -> None:
        windows = self.series.unfold(0, 24, stride)
        windows = torch.stack([windows, -windows], dim=1) if channels else windows
        order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))
        cut = int(0.8 * len(windows))
        assert continued(windows[order[cut:]], windows[order[:cut]]) > 0.9
        assert continued(windows[cut:], windows[:cut]) == 0  # nothing of training is later
        assert 0 < continued(windows[:cut], windows[cut:]) < 0.3  # at the border only

    def test_pieces_of_a_small_language_are_continued_by_accident_only(self) -> None:
        words = ["the old cat ", "a dog and ", "her black door ", "two white birds "]
        order = torch.randint(len(words), (4000,), generator=torch.Generator().manual_seed(0)).tolist()
        text = torch.tensor([ord(letter) for word in order for letter in words[word]])
        pieces = text[: len(text) // 32 * 32].view(-1, 32)
        assert continued(pieces[1200:], pieces[:1200]) == 0
        windows = text[:4000].unfold(0, 200, 1)
        windows = windows[torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))]
        assert continued(windows[3000:], windows[:3000]) > 0.9  # of 100 letters, no two begin alike

    def test_rows_that_are_no_windows_or_hold_too_little(self) -> None:
        rows = torch.randn(100, 24, generator=torch.Generator().manual_seed(0))
        assert continued(rows, rows) == 0
        assert continued(torch.zeros(50, 24), torch.zeros(50, 24)) == 0


@pytest.mark.parametrize("scrambled", [False, True])
@pytest.mark.parametrize("steps_first", [False, True])
def test_series_whose_numbers_were_read_in_another_order(steps_first: bool, scrambled: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    start = 6 * torch.rand(150, 4, 1, generator=generator)
    x = (start + 0.4 * torch.arange(32.0)).sin() + torch.arange(4.0)[:, None]  # [N, channels, steps]
    x = x.transpose(1, 2).contiguous() if steps_first else x
    shape = x.shape
    if scrambled:
        x = x.transpose(1, 2).contiguous().reshape(shape)
    y = (start[:, 0, 0] > 3).long()
    built = evidence(x, y, nn.Sequential(nn.Flatten(), nn.Linear(128, 2)), F.cross_entropy, "classification", None)
    assert (series_scrambled(built) is not None) == scrambled


@pytest.mark.parametrize("what", ["frames of one signal", "patches of a picture"])
def test_frames_and_patches_are_no_series_in_another_order(what: str) -> None:
    """Both are smoother if their numbers are read in rows of another length."""
    generator = torch.Generator().manual_seed(0)
    if what == "frames of one signal":
        start = 6 * torch.rand(150, 1, generator=generator)
        x = (start + 0.2 * torch.arange(64.0)).sin().reshape(150, 16, 4)
    else:
        pictures = torch.tensor(load_digits().images[:150], dtype=torch.float32)
        x = pictures.unfold(1, 2, 2).unfold(2, 2, 2).reshape(150, 16, 4)
    y = torch.arange(150) % 2
    built = evidence(x, y, nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), F.cross_entropy, "classification", None)
    assert series_scrambled(built) is None


def test_an_evaluation_that_asks_a_part_of_the_model_by_itself_is_not_judged() -> None:
    @torch.no_grad()
    def evaluate(program: Program) -> dict[str, float]:
        x, y = (torch.cat(part) for part in zip(*program.val_loader or (), strict=True))
        assert isinstance(program.model, nn.Sequential)
        nearest = torch.cdist(program.model[0](x), program.model[0](x)).fill_diagonal_(torch.inf).argmin(dim=1)
        loss = F.cross_entropy(program.model(x), y)
        return {"loss": float(loss), "recall": float((y[nearest] == y).double().mean())}

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    built = evidence(x, x[:, :3].argmax(dim=1), model, F.cross_entropy, "classification", None, evaluate)
    with pytest.raises(NotAskedError, match="parts of the model by themselves"):
        evaluation_prefers_worse_answers(built)


@pytest.mark.parametrize(("sign", "accused"), [(1, False), (-1, True)])
def test_training_that_leads_away_from_what_is_scored(sign: int, accused: bool) -> None:
    built = classes(accuracy)
    built.program.loss_fn = lambda outputs, y: F.cross_entropy(sign * outputs, y)
    built.spec = Spec(task="classification", epochs=10)
    found = worse_than_untrained(built, None)
    assert (found is not None) == accused
    if found is not None:
        assert (found.part, found.kind, found.certain) == ("loss", "symptom", False)


def test_a_loss_of_another_name_is_not_taken_for_the_loss() -> None:
    """Such as one part of it, or that of training."""

    def evaluate(program: Program) -> dict[str, float]:
        losses = [program.loss_fn(program.model(x), y) for x, y in program.val_loader or ()]  # type: ignore[misc]
        return {"auxiliary_loss": 3 * float(sum(losses)) / len(losses)}

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(220, 4, generator=generator)
    built = evidence(x, x[:, :3].argmax(dim=1), nn.Linear(4, 3), F.cross_entropy, "classification", None, evaluate)
    assert reports_otherwise(built) is None


def test_a_program_whose_evaluation_needs_a_trained_model_is_recorded_as_ever() -> None:
    def evaluate(program: Program) -> dict[str, float]:
        if not program.optimizers[0].state and not any(p.grad is not None for p in program.model.parameters()):
            raise RuntimeError("nothing is trained yet")
        return {"accuracy": 0.5}

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    built = evidence(x, x[:, :3].argmax(dim=1), nn.Linear(4, 3), F.cross_entropy, "classification", None, evaluate)
    assert built.run.error is None
    assert built.run.untrained == {}
    assert built.run.rows[-1].reported == {"accuracy": 0.5}


def test_inputs_that_were_read_once_are_not_read_again() -> None:
    built = classes(accuracy)
    assert built.each_input == [(built.train, built.val)]
    assert built.each_input[0][0] is built.train


def test_an_r_squared_of_outputs_with_an_axis_more_than_the_targets() -> None:
    built = numbers(named(lambda outputs, y: r2_from_zero(outputs.squeeze(1), y), "r2"))
    built.program.loss_fn = lambda outputs, y: F.mse_loss(outputs.squeeze(1), y.flatten())
    x, y = (torch.cat(part) for part in zip(*built.program.val_loader or (), strict=True))
    built.program.val_loader = DataLoader(TensorDataset(x, y.squeeze(1)), 30)
    assert metric_is_another(built) is not None


@pytest.mark.parametrize("learns", [True, False])
def test_outputs_in_several_parts_are_judged_by_their_own_loss(learns: bool) -> None:
    """An autoencoder gives logits of pixels and a code's mean, and the squared error of logits says nothing."""
    pixels = (torch.rand(80, 6, generator=torch.Generator().manual_seed(0)) > 0.5).float() * 0.8 + 0.1

    class Autoencoder(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            logits = 5 * (x - 0.5) if learns else torch.zeros_like(x) + 3
            return logits, x.mean(dim=1, keepdim=True)

    def loss(outputs: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs[0], y) + 0.01 * outputs[1].square().mean()

    program = Program(Autoencoder(), [], loss, ())
    pairs = [(part, part) for part in pixels.split(30)]
    if learns:
        with pytest.raises(NotAskedError, match="something else than the targets"):
            refuse_other_meaning(program, pairs, 2.0)
    else:
        refuse_other_meaning(program, pairs, 2.0)


@pytest.mark.parametrize(("labels", "shift", "told"), [("inputs", 1, None), ("next", 1, "L13"), ("next", 0, None)])
def test_a_loss_that_shifts_labels_is_right_where_they_are_the_inputs(
    labels: str, shift: int, told: str | None
) -> None:
    stream = torch.randint(0, 6, (200, 9), generator=torch.Generator().manual_seed(0))
    x = stream[:, :-1].contiguous()
    y = x.clone() if labels == "inputs" else stream[:, 1:].contiguous()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        answers = outputs[:, : outputs.shape[1] - shift]
        return F.cross_entropy(answers.flatten(0, 1), targets[:, shift:].flatten())

    model = nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 6))
    found = pairing(evidence(x, y, model, loss, "sequence", None))
    assert (found and found.fault) == told


@pytest.mark.parametrize("shift", [0, 1])
def test_an_accuracy_of_labels_that_are_the_inputs_is_that_of_the_loss(shift: int) -> None:
    """The share of places whose next id is named is no other metric where the loss asks for the next id."""
    x = torch.randint(0, 6, (200, 8), generator=torch.Generator().manual_seed(0))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        answers = outputs[:, : outputs.shape[1] - shift]
        return F.cross_entropy(answers.flatten(0, 1), targets[:, shift:].flatten())

    def accuracy(outputs: Tensor, targets: Tensor) -> float:
        return float((outputs[:, :-1].argmax(-1) == targets[:, 1:]).double().mean())

    model = nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 6))
    found = metric_is_another(evidence(x, x.clone(), model, loss, "sequence", accuracy))
    assert (found is None) == bool(shift)


class Table(nn.Module):
    """One table of embeddings for all columns of ids."""

    def __init__(self, counts: list[int], offsets: list[int]) -> None:
        super().__init__()
        self.rows, self.offsets = nn.Embedding(sum(counts), 1), torch.tensor(offsets)

    def forward(self, ids: Tensor) -> Tensor:
        return self.rows(ids + self.offsets).sum(dim=(1, 2))


@pytest.mark.parametrize(("offsets", "accused"), [([0, 0, 0], True), ([0, 20, 50], False)])
def test_columns_of_ids_that_share_the_first_rows_of_their_table(offsets: list[int], accused: bool) -> None:
    generator, counts = torch.Generator().manual_seed(0), [20, 30, 10]
    ids = torch.stack([torch.randint(0, count, (500,), generator=generator) for count in counts], dim=1)
    model = Table(counts, offsets)
    loader = DataLoader(TensorDataset(ids, torch.randn(500, generator=generator)), 50)
    program = Program(model, torch.optim.SGD(model.parameters(), lr=0.01), F.mse_loss, loader)
    finding = rows_shared_by_columns(Evidence(program, Spec(task="regression")))
    assert (finding is not None) == accused
    if finding is not None:
        assert (finding.part, finding.data) == ("model", {"rows": 60, "ids": counts})


class TwoHeads(nn.Module):
    """A number and a class, from the same features."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.number, self.label = nn.Linear(5, 8), nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.trunk(x).relu()
        return self.number(features).squeeze(1), self.label(features)


@pytest.mark.parametrize(("unit", "accused"), [(1.0, False), (1000.0, True)])
def test_of_two_outputs_one_rules(unit: float, accused: bool) -> None:
    generator, model = torch.Generator().manual_seed(0), TwoHeads()
    x, number = torch.randn(64, 5, generator=generator), unit * torch.randn(64, generator=generator)
    dataset = TensorDataset(x, number, torch.randint(0, 3, (64,), generator=generator))

    def loss_fn(outputs: Any, targets: Any) -> Tensor:
        return F.mse_loss(outputs[0], targets[0]) + F.cross_entropy(outputs[1], targets[1])

    program = Program(
        model,
        torch.optim.SGD(model.parameters(), lr=0.01),
        loss_fn,
        DataLoader(dataset, 64),
        unpack=lambda batch: (batch[0], (batch[1], batch[2])),
    )
    finding = one_output_rules(Evidence(program, Spec()))
    assert (finding is not None) == accused
    assert finding is None or (finding.part, finding.certain) == ("loss", False)


@pytest.mark.parametrize(("scale", "accused"), [(1.0, False), (200.0, True)])
def test_answers_that_are_sure_before_training(scale: float, accused: bool) -> None:
    generator, model = torch.Generator().manual_seed(0), nn.Linear(5, 3)
    with torch.no_grad():
        model.weight.mul_(scale)
    x, y = torch.randn(200, 5, generator=generator), torch.randint(0, 3, (200,), generator=generator)
    loader = DataLoader(TensorDataset(x, y), 50)
    program = Program(model, torch.optim.SGD(model.parameters(), lr=0.01), F.cross_entropy, loader, loader)
    finding = sure_before_training(Evidence(program, Spec(task="classification", classes=3, epochs=1)))
    assert (finding is not None) == accused
    assert finding is None or (finding.part, finding.certain) == ("initialisation", False)


@pytest.mark.parametrize(
    ("steps", "epochs", "accused"),
    [(400, 2, True), (400, None, False), (4, 2, False)],  # a run of unknown length may go on
)
def test_a_warm_up_that_is_longer_than_the_run(steps: int, epochs: int | None, accused: bool) -> None:
    generator, model = torch.Generator().manual_seed(0), nn.Linear(5, 3)
    x, y = torch.randn(200, 5, generator=generator), torch.randint(0, 3, (200,), generator=generator)
    loader = DataLoader(TensorDataset(x, y), 50)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps))

    def train_epoch(program: Program) -> None:
        for batch in program.train_loader or ():
            program.run_step(batch)
            scheduler.step()

    program = Program(model, optimizer, F.cross_entropy, loader, loader, scheduler=scheduler, train_epoch=train_epoch)
    finding = rate_never_reached(Evidence(program, Spec(task="classification", classes=3, epochs=epochs)))
    assert (finding is not None) == accused
    assert finding is None or finding.part == "schedule"


@pytest.mark.parametrize(("overlap", "part"), [(True, "labels"), (False, "inputs")])
def test_the_last_column_is_the_target_of_windows_or_of_a_table(overlap: bool, part: str) -> None:
    series = torch.randn(4000, generator=torch.Generator().manual_seed(0))
    rows = series.unfold(0, 8, 1)[:500] if overlap else series.view(500, 8)
    parts = [DataLoader(TensorDataset(x, x[:, -1].clone()), 50) for x in (rows[:350], rows[350:])]
    model = nn.Linear(8, 1)
    program = Program(model, torch.optim.SGD(model.parameters(), lr=0.01), F.mse_loss, *parts)
    finding = gives_target_away(Evidence(program, Spec(task="regression", epochs=1)))
    assert finding is not None
    assert (finding.fault, finding.data["column"], finding.part) == ("D21", 7, part)
