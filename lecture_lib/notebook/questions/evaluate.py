"""03a-evaluate: the mean loss and all outputs of a model, and no trace of having looked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._common.randomness import preserved_random_streams
from ..observe import plain
from ..question import Functions, Inputs, Misconception, PublicCase, PublicQuestion
from .branches import Branches, Taped, pairs


def _evaluated(functions: Functions, model: nn.Module, batches: Any) -> tuple[Any, Any]:
    loss, outputs = functions["evaluate_outputs"](model, batches, nn.MSELoss())
    # In whichever precision they were collected.
    readable = isinstance(outputs, Tensor | np.ndarray)
    return loss, np.asarray(plain(outputs), dtype=np.float64) if readable else outputs


def _one_batch(inputs: Inputs) -> list[tuple[Tensor, Tensor]]:
    return pairs([np.concatenate(inputs["x"])], [np.concatenate(inputs["y"])])


def _plain_model(inputs: Inputs, offset: float = 0.0) -> Taped:
    return Taped(np.asarray(inputs["weights"])[0], offset)


def _uneven(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    loss, outputs = _evaluated(functions, _plain_model(inputs), pairs(inputs["x"], inputs["y"]))
    return {"loss": loss, "outputs": outputs}


def _eval_mode(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"outputs": _evaluated(functions, Branches(inputs["weights"]), _one_batch(inputs))[1]}


def _tape(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    return {"outputs": _evaluated(functions, _plain_model(inputs, inputs["offset"]), _one_batch(inputs))[1]}


def _modes(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    model = Branches(inputs["weights"])
    if not inputs["training"]:
        model.eval()
    _, outputs = _evaluated(functions, model, _one_batch(inputs))
    return {"outputs": outputs, "outputs afterwards": model(torch.tensor(inputs["x_after"]))}


class _Drawing:
    """Batches in their order; for each one a number is drawn from torch's ambient stream, as augmentation does."""

    def __init__(self, batches: list[tuple[Tensor, Tensor]]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in self._batches:
            torch.rand(1)
            yield batch


def _stream(functions: Functions, inputs: Inputs) -> dict[str, Any]:
    with preserved_random_streams():
        torch.manual_seed(inputs["seed"])
        _, outputs = _evaluated(functions, _plain_model(inputs), _Drawing(_one_batch(inputs)))
        return {"outputs": outputs, "next numbers": torch.rand(2)}


def _numbers(seed: int, skip: int) -> np.ndarray:
    """Two numbers of torch's stream after `seed` and `skip` numbers."""
    generator = torch.Generator().manual_seed(seed)
    torch.rand(skip, generator=generator)
    return torch.rand(2, generator=generator).numpy()


def _column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64).reshape(-1, 1)


_SHARED: dict[str, Any] = {
    "x": [_column(1, 1, 1), _column(2)],
    "y": [_column(0, 0, 0), _column(0)],
    "weights": [[1.0], [10.0], [100.0]],
    "offset": 7.0,
    "seed": 3,
    "x_after": _column(1),
}

QUESTION = PublicQuestion(
    id="03a-evaluate",
    title="evaluate without a trace",
    functions=("evaluate_outputs",),
    parts={"uneven": _uneven, "eval mode": _eval_mode, "no tape": _tape, "modes": _modes, "random stream": _stream},
    ready_made=("lecture_lib.training.evaluate", "lecture_lib.analysis.collect_outputs"),
    cases=(
        PublicCase(
            name="three examples, then one",
            inputs={**_SHARED, "training": True},
            expected={
                "uneven": {"loss": 1.75, "outputs": _column(1, 1, 1, 2)},
                "eval mode": {"outputs": _column(111, 111, 111, 222)},
                "no tape": {"outputs": _column(1, 1, 1, 2)},
                "modes": {"outputs": _column(111, 111, 111, 222), "outputs afterwards": _column(101)},
                "random stream": {"outputs": _column(1, 1, 1, 2), "next numbers": _numbers(3, 0)},
            },
            mistakes={
                "mean-of-batches": {"uneven": {"loss": 2.5}},
                "not-divided": {"uneven": {"loss": 7.0}},
                "last-batch-only": {"uneven": {"loss": 4.0, "outputs": _column(2)}},
                "constant-result": {"uneven": {"loss": 0.0}},
                "train-mode": {"eval mode": {"outputs": _column(101, 101, 101, 202)}},
                "all-in-train-mode": {"eval mode": {"outputs": _column(1, 1, 1, 2)}},
                "recorded": {"no tape": {"outputs": _column(8, 8, 8, 9)}},
                "left-in-eval": {"modes": {"outputs afterwards": _column(111)}},
                "frozen-thawed": {"modes": {"outputs afterwards": _column(1)}},
                "stream-moved": {"random stream": {"next numbers": _numbers(3, 1)}},
            },
        ),
        PublicCase(
            name="a model that is in eval mode already",
            inputs={**_SHARED, "training": False},
            expected={"modes": {"outputs": _column(111, 111, 111, 222), "outputs afterwards": _column(111)}},
            mistakes={"always-train": {"modes": {"outputs afterwards": _column(1)}}},
        ),
    ),
    misconceptions={
        "mean-of-batches": Misconception(
            "the batches' means were averaged, so an example of a short batch counts more than one of a full batch",
            "how many examples each batch's mean stands for",
        ),
        "not-divided": Misconception(
            "the loss is a sum over the examples, which grows with the data set",
            "what the sum is divided by at the end",
        ),
        "last-batch-only": Misconception(
            "only the last batch is in the result",
            "what is carried from one pass of the loop to the next",
        ),
        "constant-result": Misconception(
            "the loss is 0 whatever the model and the data are",
            "whether the batches reach the model, and its outputs the loss",
        ),
        "train-mode": Misconception(
            "the model was evaluated as it came, in train mode: its dropout was still dropping",
            "what the layers do that behave differently in training",
        ),
        "all-in-train-mode": Misconception(
            "every layer was put into train mode before the evaluation, the frozen ones too",
            "which of the two modes is meant for evaluation",
        ),
        "recorded": Misconception(
            "autograd wrote the forward pass down, and the graph is kept for as long as the outputs are",
            "whether an output requires a gradient inside your loop",
        ),
        "left-in-eval": Misconception(
            "the model stays in eval mode: training would go on without dropout, and nothing would say so",
            "the model's modes after your function",
        ),
        "frozen-thawed": Misconception(
            "a layer that was kept in eval mode on purpose came back in train mode: train() switches all of them",
            "whether one flag for the whole model can tell what each of its layers was in",
        ),
        "always-train": Misconception(
            "a model that came in eval mode went away in train mode",
            "what the modes were before, not what they usually are",
        ),
        "stream-moved": Misconception(
            "training's next random numbers are others than without the evaluation: the loader drew from the stream",
            "the state of torch's random stream before and after your loop",
        ),
    },
)
