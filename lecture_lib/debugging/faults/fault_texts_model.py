"""Texts of the faults of the model and of the settings."""

from __future__ import annotations

from .fault import Fault

MODEL = {
    "A02": Fault(
        2,
        ("initialisation",),
        "the initial scale is too large",
        "The first loss is far above that of guessing: the start is confidently wrong.",
        "Use PyTorch's initialisation, or scale by the square root of the fan-in.",
    ),
    "A03": Fault(
        3,
        ("initialisation",),
        "the initial scale is too small",
        "Activations and gradients shrink from layer to layer.",
        "Use PyTorch's initialisation, or scale by the square root of the fan-in.",
    ),
    "A05": Fault(
        4,
        ("initialisation", "layers"),
        "dead ReLUs",
        "Units are at or below 0 for every example, so they pass no gradient.",
        "Lower the rate, start biases at 0, or use LeakyReLU.",
    ),
    "A06": Fault(
        4,
        ("initialisation", "layers"),
        "saturated sigmoid or tanh",
        "Units sit where the slope is 0.",
        "Scale the inputs and the initial weights down, or normalise before the activation.",
    ),
    "A07": Fault(
        4,
        ("layers", "initialisation"),
        "gradients vanish",
        "The first layers hardly move compared with the last ones.",
        "Use ReLU, skip connections or normalisation.",
    ),
    "A08": Fault(
        4,
        ("layers", "initialisation"),
        "gradients explode",
        "They grow from layer to layer or step to step.",
        "Clip the global norm, use normalisation, or a gated recurrent layer.",
    ),
    "A09": Fault(
        2,
        ("layers", "model"),
        "no non-linearity between layers",
        "The whole model is one linear map.",
        "Put an activation after each hidden layer.",
    ),
    "A11": Fault(
        3,
        ("layers", "model"),
        "samples of a batch are mixed",
        "The output of one example depends on the others.",
        "Look for view, reshape, permute, cat or softmax on the batch axis, and for a missing batch_first=True.",
    ),
    "A13": Fault(
        3,
        ("layers", "model"),
        "the batch axis gets lost for a single example",
        "squeeze() without an axis removes it when the batch has one example.",
        "squeeze(-1): name the axis.",
    ),
    "A14": Fault(
        3,
        ("layers", "model"),
        "layer sizes do not fit",
        "in_features is not what the layer before gives.",
        "Print the shape before the layer, or use nn.LazyLinear.",
    ),
    "A16": Fault(
        3,
        ("layers", "model"),
        "padding leaks into the outputs",
        "The output of a sentence depends on how far it was filled up.",
        "Mask the padding in attention, pooling and statistics, or pack the sequence.",
    ),
    "A18": Fault(
        6,
        ("layers",),
        "too much dropout",
        "Without it the model learns clearly better.",
        "Take 0.1 to 0.3 in small networks.",
    ),
    "A20": Fault(
        3,
        ("model",),
        "too small a model",
        "It cannot memorise one batch; four times as wide it can.",
        "Widen the narrowest layer.",
    ),
    "A21": Fault(
        6,
        ("model", "optimizer"),
        "the model memorises",
        "Validation loss falls, then rises for good, while training loss goes on falling.",
        "Stop early, decay weights, augment, or take a smaller model.",
    ),
    "H01": Fault(
        5,
        ("optimizer",),
        "the learning rate is too large",
        "Steps jump over the valley.",
        "Take the rate named.",
    ),
    "H02": Fault(
        5,
        ("optimizer",),
        "the learning rate is too small",
        "The run ends long before it arrives.",
        "Take the rate named.",
    ),
    "H03": Fault(
        5,
        ("inputs", "optimizer"),
        "an unsuitable batch size",
        "So few updates, or such noisy ones, that another size learns clearly better in as many epochs.",
        "Take the size named, and scale the rate with it.",
    ),
    "H04": Fault(6, ("schedule",), "too few epochs", "Both losses still fall when the run ends.", "Train on."),
}
