# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 03a · The training recipe
#
# You will train a small network on real handwritten digits: 1,797 images, 1,078 of them for training. You will write
# each part of the training loop yourself: the gradients, the batches, the step, the evaluation, the checkpoint and
# the learning-rate sweep. Every part looks easy, but each part can be wrong without raising an error. This notebook
# is about those silent errors.
#
# How to work: each section states a goal and asks for a prediction before it shows a result. Write the prediction down
# first: replace `None` in the cell that asks for it. The folded cell below it compares your prediction with the result;
# run it like any other cell. A wrong guess teaches more than a result that you only read. Each coding question has an
# answer cell and a visible check below it. The check tells you what happened and where to look. Points come from hidden
# tests on other inputs. Three questions ask for text and are graded by hand. You may skip a question: nothing later
# depends on your answer.
#
# Unless a question says otherwise, a function leaves its arguments as they are, and gives the same result when it is
# called again. It gets contiguous tensors on the CPU, and PyTorch has its default settings.
#
# While your answers are graded, each cell has limits: 30 s of CPU time, 120 s of wall-clock time, 3 GB of memory, 64
# processes, 256 MB of files and 1 MB of output. A cell that exceeds a limit, or ends its kernel, loses only its own
# question.
#
# | sections | you will be able to | points |
# |---|---|---|
# | 1 to 5 Tape, modules | compute gradients by hand, write backward rules, build a module that registers all its parts | 15 |
# | 6, 7 Batch, precision | list what a batch must satisfy, build a data loader, choose a number format by its range and its number of digits | 20 |
# | 8, 9 Accumulation, clipping | train with a batch that is too large for memory, limit the length of a step and keep its direction | 18 |
# | 10, 11 Rate | find a learning rate in 100 steps, and change it with the batch size | 10 |
# | 12 to 16 Evaluate, train, save | read curves, choose and measure a metric, keep the best epoch, resume bit for bit | 29 |
# | 17, 18 Recipe, record | train to 97 % accuracy on digits that the model never saw, and record what produced the run | 6 |
# | 19 Two habits | say what `eval()` and `no_grad()` each do | 2 |

# %% [markdown]
# ## Contents
#
# The minutes are estimates: time to read, predict and run a section, and time to answer its questions. The notebook has
# three parts of about three hours each. The cell before section 8 lets you begin part two or part three with a fresh
# kernel. If you stop within a part, run all cells above that place first, which takes about a minute.
#
# | section | minutes | questions, with minutes |
# |---|---|---|
# | **Part one** | **190** | |
# | [1 Tape](#1-Tape:-what-the-backward-pass-reads) | 8 | |
# | [2 Graph](#2-Graph:-values-and-gradients-by-hand) | 15 | [03a-graph](#Question-03a-graph-·-2-points) 15 |
# | [3 Rules](#3-Rules:-the-backward-pass-of-one-operation) | 10 | [03a-backward](#Question-03a-backward-·-6-points) 25 |
# | [4 Off the tape](#4-Off-the-tape:-no_grad-and-detach) | 8 | |
# | [5 Module](#5-Module:-what-belongs-to-a-model) | 14 | [03a-register](#Question-03a-register-·-7-points) 15 |
# | [6 Batch](#6-Batch:-what-the-model-is-about-to-see) | 20 | [03a-contract](#Question-03a-contract-·-8-points) 15, [03a-dataset](#Question-03a-dataset-·-6-points) 20 |
# | [7 Precision](#7-Precision:-range-and-digits) | 10 | [03a-precision](#Question-03a-precision-·-6-points) 15 |
# | [After part one: a good place to stop](#After-part-one:-a-good-place-to-stop) | | |
# | **Part two** | **181** | |
# | [8 Accumulation](#8-Accumulation:-a-batch-that-does-not-fit) | 8 | [03a-accumulate](#Question-03a-accumulate-·-8-points) 20, [03a-p3](#Question-03a-p3-·-2-points,-graded-by-hand) 10 |
# | [9 Clipping](#9-Clipping:-limit-the-length,-keep-the-direction) | 27 | [03a-clip](#Question-03a-clip-·-8-points) 15 |
# | [10 Rate](#10-Rate:-how-large-a-step) | 15 | [03a-lrfinder](#Question-03a-lrfinder-·-8-points) 25 |
# | [11 Batch size and rate](#11-Batch-size-and-rate:-change-them-together) | 8 | [03a-p1](#Question-03a-p1-·-2-points,-graded-by-hand) 10 |
# | [12 Curves](#12-Curves:-how-to-read-a-run) | 8 | |
# | [13 Loss and metric](#13-Loss-and-metric:-two-different-questions) | 15 | [03a-metric](#Question-03a-metric-·-4-points) 20 |
# | **Part three** | **179** | |
# | [14 Evaluation](#14-Evaluation:-measure-and-change-nothing) | 8 | [03a-evaluate](#Question-03a-evaluate-·-8-points) 20 |
# | [15 The best epoch](#15-The-best-epoch:-a-copy,-not-a-reference) | 12 | [03a-train](#Question-03a-train-·-9-points) 20 |
# | [16 Save and resume](#16-Save-and-resume:-the-same-weights-to-the-last-bit) | 8 | [03a-checkpoint](#Question-03a-checkpoint-·-8-points) 20 |
# | [17 Recipe](#17-Recipe:-one-short-function) | 40 | |
# | [18 Reproducibility](#18-Reproducibility:-the-same-run-tomorrow) | 12 | [03a-recipe](#Question-03a-recipe-·-6-points) 25 |
# | [19 Two habits](#19-Two-habits-that-are-not-the-same) | 4 | [03a-p5](#Question-03a-p5-·-2-points,-graded-by-hand) 10 |

# %% tags=["setup"]
import copy
import inspect
import math
import tempfile
import textwrap
import time
from dataclasses import asdict
from functools import partial
from itertools import chain, cycle, pairwise
from pathlib import Path
from timeit import timeit

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.optim.lr_scheduler import LinearLR, OneCycleLR
from torch.utils.data import DataLoader, Dataset, TensorDataset

# %% tags=["setup"]
import lecture_lib.data
from lecture_lib import tape
from lecture_lib.analysis import diagnose
from lecture_lib.analysis.metrics import auprc, auroc, macro_f1, mae, rmse
from lecture_lib.data import TensorLoader, cifar10, fashion_mnist, load_digits, stratified_split
from lecture_lib.experiments import RunRecord, content_id, set_seed
from lecture_lib.notebook import (
    OKABE_ITO, check, predict, reveal, saved_bytes, show_arrows, show_figure, show_float_formats,
    show_images, show_progress, show_runs, show_walk, train_live
)
from lecture_lib.training import choose_precision, evaluate, find_lr, train
from lecture_lib.training.accumulation import Window
from lecture_lib.training.step import TrainingStep

# %% [markdown]
# ## 1 Tape: what the backward pass reads
#
# **Goal.** Follow one training step by hand.
#
# A model with two parameters predicts $\hat y = w x + b$. Its loss is $L = (\hat y - y)^2$. While Python computes the
# loss, autograd records every operation. This record is called the *tape*. `L.backward()` reads the tape from the end
# to the start and multiplies the local slopes: $\partial L/\partial w = 2(\hat y - y)\cdot x$.
#
# Here $x = 3$, $w = 2$, $b = 1$ and $y = 10$, so $\hat y = 7$ and the error is $-3$. Predict $\partial L/\partial w$.
# Mind the sign: it says whether the loss rises or falls when $w$ grows.

# %% tags=["demo"]
predict("tape", None)

# %% tags=["demo"]
w = torch.tensor(2.0, requires_grad=True)
b = torch.tensor(1.0, requires_grad=True)
loss = (w * 3.0 + b - 10.0) ** 2
loss.backward()

# %% tags=["demo"]
reveal("tape", w.grad.item(), usual={
    18: "The error is 7 − 10 = −3, so the slope is negative.",
    -6: "This is ∂L/∂b. For w, the factor x = 3 is missing.",
    -9: "The factor 2 from the square is missing.",
})

# %% [markdown]
# $\partial L/\partial w$ is −18 and $\partial L/\partial b$ is −6. The first is three times the second because $w$ is
# multiplied by 3. Both are negative, so the loss falls when $w$ and $b$ grow. One step of gradient descent with
# learning rate 0.01 moves each parameter against its gradient: $w = 2 + 0.18$ and $b = 1 + 0.06$. The next cell takes
# this step and computes the loss again. The update runs inside `no_grad()` because it must not be recorded on the tape.

# %% tags=["demo"]
with torch.no_grad():
    w -= 0.01 * w.grad
    b -= 0.01 * b.grad
    new_loss = (w * 3.0 + b - 10.0) ** 2
print(f"w = {w.item():.2f}, b = {b.item():.2f}")
print(f"loss {loss.item():.2f} -> {new_loss.item():.2f}")

# %% [markdown]
# **Recap.** A training step has three parts. The forward pass records the tape, the backward pass reads it, and the
# update changes the weights off the tape. The loss fell from 9 to 5.76. The rest of this notebook repeats this step and
# makes it safe.

# %% [markdown]
# ## 2 Graph: values and gradients by hand
#
# **Goal.** Compute every value and every gradient of a small graph with a pencil.
#
# The tape is a list with one row for each input (a *leaf*) and one row for each operation. The same information can
# be drawn as a *graph*. It has a box for each number, and arrows from the inputs of an operation to its result. Take
# $L = a x + b$ with $a = 2$, $x = 3$ and $b = 1$. In the forward pass the product is 6 and $L = 7$. The backward pass
# starts with 1 at $L$. A sum passes its gradient to both inputs unchanged. A product passes to each factor the
# gradient times the *other* factor. This is the chain rule, applied arrow by arrow.
#
# `lecture_lib.tape` is a small autograd library, built on NumPy. Its code is short enough to read, and it can print its
# tape.

# %% tags=["demo"]
a, x, b = (tape.Tensor(number, requires_grad=True) for number in (2.0, 3.0, 1.0))
loss = a * x + b
tape.trace(loss, a=a, x=x, b=b, L=loss)

# %% [markdown]
# The last row shows $L = 7$. The gradients of $a$, $x$ and $b$ are 3, 2 and 1. The last column is the backward pass:
# what each row passes to its inputs.
#
# Now add one operation: $L = (w x + b)^2$ with $w = 3$, $x = 2$ and $b = 1$. With $u = w x$ and $v = u + b$ the values
# are 6, 7 and 49. The slope of the square is $2v$, computed from its *input* $v$. Predict $\partial L/\partial w$. Then
# step through the tape below with the slider or the buttons. With the keyboard, Tab moves to them, the arrow keys move
# the slider, and Enter presses a button. Where widgets cannot run, you see a picture of the last step.

# %% tags=["demo"]
predict("graph", None)

# %% tags=["demo"]
w, x, b = (tape.Tensor(number, requires_grad=True) for number in (3.0, 2.0, 1.0))
u = w * x
v = u + b
loss = v**2
show_walk(
    loss, caption="Values are computed from left to right, gradients from right to left.",
    w=w, x=x, b=b, u=u, v=v, L=loss,
)

# %% tags=["demo"]
loss.backward()
print("values", u.item(), v.item(), loss.item())
print("gradients of w, x, b:", w.grad, x.grad, b.grad)

# %% tags=["demo"]
reveal("graph", float(w.grad), usual={
    42: "This is ∂L/∂x. A product passes the other factor: w gets x = 2, and x gets w = 3.",
    14: "This is ∂L/∂u. The product then multiplies it by x = 2.",
})

# %% [markdown]
# The values are 6, 7 and 49, and the gradients are 28, 42 and 14. The square contributes $2 \cdot 7 = 14$. The sum
# passes 14 on unchanged. The product passes $14 \cdot 2 = 28$ to $w$ and $14 \cdot 3 = 42$ to $x$.
#
# The tape is *dynamic*: you do not declare the graph beforehand. Every forward pass records a new tape. A loop or an
# `if` in Python can therefore produce a different graph each time, and `backward()` follows the graph that was
# recorded.

# %% tags=["demo"]
for exponent in (2, 4):
    power = w
    for _ in range(exponent - 1):
        power = power * w
    rows = tape.trace(power, w=w)
    print(f"w to the power {exponent}: {len(rows)} rows, gradient {rows['w'].gradient:g}")

# %% [markdown]
# The tapes have 2 and 4 rows: one for $w$ and one for each product. The gradients at $w = 3$ are $2w = 6$ and
# $4w^3 = 108$, and nobody wrote these formulas down. $w$ is used several times, and its contributions are summed.
#
# Two layers only make the graph longer. Take $h = \mathrm{relu}(w_1 x)$, $p = \mathrm{relu}(w_2 h)$ and $L = (p - y)^2$
# with $x = 2$, $y = 1$ and both weights 0.5. Then $h = 1$, $p = 0.5$ and $L = 0.25$. Relu works like a gate: its slope
# is 1 where its input is positive, and 0 elsewhere. Both gates are open here. Predict $\partial L/\partial w_1$. The
# next cell also closes the first gate, with $w_1 = -0.5$.

# %% tags=["demo"]
predict("two_layers", None)

# %% tags=["demo"]
slopes = {}
for first in (0.5, -0.5):
    weights = torch.tensor([first, 0.5], requires_grad=True)
    loss = (torch.relu(weights[1] * torch.relu(weights[0] * 2.0)) - 1.0) ** 2
    loss.backward()
    slopes[first] = [slope + 0.0 for slope in weights.grad.tolist()]
    print(f"w1 = {first:g}: loss {loss.item():g}, gradients {slopes[first]}")

# %% tags=["demo"]
reveal("two_layers", slopes[0.5][0], usual={
    1: "p is below y, so the loss falls when p grows: the sign is negative.",
    -2: "The factor w2 = 0.5 between p and h is missing.",
    -0.5: "The factor x = 2 between h and w1 is missing.",
})


# %% [markdown]
# Both gradients are −1. With the first gate closed, both are 0. A closed gate passes no gradient, so $w_1$ gets none.
# It also makes $h = 0$. So $w_2$, whose gradient is multiplied by $h$, gets none either. A unit that is closed for
# every example gets no gradient at all. As long as its inputs stay the same, its gradient cannot open it again. Only
# momentum or weight decay can still move its weights. The debug ladder in notebook 03b looks for such units.
#
# ### Question 03a-graph · 2 points
#
# Write the two forward and backward passes above as formulas that hold for any numbers.
#
# - `square_graph(w, x, b)`, with $u = w x$, $v = u + b$ and $L = v^2$, returns two lists: the values $u, v, L$, and the
#   gradients of $L$ with respect to $w, x, b$.
# - `relu_graph(w1, w2, x, y)`, with $h$, $p$ and $L$ as above, returns two lists: the values $h, p, L$, and the
#   gradients of $L$ with respect to $w_1, w_2$.
#
# All arguments are floats up to 10 in magnitude: positive, negative or 0. The lists hold numbers. The slope of relu at
# exactly 0 is 0. Work the formulas out by hand. Autograd is allowed and gives the same numbers and the same points, but
# then you would not have practised.
#
# Hidden cases: half a point each for the values and for the gradients of each graph. Every gate occurs open, closed,
# and with an input of exactly 0. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Give the gradient of every node a name. Start with 1 at L, and fill them in from the last node to the first.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A gate is a factor of 1 or 0. It multiplies the gradient at the place where the backward pass goes through the gate.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-graph", "locked": false, "schema_version": 3, "solution": true, "task": false}
def square_graph(w, x, b):
    """Return the values [u, v, L], and the gradients of L with respect to [w, x, b]."""
    ### BEGIN SOLUTION
    u = w * x
    v = u + b
    towards_v = 2 * v
    return [u, v, v**2], [towards_v * x, towards_v * w, towards_v]
    ### END SOLUTION


def relu_graph(w1, w2, x, y):
    """Return the values [h, p, L], and the gradients of L with respect to [w1, w2]."""
    ### BEGIN SOLUTION
    h = max(0.0, w1 * x)
    p = max(0.0, w2 * h)
    behind_gate = 2 * (p - y) if w2 * h > 0 else 0.0
    towards_h = behind_gate * w2 if w1 * x > 0 else 0.0
    return [h, p, (p - y) ** 2], [towards_h * x, behind_gate * h]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-graph-test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("03a-graph", square_graph, relu_graph)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-graph", square_graph, relu_graph)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Values are computed forwards, gradients backwards. A sum copies the gradient. A product multiplies it by
# the other factor. A gate passes it or stops it. Where a value is used twice, its gradients are summed. Every forward
# pass records a new tape.

# %% [markdown]
# ## 3 Rules: the backward pass of one operation
#
# **Goal.** Write a backward rule and check it with finite differences.
#
# An autograd system knows nothing about networks. It knows one *rule* for each operation: given the gradient of the
# result, what is the gradient of each input? A rule multiplies it by the local slope, computed from the values of the
# forward pass. It returns an array with the shape of the input. On our tape, `record` stores a value together with its
# rules. The next cell defines the operation $x^3$, once with the right slope $3x^2$ and once with a wrong one.
# `gradcheck` changes each entry by a small amount, computes how much the result changes, and compares this with what
# the rule returns.

# %% tags=["demo"]
def cube(x, factor=3):
    def rule(gradient):
        return gradient * factor * x.data**2

    return tape.record("cube", x.data**3, (x, rule))


# %% tags=["demo"]
points = tape.Tensor([0.5, -1.0, 2.0], requires_grad=True)
print(f"right rule: largest error {tape.gradcheck(cube, points):.6f}")
try:
    tape.gradcheck(lambda x: cube(x, factor=2), points)
except tape.GradientError as error:
    print(error)

# %% [markdown]
# The right rule agrees to six decimals. The rule with factor 2 gives 0.568 where the differences give 0.853. That is
# a ratio of exactly 2 to 3. (At x = 0.5 you may have expected 0.5 and 0.75. `gradcheck` first multiplies the results
# by fixed random weights and sums them, so that errors are unlikely to cancel.) The check needs no calculus, and it
# finds nearly every wrong rule.
#
# Two cases are easy to get wrong. The first is a *bias*. In `x @ weight + bias` the bias has shape `[outputs]` and is
# broadcast over a batch `[examples, outputs]`: each entry is used once for every example. Take four examples, and a
# loss that is the sum of all results, so that every result has gradient 1. Predict the gradient of one entry of the
# bias.

# %% tags=["demo"]
predict("bias", None)

# %% tags=["demo"]
batch, weight = torch.ones(4, 2), torch.ones(2, 3)
bias = torch.zeros(3, requires_grad=True)
(batch @ weight + bias).sum().backward()
print("gradient of the bias:", bias.grad.tolist())

# %% tags=["demo"]
reveal("bias", bias.grad[0].item(), usual={
    1: "This is the contribution of one example. The four examples are summed.",
    12: "This is the sum over all three entries. Each entry gets 4.",
})

# %% [markdown]
# Each of the three entries has gradient 4. What is broadcast in the forward pass is summed in the backward pass.
#
# The second case is relu at exactly 0. The slope is 0 to the left and 1 to the right, and at 0 itself the slope is
# not defined. Any value between 0 and 1 could be defended. PyTorch takes 0, and so does our tape. The choice matters
# where many inputs of relu are exactly 0. For example, this happens for an image of zeros in a layer whose bias
# starts at 0.

# %% tags=["demo"]
around_zero = torch.tensor([-1.0, 0.0, 1.0], requires_grad=True)
torch.relu(around_zero).sum().backward()
print("slopes:", around_zero.grad.tolist())


# %% [markdown]
# ### Question 03a-backward · 6 points
#
# Write two backward rules. All arguments are float64 NumPy arrays with finite entries. Return float64 NumPy arrays as
# well.
#
# - `relu_rule(x, gradient)` returns the gradient of relu's input `x`; `gradient` is the gradient of the result. Both
#   arrays have the same shape, with one or more axes and at least one entry. At x = 0 the gradient is 0.
# - `linear_rule(x, weight, bias, gradient)` is for `x @ weight + bias`, with shapes `[examples, inputs]`, `[inputs,
#   outputs]` and `[outputs]`, all sizes at least 1; `gradient` is the gradient of the result. It returns three arrays:
#   the gradients of `x`, `weight` and `bias`, each in the shape of the array that it belongs to.
#
# The arguments are read-only, because several rules on the tape share them. Do not write into them.
#
# Hidden cases: relu 1 point, `x` and `weight` 2, `bias` 2, and two layers on the tape with your rules 1. Some cases
# have a single example, a single input or a single output, and some have relu inputs of exactly 0. Limit: 30 seconds.
# While your answer is checked, `relu`, `linear` and `matmul` of `lecture_lib.tape` and all of PyTorch's autograd
# (`backward()`, `torch.autograd.grad`) are switched off, because this question asks for the rules themselves.
#
# <details><summary>Hint 1</summary>
#
# Write the three shapes down first. Only one product of `x` and `gradient`, with one of them transposed, has the shape
# of the weight.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `weight[i, o]` multiplies `x[n, i]` in the result `[n, o]`, for every example `n`. So its gradient is a sum over `n`.
# What multiplies one entry of the bias?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-backward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def relu_rule(x, gradient):
    """Return the gradient of relu's input x, given the gradient of its result."""
    ### BEGIN SOLUTION
    closed_gate = np.zeros_like(gradient)
    return np.where(x > 0, gradient, closed_gate)
    ### END SOLUTION


def linear_rule(x, weight, bias, gradient):
    """Return the gradients of x, weight and bias, given the gradient of x @ weight + bias."""
    ### BEGIN SOLUTION
    towards_x = gradient @ weight.T
    towards_weight = x.T @ gradient
    towards_bias = gradient.sum(axis=0)
    return towards_x, towards_weight, towards_bias
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-backward-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03a-backward", relu_rule, linear_rule)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-backward", relu_rule, linear_rule)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Each operation has one rule: incoming gradient times local slope, in the shape of the input. What is
# broadcast forwards is summed backwards. Check a rule with finite differences before you trust it.

# %% [markdown]
# ## 4 Off the tape: no_grad and detach
#
# **Goal.** Say which operations are recorded, and stop a gradient on purpose.
#
# Autograd does not record everything. It records an operation when recording is on *and* at least one input requires
# a gradient. Two tools keep things off the tape. Inside `torch.no_grad()` nothing is recorded. This suits evaluation
# and updates: no tape is built, and no intermediate results are kept for a backward pass. `detach()` returns the same
# value without its history, so autograd treats it as a constant. The code below computes these five results: `w * x`,
# `x * x`, `w * w.detach()`, `(w * x).detach()`, and `w * x` inside `no_grad()`. Only `w` requires a gradient. Predict
# how many of them are recorded.

# %% tags=["demo"]
predict("recorded", None)

# %% tags=["demo"]
w, x = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0)
results = {"w * x": w * x, "x * x": x * x, "w * w.detach()": w * w.detach()}
results["(w * x).detach()"] = (w * x).detach()
with torch.no_grad():
    results["w * x in no_grad"] = w * x
for name, result in results.items():
    recorded = result.grad_fn.name() if result.requires_grad else "not recorded"
    print(f"{name:17s} value {result.item():g}, {recorded}")

# %% tags=["demo"]
reveal("recorded", sum(result.requires_grad for result in results.values()), usual={
    1: "One factor of w * w.detach() still requires a gradient, so the product is recorded.",
    3: "detach() returns a tensor without history, and x * x has no input that needs a gradient.",
})

# %% [markdown]
# Two of the five are recorded; their operation appears on the tape as `MulBackward0`. The value of `w * x` is 6 in all
# three versions: neither tool changes what is computed, only what is recorded.
#
# Look again at `w * w.detach()`. It has the value of $w^2$, but not its gradient: the second factor is a constant, so
# the gradient is 3 instead of 6. You want such a constant when a model is compared with a *target* that another model
# computes. If you did not intend it, it is a silent fault. The next cell compares a student with a teacher. The
# teacher must not change.

# %% tags=["demo"]
(w * w.detach()).backward()
student, teacher = (torch.tensor(value, requires_grad=True) for value in (3.0, 2.0))
((student - teacher.detach()) ** 2).backward()
print("with one factor detached:", w.grad.item())
print("student", student.grad.item(), "teacher", teacher.grad)

# %% [markdown]
# With one factor detached the gradient is 3. The student has gradient 2, and the teacher has none.
#
# The opposite mistake is to keep history by accident. If you add up losses as tensors, the total is itself a result
# with a history. It keeps the tape of every step since the start, and memory grows until you drop the total. Our tape
# can count its rows.

# %% tags=["demo"]
weight, total, number = tape.Tensor(3.0, requires_grad=True), 0.0, 0.0
for _ in range(100):
    loss = (weight * 2.0 - 1.0) ** 2
    total, number = total + loss, number + loss.item()
print(f"one loss: {len(tape.trace(loss))} rows")
print(f"total of tensors: {total.item():g}, {len(tape.trace(total))} rows")
print(f"total of plain numbers: {number:g}, no rows")

# %% [markdown]
# One loss has 7 rows on the tape: the weight, three constants and three operations. The total of 100 losses has 702:
# the weight and the 0 that the total starts from once, and for each loss three constants, three operations and one
# addition. The total of plain numbers has none.
#
# **Recap.** Use `no_grad()` for evaluation and updates, `detach()` for targets, and `.item()` for logs. None of them
# changes a value. `no_grad()` does *not* put layers into eval mode: the last section of this notebook returns to this.

# %% [markdown]
# ## 5 Module: what belongs to a model
#
# **Goal.** Make sure that the optimizer sees every parameter of a model, and that every parameter and buffer is saved
# in the checkpoint and moved by `.to()`.
#
# An `nn.Module` keeps lists of what it owns. `parameters()`, `state_dict()` and `.to()` read these lists and nothing
# else. When you assign an attribute in `__init__`, its *type* decides whether it is registered.
#
# | you assign | trained | saved | moved |
# |---|---|---|---|
# | `nn.Parameter`: learned numbers | yes | yes | yes |
# | a buffer: numbers that are not learned | no | yes | yes |
# | an `nn.Module`, or several in an `nn.ModuleList` | what it owns | what it owns | what it owns |
# | anything else: a tensor, a number, a Python list | no | no | no |
#
# You create a buffer with `self.register_buffer(name, tensor)`, or, since PyTorch 2.5, with `self.name =
# nn.Buffer(tensor)`. A buffer with `persistent=False` moves with the module but is not saved in the `state_dict`. Batch
# normalisation has both parameters and buffers. Its scale and shift are learned, so they are parameters. Its running
# mean and variance are measured, so they are buffers.

# %% tags=["demo"]
norm = nn.BatchNorm1d(8)
print("parameters:", [name for name, _ in norm.named_parameters()])
print("buffers:   ", [name for name, _ in norm.named_buffers()])

# %% [markdown]
# The next module computes the right outputs. Its two hidden layers are in a Python list. Its temperature and its
# running mean are plain tensors. Only the last layer is assigned as a module. There are seven tensors to train: weight
# and bias of two hidden layers, the temperature, and weight and bias of the last layer. Predict how many of them
# `parameters()` finds.

# %% tags=["demo"]
predict("registered", None)


# %% tags=["demo"]
class Careless(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = [nn.Linear(8, 8), nn.Linear(8, 8)]
        self.temperature = torch.ones(1, requires_grad=True)
        self.running_mean = torch.zeros(8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        x = x - self.running_mean
        for layer in self.hidden:
            x = layer(x).relu()
        return self.last(x) / self.temperature


# %% tags=["demo"]
careless = Careless()

# %% tags=["demo"]
reveal("registered", len(list(careless.parameters())), usual={
    7: "Seven should be trained. But modules in a Python list are not registered.",
    3: "The temperature requires a gradient, but it is a plain tensor and not an nn.Parameter.",
})

# %% tags=["demo"]
before = careless.hidden[0].weight.detach().clone()
sgd = torch.optim.SGD(careless.parameters(), lr=0.1)
careless(torch.ones(4, 8)).square().sum().backward()
sgd.step()
print("entries of the hidden layer's gradient:", careless.hidden[0].weight.grad.numel())
print(f"largest change of its weights: {(careless.hidden[0].weight - before).abs().max():g}")

# %% tags=["demo"]
print("saved:", list(careless.state_dict()))
careless.double()
print("after double():", careless.last.weight.dtype, careless.hidden[0].weight.dtype)


# %% [markdown]
# `parameters()` finds 2 of the 7 tensors. The first hidden layer gets a gradient for all of its 64 weights, but none of
# these weights changes. No error is raised: autograd follows the computation, wherever a tensor is stored, but the
# optimizer never received this layer. The checkpoint holds only `last`. `double()` left the hidden layers in `float32`,
# so the next forward pass fails. After a move to the GPU, the forward pass would fail for the same reason: the hidden
# layers would still be on the CPU.
#
# ### Question 03a-register · 7 points
#
# Complete `Scaled(layers, mean, temperature)`. Its `forward` is already written and can stay unchanged.
#
# - `layers` is a list of one or more different modules. All their parameters and buffers must be registered.
# - `temperature` is a Python float other than 0. The module starts from this value and learns it, as a `float32`
#   parameter with one entry.
# - `mean` is a `float32` tensor `[features]`, from which the running mean starts. The running mean is a buffer: it is
#   saved and it moves with the module, but it is not learned.
#
# Nothing else is registered. Two names for the same layer or tensor are allowed, and the module may keep a copy of a
# layer or of `mean` instead of the object that it was given.
#
# The hidden cases have one to three linear layers, and some also have a layer that owns a buffer. Parameters give 2
# points, buffers 2, restoring a second module from the first one's `state_dict()` 1, and moving everything with
# `double()` and `to("meta")` (a device without memory) 2. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# There are three attributes, and the table above has a row for each. Before you assign any of them, the module itself
# must be initialised.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `nn.Parameter` wants a tensor of a floating-point dtype. After you build a module, print `list(module.state_dict())`.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-register", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Scaled(nn.Module):
    """Subtract a running mean, apply the layers, divide by a learned temperature."""

    def __init__(self, layers, mean, temperature):
        ### BEGIN SOLUTION
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.temperature = nn.Parameter(torch.as_tensor(temperature))
        self.register_buffer("running_mean", torch.clone(mean))
        ### END SOLUTION

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(dim=0), 0.1)  # 90 % old, 10 % new
        x = x - self.running_mean
        for layer in self.layers:
            x = layer(x)
        return x / self.temperature


# %% nbgrader={"grade": true, "grade_id": "03a-register-test", "locked": true, "points": 7, "schema_version": 3, "solution": false, "task": false}
check("03a-register", Scaled)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-register", Scaled)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Store learned numbers in an `nn.Parameter`, measured or fixed numbers in a buffer, and several modules in
# an `nn.ModuleList`. Nothing else is registered, and no error warns you. Count `parameters()` and read `state_dict()`
# once for every model that you write.

# %% [markdown]
# ### Frozen, or on another device
#
# **Goal.** Recognise two more faults, and repair each in one line.
#
# A registered parameter does not have to be trained. After `requires_grad_(False)` it is *frozen*: autograd computes no
# gradient for it, and the optimizer skips it as long as its `.grad` is `None`. You want this when you reuse the layers
# of a trained network. It is a silent fault when somebody froze a layer for an experiment and forgot it. The next
# network has two linear layers, so its parameters are four tensors. Its first layer is frozen. Predict how many of the
# four tensors one step of SGD changes.

# %% tags=["demo"]
predict("frozen", None)


# %% tags=["demo"]
def changed_by_a_step(model):
    """Return the names of the parameters that one step of SGD changes."""
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(4, 8)).square().sum().backward()
    optimizer.step()
    return [name for name, value in model.state_dict().items() if not value.equal(before[name])]


# %% tags=["demo"]
torch.manual_seed(0)
two_layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
_ = two_layers[0].requires_grad_(False)

# %% tags=["demo"]
print("frozen:", [name for name, p in two_layers.named_parameters() if not p.requires_grad])
changed = changed_by_a_step(two_layers)
two_layers.requires_grad_(True)
print("changed after requires_grad_(True):", changed_by_a_step(two_layers))

# %% tags=["demo"]
reveal("frozen", len(changed), usual={
    4: "The optimizer receives all four, but it skips a parameter that has no gradient.",
    0: "The last layer is not frozen, and its gradient does not pass through the first layer.",
})

# %% [markdown]
# The step changes 2 tensors, and all 4 after the repair. The loss of the frozen network falls as well, because its
# last layer learns. So before you train, list the parameters that have `requires_grad` switched off.
#
# The other fault raises an error, so you notice it: the model and the batch are on different devices. PyTorch never
# moves a tensor by itself. You do not need a GPU to see this. The next cell uses `meta`, a device that knows the
# shape of a tensor and stores no numbers. It moves a model there, and then calls the model with a batch that is on
# the CPU. Predict how many of the two calls raise an error: with the batch on the CPU, and with the batch moved to the
# device of the model's first parameter.

# %% tags=["demo"]
predict("device", None)

# %% tags=["demo"]
elsewhere, batch = nn.Linear(8, 2).to("meta"), torch.ones(4, 8)
model_device = next(elsewhere.parameters()).device

# %% tags=["demo"]
errors = 0
for name, x in {"batch on the CPU": batch, "batch moved": batch.to(model_device)}.items():
    try:
        print(f"{name}: outputs {list(elsewhere(x).shape)} on {elsewhere(x).device}")
    except (RuntimeError, NotImplementedError) as error:
        errors += 1
        print(f"{name}: {type(error).__name__}")

# %% tags=["demo"]
reveal("device", errors, usual={
    0: "PyTorch does not move the batch for you. You must move it yourself.",
    2: "After the move, both are on the same device.",
})

# %% [markdown]
# Only the first call fails. Move every batch to the device of the model once, at the start of the training step. The
# same error comes up inside a model when one of its tensors is not registered, because `.to()` leaves that tensor
# behind.
#
# **Recap.** List what is frozen before you train. Move each batch to the device of the model.

# %% [markdown]
# ## 6 Batch: what the model is about to see
#
# **Goal.** Look at a batch before any model does.
#
# Many bugs that look like model bugs are in the batch: pixels that still lie between 0 and 255, labels stored as
# floats, a missing batch dimension. Looking at one batch takes a few lines and saves hours. Here the images have
# shape `[N, 1, 8, 8]` and values between 0 and 1. The labels have shape `[N]` and dtype `int64`. `CrossEntropyLoss`
# expects this dtype for class indices. The split has three parts: training (60 %), validation (20 %) and test (20 %).
# It is stratified: each class makes up nearly the same fraction of every part. The seed makes the split repeatable.

# %% tags=["demo"]
digits = load_digits()
parts = stratified_split(digits.labels, (0.6, 0.2, 0.2), seed=0)
images, labels = digits.images[parts[0][:64]], digits.labels[parts[0][:64]]
print("images", list(images.shape), images.dtype, f"{images.min():.2f} to {images.max():.2f}")
print("labels", list(labels.shape), labels.dtype, "classes", labels.unique().tolist())

# %% tags=["demo"]
show_images(images[:8], labels[:8], "Eight training digits: image and label belong together.")

# %% [markdown]
# **Recap.** Look at five things before the first forward pass: shape, dtype, range, classes, and a few pictures. The
# debug ladder in notebook 03b starts with these five things, and the first question of 03b automates some of them.

# %% [markdown]
# ### The contract, row by row
#
# **Goal.** Turn these checks into code, and know which broken batches raise no error. The *contract* of a batch lists
# what the model and the loss expect of it.
#
# | item | what a classifier expects | common bug |
# |---|---|---|
# | shape of `x` | `[B, C, H, W]` images or `[B, d]` vectors | no batch dimension |
# | dtype of `x` | `float32` or `bfloat16` | raw `uint8` pixels |
# | range of `x` | a few units around 0 | values still from 0 to 255 |
# | shape of `y` | `[B]`, one class index for each example | one-hot rows |
# | dtype of `y` | `int64` for `CrossEntropyLoss` | labels stored as floats |
#
# The next cell breaks each row of the table once. Every batch then goes through a small network and the loss. Some of
# them raise an error. Those bugs are harmless, because you notice them. Predict how many of the five raise an error.

# %% tags=["demo"]
predict("contract", None)

# %% tags=["demo"]
broken = {
    "no batch dimension": (images[0], labels[:1]),
    "raw uint8 pixels": ((images * 255).byte(), labels),
    "values up to 255": (images * 255, labels),
    "one-hot labels": (images, nn.functional.one_hot(labels)),
    "float labels": (images, labels.float()),
}
network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

# %% tags=["demo"]
silent = []
for name, (x, y) in broken.items():
    try:
        nn.functional.cross_entropy(network(x), y)
        silent.append(name)
    except RuntimeError:
        print(f"stops with an error: {name}")

# %% tags=["demo"]
reveal("contract", len(broken) - len(silent), usual={
    5: "Then no broken batch could go unnoticed. Two of them run without an error.",
    2: "This is the number of batches that run without an error.",
})

# %% tags=["demo"]
print("runs without an error:", ", ".join(silent))
for name, (x, y) in broken.items():
    problem = lecture_lib.data.check_contract("classification", x, y)[0]
    print(f"{name} -> {problem.item}, {problem.kind}: {problem.found}")


# %% [markdown]
# Three of the five stop. The other two run without an error. `Flatten` treated the channel dimension of the single
# image as the batch dimension. Pixels up to 255 only make the loss and the gradients much larger. Two checks would have
# found both: are there 4 dimensions, and is the largest pixel at most 1? The output above also shows what the course's
# own function, `check_contract`, reports for each batch. One-hot rows stored as *floats* also run: the loss reads them
# as probabilities, which can be what you want. So each task has its own contract. Here the task is classification with
# class indices.
#
# ### Question 03a-contract · 8 points
#
# Write `check_batch(x, y)`. It gets two tensors and returns the set of the names of all problems that the batch has; a
# good batch gives the empty set.
#
# - `"x.shape"`: `x` has neither 4 dimensions (images) nor 2 (vectors).
# - `"x.dtype"`: `x` is neither `float32` nor `bfloat16`.
# - `"x.range"`: some entry of `x` does not lie between −10 and 10, both included. NaN and infinity are problems too.
# - `"y.shape"`: `y` does not have exactly one dimension, or does not have one label for each example (the first
#   dimension of `x`).
# - `"y.dtype"`: `y` is not `int64`.
#
# Sizes are not limited: an image may have any number of channels, and a batch may have one example or thousands. Both
# tensors have at least one dimension and one entry, and need not be contiguous in memory. The dtype of `x` is `uint8`,
# `int8`, `int16`, `int32`, `int64`, `float16`, `bfloat16`, `float32` or `float64`. `y` has one of these dtypes except
# `bfloat16`, or `bool`. A finite entry of `x` is exactly −10, exactly 10, or at least 0.05 away from both. Every
# `uint8` batch in the tests has at least one entry above 10. If `x` has the wrong number of dimensions, a
# one-dimensional `y` has length `x.shape[0]`.
#
# Hidden cases: you get a name's points if you report it for every batch that has the problem and for no other
# batch. `x.shape` 2 points, `x.dtype` 1, `x.range` 2, `y.shape` 2, `y.dtype` 1. Batches have up to five problems. The
# course's own check is switched off while your answer is checked. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Write five conditions that do not depend on each other. A batch of `uint8` pixels can have two problems.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A comparison with NaN is false. Ask whether all entries are inside the limits, not whether one is outside.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-contract", "locked": false, "schema_version": 3, "solution": true, "task": false}
def check_batch(x, y):
    """Return the names of the problems that the batch has, as a set."""
    ### BEGIN SOLUTION
    fulfilled = {
        "x.shape": x.ndim in (2, 4),
        "x.dtype": x.dtype in (torch.float32, torch.bfloat16),
        "x.range": bool(((x >= -10) & (x <= 10)).all()),
        "y.shape": y.shape == x.shape[:1],
        "y.dtype": y.dtype == torch.int64,
    }
    return {name for name, holds in fulfilled.items() if not holds}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-contract-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03a-contract", check_batch)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-contract", check_batch)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Two of five broken batches run without an error. Five comparisons on the first batch find all of them, and
# take no noticeable time.

# %% [markdown]
# ### A data set has two methods
#
# **Goal.** Turn a list of files into batches.
#
# A loader asks a data set for two things: the number of examples (`__len__`) and example number `i` (`__getitem__`).
# The loader decides the order, calls `__getitem__` once for each example, and stacks the results. A *transform*, for
# example a random shift of the image, is called in `__getitem__`.
#
# The transform could also run only once for each image, when the data set is made. Suppose that it does, and that the
# transform is random. Predict how many versions of one image a model then sees in five epochs.

# %% tags=["demo"]
predict("versions", None)


# %% tags=["demo"]
def brighter(image):
    return image + torch.rand(1)


image = images[0]
made_once = brighter(image)
made_in_advance = {made_once.sum().item() for epoch in range(5)}
made_on_request = {brighter(image).sum().item() for epoch in range(5)}
print("transformed on request:", len(made_on_request), "versions")

# %% tags=["demo"]
reveal("versions", len(made_in_advance), usual={
    5: "This is the number when the transform is called for each request.",
})


# %% [markdown]
# The model sees 1 version. It sees 5 when the transform runs on request. Random transforms of training examples are
# called *augmentation*. If you compute them in advance, they never change. The loader decides how examples become
# batches. These are the arguments of `DataLoader` that you need most often:
#
# | argument | what it does | when to use it |
# |---|---|---|
# | `shuffle` | a new order in every epoch | for training; validation keeps its order |
# | `generator` | the source of the random order | to get the same orders again from a seed |
# | `drop_last` | leaves out a last batch that is not full | for training; never where a score is computed |
# | `num_workers` | processes that prepare batches in advance | when examples are expensive to make; measure |
# | `persistent_workers` | keeps these processes between epochs | with workers and short epochs |
# | `pin_memory` | puts batches into memory that an accelerator can copy from directly | with an accelerator; measure |
#
# ### Question 03a-dataset · 6 points
#
# Write the two missing methods of `ImageFiles`, which stores its files and their labels as pairs, and the function
# `make_loader`.
#
# - The length is the number of files. Item `index` (0 or more) is a pair of tensor and label. The tensor is the image
#   as `float32` `[3, H, W]`, with every channel value divided by 255. The label is the integer that was given. Files
#   are grey (mode L), coloured (RGB) or partly transparent (RGBA), and of different sizes;
#   `Image.open(path).convert("RGB")` turns each of them into an image with three channels. If there is a transform, it
#   is called with this tensor *whenever the item is asked for*, and its result replaces the tensor. The transform may
#   also change its argument in place.
# - `make_loader(dataset, batch_size, training, seed, workers=0)` returns a `DataLoader` of any data set with these two
#   methods; `training` is `True` or `False`, `seed` is an integer from 0 to $2^{48}$. For training, every epoch has a
#   new random order of all examples, and a last batch that is not full is left out. There are always enough examples
#   for at least one full batch. Two loaders with the same `seed` give the same orders, even if other code draws random
#   numbers or makes loaders in between; a different seed gives different orders. For validation, the loader returns
#   every example in the data set's order. In both cases it asks the data set for the items again in every epoch.
# - A worker process may receive its data set through `pickle`, so store nothing in it that cannot be pickled. Two data
#   sets must not share any data that they keep in memory, such as a cache. `workers` is the loader's number of worker
#   processes. No process is started while your answer is checked.
#
# Hidden cases: items 2 points, transform 1, loader for validation 1, loader for training 1, copies for workers 1.
# Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# `np.array(picture)` has the channels last and whole numbers up to 255. Two operations turn it into the tensor above.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Seeding the whole process is not enough, because other code draws from the same stream. A `DataLoader` takes a
# generator of its own.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-dataset", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ImageFiles(Dataset):
    def __init__(self, paths, labels, transform=None):
        self.files, self.transform = list(zip(paths, labels, strict=True)), transform

    def __len__(self):
        """Return the number of examples."""
        ### BEGIN SOLUTION
        return len(self.files)
        ### END SOLUTION

    def __getitem__(self, index):
        """Return the image of a file, transformed, and its label."""
        ### BEGIN SOLUTION
        path, label = self.files[index]
        picture = np.array(Image.open(path).convert("RGB"), dtype=np.float32)
        image = torch.tensor(picture).movedim(2, 0) / 255
        return self.transform(image) if self.transform else image, label
        ### END SOLUTION


def make_loader(dataset, batch_size, training, seed, workers=0):
    """Return a loader that shuffles for training and keeps every example for validation."""
    ### BEGIN SOLUTION
    order = torch.Generator().manual_seed(seed)
    flags = {"shuffle": training, "drop_last": training, "generator": order}
    return DataLoader(dataset, batch_size, num_workers=workers, **flags)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-dataset-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03a-dataset", ImageFiles, make_loader)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-dataset", ImageFiles, make_loader)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** A data set needs `__len__` and `__getitem__`. Random transforms run on request. The loader has a random
# generator of its own. On macOS and Windows, and on Linux since Python 3.14, a worker is a fresh process that
# receives the data set through `pickle`. A class that is written in a notebook must move into a file before such
# workers can use it.

# %% [markdown]
# ### Is the model waiting?
#
# **Goal.** Measure the loader alone before you buy a faster GPU.
#
# | symptom | likely cause | try first |
# |---|---|---|
# | the GPU's utilisation goes up and down | batches are made too slowly | more workers |
# | the first batch of every epoch is slow | the workers are started again | `persistent_workers=True` |
# | copies to the GPU take long | memory that is not pinned | `pin_memory=True`, copies with `non_blocking=True` |
# | random crops take most of the time | heavy transforms | cache, simplify, or move them to the GPU |
#
# No number of workers is right for every machine. A worker must save more time than it costs to hand its batch over
# to the training process. The digits are in memory already. Predict whether two workers give more or fewer batches
# per second than none. Answer "more" or "fewer".

# %% tags=["demo"]
predict("workers", None)

# %% tags=["demo"]
in_memory = TensorDataset(digits.images, digits.labels)
measured = lecture_lib.data.compare_loaders(
    lambda num_workers: DataLoader(in_memory, batch_size=64, num_workers=num_workers),
    [{"num_workers": 0}, {"num_workers": 2}],
    step=lambda batch: None,
)
(_, without), (_, two) = measured.rows

# %% tags=["demo"]
reveal("workers", "more" if two.loader > without.loader else "fewer", usual={
    "more": "That holds where examples are expensive to make. Here handing over costs more.",
})

# %% tags=["demo", "nbval-ignore-output"]
for settings, rates in measured.rows:
    print(f"{settings['num_workers']} workers: the loader alone gives {rates.loader:.0f} batches/s")


# %% [markdown]
# Two workers give fewer batches per second, often by a factor of ten or more. Making a batch from memory takes a
# fraction of a millisecond. Two processes must first be started for each epoch, and then every batch must be handed
# over.
#
# Now take an expensive transform, simulated by a 10 ms sleep for each example. The measurement times the loader alone,
# the step alone, and both together. It reports which stage is the bottleneck and what to try first.

# %% tags=["demo"]
class Slow(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.01)
        return images[index], labels[index]


# %% tags=["demo"]
slow = lecture_lib.data.measure_throughput(
    DataLoader(Slow(), batch_size=8), lambda batch: network(batch[0]), batches=4
)
print("bottleneck:", slow.bottleneck)
print("try first:", slow.first_fix.split(":")[0])
print(f"share of the time in which the step waits: ≈ {slow.waiting:.2f}")


# %% [markdown]
# The step waits for data nearly all the time. A faster GPU would change almost nothing here.
#
# Worker processes take time to start. The next cell goes through the digits once with two workers, and then
# measures how long the first batch of the *second* epoch takes.

# %% tags=["demo"]
def first_batch(persistent):
    """Seconds until the second epoch's first batch."""
    loader = DataLoader(
        in_memory, batch_size=64, num_workers=2, persistent_workers=persistent
    )
    list(loader)
    began = time.perf_counter()
    next(iter(loader))
    return time.perf_counter() - began


# %% tags=["demo", "nbval-ignore-output"]
for persistent in (False, True):
    milliseconds = 1000 * first_batch(persistent)
    print(f"persistent_workers={persistent}: first batch after {milliseconds:.1f} ms")

# %% [markdown]
# Without `persistent_workers`, the processes end with the epoch and are started again for the next one. With it, they
# wait, and the first batch comes sooner.
#
# The argument `pin_memory` affects the copy to an accelerator. The operating system never moves *pinned* memory, so
# the accelerator can copy from it directly while the CPU continues. This is not specific to CUDA: PyTorch pins memory
# for the accelerator that is present, if that accelerator supports pinning (Apple's MPS does not). Whether pinning is
# faster depends on the batch size and on where the pinning is done. With workers, a thread of the loader pins the
# batches in the background. Without workers, as in the next cell, pinning takes the training loop's own time, as
# `x.pin_memory().to("cuda")` does. That can be slower than a plain copy. The cell measures both where there is a CUDA
# GPU.

# %% tags=["demo", "nbval-ignore-output"]
print("CUDA device here:", torch.cuda.is_available())
if torch.cuda.is_available():
    compared = lecture_lib.data.compare_loaders(
        lambda pin_memory: DataLoader(in_memory, batch_size=256, pin_memory=pin_memory),
        [{"pin_memory": False}, {"pin_memory": True}],
        step=lambda batch: batch[0].to("cuda", non_blocking=True),
    )
    for settings, rates in compared.rows:
        print(settings, f"loader and copy together: {rates.both:.0f} batches/s")

# %% [markdown]
# **Recap.** Measure the loader alone, then the step alone. Change one argument and measure again. Keep the change
# only if loader and step together became faster.

# %% [markdown]
# ## 7 Precision: range and digits
#
# **Goal.** Know what 16 bits can hold, and run a training step in 16 bits without losing anything that matters.
#
# A floating-point number is a sign, an exponent and a fraction. The exponent determines how large or small a number
# can be. The fraction determines how many digits it has. FP32 uses 8 bits for the exponent and 23 for the fraction.
# With half of the bits, you must choose. FP16 keeps more digits (5 bits for the exponent, 10 for the fraction). BF16
# keeps the range (8 and 7 bits). While the notebook runs, you can type other numbers into the field below: try 65519,
# 65520, 1e-8 and 1.001.

# %% tags=["demo"]
show_float_formats(0.1)

# %% tags=["demo"]
for name in ("float32", "float16", "bfloat16"):
    limits = torch.finfo(getattr(torch, name))
    print(f"{name:8}  largest {limits.max:.3g}, spacing next to 1: {limits.eps:.2g}")

# %% tags=["demo"]
for number in (70000.0, 3.4e38, 1e-8):
    stored = torch.tensor(number)
    print(f"{number:g}: FP16 {stored.half().item():g}, BF16 {stored.bfloat16().item():.3g}")

# %% [markdown]
# The largest FP16 number is 65,504, and a gradient of 1e-8 becomes 0 in FP16. BF16 holds both 70,000 and 1e-8
# approximately, with two to three decimal digits. BF16 can overflow too: 3.4e38 fits into FP32 but not into BF16. Its
# range is large, not infinite.
#
# A gradient that is too small for FP16 can be rescued. Multiply the loss by a large number, the *scale*, before
# `backward()`, and divide the gradients by it before the step. `GradScaler` does this. When a gradient overflows, it
# skips the step and lowers the scale. BF16 can represent such small gradients, so it needs no scaler.

# %% tags=["demo"]
gradient, scale = torch.tensor(1e-8), 2.0**16
print(f"plain:  {gradient.half().item():g}")
print(f"scaled: {((gradient * scale).half().float() / scale).item():.1e}")

# %% [markdown]
# The weakness of BF16 is that it has few digits. A weight is 1, and each of a thousand steps adds 0.001 to it.
# Predict its final value when the weight itself is stored in BF16.

# %% tags=["demo"]
predict("vanish", None)

# %% tags=["demo"]
in_bf16, in_fp32 = torch.tensor(1.0, dtype=torch.bfloat16), torch.tensor(1.0)
for _ in range(1000):
    in_bf16 += 0.001
    in_fp32 += 0.001
print(f"stored in FP32: {in_fp32.item():.3f}")

# %% tags=["demo"]
reveal("vanish", in_bf16.item(), usual={
    2: "This is the result in FP32. In BF16 each step is smaller than half the spacing at 1.",
})

# %% [markdown]
# The weight stays at 1. The next BF16 number after 1 is 1.0078, so each step was rounded away. This is why
# *mixed-precision* training keeps the weights, their gradients and the optimizer's state in FP32. It changes only the
# dtype of the arithmetic. Inside `torch.autocast`, the inputs of matrix products and convolutions are converted to
# BF16, while losses such as `CrossEntropyLoss` and `MSELoss` convert back to FP32. Call `backward()` outside
# autocast. It uses the dtypes of the forward pass automatically.
#
# Does this halve the memory? The next cell counts the bytes that the forward pass keeps for the backward pass. It also
# prints the total, which adds the weights, the gradients and AdamW's two averages. Together these are four FP32 numbers
# for each parameter.

# %% tags=["demo"]
layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
mlp = nn.Sequential(nn.Flatten(), *layers)
stored = 4 * 4 * sum(parameter.numel() for parameter in mlp.parameters())


def forward(batch, bf16):
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        return nn.functional.cross_entropy(mlp(digits.images[:batch]), digits.labels[:batch])


# %% tags=["demo"]
for batch in (64, 512):
    fp32, bf16 = (saved_bytes(mlp, partial(forward, batch, on)) for on in (False, True))
    total = (bf16 + stored) / (fp32 + stored)
    print(f"batch {batch}: kept for backward {bf16 / fp32 - 1:+.0%}, total {total - 1:+.0%}")


# %% [markdown]
# With 64 examples the total *grows* by 4 %, because the BF16 copies of the weights are kept too. With 512 examples
# the activations are the larger part, and the total falls by 18 %. One activation needs half as many bytes, but the
# memory of the whole step is not halved. The speed depends on the hardware and on the size: on the same processor
# BF16 can be slower for a small batch and faster for a large one. Measure it on your own machine.

# %% tags=["demo", "nbval-ignore-output"]
def step(batch, bf16):
    forward(batch, bf16).backward()


for batch in (64, 512):
    fp32, bf16 = (timeit(partial(step, batch, on), number=20) for on in (False, True))
    print(f"batch {batch}: BF16 makes {fp32 / bf16:.2f} times as many steps per second as FP32")

# %% tags=["demo"]
for name, capability in [("T4", (7, 5)), ("A100", (8, 0)), ("H100", (9, 0))]:
    print(name, "->", choose_precision("auto", "cuda", capability=capability).name)
print("CPU ->", choose_precision("auto", "cpu").name)


# %% [markdown]
# The course's `train` calls `choose_precision("auto", device)`. It chooses BF16 where the hardware multiplies in BF16,
# FP16 with a scaler on older GPUs, and FP32 on a CPU, where you should measure first.
#
# ### Question 03a-precision · 6 points
#
# Write two functions.
#
# `autocast_step(model, optimizer, loss_fn, x, y)` trains `model` for one step with BF16 autocast on the CPU. The
# forward pass and the loss, `loss_fn(model(x), y)`, are both computed under autocast. `optimizer` is SGD with momentum.
# It may have taken steps before, and the momentum from these steps counts. `.grad` may still hold gradients of an
# earlier step, and these must not count. Your function may be called again with the same model. When it returns,
# autocast is off again, as it was before. In the tests, autocast on the CPU has PyTorch's default dtype.
# `autocast_step` returns a dict with the dtypes that you *find* in this step, for example `torch.float32`:
#
# - `"parameter"` and `"gradient"`: the dtypes of the model's parameters and of their gradients after `backward()`;
# - `"output"` and `"loss"`: the dtypes of what the model returned under autocast and of what `loss_fn` returned;
# - `"momentum"`: the dtype of the `"momentum_buffer"` that the optimizer keeps in `optimizer.state` for each parameter.
#
# The models are linear layers without bias. The weights, `x` and `y` all have the same dtype, FP32, BF16 or FP64
# (which autocast leaves alone), and keep it. One of the losses is computed in FP32 under autocast, another is not. So
# read the dtypes from the tensors; do not answer from memory.
#
# `fate(number, dtype)` says what happens to a finite Python float when it is stored in `dtype`, `torch.float16` or
# `torch.bfloat16`. It returns `"overflow"` if the number becomes infinite, `"underflow"` if it becomes 0 and was not 0,
# `"exact"` if it does not change, and `"rounded"` otherwise. FP32 holds every `number` exactly, including very small
# ones down to $2^{-149}$.
#
# Hidden cases: weights after the step 2 points, dtypes 2, fates 2. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# The step has five lines, and two of them are inside one context. Every tensor has a `.dtype`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# You need no limits for `fate`: convert the number, convert it back, and compare it with the original.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-precision", "locked": false, "schema_version": 3, "solution": true, "task": false}
def autocast_step(model, optimizer, loss_fn, x, y):
    """Take one step under BF16 autocast and return the dtypes that were found in it."""
    ### BEGIN SOLUTION
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        output = model(x)
        loss = loss_fn(output, y)
    loss.backward()
    optimizer.step()
    parameter = next(model.parameters())
    tensors = {"parameter": parameter, "gradient": parameter.grad, "output": output, "loss": loss}
    tensors["momentum"] = optimizer.state[parameter]["momentum_buffer"]
    return {name: tensor.dtype for name, tensor in tensors.items()}
    ### END SOLUTION


def fate(number, dtype):
    """Return 'overflow', 'underflow', 'exact' or 'rounded'."""
    ### BEGIN SOLUTION
    stored = torch.tensor(number).to(dtype).item()
    if stored == number:
        return "exact"
    return "overflow" if math.isinf(stored) else "rounded" if stored != 0 else "underflow"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-precision-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03a-precision", autocast_step, fate)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-precision", autocast_step, fate)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** FP16 has more digits but a narrow range, so it needs a scaler. BF16 has almost the range of FP32 and few
# digits. It needs no scaler, but the weights must stay in FP32. Autocast changes the arithmetic and what is kept for
# the backward pass. It does not change the dtype of the weights, their gradients or the optimizer's state.

# %% [markdown]
# ## After part one: a good place to stop
#
# Part one (tape, modules, data, precision) is done. Parts two and three (training) need none of its variables. After a
# break, run the two set-up cells at the top and the next cell, and go on with section 8, or with section 14 for part
# three.

# %% tags=["setup"]
digits = load_digits()
pixels, classes = digits.images, digits.labels
parts = stratified_split(classes, (0.6, 0.2, 0.2), seed=0)
validation = TensorLoader(pixels[parts[1]], classes[parts[1]], batch_size=256)


def make_model(seed, channels=1, side=8):
    """A small network: [N, channels, side, side] in, 10 logits out. The seed fixes the weights."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * (side // 2) ** 2, 10),
    )


# %% [markdown]
# ## 8 Accumulation: a batch that does not fit
#
# **Goal.** Train on a big batch in small pieces, with the same result.
#
# You want 256 examples in a step, but only 64 fit into memory. The gradient of a sum is the sum of the gradients. So
# you can run four *micro-batches* of 64 one after the other: `backward()` adds to `.grad`, and the optimizer steps
# once, at the end of the *window* of four. The difficult part is the weight of each micro-batch.
#
# Here is a worked example with $L = (w x - y)^2$, $w = 0$, learning rate 0.1 and two micro-batches of one example each.
# $(x, y) = (2, 1)$ has gradient $2(0 - 1)\cdot 2 = -4$, and $(3, 2)$ has gradient $-12$. The loss of the big batch is
# the *mean* of the two losses. Predict $w$ after the step of the big batch.

# %% tags=["demo"]
predict("accumulation", None)

# %% tags=["demo"]
w = torch.tensor(0.0, requires_grad=True)
for x, y in [(2.0, 1.0), (3.0, 2.0)]:
    ((w * x - y) ** 2 / 2).backward()
    print(f"after ({x:g}, {y:g}): w.grad = {w.grad.item():g}")

# %% tags=["demo"]
reveal("accumulation", 0.0 - 0.1 * w.grad.item(), usual={
    1.6: "This is the step for the sum of the losses. The mean divides it by 2.",
    0.2: "This is the first micro-batch alone. The gradients of both are added.",
    0.6: "This is the second micro-batch alone, as if zero_grad() ran between them.",
})


# %% [markdown]
# The gradient is −2 after the first micro-batch and −8 after the second, so $w = 0.8$. Without the division by 2 it
# would be 1.6. With SGD, that is a learning rate twice as large by accident. Many programs write `loss / K`, with K
# micro-batches in a window, and stop there. That is right only when every micro-batch has the same size and every
# window is full. At the end of an epoch, both conditions often fail.
#
# ### Question 03a-accumulate · 8 points
#
# Write `accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate)`. It trains `model` for one epoch.
#
# - `micro_batches` is a list of at least one pair `(x, y)`, with `x` `[n, features]` and `y` `[n, outputs]` in the
#   model's dtype (float32 or float64). The number of examples `n`, at least 1, can differ from pair to pair.
# - `loss_fn(model(x), y)` is the mean loss over all examples and outputs of one micro-batch. Swapping its two arguments
#   may change the result.
# - `accumulate` (1 or more) micro-batches make one window, and one window is one optimizer step. The last window may be
#   shorter. Take a step for it as well.
# - Every step must equal the step on one big batch with all examples of the window. This must hold for any model that
#   treats each example by itself (here a linear layer), and for SGD with or without momentum.
# - Never pass more examples to `model(...)` at once than the largest micro-batch has. Joining the micro-batches of a
#   window would need the memory of the big batch, so it is not allowed.
# - `.grad` is empty at the first call. The function is called again with the same list for the next epoch: gradients
#   that are left from one epoch must not count in the next one. The function returns nothing.
#
# Differences from rounding in float32 are accepted. Any real mistake changes the weights at least a hundred times as
# much.
#
# Hidden cases: micro-batches of equal size 1 point, no more examples in the model at once than the largest micro-batch
# has 2, micro-batches of different sizes 3, a short last window 1, a second epoch 1. The 2 points
# for memory count only if micro-batches of equal size are right. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# In the big batch's mean, what is the weight of one example? And what is its weight in the mean of its micro-batch?
#
# </details>
# <details><summary>Hint 2</summary>
#
# You can count the examples of a window before you run it, because a window is a slice of a list.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-accumulate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    """Train for one epoch; each step equals the step on all examples of its window together."""
    ### BEGIN SOLUTION
    for first in range(0, len(micro_batches), accumulate):
        window = micro_batches[first : first + accumulate]
        window_examples = sum(y.shape[0] for _, y in window)
        optimizer.zero_grad()
        for x, y in window:
            share = y.shape[0] / window_examples
            (share * loss_fn(model(x), y)).backward()
        optimizer.step()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-accumulate-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03a-accumulate", accumulate_epoch)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-accumulate", accumulate_epoch)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Divide the sum of the losses of all examples by the number of examples in the window. Take one step for
# each window, including the last one. Call `backward()` once for each micro-batch: this frees its activations before
# the next micro-batch starts. Two kinds of layers break the equality. Batch normalisation computes its statistics from
# each micro-batch alone. Dropout draws different masks for the micro-batches than for the big batch. With either of
# them, K micro-batches are close to one big batch but not equal to it.

# %% [markdown] nbgrader={"grade": false, "grade_id": "03a-p3-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### Question 03a-p3 · 2 points, graded by hand
#
# Show that accumulating the gradients of K micro-batches gives the same update as one large batch, provided that each
# loss is divided by K and that all micro-batches have the same size. Then say by what factor you must multiply the loss
# of each micro-batch when the sizes differ. Three lines of formulas and two sentences are enough.
#
# Graded on: the gradient of the large batch's mean written as a sum over the micro-batches, which gives 1/K for equal
# sizes (1); the weight $n_i/N$ of micro-batch $i$ otherwise (1).
#
# <details><summary>Hint</summary>
#
# Write the mean over all N examples as a sum of sums. Then replace each inner sum by the micro-batch's mean.
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03a-p3", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# Let micro-batch $i$ hold $n_i$ of the $N$ examples, and let $L_i$ be the mean of its losses $\ell$. The large batch
# has $L = \frac1N \sum_i \sum_{j \in i} \ell_j = \sum_i \frac{n_i}{N} L_i$. The gradient of a sum is the sum of the
# gradients, so $\nabla L = \sum_i \frac{n_i}{N} \nabla L_i$. This is the sum that `backward()` collects in `.grad` when
# each $L_i$ is multiplied by $n_i/N$. For equal sizes $n_i/N = 1/K$. For unequal sizes, dividing by K gives the
# examples of a small micro-batch too much weight. The right weight is still $n_i/N$.

# %% [markdown]
# ## 9 Clipping: limit the length, keep the direction
#
# **Goal.** Clip a gradient by its global norm, and see what happens when each tensor is clipped by itself.
#
# A rare batch can give a gradient many times the usual length, and one such step can undo many good ones. Clipping sets
# a limit on the norm of the *whole* gradient, all parameters taken as one long vector. If the norm exceeds `max_norm`,
# every entry is multiplied by `max_norm / norm`. Otherwise nothing changes. Two parameters with gradients 3 and 4 have
# norm 5. With `max_norm` 1 they become 0.6 and 0.8.
#
# Now clip each of the two by itself instead: both become 1. Predict by how many degrees this turns the gradient.

# %% tags=["demo"]
predict("clipping", None)

# %% tags=["demo"]
gradient = torch.tensor([3.0, 4.0])
one_by_one = torch.tensor([1.0, 1.0])
cosine = torch.nn.functional.cosine_similarity(gradient, one_by_one, dim=0).item()
print(f"cosine {cosine:.4f}")

# %% tags=["demo"]
reveal("clipping", math.degrees(math.acos(cosine)), "degrees", tolerance=2, usual={
    0: "Only one common factor keeps the direction. Here 3 and 4 are divided by different numbers.",
    45: "45 degrees is the direction of (1, 1) itself. The gradient points to 53 degrees.",
})

# %% tags=["demo"]
show_arrows(
    {"gradient": (3, 4), "one by one": (1, 1), "global": (0.6, 0.8)},
    axis_labels=("first parameter's gradient", "second parameter's gradient"),
    caption="Global clipping shortens the arrow. Clipping one by one also turns it.",
)


# %% [markdown]
# The cosine is 0.9899: the direction turns by 8 degrees, although there are only two numbers. When tensors have very
# different norms the turn can be much larger, because every tensor above the limit ends up with the same norm. This is
# why the global norm is the usual choice. Return the norm *before* clipping as well. If you plot this norm over time,
# you often see a problem early.
#
# ### Question 03a-clip · 8 points
#
# Write two functions of a list of one or more gradients and a number `max_norm`. The gradients are tensors of any
# shape, including `[]`, all float32 or all float64. They need not be contiguous in memory, but no two entries share the
# same memory, as they would in an expanded tensor. `max_norm` and the norm of each tensor lie between 0.1 and 1000, so
# squares are safe in float32.
#
# - `clip_by_global_norm(gradients, max_norm)` returns the list of clipped gradients and the global norm before
#   clipping.
# - `per_parameter_cosine(gradients, max_norm)` clips *each tensor by its own norm*. It returns the cosine of the angle
#   between two long vectors: all entries before clipping, and all entries after clipping.
#
# You may change the tensors in place. A norm or cosine may be a number or a tensor of shape `[]`, and all results may
# be in either precision. A relative error of $10^{-5}$ is accepted.
#
# Hidden cases: direction of the clipped gradients 3 points, gradients below the threshold unchanged 2, returned norm 1,
# cosine 2. Limit: 30 seconds. PyTorch's own clipping function is switched off while your answer is checked.
#
# <details><summary>Hint 1</summary>
#
# The square of the global norm is the sum of the squares of the tensors' norms.
#
# </details>
# <details><summary>Hint 2</summary>
#
# One number, at most 1, multiplies every tensor. Which number is it when the norm is below `max_norm`?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-clip", "locked": false, "schema_version": 3, "solution": true, "task": false}
def clip_by_global_norm(gradients, max_norm):
    """Return the clipped gradients, and the global norm before clipping."""
    ### BEGIN SOLUTION
    global_norm = math.hypot(*(tensor.norm().item() for tensor in gradients))
    factor = max_norm / global_norm if global_norm > max_norm else 1.0
    return [factor * tensor for tensor in gradients], global_norm
    ### END SOLUTION


def per_parameter_cosine(gradients, max_norm):
    """Return the cosine between the gradient and the gradient clipped tensor by tensor."""
    ### BEGIN SOLUTION
    separately = [clip_by_global_norm([tensor], max_norm)[0][0] for tensor in gradients]
    old, new = (torch.cat([tensor.reshape(-1) for tensor in part]) for part in (gradients, separately))
    return torch.dot(old, new) / (old.norm() * new.norm())
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-clip-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03a-clip", clip_by_global_norm, per_parameter_cosine)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-clip", clip_by_global_norm, per_parameter_cosine)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Compute one norm over all tensors and multiply all of them by one factor: the direction stays. Below the
# threshold nothing changes. Return the norm before clipping.

# %% [markdown]
# ### One bad batch, with and without clipping
#
# **Goal.** See what a single long gradient does to a run.
#
# The next run trains a network with SGD and momentum for 119 steps. At step 40 one batch arrives with pixels from 0
# to 255 instead of 0 to 1: somebody forgot to scale a file. The cell runs this training twice, once without clipping
# and once with `max_norm` 1. (For the run without clipping the code passes an infinite `max_norm`, so that it gets
# the norm and changes nothing.) Predict the accuracy on the validation part at the end of the run *without* clipping,
# in percent. (With clipping, it is above 90 %.)

# %% tags=["demo"]
predict("exploded", None)


# %% tags=["demo"]
def deep_network():
    torch.manual_seed(0)
    layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
    return nn.Sequential(nn.Flatten(), *layers)


def run_with_a_bad_batch(max_norm):
    """Return the trained model and the gradient norm before clipping at each step."""
    model, norms = deep_network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = TensorLoader(pixels[parts[0]], classes[parts[0]], batch_size=64, shuffle=True, seed=0)
    for x, y in chain.from_iterable([loader] * 7):
        x = 255 * x if len(norms) == 40 else x
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        optimizer.step()
    return model, norms


# %% tags=["demo"]
norms, scores, networks = {}, {}, {}
for name, max_norm in [("not clipped", math.inf), ("clipped to 1", 1.0)]:
    networks[name], norms[name] = run_with_a_bad_batch(max_norm)
    scores[name] = evaluate(networks[name], validation, nn.CrossEntropyLoss()).metric
    *_, before, bad = norms[name][:41]
    print(f"{name}: norm ≈ {before:.2f} before, ≈ {bad:.0f} at step 40, "
          f"at most ≈ {max(norms[name][41:]):.1f} later")
print(f"accuracy with clipping: ≈ {scores['clipped to 1']:.2f}")

# %% tags=["demo"]
reveal("exploded", round(100 * scores["not clipped"]), "%", tolerance=3, usual={
    95: "This is the run with clipping.",
    80: "Then the network would recover in 78 steps. But its relu units are closed.",
})

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(5.5, 3))
for (name, values), line, colour in zip(norms.items(), ("-", "--"), OKABE_ITO, strict=False):
    axis.plot(values, line, color=colour, label=name)
axis.axhline(1, color="grey", linestyle=":", label="limit of the norm, 1")
axis.set(yscale="log", xlabel="optimizer step", ylabel="gradient norm before clipping")
axis.legend()
show_figure(
    figure,
    caption="One bad batch at step 40. With clipping the run goes on. "
    "Without clipping it never recovers.",
    alt=f"Gradient norm over 119 steps, log axis. Both runs rise from 0.2 to 0.9 and jump to "
    f"{norms['clipped to 1'][40]:.0f} at step 40. The clipped run returns to small values at once. "
    f"The unclipped run stays near 60 for three more steps and then falls to 0.1.",
)

# %% [markdown]
# Both runs have the same gradient at step 40: a norm of about 211, after 0.9 in the step before. The clipped run takes
# one step of ordinary length in a useless direction and goes on. It reaches about 95 %. The unclipped run takes a step
# 200 times as long. Momentum carries it into the next steps, and afterwards every relu unit of the second hidden layer
# is closed for every digit. The norm is now small, which looks harmless. But the accuracy is 10 %: the network predicts
# the same class for every digit. Clipping does not repair the batch. It limits what one batch can destroy.
#
# Units that are closed for every example are called *dead*. The next cell counts the units of the second hidden layer
# that are open for at least one digit. Then it trains the destroyed network for five more epochs, without any bad
# batch. Predict the accuracy afterwards, in percent.

# %% tags=["demo"]
predict("dead", None)


# %% tags=["demo"]
def five_epochs_later(network):
    """Train on good batches; return the accuracy in percent on the validation part."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    loader = TensorLoader(pixels[parts[0]], classes[parts[0]], batch_size=64, shuffle=True, seed=0)
    train(network, loader, validation, optimizer, nn.CrossEntropyLoss(), epochs=5)
    return round(100 * evaluate(network, validation, nn.CrossEntropyLoss()).metric)


# %% tags=["demo"]
destroyed = networks["not clipped"]
units_open = (destroyed[:5](pixels) > 0).any(dim=0).sum().item()

# %% tags=["demo"]
print(f"open for some digit: {units_open} of 64 units of the second hidden layer")
later = five_epochs_later(destroyed)
print(f"five epochs after a new start: ≈ {five_epochs_later(deep_network())} %")

# %% tags=["demo"]
reveal("dead", later, "%", tolerance=3, usual={
    95: "Closed units get no gradient, so good batches cannot open them again.",
})


# %% [markdown]
# No unit is open, and five epochs of good batches change nothing: the accuracy stays at 10 %, because the gradient of a
# closed unit is 0. A new start repairs it: with new weights, the same five epochs give about 90 %. In a long run, you
# would go back to the last checkpoint before the bad batch, and clip. Leaky relu has a small slope instead of 0 below
# zero; notebook 03d shows what that changes.

# %% [markdown]
# ### When only early layers blow up
#
# **Goal.** Find a case in which clipping each tensor by itself is better, and one in which neither way of clipping
# helps.
#
# Global clipping keeps the direction of the whole gradient. Suppose that this direction is bad. The next network has
# two layers of sigmoid units. It gets its inputs unscaled, from 0 to 255. The weights of its first layer are divided by
# 255, so at the start its outputs are the same as with inputs from 0 to 1. For $z = Wx$, the gradient with respect to
# $W$ is $\partial L/\partial z \cdot x^\top$. So with inputs 255 times as large, this gradient is 255 times as long.
# The next cell prints the norm of the gradient of each layer's weights, from the first layer to the last. The third
# line is a network with four sigmoid layers and scaled inputs.

# %% tags=["demo"]
def sigmoid_network(hidden, scale):
    """Sigmoid layers for inputs from 0 to `scale`; the outputs at the start do not depend on it."""
    torch.manual_seed(0)
    layers = [layer for _ in range(hidden) for layer in (nn.Linear(64, 64), nn.Sigmoid())]
    with torch.no_grad():
        layers[0].weight /= scale
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10))


# %% tags=["demo"]
x, y = pixels[parts[0][:64]], classes[parts[0][:64]]

# %% tags=["demo"]
for hidden, scale in ((2, 1), (2, 255), (4, 1)):
    model = sigmoid_network(hidden, scale)
    nn.functional.cross_entropy(model(scale * x), y).backward()
    lengths = [p.grad.norm().item() for p in model.parameters() if p.ndim == 2]
    listed = ", ".join(f"≈ {length:.4f}" for length in lengths)
    print(f"{hidden} sigmoid layers, inputs up to {scale}: gradient norms {listed}")

# %% [markdown]
# With scaled inputs the first layer has the smallest norm, 0.02. With unscaled inputs it has 4.64, while the other two
# still have 0.12 and 0.77. Now almost the whole global norm comes from the first layer. With `max_norm` 0.3, global
# clipping multiplies the gradients of *all* layers by about 0.06, although only one of them is too long. Clipping each
# tensor by itself shortens that one to 0.3 and leaves a norm of 0.12 unchanged.
#
# The next cell trains the network with unscaled inputs for six epochs, with three values of `max_norm` for each of the
# two ways to clip. Predict which way reaches the lower validation loss at its best `max_norm`: *global* or *each*.

# %% tags=["demo"]
predict("early", None)


# %% tags=["demo"]
def six_epochs(max_norm, each, scale=255):
    """Train and clip all tensors together, or each by itself; return the validation loss."""
    model = sigmoid_network(2, scale)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = TensorLoader(pixels[parts[0]], classes[parts[0]], batch_size=64, shuffle=True, seed=0)
    for x, y in chain.from_iterable([loader] * 6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(scale * x), y).backward()
        for tensors in model.parameters() if each else [list(model.parameters())]:
            nn.utils.clip_grad_norm_(tensors, max_norm)
        optimizer.step()
    scaled = TensorLoader(scale * pixels[parts[1]], classes[parts[1]], batch_size=256)
    return evaluate(model, scaled, nn.CrossEntropyLoss()).loss


# %% tags=["demo"]
lowest = {}
for name, each in {"global": False, "each": True}.items():
    losses = [six_epochs(max_norm, each) for max_norm in (0.1, 0.3, 1.0)]
    lowest[name] = min(losses)
    print(f"{name}, max_norm 0.1, 0.3, 1:", ", ".join(f"≈ {loss:.2f}" for loss in losses))
print(f"not clipped: ≈ {six_epochs(math.inf, each=False):.1f}")
print(f"not clipped, inputs from 0 to 1: ≈ {six_epochs(math.inf, each=False, scale=1):.1f}")

# %% tags=["demo"]
reveal("early", min(lowest, key=lowest.get), usual={
    "global": "It keeps the direction, and almost all of that belongs to the first layer.",
})


# %% [markdown]
# Here clipping each tensor by itself is better. Its lowest validation loss is about 0.4, and that of global clipping is
# about 1. Without clipping it is about 1.5. Clipping tensor by tensor turns the gradient, and this time that is an
# advantage: the other layers are shortened much less, and the first layer no longer slows them down. With `max_norm` 1
# even the first layer's gradient stays long, and the two ways hardly differ. (This is one seed.) So the answer depends
# on what is too long. If it is the whole gradient, as with one bad batch, clip by the global norm. If it is always the
# same few layers, clip these by themselves.
#
# The network with four sigmoid layers has the opposite problem: from the last layer to the first, the norm falls from
# 0.55 to 0.0003. The slope of a sigmoid is at most 1/4, and each layer multiplies the gradient by it and by its
# weights. Neither way of clipping helps when gradients *vanish*, because clipping only makes them shorter. For
# exploding layers it treats only a symptom. The repair is to scale the inputs *and* to use relu. Scaled inputs alone are not
# enough: the last line of the training cell shows a loss of about 2.3, which is that of guessing. The network of the
# previous section has two layers of the same size, with relu and scaled inputs. With new weights it reached about 90 %
# in five epochs without any clipping.
#
# **Recap.** One global norm keeps the direction. It also lets one exploding layer slow down all the others. Clip that
# layer by itself, and look for the cause.

# %% [markdown]
# ### FP16: unscale, then clip
#
# **Goal.** Put clipping in the right place of a step with `GradScaler`.
#
# With FP16 the loss is multiplied by a scale before `backward()` (section 7), so all gradients are multiplied by it
# too. `max_norm` refers to the true gradients. Therefore the order of the calls is fixed. The next cell is one step of
# such a loop, with a reason for each line. It also runs on a CPU, and the cell after it takes one step.

# %% tags=["demo"]
def fp16_step(model, optimizer, scaler, x, y, max_norm):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):  # only the forward pass and the loss
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()  # scaled: small gradients do not become 0 in FP16
    scaler.unscale_(optimizer)  # true gradients again, because max_norm refers to them
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # true norm, so log it
    scaler.step(optimizer)  # skips the step when a gradient is infinite or NaN
    scaler.update()  # last: halves the scale after a skip, doubles it after many good steps
    return norm.item()


# %% tags=["demo"]
model, scaler = deep_network(), torch.amp.GradScaler("cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = pixels[parts[0][:64]], classes[parts[0][:64]]
norm = fp16_step(model, optimizer, scaler, x, y, max_norm=1.0)
print(f"one step: gradient norm ≈ {norm:.2f}, scale {scaler.get_scale():g}")

# %% [markdown]
# The step returns the true norm, about 0.27, although `backward()` produced gradients 65,536 times as large.
#
# A new `GradScaler` starts with the scale 65,536. In the next cell the scale is 1,024. Suppose that somebody clips to
# norm 0.1 *before* `unscale_`. Predict by what factor the norm of the final gradient is then too small.

# %% tags=["demo"]
predict("unscale", None)


# %% tags=["demo"]
def final_norm(unscale_first):
    model, scaler = deep_network(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cpu", torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    calls = [partial(scaler.unscale_, optimizer),
             partial(nn.utils.clip_grad_norm_, model.parameters(), max_norm=0.1)]
    for call in calls if unscale_first else reversed(calls):
        call()
    return nn.utils.clip_grad_norm_(model.parameters(), math.inf).item()


# %% tags=["demo"]
right_order, wrong_order = final_norm(unscale_first=True), final_norm(unscale_first=False)
print(f"unscale, then clip: norm {right_order:.4f}")
print(f"clip, then unscale: norm {wrong_order:.1e}")

# %% tags=["demo"]
reveal("unscale", round(right_order / wrong_order), usual={
    1: "Then the order would not matter. But clipping sees gradients 1,024 times too long.",
    32: "This is the square root of the scale. A norm grows by the full scale.",
})

# %% [markdown]
# In the right order the gradient has norm 0.1. In the wrong order the norm is 1,024 times smaller. Clipping first cuts
# the scaled gradient to 0.1, and unscaling then divides it by 1,024. No error is raised, but with SGD the steps are
# 1,024 times too short.
#
# **Recap.** Scale the loss, `backward()`, unscale, clip, step, update. BF16 and FP32 need no scaler, and clipping then
# comes directly after the last `backward()`.

# %% [markdown]
# ## 10 Rate: how large a step
#
# **Goal.** Find a learning rate in 100 steps instead of ten training runs.
#
# The finder is a short trial run that is undone afterwards. The rate grows by a constant factor at every step, and the
# loss is recorded. From $10^{-5}$ to 1 in 100 steps the factor is $10^{5/99} = 1.123$. At small rates the loss does not
# change. Then it falls. Then the steps are too long and it rises.
#
# You want a large rate that is still far from the rise. This course's rule takes the range of rates in which the loss
# is close to its minimum, and goes one third of the way from the low end of this range to the high end, on the
# logarithmic axis. It never chooses more than a seventh of the rate at which the loss diverges. The network below is
# a small convolutional network on digits, trained with AdamW. Its loss is close to the minimum from a rate of about
# 0.002 to about 0.1. Between which powers of ten does the rule's choice lie?
#
# - between 0.0001 and 0.001
# - between 0.001 and 0.01
# - between 0.01 and 0.1
#
# Type the lower end.

# %% tags=["demo"]
predict("rate", None)

# %% tags=["demo"]
model = make_model(seed=0)
optimizer = torch.optim.AdamW(model.parameters())
train_loader = TensorLoader(
    pixels[parts[0]], classes[parts[0]], batch_size=64, shuffle=True, seed=0
)
sweep = find_lr(model, train_loader, optimizer, nn.CrossEntropyLoss(), start=1e-5, stop=1.0)
decade = 10 ** math.floor(math.log10(sweep.suggestion))

# %% tags=["demo"]
reveal("rate", decade, usual={
    0.01: "This is the middle of the range, or a third of the way on a linear axis.",
    0.0001: "In this decade the loss is still falling. A larger rate learns faster.",
})

# %% tags=["demo"]
show_figure(
    sweep.plot(),
    caption="The loss is flat, falls and rises. The bold line is the rate that the rule chooses.",
    alt="Loss against learning rate, log axis: flat near 2.3, falling to a minimum, rising. "
    f"Bold line between {decade:g} and {10 * decade:g}, before the minimum; two others mark "
    "the fall.",
)


# %% [markdown]
# At small rates the steps are too short to change the loss. At medium rates the loss falls. At large rates a step
# overshoots the minimum. The finder also keeps a running average of the losses so far. The sweep ends early when this
# average exceeds four times its lowest value. It does so here, before the rate reaches 1.
#
# The rate with the lowest loss is a risky choice, for two reasons. The valley often has a flat bottom, and chance
# decides which point on it is lowest. And a rate at which one step does no harm can still ruin a training run of
# thousands of steps.
#
# Does the network learn at the chosen rate? The next cell trains the same network for two epochs with a hundredth of
# the rate, with the rate itself, and with 30 times the rate.

# %% tags=["demo"]
def accuracy_after_two_epochs(rate):
    model = make_model(seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    loader = TensorLoader(pixels[parts[0]], classes[parts[0]], batch_size=64, shuffle=True, seed=0)
    history = train(model, loader, validation, optimizer, nn.CrossEntropyLoss(), epochs=2)
    return history.rows[-1].val_metric


for factor in (0.01, 1, 30):
    accuracy = accuracy_after_two_epochs(factor * sweep.suggestion)
    print(f"{factor:g} times the finder's rate: validation accuracy ≈ {accuracy:.2f}")

# %% [markdown]
# After two epochs the finder's rate gives an accuracy of about 0.97. A hundredth of it gives far less, because the
# steps are too short. So does thirty times the rate, because the steps are too long.
#
# Two details of the finder are worth checking. The first is the factor. You compute it from the first rate, the last
# rate and the number of steps. If you fix the factor instead, the sweep may not reach the last rate. A fixed factor of
# 1.05 is often recommended. Predict by what factor a rate grows when you multiply it by 1.05 a hundred times.

# %% tags=["demo"]
predict("factor", None)

# %% tags=["demo"]
print(f"100 rates from 1e-7 to 10: a factor of {1e8 ** (1 / 99):.4f}")
print(f"1e-7 after 100 steps of 1.05: {1e-7 * 1.05**100:.1e}")

# %% tags=["demo"]
reveal("factor", math.floor(1.05**100), "times", usual={
    6: "This adds 5 % of the start a hundred times. Growth by a factor compounds.",
})

# %% [markdown]
# The rate has grown by a factor of 131. That is little more than two of the eight decades from 1e-7 to 10. In the
# plot above, the loss is still flat at 1.3e-5.
#
# The second detail is the rule. The next cell has a curve as a table, one row for each decade, and reads it in four
# ways. They give three different rates, and the largest is a hundred times the smallest. So when you report a rate,
# name the rule that you used. One decade before the minimum is the usual rule of thumb. `sweep.suggestions` holds
# several such rates for the curve above.

# %% tags=["demo"]
table = {1e-4: 3.2, 1e-3: 2.5, 1e-2: 1.1, 1e-1: 0.9, 1.0: 2.8}
rates, losses = list(table), list(table.values())
lowest = losses.index(min(losses))
falls = [before - after for before, after in pairwise(losses)]
slopes = [losses[at + 1] - losses[at - 1] for at in range(1, len(losses) - 1)]
print(f"lowest loss at {rates[lowest]:g}, one decade before it {rates[lowest] / 10:g}")
print(f"largest fall between neighbours ends at {rates[1 + falls.index(max(falls))]:g}")
print(f"steepest central difference at {rates[1 + slopes.index(min(slopes))]:g}")


# %% [markdown]
# The minimum is at 0.1. One decade before it is 0.01, and the largest fall also ends at 0.01. The central difference
# gives 0.001.
#
# ### Question 03a-lrfinder · 8 points
#
# Write `run_sweep(model, batches, loss_fn, start, stop, steps)`. It runs a sweep and returns two lists, the rates and
# the losses. (In 03b you write the rule that chooses a rate from them.)
#
# - The `steps` rates (two or more) grow by a constant factor; the first is `start` and the last is `stop`.
# - Step `i` uses batch `i` of the list `batches` of pairs `(x, y)`. After its last batch the list starts again; there
#   can be more batches than steps. The loss is `loss_fn(model(x), y)`. Put the model, with every module in it, into
#   train mode for the sweep.
# - Each step is plain SGD: subtract from each parameter the rate times the gradient of this parameter. `.grad` may hold
#   gradients from before the sweep, which must not count. Frozen parameters (`requires_grad` is `False`) must not move,
#   whatever their `.grad` holds.
# - Record each loss before you take the step. End the sweep early when a loss is not finite or exceeds 4 times the
#   lowest loss recorded before it, and leave this loss and its rate out of the lists. The first loss is finite, and no
#   loss is negative.
# - Afterwards the weights, the mode of every module and all buffers (including those that `state_dict()` leaves out) are
#   the same as before. You may sweep a deep copy of the model instead.
#
# Gradients and torch's random stream are not checked afterwards. Rates and losses may be kept in float32.
#
# Hidden cases: the rates 1 point, the losses 3, the early end 2, everything put back 2. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# A copy that still shares memory with the model changes with every step. What does `copy.deepcopy` copy that
# `state_dict()` does not?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Five rates have four factors between them. And what does a comparison with NaN give?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-lrfinder", "locked": false, "schema_version": 3, "solution": true, "task": false}
def run_sweep(model, batches, loss_fn, start, stop, steps):
    """Return the rates and losses of an exponential sweep; afterwards the model is unchanged."""
    ### BEGIN SOLUTION
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.SGD(trained.parameters(), lr=start)
    factor, rates, losses = (stop / start) ** (1 / (steps - 1)), [], []
    for step, (x, y) in zip(range(steps), cycle(batches)):
        optimizer.param_groups[0]["lr"] = rate = start * factor**step
        loss = loss_fn(trained(x), y)
        if not loss.isfinite() or loss.item() > 4 * min(losses, default=math.inf):
            break
        rates.append(rate)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return rates, losses
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-lrfinder-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03a-lrfinder", run_sweep)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-lrfinder", run_sweep)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** The finder gives the order of magnitude of the rate, not its third digit. Its factor follows from the two
# ends and the number of steps. Its answer depends on a rule, so name the rule. After the sweep the network and the
# optimizer are exactly as before.

# %% [markdown]
# ## 11 Batch size and rate: change them together
#
# **Goal.** Change the batch size and keep the quality of the training.
#
# A batch eight times as large gives a less noisy gradient, and an epoch has an eighth of the steps. At the same rate
# the weights therefore move about an eighth as far in an epoch. The *linear scaling rule* multiplies the rate by the
# same factor 8. One long step then replaces eight short ones. That is right as long as the gradient hardly changes on
# the way.
#
# Each of the next runs trains for five epochs with plain SGD. The first uses batches of 32 and rate 0.1: 34 steps in
# an epoch. The cell prints its validation loss after each epoch.

# %% tags=["demo"]
def losses_of_five_epochs(batch_size, rate):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    order = {"batch_size": batch_size, "shuffle": True, "seed": 0}
    loader = TensorLoader(pixels[parts[0]], classes[parts[0]], **order)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    history = train(model, loader, validation, optimizer, nn.CrossEntropyLoss(), epochs=5)
    return [row.val_loss for row in history.rows]


small = losses_of_five_epochs(32, 0.1)
for epoch, loss in enumerate(small, start=1):
    print(f"batches of 32, rate 0.1, after epoch {epoch}: ≈ {loss:.1f}")

# %% [markdown]
# The second run uses batches of 256, which makes 5 steps in an epoch. Nothing else changes. Predict its validation loss
# after five epochs, with one digit after the point. How many steps has it taken by then?

# %% tags=["demo"]
predict("batch", None)

# %% tags=["demo"]
large = losses_of_five_epochs(256, 0.1)[-1]

# %% tags=["demo"]
reveal("batch", round(large, 1), tolerance=0.1, usual={
    0.6: "Then only the number of epochs would count. But there are only 25 steps.",
    4.8: "The loss is not proportional to the number of steps: a guess has loss ln 10 = 2.3.",
})

# %% tags=["demo"]
everything = len(parts[0])
scaled = losses_of_five_epochs(256, 0.8)[-1]
whole = losses_of_five_epochs(everything, 0.1 * everything / 32)[-1]
print(f"batches of 256, rate 0.8: ≈ {scaled:.1f}")
print(f"one batch of all {everything}, rate {0.1 * everything / 32:.1f}: ≈ {whole:.1f}")

# %% [markdown]
# With batches of 32 the loss ends at about 0.6, with batches of 256 at 2.2. After five epochs the second run has taken
# 25 steps, fewer than the first run takes in one epoch. It does not diverge. It is only slow. With 8 times the rate the
# loss is 0.9, so most of the difference is gone. The same rule fails for the whole set in one batch. The rule gives the
# rate 3.4, and the loss ends at 2.4, worse than guessing (ln 10 = 2.3). A step that long does not replace many short
# ones.
#
# The gradient often changes fastest early in training, so large rates are usually reached by a *warm-up*: some steps in
# which the rate grows from a small value to the full rate. Not every run needs it, and the small one above did without.
# The linear rule is for SGD. Adam divides by the size of the gradient, so it needs a different rule. A common one
# multiplies the rate by the square root of the factor.
#
# **Recap.** With SGD, k times the batch needs k times the rate, usually with a warm-up. This holds only up to some
# size, so measure.

# %% [markdown] nbgrader={"grade": false, "grade_id": "03a-p1-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### Question 03a-p1 · 2 points, graded by hand
#
# A run with SGD, batches of 32 and rate 0.05 moves to a machine that holds batches of 256. What happens if the rate
# stays the same, and why? Name the standard rule, the rate that it gives here, and what it needs at the start of
# training. In which case would you not trust it? Four sentences are enough.
#
# Graded on: fewer steps of the same length, hence the linear scaling rule, here rate 0.4 (1); warm-up, and one limit:
# very large batches, or another optimizer such as Adam (1).
#
# <details><summary>Hint</summary>
#
# Count the steps of an epoch, and ask how far they can move the weights in all.
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03a-p1", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# An epoch then has an eighth of the steps, and each is about as long as before. So after the same number of epochs the
# weights have moved much less far. The linear scaling rule multiplies the rate by the factor of the batch size, 8: the
# rate is 0.4 here. It is reached by a warm-up, because the gradient changes fastest at the start. I would not trust the
# rule for a batch that is a large part of the whole data set, where one long step no longer replaces many short ones.
# Nor would I trust it with Adam.

# %% [markdown]
# ## 12 Curves: how to read a run
#
# **Goal.** Say from two curves what a run needs.
#
# Every epoch gives two numbers: the training loss and the validation loss. Ask three questions about them. Do both
# fall? If not, the network learns nothing, or the steps are too long. Is the training loss low enough? If not, the
# model is too small, or something keeps it from fitting, such as strong regularisation. Is the validation loss close
# to the training loss? If not, the model has probably memorised its training examples instead of learning the task.
#
# Here are three runs of one small network: 600 digits at rate 0.002, 600 digits at rate 0.1, and 40 digits at rate
# 0.2. Six words describe such runs: *flat* (neither loss falls), *underfit* (both fall but stay high), *healthy*
# (both fall and stay close), *overfit* (the training loss falls far below the validation loss), *improves then
# worsens* (the validation loss falls and rises again) and *oscillating* (the loss goes up and down). Predict the word
# for the third run.

# %% tags=["demo"]
predict("curves", None)


# %% tags=["demo"]
def short_run(examples, rate, epochs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    few = parts[0][:examples]
    loader = TensorLoader(pixels[few], classes[few], batch_size=32, shuffle=True, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    return train(model, loader, validation, optimizer, nn.CrossEntropyLoss(), epochs)


# %% tags=["demo"]
runs = {
    "600 digits, rate 0.002": short_run(600, 0.002, 12),
    "600 digits, rate 0.1": short_run(600, 0.1, 12),
    "40 digits, rate 0.2": short_run(40, 0.2, 40),
}
for name, history in runs.items():
    print(f"{name}: {diagnose(history).pattern}")

# %% tags=["demo"]
reveal("curves", diagnose(runs["40 digits, rate 0.2"]).pattern, usual={
    "healthy": "Then validation would stay close to training. 40 digits are too few for that.",
    "underfit": "Then the training loss would stay high. 40 digits are easy to fit.",
    "improves then worsens": "Close. But here the validation loss does not rise again.",
})

# %% tags=["demo"]
show_runs(
    runs,
    caption="Flat: both stay up. Healthy: both fall. Overfit: training falls far below validation.",
)

# %% tags=["demo"]
for name, history in runs.items():
    print(f"{name}: {diagnose(history).actions[0]}")

# %% [markdown]
# The three runs are *flat*, *healthy* and *overfit*. In the third run the validation loss still falls. *Overfit* means
# here that the gap is large. When the validation loss turns and rises, `diagnose` says *improves then worsens*.
#
# `diagnose` turns the three questions into numbers, each relative to the loss at the start. The first line of its
# advice is the cheapest thing to try. Test a flat run on one batch first. Regularise the third run, or let it go on and
# stop when its validation loss turns; more digits would cost more. Some things cannot be read from a curve: for
# example, an easy task looks like leakage.
#
# The validation loss may also be *below* the training loss without a fault, as at the start of the second run. The
# training loss is a mean over the epoch, and validation comes at its end. Dropout and augmentation have the same
# effect, because they make the training examples harder.
#
# **Recap.** Ask three questions in this order: do both curves fall, is the training loss low enough, is validation
# close enough? Each has its own remedy.

# %% [markdown]
# ## 13 Loss and metric: two different questions
#
# **Goal.** See four cases in which a loss and a metric, or two metrics, give different answers.
#
# Training minimises a loss because a loss has a gradient. You report a metric because it measures what somebody
# needs. The two agree often enough to be confused. The first case has two balanced classes and four examples. The two
# lists show the probability that each model gives to the right class: A 0.6, 0.6, 0.6, 0.4, and B 0.99, 0.99, 0.99,
# 0.01. Both are right three times. Predict which one has the lower cross-entropy, A or B.

# %% tags=["demo"]
predict("calibration", None)

# %% tags=["demo"]
given = {"A": torch.tensor([0.6, 0.6, 0.6, 0.4]), "B": torch.tensor([0.99, 0.99, 0.99, 0.01])}
losses = {name: -p.log().mean().item() for name, p in given.items()}
for name, p in given.items():
    print(f"{name}: accuracy {(p > 0.5).float().mean():.2f}, cross-entropy {losses[name]:.2f}")

# %% tags=["demo"]
reveal("calibration", min(losses, key=losses.get), usual={
    "B": "B gains little where it is right, and its one mistake alone costs -log 0.01 = 4.6.",
})

# %% [markdown]
# Both have accuracy 0.75, but the losses are 0.61 and 1.16. B is confident when it is wrong, and its loss is high for
# that one example. Accuracy does not show this.
#
# The second case has imbalanced classes: 95 healthy people and 5 ill ones. Two models give everybody a probability of
# being ill. Model A gives everybody 0.05. Model B gives the ill people 0.30 and the healthy ones 0.03. No probability
# is above 0.5, so both models call everybody healthy, and both have accuracy 0.95. Three other metrics follow. Two of
# them tell the models apart.
#
# - *F1* of a class compares the examples that belong to the class with those that are predicted to belong to it. It
#   is twice the number of correct predictions of the class, divided by the sum of the two counts: examples of the
#   class, and predictions of the class. It is 1 when every prediction is right, and 0 when the class is never
#   predicted correctly. *Macro F1* is the plain mean over the classes, so a rare class counts as much as a frequent
#   one.
# - *AUROC*, the area under the ROC curve, is the chance that an ill person has a higher probability than a healthy one
#   (a tie counts as half). Guessing gives 0.5.
# - *AUPRC*, the area under the precision-recall curve, is the mean precision over all values of recall from 0
#   to 1. Precision is the fraction of those called ill who are ill, and recall the fraction of the ill who are called
#   ill. Guessing gives the fraction of ill people, here 0.05.

# %% tags=["demo"]
ill = torch.tensor([0] * 95 + [1] * 5)
says_ill = {"A": torch.full((100,), 0.05), "B": torch.where(ill == 1, 0.30, 0.03)}

# %% tags=["demo"]
for name, p in says_ill.items():
    p = torch.stack([1 - p, p], dim=1)
    loss = nn.functional.nll_loss(p.log(), ill)
    print(f"{name}: loss {loss:.2f}, AUROC {auroc(p, ill):.2f}, AUPRC {auprc(p, ill):.2f}")
    for threshold in (0.5, 0.2):
        called = nn.functional.one_hot((p[:, 1] > threshold).long(), 2)
        right = (called.argmax(1) == ill).float().mean()
        f1 = macro_f1(called, ill)
        print(f"   called ill above {threshold}: accuracy {right:.2f}, macro F1 {f1:.2f}")

# %% [markdown]
# With the threshold 0.5, both models have accuracy 0.95 and macro F1 0.49. AUROC and AUPRC tell them apart: A, which
# knows nothing about any single person, gets what guessing gives (0.50 and 0.05), and B gets 1.00. With the threshold
# 0.2, B finds all five ill people, and its macro F1 is 1.00. The threshold changes accuracy and F1. It does not change
# the loss, AUROC or AUPRC, which use the probabilities themselves. So report the threshold with an F1, and choose it on
# validation data.
#
# The third case is regression: the best constant prediction for 1, 2, 3, 4 and 100. The squared error is lowest at the
# mean, 22. The absolute error is lowest at the median, 3. Which one is better depends on whether one large error is
# worse for you than many small ones.

# %% tags=["demo"]
values = torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0])
for name, constant in [("mean", values.mean()), ("median", values.median())]:
    guess = constant.expand(5)
    print(f"{name} {constant:g}: RMSE {rmse(guess, values):.1f}, MAE {mae(guess, values):.1f}")

# %% [markdown]
# The mean has RMSE 39.0 and MAE 31.2, the median 43.4 and 20.2. Each is better by its own measure.
#
# The fourth case is ranking: three candidates for each query, and only the first place counts (recall at 1). Model C
# always gives the right candidate the probability 0.45 and a wrong one 0.50. Model D gives the right candidate 0.90
# in half of the queries and 0.05 in the others.

# %% tags=["demo"]
right = torch.tensor([0, 0])
for name, p in {
    "C": torch.tensor([[0.45, 0.50, 0.05], [0.45, 0.50, 0.05]]),
    "D": torch.tensor([[0.90, 0.05, 0.05], [0.05, 0.90, 0.05]]),
}.items():
    loss = nn.functional.nll_loss(p.log(), right)
    print(f"{name}: loss {loss:.2f}, recall at 1 {(p.argmax(1) == right).float().mean():.1f}")

# %% [markdown]
# C has loss 0.80 and recall 0.0. D has loss 1.55 and recall 0.5. The model with the lower loss never puts the right
# candidate first.
#
# | setting | loss | metric | if you confuse them, you get |
# |---|---|---|---|
# | balanced classes | cross-entropy | accuracy | a model that is confident and wrong |
# | imbalanced classes | weighted cross-entropy, focal | F1, AUROC, AUPRC (the area under the precision-recall curve) | a model that always predicts the majority |
# | regression | MSE, MAE, likelihood | RMSE, MAE, the cost of an error | the wrong trade-off between large and small errors |
# | ranking | contrastive, pairwise | recall at k, MRR (mean reciprocal rank) | a good loss and a poor first place |
#
# ### A metric need not be a mean
#
# **Goal.** Compute a loss and two metrics over a whole validation set, and choose a model by each of them.
#
# A validation set comes in batches. The loss and the accuracy are means over examples, so you can average the values
# of the batches, each weighted by its number of examples. F1 is not a mean over examples: it divides one count by
# another. The next cell has eight examples in two batches of four. The model makes one mistake. Predict the F1 of
# class 1 over all eight examples.

# %% tags=["demo"]
predict("f1", None)


# %% tags=["demo"]
def f1_of_class_1(labels, predicted):
    correct = ((labels == 1) & (predicted == 1)).sum()
    return (2 * correct / ((labels == 1).sum() + (predicted == 1).sum())).item()


labels = torch.tensor([[0, 0, 0, 0], [1, 1, 0, 0]])
predicted = torch.tensor([[0, 0, 0, 1], [1, 1, 0, 0]])

# %% tags=["demo"]
for batch in (0, 1):
    print(f"batch {batch + 1}: F1 of class 1 is {f1_of_class_1(labels[batch], predicted[batch]):g}")

# %% tags=["demo"]
reveal("f1", round(f1_of_class_1(labels, predicted), 2), tolerance=0.02, usual={
    0.5: "This is the mean of the two batches. Add up the counts first, then divide.",
    0.88: "This is the accuracy: seven of the eight predictions are right.",
    0.67: "This is the precision: two of the three examples that are predicted as class 1.",
})


# %% [markdown]
# F1 is 0 in the first batch, 1 in the second and 0.8 over all eight examples. The mean of the batches is 0.5.
# Weighted by the number of examples of class 1, it would be 1, because the first batch has none. Neither is right.
# The wrong prediction in the first batch must lower the F1 of class 1, but it is one mistake and not half of the
# result. So add up the counts over all batches and divide once. AUROC needs even more. It compares every ill person
# with every healthy one, so it needs the probabilities of all examples together.
#
# In real validation sets some labels are missing. `cross_entropy` leaves out examples with the label −100, and its mean
# over a batch is the mean over the others.
#
# ### Question 03a-metric · 4 points
#
# Write two functions.
#
# `measure(batches)` measures a model on a whole validation set. It returns three numbers in this order: the mean
# cross-entropy, the accuracy and the macro F1.
#
# - `batches` is a list of one or more pairs `(logits, labels)`, all on the CPU. `logits` is a tensor `[n, C]`, all
#   float32 or all float64, with entries between −20 and 20. The number of classes `C` is 2 or more, and the same in all
#   batches. The number of examples `n` is 1 or more and can differ. The prediction for an example is the class of its
#   largest logit. The largest logit of a row is unique, but the second largest may be only one rounding step smaller.
# - `labels` is an int64 tensor `[n]`. Each entry is a class from 0 to C − 1, or −100 for an example without a label.
#   Leave such an example and its prediction out of all three numbers. A batch may have no label at all. At least one
#   example of the set has a label.
# - Loss and accuracy are means over all examples that have a label.
# - The F1 of a class is counted over the whole set, as defined above. The macro F1 is the plain mean over the classes
#   that occur among the labels or among the predictions (of examples that have a label). A class that occurs only among
#   the labels or only among the predictions is included, with F1 = 0. A class that occurs in neither is left out.
#
# `preferred(measured)` says which model each measure prefers. `measured` is a list of two or more tuples of three
# floats, `(loss, accuracy, macro F1)`, one tuple for each model. The losses are finite and not negative; the other two
# lie between 0 and 1. Return three indices into the list: the model with the best loss, the one with the best accuracy,
# and the one with the best macro F1. If several models are equally good, return the first of them.
#
# Leave the arguments as they are. Numbers may be Python numbers or tensors of shape `[]`. An error of $10^{-5}$ in what
# `measure` returns is accepted. While your answer is checked, the library's `macro_f1` and the F1 functions of
# scikit-learn are switched off.
#
# Hidden cases: loss and accuracy 1 point, macro F1 where every class is predicted correctly at least once 1, macro F1
# where some class is never predicted correctly 1, preferred models 1. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Which numbers can you add up over the batches, and which can you not? What could you join before you measure anything?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `labels == k` is a mask. Three sums of masks are enough for the F1 of class k. When is the denominator 0?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-metric", "locked": false, "schema_version": 3, "solution": true, "task": false}
def measure(batches):
    """Return the mean cross-entropy, the accuracy and the macro F1 over all batches."""
    ### BEGIN SOLUTION
    logits, labels = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
    logits, labels = logits[labels >= 0], labels[labels >= 0]
    loss, predicted = nn.functional.cross_entropy(logits, labels), logits.argmax(dim=1)
    scores = []
    for label in torch.cat([labels, predicted]).unique():
        is_label, is_predicted = labels == label, predicted == label
        correct = (is_label & is_predicted).sum()
        scores.append(2 * correct / (is_label.sum() + is_predicted.sum()))
    return loss, (predicted == labels).float().mean(), torch.stack(scores).mean()
    ### END SOLUTION


def preferred(measured):
    """Return three indices: the models with the best loss, accuracy and macro F1."""
    ### BEGIN SOLUTION
    losses, accuracies, f1s = zip(*measured, strict=True)
    return losses.index(min(losses)), accuracies.index(max(accuracies)), f1s.index(max(f1s))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-metric-test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("03a-metric", measure, preferred)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-metric", measure, preferred)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Choose the metric before you train, and look at it together with the loss after every epoch. Say which
# examples and which classes it covers. Add up counts over the batches, and divide once.

# %% [markdown]
# ## 14 Evaluation: measure and change nothing
#
# **Goal.** Measure a model without changing the training that continues afterwards.
#
# An evaluation between two epochs must not affect the run. It needs four things. The model is in eval mode, so that
# dropout and batch normalisation behave as they do after training. Nothing is recorded on the tape. Every example is
# counted once. And everything is put back afterwards, including the modes of the layers and torch's *random stream*,
# the state of its global random number generator.
#
# The third point is arithmetic. A batch of 100 examples with mean loss 1 is followed by a last batch of one example
# with loss 5. Predict the mean loss of the 101 examples.

# %% tags=["demo"]
predict("evaluation", None)

# %% tags=["demo"]
sizes, losses = torch.tensor([100.0, 1.0]), torch.tensor([1.0, 5.0])
print(f"mean of the two batches: {losses.mean():.2f}")
mean_loss = ((sizes * losses).sum() / sizes.sum()).item()

# %% tags=["demo"]
reveal("evaluation", round(mean_loss, 2), tolerance=0.02, usual={
    3: "This is the mean of the two batch means. It gives one example the weight of a hundred.",
    1.05: "This divides 105 by 100. There are 101 examples.",
})

# %% [markdown]
# The mean loss is 1.04. The mean of the two batch means would be 3.00, because it counts one example as much as a
# hundred.
#
# The fourth point is easily missed. A model that is being trained may have a layer in eval mode on purpose, such as
# batch normalisation with frozen statistics. `model.train()` at the end of the evaluation switches this layer to train
# mode. And a loader may draw from torch's random stream even when it does not shuffle. The next two cells show both.

# %% tags=["demo"]
loader = torch.utils.data.DataLoader(torch.arange(4), batch_size=2, shuffle=False)
with torch.random.fork_rng():
    torch.manual_seed(0)
    without = torch.rand(1).item()
    torch.manual_seed(0)
    batches_read = list(loader)
    after = torch.rand(1).item()
print(f"next random number: {without:.4f}, after a loop over the loader: {after:.4f}")

# %% tags=["demo"]
norm_in_eval = nn.BatchNorm1d(4).eval()
with_norm = nn.Sequential(norm_in_eval, nn.Linear(4, 2))
with_norm.eval()
print(f"running mean: {norm_in_eval.running_mean[0]:.1f}")
with_norm.train()
with_norm(torch.ones(8, 4))
print(f"running mean after eval(), train() and one batch: {norm_in_eval.running_mean[0]:.1f}")


# %% [markdown]
# The loop over the loader changes the next random number from 0.4963 to 0.0885. A run then depends on how often you
# evaluated it. After `eval()` and `train()`, one batch moves the frozen running mean from 0 to 0.1, although it was
# meant to stay fixed. Neither raises an error.
#
# ### Question 03a-evaluate · 8 points
#
# Write `evaluate_outputs(model, batches, loss_fn)`. It returns two things: the mean loss over all examples, as a
# number or a tensor with one number, and the outputs for all examples in their order, as one tensor `[N, 1]`, so that
# you can look at the mistakes later.
#
# - `batches` is a list or a loader of at least one pair `(x, y)`, with `x` `[n, features]` and `y` `[n, 1]` in float64.
#   The number of examples `n`, at least 1, can differ. Reading `batches` again gives the same pairs. The model is on
#   the CPU, its outputs are `[n, 1]`, and no layer is used in two places. You may collect the outputs in float32.
# - `loss_fn(outputs, y)` is the mean loss over the examples of one batch. Swapping its two arguments may change the
#   result.
# - The whole model is evaluated in eval mode, and autograd records nothing.
# - Afterwards everything is unchanged: the mode of every layer, whether gradients are recorded
#   (`torch.is_grad_enabled()`), the parameters with their `.grad` and `requires_grad`, and torch's random stream. At
#   the call, any layer may be in train mode or in eval mode, the recording of gradients may be off, and numbers may
#   have been drawn from the stream.
#
# The outputs of the networks in the tests depend on which layers are in eval mode and on whether autograd records.
#
# Hidden cases: uneven batches 2 points, eval mode 2, no tape 1, modes and parameters put back 2, random stream 1. The
# last two parts give points only if at least one of the first three is right. Limit: 30 seconds. The library's own
# evaluation is switched off while your answer is checked.
#
# <details><summary>Hint 1</summary>
#
# `model.modules()` goes through every layer, and each layer has its own flag `training`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `torch.get_rng_state()` returns the current state of the stream. Which function sets it?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-evaluate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def evaluate_outputs(model, batches, loss_fn):
    """Return the mean loss over all examples, and the outputs of all examples [N, 1]."""
    ### BEGIN SOLUTION
    was_training = {layer: layer.training for layer in model.modules()}
    loss_sum, outputs = 0.0, []
    with torch.random.fork_rng(), torch.no_grad():
        model.eval()
        for x, y in batches:
            outputs.append(model(x))
            loss_sum += len(x) * loss_fn(outputs[-1], y).item()
    for layer, training in was_training.items():
        layer.training = training
    outputs = torch.cat(outputs)
    return loss_sum / len(outputs), outputs
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-evaluate-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03a-evaluate", evaluate_outputs)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-evaluate", evaluate_outputs)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Evaluate in eval mode and off the tape, count each example once, and put everything back. The library's
# `evaluate` does the same and also returns a metric.

# %% [markdown]
# ## 15 The best epoch: a copy, not a reference
#
# **Goal.** Train, and keep the weights of the best epoch.
#
# The last epoch is often not the best one. So after each epoch the validation loss is compared with the lowest so far.
# When it is lower, the weights are kept. To keep them you must copy them: `model.state_dict()` returns the tensors
# themselves under their names, not copies, and the next step writes into the same memory.
#
# The next cell keeps a weight of 1 in two ways: as a `state_dict`, and as a deep copy of it. Then a step adds 1 to the
# weight. Predict the value in the `state_dict` afterwards.

# %% tags=["demo"]
predict("alias", None)

# %% tags=["demo"]
layer = nn.Linear(1, 1)
nn.init.ones_(layer.weight)
named, copied = layer.state_dict(), copy.deepcopy(layer.state_dict())
with torch.no_grad():
    layer.weight += 1
print(f"the deep copy holds {copied['weight'].item():g}")

# %% tags=["demo"]
reveal("alias", named["weight"].item(), usual={
    1: "This is the deep copy. The state_dict shares its memory with the model.",
})


# %% [markdown]
# The copy holds 1 and the `state_dict` holds 2. No error is raised: the *best* weights are silently the last ones.
#
# The order of calls inside the loop can be wrong in the same silent way. `backward()` adds to `.grad`, `step()` uses
# `.grad`, and `zero_grad()` empties it. So call `zero_grad()` before the next `backward()`, and never between
# `backward()` and `step()`. A simple evaluation calls `model.eval()` and does not restore the mode afterwards. So
# call `model.train()` at the start of each epoch. (Here no layer is in eval mode on purpose. If one is, put the modes
# back as in section 14.)
#
# ### Question 03a-train · 9 points
#
# Write `train_keeping_best(model, batches, val_batches, optimizer, loss_fn, epochs)`. It trains `model` in place, one
# step for each batch in the given order, and returns two things:
#
# - a list with the validation loss after each epoch: the mean over all validation examples, in eval mode;
# - the weights and buffers of the epoch with the lowest validation loss, as a dict with exactly the entries of
#   `model.state_dict()`, each in its own dtype. All losses are finite. The lowest loss $L$ may be 0 or negative. No
#   other loss equals $L$, and each differs from it by at least $3 \cdot 10^{-6}\,|L|$.
#
# The model ends with its *last* weights. It may be in train or in eval mode when the function is called, and is trained
# in train mode. The mode in which you leave it is not checked. Its `.grad` is empty at the call.
#
# `batches` and `val_batches` are lists of at least one pair `(x, y)`, with `x` `[n, features]` and `y` `[n, 1]` in
# float64. The number of examples can differ from batch to batch, in both lists. `loss_fn(outputs, y)` is the mean loss
# over the examples of one batch. It can be negative, and swapping its two arguments may change the result. `optimizer`
# is SGD with or without momentum, and `epochs` is 1 or more. Buffers of the model, among them a count, change whenever
# the model is called in train mode, as in batch normalisation. So in train mode, call the model exactly once for each
# batch of an epoch.
#
# Hidden cases: the last weights 4 points, validation losses 2, best weights 2, and best buffers 1 if the best weights
# are right. Limit: 30 seconds. The library's own `train` is switched off while your answer is checked.
#
# <details><summary>Hint 1</summary>
#
# A step has four calls. Write down what `.grad` holds after each of them.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Suppose that somebody trains the model further after your function returns. What does the dict that you returned hold
# then?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-train", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_keeping_best(model, batches, val_batches, optimizer, loss_fn, epochs):
    """Return the validation loss after each epoch, and a copy of the best epoch's weights."""
    ### BEGIN SOLUTION
    val_losses, best_weights = [], {}
    examples = sum(len(y) for _, y in val_batches)
    for _ in range(epochs):
        model.train()
        for x, y in batches:
            loss = loss_fn(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            loss_sum = sum(len(y) * loss_fn(model(x), y).item() for x, y in val_batches)
        val_losses.append(loss_sum / examples)
        if val_losses[-1] == min(val_losses):
            best_weights = copy.deepcopy(model.state_dict())
    return val_losses, best_weights
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-train-test", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
check("03a-train", train_keeping_best)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-train", train_keeping_best)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Clear, forward, backward, step. Train mode for training, eval mode for evaluation. Copy the best weights.

# %% [markdown]
# ### Early stopping and averaged weights
#
# **Goal.** Use two more arguments of `train`: one stops early, one averages weights.
#
# *Early stopping* ends a run when the validation loss has not reached a new lowest value for some epochs. This number
# of epochs is called the *patience*. The next cell trains on 200 digits, and a third of their labels are replaced by
# random ones. The network can only memorise wrong labels, so the validation loss rises after some epochs. The first run
# has 60 epochs and no early stopping.

# %% tags=["demo"]
few, noisy = parts[0][:200], classes[parts[0][:200]].clone()
noisy[::3] = torch.randint(10, (67,), generator=torch.Generator().manual_seed(0))


def run_on_noisy_labels(patience):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    loader = TensorLoader(pixels[few], noisy, batch_size=32, shuffle=True, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loss_fn = nn.CrossEntropyLoss()
    return train(model, loader, validation, optimizer, loss_fn, epochs=60, patience=patience)


def print_best_and_last(history):
    best, last = history.best, history.rows[-1]
    print(f"best epoch ≈ {best.epoch}, validation loss ≈ {best.val_loss:.2f}; "
          f"last epoch ≈ {last.epoch}, validation loss ≈ {last.val_loss:.2f}")


whole = run_on_noisy_labels(None)
print_best_and_last(whole)

# %% [markdown]
# The second run is the same with `patience=5`. Predict after how many epochs it ends.

# %% tags=["demo"]
predict("patience", None)

# %% tags=["demo"]
stopped = run_on_noisy_labels(5)
print_best_and_last(stopped)
equal = all(value.equal(whole.best_state[name]) for name, value in stopped.best_state.items())
print("the same best weights in both runs:", equal)

# %% tags=["demo"]
reveal("patience", len(stopped.rows), "epochs", tolerance=2, usual={
    60: "Then the validation loss would have a new lowest value at least every five epochs.",
    15: "This is the best epoch. That it is the best shows only when five more have passed.",
    5: "The patience counts from the best epoch, not from the start.",
})

# %% [markdown]
# The best epoch is the 15th in both runs. With patience 5 the run ends five epochs later and saves two thirds of the
# time. Without it the run goes on to epoch 60, and the validation loss rises from 0.62 to above 1. `history.best_state`
# holds the same weights in both runs. Early stopping saves time; the copy of the best weights saves the result.
#
# The second argument is `ema`, an *exponential moving average* of the weights. After each step the average moves a
# little towards the new weights: average ← 0.98 · average + 0.02 · weights. The factor 0.98 is the *decay*. With a
# large rate the weights jump back and forth around a minimum, and their average is closer to it. `train` evaluates the
# average and keeps it as the best weights. (In the first steps it uses a smaller decay than 0.98, so that the initial
# weights are soon forgotten.)

# %% tags=["demo"]
for decay in (None, 0.98):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    loader = TensorLoader(pixels[parts[0]], classes[parts[0]], batch_size=16, shuffle=True, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_fn = nn.CrossEntropyLoss()
    last = train(model, loader, validation, optimizer, loss_fn, epochs=2, ema=decay).rows[-1]
    print(f"ema {decay}: validation loss ≈ {last.val_loss:.2f}, accuracy ≈ {last.val_metric:.2f}")

# %% [markdown]
# With averaged weights the same run has a validation loss of 0.18 instead of 0.44. Training itself is unchanged: only
# the weights that are evaluated and kept differ.
#
# **Recap.** `patience` stops a run that no longer improves. `ema` keeps an average of the weights in which recent steps
# count most. Neither costs an extra pass over the data.

# %% [markdown]
# ## 16 Save and resume: the same weights to the last bit
#
# **Goal.** Stop a run and continue it tomorrow as if it had never stopped.
#
# The weights are not the whole run. An optimizer with momentum keeps a decaying sum of the past gradients. A schedule
# counts its steps. The loop knows its epoch. The shuffled order comes from a random number generator, and its state has
# changed since the start. The library's `train` keeps all of this in `last.pt`.
#
# Two runs of four epochs follow. One is never stopped. The other is stopped after 20 steps, early in the second
# epoch, and then resumed with a new model that is restored from the file alone. Predict the largest difference
# between their weights.

# %% tags=["demo"]
predict("resume", None)


# %% tags=["demo"]
def four_epochs(seed, folder=None, **options):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Dropout(0.2), nn.Linear(32, 10))
    order = {"batch_size": 64, "shuffle": True, "seed": 0}
    loaders = [TensorLoader(pixels[part], classes[part], **order) for part in parts[:2]]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(model, *loaders, optimizer, nn.CrossEntropyLoss(), 4, checkpoints=folder, **options)
    return nn.utils.parameters_to_vector(model.parameters())


# %% tags=["demo"]
never_stopped = four_epochs(seed=0)
with tempfile.TemporaryDirectory() as folder:
    steps = iter(range(1, 21))
    stopped = four_epochs(seed=0, folder=folder, stop=lambda: next(steps) == 20)
    resumed = four_epochs(seed=1, folder=folder, resume=True)
print(f"stopped after 20 steps: largest difference ≈ {(stopped - never_stopped).abs().max():.1f}")

# %% tags=["demo"]
reveal("resume", (resumed - never_stopped).abs().max().item(), usual={
    1e-6: "Rounding differs when operations run in another order. Here the order is the same.",
    1: "Then the file would lack something: momentum, a random stream or the order of the data.",
})

# %% [markdown]
# The difference is exactly 0, with dropout, momentum and a shuffled order, although the new model started from
# different weights. Suppose that the library wrote over the old file and the machine crashed in the middle. Then the
# new file would be useless and the old one lost. So the library writes a new file beside the old one and then replaces
# the old one in a single operation.
#
# The file holds only tensors, numbers and names, such as a `state_dict`. `torch.save(model, path)` would pickle the
# whole object instead. The file then contains the *name* of the model's class, and loading the file can run code.
# Predict what happens to such a file when the class is renamed: *loads* or *fails*.

# %% tags=["demo"]
predict("pickle", None)


# %% tags=["demo"]
class Net(nn.Linear):
    """A class that the next lines rename."""


temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
torch.save(Net(2, 1), folder / "object.pt")
torch.save(Net(2, 1).state_dict(), folder / "state.pt")
RenamedNet = Net
del Net


# %% tags=["demo"]
def try_to_load(name, weights_only):
    try:
        torch.load(folder / name, weights_only=weights_only)
        return "loads"
    except Exception as error:
        return f"fails, {type(error).__name__}"


print("state_dict, safely:", try_to_load("state.pt", True))
print("object, safely:", try_to_load("object.pt", True))
print("object, trusting it:", try_to_load("object.pt", False))

# %% tags=["demo"]
reveal("pickle", try_to_load("object.pt", False).split(",")[0], usual={
    "loads": "That holds for the state_dict. The object is stored with the name of its class.",
})


# %% [markdown]
# Only the `state_dict` loads. If you trust the file (`weights_only=False`), the object still fails, because there is
# no class of that name any more. With `weights_only=True`, PyTorch's default since 2.6, the object is refused even
# without a renaming. This mode reads only tensors, numbers, strings and containers of them, so a file from a stranger
# should not be able to run code. Read with `weights_only=True`, and write files that it accepts.
#
# ### Question 03a-checkpoint · 8 points
#
# Write two functions. Together they let a run continue in a new process with the same weights to the last bit.
#
# - `save_run(path, model, optimizer, scheduler, epoch)` writes a single file, at exactly `path` (an absolute path as a
#   string, with any ending or none). If this file already exists, it is replaced. `epoch` is the number of finished
#   epochs, 0 or more. The file must load with `torch.load(path, weights_only=True)` and hold the model's weights as
#   tensors. Saving changes nothing in the run; this is tested with the file.
# - `resume_run(path, model, optimizer, scheduler)` runs in another process. Of everything that `save_run` wrote or
#   stored, only this file is left. It gets a new model, optimizer and scheduler, made with the same
#   arguments as the old ones; only the model's parameters, frozen ones included, and its buffers have other values. It
#   brings them, and torch's random stream, back to the state in which the run was saved, and returns the number of
#   finished epochs.
#
# The model may have frozen parameters (`requires_grad` is `False`) and buffers. The buffers hold floating-point numbers
# or integers below $2^{53}$, and all are in its `state_dict()`. The optimizer is `torch.optim.SGD` with one parameter
# group that holds all parameters, including the frozen ones, with or without momentum. The scheduler is `StepLR`,
# stepped after each epoch or after each batch.
#
# The check moves the file before it calls `resume_run`, and draws the order of the examples from torch's random stream.
# Hidden cases: the file 2 points; weights and epoch 1, buffers 1, momentum 2, schedule 1, random stream 1. Each part is
# tested on its own, with runs that use only this part, the weights and the epoch. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Three of the arguments have a `state_dict()`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A seed says where a random stream begins. What describes its state now?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-checkpoint", "locked": false, "schema_version": 3, "solution": true, "task": false}
def save_run(path, model, optimizer, scheduler, epoch):
    """Write everything that the run needs to continue after `epoch` epochs."""
    ### BEGIN SOLUTION
    state = {name: part.state_dict() for name, part in
             [("model", model), ("optimizer", optimizer), ("scheduler", scheduler)]}
    state.update(epoch=epoch, stream=torch.get_rng_state())
    torch.save(state, path)
    ### END SOLUTION


def resume_run(path, model, optimizer, scheduler):
    """Restore the run, and return how many epochs are done."""
    ### BEGIN SOLUTION
    state = torch.load(path, weights_only=True)
    for name, part in [("model", model), ("optimizer", optimizer), ("scheduler", scheduler)]:
        part.load_state_dict(state[name])
    torch.set_rng_state(state["stream"])
    return state["epoch"]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-checkpoint-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03a-checkpoint", save_run, resume_run)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-checkpoint", save_run, resume_run)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Save the model, the optimizer, the schedule, the epoch and the random state. Save them as data, in one file
# that is written completely or not at all.

# %% [markdown]
# ## 17 Recipe: one short function
#
# **Goal.** Train to at least 97 % on digits that were not used for training, nor for choosing the rate or the epoch.
#
# `train` is the lecture's loop: forward, loss, `backward`, `step`, `zero_grad`, then the schedule. (You may clear the
# gradients at the start or at the end of a step.) After each epoch it evaluates in eval mode and off the tape. It keeps
# a *copy* of the best weights, by validation loss.
#
# With a GPU you can train on more data: name another data set in the next cell. The notebook then downloads it, splits
# it, runs the rate finder on it and uses it in the rest of this section. The goal of 97 % is for the digits. No
# question depends on this choice.

# %% tags=["demo"]
DATA_SET = "digits"  # with a GPU also "fashion-mnist" or "cifar10"
if DATA_SET == "digits":
    pixels, classes = digits.images, digits.labels
else:
    read = {"fashion-mnist": fashion_mnist, "cifar10": cifar10}[DATA_SET]
    pixels, classes = read("~/.cache/lecture", download=True)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %% tags=["demo"]
parts = stratified_split(classes, (0.6, 0.2, 0.2), seed=0)
model = make_model(0, pixels.shape[1], pixels.shape[2]).to(device)
optimizer = torch.optim.AdamW(model.parameters())
train_loader = TensorLoader(
    pixels[parts[0]], classes[parts[0]], batch_size=64, shuffle=True, seed=0
)
sweep = find_lr(model, train_loader, optimizer, nn.CrossEntropyLoss(), start=1e-5, stop=1.0)
print(f"{DATA_SET}: {len(parts[0])} images to train on")

# %% [markdown]
# The recipe uses the *one-cycle* schedule: the rate rises to a maximum and falls again to almost 0. Its `step()` is
# called after every batch, not after every epoch. The maximum is the rate that the finder chose. PyTorch's
# `OneCycleLR` has three numbers with defaults. With `pct_start=0.3` the rise takes 30 % of the steps. With
# `div_factor=25` the first rate is the maximum divided by 25. With `final_div_factor=10000` the last rate is the
# *first* rate divided by 10,000. Predict how many times smaller than the maximum the last rate is.

# %% tags=["demo"]
predict("one_cycle", None)


# %% tags=["demo"]
def one_cycle(optimizer, steps):
    return OneCycleLR(optimizer, max_lr=sweep.suggestion, total_steps=steps)


placeholder = torch.optim.AdamW([nn.Parameter(torch.zeros(1))])
schedule, rates = one_cycle(placeholder, 8 * len(train_loader)), []
for _ in range(8 * len(train_loader)):
    rates.append(schedule.get_last_lr()[0])
    placeholder.step()
    schedule.step()
highest = rates.index(max(rates)) + 1
print(f"first rate: 1/{max(rates) / rates[0]:.0f} of the highest")
print(f"the rate is highest in step {highest} of {len(rates)}")

# %% tags=["demo"]
reveal("one_cycle", 1000 * round(max(rates) / rates[-1] / 1000), "times", usual={
    10_000: "This compares the last rate with the first. The first is already 25 times smaller.",
    400: "You divided 10,000 by 25. Multiply them.",
})

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(5.5, 2.6))
axis.plot(rates, color=OKABE_ITO[0])
axis.set(xlabel="optimizer step", ylabel="learning rate")
show_figure(
    figure,
    caption="One-cycle: a warm-up over 30 % of the steps, then a long fall to almost 0.",
    alt=f"Learning rate over {len(rates)} steps: it starts at a twenty-fifth of the maximum, "
    "rises to the maximum after 30 percent of the steps, and falls smoothly to almost 0.",
)

# %% [markdown]
# The rate starts at 1/25 of the maximum, is highest after 30 % of the steps, and ends at a 250,000th of the maximum.
# Each phase has a reason. The gradient changes fastest at the start, so the first steps are short. In the middle, long
# steps make fast progress. At the end the steps shrink, so the weights stop jumping around a minimum. PyTorch also
# changes the momentum (here Adam's first beta) in the opposite direction. Whether one-cycle needs fewer epochs than a
# constant rate depends on the task.
#
# Now train. Predict the accuracy on the test part, in percent.

# %% tags=["demo"]
predict("accuracy", None)

# %% tags=["demo"]
val_loader, test_loader = (
    TensorLoader(pixels[part], classes[part], batch_size=256) for part in parts[1:]
)
cross_entropy = nn.CrossEntropyLoss()
history = train(
    model, train_loader, val_loader, optimizer, cross_entropy, epochs=8, schedule=one_cycle
)

# %% tags=["demo", "nbval-ignore-output"]
model.load_state_dict(history.best_state)
result = evaluate(model, test_loader, cross_entropy)

# %% tags=["demo", "nbval-ignore-output"]
reveal("accuracy", round(100 * result.metric, 1), "%", tolerance=1, usual={
    97: "This is the goal. On the digits the recipe does better.",
})

# %% tags=["demo"]
print(f"accuracy on {result.examples} test digits: ≈ {result.metric:.2f}")

# %% tags=["demo"]
show_figure(
    history.plot(),
    caption="The training loss falls throughout, the validation loss falls and then levels off.",
    alt=f"Training and validation loss over {len(history.rows)} epochs, and the validation "
    f"accuracy, which ends near {round(100 * history.rows[-1].val_metric)} percent.",
)


# %% [markdown]
# The accuracy on the test part is about 0.99, above the goal of 0.97. We used the validation part to choose the epoch,
# so the accuracy on it is slightly too high to report. We did not use the test part to choose anything. In the curves,
# the training loss keeps falling while the validation loss levels off. Regularisation makes this gap smaller, and
# notebook 03b continues there.

# %% [markdown]
# One step of `train` fits on a screen. The next cell prints it from `lecture_lib/training/step.py`, after the line that
# computes the weight of each micro-batch in its window. The step does what you did by hand in the sections above. The
# order matters: weight the loss of each micro-batch, add up the gradients, unscale them, clip them once, step, and
# clear them. `find_lr` uses the same step. Some names need an explanation. The *guard* refuses losses, gradients and
# updates that are not finite, and `taken` says whether a step was made. The *replica* is the model, or its wrapper when
# several processes train together; `exchange` then adds up their gradients once in a window. The weight of a batch
# is right only if its mean loss was divided by the number that we counted, and `terms.verify` checks that.

# %% tags=["demo"]
def body(function):
    """The source of a function without its docstring."""
    return textwrap.dedent(inspect.getsource(function).split('"""')[2]).strip()


print("# Window: each micro-batch with its weight")
print(body(Window.__iter__))
print("\n# TrainingStep.learn: one step for a window")
print(body(TrainingStep.learn))

# %% [markdown]
# Watch a long run while it trains. `train_live` takes the arguments of `train`. Its curves grow during training, a
# button stops it, and its `.history` is what `train` returns. The next cell trains the same network with the same
# schedule, but at a hundred times the rate. Stop it when you have seen enough. Where widgets cannot run, you see the
# whole run.

# %% tags=["demo", "nbval-ignore-output"]
fast_model = make_model(0, pixels.shape[1], pixels.shape[2]).to(device)
fast_optimizer = torch.optim.AdamW(fast_model.parameters(), lr=100 * sweep.suggestion)
watched = train_live(
    fast_model, train_loader, val_loader, fast_optimizer, cross_entropy, epochs=8,
    schedule=lambda optimizer, steps: OneCycleLR(
        optimizer, max_lr=100 * sweep.suggestion, total_steps=steps
    ),
)

# %% tags=["demo", "nbval-ignore-output"]
best = min((row.val_loss for row in watched.history.rows), default=math.inf)
print(f"lowest validation loss at a hundred times the rate: {best:.2f}")
print(f"lowest validation loss of the recipe: {history.best.val_loss:.2f}")


# %% [markdown]
# At a hundred times the rate, the lowest validation loss is clearly above that of the recipe, for 8 epochs each.
#
# ### A whole loop of your own
#
# You have written or watched every piece of the loop. Now write all of it once, without anything from `lecture_lib`.
# Use lines of your own answers where they fit. It is not graded.
#
# - `my_loop` trains `model` in place. It returns the validation loss after each epoch, and a copy of the best weights.
# - `batches` and `val_batches` are lists of pairs `(x, y)`. Their last batches are smaller. The network has no batch
#   normalisation and no dropout.
# - Three batches make a window, and each window is one step. It equals the step on all examples of the window together.
#   The last window of an epoch is shorter (section 8).
# - Before each step, the global norm of the gradient is clipped at 0.5 (section 9; PyTorch has `clip_grad_norm_`).
# - `schedule.step()` runs once after each step of the optimizer, not after each batch.
# - Each epoch ends with an evaluation in eval mode and off the tape: the mean loss over all validation examples
#   (section 14).
# - The weights of the epoch with the lowest validation loss are kept as a copy (section 15).

# %% tags=["demo"]
def my_loop(model, batches, val_batches, optimizer, schedule, loss_fn, epochs):
    """Return the validation loss after each epoch, and a copy of the best epoch's weights."""
    # Your code here.


# %% [markdown]
# The next three cells train the same network twice, once with `train` and once with your loop. The data are the 200
# digits with noisy labels of section 15, so the best epoch is not the last one. The rate rises over the first third of
# the steps. If your loop is right, the losses agree to all digits that are printed.

# %% tags=["demo"]
def train_with(loop, epochs=10):
    """What a loop returns for a small network and the 200 digits with noisy labels."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    held_out = stratified_split(digits.labels, (0.6, 0.2, 0.2), seed=0)[1]
    batches = list(TensorLoader(digits.images[few], noisy, batch_size=45))
    val_batches = list(
        TensorLoader(digits.images[held_out], digits.labels[held_out], batch_size=250)
    )
    return loop(model, batches, val_batches, optimizer, nn.CrossEntropyLoss(), epochs)


# %% tags=["demo"]
def warm_up(optimizer, steps):
    return LinearLR(optimizer, start_factor=0.05, total_iters=steps // 3)


def reference_loop(model, batches, val_batches, optimizer, loss_fn, epochs):
    history = train(
        model, batches, val_batches, optimizer, loss_fn, epochs,
        accumulate=3, max_norm=0.5, schedule=warm_up,
    )
    return [row.val_loss for row in history.rows], history.best_state


def loop_with_schedule(model, batches, val_batches, optimizer, loss_fn, epochs):
    schedule = warm_up(optimizer, epochs * math.ceil(len(batches) / 3))
    return my_loop(model, batches, val_batches, optimizer, schedule, loss_fn, epochs)


# %% tags=["demo"]
(losses, weights), mine = train_with(reference_loop), train_with(loop_with_schedule)
for epoch, loss in enumerate(losses):
    yours = "nothing yet" if mine is None else f"≈ {mine[0][epoch]:.3f}"
    print(f"validation loss of epoch {epoch + 1}: train ≈ {loss:.3f}, my_loop {yours}")
if mine is not None:
    gap = max(float((mine[1][name] - weights[name]).abs().max()) for name in weights)
    print(f"largest difference between the best weights: {gap:.0e}")

# %% [markdown]
# If the losses differ, print the number of optimizer steps first: there are two in an epoch. With the right number of
# steps, look at the weight of each batch in its window, then at the schedule, then at the clipping. If the losses agree
# and the best weights differ, look at the copy.
#
# **Recap.** Find the rate, train with the one-cycle schedule, keep the weights of the lowest validation loss, and
# report the accuracy on a test part that you did not use for any choice.

# %% [markdown]
# ## 18 Reproducibility: the same run tomorrow
#
# **Goal.** Make a run that can be repeated, and record enough to compare it with another.
#
# | layer | what changes unnoticed | what to keep |
# |---|---|---|
# | code | an edit after the run | the commit, and whether files differ from it |
# | config | a number that was changed by hand | every setting, as data |
# | data | another file, another split | an id computed from the content of each |
# | seed | first weights, order, dropout | the seed, used by everything that draws random numbers |
# | environment | versions, processor, precision | the versions, the hardware, the precision |
#
# A seed fixes only one layer of the five, and only if nothing else draws from its stream. The next cells train a small
# network once and then repeat this training twice, always with the same seed. In one of the two repetitions, a single
# random number is drawn after the seed is set and before the network is made. Predict how many of the two repetitions
# end with exactly the same weights as the first run.

# %% tags=["demo"]
predict("seeds", None)


# %% tags=["demo"]
def seeded_run(draws):
    set_seed(0)
    torch.rand(draws)
    linear = nn.Linear(64, 10)
    sgd = torch.optim.SGD(linear.parameters(), lr=0.1)
    points, labels = digits.images[:256].flatten(1), digits.labels[:256]
    rows = TensorLoader(points, labels, batch_size=32, shuffle=True, seed=0)
    train(linear, rows, rows, sgd, nn.CrossEntropyLoss(), epochs=2)
    return linear.weight.detach()


# %% tags=["demo"]
first = seeded_run(draws=0)
differences = [(first - seeded_run(draws)).abs().max().item() for draws in (0, 1)]
print(f"nothing drawn in between: largest difference {differences[0]:g}")
print(f"one number drawn in between: largest difference ≈ {differences[1]:.1f}")

# %% tags=["demo"]
reveal("seeds", differences.count(0.0), usual={
    2: "The seed is the same, but one draw moves the stream, so the first weights differ.",
    0: "On one machine, with the same threads, the same program repeats bit for bit.",
})

# %% [markdown]
# One of the two repeats the first run exactly. The other ends with different weights, because one extra draw moved the
# random stream. This is why the loaders here have a generator of their own, and why an evaluation must not draw from
# the stream of the training.
#
# A seed does not control the last layer, the environment. Floating-point sums depend on their order. With a different
# number of threads, a different GPU or a different library version, the terms are added in a different order. Some GPU
# operations use a different order in every run.
#
# `torch.use_deterministic_algorithms(True)` helps where the order changes from run to run. Where an operation has a
# deterministic implementation, PyTorch uses it. Where it has none, PyTorch raises an error. On NVIDIA GPUs the matrix
# library cuBLAS also needs the environment variable `CUBLAS_WORKSPACE_CONFIG=:4096:8`, set before the program starts.
# Leave `torch.backends.cudnn.benchmark` at `False`, its default. With `True`, cuDNN times several algorithms and
# takes the fastest, which can differ from run to run. All this costs speed, and sometimes memory. It does not fix the
# order of your data, the seeds of worker processes, the versions of libraries or the hardware. You have to fix and
# record these yourself.
#
# The next cells show sums that depend on their order, what the switch does to an operation without a deterministic
# implementation, and what determinism costs. The cost is measured for cuDNN's convolutions, which run on NVIDIA GPUs.
# Without such a GPU there is nothing to measure.

# %% tags=["demo"]
print("(0.1 + 0.2) + 0.3 =", (0.1 + 0.2) + 0.3)
print("0.1 + (0.2 + 0.3) =", 0.1 + (0.2 + 0.3))

# %% tags=["demo", "nbval-ignore-output"]
numbers = torch.rand(1_000_000, generator=torch.Generator().manual_seed(0))
threads = torch.get_num_threads()
for count in (1, 2, 4):
    torch.set_num_threads(count)
    print(f"a million numbers, {count} threads: the sum is {numbers.sum():.4f}")
torch.set_num_threads(threads)

# %% tags=["demo"]
torch.use_deterministic_algorithms(True)
try:
    # Two values for the same place: which of them remains?
    torch.zeros(3).put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
except RuntimeError as error:
    print(str(error).split(",")[0])
finally:
    torch.use_deterministic_algorithms(False)


# %% tags=["demo"]
def seconds(deterministic):
    """Return the time of 20 forward and backward passes, in seconds."""
    torch.backends.cudnn.deterministic = deterministic
    timed, rows = make_model(0).to("cuda"), digits.images[:64].to("cuda")
    began = time.perf_counter()
    for _ in range(20):
        timed(rows).square().mean().backward()
    timed[0].weight.grad.sum().item()  # waits for the GPU
    return time.perf_counter() - began


# %% tags=["demo", "nbval-ignore-output"]
if torch.cuda.is_available():
    warm_up = seconds(False), seconds(True)
    rounds = [(seconds(False), seconds(True)) for _ in range(6)]
    torch.backends.cudnn.deterministic = False
    free, deterministic = (min(times) for times in zip(*rounds, strict=True))
    print(f"deterministic convolutions take {deterministic / free:.2f} times as long here")
else:
    print("CUDA GPUs here:", torch.cuda.device_count())

# %% [markdown]
# The first two sums differ in the last digit. The sum of a million numbers can change with the number of threads,
# because each thread adds up a part of them. No switch covers that: run with the same number of threads. Bit-for-bit
# equality is useful when you look for a bug. When you compare two methods, check that the conclusion is the same for
# several seeds.
#
# The last step is to write everything down. `RunRecord` collects the code, the environment and the times by itself. You
# pass it the settings, the seed and the ids of the data. `content_id` computes a name for data or a split from its
# content: if one label changes, the name changes. Without such a record, you cannot tell later why two runs differ.

# %% tags=["demo"]
settings = {"epochs": 8, "batch_size": 64, "optimizer": "AdamW", "schedule": "one-cycle"}
settings["max_lr"] = sweep.suggestion
ids = {"data_id": content_id(pixels, classes), "split_id": content_id(*parts)}
with RunRecord.start(settings, seed=0, device=device, **ids) as record:
    for row in history.rows:
        record.log(**asdict(row))
print([name for name, entry in asdict(record).items() if entry not in (None, [], "")])


# %% [markdown]
# The record has every layer: `code`, `config`, `data_id` and `split_id`, `seed`, `hardware` and `precision`. It also
# has the result, `metrics`.
#
# ### Question 03a-recipe · 6 points
#
# Write `run_recipe(build_model, x, y, split, config)`. It trains a network and returns it with the record of the run.
#
# - `build_model()` creates the network and draws its initial weights from torch's global random number generator. The
#   network may contain dropout. `x` (float32) and `y` (int64) are inputs and class indices. `split` is a pair of
#   int64 index tensors: training rows and validation rows. A row may be in neither. Do not change these tensors.
# - `config` has `epochs`, `batch_size`, `learning_rate` and `seed`, and the run must use all four. Train with an
#   optimizer from `torch.optim` (AdamW is a good choice), and feed the network the training rows exactly as they are
#   given. Each epoch has a new random order, and no row occurs in it twice. Each step uses the gradients of
#   `batch_size` rows and no others. The last batch of an epoch may be smaller or be left out. The highest learning rate
#   that any step uses is between 80 % and 100 % of `learning_rate`. A schedule may use lower rates in other steps.
# - Everything random depends on the seed. The same seed gives the same weights bit for bit; another seed gives other
#   first weights and another order.
# - The network that you return has the weights of the epoch with the lowest validation loss.
# - The record is a `RunRecord`, or a dict with these names:
#   - `config` and `seed`.
#   - `data_id`: the `content_id` of `x, y`.
#   - `split_id`: the `content_id` of the two parts, as two arguments.
#   - `precision`: here `"fp32"`.
#   - `code`: a dict with the `commit` as a string. If there is no commit, it has a `reason` as a string instead, and
#     `commit` may be `None`.
#   - `hardware`: a dict with the versions `python` and `torch`.
#   - `metrics`: one row for each epoch, with `val_loss` (the mean cross-entropy of the validation rows in eval mode,
#     without smoothing) and `val_metric` (the fraction of correct predictions).
#   - `status`: `"finished"`.
#
# Everything in the library may be used. A fifth of the labels in `y` are wrong. Hidden cases: accuracy of at least 55 %
# on examples that are not given to your notebook 1 point, the rows and settings of the run 1, the seed 1, config, seed
# and data in the record 1, code and environment 1, correct metrics 1. The parts on the seed and on code and environment
# give points only if the accuracy is reached. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Order matters: what has to happen before the first weights are drawn?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `train` calls `on_epoch` with the row of each epoch. The history that `train` returns also has `best_state`. Use the
# record in a `with` block: it then sets the status by itself.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-recipe", "locked": false, "schema_version": 3, "solution": true, "task": false}
def run_recipe(build_model, x, y, split, config):
    """Return the network with its best weights, and the record of the run."""
    ### BEGIN SOLUTION
    generator = set_seed(config["seed"])
    model = build_model()
    rate, size = config["learning_rate"], config["batch_size"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    sets = [torch.utils.data.TensorDataset(x[rows], y[rows]) for rows in split]
    train_loader = torch.utils.data.DataLoader(sets[0], size, shuffle=True, generator=generator)
    val_loader = torch.utils.data.DataLoader(sets[1], batch_size=256)
    names = {"data_id": content_id(x, y), "split_id": content_id(*split)}
    with RunRecord.start(config, seed=config["seed"], **names) as record:
        history = train(
            model, train_loader, val_loader, optimizer, nn.CrossEntropyLoss(), config["epochs"],
            on_epoch=lambda row: record.log(**asdict(row)),
        )
    model.load_state_dict(history.best_state)
    return model, record
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-recipe-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03a-recipe", run_recipe)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-recipe", run_recipe)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Code, config, data, seed, environment: record all five layers. The last bits of the weights depend on all
# five. The conclusion should not depend on the seed or the environment.

# %% [markdown]
# ## 19 Two habits that are not the same
#
# **Goal.** Tell `model.eval()` from `torch.no_grad()`.
#
# Both appear in every evaluation loop, side by side, so they are easily taken for two halves of the same thing. The
# next cell uses dropout to show the difference. A thousand ones go through one dropout layer four times: in train mode
# and in eval mode, each with and without the tape. Predict for how many of the four the output is all ones.

# %% tags=["demo"]
predict("eval", None)

# %% tags=["demo"]
torch.manual_seed(0)
layer, ones = nn.Dropout(0.5), torch.ones(1000)
rows = {}
for mode in ("train", "eval"):
    layer.train(mode == "train")
    rows[f"{mode}, with tape"] = layer(ones)
    with torch.no_grad():
        rows[f"{mode}, no_grad"] = layer(ones)
for name, row in rows.items():
    print(f"{name:16s} zeros: ≈ {int((row == 0).sum())} of 1000")

# %% tags=["demo"]
reveal("eval", sum(bool((row == 1).all()) for row in rows.values()), usual={
    3: "no_grad() in train mode does not stop dropout.",
    1: "Eval mode alone is enough: dropout does not look at the tape.",
})

# %% [markdown] nbgrader={"grade": false, "grade_id": "03a-p5-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Two of the four outputs are all ones. Only the mode decides what dropout does. `no_grad` does not change it.
#
# ### Question 03a-p5 · 2 points, graded by hand
#
# `model.eval()` and `torch.no_grad()` are not two names for the same thing. Say what each of them changes. Describe a
# case in which you need both, and say what goes wrong there without the first, and without the second. Five sentences
# are enough.
#
# Graded on: what `eval()` changes (0.5), what `no_grad()` changes (0.5), an example that needs both (0.5), what goes
# wrong without each (0.5).
#
# <details><summary>Hint</summary>
#
# Name one layer that computes something else in training, and one resource that is used up when a graph is kept.
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03a-p5", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# `eval()` switches the layers that behave differently in training: dropout stops dropping, and batch normalisation uses
# its stored statistics. `no_grad()` changes no layer; it stops autograd from recording. A validation loop over a
# network with dropout needs both. Without `eval()` the score is noisy and usually too low. Without `no_grad()` every
# forward pass builds a graph that nobody uses, which costs time, and memory for as long as the loss is kept.

# %% [markdown]
# ## What to take away
#
# | stage | what to do | what it costs you to skip it | section |
# |---|---|---|---|
# | build | register every parameter and every buffer | weights that silently never train | [5](#5-Module:-what-belongs-to-a-model) |
# | batch | look at shape, dtype, range, classes, pictures | broken batches that raise no error | [6](#6-Batch:-what-the-model-is-about-to-see) |
# | feed | measure the loader alone, then change its options | a processor that waits | [6](#6-Batch:-what-the-model-is-about-to-see) |
# | accumulate | divide the sum of the examples' losses by their number in the window | a learning rate that depends on the epoch's last batch | [8](#8-Accumulation:-a-batch-that-does-not-fit) |
# | clip | one norm for all parameters; log the norm before clipping | a step in the wrong direction, or a ruined training run | [9](#9-Clipping:-limit-the-length,-keep-the-direction) |
# | precision | know range and digits; measure on your hardware | gradients that vanish, or no gain at all | [7](#7-Precision:-range-and-digits) |
# | rate | 100 steps of the finder; name the rule | a network that has learned little after two epochs | [10](#10-Rate:-how-large-a-step) |
# | train | zero, backward, clip, step; copy the best weights | old gradients, weights of the last epoch | [15](#15-The-best-epoch:-a-copy,-not-a-reference) |
# | metric | choose it first; add up counts over batches, then divide once | a good loss and a useless model | [13](#13-Loss-and-metric:-two-different-questions) |
# | evaluate | off the tape, in eval mode, means over examples | a score that you cannot trust | [14](#14-Evaluation:-measure-and-change-nothing) |
# | save | the whole state, written completely or not at all | a run that cannot be continued | [16](#16-Save-and-resume:-the-same-weights-to-the-last-bit) |
# | record | code, config, data, seed, environment, metrics | other weights from the same seed, and no way to find out why | [18](#18-Reproducibility:-the-same-run-tomorrow) |
#
# ## Where you are
#
# The next cell sums up the visible checks that ran in this session.

# %% tags=["demo"]
show_progress("03a")

# %% [markdown]
# When you are satisfied with the checks, save the notebook and run `lecture submit --id YOUR-ID --name "Your Name"` in
# a terminal, in the folder of the course and with its environment active. The command packs your notebooks and tells
# you which answers are still missing.
