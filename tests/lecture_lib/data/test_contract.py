"""The batch contract: each breach is named with its remedy, and sound batches are left alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lecture_lib.data import CONTRACTS, TensorLoader, check_contract, load_digits, shapes


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def classes_of(*shape: int, below: int = 3, seed: int = 0) -> Tensor:
    labels = torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))
    labels.view(-1)[:2] = torch.tensor([0, below - 1])  # never one class only
    return labels


def masked(labels: Tensor, value: int = -100) -> Tensor:
    return labels.index_fill(labels.ndim - 1, torch.tensor([labels.shape[-1] - 1]), value)


IMAGES, VECTORS, IDS = draw(16, 3, 8, 8), draw(16, 5), classes_of(16, 7, below=50)
LABELS, TARGETS = classes_of(16), classes_of(16, 4, below=2).float()
TAGS, MASKS = classes_of(16, 7), classes_of(16, 8, 8)

GOOD = {
    "images": ("classification", IMAGES, LABELS, draw(16, 3)),
    "vectors": ("classification", VECTORS, LABELS, draw(16, 3)),
    "bfloat16": ("classification", IMAGES.bfloat16(), LABELS, draw(16, 3).bfloat16()),
    "uint8-labels": ("classification", IMAGES, LABELS.to(torch.uint8), draw(16, 3)),
    "one-example": ("classification", IMAGES[:1], LABELS[:1], draw(1, 3)),
    "masked-classes": ("classification", IMAGES, LABELS.index_fill(0, torch.tensor([3]), -100), draw(16, 3)),
    "soft-labels": ("classification", VECTORS, draw(16, 3).softmax(1), draw(16, 3)),
    "pixels-0-to-1": ("classification", IMAGES.sigmoid(), LABELS, draw(16, 3)),
    "binary-pixels": ("classification", (IMAGES > 0).float(), LABELS, draw(16, 3)),
    "counts-as-vectors": ("classification", classes_of(16, 5, below=9).float(), LABELS, draw(16, 3)),
    "regression": ("regression", VECTORS, 1e6 * draw(16), draw(16)),
    "regression-column": ("regression", VECTORS, draw(16, 1), draw(16, 1)),
    "regression-on-series": ("regression", draw(16, 9, 4), draw(16, 2), None),
    "multi-label": ("multi-label", IMAGES, TARGETS, draw(16, 4)),
    "smoothed-targets": ("multi-label", VECTORS, TARGETS * 0.9 + 0.05, None),
    "tokens": ("sequence", IDS, TAGS, draw(16, 3, 7)),
    "int32-tokens": ("sequence", IDS.int(), TAGS, draw(16, 3, 7)),
    "masked-tokens": ("sequence", IDS, masked(TAGS), draw(16, 3, 7)),
    "vectors-in-time": ("sequence", draw(16, 7, 5), TAGS, draw(16, 3, 7)),
    "one-label-a-sequence": ("sequence", IDS, LABELS, draw(16, 3)),
    "as-many-classes-as-positions": ("sequence", IDS, classes_of(16, 7, below=7), draw(16, 7, 7)),
    "masks": ("segmentation", IMAGES, MASKS, draw(16, 3, 8, 8)),
    "masked-pixels": ("segmentation", IMAGES, masked(MASKS), draw(16, 3, 8, 8)),
}


@pytest.mark.parametrize(("task", "x", "y", "outputs"), GOOD.values(), ids=GOOD)
def test_a_sound_batch_is_left_alone(task, x, y, outputs):
    assert check_contract(task, x, y) == []
    assert check_contract(task, x, y, outputs) == []


@pytest.mark.parametrize(("task", "x", "y", "outputs"), GOOD.values(), ids=GOOD)
def test_a_sound_batch_is_one_that_torchs_loss_takes(task, x, y, outputs):
    """The oracle: what is called sound can be learned from."""
    if outputs is None:
        return
    loss = {"CrossEntropyLoss": F.cross_entropy, "MSELoss": F.mse_loss}.get(
        CONTRACTS[task].loss, F.binary_cross_entropy_with_logits
    )
    assert loss(outputs.float(), y).isfinite()


def test_a_mask_of_255_is_sound_when_it_is_what_the_loss_ignores():
    assert check_contract("segmentation", IMAGES, masked(MASKS, 255), draw(16, 3, 8, 8), ignore_index=255) == []


NAN = VECTORS.clone()
NAN[3, 1] = torch.nan
COLUMN = VECTORS.clone()
COLUMN[:, 2] = 1000 + 3 * COLUMN[:, 2]
PIXELS = (IMAGES.sigmoid() * 255).round()
# the lecture's five, then the others: task, inputs, labels, outputs, classes, (item, kind), part of the remedy
LECTURE = {
    "missing-batch-dimension": ("classification", IMAGES[0], LABELS[0], None, 3, ("inputs", "shape"), "unsqueeze(0)"),
    "raw-uint8-pixels": ("classification", PIXELS.byte(), LABELS, None, 3, ("inputs", "dtype"), "x.float() / 255"),
    "values-in-0-255": ("classification", PIXELS, LABELS, None, 3, ("inputs", "range"), "Divide pixels"),
    "one-hot-labels": ("classification", IMAGES, F.one_hot(LABELS, 3), None, 3, ("labels", "shape"), "argmax"),
    "float-labels": ("classification", IMAGES, LABELS.float(), None, 3, ("labels", "dtype"), "y.long()"),
}
OTHERS = {
    "one-vector": ("classification", VECTORS[0], LABELS[0], None, 3, ("inputs", "shape"), "unsqueeze(0)"),
    "one-number": ("regression", VECTORS[0, 0], LABELS[0], None, None, ("inputs", "shape"), "collation"),
    "float-one-hot": ("classification", IMAGES, F.one_hot(LABELS, 3).float(), None, 3, ("labels", "shape"), "argmax"),
    "no-channels": ("classification", IMAGES[:, 0], LABELS, None, 3, ("inputs", "shape"), "unsqueeze(1)"),
    "channels-last": ("classification", IMAGES.movedim(1, 3), LABELS, None, 3, ("inputs", "shape"), "permute"),
    "column-labels": ("classification", IMAGES, LABELS[:, None], None, 3, ("labels", "shape"), "squeeze(1)"),
    "fewer-soft-labels": (
        "classification",
        VECTORS,
        draw(9, 3).softmax(1),
        None,
        3,
        ("labels", "shape"),
        "every example",
    ),
    "fewer-labels": ("classification", IMAGES, LABELS[:9], None, 3, ("labels", "shape"), "every example"),
    "int32-labels": ("classification", IMAGES, LABELS.int(), None, 3, ("labels", "dtype"), "y.long()"),
    "from-1": ("classification", IMAGES, LABELS + 1, None, 3, ("labels", "range"), "Subtract 1"),
    "beyond-outputs": ("classification", IMAGES, LABELS + 1, draw(16, 3), None, ("labels", "range"), "Subtract 1"),
    "negative": ("classification", IMAGES, LABELS - 1, None, None, ("labels", "range"), "from 0"),
    "all-ignored": ("classification", IMAGES, LABELS * 0 - 100, None, 3, ("labels", "range"), "masked"),
    "one-class": ("classification", IMAGES[:8], LABELS[:8] * 0, None, 2, ("labels", "one class"), "Shuffle"),
    "float64": ("classification", VECTORS.double(), LABELS, None, 3, ("inputs", "dtype"), "x.float()"),
    "nan": ("classification", NAN, LABELS, None, 3, ("inputs", "finite"), "missing"),
    "inf": ("regression", VECTORS / 0, LABELS.float(), None, None, ("inputs", "finite"), "missing"),
    "constant": ("classification", torch.zeros(16, 5), LABELS, None, 3, ("inputs", "constant"), "reading"),
    "same-rows": ("sequence", IDS[:1].repeat(16, 1), TAGS, None, 3, ("inputs", "constant"), "reading"),
    "unscaled-column": ("regression", COLUMN, draw(16), None, None, ("inputs", "range"), "training set"),
    "empty": ("classification", VECTORS[:0], LABELS[:0], None, 3, ("inputs", "shape"), "collation"),
    "broadcast": ("regression", VECTORS, draw(16), draw(16, 1), None, ("labels", "shape"), "squeeze"),
    "nan-target": ("regression", VECTORS, NAN[:, 1], None, None, ("labels", "finite"), "missing"),
    "integer-target": ("regression", VECTORS, LABELS, None, None, ("labels", "dtype"), "y.float()"),
    "minus-one": ("multi-label", VECTORS, TARGETS * 2 - 1, None, None, ("labels", "range"), "0 and 1"),
    "integer-targets": ("multi-label", VECTORS, TARGETS.long(), None, None, ("labels", "dtype"), "y.float()"),
    "float-ids": ("sequence", IDS.float(), TAGS, None, 3, ("inputs", "dtype"), "x.long()"),
    "negative-ids": ("sequence", IDS - 5, TAGS, None, 3, ("inputs", "range"), "padding"),
    "classes-last": ("sequence", IDS, TAGS, draw(16, 7, 3), None, ("outputs", "shape"), "transpose(1, 2)"),
    "mask-channel": ("segmentation", IMAGES, MASKS[:, None], None, 3, ("labels", "shape"), "squeeze(1)"),
    "saved-mask": ("segmentation", IMAGES, (MASKS > 0) * 255, None, None, ("labels", "range"), "ignore_index=255"),
    "uint8-mask": ("segmentation", IMAGES, MASKS.byte(), None, 3, ("labels", "dtype"), "y.long()"),
    "small-outputs": ("segmentation", IMAGES, MASKS, draw(16, 3, 4, 4), None, ("outputs", "shape"), "last layer"),
    "flat-outputs": ("classification", IMAGES, LABELS, draw(16), None, ("outputs", "shape"), "last layer"),
    "decisions": ("classification", IMAGES, LABELS, LABELS, None, ("outputs", "dtype"), "argmax"),
    "nan-outputs": ("classification", IMAGES, LABELS, draw(16, 3) * torch.nan, None, ("outputs", "finite"), "rate"),
}


BROKEN = {**LECTURE, **OTHERS}


@pytest.mark.parametrize(("task", "x", "y", "outputs", "classes", "named", "remedy"), BROKEN.values(), ids=BROKEN)
def test_a_breach_is_named_with_its_remedy(task, x, y, outputs, classes, named, remedy):
    found = check_contract(task, x, y, outputs, classes=classes)
    (violation,) = [one for one in found if (one.item, one.kind) == named]
    assert remedy in violation.remedy
    for part in (violation.item, violation.found, violation.wanted, violation.remedy):
        assert part in str(violation)


@pytest.mark.parametrize("name", ["raw-uint8-pixels", "values-in-0-255", "float-labels", "from-1", "broadcast"])
def test_one_breach_gives_one_violation(name):
    task, x, y, outputs, classes, *_ = BROKEN[name]
    assert len(check_contract(task, x, y, outputs, classes=classes)) == 1


def test_several_breaches_are_all_named():
    found = check_contract("classification", PIXELS.byte(), LABELS.float() + 1, classes=3)
    assert [(one.item, one.kind) for one in found] == [
        ("inputs", "dtype"), ("labels", "dtype"), ("labels", "range"),
    ]  # fmt: skip


def test_no_alarm_on_batches_of_digits_and_shapes():
    digits = load_digits()
    for seed in range(3):
        for x, y in TensorLoader(digits.images, digits.labels, batch_size=32, shuffle=True, seed=seed):
            if len(x) == 32:
                assert check_contract("classification", x, y, classes=10) == []
    drawn = shapes(512, seed=0)
    for x, y in TensorLoader(drawn.images, drawn.labels, batch_size=64):
        assert check_contract("classification", x, y) == []


def test_nothing_is_changed_and_gradients_are_allowed():
    x, weights = VECTORS.clone(), torch.ones(5, 3, requires_grad=True)
    assert check_contract("classification", x, LABELS, x @ weights) == []
    assert torch.equal(x, VECTORS)
    assert weights.grad is None


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"no contract for 'ranking'.*classification, regression"):
        check_contract("ranking", VECTORS, LABELS)
    with pytest.raises(ValueError, match="classes is 0"):
        check_contract("classification", VECTORS, LABELS, classes=0)
    with pytest.raises(TypeError, match=r"labels are of type list.*as_tensor"):
        check_contract("classification", VECTORS, [0] * 16)


def test_the_table_has_a_row_for_each_task_with_every_field_filled():
    assert list(CONTRACTS) == ["classification", "regression", "multi-label", "sequence", "segmentation"]
    assert all(all(vars(row).values()) for row in CONTRACTS.values())
