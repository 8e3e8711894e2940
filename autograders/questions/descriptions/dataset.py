"""03a-dataset: items, transform, the two kinds of loader, and copies for workers.

The reference reads no file: it has the pixels from which the files were written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lecture_lib.notebook.question import Inputs
from lecture_lib.notebook.questions.dataset import order_facts, shared_fact

from ..cases import Case, Observation, value
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Convert = Callable[[np.ndarray], np.ndarray]
SHARED_PLACE = 2  # asked for in every case: there a cache that data sets share is seen


def floats(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def in_colour(pixels: np.ndarray) -> np.ndarray:
    """Three channels first, whole numbers: grey repeated, transparency left out."""
    colours = np.stack([pixels] * 3, axis=2) if pixels.ndim == 2 else pixels[:, :, :3]
    return colours.transpose(2, 0, 1)


def tensor(pixels: np.ndarray) -> np.ndarray:
    return floats(in_colour(pixels) / 255)


def as_stored(pixels: np.ndarray) -> np.ndarray:
    return floats(np.atleast_3d(pixels).transpose(2, 0, 1) / 255)


def asked(inputs: Inputs, convert: Convert = tensor) -> list[np.ndarray]:
    return [convert(inputs["files"][index]) for index in inputs["asked"]]


def transformed(inputs: Inputs, once: bool = False) -> list[np.ndarray]:
    """Images times the factor plus the number of calls of the transform so far; `once`: only at an item's first."""
    calls: dict[int, int] = {}
    numbers = [
        calls.setdefault(index, len(calls) + 1) if once else position
        for position, index in enumerate(inputs["asked"], 1)
    ]
    factor = np.float32(inputs["factor"])
    return [image * factor + np.float32(number) for image, number in zip(asked(inputs), numbers, strict=True)]


def sizes(inputs: Inputs, drop_last: bool) -> list[int]:
    count, rest = divmod(len(inputs["labels"]), inputs["batch_size"])
    return [inputs["batch_size"]] * count + ([rest] if rest and not drop_last else [])


def validation(inputs: Inputs, drop_last: bool = False) -> Mapping[str, Any]:
    labels = np.array(inputs["labels"])[: sum(sizes(inputs, drop_last))]
    return {
        "validation.sizes": np.array(sizes(inputs, drop_last)),
        "validation.labels": labels,
        "validation.images": floats(labels + 0.5),
        IN_ORDER: "yes",
    }


IN_ORDER = "validation.in the files' order"
SHUFFLED, NEXT_EPOCH = "training.shuffled", "training.another order in the second epoch"
SAME_SEED, OTHER_SEED = "training.the same seed, the same order", "training.another seed, another order"
ASKED = ("training.asked for in every epoch", "validation.asked for in every epoch")
SIZES, ITEMS, WORKERS = "training.batch sizes", "items.images", "workers.images"
TRUE = (
    "training.each example once",
    "training.images with their labels",
    ASKED[0],
    SHUFFLED,
    NEXT_EPOCH,
    SAME_SEED,
    OTHER_SEED,
    "training.the last files come too",
)


def reference(case: Case) -> Mapping[str, Any]:
    inputs = case.inputs
    first, last = inputs["asked"][0], inputs["asked"][-1]
    own_images, other_images = (
        [tensor(inputs[files][index]) for index in (first, last)] for files in ("files", "other files")
    )
    return {
        "items.length": len(inputs["files"]),
        "items.labels": np.array([inputs["labels"][index] for index in inputs["asked"]]),
        "items.labels' dtype": "torch.int64",
        ITEMS: asked(inputs),
        "items.tensors": "yes",
        "transform.images": transformed(inputs),
        **validation(inputs),
        ASKED[1]: "yes",
        SIZES: sizes(inputs, drop_last=True),
        **dict.fromkeys(TRUE, "yes"),
        "workers.refused": "",
        "workers.copies": 2,
        "workers.workers": [1, 1],  # for training and for validation
        WORKERS: [own_images[0], other_images[0], own_images[1], own_images[0], other_images[1]],
        "workers.shared": "no",
    }


def facts(case: Case, observation: Observation) -> Observation:
    """What the epochs and the images show is found here once more: the student's process is not asked for it."""
    facts_of_case = {name: part for name, part in observation.items() if name != "orders"}
    orders, workers = value(observation, "orders"), value(observation, "workers")
    facts_of_case["training"] = observation["orders"] if orders is None else {"value": order_facts(orders, case.inputs)}
    if workers is not None and workers["copies"]:
        facts_of_case["workers"] = {"value": {**workers, **shared_fact(workers["images"])}}
    return facts_of_case


def images(convert: Convert) -> Simulation:
    return lambda case: {ITEMS: asked(case.inputs, convert)}


def training(**facts: str) -> Simulation:
    names = {"shuffled": SHUFFLED, "next_epoch": NEXT_EPOCH, "same_seed": SAME_SEED, "other_seed": OTHER_SEED}
    return lambda case: {names[name]: fact for name, fact in facts.items()}


def pixels(rng: np.random.Generator, depth: int, brightest: int) -> np.ndarray:
    """A small picture, as a file stores it, not square; now and then one row or one column."""
    height, width = rng.permutation([int(rng.integers(1, 3)), 3])
    shape = (height, width) if depth == 1 else (height, width, depth)
    return rng.integers(0, brightest + 1, shape, dtype=np.uint8)


def files(rng: np.random.Generator, kind: str, count: int, batch_size: int, seed: int) -> Case:
    """Grey files, transparent ones, dark ones and colours; each of them is asked for, the first twice."""
    depths = rng.permutation([1, 4, 4, 1] + [3] * (count - 4)).tolist()
    bright = [int(rng.integers(120, 250)) for _ in range(count)]
    grey, clear, colour = depths.index(1), depths.index(4), depths.index(3)
    dark = max(place for place in range(count) if depths[place] == 3)
    bright[dark] = 1  # divided by its own maximum, it would be as bright as the others
    inputs = {
        "files": [pixels(rng, depth, most) for depth, most in zip(depths, bright, strict=True)],
        "other files": [pixels(rng, 3, 255) for _ in range(count)],
        "labels": rng.choice(1000, count, replace=False).tolist(),
        "asked": [grey, colour, clear, grey, SHARED_PLACE, dark, count - 1, colour, clear],
        "factor": float(rng.uniform(2.0, 4.0)),
        "batch_size": batch_size,
        "seed": seed,
    }
    return Case(kind, inputs)


def draw(rng: np.random.Generator) -> list[Case]:
    """A last batch with one example too few, one that is full, and the seed 0 in every set."""
    return [
        files(rng, "24 files, batches of 5", 24, 5, int(rng.integers(1, 1000))),
        files(rng, "18 files, batches of 6", 18, 6, 0),
    ]


def domain(rng: np.random.Generator) -> Case:
    """Any number of files from 15 on: with fewer, a shuffled order could be the files' own by chance.

    Some batches are of one file or of all; some seeds are 0 or above 32 bits; some coloured files are square.
    """
    count = int(rng.integers(15, 24))
    batch_size = [1, count][rng.integers(2)] if rng.integers(4) == 0 else int(rng.integers(5, 8))
    long_seed = rng.integers(6) == 0
    seed = int(rng.integers(2**32, 2**48)) if long_seed else int(rng.integers(2**31)) * int(rng.integers(6) > 0)
    drawn = files(rng, "a seed above 32 bits" if long_seed else "domain", count, batch_size, seed)
    if rng.integers(5) == 0:
        for place in drawn.inputs["asked"]:
            old = drawn.inputs["files"][place]
            size, brightest = (3, 3, *old.shape[2:]), int(old.max(initial=1))
            drawn.inputs["files"][place] = rng.integers(0, brightest + 1, size, dtype=np.uint8)
    return drawn


def picture(*colours: tuple[int, ...]) -> np.ndarray:
    return np.array([colours], dtype=np.uint8)


# Each file in colour has a pixel of its own and a white one.
COLOURS = [picture((255 * (n & 1), 255 * (n >> 1 & 1), 15 * n), (255, 255, 255)) for n in range(14)]
VISIBLE = {
    "files": [
        np.array([[0, 255]], dtype=np.uint8),
        picture((255, 0, 0, 9), (255, 255, 255, 99)),
        picture((1, 2, 1), (2, 1, 3)),
        picture((1, 0, 1), (0, 1, 1)),
        *COLOURS[4:],
    ],
    "other files": COLOURS[::-1],
    "labels": [3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 97, 93, 23, 84],
    "asked": [1, 4, 1, 2, 3, 0],
    "factor": 10.0,
    "batch_size": 4,
    "seed": 0,
}

QUESTION = Description(
    id="03a-dataset",
    parts=(
        Graded("items", 2, ("items.length", "items.labels", "items.labels' dtype", ITEMS, "items.tensors")),
        Graded("transform", 1, ("transform.images",)),
        Graded(
            "validation",
            1,
            ("validation.sizes", "validation.labels", "validation.images", IN_ORDER, ASKED[1]),
            unless=("same-loader",),
        ),
        Graded("training", 1, (SIZES, *TRUE)),
        Graded("workers", 1, ("workers.refused", "workers.copies", "workers.workers", WORKERS, "workers.shared")),
    ),
    reference=reference,
    mistakes=(
        Mistake(
            "not-rgb",
            "a grey file gave one channel and a transparent one four: the file's own channels were kept",
            "what the image is before it becomes a tensor, and which number of channels a model can expect",
            images(as_stored),
        ),
        Mistake(
            "channels-last",
            "the image came as [H, W, 3]; PyTorch's layers want the channels first",
            "the order of the dimensions after the conversion from pixels",
            images(lambda pixels: tensor(pixels).transpose(1, 2, 0)),
        ),
        Mistake(
            "reshaped",
            "the channels were brought to the front by `reshape`, which keeps the order of the numbers and mixes them",
            "where the second number of the file ends up in your image",
            images(lambda pixels: tensor(pixels).transpose(1, 2, 0).reshape(tensor(pixels).shape)),
        ),
        Mistake(
            "not-scaled",
            "values are still between 0 and 255",
            "the batch contract: what range a pixel should have",
            images(lambda pixels: floats(in_colour(pixels))),
        ),
        Mistake(
            "own-maximum",
            "each image was divided by its own largest value, so a dark picture became as bright as the others",
            "which number stands for white in every file",
            images(lambda pixels: floats(in_colour(pixels) / np.float64(in_colour(pixels).max()))),
            also=(
                images(
                    lambda pixels: floats(
                        (in_colour(pixels) - np.float64(in_colour(pixels).min())) / np.ptp(in_colour(pixels))
                    )
                ),
            ),
        ),
        Mistake(
            "wrong-divisor",
            "the values were divided by 256, so white is not 1",
            "the largest number that a pixel's byte can hold",
            images(lambda pixels: floats(in_colour(pixels) / 256)),
        ),
        Mistake(
            "ignores-index",
            "items came one after the other, whatever index was asked for; a loader asks in any order, and twice",
            "what __getitem__ does with its index",
            lambda case: {ITEMS: [tensor(pixels) for pixels in case.inputs["files"][: len(case.inputs["asked"])]]},
        ),
        Mistake(
            "constant-answer",
            "every image is the same",
            "whether the file at that index is read",
            lambda case: {ITEMS: [tensor(case.inputs["files"][0])] * len(case.inputs["asked"])},
            also=(lambda case: {ITEMS: [0 * tensor(case.inputs["files"][0])] * len(case.inputs["asked"])},),
        ),
        Mistake(
            "no-transform",
            "the transform was not applied",
            "what __getitem__ does when a transform was given",
            lambda case: {"transform.images": asked(case.inputs)},
        ),
        Mistake(
            "transform-once",
            "an item that was asked for twice was transformed once: a random transform would be frozen",
            "what is kept between two calls",
            lambda case: {"transform.images": transformed(case.inputs, once=True)},
        ),
        Mistake(
            "same-loader",
            "the loaders for training and for validation are the same",
            "which of the loader's settings depend on `training`",
            lambda case: {
                SIZES: sizes(case.inputs, drop_last=False),
                **training(shuffled="no", next_epoch="no", other_seed="no")(case),
            },
        ),
        Mistake(
            "validation-shuffled",
            "the validation loader does not keep the files' order",
            "which of the loader's settings depend on `training`",
            lambda case: {IN_ORDER: "no"},
        ),
        Mistake(
            "validation-drops",
            "the validation loader leaves examples out, and the score would not be that of the whole set",
            "the last, shorter batch, when `training` is False",
            lambda case: validation(case.inputs, drop_last=True),
        ),
        Mistake(
            "last-batch-kept",
            "the training loader gives a last batch that is shorter than the others",
            "the loader's setting for a last batch that is not full",
            lambda case: {SIZES: sizes(case.inputs, drop_last=False)},
        ),
        Mistake(
            "never-shuffled",
            "the training loader gives the examples in the files' order",
            "which of the loader's settings depend on `training`",
            training(shuffled="no", next_epoch="no", other_seed="no"),
        ),
        Mistake(
            "read-once",
            "later epochs showed the items that were made for the first one: a random transform would be frozen",
            "when the loader asks the data set for its items, and how often",
            lambda case: dict.fromkeys(ASKED, "no"),
            hidden_only=True,
        ),
        Mistake(
            "one-order",
            "every epoch has the same order",
            "when the order is drawn: with the loader, or whenever an epoch begins",
            training(next_epoch="no"),
        ),
        Mistake(
            "seed-unused",
            "two loaders with the same seed gave different orders",
            "which generator the order is drawn from, and who else draws from it",
            training(same_seed="no"),
        ),
        Mistake(
            "one-seed",
            "two loaders with different seeds gave the same orders",
            "what is done with the seed",
            training(other_seed="no"),
        ),
        Mistake(
            "always-the-same-left-out",
            "the training loader leaves out the same examples in every epoch",
            "whether examples are left out before or after the order is drawn",
            lambda case: {
                "training.the last files come too": "no"
                if sum(sizes(case.inputs, True)) < len(case.inputs["labels"])
                else "yes"
            },
        ),
        Mistake(
            "not-picklable",
            "the data set cannot be copied to a worker process: something in it does not survive pickle",
            "what the data set stores: lambdas, local functions and open files cannot travel",
            lambda case: {"workers.copies": 0},
        ),
        Mistake(
            "shared-state",
            "two data sets with different files gave the same image: they share what one of them stored",
            "what belongs to the class or to the module instead of to `self`",
            lambda case: {"workers.shared": "yes"},
        ),
    ),
    visible=(Case("fourteen files: one grey, one transparent, one dark", VISIBLE),),
    draw=draw,
    domain=domain,
    added=6,  # a case writes files
    facts=facts,
)
