"""03a-checkpoint: a run that goes on from its file has the weights of a run that was never stopped.

The reference is one uninterrupted run of SGD with momentum and a stepped rate, by hand in NumPy; only the order of the
examples comes from torch's random stream. Each kind of case needs the weights, the epoch and one thing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lecture_lib.notebook.question import Inputs
from lecture_lib.notebook.questions.checkpoint import NO_FILE, NO_WEIGHTS, NOT_READ

from ..cases import Case, draw_until
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

APART = 1e-3
SAVED, RESUMED = "file.weight", "resumed.weight"


@dataclass
class State:
    """Everything that a run remembers from step to step."""

    w: np.ndarray
    b: float
    mean: np.ndarray
    examples: int
    shift: np.ndarray
    velocity: tuple[Any, float]
    rate: float
    count: int
    generator: torch.Generator

    def go_on(self, inputs: Inputs, epochs: int) -> None:
        """Train for so many epochs more."""
        for _ in range(epochs):
            count = len(inputs["x"])
            for i in torch.randperm(count, generator=self.generator) if inputs["shuffle"] else range(count):
                self.examples += 1
                self.mean = self.mean + inputs["mean_rate"] / self.examples * (inputs["x"][i] - self.mean)
                x = inputs["x"][i] - self.mean + self.shift
                slope = 2 * (self.w @ x + self.b - inputs["y"][i, 0])
                old = [inputs["momentum"] * part for part in self.velocity]
                self.velocity = (old[0] + slope * x, old[1] + slope)
                self.w, self.b = self.w - self.rate * self.velocity[0], self.b - self.rate * self.velocity[1]
                self.schedule(inputs, inputs["after_each_example"])
            self.schedule(inputs, not inputs["after_each_example"])

    def schedule(self, inputs: Inputs, steps: bool) -> None:
        self.count += steps
        self.rate *= inputs["gamma"] if steps and self.count % inputs["step_size"] == 0 else 1.0


def start(inputs: Inputs, prefix: str = "") -> State:
    generator = torch.Generator().manual_seed(inputs[f"{prefix}seed"])
    weight, mean, shift = inputs[f"{prefix}weight"][0], inputs[f"{prefix}mean"], inputs[f"{prefix}shift"]
    return State(weight, 0.0, mean, 0, shift, (np.zeros_like(weight), 0.0), inputs["learning_rate"], 0, generator)


def train(inputs: Inputs, epochs: int) -> np.ndarray:
    """The weights [1, F] of a run that was never stopped."""
    run = start(inputs)
    run.go_on(inputs, epochs)
    return run.w[None]


def lacking(inputs: Inputs, lost: Mapping[str, Any]) -> np.ndarray:
    """The weights of a resumed run in which these things are those of the new run.

    `lost` holds names of a state's fields, or "epoch" with the number that is returned too much, or what is returned.
    """
    run, new = start(inputs), start(inputs, "another_")
    run.go_on(inputs, inputs["stop"])
    wrong_values = {"seed": start(inputs).generator, "epochs": inputs["stop"]}
    for name in set(lost) - {"epoch"}:
        setattr(run, name, wrong_values.get(lost[name], getattr(new, name)))
    steps = inputs["stop"] * (len(inputs["x"]) if inputs["after_each_example"] else 1)  # of the schedule
    epoch = lost.get("epoch", 0)
    returned = {"zero": 0, "steps": steps}[epoch] if isinstance(epoch, str) else inputs["stop"] + epoch
    run.go_on(inputs, inputs["epochs"] - returned)
    return run.w[None]


def resumed(**lost: Any) -> Simulation:
    return lambda case: {RESUMED: lacking(case.inputs, lost)}


def forms(**lost: Any) -> dict[str, Any]:
    """The same mistake alone and beside buffers or a random stream that is lost as well."""
    random, buffers = {"generator": True}, BUFFERS
    further = (random, buffers, random | buffers)
    return {"simulate": resumed(**lost), "also": tuple(resumed(**lost | also_lost) for also_lost in further)}


def saved(text: str) -> Simulation:
    return lambda case: {SAVED: text}


WEIGHTS, OPTIMIZER = {"w": True, "b": True, "shift": True}, {"rate": True, "velocity": True}
BUFFERS = {"mean": True, "examples": True}
SCHEDULE = ({**OPTIMIZER, "count": True}, OPTIMIZER, {"count": True})
# What a resumed run may lack, by the kind of run in which it shows.
LOST: dict[str, tuple[dict[str, Any], ...]] = {
    "position": (WEIGHTS, {"shift": True}, {"epoch": "zero"}, {"epoch": "steps"}, {"epoch": 1}, {"epoch": -1}),
    "buffers": (BUFFERS, {"mean": True}, {"examples": True}),
    "momentum": ({"velocity": True},),
    "schedule": SCHEDULE,
    "schedule of batches": (*SCHEDULE, {"count": "epochs"}),
    "random state": ({"generator": True}, {"generator": "seed"}),
}


def run(rng: np.random.Generator, kind: str, stop: int | None = None, epochs: int = 7) -> Case:
    features, examples = int(rng.integers(2, 5)), int(rng.integers(4, 7))
    x = rng.normal(size=(examples, features)) + 0.5
    inputs = {
        "x": x,
        "y": x @ rng.normal(size=(features, 1)) + 0.5 * rng.normal(size=(examples, 1)),
        "weight": rng.normal(size=(1, features)),
        "another_weight": rng.normal(size=(1, features)),
        "mean": np.zeros(features),
        "another_mean": rng.normal(size=features) if kind == "buffers" else np.zeros(features),
        "mean_rate": float(rng.uniform(0.2, 0.5)) if kind == "buffers" else 0.0,
        "shift": rng.normal(size=features) if kind == "position" else np.zeros(features),
        "another_shift": rng.normal(size=features) if kind == "position" else np.zeros(features),
        "learning_rate": float(rng.uniform(0.01, 0.02)),
        "momentum": float(rng.uniform(0.7, 0.9)) if kind == "momentum" else 0.0,
        "gamma": {"schedule": rng.uniform(0.3, 0.5), "schedule of batches": rng.uniform(0.6, 0.8)}.get(kind, 1.0),
        "step_size": 3 if kind == "schedule of batches" else 2,
        "after_each_example": kind != "schedule",
        "shuffle": kind == "random state",
        "seed": int(rng.integers(2**31)),
        "another_seed": int(rng.integers(2**31)),
        "stop": int(rng.integers(1, epochs)) if stop is None else stop,
        "epochs": epochs,
    }
    return Case(kind, inputs)


def apart(case: Case) -> bool:
    """Whether everything that may be lost in a run of this kind shows in its weights."""
    weights = [lacking(case.inputs, lost) for lost in ({}, *LOST[case.kind])]
    return all(np.abs(a - b).max() > APART for i, a in enumerate(weights) for b in weights[:i])


def draw(rng: np.random.Generator) -> list[Case]:
    """Runs of each kind, after an odd number of epochs where the schedule must show it.

    One more is saved at its start, where the random stream is the only thing besides the weights that can be lost.
    """
    stops = {"schedule": (3, 5), "position": (1, 2, 5, 6)}
    cases = [
        draw_until(lambda kind=kind: run(rng, kind, int(rng.choice(stops.get(kind, (2, 3, 4, 5))))), apart)  # type: ignore[misc]
        for kind in LOST
    ]
    return [*cases, run(rng, "random state", stop=0)]


def domain(rng: np.random.Generator) -> Case:
    """Any of these runs, stopped at any time: before the first epoch and after the last one too."""
    kind, epochs = list(LOST)[rng.integers(len(LOST))], int(rng.integers(1, 9))
    return run(rng, kind, int(rng.integers(epochs + 1)), epochs)


def visible(name: str, **changes: Any) -> Case:
    """One example (1, 1); with rate 0.125, each epoch of plain SGD halves the distance of weight + bias to 1."""
    inputs = {
        "x": np.array([[1.0]]),
        "y": np.array([[1.0]]),
        "weight": np.array([[0.0]]),
        "another_weight": np.array([[5.0]]),
        "mean": np.zeros(1),
        "another_mean": np.zeros(1),
        "mean_rate": 0.0,
        "shift": np.zeros(1),
        "another_shift": np.zeros(1),
        "learning_rate": 0.125,
        "momentum": 0.0,
        "gamma": 1.0,
        "step_size": 2,
        "after_each_example": True,
        "shuffle": False,
        "seed": 1,
        "another_seed": 3,
        "stop": 2,
        "epochs": 4,
    }
    return Case(name, {**inputs, **changes})


QUESTION = Description(
    id="03a-checkpoint",
    parts=(
        Graded("file", 2, (SAVED,)),
        Graded("position", 1, (RESUMED,), on=("position",)),
        Graded("buffers", 1, (RESUMED,), on=("buffers",)),
        Graded("momentum", 2, (RESUMED,), on=("momentum",)),
        Graded("schedule", 1, (RESUMED,), on=("schedule", "schedule of batches")),
        Graded("random state", 1, (RESUMED,), on=("random state",)),
    ),
    reference=lambda case: {
        SAVED: train(case.inputs, case.inputs["stop"]),
        RESUMED: train(case.inputs, case.inputs["epochs"]),
    },
    mistakes=(
        Mistake(
            "nothing-written",
            "there is no file at the path",
            "where the file is written, and under which name",
            saved(NO_FILE),
        ),
        Mistake(
            "objects-pickled",
            "the file cannot be loaded with weights_only=True: whole objects are in it, or torch.save did not write it",
            "what of each object is data: its state_dict",
            saved(NOT_READ),
        ),
        Mistake(
            "no-weights",
            "the model's weights at the stop are not in the file",
            "whether the model's state_dict is in what you save, and whether a second file replaces the first",
            saved(NO_WEIGHTS),
        ),
        Mistake(
            "weights-lost",
            "the resumed run went on with the new model's own weights",
            "whether the model is given its state back, or only the others are",
            **forms(**WEIGHTS),
        ),
        Mistake(
            "frozen-lost",
            "a frozen parameter kept the new model's own values",
            "what `state_dict()` holds that the parameters with `requires_grad` do not",
            resumed(shift=True),
        ),
        Mistake(
            "epoch-lost",
            "the resumed run began again at its first epoch",
            "the number that is returned, and where it comes from",
            **forms(epoch="zero"),
        ),
        Mistake(
            "epoch-off-by-one",
            "the resumed run skipped an epoch or did one twice",
            "whether the number is that of the epochs done, or of the one in which the run was",
            resumed(epoch=1),
            also=(resumed(epoch=-1),),
        ),
        Mistake(
            "schedule-counted",
            "the schedule's own count was returned; it is not the number of epochs when it is stepped after each batch",
            "what the argument `epoch` of save_run is for",
            resumed(epoch="steps"),
        ),
        Mistake(
            "rate-lost",
            "the momentum and the schedule came back, but not the learning rate at the stop",
            "where the learning rate is kept that the next step uses",
            resumed(rate=True),
        ),
        Mistake(
            "buffers-lost",
            "the parameters came back and the buffers did not: the running mean or its count is the new model's own",
            "what `state_dict()` holds that `parameters()` does not",
            resumed(**BUFFERS),
            also=(resumed(**BUFFERS, generator=True), resumed(mean=True), resumed(examples=True)),
        ),
        Mistake(
            "only-weights",
            "only the weights came back: rate, momentum and schedule began anew",
            "what besides the model changes from epoch to epoch",
            **forms(**OPTIMIZER, count=True),
        ),
        Mistake(
            "optimizer-lost",
            "the schedule came back and the optimizer did not: its rate and momentum are those of a new one",
            "where the learning rate is kept that the next step uses",
            **forms(**OPTIMIZER),
        ),
        Mistake(
            "momentum-lost",
            "the resumed run began without momentum: the optimizer's running averages were not in it",
            "what an optimizer remembers from step to step",
            **forms(velocity=True),
        ),
        Mistake(
            "schedule-lost",
            "the rate came back with the optimizer, but the schedule counts from 0 again",
            "how the schedule knows when it is time for the next change",
            **forms(count=True),
        ),
        Mistake(
            "schedule-set-to-epochs",
            "the schedule was set to the number of epochs; when it is stepped after each batch, it has counted batches",
            "where the schedule's own count is kept",
            resumed(count="epochs"),
            hidden_only=True,
        ),
        Mistake(
            "random-lost",
            "the resumed run drew its orders from the random stream as it was found, not as it was at the stop",
            "what the order of the examples is drawn from",
            resumed(generator=True),
        ),
        Mistake(
            "random-restarted",
            "the random stream began at its seed again: the resumed run saw the first epochs' orders once more",
            "whether a seed says how far a stream has come",
            resumed(generator="seed"),
        ),
    ),
    visible=(
        visible("plain SGD, stopped after 2 of 4 epochs; a frozen parameter", another_shift=np.array([1.0])),
        visible("with momentum 0.5", momentum=0.5),
        visible(
            "the rate divided by 4 after every second epoch, stopped after 3 of 6",
            gamma=0.25,
            after_each_example=False,
            stop=3,
            epochs=6,
        ),
        visible(
            "three examples in a shuffled order", x=np.ones((3, 1)), y=np.array([[1.0], [2.0], [4.0]]), shuffle=True
        ),
        visible(
            "a buffer that moves by 1/2, 1/4, 1/6 of the way to its inputs, rate 0.1",
            mean_rate=0.5,
            another_mean=np.array([3.0]),
            learning_rate=0.1,
        ),
        visible("saved before the first epoch", stop=0),
    ),
    draw=draw,
    domain=domain,
    added=3,  # a case trains, saves and resumes
)
