"""The known mistakes of 03a-lrfinder in words."""

from __future__ import annotations

from ..question import Misconception

MISCONCEPTIONS = {
    "empty-curve": Misconception(
        "the curve is empty: no step was recorded", "the loop over the steps, and what it adds to the two lists"
    ),
    "linear-rates": Misconception(
        "the rates grow by a constant difference, so nearly all of them lie in the last decade",
        "the ratio of one rate to the one before it",
    ),
    "one-step-short": Misconception(
        "the last rate is one factor short of the upper end",
        "how many factors lie between the first and the last of the rates: there is one fewer than there are rates",
    ),
    "fixed-factor": Misconception(
        "the factor is 1.05 whatever the ends are: in 100 steps that covers a factor of 131",
        "which factor leads from the first rate to the last in this number of steps",
    ),
    "loss-after-step": Misconception(
        "each loss was taken after its step instead of before",
        "which weights a batch meets when its loss is recorded",
    ),
    "never-zeroed": Misconception(
        "the gradients of earlier steps are still in .grad", "what `backward()` adds its result to"
    ),
    "swept-in-eval": Misconception(
        "the sweep ran in eval mode, on running statistics that training does not use",
        "the mode that the model was handed over in",
    ),
    "never-trained": Misconception(
        "the rate rises and the weights stand still", "what should happen to the weights between two losses"
    ),
    "kept-the-end": Misconception(
        "the loss that ended the sweep was recorded as well", "the order of the test and of the recording"
    ),
    "nan-ignored": Misconception(
        "the sweep went on with a loss that is not a number", "what `nan > 4 * lowest` gives in Python"
    ),
    "never-stops": Misconception(
        "the sweep went on after the loss had diverged", "the loss at the step after the rate of 10, in the second case"
    ),
    "not-restored": Misconception(
        "the weights afterwards are those of the last step: nothing was put back, or what was kept was no copy and "
        "followed every step",
        "whether the tensors that you kept are new ones",
    ),
    "buffers-lost": Misconception(
        "the parameters were put back and the buffer was not: the running mean has seen the sweep",
        "what `state_dict()` holds that `parameters()` does not",
    ),
    "modes-lost": Misconception(
        "a module is afterwards in another mode than before",
        "the mode of every module: `train()` and `eval()` set all below the one they are called on",
    ),
    "at-minimum": Misconception(
        "the rate is the one of the lowest loss, at the edge of the rise", "how far before the minimum the rule goes"
    ),
    "step-before": Misconception(
        "the rate is one step of the sweep before the minimum, which is a decade in the lecture's table only",
        "the second curve: how many steps make a decade there",
    ),
    "steepest": Misconception(
        "the rate is where the loss falls most between two neighbours: a rule as well, and another one",
        "which rule the question states",
    ),
    "always-suggests": Misconception(
        "a rate was chosen from a curve that never falls",
        "how far the lowest loss of such a curve lies below the first",
    ),
    "end-not-lowest": Misconception(
        "a curve that ends above its start was taken for one that never falls: nearly every sweep ends so",
        "which loss is compared with the first one",
    ),
    "never-suggests": Misconception(
        "no rate was chosen from a curve that falls", "whether your function returns what it has found"
    ),
}
