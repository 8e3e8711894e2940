"""What is said to each option of the notebooks' quizzes."""

FLAT_LOSS = {
    "a": (
        "The rate may be too large. It may as well be too small, or there may be no gradient: after "
        "another run you would know little more. Rung 5 finds the rate in 100 steps, once the rungs below it hold."
    ),
    "b": (
        "AdamW rescales each gradient, so it can hide inputs of the wrong scale, or a rate that is off. A "
        "fault in the wiring remains."
    ),
    "c": (
        "Yes. It takes seconds, with a rate that usually works. If the four cannot be learned, the fault is "
        "in the few lines that every step runs: loss, labels, gradients, rate. If they can, those lines work."
        " Look at the data and the baselines before, and climb on after."
    ),
    "d": (
        "Layers add places where the fault can hide. A model that cannot learn four examples does not need capacity."
    ),
}

NEXT_STEP = {
    "a": (
        "It may help, and it costs a training run. If a third of the mistakes are blurred images, a bigger model meets "
        "the same blur. The curves of rung 6 say whether size is missing."
    ),
    "b": (
        "The curves of rung 6 have answered that: when validation no longer falls, with more epochs the model only "
        "memorises the training data."
    ),
    "c": (
        "Yes. An hour of looking shows which kind of mistake is the most frequent, what removing it can bring at most, "
        "and what to try. Every other option is a guess until then."
    ),
    "d": (
        "Rung 5 has found a good rate. A finer one rarely moves the result as far as the most frequent kind of mistake "
        "does."
    ),
}
