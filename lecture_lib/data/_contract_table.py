"""The batch contract of each task, as a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contract:
    """A row of the table. B counts examples, T positions, C channels, K classes or labels.

    Attributes:
        task: its name in check_contract.
        inputs: shapes, and what the entries are.
        inputs_dtype: as text.
        outputs: of the model, as the loss wants them.
        labels: shapes.
        labels_dtype: as text.
        loss: in torch.nn.
        labels_range: of the labels that count.
        inputs_range: of the inputs.
        common_bug: what is met most often.

    """

    task: str
    inputs: str
    inputs_dtype: str
    outputs: str
    labels: str
    labels_dtype: str
    loss: str
    labels_range: str
    inputs_range: str
    common_bug: str


SCALED = "scaled, about mean 0 and deviation 1"
_CLASSES = "0 to K - 1, or ignore_index"
CONTRACTS = {
    row.task: row
    for row in (
        Contract(
            "classification",
            "[B, C, H, W] images or [B, d] vectors",
            "float32 or bfloat16",
            "[B, K] logits",
            "[B]",
            "int64",
            "CrossEntropyLoss",
            _CLASSES,
            SCALED,
            "no batch dimension; raw uint8 pixels; values still in 0 to 255; one-hot labels; float labels",
        ),
        Contract(
            "regression",
            "[B, ...]",
            "float32 or bfloat16",
            "the labels' shape",
            "[B] or [B, d]",
            "float32",
            "MSELoss",
            "finite",
            SCALED,
            "outputs [B, 1] against labels [B]: the difference is [B, B]",
        ),
        Contract(
            "multi-label",
            "[B, C, H, W] images or [B, d] vectors",
            "float32 or bfloat16",
            "[B, K] logits",
            "[B, K]",
            "float32",
            "BCEWithLogitsLoss",
            "0 to 1",
            SCALED,
            "integer targets; targets of -1 and 1",
        ),
        Contract(
            "sequence",
            "[B, T] token ids or [B, T, d] vectors",
            "int64 ids, or float32 or bfloat16",
            "[B, K, T] logits, or [B, K] with one label a sequence",
            "[B, T] or [B]",
            "int64",
            "CrossEntropyLoss",
            _CLASSES,
            "ids from 0; vectors " + SCALED,
            "outputs [B, T, K]; padding that counts as a label",
        ),
        Contract(
            "segmentation",
            "[B, C, H, W] images",
            "float32 or bfloat16",
            "[B, K, H, W] logits",
            "[B, H, W]",
            "int64",
            "CrossEntropyLoss",
            _CLASSES,
            SCALED,
            "masks [B, 1, H, W]; masks of 0 and 255",
        ),
    )
}

REMEDIES = {
    "collation": "Look at the collation and the reshaping before it",
    "batch dimension": "Add the batch dimension: x.unsqueeze(0)",
    "channel dimension": "Add the channel dimension: x.unsqueeze(1)",
    "channels last": "Call x.permute(0, 3, 1, 2)",
    "ids": "Call x.long() on ids; vectors have shape [B, T, d]",
    "pixels": "Call x.float() / 255, then subtract the mean and divide by the deviation",
    "inputs dtype": "Call x.float(), then scale",
    "constant": "Look at the reading and the scaling",
    "negative id": "Give padding an id of its own",
    "whole numbers": "Divide pixels by their maximum, 255 for 8 bits",
    "unscaled": "Subtract the training set's mean and divide by its deviation",
    "column": "Call y.squeeze(1)",
    "one-hot": "Call y.argmax(dim=1) on one-hot labels",
    "labels shape": "Give every example its labels; look at squeeze and unsqueeze",
    "int64": "Call y.long()",
    "float32": "Call y.float()",
    "no label": "Leave the batch out, or look at how labels are masked",
    "one class": "Shuffle; look at how the data are sorted",
    "targets": "Map the targets to 0 and 1",
    "mask": "Pass ignore_index=255 where 255 means no label; call y // 255 where it means class 1",
    "from 1": "Subtract 1 from labels that count from 1",
    "classes": "Number the classes from 0; labels that are left out need ignore_index",
    "outputs shape": "Look at the last layer",
    "classes last": "Call outputs.transpose(1, 2)",
    "outputs dtype": "Return the scores, without argmax",
    "outputs finite": "Look at the weights and the learning rate",
    "finite": "Look at how missing values are read",
}
