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
# Notebook 03a trains with one loss, one optimizer and one schedule. Here you choose them. A loss turns "what is wrong"
# into a gradient, an optimizer turns the gradient into a step, and a schedule says how long the step is. You will write
# the central parts yourself, on three small tables of real data and on handwritten digits. Some formulas of textbooks
# and tutorials are wrong by a factor or by a sign. You will find out which, by measuring.
#
# How to work: each section states a goal and asks for a prediction before it shows a result. Replace `None` in the cell
# that asks for it. Each coding question has an answer cell and a visible check below it. The check tells you what
# happened and where to look. Points come from hidden tests on other inputs. You may skip a question: nothing later
# depends on your answer.
#
# Limits for each cell while your answers are graded: 30 s of CPU time, 120 s of wall-clock time, 3 GB of memory, 64
# processes, 256 MB of files and 1 MB of output. A cell that exceeds a limit, or ends its kernel, loses only its own
# question.
#
# | sections | you will be able to | points |
# |---|---|---|
# | 1 Regression | choose between squared, absolute and Huber loss, and write Huber loss with its gradient | 10 |
# | 2 Logits | write cross-entropy and binary cross-entropy that stay finite at any logit | 14 |
# | 3 Imbalance | weigh classes, write focal loss with its gradient, and measure what both change | 12 |
# | 4 Embeddings | compare distributions and embeddings with KL, triplet loss and InfoNCE | 14 |

# %% [markdown]
# ## Contents
#
# The minutes are estimates: time to read, predict and run a section, and time to answer its question.
#
# | section | minutes | questions, with minutes |
# |---|---|---|
# | [1 Regression](#1-Regression:-errors-with-outliers) | 7 | [03c-regression](#Question-03c-regression-·-10-points) 15 |
# | [2 Logits](#2-Logits:-classification-without-overflow) | 8 | [03c-stable](#Question-03c-stable-·-14-points) 20 |
# | [3 Imbalance](#3-Imbalance:-a-rare-class) | 8 | [03c-focal](#Question-03c-focal-·-12-points) 20 |
# | [4 Embeddings](#4-Embeddings:-near-and-far) | 8 | [03c-embedding](#Question-03c-embedding-·-14-points) 20 |

# %% tags=["setup"]
import math
import warnings

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes
from torch import nn

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
print(f"smallest MSE at {best_mse:.1f}, smallest L1 loss at {best_l1:.1f}")
reveal("constant", best_l1, tolerance=0.1, usual={
    22: "This is the mean, which MSE prefers. One target of 100 moves it by 19.5.",
    2.5: "This is the mean of the four small targets. L1 gives the median of all five.",
})

# %% [markdown]
# The L1 loss is smallest at the median, 3. It does not change when 100 becomes 1,000. So MSE models the mean of the
# targets and L1 their median. MSE suits errors that are roughly Gaussian. L1 suits errors with outliers, but its
# gradient does not shrink near the target, so the last steps of training jump back and forth.
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
    caption="The gradient of MSE grows with the residual. That of L1 has one size, and that of "
    "Huber grows up to δ and then stays.",
    alt="Gradient against residual from -4 to 4. MSE: a straight line from -8 to 8. L1: a step "
    "from -1 to 1 at 0. Huber with delta 1: a line from -1 to 1 between residuals -1 and 1, "
    "level outside.",
)

# %% [markdown]
# Does it matter in practice? The diabetes table of scikit-learn has 442 patients with ten measurements each. The
# target is the progress of the disease after a year, a score from 25 to 346. A linear model is trained on 300 patients.
# Then 15 of the 300 targets are multiplied by 10, as if somebody had dropped the decimal point. The other 142 patients
# are for validation, and their targets are right.
#
# Trained on the right targets, all three losses give a mean absolute validation error of about 43. Predict the error
# of the MSE model after 5 % of its training targets were spoilt.

# %% tags=["demo"]
predict("spoilt", None)

# %% tags=["demo"]
patients = load_diabetes()
measured = torch.tensor(patients.data * 21, dtype=torch.float32)  # standard deviations of 1
progress = torch.tensor(patients.target, dtype=torch.float32)
order = torch.randperm(442, generator=torch.Generator().manual_seed(0))
training, held_out = order[:300], order[300:]
spoilt_targets = progress[training].clone()
spoilt_targets[:15] *= 10


# %% tags=["demo"]
def linear_error(loss_fn, targets, steps=250):
    """Train a linear model from zero weights; return its mean absolute error on validation data."""
    model = nn.Linear(10, 1)
    nn.init.zeros_(model.weight)
    nn.init.constant_(model.bias, targets.median())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.8)
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
errors = {}
for name, loss_fn in regression_losses.items():
    errors[name] = [linear_error(loss_fn, y) for y in (progress[training], spoilt_targets)]
    print(f"{name}: error ≈ {errors[name][0]:.0f}, with spoilt targets ≈ {errors[name][1]:.0f}")

# %% tags=["demo"]
reveal("spoilt", round(errors["MSE"][1]), tolerance=6, usual={
    43: "This is the error without spoilt targets. MSE follows the outliers.",
    45: "5 % of the targets, but their residuals are over ten times as large, and squared.",
})

# %% [markdown]
# The error of MSE rises from about 43 to about 72. L1 and Huber stay at 43. The 15 spoilt targets raised the mean of
# the training targets by about 77, and MSE models the mean. Are outliers always to be ignored? No. If they are real,
# the loss must say what they cost: for a power grid, one forecast that is wrong by 100 can be worse than a hundred that
# are wrong by 1. Then MSE is right. Choose the loss by the cost of an error.
#
# Two facts about PyTorch. Textbooks call `SmoothL1Loss(beta=δ)` the Huber loss. And targets of another shape than the
# predictions raise only a warning. Predict the ratio `HuberLoss(delta=2)` / `SmoothL1Loss(beta=2)`.

# %% tags=["demo"]
predict("smooth", None)

# %% tags=["demo"]
r, zero = torch.tensor([0.5, -1.0, 5.0]), torch.zeros(3)
for delta in (0.5, 1.0, 2.0):
    huber = nn.HuberLoss(delta=delta)(r, zero).item()
    smooth = nn.SmoothL1Loss(beta=delta)(r, zero).item()
    print(f"δ = {delta}: Huber {huber:.4f}, SmoothL1 {smooth:.4f}, ratio {huber / smooth:.2f}")


reveal("smooth", huber / smooth, usual={
    1: "They are equal only at δ = 1, where most people compare them.",
    0.5: "It is the other way round: SmoothL1 is the Huber loss divided by δ.",
})

# %% [markdown]
# The ratio is δ. SmoothL1 is the Huber loss *divided by* δ. Code that replaces one by the other multiplies the learning
# rate of SGD by δ.
#
# The next cell compares 142 perfect predictions of shape `[142, 1]`, as a linear layer gives them, with targets of shape
# `[142]`. Broadcasting makes 142 × 142 residuals of them: every prediction is compared with every target.

# %% tags=["demo"]
perfect = progress[held_out][:, None]
with warnings.catch_warnings(record=True) as raised:
    warnings.simplefilter("always")
    broadcast = nn.MSELoss()(perfect, progress[held_out]).item()
matching = nn.MSELoss()(perfect.squeeze(1), progress[held_out]).item()
print(f"loss of perfect predictions: {broadcast:.0f} with [142, 1], {matching:.0f} with [142]")
print(f"warnings: {len(raised)}")


# %% [markdown]
# Perfect predictions get a loss of twice the variance of the targets, and a training with this loss learns the mean.
# There is one warning, which is easy to miss among others. Compare shapes before the loss.
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
# Both tensors have the same shape, `[N]` or `[N, D]`, with N and D at least 1, and the same dtype, float32 or float64.
# Their entries are finite, up to 2,000 in magnitude. `delta` is a number from 0.1 to 100. Residuals may be 0, and exactly
# `delta`. You may change the arguments.
#
# Hidden cases: loss with all residuals inside δ 2 points, with residuals beyond it 2, gradient inside 2, beyond 2, and
# both functions with two axes 2. Results may differ by float32 rounding. Limit: 30 seconds. `huber_loss` and
# `smooth_l1_loss` of `torch.nn.functional`, their modules, and PyTorch's autograd are switched off.
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
# **Recap.** MSE models the mean and follows outliers. L1 models the median, with a gradient of one size. Huber is a
# parabola up to δ and a line beyond it. SmoothL1 is Huber divided by δ. Predictions and targets need the same shape.

# %% [markdown]
# ## 2 Logits: classification without overflow
#
# **Goal.** Pair outputs, targets and losses, and compute cross-entropy so that it is finite at any logit.
#
# A classifier returns *logits*: any real numbers, one for each class. The softmax turns a row of them into
# probabilities $p$. The *cross-entropy* of an example is $-\log p$ of its label. Where each label is a yes-or-no question
# of its own, a sigmoid takes the place of the softmax, and the loss is the *binary cross-entropy* (BCE). PyTorch's losses
# for both take logits. Most mistakes are wrong pairs of output, target and loss. The next cell computes the pairs that
# are right.

# %% tags=["demo"]
torch.manual_seed(0)
examples, yes_or_no = 4, torch.tensor([0.0, 1.0, 1.0, 0.0])
tags = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
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
# Class indices are `long`, because each one names a class. Yes-or-no targets are `float`, because they are
# probabilities. A fifth task, "which of these is more similar", compares embeddings; it has section 4. Three wrong pairs
# raise an error at once: float class labels, integer BCE targets, and `[N]` targets for `[N, 1]` logits.

# %% tags=["demo"]
wrong_pairs = {
    "CrossEntropyLoss, float labels": (nn.CrossEntropyLoss(), (4, 3), yes_or_no),
    "BCEWithLogitsLoss, long targets": (nn.BCEWithLogitsLoss(), (4,), yes_or_no.long()),
    "BCEWithLogitsLoss, [4, 1] and [4]": (nn.BCEWithLogitsLoss(), (4, 1), yes_or_no),
}
for name, (loss_fn, shape, target) in wrong_pairs.items():
    try:
        loss_fn(torch.zeros(shape), target)
    except (RuntimeError, ValueError) as error:
        print(f"{name}: {type(error).__name__}")

# %% [markdown]
# Other wrong pairs train silently. Somebody trains a two-class model with `MSELoss`, since there are only two classes.
# The target is 1. Predict two symptoms: what happens to a model that gives the raw output 3, and what happens to one that
# applies a sigmoid and starts at the logit −8, far on the wrong side? Write down by what factor its gradient is smaller
# than that of BCE.

# %% tags=["demo"]
predict("two_classes", None)

# %% tags=["demo"]
confident_right = nn.MSELoss()(torch.tensor(3.0), torch.tensor(1.0)).item()
print(f"raw output 3, target 1: MSE {confident_right:.0f}")
slopes = {}
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
# Both symptoms are bad. Without a sigmoid, MSE punishes a confident right answer: its loss is 4. With a sigmoid, the
# gradient of a confident wrong answer is about 1,500 times too small, so the model hardly learns from its worst mistakes.
# BCE has the gradient $p - y$, which is largest where the answer is most wrong.
#
# Now the arithmetic. The formula $-\log p$ is exact, but a computer rounds. In float32, `exp` overflows above 88.7, and
# $p$ underflows to 0 when the label's logit is about 104 below the largest. Predict the loss that `log(softmax)` gives for
# the logits 0 and 200 with label 0. The right value is 200.

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
# The remedy is to compute $\log p$ without computing $p$. A constant can be subtracted from all logits of a row, because
# it cancels in the softmax. With the largest logit $m$ as the constant, $\log p_c = z_c - m - \log \sum_j e^{z_j - m}$. The
# largest exponential is 1, so nothing overflows, and the sum is at least 1, so its logarithm is finite. The sigmoid
# needs the same care: $1 - \sigma(z)$ rounds to 0 at large $z$.
#
# A softmax *before* `CrossEntropyLoss` is often called a loss of numerical precision. It is worse. The probabilities
# lie between 0 and 1, and the loss applies its own softmax to them. For 10 classes it cannot fall below
# $\ln(1 + 9/e) = 1.46$, and its gradients are small. The next cell trains a small network on 30 % of the digits with
# three losses. The third uses *label smoothing*: the target distribution is not 1 for the label and 0 elsewhere but
# mixed with the uniform distribution, $(1-\varepsilon)\cdot$ one-hot $+\ \varepsilon/C$. Predict the validation accuracy
# with two softmaxes, in percent. With one it is about 95.

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
    """Train a small network; return its accuracy and its mean confidence in wrong answers."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_fn(network(pixels[training]), digits.labels[training]).backward()
        optimizer.step()
    with torch.no_grad():
        confidence, answers = network(pixels[held_out]).softmax(1).max(1)
    wrong = answers != digits.labels[held_out]
    return 1 - wrong.float().mean().item(), confidence[wrong].mean().item()


# %% tags=["demo"]
results = {
    "cross-entropy": fit_digits(nn.CrossEntropyLoss()),
    "softmax twice": fit_digits(softmax_twice),
    "label smoothing 0.1": fit_digits(nn.CrossEntropyLoss(label_smoothing=0.1)),
}
for name, (accuracy, confidence) in results.items():
    print(f"{name}: accuracy ≈ {100 * accuracy:.0f} %, confidence when wrong ≈ {confidence:.1f}")


floor = softmax_twice(1000.0 * torch.eye(10)[:1], torch.tensor([0])).item()
print(f"lowest loss with two softmaxes: {floor:.4f}")

# %% tags=["demo"]
reveal("double", round(100 * results["softmax twice"][0]), "%", tolerance=3, usual={
    95: "The largest logit stays the largest, but the network learns much less.",
    10: "This is chance. The gradient is small, not zero.",
})

# %% [markdown]
# The second softmax costs about ten points of accuracy, and no error is raised. Label smoothing makes the network less
# certain of its wrong answers. Accuracy changes by a point or two, which is within what another seed would change.
#
# How are the smoothed targets distributed? Many texts, and the one that this section follows, give $\varepsilon/(C-1)$ to
# each other class and $1-\varepsilon$ to the label. PyTorch can be asked: the gradient of the cross-entropy is $p - q$,
# with the target distribution $q$. At logits of 0 every $p$ is 1/10. Predict the label's target for $\varepsilon = 0.1$.

# %% tags=["demo"]
predict("smoothing", None)

# %% tags=["demo"]
equal_logits = torch.zeros(1, 10, requires_grad=True)
nn.CrossEntropyLoss(label_smoothing=0.1)(equal_logits, torch.tensor([3])).backward()
distribution = (1 / 10 - equal_logits.grad)[0]
print(f"label {distribution[3].item():.4f}, each other class {distribution[0].item():.4f}")
lowest = -(distribution * distribution.log()).sum().item()
print(f"lowest possible loss: {lowest:.4f}")
reveal("smoothing", distribution[3].item(), tolerance=0.004, usual={
    0.9: "This is 1 - ε, with ε/(C-1) for the others. In PyTorch the label gets ε/C as well.",
})


# %% [markdown]
# The label has 0.91 and the others 0.01 each: ε is shared among *all* classes. With smoothing, the loss of a perfect
# network is 0.50 and not 0, so losses with and without it cannot be compared. For evaluation use the plain loss.
#
# ### Question 03c-stable · 14 points
#
# Write both classification losses. They must be finite for every logit in the domain.
#
# - `cross_entropy(logits, labels, weight, label_smoothing)` returns the cross-entropy. For each example the target
#   distribution is $q = (1-\varepsilon)\cdot$ one-hot $+\ \varepsilon/C$, and its loss is
#   $-\sum_c \mathrm{weight}_c\, q_c \log p_c$. Add up the losses and divide by the sum of the weights of the labels, each
#   label counted as often as it occurs.
# - `binary_cross_entropy(logits, targets, pos_weight)` returns the mean over all entries of
#   $-[\mathrm{pos\_weight}\cdot y \log \sigma(z) + (1-y) \log(1 - \sigma(z))]$.
#
# Each returns a number, or a tensor with one number. `logits` is `[N, C]` in the first function, with N at least 1 and C
# at least 2, and `[N, L]` in the second, with N and L at least 1. `labels` is `long`, `[N]`, from 0 to C − 1. `targets` is
# `[N, L]`, with entries from 0 to 1. `weight` is `[C]` and `pos_weight` is `[L]`, with entries from 0.1 to 10.
# `label_smoothing` is a number from 0 to 0.5. All tensors but `labels` have the same dtype: float64 with logits between
# −10,000 and 10,000, or float32 with logits between −20 and 20. You may change the arguments.
#
# Hidden cases: cross-entropy with moderate logits 2 points, with logits of a thousand 3, with class weights 2, with label
# smoothing 2, with both 1; the binary loss with moderate logits 1, with logits of a thousand 2, with `pos_weight` 1.
# Results may differ by float32 rounding. Limit: 30 seconds. `cross_entropy`, `nll_loss`,
# `binary_cross_entropy_with_logits`, `multilabel_soft_margin_loss`, `log_softmax`, `logsigmoid` and `softplus` of
# `torch.nn.functional`, and `torch.log_softmax`, `torch.logsumexp` and `torch.logaddexp` are switched off. The tensor
# methods with these names work, but then you would not have practised.
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
# **Recap.** One of several classes: logits `[N, C]`, `long` labels, `CrossEntropyLoss`. Yes or no, once or for several
# tags: logits and float targets of one shape, `BCEWithLogitsLoss`. Never apply softmax or sigmoid before them. Label
# smoothing gives ε/C to every class, the label included.

# %% [markdown]
# ## 3 Imbalance: a rare class
#
# **Goal.** Weigh classes and examples, and know what a weight changes and what it does not.
#
# The breast-cancer table of scikit-learn describes 569 tumours by measurements. To make the class *malignant* rare, the
# next cell keeps 12 malignant and 240 benign tumours for training, and all others for validation. A linear model is
# trained with four losses. The metric is two numbers: the share of malignant tumours that are found (*recall*), and the
# share of benign ones that are recognised (*specificity*). Accuracy would hide the rare class: "always benign" is right
# for 95 % of the training set.
#
# *Class weights* multiply the loss of each example by a number for its class. Balanced weights are
# $N/(C\,n_c)$, with $n_c$ examples of class $c$ among $N$: then all classes have the same total weight.
#
# *Focal loss* weighs examples instead: $-\alpha_t (1-p)^\gamma \log p$, where $p$ is the probability of the label. An easy
# example, with $p$ near 1, hardly counts. The usual setting is $\gamma = 2$ and $\alpha = 0.25$. Predict by what factor
# $(1-p)^\gamma$ makes an example with $p = 0.9$ lighter.

# %% tags=["demo"]
predict("easy", None)

# %% tags=["demo"]
probability, label_one = torch.linspace(0.01, 0.999, 200), torch.tensor([1])
pairs_of_logits = torch.stack([torch.zeros(200), torch.logit(probability)], dim=1)
figure, axis = plt.subplots(figsize=(5.5, 3))
gammas, styles = (0.0, 0.5, 2.0, 5.0), ("-", "--", "-.", ":")
for gamma, style, colour in zip(gammas, styles, OKABE_ITO, strict=False):
    values = [losses.focal_loss(z[None], label_one, gamma).item() for z in pairs_of_logits]
    axis.plot(probability, values, style, color=colour, linewidth=2, label=f"γ = {gamma:g}")
axis.set(xlabel="probability p of the label", ylabel="focal loss (nats)", ylim=(0, 4))
axis.legend()
show_figure(
    figure,
    caption="The larger γ, the less an example counts that is already right.",
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
# The easy example becomes 100 times lighter, and the hard one keeps 81 % of its loss. This was made for object detectors,
# where 100,000 easy background boxes drown a few objects. Is it the remedy for every rare class, as it is often said? Predict
# which loss finds the *fewest* malignant tumours: `plain` (cross-entropy), `weighted` (cross-entropy with balanced
# weights), `focal` ($\gamma = 2$) or `alpha` (focal with $\alpha = 0.25$ for malignant and 0.75 for benign).

# %% tags=["demo"]
predict("fewest", None)

# %% tags=["demo"]
tumours = load_breast_cancer()
malignant = torch.tensor(1 - tumours.target)
order = torch.randperm(569, generator=torch.Generator().manual_seed(0))
sick, healthy = order[malignant[order] == 1], order[malignant[order] == 0]
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
    measured = f"recall ≈ {recalls[name]:.2f}, specificity ≈ {specificity:.2f}"
    print(f"{name:9} {measured}, AUROC ≈ {area:.2f}")


reveal("fewest", min(recalls, key=recalls.get), usual={
    "plain": "It comes close. But one of the losses gives the rare class less weight.",
    "weighted": "Balanced weights make a malignant tumour count 20 times as much as a benign one.",
})

# %% [markdown]
# The usual $\alpha = 0.25$ finds the fewest: it gives the *rare* class the smaller weight. In the paper, 0.25 was the best
# partner of $\gamma = 2$ on a detection task, because $\gamma$ had already made the background light. It is no weight for
# rare classes. Focal loss alone changes little here. Class weights raise the recall from about 0.71 to about 0.92, and
# they cost specificity.
#
# The last column says more. AUROC is the probability that a malignant tumour gets a higher score than a benign one. It
# hardly differs: all four models *rank* the tumours equally well. The losses moved the threshold, and that can be had
# after training. The next cell moves the threshold of the plain model until its specificity is that of the weighted one.

# %% tags=["demo"]
_, wanted = recall_and_specificity(scores["weighted"])
threshold = scores["plain"][malignant[held_out] == 0].quantile(wanted).item()
recall, specificity = recall_and_specificity(scores["plain"], threshold)
print(f"plain, threshold moved: recall ≈ {recall:.2f}, specificity ≈ {specificity:.2f}")

# %% [markdown]
# The plain model with another threshold finds as many as the weighted one, within a few per cent. Start with cross-entropy, choose the
# threshold on validation data by what errors cost, and compare weights or focal loss with that.
#
# Weights have a catch. `CrossEntropyLoss(weight=…)` divides the weighted sum by the *sum of the weights* of the labels in the
# batch. Predict what a weight of 20 does to the loss of a batch in which all examples are malignant: by what factor does
# it change?

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
# The factor is 1: weights compare examples *within* a batch. In small batches of one class they do nothing. `focal_loss` of
# `lecture_lib` takes the mean over examples, as the paper's code does. Say which mean you use when you compare losses.
#
# One more formula must be measured. A published derivation of the gradient with respect to the logit of class 1 reads
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
# The size is right and the sign is wrong. A larger logit makes label 1 more probable, so the loss must fall. A sign can be
# tested without any computation: at $\gamma = 0$ the gradient must be that of the cross-entropy, $p - 1$, which is
# negative.
#
# ### Question 03c-focal · 12 points
#
# Write balanced weights, and the focal loss of yes-or-no labels with its gradient. Let $p$ be the probability of the
# *label*: $\sigma(z)$ for label 1, $1 - \sigma(z)$ for label 0. Let $\alpha_t$ be `alpha` for label 1 and `1 - alpha` for
# label 0.
#
# - `balanced_weights(labels, classes)` returns the weights $N/(C\,n_c)$, shape `[classes]`. `labels` is `long`, `[N]`, and
#   holds each class from 0 to `classes` − 1 at least once; `classes` is 2 or more.
# - `binary_focal_loss(logits, labels, gamma, alpha)` returns the mean over the examples of
#   $-\alpha_t (1-p)^\gamma \log p$: a number, or a tensor with one number.
# - `binary_focal_gradient(logits, labels, gamma, alpha)` returns the gradient of this mean with respect to the logits,
#   shape `[N]`.
#
# `logits` is `[N]`, with N at least 1: float64 with values between −1,200 and 1,200, or float32 with values between −20 and
# 20. `labels` is `long`, `[N]`, 0 or 1; a batch may hold one of them only. `gamma` is a number from 0 to 5, and `alpha` is
# from 0.05 to 0.95. Loss and gradient must be finite for all of these. $(1-p)^0$ is 1, also at $p = 1$. You may change the
# arguments.
#
# Hidden cases: weights 2 points, loss with moderate logits 3, with logits of a thousand 2, gradient with moderate logits
# 3, with logits of a thousand 2. Results may differ by float32 rounding. Limit: 30 seconds. `focal_loss` of
# `lecture_lib.training` and PyTorch's autograd are switched off. `logsigmoid`, `softplus` and the losses of PyTorch are
# allowed.
#
# <details><summary>Hint 1</summary>
#
# With $s = 1$ for label 1 and $s = -1$ for label 0, $p = \sigma(s z)$ in both cases. Then you need one formula only.
#
# </details>
# <details><summary>Hint 2</summary>
#
# The derivative of $p$ with respect to $sz$ is $p(1-p)$, and that of $\log p$ is $1-p$. Use the product rule, and cancel
# $1-p$ before you divide by it.
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
    return (alpha_t * torch.sigmoid(-s * logits) ** gamma * nn.functional.softplus(-s * logits)).mean()
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
# **Recap.** Balanced weights are $N/(C\,n_c)$. They move the threshold more than they change the ranking. Focal loss makes
# easy examples light; its $\alpha = 0.25$ makes the rare class light as well. The weighted mean of `CrossEntropyLoss`
# divides by the weights of the batch. Check a gradient formula with finite differences.

# %% [markdown]
# ## 4 Embeddings: near and far
#
# **Goal.** Train what has no right answer of its own: a distribution that should be like another one, and vectors of which
# some should be near each other.
#
# The *KL divergence* $\mathrm{KL}(p \,\|\, q) = \sum_c p_c (\log p_c - \log q_c)$ says how far a distribution $q$ is from a
# given one, $p$. It is 0 when they agree. It trains a small network to imitate a large one (*distillation*), and it is
# part of the loss of a variational autoencoder. Often both logits are first divided by a *temperature*: above 1, it makes
# the distributions flatter, so that the small probabilities count.
#
# `KLDivLoss` has three traps. Its first argument must be *log*-probabilities, its second the probabilities of $p$, and the
# default `reduction="mean"` divides by the number of all entries. Predict by what factor that default is too small for
# 10 classes.

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
# logarithms the result is negative, which no KL divergence can be. A negative KL is always a bug.
#
# The other losses of this section train *embeddings*: vectors in which distance means something. Search by image, face
# recognition and CLIP rank by distance. The *triplet loss* takes an anchor, a positive that should be near and a negative
# that should be far: $\max(0,\ d(a, p) - d(a, n) + \mathrm{margin})$. A triplet that is right by the margin has no gradient.
#
# *InfoNCE* compares each query with all keys of the batch at once. Row $i$ of the keys belongs to row $i$ of the queries,
# and all others are negatives. The logits are cosine similarities, divided by a temperature that is *below* 1 here, and
# the loss is the cross-entropy of choosing the own key. The name *contrastive loss* is used for InfoNCE, and also for an
# older loss of single pairs with a margin. SimCLR and CLIP train with InfoNCE. Predict its value for a batch of 256
# pairs and embeddings that know nothing, so that all similarities are equal.

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
# It is $\ln 256 = 5.55$, like the initial loss of a classifier with 256 classes. The temperature is needed because a cosine
# lies between −1 and 1. Without it, even perfect embeddings have a large loss: 0.74 for four pairs, where 0.1 gives 0.0001.
#
# A batch has a trap of its own. Pairs of digits are drawn, two images of the same digit each. In a batch of 256 pairs
# about 25 other keys show the query's digit as well. Treated as negatives, they are pushed away from what they should be
# near. They are *false negatives*. `losses.info_nce` leaves them out when it is told which item each pair shows. The next
# cell trains four times on 30 % of the digits. The measure is the share of the 20 nearest neighbours that show the same
# digit, among the other 70 %. For raw pixels it is 0.91. Predict the loss at the end when false negatives are in
# the batch. The best possible loss is near the logarithm of the number of keys that look alike.

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
# With false negatives the loss stops a little above 3, near $\ln 26 = 3.3$. Nothing is wrong with the optimizer: about 26
# keys look alike, and the loss asks to choose one of them. With known items it falls well below 1. The neighbours hardly differ
# on this easy task. So a value of InfoNCE means nothing without the batch size, the temperature and the negatives, and
# embeddings are compared by what they are for.
#
# ### Question 03c-embedding · 14 points
#
# Write the three losses. Each returns a number, or a tensor with one number.
#
# - `kl_loss(student_logits, teacher_logits, temperature)` returns the mean over the examples of
#   $\mathrm{KL}(\text{teacher} \,\|\, \text{student})$. Both distributions are the softmax of the logits divided by the
#   temperature. The factor $T^2$ of some distillation losses is not asked for.
# - `triplet_loss(anchors, positives, negatives, margin)` returns the mean over the triplets of
#   $\max(0,\ d(a, p) - d(a, n) + \mathrm{margin})$ with the Euclidean distance.
# - `info_nce_loss(queries, keys, items, temperature)` returns the mean over the queries of the cross-entropy of choosing the
#   own key. Key $i$ belongs to query $i$. Query $i$ is compared with key $i$ and with every key $j$ whose `items[j]` differs
#   from `items[i]`; the others are left out. The logits are cosine similarities divided by the temperature.
#
# Logits are `[N, C]` with C at least 2, between −10 and 10. Anchors, positives, negatives, queries and keys are `[N, D]` with
# D at least 1, and N is at least 1. Entries of embeddings lie between −10 and 10, and every query and key has a length of at
# least 0.1. `items` is `long`, `[N]`; all items may be equal. Temperatures are numbers from 0.1 to 5, and `margin`
# is from 0 to 3. All floating-point tensors are float32, or all are float64. You may change the arguments.
#
# Hidden cases: KL divergence 4 points, triplet loss 4, InfoNCE when all items differ 3, when items occur twice 3. Results may
# differ by float32 rounding, and by the 1e-6 that PyTorch's distances add. Limit: 30 seconds. `triplet_margin_loss` and
# `triplet_margin_with_distance_loss` of `torch.nn.functional`, their modules and `info_nce` of `lecture_lib.training` are
# switched off. `kl_div` and `cross_entropy` are allowed.
#
# <details><summary>Hint 1</summary>
#
# `kl_div(input, target)` is $\mathrm{KL}(\text{target} \,\|\, \text{input})$, with the input in logarithms. Try two equal
# distributions: the loss must be 0.
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
# **Recap.** KL needs log-probabilities first and `batchmean`. Triplet loss compares distances with a margin. InfoNCE is
# a cross-entropy over the batch, with unit vectors and a temperature. Keys that show the query's item must not be negatives.
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
# ## Where you are
#
# The next cell sums up the visible checks that ran in this session.

# %% tags=["demo"]
show_progress("03c")
