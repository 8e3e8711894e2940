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
# Programs that crash are the easy ones. This notebook is about programs that run, print a falling loss, and are wrong.
# The ladder is a fixed order of looking, from the data up to the errors of the finished model, and its one rule is:
# never skip a rung.
#
# How to work: predict, run, read, answer. Each question has a visible check below it; hidden cases decide the points.
#
# | rung | what you look at | what it catches |
# |---|---|---|
# | 1 | the data: shapes, dtypes, ranges, labels, the split | most bugs that look like model bugs |
# | 2 | baselines without a model | scores that mean nothing |
# | 3 | overfitting one batch | broken wiring: loss, labels, gradients |
# | 4 | a small subset | a pipeline that does not learn from data |
# | 5 | the learning-rate finder | a rate that is off by powers of ten |
# | 6 | the full run, then regularisation | overfitting, schedules, evaluation |
# | 7 | error analysis | what to do next |

# %% tags=["setup"]
import math

import torch
from torch import nn

from lecture_lib.data import TensorLoader, load_digits, stratified_split
from lecture_lib.notebook import check, predict, reveal, show_losses, show_splits
from lecture_lib.training import evaluate, train

# %% [markdown]
# ## Before you start: a pop quiz
#
# You wrote a model and started training. The loss has been flat for 100 steps. What do you do first?
#
# - (a) Divide the learning rate by ten.
# - (b) Replace SGD by AdamW.
# - (c) See whether four examples can be learned by heart.
# - (d) Add layers.
#
# Pick one before you open the answers.
#
# <details><summary>(a) a lower rate</summary>
#
# It could be that the rate is too large. It could as well be too small, or there may be no gradient at all. One training
# later you will know little more. Rung 5 finds the rate in 100 steps, once the rungs below it hold.
#
# </details>
# <details><summary>(b) another optimizer</summary>
#
# AdamW rescales each gradient, so it can hide a badly scaled input or a rate that is off. A bug in the wiring stays
# where it is.
#
# </details>
# <details><summary>(c) four examples by heart</summary>
#
# Yes: it takes seconds, with a rate that usually works (Adam, 0.001 to 0.01). If the four cannot be learned, the fault
# is in the few lines that every step runs: loss, labels, gradients, rate. Data set, depth and regularisation are out of
# the question. If they can, those lines work, and you climb on. The data and the baselines come before it.
#
# </details>
# <details><summary>(d) more layers</summary>
#
# They add places where the fault can hide. A model that cannot learn four examples does not need capacity.
#
# </details>

# %% [markdown]
# ## Rung 1 · Look at the data: a published mistake
#
# **Goal.** See a good training accuracy with a useless validation score, and find the one line that made it.
#
# A debug-ladder notebook that can be found on the web generates two half moons, point after point along each arc: first
# all of class 0, then all of class 1. It takes the last 20 % for validation, without shuffling. The code below does the
# same. Training goes well: the accuracy on the training part reaches about 100 %. Predict the number of classes in the
# validation part.

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
reveal("classes", len(y[stacked[1]].unique()))


# %% [markdown]
# One class, and of that class the end of the arc, which training never saw. The score answers a question that nobody
# asked. The next cells train the same network on this split and on a stratified one and say how the two accuracies come
# out. Nothing else differs.

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
    print(f"{name}: training above 0.97 {on_train > 0.97}, validation above 0.95 {on_val > 0.95}")
print("stacked: validation below one half", accuracy["stacked"][1] < 0.5)

# %% tags=["demo"]
show_splits(
    x,
    {"stacked": stacked, "stratified": stratified},
    caption="Stacked, validation is the end of one moon; stratified, it covers both.",
    alt="Two scatter plots of two half moons. Left, all validation points lie at the right "
    "end of the lower moon. Right, they are spread over both.",
)


# %% [markdown]
# You should see that both trainings look perfect on their own data and that only the stratified split validates well;
# on the stacked one, a trained network does worse than a coin. The validation score says that something is wrong; no
# curve, rate or architecture says what. One look at the classes of each part does: the culprit is the line
# `stacked = …`.
#
# ### Question 03b-inspect · 40 points
#
# Write `inspect_data(x_train, y_train, x_val, y_val, classes)`. The arguments are tensors (inputs `[N, features]`,
# labels `[N]`) and the number of classes. Return the *set* of the names of all problems that are there. Each condition
# looks at both parts:
#
# - `"range"`: some input is larger than 10 in absolute value. (Standardised inputs reach ±5.)
# - `"dtype"`: inputs that are not floating point, or labels that are not `torch.long`.
# - `"labels"`: a label outside 0 … `classes` − 1.
# - `"duplicates"`: a row of `x_train` that occurs, number for number, in `x_val` too, whatever its label. (A repeat
#   *within* training is not a leak.)
# - `"class-stacked"`: a class that occurs in one of the two parts only.
#
# A clean data set gives the empty set. Hidden cases: 8 points for each problem that is found everywhere it is and
# reported nowhere else. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Write the five conditions one at a time and run the check after each: it has a data set or two for each problem, and
# three clean ones.
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


# %% nbgrader={"grade": true, "grade_id": "03b-inspect-test", "locked": true, "points": 40, "schema_version": 3, "solution": false, "task": false}
check("03b-inspect", inspect_data)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-inspect", inspect_data)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Five conditions, each a line. A condition that also fires on healthy data is worse than none: you learn to
# ignore it.

# %% [markdown]
# ## Rung 2 · Baselines: what any model must beat
#
# **Goal.** Know three numbers before the first epoch.
#
# *Majority accuracy*: always predict the class that is most frequent in training. With 95 % of one class this scores
# 95 % and has learned nothing. *Constant loss*: predict the training frequencies for every input, whatever it is; the
# cross-entropy of that on the validation labels is what a model has to beat by looking at its input. *Initial loss*: a
# fresh network whose logits are near zero gives every class $1/C$, so its loss is $\ln C$. Predict it for 10 classes, in nats.

# %% tags=["demo"]
predict("initial", None)

# %% tags=["demo"]
reveal("initial", nn.functional.cross_entropy(torch.zeros(1, 10), torch.tensor([3])).item())

# %% [markdown]
# You should see 2.303. It holds for logits *near zero* only. The next cell gives the same fresh network the digits
# scaled to 0 … 1 and, by mistake, stretched to 0 … 255, the range of ordinary pixels. A first loss far above $\ln C$ is a message about the inputs or
# the initialisation, sent before any training.

# %% tags=["demo"]
digits = load_digits()
torch.manual_seed(0)
fresh = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
with torch.no_grad():
    scaled, stretched = (
        nn.functional.cross_entropy(fresh(digits.images * factor), digits.labels).item()
        for factor in (1, 255)
    )
print(f"at 0 … 1: {scaled:.1f}")
print(f"at 0 … 255: more than five times that: {stretched > 5 * scaled}")


# %% [markdown]
# ### Question 03b-baseline · 40 points
#
# Write `baselines(y_train, y_val, classes)`. The labels are tensors of class indices; every class of the validation part
# occurs in training; `classes` is the number of the network's outputs. Return three numbers in this order:
#
# 1. the accuracy on the validation labels of always predicting the most frequent training class, as a fraction;
# 2. the mean cross-entropy on the validation labels, in nats, of predicting the training frequencies for every input;
# 3. the loss of a network that gives every output the same probability.
#
# Hidden cases, balanced and skewed: 12, 16 and 12 points for the three numbers. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Fit on one part, score on the other: which of the two arguments does each number use for what?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Cross-entropy of one example is minus the logarithm of the probability that was given to its label.
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


# %% nbgrader={"grade": true, "grade_id": "03b-baseline-test", "locked": true, "points": 40, "schema_version": 3, "solution": false, "task": false}
check("03b-baseline", baselines)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-baseline", baselines)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** A score without its baseline is a number without a unit. Report both.

# %% [markdown]
# ## Rung 3 · Overfit one batch: a bug that lowers the loss
#
# **Goal.** See why "the loss goes down" is not enough, and what a floor tells.
#
# A classifier ends with `nn.Softmax`, and the loss is `CrossEntropyLoss`, which applies a softmax of its own. This is
# the *double softmax*, a frequent bug. It raises no error, the loss falls, the accuracy on the batch can even reach 100 %. But probabilities lie between 0 and 1, so the second softmax never sees a difference larger
# than 1, and the loss cannot fall below $\ln(1 + (C - 1)/e)$. Predict that floor for 10 classes: near 0, 0.5 or 1.5?

# %% tags=["demo"]
predict("floor", None)


# %% tags=["setup"]
def overfit(model, x, y, steps=300):
    """Train on one batch only; return the loss at every step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
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
curves, floor = {}, math.log(1 + 9 / math.e)
for name, last in [("logits", nn.Identity()), ("double softmax", nn.Softmax(dim=1))]:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    curves[name] = overfit(nn.Sequential(body, last), x_batch, y_batch)
reveal("floor", floor)

# %% tags=["demo"]
show_losses(curves, "With a second softmax the loss falls, and stops at its floor.", floor)

# %% tags=["demo"]
print("logits: below 0.01:", curves["logits"][-1] < 0.01)
print("double softmax: within 0.02 of the floor:", abs(curves["double softmax"][-1] - floor) < 0.02)

# %% [markdown]
# You should see `True` twice. So rung 3 does not ask "does the loss fall?" but "does it reach the lowest value it can
# have?". That value is 0 for plain labels; with label smoothing it is higher (0.5003 for $\varepsilon = 0.1$ and 10
# classes), and that is no bug.
#
# ### Which batch
#
# The batch above holds two of each class on purpose. The next cell takes twenty images of the digit 3 instead, and
# multiplies all of them by zero: this program cannot see anything. It trains for 300 steps and prints its last loss,
# beside that of a mixed batch multiplied by zero. Predict: does the loss of the batch of threes go below 0.01, `"yes"`
# or `"no"`?

# %% tags=["demo"]
predict("threes", None)

# %% tags=["demo"]
threes = (digits.labels == 3).nonzero()[:20, 0]
blind = {}
for name, rows in [("threes", threes), ("mixed", two_of_each)]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    blind[name] = overfit(model, 0 * digits.images[rows], digits.labels[rows])[-1]
reveal("threes", "yes" if blind["threes"] < 0.01 else "no")
print(f"mixed: {blind['mixed']:.2f}, and ln 10 is {math.log(10):.2f}")

# %% [markdown]
# You should see `yes`, and 2.30 for the mixed batch. A last bias can learn one class without any input, so a batch of
# one class lets a blind program pass. The mixed batch stops it at $\ln 10$: all that is left to learn without inputs is
# how frequent each class is.
#
# ### Question 03b-overfit · 10 points
#
# Write `overfit_rung(model, step, loss_fn, x, y, floor)`. `step(x, y)` is the author's own training step on a batch; the
# mean loss of the batch is `loss_fn(model(x), y)`; `floor` is the lowest value that this loss can have, in nats. The
# model comes in training mode. Return one of three words:
#
# - `"one class"` when all labels `y` are equal, without any step;
# - `"holds"` when, after 100 steps on the batch, its loss *in evaluation mode* is within 0.15 of the floor;
# - `"fails"` otherwise. A loss far *below* the floor is not the loss that its author means; one that is `nan` is none.
#
# A check leaves no trace: the weights are afterwards as they came, and the model is in training mode again. (The
# optimizer's memory is out of your reach here, and is not looked at.)
#
# Hidden programs, healthy and broken: 3 points for what needs the floor (smoothed labels, a second softmax, a loss below
# the floor), 3 for the wiring (six programs, the slow and the diverging among them), 1 for programs with dropout, 1 for
# the batches, and 2 for the model put back once the wiring is judged rightly. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Write down what happens to a `nan` in your last comparison. Which of the two words should be the one behind `else`?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `model.state_dict()` gives the tensors that the model goes on training, not copies of them.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03b-overfit", "locked": false, "schema_version": 3, "solution": true, "task": false}
def overfit_rung(model, step, loss_fn, x, y, floor):
    """One of: holds, fails, one class."""
    ### BEGIN SOLUTION
    if len(y.unique()) == 1:
        return "one class"
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for _ in range(100):
        step(x, y)
    model.eval()
    with torch.no_grad():
        loss = loss_fn(model(x), y).item()
    model.load_state_dict(before)
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
# **Recap.** Compare with the attainable floor, on both sides; mix the classes; measure in evaluation mode. And know what
# rung 3 cannot see: permuted labels, a leaking split, a wrong evaluation. A batch can be learned by heart in all three
# cases.

# %% [markdown] nbgrader={"grade": false, "grade_id": "03b-p4-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Rung 6 · Reading a gap
#
# Rungs 4, 5 and 7 have no exercise in this notebook. Rung 5 is section 5 of notebook 03a. In your own project climb them
# all the same.
#
# ### Question 03b-p4 · 20 points, graded by hand
#
# Your run has a training loss of 0.02 and a validation loss of 0.6 (cross-entropy). Diagnose it, and name three interventions in the
# order of what they cost. Say what you would check first, and why. Five sentences are enough.
#
# Graded on: the diagnosis (5), what is checked before any intervention (5), three sensible interventions (5), their
# order by cost with a reason (5).
#
# <details><summary>Hint</summary>
#
# A gap has two kinds of causes: the model, or the comparison. Which of them can be checked in a minute?
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03b-p4", "locked": false, "points": 20, "schema_version": 3, "solution": true, "task": false}
# The network fits its training data almost perfectly and does much worse on validation: overfitting, provided that both
# parts come from the same distribution and went through the same preprocessing. That is checked first, since it takes
# a minute and makes everything else pointless if it fails. After that, by cost: stop at the best validation loss and
# add weight decay or dropout (one line each); augment the training images; make the network smaller, which changes what
# was tuned before; and last, since labels cost most, collect more data.

# %% [markdown]
# ## The quiz again
#
# The flat loss from the start: see whether four examples can be learned by heart. If they cannot at a usual rate, look at
# the lines that every step runs; until the fault is found every other change is a guess. If they can: climb on, a rung at
# a time.
#
# When all checks are as you want them, save the notebook and run `lecture submit --id YOUR-ID --name "Your Name"` in a
# terminal, in the course's folder with its environment active.
