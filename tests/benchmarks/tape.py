"""The tape: a training step beside NumPy, PyTorch and three small autograds; growth with the graph; digits.

Step. The same step (64-32-10 network with ReLU, batch 64, cross-entropy, plain SGD) for every contender, on one thread,
in CPU time of that thread, with a turn for each contender in every round; a ratio is the median of the rounds' ratios.
A turn is 100 steps, as in a training loop: a single step finds the caches as the contender before it left them.
Before that all must give the same loss and the same update from the same weights. Batches are in each contender's own
type beforehand. micrograd computes with scalars: with --quick it gets 4 of the 64 examples and its time is multiplied
by 16, which the row says and which flatters it.

Growth. A chain of n operations, and one value that n operations use: forward, backward and freeing the graph, on
single numbers, where the tape's own work is all there is. 'Linear' holds when an operation in the largest graph costs
at most 1.5 times what it costs in the smallest, an eighth of it; quadratic growth would give 8. It is not 1.0 because
a larger graph leaves the processor's caches, the operations are sorted (n log n), and above all because Python's
garbage collector looks at the live objects more than once, the more often the more there are, up to a bound. The rows
with the collector off show what is left without that. Memory is the peak that tracemalloc sees, in a pass of its own.

Digits. A 64-128-10 network in float32 on four fifths of the digits until it is right on 95 % of the others, looked at
after each epoch; reading the data is not counted. Of the seeds tried the slowest counts.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial

import harness
import numpy as np
from contenders import training_digits, training_step
from contenders.training_step import Problem, problem
from harness import Row, Timings, at_most, paired, progress

from lecture_lib.tape import Tensor

BATCH, SUBSET = 64, 4
STEPS_A_TURN = 100
BUILDERS = {
    "the tape": training_step.tape,
    "NumPy by hand": training_step.by_hand,
    "PyTorch eager": training_step.pytorch,
    "HIPS autograd": training_step.hips_autograd,
    "MyGrad": training_step.mygrad,
}
AGREEMENT = {"float32": 1e-5, "float64": 1e-10}
TARGETS = {
    "PyTorch eager": (0.55, "≤ 0.55 of PyTorch eager's time"),
    "NumPy by hand": (1.8, "≤ 1.8 times hand-written NumPy"),
}
LINEAR = 1.5
SIZES = {"chain of operations": 100_000, "one value used by all": 10_000}
ACCURACY, MOST_EPOCHS = 0.95, 100


def measure(quick: bool) -> list[Row]:
    """All rows."""
    rows = []
    for dtype in (np.float32, np.float64):
        progress(f"training step, {np.dtype(dtype).name} ...")
        rows += steps(dtype, rounds=8 if quick else 60)
    progress("training step, micrograd ...")
    rows += scalar_steps(examples=SUBSET if quick else BATCH, rounds=2 if quick else 5)
    for what, build in {"chain of operations": chain, "one value used by all": fan_out}.items():
        progress(f"growth, {what} ...")
        rows += growth(what, build, SIZES[what] // (10 if quick else 1), rounds=3 if quick else 9)
    progress("digits ...")
    return rows + digits(seeds=1 if quick else 5)


def steps(dtype: type, rounds: int) -> list[Row]:
    """The rows of the training step in one dtype."""
    name = np.dtype(dtype).name
    ready, missing = agreeing(BUILDERS, problem(dtype, examples=BATCH), AGREEMENT[name])
    return step_rows(name, paired(ready, rounds=rounds, calls=STEPS_A_TURN)) + [
        Row(f"step, {name}: {absent} (not installed)", None, "µs") for absent in missing
    ]


def agreeing(
    builders: Mapping[str, Callable[[Problem], training_step.Contender]], given: Problem, tolerance: float
) -> tuple[dict[str, training_step.Step], list[str]]:
    """The steps of those that are installed, after one step in which all agreed; and the names of the others."""
    loss, update = first_step(training_step.by_hand, given)
    ready, missing = {}, []
    for name, build in builders.items():
        try:
            ready[name] = build(given)[0]
        except ImportError as error:
            progress(f"{name} is left out: {error}")
            missing.append(name)
            continue
        own_loss, own_update = first_step(build, given)
        difference = max(abs(own_loss - loss), *(np.abs(a - b).max() for a, b in zip(own_update, update, strict=True)))
        if not difference <= tolerance:
            raise AssertionError(
                f"{name} and NumPy by hand differ by {difference:.1e} in loss or gradients; allowed are {tolerance:g}"
            )
    return ready, missing


def first_step(build: Callable[[Problem], training_step.Contender], given: Problem) -> tuple[float, list[np.ndarray]]:
    """The loss and the gradients of a first step, these from how it changed the weights."""
    step, weights = build(given)
    loss = step()
    loss = loss.item() if hasattr(loss, "item") else loss.data  # micrograd's
    after = weights()
    for before, array in zip(given.weights, after, strict=True):
        if (array.shape, array.dtype) != (before.shape, before.dtype):
            raise AssertionError(f"weights of {before.dtype}{before.shape} became {array.dtype}{array.shape}")
    return loss, [(b - a) / given.learning_rate for b, a in zip(given.weights, after, strict=True)]


def step_rows(dtype: str, timings: Timings) -> list[Row]:
    """Microseconds for each contender, then the tape's ratio to each other one."""
    rows = [Row(f"step, {dtype}: {name}", timings.seconds(name) * 1e6, "µs") for name in timings.rounds]
    for name in list(timings.rounds)[1:]:
        limit, target = TARGETS.get(name, (None, None))
        what, ratio = f"step, {dtype}: the tape / {name}", timings.ratio("the tape", name)
        rows.append(Row(what, ratio, "ratio") if limit is None else at_most(what, ratio, "ratio", limit, target))
    return rows


def scalar_steps(examples: int, rounds: int) -> list[Row]:
    """micrograd beside the tape, in float64, which is what it computes in."""
    scale = BATCH / examples
    what = "step, float64: micrograd" + (f" ({examples} examples, times {scale:g})" if scale != 1 else "")
    part = problem(np.float64, examples=BATCH).first(examples)
    ready, missing = agreeing({"micrograd": training_step.micrograd}, part, AGREEMENT["float64"])
    if missing:
        return [Row(f"{what} (not installed)", None, "µs")]
    step = training_step.tape(problem(np.float64, examples=BATCH))[0]
    ready["the tape"] = lambda: [step() for _ in range(STEPS_A_TURN)]  # one alone would find cold caches
    timings = paired(ready, rounds=rounds)
    ratio = timings.ratio("micrograd", "the tape") * scale * STEPS_A_TURN
    return [
        Row(what, timings.seconds("micrograd") * scale * 1e6, "µs"),
        Row("step, float64: micrograd / the tape", ratio, "ratio"),
    ]


def chain(operations: int) -> None:
    """Each operation uses the result of the one before."""
    x, factor = Tensor(1.0, requires_grad=True), Tensor(0.9999)
    value = x
    for _ in range(operations):
        value = value * factor
    value.backward()
    np.testing.assert_allclose(x.grad, 0.9999**operations, rtol=1e-9)


def fan_out(operations: int) -> None:
    """Every operation uses one and the same value, itself the result of an operation."""
    x = Tensor(1.0, requires_grad=True)
    shared = total = x * 3.0
    for _ in range(operations):
        total = total + shared
    total.backward()
    np.testing.assert_allclose(x.grad, 3.0 * (operations + 1), rtol=1e-9)


def growth(what: str, build: Callable[[int], None], largest: int, rounds: int) -> list[Row]:
    """Time and memory for one operation in graphs of four sizes, and how both grow."""
    sizes = [largest // 8, largest // 4, largest // 2, largest]
    calls = {str(size): partial(build, size) for size in sizes}
    timings = paired(calls, rounds=rounds)
    memory = {size: peak_memory(partial(build, size)) for size in sizes}
    gc.disable()
    try:
        return growth_rows(what, timings, paired(calls, rounds=rounds), memory)
    finally:
        gc.enable()


def growth_rows(what: str, timings: Timings, without_collector: Timings, memory: Mapping[int, int]) -> list[Row]:
    """The rows for seconds and bytes a call, by the number of operations."""
    smallest, largest = min(memory), max(memory)

    def grown(timings: Timings) -> float:
        return timings.ratio(str(largest), str(smallest)) * smallest / largest

    def micros(timings: Timings, size: int) -> float:
        return timings.seconds(str(size)) / size * 1e6

    named, memory_grown = f"growth, {what}: largest/smallest", memory[largest] / memory[smallest] * smallest / largest
    return [
        *(Row(f"{what}, {size:,}: time", micros(timings, size), "µs an operation") for size in memory),
        Row(f"{what}, {largest:,}: time, collector off", micros(without_collector, largest), "µs an operation"),
        *(Row(f"{what}, {size:,}: peak memory", memory[size] / size, "bytes an operation") for size in memory),
        at_most(f"{named} time per operation", grown(timings), "ratio", LINEAR, "linear"),
        Row(f"{named} time per operation, collector off", grown(without_collector), "ratio"),
        at_most(f"{named} memory per operation", memory_grown, "ratio", LINEAR, "linear"),
    ]


def peak_memory(call: Callable[[], object]) -> int:
    """The most bytes that Python and NumPy held during a call, beyond what they held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def digits(seeds: int) -> list[Row]:
    """How long digits take, the slowest seed."""
    runs = [training_digits.train(*training_digits.split(), ACCURACY, MOST_EPOCHS, seed) for seed in range(seeds)]
    return digits_rows(min(run[0] for run in runs), *max(run[1:] for run in runs))


def digits_rows(accuracy: float, wall: float, cpu: float, epochs: int) -> list[Row]:
    """The rows for one training; without the accuracy its time meets no target."""
    reached = accuracy >= ACCURACY
    return [
        Row("digits: held-out accuracy", accuracy * 100, "%", f"{ACCURACY * 100:g} %", reached),
        Row("digits: training until then, wall time", wall, "s", "under 10 s", reached and wall < 10),
        Row("digits: training until then, CPU time", cpu, "s"),
        Row("digits: epochs until then", epochs, "epochs"),
    ]


if __name__ == "__main__":
    harness.run(measure)
