"""03a-precision: the weights after a step under autocast, the dtypes in it, and what becomes of numbers.

The reference is NumPy: BF16 is rounded by its bits, and the step of a linear layer is worked out by hand. Inputs are
small whole numbers, so that every sum is exact in BF16 whatever its order; only the weights' last digits are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lecture_lib.notebook.questions.precision import FORMATS, LOSSES, MOMENTUM, STALE, TENSORS

from ..cases import Case, draw_until
from ..description import Description
from ..graded_parts import Graded, Mistake, Simulation

Array = np.ndarray
Rule = Callable[[Array, str], list[str]]
LOST = 2.0**-10
"""BF16 keeps 8 binary digits: next to 1 this one is rounded away."""
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}
SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126}
# Where each format ends: the largest number, what still rounds down to it, what no longer does; the same at 0.
LIMITS: tuple[float, ...] = (65504.0, 65519.0, 65520.0, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 1.25 * 2.0**-15)
LIMITS += (3.3895e38, 3.392e38, 3.397e38, 3.4e38, 2.0**-133, 2.0**-134, 1.5 * 2.0**-134, 2.0**-140, 1.25 * 2.0**-127)


def bfloat16(numbers: Array) -> Array:
    """FP32 numbers rounded to BF16, to the even one at a tie, given back as FP32."""
    bits = numbers.astype(np.float32).view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + half) & np.uint32(0xFFFF0000)).view(np.float32)


def neighbours(numbers: Array) -> Array:
    """FP32 numbers beside those that both formats hold: of magnitudes within FP16, and both signs."""
    held = bfloat16(numbers)
    away = np.where(np.arange(len(held)) % 2, np.float32(np.inf), np.float32(-np.inf))
    return np.nextafter(held, away)


def float16(numbers: Array) -> Array:
    """FP32 numbers rounded to FP16, given back as FP32."""
    with np.errstate(over="ignore", under="ignore"):
        return numbers.astype(np.float32).astype(np.float16).astype(np.float32)


def fate(numbers: Array, name: str, tolerance: float = 0.0) -> list[str]:
    """What the format of that name makes of FP32 numbers."""
    rounded = {"float16": float16, "bfloat16": bfloat16}[name](numbers)
    fates = np.select(
        [np.isinf(rounded), (rounded == 0) & (numbers != 0), np.abs(rounded - numbers) <= tolerance * np.abs(numbers)],
        ["overflow", "underflow", "exact"],
        "rounded",
    )
    return [str(outcome) for outcome in fates]


def gradient(case: Case, autocast: bool = True) -> Array:
    weight, output = case.inputs["weight"].astype(np.float64), dtypes(case)["dtypes.output"]
    if autocast and output == "bfloat16":
        weight = bfloat16(weight).astype(np.float64)
    outputs = case.inputs["x"] @ weight.T
    error = outputs - (case.inputs["y"] if case.inputs["loss"] == "mean squared error" else 0.0)
    return np.asarray((2 * error / error.size).T @ case.inputs["x"])


WEIGHT, AFTERWARDS = "step.weight", "step.autocast afterwards"


def after(case: Case, moved: Array, converted: bool = False, momentum: float = MOMENTUM) -> dict[str, Any]:
    """The weights after a step of SGD with momentum along a gradient."""
    weight = bfloat16(case.inputs["weight"]) if converted else case.inputs["weight"]
    along = moved + momentum * case.inputs["momentum"]
    return {WEIGHT: weight.astype(np.float64) - case.inputs["learning_rate"] * along}


def dtypes(case: Case, **changes: str) -> dict[str, str]:
    stored = case.inputs["stored"]
    output = "float64" if stored == "float64" else "bfloat16"
    loss = "float32" if output == "bfloat16" and case.inputs["loss"] == "mean squared error" else output
    names = {**dict.fromkeys(TENSORS, stored), "output": output, "loss": loss, **changes}
    return {f"dtypes.{name}": dtype for name, dtype in names.items()}


def fates(rule: Rule) -> Simulation:
    return lambda case: {f"fate.{name}": rule(case.inputs["numbers"], name) for name in FORMATS}


def called(to: str, where: Callable[[Array, str], Array], formats: tuple[str, ...] = FORMATS) -> Simulation:
    """Fates that are wrong where a condition on the number holds, in some formats."""

    def rule(numbers: Array, name: str) -> list[str]:
        wrong = where(numbers, name) & (name in formats)
        return [to if changed else right for changed, right in zip(wrong, fate(numbers, name), strict=True)]

    return fates(rule)


def above_largest(numbers: Array, name: str) -> Array:
    return np.abs(numbers) > LARGEST[name]


def below_normal(numbers: Array, name: str) -> Array:
    return (np.abs(numbers) < SMALLEST_NORMAL[name]) & (numbers != 0)


def has(fate_name: str) -> Callable[[Array, str], Array]:
    return lambda numbers, name: np.array(fate(numbers, name)) == fate_name


def converted(case: Case) -> dict[str, Any]:
    """What is observed when the model itself is converted; a momentum that is there keeps its dtype."""
    momentum = case.inputs["stored"] if case.inputs["momentum"] else "bfloat16"
    return {
        **after(case, gradient(case), converted=True),
        **dtypes(case, **{**dict.fromkeys(TENSORS, "bfloat16"), "momentum": momentum}),
    }


def unanswered_step(case: Case) -> dict[str, Any]:
    return {WEIGHT: case.inputs["weight"].astype(np.float64)}


def all_exact(case: Case) -> dict[str, Any]:
    return dict(fates(lambda numbers, _: ["exact"] * len(numbers))(case))


def step_inputs(
    rng: np.random.Generator,
    stored: str,
    loss: str,
    momentum: float,
    rows: int = 4,
    shape: tuple[int, int] = (2, 3),
) -> dict[str, Any]:
    return {
        "weight": rng.choice([-2.0, -1.0, 1.0, 2.0], shape).astype(np.float32)
        + np.float32(LOST if stored == "float32" else 0.0),
        "stored": stored,
        "loss": loss,
        "learning_rate": 0.125,
        "momentum": momentum,
        "x": rng.integers(-2, 3, (rows, shape[1])).astype(np.float64),
        "y": rng.integers(-3, 4, (rows, shape[0])).astype(np.float64),
    }


def is_exact(case: Case) -> bool:
    """Whether BF16 holds the weights after the step, where the weights are stored in it."""
    weight = np.asarray(after(case, gradient(case))[WEIGHT])
    return case.inputs["stored"] != "bfloat16" or bool((bfloat16(weight) == weight).all())


def tells_apart(case: Case) -> bool:
    """Whether the lost digits change the gradient, which they do only where the sums of the rows do not cancel."""
    x = case.inputs["x"]
    return is_exact(case) and float(np.abs(x.sum(1) @ x).max()) >= 2 and bool(gradient(case).any())


def close(rng: np.random.Generator) -> Array:
    return np.array(2.0 ** rng.uniform(-10, 15, 4) * rng.choice([-1.0, 1.0], 4))


def draw(rng: np.random.Generator) -> list[Case]:
    """Weights in each dtype with each loss, on the optimizer's first step and on a later one, in a random order."""
    cases = []
    for number, (stored, name) in enumerate([("float32", "FP32"), ("bfloat16", "BF16"), ("float64", "FP64")] * 2):
        for loss in LOSSES:
            momentum = 2.0 * (number >= 3)
            magnitudes = [*LIMITS, *2.0 ** rng.uniform(-110, 125, 6), *2.0 ** rng.uniform(-24, 16, 12)]
            numbers = [*(magnitudes * rng.choice([-1.0, 1.0], len(magnitudes))), *rng.integers(-300, 300, 6), 0.0, -0.0]
            numbers += [-65520.0, -3.4e38, 65510.0, 3.392e38, 1 + 2.0**-22, *neighbours(close(rng))]

            def drawn(kind: str = name, stored: str = stored, loss: str = loss, momentum: float = momentum) -> Case:
                return Case(f"weights in {kind}, {loss}", step_inputs(rng, stored, loss, momentum))

            case = draw_until(drawn, tells_apart)
            cases.append(Case(case.kind, {**case.inputs, "numbers": rng.permutation(numbers).astype(np.float32)}))
    return [cases[index] for index in rng.permutation(len(cases))]


def domain(rng: np.random.Generator) -> Case:
    """Any finite FP32 numbers, those at the formats' ends and beside numbers that they hold.

    Batches of one, two or four rows; one to three inputs, one, two or four outputs.
    """
    anywhere = rng.integers(0, 2**32, 30, dtype=np.uint32).view(np.float32)
    anywhere = anywhere[np.isfinite(anywhere)]
    limits = rng.choice(LIMITS, 20) * rng.choice([-1.0, 1.0], 20)
    numbers = np.concatenate([anywhere, limits, neighbours(close(rng)), [0.0, -0.0]]).astype(np.float32)

    def drawn() -> Case:
        stored, loss = ["float32", "bfloat16", "float64"][rng.integers(3)], list(LOSSES)[rng.integers(len(LOSSES))]
        outputs, rows = (int(2**power) for power in rng.integers(0, 3, 2))
        momentum = [0.0, 0.0, 2.0, -1.0][rng.integers(4)]
        inputs = step_inputs(rng, stored, loss, momentum, rows, (outputs, int(rng.integers(1, 4))))
        inputs["learning_rate"] = [0.125, 0.125, 0.5][rng.integers(3)]
        return Case("domain", {**inputs, "numbers": numbers})

    return draw_until(drawn, is_exact)


def visible(name: str, numbers: list[float], **how: Any) -> Case:
    """Outputs [3, 0], [-2, -2], [0, 5], [-3, 2] of the rounded weights."""
    how = {"stored": "float32", "loss": "mean squared error", "momentum": 0.0, **how}
    lost = np.float32(LOST if how["stored"] == "float32" else 0.0)
    inputs = {
        "weight": np.array([[1.0, -2.0, 1.0], [2.0, 1.0, -1.0]], dtype=np.float32) + lost,
        "learning_rate": 0.125,
        "x": np.array([[1.0, 0.0, 2.0], [-1.0, 1.0, 1.0], [2.0, 1.0, 0.0], [0.0, 1.0, -1.0]]),
        "y": np.array([[1.0, 0.0], [-2.0, 1.0], [0.0, 3.0], [-1.0, 2.0]]),
        "numbers": np.array(numbers, dtype=np.float32),
        **how,
    }
    return Case(name, inputs)


AT_FP16 = [1.0, 0.1, 65504.0, -65510.0, 65520.0, 2**-24, 2**-26, 1e-6]
LARGE = [0.0, 257.0, -70000.0, 3e38, 3.392e38, 3.4e38, 1e-30, -0.5, 1.0009765625]
SMALL = [1e-38, -1e-39, 2.0**-133, 1e-42]

QUESTION = Description(
    id="03a-precision",
    parts=(
        Graded("step", 2, (WEIGHT, AFTERWARDS)),
        Graded("dtypes", 2, tuple(f"dtypes.{name}" for name in TENSORS)),
        Graded("fate", 2, tuple(f"fate.{name}" for name in FORMATS)),
    ),
    reference=lambda case: {**after(case, gradient(case)), AFTERWARDS: "off", **dtypes(case), **fates(fate)(case)},
    mistakes=(
        Mistake(
            "constant-answer",
            "every number was called exact, in both formats",
            "what a conversion makes of 0.1, and of 65,520",
            lambda case: {**unanswered_step(case), **all_exact(case)},
            also=(all_exact,),
        ),
        Mistake(
            "no-autocast",
            "the output has the weights' dtype: the forward pass did not run under autocast",
            "which lines are inside the autocast context, and which dtype it is given",
            lambda case: {
                **after(case, gradient(case, autocast=False)),
                **dtypes(case, **dict.fromkeys(TENSORS, case.inputs["stored"])),
            },
        ),
        Mistake(
            "fp16-autocast",
            "the output is in FP16: autocast was given the other 16-bit format",
            "the dtype that the autocast context is given",
            lambda case: {
                name: dtype.replace("bfloat16", "float16") if name in ("dtypes.output", "dtypes.loss") else dtype
                for name, dtype in dtypes(case).items()
            },
        ),
        Mistake(
            "model-converted",
            "the model itself was converted: the weights have lost all digits that BF16 does not keep",
            "what autocast converts, and what it leaves unchanged",
            converted,
        ),
        Mistake(
            "stale-gradients",
            "the gradients of the step before were still there and were added",
            "what has to happen to .grad before backward()",
            lambda case: after(case, gradient(case) + STALE),
        ),
        Mistake("never-steps", "the weights did not move", "whether optimizer.step() is reached", unanswered_step),
        Mistake(
            "momentum-lost",
            "the step did not use the momentum that the optimizer had kept from earlier steps",
            "which optimizer takes the step, and what is in its state before",
            lambda case: after(case, gradient(case), momentum=0.0),
        ),
        Mistake(
            "autocast-left-on",
            "autocast is still on when the function has returned: whatever comes next computes in 16 bits",
            "where the autocast context ends",
            lambda case: {AFTERWARDS: "on"},
        ),
        Mistake(
            "loss-outside",
            "the loss has the output's dtype also where autocast computes it in FP32: it was computed outside autocast",
            "which of your lines are inside the autocast context",
            lambda case: dtypes(case, loss=dtypes(case)["dtypes.output"]),
        ),
        Mistake(
            "by-heart",
            "the dtypes are those of the usual case, whatever model and loss were given",
            "the .dtype of each tensor, after the step that made it",
            lambda case: dtypes(
                case, **dict(zip(TENSORS, ["float32", "bfloat16", "float32", "float32", "float32"], strict=True))
            ),
        ),
        Mistake(
            "one-limit-for-both",
            "BF16 was given the limits of FP16; it has the exponents of FP32",
            "torch.finfo of both formats, or what a conversion gives",
            fates(lambda numbers, _: fate(numbers, "float16")),
        ),
        Mistake(
            "largest-is-limit",
            "a number a little above the largest one was called an overflow; it is rounded down to the largest",
            "what the conversion of 65,510 to FP16 gives",
            called("overflow", above_largest),
            also=(called("overflow", above_largest, ("float16",)),),
        ),
        Mistake(
            "tiny-is-limit",
            "numbers below finfo.tiny were called an underflow; there are smaller ones, with fewer digits",
            "what the conversion of 1e-6 to FP16 gives, and what finfo calls smallest_normal",
            called("underflow", below_normal),
            also=(called("underflow", below_normal, ("float16",)),),
        ),
        Mistake(
            "close-is-exact",
            "a number that was rounded a little was called exact",
            "whether old and new number are compared for equality",
            fates(lambda numbers, name: fate(numbers, name, 0.01)),
        ),
        Mistake(
            "positive-only",
            "a large negative number was not seen to overflow",
            "what -70,000 becomes, and its sign",
            called("rounded", lambda numbers, name: has("overflow")(numbers, name) & (numbers < 0)),
        ),
        Mistake(
            "bf16-never-overflows",
            "3.4e38 was said to fit into BF16; its range is large, not infinite",
            "torch.finfo(torch.bfloat16).max",
            called("rounded", has("overflow"), ("bfloat16",)),
        ),
        Mistake(
            "bf16-never-underflows",
            "1e-42 was said not to become 0 in BF16; FP32 holds smaller numbers than BF16",
            "what the conversion of 1e-42 gives",
            called("rounded", has("underflow"), ("bfloat16",)),
        ),
    ),
    visible=(
        visible("weights in FP32; numbers at FP16's limits", AT_FP16),
        visible("the mean of squares as loss; large numbers", LARGE, loss="mean of squares"),
        visible("weights stored in BF16; very small numbers", SMALL, stored="bfloat16"),
        visible(
            "weights in FP64, which autocast leaves alone; momentum 2 from earlier steps",
            [0.5],
            stored="float64",
            momentum=2.0,
        ),
    ),
    draw=draw,
    domain=domain,
)
