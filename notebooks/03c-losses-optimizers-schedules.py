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
# | 6 Groups | give each parameter its own rate and weight decay | 8 |
# | 7 Schedules | compute the rate of every step, and draw it before you train | 14 |
# | 8 Choosing | choose loss, metric, optimizer and schedule for a task, and review a colleague's loop | 10 |
#
# | section | minutes | questions, with minutes |
# |---|---|---|
# | [5 Optimizers](#5-Optimizers:-from-a-gradient-to-a-step) | 12 | [03c-optimizers](#Question-03c-optimizers-·-18-points) 25 |
# | [6 Groups](#6-Parameter-groups:-not-every-weight-alike) | 10 | [03c-groups](#Question-03c-groups-·-8-points) 12 |
# | [7 Schedules](#7-Schedules:-plan-the-rate-of-every-step) | 14 | [03c-schedules](#Question-03c-schedules-·-14-points) 20 |
# | [8 Choosing](#8-Choosing:-from-the-task-to-a-recipe) | 10 | [03c-choose](#Question-03c-choose-·-6-points) 12, [03c-p](#Question-03c-p-·-4-points,-graded-by-hand) 12 |

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
    for _, sign in zip(range(500), cycle([1.0, -1.0]), strict=False):
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
for (name, values), colour, marker in zip(accuracies.items(), OKABE_ITO, "osv^", strict=False):
    axis.plot(rates, values, marker=marker, color=colour, label=name)
axis.set(xscale="log", xlabel="learning rate", ylabel="validation accuracy after 3 epochs")
axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
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
# | SGD | one number to understand, no memory | the step grows with the gradient, so the rate must fit the problem | the best rate, 1 |
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
# Adam's step does not depend on the gradient's size, and only AdamW decays all weights alike.

# %% [markdown]
# ## 6 Parameter groups: not every weight alike
#
# **Goal.** Give each parameter its own rate and its own weight decay.
#
# `AdamW([{"params": …, "lr": …, "weight_decay": …}, …])` takes groups of parameters, each with its own settings. Two uses
# are common. Weight decay pulls matrices towards 0, but a bias or the scale of a normalisation should not shrink. And a
# body that has been trained before may learn more slowly than a new head.
#
# A published loop decides by name: no decay if `"bias"`, `"norm"` or `"bn"` occurs in the name of the parameter. The
# network below has two normalisation layers. Predict how many of their four parameters this loop gets wrong.

# %% tags=["demo"]
predict("by name", None)

# %% tags=["demo"]
network = nn.Sequential(
    nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10)
)
norms = (network[1], network[4])
decays_by_name = {
    name: not any(word in name for word in ("bias", "norm", "bn")) for name, _ in network.named_parameters()
}
norm_names = [name for name, parameter in network.named_parameters() if name.split(".")[0] in ("1", "4")]
print({name: "decays" if decays_by_name[name] else "no decay" for name in norm_names})
reveal("by name", sum(decays_by_name[name] for name in norm_names), "of 4", tolerance=0, usual={
    0: "In nn.Sequential the names are numbers: 1.weight, not norm.weight.",
})

# %% [markdown]
# Both scales decay, because `1.weight` and `4.weight` do not say what they are. Names are free, types are not: ask the
# module that owns a parameter.
#
# How much does decay matter to a scale? An AdamW step multiplies a decaying parameter by $1 - \eta\lambda$. With rate 0.01
# and decay 0.1 a scale that gets no gradient falls from 1 to 0.61 in 500 steps, as the weights in section 5 did.
#
# ### A body that is used again
#
# Now train a body with a head on the digits 0 to 4. Then give it a new head for 5 to 9 and train on only 50 images. The
# head's rate is 0.01. The body's rate is 0, a tenth of it, or the same. Predict which factor gives the best accuracy on
# new images of the digits 5 to 9: 0, 0.1 or 1.

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
        cross_entropy(head(body(pixels[batch])), classes[batch] - first_digit).backward()
        optimizer.step()


@torch.no_grad()
def share_right(body, head, images, first_digit):
    """Return the accuracy on these images."""
    return (head(body(pixels[images])).argmax(1) + first_digit == classes[images]).float().mean().item()


# %% tags=["demo"]
def transfer(factor, seed=0):
    """Return the accuracy on digits 5 to 9 with the new head, and on 0 to 4 with the old head, after the transfer."""
    torch.manual_seed(seed)
    body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    old_head, new_head = nn.Linear(64, 5), nn.Linear(64, 5)
    train_low, train_high = (train_part[(classes[train_part] < 5) == low] for low in (True, False))
    val_low, val_high = (val_part[(classes[val_part] < 5) == low] for low in (True, False))
    fit(body, old_head, train_low, 0.003, 1.0, 300, 0)
    fit(body, new_head, train_high[:50], 0.01, factor, 100, 5)
    return share_right(body, new_head, val_high, 5), share_right(body, old_head, val_low, 0)


# %% tags=["demo", "nbval-ignore-output"]
results = {factor: np.mean([transfer(factor, seed) for seed in range(3)], axis=0) for factor in (0.0, 0.1, 1.0)}
for factor, (new, old) in results.items():
    print(f"factor {factor}: digits 5 to 9: {new:.2f}   digits 0 to 4 with the old head: {old:.2f}")
reveal("body rate", max(results, key=lambda factor: results[factor][0]), tolerance=0, usual={
    0.1: "The lower rate is often recommended. Here it costs accuracy.",
})

# %% [markdown]
# With a frozen body the new digits reach about 0.56, with a tenth of the rate 0.75, and with the full rate 0.87. The old
# digits, seen through the old head, go the other way: 1.00, 0.99 and 0.88. So a lower rate *keeps* what the body knows,
# and here it costs accuracy on the new task, because features of 0 to 4 do not suffice for 5 to 9. Texts that call the
# lower rate essential describe bodies trained on far more data than the new task has. Try several factors.
#
# ### Question 03c-groups · 8 points
#
# Write `make_groups(model, body_rate, head_rate, weight_decay)`. It returns a list of groups for an optimizer. Each group is
# a dict with the keys `"params"`, `"lr"` and `"weight_decay"`.
#
# - Each parameter with `requires_grad` is in exactly one group, and only once there. Frozen parameters are in no group.
# - Parameters of `model.body` have the rate `body_rate`, and those of `model.head` have `head_rate`.
# - The weights of `Linear`, `Conv1d` and `Embedding` decay with `weight_decay`. All other parameters have decay 0: every
#   bias, and the scales of normalisation layers of any shape.
#
# `model` is an `nn.Module`. All its parameters belong to `model.body` or to `model.head`, each an `nn.ModuleDict` of one or more
# layers: `Linear`, `Conv1d`, `Embedding`, `LayerNorm` (over one axis or two), `BatchNorm1d` or `GroupNorm`. The names of the
# layers are free and may mislead. Two layers of the same part may share one weight. The rates and `weight_decay` are positive
# numbers, and the two rates differ. The number and the order of the groups are free, and a group may be empty.
#
# Hidden cases: once 3 points, rates 2, decays 3. Limit: 30 seconds. `parameter_groups` of `lecture_lib` is switched off
# while your answer is checked.
#
# <details><summary>Hint 1</summary>
#
# `module.named_parameters(recurse=False)` gives what a module itself owns. Go through `part.modules()`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A shared weight is met twice on this way. How do you know that you have already seen it?
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
# **Recap.** Decide by the type of the owner, not by the name. Check that every trainable parameter is in exactly one group.
# Measure whether a lower rate for the body helps.

# %% [markdown]
# ## 7 Schedules: plan the rate of every step
#
# **Goal.** Know the learning rate of each step before a run starts, and draw it.
#
# A large rate makes progress early, and a small one finishes the work. A schedule goes from one to the other. It is
# stepped after every optimizer step or after every epoch, and the two are easy to confuse.
#
# A training set has 17 batches in an epoch. `StepLR(optimizer, step_size=5, gamma=0.1)` is meant to lower the rate every
# 5 *epochs*, but the loop calls `scheduler.step()` after every *batch*. The rate starts at 0.1. Predict the power of ten
# of the rate at the end of the second epoch, after 34 batches (−1 would be the rate 0.1).

# %% tags=["demo"]
predict("wrong unit", None)

# %% tags=["setup"]
from torch.optim.lr_scheduler import (
    CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, LambdaLR, MultiStepLR, ReduceLROnPlateau, StepLR
)

from lecture_lib.training import one_cycle, plot_schedule, schedule_rates, step_decay, warmup_cosine, with_warmup

# %% tags=["demo"]
stepped_per_batch = schedule_rates(lambda optimizer, steps: StepLR(optimizer, 5, gamma=0.1), 35, 0.1)
print("rate of the first six steps", [round(rate, 4) for rate in stepped_per_batch[:6]])
reveal("wrong unit", math.log10(stepped_per_batch[34]), "as a power of ten", tolerance=0.1, usual={
    -1: "That is right for a scheduler that is stepped once in an epoch.",
    -2: "The rate falls every 5 batches, not once.",
})

# %% [markdown]
# After two epochs the rate is $10^{-7}$, and training has stopped. `schedule_rates(schedule, total_steps, learning_rate)`
# tells this without any training. The next cell shows the damage over ten epochs and three seeds.


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
            cross_entropy(network(pixels[batch]), classes[batch]).backward()
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
# The right loop reaches about 0.97, the wrong one 0.3 to 0.5. No error is raised. `train` of `lecture_lib` steps the
# schedule after every optimizer step and tells it the number of steps, so its schedules are written in steps.
#
# ### The usual shapes
#
# Below are 119 steps with a largest rate of 0.1. Step and multi-step multiply the rate by a factor at fixed steps.
# Cosine falls slowly, then fast, then slowly, and needs only its two ends. Warm restarts repeat the cosine, here with
# periods of 17, 34 and 68 steps. The cyclical schedule `triangular2` halves its height after each cycle. One-cycle rises
# and falls once, and moves the momentum from 0.95 to 0.85 and back.

# %% tags=["demo"]
shapes = {
    "step": step_decay(30, 0.5),
    "multi-step": lambda optimizer, steps: MultiStepLR(optimizer, [60, 100], gamma=0.2),
    "cosine": lambda optimizer, steps: CosineAnnealingLR(optimizer, steps),
    "warm-up, cosine": warmup_cosine(0.1),
}
waves = {
    "warm restarts": lambda optimizer, steps: CosineAnnealingWarmRestarts(optimizer, 17, T_mult=2),
    "cyclical": lambda optimizer, steps: CyclicLR(optimizer, 0.01, 0.1, step_size_up=20, mode="triangular2"),
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
    alt="Two panels, learning rate against optimizer step. Left: stairs at 30, 60 and 90; stairs at 60 and 100; a half "
    "cosine from 0.1 to 0; the same after 12 steps of warm-up. Right: cosines that restart at steps 17 and 51; triangles "
    "with peaks 0.1, 0.055 and 0.0325; one rise to 0.1 at step 35 and a fall to almost 0; stairs after a warm-up.",
)

# %% [markdown]
# A cycle or a restart is said to lift the network out of a bad minimum. Whether it helps is a measurement for each task.
# The next cell compares four of these shapes on digits, with a peak of 0.5 and three seeds. Predict the difference between
# the best and the worst mean accuracy, in percentage points.

# %% tags=["demo"]
predict("shapes", None)

# %% tags=["demo", "nbval-ignore-output"]
compared = {
    "constant": lambda optimizer, steps: LambdaLR(optimizer, lambda step: 1.0),
    "cosine": warmup_cosine(0),
    "restarts": lambda optimizer, steps: CosineAnnealingWarmRestarts(optimizer, steps // 7, T_mult=2),
    "one-cycle": one_cycle(0.5),
}
means = {
    name: np.mean([trained(schedule, 0.5, seed) for seed in range(3)]) for name, schedule in compared.items()
}
print({name: f"{mean:.3f}" for name, mean in means.items()})
reveal("shapes", 100 * (max(means.values()) - min(means.values())), "percentage points", tolerance=1)

# %% [markdown]
# The four lie within about one percentage point, which three seeds cannot order. The peak rate mattered far more: in
# section 5 one power of ten cost 5 to 80 points. So tune the rate first and take a simple schedule. Cosine and
# one-cycle need no further setting.
#
# ### Warm-up
#
# At the start the weights are random, and the averages of momentum and Adam rest on few gradients. Warm-up begins with
# small steps. A text that you may meet says that PyTorch has no warm-up. It has: `LinearLR`, and `SequentialLR` puts it
# before another scheduler. `with_warmup(schedule, 0.1)` does this for any schedule.
#
# The same text starts its warm-up at the rate $\eta \cdot t / W$. Predict by how much the first step then changes the
# weights.

# %% tags=["demo"]
predict("first step", None)


# %% tags=["demo"]
def first_change(factor):
    """Return the largest change of a weight in the first step of a warm-up."""
    network = small_network()
    before = network[0].weight.detach().clone()
    optimizer = SGD(network.parameters(), lr=0.1)
    LambdaLR(optimizer, factor)
    cross_entropy(network(pixels[:64]), classes[:64]).backward()
    optimizer.step()
    return (network[0].weight - before).abs().max().item()


# %% tags=["demo"]
from_zero, above_zero = first_change(lambda step: step / 5), first_change(lambda step: (step + 1) / 6)
print(f"t/W: {from_zero:.4f}   (t + 1)/(W + 1): {above_zero:.4f}")
reveal("first step", from_zero, tolerance=1e-6)

# %% [markdown]
# Step 0 has the rate 0, so a whole batch is wasted. $(t + 1)/(W + 1)$ avoids that and reaches the full rate exactly when
# the main schedule begins.
#
# Does warm-up help? The next cell trains with cosine and three lengths of warm-up, at a good rate and at a rate that is
# too large.

# %% tags=["demo", "nbval-ignore-output"]
for rate in (0.5, 1.0):
    for warmup in (0, 0.1, 0.3):
        scores = [trained(warmup_cosine(warmup), rate, seed) for seed in range(3)]
        print(f"peak {rate}, warm-up {warmup:3}:", [round(score, 2) for score in scores])

# %% [markdown]
# At 0.5 warm-up changes nothing that three seeds could show. At 1.0 a warm-up over 30 % of the run rescues most of the
# runs (0.6 to 0.97 instead of 0.4 to 0.6), and one over 10 % does not. So warm-up widens the range of rates that work. It is
# not always necessary, and no length of it is right for every run.
#
# ### Plateau, accumulation, skipped steps
#
# `ReduceLROnPlateau` cuts the rate when the validation loss has not fallen for more than `patience` epochs. It gets this
# loss in `scheduler.step(loss)`, and what it does cannot be planned before the run.

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
    caption="With patience 1, the second bad epoch in a row halves the rate from the next epoch on.",
    alt="Rate and validation loss against epoch, log scale. The loss falls to 0.6 by epoch 2 and to 0.5 at epoch 6. The "
    "rate is 0.1 up to epoch 4, 0.05 from epoch 5 to 8, and 0.025 from epoch 9 on.",
)

# %% [markdown]
# Two more things change the count of steps. With accumulation an optimizer step takes several batches, and the last
# window of an epoch may be shorter: 5 batches in windows of 2 make 3 steps. And in fp16 `GradScaler` skips a step whose
# gradients overflow. Then the schedule must not move either, because it counts steps that were *taken*.
#
# ### Question 03c-schedules · 14 points
#
# Write four functions. Each returns a sequence of numbers. Steps and epochs are counted from 0.
#
# - `multi_step_rates(rate, milestones, factor, epochs, batches, accumulate)` gives the rate of every optimizer step. The
#   first rate is `rate`. It is multiplied by `factor` at the first step of every epoch in `milestones`.
# - `warmup_cosine_rates(rate, final, warmup, epochs, batches, accumulate)` gives the rate of every optimizer step. With
#   $N$ steps in the run and $W$ = `warmup` *optimizer steps*, step $t$ has the rate
#   $\mathrm{rate} \cdot (t + 1) / (W + 1)$ for $t < W$, and after that
#   $\mathrm{final} + (\mathrm{rate} - \mathrm{final}) \cdot (1 + \cos(\pi\,(t - W)/(N - W)))/2$.
# - `applied_rates(planned, taken)` gives the rate in force at every attempt to step. `planned` holds the schedule's rates,
#   `taken` says for each attempt whether the step was taken. A skipped step does not move the schedule.
# - `plateau_rates(rate, losses, factor, patience)` gives the rate used in every epoch. `losses` holds the validation loss
#   at the end of each epoch. An epoch is bad unless its loss is lower than all losses before it. After more than
#   `patience` bad epochs in a row the rate is multiplied by `factor` from the next epoch on, and the count of bad epochs
#   starts again at 0.
#
# `epochs` (1 to 6), `batches` of an epoch (1 to 12) and `accumulate` (1 to 9) are whole numbers. An optimizer step takes
# `accumulate` batches, and the last step of an epoch takes those that are left. `milestones` is an increasing list of epochs
# from 1; it may be empty and may name epochs after the end of the run. $0 \le W < N$. `rate` and `final` lie between 0.005
# and 1, with `final` below `rate`, and `factor` lies between 0.1 and 0.9. `planned` has 1 to 12 rates; `taken` has 1 to 12
# booleans and is not longer than `planned`. `losses` has 1 to 16 positive numbers, and `patience` is 0 to 4.
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
# In the last two functions, first note the rate that is in force, then decide what happens to it.
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
    return rise + [final + (rate - final) * (1 + math.cos(math.pi * step / left)) / 2 for step in range(left)]
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
# A task answers four questions, and each answer narrows one choice. Several choices are often right. The table lists what
# this notebook accepts.
#
# | question | answer | acceptable |
# |---|---|---|
# | which loss? | a number | `mse`, `huber` |
# | | a number, and the targets have outliers | `huber`, `l1` |
# | | one of two classes | `bce_with_logits`, `cross_entropy` |
# | | one of many classes | `cross_entropy` |
# | | several classes at once | `bce_with_logits` |
# | which metric? | a number; with outliers only the first | `mae`, `rmse` |
# | | classes; with a rare class only the first | `macro_f1`, `accuracy` |
# | which optimizer? | a transformer only the first | `adamw`, `sgd_momentum` |
# | which schedule? | the length of the run is known | `warmup_cosine`, `one_cycle`, `cosine`, `step` |
# | | the same, of a transformer | `warmup_cosine`, `one_cycle` |
# | | the length is not known | `constant`, `plateau` |
#
# The rows are habits with a reason: an outlier's gradient grows with its error under `mse` and not under `huber`. Softmax
# makes classes compete, so it does not suit several at once. A cosine needs its end. What a habit is worth is measured.
# The next cells try acceptable recipes on three data sets of scikit-learn: 442 patients with a number that describes their
# disease (diabetes), 569 tumours of two kinds, and digits. Predict the coefficient of determination $R^2$ for diabetes: 0
# is the mean as an answer for everyone, 1 is perfect.

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
from torch.nn.functional import binary_cross_entropy_with_logits, huber_loss

recipes = {
    "AdamW, warm-up, cosine": (lambda parameters: AdamW(parameters, 0.01), warmup_cosine(0.1)),
    "SGD with momentum, step": (lambda parameters: SGD(parameters, 0.05, momentum=0.9), step_decay(0.4)),
}
tasks = {
    "diabetes": (load_diabetes, lambda outputs, y: huber_loss(outputs[:, 0], y), 1),
    "breast cancer": (load_breast_cancer, lambda outputs, y: binary_cross_entropy_with_logits(outputs[:, 0], y.float()), 1),
    "digits": (load_small_digits, cross_entropy, 10),
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
    (name, recipe): [tried(name, *recipes[recipe], seed) for seed in range(3)] for name in tasks for recipe in recipes
}
for (name, recipe), values in found.items():
    print(f"{name:14} {recipe:24}", *(f"{value:.2f}" for value in values))
reveal("diabetes", np.mean([found["diabetes", recipe] for recipe in recipes]), tolerance=0.1, usual={
    0.9: "Ten features of a patient say little about a disease a year later. No recipe changes that.",
})

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(6, 2.8))
for place, (recipe, marker) in enumerate(zip(recipes, "os", strict=True)):
    for row, name in enumerate(tasks):
        values = found[name, recipe]
        label = recipe if row == 0 else None
        axis.plot(values, [row + 0.2 * place] * 3, marker, color=OKABE_ITO[place], label=label)
axis.set(yticks=range(3), yticklabels=tasks, xlabel="R² (diabetes) or accuracy on held-out rows", xlim=(0, 1))
axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.3), ncols=2)
show_figure(
    figure,
    caption="Two acceptable recipes, three seeds: the data decide far more than the recipe.",
    alt="Quality of two recipes on three data sets, three seeds each. Diabetes: R² about 0.39 to 0.45 for both. Breast "
    "cancer: accuracy about 0.96 to 0.98 for both. Digits: about 0.95 to 0.97 for both.",
)

# %% [markdown]
# Both recipes give nearly the same result on each data set, and the seeds (which also change the split) move it more than
# the recipe does. So start with any acceptable recipe, tune its rate, and spend the time on the data.
#
# ### Question 03c-choose · 6 points
#
# Write two functions.
#
# - `choose(task)` returns a dict with the keys `"loss"`, `"metric"`, `"optimizer"` and `"schedule"`. Each value is one of the
#   names in the table, and fits the task. `task` is a dict. `task["target"]` is `"number"`, `"one of two"`, `"one of many"` or
#   `"several at once"`. `task["outliers"]` (true for numbers only), `task["rare_class"]` (true for classes only),
#   `task["transformer"]` and `task["length_known"]` are booleans.
# - `train_model(task, x, y)` trains a model and returns it. It is tried on the three data sets above, with 200 or 300 rows in
#   an order of their own. `x` is a float32 tensor [N, F], already standardised. `y` is a tensor [N]: float32 and *not*
#   standardised for numbers, and class indices (int64) otherwise. The model is a function or module of new rows [M, F].
#   It returns a tensor [M] or [M, 1] of numbers in the unit of `y`, or, for classes, a tensor [M, C]. For two classes a single
#   logit, [M] or [M, 1], is right as well.
#
# On held-out rows the model must be better than $R^2 = 0.2$ on diabetes, than an accuracy of 0.85 on breast cancer and of
# 0.75 on digits. Every recipe in the table that fits is clearly better (0.32, 0.93 and 0.86 were the lowest of eight
# draws, after 100 steps with batches of 64). Train for a few seconds at most.
#
# Hidden cases: loss 1 point, metric 1, optimizer 1, schedule 1, model 2. Limit: 30 seconds.
#
# <details><summary>Hint</summary>
#
# `train_model` may always use the same recipe except for the loss. Numbers between 25 and 346 are hard to learn unless you
# standardise them, and undo that in what you return.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "03c-choose", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose(task):
    """Return names of a loss, a metric, an optimizer and a schedule that fit the task."""
    ### BEGIN SOLUTION
    losses = {"number": "huber", "one of two": "bce_with_logits", "several at once": "bce_with_logits"}
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
        fitted = fit_recipe(x, (y - shift) / scale, tasks["diabetes"][1], 1, *recipes["AdamW, warm-up, cosine"], seed=0)
        return lambda rows: fitted(rows) * scale + shift
    return fit_recipe(x, y, cross_entropy, int(y.max()) + 1, *recipes["AdamW, warm-up, cosine"], seed=0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03c-choose-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03c-choose", choose, train_model)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03c-choose", choose, train_model)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** The target decides the loss, and what costs you decides the metric. Any acceptable optimizer with a tuned rate
# comes close to the others. Measure over seeds before you prefer one.

# %% [markdown] nbgrader={"grade": false, "grade_id": "03c-p-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### Question 03c-p · 4 points, graded by hand
#
# A colleague sends you this loop for review. Two comments in it and one line are wrong. All three come from published texts.
#
# ```python
# # PyTorch has no warm-up, so we write our own.
# scheduler = LambdaLR(optimizer, lambda step: min(1.0, step / 500))
#
# for i, (x, y) in enumerate(loader):
#     loss = cross_entropy(model(x), y) / 4
#     loss.backward()
#     if (i + 1) % 4 == 0:
#         optimizer.step()
#         scheduler.step()
#         optimizer.zero_grad()  # fills the gradients with zeros
# ```
#
# For each of the three mistakes, write what is wrong, how you would show it in a run of a few lines, and the repair. In
# addition, name one consequence of the first line of code that your colleague may not have noticed. Ten sentences are
# enough.
#
# Graded on: the warm-up comment and its repair (1), what `zero_grad` does and when the difference changes a result (1), the
# window that is lost, and the weight of its examples (1), the rate of the first step (0.5), a run that shows one of them (0.5).
#
# <details><summary>Hint</summary>
#
# How many batches are left when the loader has 17? What happens to their gradients? Print `parameter.grad` after `zero_grad()`.
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03c-p", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# PyTorch has warm-up: `LinearLR`, followed by another scheduler in `SequentialLR`. The loop's own version starts at rate 0, so
# the first optimizer step changes nothing: comparing the weights before and after it shows that. I would use
# `LinearLR(optimizer, 1 / 501, total_iters=500)`, or `(step + 1) / 501`.
#
# `zero_grad()` sets the gradients to `None` by default since PyTorch 2.0; printing `parameter.grad` shows it. The difference
# changes results: with momentum or weight decay a parameter without a gradient is skipped, and one with gradient 0 still
# moves. The comment must say so, or the call must say `set_to_none=False`.
#
# With 17 batches the loop steps 4 times and drops the last batch. Worse, its gradient stays in `.grad`, so it leaks into the
# first window of the next epoch. Counting the steps of an epoch shows 4 where 5 are right. I would also step after the last
# batch, and divide the sum of the losses by the number of examples in the window, because that window has one batch
# and not four.

# %% [markdown]
# ## Where you are
#
# The next cell sums up the visible checks that ran in this session.

# %% tags=["demo"]
show_progress("03c")
