"""The answers of the quiz '82 %: what next?', kept out of the notebook, where they could be read before a choice."""

from __future__ import annotations

NEXT_STEP = {
    "a": (
        "It may help, and it costs a training. If a third of the mistakes are blurred images, a bigger model meets the "
        "same blur. The curves of rung 6 say whether size is missing."
    ),
    "b": (
        "The curves of rung 6 have answered that: when validation no longer falls, more epochs only learn the training "
        "data by heart."
    ),
    "c": (
        "Yes. An hour of looking tells which kind of mistake is the most frequent, what removing it can bring at most, "
        "and what to try. Every other option is a guess until then."
    ),
    "d": (
        "Rung 5 has found a good rate. A finer one rarely moves the result as far as the most frequent kind of mistake "
        "does."
    ),
}
