# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 03b · The debug ladder
#
# Programs that crash are easy to debug. This notebook is about programs that run, print a falling loss, and are wrong.
# The ladder is a fixed order of checks. It starts at the data and ends at the errors of the finished model. Its one
# rule is: never skip a rung.
#
# How to work: predict, run, read, answer. Numbers after ≈, and those in figures and long reports, differ a little from
# computer to computer. Each question has a visible check below it. Points come from hidden tests on other inputs. Two
# questions in words, with 2 points each, and a debugging note with 4 points are graded by hand.
#
# Unless a question says otherwise, a function leaves its arguments as they are, and gives the same result when it is
# called again. It gets contiguous tensors on the CPU, and PyTorch has its default settings.
#
# Limits for each cell while your answers are graded: 30 s of CPU time, 120 s of wall-clock time, 3 GB of memory, 64
# processes, 256 MB of files and 1 MB of output. A cell that exceeds a limit loses only its own question.
#
# | rung | what you look at | what it catches | points |
# |---|---|---|---|
# | 1 | the data: shapes, dtypes, ranges, labels, the split | most bugs that look like model bugs | 10 |
# | 2 | baselines: a constant answer, a linear model | scores that mean nothing | 4 |
# | 3 | overfitting one batch | broken wiring: loss, labels, gradients | 10 |
# | 4 | a small subset | a pipeline that does not learn from data | 3 |
# | 5 | the learning-rate finder | a rate that is off by powers of ten | 3 |
# | 6 | the full run, then regularisation | overfitting, schedules, evaluation | 10 |
# | 7 | error analysis | what to do next | 8 |
#
# The points of the other parts: a zoo of broken programs (12 points), splits and distribution shift (16), experiments
# with one change at a time (8), the way to debug a training script of your own (no points), and at the end a script
# with unknown faults, which you repair with the whole ladder (16). Splits and shift decide whether a validation score
# means anything.
#
# **Contents**, with minutes for reading and for each question, about nine hours in all:
#
# | section | minutes | questions, minutes |
# |---|---|---|
# | [The program that you take along](#The-program-that-you-take-along) | 5 | |
# | [Rung 1 · Look at the data](#Rung-1-·-Look-at-the-data) | 15 | [03b-inspect](#Question-03b-inspect-·-10-points) 20 |
# | [Rung 2 · Baselines](#Rung-2-·-Baselines) | 13 | [03b-baseline](#Question-03b-baseline-·-4-points) 12 |
# | [Rung 3 · Overfit one batch](#Rung-3-·-Overfit-one-batch) | 25 | [03b-overfit](#Question-03b-overfit-·-10-points) 25 |
# | [Rung 4 · A small subset](#Rung-4-·-A-small-subset) | 15 | [03b-subset](#Question-03b-subset-·-3-points) 10 |
# | [Rung 5 · The learning rate](#Rung-5-·-The-learning-rate) | 20 | [03b-lr](#Question-03b-lr-·-3-points) 12 |
# | [The bug zoo](#The-bug-zoo) | 35 | [03b-fix](#Question-03b-fix-·-12-points) 20 |
# | [Rung 6 · The full run and its curves](#Rung-6-·-The-full-run-and-its-curves) | 12 | [03b-curves](#Question-03b-curves-·-8-points) 18 |
# | [Rung 6 · Close the gap](#Rung-6-·-Close-the-gap) | 15 | |
# | [Rung 6 · Reading a gap](#Rung-6-·-Reading-a-gap) | 2 | [03b-p4](#Question-03b-p4-·-2-points,-graded-by-hand) 8 |
# | [Validation · Splits and leakage](#Validation-·-Splits-and-leakage) | 12 | [03b-split](#Question-03b-split-·-8-points) 18 |
# | [Validation · Shift](#Validation-·-Shift) | 15 | [03b-shift](#Question-03b-shift-·-8-points) 20 |
# | [Rung 7 · What next?](#Rung-7-·-What-next?) | 25 | [03b-buckets](#Question-03b-buckets-·-8-points) 15 |
# | [Ablations](#Ablations) | 13 | [03b-ablate](#Question-03b-ablate-·-6-points) 12 |
# | [One change at a time: a GPU that waits](#One-change-at-a-time:-a-GPU-that-waits) | 2 | [03b-p2](#Question-03b-p2-·-2-points,-graded-by-hand) 8 |
# | [The whole climb](#The-whole-climb) | 20 | |
# | [Your own program](#Your-own-program) | 25 | |
# | [An unknown script](#An-unknown-script) | 5 | [03b-debug](#Question-03b-debug-·-12-points) 40, [03b-note](#Question-03b-note-·-4-points,-graded-by-hand) 15 |
#
# After the bug zoo you have done two fifths, which is a good place for a break.

# %% tags=["setup"]
import math

import numpy as np
import torch
from matplotlib import pyplot as plt
from torch import nn

from lecture_lib.analysis import bucket_errors, ceiling_analysis, collect_outputs, diagnose
from lecture_lib.data import TensorLoader, check_contract, chronological_split, grouped_split
from lecture_lib.data import leakage_report, load_digits, shapes, shift_report, stratified_split
from lecture_lib.debugging import Program, Spec, climb
from lecture_lib.experiments import RunRecord, ablate, compare_records
from lecture_lib.notebook import (
    check, choose_rate_by_hand, label_mistakes, predict, quiz, reveal, show_figure, show_gains,
    show_images, show_losses, show_progress, show_runs, show_splits
)
from lecture_lib.notebook.questions.debug import SCRIPT, run_script, script_program
from lecture_lib.notebook.questions.zoo import CHECKLIST, gap_after, small_run
from lecture_lib.notebook.quiz_texts import FLAT_LOSS, NEXT_STEP
from lecture_lib.training import evaluate, find_lr, one_cycle, train

# %% [markdown]
# ## Before you start: a pop quiz
#
# You wrote a model and started training. The loss has been flat for 100 steps. Which of these four do you do first?
#
# - (a) Divide the learning rate by ten.
# - (b) Replace SGD with AdamW.
# - (c) Check whether the model can memorise four examples.
# - (d) Add layers.
#
# Pick one and put its letter, in quotes, in place of `None`. The answers come at the end of the notebook, when you have
# climbed the ladder once.

# %% tags=["demo"]
quiz("flat-loss", None, dict.fromkeys("abcd", "Recorded. The answer comes at the end."))

# %% [markdown]
# ## The program that you take along
#
# One small program climbs the ladder with you. It classifies small drawings (20 × 20 pixels): nothing (0), circle (1),
# square (2), triangle (3) and cross (4). On most rungs you first see a fault in a small example. Then you apply the
# same check to this program, and later rungs use the results: the counts of rung 1, the baselines of rung 2, the rates
# of rungs 3 and 5, the loss of rung 4, the networks of rung 6. Below are its data, its network and a few of its images.
# `stratified_split` keeps the share of each class in both parts; 40 % train the network, so that overfitting will show,
# and 60 % validate it. `TensorLoader` cuts tensors into batches. One training run takes about a second.

# %% tags=["setup"]
# no images of the difficulty "threshold"
drawn = shapes(2000, seed=0, size=20, rates={"threshold": 0})
in_train, in_val = stratified_split(drawn.labels, (0.4, 0.6), seed=0)
val_loader = TensorLoader(drawn.images[in_val], drawn.labels[in_val], batch_size=600)
cross_entropy = nn.CrossEntropyLoss()


def train_batches(rows=in_train, seed=0, images=drawn.images):
    """Shuffled batches of 32 of these rows."""
    order = {"batch_size": 32, "shuffle": True, "seed": seed}
    return TensorLoader(images[rows], drawn.labels[rows], **order)


# %% tags=["setup"]
def network(seed=0, dropout=0.0):
    """Two convolutions and a linear layer: images [N, 1, 20, 20] to logits [N, 5]."""
    torch.manual_seed(seed)
    first = nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.BatchNorm2d(16), nn.ReLU()
    second = nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()
    last = nn.Flatten(), nn.Dropout(dropout), nn.Linear(32 * 5 * 5, 5)
    return nn.Sequential(*first, *second, *last)


# %% tags=["demo"]
show_images(drawn.images[:8], drawn.labels[:8], "Eight of the 2,000 images, with their labels.")

# %% [markdown]
# ## Rung 1 · Look at the data
#
# **Goal.** Meet a program with a good training accuracy and a useless validation score, and find the one line that
# caused it.
#
# Suppose that a notebook generates two half moons, point after point along each arc: first
# all of class 0, then all of class 1. It takes the last 20 % for validation, without shuffling. The code below does the
# same. Predict the number of classes in the validation part.

# %% tags=["demo"]
predict("classes", None)


# %% tags=["setup"]
def two_moons(n_per_class=200, seed=0):
    """Two half moons in order, class 0 first and then class 1: inputs [2n, 2], labels [2n]."""
    generator = torch.Generator().manual_seed(seed)
    angle = torch.linspace(0, math.pi, n_per_class)
    upper = torch.stack([angle.cos(), angle.sin()], dim=1)
    lower = torch.stack([1 - angle.cos(), 0.5 - angle.sin()], dim=1)
    noise = 0.1 * torch.randn(2 * n_per_class, 2, generator=generator)
    labels = torch.arange(2).repeat_interleave(n_per_class)
    return torch.cat([upper, lower]) + noise, labels


# %% tags=["demo"]
x, y = two_moons()
first_of_validation = int(0.8 * len(y))
stacked = (torch.arange(first_of_validation), torch.arange(first_of_validation, len(y)))

# %% tags=["demo"]
reveal("classes", len(y[stacked[1]].unique()), tolerance=0, usual={
    2: "Both classes would be there if the rows had been shuffled before the split.",
})


# %% [markdown]
# The validation part holds only one class. All its points come from the end of that class's arc, where training has
# none. The code below trains the same network twice: on this split and on a stratified one. Nothing else differs.

# %% tags=["setup"]
def train_on(x, y, split, seed=0):
    """Train a small network on one split; return training and validation accuracy."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x_train, y_train = x[split[0]], y[split[0]]
    shuffled = TensorLoader(x_train, y_train, batch_size=32, shuffle=True, seed=seed)
    parts = [TensorLoader(x[part], y[part], batch_size=500) for part in split]
    train(model, shuffled, parts[1], optimizer, nn.CrossEntropyLoss(), epochs=30)
    return [evaluate(model, part, nn.CrossEntropyLoss()).metric for part in parts]


# %% tags=["demo"]
stratified = stratified_split(y, (0.8, 0.2), seed=0)
accuracy = {"stacked": train_on(x, y, stacked), "stratified": train_on(x, y, stratified)}
for name, (on_train, on_val) in accuracy.items():
    print(f"{name}: training ≈ {100 * on_train:.0f} %, validation ≈ {100 * on_val:.0f} %")

# %% tags=["demo"]
show_splits(
    x,
    y,
    {"stacked": stacked, "stratified": stratified},
    caption="Stacked, validation is the end of one moon; stratified, it covers both.",
    alt="Two scatter plots of two half moons, class 0 above, class 1 below. Left, all validation "
    "points are of class 1, at the right end of its moon. Right, they are spread over both.",
)

# %% [markdown]
# Both networks fit their training part. On the stacked split the trained network does much worse than a coin on
# validation. The score shows that something is wrong. The training loss does not show the cause. Counting the classes
# of each part shows that the split is not random. Its validation points also lie where training has none, and this is
# why the accuracy is so low. The cause is the line `stacked = …`.
#
# ### Our program on rung 1
#
# Count the classes in both parts, compare a batch with the contract of its task (dtype, shape and range of inputs and
# labels; see 03a), and look for rows that are in both parts. Each takes one line.

# %% tags=["demo"]
counts = torch.bincount(drawn.labels[in_train])
print(f"training: {counts.tolist()} images of each class")
print(f"validation: {torch.bincount(drawn.labels[in_val]).tolist()} images of each class")
first_batch = next(iter(train_batches()))
print("contract:", check_contract("classification", *first_batch, classes=5) or "met")
print("leakage:", leakage_report(drawn.images[in_train], drawn.images[in_val]))


# %% [markdown]
# Crosses are rare: 30 images of 800. The split keeps that share, the batch meets the contract, and no image is in
# both parts. Rung 1 *holds*: it finds no fault. Rung 2 needs the counts, and rung 7 needs the rare class.
#
# ### Question 03b-inspect · 10 points
#
# Write `inspect_data(x_train, y_train, x_val, y_val, classes)`. It gets the inputs `[N, features]` and the labels
# `[N]` of both parts as tensors, and the number of classes. Return the *set* of the names of all problems that the
# data set has; it can have several, and a clean one gives the empty set. Each condition looks at both parts:
#
# - `"range"`: some input is larger than 10 in absolute value. (Standardised inputs hardly exceed ±5.)
# - `"dtype"`: inputs that are not floating point, or labels that are not `torch.long`, in either part.
# - `"labels"`: a label outside 0 … `classes` − 1.
# - `"duplicates"`: a row of `x_train` that occurs, number for number, in `x_val` too, whatever its label. Compare the
#   values, not the dtypes: 2 in `int64` equals 2.0 in `float32`. Nearly equal numbers are not equal. (A repeat *within*
#   one part is not a leak.)
# - `"class-stacked"`: a label, valid or not, that occurs in only one of the two parts. Here too, compare the values,
#   not the dtypes.
#
# Hidden cases: 2 points for each problem that you report for every data set that has it, and for no other. Limit: 30
# seconds.
#
# <details><summary>What the hidden cases may hold</summary>
#
# Inputs are between -1000 and 1000, as `torch.float16`, `float32` or `float64` or, by mistake, as `int32` or `int64`.
# Labels are whole numbers from -100 to 100, as `torch.long` or, by mistake, as `int16`, `int32`, `float32` or
# `float64`. There are at most 100 classes. N may be 1 in one part or in both, and is at most 1,100. A row has 1 to 12
# numbers. The two parts may have different N, and the tensors may have different dtypes.
#
# </details>
# <details><summary>Hint 1</summary>
#
# Write the five conditions one at a time and run the check after each: it has two or more data sets for each problem,
# and some clean ones.
#
# </details>
# <details><summary>Hint 2</summary>
#
# For duplicates, compare every row of one part with every row of the other. Tuples of numbers can be put into a set.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-inspect", "locked": false, "schema_version": 3, "solution": true, "task": false}
def inspect_data(x_train, y_train, x_val, y_val, classes):
    """The set of problem names: range, dtype, labels, duplicates, class-stacked."""
    ### BEGIN SOLUTION
    inputs, labels = (x_train, x_val), (y_train, y_val)
    train_rows, val_rows = ({tuple(row) for row in x.tolist()} for x in inputs)
    conditions = {
        "range": any((x.abs() > 10).any() for x in inputs),
        "dtype": not all(x.is_floating_point() for x in inputs)
        or any(y.dtype != torch.long for y in labels),
        "labels": any(((y < 0) | (y >= classes)).any() for y in labels),
        "duplicates": not train_rows.isdisjoint(val_rows),
        "class-stacked": set(y_train.tolist()) != set(y_val.tolist()),
    }
    return {name for name, present in conditions.items() if present}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-inspect-test", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
check("03b-inspect", inspect_data)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-inspect", inspect_data)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Each of the five conditions is one line of code. A check that also fires on healthy data is harmful: you
# learn to ignore it.

# %% [markdown]
# ## Rung 2 · Baselines
#
# **Goal.** Know three numbers before the first epoch.
#
# - *Majority accuracy*: always predict the class that is most frequent in training. If 95 % of the examples are of one
#   class, this scores 95 % without having learned anything.
# - *Constant loss*: predict the training frequencies for every input. A model that uses its input has to reach a lower
#   cross-entropy on the validation labels than this constant answer.
# - *Initial loss*: a new network whose logits are near zero gives every class the probability $1/C$, so its loss is
#   $\ln C$. Predict it for 10 classes, in nats (natural logarithm).

# %% tags=["demo"]
predict("initial", None)

# %% tags=["demo"]
even = torch.zeros(1, 10), torch.tensor([3])

# %% tags=["demo"]
reveal("initial", nn.functional.cross_entropy(*even).item(), usual={
    3.32: "That is log2 of 10: a loss in bits. PyTorch's losses are in nats.",
    1: "That is log10 of 10.",
    0.1: "That is the probability of each class. The loss is minus its logarithm.",
})

# %% [markdown]
# This holds only for logits *near zero*. The next cell gives one new network the digits scaled to 0 … 1 and then, by
# mistake, to 0 … 255, the range of ordinary pixels.

# %% tags=["demo"]
digits = load_digits()
torch.manual_seed(0)
fresh = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
with torch.no_grad():
    for largest in (1, 255):
        first_loss = cross_entropy(fresh(digits.images * largest), digits.labels).item()
        print(f"inputs from 0 to {largest}: first loss ≈ {first_loss:.1f}")

# %% [markdown]
# A first loss far above $\ln C$ tells you about the inputs or the initialisation before any training.
#
# The initial weights matter as well. People often say that PyTorch's `nn.Linear` uses Kaiming initialisation and
# therefore suits ReLU. It does call `kaiming_uniform_`, but with `a=math.sqrt(5)`. With $n$ inputs the weights are
# then uniform between $-1/\sqrt{n}$ and $1/\sqrt{n}$, and their standard deviation is $1/\sqrt{3n}$. For ReLU,
# Kaiming He proposed $\sqrt{2/n}$. The next cell computes the ratio of He's value to PyTorch's, once from the
# formulas and once from a layer.

# %% tags=["demo"]
torch.manual_seed(0)
weights = nn.Linear(1000, 1000).weight
he = math.sqrt(2 / 1000)
print(f"by formula: {he * math.sqrt(3 * 1000):.2f}, in a layer: {he / weights.std().item():.2f}")

# %% [markdown]
# The ratio is 2.45 for any number of inputs. So the variance of PyTorch's weights is one sixth of the one proposed for
# ReLU.
#
# ### Our program on rung 2
#
# Predict the first loss of our network, which has five classes.

# %% tags=["demo"]
predict("five", None)

# %% tags=["demo"]
shares = counts / counts.sum()  # from rung 1
majority = (drawn.labels[in_val] == shares.argmax()).float().mean().item()
constant_loss = -shares[drawn.labels[in_val]].log().mean().item()
print(f"majority accuracy {100 * majority:.1f} %, constant loss {constant_loss:.3f}")
initial = evaluate(network(), val_loader, cross_entropy).loss

# %% tags=["demo"]
reveal("five", round(initial, 2), "nats", tolerance=0.05, usual={
    2.3: "That belongs to ten classes. Here there are five.",
    1.49: "That is the loss of the class frequencies. A new network does not know them.",
    2.32: "That is log2 of 5: a loss in bits. PyTorch's losses are in nats.",
})

# %% [markdown]
# The first loss is $\ln 5$, so it does not point to a wrong scale of the inputs. From here on, a network that does no
# better than 27 % and 1.49 has not shown that it learned anything from the pixels.
#
# One more baseline needs a little training: a *linear model*. A network that does no better gains nothing from its
# hidden layers. Their activation function may be missing.

# %% tags=["demo"]
torch.manual_seed(0)
linear = nn.Sequential(nn.Flatten(), nn.Linear(400, 5))
optimizer = torch.optim.Adam(linear.parameters(), lr=0.003)
history = train(linear, train_batches(), val_loader, optimizer, cross_entropy, epochs=10)
lowest = min(row.val_loss for row in history.rows)
print(f"linear model: lowest validation loss ≈ {lowest:.2f} nats")


# %% [markdown]
# A linear model does better than a constant answer. On rung 6 our network has to do clearly better than the linear
# model. Rung 2 asks no more before the training, so it holds.
#
# ### Question 03b-baseline · 4 points
#
# Write `baselines(y_train, y_val, classes)`. The labels are `torch.long` tensors, `[N]` with N from 1 to 60,000, of
# class indices from 0 to `classes` − 1. `classes`, from 2 to 2,000, is the number of the network's outputs. Some
# classes may occur in neither part, but every class of the validation part occurs in training. If several classes tie
# for the most frequent in training, they are equally frequent in validation too, so it does not matter which of them
# you predict. Return three numbers in this order:
#
# 1. the accuracy on the validation labels, as a fraction, if you always predict the most frequent training class;
# 2. the mean cross-entropy on the validation labels, in nats, if you predict the training frequencies for every input;
# 3. the loss, in nats, of a network that gives every output the same probability.
#
# An error of $10^{-6}$ is accepted.
#
# Hidden cases, balanced and skewed: 1, 2 and 1 points for the three numbers. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# You fit on one part and score on the other. For each of the three numbers: which argument do you need, and what for?
#
# </details>
# <details><summary>Hint 2</summary>
#
# The cross-entropy of one example is minus the logarithm of the probability that was given to its label.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-baseline", "locked": false, "schema_version": 3, "solution": true, "task": false}
def baselines(y_train, y_val, classes):
    """Majority accuracy, constant loss in nats, initial loss in nats."""
    ### BEGIN SOLUTION
    counts = torch.bincount(y_train, minlength=classes)
    majority_accuracy = (y_val == counts.argmax()).double().mean().item()
    probability_of_label = counts.double()[y_val] / counts.sum()
    constant_loss = probability_of_label.log().neg().mean().item()
    return majority_accuracy, constant_loss, math.log(classes)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-baseline-test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("03b-baseline", baselines)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-baseline", baselines)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Without a baseline you cannot tell whether a score is good. Report the score together with its baseline.

# %% [markdown]
# ## Rung 3 · Overfit one batch
#
# **Goal.** See why "the loss goes down" is not enough, and compare a loss with the lowest value that it should be
# able to reach.
#
# Suppose that a classifier ends with `nn.Softmax` and is trained with `CrossEntropyLoss`, which already applies a
# softmax. This *double softmax* is a frequent bug. It raises no error, the loss falls, and the accuracy on the batch
# reaches 100 %. But probabilities lie between 0 and 1, so the second softmax never sees a difference larger than 1. At
# best the first softmax gives 1 for the right class and 0 for the others, and the second one then gives the right class
# only $e/(e + C - 1)$. So the loss cannot fall below the limit $\ln(1 + (C - 1)/e)$. Predict this limit for 10 classes:
# near 0, 0.5 or 1.5?

# %% tags=["demo"]
predict("limit", None)


# %% tags=["setup"]
def overfit(model, x, y, steps=300, rate=0.01):
    """Train on one batch only; return the loss at every step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% tags=["demo"]
two_of_each = torch.cat([(digits.labels == digit).nonzero()[:2, 0] for digit in range(10)])
x_batch, y_batch = digits.images[two_of_each], digits.labels[two_of_each]
curves, learned, limit = {}, {}, math.log(1 + 9 / math.e)
for name, last in [("logits", nn.Identity()), ("double softmax", nn.Softmax(dim=1))]:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model = nn.Sequential(body, last)
    curves[name] = overfit(model, x_batch, y_batch)
    learned[name] = (model(x_batch).argmax(dim=1) == y_batch).float().mean().item()

# %% tags=["demo"]
reveal("limit", limit, usual={
    0: "With logits the loss can reach 0. A second softmax prevents that.",
    0.5: "The limit for 3 classes is close to that.",
})

# %% tags=["demo"]
show_losses(curves, "The loss on one batch with logits, and with a second softmax.", limit)

# %% tags=["demo"]
for name, losses in curves.items():
    percent = 100 * learned[name]
    print(f"{name}: loss after 300 steps ≈ {losses[-1]:.2f}, accuracy ≈ {percent:.0f} %")

# %% [markdown]
# The double softmax memorises the batch, and its loss stops at 1.46. So rung 3 does not ask "does the loss fall?" but
# "does it reach the floor?". The *floor* is the lowest value that the intended loss can reach. For class indices it
# is 0, and 1.46 is far above it. With label smoothing it is higher, and that is not a bug. PyTorch's smoothed targets
# are $(1 - \varepsilon)$ times the one-hot row plus $\varepsilon/C$ for every class. The best possible answer is
# exactly these targets, and its loss is the floor. Here $\varepsilon$ is the amount of smoothing, 0.1 below.

# %% tags=["demo"]
for classes in (2, 3, 10):
    print(f"double softmax, {classes} classes: {math.log(1 + (classes - 1) / math.e):.4f}")
smooth = 0.9 * torch.eye(10)[0] + 0.1 / 10
best = nn.functional.cross_entropy(smooth.log(), torch.tensor(0), label_smoothing=0.1)
print(f"label smoothing 0.1, 10 classes: {best:.4f}")

# %% [markdown]
# ### Which batch?
#
# The batch above holds two images of each class on purpose. The code below takes twenty images of the digit 3 instead
# and multiplies them all by zero, so the network sees nothing. A network is trained on this batch for 300 steps. A
# second one is trained on the mixed batch, also multiplied by zero. Predict: does the loss of the batch of threes go
# below 0.01, `"yes"` or `"no"`?

# %% tags=["demo"]
predict("threes", None)

# %% tags=["demo"]
threes = (digits.labels == 3).nonzero()[:20, 0]
blind = {}
for name, rows in [("threes", threes), ("mixed", two_of_each)]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    blind[name] = overfit(model, 0 * digits.images[rows], digits.labels[rows])[-1]
print(f"threes ≈ {blind['threes']:.3f}, mixed ≈ {blind['mixed']:.2f}; ln 10 is {math.log(10):.2f}")

# %% tags=["demo"]
reveal("threes", "yes" if blind["threes"] < 0.01 else "no", usual={
    "no": "That would need labels that differ: one label can be learned without any input.",
})

# %% [markdown]
# The last layer's bias can learn one class without any input, so a batch of one class lets a blind program pass. The
# mixed batch stops it at $\ln 10$: without inputs the network can only learn how frequent each class is.
#
# ### Our program on rung 3
#
# We train on two images of each class, for 100 steps of Adam, and raise the rate until the loss comes below 0.01. (The
# first loss differs from rung 2's because this is a small batch and the network is in training mode. For simplicity the
# last one is measured in training mode too, with a stricter limit than in the question below.)

# %% tags=["demo"]
two_of_each = torch.cat([(drawn.labels == kind).nonzero()[:2, 0] for kind in range(5)])
x_batch, y_batch = drawn.images[two_of_each], drawn.labels[two_of_each]
for first_rate in (0.0003, 0.003, 0.03):
    losses = overfit(network(), x_batch, y_batch, steps=100, rate=first_rate)
    print(f"rate {first_rate}: loss ≈ {losses[0]:.2f} at the start, ≈ {losses[-1]:.3f} at the end")
    if losses[-1] < 0.01:
        break


# %% [markdown]
# The floor is 0. At the second rate the network memorises the batch, so the wiring shows no fault, and rung 3 holds.
# Rung 4 trains with this rate.
#
# ### Question 03b-overfit · 10 points
#
# Write `overfit_rung(model, step, loss_fn, x, y, floor)`. `step(x, y)` is the program's own training step on one batch.
# `loss_fn(model(x), y)` is the mean loss of the batch. `floor` is the lowest value that the intended loss can reach, in
# nats. Return one of three words:
#
# - `"one class"` when all labels `y` are equal (then take no step);
# - `"holds"` when, after exactly 100 steps in training mode, the loss on the batch *in evaluation mode* is within 0.15
#   of the floor;
# - `"fails"` otherwise. If the loss is far *below* the floor, the program does not compute the loss that its author
#   intended, so it fails. A loss of `nan` fails as well.
#
# A check must leave no trace. Whatever the verdict, all parameters and all buffers have their old values afterwards,
# and every module is in training mode again.
#
# The hidden programs are healthy or broken. You get 3 points for programs that only the floor can judge (smoothed
# labels, a second softmax, a loss below the floor), 2 for programs with correct or broken wiring (including slow,
# diverging and normalised ones), 1 for programs whose loss differs between the two modes (as with dropout), and 1 for
# the verdict `"one class"`. If your verdicts on the wiring are right, you also get 1 point for making exactly 100 steps
# and 2 for putting the model back. Limit: 30 seconds.
#
# <details><summary>What the hidden cases may hold</summary>
#
# Inputs are float32 `[N, features]`, labels `torch.long` `[N]`, with `N` 1 or more. At the call, all modules are in
# training mode. Do not use what `step` returns. No program's final distance is close to 0.15. `state_dict()` leaves
# some buffers out; they must have their old values afterwards too. The optimizer's state, the gradients and torch's
# random stream are not checked.
#
# </details>
# <details><summary>Hint 1</summary>
#
# Write down what happens to a `nan` in your last comparison. Does `"holds"` or `"fails"` belong after `else`?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `model.state_dict()` returns the tensors that the model goes on training, not copies of them.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-overfit", "locked": false, "schema_version": 3, "solution": true, "task": false}
def overfit_rung(model, step, loss_fn, x, y, floor):
    """One of: holds, fails, one class."""
    ### BEGIN SOLUTION
    if len(y.unique()) == 1:
        return "one class"
    tensors = [*model.parameters(), *model.buffers()]
    before = [tensor.detach().clone() for tensor in tensors]
    for _ in range(100):
        step(x, y)
    model.eval()
    with torch.no_grad():
        loss = loss_fn(model(x), y).item()
        for tensor, old in zip(tensors, before, strict=True):
            tensor.copy_(old)
    model.train()
    return "holds" if abs(loss - floor) <= 0.15 else "fails"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-overfit-test", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
check("03b-overfit", overfit_rung)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-overfit", overfit_rung)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Compare the loss with the floor: a loss well above or well below it is a sign of a fault. Mix the classes.
# Measure in evaluation mode. And remember what rung 3 cannot see: permuted labels, a leaking split, a wrong evaluation.
# One batch can be memorised in all three cases. Overfitting one batch also cannot show that a model mixes the examples
# of a batch. For example, a recurrent layer without `batch_first=True` takes the examples for time steps. You can ask
# the model itself: change one example of a batch, in evaluation mode, and see which outputs change.

# %% tags=["demo"]
torch.manual_seed(0)
sequences = torch.randn(4, 6, 8)  # four examples, six time steps, eight features
changed = sequences.clone()
changed[0] += 1
for batch_first in (True, False):
    layer = nn.RNN(8, 16, batch_first=batch_first).eval()
    difference = (layer(changed)[0] - layer(sequences)[0]).abs().amax(dim=(1, 2))
    print(f"batch_first={batch_first}: output changed for each example:", (difference > 0).tolist())

# %% [markdown]
# With `batch_first=True` only the output of the changed example changes. Without it, all four change. For a model that
# must not see the future, change the last time step instead: no earlier output may change. `climb` asks both questions
# on this rung.

# %% [markdown]
# ## Rung 4 · A small subset
#
# **Goal.** Use a few short runs to decide whether a program learns anything from its data. Choose a criterion that a
# program without any knowledge rarely meets.
#
# Take 72 of the digits, train a small network on them for 100 steps, and validate on other digits. The score need not
# be good. It has to beat the *constant answer* of rung 2, and the difference must be larger than the variation between
# seeds. The seed decides which images are drawn and how the weights are initialised. A program with permuted labels
# passes rung 3, because it can memorise any batch. Predict its validation loss on this rung, compared with the constant
# answer's: `"lower"`, `"equal"` or `"higher"`?

# %% tags=["demo"]
predict("permuted", None)

# %% tags=["demo"]
gains = {}
for name, permuted in [("true labels", False), ("permuted labels", True)]:
    runs = [small_run(digits.images, digits.labels, seed, permuted) for seed in range(5)]
    gains[name] = [constant - loss for loss, constant in runs]
    listed = ", ".join(f"≈ {gain:.1f}" for gain in gains[name])
    print(f"{name}: gain by seed: {listed}")
higher = max(gains["permuted labels"]) < 0

# %% tags=["demo"]
reveal("permuted", "higher" if higher else "not the same for all seeds", usual={
    "equal": "Only a network that predicts the class frequencies is equal.",
    "lower": "Nothing that it has memorised holds for other images.",
})

# %% tags=["demo", "nbval-ignore-output"]
show_gains(gains, "Right of the line is better than the constant answer, left of it worse.")

# %% [markdown]
# The network has memorised wrong labels. It is confidently wrong on new images, so its loss is higher than that of the
# constant answer. Rung 3 cannot stop this program; rung 4 does.
#
# How often does chance alone meet a criterion? The *gain* of a program for a seed is how far its loss lies below that
# of the constant answer. The code below draws the gains of 100,000 programs that have learned nothing. With the
# criterion "the mean is positive", half of them pass. Now take the criterion "the mean is larger than twice the
# standard deviation between seeds", with three seeds. Predict the percentage of programs that pass.

# %% tags=["demo"]
predict("chance", None)

# %% tags=["demo"]
passed = {}
for seeds in (2, 3, 5):
    noise = torch.randn(100_000, seeds, generator=torch.Generator().manual_seed(0))
    passed[seeds] = (noise.mean(1) > 2 * noise.std(1)).float().mean().item()
print({seeds: f"{share:.0%}" for seeds, share in passed.items()})

# %% tags=["demo"]
reveal("chance", round(100 * passed[3]), "percent", tolerance=1, usual={
    50: "That many have a positive mean.",
    2.3: "That many lie more than two standard deviations above the mean.",
})

# %% [markdown]
# With two seeds, 11 % of the programs that have learned nothing pass. With five seeds it is 1 %. Two seeds are too few.
#
# ### Our program on rung 4
#
# We train on 160 of our images for ten epochs, with three seeds and the rate of rung 3. Each seed draws other images
# and other initial weights.

# %% tags=["demo"]
subset_gains = []
for seed in range(3):
    order = torch.randperm(800, generator=torch.Generator().manual_seed(seed))
    model = network(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=first_rate)
    subset = train_batches(in_train[order[:160]], seed)
    train(model, subset, val_loader, optimizer, cross_entropy, epochs=10)
    subset_gains.append(constant_loss - evaluate(model, val_loader, cross_entropy).loss)
mean, spread = torch.tensor(subset_gains).mean(), torch.tensor(subset_gains).std()
print(f"mean gain ≈ {mean:.2f} nats, twice the spread ≈ {2 * spread:.2f}")


# %% [markdown]
# The *spread* is the standard deviation between seeds. The mean gain is well above twice the spread. Our network learns
# from its images something that holds for other images, so rung 4 holds. On rung 6 we compare its validation loss with
# that from all 800 images.
#
# ### Question 03b-subset · 3 points
#
# Write `subset_rung(losses, constant)`. Both are float tensors `[seeds]` of the same dtype, for 2 to 1,200 seeds. For
# each seed, `losses` holds the validation loss of the program, and `constant` that of the constant answer on the same
# images. Lower is better. Where the program diverged, its loss is `nan` or `inf`. All other losses are between 0
# and 10. Return three values in this order:
#
# 1. the gain: how much lower the program's loss is than the constant answer's, in nats, as a mean over the seeds;
# 2. the spread: the standard deviation of that difference between seeds, with $n - 1$;
# 3. whether the rung holds: `True` when there are at least three seeds, none of them diverged, and the gain is above
#    twice the spread, otherwise `False`. In the hidden tables the gain is never close to twice the spread, and the
#    spread is never 0.
#
# A tensor with one number, or one truth value, is accepted for each. An error of $10^{-5}$ is accepted. Where a seed
# diverged, the first two values are not checked. Hidden tables, in float32 and float64: 1 point for each value. Limit:
# 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# A difficult draw of images raises both losses. Which single number per seed is free of that?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Compare `torch.std` and `numpy.std` on the two numbers 0 and 2.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-subset", "locked": false, "schema_version": 3, "solution": true, "task": false}
def subset_rung(losses, constant):
    """Gain in nats, spread in nats, whether the rung holds."""
    ### BEGIN SOLUTION
    gains = constant - losses
    gain, spread = gains.mean().item(), gains.std().item()
    finite = bool(gains.isfinite().all())
    return gain, spread, len(gains) >= 3 and finite and gain > 2 * spread
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-subset-test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("03b-subset", subset_rung)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-subset", subset_rung)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** A subset shows what one batch cannot: whether inputs and labels belong together. Compare within a seed, and
# ask how often chance would do as well.

# %% [markdown]
# ## Rung 5 · The learning rate
#
# **Goal.** Choose a learning rate from a sweep, and recognise a sweep that gives no usable rate.
#
# On the lower rungs, a rate that is too small and a wrong program look the same: the loss stays flat. Now the lower
# rungs hold, so a flat loss points to the rate. The learning-rate finder makes a *sweep*: about a hundred training
# steps, in which it multiplies the rate after every step and records the loss. In 03a you wrote one. There, several
# rules read the same curve, and their rates differed by a factor of ten or more. So name the rule when you quote a
# rate.
#
# ### Our program on rung 5
#
# Move the line to the rate that you would take; the arrow keys move it too. On a static page you see the curve with
# the library's suggestion.

# %% tags=["demo", "nbval-ignore-output"]
model = network()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
sweep = find_lr(model, train_batches(), optimizer, cross_entropy)
choose_rate_by_hand(sweep)

# %% tags=["demo"]
rate = sweep.suggestion
for rule, rate_by_rule in sweep.suggestions.items():
    print(f"{rule}: ≈ {rate_by_rule:.4f}")
print(f"rungs 3 and 4 used: {first_rate}")

# %% [markdown]
# The curve starts flat, falls, is low and noisy for a while, and then the losses of single batches jump. The three
# rules read its *trend*, an average over neighbouring rates, because the loss of a single batch is mostly noise. The
# shaded stretch is where the trend is near its lowest point. `valley_floor`, the library's suggestion, lies a third of
# the way across it. The other two take a tenth of the rate of the lowest point, and the rate where the trend falls most
# steeply. The results differ by a factor of less than ten, and the rate that memorised a batch on rung 3 lies between
# them.
#
# How much does the choice matter? The code below trains our program for four epochs with a one-cycle schedule (03a), as
# on rung 6, with three seeds for each rate. The highest rate of the schedule is a tenth of the suggestion, the
# suggestion, the lowest point of the trend, or ten times the suggestion. The code measures the loss on the *training*
# part, because a learning rate has to make the loss fall first of all. Predict which of the two mistakes leaves the
# higher training loss: `"ten times too small"` or `"ten times too large"`.

# %% tags=["demo"]
predict("mistake", None)


# %% tags=["demo"]
def loss_after_four_epochs(rate, seed, schedule=one_cycle):
    """Loss of our program on its training part in nats."""
    model, batches = network(seed), train_batches(seed=seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = schedule and schedule(rate)
    parts = model, batches, val_loader, optimizer, cross_entropy
    train(*parts, epochs=4, schedule=schedule)
    return evaluate(model, batches, cross_entropy).loss


choices = {"ten times too small": rate / 10, "suggestion": rate}
choices |= {"lowest point": sweep.lowest, "ten times too large": 10 * rate}
after = {}
for name, at in choices.items():
    losses = [loss_after_four_epochs(at, seed) for seed in range(3)]
    after[name] = np.mean(losses)
    print(f"{name}, ≈ {at:.4f}: loss ≈ {after[name]:.2f} "
          f"(≈ {min(losses):.2f} to ≈ {max(losses):.2f})")

# %% tags=["demo"]
reveal("mistake", max(after, key=after.get), usual={
    "ten times too large": "At a constant rate it does. Here the schedule lowers the rate.",
})

# %% tags=["demo"]
for name in ("ten times too small", "ten times too large"):
    losses = [loss_after_four_epochs(choices[name], seed, schedule=None) for seed in range(3)]
    print(f"{name}, at a constant rate: loss ≈ {np.mean(losses):.2f}")


# %% [markdown]
# The lowest point does about as well as the suggestion: both lie on the bottom of the valley. At a tenth of the
# suggestion, four epochs are too few. At ten times the suggestion the loss is higher than at the suggestion, but much
# lower than without a schedule. The last two lines repeat both runs at a constant rate. The small rate then ends lower
# than with the schedule, because it has its full value all the time. The large rate ends much higher. The loss of one
# batch is noisy, and so is the place of its lowest point. So choose from the left half of the bottom: rung 5 holds for
# the library's suggestion, about 0.006, and rung 6 trains our program with it.
#
# ### Question 03b-lr · 3 points
#
# Write `choose_rate(rates, losses)`. Both are NumPy arrays `[N]`, the rates rising. Return one rate in the *good
# range*, as a number. This range begins at the rate where a tenth of the whole fall (from the first loss to the lowest)
# is done. It ends at half the rate of the lowest loss, which is stricter than `valley_floor`. Both ends
# belong to it. Any number in this
# range will do; it need not be one of `rates`. If a tenth of the fall is reached between two of the rates, either of
# the two counts as the lower end. Return `None` when the loss never falls by more
# than 10 % of the first one. If a sweep diverged, its last losses are `nan` or `inf`. If the program was broken from
# the start, all losses are `nan` or `inf`.
#
# Hidden curves: 1 point for three clean curves, with losses from hundredths to hundreds. If these are right, 1 point
# for noisy and diverged curves together, and 1 point for seven curves that allow no choice. In the noisy curves of the
# second point the noise is about 1.5 % of the first loss, and they fall by more than half. Limit: 30 seconds.
#
# <details><summary>What the hidden cases may hold</summary>
#
# Rates are between 1e-9 and 100. Losses are positive, and the first is from 0.01 to 1,000. The good range is computed
# from the curve without noise. The fall extends over at least two powers of ten in rate, with at least two rates in
# each. A sweep may be short, begin just before the fall, or end just after the lowest loss. A noisy curve that falls
# has at least 90 rates. No curve is near the limit of 10 %: each falls either by at least 18 % or by at most 8 %.
#
# </details>
# <details><summary>Hint 1</summary>
#
# First leave out what is not finite, then ask whether there is a fall at all. What remains is one line.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A rule that looks at two neighbours follows the noise. One that looks at the lowest loss, or at how much of the fall
# has happened, does so less.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-lr", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose_rate(rates, losses):
    """A rate in the good range, or None."""
    ### BEGIN SOLUTION
    pairs = zip(rates, losses, strict=True)
    known = [(rate, loss) for rate, loss in pairs if math.isfinite(loss)]
    if not known:
        return None
    rate_of_lowest, lowest = min(known, key=lambda pair: pair[1])
    return rate_of_lowest / 10 if lowest < 0.9 * known[0][1] else None
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-lr-test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("03b-lr", choose_rate)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-lr", choose_rate)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** A sweep covers only the range that you give it. Choose a rate below that of the lowest loss. If the
# curve never falls, that is a result too: go back to rung 3.

# %% [markdown]
# ## The bug zoo
#
# **Goal.** Meet programs that run and are wrong, see which rung stops them, and repair six of them.
#
# This is the lecture's checklist for a loss that does not go down, with the rung where each fault shows first:
#
# | fault | what you see | lowest rung | what to do |
# |---|---|---|---|
# | inputs not scaled | a first loss far above $\ln C$, then jumps or `nan` | 1 | scale, with the mean and deviation of the training part |
# | labels of wrong shape or type | an error, or a loss that means something else | 1 | look at `shape` and `dtype` |
# | second softmax | a loss that stops above its floor | 3 | give the loss logits |
# | gradients never cleared | jumps; or nothing at all | 3 | `optimizer.zero_grad()` in every step |
# | frozen parameters | a loss that stops above its floor; near $\ln C$ if only the last bias learns | 3 | list `requires_grad` by name |
# | dead ReLUs | a flat loss, gradients of exactly zero in the dead layer and below it | 3 or 4 | lower rate, another initialisation, LeakyReLU |
# | rate too small | a loss that hardly moves | 3; told apart on 5 | the finder |
# | rate too large | jumps, then `nan` | 3; told apart on 5 | the finder |
#
# The code below runs a healthy program and one program for each fault in the table, except wrong labels. ("Never
# cleared" runs twice, with class indices and with smoothed labels.) Each trains for 100 steps on a small batch of four
# classes. For each program you see the distance between its last loss and the floor of rung 3. One faulty program ends
# less than 0.15 from the floor. Predict which: `"second softmax"`, `"never cleared"` or `"frozen parameters"`?

# %% tags=["demo"]
predict("missed", None)

# %% tags=["demo"]
gaps = {name: gap_after(100, **settings) for name, settings in CHECKLIST.items()}
missed = [name for name, gap in gaps.items() if abs(gap) <= 0.15 and name != "healthy"]
for name, gap in gaps.items():
    distance = "the loss is nan" if math.isnan(gap) else f"off by ≈ {gap:.1f}"
    print(f"{name}:", "at its floor" if abs(gap) <= 0.15 else distance)

# %% tags=["demo"]
reveal("missed", ", ".join(missed), usual={
    "second softmax": "Its loss cannot fall below 0.74 for four classes.",
    "frozen parameters": "Its last bias alone cannot tell four classes apart.",
})

# %% [markdown]
# Once the batch is learned, the new gradients are close to 0. The old ones stay in `.grad` and go on moving the weights
# in the same direction. With class indices this only makes the right logits larger, and the loss stays near 0. With
# smoothed labels the best weights are finite. The old gradients carry the weights past them, and the loss stays above
# its floor. A loss at its floor is necessary, not sufficient.
#
# The library climbs the ladder, too. `Program` holds the parts of a training program, `Spec` says what it is meant to
# do, and `climb(program, spec)` asks its questions rung by rung and stops at the first rung that fails. It looks at
# more than the loss. For example, it computes each gradient a second time and compares it with the one that the
# optimizer uses. (`budget=` limits the time for further experiments, in seconds. How to write a `Program` from your
# own script comes later, in the section "Your own program".) Below, a program on digits never clears its gradients.
# Predict the number of the rung that stops it.

# %% tags=["demo"]
predict("uncleared", None)


# %% tags=["demo"]
def digits_program(slip=0, **parts):
    """A digit classifier for `climb`; `slip` shifts the training labels by so many rows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train_part, val_part = stratified_split(digits.labels, (0.15, 0.85), seed=0)
    x, y = digits.images[train_part], digits.labels[train_part].roll(slip)
    loader = TensorLoader(x, y, batch_size=64, shuffle=True, seed=0)
    validation = TensorLoader(digits.images[val_part], digits.labels[val_part], batch_size=512)
    return Program(model, optimizer, nn.CrossEntropyLoss(), loader, validation, **parts)


# %% tags=["demo"]
def never_cleared(program, batch):
    """One step without zero_grad."""
    program.loss_fn(program.model(batch[0]), batch[1]).backward()
    program.optimizer.step()


digits_task = Spec(task="classification", classes=10, epochs=5)
climbed = climb(digits_program(step=never_cleared), digits_task, budget=5)
print(climbed.findings[0].title)

# %% tags=["demo"]
reveal("uncleared", climbed.findings[0].rung, tolerance=0, usual={
    6: "Rung 6 would show an unstable curve. The lowest rung that sees the fault is lower.",
    5: "Rung 5 asks about the rate. The old gradients show in a single step.",
    4: "A subset would show it, too. But the old gradients show in a single step.",
})

# %% [markdown]
# On rung 3, `climb` examines single training steps. Here are two more faults: training labels that have slipped by
# one row, and a network whose hidden units are all dead from the start. The program with slipped labels can memorise
# any batch. Predict the rung on which `climb` stops this program.

# %% tags=["demo"]
predict("slipped", None)

# %% tags=["demo"]
slipped = climb(digits_program(slip=1), digits_task, budget=30)
dead = digits_program()
nn.init.constant_(dead.model[1].bias, -50.0)
stopped = climb(dead, digits_task, budget=30)
for finding in (slipped.findings[0], stopped.findings[0]):
    print(f"rung {finding.rung}: {finding.title}")

# %% tags=["demo"]
reveal("slipped", slipped.findings[0].rung, tolerance=0, usual={
    3: "Rung 3 cannot see it: one batch is memorised all the same.",
    4: "By hand you may see it on rung 4. `climb` already compares neighbours on rung 1.",
})

# %% tags=["demo"]
show_figure(
    stopped.plot(),
    caption="The climb ends at the first rung that fails.",
    alt="Above, seven rungs: 3 is unsure, 4 fails with dead ReLUs, the higher ones are not "
    "climbed. Below, the training and validation losses stay near that of the best constant "
    "answer, 2.30.",
)

# %% [markdown]
# On rung 1 `climb` also asks whether similar inputs have similar labels, so the slipped labels are stopped there. The
# dead units are reported on rung 4. They cannot learn one batch either. But rung 3 cannot say why, so `climb` calls
# rung 3 "unsure" and goes on; rung 4 finds the cause. If you see "unsure" where all higher rungs hold, try more steps
# and other rates before you look for a fault.
#
# ### Five common mistakes, repaired by you
#
# `faulty` returns our program's model and a batch of its inputs, with one of five faults: pixels from 0 to 255, layers
# in a plain Python list, a frozen first layer, dead units, and a batch that is not on the device of the model.
# (PyTorch's `meta` device stands in for a GPU, so the cell runs on every computer.) `signs` prints the values that
# reveal these faults. Predict how many of the five raise an error in a forward pass.

# %% tags=["demo"]
predict("raising", None)


# %% tags=["setup"]
class InAList(nn.Module):
    """Our layers, which PyTorch does not find, because a plain list holds them."""

    def __init__(self):
        super().__init__()
        self.layers = list(network())

    def forward(self, x):
        """Logits [N, 5]."""
        for layer in self.layers:
            x = layer(x)
        return x


def faulty(name):
    """A model and a batch of inputs, with one fault."""
    model, x = InAList() if name == "list" else network(), next(iter(train_batches()))[0]
    if name == "frozen":
        model[0].requires_grad_(False)
    if name == "dead":
        nn.init.constant_(model[4].bias, -50.0)
    return model.to("meta") if name == "device" else model, 255 * x if name == "pixels" else x


# %% tags=["setup"]
def signs(model, x):
    """What a first look at a model and a batch shows."""
    silent = []
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(lambda _, __, y: silent.append((y == 0).all()))
    parameters = list(model.parameters())
    found = {"parameters": sum(p.numel() for p in parameters)}
    found["frozen"] = sum(p.numel() for p in parameters if not p.requires_grad)
    try:
        model(x)
    except (RuntimeError, NotImplementedError):
        return found | {"error": "two devices"}
    if x.device.type == "meta":  # no numbers to look at
        return found
    return found | {"silent ReLUs": int(sum(silent)), "largest input": round(float(x.max()))}


# %% tags=["demo"]
print("sound:", signs(*faulty("none")))
raising = 0
for name in ("pixels", "list", "frozen", "dead", "device"):
    measured = signs(*faulty(name))
    raising += "error" in measured
    print(f"{name}:", measured)

# %% tags=["demo"]
reveal("raising", raising, tolerance=0, usual={
    5: "Then none of them would be silent.",
    0: "PyTorch refuses to mix two devices.",
    2: "Layers in a list run without an error. They are only never trained.",
})


# %% [markdown]
# Only the last of the five raises an error. Layers in a plain list are not registered: `parameters()` does not return
# them, so the optimizer never trains them.
#
# Now repair the five yourself. `repair` gets the name of a fault, a model and a batch, and returns a model and a batch
# without the fault. One line each is enough. Change the model that you get. Only the layers in a list need a new model
# around them. The next cell shows which signs still differ from those of the sound program.

# %% tags=["demo"]
def repair(name, model, x):
    """Return the model and the batch without their fault."""
    # if name == "pixels": …
    return model, x


# %% tags=["demo"]
sound = signs(*faulty("none"))
for name in ("pixels", "list", "frozen", "dead", "device"):
    before, after = signs(*faulty(name)), signs(*repair(name, *faulty(name)))
    changed = {sign: value for sign, value in after.items() if value != sound.get(sign)}
    print(f"{name}:", "unchanged" if after == before else changed or "repaired")


# %% [markdown]
# <details><summary>The five lines</summary>
#
# - pixels: `x = x / 255`
# - list: `model = nn.Sequential(*model.layers)`
# - frozen: `model.requires_grad_(True)`
# - dead: `nn.init.zeros_(model[4].bias)`
# - device: `x = x.to(next(model.parameters()).device)`
#
# </details>
#
# ### Six programs
#
# Each of these functions does what the comment in its first line says, except for one fault. None of them raises an
# error. Before you go on, ask for each of them which rung of the ladder would stop it.

# %% tags=["setup"]
def batch_loss(model, x, y):  # the mean cross-entropy of a model that gives logits
    return nn.functional.cross_entropy(model(x).softmax(dim=1), y)


def train_step(model, optimizer, x, y):  # one step of training on one batch
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def split_data(x, y, generator):  # shuffled: a fifth for validation, the rest for training
    train = torch.randperm(len(y), generator=generator)[len(y) // 5 :]
    val = torch.randperm(len(y), generator=generator)[: len(y) // 5]
    return (x[train], y[train]), (x[val], y[val])


# %% tags=["setup"]
def labelled_only(x, y):  # the examples that have a label, in their order; -1 means no label
    return x[: int((y >= 0).sum())], y[y >= 0]


def mean_loss(model, x, y):  # the loss of the finished model on validation data, a number
    with torch.no_grad():
        return nn.functional.cross_entropy(model(x), y).item()


def train_epoch(step, scheduler, batches):  # one epoch, with a schedule that is counted in epochs
    for x, y in batches:
        step(x, y)
        scheduler.step()


# %% [markdown]
# ### Question 03b-fix · 12 points
#
# Write `repaired()`. It returns a dict with six entries, `"loss"`, `"step"`, `"split"`, `"labels"`, `"evaluation"` and
# `"schedule"`, for the programs in the order above. Each entry is the repaired function, with the same arguments and
# the same kind of result. Copy a function into `repaired` and change what is wrong in it.
#
# Inputs are `[N, features]`, labels `torch.long` `[N]`; `batches` is a list of pairs and may hold batches of different
# sizes. The rows of each part of a split may come in any order, but every row keeps its label. Round a fifth down:
# for four examples it is 0. The split is still drawn with the generator: the same seed gives the same split
# again. Gradients may be left in `.grad` before the first `"step"`. `"labels"` keeps the order of the examples. There
# may be only one example with a label, or none. The mode in which `"evaluation"` leaves the model is not checked.
# Logits can differ by a lot, but the right losses are finite.
#
# A program that you leave out loses only its own points. Hidden data: for each of the six, 2 points for what the
# repaired program does. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Give each function the smallest input on which you know the result by hand: one example, two steps, a list of four
# labels.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Two of the six faults are a missing line, one is a line in the wrong place, and three are in an expression.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-fix", "locked": false, "schema_version": 3, "solution": true, "task": false}
def repaired():
    ### BEGIN SOLUTION
    def batch_loss(model, x, y):
        return nn.functional.cross_entropy(model(x), y)
    def train_step(model, optimizer, x, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    def split_data(x, y, generator):
        order, few = torch.randperm(len(y), generator=generator), len(y) // 5
        return (x[order[few:]], y[order[few:]]), (x[order[:few]], y[order[:few]])
    def labelled_only(x, y):
        return x[y >= 0], y[y >= 0]
    def mean_loss(model, x, y):
        with torch.no_grad():
            return nn.functional.cross_entropy(model.eval()(x), y).item()
    def train_epoch(step, scheduler, batches):
        for x, y in batches:
            step(x, y)
        scheduler.step()
    return {"loss": batch_loss, "step": train_step, "split": split_data,
            "labels": labelled_only, "evaluation": mean_loss, "schedule": train_epoch}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-fix-test", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false}
check("03b-fix", repaired)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-fix", repaired)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Every fault has a lowest rung that can find it. Higher rungs may miss it, or show only a symptom. So climb
# from below: the first rung that fails tells you where to search. (In your own evaluation, restore the mode that the
# model had. The lecture's `evaluate` does.)

# %% [markdown]
# ## Rung 6 · The full run and its curves
#
# **Goal.** Say in words what two loss curves show, and derive the next action.
#
# Rungs 1 to 5 hold for our program. Before its full run, a small example: the code below trains a network on the digits
# in four ways: as it should be, with three hidden units, on 60 images only, and with a rate of 0.000001. Each run gives
# a training loss and a validation loss for every epoch. `diagnose` of `lecture_lib.analysis` compares them with the
# loss at the start and names the pattern: healthy, underfit, overfit, flat, oscillating and so on. Predict its word for
# the run on 60 images.

# %% tags=["demo"]
predict("pattern", None)


# %% tags=["demo"]
def train_digits(rows, held_out, hidden=64, rate=0.01, epochs=20, dropout=0.0, seed=0):
    """Train a small network on some of the digits; return the model and its history."""
    torch.manual_seed(seed)
    layers = nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 10)
    model = nn.Sequential(nn.Flatten(), *layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    order = {"batch_size": 64, "shuffle": True, "seed": seed}
    shuffled = TensorLoader(digits.images[rows], digits.labels[rows], **order)
    val_loader = TensorLoader(digits.images[held_out], digits.labels[held_out], batch_size=500)
    return model, train(model, shuffled, val_loader, optimizer, cross_entropy, epochs=epochs)


# %% tags=["demo"]
train_rows, val_rows = stratified_split(digits.labels, (0.8, 0.2), seed=0)
train_rows = train_rows[:600]
runs = {
    "healthy": train_digits(train_rows, val_rows, rate=0.003)[1],
    "three hidden units": train_digits(train_rows, val_rows, hidden=3, epochs=40)[1],
    "60 images": train_digits(train_rows[:60], val_rows, epochs=30)[1],
    "rate 0.000001": train_digits(train_rows, val_rows, rate=1e-6)[1],
}

# %% tags=["demo"]
reveal("pattern", diagnose(runs["60 images"]).pattern, usual={
    "underfit": "Underfit runs fail on the training images as well. These 60 are memorised.",
    "improves then worsens": "The validation loss is high, but it does not turn and rise.",
})

# %% tags=["demo", "nbval-ignore-output"]
show_runs(runs, "Four runs, four patterns: both low; both high; a gap; no movement.")

# %% tags=["demo"]
for name, run in runs.items():
    last, verdict = run.rows[-1], diagnose(run)
    print(f"{name}: {verdict.pattern}. First: {verdict.actions[0]}")
    print(f"    training ≈ {last.train_loss:.2f}, validation ≈ {last.val_loss:.2f}")

# %% [markdown]
# Each pattern comes with a first action, which is general advice. The underfit run has no dropout or weight decay to
# reduce, so a larger model comes next. For the flat run, the advice is to go back to rung 3. There it would fail as
# well: at a rate of 0.000001 no batch is memorised. A larger rate on the same batch tells a rate that is too small from
# broken wiring, and so does the finder on rung 5. The words matter less than the habit: name the pattern, then act.
#
# One pattern is often called impossible: validation *better* than training. It is suspicious, but it can be honest. The
# next cell trains with dropout of 0.7. Its training loss is measured with 70 % of the hidden units switched off, and
# while the weights still change. The validation loss is measured afterwards with all units on. Then the cell measures
# the training images again, in evaluation mode.

# %% tags=["demo"]
model, run = train_digits(train_rows, val_rows, dropout=0.7)
loader = TensorLoader(digits.images[train_rows], digits.labels[train_rows], batch_size=500)
again = evaluate(model, loader, cross_entropy).loss
last = run.rows[-1]
print(f"during training: training ≈ {last.train_loss:.2f}, validation ≈ {last.val_loss:.2f}")
print(f"both in evaluation mode: training ≈ {again:.2f}, validation ≈ {last.val_loss:.2f}")


# %% [markdown]
# Measured in the same way, training is better, as it should be. So before you suspect a leak, measure both losses
# with the same weights, in evaluation mode and without augmentation. If validation is still equal or better, look for
# a leak, or for a validation part that is easier or very small.
#
# ### Question 03b-curves · 8 points
#
# Write `diagnose_curves(train_loss, val_loss)`. Both arguments are NumPy arrays of float64, of equal length: one loss
# for each of 10 to 60 epochs, both measured in evaluation mode. Losses are positive and may have any unit: they lie
# between 1e-13 and 1e13, and any of them may be `nan` or `inf`. The *start* is the first training loss; the *end* of a
# curve is the median of its last five values. Return a pair `(label, action)`; the labels are this question's own, not
# those of `diagnose`. The first condition that holds decides the label:
#
# 1. `"diverging"`: some value of either curve is not finite, or training ends above twice its start.
# 2. `"dead"`: training ends at 98 % of its start or more.
# 3. `"oscillating"`: in at least a quarter of the changes from one epoch to the next, the training loss rises by more
#    than 10 %.
# 4. `"under"`: training ends above half of its start.
# 5. `"leak"`: validation ends at 1.02 times the end of training or less.
# 6. `"over"`: validation ends above 1.2 times its own lowest value, or above twice the end of training.
# 7. `"sweet spot"`: none of these.
#
# The action is one of six: `"lower-rate"` (steps are too large), `"overfit-one-batch"` (does a gradient reach the
# weights at all?), `"larger-model"` (training itself is not good enough), `"regularise"` (good on training data only),
# `"check-split"` (too good to be true), `"error-analysis"` (the curves show no problem). One action belongs to two
# labels.
#
# Hidden curves, well away from every limit: 1 point for each label that you give to every curve that deserves it and to
# no other, and 1 point for the actions once five labels are right. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# `np.median`, `np.isfinite` and slices such as `train_loss[1:]` beside `train_loss[:-1]` do the work. One `if` with a
# `return` for each line of the list keeps the order.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Every comparison with NaN is false, so a NaN falls through all conditions unless you ask for it first.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-curves", "locked": false, "schema_version": 3, "solution": true, "task": false}
def diagnose_curves(train_loss, val_loss):
    """(label, action) of a run, from its two loss curves [epochs]."""
    ### BEGIN SOLUTION
    start, train_end, val_end = train_loss[0], np.median(train_loss[-5:]), np.median(val_loss[-5:])
    if not np.isfinite([train_loss, val_loss]).all() or train_end > 2 * start:
        return "diverging", "lower-rate"
    if train_end >= 0.98 * start:
        return "dead", "overfit-one-batch"
    if np.mean(train_loss[1:] > 1.1 * train_loss[:-1]) >= 0.25:
        return "oscillating", "lower-rate"
    if train_end > 0.5 * start:
        return "under", "larger-model"
    if val_end <= 1.02 * train_end:
        return "leak", "check-split"
    if val_end > 1.2 * val_loss.min() or val_end > 2 * train_end:
        return "over", "regularise"
    return "sweet spot", "error-analysis"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-curves-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03b-curves", diagnose_curves)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-curves", diagnose_curves)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Two curves, seven labels, six actions. The limits above are one sensible choice. What carries over to your
# own runs is the order of the questions: is it finite, does it learn, is it steady, is it good on training data, is it
# believable, is it good on other data?

# %% [markdown]
# ## Rung 6 · Close the gap
#
# **Goal.** Regularise a real run, and measure what each method is worth.
#
# Now our program gets its full run: 20 epochs with a one-cycle schedule (03a) whose highest rate is the one that rung 5
# found. The function below also offers ways to regularise: weight decay, dropout, fewer epochs, early stopping, and
# *augmentation*, which moves each batch of images by up to two pixels. *Early stopping* with a patience of three ends
# the run when the validation loss has not reached a new low for three epochs, and takes the weights of the best epoch.

# %% tags=["setup"]
class Augmented:
    """A loader with changed batches: each change maps (images, generator) to images."""

    def __init__(self, loader, changes, seed):
        self.loader, self.changes = loader, changes
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        for x, y in self.loader:
            for change in self.changes:
                x = change(x, self.generator)
            yield x, y


# %% tags=["setup"]
def shifted(images, generator):
    """Images [N, 1, H, W], all moved by up to two pixels."""
    down, right = torch.randint(-2, 3, (2,), generator=generator).tolist()
    return images.roll((down, right), dims=(2, 3))


def images_in(rows):
    """Images that are only measured, in one batch."""
    return TensorLoader(drawn.images[rows], drawn.labels[rows], batch_size=len(rows))


def train_shapes(rate, seed=0, rows=in_train, images=drawn.images, halves=False, **options):
    """Train our program: (network, history, loss on training, loss on validation).

    With `halves`, training watches one half of the validation images; the other is measured.
    """
    options = {"epochs": 20, "schedule": one_cycle(rate)} | options
    decay, dropout = options.pop("decay", 0.0), options.pop("dropout", 0.0)
    batches = Augmented(train_batches(rows, seed, images), options.pop("augment", ()), seed)
    model = network(seed, dropout)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=decay)
    watched, measured = (in_val[1::2], in_val[::2]) if halves else (in_val, in_val)
    history = train(model, batches, images_in(watched), optimizer, cross_entropy, **options)
    if options.get("patience"):  # early stopping takes the weights of the best epoch
        model.load_state_dict(history.best_state)
    losses = [evaluate(model, images_in(part), cross_entropy).loss for part in (in_train, measured)]
    return model, history, *losses


# %% tags=["demo"]
*_, on_train, on_val = train_shapes(rate)
print(f"training ≈ {on_train:.2f}, validation ≈ {on_val:.2f}, gap ≈ {on_val - on_train:.2f} nats")
print(f"rung 4, with 160 images: validation ≈ {constant_loss - np.mean(subset_gains):.2f} nats")

# %% [markdown]
# With five times as many images, a longer run, and the rate and schedule of rung 5, the validation loss is about a
# third lower than on rung 4. It is also well below the 0.89 of rung 2's linear model. Yet the network has memorised its
# 800 images: overfitting, with a gap of about half a nat. Early stopping comes later. Which of the other four methods
# lowers the validation loss most? Predict `"decay"`, `"dropout"`, `"fewer epochs"` or `"shifted images"`.

# %% tags=["demo"]
predict("method", None)


# %% tags=["demo"]
def run_shapes(config, seed):
    """Validation loss of one training, whose results are kept for later."""
    if (str(config), seed) not in results:
        results[str(config), seed] = train_shapes(rate, seed, **config)
    return results[str(config), seed][3]


def mean_losses(config, seeds):
    """Mean losses on training and on validation of runs that were kept."""
    return np.mean([results[str(config), seed][2:] for seed in seeds], axis=0)


results = {}
plain = {"epochs": 20, "decay": 0.0, "dropout": 0.0, "augment": ()}
methods = {"decay": {"decay": 1.0}, "dropout": {"dropout": 0.7}, "fewer epochs": {"epochs": 6}}
methods |= {"shifted images": {"augment": (shifted,)}}
regularised = ablate(run_shapes, plain, methods, seeds=range(4), higher_is_better=False)

# %% tags=["demo"]
for name, change in {"without any": {}, **methods}.items():
    on_train, on_val = mean_losses({**plain, **change}, range(4))
    print(f"{name}: validation ≈ {on_val:.2f} nats, gap ≈ {on_val - on_train:.2f} nats")
for effect in regularised.effects:
    print(f"{effect.name}: lowers the validation loss by ≈ {effect.gain:.2f}, {effect.verdict}")
best = max(regularised.effects, key=lambda effect: effect.gain)

# %% tags=["demo"]
reveal("method", best.name, usual={
    "dropout": "Dropout helps, but it shows the network no new positions.",
    "decay": "Weight decay helps, but it shows the network no new positions.",
    "fewer epochs": "A shorter run overfits less, but it also learns less.",
})

# %% tags=["demo", "nbval-ignore-output"]
listed = ", ".join(f"{e.name} {e.gain:.2f} ± {e.needed:.2f}" for e in regularised.effects)
show_figure(
    regularised.plot(unit="nats of validation loss"),
    caption="Fall of the validation loss with each method. No interval contains 0.",
    alt=f"Mean fall of the validation loss in nats, four seeds: {listed}. A dashed line at 0.",
)

# %% [markdown]
# `ablate` trains every version with the same four seeds and puts an interval around the mean difference (more in the
# section on ablations). No interval contains 0, so chance alone does not explain the gains. Each method narrows the
# gap. Shifted images lower the validation loss most, probably because they add what 800 images lack: shapes in other
# places.
#
# Early stopping needs a validation loss that falls and then rises. It does not suit a one-cycle schedule, which is made
# for a fixed number of steps: a run that stops early ends before the rate has been lowered. So we test early stopping
# in runs with a constant rate: 30 epochs at 0.001, which is AdamW's default and a sixth of our rate.
#
# Images that choose an epoch must not measure it as well: the lowest validation loss of a run is low partly by chance
# (03a). So one half of the validation images chooses the epoch, and the other half measures both versions.

# %% tags=["demo"]
steady = {"epochs": 30, "schedule": None, "patience": None, "halves": True}
patience = {"early stopping": {"patience": 3}}
stopping = ablate(run_shapes, steady, patience, seeds=range(4), higher_is_better=False)
for name, change in {"without": {}, **patience}.items():
    config = {**steady, **change}
    on_train, on_val = mean_losses(config, range(4))
    lengths = [len(results[str(config), seed][1].rows) for seed in range(4)]
    print(f"{name}: ≈ {np.mean(lengths):.0f} epochs, "
          f"validation ≈ {on_val:.2f} nats, gap ≈ {on_val - on_train:.2f} nats")
effect = stopping.effects[0]
print(f"early stopping lowers the validation loss by ≈ {effect.gain:.2f}, {effect.verdict}")

# %% tags=["demo", "nbval-ignore-output"]
figure, axis = plt.subplots(figsize=(5.5, 2.8))
for seed, style in enumerate(("-", "--", "-.", ":")):
    losses = [row.val_loss for row in results[str(steady), seed][1].rows]
    (line,) = axis.plot(range(1, 31), losses, style, label=f"seed {seed}")
    axis.plot(1 + losses.index(min(losses)), min(losses), "o", color=line.get_color())
axis.set(xlabel="epoch", ylabel="validation loss (nats)", ylim=(0.35, 0.8))
axis.legend()
show_figure(
    figure,
    caption="The half that chooses the epoch; dots mark the lowest loss. (The numbers above are "
    "from the other half.)",
    alt="Four curves over 30 epochs, noisy. Each is lowest between epochs 9 and 15, just below "
    "0.4 nats, and ends higher, between 0.41 and 0.49.",
)

# %% [markdown]
# The validation loss is lowest after about ten epochs and then rises, while the training loss goes on falling. Early
# stopping ends the run after less than half of the time, and we take the weights of the best epoch. As in 03a, the
# lower loss comes from these weights, and stopping early saves the time.
#
# More methods together are not always better. The next cell adds decay and dropout to the shifted images.

# %% tags=["demo"]
on_shifted = plain | methods["shifted images"]
added = {"decay and dropout too": methods["decay"] | methods["dropout"]}
options = {"combined": list(added), "higher_is_better": False}  # two changes, on purpose
together = ablate(run_shapes, on_shifted, added, seeds=range(4), **options)
for name, change in {"shifted images": {}, **added}.items():
    on_train, on_val = mean_losses({**on_shifted, **change}, range(4))
    print(f"{name}: training ≈ {on_train:.2f}, validation ≈ {on_val:.2f}")
effect = together.effects[0]
print(f"the addition lowers the validation loss by ≈ {effect.gain:.2f}, {effect.verdict}")

# %% [markdown]
# All three together have the smallest gap, and a higher validation loss than shifted images alone: the network now fits
# less well. The gap is only a symptom. The validation loss is what counts.
#
# **Recap.** Regularise against a measured gap, one method at a time, over several seeds, and judge by the validation
# loss.

# %% [markdown] nbgrader={"grade": false, "grade_id": "03b-p4-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Rung 6 · Reading a gap
#
# ### Question 03b-p4 · 2 points, graded by hand
#
# Your run has a training loss of 0.02 and a validation loss of 0.6 (cross-entropy). Diagnose it, and name three
# interventions, the cheapest first. Say what you would check first, and why. Five sentences are enough.
#
# Graded on: the diagnosis (0.5), what is checked before any intervention (0.5), three sensible interventions (0.5),
# their order by cost with a reason (0.5).
#
# <details><summary>Hint</summary>
#
# A gap has two kinds of causes: the model, or the comparison. Which of them can be checked in a minute?
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03b-p4", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# The network fits its training data almost perfectly and does much worse on validation: overfitting, provided that both
# parts come from the same distribution and went through the same preprocessing. I check that first, since it takes a
# minute and makes everything else pointless if it fails. After that, by cost: stop at the best validation loss and
# add weight decay or dropout (one line each); augment the training images; make the network smaller, which changes what
# was tuned before; and last, since labels cost most, collect more data.

# %% [markdown]
# ## Validation · Splits and leakage
#
# **Goal.** Choose the split that matches what the model will meet later.
#
# A validation score is useful if the validation data differ from the training data in the same way as the data that the
# model will meet later. Related rows break that:
#
# | data | what a random split of the rows does | split |
# |---|---|---|
# | several images of a patient | the model learns to recognise the patient | by patient |
# | frames of a video | neighbours are nearly copies | by video or scene |
# | a time series | the future is in training | chronologically |
# | logs of users | the same habits on both sides | by user, or by time |
# | documents with copies | the same text on both sides | by text: all its copies in one part |
#
# Here are 40 videos of ten frames each. A coin decided whether a video is of class 0 or 1, so *nothing* can be
# learned. A classifier looks up the most similar training frame and copies its label. Rows are split at random, 80 %
# to 20 %. Predict its validation accuracy in percent.

# %% tags=["demo"]
predict("frames", None)

# %% tags=["demo"]
generator = torch.Generator().manual_seed(0)
video = torch.arange(40).repeat_interleave(10)
noise = 0.05 * torch.randn(400, 1, 8, 8, generator=generator)
frames = digits.images[video] + noise
coin = torch.randint(0, 2, (40,), generator=generator)[video]


# %% tags=["demo"]
def accuracy_of_nearest(split):
    """Accuracy in percent of copying the label of the nearest training frame."""
    in_training, in_validation = split
    distances = torch.cdist(frames[in_validation].flatten(1), frames[in_training].flatten(1))
    copied = coin[in_training][distances.argmin(dim=1)]
    return 100 * (copied == coin[in_validation]).double().mean().item()


by_row = stratified_split(coin, (0.8, 0.2), seed=0)

# %% tags=["demo"]
reveal("frames", accuracy_of_nearest(by_row), "%", usual={
    50: "That would be true of new videos. Here every video has frames on both sides.",
})

# %% [markdown]
# The classifier is always right, on labels that mean nothing, because it recognises the video. A split by video
# prevents that. `leakage_report` finds the fault in the split itself, without any model, when you tell it which group
# each row belongs to.

# %% tags=["demo"]
by_video = [grouped_split(video, (0.8, 0.2), seed=seed) for seed in range(20)]
mean = sum(accuracy_of_nearest(split) for split in by_video) / 20
print(f"by video: mean accuracy over twenty splits ≈ {mean:.0f} %")
for name, (first, second) in {"by row": by_row, "by video": by_video[0]}.items():
    report = leakage_report(frames[first], frames[second], groups=(video[first], video[second]))
    print(f"{name}: {[leak.kind for leak in report.leaks] or 'no leak found'}")

# %% tags=["demo"]
days = torch.randperm(400, generator=generator)
past, future = chronological_split(days, (0.8, 0.2))
print(f"training ends on day {days[past].max()}, validation begins on day {days[future].min()}")


# %% [markdown]
# By video, the accuracy is that of a coin. The last cell splits 400 rows chronologically, as in the third row of the
# table. It cuts at day 320, although the rows are not in order.
#
# ### Question 03b-split · 8 points
#
# Write `make_split(table, deployed_on, val_fraction)`. `table` is a dict of columns (NumPy arrays with one entry for
# each record, in no particular order). `deployed_on` says what the model will meet later: `"new patients"`,
# `"new videos"`, `"later days"`, `"new users"` or `"new texts"`. Columns are called `patient`, `video`, `frame`, `day`,
# `user`, `document`, `text`, `label`. Each table has some of them, and not all of them matter. Two documents are copies
# when their `text` is equal.
#
# Return two sequences of row numbers, training and validation:
#
# - every record is in exactly one of them;
# - no patient, video, user or text (whichever will be new to the model) has records in both; for `"later days"`, every
#   validation record is later than every training record;
# - the fraction of all records that is in validation differs from `val_fraction` by at most 0.05;
# - for `"new patients"`, the same holds for the records of each class.
#
# You may use `lecture_lib.data` or scikit-learn. The exercise is to choose the right split. Hidden tables: patients 1
# point, their class balance 1 more, videos 1, days 2, users 1, texts 2. Limit: 30 seconds.
#
# <details><summary>What the hidden cases may hold</summary>
#
# `val_fraction` is between 0.2 and 0.4. `day` and `label` are whole numbers. Labels are from -10 to 10. Days are from
# -1,000 to 200,000, in any whole-number dtype; all days are different, and many days can pass between two records.
# Patients, videos, users and documents are whole numbers from 0 to 2,000, or texts. A second call may make another
# split. For `"new patients"`, each patient has one label. The groups to keep apart (patients, videos, users, texts)
# have similar sizes, and there are enough of them (for patients, in each class). If you take `val_fraction` of the
# groups, rounded up or to the nearest whole number, you stay within the limits above.
#
# </details>
# <details><summary>Hint 1</summary>
#
# Four of the five are the same split by another column. Which column names the thing that will be new?
#
# </details>
# <details><summary>Hint 2</summary>
#
# For the balance, draw patients class by class, or look at the arguments of `grouped_split`.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-split", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_split(table, deployed_on, val_fraction):
    """Row numbers of training and of validation, for what the model will meet later."""
    ### BEGIN SOLUTION
    fractions = (1 - val_fraction, val_fraction)
    if deployed_on == "later days":
        return chronological_split(table["day"], fractions)
    column = deployed_on.removeprefix("new ").removesuffix("s")
    labels = table["label"] if column == "patient" else None
    return grouped_split(table[column], fractions, labels=labels, seed=0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-split-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03b-split", make_split)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-split", make_split)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Ask what will be new when the model is used, and make sure that the same thing is new in validation. With a
# leak, a bad model gets a good validation score, and no loss curve shows the problem. Check the split before you
# celebrate.

# %% [markdown]
# ## Validation · Shift
#
# **Goal.** Data can change in four ways. Tell them apart by asking what *stays* the same.
#
# | shift | what changes | what stays | example | response |
# |---|---|---|---|---|
# | covariate | the inputs, P(x) | P(y given x) | a new camera or hospital | collect representative data; reweight |
# | label | the classes' shares, P(y) | P(x given y) | an illness becomes frequent | metrics for each class; new threshold |
# | concept | the meaning, P(y given x) | P(x) | the definition of a class changes | label again, train again |
# | temporal | something, with time | nothing for long | habits of users | split by time, watch the metric |
#
# `shift_report` looks for all four, for a temporal shift only if it gets times. We give it two sets of 400 digits,
# without times. The second set comes first unchanged, then darker, then with few of the digits 5 to 9, then with the
# labels 3 and 8 exchanged. Predict what `shift_report` answers for the last one: `"covariate"`, `"label"`,
# `"concept"` or `"none"`.

# %% tags=["demo"]
predict("shift", None)

# %% tags=["demo"]
before, after = (part[:400] for part in stratified_split(digits.labels, (0.5, 0.5), seed=0))
x_after, y_after = digits.images[after], digits.labels[after]
kept = (y_after < 5) | (torch.arange(400) % 5 == 0)
exchanged = torch.where(y_after == 3, 8, torch.where(y_after == 8, 3, y_after))


# %% tags=["demo"]
def primary_shift(x, y):
    """The kind of shift to act on first, from the first 400 digits to these."""
    classes = digits.labels[before], y
    return shift_report(digits.images[before], x, labels=classes).primary or "none"


print("unchanged:", primary_shift(x_after, y_after))
print("darker:", primary_shift(0.6 * x_after, y_after))
print("few of 5 to 9:", primary_shift(x_after[kept], y_after[kept]))

# %% tags=["demo"]
reveal("shift", primary_shift(x_after, exchanged), usual={
    "label": "Label shift changes how frequent a class is. Here its meaning changed.",
    "covariate": "The images are the same as before.",
    "none": "Every 3 and every 8 has another label than before.",
})

# %% [markdown]
# Some differences do *not* tell the kinds apart. When the shares of the classes change, the inputs usually change
# too, and the other way round. The next cell computes an example: a test is positive (x = 1) for 90 % of the ill and
# for 10 % of the healthy, while the share of the ill grows from 10 % to 50 %.

# %% tags=["demo"]
for ill in (0.1, 0.5):
    positive = 0.9 * ill + 0.1 * (1 - ill)
    print(f"ill {ill:.0%}: positive {positive:.0%}, of these ill {0.9 * ill / positive:.0%}")


# %% [markdown]
# The share of positive tests rises from 18 % to 50 %, and the share of the ill among the positive from 50 % to 90 %,
# although the illness and the test have not changed. Only P(x given y) stayed the same. That is label shift.
#
# ### Question 03b-shift · 8 points
#
# Write `find_shift(x_train, y_train, t_train, x_val, y_val, t_val)`. All arguments are NumPy arrays of whole numbers,
# one entry for each example: an input `x` (0, 1 or 2), a label `y` (0 or 1), a time `t`. Rows are not sorted by time,
# all times are different, and validation is always later than training. The number of training examples is even. Sort
# the training examples by time. The first half of them is the earlier *half*, and the rest is the later *half*. Only
# the number of examples counts, not how the times are spread. Validation may be larger or smaller. Every input and
# every label occurs in each part and in each half, but a pair of them need not occur.
#
# Compare *shares*:
#
# - P(x) is the share of each input.
# - P(y) is the share of each label.
# - P(y | x) is the share of each label among the examples with the same input.
# - P(x | y) is the share of each input among the examples with the same label.
#
# A distribution has *changed* when one of its shares differs by more than 0.1. Return one word, that of the first
# condition that holds:
#
# 1. `"temporal"`: any of the four changed from the earlier to the later half of *training*, by time;
# 2. `"covariate"`: from training to validation P(x) changed and P(y | x) did not;
# 3. `"label"`: P(y) changed and P(x | y) did not;
# 4. `"concept"`: P(y | x) changed and P(x) did not;
# 5. `"none"`: none of these.
#
# In the hidden data no distribution's largest difference lies between 0.06 and 0.14. You get 2 points for each of the
# four kinds of shift, if you name it for all data that have it and for no other. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Count all pairs into a table of 3 × 2 numbers. All four distributions are sums or quotients of that table.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Use the same comparison twice: for the two halves of training, and for training and validation.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-shift", "locked": false, "schema_version": 3, "solution": true, "task": false}
def find_shift(x_train, y_train, t_train, x_val, y_val, t_val):
    """One of temporal, covariate, label, concept, none."""
    ### BEGIN SOLUTION
    def changed(first, second):
        tables = [np.bincount(2 * x + y, minlength=6).reshape(3, 2) for x, y in (first, second)]
        shares = {
            "x": [t.sum(axis=1) / t.sum() for t in tables],
            "y": [t.sum(axis=0) / t.sum() for t in tables],
            "y|x": [t / t.sum(axis=1, keepdims=True) for t in tables],
            "x|y": [t / t.sum(axis=0, keepdims=True) for t in tables],
        }
        return {name for name, (a, b) in shares.items() if np.abs(a - b).max() > 0.1}

    order = t_train.argsort()
    early, late = order[: len(order) // 2], order[len(order) // 2 :]
    if changed((x_train[early], y_train[early]), (x_train[late], y_train[late])):
        return "temporal"
    found = changed((x_train, y_train), (x_val, y_val))
    if "x" in found and "y|x" not in found:
        return "covariate"
    if "y" in found and "x|y" not in found:
        return "label"
    return "concept" if "y|x" in found and "x" not in found else "none"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-shift-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03b-shift", find_shift)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-shift", find_shift)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Name the shift by what stayed the same. And ask of every score whether validation measures the cases that
# you care about: the model that scores best on last year's data need not be the best one for next year's.

# %% [markdown]
# ## Rung 7 · What next?
#
# **Goal.** Choose the next experiment by looking at mistakes, not by guessing.
#
# Suppose that a model is trained, every rung below holds, and it gets 82 % of the validation examples right. What do
# you do next?
#
# - (a) Try a bigger model.
# - (b) Train for more epochs.
# - (c) Look at 100 mistakes and sort them by kind.
# - (d) Tune the learning rate.
#
# Each option has its own answer. Replace `None` with a letter, in quotes, and run the cell.

# %% tags=["demo"]
quiz("82 %: what next?", None, NEXT_STEP)

# %% [markdown]
# ### Our program on rung 7: mistakes in buckets
#
# The background of every image has stripes, usually those of its class. We made some images difficult on purpose, and
# recorded how: blur (the shape moved during the exposure, 8 % of the images), an ambiguous label (5 %), a background
# with the stripes of another class (7 %), and the rare class (the cross, 4 %). In a project of your own you would find
# this out by looking. Together they are 24 % of the images. Below are the four networks from rung 6 that were trained
# on shifted images. Predict what percentage of their mistakes is on images of these four kinds.

# %% tags=["demo"]
predict("bucket", None)


# %% tags=["demo"]
def predictions_of(model):
    """The predicted class of each validation image."""
    return collect_outputs(model, val_loader)[0].argmax(dim=1)


def buckets_of(models):
    """The mistakes of some networks, taken together, in buckets by true difficulty."""
    wrong = [predictions_of(model) != drawn.labels[in_val] for model in models]
    flags = {name: flag[in_val].repeat(len(models)) for name, flag in drawn.flags.items()}
    flags = {name: flag for name, flag in flags.items() if flag.any()}
    return bucket_errors(torch.cat(wrong), flags)


# %% tags=["demo"]
trained = [results[str(on_shifted), seed][0] for seed in range(4)]
buckets = buckets_of(trained)
wrong = torch.cat([predictions_of(model) != drawn.labels[in_val] for model in trained])
in_a_bucket = 100 * (1 - buckets.unassigned / wrong.sum().item())
right = 100 * (~wrong).float().mean().item()
print(f"4 × {len(in_val)} predictions, accuracy ≈ {right:.0f} %")

# %% tags=["demo"]
reveal("bucket", round(in_a_bucket), "%", tolerance=10, usual={
    24: "Mistakes would then be spread evenly over the images.",
    50: "That is twice their share, and still far too low.",
})

# %% tags=["demo", "nbval-ignore-output"]
listed = ", ".join(f"{row.name} {row.errors}" for row in buckets.rows)
show_figure(
    buckets.plot(),
    caption="The mistakes of the four networks in each bucket.",
    alt=f"Bars of mistakes in each bucket: {listed}. A line that counts each mistake once "
    "rises to nearly 100 percent.",
)

# %% [markdown]
# Nearly every mistake is in one of the four buckets. The largest two are blur and ambiguous labels. What does each kind
# of image look like? The last three below show, in this order, a shape that moved, one half-way between two shapes, and
# one with the stripes of another class.

# %% tags=["demo", "nbval-ignore-output"]
kinds = ("none", "circle", "square", "triangle", "cross")
flags = {name: flag for name, flag in drawn.flags.items() if flag.any() and name != "rare class"}
easy = ~torch.stack(list(flags.values())).any(dim=0)
words = list(kinds)
rows = [(easy & (drawn.labels == label)).nonzero()[0, 0] for label in range(5)]
for name, flag in flags.items():
    rows.append((flag & (drawn.labels > 0)).nonzero()[0, 0])
    words.append(kinds[drawn.labels[rows[-1]]] + "\n" + name.replace(" ", "\n"))
caption = "An easy image of each class, and one of each difficulty."
show_images(drawn.images[torch.stack(rows)], words, caption)

# %% [markdown]
# Sort some mistakes yourself before you trust a table. Below are twenty mistakes of the first network, each with its
# label and what was predicted instead. ("cross, not triangle" is a cross that was predicted as a triangle.) Press the
# buttons, or type a bucket's number into the field below the picture; 0 goes back. (On a static page you see all twenty
# at once.)

# %% tags=["demo", "nbval-ignore-output"]
predicted = predictions_of(trained[0])
shown = (predicted != drawn.labels[in_val]).nonzero()[:20, 0]
titles = [f"{kinds[drawn.labels[in_val][row]]}, not {kinds[predicted[row]]}" for row in shown]
names = [row.name for row in buckets.rows]
by_hand = label_mistakes(drawn.images[in_val][shown], titles, names)

# %% [markdown]
# The next cell counts your buckets beside the true ones. (Yours are empty until you have sorted some mistakes.)

# %% tags=["demo", "nbval-ignore-output"]
for name in names:
    true_count = int(drawn.flags[name][in_val][shown].sum())
    print(f"{name}: by hand {by_hand.counts()[name]}, true {true_count}")

# %% [markdown]
# ### From a bucket to an experiment
#
# Each kind of mistake asks for an intervention of its own. (The last kind does not occur in our images.)
#
# | bucket | what is behind it | intervention |
# |---|---|---|
# | blur | the model fails on moving objects | augment with blur, or collect blurred images |
# | rare class | few training examples | collect examples, or give them more weight in the loss |
# | ambiguous label | people disagree | clean the labels, merge classes, report uncertainty |
# | background shortcut | the background gives the class away | crop, mask or change backgrounds |
# | threshold | probabilities are fine, the decision is not | tune the threshold on validation data |
#
# We try three of them, each in runs of its own over three seeds. *Blur*: half of the training images are averaged with
# shifted copies of themselves. *Reweight*: every cross is shown four times in an epoch. *Backgrounds*: the training
# images have the same shapes, with stripes at random angles that say nothing about the class. (For photographs you
# would take pictures in other places, or paste the objects onto other backgrounds.) Predict which bucket shrinks most:
# `"blur"`, `"rare class"` or `"background shortcut"`.

# %% tags=["demo"]
predict("shrinks", None)


# %% tags=["setup"]
def blurred(images, generator):
    """Images [N, 1, H, W], half of them smeared over seven pixels, to the side or downwards."""
    axis = 2 + int(torch.randint(2, (1,), generator=generator))
    smeared = torch.stack([images.roll(step, dims=axis) for step in range(-3, 4)]).mean(dim=0)
    half = torch.rand(len(images), 1, 1, 1, generator=generator) < 0.5
    return torch.where(half, smeared, images)


# %% tags=["demo"]
crosses = in_train[drawn.labels[in_train] == counts.argmin()]  # the rare class of rung 1
more_crosses = torch.cat([in_train, crosses, crosses, crosses])
backgrounds = shapes(2000, seed=0, size=20, rates={"threshold": 0}, background="random").images
cures = {
    "blur": {"augment": (shifted, blurred)},
    "reweight": {"augment": (shifted,), "rows": more_crosses},
    "backgrounds": {"augment": (shifted,), "images": backgrounds},
}
cures["the last two"] = cures["reweight"] | cures["backgrounds"]
networks = {"before": trained[:3]}  # the same seeds on both sides
for name, config in cures.items():
    networks[name] = [train_shapes(rate, seed, **config)[0] for seed in range(3)]
mistakes = {}
for name, models in networks.items():
    mistakes[name] = {row.name: row.errors / len(models) for row in buckets_of(models).rows}

# %% tags=["demo"]
for name, errors in mistakes.items():
    listed = ", ".join(f"{kind} ≈ {errors[kind]:.0f}" for kind in sorted(errors))
    print(f"{name}: {listed}; sum ≈ {sum(errors.values()):.0f}")
cured = {"blur": "blur", "rare class": "reweight", "background shortcut": "backgrounds"}
fall = {kind: mistakes["before"][kind] - mistakes[name][kind] for kind, name in cured.items()}

# %% tags=["demo", "nbval-ignore-output"]
for kind, name in cured.items():
    by_seed = {}
    for version in ("before", name):
        rows = [buckets_of([model]).rows for model in networks[version]]
        by_seed[version] = [next(row.errors for row in found if row.name == kind) for found in rows]
    print(f"{kind}, seed by seed: {by_seed['before']} before, {by_seed[name]} with {name}")

# %% tags=["demo"]
reveal("shrinks", max(fall, key=fall.get), usual={
    "blur": "It is the largest bucket, but blur augmentation does not shrink it.",
    "rare class": "It shrinks to a third, but it was the smallest.",
})

# %% [markdown]
# Other backgrounds nearly empty their bucket. Showing the crosses four times shrinks theirs to about a third on
# average, and it shrinks with every seed. Blur augmentation makes the largest bucket larger with every seed, and other
# buckets grow too. The size of a bucket says how many mistakes of this kind there are to remove. A cure may also help
# or harm other buckets: other backgrounds also reduce the mistakes on blurred images. Only the experiment shows the
# sum.
#
# The last row has both useful cures. Rank its buckets again: blur and ambiguous labels hold nearly all mistakes that
# are left. No training can empty the second. Each of its labels was chosen by a coin toss between two shapes, so any
# model gets about half of them wrong.
#
# The *ceiling* of a bucket is the accuracy that the model would have if all mistakes in this bucket were corrected.
# Take the imagined model from the start of this rung, with 82 %. You sort 100 of its mistakes, and the buckets hold 32,
# 28, 18, 14 and 8 of them. Fixing the first bucket completely does not add 32 points. Predict the accuracy.

# %% tags=["demo"]
predict("ceiling", None)

# %% tags=["demo"]
sizes = [32, 28, 18, 14, 8]
print("mistakes:", sum(sizes))

# %% tags=["demo"]
reveal("ceiling", 82 + sizes[0] / sum(sizes) * (100 - 82), "%", tolerance=0.5, usual={
    114: "An accuracy above 100 %?",
    100: "Only the first bucket is fixed.",
    5.76: "That is the gain. Add it to 82.",
})

# %% [markdown]
# The bucket holds 32 % of the 18 missing points: 5.76 points. You know this gain, if only this bucket is corrected,
# before you write a line of code for the cure.
#
# A pipeline of several components has ceilings too. Replace the output of one component with the true output, and
# measure the accuracy of the whole pipeline. In this example the pipeline has an accuracy of 82 %. It rises to 83 %,
# 91 % or 83 % if the first, the second or the third component alone is perfect. `ceiling_analysis` reports these
# gains, and also those from making the components perfect one after another.

# %% tags=["demo"]
accuracy_with = {(): 82, ("detect",): 83, ("align",): 91, ("read",): 83}
accuracy_with |= {("detect", "align"): 92, ("detect", "align", "read"): 100}
for stage in ceiling_analysis(accuracy_with.__getitem__, ["detect", "align", "read"]):
    alone = stage.alone - 82
    print(f"{stage.name}: alone +{alone:.0f}, in its turn +{stage.gain:.0f}")


# %% [markdown]
# The second component has the largest possible gain: 9 points alone. A month of work on the first gains at most one
# point while the others stay the same. The third shows why both columns matter: it has 1 point to give now, and 8 once
# the components before it are perfect. Work on the second comes first. Then make the table again.
#
# ### Question 03b-buckets · 8 points
#
# Write two functions.
#
# - `rank_buckets(mistakes, accuracy)`: `mistakes` is a list with the name of a bucket for each mistake that was
#   looked at (at least one mistake, names in lower case), and `accuracy` is the model's accuracy in percent (30 to
#   99.9). Return a list with one triple `(name, ceiling, intervention)` for each bucket. The ceiling is the accuracy
#   in percent if all mistakes of this kind, and no others, were corrected. The mistakes looked at are representative
#   of all mistakes of the model. The largest bucket comes first; equal ones are ordered by name from a to z.
#   Interventions are called `"augment"` (blur), `"collect-or-reweight"` (rare class), `"clean-labels"` (ambiguous
#   label), `"change-backgrounds"` (background shortcut), `"tune-threshold"` (threshold) and, for every other name,
#   `"look-at-ten"`.
# - `best_component(base, alone)`: `base` is the accuracy of a pipeline in percent (30 to 95). `alone` maps each
#   component (at least one), in the order of the pipeline, to the accuracy of the pipeline when only this component is
#   perfect. Return `(name, gain)` of the component with the largest gain in points. If several are equal, take the
#   first in the pipeline. A gain can be negative: a perfect component may not suit the components after it.
#
# Hidden cases, with ties and without, with a single bucket, and with a model that is nearly right: 2 points for the
# order, 2 for the ceilings, 2 for the interventions, 2 for the component. Ceilings and gains may be rounded to two
# decimals, but the order and the choice must not depend on the rounding. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# `sorted` takes a `key`, and a key can be a pair. Put what matters most first. A minus sign reverses the order of a
# number.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Be careful with the percentages: 18 % is a share of all examples, but the share of a bucket is a share of the
# mistakes.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-buckets", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rank_buckets(mistakes, accuracy):
    """(name, ceiling in percent, intervention) of each bucket, the largest first."""
    ### BEGIN SOLUTION
    interventions = {
        "blur": "augment",
        "rare class": "collect-or-reweight",
        "ambiguous label": "clean-labels",
        "background shortcut": "change-backgrounds",
        "threshold": "tune-threshold",
    }
    ranked = sorted(set(mistakes), key=lambda name: (-mistakes.count(name), name))
    shares = [mistakes.count(name) / len(mistakes) for name in ranked]
    ceilings = [accuracy + share * (100 - accuracy) for share in shares]
    actions = [interventions.get(name, "look-at-ten") for name in ranked]
    return list(zip(ranked, ceilings, actions, strict=True))
    ### END SOLUTION


def best_component(base, alone):
    """(name, gain in points) of the component with the largest gain."""
    ### BEGIN SOLUTION
    name = max(alone, key=alone.get)
    return name, alone[name] - base
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-buckets-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03b-buckets", rank_buckets, best_component)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-buckets", rank_buckets, best_component)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Sort the mistakes, rank the buckets by what they can bring, and let the ranking choose the experiment. Do
# it again afterwards: the order may have changed.

# %% [markdown]
# ## Ablations
#
# **Goal.** Change one thing at a time, and know when a difference is real.
#
# Four runs on the same validation data:
#
# | run | change | accuracy in % |
# |---|---|---|
# | A | none: the baseline | 82.0 |
# | B | stronger augmentation | 84.1 |
# | C | bigger model | 82.4 |
# | D | augmentation and bigger model | 84.0 |
#
# Someone who runs only A and D will report that the two changes together bring two points, and will pay for the bigger
# model forever. Predict what the bigger model adds to a run that has augmentation already, in points.

# %% tags=["demo"]
predict("bigger", None)

# %% tags=["demo"]
table = {"A": 82.0, "B": 84.1, "C": 82.4, "D": 84.0}
for name, run in {"augmentation": "B", "bigger model": "C", "both": "D"}.items():
    print(f"{name}: {table[run] - table['A']:+.1f}")

# %% tags=["demo"]
reveal("bigger", round(table["D"] - table["B"], 1), "points", tolerance=0.05, usual={
    0.4: "That is what it adds to the baseline, without augmentation.",
    2.0: "That is what both together add to the baseline.",
    0.1: "The sign is wrong: with the bigger model, the accuracy is lower.",
})

# %% [markdown]
# Is the 0.4 of the bigger model a gain, or luck? One run cannot say. The rules:
#
# - change one thing at a time, and compare with the simplest baseline that could work;
# - use the same split for all, fixed beforehand;
# - record configuration, seed, commit and metric of each run;
# - when the gain is small, use three seeds or more, the *same* seeds on both sides.
#
# With the same seeds you can compare the runs in pairs. A lucky initialisation helps both runs of a pair, so much of
# its effect cancels in the difference. `ablate` does this. It calls a change useful or worse only when 0 lies outside
# the interval around the mean difference.

# %% tags=["demo"]
few_rows = train_rows[:300]


def run_once(config, seed):
    """Validation accuracy in percent of a short training."""
    _, history = train_digits(few_rows, val_rows, epochs=8, seed=seed, **config)
    return 100 * history.rows[-1].val_metric


# %% tags=["demo"]
base = {"rate": 0.01, "hidden": 32}
changes = {"lower rate": {"rate": 0.001}, "wider": {"hidden": 40}}
ablation = ablate(run_once, base, changes, seeds=range(3))
for effect in ablation.effects:
    print(f"{effect.name}: gain ≈ {effect.gain:.1f} points, {effect.verdict}")

# %% tags=["demo", "nbval-ignore-output"]
listed = ", ".join(f"{e.name} {e.gain:+.1f} ± {e.needed:.1f}" for e in ablation.effects)
show_figure(
    ablation.plot(unit="points"),
    caption="The interval of the wider network contains 0, that of the lower rate does not.",
    alt=f"Mean gain in points with its interval: {listed}. A dashed line at 0.",
)

# %% [markdown]
# The lower rate is worse. For the wider network the verdict is noise. That does not say that width is useless; it says
# that three seeds cannot tell. For one change and three seeds, the 95 % interval is the mean ± 4.303 standard errors
# ($s/\sqrt{3}$); with many seeds it would be ± 1.96. Here two changes are tested, so `ablate` uses 97.5 % intervals.
# The probability of at least one false alarm is then at most 5 %.
#
# A record makes runs comparable weeks later. `compare_records` says what differs between two of them.

# %% tags=["demo"]
ids = {"data_id": "digits", "split_id": "stratified, seed 0"}
first_record = RunRecord.start(base, seed=0, **ids)
second_record = RunRecord.start({**base, "hidden": 40}, seed=1, **ids)
print("different:", [name for name, _, _ in compare_records(first_record, second_record).changes])


# %% [markdown]
# These two runs differ in the width and in the seed, so they compare two things at once.
#
# ### Question 03b-ablate · 6 points
#
# Write `ablate_one(run, base, change, seeds)`. `run(config, seed)` trains and returns an accuracy in percent; it does
# not change `config`. (In the tests, a simple function takes the place of the training. You may compute in float32.)
# `base` is a dict of settings (numbers, text, `True` or `False`), `change` is a dict of the settings to change, `seeds`
# a list of three different seeds from 0 to 10,000 in any order.
#
# 1. `change` must have exactly one entry. Its key must be in `base`, and its value must differ from the one in `base`.
#    Otherwise raise a `ValueError` before any run. Two entries are an error even if one of them changes nothing. Values
#    are compared with `==`, so 32 and 32.0 are the same value.
# 2. Run `base` and the changed configuration with each of the seeds, each pair of configuration and seed once, in any
#    order. Leave `base` unchanged.
# 3. Take the difference for each seed, change minus base. The gain is the mean of the differences, and *s* is their
#    standard deviation (dividing by n - 1). The 95 % interval is gain ± 4.303 · *s* / √3.
# 4. Return `(gain, low, high, verdict)`: `"likely useful"` when the interval lies above 0, `"worse"` when it lies below
#    0, else `"noise"`. The three differences are never all equal, and no interval ends at 0 or close to it.
#
# Hidden experiments: 2 points for the runs, 2 for the interval, 1 for the verdicts, 1 for the `ValueError`. Limit: 30
# seconds.
#
# <details><summary>Hint 1</summary>
#
# `{**base, **change}` is a new dict; `base.update(change)` changes `base` itself.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Print the differences of the first visible case. They lie much closer together than the accuracies do.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-ablate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ablate_one(run, base, change, seeds):
    """(gain, low, high, verdict) of one change, over paired seeds."""
    ### BEGIN SOLUTION
    if len(change) != 1 or any(k not in base or base[k] == change[k] for k in change):
        raise ValueError(f"change exactly one setting of the base, not {change}")
    changed = {**base, **change}
    differences = np.array([run(changed, seed) - run(base, seed) for seed in seeds])
    gain = differences.mean()
    half = 4.303 * differences.std(ddof=1) / math.sqrt(3)
    low, high = gain - half, gain + half
    verdict = "likely useful" if low > 0 else "worse" if high < 0 else "noise"
    return gain, low, high, verdict
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-ablate-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03b-ablate", ablate_one)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-ablate", ablate_one)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** One change, one split, the same seeds, an interval. Otherwise you know that the last run was different, but
# not why.

# %% [markdown] nbgrader={"grade": false, "grade_id": "03b-p2-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## One change at a time: a GPU that waits
#
# The same discipline helps with speed. A change of a loader's arguments takes a minute to try and a minute to
# measure. How much it helps depends on the data. Worker processes (`num_workers`) help when making a batch is slow, but
# when the data are already in memory they cost more time than they save. Pinned memory (`pin_memory`) can speed up
# the copy of a finished batch to the GPU.
#
# ### Question 03b-p2 · 2 points, graded by hand
#
# A `DataLoader` with `num_workers=0` and `pin_memory=False` feeds a GPU that is busy for 30 % of the time. Name two
# changes that should help, in the order in which you would test them, with the reason for the order. Say what you would
# measure, before and after each. Five sentences are enough.
#
# Graded on: both changes in a sensible order with its reason (1), what is measured, and one change at a time (1).
#
# <details><summary>Hint</summary>
#
# 70 % of the time the GPU waits. Which of the two changes can remove most of the waiting, and which only speeds up the
# copy of a finished batch?
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03b-p2", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# First I measure batches per second of the loader alone and of the training step alone, on a batch that is kept in
# memory. If the loader is the slower one, workers come first: with none, batches are made one after another in the
# training process, while the GPU waits. I raise `num_workers` to 2, then 4, and measure the whole loop again each time,
# until it no longer gets faster. Only then do I try pinned memory, together with `non_blocking=True` for the copy: it
# speeds up the transfer of a finished batch and lets it overlap with computing, which matters little while batches are
# missing. I keep it if the measurement says so. If the loader alone was fast enough from the start, neither change
# helps.

# %% [markdown]
# ## The whole climb
#
# You have climbed the ladder by hand. `climb` does it in one call, and leaves the program unchanged. To locate a fault
# it also runs the program with one part replaced by a part that is known to work. `budget=` limits the time for these
# runs, in seconds. With a budget of 0 no part is replaced, so the report does not depend on how fast your computer is.
# The first program is the digit classifier of the bug zoo without a fault. All seven rungs hold.

# %% tags=["demo", "nbval-ignore-output"]
print(climb(digits_program(), Spec(task="classification", classes=10, epochs=10), budget=0))


# %% [markdown]
# Next comes our own program from rung 6, in the form that `climb` takes: with the rate of rung 5, one-cycle and shifted
# images. `plain_loader` gives the same images unshifted, for questions about the data.

# %% tags=["setup"]
def shapes_program():
    """Our program for the ladder: model, optimizer, loss, data and schedule."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=21)
    on_shifted = Augmented(train_batches(), (shifted,), seed=0)
    data = {"train_loader": on_shifted, "val_loader": val_loader, "plain_loader": train_batches()}
    return Program(model, optimizer, cross_entropy, scheduler=schedule, **data)


shapes_task = Spec(task="classification", classes=5, epochs=20)

# %% tags=["demo", "nbval-ignore-output"]
print(climb(shapes_program(), shapes_task, budget=0))

# %% [markdown]
# Read it from the top. Each rung begins with its verdict, which is one of four: the rung *holds*, *fails*, is *unsure*
# (a number is outside its range, and no check finds the cause), or was *not asked* (nothing could be measured). The
# line *demands* says when the rung holds. Then come its most important numbers, some of which you have computed
# yourself. Five lines need an explanation:
#
# - *differs from the batch contract* compares the first batch with the contract of the task. What it lists is a hint, not
#   yet a fault. For example, `climb` calls unscaled inputs a fault only if the same training ends clearly better with
#   scaled inputs. So with a small budget, rung 1 can hold for inputs that the table of the bug zoo would stop there.
# - *demands*: on some rungs `climb` asks a different question. By hand, rung 2 compared the model's
#   score with baselines, and rung 4 compared validation losses over seeds. `climb` asks on rung 2 whether the outputs
#   depend on the inputs, on rung 4 whether 256 *training* examples can be learned, with three seeds, and leaves the
#   score to rungs 6 and 7. A gap between training and validation is no fault for it. Look at both losses yourself.
# - *attainable*, on rung 3, is the lowest loss that any outputs could have on the batch, by the program's own loss
#   function. It is found by a search, so it is approximate. If it is not the floor that the author intended, the
#   fault is in the loss function or in the targets.
# - *used* and *suggested*, on rung 5, are rates. With a schedule, *used* is the rate of the first step, here a 25th of
#   the highest. The two may differ: the rung fails only if training with another rate ends clearly better.
# - *not checked* names questions or comparisons of runs that were not made, with the reason. This report has no such
#   line, but the next one has.
#
# The last line counts the findings, the questions that were asked on all rungs, and those that were not asked. If
# comparisons were not made, or higher rungs were not climbed, it says that too.
#
# All seven rungs hold, although you know a weakness of this program: in about 20 validation images the stripes mislead
# it. `climb` looks for such a *shortcut* on rung 7. It exchanges the margin of each image (a band along its edges) for
# that of another image. The next cell does the same.

# %% tags=["demo"]
images, labels = drawn.images[in_val], drawn.labels[in_val]
margin = torch.ones(20, 20, dtype=torch.bool)
margin[4:-4, 4:-4] = False
scores = []
for x in (images, torch.where(margin, images.roll(601, dims=0), images)):
    with torch.no_grad():
        scores.append((trained[0].eval()(x).argmax(dim=1) == labels).float().mean().item())
lost = (scores[0] - scores[1]) / (scores[0] - majority)
print(f"accuracy ≈ {100 * scores[0]:.0f} %, with other margins ≈ {100 * scores[1]:.0f} %")
print(f"lost ≈ {100 * lost:.0f} % of what it is above the majority answer")

# %% [markdown]
# The model loses about 40 % of what it knows beyond the majority answer, all because of the margins. `climb` reports a
# shortcut from 50 % on, and calls this model sound. A limit must lie somewhere. If all rungs hold, the ladder has found
# no fault. That does not prove that there is none.
#
# Now a program with a fault. Its author gave the network a new last layer after the optimizer had been made. Nothing
# raises an error, and the loss falls.

# %% tags=["demo", "nbval-ignore-output"]
broken = shapes_program()
broken.model[-1] = nn.Linear(32 * 5 * 5, 5)
report = climb(broken, shapes_task, budget=2)
print(report)

# %% tags=["demo"]
for finding in report.findings:
    print(f"rung {finding.rung}, {finding.part}: {finding.title}")
    print("   evidence:", finding.evidence)

# %% [markdown]
# A finding begins with its title. In parentheses follow its code in the library's list of faults (`FAULTS` in
# `lecture_lib.debugging`), the rung and the part of the program. After the colon comes the evidence. The two lines
# below say what the fault means and what to do. So a report tells you four things. The *rung* is the first one that
# fails; all lower rungs hold. The *part* is the place in the program to look at, here the optimizer. The *evidence* is
# what was observed: 2 of the optimizer's 10 parameters are not in the model. The *remedy* says what to change: make the
# optimizer after the model is complete.
#
# This finding is *certain*: in a sound program of this kind the optimizer's parameters are parameters of the model,
# whatever the data are. After a certain finding `climb` does not compare runs, because they could only show the same
# fault again. The lines "not checked" say so. The report cannot tell whether this is the only fault. Repair it and
# climb again.

# %% [markdown]
# ## Your own program
#
# **Goal.** Debug a training script of your own: first unchanged, with `lecture debug`, and then with `climb`.
#
# The cells below write a script into a temporary folder, as you might write it for a project. It reads ten
# measurements of each of 442 patients, which come with scikit-learn, and predicts how far their diabetes has
# progressed a year later, as a score from 25 to 346. It trains on 342 patients, prints its loss, and measures the
# mean error on the other 100. It has one silent fault. Read it, and try to find the fault before you go on.

# %% tags=["demo"]
import tempfile
from pathlib import Path

from sklearn.datasets import load_diabetes
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.__main__ import main as lecture

# %% tags=["demo"]
first_half = '''
import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
patients = load_diabetes()
x = 20 * torch.tensor(patients.data, dtype=torch.float32)  # now the deviation is about 1
y = torch.tensor(patients.target, dtype=torch.float32)
order = torch.randperm(len(y))
train_rows, val_rows = order[:342], order[342:]
mean, std = y[train_rows].mean(), y[train_rows].std()
y = (y - mean) / std
train_data = TensorDataset(x[train_rows], y[train_rows])
val_data = TensorDataset(x[val_rows], y[val_rows])
train_loader = DataLoader(train_data, batch_size=32, shuffle=True)
val_loader = DataLoader(val_data, batch_size=100)
'''

# %% tags=["demo"]
second_half = '''
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)

for epoch in range(1, 11):
    model.train()
    for inputs, targets in train_loader:
        loss = ((model(inputs) - targets) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 3 == 1:
        print(f"epoch {epoch}: loss ≈ {loss:.1f}")

model.eval()
with torch.no_grad():
    errors = [(model(x).flatten() - y.flatten()).abs() for x, y in val_loader]
print(f"validation: mean error ≈ {std * torch.cat(errors).mean():.0f} points")
'''
train_file = Path(tempfile.mkdtemp()) / "train.py"
_ = train_file.write_text(first_half + second_half, "utf-8")

# %% [markdown]
# ### The unchanged script
#
# In a terminal, `lecture debug train.py` runs a script unchanged and watches its training. Arguments after the script's
# name go to the script, as in `lecture debug train.py --epochs 2`. The command finds the models and optimizers by
# itself, and reports when the script ends, also after an error or Ctrl-C. With `--html report.html` before the script's
# name it writes the report as a web page, too. The next cell calls the same command from Python. Its exit code is 1 if
# it finds something, and 0 if it finds nothing. Predict the exit code for this script.

# %% tags=["demo"]
predict("watched", None)

# %% tags=["demo"]
exit_code = lecture(["debug", str(train_file)])
print()

# %% tags=["demo"]
reveal("watched", exit_code, tolerance=0, usual={
    1: "The fault is in an expression of this script. The command does not check those.",
})

# %% [markdown]
# The command found nothing, but the script is wrong. Is a mean error of about 70 points good? Rung 2 answers that.
# The next cell computes the error of a constant answer, the mean of the training scores.

# %% tags=["demo"]
torch.manual_seed(0)
scores = torch.tensor(load_diabetes().target)[torch.randperm(442)]
constant_error = (scores[342:] - scores[:342].mean()).abs().mean()
print(f"constant answer: mean error ≈ {constant_error:.0f} points")


# %% [markdown]
# The network is no better than the constant answer. `lecture debug` cannot know that. It sees what happens inside a
# training step, and what it checks there is right: gradients are cleared, every parameter gets a gradient, and the
# optimizer uses it. It does not know which batches are for validation, or what the author means.
#
# ### The script as a program
#
# `climb` knows more because you tell it more. It needs the script in parts, so that it can run each part again, also
# with other data:
#
# | in your script | in `Program` | if you leave it out |
# |---|---|---|
# | network, optimizer, loss function, data | `model`, `optimizer`, `loss_fn`, `train_loader`, `val_loader` | – |
# | what you do with one batch | `step=`, a function of (program, batch) | clear, forward, loss, backward, step |
# | one epoch of training | `train_epoch=`, a function of (program) | a `step` for each batch, then the schedule |
# | your validation | `evaluate=`, a function of (program) that returns a number, or several by name | the mean loss of all examples |
#
# `climb` uses ordinary code for what you leave out, and then it cannot find a fault in yours. So pass your own
# functions. They must take model, optimizer and loaders from the program that they are given. Do not use global
# variables for these, because `climb` also calls the functions with another loader or another model.

# %% tags=["demo"]
def squared_error(outputs, targets):
    return ((outputs - targets) ** 2).mean()


def one_epoch(program):
    program.model.train()
    for inputs, targets in program.train_loader:
        program.optimizer.zero_grad()
        program.loss_fn(program.model(inputs), targets).backward()
        program.optimizer.step()


# %% tags=["demo"]
def mean_error(program):
    """Mean validation error, in standard deviations of the training scores."""
    program.model.eval()
    with torch.no_grad():
        pairs = [(program.model(x).flatten(), y.flatten()) for x, y in program.val_loader]
    return torch.cat([(outputs - y).abs() for outputs, y in pairs]).mean().item()


# %% [markdown]
# `Spec` declares what cannot be read from a program. Always give the `task` and the number of `epochs`, and for
# classification the number of `classes`. Declare what is unusual but intended, such as `accumulate=4`, `max_norm=1.0`
# or `frozen=["backbone.*"]`; otherwise it looks like a fault. Some questions need a declaration: leaks by patient or
# by time, for example, need `train_groups` and `val_groups`, or `train_times` and `val_times`. `help(Spec)` lists
# everything.
#
# Last comes a *factory*, a function that makes the whole program anew for a seed. With `make=` each run of `climb` gets
# a new program. Programs need this if their functions remember something between calls, such as a gradient scaler or
# the best weights so far.

# %% tags=["demo"]
def make(seed, change=lambda y: y):
    """The script as (program, spec); `change` is applied to its targets."""
    torch.manual_seed(seed)
    patients = load_diabetes()
    x = 20 * torch.tensor(patients.data, dtype=torch.float32)
    y = torch.tensor(patients.target, dtype=torch.float32)
    order = torch.randperm(len(y))
    train_rows, val_rows = order[:342], order[342:]
    y = change((y - y[train_rows].mean()) / y[train_rows].std())
    train_data = TensorDataset(x[train_rows], y[train_rows])
    train_loader = DataLoader(train_data, batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[val_rows], y[val_rows]), batch_size=100)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    parts = model, optimizer, squared_error, train_loader, val_loader
    program = Program(*parts, train_epoch=one_epoch, evaluate=mean_error)
    return program, Spec(task="regression", epochs=10)


# %% [markdown]
# If `make` is in the script itself, `lecture debug --climb make --budget 3 train.py` does the same as the next cell.
# Then the part that trains must be below `if __name__ == "__main__":`, because the command only imports the script.

# %% tags=["demo", "nbval-ignore-output"]
report = climb(*make(0), make=make, budget=3)
print(report)

# %% tags=["demo"]
for finding in report.findings:
    print(f"rung {finding.rung}, {finding.part}: {finding.title}")
    print(finding.remedy)

# %% [markdown]
# Read the report line by line:
#
# - *Rung 1* holds. The counts of examples are right, and the targets are standardised. One line is a hint: the labels
#   of a batch have the shape `[32]`, and for the network's outputs the contract wants `[32, 1]`.
# - *Rung 2* holds. Its two numbers are from before training, so they cannot show this fault: the loss is near that of the
#   best constant answer.
# - *Rung 3* fails. The batch is "learned", as far as this loss allows. But *attainable* is 0.95, and with a squared error
#   the floor is 0: perfect predictions have no error. So look at the loss function and the targets.
# - *The finding* says that the loss stays the same when the examples get each other's labels. Outputs of shape
#   `[32, 1]` minus targets of shape `[32]` give a table of 32 × 32 differences. Each prediction is compared with every
#   target, and the best answer is the mean.
# - *The rest*: comparisons of runs were not needed, and the higher rungs were not climbed. The last line gives both counts.
#
# The remedy offers two ways. Here the targets become a column. The next cell changes this one line in the script's
# file, and runs it again.

# %% tags=["demo"]
column = first_half.replace("y = (y - mean) / std", "y = ((y - mean) / std)[:, None]")
_ = train_file.write_text(column + second_half, "utf-8")
exit_code = lecture(["debug", str(train_file)])

# %% [markdown]
# The mean error falls from about 70 to about 44 points. What proves the repair is the rung: it failed before,
# and it must hold now.

# %% tags=["demo"]
again = climb(*make(0, change=lambda y: y[:, None]), budget=1)
for result in again.results:
    print(f"rung {result.rung.number}, {result.rung.name}: {result.verdict}")

# %% [markdown]
# All rungs hold. Which command would have found what?
#
# | where the fault is | `lecture debug` | `climb` |
# |---|---|---|
# | order of the loop, gradients, parameters that are not trained, calls of PyTorch's own loss functions | yes | yes |
# | a loss that you wrote yourself, the data, the split, the validation, the metric | no | yes |
# | rate, schedule, initial weights, layers: a replacement trains better | no | yes, if the budget is large enough |
# | groups, times, frozen layers, clipping | no | yes, if you declare them in `Spec` |
# | mistakes made before the loaders exist; a target that does not answer your question | no | mostly not |
#
# "Yes" means that the command asks about such faults, not that it finds each of them. Faults of the last row are not
# rare. This script has an example: scikit-learn standardised the ten columns over all 442 patients, so training knows
# something about validation. The programs that `climb` sees hold finished tensors, and nothing in them shows where
# they came from.
#
# **Recap.** For a script of your own: run it with `lecture debug` first, since that costs nothing. Compare its score
# with a constant answer. Then write the factory, with your own functions for the step, the epoch and the validation.
# Climb with a small budget, repair what is found, and climb again until nothing is found. At the end climb once with
# `budget=60`.

# %% [markdown]
# ## An unknown script
#
# **Goal.** Apply the whole ladder to a script that nobody has explained to you: find its faults, repair them, and
# write down what you did.
#
# Before you repair anything, think about how you will know that a repair is right. Take a program that is trained on 60
# digits and validated on 60, of which 45 are training images by mistake. The code below measures its accuracy before
# the repair, and with a repaired validation part of 60 other images. Predict the repaired program's accuracy:
# `"lower"`, `"equal"` or `"higher"`?

# %% tags=["demo"]
predict("repaired", None)

# %% tags=["demo"]
train_part, val_part = train_rows[:60], val_rows[:60]
held_out = {"before": torch.cat([train_part[:45], val_part[:15]]), "after": val_part}
histories = {name: train_digits(train_part, rows)[1] for name, rows in held_out.items()}
accuracy = {name: history.rows[-1].val_metric for name, history in histories.items()}
print(", ".join(f"{name} the repair ≈ {value:.1f}" for name, value in accuracy.items()))

# %% tags=["demo"]
reveal("repaired", "lower" if accuracy["after"] < accuracy["before"] else "higher", usual={
    "higher": "The network is the same. Only the images that it is measured on are different.",
    "equal": "45 of the 60 earlier images were training images, which it has memorised.",
})


# %% [markdown]
# The repair makes the score worse, because the earlier score was too high. So do not judge a repair by the score.
# Judge it by the rung that failed before the repair and holds after it.
#
# ### Question 03b-debug · 12 points
#
# The cell below holds a script that trains a small network on digits. It runs without an error. It has three faults, in
# three different functions. The other functions are right. Each course has its own script, the same for all students.
# The table says what each function should do by itself:
#
# | function | what it should do |
# |---|---|
# | `divide_rows` | give a quarter of the rows (rounded down), drawn with the generator, to validation and all other rows to training, each row with its label |
# | `standardise` | subtract the mean of all training inputs from both parts, and divide by their standard deviation: two numbers, as `x_train.mean()` and `x_train.std()` give them |
# | `make_network` | two linear layers with biases, 32 hidden units, a ReLU and dropout of 0.2 between them; the outputs are logits |
# | `make_optimizer` | Adam with its default settings for all parameters, at this rate, and a schedule that multiplies the rate by 0.9 each time it is stepped |
# | `loss_of_batch` | the mean cross-entropy of logits `[N, classes]` and class indices `[N]` |
# | `update` | one step of training on one batch; return the loss before the step, as a number |
# | `train_once` | one epoch in training mode, whatever mode the model is in before: call `update_on` on each batch in order, step the schedule once at the end, return the mean of the losses |
# | `measure` | the loss and the accuracy in evaluation mode, averaged over all examples, computed under `torch.no_grad`; batches may differ in size |
#
# Repair the script in its cell. Keep the names and arguments of its functions and the order of the two linear layers;
# the rest you may write differently. Hidden data are float64 and can have fewer than four rows. The mode in which
# `measure` leaves the model is not checked.
#
# Then write `diagnosis()`. It returns a dict with one entry for each fault. The key is the name of the function, as
# text. The value is the number of the lowest rung that shows the fault, a whole number from 1 to 7 (see the table at
# the top). `{"update": 3}` would be the whole diagnosis of a script with one fault in `update`. You may name only one
# or two functions if you have not found all three faults, but never more than three. If two rungs can be defended,
# either is accepted. Until `diagnosis` is written, the whole question counts as not answered.
#
# You may know some faults from the bug zoo. That is how it is in practice, too: a few faults come up again and again.
# One fault can cause two findings: repair the first, and climb again. Recognising a fault is the beginning. The
# debugging note asks for the numbers that prove it.
#
# Of the two cells below the check, the first prints the log and the second climbs. `climb` stops at the first rung that
# fails. So repair what it finds, run the script's cell again, and climb again. The check only compares the log with
# that of a sound script, and looks only at the form of `diagnosis`. So a ✓ means that the log looks right. It does not
# mean that every function is right, or that the diagnosis is. Points come from hidden data, on which each function is
# tried by itself. Each repaired fault gives 2 points, and naming its function and rung gives 1. If you repaired at
# least two faults and broke nothing else, you get 3 more points. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# The table says what each function is for. Give each one the smallest input on which you know the result by hand, as in
# the bug zoo: four rows, a batch of one, two batches of different sizes.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Some faults do not change the loss on one batch. Ask what is different between training and validation: the rows, the
# numbers that they are scaled by, the mode of the model.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-debug", "locked": false, "schema_version": 3, "solution": true, "task": false}
### BEGIN SOLUTION
def divide_rows(x, y, generator):
    order, few = torch.randperm(len(y), generator=generator), len(y) // 4
    return (x[order[few:]], y[order[few:]]), (x[order[:few]], y[order[:few]])


def standardise(x_train, x_val):
    mean, spread = x_train.mean(), x_train.std()
    return (x_train - mean) / spread, (x_val - mean) / spread


def make_network(features, classes):
    hidden = nn.Linear(features, 32), nn.ReLU(), nn.Dropout(0.2)
    return nn.Sequential(*hidden, nn.Linear(32, classes))


def make_optimizer(model, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)


def loss_of_batch(outputs, y):
    return nn.functional.cross_entropy(outputs, y)


def update(model, optimizer, loss_fn, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def train_once(model, batches, update_on, scheduler):
    model.train()
    losses = []
    for x, y in batches:
        losses.append(update_on(x, y))
    scheduler.step()
    return sum(losses) / len(losses)


def measure(model, loss_fn, batches):
    model.eval()
    loss = right = count = 0
    with torch.no_grad():
        for x, y in batches:
            outputs = model(x)
            loss += loss_fn(outputs, y).item() * len(y)
            right += (outputs.argmax(dim=1) == y).sum().item()
            count += len(y)
    return loss / count, right / count


def diagnosis():  # the functions with a fault, each with the lowest rung that shows it
    return {"divide_rows": 1, "update": 3, "measure": 6}
### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-debug-test", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false}
check("03b-debug", divide_rows, standardise, make_network, make_optimizer, loss_of_batch, update,
      train_once, measure, diagnosis)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-debug", divide_rows, standardise, make_network, make_optimizer, loss_of_batch, update,
      train_once, measure, diagnosis)
### END HIDDEN TESTS

# %% tags=["demo", "nbval-ignore-output"]
script = {name: globals()[name] for name in SCRIPT}
for epoch, (loss, val_loss, accuracy) in enumerate(run_script(script), 1):
    print(f"epoch {epoch}: training {loss:.2f}, validation {val_loss:.2f}, accuracy {accuracy:.3f}")

# %% tags=["demo", "nbval-ignore-output"]
script_task = Spec(task="classification", classes=10, epochs=10, scheduler_steps="epoch")
print(climb(script_program(script), script_task, budget=3))

# %% [markdown] nbgrader={"grade": false, "grade_id": "03b-note-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### Question 03b-note · 4 points, graded by hand
#
# Choose the fault that was hardest to find in the script. Write a debugging note about it for a colleague who meets the
# same fault next month. Eight sentences are enough.
#
# Graded on: the symptom, as the log shows it, and the lowest rung (1), the evidence, with at least one number that you
# measured before and after the repair (1), the cause and the repair (1), and one other check that would have shown the
# fault, with the reason why it would (1).
#
# <details><summary>Hint</summary>
#
# A symptom is what anybody sees, such as a loss that stays high. Evidence is what only this fault explains. If a
# healthy program could give the same number, the number is a symptom.
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03b-note", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# (An example. Your course's script may have other faults.)
#
# Symptom: the validation accuracy was about 0.9 and the loss about 0.35, which looked a little low for digits, and two
# measurements of the same weights gave two different losses. The lowest rung is 6; the loss on one batch reaches its
# floor, so rung 3 does not see it. Evidence: `measure` called twice in a row gave 0.34 and 0.31 before the repair, and
# 0.22 both times after it. The climb reported that validation ran in training mode. Cause: `measure` did not call
# `model.eval()`, so a fifth of the hidden units was dropped while it measured. Repair: `model.eval()` as its first
# line; `train_once` sets training mode again. What else would have shown it: a print of `model.training` in
# `measure`, because the mode is the cause itself. Batches of another size would not have: dropout does not depend on
# them.

# %% [markdown]
# **Recap.** Climb, repair one fault, climb again. Believe a repair when the rung that failed before now holds, and
# write down the evidence while you have it.

# %% [markdown]
# ## The quiz again
#
# Here is the flat loss from the start. Each option now has its own answer, and your first choice is remembered. Put a
# letter, in quotes, in place of `None` if you would choose differently now. The options were: (a) divide the rate by
# ten, (b) replace SGD with AdamW, (c) check whether the model can memorise four examples, (d) add layers.

# %% tags=["demo"]
quiz("flat-loss", None, FLAT_LOSS)

# %% [markdown]
# If the model cannot memorise four examples with an ordinary learning rate, check every line of the training step.
# Until you have found the fault, every other change is a guess. Memorising four examples is necessary, not
# sufficient: you have met programs here that memorise any batch and are wrong. Another rung stops them.
#
# ## Where you are
#
# The next cell sums up the visible checks that ran in this session.

# %% tags=["demo"]
show_progress("03b")

# %% [markdown]
# When all checks are as you want them, save the notebook and run `lecture submit --id YOUR-ID --name "Your Name"` in a
# terminal, in the course's folder with its environment active.
