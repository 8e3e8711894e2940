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
# | 2 Logits | write cross-entropy and binary cross-entropy that stay finite at any logit | 0 |
# | 3 Imbalance | weigh classes, write focal loss with its gradient, and measure what both change | 0 |
# | 4 Embeddings | compare distributions and embeddings with KL, triplet loss and InfoNCE | 0 |

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

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes
from torch import nn

# %% tags=["setup"]
from lecture_lib.data import load_digits
from lecture_lib.notebook import OKABE_ITO, check, predict, reveal, show_figure, show_progress
from lecture_lib.training import focal_loss, info_nce

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
# gradient does not shrink near the target, so the last steps of training jump to and fro.
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
    errors[name] = [linear_error(loss_fn, targets) for targets in (progress[training], spoilt_targets)]
    print(f"{name}: error ≈ {errors[name][0]:.0f}, with spoilt targets ≈ {errors[name][1]:.0f}")
reveal("spoilt", round(errors["MSE"][1]), tolerance=6, usual={
    43: "This is the error without spoilt targets. MSE follows the outliers.",
    45: "5 % of the targets, but their residuals are over ten times as large, and squared.",
})

# %% [markdown]
# The error of MSE rises from about 43 to about 71. L1 and Huber stay at 43. The 15 spoilt targets raised the mean of
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
import warnings

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
# ## Where you are
#
# The next cell sums up the visible checks that ran in this session.

# %% tags=["demo"]
show_progress("03c")
