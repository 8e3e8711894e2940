"""03a-dataset: the two methods of a data set of image files, and a loader for training or for validation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..question import Misconception, PublicCase, PublicQuestion
from .dataset_parts import PARTS


def _bits(number: int) -> np.ndarray:
    """A colour: red, green and blue are the three bits of a number from 0 to 7."""
    return np.array([number >> 2 & 1, number >> 1 & 1, number & 1])


def _file(number: int) -> np.ndarray:
    """An RGB file [1, 2, 3]: a pixel of that colour, then a white one."""
    return np.stack([_bits(number), _bits(7)])[None].astype(np.uint8) * 255


def _tensor(number: int) -> np.ndarray:
    """What that file should become, [3, 1, 2]."""
    return np.array([[[bit, 1]] for bit in _bits(number)], dtype=np.float32)


# A grey file, one with transparency, and files in colour.
_GREY, _CLEAR = np.array([[0, 255]], dtype=np.uint8), np.array([[[255, 0, 0, 9], [255, 255, 255, 99]]], dtype=np.uint8)
_COLOURS = (0, 4, 1, 2, 3, 5, 6, 7)
_INPUTS: dict[str, Any] = {
    "files": [_GREY, _CLEAR, *map(_file, _COLOURS[2:])],
    "other files": list(map(_file, reversed(_COLOURS))),
    "labels": [3, 1, 4, 15, 9, 2, 6, 5],
    "asked": [1, 4, 1, 0],
    "factor": 10.0,
    "batch_size": 3,
    "seed": 5,
}
_ASKED = [_tensor(4), _tensor(3), _tensor(4), _tensor(0)]
_YES = {
    "shuffled": "yes",
    "another order in the second epoch": "yes",
    "the same seed, the same order": "yes",
    "another seed, another order": "yes",
}
_BATCHES = [np.array([3, 1, 4]), np.array([15, 9, 2]), np.array([6, 5])]


def _as_stored(index: int) -> np.ndarray:
    """A public file as it is, channels first: 1, 3 or 4 of them."""
    pixels = np.atleast_3d(_INPUTS["files"][index])
    return (pixels.transpose(2, 0, 1) / 255).astype(np.float32)


def _scaled(calls: list[int]) -> dict[str, Any]:
    return {"transform": {"images": [image * 10 + call for image, call in zip(_ASKED, calls, strict=True)]}}


QUESTION = PublicQuestion(
    id="03a-dataset",
    title="a data set of image files and its loader",
    functions=("ImageFiles", "make_loader"),
    parts=PARTS,
    ready_made=("lecture_lib.data.TinyImageDataset", "lecture_lib.data.images.TinyImageDataset"),
    cases=(
        PublicCase(
            name="eight files: one grey, one transparent",
            inputs=_INPUTS,
            expected={
                "items": {
                    "length": 8,
                    "labels": np.array([1, 9, 1, 3]),
                    "labels' dtype": "torch.int64",
                    "images": _ASKED,
                },
                "transform": _scaled([1, 2, 3, 4])["transform"],
                "validation": {
                    "batch sizes": [3, 3, 2],
                    "in the files' order": "yes",
                    "labels": _BATCHES,
                    "images": [(batch + 0.5).astype(np.float32) for batch in _BATCHES],
                },
                "training": {"batch sizes": [3, 3], **_YES},
                "workers": {
                    "refused": "",
                    "copies": 2,
                    "workers": 1,
                    "images": [_tensor(4), _tensor(6), _tensor(0), _tensor(4), _tensor(7)],
                },
            },
            mistakes={
                "not-rgb": {"items": {"images": [*map(_as_stored, (1, 4, 1, 0))]}},
                "channels-last": {"items": {"images": [image.transpose(1, 2, 0) for image in _ASKED]}},
                "not-scaled": {"items": {"images": [255 * image for image in _ASKED]}},
                "ignores-index": {"items": {"images": [_tensor(number) for number in (0, 4, 1, 2)]}},
                "no-transform": {"transform": {"images": _ASKED}},
                "transform-once": _scaled([1, 2, 1, 3]),
                "validation-shuffled": {"validation": {"in the files' order": "no"}},
                "validation-drops": {"validation": {"labels": _BATCHES[:2]}},
                "last-batch-kept": {"training": {"batch sizes": [3, 3, 2], "shuffled": "yes"}},
                "never-shuffled": {"training": {"shuffled": "no"}},
                "one-order": {"training": {"shuffled": "yes", "another order in the second epoch": "no"}},
                "seed-unused": {"training": {"shuffled": "yes", "the same seed, the same order": "no"}},
                "not-picklable": {"workers": {"copies": 0}},
                "shared-state": {"workers": {"images": [_tensor(4), _tensor(4), _tensor(0), _tensor(4), _tensor(0)]}},
                "constant-answer": {"items": {"images": [np.zeros((3, 1, 2), dtype=np.float32)] * 4}},
            },
        ),
    ),
    misconceptions={
        "not-rgb": Misconception(
            "a grey file gave one channel and a transparent one four: the file's own channels were kept",
            "what the image is before it becomes a tensor, and which number of channels a model can expect",
        ),
        "channels-last": Misconception(
            "the image came as [H, W, 3]; PyTorch's layers want the channels first",
            "the order of the dimensions after the conversion from pixels",
        ),
        "not-scaled": Misconception(
            "values are still between 0 and 255",
            "the batch contract: what range a pixel should have",
        ),
        "ignores-index": Misconception(
            "items came one after the other, whatever index was asked for; a loader asks in any order, and twice",
            "what __getitem__ does with its index",
        ),
        "constant-answer": Misconception("every image is the same", "whether the file at that index is read"),
        "no-transform": Misconception(
            "the transform was not applied", "what __getitem__ does when a transform was given"
        ),
        "transform-once": Misconception(
            "an item that was asked for twice was transformed once: a random transform would be frozen",
            "what is kept between two calls",
        ),
        "validation-shuffled": Misconception(
            "the validation loader does not keep the files' order",
            "which of the loader's settings depend on `training`",
        ),
        "validation-drops": Misconception(
            "the validation loader leaves examples out, and the score would not be that of the whole set",
            "the last, shorter batch, when `training` is False",
        ),
        "last-batch-kept": Misconception(
            "the training loader gives a last batch that is shorter than the others",
            "the loader's setting for a last batch that is not full",
        ),
        "never-shuffled": Misconception(
            "the training loader gives the examples in the files' order",
            "which of the loader's settings depend on `training`",
        ),
        "one-order": Misconception(
            "every epoch has the same order",
            "when the order is drawn: with the loader, or whenever an epoch begins",
        ),
        "seed-unused": Misconception(
            "two loaders with the same seed gave different orders",
            "which generator the order is drawn from, and who else draws from it",
        ),
        "not-picklable": Misconception(
            "the data set cannot be copied to a worker process: something in it does not survive pickle",
            "what the data set stores: lambdas, local functions and open files cannot travel",
        ),
        "shared-state": Misconception(
            "two data sets with different files gave the same image: they share what one of them stored",
            "what belongs to the class or to the module instead of to `self`",
        ),
    },
)
