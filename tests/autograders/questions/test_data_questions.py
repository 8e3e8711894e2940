"""What the questions on data and precision rest on: copies for workers, classes as answers, references, numbers."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
import torch
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from autograders import notebooks
from autograders.questions.descriptions import baseline
from autograders.questions.descriptions.precision import bfloat16, fate, float16
from lecture_lib.notebook import saved_bytes
from lecture_lib.notebook.observe import is_stub, observe
from lecture_lib.notebook.question import PublicQuestion
from lecture_lib.notebook.worker_copies import worker_copies

normal = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)


@given(normal)
def test_the_judges_formats_are_pytorchs(number: float) -> None:
    stored = torch.tensor(number)
    assert bfloat16(np.array([number]))[0] == stored.bfloat16().item()
    assert float16(np.array([number]))[0] == stored.half().item()


def test_the_judges_bf16_is_pytorchs_at_ties() -> None:
    upper = np.arange(0x0080, 0x7F80, 7, dtype=np.uint32) << np.uint32(16)
    numbers = np.concatenate([upper | np.uint32(low) for low in (0x7FFF, 0x8000, 0x8001)]).view(np.float32)
    assert np.array_equal(bfloat16(numbers), torch.from_numpy(numbers).bfloat16().float().numpy())


def test_the_judges_fates_at_the_limits() -> None:
    numbers = np.array([65504, 65519, -65520, 2**-24, 2**-25, 0, 3.3895e38, -3.4e38], dtype=np.float32)
    in_fp16 = ["exact", "rounded", "overflow", "exact", "underflow", "exact", "overflow", "overflow"]
    assert fate(numbers, "float16") == in_fp16
    in_bf16 = ["rounded", "rounded", "rounded", "exact", "exact", "exact", "rounded", "overflow"]
    assert fate(numbers, "bfloat16") == in_bf16


class Holder:
    """A top-level class, as a notebook's cell defines one."""

    def __init__(self, kept: object) -> None:
        self.kept = kept


def test_copies_for_workers_share_nothing() -> None:
    original = Holder([1, 2])
    first, second = worker_copies(original, 2)
    first.kept.append(3)
    assert (original.kept, second.kept) == ([1, 2], [1, 2])
    assert type(first) is Holder


def test_a_class_of_a_cell_travels_by_name_although_no_module_has_it() -> None:
    namespace: dict[str, type] = {}
    exec("class Cell:\n    def __init__(self): self.kept = 5", namespace)
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(namespace["Cell"]())
    assert worker_copies(namespace["Cell"](), 1)[0].kept == 5


def test_what_cannot_travel_is_refused(tmp_path) -> None:
    def local() -> None: ...

    with (tmp_path / "file").open("w") as file:
        for kept in (lambda: 0, local, file, (one for one in [1])):
            with pytest.raises((pickle.PicklingError, TypeError, AttributeError)):
                worker_copies(Holder(kept), 1)


class Half:
    """One method written, one not."""

    def __init__(self) -> None:
        self.length = 3

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int: ...


class Whole(Half):
    """All of its own methods written; the others are somebody else's."""

    def __getitem__(self, index: int) -> int:
        return [][index]


def test_a_class_is_unanswered_until_all_of_its_own_methods_are_written() -> None:
    assert is_stub(Half)
    assert not is_stub(Whole)


def test_an_error_in_a_method_is_told_with_its_line() -> None:
    question = PublicQuestion(
        id="x",
        title="",
        functions=("Whole",),
        parts={"item": lambda own, _: own["Whole"]()[1]},
        cases=(),
        misconceptions={},
    )
    told = observe(question, {"Whole": Whole}, {})["item"]["raised"]
    assert "IndexError" in told
    assert "return [][index]" in told


def test_saved_bytes_are_those_of_a_count_by_hand() -> None:
    model, x = nn.Linear(3, 2, bias=False), torch.ones(4, 3, requires_grad=True)
    inputs, outputs = 4 * 3 * 4, 4 * 2 * 4  # the layer keeps its inputs beside its weight, the square its own
    assert saved_bytes(model, lambda: model(x).pow(2).sum()) == inputs + outputs


@pytest.mark.parametrize(
    ("forward", "floats"),
    [
        (lambda a, weight: a.exp()[:1].pow(2).sum(), 1000),
        (lambda a, weight: sum(part.pow(2).sum() for part in a.exp().split(500)), 1000),
        (lambda a, weight: a.exp().expand(3, 1000).pow(2).sum(), 1000),
        (lambda a, weight: weight[1:].pow(2).sum(), 0),
        (lambda a, weight: weight.t().pow(2).sum() + weight[1:].exp().sum(), 20),
        (lambda a, weight: a[100:300].pow(2).sum() + a[200:400].pow(2).sum(), 300),
        (lambda a, weight: a[:0].pow(2).sum(), 0),
    ],
    ids=["slice", "parts", "expanded", "slice of a parameter", "own", "slices of an input", "empty"],
)
def test_saved_bytes_count_memory_once_and_no_parameter(forward, floats: int) -> None:
    model, a = nn.Linear(10, 3, bias=False), torch.ones(1000, requires_grad=True)
    assert saved_bytes(model, lambda: forward(a, model.weight)) == 4 * floats


def test_the_sections_show_their_numbers() -> None:
    nb = notebooks.read(notebooks.notebook_path(ROOT / "notebooks" / "03a-training-recipe.py"))
    shown = "\n".join(output.get("text", "") for cell in nb.cells for output in cell.get("outputs", []))
    for number in (
        "It is 3.",  # of five broken batches stop the step
        "runs without an error: no batch dimension, values up to 255",
        "transformed on request: 5 versions",
        'The answer is "fewer".',  # batches a second with two workers, in memory
        "bottleneck: loader",
        "FP16  0 01011    1001100110              0.099975586  rounded",
        "70000: FP16 inf, BF16 7.01e+04",
        "3.4e+38: FP16 inf, BF16 inf",
        "plain:  0\nscaled: 1.0e-08",
        "stored in FP32: 2.000\n\nIt is 1.",
        "batch 64: kept for backward +41%, total +4%",
        "batch 512: kept for backward -38%, total -18%",
        "T4 -> fp16\nA100 -> bf16",
    ):
        assert number in shown
    waits = re.search(r"share of the time in which the step waits: ≈ ([\d.]+)", shown)
    assert waits is not None
    assert 0.9 <= float(waits[1]) <= 1  # a measured time


@pytest.mark.parametrize("seed", range(8))
def test_a_number_added_to_each_frequency_shows_in_every_set_of_baselines(seed: int) -> None:
    """1e-8 against a logarithm of 0 is wrong by more than the tolerance where a class is rare, and nowhere else."""
    off = []
    for case in baseline.draw(np.random.default_rng(seed)):
        train, val = case.inputs["y_train"], case.inputs["y_val"]
        shares = np.bincount(train, minlength=case.inputs["classes"]) / len(train)
        right, added = (-np.log(shares[val] + number).mean() for number in (0.0, 1e-8))
        off.append(abs(right - added) / right if right else 0.0)
    assert max(off) > 2e-5
