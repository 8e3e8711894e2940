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
from lecture_lib.debugging import Program, Spec, climb, find_lr
from lecture_lib.notebook import check, choose_rate_by_hand, predict, quiz, reveal
from lecture_lib.notebook import show_figure, show_gains, show_losses, show_splits
from lecture_lib.notebook.quiz_texts import FLAT_LOSS
from lecture_lib.notebook.zoo import CHECKLIST, gap_after, small_run
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
# Pick one and put its letter in place of `None`. The answers come at the end of the notebook, when you have climbed the
# ladder once.

# %% tags=["demo"]
quiz("flat-loss", None, dict.fromkeys("abcd", "Kept. The answer comes at the end."))

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

# %% [markdown]
# ## Rung 4 · A small subset, and what seeds say
#
# **Goal.** Decide from a few short runs whether a program learns from its data at all, by a criterion that chance
# rarely meets.
#
# Take 72 images, train for some seconds, validate on others. The score need not be good. It has to beat the *constant
# answer* of rung 2 (predict the class frequencies), and by more than the result changes with the seed, which draws both
# the images and the first weights. A program whose labels were permuted passes rung 3: it learns any batch by heart.
# Predict its validation loss on this rung, beside the constant answer's: `"lower"`, `"equal"` or `"higher"`?

# %% tags=["demo"]
predict("permuted", None)


# %% tags=["demo"]
gains = {}
for name, permuted in [("as they are", False), ("permuted labels", True)]:
    runs = [small_run(digits.images, digits.labels, seed, permuted) for seed in range(5)]
    gains[name] = [constant - loss for loss, constant in runs]
reveal("permuted", "higher" if max(gains["permuted labels"]) < 0 else "not the same for all seeds")
show_gains(gains, "Above zero for every seed as the labels are, below it once they are permuted.")

# %% [markdown]
# You should see `higher`: certain of what it learned by heart, the network is worse than no answer at all. Rung 3 passes
# this program, rung 4 stops it.
#
# How often does chance alone meet a criterion? The next cell lets 100,000 programs draw gains that are pure noise, and
# counts. "The mean is positive" holds for half of them. "The mean exceeds twice the standard deviation between seeds"
# holds for few. Predict the share with three seeds, in percent.

# %% tags=["demo"]
predict("chance", None)

# %% tags=["demo"]
passed = {}
for seeds in (2, 3, 5):
    noise = torch.randn(100_000, seeds, generator=torch.Generator().manual_seed(0))
    passed[seeds] = (noise.mean(1) > 2 * noise.std(1)).float().mean().item()
reveal("chance", round(100 * passed[3]), "percent", tolerance=2)
print({seeds: f"{share:.0%}" for seeds, share in passed.items()})

# %% [markdown]
# You should see 4 percent with three seeds, 11 with two and 1 with five. Two seeds are too few.
#
# ### Question 03b-subset · 6 points
#
# Write `subset_rung(losses, constant)`. Both are tensors `[seeds]`: for each seed the validation loss of the program and
# of the constant answer, on the same images. Lower is better. Return three values in this order:
#
# 1. the gain: the mean over the seeds of what the program saves, in nats;
# 2. the spread: the standard deviation of that saving between seeds, with $n - 1$;
# 3. whether the rung holds: at least three seeds, none of which diverged (`nan` or `inf`), and a gain above twice the
#    spread.
#
# Where a seed diverged, the first two values are not looked at. Hidden tables: 2 points for each value. Limit: 30
# seconds.
#
# <details><summary>Hint 1</summary>
#
# A hard draw of images raises both losses. Which single number per seed is free of that?
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
    saved = constant - losses
    gain, spread = saved.mean().item(), saved.std().item()
    finite = bool(saved.isfinite().all())
    return gain, spread, len(saved) >= 3 and finite and gain > 2 * spread
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-subset-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03b-subset", subset_rung)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-subset", subset_rung)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** A subset shows what one batch cannot: whether inputs and labels belong together. Compare within a seed, and
# ask how often chance would do as well.

# %% [markdown]
# ## Rung 5 · The learning rate, once the rest holds
#
# **Goal.** Read a rate from a sweep, and know when there is none to read.
#
# Below this rung a wrong rate and a wrong program look the same: the loss stays flat. Above it the finder needs a
# hundred steps. It multiplies the rate after every step and records the loss. Often one reads "multiply by about 1.05".
# Predict where that gets you from $10^{-7}$ after 100 multiplications.

# %% tags=["demo"]
predict("sweep", None)

# %% tags=["demo"]
reveal("sweep", 1e-7 * 1.05**100)
print(f"from 1e-7 to 10 in 100 steps: a factor of {(10 / 1e-7) ** (1 / 99):.4f} a step")

# %% [markdown]
# You should see 1.315e-05: most programs have not begun to learn there, and the curve stays flat. The factor follows
# from the two ends, 1.2045 here.
#
# How to read the curve is a matter of rules, and they disagree. This is the lecture's table: losses at five rates.
# Predict which rate "one decade before the lowest loss" gives.

# %% tags=["demo"]
predict("decade", None)

# %% tags=["demo"]
rates = torch.tensor([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
losses = torch.tensor([3.2, 2.5, 1.1, 0.9, 2.8])
lowest = losses.argmin()
reveal("decade", rates[lowest].item() / 10)
slopes = torch.gradient(losses, spacing=(rates.log10(),))[0]
print(f"the largest fall between neighbours ends at {rates[1 + losses.diff().argmin()]:.0e}")
print(f"the steepest central difference is at {rates[1 + slopes[1:-1].argmin()]:.0e}")

# %% [markdown]
# You should see 0.01, 1e-02 and 1e-03: name the rule when you quote a rate. The lowest loss itself, at 0.1, is nobody's
# choice: it is the last rate before the rise, and a sweep stays there for one step, a training for thousands.
#
# Now a real sweep, on digits. Move the line to the rate that you would take; the arrow keys move it too. In a static page
# you see the curve with the library's suggestion, a third of the way across the valley's floor.

# %% tags=["demo", "nbval-ignore-output"]
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
batches = TensorLoader(digits.images, digits.labels, batch_size=64, shuffle=True, seed=0)
sweep = find_lr(model, batches, optimizer, nn.CrossEntropyLoss())
choose_rate_by_hand(sweep)

# %% [markdown]
# You should see a flat start up to about 0.001, a fall that ends near 0.05, a noisy floor, and a steep rise before 1. The
# three rules differ by less than a factor of ten. (Where a single step lies depends on the machine; the picture does
# not.)
#
# ### Question 03b-lr · 6 points
#
# Write `choose_rate(rates, losses)`. Both are NumPy arrays `[N]`, the rates rising. Return one rate, as a number. It may
# be any number in the *good range*: from the rate at which a tenth of the whole fall has happened to half the rate of
# the lowest loss, on the curve without its noise. Return `None` when the loss never falls by more than 10 % of the first
# one. A sweep that diverged ends in `nan` or `inf`; one that was broken from the start holds nothing else.
#
# Hidden curves: 2 points for three clean ones. Then 2 for noisy ones (about 1.5 % of the loss) and diverged ones, and 2
# for four curves that allow no choice. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# First leave out what is not finite, then ask whether there is a fall at all. What remains is one line.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A rule that looks at two neighbours follows the noise. One that looks at the lowest loss, or at how much of the fall has
# happened, does so less.
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


# %% nbgrader={"grade": true, "grade_id": "03b-lr-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03b-lr", choose_rate)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-lr", choose_rate)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** A sweep covers the range that you give it. Leave a margin below the lowest loss, and let a curve without a
# fall be a finding: go back to rung 3.

# %% [markdown]
# ## The bug zoo: which rung shows it?
#
# **Goal.** Meet programs that run and are wrong, say which rung will stop them, and repair six.
#
# The lecture's checklist for a loss that does not go down, with the place where each fault shows first:
#
# | fault | what you see | lowest rung | what to do |
# |---|---|---|---|
# | inputs not scaled | a first loss far above $\ln C$, then `nan` | 1 | scale, with the training part's numbers |
# | labels of wrong shape or type | an error, or a loss that means something else | 1 | look at `shape` and `dtype` |
# | second softmax | a floor above zero | 3 | give the loss logits |
# | gradients never cleared | jumps; or nothing at all | 3 | `optimizer.zero_grad()` in every step |
# | frozen parameters | a loss that stops at $\ln C$ or a little below | 3 | list `requires_grad` by name |
# | dead ReLUs | a flat loss, gradients of exactly zero | 3 or 4 | lower rate, another start, LeakyReLU |
# | rate too small | a loss that hardly moves | 5 | the finder |
# | rate too large | jumps, then `nan` | 5 | the finder |
#
# The next cell runs each for 100 steps on one small batch of four classes and prints how far it ends above its floor.
# All but one are off by more than 0.15. Predict which fault is *not* caught by its loss: `"second softmax"`,
# `"never cleared"` or `"frozen parameters"`?

# %% tags=["demo"]
predict("missed", None)

# %% tags=["demo"]
gaps = {name: gap_after(100, **settings) for name, settings in CHECKLIST.items()}
missed = [name for name, gap in gaps.items() if abs(gap) <= 0.15 and name != "healthy"]
reveal("missed", ", ".join(missed))
for name, gap in gaps.items():
    print(f"{name}: {'at its floor' if abs(gap) <= 0.15 else 'not at its floor'}")

# %% [markdown]
# You should see `never cleared`. With plain labels, old gradients point the right way for as long as the batch is not
# learned, and vanish once it is: the pile does no harm here. With smoothed labels there is a finite best place, the pile
# carries the weights past it, and the loss stays off its floor. So a loss at its floor is necessary, not sufficient.
#
# `climb` knows more than the loss: it compares the gradient that the optimizer uses with a fresh one. Below, the same
# fault in a program on digits. Predict the number of the rung that stops it.

# %% tags=["demo"]
predict("uncleared", None)


# %% tags=["demo"]
def digits_program(slip=0, **parts):
    """A classifier of digits as the ladder climbs with it; its labels may slip by some rows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    few, others = stratified_split(digits.labels, (0.15, 0.85), seed=0)
    x, y = digits.images[few], digits.labels[few].roll(slip)
    loader = TensorLoader(x, y, batch_size=64, shuffle=True, seed=0)
    validation = TensorLoader(digits.images[others], digits.labels[others], batch_size=512)
    return Program(model, optimizer, nn.CrossEntropyLoss(), loader, validation, **parts)


# %% tags=["demo"]
def never_cleared(program, batch):
    """One step without zero_grad."""
    program.loss_fn(program.model(batch[0]), batch[1]).backward()
    program.optimizer.step()


digits_task = Spec(task="classification", classes=10, epochs=5)
climbed = climb(digits_program(step=never_cleared), digits_task)
reveal("uncleared", climbed.findings[0].rung, tolerance=0)
print(climbed.findings[0].title)

# %% [markdown]
# You should see rung 3. Two more: training labels that have slipped by one row, and a network whose hidden units are all
# below zero from the start. The first learns any batch by heart. Predict the rung that stops it.

# %% tags=["demo"]
predict("slipped", None)

# %% tags=["demo"]
slipped = climb(digits_program(slip=1), digits_task)
dead = digits_program()
nn.init.constant_(dead.model[1].bias, -50.0)
stopped = climb(dead, digits_task)
reveal("slipped", slipped.findings[0].rung, tolerance=0)
for finding in (slipped.findings[0], stopped.findings[0]):
    print(f"rung {finding.rung}: {finding.title}")

# %% tags=["demo"]
show_figure(
    stopped.plot(),
    caption="The ladder stops at the first rung that fails and does not climb on.",
    alt="Left, seven rungs: 4 fails with dead ReLUs, the higher ones are not climbed. Right, the "
    "training and validation losses stay above that of the best constant answer, 2.30.",
)

# %% [markdown]
# You should see rung 1 for the slipped labels, and 4 for the dead units. `climb` looks at inputs beside their labels. By
# hand you may see it there too, or only on rung 4, where nothing is learned that holds for other images.
#
# One row of the checklist is often told wrongly: "one-hot labels break `CrossEntropyLoss`". As floats they are
# probabilities, and give the same loss as class numbers. What breaks are class numbers stored as floats. Predict how
# many of the three forms in the next cell raise an error.

# %% tags=["demo"]
predict("forms", None)

# %% tags=["demo"]
logits, right = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]]), torch.tensor([0, 2])
one_hot = nn.functional.one_hot(right)
outcome = {}
forms = {"floats": right.float(), "one-hot": one_hot, "one-hot floats": one_hot.float()}
for name, y in forms.items():
    try:
        outcome[name] = nn.functional.cross_entropy(logits, y).item()
    except RuntimeError:
        outcome[name] = "error"
reveal("forms", list(outcome.values()).count("error"), tolerance=0)
same = nn.functional.cross_entropy(logits, right).item()
print("the same loss:", math.isclose(outcome["one-hot floats"], same, rel_tol=1e-6))

# %% [markdown]
# You should see 2 and `True`: class numbers as floats and one-hot integers raise an error, one-hot floats do not.
#
# ### Six programs
#
# Each of these functions does what its first line says, except for one fault. None raises an error. Read them with the
# ladder in hand before you read on.

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
def labelled_only(x, y):  # the examples that have a label, in their order; -1 is none
    return x[: int((y >= 0).sum())], y[y >= 0]


def mean_loss(model, x, y):  # the loss of the finished model on validation data, a number
    with torch.no_grad():
        return nn.functional.cross_entropy(model(x), y).item()


def train_epoch(step, scheduler, batches):  # one epoch, with a schedule that is counted in epochs
    for x, y in batches:
        step(x, y)
        scheduler.step()


# %% [markdown]
# ### Question 03b-fix · 18 points
#
# Write `repaired()`. It returns a dict with six entries, `"loss"`, `"step"`, `"split"`, `"labels"`, `"evaluation"` and
# `"schedule"`, for the programs in the order above. Each entry is a pair: the repaired function, with the same arguments
# and the same kind of result, and the number of the lowest rung (table at the top) whose question the fault fails. Copy a
# function into `repaired` and change what is wrong in it.
#
# A program that you leave out costs its own points only. Hidden data: for each of the six, 2 points for what the repaired
# program does, and 1 more for its rung. Where two rungs can be argued, both count. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Give each function the smallest input on which you know the result by hand: one example, two steps, a list of four
# labels.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Two of the six faults are a line that is missing, one is a line in the wrong place, and three are in an expression.
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
    return {"loss": (batch_loss, 3), "step": (train_step, 3), "split": (split_data, 1),
            "labels": (labelled_only, 1), "evaluation": (mean_loss, 6),
            "schedule": (train_epoch, 6)}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03b-fix-test", "locked": true, "points": 18, "schema_version": 3, "solution": false, "task": false}
check("03b-fix", repaired)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03b-fix", repaired)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** A fault has a lowest rung that can see it, and every rung above sees something odd as well. Climb from below:
# the first rung that fails names the smallest place to search. (In your own evaluation put the mode back as it was; the
# lecture's `evaluate` does.)

# %% [markdown] nbgrader={"grade": false, "grade_id": "03b-p4-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Rung 6 · Reading a gap
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
# The flat loss from the start. Each option has an answer of its own; what you chose then is remembered. Put a letter in
# place of `None` if you choose differently now. The options were: (a) divide the rate by ten, (b) replace SGD by AdamW,
# (c) see whether four examples can be learned by heart, (d) add layers.

# %% tags=["demo"]
quiz("flat-loss", None, FLAT_LOSS)

# %% [markdown]
# If four examples cannot be learned at a usual rate, look at the lines that every step runs; until the fault is found,
# every other change is a guess. That is necessary, not sufficient: you have met programs here that learn any batch by heart
# and are wrong. They stop at another rung.
#
# When all checks are as you want them, save the notebook and run `lecture submit --id YOUR-ID --name "Your Name"` in a
# terminal, in the course's folder with its environment active.
