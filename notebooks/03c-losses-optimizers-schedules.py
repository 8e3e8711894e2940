# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 03c · Losses, optimizers, schedules
#
# Notebook 03a trains with one loss, one optimizer and one schedule. Here you choose them. A loss turns "what is
# wrong" into a gradient, an optimizer turns the gradient into a step, and a schedule says how long the step is. You
# will write the central parts yourself, on two small tables of real data and on handwritten digits. Some formulas of
# textbooks and tutorials are wrong by a factor or by a sign. You will find out which, by measuring.
#
# How to work: each section states a goal and asks for a prediction before it shows a result. To predict, replace
# `None` in the `predict` cell by a number, or by a word in quotation marks. Each coding question has an answer cell
# and a visible check below it. The check tells you what happened and where to look. Points come from hidden tests on
# other inputs. You may skip a question: nothing later depends on your answer. Run the cells from top to bottom: later
# sections use some names again for other data, and some functions of earlier sections.
#
# Unless a question says otherwise, a function leaves its arguments as they are, and gives the same result when it is
# called again. It gets contiguous tensors on the CPU, and PyTorch has its default settings.
#
# Limits for each cell while your answers are graded: 30 s of CPU time, 120 s of wall-clock time, 3 GB of memory, 64
# processes, 256 MB of files and 1 MB of output. A cell that exceeds a limit, or ends its kernel, loses only its own
# question.
#
# | sections | you will be able to | points |
# |---|---|---|
# | 1 Regression | choose between squared, absolute and Huber loss, and write Huber loss with its gradient | 10 |
# | 2 Logits | write cross-entropy and binary cross-entropy that stay finite at any logit | 14 |
# | 3 Imbalance | give classes weights, write focal loss with its gradient, and measure what both change | 12 |
# | 4 Embeddings | compare distributions and embeddings with KL, triplet loss and InfoNCE | 14 |
# | 5 Optimizers | check an optimizer against its formula | 18 |
# | 6 Groups | give each parameter its own rate and weight decay | 8 |
# | 7 Schedules | compute the rate of every step, and draw it before you train | 14 |
# | 8 Choosing | choose loss, metric, optimizer and schedule for a task, and review a colleague's loop | 10 |

# %% [markdown]
# ## Contents
#
# The minutes are estimates: time to read, predict and run a section, and time to answer its question. The whole takes
# almost five hours. A good division is into four sittings: sections 1 and 2, 3 and 4, 5 and 6, 7 and 8. The last one
# takes 90 minutes, the others take less. No section needs the answers of another one, but some need its functions:
# when you begin a new sitting, choose *Run All Above Selected Cell* in the *Run* menu first. That also fills in the
# table of your progress at the end.
#
# | section | minutes | questions, with minutes |
# |---|---|---|
# | [1 Regression](#1-Regression:-errors-with-outliers) | 10 | [03c-regression](#Question-03c-regression-·-10-points) 15 |
# | [2 Logits](#2-Logits:-classification-without-overflow) | 14 | [03c-stable](#Question-03c-stable-·-14-points) 20 |
# | [3 Imbalance](#3-Imbalance:-a-rare-class) | 12 | [03c-focal](#Question-03c-focal-·-12-points) 22 |
# | [4 Embeddings](#4-Embeddings:-near-and-far) | 13 | [03c-embedding](#Question-03c-embedding-·-14-points) 20 |
# | [5 Optimizers](#5-Optimizers:-from-a-gradient-to-a-step) | 18 | [03c-optimizers](#Question-03c-optimizers-·-18-points) 25 |
# | [6 Groups](#6-Parameter-groups:-not-every-weight-alike) | 10 | [03c-groups](#Question-03c-groups-·-8-points) 15 |
# | [7 Schedules](#7-Schedules:-plan-the-rate-of-every-step) | 18 | [03c-schedules](#Question-03c-schedules-·-14-points) 25 |
# | [8 Choosing](#8-Choosing:-from-the-task-to-a-recipe) | 10 | [03c-choose](#Question-03c-choose-·-6-points) 20, [03c-p](#Question-03c-p-·-4-points,-graded-by-hand) 17 |

# %% tags=["setup"]
import math
import warnings
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np

# %% tags=["setup"]
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD, Adam, AdamW, RMSprop

# %% tags=["setup"]
from lecture_lib.analysis.metrics import auroc
from lecture_lib.data import load_digits, stratified_split
from lecture_lib.notebook import OKABE_ITO, check, predict, reveal, show_figure, show_progress
from lecture_lib.training import losses

# %% [markdown]
# ## 1 Regression: errors with outliers
#
# **Goal.** Know what each regression loss does with a large error, and choose one.
#
# A prediction is wrong by its *residual* $r = \hat y - y$. The mean squared error (MSE) is the mean of $r^2$, and its
# gradient for one prediction is $2r/N$. A residual of 100 contributes 10,000 to the sum, as much as 10,000 residuals
# of 1. The mean absolute error (L1) is the mean of $|r|$, and its gradient is $\pm 1/N$: every residual pulls equally
# hard.
#
# The loss also decides what is predicted. Take a model that gives one constant, and the targets 1, 2, 3, 4 and 100.
# The constant with the smallest MSE is the mean, 22. Which constant has the smallest L1 loss?

# %% tags=["demo"]
predict("constant", None)

# %% tags=["demo"]
five_targets = torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0])
constants = torch.linspace(0, 100, 1001)
residuals = constants[:, None] - five_targets
best_mse = constants[residuals.square().mean(1).argmin()].item()
best_l1 = constants[residuals.abs().mean(1).argmin()].item()

# %% tags=["demo"]
print(f"smallest MSE at {best_mse:.1f}, smallest L1 loss at {best_l1:.1f}")

# %% tags=["demo"]
reveal("constant", best_l1, tolerance=0.1, usual={
    22: "This is the mean, which MSE prefers. One target of 100 moves it by 19.5.",
    2.5: "This is the mean of the four small targets. L1 gives the median of all five.",
})

# %% [markdown]
# The L1 loss is smallest at the median, 3. The median stays 3 when 100 becomes 1,000. So MSE leads to predicting the
# mean of the targets, and L1 to predicting their median. MSE suits errors that are roughly Gaussian. L1 suits errors
# with outliers, but its gradient does not shrink near the target, so the last steps of training jump back and forth.
#
# The *Huber loss* takes the best of both. Up to a threshold $\delta$ it is $r^2/2$, and beyond it is the straight line
# $\delta\,|r| - \delta^2/2$, which continues the parabola with the same value and slope. Its unit is that of $r^2$, and
# $\delta$ has the unit of the target.

# %% tags=["demo"]
grid = torch.linspace(-4, 4, 161, requires_grad=True)
zeros = torch.zeros(161)
curves = {
    "MSE": nn.MSELoss(reduction="sum"), "L1": nn.L1Loss(reduction="sum"),
    "Huber, δ = 1": nn.HuberLoss(delta=1.0, reduction="sum"),
}

# %% tags=["demo"]
slopes_of = {
    name: torch.autograd.grad(loss_of(grid, zeros), grid)[0] for name, loss_of in curves.items()
}
for name, slopes in slopes_of.items():
    print(f"{name}: slope {slopes[100]:.1f} at residual 1, {slopes[160]:.1f} at residual 4")

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(5.5, 3))
for (name, slopes), style, colour in zip(
    slopes_of.items(), ("-", "--", ":"), OKABE_ITO, strict=False
):
    axis.plot(grid.detach(), slopes, style, color=colour, linewidth=2, label=name)
axis.set(xlabel="residual (units of the target)", ylabel="gradient of one residual's loss")
axis.legend()
show_figure(
    figure,
    caption="The gradient of MSE grows with the residual. The gradient of L1 has one size. "
    "The gradient of Huber grows up to δ and then stays constant.",
    alt="Gradient against residual from -4 to 4. MSE: a straight line from -8 to 8. L1: a step "
    "from -1 to 1 at 0. Huber with delta 1: a line from -1 to 1 between residuals -1 and 1, "
    "level outside.",
)

# %% [markdown]
# Does it matter in practice? The diabetes table of scikit-learn has 442 patients with ten measurements each. The target
# is the progress of the disease after a year, a score from 25 to 346. A linear model is trained on 300 patients. The
# optimizer, Adam, makes 400 steps, and the last ones are small. Then 15 of the 300 targets are multiplied by 10, as if
# somebody had dropped the decimal point. The other 142 patients are for validation, and their targets are right.
#
# Trained on the right targets, all three losses give a mean absolute validation error of about 43. Predict the error
# of the MSE model after 5 % of its training targets were spoilt.

# %% tags=["demo"]
predict("spoilt", None)

# %% tags=["demo"]
patients = load_diabetes()
measured = torch.tensor(patients.data * 21, dtype=torch.float32)  # standard deviations of 1
progress = torch.tensor(patients.target, dtype=torch.float32)

# %% tags=["demo"]
order = torch.randperm(442, generator=torch.Generator().manual_seed(0))
training, held_out = order[:300], order[300:]
spoilt_targets = progress[training].clone()
spoilt_targets[:15] *= 10


# %% tags=["demo"]
def linear_error(loss_fn, targets, steps=400):
    """Train a linear model from zero weights; return its mean absolute error on validation data."""
    model = nn.Linear(10, 1)
    nn.init.zeros_(model.weight)
    nn.init.constant_(model.bias, targets.median())
    optimizer = torch.optim.Adam(model.parameters(), lr=3.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_fn(model(measured[training]).squeeze(1), targets).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return (model(measured[held_out]).squeeze(1) - progress[held_out]).abs().mean().item()


# %% tags=["demo"]
regression_losses = {
    "MSE": nn.MSELoss(), "L1": nn.L1Loss(), "Huber, δ = 50": nn.HuberLoss(delta=50.0),
}

# %% tags=["demo"]
errors = {}
for name, loss_fn in regression_losses.items():
    errors[name] = [linear_error(loss_fn, y) for y in (progress[training], spoilt_targets)]
    print(f"{name}: error ≈ {errors[name][0]:.0f}, with spoilt targets ≈ {errors[name][1]:.0f}")

# %% tags=["demo"]
reveal("spoilt", round(errors["MSE"][1]), tolerance=8, usual={
    43: "This is the error without spoilt targets. MSE follows the outliers.",
    45: "5 % of the targets, but their residuals are over ten times as large, and squared.",
})

# %% [markdown]
# The error of MSE rises from about 43 to about 87. L1 and Huber stay at 43. The 15 spoilt targets raised the mean of
# the training targets by about 77, and a model trained with MSE follows the mean. Should outliers always be ignored?
# No. If they are real, the loss must say what they cost. For a power grid, one forecast that is wrong by 100 can be
# worse than a hundred that are wrong by 1. Then MSE is right. Choose the loss by the cost of an error.
#
# PyTorch has two traps here. `SmoothL1Loss(beta=δ)` is often called the Huber loss, but it is not the same. And if
# targets and predictions have different shapes, `MSELoss` only warns. Predict the ratio `HuberLoss(delta=2)` /
# `SmoothL1Loss(beta=2)`.

# %% tags=["demo"]
predict("smooth", None)

# %% tags=["demo"]
r, zero = torch.tensor([0.5, -1.0, 5.0]), torch.zeros(3)
for delta in (0.5, 1.0, 2.0):
    huber = nn.HuberLoss(delta=delta)(r, zero).item()
    smooth = nn.SmoothL1Loss(beta=delta)(r, zero).item()
    print(f"δ = {delta}: Huber {huber:.4f}, SmoothL1 {smooth:.4f}, ratio {huber / smooth:.2f}")

# %% tags=["demo"]
reveal("smooth", huber / smooth, usual={
    1: "They are equal only at δ = 1, where most people compare them.",
    0.5: "It is the other way round: SmoothL1 is the Huber loss divided by δ.",
})

# %% [markdown]
# The ratio is δ. SmoothL1 is the Huber loss *divided by* δ. If you replace SmoothL1 by Huber, all gradients are
# multiplied by δ. With SGD this has the same effect as a learning rate δ times as large.
#
# The next cell compares 142 perfect predictions of shape `[142, 1]`, as a linear layer gives them, with targets of
# shape `[142]`. Broadcasting turns them into 142 × 142 residuals. Every prediction is compared with every target.

# %% tags=["demo"]
perfect = progress[held_out][:, None]
with warnings.catch_warnings(record=True) as raised:
    warnings.simplefilter("always")
    broadcast = nn.MSELoss()(perfect, progress[held_out]).item()

# %% tags=["demo"]
matching = nn.MSELoss()(perfect.squeeze(1), progress[held_out]).item()
print(f"loss of perfect predictions: {broadcast:.0f} with [142, 1], {matching:.0f} with [142]")
print(f"twice the variance: {2 * progress[held_out].var(correction=0):.0f}")
print(f"warnings: {len(raised)}")


# %% [markdown]
# Perfect predictions get a loss of twice the variance of the targets. A model trained with this loss learns to predict
# their mean, because every prediction is compared with every target. There is one warning, which is easy to miss among
# others. Compare shapes before the loss.
#
# ### Question 03c-regression · 10 points
#
# Write the Huber loss and its gradient.
#
# - `huber_loss(predictions, targets, delta)` returns the mean of the Huber loss over all entries: a number, or a tensor
#   with one number.
# - `huber_gradient(predictions, targets, delta)` returns the gradient of this mean with respect to `predictions`, a
#   tensor of their shape.
#
# Both tensors have the same shape, `[N]` or `[N, D]`, with N and D at least 1, and the same dtype, float32 or
# float64. Their entries are finite, up to 2,000 in magnitude. `delta` is a number from 0.1 to 100. A residual may be
# 0, or exactly `delta` in magnitude.
#
# Hidden cases, 2 points each: loss with all residuals inside δ, loss with residuals beyond δ, gradient inside δ,
# gradient beyond δ, both functions with two axes. The tolerance is 1e-5, or 1e-5 times the largest entry if this entry
# is above 1 in magnitude. Limit: 30 seconds. `huber_loss` and `smooth_l1_loss` of `torch.nn.functional`, their modules,
# and PyTorch's autograd are switched off.
#
# <details><summary>Hint 1</summary>
#
# Work out both pieces at $r = \delta$: values and slopes must be equal there.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Beyond δ the gradient has the sign of the residual and the size δ. What does the mean do to it?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03c-regression", "locked": false, "schema_version": 3, "solution": true, "task": false}
def huber_loss(predictions, targets, delta):
    """Return the mean Huber loss over all entries."""
    ### BEGIN SOLUTION
    distances = torch.abs(predictions - targets)
    quadratic = torch.clamp(distances, max=delta)
    return (quadratic**2 / 2 + delta * (distances - quadratic)).mean()
    ### END SOLUTION


def huber_gradient(predictions, targets, delta):
    """Return the gradient of the mean Huber loss with respect to the predictions."""
    ### BEGIN SOLUTION
    return torch.clamp(predictions - targets, min=-delta, max=delta) / predictions.numel()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03c-regression-test", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
check("03c-regression", huber_loss, huber_gradient)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03c-regression", huber_loss, huber_gradient)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** MSE leads to the mean and follows outliers. L1 leads to the median, with a gradient of one size. Huber is a
# parabola up to δ and a line beyond it. SmoothL1 is Huber divided by δ. Predictions and targets need the same shape.

# %% [markdown]
# ## 2 Logits: classification without overflow
#
# **Goal.** Pair outputs, targets and losses, and compute cross-entropy so that it is finite at any logit.
#
# A classifier returns *logits*: any real numbers, one for each class. The softmax turns a row of them into
# probabilities $p$. The *cross-entropy* of an example is $-\log p$ of its label. Where each label is a yes-or-no
# question of its own, a sigmoid takes the place of the softmax, and the loss is the *binary cross-entropy* (BCE).
# PyTorch's losses for both take logits. Most mistakes are wrong pairs of output, target and loss. The next two cells
# show the right pairs.

# %% tags=["demo"]
torch.manual_seed(0)
examples, yes_or_no = 4, torch.tensor([0.0, 1.0, 1.0, 0.0])
tags = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])

# %% tags=["demo"]
pairs = {
    "one of 3 classes": (nn.CrossEntropyLoss(), (examples, 3), torch.tensor([0, 2, 1, 2])),
    "yes or no": (nn.BCEWithLogitsLoss(), (examples,), yes_or_no),
    "several tags": (nn.BCEWithLogitsLoss(), (examples, 3), tags),
    "a number": (nn.MSELoss(), (examples,), torch.tensor([0.5, 2.0, -1.0, 3.0])),
}

# %% tags=["demo"]
print(f"{'task':18}{'loss':20}{'output':9}target")
for task, (loss_fn, shape, target) in pairs.items():
    value = loss_fn(torch.randn(shape), target)
    assert value.isfinite()
    kind = str(target.dtype).removeprefix("torch.")
    print(f"{task:18}{type(loss_fn).__name__:20}{list(shape)!s:9}{list(target.shape)} {kind}")

# %% [markdown]
# Class indices are `long` (another name for int64), because each one names a class. Yes-or-no targets are `float`,
# because they are probabilities. A fifth task, "which of these is more similar", compares embeddings (section 4).
# Three wrong pairs raise an error at once: float class labels, integer BCE targets, and `[N]` targets for `[N, 1]`
# logits.

# %% tags=["demo"]
wrong_pairs = {
    "CrossEntropyLoss, float labels": (nn.CrossEntropyLoss(), (4, 3), yes_or_no),
    "BCEWithLogitsLoss, long targets": (nn.BCEWithLogitsLoss(), (4,), yes_or_no.long()),
    "BCEWithLogitsLoss, [4, 1] and [4]": (nn.BCEWithLogitsLoss(), (4, 1), yes_or_no),
}

# %% tags=["demo"]
for name, (loss_fn, shape, target) in wrong_pairs.items():
    try:
        loss_fn(torch.zeros(shape), target)
    except (RuntimeError, ValueError) as error:
        print(f"{name}: {type(error).__name__}")

# %% [markdown]
# Other wrong pairs train silently. Somebody trains a two-class model with `MSELoss`, since there are only two
# classes. The target is 1. One model gives the raw output 3. Is that punished? Another model applies a sigmoid, and
# its logit is −8, far on the wrong side. There $p = \sigma(-8) = 0.000335$. The gradient of BCE with respect to the
# logit is $p - y$. Predict how many times as large it is as the gradient of MSE after the sigmoid.

# %% tags=["demo"]
predict("two_classes", None)

# %% tags=["demo"]
confident_right = nn.MSELoss()(torch.tensor(3.0), torch.tensor(1.0)).item()
print(f"raw output 3, target 1: MSE {confident_right:.0f}")
slopes = {}

# %% tags=["demo"]
for name, loss_fn, squash in [
    ("MSE of the sigmoid", nn.MSELoss(), torch.sigmoid),
    ("BCE with logits", nn.BCEWithLogitsLoss(), nn.Identity()),
]:
    logit = torch.tensor(-8.0, requires_grad=True)
    loss_fn(squash(logit), torch.tensor(1.0)).backward()
    slopes[name] = logit.grad.item()
    print(f"logit -8, target 1, {name}: gradient {slopes[name]:.5f}")

# %% tags=["demo"]
factor = slopes["BCE with logits"] / slopes["MSE of the sigmoid"]

# %% tags=["demo"]
reveal("two_classes", factor, tolerance=500, usual={
    1: "The slope of the sigmoid at -8 is 0.0003, and MSE multiplies by it.",
})

# %% [markdown]
# Both models have a problem. Without a sigmoid, MSE punishes a confident right answer: its loss is 4. With a sigmoid,
# the gradient of a confident wrong answer is about 1,500 times too small, so the model hardly learns from its worst
# mistakes. The gradient of BCE, $p - y$, is largest where the answer is most wrong.
#
# Now the arithmetic. The formula $-\log p$ is exact, but a computer rounds. In float32, `exp` overflows above 88.7,
# and $p$ underflows to 0 when the label's logit is about 104 below the largest. Predict the loss that `log(softmax)`
# gives for the logits 0 and 200 with label 0: a number, or "inf" or "nan". The right value is 200.

# %% tags=["demo"]
predict("naive", None)

# %% tags=["demo"]
confident = torch.tensor([[0.0, 200.0]])
label = torch.tensor([0])
print("textbook exp / sum:", -torch.log(confident.exp() / confident.exp().sum())[0, 0].item())
print("log of softmax:", -torch.log(torch.softmax(confident, 1))[0, 0].item())
print("CrossEntropyLoss:", nn.CrossEntropyLoss()(confident, label).item())

# %% tags=["demo"]
low = torch.tensor([-1000.0, -1000.0])
print("log of the sum of exp(-1000) and exp(-1000):", low.exp().sum().log().item())
print(f"the same with logsumexp: {torch.logsumexp(low, 0).item():.2f}")

# %% tags=["demo"]
reveal("naive", str(-torch.log(torch.softmax(confident, 1))[0, 0].item()), usual={
    "200": "This is exact, but p underflows to 0 before the logarithm.",
    "0": "This would be the loss of label 1.",
    "nan": "exp / sum gives nan for label 1: infinity divided by infinity. Label 0 has p = 0.",
})

# %% [markdown]
# The remedy is to compute $\log p$ without computing $p$. A constant can be subtracted from all logits of a row,
# because it cancels in the softmax. With the largest logit $m$ as the constant,
# $\log p_c = z_c - m - \log \sum_j e^{z_j - m}$. The largest exponential is 1, so nothing overflows, and the sum is
# at least 1, so its logarithm is finite. The sigmoid needs the same care: $1 - \sigma(z)$ rounds to 0 at large $z$.
#
# A softmax *before* `CrossEntropyLoss` is often said to cost only numerical precision. It costs more. The
# probabilities lie between 0 and 1, and the loss applies its own softmax to them. For 10 classes it cannot fall below
# $\ln(1 + 9/e) = 1.46$, and its gradients are small. The next cells train a small network on 30 % of the digits with
# three losses. The third uses *label smoothing*: the target of the label is a little below 1, and the other classes
# get a small target above 0. The numbers of this run are for one seed. Predict the validation accuracy with two
# softmaxes, in percent. With one it is about 96.

# %% tags=["demo"]
predict("double", None)

# %% tags=["demo"]
digits = load_digits()
pixels = digits.images.flatten(1)
training, held_out = stratified_split(digits.labels, (0.3, 0.7), seed=0)


# %% tags=["demo"]
def softmax_twice(logits, labels):
    return nn.CrossEntropyLoss()(logits.softmax(1), labels)



# %% tags=["demo"]
def fit_digits(loss_fn, steps=150):
    """Train a small network; return its accuracy, its lowest accuracy on a digit, and its mean
    confidence in wrong answers."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_fn(network(pixels[training]), digits.labels[training]).backward()
        optimizer.step()
    with torch.no_grad():
        confidence, answers = network(pixels[held_out]).softmax(1).max(1)
    labels = digits.labels[held_out]
    wrong = answers != labels
    lowest = min(1 - wrong[labels == digit].float().mean().item() for digit in range(10))
    return 1 - wrong.float().mean().item(), lowest, confidence[wrong].mean().item()


# %% tags=["demo"]
results = {
    "cross-entropy": fit_digits(nn.CrossEntropyLoss()),
    "softmax twice": fit_digits(softmax_twice),
    "label smoothing 0.1": fit_digits(nn.CrossEntropyLoss(label_smoothing=0.1)),
}

# %% tags=["demo"]
for name, (accuracy, lowest, confidence) in results.items():
    right = f"{100 * accuracy:.0f} %, worst digit ≈ {100 * lowest:.0f} %"
    print(f"{name}: accuracy ≈ {right}, confidence when wrong ≈ {confidence:.1f}")


floor = softmax_twice(1000.0 * torch.eye(10)[:1], torch.tensor([0])).item()
print(f"lowest loss with two softmaxes: {floor:.4f}")

# %% tags=["demo"]
reveal("double", round(100 * results["softmax twice"][0]), "%", tolerance=3, usual={
    95: "Some seeds come close to this. With this one the network never learns one of the digits.",
    10: "This is chance. The gradient is small, not zero.",
})

# %% [markdown]
# With the second softmax this network never learns one of the ten digits, which costs about ten points of accuracy. No
# error is raised. Of the six seeds 0 to 5, four lose a digit, and two lose less than one point. Label smoothing makes
# the network less certain of its wrong answers. Here it also raises the accuracy by about one point, with each of these
# seeds.
#
# How are the smoothed targets distributed? Many texts give $1-\varepsilon$ to the label and $\varepsilon/(C-1)$ to
# each other class. PyTorch's gradient shows it. The gradient of the cross-entropy is $p - q$, with the target
# distribution $q$. At logits of 0 every $p$ is 1/10. Predict the label's target for $\varepsilon = 0.1$.

# %% tags=["demo"]
predict("smoothing", None)

# %% tags=["demo"]
equal_logits = torch.zeros(1, 10, requires_grad=True)
nn.CrossEntropyLoss(label_smoothing=0.1)(equal_logits, torch.tensor([3])).backward()
distribution = (1 / 10 - equal_logits.grad)[0]
print(f"label {distribution[3].item():.4f}, each other class {distribution[0].item():.4f}")

# %% tags=["demo"]
lowest = -(distribution * distribution.log()).sum().item()
print(f"lowest possible loss: {lowest:.4f}")

# %% tags=["demo"]
reveal("smoothing", distribution[3].item(), tolerance=0.004, usual={
    0.9: "This is 1 - ε, with ε/(C-1) for the others. In PyTorch the label gets ε/C as well.",
})


# %% [markdown]
# The label has 0.91 and the others 0.01 each, because ε is shared among *all* classes. With this smoothing the loss
# cannot fall below 0.50, so losses with and without it cannot be compared. For evaluation use the plain loss.
#
# ### Question 03c-stable · 14 points
#
# Write both classification losses. They must be finite for all logits described below.
#
# - `cross_entropy(logits, labels, weight, label_smoothing)` returns the cross-entropy. For each example the target
#   distribution is $q = (1-\varepsilon)\cdot$ one-hot $+\ \varepsilon/C$, and its loss is
#   $-\sum_c \mathrm{weight}_c\, q_c \log p_c$. Add up the losses of all examples. Divide by the sum, over all examples,
#   of the weight of the example's label.
# - `binary_cross_entropy(logits, targets, pos_weight)` returns the mean over all entries of
#   $-[\mathrm{pos\_weight}\cdot y \log \sigma(z) + (1-y) \log(1 - \sigma(z))]$.
#
# Each returns a number, or a tensor with one number. N and L are at least 1, and C is at least 2. For `cross_entropy`,
# `logits` is `[N, C]`, `labels` is `long`, `[N]`, from 0 to C − 1, `weight` is `[C]`, and `label_smoothing` is a number
# from 0 to 0.5. For `binary_cross_entropy`, `logits` and `targets` are `[N, L]`, `targets` has entries from 0 to 1, and
# `pos_weight` is `[L]`. Both weights have entries from 0.1 to 10. All tensors but `labels` have the same dtype: float64
# with logits between −10,000 and 10,000, or float32 with logits between −20 and 20.
#
# Hidden cases: cross-entropy with moderate logits 2 points, with logits of a thousand 3, with class weights 2, with
# label smoothing 2, with both 1; the binary loss with moderate logits 1, with logits of a thousand 2, with
# `pos_weight` 1. The tolerance is 1e-5, or 1e-5 times the loss if the loss is above 1. Limit: 30 seconds.
# `cross_entropy`, `nll_loss`, `binary_cross_entropy_with_logits`, `multilabel_soft_margin_loss`, `log_softmax`,
# `logsigmoid` and `softplus` of `torch.nn.functional`, and `torch.log_softmax`, `torch.logsumexp` and `torch.logaddexp`
# are switched off. The tensor methods with these names work, but then you would not have practised.
#
# <details><summary>Hint 1</summary>
#
# Subtract each row's largest logit first (`keepdim=True`). Compute log p from the shifted logits, never from p.
#
# </details>
# <details><summary>Hint 2</summary>
#
# $\log \sigma(z) = \min(z, 0) - \log(1 + e^{-|z|})$. And $1 - \sigma(z) = \sigma(-z)$.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03c-stable", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cross_entropy(logits, labels, weight, label_smoothing):
    """Return the weighted cross-entropy with smoothed labels."""
    ### BEGIN SOLUTION
    shifted = logits - logits.amax(dim=1, keepdim=True)
    log_p = shifted - torch.log(torch.exp(shifted).sum(dim=1, keepdim=True))
    q = torch.full_like(log_p, label_smoothing / logits.shape[1])
    q[torch.arange(len(labels)), labels] += 1 - label_smoothing
    return -(weight * q * log_p).sum() / weight[labels].sum()
    ### END SOLUTION


def binary_cross_entropy(logits, targets, pos_weight):
    """Return the mean binary cross-entropy with weights for positive targets."""
    ### BEGIN SOLUTION
    def log_sigmoid(z):
        return torch.clamp(z, max=0) - torch.log1p(torch.exp(-z.abs()))

    positive = pos_weight * targets * log_sigmoid(logits)
    return -(positive + (1 - targets) * log_sigmoid(-logits)).mean()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03c-stable-test", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false}
check("03c-stable", cross_entropy, binary_cross_entropy)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03c-stable", cross_entropy, binary_cross_entropy)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** One of several classes: logits `[N, C]`, `long` labels, `CrossEntropyLoss`. Yes or no, once or for
# several tags: logits and float targets of the same shape, `BCEWithLogitsLoss`. Never apply softmax or sigmoid before
# them. Label smoothing gives ε/C to every class, the label included.

# %% [markdown]
# ## 3 Imbalance: a rare class
#
# **Goal.** Give classes and examples weights, and know what a weight changes and what it does not.
#
# The breast-cancer table of scikit-learn describes 569 tumours by measurements. To make the class *malignant* rare,
# only 12 malignant and 240 benign tumours are used for training, and all others for validation. A linear model is
# trained with four losses. The metric is two numbers: the share of malignant tumours that are found (*recall*), and
# the share of benign ones that are recognised (*specificity*). Accuracy would hide the rare class: "always benign" is
# right for 95 % of the training set.
#
# *Class weights* multiply the loss of each example by a number for its class. Balanced weights are $N/(C\,n_c)$, with
# $n_c$ examples of class $c$ among $N$. Then all classes have the same total weight.
#
# *Focal loss* gives each example a weight instead: $-\alpha_t (1-p)^\gamma \log p$, where $p$ is the probability of the
# label. An easy example, with $p$ near 1, hardly counts. The weight $\alpha_t$ is $\alpha$ for the rare class and
# $1 - \alpha$ for the other. The usual setting is $\gamma = 2$ and $\alpha = 0.25$. Predict by what factor $\gamma = 2$
# makes the loss of an example with $p = 0.9$ smaller, compared with $\gamma = 0$.

# %% tags=["demo"]
predict("easy", None)

# %% tags=["demo"]
probability, label_one = torch.linspace(0.01, 0.999, 200), torch.tensor([1])
pairs_of_logits = torch.stack([torch.zeros(200), torch.logit(probability)], dim=1)

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(5.5, 3))
gammas, styles = (0.0, 0.5, 2.0, 5.0), ("-", "--", "-.", ":")
for gamma, style, colour in zip(gammas, styles, OKABE_ITO, strict=False):
    values = [losses.focal_loss(z[None], label_one, gamma).item() for z in pairs_of_logits]
    axis.plot(probability, values, style, color=colour, linewidth=2, label=f"γ = {gamma:g}")
axis.set(xlabel="probability p of the label", ylabel="focal loss (nats)", ylim=(0, 4))
axis.legend()
show_figure(
    figure,
    caption="The larger γ is, the less an example counts that is already right.",
    alt="Focal loss against the label's probability. At p = 0.1 the losses are 2.3, 2.2, 1.9 and "
    "1.4 for gamma 0, 0.5, 2 and 5. At p = 0.6 they are 0.51, 0.32, 0.08 and 0.005.",
)

# %% tags=["demo"]
easy, hard = torch.tensor([[0.0, math.log(9.0)]]), torch.tensor([[math.log(9.0), 0.0]])
for gamma in (0.0, 2.0):
    both = [losses.focal_loss(logits, label_one, gamma).item() for logits in (easy, hard)]
    print(f"γ = {gamma:g}: loss {both[0]:.5f} at p = 0.9, {both[1]:.3f} at p = 0.1")

# %% tags=["demo"]
reveal("easy", 1 / (1 - 0.9) ** 2, tolerance=5, usual={
    10: "This is 1/(1 - p). With γ = 2 it is squared.",
    81: "This is how much lighter it becomes than an example with p = 0.1.",
})

# %% [markdown]
# The easy example becomes 100 times lighter, and the hard one keeps 81 % of its loss. This was made for object
# detectors, where 100,000 easy background boxes outnumber a few objects. Does it help with every rare class, as is
# often said? Predict which loss finds the *fewest* malignant tumours: `plain` (cross-entropy), `weighted`
# (cross-entropy with balanced weights), `focal` ($\gamma = 2$) or `alpha` (focal with $\alpha = 0.25$ for malignant and
# 0.75 for benign).

# %% tags=["demo"]
predict("fewest", None)

# %% tags=["demo"]
tumours = load_breast_cancer()
malignant = torch.tensor(1 - tumours.target)
order = torch.randperm(569, generator=torch.Generator().manual_seed(0))
sick, healthy = order[malignant[order] == 1], order[malignant[order] == 0]

# %% tags=["demo"]
training = torch.cat([sick[:12], healthy[:240]])
held_out = torch.cat([sick[12:], healthy[240:]])
features = torch.tensor(tumours.data[:, :10], dtype=torch.float32)
features = (features - features[training].mean(0)) / features[training].std(0)


# %% tags=["demo"]
def fit_tumours(loss_fn, steps=150):
    """Train a linear model; return its scores for `malignant` on the validation tumours."""
    model = nn.Linear(10, 2)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_fn(model(features[training]), malignant[training]).backward()
        optimizer.step()
    with torch.no_grad():
        benign_logit, malignant_logit = model(features[held_out]).T
    return malignant_logit - benign_logit



# %% tags=["demo"]
def recall_and_specificity(scores, threshold=0.0):
    called = scores > threshold
    truth = malignant[held_out] == 1
    return called[truth].float().mean().item(), (~called)[~truth].float().mean().item()


# %% tags=["demo"]
balanced = 252 / (2 * malignant[training].bincount())
usual_alpha = torch.tensor([0.75, 0.25])
scores = {
    "plain": fit_tumours(nn.CrossEntropyLoss()),
    "weighted": fit_tumours(nn.CrossEntropyLoss(weight=balanced)),
    "focal": fit_tumours(losses.focal_loss),
    "alpha": fit_tumours(lambda z, y: losses.focal_loss(z, y, weight=usual_alpha)),
}

# %% tags=["demo"]
recalls = {}
for name, values in scores.items():
    recalls[name], specificity = recall_and_specificity(values)
    area = auroc(torch.stack([-values, values], 1).sigmoid(), malignant[held_out])
    rates_found = f"recall ≈ {recalls[name]:.2f}, specificity ≈ {specificity:.2f}"
    print(f"{name:9} {rates_found}, AUROC ≈ {area:.2f}")



# %% tags=["demo"]
reveal("fewest", min(recalls, key=recalls.get), usual={
    "plain": "It comes close. But one of the losses gives the rare class less weight.",
    "weighted": "Balanced weights make a malignant tumour count 20 times as much as a benign one.",
})

# %% [markdown]
# The usual $\alpha = 0.25$ finds the fewest: it gives the *rare* class the smaller weight. In the paper, 0.25 was the
# best partner of $\gamma = 2$ on a detection task, because $\gamma$ had already made the background light. It is not
# meant as a weight for rare classes. Focal loss alone changes little here. Class weights raise the recall from about
# 0.71 to about 0.92, and they cost specificity.
#
# The last column says more. AUROC is the probability that a malignant tumour gets a higher score than a benign one.
# It hardly differs, so all four models *rank* the tumours about equally well. The losses moved the threshold, and you
# can do that after training. The next cell moves the threshold of the plain model until its specificity is that of
# the weighted one.

# %% tags=["demo"]
_, wanted = recall_and_specificity(scores["weighted"])
threshold = scores["plain"][malignant[held_out] == 0].quantile(wanted).item()
recall, specificity = recall_and_specificity(scores["plain"], threshold)
print(f"plain, threshold moved: recall ≈ {recall:.2f}, specificity ≈ {specificity:.2f}")

# %% [markdown]
# With another threshold the plain model finds nearly as many as the weighted one, 0.90 against 0.92. Start with
# cross-entropy, choose the threshold on validation data by what errors cost, and compare weights or focal loss with
# that. Here the threshold was chosen and judged on the same tumours. A number that you report needs a third part, on
# which nothing was chosen.
#
# Weights have a catch. `CrossEntropyLoss(weight=…)` divides the weighted sum by the *sum of the weights* of the
# labels in the batch. All examples of a batch are malignant, and their class has the weight 20. Predict by what
# factor the weight changes the loss.

# %% tags=["demo"]
predict("one_class", None)

# %% tags=["demo"]
torch.manual_seed(0)
batch_logits, all_malignant = torch.randn(4, 2), torch.ones(4, dtype=torch.long)
heavy = torch.tensor([1.0, 20.0])
plain_loss = nn.CrossEntropyLoss()(batch_logits, all_malignant).item()
weighted_loss = nn.CrossEntropyLoss(weight=heavy)(batch_logits, all_malignant).item()
over_examples = losses.focal_loss(batch_logits, all_malignant, gamma=0.0, weight=heavy).item()
print(f"weighted mean: {weighted_loss / plain_loss:.2f} times the plain loss")
print(f"mean over examples: {over_examples / plain_loss:.2f} times")

# %% tags=["demo"]
reveal("one_class", weighted_loss / plain_loss, usual={
    20: "This is the mean over examples. The weighted mean divides by 4 · 20.",
})

# %% [markdown]
# The factor is 1, because weights compare examples *within* a batch. In a batch with only one class they do nothing.
# `focal_loss` of `lecture_lib` takes the mean over examples. The paper divides by the number of boxes that show an
# object. Say which mean you use when you compare losses.
#
# One more formula needs a check. A published gradient of the focal loss with respect to the logit of class 1 reads
# $-\alpha_t (1-p)^\gamma\,[\gamma\,p \log p + (p - 1)]$. Take label 1, logit 0, $\gamma = 2$ and $\alpha_t = 1$.

# %% tags=["demo"]
logit = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)


def focal_at(z):
    return losses.focal_loss(torch.stack([torch.zeros_like(z), z])[None], torch.tensor([1]))


p = torch.sigmoid(logit).item()
printed = -((1 - p) ** 2) * (2 * p * math.log(p) + (p - 1))
with torch.no_grad():
    measured_slope = (focal_at(logit + 1e-6) - focal_at(logit - 1e-6)).item() / 2e-6
focal_at(logit).backward()
print(f"printed formula {printed:+.4f}")
print(f"finite difference {measured_slope:+.4f}, autograd {logit.grad.item():+.4f}")


# %% [markdown]
# The size is right and the sign is wrong. A larger logit makes label 1 more probable, so the loss must fall. A sign
# can be tested without any computation: at $\gamma = 0$ the gradient must be that of the cross-entropy, $p - 1$,
# which is negative.
#
# ### Question 03c-focal · 12 points
#
# Write balanced weights, and the focal loss of yes-or-no labels with its gradient. Let $p$ be the probability of the
# *label*: $\sigma(z)$ for label 1, $1 - \sigma(z)$ for label 0. Let $\alpha_t$ be `alpha` for label 1 and `1 - alpha`
# for label 0.
#
# - `balanced_weights(labels, classes)` returns the weights $N/(C\,n_c)$, shape `[classes]`, in any floating dtype or
#   as a list. `labels` is `long`, `[N]`, and holds each class from 0 to `classes` − 1 at least once; `classes` is 2 or
#   more.
# - `binary_focal_loss(logits, labels, gamma, alpha)` returns the mean over the examples of
#   $-\alpha_t (1-p)^\gamma \log p$: a number, or a tensor with one number.
# - `binary_focal_gradient(logits, labels, gamma, alpha)` returns the gradient of this mean with respect to the logits,
#   shape `[N]`.
#
# `logits` is `[N]`, with N at least 1: float64 with values between −1,200 and 1,200, or float32 with values between −20
# and 20. `labels` is `long`, `[N]`, with entries 0 or 1. All labels of a batch may be equal. `gamma` is a number from 0
# to 5, and `alpha` is from 0.05 to 0.95. Loss and gradient must be finite for all of these. $(1-p)^0$ is 1, also at
# $p = 1$.
#
# Hidden cases: weights 2 points, loss with moderate logits 3, with logits of a thousand 2, gradient with moderate
# logits 3, with logits of a thousand 2. The tolerance is 1e-5, or 1e-5 times the largest entry if this entry is above 1
# in magnitude. Limit: 30 seconds. `focal_loss` of `lecture_lib.training` and PyTorch's autograd are switched off.
# `logsigmoid`, `softplus` and the losses of PyTorch are allowed.
#
# <details><summary>Hint 1</summary>
#
# With $s = 1$ for label 1 and $s = -1$ for label 0, $p = \sigma(s z)$ in both cases. Then you need one formula only.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The derivative of $p$ with respect to $sz$ is $p(1-p)$, and that of $\log p$ is $1-p$. Use the product rule, and
# cancel $1-p$ before you divide by it.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03c-focal", "locked": false, "schema_version": 3, "solution": true, "task": false}
def balanced_weights(labels, classes):
    """Return a weight for each class, so that all classes have the same total weight."""
    ### BEGIN SOLUTION
    return labels.numel() / (classes * torch.bincount(labels, minlength=classes).double())
    ### END SOLUTION


def binary_focal_loss(logits, labels, gamma, alpha):
    """Return the mean focal loss."""
    ### BEGIN SOLUTION
    s = labels * 2 - 1
    alpha_t = torch.where(labels == 1, alpha, 1 - alpha)
    return (
        alpha_t * torch.sigmoid(-s * logits) ** gamma * nn.functional.softplus(-s * logits)
    ).mean()
    ### END SOLUTION


def binary_focal_gradient(logits, labels, gamma, alpha):
    """Return the gradient of the mean focal loss with respect to the logits."""
    ### BEGIN SOLUTION
    s = labels * 2 - 1
    alpha_t = torch.where(labels == 1, alpha, 1 - alpha)
    p, rest = torch.sigmoid(s * logits), torch.sigmoid(-s * logits)
    minus_log_p = nn.functional.softplus(-s * logits)
    return -s * alpha_t * rest**gamma * (rest + gamma * p * minus_log_p) / logits.numel()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03c-focal-test", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false}
check("03c-focal", balanced_weights, binary_focal_loss, binary_focal_gradient)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03c-focal", balanced_weights, binary_focal_loss, binary_focal_gradient)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Balanced weights are $N/(C\,n_c)$. They move the threshold more than they change the ranking. Focal loss
# makes easy examples light; its $\alpha = 0.25$ makes the rare class light as well. The weighted mean of
# `CrossEntropyLoss` divides by the weights of the batch. Check a gradient formula with finite differences.

# %% [markdown]
# ## 4 Embeddings: near and far
#
# **Goal.** Train outputs that are only right in relation to others: a distribution that should match another one, and
# vectors that should be near each other or far apart.
#
# The *KL divergence* $\mathrm{KL}(p \,\|\, q) = \sum_c p_c (\log p_c - \log q_c)$ says how far a distribution $q$ is
# from a given one, $p$. It is 0 when they agree. It trains a small network to imitate a large one (*distillation*),
# and it is part of the loss of a variational autoencoder. Often both logits are first divided by a *temperature*:
# above 1, it makes the distributions flatter, so that the small probabilities count.
#
# `KLDivLoss` has three traps. Its first argument must be *log*-probabilities, its second the probabilities of $p$,
# and the default `reduction="mean"` divides by the number of all entries. Predict by what factor that default is too
# small for 10 classes.

# %% tags=["demo"]
predict("batchmean", None)

# %% tags=["demo"]
torch.manual_seed(0)
teacher, student = torch.randn(8, 10).softmax(1), torch.randn(8, 10).log_softmax(1)
by_definition = (teacher * (teacher.log() - student)).sum(1).mean().item()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch announces that the default will change
    by_entries = nn.KLDivLoss()(student, teacher).item()
per_example = nn.KLDivLoss(reduction="batchmean")(student, teacher).item()
not_logs = nn.KLDivLoss(reduction="batchmean")(student.exp(), teacher).item()
print(f"definition {by_definition:.4f}, batchmean {per_example:.4f}, mean {by_entries:.4f}")
print(f"probabilities in place of logarithms: {not_logs:.4f}")

# %% tags=["demo"]
reveal("batchmean", per_example / by_entries, usual={
    8: "This is the number of examples, which is divided by in both.",
    80: "Both divide by the 8 examples. Only the classes make the difference.",
})

# %% [markdown]
# `mean` is 10 times too small: it divides by examples and classes. Use `batchmean`. With probabilities in place of
# logarithms the result is negative, which no KL divergence can be. Apart from rounding, a negative KL is always a
# bug.
#
# The other losses of this section train *embeddings*: vectors in which distance means something. Search by image,
# face recognition and CLIP rank by distance. The *triplet loss* takes an anchor, a positive that should be near and a
# negative that should be far: $\max(0,\ d(a, p) - d(a, n) + \mathrm{margin})$. Once the negative is farther away than
# the positive by the margin, the triplet has no gradient.
#
# *InfoNCE* compares each query with all keys of the batch at once. Row $i$ of the keys belongs to row $i$ of the
# queries, and all others are negatives. The logits are cosine similarities, divided by a temperature that is *below*
# 1 here, and the loss is the cross-entropy of choosing the query's own key. The name *contrastive loss* is used for
# InfoNCE, and also for an older loss of single pairs with a margin. SimCLR and CLIP train with InfoNCE. Predict its
# value for a batch of 256 pairs and embeddings that know nothing, so that all similarities are equal.

# %% tags=["demo"]
predict("info_nce", None)

# %% tags=["demo"]
constant = torch.ones(256, 16)
nothing_known = losses.info_nce(constant, constant, temperature=0.1).item()
ones = torch.eye(4)
perfect_by_temperature = {t: losses.info_nce(ones, ones, t).item() for t in (1.0, 0.1)}
print(f"256 equal similarities: {nothing_known:.2f}")
for temperature, value in perfect_by_temperature.items():
    print(f"4 pairs, own cosine 1, others 0, temperature {temperature:g}: {value:.4f}")

# %% tags=["demo"]
reveal("info_nce", nothing_known, usual={
    0.0039: "This is the probability of the right key, 1/256. The loss is minus its logarithm.",
    2.3: "This is ln 10, for ten classes. Here 256 keys are compared.",
})

# %% [markdown]
# It is $\ln 256 = 5.55$, like the initial loss of a classifier with 256 classes. The temperature is needed because a
# cosine lies between −1 and 1. Take four pairs with cosine 1 to their own key and 0 to all others. Their loss is
# still 0.74 at temperature 1, and 0.0001 at 0.1.
#
# The batch itself is a trap. Here a pair is two images of the same digit. In a batch of 256 pairs about 25 other keys
# show the query's digit as well. If they count as negatives, the loss pushes them away although they should be near.
# They are *false negatives*. `losses.info_nce` leaves them out when it is told which item each pair shows. The next
# cells train four embeddings on 30 % of the digits. The measure is the share of the 20 nearest neighbours that show
# the same digit, among the other 70 %. For raw pixels it is 0.91. Predict the loss at the end when false negatives
# are in the batch. At best the network gives the same probability to all keys that
# show the query's digit.

# %% tags=["demo"]
predict("false_negatives", None)

# %% tags=["demo"]
digits = load_digits()
pixels, classes = digits.images.flatten(1), digits.labels
training, held_out = stratified_split(classes, (0.3, 0.7), seed=0)


def draw_pairs(generator, count=256):
    """Indices of training images: two different draws of the same digit in each pair."""
    first = torch.randint(len(training), (count,), generator=generator)
    alike = classes[training][first][:, None] == classes[training]
    second = torch.multinomial(alike.float(), 1, generator=generator)[:, 0]
    return training[first], training[second]



# %% tags=["demo"]
def neighbours_alike(network):
    with torch.no_grad():
        embedded = nn.functional.normalize(network(pixels[held_out]), dim=1)
    similarity = (embedded @ embedded.T).fill_diagonal_(-2)
    nearest = similarity.topk(20, dim=1).indices
    return (classes[held_out][nearest] == classes[held_out][:, None]).float().mean().item()


# %% tags=["demo"]
def fit_embedding(loss_fn, steps=80):
    """Train an embedding; return its share of neighbours of the same digit, and the last loss."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(steps):
        first, second = draw_pairs(generator)
        optimizer.zero_grad()
        loss = loss_fn(network(pixels[first]), network(pixels[second]), classes[first])
        loss.backward()
        optimizer.step()
    return neighbours_alike(network), loss.item()



# %% tags=["demo"]
def triplets(first, second, digit):
    """The key of the next pair is the negative, where it shows another digit."""
    anchor, positive = (nn.functional.normalize(rows, dim=1) for rows in (first, second))
    other = digit.roll(1) != digit
    negative = positive.roll(1, 0)
    return nn.TripletMarginLoss(margin=0.5)(anchor[other], positive[other], negative[other])


# %% tags=["demo"]
embeddings = {
    "triplet": fit_embedding(triplets),
    "InfoNCE, temperature 1": fit_embedding(lambda q, k, y: losses.info_nce(q, k, 1.0, y)),
    "InfoNCE, false negatives": fit_embedding(lambda q, k, y: losses.info_nce(q, k, 0.1)),
    "InfoNCE, items known": fit_embedding(lambda q, k, y: losses.info_nce(q, k, 0.1, y)),
}
print(f"raw pixels: {neighbours_alike(nn.Identity()):.2f}")
for name, (share, last_loss) in embeddings.items():
    print(f"{name}: neighbours ≈ {share:.2f}, last loss ≈ {last_loss:.1f}")

# %% tags=["demo"]
reveal("false_negatives", embeddings["InfoNCE, false negatives"][1], tolerance=0.4, usual={
    0: "A loss of 0 would need all other keys to be far away, those of the same digit too.",
    5.5: "This is ln 256, of embeddings that know nothing.",
})

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(5.5, 2.4))
names = list(embeddings)
axis.plot([embeddings[name][0] for name in names], names, "o", color=OKABE_ITO[0])
axis.axvline(0.91, color="grey", linestyle="--", label="raw pixels")
axis.set(xlim=(0.9, 1), xlabel="share of 20 neighbours that show the same digit")
axis.legend(loc="lower right")
show_figure(
    figure,
    caption="All trained embeddings beat raw pixels, and they differ little from each other.",
    alt="A point for each loss, at the share of neighbours that show the same digit: "
    + ", ".join(f"{name} {embeddings[name][0]:.2f}" for name in names)
    + ". A dashed line marks raw pixels at 0.91.",
)


# %% [markdown]
# With false negatives the loss ends near $\ln 26 = 3.3$. Nothing is wrong with the optimizer. About 26 keys look
# alike, and the loss asks the network to choose one of them. With known items the loss falls to almost 0 at
# temperature 0.1, but only to about 4.4 at temperature 1. The neighbours hardly differ on this easy task. So a value
# of InfoNCE means nothing without the batch size, the temperature and the negatives. Compare embeddings on the task
# they are made for.
#
# ### Question 03c-embedding · 14 points
#
# Write the three losses. Each returns a number, or a tensor with one number.
#
# - `kl_loss(student_logits, teacher_logits, temperature)` returns the mean over the examples of
#   $\mathrm{KL}(\text{teacher} \,\|\, \text{student})$. Both distributions are the softmax of the logits divided by
#   the temperature. Leave out the factor $T^2$ that some distillation losses have.
# - `triplet_loss(anchors, positives, negatives, margin)` returns the mean over the triplets of
#   $\max(0,\ d(a, p) - d(a, n) + \mathrm{margin})$ with the Euclidean distance.
# - `info_nce_loss(queries, keys, items, temperature)` returns the mean over the queries of the cross-entropy of
#   choosing the query's own key. Key $i$ belongs to query $i$. Query $i$ is compared with key $i$ and with every key
#   $j$ whose `items[j]` differs from `items[i]`; the others are left out. The logits are cosine similarities divided
#   by the temperature.
#
# Logits are `[N, C]` with C at least 2, between −10 and 10. Anchors, positives, negatives, queries and keys are
# `[N, D]` with D at least 1, and N is at least 1. Entries of embeddings lie between −10 and 10, and every query and key
# has a length of at least 0.1. An anchor and its positive may lie very close together. `items` is `long`, `[N]`; all
# items may be equal. Temperatures are numbers from 0.1 to 5, and `margin` is from 0 to 3. All floating-point tensors
# are float32, or all are float64.
#
# Hidden cases: KL divergence 4 points, triplet loss 4, InfoNCE when all items differ 3, when items occur twice 3. The
# tolerance is 3e-5, or 3e-5 times the loss if the loss is above 1. `nn.functional.pairwise_distance` adds 1e-6 to each
# component of a difference before it takes the norm, and that is accepted, too. Limit: 30 seconds.
# `triplet_margin_loss` and `triplet_margin_with_distance_loss` of `torch.nn.functional`, their modules and `info_nce`
# of `lecture_lib.training` are switched off. `kl_div` and `cross_entropy` are allowed.
#
# <details><summary>Hint 1</summary>
#
# `kl_div(input, target)` is $\mathrm{KL}(\text{target} \,\|\, \text{input})$, with the input in logarithms. Try two
# equal distributions: the loss must be 0.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `items[:, None] == items` marks equal items. All of them are left out, apart from the diagonal. A logit of −∞ takes no
# part in a softmax.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03c-embedding", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kl_loss(student_logits, teacher_logits, temperature):
    """Return the mean KL divergence of the teacher's distributions from the student's."""
    ### BEGIN SOLUTION
    log_p = torch.log_softmax(teacher_logits / temperature, dim=1)
    log_q = torch.log_softmax(student_logits / temperature, dim=1)
    return torch.sum(log_p.exp() * (log_p - log_q)) / len(log_p)
    ### END SOLUTION


def triplet_loss(anchors, positives, negatives, margin):
    """Return the mean triplet loss."""
    ### BEGIN SOLUTION
    near = torch.linalg.vector_norm(anchors - positives, dim=1)
    far = torch.linalg.vector_norm(anchors - negatives, dim=1)
    return (near - far + margin).clamp(min=0).mean()
    ### END SOLUTION


def info_nce_loss(queries, keys, items, temperature):
    """Return the mean cross-entropy of choosing each query's own key."""
    ### BEGIN SOLUTION
    unit_queries = queries / queries.norm(dim=1, keepdim=True)
    unit_keys = keys / keys.norm(dim=1, keepdim=True)
    similarities = unit_queries @ unit_keys.T / temperature
    repeated = (items[:, None] == items).fill_diagonal_(False)
    compared = similarities.masked_fill(repeated, -math.inf)
    return (compared.logsumexp(dim=1) - similarities.diagonal()).mean()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03c-embedding-test", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false}
check("03c-embedding", kl_loss, triplet_loss, info_nce_loss)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03c-embedding", kl_loss, triplet_loss, info_nce_loss)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** KL needs log-probabilities first and `batchmean`. Triplet loss compares distances with a margin. InfoNCE
# is a cross-entropy over the batch, with unit vectors and a temperature. Keys that show the query's item must not be
# negatives.
#
# **Choose a loss.** Start from what is predicted and from what an error costs.
#
# | what is predicted | output and target | loss | when to change it |
# |---|---|---|---|
# | a number | float, same shape | MSE | outliers that must not decide: Huber or L1 |
# | one of C classes | `[N, C]` logits, `long` labels | cross-entropy | noisy labels: label smoothing |
# | yes or no | one logit, float target | BCE with logits | a rare class: move the threshold, then try weights |
# | several tags | `[N, L]` logits, float targets | BCE with logits | rare tags: `pos_weight` |
# | a rare object among many easy examples | logits, labels | focal loss | compare it with cross-entropy first |
# | a distribution | log-probabilities, probabilities | KL, `batchmean` | a large teacher: a temperature above 1 |
# | what is similar | embeddings in pairs or triplets | InfoNCE or triplet | equal items in a batch: leave them out |

# %% [markdown]
# ## 5 Optimizers: from a gradient to a step
#
# **Goal.** Write down what an optimizer does with a gradient, and check it against PyTorch.
#
# An optimizer sees one gradient $g$ for each parameter $\theta$ and makes one step. The learning rate $\eta$ sets its
# size. The other symbols are momentum $\mu$, dampening $d$ and weight decay $\lambda$. These are the steps as PyTorch
# computes them.
#
# | optimizer | step |
# |---|---|
# | SGD | $\theta \leftarrow \theta - \eta\, g$ |
# | momentum | first $v \leftarrow g$, later $v \leftarrow \mu v + (1 - d)\, g$; then $\theta \leftarrow \theta - \eta\, v$ |
# | Nesterov | $v$ of momentum with $d = 0$, then $\theta \leftarrow \theta - \eta\,(g + \mu v)$ |
# | RMSprop | $v \leftarrow \alpha v + (1 - \alpha)\, g^2$, then $\theta \leftarrow \theta - \eta\, g / (\sqrt v + \epsilon)$ |
# | Adam | $m \leftarrow \beta_1 m + (1 - \beta_1)\, g$ and $v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2$; with $\hat m = m / (1 - \beta_1^t)$ and $\hat v = v / (1 - \beta_2^t)$, $\theta \leftarrow \theta - \eta\, \hat m / (\sqrt{\hat v} + \epsilon)$ |
# | AdamW | first $\theta \leftarrow \theta - \eta \lambda \theta$, then the step of Adam |
#
# Three conventions differ between books and libraries. PyTorch's first velocity is the whole first gradient, also
# when $d > 0$. $\epsilon$ is added *after* the root, and after the bias correction. In SGD and Adam `weight_decay` is
# an L2 penalty: $g \leftarrow g + \lambda \theta$ comes before everything else, so the decay passes through the
# velocity and through $\sqrt v$. AdamW shrinks the parameter itself. The averages $m$ and $v$ of RMSprop and Adam
# start at 0, and $t$ is 1 in the first step.
#
# A parameter starts at 1 and gets the gradient 1,000 at every step. The rate is 0.1. Predict the parameter after *five*
# steps of Adam.

# %% tags=["demo"]
predict("adam steps", None)


# %% tags=["demo"]
def five_steps(make, gradient):
    """Return the parameter after each of five steps with the same gradient."""
    parameter, path = nn.Parameter(torch.tensor(1.0)), []
    optimizer = make([parameter])
    for _ in range(5):
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        path.append(round(parameter.item(), 3))
    return path


# %% tags=["demo"]
makers = {
    "SGD": lambda parameters, rate=0.1: SGD(parameters, rate),
    "momentum": lambda parameters, rate=0.1: SGD(parameters, rate, momentum=0.9),
    "Nesterov": lambda parameters, rate=0.1: SGD(parameters, rate, momentum=0.9, nesterov=True),
    "RMSprop": lambda parameters, rate=0.1: RMSprop(parameters, rate),
    "Adam": lambda parameters, rate=0.1: Adam(parameters, rate),
    "AdamW": lambda parameters, rate=0.1: AdamW(parameters, rate),
}

# %% tags=["demo"]
for name, make in makers.items():
    print(f"{name:9}", *(f"{value:8.3f}" for value in five_steps(make, 1.0)))

# %% tags=["demo"]
reveal("adam steps", five_steps(makers["Adam"], 1000.0)[-1], tolerance=0.01, usual={
    -499: "That is SGD. Adam divides the gradient by its own size.",
    0.9: "That is the first step. There are five.",
})

# %% [markdown]
# The table shows five steps with the gradient 1. Follow two rows by hand. Momentum has the velocities 1, 1.9 and
# 2.71, so its second step is 0.19 and its third 0.271. The velocity is a sum of gradients and not an average: with
# $\mu = 0.9$ and a constant gradient it approaches ten times the gradient. A rate that suits SGD is therefore about
# ten times too large with momentum 0.9. Many texts call the velocity a moving average. That would be dampening 0.9,
# and PyTorch's default is 0.
#
# With a constant gradient of any size, Adam moves by the rate at every step. In the first step
# $\hat m / \sqrt{\hat v} = g / |g|$. RMSprop has no bias correction. With a gradient of any size its first step is
# $1 / \sqrt{1 - \alpha}$ times the rate, ten times with $\alpha = 0.99$. AdamW differs from Adam although no setting
# was passed: its `weight_decay` is 0.01 by default, and Adam's is 0.
#
# You may read that the bias correction makes the first steps of Adam too large, and that warm-up is needed for this
# reason. *Without* the correction, how long is Adam's first step, as a multiple of the rate? Take $\beta_1 = 0.9$ and
# $\beta_2 = 0.999$.

# %% tags=["demo"]
predict("uncorrected", None)

# %% tags=["demo"]
gradient = 1000.0
first_average, second_average = (1 - 0.9) * gradient, (1 - 0.999) * gradient**2
ratio = first_average / math.sqrt(second_average)
print(f"m = {first_average:.0f}, root of v = {math.sqrt(second_average):.1f}")

# %% tags=["demo"]
reveal("uncorrected", ratio, "times the rate", tolerance=0.2, usual={
    1: "That is the length with both corrections.",
    0.1: "m is a tenth of the gradient, but the root of v is only about 3 % of it.",
})

# %% [markdown]
# The claim is wrong. The correction makes the first step *shorter*, from 3.2 times the rate to the rate itself. What
# is true is that $\hat v$ rests on few gradients in the first steps. The first steps then have full length in every
# coordinate, even where the gradient is mostly noise. This is one reason for warm-up.
#
# ### Decay through the gradient, or decay of the parameter
#
# Two weights start at 1. Their gradients change sign at every step, so they average to 0. One gradient has size 0.1,
# the other 10. Only the weight decay of 0.1 should move the weights. Each optimizer makes 500 steps with rate 0.01.
# Multiplying by $1 - 0.01 \cdot 0.1$ 500 times gives 0.61. With *Adam*, predict where the weight with the large
# gradient ends.

# %% tags=["demo"]
predict("decayed", None)


# %% tags=["demo"]
def decayed(optimizer_class):
    """Return both weights after 500 steps with gradients that change their sign."""
    weights = nn.Parameter(torch.ones(2))
    optimizer = optimizer_class([weights], lr=0.01, weight_decay=0.1)
    for _, sign in zip(range(500), cycle([1.0, -1.0]), strict=False):
        weights.grad = sign * torch.tensor([0.1, 10.0])
        optimizer.step()
    return weights.tolist()


# %% tags=["demo"]
for optimizer_class in (Adam, AdamW):
    small, large = decayed(optimizer_class)
    print(f"{optimizer_class.__name__:5} gradient 0.1: {small:.2f}   gradient 10: {large:.2f}")

# %% tags=["demo"]
reveal("decayed", decayed(Adam)[1], tolerance=0.05, usual={
    0.61: "That is the decay alone, and AdamW comes close. Adam divides it by the gradient's size.",
})

# %% [markdown]
# Adam adds the decay to the gradient and then divides the sum by $\sqrt{\hat v}$. So a weight with large gradients
# hardly decays (0.93), and one with small gradients decays far too much (0.01). AdamW shrinks both by the same
# factor, to 0.60. This is what *decoupled* means. It does not follow that AdamW always generalises better: that
# depends on the task and has to be measured.
#
# ### How much the rate matters
#
# The next cell trains the same small network on digits for three epochs, with four optimizers and rates from $10^{-4}$
# to 10, all constant. For each optimizer it looks for the smallest of these rates with which more than 60 % of the
# validation images are right at the end. Predict by how many powers of ten this rate of plain SGD is larger than Adam's
# (1 for ten times, 2 for a hundred times).

# %% tags=["demo"]
predict("smallest rates", None)

# %% tags=["setup"]
digits = load_digits()
pixels, classes = digits.images.flatten(1), digits.labels
train_part, val_part, _ = stratified_split(classes, (0.6, 0.2, 0.2), seed=0)


def small_network(seed=0):
    """Return a multilayer perceptron for digits, with weights drawn from a seed."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


# %% tags=["demo"]
def accuracy_after(make, rate, epochs=3):
    """Return the validation accuracy after training at a constant rate."""
    network, order = small_network(), torch.Generator().manual_seed(0)
    optimizer = make(network.parameters(), rate)
    for _ in range(epochs):
        for batch in train_part[torch.randperm(len(train_part), generator=order)].split(64):
            optimizer.zero_grad()
            F.cross_entropy(network(pixels[batch]), classes[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        return (network(pixels[val_part]).argmax(1) == classes[val_part]).float().mean().item()


# %% tags=["demo"]
rates = 10.0 ** np.arange(-4, 2)
accuracies = {
    name: [accuracy_after(makers[name], rate) for rate in rates]
    for name in ("SGD", "Nesterov", "RMSprop", "Adam")
}
smallest = {
    name: rates[np.argmax(np.array(values) > 0.6)].item() for name, values in accuracies.items()
}
print(smallest)

# %% tags=["demo"]
reveal("smallest rates", math.log10(smallest["SGD"] / smallest["Adam"]),
    "powers of ten",
    tolerance=0.5,
    usual={
        0: "SGD's steps shrink with the gradient, and Adam's do not.",
    },
)

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(6, 3.2))
for (name, values), colour, marker in zip(accuracies.items(), OKABE_ITO, "osv^", strict=False):
    axis.plot(rates, values, marker=marker, color=colour, label=name)
axis.set(xscale="log", xlabel="learning rate", ylabel="validation accuracy after 3 epochs")
axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
show_figure(
    figure,
    caption="Each optimizer has its own range of good rates. "
    "Outside this range it learns worse or not at all.",
    alt="Accuracy against rate. SGD peaks at 1 with about 0.90, Nesterov at 0.1 with 0.95, "
    "RMSprop and Adam at 0.01 with 0.94 and 0.93. At 0.0001 the adaptive optimizers have at "
    "most 0.35 and SGD 0.09; at 10 all but RMSprop have 0.10.",
)


# %% [markdown]
# Within three epochs SGD needs a rate of 0.1, Nesterov momentum 0.01 and Adam 0.001. Two other seeds give the same
# rates. The best rates differ too: 1 for SGD, 0.1 for Nesterov momentum, and for Adam 0.01 or 0.1, depending on the
# seed. So a comparison of two optimizers at the same rate is not fair. Each needs a sweep of its own. A table of
# "typical rates" (0.1 for SGD with momentum, $3 \cdot 10^{-4}$ for Adam) is only where a sweep starts.
# $3 \cdot 10^{-4}$ would be too small for these three epochs.
#
# Something else matters for a comparison. `zero_grad()` sets each gradient to `None`, and an optimizer leaves a
# parameter without a gradient unchanged. A gradient of *zero* is not the same: momentum and weight decay still move the
# parameter.
#
# | optimizer | strength | price | shown by |
# |---|---|---|---|
# | SGD | one number to understand, no memory | the step grows with the gradient, so the rate must fit the problem | the largest rates of the sweep |
# | SGD with momentum | opposite gradients cancel, constant ones add up | the effective rate is up to ten times larger | the velocities 1, 1.9, 2.71 |
# | Adam | multiplying all gradients by a constant does not change the step | moves at full length when gradients are only noise; two more tensors of memory for each parameter | the gradient of 1,000 |
# | AdamW | weight decay means the same for every weight | its decay still needs tuning, and is not 0 by default | 0.60 for both weights |
#
# A schedule (section 7) changes the rate during a run. Gradient clipping (03a, section 9) limits the gradient before
# any of these steps.
#
# ### Question 03c-optimizers · 18 points
#
# Write three functions. Each gets a parameter, the gradients of several steps and the learning rates of these steps.
# Each returns the parameter after every step, as a list of tensors or as one tensor with the steps along the first
# axis. Follow the formulas in the table at the start of this section. Each entry of your results must agree with
# PyTorch's to within $10^{-6}$, or to within $10^{-6}$ times the largest entry of that step if this entry is above 1 in
# magnitude.
#
# - `sgd(parameter, gradients, rates, momentum, dampening, nesterov, weight_decay)`
# - `rmsprop(parameter, gradients, rates, alpha, eps)`
# - `adam(parameter, gradients, rates, betas, eps, weight_decay, decoupled)` takes the steps of AdamW when `decoupled` is
#   true, and those of Adam with an L2 penalty otherwise.
#
# `parameter` is a float64 tensor of any shape, including `[]` and shapes with an empty axis. `gradients` is a list of 1
# to 8 float64 tensors of the same shape, with entries up to 10,000 in magnitude, or 0. `rates` is a list of the same
# length, with numbers from 0.001 to 0.5. The rate may change from step to step, and it multiplies the whole step.
# `momentum`, `dampening` and `alpha` lie between 0 and 0.99. When `nesterov` is true or `momentum` is 0, `dampening`
# is 0. `betas` is a pair of numbers from 0 to 0.999, `eps` lies between $10^{-8}$ and 0.1, and `weight_decay` between 0
# and 0.5. Your functions may overwrite the tensors that they get.
#
# Hidden cases: sgd 5 points, nesterov 3, rmsprop 3, adam 4, adamw 3. Limit: 30 seconds. `torch.optim`'s `SGD`,
# `RMSprop`, `Adam` and `AdamW` are switched off while your answer is checked.
#
# <details><summary>Hint 1</summary>
#
# Compute the first case of the check by hand: parameter 1, gradients 1 and 1. Print what your function has after each
# line of the formula.
#
# </details>
# <details><summary>Hint 2</summary>
#
# If all entries of your list are equal, they are one tensor. What does `append` store?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03c-optimizers", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sgd(parameter, gradients, rates, momentum, dampening, nesterov, weight_decay):
    """Return the parameter after each step of SGD."""
    ### BEGIN SOLUTION
    path, velocity = [], None
    for gradient, rate in zip(gradients, rates, strict=True):
        pulled = gradient + weight_decay * parameter
        velocity = pulled if velocity is None else momentum * velocity + (1 - dampening) * pulled
        parameter = parameter - rate * (pulled + momentum * velocity if nesterov else velocity)
        path.append(parameter)
    return path
    ### END SOLUTION


def rmsprop(parameter, gradients, rates, alpha, eps):
    """Return the parameter after each step of RMSprop."""
    ### BEGIN SOLUTION
    path, square_average = [], torch.zeros_like(parameter)
    for gradient, rate in zip(gradients, rates, strict=True):
        square_average = alpha * square_average + (1 - alpha) * gradient.square()
        parameter = parameter - rate * gradient / (square_average.sqrt() + eps)
        path.append(parameter)
    return path
    ### END SOLUTION


def adam(parameter, gradients, rates, betas, eps, weight_decay, decoupled):
    """Return the parameter after each step of AdamW, or of Adam."""
    ### BEGIN SOLUTION
    path, average, square_average = [], torch.zeros_like(parameter), torch.zeros_like(parameter)
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        pulled = gradient if decoupled else gradient + weight_decay * parameter
        kept = parameter * (1 - rate * weight_decay) if decoupled else parameter
        average = betas[0] * average + (1 - betas[0]) * pulled
        square_average = betas[1] * square_average + (1 - betas[1]) * pulled.square()
        mean, square = average / (1 - betas[0] ** step), square_average / (1 - betas[1] ** step)
        parameter = kept - rate * mean / (square.sqrt() + eps)
        path.append(parameter)
    return path
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03c-optimizers-test", "locked": true, "points": 18, "schema_version": 3, "solution": false, "task": false}
check("03c-optimizers", sgd, rmsprop, adam)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03c-optimizers", sgd, rmsprop, adam)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Check an optimizer with five steps on one number. Momentum 0.9 multiplies the effective rate by up to ten.
# Adam's step stays the same when all gradients are multiplied by a constant, and only AdamW decays all weights alike.

# %% [markdown]
# ## 6 Parameter groups: not every weight alike
#
# **Goal.** Give each parameter its own rate and its own weight decay.
#
# `AdamW([{"params": …, "lr": …, "weight_decay": …}, …])` takes groups of parameters, each with its own settings. Two
# uses are common. Weight decay pulls matrices towards 0, but a bias or the scale of a normalisation should not
# shrink. And a body that has been trained before often gets a lower rate than a new head.
#
# A published loop decides by name: no decay if `"bias"`, `"norm"` or `"bn"` occurs in the name of the parameter. The
# network below has two normalisation layers. Predict how many of their four parameters this loop gets wrong.

# %% tags=["demo"]
predict("by name", None)

# %% tags=["demo"]
network = nn.Sequential(
    nn.Linear(64, 64),
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Linear(64, 64),
    nn.LayerNorm(64),
    nn.ReLU(),
    nn.Linear(64, 10),
)

# %% tags=["demo"]
norms = (network[1], network[4])
decays_by_name = {
    name: not any(word in name for word in ("bias", "norm", "bn"))
    for name, _ in network.named_parameters()
}

# %% tags=["demo"]
norm_names = [
    name for name, parameter in network.named_parameters() if name.split(".")[0] in ("1", "4")
]
print({name: "decays" if decays_by_name[name] else "no decay" for name in norm_names})

# %% tags=["demo"]
reveal("by name", sum(decays_by_name[name] for name in norm_names),
    "of 4",
    tolerance=0,
    usual={
        0: "In nn.Sequential the names are numbers: 1.weight, not norm.weight.",
    },
)

# %% [markdown]
# Both scales decay, because `1.weight` and `4.weight` do not say what they are. Anyone may choose a name, but a module
# has one type. So ask the module that owns a parameter.
#
# How much does decay matter to a scale? An AdamW step multiplies a decaying parameter by $1 - \eta\lambda$. With rate
# 0.01 and decay 0.1 a scale whose gradient is 0 falls from 1 to 0.61 in 500 steps.
#
# ### A body that is used again
#
# Train a network in two parts on the digits 0 to 4. The *body* computes features, and the *head* turns them into
# logits. Then give the body a new head for 5 to 9 and train on only 50 images. The head's rate is 0.01. The body's
# rate is 0, a tenth of the head's, or the same. Predict which factor gives the best accuracy on new images of the
# digits 5 to 9: 0, 0.1 or 1.

# %% tags=["demo"]
predict("body rate", None)


# %% tags=["demo"]
def fit(body, head, images, rate, factor, steps, first_digit):
    """Train body and head on these images; the body's rate is `factor` times the head's."""
    order = torch.Generator().manual_seed(0)
    optimizer = AdamW([
        {"params": list(body.parameters()), "lr": factor * rate},
        {"params": list(head.parameters()), "lr": rate},
    ])
    for _ in range(steps):
        batch = images[torch.randint(len(images), (32,), generator=order)]
        optimizer.zero_grad()
        F.cross_entropy(head(body(pixels[batch])), classes[batch] - first_digit).backward()
        optimizer.step()


# %% tags=["demo"]
@torch.no_grad()
def share_right(body, head, images, first_digit):
    """Return the accuracy on these images."""
    return (
        (head(body(pixels[images])).argmax(1) + first_digit == classes[images])
        .float()
        .mean()
        .item()
    )


# %% tags=["demo"]
def transfer(factor, seed=0):
    """Return the accuracy on the new digits with the new head, and on the old with the old one."""
    torch.manual_seed(seed)
    body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    old_head, new_head = nn.Linear(64, 5), nn.Linear(64, 5)
    train_low, train_high = (train_part[(classes[train_part] < 5) == low] for low in (True, False))
    val_low, val_high = (val_part[(classes[val_part] < 5) == low] for low in (True, False))
    fit(body, old_head, train_low, 0.003, 1.0, 300, 0)
    fit(body, new_head, train_high[:50], 0.01, factor, 100, 5)
    return share_right(body, new_head, val_high, 5), share_right(body, old_head, val_low, 0)


# %% tags=["demo", "nbval-ignore-output"]
results = {
    factor: np.mean([transfer(factor, seed) for seed in range(3)], axis=0)
    for factor in (0.0, 0.1, 1.0)
}
for factor, (new, old) in results.items():
    print(f"factor {factor}: digits 5 to 9: {new:.2f}   digits 0 to 4 with the old head: {old:.2f}")

# %% tags=["demo", "nbval-ignore-output"]
reveal("body rate", max(results, key=lambda factor: results[factor][0]),
    tolerance=0,
    usual={
        0.1: "The lower rate is often recommended. Here it costs accuracy.",
    },
)


# %% [markdown]
# With a frozen body the accuracy on the new digits is about 0.56, with a tenth of the rate 0.75, and with the full rate
# 0.87. On the old digits, with the old head, it goes the other way: 1.00, 0.99 and 0.88. So a lower rate *keeps* what
# the body knows, and here it costs accuracy on the new task, because features of 0 to 4 do not suffice for 5 to 9. The
# lower rate is usual where the body was trained on far more data than the new task has. Try several factors.
#
# ### Question 03c-groups · 8 points
#
# Write `make_groups(model, body_rate, head_rate, weight_decay)`. It returns a list of groups for an optimizer. Each
# group is a dict with the keys `"params"`, `"lr"` and `"weight_decay"`, as the optimizers of `torch.optim` take it.
#
# - Each parameter with `requires_grad` is in exactly one group, and only once there. Frozen parameters are in no group.
#   Each layer has a weight, but it may have no bias. A whole layer may be frozen, or only its weight or only its bias.
# - Parameters of `model.body` have the rate `body_rate`, and those of `model.head` have `head_rate`.
# - The weights of `Linear`, `Conv1d` and `Embedding` decay with `weight_decay`. All other parameters have decay 0:
#   every bias, and the scales of normalisation layers of any shape.
#
# `model` is an `nn.Module`. All its parameters belong to `model.body` or to `model.head`, each an `nn.ModuleDict` of
# one or more layers: `Linear`, `Conv1d`, `Embedding`, `LayerNorm` (over one axis or two), `BatchNorm1d` or `GroupNorm`.
# The names of the layers are free and may mislead. Two layers of one type and part may share a weight. The rates and
# `weight_decay` are positive numbers, and the two rates differ. The number and the order of the groups are free, and a
# group may be empty.
#
# Hidden cases: each parameter in exactly one group 3 points, rates 2, decays 3. Limit: 30 seconds. `parameter_groups`,
# the same function of `lecture_lib`, is switched off while your answer is checked.
#
# <details><summary>Hint 1</summary>
#
# `module.named_parameters(recurse=False)` gives what a module itself owns. Go through `part.modules()`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# You meet a shared weight twice this way. How do you know that you have already seen it?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03c-groups", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_groups(model, body_rate, head_rate, weight_decay):
    """Return the groups for an optimizer: each trainable parameter once."""
    ### BEGIN SOLUTION
    matrices = (nn.Linear, nn.Conv1d, nn.Embedding)
    weights = {id(module.weight) for module in model.modules() if isinstance(module, matrices)}
    groups = []
    for part, rate in ((model.body, body_rate), (model.head, head_rate)):
        trained = [parameter for parameter in part.parameters() if parameter.requires_grad]
        for decay, decays in ((weight_decay, True), (0.0, False)):
            chosen = [parameter for parameter in trained if (id(parameter) in weights) == decays]
            groups.append({"params": chosen, "lr": rate, "weight_decay": decay})
    return groups
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03c-groups-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03c-groups", make_groups)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03c-groups", make_groups)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Decide by the type of the owner, not by the name. Check that every trainable parameter is in exactly one
# group. Measure whether a lower rate for the body helps.

# %% [markdown]
# ## 7 Schedules: plan the rate of every step
#
# **Goal.** Know the learning rate of each step before a run starts, and draw it.
#
# A large rate makes progress early, and a small one finishes the work. A schedule goes from one to the other. It is
# stepped after every optimizer step or after every epoch, and the two are easy to confuse.
#
# A training set has 17 batches in an epoch. `StepLR(optimizer, step_size=5, gamma=0.1)` is meant to lower the rate
# every 5 *epochs*, but the loop calls `scheduler.step()` after every *batch*. The rate starts at 0.1. Predict the
# rate at the end of the second epoch, after 34 batches. Give the power of ten: −1 would be the rate 0.1.

# %% tags=["demo"]
predict("wrong unit", None)

# %% tags=["setup"]
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    LambdaLR,
    MultiStepLR,
    ReduceLROnPlateau,
    StepLR,
)

# %% tags=["setup"]
from lecture_lib.training import (
    one_cycle,
    plot_schedule,
    schedule_rates,
    step_decay,
    warmup_cosine,
    with_warmup,
)

# %% tags=["demo"]
stepped_per_batch = schedule_rates(
    lambda optimizer, steps: StepLR(optimizer, 5, gamma=0.1), 35, 0.1
)
print("rate of the first six steps", [round(rate, 4) for rate in stepped_per_batch[:6]])

# %% tags=["demo"]
reveal("wrong unit", math.log10(stepped_per_batch[34]),
    "as a power of ten",
    tolerance=0.1,
    usual={
        -1: "That is right for a scheduler that is stepped once in an epoch.",
        -2: "The rate falls every 5 batches, not once.",
    },
)


# %% [markdown]
# After two epochs the rate is $10^{-7}$, and training has stopped.
# `schedule_rates(schedule, total_steps, learning_rate)` tells you this without any training. The next two cells show
# the damage in runs of ten epochs with three seeds.

# %% tags=["setup"]
def trained(schedule, rate, seed=0, epochs=10, per_epoch=False):
    """Return the validation accuracy of a run with Nesterov momentum and a schedule."""
    network, order = small_network(seed), torch.Generator().manual_seed(seed)
    optimizer = SGD(network.parameters(), rate, momentum=0.9, nesterov=True)
    batches = math.ceil(len(train_part) / 64)
    scheduler = schedule(optimizer, epochs if per_epoch else epochs * batches)
    for _ in range(epochs):
        for batch in train_part[torch.randperm(len(train_part), generator=order)].split(64):
            optimizer.zero_grad()
            F.cross_entropy(network(pixels[batch]), classes[batch]).backward()
            optimizer.step()
            if not per_epoch:
                scheduler.step()
        if per_epoch:
            scheduler.step()
    with torch.no_grad():
        return (network(pixels[val_part]).argmax(1) == classes[val_part]).float().mean().item()


# %% tags=["demo", "nbval-ignore-output"]
def every_five(optimizer, steps):
    """Make a scheduler that divides the rate by ten after every five of its steps."""
    return StepLR(optimizer, 5, gamma=0.1)


for name, per_epoch in (("after each epoch", True), ("after each batch", False)):
    scores = [trained(every_five, 0.1, seed, per_epoch=per_epoch) for seed in range(3)]
    print(name, [round(score, 2) for score in scores])

# %% [markdown]
# The right loop reaches an accuracy of about 0.97, the wrong one 0.3 to 0.5. No error is raised. `train` of
# `lecture_lib` steps the schedule after every optimizer step and tells it the number of steps, so its schedules are
# written in steps.
#
# ### The usual shapes
#
# Below are 119 steps with a largest rate of 0.1. Step and multi-step multiply the rate by a factor at fixed steps.
# Cosine falls slowly, then fast, then slowly, and needs only its two ends. Warm restarts repeat the cosine, here with
# periods of 17, 34 and 68 steps. The cyclical schedule `triangular2` halves its height above the lowest rate after
# each cycle. One-cycle rises and falls once, and moves the momentum from 0.95 to 0.85 and back. In the functions of
# `lecture_lib`, a whole number counts steps and a fraction is a share of the run: `step_decay(30)` lowers the rate
# every 30 steps, `step_decay(0.4)` after each 40 % of the run, and `warmup_cosine(0.1)` warms up for the first 10 %.
# The number of `one_cycle` is its largest rate.

# %% tags=["demo"]
shapes = {
    "step": step_decay(30, 0.5),
    "multi-step": lambda optimizer, steps: MultiStepLR(optimizer, [60, 100], gamma=0.2),
    "cosine": lambda optimizer, steps: CosineAnnealingLR(optimizer, steps),
    "warm-up, cosine": warmup_cosine(0.1),
}

# %% tags=["demo"]
waves = {
    "warm restarts": lambda optimizer, steps: CosineAnnealingWarmRestarts(optimizer, 17, T_mult=2),
    "cyclical": lambda optimizer, steps: CyclicLR(
        optimizer, 0.01, 0.1, step_size_up=20, mode="triangular2"
    ),
    "one-cycle": one_cycle(0.1),
    "warm-up, multi-step": with_warmup(shapes["multi-step"], 0.1),
}

# %% tags=["demo"]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
plot_schedule(shapes, 119, 0.1, ax=axes[0])
plot_schedule(waves, 119, 0.1, ax=axes[1])
show_figure(
    figure,
    caption="Eight schedules with the same peak. All of them end far below it.",
    alt="Two panels, learning rate against optimizer step. Left: stairs at 30, 60 and 90; "
    "stairs at 60 and 100; a half cosine from 0.1 to 0; the same after 12 steps of warm-up. "
    "Right: cosines that restart at steps 17 and 51; triangles with peaks 0.1, 0.055 and "
    "0.0325; one rise to 0.1 at step 35 and a fall to almost 0; stairs after a warm-up.",
)

# %% [markdown]
# A cycle or a restart is said to lift the network out of a bad minimum. Whether it helps must be measured for each
# task. The next cell compares a constant rate and three of these shapes on digits, with a peak of 0.5 and three
# seeds. Predict the difference between the best and the worst mean accuracy, in percentage points.

# %% tags=["demo"]
predict("shapes", None)

# %% tags=["demo", "nbval-ignore-output"]
compared = {
    "constant": lambda optimizer, steps: LambdaLR(optimizer, lambda step: 1.0),
    "cosine": warmup_cosine(0),
    "restarts": lambda optimizer, steps: CosineAnnealingWarmRestarts(
        optimizer, math.ceil(steps / 7), T_mult=2
    ),
    "one-cycle": one_cycle(0.5),
}
means = {
    name: np.mean([trained(schedule, 0.5, seed) for seed in range(3)])
    for name, schedule in compared.items()
}
print({name: f"{mean:.3f}" for name, mean in means.items()})

# %% tags=["demo", "nbval-ignore-output"]
reveal("shapes", 100 * (max(means.values()) - min(means.values())),
    "percentage points",
    tolerance=1,
    usual={
        5: "A good rate leaves the shape of the schedule little to improve.",
    },
)

# %% [markdown]
# The four lie within about one percentage point, which three seeds cannot order. The peak rate mattered far more: in
# section 5 a rate ten times the best one of SGD, or of Nesterov momentum, cost more than 70 points. So tune the rate
# first, with a sweep (03a, section 10), and take a simple schedule. Cosine and one-cycle need only the peak and the
# number of steps.
#
# ### Warm-up
#
# At the start the weights are random, and the averages of momentum and Adam rest on few gradients. Warm-up begins with
# small steps. A text that you may meet says that PyTorch has no warm-up. It has: `LinearLR`, and `SequentialLR` puts it
# before another scheduler. `with_warmup(schedule, 0.1)` does this for any schedule.
#
# The same text gives step $t$ of a warm-up over $W$ steps the rate $\eta \cdot t / W$, with $t$ counted from 0.
# Predict by how much the first step then changes the weights.

# %% tags=["demo"]
predict("first step", None)


# %% tags=["demo"]
def first_change(factor):
    """Return the largest change of a weight in the first step of a warm-up."""
    network = small_network()
    before = network[0].weight.detach().clone()
    optimizer = SGD(network.parameters(), lr=0.1)
    LambdaLR(optimizer, factor)
    F.cross_entropy(network(pixels[:64]), classes[:64]).backward()
    optimizer.step()
    return (network[0].weight - before).abs().max().item()


# %% tags=["demo"]
from_zero, above_zero = (
    first_change(lambda step: step / 5),
    first_change(lambda step: (step + 1) / 6),
)
print(f"t/W: {from_zero:.4f}   (t + 1)/(W + 1): {above_zero:.4f}")

# %% tags=["demo"]
reveal("first step", from_zero, tolerance=1e-6)

# %% [markdown]
# Step 0 has the rate 0, so a whole batch is wasted. $(t + 1)/(W + 1)$ avoids that and reaches the full rate exactly
# when the main schedule begins.
#
# Does warm-up help? The next cell trains with cosine and three lengths of warm-up (none, 10 % and 30 % of the run),
# at a rate of 0.5, which worked well above, and at a rate that is too large.

# %% tags=["demo", "nbval-ignore-output"]
for rate in (0.5, 1.0):
    for warmup in (0, 0.1, 0.3):
        scores = [trained(warmup_cosine(warmup), rate, seed) for seed in range(3)]
        print(f"peak {rate}, warm-up {warmup:3}:", [round(score, 2) for score in scores])

# %% [markdown]
# At 0.5 warm-up changes nothing that three seeds could show. At 1.0 no run without warm-up gets above about 0.6. A
# warm-up over 30 % of the run rescues two of three runs, which reach more than 0.9; the third stays near 0.6. A warm-up
# over 10 % rescues none. So a long warm-up can widen the range of rates that work. It is not always necessary, and no
# length of it is right for every run.
#
# ### Plateau, accumulation, skipped steps
#
# `ReduceLROnPlateau` cuts the rate when the validation loss has not fallen for more than `patience` epochs. It gets
# this loss in `scheduler.step(loss)`, so its rates cannot be drawn before the run. By default a fall of less than
# 0.01 % does not count.

# %% tags=["demo"]
validation_losses = [1.0, 0.7, 0.6, 0.62, 0.61, 0.6, 0.5, 0.52, 0.51, 0.5, 0.53]
optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
plateau = ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
used = []
for loss in validation_losses:
    used.append(optimizer.param_groups[0]["lr"])
    plateau.step(loss)
print("rates", used)

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(6, 2.8))
axis.step(range(len(used)), used, where="post", color=OKABE_ITO[0], label="learning rate")
axis.plot(validation_losses, "o--", color=OKABE_ITO[1], label="validation loss")
axis.set(xlabel="epoch", ylabel="rate, loss", yscale="log")
axis.legend()
show_figure(
    figure,
    caption="With patience 1, the second bad epoch in a row halves the rate from the next epoch "
    "on.",
    alt="Rate and validation loss against epoch, log scale. The loss falls to 0.6 by epoch 2 "
    "and to 0.5 at epoch 6. The rate is 0.1 up to epoch 4, 0.05 from epoch 5 to 8, and 0.025 "
    "from epoch 9 on.",
)


# %% [markdown]
# Two more things change the count of steps. With accumulation an optimizer step takes several batches, and the last
# window of an epoch may be shorter: 5 batches in windows of 2 make 3 steps. The gradient of a shorter window must be
# divided by what that window holds (03a, section 8). And in fp16 `GradScaler` skips a step whose
# gradients overflow. Then the schedule must not move either, because it counts steps that were *taken*.
#
# ### Question 03c-schedules · 14 points
#
# Write four functions. Each returns a sequence of numbers. Steps and epochs are counted from 0.
#
# - `multi_step_rates(rate, milestones, factor, epochs, batches, accumulate)` gives the rate of every optimizer step.
#   The first rate is `rate`. It is multiplied by `factor` at the first step of every epoch in `milestones`.
# - `warmup_cosine_rates(rate, final, warmup, epochs, batches, accumulate)` gives the rate of every optimizer step. The
#   run has $N$ *optimizer steps*, and the first $W$ = `warmup` of them are the warm-up. For $t < W$, step $t$ has the
#   rate $\mathrm{rate} \cdot (t + 1) / (W + 1)$. For $t \ge W$ it has
#   $\mathrm{final} + (\mathrm{rate} - \mathrm{final}) \cdot (1 + \cos(\pi\,(t - W)/(N - W)))/2$.
# - `applied_rates(planned, taken)` gives the rate in force at every attempt to step. `planned` holds the schedule's
#   rates, `taken` says for each attempt whether the step was taken. A skipped step does not move the schedule.
# - `plateau_rates(rate, losses, factor, patience)` gives the rate used in every epoch. `losses` holds the validation
#   loss at the end of each epoch. An epoch is bad unless its loss is lower than all losses before it. After more than
#   `patience` bad epochs in a row the rate is multiplied by `factor` from the next epoch on, and the count of bad
#   epochs starts again at 0.
#
# `epochs` (1 to 6), `batches` of an epoch (1 to 12) and `accumulate` (1 to 9) are whole numbers. An optimizer step
# takes `accumulate` batches, and the last step of an epoch takes those that are left. `milestones` is a strictly
# increasing list of epochs, each at least 1; it may be empty and may name epochs after the end of the run.
# $0 \le W < N$. `rate` and `final` lie between 0.005 and 1, with `final` below `rate`, and `factor` lies between 0.1
# and 0.9. `planned` has 1 to 12 rates; `taken` has 1 to 12 booleans and is not longer than `planned`. `losses` has 1 to
# 16 numbers between $10^{-6}$ and $10^6$, and `patience` is 0 to 4. Rates may differ by $10^{-6}$.
#
# Hidden cases: multi_step 4 points, warmup_cosine 5, applied 2, plateau 3. Limit: 30 seconds. PyTorch's schedulers and
# `lecture_lib`'s are switched off while your answer is checked.
#
# <details><summary>Hint 1</summary>
#
# Write a function for the number of optimizer steps in an epoch first. What does it give for 5 batches in windows of 2,
# and of 8?
#
# </details>
# <details><summary>Hint 2</summary>
#
# In the last two functions, first store the rate that is in force, then decide whether it changes.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03c-schedules", "locked": false, "schema_version": 3, "solution": true, "task": false}
def multi_step_rates(rate, milestones, factor, epochs, batches, accumulate):
    """Return the rate of every optimizer step."""
    ### BEGIN SOLUTION
    windows = math.ceil(batches / accumulate)
    passed = [sum(milestone <= epoch for milestone in milestones) for epoch in range(epochs)]
    return [rate * factor**count for count in passed for _ in range(windows)]
    ### END SOLUTION


def warmup_cosine_rates(rate, final, warmup, epochs, batches, accumulate):
    """Return the rate of every optimizer step."""
    ### BEGIN SOLUTION
    left = epochs * math.ceil(batches / accumulate) - warmup
    rise = [rate * (step + 1) / (warmup + 1) for step in range(warmup)]
    return rise + [
        final + (rate - final) * (1 + math.cos(math.pi * step / left)) / 2 for step in range(left)
    ]
    ### END SOLUTION


def applied_rates(planned, taken):
    """Return the rate in force at every attempt to step."""
    ### BEGIN SOLUTION
    return [planned[sum(taken[:attempt])] for attempt in range(len(taken))]
    ### END SOLUTION


def plateau_rates(rate, losses, factor, patience):
    """Return the rate used in every epoch."""
    ### BEGIN SOLUTION
    in_force, lowest, bad_epochs = [], math.inf, 0
    for loss in losses:
        in_force.append(rate)
        bad_epochs = 0 if loss < lowest else bad_epochs + 1
        lowest = min(lowest, loss)
        if bad_epochs > patience:
            rate, bad_epochs = rate * factor, 0
    return in_force
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03c-schedules-test", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false}
check("03c-schedules", multi_step_rates, warmup_cosine_rates, applied_rates, plateau_rates)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03c-schedules", multi_step_rates, warmup_cosine_rates, applied_rates, plateau_rates)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Count optimizer steps, not batches and not epochs, and draw the schedule before you train. Tune the peak
# rate first. Warm-up must not start at 0, and a skipped step does not move the schedule.

# %% [markdown]
# ## 8 Choosing: from the task to a recipe
#
# **Goal.** Choose loss, metric, optimizer and schedule for a task, try the choice, and review a loop.
#
# A task answers four questions, and each answer narrows one choice. Several choices are often right. The table lists
# what this notebook accepts.
#
# | question | answer | acceptable |
# |---|---|---|
# | which loss? | a number | `mse`, `huber` |
# | | a number, and the targets have outliers | `huber`, `l1` |
# | | one of two classes | `bce_with_logits`, `cross_entropy` |
# | | one of many classes | `cross_entropy` |
# | | several classes at once | `bce_with_logits` |
# | which metric? | a number (with outliers only `mae`) | `mae`, `rmse` |
# | | classes (with a rare class only `macro_f1`) | `macro_f1`, `accuracy` |
# | which optimizer? | any task (for a transformer only `adamw`) | `adamw`, `sgd_momentum` |
# | which schedule? | the length of the run is known | `warmup_cosine`, `one_cycle`, `cosine`, `step` |
# | | the length is known, and the model is a transformer | `warmup_cosine`, `one_cycle` |
# | | the length is not known | `constant`, `plateau` |
#
# Each row is a habit with a reason. The gradient of an outlier grows with its error under `mse`, but not under `huber`.
# A few outliers also decide what an `rmse` says. Softmax makes classes compete, so it does not suit several at once.
# With a rare class, accuracy hides that class, and macro F1 counts all classes alike (03a, section 13). A cosine must
# know the last step. Transformers are not trained in this notebook; the two rows on them say what is usual. Measure
# what a habit is worth. The next cells try acceptable recipes on three data sets of scikit-learn: 442 patients with a
# number that describes their disease (diabetes), 569 tumours of two kinds, and digits. Predict the coefficient of
# determination $R^2$ for diabetes: 0 is as good as predicting the mean for everyone, 1 is perfect.

# %% tags=["demo"]
predict("diabetes", None)


# %% tags=["setup"]
def standardised(loader, seed):
    """Return training and held-out rows of a data set: standardised by the training rows."""
    x, y = loader(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    x, y = torch.tensor(x[order], dtype=torch.float32), torch.tensor(y[order])
    cut = int(0.7 * len(x))
    mean, spread = x[:cut].mean(dim=0), x[:cut].std(dim=0).clamp(min=1e-6)
    x = ((x - mean) / spread).clamp(-5, 5)
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


# %% tags=["setup"]
def fit_recipe(x, y, loss_fn, width, make, schedule, seed, steps=150):
    """Train a small network with a recipe, and return it."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, width))
    optimizer = make(network.parameters())
    scheduler = schedule(optimizer, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        loss_fn(network(x[rows]), y[rows]).backward()
        optimizer.step()
        scheduler.step()
    return network


# %% tags=["setup"]
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.datasets import load_digits as load_small_digits

recipes = {
    "AdamW, warm-up, cosine": (lambda parameters: AdamW(parameters, 0.01), warmup_cosine(0.1)),
    "SGD with momentum, step": (
        lambda parameters: SGD(parameters, 0.05, momentum=0.9),
        step_decay(0.4),
    ),
}

# %% tags=["setup"]
tasks = {
    "diabetes": (load_diabetes, lambda outputs, y: F.huber_loss(outputs[:, 0], y), 1),
    "breast cancer": (
        load_breast_cancer,
        lambda outputs, y: F.binary_cross_entropy_with_logits(outputs[:, 0], y.float()),
        1,
    ),
    "digits": (load_small_digits, F.cross_entropy, 10),
}


# %% tags=["demo"]
@torch.no_grad()
def quality(network, x, y, shift, scale, width):
    """Return R² for numbers, and the accuracy for classes."""
    outputs = network(x)
    if scale != 1:
        return (1 - (y - shift - scale * outputs[:, 0]).square().mean() / y.var()).item()
    guesses = outputs.argmax(1) if width > 1 else (outputs[:, 0] > 0).long()
    return (guesses == y).float().mean().item()


# %% tags=["demo"]
def tried(name, make, schedule, seed):
    """Return the quality on held-out rows; numbers are standardised for training."""
    loader, loss_fn, width = tasks[name]
    (x, y), held_out = standardised(loader, seed)
    shift, scale = (y.mean(), y.std()) if name == "diabetes" else (0, 1)
    targets = ((y - shift) / scale).float() if name == "diabetes" else y
    network = fit_recipe(x, targets, loss_fn, width, make, schedule, seed)
    return quality(network, *held_out, shift, scale, width)


# %% tags=["demo", "nbval-ignore-output"]
found = {
    (name, recipe): [tried(name, *recipes[recipe], seed) for seed in range(3)]
    for name in tasks
    for recipe in recipes
}
for (name, recipe), values in found.items():
    print(f"{name:14} {recipe:24}", *(f"{value:.2f}" for value in values))

# %% tags=["demo", "nbval-ignore-output"]
reveal("diabetes", np.mean([found["diabetes", recipe] for recipe in recipes]),
    tolerance=0.1,
    usual={
        0.9: "Ten features of a patient say little about a disease a year later.",
    },
)

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(6, 2.8))
for place, (recipe, marker) in enumerate(zip(recipes, "os", strict=True)):
    for row, name in enumerate(tasks):
        values = found[name, recipe]
        label = recipe if row == 0 else None
        axis.plot(values, [row + 0.2 * place] * 3, marker, color=OKABE_ITO[place], label=label)
axis.set(
    yticks=range(3),
    yticklabels=tasks,
    xlabel="R² (diabetes) or accuracy on held-out rows",
    xlim=(0, 1),
)
axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.3), ncols=2)
show_figure(
    figure,
    caption="Two acceptable recipes, three seeds: the data decide far more than the recipe.",
    alt="Quality of two recipes on three data sets, three seeds each. Diabetes: R² about 0.39 "
    "to 0.45 for both. Breast cancer: accuracy about 0.96 to 0.98 for both. Digits: about 0.95 "
    "to 0.97 for both.",
)


# %% [markdown]
# Both recipes give nearly the same result on each data set. On diabetes the seeds, which also change the split, move
# it more than the recipe does. On the other two the recipes differ by about one point. So start with any acceptable
# recipe, tune its rate, and spend the time on the data.
#
# ### Question 03c-choose · 6 points
#
# Write two functions.
#
# - `choose(task)` returns a dict with the keys `"loss"`, `"metric"`, `"optimizer"` and `"schedule"`. Each value is one
#   of the names in the table, and fits the task. `task` is a dict. `task["target"]` is `"number"`, `"one of two"`,
#   `"one of many"` or `"several at once"`. Four more keys hold booleans: `"outliers"` (some targets are far from the
#   rest; false unless the target is a number), `"rare_class"` (false if the target is a number), `"transformer"` and
#   `"length_known"`.
# - `train_model(task, x, y)` trains a model in any way and returns it. `task` is such a dict again. The hidden cases
#   use the three data sets above, with 200 or 300 rows, and with rows and columns in a random order. `x` is a float32
#   tensor [N, F], already standardised. `y` is a tensor [N]: float32 and *not* standardised for numbers, and class
#   indices (int64) otherwise. The model is a function or module that takes new rows [M, F]. For numbers it returns a
#   tensor [M] or [M, 1] in the unit of `y`, and for classes a tensor [M, C]. For two classes, a single logit, [M] or
#   [M, 1], is accepted too. It is called in the mode in which you return it. Its weights need not be the same each time.
#
# On held-out rows the model must exceed an $R^2$ of 0.2 on diabetes, an accuracy of 0.85 on breast cancer, and 0.75 on
# digits. Every recipe in the table that fits the task is clearly better. In eight random repetitions, each with 100
# steps and batches of 64, the lowest results were 0.32, 0.93 and 0.86. Train for a few seconds at most.
#
# Hidden cases: loss 1 point, metric 1, optimizer 1, schedule 1, model 2. Limit: 30 seconds.
#
# <details><summary>Hint</summary>
#
# `train_model` may always use the same recipe except for the loss. Numbers between 25 and 346 are hard to learn
# unless you standardise them, and undo that in what you return.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03c-choose", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose(task):
    """Return names of a loss, a metric, an optimizer and a schedule that fit the task."""
    ### BEGIN SOLUTION
    losses = {
        "number": "huber",
        "one of two": "bce_with_logits",
        "several at once": "bce_with_logits",
    }
    return {
        "loss": losses.get(task["target"], "cross_entropy"),
        "metric": "mae" if task["target"] == "number" else "macro_f1",
        "optimizer": "adamw",
        "schedule": "warmup_cosine" if task["length_known"] else "constant",
    }
    ### END SOLUTION


def train_model(task, x, y):
    """Return a function of new rows that was trained on these rows."""
    ### BEGIN SOLUTION
    if task["target"] == "number":
        shift, scale = y.mean(), y.std()
        fitted = fit_recipe(
            x,
            (y - shift) / scale,
            tasks["diabetes"][1],
            1,
            *recipes["AdamW, warm-up, cosine"],
            seed=0,
        )
        return lambda rows: fitted(rows) * scale + shift
    return fit_recipe(
        x, y, F.cross_entropy, int(y.max()) + 1, *recipes["AdamW, warm-up, cosine"], seed=0
    )
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03c-choose-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03c-choose", choose, train_model)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03c-choose", choose, train_model)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** The target decides the loss, and what costs you decides the metric. Two acceptable recipes came close to
# each other here. Measure over seeds before you prefer one.

# %% [markdown] nbgrader={"grade": false, "grade_id": "03c-p-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### Question 03c-p · 4 points, graded by hand
#
# A colleague sends you this loop for review. Both comments are wrong, and so is what happens to the last batches of an
# epoch. All three mistakes come from published texts.
#
# ```python
# scheduler = LambdaLR(optimizer, lambda step: min(1.0, step / 500))  # PyTorch has no warm-up, so we write our own
#
# for i, (x, y) in enumerate(loader):
#     loss = F.cross_entropy(model(x), y) / 4
#     loss.backward()
#     if (i + 1) % 4 == 0:
#         optimizer.step()
#         scheduler.step()
#         optimizer.zero_grad()  # fills the gradients with zeros
# ```
#
# For each of the three mistakes, write what is wrong, how you would show it in a run of a few lines, and the repair.
# In addition, name one consequence of the `LambdaLR` line that your colleague may not have noticed. Ten sentences are
# enough.
#
# Graded on: each of the three mistakes with its repair (1 each), the consequence (0.5), and a run that shows one of the
# mistakes (0.5).
#
# <details><summary>Hint</summary>
#
# How many batches are left when the loader has 17? What happens to their gradients? Print `parameter.grad` after
# `zero_grad()`.
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03c-p", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# PyTorch has warm-up: `LinearLR`, followed by another scheduler in `SequentialLR`. The loop's own version starts at
# rate 0, so the first optimizer step changes nothing: comparing the weights before and after it shows that. I would
# use `LinearLR(optimizer, 1 / 501, total_iters=500)`, or `(step + 1) / 501`.
#
# `zero_grad()` sets the gradients to `None` by default since PyTorch 2.0; printing `parameter.grad` shows it. The
# difference changes results: with momentum or weight decay a parameter without a gradient is skipped, and one with
# gradient 0 still moves. The comment must say so, or the call must say `set_to_none=False`.
#
# With 17 batches the loop steps 4 times and drops the last batch. Worse, its gradient stays in `.grad`, so it leaks
# into the first window of the next epoch. Counting the steps of an epoch shows 4 where 5 are right. I would also step
# after the last batch, and divide the sum of the losses by the number of examples in the window, because that window
# has one batch and not four.

# %% [markdown]
# ## Where you are
#
# The next cell sums up the visible checks that ran in this session.

# %% tags=["demo"]
show_progress("03c")
