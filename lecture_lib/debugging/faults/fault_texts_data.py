"""Texts of the faults of the data and of what is made of it."""

from __future__ import annotations

from .fault import Fault

DATA = {
    "D01": Fault(
        1,
        "inputs not scaled",
        "Large inputs saturate units and make every learning rate wrong for some layer.",
        "Subtract the training set's mean and divide by its standard deviation; for images divide by 255 first.",
    ),
    "D03": Fault(
        1,
        "validation is preprocessed differently",
        "The model meets other numbers in validation than those it learnt from.",
        "Use one function for both: fit mean, deviation, tokens and sizes on training data, apply them to all.",
    ),
    "D04": Fault(
        1,
        "a pretrained model gets other statistics than it expects",
        "Its first layers respond as to an image of another kind.",
        "Scale inputs with the mean and deviation, and order channels, as in the model's own training.",
    ),
    "D06": Fault(
        1,
        "inputs or targets are not finite",
        "One NaN makes the loss, then every weight NaN.",
        "Find the examples named; fill or drop missing values before training.",
    ),
    "D08": Fault(
        1,
        "image axes scrambled",
        "Rows, columns and channels were reinterpreted instead of moved: the pictures are stripes.",
        "Use permute(2, 0, 1), not reshape or view, to bring channels first.",
    ),
    "D09": Fault(
        1,
        "inputs and labels do not belong together",
        "Labels fit these inputs no better than shuffled ones.",
        "Shuffle and sort pairs, never one side; join files and labels by name.",
    ),
    "D10": Fault(
        1,
        "label noise",
        "Many labels contradict what all similar examples say.",
        "Look at the examples named and relabel them; until then a robust loss or early stopping limits the harm.",
    ),
    "D11": Fault(
        1,
        "classes are numbered differently in the two splits",
        "Class 3 means one thing in training and another in validation.",
        "Make the mapping of names to numbers once, on training data, and use it for all splits.",
    ),
    "D12": Fault(
        3,
        "a class label is out of range",
        "The loss asks for an output that the model has not.",
        "Number classes from 0 to C - 1, or give the model one more output.",
    ),
    "D13": Fault(
        1,
        "labels are left out that nobody meant to leave out",
        "The loss skips every example whose label equals its ignore_index.",
        "Code missing labels as something else, or declare ignore_index if they are meant to be skipped.",
    ),
    "D15": Fault(
        1,
        "training data come in the order of their classes",
        "Each batch holds one class or two, and the model runs after the latest one.",
        "Pass shuffle=True to the training loader.",
    ),
    "D16": Fault(
        2,
        "imbalance hidden by accuracy",
        "Always naming the most frequent class scores as well as the model.",
        "Report balanced accuracy, macro F1 or AUPRC, and look at each class.",
    ),
    "D17": Fault(
        1,
        "the same examples in training and validation",
        "Validation measures memory.",
        "Remove duplicates by content before splitting.",
    ),
    "D18": Fault(
        1,
        "near copies in training and validation",
        "Validation measures memory of the original.",
        "Split by original, then augment, resize or re-encode.",
    ),
    "D19": Fault(
        1,
        "groups on both sides of the split",
        "The model recognises the patient, speaker or session.",
        "Split by group: `grouped_split`.",
    ),
    "D20": Fault(
        1,
        "training data are later than validation",
        "The model has seen the future of what it is asked.",
        "Split by time: `chronological_split`.",
    ),
    "D21": Fault(
        2,
        "one input gives the target away",
        "A single column predicts the target almost perfectly; it will not be there when it matters.",
        "Find out when that column is filled in, and drop it.",
    ),
    "D24": Fault(
        6,
        "the test set takes part in choosing",
        "What is chosen on the test set looks better there than anywhere else.",
        "Choose on validation data; read the test set once, at the end.",
    ),
    "D25": Fault(
        1,
        "validation inputs come from elsewhere",
        "Inputs look different: another device, place or time.",
        "Find out what changed; collect or augment training data for it. Declare shift_expected if it is meant.",
    ),
    "D26": Fault(
        1,
        "the classes' shares differ between splits",
        "The prior that the model learns is wrong in validation.",
        "Split stratified, or correct the probabilities by the new shares. Declare shift_expected if it is meant.",
    ),
    "D27": Fault(
        7,
        "the same inputs have other labels in validation",
        "The rule itself changed between the splits.",
        "Compare the labelling rules of both; label fresh data by one rule.",
    ),
    "D28": Fault(
        4,
        "augmentation changes the label",
        "A flipped 2 is no 2: training teaches contradictions.",
        "Leave out the transforms that a person could not ignore.",
    ),
    "D30": Fault(
        6,
        "validation is augmented",
        "Two looks at the same validation example differ.",
        "Give validation its own transform, without anything random.",
    ),
    "D32": Fault(
        1,
        "every worker gives the whole data set",
        "An epoch holds each example as many times as there are workers.",
        "In __iter__, take every n-th example from get_worker_info().id on.",
    ),
    "D34": Fault(
        3,
        "training sees only part of the data",
        "Most examples never reach the model.",
        "Iterate over the whole loader; no break, no next(iter(loader)) inside the loop; check the sampler's indices.",
    ),
    "D35": Fault(
        4,
        "classes are weighted wrongly",
        "The weights make the imbalance worse, or correct it twice.",
        "Weight a class by the inverse of its frequency, in the loss or in the sampler, not in both.",
    ),
    "D36": Fault(
        2,
        "regression targets are not scaled",
        "Losses of thousands or millions make gradients that no learning rate suits.",
        "Standardise targets with training's mean and deviation, and undo it when predicting.",
    ),
    "E01": Fault(
        2,
        "no better than a simple baseline",
        "A rule without a network does as well.",
        "Look for faults on rung 3; if there are none, the inputs may not hold the answer.",
    ),
    "E02": Fault(
        2,
        "the input is ignored",
        "Outputs stay the same whatever comes in.",
        "Look at what the model is called with.",
    ),
    "E03": Fault(
        2,
        "a metric that anything satisfies",
        "A constant answer scores near the top.",
        "Use a metric for which the constant answer is worthless: balanced accuracy, macro F1, AUPRC, R².",
    ),
    "E04": Fault(
        7,
        "a slice fails",
        "Part of the data is far worse than the rest, which the mean hides.",
        "Report the slice, collect or weight its examples.",
    ),
    "E05": Fault(
        7,
        "a shortcut",
        "The model leans on something that is no part of the matter.",
        "Mask, crop or randomise it in training.",
    ),
    "E07": Fault(
        7,
        "confidence does not fit",
        "Predicted probabilities are not the shares that come true.",
        "Scale the scores by a temperature chosen on validation data.",
    ),
}
