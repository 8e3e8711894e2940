"""Texts of the faults of the loss, the loop and the wiring."""

from __future__ import annotations

from .fault import Fault

TRAINING = {
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
    "": Fault(3, "the program stops with an error", "", "Read the line named; it is the program's own."),
}
