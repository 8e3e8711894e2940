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
# A loss says what a network should learn. An optimizer says how it moves, and a schedule says how fast. In this
# notebook you write the steps of four optimizers and compare them with PyTorch's, sort parameters into groups, and
# compute the learning rate of every step of a run before it starts.
#
# Limits for each cell while your answers are graded: 30 s of CPU time, 120 s of wall-clock time, 3 GB of
# memory, 64 processes, 256 MB of files and 1 MB of output. A cell that exceeds a limit, or ends its
# kernel, loses only its own question.
#
# | sections | you will be able to | points |
# |---|---|---|
# | 5 Optimizers | check an optimizer against its formula | 18 |
# | 6 Groups | give each parameter its own rate and weight decay | 0 |
# | 7 Schedules | compute the rate of every step, and draw it before you train | 0 |
# | 8 Choosing | choose loss, metric, optimizer and schedule for a task, and review a colleague's loop | 0 |
#
# | section | minutes | questions, with minutes |
# |---|---|---|
# | [5 Optimizers](#5-Optimizers:-from-a-gradient-to-a-step) | 12 | [03c-optimizers](#Question-03c-optimizers-·-18-points) 25 |

# %% tags=["setup"]
import math
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, AdamW, RMSprop

from lecture_lib.data import load_digits, stratified_split
from lecture_lib.notebook import OKABE_ITO, check, predict, reveal, show_figure, show_progress

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
# | momentum | $v \leftarrow \mu v + (1 - d)\, g$, then $\theta \leftarrow \theta - \eta\, v$ |
# | Nesterov | $v$ as above with $d = 0$, then $\theta \leftarrow \theta - \eta\,(g + \mu v)$ |
# | RMSprop | $v \leftarrow \alpha v + (1 - \alpha)\, g^2$, then $\theta \leftarrow \theta - \eta\, g / (\sqrt v + \epsilon)$ |
# | Adam | $m \leftarrow \beta_1 m + (1 - \beta_1)\, g$ and $v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2$; with $\hat m = m / (1 - \beta_1^t)$ and $\hat v = v / (1 - \beta_2^t)$, $\theta \leftarrow \theta - \eta\, \hat m / (\sqrt{\hat v} + \epsilon)$ |
# | AdamW | first $\theta \leftarrow \theta - \eta \lambda \theta$, then the step of Adam |
#
# Three conventions differ between books and libraries. PyTorch's first velocity is the whole first gradient, also
# when $d > 0$. $\epsilon$ is added *after* the root, and after the bias correction. In SGD and Adam `weight_decay` is
# an L2 penalty: $g \leftarrow g + \lambda \theta$ comes before everything else, so the decay passes through the
# velocity and through $\sqrt v$. AdamW shrinks the parameter itself. All averages start at 0, and $t$ is 1 in the
# first step.
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
for name, make in makers.items():
    print(f"{name:9}", *(f"{value:8.3f}" for value in five_steps(make, 1.0)))
reveal("adam steps", five_steps(makers["Adam"], 1000.0)[-1], tolerance=0.01, usual={
    -499: "That is SGD. Adam divides the gradient by its own size.",
    0.9: "That is the first step. There are five.",
})

# %% [markdown]
# Follow two rows by hand. Momentum has the velocities 1, 1.9 and 2.71, so its second step is 0.19 and its third 0.271.
# The velocity is a sum of gradients and not an average: with $\mu = 0.9$ and a constant gradient it approaches ten times
# the gradient. A rate that suits SGD is therefore about ten times too large with momentum 0.9. Many texts call the
# velocity a moving average. That would be dampening 0.9, and PyTorch's default is 0.
#
# Adam moves by the rate, whatever the size of the gradient. Its first step is $\hat m / \sqrt{\hat v} = g / |g|$.
# RMSprop has no bias correction. Its first step is $1 / \sqrt{1 - \alpha}$ times the rate, ten times with
# $\alpha = 0.99$. AdamW differs from Adam although no setting was passed: its `weight_decay` is 0.01 by default, and
# Adam's is 0.
#
# You may read that the bias correction makes the first steps of Adam too large, and that warm-up is needed for this
# reason. Predict the factor: how many times as long as the rate would Adam's first step be *without* the correction,
# with $\beta_1 = 0.9$ and $\beta_2 = 0.999$?

# %% tags=["demo"]
predict("uncorrected", None)

# %% tags=["demo"]
gradient = 1000.0
first_average, second_average = (1 - 0.9) * gradient, (1 - 0.999) * gradient**2
ratio = first_average / math.sqrt(second_average)
print(f"m = {first_average:.0f}, root of v = {math.sqrt(second_average):.1f}")
reveal("uncorrected", ratio, "times the rate", tolerance=0.2, usual={
    1: "That is the length with both corrections.",
    0.1: "m is a tenth of the gradient, but the root of v is only about 3 % of it.",
})

# %% [markdown]
# The claim is wrong. The correction makes the first step *shorter*, from 3.2 times the rate to the rate itself. What is
# true is that $\hat v$ rests on few gradients in the first steps. Then a step has full length in every coordinate,
# even where the gradient is mostly noise. Warm-up helps with that.
#
# ### Decay through the gradient, or decay of the parameter
#
# Two weights start at 1. Their gradients change sign at every step, so they average to 0. One gradient has size 0.1, the
# other 10. Only the weight decay of 0.1 should move the weights. Each optimizer makes 500 steps with rate 0.01.
# Multiplying by $1 - 0.01 \cdot 0.1$ 500 times gives 0.61. With *Adam*, predict where the weight with the large
# gradient ends.

# %% tags=["demo"]
predict("decayed", None)


# %% tags=["demo"]
def decayed(optimizer_class):
    """Return both weights after 500 steps with gradients that change their sign."""
    weights = nn.Parameter(torch.ones(2))
    optimizer = optimizer_class([weights], lr=0.01, weight_decay=0.1)
    for _, sign in zip(range(500), cycle([1.0, -1.0])):
        weights.grad = sign * torch.tensor([0.1, 10.0])
        optimizer.step()
    return weights.tolist()


# %% tags=["demo"]
for optimizer_class in (Adam, AdamW):
    small, large = decayed(optimizer_class)
    print(f"{optimizer_class.__name__:5} gradient 0.1: {small:.2f}   gradient 10: {large:.2f}")
reveal("decayed", decayed(Adam)[1], tolerance=0.05, usual={
    0.61: "That is what AdamW gives. Adam divides the decay by the size of the gradient.",
})

# %% [markdown]
# Adam adds the decay to the gradient and then divides the sum by $\sqrt{\hat v}$. So a weight with large gradients hardly
# decays (0.93), and one with small gradients decays far too much (0.01). AdamW shrinks both by the same factor, to 0.60.
# This is what *decoupled* means. It does not follow that AdamW always generalises better: that depends on the task and
# has to be measured.
#
# ### How much the rate matters
#
# The next cell trains the same small network on digits for three epochs, with four optimizers and rates from
# $10^{-4}$ to 10, all constant. Predict the power of ten by which the best rate of plain SGD differs from the best rate
# of Adam (1 for ten times, 2 for a hundred times).

# %% tags=["demo"]
predict("best rates", None)


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
            cross_entropy(network(pixels[batch]), classes[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        return (network(pixels[val_part]).argmax(1) == classes[val_part]).float().mean().item()


# %% tags=["demo"]
rates = 10.0 ** np.arange(-4, 2)
accuracies = {
    name: [accuracy_after(makers[name], rate) for rate in rates] for name in ("SGD", "Nesterov", "RMSprop", "Adam")
}
best = {name: rates[int(np.argmax(values))] for name, values in accuracies.items()}
print({name: float(rate) for name, rate in best.items()})
reveal("best rates", math.log10(best["SGD"] / best["Adam"]), "powers of ten", tolerance=0.5, usual={
    0: "SGD's steps shrink with the gradient, and Adam's do not.",
})

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(6, 3.2))
for (name, values), colour, marker in zip(accuracies.items(), OKABE_ITO, "osv^"):
    axis.plot(rates, values, marker=marker, color=colour, label=name)
axis.set(xscale="log", xlabel="learning rate", ylabel="validation accuracy after 3 epochs")
axis.legend()
show_figure(
    figure,
    caption="Each optimizer has its own range of good rates. Outside this range none of them learns.",
    alt="Accuracy against rate. SGD peaks at 1 with about 0.90, Nesterov at 0.1 with 0.95, RMSprop and Adam at 0.01 "
    "with 0.94 and 0.93. At 0.0001 the adaptive optimizers have at most 0.35 and SGD 0.09; at 10 all but RMSprop have 0.10.",
)

# %% [markdown]
# The best rates are 1, 0.1 and 0.01: each step from SGD to momentum to Adam lowers it by a factor of ten. So a comparison
# of two optimizers at the same rate says nothing. Each needs a sweep of its own. A table of "typical rates" (0.1 for SGD
# with momentum, $3 \cdot 10^{-4}$ for Adam) is only where a sweep starts: $3 \cdot 10^{-4}$ would be far too small for
# these three epochs.
#
# | optimizer | strength | price | shown by |
# |---|---|---|---|
# | SGD | one number to understand, no memory | most sensitive to the rate | the peak at 1 |
# | SGD with momentum | averages out noise, fast along constant directions | the effective rate is up to ten times larger | the velocities 1, 1.9, 2.71 |
# | Adam | the step does not depend on the gradient's scale | hides badly scaled inputs, two more tensors of memory for each parameter | the gradient of 1,000 |
# | AdamW | weight decay means the same for every weight | its decay still needs tuning, and is not 0 by default | 0.60 for both weights |
#
# A schedule (section 7) changes the rate during a run. Gradient clipping (03a, section 9) limits the gradient before
# any of these steps.
#
# ### Question 03c-optimizers · 18 points
#
# Write three functions. Each gets a parameter, the gradients of several steps and the learning rates of these steps.
# Each returns the parameter after every step, as a list of tensors or as one tensor with the steps along the first axis.
# Follow the table above: the results must agree with PyTorch's to $10^{-6}$.
#
# - `sgd(parameter, gradients, rates, momentum, dampening, nesterov, weight_decay)`
# - `rmsprop(parameter, gradients, rates, alpha, eps)`
# - `adam(parameter, gradients, rates, betas, eps, weight_decay, decoupled)` is AdamW when `decoupled` is true, and
#   Adam with an L2 penalty otherwise.
#
# `parameter` is a float64 tensor of any shape, including `[]` and shapes with an empty axis. `gradients` is a list of 1
# to 8 float64 tensors of the same shape; entries may be 0. `rates` is a list of as many numbers from 0.001 to 0.5. They
# may change from step to step, and the rate multiplies the whole step. `momentum`, `dampening` and `alpha` lie between 0
# and 0.99. When `nesterov` is true or `momentum` is 0, `dampening` is 0. `betas` is a pair of numbers from 0 to 0.999,
# `eps` lies between $10^{-8}$ and 0.1, and `weight_decay` between 0 and 0.5. You may change the tensors in place.
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
    for gradient, rate in zip(gradients, rates):
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
    for gradient, rate in zip(gradients, rates):
        square_average = alpha * square_average + (1 - alpha) * gradient.square()
        parameter = parameter - rate * gradient / (square_average.sqrt() + eps)
        path.append(parameter)
    return path
    ### END SOLUTION


def adam(parameter, gradients, rates, betas, eps, weight_decay, decoupled):
    """Return the parameter after each step of AdamW, or of Adam."""
    ### BEGIN SOLUTION
    path, average, square_average = [], torch.zeros_like(parameter), torch.zeros_like(parameter)
    for step, (gradient, rate) in enumerate(zip(gradients, rates), start=1):
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
# Adam's step does not depend on the gradient's size, and only AdamW decays all weights alike.

# %% [markdown]
# ## Where you are
#
# The next cell sums up the visible checks that ran in this session.

# %% tags=["demo"]
show_progress("03c")
