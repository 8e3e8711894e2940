"""03a-dataset: the two methods of a data set of image files, and a loader for training or for validation.

It is observed on image files that are written for it, with every loader run in this process.
"""

from __future__ import annotations

import pickle
import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from ..compare import agree
from ..observe import plain
from ..question import Functions, Inputs, PublicQuestion
from ..worker_copies import worker_copies


class _CountedScale:
    """A transform that scales the image in place, and returns another one: the number of calls so far is added."""

    def __init__(self, factor: float) -> None:
        self.factor, self.calls = factor, 0

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return image.mul_(self.factor) + self.calls


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
        return {
            "length": len(dataset),
            "labels": batch,
            "labels' dtype": str(batch.dtype),
            "images": images,
            "tensors": _yes(all(isinstance(image, torch.Tensor) for image in images)),
        }


def _transform(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    with _opened(functions, inputs, transform=_CountedScale(inputs["factor"])) as dataset:
        return {"images": [dataset[index][0].clone() for index in inputs["asked"]]}


class _Examples:
    """A data set of its own for the loader, so that it is seen apart from the files.

    The first entry of an image tells its label, and the second one how often the item has been asked for.
    """

    def __init__(self, labels: list[int]) -> None:
        self._labels, self._requests = labels, [0] * len(labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        label = self._labels[index]
        self._requests[index] += 1
        return torch.tensor([[label + 0.5, float(self._requests[index])]]), label


def _epoch(loader: Any) -> dict[str, Any]:
    """The sizes of the batches, every label, and the two entries of every image."""
    batches = list(loader)
    return {
        "sizes": np.array([len(labels) for _, labels in batches]),
        "labels": torch.cat([labels for _, labels in batches]),
        "images": torch.cat([images.reshape(len(images), -1)[:, 0] for images, _ in batches]),
        "requests": torch.cat([images.reshape(len(images), -1)[:, -1] for images, _ in batches]),
    }


def _asked_again(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether no item of the second epoch is one that was made for the first."""
    before = dict(zip(first["labels"].tolist(), first["requests"].tolist(), strict=True))
    after = zip(second["labels"].tolist(), second["requests"].tolist(), strict=True)
    return all(requests > before.get(label, 0) for label, requests in after)


def _validation(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    loader = functions["make_loader"](_Examples(list(inputs["labels"])), inputs["batch_size"], False, inputs["seed"])
    epoch, second = _epoch(loader), _epoch(loader)
    flat = epoch["labels"].tolist()
    return {
        **{name: epoch[name] for name in ("sizes", "labels", "images")},
        "in the files' order": _yes(flat == list(inputs["labels"])[: len(flat)]),
        "asked for in every epoch": _yes(_asked_again(epoch, second)),
    }


def _orders(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Epochs of a training loader, of a second one with its seed that is made in between, and of another seed's."""
    loaders: dict[str, Any] = {}
    epochs: dict[str, list[Any]] = {"one": [], "again": [], "other": []}
    for ambient, name in enumerate(["one", "again", "other", "one", "again", "other"]):
        if name not in loaders:
            seed = inputs["seed"] + (name == "other")
            loaders[name] = functions["make_loader"](
                _Examples(list(inputs["labels"])), inputs["batch_size"], True, seed
            )
        # Whatever else draws numbers in between must not change a loader's order.
        torch.manual_seed(ambient)
        np.random.seed(ambient)
        random.seed(ambient)
        epochs[name].append(_epoch(loaders[name]))
    return epochs


def _training(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """What `_orders` shows, in words."""
    return order_facts(plain(_orders(functions, inputs)), inputs)


def order_facts(epochs: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """What the training loaders' epochs show: a shuffled order has no expected value of its own."""
    labels, size = list(inputs["labels"]), inputs["batch_size"]
    every = [epoch for name in ("one", "again", "other") for epoch in epochs[name]]
    places = [[labels.index(label) if label in labels else -1 for label in epoch["labels"].tolist()] for epoch in every]
    first, again, other_seed = places[:2], places[2:4], places[4:]
    # By chance, two neighbours in the files are also neighbours in about two places of an epoch.
    runs = [sum(abs(b - a) == 1 for a, b in pairwise(order)) >= 0.8 * (len(order) - 1) for order in places]
    left_out = set(range(len(labels) - len(labels) % size, len(labels)))
    sizes = [epoch["sizes"].tolist() for epoch in every]
    return {
        "batch sizes": sizes[0]
        if all(batch_sizes == sizes[0] for batch_sizes in sizes)
        else "not the same in every epoch",
        "each example once": _yes(all(len(set(order)) == len(order) and -1 not in order for order in places)),
        "images with their labels": _yes(
            all(agree(epoch["images"], np.float32(epoch["labels"] + 0.5), 1e-5) for epoch in every)
        ),
        "asked for in every epoch": _yes(all(_asked_again(*epochs[name]) for name in ("one", "again", "other"))),
        "shuffled": _yes(not any(runs)),
        "another order in the second epoch": _yes(first[0] != first[1]),
        "the same seed, the same order": _yes(first == again),
        "another seed, another order": _yes(first != other_seed),
        "the last files come too": _yes(not left_out or any(left_out & set(order) for order in places)),
    }


def _workers(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    """Two data sets at once, and copies of the first as two workers would get them; no process is started."""
    first, last = inputs["asked"][0], inputs["asked"][-1]
    with _opened(functions, inputs) as dataset, _opened(functions, inputs, "other files") as second:
        workers = [functions["make_loader"](dataset, 1, train, 0, workers=1).num_workers for train in (True, False)]
        facts: dict[str, Any] = {"refused": "", "copies": 2, "workers": workers}
        # The second set is opened before the first is read: files kept in a class would now be those of the second.
        images = [dataset[first][0], second[first][0]]
        try:
            copies = worker_copies(dataset, facts["copies"])
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            return {**facts, "refused": f"{type(error).__name__}: {error}", "copies": 0, "images": images}
        images += [copies[0][last][0], copies[1][first][0], second[last][0]]
    return {**facts, "images": images, **shared_fact(images)}


def shared_fact(images: Any) -> dict[str, str]:
    """Whether two data sets with different files show the same image, in places where one shows different ones."""
    first, second, last = (np.asarray(image) for image in images[:3])
    return {"shared": _yes(agree(second, first, 1e-5) and not agree(last, first, 1e-5))}


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


QUESTION = PublicQuestion(
    id="03a-dataset",
    title="a data set of image files and its loader",
    functions=("ImageFiles", "make_loader"),
    parts={
        "items": _items,
        "transform": _transform,
        "validation": _validation,
        "training": _training,
        "orders": _orders,
        "workers": _workers,
    },
    ready_made=("lecture_lib.data.TinyImageDataset", "lecture_lib.data.images.TinyImageDataset"),
    relative_tolerance=1e-5,
)
