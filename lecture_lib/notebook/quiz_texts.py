"""What is said to each option of the notebooks' quizzes."""

FLAT_LOSS = {
    "a": (
        "The rate may be too large. It may as well be too small, or there may be no gradient: one training "
        "later you know little more. Rung 5 finds the rate in 100 steps, once the rungs below it hold."
    ),
    "b": (
        "AdamW rescales each gradient, so it can hide inputs of the wrong scale, or a rate that is off. A "
        "fault in the wiring stays where it is."
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
