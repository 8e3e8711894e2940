"""03a-dataset: items, transform, the two kinds of loader, and copies for workers.

The reference reads no file: it has the pixels from which the files were written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lecture_lib.notebook.compare import agree

from ..verdict import Part, Verdict
from .common import HiddenCase, Observation, first_match, grade_part, read_fields, value, why_none

ID = "03a-dataset"
PARTS = (("items", 2.0), ("transform", 1.0), ("validation", 1.0), ("training", 1.0), ("workers", 1.0))
TOLERANCE = 1e-5
SHARED_PLACE = 2  # asked for in every case: there a cache that data sets share is seen
LAST_KEPT = "the last batch is shorter than the others"
NOT_SHUFFLED, ONE_ORDER = "the examples come in the files' order", "both epochs have the same order"
SEED_UNUSED = "the same seed gives another order"
Pair = tuple[HiddenCase, Observation]


def draw(rng: np.random.Generator) -> list[HiddenCase]:
    """Two sets of image files, grey, transparent and in colour; one has a last batch that is not full."""
    return [_files(rng, count=23, batch_size=5), _files(rng, count=18, batch_size=6)]


def _files(rng: np.random.Generator, count: int, batch_size: int) -> HiddenCase:
    height, width = 4, int(rng.integers(5, 9))  # never square: swapped sides are seen
    # A grey file, a transparent one and one in colour are always asked for, the first two also by the workers.
    depths = rng.permutation([1, 4, 4, 1] + [3] * (count - 4)).tolist()
    grey, clear, colour = depths.index(1), depths.index(4), depths.index(3)

    def files(depths: Sequence[int]) -> list[np.ndarray]:
        shapes = [(height, width) if depth == 1 else (height, width, depth) for depth in depths]
        return [rng.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]

    inputs = {
        "files": files(depths),
        "other files": files([3] * count),
        "labels": [int(label) for label in rng.choice(1000, count, replace=False)],
        "asked": [grey, colour, clear, grey, SHARED_PLACE, colour, clear],
        "factor": float(rng.uniform(2.0, 4.0)),
        "batch_size": batch_size,
        "seed": int(rng.integers(1000)),
    }
    return HiddenCase(f"{count} files, batches of {batch_size}", inputs)


def judge(cases: Sequence[HiddenCase], observations: Sequence[Observation]) -> Verdict:
    """Points for each part; shuffled orders are judged by what they must have in common, not by a certain order."""
    pairs = list(zip(cases, observations, strict=True))
    maximum = dict(PARTS)

    def graded(name: str, fields: tuple[str, ...], expected: Callable[[HiddenCase], Any]) -> Part:
        return grade_part(name, maximum[name], pairs, lambda seen: _read(seen, name, fields), expected, TOLERANCE)

    parts = (
        graded("items", ("length", "labels", "labels' dtype", "images"), _items),
        graded("transform", ("images",), lambda case: {"images": _transformed(case)}),
        _kinds_differ(graded("validation", ("labels", "images"), _validation), pairs),
        _training(maximum["training"], pairs),
        graded("workers", ("copies", "workers", "images"), _workers),
    )
    return Verdict(ID, parts, misconception=_misconception(parts, pairs))


def _read(observation: Observation, part: str, fields: tuple[str, ...]) -> tuple[Any, str]:
    if refused := (value(observation, part) or {}).get("refused"):
        return None, f"the data set cannot be copied to a worker: {str(refused)[:200]}"
    return read_fields(observation, part, *fields)


def _tensor(pixels: np.ndarray) -> np.ndarray:
    """What a file should become: three channels first, float32, 0 to 1; grey repeated, transparency left out."""
    colours = np.stack([pixels] * 3, axis=2) if pixels.ndim == 2 else pixels[:, :, :3]
    return (colours.transpose(2, 0, 1) / 255).astype(np.float32)


def _as_stored(pixels: np.ndarray) -> np.ndarray:
    return (np.atleast_3d(pixels).transpose(2, 0, 1) / 255).astype(np.float32)


def _of(case: HiddenCase, indices: Sequence[int], files: str = "files", convert: Any = _tensor) -> list[np.ndarray]:
    return [convert(case.inputs[files][index]) for index in indices]


def _items(case: HiddenCase) -> dict[str, Any]:
    asked = case.inputs["asked"]
    return {
        "length": len(case.inputs["files"]),
        "labels": np.array([case.inputs["labels"][index] for index in asked]),
        "labels' dtype": "torch.int64",
        "images": _of(case, asked),
    }


def _transformed(case: HiddenCase, once: bool = False) -> list[np.ndarray]:
    """Images times the factor plus the number of calls of the transform so far; `once`: only at an item's first."""
    calls: dict[int, int] = {}
    shown = []
    for position, index in enumerate(case.inputs["asked"]):
        calls.setdefault(index, len(calls) + 1)
        number = np.float32(calls[index] if once else position + 1)
        shown.append(_tensor(case.inputs["files"][index]) * np.float32(case.inputs["factor"]) + number)
    return shown


def _validation(case: HiddenCase) -> dict[str, Any]:
    size, labels = case.inputs["batch_size"], np.array(case.inputs["labels"])
    batches = [labels[start : start + size] for start in range(0, len(labels), size)]
    return {"labels": batches, "images": [_image(batch) for batch in batches]}


def _image(labels: np.ndarray) -> np.ndarray:
    """The first entry of the images that these labels belong to."""
    return (labels + 0.5).astype(np.float32)


def _kinds_differ(validation: Part, pairs: Sequence[Pair]) -> Part:
    """No points for a validation loader when the training loader is the same."""
    for case, observation in pairs:
        epochs = (value(observation, "orders") or {}).get("one")
        first = epochs[0] if isinstance(epochs, list) and epochs else None
        if not agree(first, _validation(case), TOLERANCE):
            return validation
    return Part(validation.name, 0.0, validation.maximum, "the loaders for training and validation are the same")


def _workers(case: HiddenCase) -> dict[str, Any]:
    first, last = case.inputs["asked"][0], case.inputs["asked"][-1]
    one, other = _of(case, (first, last)), _of(case, (first, last), "other files")
    return {"copies": 2, "workers": 1, "images": [one[0], other[0], one[1], one[0], other[1]]}


def _training(maximum: float, pairs: Sequence[Pair]) -> Part:
    for case, observation in pairs:
        fields = value(observation, "orders")
        wrong = why_none(observation, "orders") if fields is None else _wrong_order(case, fields)
        if wrong is not None:
            return Part("training", 0.0, maximum, f"{case.kind}: {wrong}")
    return Part("training", maximum, maximum, f"right on {len(pairs)} hidden cases")


def _wrong_order(case: HiddenCase, fields: Any) -> str | None:
    """What is wrong with the training loaders' epochs, or None."""
    epochs: dict[str, list[list[int]]] = {"one": [], "again": [], "other": []}
    for name, orders in epochs.items():
        shown = fields.get(name)
        if not isinstance(shown, list) or len(shown) != 2:
            return "two epochs were not seen"
        for epoch in shown:
            found = _one_epoch(case, epoch)
            if isinstance(found, str):
                return found
            orders.append(found)
    length = len(epochs["one"][0])
    if case.inputs["labels"][:length] in epochs["one"]:
        return NOT_SHUFFLED
    if epochs["one"][0] == epochs["one"][1]:
        return ONE_ORDER
    if epochs["one"] != epochs["again"]:
        return SEED_UNUSED
    return "another seed gives the same order" if epochs["one"] == epochs["other"] else None


def _one_epoch(case: HiddenCase, epoch: Any) -> list[int] | str:
    """The labels of an epoch in their order, or what is wrong with it: sizes, repetitions, images of other labels."""
    batches = epoch.get("labels") if isinstance(epoch, dict) else None
    if not isinstance(batches, list) or not all(_is_labels(batch) for batch in batches):
        return "no batches of whole numbers as labels were seen"
    size, labels = case.inputs["batch_size"], case.inputs["labels"]
    sizes = [len(batch) for batch in batches]
    if sizes != [size] * (len(labels) // size):
        return LAST_KEPT if sum(sizes) == len(labels) else "the sizes of the batches are wrong"
    flat = [int(label) for batch in batches for label in batch]
    if len(set(flat)) != len(flat) or not set(flat) <= set(labels):
        return "an example comes twice in an epoch, or is none of the data set's"
    right = [_image(batch) for batch in batches]
    return flat if agree(epoch.get("images"), right, TOLERANCE) else "images and labels do not belong together"


def _is_labels(batch: Any) -> bool:
    return isinstance(batch, np.ndarray) and batch.ndim == 1 and batch.dtype.kind == "i"


def _misconception(parts: Sequence[Part], pairs: Sequence[Pair]) -> str | None:
    """The known mistake that explains the first part without full points."""
    lost = {part.name for part in parts if part.points < part.maximum}

    def matches(part: str, field: str, simulations: dict[str, Callable[[HiddenCase], Any]]) -> str | None:
        found = [(case, (value(seen, part) or {}).get(field)) for case, seen in pairs]
        return first_match(simulations.items(), found, TOLERANCE) if part in lost else None

    return (
        ("shared-state" if "workers" in lost and _shared(pairs) else None)
        or matches("items", "images", _WRONG_ITEMS)
        or matches(
            "transform",
            "images",
            {
                "no-transform": lambda case: _of(case, case.inputs["asked"]),
                "transform-once": lambda case: _transformed(case, once=True),
            },
        )
        or (_wrong_validation(pairs) if "validation" in lost else None)
        or next((known for wrong, known in _WRONG_TRAINING.items() if parts[3].message.endswith(wrong)), None)
        or matches("workers", "copies", {"not-picklable": lambda _: 0})
    )


_WRONG_ITEMS: dict[str, Callable[[HiddenCase], Any]] = {
    "not-rgb": lambda case: _of(case, case.inputs["asked"], convert=_as_stored),
    "channels-last": lambda case: [image.transpose(1, 2, 0) for image in _of(case, case.inputs["asked"])],
    "not-scaled": lambda case: [255 * image for image in _of(case, case.inputs["asked"])],
    "ignores-index": lambda case: _of(case, range(len(case.inputs["asked"]))),
    "constant-answer": lambda case: [np.zeros_like(image) for image in _of(case, case.inputs["asked"])],
}

_WRONG_TRAINING = {
    LAST_KEPT: "last-batch-kept",
    NOT_SHUFFLED: "never-shuffled",
    ONE_ORDER: "one-order",
    SEED_UNUSED: "seed-unused",
}


def _wrong_validation(pairs: Sequence[Pair]) -> str | None:
    """Examples left out, or none left out and another order."""
    for case, observation in pairs:
        batches = (value(observation, "validation") or {}).get("labels")
        if not isinstance(batches, list) or not all(_is_labels(batch) for batch in batches):
            return None
        flat = [int(label) for batch in batches for label in batch]
        labels = case.inputs["labels"]
        if flat != labels:
            if flat == labels[: len(flat)]:
                return "validation-drops"
            return "validation-shuffled" if set(flat) <= set(labels) else None
    return None


def _shared(pairs: Sequence[Pair]) -> bool:
    """Whether two data sets with different files showed the same image at the same place, but not at every place."""
    for _, observation in pairs:
        images = (value(observation, "workers") or {}).get("images")
        if not isinstance(images, list) or len(images) != 5:
            return False
        if not agree(images[1], images[0], TOLERANCE) or agree(images[2], images[0], TOLERANCE):
            return False
    return True
