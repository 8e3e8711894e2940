"""03d-mixup: mixup and CutMix with a given share, partners and centre."""

from __future__ import annotations

from typing import Any

import torch

from ..question import Functions, Inputs, PublicQuestion
from .float64 import in_float64


def _batch(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor, int, float, torch.Tensor]:
    images, labels, order = (torch.tensor(inputs[name]) for name in ("images", "labels", "order"))
    return images, labels, inputs["classes"], inputs["share"], order


def _mixup(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    mixed, targets = functions["mixup"](*_batch(inputs), training=bool(inputs["training"]))
    return {"inputs": in_float64(mixed), "targets": in_float64(targets)}


def _cutmix(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    centre = tuple(map(int, inputs["centre"]))
    images, targets = functions["cutmix"](*_batch(inputs), centre, training=bool(inputs["training"]))
    return {"images": in_float64(images), "targets": in_float64(targets)}


QUESTION = PublicQuestion(
    id="03d-mixup",
    title="mixed images and mixed labels",
    functions=("mixup", "cutmix"),
    may_overwrite=("mixup", "cutmix"),
    parts={"mixup": _mixup, "cutmix": _cutmix},
    ready_made=("torchvision.transforms.v2.MixUp", "torchvision.transforms.v2.CutMix"),
)
