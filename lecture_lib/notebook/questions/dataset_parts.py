"""How 03a-dataset is observed: on image files that are written for it, with every loader run in this process."""

from __future__ import annotations

import pickle
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from ..._common.randomness import preserved_random_streams
from ..question import Functions, Inputs
from ..worker_copies import worker_copies


class _CountedScale:
    """A transform that tells how often it was called: the number of calls is added to the scaled image."""

    def __init__(self, factor: float) -> None:
        self.factor, self.calls = factor, 0

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return image * self.factor + self.calls


@contextmanager
def _opened(functions: Functions, inputs: Inputs, files: str = "files", transform: Any = None) -> Iterator[Any]:
    """The student's data set over image files that are there as long as the context is."""
    from PIL import Image

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        paths = [str(Path(folder) / f"{place}.png") for place in range(len(inputs[files]))]
        for path, pixels in zip(paths, inputs[files], strict=True):
            Image.fromarray(pixels).save(path)
        yield functions["ImageFiles"](paths, list(inputs["labels"]), transform)


def _items(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    with _opened(functions, inputs) as dataset:
        images, labels = zip(*(dataset[index] for index in inputs["asked"]), strict=True)
        batch = default_collate(list(labels))  # as a loader puts them together
        return {"length": len(dataset), "labels": batch, "labels' dtype": str(batch.dtype), "images": images}


def _transform(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    with _opened(functions, inputs, transform=_CountedScale(inputs["factor"])) as dataset:
        return {"images": [dataset[index][0] for index in inputs["asked"]]}


def _examples(inputs: Inputs) -> list[tuple[torch.Tensor, int]]:
    """A data set of its own for the loader, so that it is seen apart from the files: a list has both methods."""
    return [(torch.full((1, 2), label + 0.5), label) for label in inputs["labels"]]


def _epoch(loader: Any) -> dict[str, list[Any]]:
    """The labels of each batch, and the first entry of each image, which tells its label."""
    batches = list(loader)
    return {"labels": [y for _, y in batches], "images": [x.reshape(len(x), -1)[:, 0] for x, _ in batches]}


def _flat(labels: list[torch.Tensor]) -> list[int]:
    return [int(label) for batch in labels for label in batch]


def _validation(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    loader = functions["make_loader"](_examples(inputs), inputs["batch_size"], False, inputs["seed"])
    seen = _epoch(loader)
    flat = _flat(seen["labels"])
    return {
        "batch sizes": [len(batch) for batch in seen["labels"]],
        "in the files' order": "yes" if flat == list(inputs["labels"])[: len(flat)] else "no",
        **seen,
    }


def _orders(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Two epochs of a training loader, of another with the same seed and of one with another seed."""
    seen: dict[str, Any] = {}
    with preserved_random_streams():
        for ambient, (name, seed) in enumerate([("one", 0), ("again", 0), ("other", 1)]):
            loader = functions["make_loader"](_examples(inputs), inputs["batch_size"], True, inputs["seed"] + seed)
            # Whatever else draws numbers in between must not change the loader's order.
            torch.manual_seed(ambient)
            np.random.seed(ambient)
            random.seed(ambient)
            seen[name] = [_epoch(loader) for _ in range(2)]
    return seen


def _training(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """What `_orders` shows, in words: a shuffled order has no expected value of its own."""
    shown = _orders(functions, inputs)
    seen = {name: [_flat(epoch["labels"]) for epoch in shown[name]] for name in shown}
    first = seen["one"][0]
    facts = {
        "shuffled": first != list(inputs["labels"])[: len(first)],
        "another order in the second epoch": seen["one"][0] != seen["one"][1],
        "the same seed, the same order": seen["one"] == seen["again"],
        "another seed, another order": seen["one"] != seen["other"],
    }
    sizes = [len(batch) for batch in shown["one"][0]["labels"]]
    return {"batch sizes": sizes, **{name: "yes" if holds else "no" for name, holds in facts.items()}}


def _workers(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Two data sets at once, and copies of the first as two workers would get them; no process is started."""
    first, last = inputs["asked"][0], inputs["asked"][-1]
    with _opened(functions, inputs) as one, _opened(functions, inputs, "other files") as other:
        loader = functions["make_loader"](one, inputs["batch_size"], True, inputs["seed"], workers=1)
        seen = {"refused": "", "copies": 2, "workers": loader.num_workers}
        images = [one[first][0], other[first][0]]
        try:
            copies = worker_copies(one, seen["copies"])
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            return {**seen, "refused": f"{type(error).__name__}: {error}", "copies": 0, "images": images}
        images += [copies[0][last][0], copies[1][first][0], other[last][0]]
    return {**seen, "images": images}


PARTS = {
    "items": _items,
    "transform": _transform,
    "validation": _validation,
    "training": _training,
    "orders": _orders,
    "workers": _workers,
}
