"""What each fault is called, what it means and what to do: the texts of the ladder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault that programs have.

    Attributes:
        rung: of the ladder that shows it, 1 to 7.
        title: its name.
        meaning: what happens in such a program.
        remedy: what to do.

    """

    rung: int
    title: str
    meaning: str
    remedy: str


FAULTS = {
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
    "L01": Fault(
        3,
        "softmax applied twice",
        "Cross-entropy applies a softmax of its own: the loss cannot fall below ln(e + C - 1) - 1.",
        "Return the raw scores from the model; apply softmax only to show probabilities.",
    ),
    "L02": Fault(
        3,
        "sigmoid applied twice",
        "The loss applies a sigmoid of its own: for positives it cannot fall below 0.313.",
        "Return raw scores to a loss with logits, or use BCELoss for probabilities.",
    ),
    "L03": Fault(
        3,
        "NLLLoss gets probabilities",
        "It wants their logarithms: the loss lies between -1 and 0 and hardly teaches.",
        "Use log_softmax before NLLLoss, or CrossEntropyLoss on raw scores.",
    ),
    "L04": Fault(
        3,
        "NLLLoss gets raw scores",
        "The loss falls without end as the scores grow.",
        "Use log_softmax before NLLLoss, or CrossEntropyLoss on raw scores.",
    ),
    "L05": Fault(
        3,
        "BCELoss gets raw scores",
        "It wants probabilities between 0 and 1.",
        "Use BCEWithLogitsLoss on raw scores.",
    ),
    "L08": Fault(
        3,
        "prediction and target are broadcast",
        "Each prediction is compared with every target, so the best answer is the mean.",
        "Give both the same shape: predictions.squeeze(1), or targets[:, None].",
    ),
    "L10": Fault(
        3,
        "labels have the wrong type or shape for the loss",
        "CrossEntropyLoss wants class numbers (torch.long, [B]) or probabilities (float, [B, C]).",
        "Call labels.long(), and squeeze a last axis of 1.",
    ),
    "L11": Fault(
        1,
        "binary targets are not 0 and 1",
        "The loss is then no longer bounded below, or pulls the wrong way.",
        "Map the targets to 0.0 and 1.0.",
    ),
    "L13": Fault(
        3,
        "the class axis is in the wrong place",
        "The loss takes another axis for the classes; it runs only because the sizes agree.",
        "CrossEntropyLoss wants [B, C, T]: transpose the outputs.",
    ),
    "L14": Fault(
        2,
        "the loss does not fit the task",
        "It rewards something else than what is asked.",
        "Classes: CrossEntropyLoss; several labels: BCEWithLogitsLoss; numbers: MSELoss or HuberLoss.",
    ),
    "L16": Fault(
        3,
        "the loss is a sum over the batch",
        "The step grows with the batch: the learning rate means something else for every batch size.",
        'Use reduction="mean", or divide by the number of examples.',
    ),
    "L19": Fault(
        3,
        "KL divergence with its arguments misused",
        "kl_div wants log-probabilities first and probabilities second; otherwise its lowest value is no agreement.",
        'F.kl_div(log_probabilities, targets, reduction="batchmean").',
    ),
    "L20": Fault(
        3,
        "a numerically unstable expression",
        "log(0), 0/0 or the slope of sqrt at 0 gives an infinite or undefined gradient.",
        "Use log_softmax, logsumexp, or add a small number inside log and sqrt; where() does not protect a gradient.",
    ),
    "G01": Fault(
        3,
        "gradients are never cleared",
        "Each step uses the sum of all gradients so far.",
        "Call optimizer.zero_grad() before each backward.",
    ),
    "G02": Fault(
        3,
        "gradients are cleared between backward and step",
        "The optimizer sees no gradient.",
        "Order: zero_grad, forward, backward, step.",
    ),
    "G03": Fault(
        3, "the optimizer never steps", "The weights stay as they were.", "Call optimizer.step() after backward."
    ),
    "G04": Fault(3, "no backward pass", "There is no gradient to step along.", "Call loss.backward() before step."),
    "G05": Fault(
        3,
        "the step comes before backward",
        "Each step uses the gradient of the batch before, the first one none.",
        "Order: zero_grad, forward, backward, step.",
    ),
    "G06": Fault(
        3,
        "one step for many batches",
        "The step stands outside of the loop over batches.",
        "Indent optimizer.step() into the loop; declare accumulate if several batches make a step.",
    ),
    "G07": Fault(
        3,
        "accumulated losses are not divided",
        "The gradient is as many times too large as there are micro-batches.",
        "Divide each loss by the number of micro-batches.",
    ),
    "G10": Fault(
        3,
        "micro-batches are left over at the end of an epoch",
        "Their gradient is lost, or goes into the next epoch's first step.",
        "Step once more after the loop, divided by how many there were, then clear.",
    ),
    "G14": Fault(
        3,
        "clipping sees no parameters",
        "model.parameters() is a generator and was used up; nothing is ever clipped.",
        "Pass model.parameters() anew, or keep a list.",
    ),
    "G15": Fault(
        5,
        "every step is clipped hard",
        "All steps have the same length: the rate is no longer what it says.",
        "Raise max_norm to about the usual norm of the gradient.",
    ),
    "G17": Fault(
        3,
        "float16 without loss scaling",
        "Small gradients round to 0.",
        "Use torch.amp.GradScaler, or bfloat16.",
    ),
    "G18": Fault(
        3,
        "the sign is wrong: training climbs",
        "Steps go up the loss.",
        "Minimise the loss: no minus, no maximize=True; minimise 1 - score instead of a score.",
    ),
    "G20": Fault(
        3,
        "the graph is cut",
        "Layers before the cut get no gradient.",
        "Take out detach(), .data, .numpy() or no_grad between the layers; declare frozen what is meant to be.",
    ),
    "G21": Fault(
        3,
        "forward under no_grad",
        "There is no graph to go back through.",
        "Keep no_grad for evaluation.",
    ),
    "G23": Fault(
        3,
        "backward twice through one graph",
        "The graph is freed by the first backward.",
        "Add the losses and go back once; detach the state that one batch hands to the next.",
    ),
    "G24": Fault(
        6,
        "validation in training mode",
        "Dropout is on and batch statistics are used and changed: the number is noisy and validation leaks in.",
        "model.eval() before validation, model.train() after.",
    ),
    "G25": Fault(
        6,
        "training goes on in evaluation mode",
        "Dropout and batch normalisation are off from the first validation on.",
        "Call model.train() at the start of each epoch.",
    ),
    "G27": Fault(
        6,
        "the reported number depends on the batch size",
        "It is a mean of batches, or of the last one, or divided by the wrong count.",
        "Add up over examples, then divide by their number.",
    ),
    "G30": Fault(
        5,
        "the schedule is stepped at the wrong moment",
        "The rate is through after a fraction of the run, or hardly moves.",
        "Step a schedule of batches after each batch, one of epochs after each epoch.",
    ),
    "G32": Fault(
        6,
        "a resumed run is another run",
        "The checkpoint lacks the optimizer's, schedule's or random state.",
        "Save and load the state_dict of model, optimizer and scheduler, and the random streams.",
    ),
    "P01": Fault(
        3,
        "layers in a plain list or dict",
        "They are not registered: not optimised, moved or saved.",
        "Use nn.ModuleList or nn.ModuleDict.",
    ),
    "P02": Fault(
        3,
        "a plain tensor where a parameter was meant",
        "It is not registered: not optimised, moved or saved.",
        "self.w = nn.Parameter(tensor); move the module, not the parameter.",
    ),
    "P03": Fault(
        3,
        "parameters are missing in the optimizer",
        "They get gradients and never change.",
        "Pass model.parameters(), or declare frozen what is meant to stay.",
    ),
    "P04": Fault(
        3,
        "the optimizer holds another model's parameters",
        "The model was made anew, copied or loaded after the optimizer was made.",
        "Make the optimizer last.",
    ),
    "P06": Fault(
        3,
        "parameters are frozen that nobody meant to freeze",
        "requires_grad is False, so they never change.",
        "Look at the filter that freezes; declare frozen what is meant.",
    ),
    "P08": Fault(
        6,
        "layers were unfrozen and the optimizer does not know them",
        "They get gradients from that epoch on and never change.",
        "Add them: optimizer.add_param_group, or make the optimizer anew.",
    ),
    "P11": Fault(
        3,
        "tied weights are two tensors",
        "They begin equal and go apart.",
        "Assign the parameter itself: head.weight = embedding.weight, after any copy or load.",
    ),
    "P14": Fault(
        3,
        "device or type of model and data differ",
        "PyTorch computes on one device and with one type.",
        "Move the batch: x.to(device), and x.float().",
    ),
    "P15": Fault(
        3,
        "a module is never used",
        "Its parameters never get a gradient.",
        "Call it in forward, or take it out.",
    ),
    "P17": Fault(
        6,
        "batch normalisation has the wrong statistics in evaluation",
        "The same batch is good in training mode and bad in evaluation mode.",
        "Leave track_running_stats on and momentum at 0.1, take larger batches, keep frozen parts in eval mode.",
    ),
    "A02": Fault(
        2,
        "the initial scale is too large",
        "The first loss is far above that of guessing: the start is confidently wrong.",
        "Use PyTorch's initialisation, or scale by the square root of the fan-in.",
    ),
    "A03": Fault(
        3,
        "the initial scale is too small",
        "Activations and gradients shrink from layer to layer.",
        "Use PyTorch's initialisation, or scale by the square root of the fan-in.",
    ),
    "A05": Fault(
        4,
        "dead ReLUs",
        "Units are at or below 0 for every example, so they pass no gradient.",
        "Lower the rate, start biases at 0, or use LeakyReLU.",
    ),
    "A06": Fault(
        4,
        "saturated sigmoid or tanh",
        "Units sit where the slope is 0.",
        "Scale the inputs and the initial weights down, or normalise before the activation.",
    ),
    "A07": Fault(
        4,
        "gradients vanish",
        "The first layers hardly move compared with the last ones.",
        "Use ReLU, skip connections or normalisation.",
    ),
    "A08": Fault(
        4,
        "gradients explode",
        "They grow from layer to layer or step to step.",
        "Clip the global norm, use normalisation, or a gated recurrent layer.",
    ),
    "A09": Fault(
        2,
        "no non-linearity between layers",
        "The whole model is one linear map.",
        "Put an activation after each hidden layer.",
    ),
    "A11": Fault(
        3,
        "samples of a batch are mixed",
        "The output of one example depends on the others.",
        "Look for view, reshape, permute, cat or softmax on the batch axis.",
    ),
    "A13": Fault(
        3,
        "the batch axis gets lost for a single example",
        "squeeze() without an axis removes it when the batch has one example.",
        "squeeze(-1): name the axis.",
    ),
    "A14": Fault(
        3,
        "layer sizes do not fit",
        "in_features is not what the layer before gives.",
        "Print the shape before the layer, or use nn.LazyLinear.",
    ),
    "A16": Fault(
        3,
        "padding leaks into the outputs",
        "The output of a sentence depends on how far it was filled up.",
        "Mask the padding in attention, pooling and statistics, or pack the sequence.",
    ),
    "A18": Fault(
        6,
        "too much dropout",
        "Without it the model learns clearly better.",
        "Take 0.1 to 0.3 in small networks.",
    ),
    "A20": Fault(
        3,
        "too small a model",
        "It cannot learn one batch by heart; four times as wide it can.",
        "Widen the narrowest layer.",
    ),
    "A21": Fault(
        6,
        "the model memorises",
        "Validation loss falls, then rises for good, while training loss goes on falling.",
        "Stop early, decay weights, augment, or take a smaller model.",
    ),
    "H01": Fault(5, "the learning rate is too large", "Steps jump over the valley.", "Take the rate named."),
    "H02": Fault(5, "the learning rate is too small", "The run ends long before it arrives.", "Take the rate named."),
    "H03": Fault(
        5,
        "an unsuitable batch size",
        "So few updates, or such noisy ones, that another size learns clearly better in as many epochs.",
        "Take the size named, and scale the rate with it.",
    ),
    "H04": Fault(6, "too few epochs", "Both losses still fall when the run ends.", "Train on."),
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
    "": Fault(3, "the program stops with an error", "", "Read the line named; it is the program's own."),
}
