"""One batch through the model and the loss, with errors that say what about the batch does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..types import Unpack
from .structures import is_list_of_examples, map_tensors, tensors_of

LABEL_KEYS = ("labels", "label", "targets", "target", "y")
ID_KEYS = ("ids", "example_ids", "id")


@dataclass(frozen=True)
class Batch:
    """What a model learns from in one forward pass.

    Attributes:
        inputs: a tensor, or a tuple or dict of arguments for the model.
        labels: what the loss compares the outputs with: a tensor, or a structure of them.
        ids: which examples these are, if the loader says so; for messages.
        number: counted from 1 in each epoch; for messages.
        stands_in: whether it counts for nothing, see `sharing.Share`.

    """

    inputs: Any
    labels: Any
    ids: Any
    number: int
    stands_in: bool = False

    @property
    def examples(self) -> int:
        """How many examples it holds: the length of the first tensor in the labels, or of labels in a list."""
        if isinstance(self.labels, list):
            inputs = next(tensors_of(self.inputs), None)
            if isinstance(inputs, Tensor) and inputs.ndim and is_list_of_examples(self.labels, len(inputs)):
                return len(self.labels)
        tensor = next(tensors_of(self.labels))
        if getattr(tensor, "ndim", 1) == 0:
            raise ValueError(
                f"batch {self.number}: the labels are a single number; they have one entry for each example. A Dataset "
                "gives single examples: wrap it in DataLoader(dataset, batch_size=64)."
            )
        return len(tensor)

    def to(self, device: torch.device) -> Batch:
        """The same batch with its tensors on the device."""
        if _plain(self.inputs, self.labels) and self.inputs.device == self.labels.device == device:
            return self  # a copy at each step is what a small step notices
        inputs, labels = (map_tensors(part, lambda tensor: tensor.to(device)) for part in (self.inputs, self.labels))
        return replace(self, inputs=inputs, labels=labels)


def unpack(batch: Any, number: int, rule: Unpack | None = None, loader: object = None) -> Batch:
    """The inputs and labels of a batch as the loader gave it.

    Args:
        batch: (inputs, labels); several inputs and labels (a, b, labels); or a dict of the model's arguments with the
            labels under "labels", "label", "targets", "target" or "y", and maybe "ids".
        number: counted from 1, for messages.
        rule: for other structures: batch -> inputs, labels.
        loader: who gave it; its attribute `ids`, if there, names the examples of its latest batch.

    Raises:
        TypeError, ValueError: there are no inputs and labels in it.

    """
    ids, stands_in = getattr(loader, "ids", None), getattr(loader, "stands_in", False)
    if rule is None and isinstance(batch, tuple | list) and len(batch) == 2 and _plain(*batch):
        return Batch(batch[0], batch[1], ids, number, stands_in)  # the common case, for this runs at each step
    if rule is not None:
        inputs, labels = _by_rule(batch, number, rule)
    elif isinstance(batch, Mapping):
        inputs, labels = _from_mapping(batch, number)
        ids = next((batch[key] for key in ID_KEYS if key in batch), ids)
    elif isinstance(batch, tuple | list) and len(batch) >= 2:
        inputs, labels = batch[0] if len(batch) == 2 else tuple(batch[:-1]), batch[-1]
    else:
        length = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
        raise TypeError(
            f"batch {number} is a {type(batch).__name__}{length}; a batch is a pair (inputs, labels) of tensors, a "
            "longer tuple that ends with the labels, or a dict with 'labels'. For data in memory pass "
            "TensorLoader(inputs, labels, batch_size=64); for other structures unpack=..."
        )
    for name, part in (("inputs", inputs), ("labels", labels)):
        if next(tensors_of(part), None) is None:
            raise TypeError(
                f"batch {number}: the {name} are a {type(part).__name__}, not a tensor. Use torch.as_tensor; a Dataset "
                "goes into a DataLoader first."
            )
    unpacked = Batch(inputs, labels, ids, number, stands_in)
    _ = unpacked.examples  # refuses labels that are a single number
    return unpacked


def forward(model: nn.Module, batch: Batch) -> Any:
    """The model's outputs. A failure is explained afterwards: a model may well convert its inputs itself."""
    inputs = batch.inputs
    try:
        if isinstance(inputs, Tensor):
            return model(inputs)
        return model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
    except Exception as error:
        x = next(tensors_of(inputs))
        if "more than 1 value per channel" in str(error) and any(isinstance(m, _BatchNorm) for m in model.modules()):
            raise ValueError(
                f"batch {batch.number}: it holds {len(x)} example, of which batch normalisation in train mode can take "
                "no variance. Pass drop_last=True to the loader, or a batch_size that leaves no single one."
            ) from error
        own = next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), x.dtype)
        # Only a RuntimeError: whole numbers that an embedding cannot look up are an IndexError.
        if isinstance(error, RuntimeError) and x.dtype != own:
            remedy = "x.float() / 255, for pixels from 0 to 255" if x.dtype == torch.uint8 else f"x.to({own})"
            raise ValueError(
                f"batch {batch.number}: inputs have dtype {name_of(x.dtype)}; the model's parameters are "
                f"{name_of(own)}. Pass {remedy}."
            ) from error
        error.add_note(f"batch {batch.number}: inputs {describe(inputs)}.")
        raise


def describe(value: object) -> str:
    """Shape and dtype of a tensor, or of the tensors in a structure."""
    if isinstance(value, Tensor):
        return f"of shape {list(value.shape)} and dtype {name_of(value.dtype)}"
    parts = ", ".join(f"{list(tensor.shape)} {name_of(tensor.dtype)}" for tensor in tensors_of(value))
    return f"of type {type(value).__name__}" + (f" ({parts})" if parts else "")


def name_of(dtype: torch.dtype) -> str:
    """'float32' for torch.float32."""
    return str(dtype).removeprefix("torch.")


def _plain(inputs: Any, labels: Any) -> bool:
    return isinstance(inputs, Tensor) and isinstance(labels, Tensor) and labels.ndim > 0


def _by_rule(batch: Any, number: int, rule: Unpack) -> tuple[Any, Any]:
    parts = rule(batch)
    if not isinstance(parts, tuple | list) or len(parts) != 2:
        raise TypeError(
            f"batch {number}: unpack returned {describe(parts)}; it returns the pair (inputs, labels). Is a `return` "
            "missing?"
        )
    return parts[0], parts[1]


def _from_mapping(batch: Mapping[Any, Any], number: int) -> tuple[dict[Any, Any], Any]:
    label_keys = [key for key in LABEL_KEYS if key in batch]
    if len(label_keys) != 1:
        raise ValueError(
            f"batch {number} is a dict with {sorted(map(str, batch))}; the labels are expected under exactly one of "
            f"{', '.join(LABEL_KEYS)}. Rename a key, or pass unpack=lambda batch: (inputs, labels)."
        )
    skipped = {label_keys[0], *ID_KEYS}
    return {key: value for key, value in batch.items() if key not in skipped}, batch[label_keys[0]]
