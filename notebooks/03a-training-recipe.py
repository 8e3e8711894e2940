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
# You will train a small network on 1,797 real handwritten digits, and look closely at two places of the loop where
# exactness is easily lost: accumulating gradients over several small batches, and clipping them.
#
# How to work: each section states a goal and asks for a prediction before it shows a result. Write the prediction
# down first; a guess that turns out wrong teaches more than a result that you only read. A question has an answer cell
# and, below it, a visible check. The check says what happened and what to look at. It does not give the points: hidden
# cases do, on other inputs. A question that you skip breaks nothing later.
#
# | section | you will be able to | points |
# |---|---|---|
# | 1 Tape | read a gradient off a graph | |
# | 2 Batch | say what a batch must satisfy before a model sees it | |
# | 3 Accumulation | train as if on a batch that does not fit | 40 |
# | 4 Clipping | limit a step without turning it | 40 |
# | 5 Rate | find a learning rate in 100 steps | |
# | 6 Recipe | train to 97 % on digits that the model never saw | |
# | 7 Two habits | say what `eval()` and `no_grad()` each do | 20 |

# %% tags=["setup"]
import copy
import math
import time
from dataclasses import asdict
from itertools import cycle, pairwise

import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from lecture_lib.data import TensorLoader, cifar10, fashion_mnist, load_digits, stratified_split
from lecture_lib.debugging import find_lr
from lecture_lib.experiments import RunRecord, content_id, set_seed
from lecture_lib.notebook import (
    check, predict, reveal, show_arrows, show_figure, show_images, show_progress
)
from lecture_lib.training import evaluate, train

# %% [markdown]
# ## 1 Tape: what `backward()` walks through
#
# **Goal.** Follow one training step by hand.
#
# A model with two parameters predicts $\hat y = w x + b$ and pays $L = (\hat y - y)^2$. While Python computes, autograd
# writes every operation down, like a friend who notes each ingredient while you bake. `L.backward()` reads the notes
# from the end to the start and multiplies the local slopes: $\partial L/\partial w = 2(\hat y - y)\cdot x$.
#
# Here $x = 3$, $w = 2$, $b = 1$ and $y = 10$, so $\hat y = 7$ and the error is $-3$. Predict $\partial L/\partial w$:
# its sign says in which direction the loss rises.

# %% tags=["demo"]
predict("tape", None)

# %% tags=["demo"]
w = torch.tensor(2.0, requires_grad=True)
b = torch.tensor(1.0, requires_grad=True)
loss = (w * 3.0 + b - 10.0) ** 2
loss.backward()
reveal("tape", w.grad.item())

# %% [markdown]
# You should see −18, and $\partial L/\partial b$ is −6: the input 3 makes the difference. Both are negative, so the loss
# falls when $w$ and $b$ grow. One step of gradient descent with learning rate 0.01 moves each parameter against its
# gradient: $w = 2 + 0.18$ and $b = 1 + 0.06$. The next cell takes this step and computes the loss again. Note the
# `no_grad()`: the update itself must not be written on the tape.

# %% tags=["demo"]
with torch.no_grad():
    w -= 0.01 * w.grad
    b -= 0.01 * b.grad
    new_loss = (w * 3.0 + b - 10.0) ** 2
print(f"w = {w.item():.2f}, b = {b.item():.2f}")
print(f"loss {loss.item():.2f} -> {new_loss.item():.2f}")

# %% [markdown]
# **Recap.** A step is: forward (the tape is written), backward (it is read), update (off the tape). The loss fell from 9
# to 5.76. Everything below is this step, repeated and made safe.

# %% [markdown]
# ## 2 Batch: what the model is about to see
#
# **Goal.** Look at a batch before any model does.
#
# Many bugs that look like model bugs sit in the batch: pixels still in 0 to 255, labels stored as floats, a missing
# batch dimension. A few lines of looking save hours. The digits come as images `[N, 1, 8, 8]` between 0 and 1 and labels
# `[N]` of dtype `int64`, which is what `CrossEntropyLoss` wants for class indices. The split is stratified: every class
# has nearly the same share in each part, and the seed makes it the same split tomorrow.

# %% tags=["demo"]
digits = load_digits()
parts = stratified_split(digits.labels, (0.6, 0.2, 0.2), seed=0)
images, labels = digits.images[parts[0][:64]], digits.labels[parts[0][:64]]
print("images", list(images.shape), images.dtype, f"{images.min():.2f} to {images.max():.2f}")
print("labels", list(labels.shape), labels.dtype, "classes", labels.unique().tolist())

# %% tags=["demo"]
show_images(images[:8], labels[:8], "Eight training digits: image and label belong together.")

# %% [markdown]
# **Recap.** Shape, dtype, range, classes and a few pictures: five looks, before the first forward pass. The debug
# ladder in notebook 03b starts with exactly this, and its first question automates part of it.

# %% [markdown]
# ## 3 Accumulation: a batch that does not fit
#
# **Goal.** Train on a big batch in small pieces, with the same result.
#
# You want 256 examples in a step and 64 fit into memory. The gradient of a sum is the sum of the gradients, so four
# *micro-batches* of 64 can be run one after the other: `backward()` adds to `.grad`, and the optimizer steps once, at
# the end of the *window*. What needs care is the weight of each piece.
#
# A worked example with $L = (w x - y)^2$, $w = 0$, learning rate 0.1 and two micro-batches of one example each:
# $(x, y) = (2, 1)$ has gradient $2(0 - 1)\cdot 2 = -4$ and $(3, 2)$ has $-12$. Predict $w$ after the step of the big
# batch, whose loss is the *mean* of the two.

# %% tags=["demo"]
predict("accumulation", None)

# %% tags=["demo"]
w = torch.tensor(0.0, requires_grad=True)
for x, y in [(2.0, 1.0), (3.0, 2.0)]:
    ((w * x - y) ** 2 / 2).backward()
    print(f"after ({x:g}, {y:g}): w.grad = {w.grad.item():g}")
reveal("accumulation", 0.0 - 0.1 * w.grad.item())


# %% [markdown]
# You should see gradients −2 and then −8, and $w = 0.8$. Without the division by 2 it would be 1.6: a learning rate
# twice as large by accident (with SGD). It has become common to write `loss / K` and stop there. That is right only when every
# micro-batch has the same size and every window is full. At the end of an epoch often neither holds.
#
# ### Question 03a-accumulate · 40 points
#
# Write `accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate)`. It trains `model` for one epoch.
#
# - `micro_batches` is a list of pairs `(x, y)`; their sizes can differ.
# - `loss_fn(model(x), y)` is the mean over the examples of one micro-batch.
# - `accumulate` micro-batches make one window, and one window is one optimizer step. The last window may be shorter; it
#   is stepped as well.
# - Every step must equal the step on one big batch with all examples of the window. Only one micro-batch needs to be in
#   the model at a time: that is the point of it. The function returns nothing.
#
# Hidden cases: even micro-batches 15 points, uneven ones 15, a short last window 10. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# In the big batch's mean, what is the weight of one example? And what is its weight in the mean of its micro-batch?
#
# </details>
# <details><summary>Hint 2</summary>
#
# You can know how many examples a window has before you run it: it is a slice of a list.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-accumulate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def accumulate_epoch(model, micro_batches, optimizer, loss_fn, accumulate):
    """One epoch; each step equals the step on all examples of its window together."""
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


# %% nbgrader={"grade": true, "grade_id": "03a-accumulate-test", "locked": true, "points": 40, "schema_version": 3, "solution": false, "task": false}
check("03a-accumulate", accumulate_epoch)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-accumulate", accumulate_epoch)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Sum of losses over the window's number of examples; one step a window, the last one included. For models
# with batch normalisation the identity cannot hold: each micro-batch is normalised by itself.

# %% [markdown]
# ## 4 Clipping: a limit on the step, not on its direction
#
# **Goal.** Clip a gradient by its global norm, and see what clipping each tensor by itself does instead.
#
# A rare batch can give a gradient many times the usual length, and one such step can undo many good ones.
# Clipping sets a limit: if the norm of the *whole* gradient, all parameters taken as one long vector, exceeds
# `max_norm`, every entry is multiplied by `max_norm / norm`. Otherwise nothing changes. Two parameters with gradients
# 3 and 4 have norm 5; with `max_norm` 1 they become 0.6 and 0.8.
#
# Now clip each of the two by itself instead: both become 1. Predict by how many degrees this turns the gradient.

# %% tags=["demo"]
predict("clipping", None)

# %% tags=["demo"]
gradient = torch.tensor([3.0, 4.0])
one_by_one = torch.tensor([1.0, 1.0])
cosine = torch.nn.functional.cosine_similarity(gradient, one_by_one, dim=0).item()
print(f"cosine {cosine:.4f}")
reveal("clipping", math.degrees(math.acos(cosine)), "degrees", tolerance=2)

# %% tags=["demo"]
show_arrows(
    {"gradient": (3, 4), "one by one": (1, 1), "global": (0.6, 0.8)},
    axis_labels=("first parameter's gradient", "second parameter's gradient"),
    caption="Global clipping shortens the arrow; clipping one by one turns it.",
)


# %% [markdown]
# You should see a cosine of 0.9899: a turn of 8 degrees with two numbers. With tensors of very different sizes the turn
# is larger: each that exceeds the limit ends at the same length, whatever it was before. That is why the global norm is
# the usual choice. The norm *before* clipping is worth returning: plotted over time, it often shows trouble early.
#
# ### Question 03a-clip · 40 points
#
# Write two functions of a list of gradients (tensors of any shapes) and a positive number `max_norm`.
#
# - `clip_by_global_norm(gradients, max_norm)` returns the list of clipped gradients and the global norm before clipping.
# - `per_parameter_cosine(gradients, max_norm)` clips *each tensor by its own norm* and returns the cosine of the angle
#   between all old and all new entries, each taken as one long vector.
#
# Hidden cases: direction 16 points, untouched below the threshold 8, norm returned 6, cosine 10. Limit: 30 seconds.
# PyTorch's own clipping function is switched off while your answer is checked.
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
    """The clipped gradients, and the global norm before clipping."""
    ### BEGIN SOLUTION
    global_norm = math.hypot(*(tensor.norm().item() for tensor in gradients))
    factor = max_norm / global_norm if global_norm > max_norm else 1.0
    return [factor * tensor for tensor in gradients], global_norm
    ### END SOLUTION


def per_parameter_cosine(gradients, max_norm):
    """The cosine between the gradient and the one that is clipped tensor by tensor."""
    ### BEGIN SOLUTION
    separately = [clip_by_global_norm([tensor], max_norm)[0][0] for tensor in gradients]
    old, new = map(nn.utils.parameters_to_vector, (gradients, separately))
    return torch.dot(old, new) / (old.norm() * new.norm())
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-clip-test", "locked": true, "points": 40, "schema_version": 3, "solution": false, "task": false}
check("03a-clip", clip_by_global_norm, per_parameter_cosine)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-clip", clip_by_global_norm, per_parameter_cosine)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** One norm, one factor, one direction; nothing below the threshold; the norm before is returned.

# %% [markdown]
# ## 5 Rate: how large a step
#
# **Goal.** Find a learning rate in 100 steps instead of ten trainings.
#
# The finder is a short training on borrowed time: the rate grows by a constant factor at every step, the loss is
# recorded, and at the end everything is put back as it was. From $10^{-5}$ to 1 in 100 steps the factor is
# $10^{5/99} = 1.123$. At the small end the loss does not move, then it falls, then the steps are too long and it rises.
# You want a large rate that is still far from the rise: the rule used here is a third of the way across the floor of
# the valley. Predict between which powers of ten it lies for a small convolutional network on digits trained with
# AdamW: 0.0001 and 0.001, 0.001 and 0.01, or 0.01 and 0.1? Answer with the lower of the two.

# %% tags=["demo"]
predict("rate", None)


# %% tags=["setup"]
def make_model(seed, channels=1, side=8):
    """A small network: [N, channels, side, side] in, 10 logits out. The seed fixes the weights."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * (side // 2) ** 2, 10),
    )


# %% tags=["demo"]
model = make_model(seed=0)
optimizer = torch.optim.AdamW(model.parameters())
x, y = digits.images, digits.labels
train_loader = TensorLoader(x[parts[0]], y[parts[0]], batch_size=64, shuffle=True, seed=0)
sweep = find_lr(model, train_loader, optimizer, nn.CrossEntropyLoss(), start=1e-5, stop=1.0)
reveal("rate", 10 ** math.floor(math.log10(sweep.suggestion)))

# %% tags=["demo"]
show_figure(
    sweep.plot(),
    caption="The loss is flat, falls, and rises; the rate is a third of the way across the floor.",
    alt="Loss against learning rate, log axis: flat near 2.3, falling to a minimum, rising. "
    f"Bold line at {sweep.suggestion:.0e}, before the minimum; two others mark the fall.",
)

# %% [markdown]
# How to read it: on the left the steps are too short to see, in the valley the loss falls, on the right a step jumps over
# what it aims at. The lowest point is no good choice. It is the last rate before the rise, and a rate that one step
# survives can still ruin a training of thousands.
#
# Two details are worth checking. The first is the factor. It follows from the two ends and from the number of steps, and
# a fixed one need not get there. Take 1.05, which is often recommended. Predict how many times its start a rate reaches
# that is multiplied by 1.05 a hundred times.

# %% tags=["demo"]
predict("factor", None)

# %% tags=["demo"]
print(f"100 rates from 1e-7 to 10: a factor of {1e8 ** (1 / 99):.4f}")
print(f"1e-7 after 100 steps of 1.05: {1e-7 * 1.05**100:.1e}")
reveal("factor", math.floor(1.05**100), "times")

# %% [markdown]
# You should see 131, little more than two of the eight decades: such a sweep ends long before anything happens.
#
# The second is the rule. Here is a curve as a table, a row for each decade, and four ways to read it. They give
# three different rates, a hundred times apart at most. `sweep.suggestions` holds such a set for the curve above, so say which
# rule you used when you report a rate. One decade before the minimum is the usual rule of thumb.

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
# You should see 0.1 for the minimum, 0.01 for the decade before it and for the largest fall, and 0.001 for the central
# difference.
#
# ### Question 03a-lrfinder · 8 points
#
# Write two functions. `run_sweep(model, batches, loss_fn, start, stop, steps)` sweeps and returns two lists, the rates and
# the losses.
#
# - The `steps` rates grow by a constant factor; the first is `start` and the last is `stop`.
# - Step `i` uses batch `i` of the list `batches` of pairs `(x, y)`, begun again at its end. The model is in train mode.
#   A step is one of plain SGD: each parameter moves by the rate times its gradient.
# - The loss is recorded before its step. The sweep ends early, and leaves out the loss and its rate, when a loss is
#   not finite or exceeds 4 times the lowest before it.
# - Afterwards the weights, the buffers and the mode of every module are as they were.
#
# `choose_rate(rates, losses)` takes such lists and returns a tenth of the rate with the lowest loss, or `None` when
# the curve never falls: when its lowest loss is more than 90 % of its first.
#
# Hidden cases: the rates 1 point, the losses 2, the early end 1, everything put back 2, the choice 1, no suggestion 1.
# Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# A copy that follows every step is none. What does `copy.deepcopy` do that `state_dict()` does not?
#
# </details>
# <details><summary>Hint 2</summary>
#
# Between the first and the last of five rates lie four factors. And what does a comparison with NaN give?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-lrfinder", "locked": false, "schema_version": 3, "solution": true, "task": false}
def run_sweep(model, batches, loss_fn, start, stop, steps):
    """The rates and the losses of an exponential sweep; the model is afterwards as before."""
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


def choose_rate(rates, losses):
    """A tenth of the rate with the lowest loss; None when the curve never falls."""
    ### BEGIN SOLUTION
    if min(losses) > 0.9 * losses[0]:
        return None
    return rates[losses.index(min(losses))] / 10
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-lrfinder-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03a-lrfinder", run_sweep, choose_rate)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-lrfinder", run_sweep, choose_rate)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** The finder gives the size, not the third digit. Its factor comes from the ends, its answer from a rule that
# you name, and the network and the optimizer are exactly as before it ran.

# %% [markdown]
# ## 6 Recipe: one function, kept boring
#
# **Goal.** Train to at least 97 % on digits that took no part in training or in choosing the rate or the epoch.
#
# `train` is the lecture's loop: forward, loss, `zero_grad`, `backward`, `step`, then the schedule, and after each
# epoch an evaluation in which the layers are in eval mode and nothing is written on the tape. It keeps a *copy* of the
# best weights, by validation loss. A copy, since an alias would follow every later step. The one-cycle schedule raises
# the rate to its maximum and lowers it again; it is stepped after every batch, not after every epoch.
#
# With a GPU you can train on more: name another data set in the next cell, and it is downloaded, divided, swept and used
# in the rest of this section. The 97 % are for the digits; no question depends on the choice.

# %% tags=["demo"]
DATA_SET = "digits"  # with a GPU also "fashion-mnist" or "cifar10"
read = {"digits": None, "fashion-mnist": fashion_mnist, "cifar10": cifar10}[DATA_SET]
if read is not None:
    x, y = read("~/.cache/lecture", download=True)
    parts = stratified_split(y, (0.6, 0.2, 0.2), seed=0)
    model = make_model(0, x.shape[1], x.shape[2]).to("cuda" if torch.cuda.is_available() else "cpu")
    optimizer = torch.optim.AdamW(model.parameters())
    train_loader = TensorLoader(x[parts[0]], y[parts[0]], batch_size=64, shuffle=True, seed=0)
    sweep = find_lr(model, train_loader, optimizer, nn.CrossEntropyLoss(), start=1e-5, stop=1.0)
print(f"{DATA_SET}: {len(parts[0])} images to train on")

# %% [markdown]
# Predict the accuracy on the test part, in percent.

# %% tags=["demo"]
predict("accuracy", None)

# %% tags=["demo"]
val_loader, test_loader = (TensorLoader(x[p], y[p], batch_size=256) for p in parts[1:])
cross_entropy = nn.CrossEntropyLoss()


def one_cycle(optimizer, steps):
    return OneCycleLR(optimizer, max_lr=sweep.suggestion, total_steps=steps)


history = train(
    model, train_loader, val_loader, optimizer, cross_entropy, epochs=8, schedule=one_cycle
)

# %% tags=["demo", "nbval-ignore-output"]
model.load_state_dict(history.best_state)
result = evaluate(model, test_loader, cross_entropy)
reveal("accuracy", round(100 * result.metric, 1), "%", tolerance=1)

# %% tags=["demo"]
print(f"at least 97 % on {result.examples} test digits: {result.metric >= 0.97}")

# %% tags=["demo"]
show_figure(
    history.plot(),
    caption="Both losses fall; the best epoch is the one with the lowest validation loss.",
    alt=f"Training and validation loss over {len(history.rows)} epochs, and the validation "
    f"accuracy, which ends near {round(100 * history.rows[-1].val_metric)} percent.",
)

# %% [markdown]
# You should see `True`, and an accuracy around 99 %. The validation part chose the epoch, so its accuracy is a little
# too good to report; the test part chose nothing. Reading the curves: training loss keeps falling while validation
# loss levels off. The gap is what regularisation works on, and where notebook 03b takes over.
#
# **Recap.** The loss is what training minimises, the accuracy is what you report, and they need not agree on the best
# epoch. Choose the metric before you train.

# %% [markdown]
# ## Reproducibility: the same run tomorrow
#
# **Goal.** Make a run that can be had again, and leave enough behind to compare it with another.
#
# | layer | what changes unnoticed | what to keep |
# |---|---|---|
# | code | an edit after the run | the commit, and whether files differ from it |
# | config | a number typed over | every setting, as data |
# | data | another file, another split | an id computed from the content of each |
# | seed | first weights, order, dropout | the seed, and whatever draws at random reads it |
# | environment | versions, processor, precision | the versions, the hardware, the precision |
#
# A seed alone fixes one layer of five, and only if nothing else draws from its stream. Two repetitions of a short
# training follow. Both set the same seed; one of them then draws a single random number before the network is made.
# Predict how many of the two end with the same weights as the first run, to the last bit.

# %% tags=["demo"]
predict("seeds", None)


# %% tags=["demo"]
def short_run(draws):
    set_seed(0)
    torch.rand(draws)
    linear = nn.Linear(64, 10)
    sgd = torch.optim.SGD(linear.parameters(), lr=0.1)
    points, labels = digits.images[:256].flatten(1), digits.labels[:256]
    rows = TensorLoader(points, labels, batch_size=32, shuffle=True, seed=0)
    train(linear, rows, rows, sgd, nn.CrossEntropyLoss(), epochs=2)
    return linear.weight.detach()


# %% tags=["demo"]
first = short_run(draws=0)
same = [torch.equal(first, short_run(draws)) for draws in (0, 1)]
print(f"nothing drawn in between: {same[0]}, one number drawn: {same[1]}")
reveal("seeds", sum(same))

# %% [markdown]
# You should see 1. That is why the loaders here have a generator of their own and an evaluation draws nothing from the
# training's stream.
#
# The last layer is the one that a seed cannot reach. Floating-point sums depend on their order, and another number of
# threads, another GPU or another version adds in another order. Some GPU operations do so from run to run. Deterministic
# ones can be asked for. What they cost depends on the layers and the sizes, so it is measured here and not quoted. On a
# CPU the switch changes nothing, and the ratio is 1 up to the noise of the clock.

# %% tags=["demo"]
print("the order of a sum does not matter:", (0.1 + 0.2) + 0.3 == 0.1 + (0.2 + 0.3))


# %% tags=["demo"]
def seconds(deterministic):
    """Time of 20 passes forward and backward."""
    torch.backends.cudnn.deterministic = deterministic
    device = "cuda" if torch.cuda.is_available() else "cpu"
    timed, rows = make_model(0).to(device), digits.images[:64].to(device)
    began = time.perf_counter()
    for _ in range(20):
        timed(rows).square().mean().backward()
    timed[0].weight.grad.sum().item()  # waits for a GPU
    return time.perf_counter() - began


# %% tags=["demo", "nbval-ignore-output"]
times = {choice: min(seconds(choice) for _ in range(6)) for choice in (False, True)}
torch.backends.cudnn.deterministic = False
print(f"deterministic algorithms take {times[True] / times[False]:.2f} times as long here")

# %% [markdown]
# You should see `False` for the sum. So ask for the same bits where you hunt a bug, and for the same conclusion over
# several seeds where you compare two methods.
#
# What is left is to write it down. `RunRecord` collects the layers by itself, as far as it can, and takes the rest
# from you. `content_id` names data or a split by what is in it: one changed label gives another name. Two runs
# that cannot be compared later might as well not have happened.

# %% tags=["demo"]
settings = {"epochs": 8, "batch_size": 64, "optimizer": "AdamW"}
ids = {"data_id": digits.data_id, "split_id": content_id(*parts)}
with RunRecord.start(settings, seed=0, **ids) as record:
    for row in history.rows:
        record.log(**asdict(row))
print([name for name, entry in asdict(record).items() if entry not in (None, [], "")])


# %% [markdown]
# You should see every layer: `code`, `config`, `data_id` and `split_id`, `seed`, `hardware` and `precision`, and what
# came of it, the metrics.
#
# ### Question 03a-recipe · 6 points
#
# Write `run_recipe(build_model, x, y, split, config)`. It trains a network and returns it with the record of the run.
#
# - `build_model()` makes the network, with first weights from torch's random stream. `x` and `y` are points and classes,
#   `split` is a pair of index tensors, for training and for validation.
# - `config` has `epochs`, `batch_size`, `learning_rate` and `seed`. Train for that many epochs; AdamW is a good choice. Everything random
#   depends on the seed: the same one gives the same weights bit for bit, another one others.
# - The network that you return has the weights of the epoch with the lowest validation loss.
# - The record is a `RunRecord`, or a dict with the same names. It holds the config, the seed, `data_id` (the `content_id`
#   of `x, y`), `split_id` (of the two parts), precision, code and hardware, a row with `val_loss` and `val_metric` (the share
#   right) for each epoch, and the status of a finished run.
#
# Everything of the library may be used. Hidden cases: accuracy of your weights on points that your notebook never gets
# 2 points, the same seed 1, config, seed and data 1, code and environment 1, metrics that are true 1. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Order matters: what has to happen before the first weights are drawn?
#
# </details>
# <details><summary>Hint 2</summary>
#
# `train` calls `on_epoch` with each epoch's row, and its history keeps one state besides the rows. A `with` block tells
# the record how the run ended.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-recipe", "locked": false, "schema_version": 3, "solution": true, "task": false}
def run_recipe(build_model, x, y, split, config):
    """The network with its best weights, and the record of the run."""
    ### BEGIN SOLUTION
    generator = set_seed(config["seed"])
    model = build_model()
    rate, size = config["learning_rate"], config["batch_size"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    sets = [torch.utils.data.TensorDataset(x[rows], y[rows]) for rows in split]
    shuffled = torch.utils.data.DataLoader(sets[0], size, shuffle=True, generator=generator)
    checked = torch.utils.data.DataLoader(sets[1], batch_size=256)
    names = {"data_id": content_id(x, y), "split_id": content_id(*split)}
    with RunRecord.start(config, seed=config["seed"], **names) as kept:
        history = train(
            model, shuffled, checked, optimizer, nn.CrossEntropyLoss(), config["epochs"],
            on_epoch=lambda row: kept.log(**asdict(row)),
        )
    model.load_state_dict(history.best_state)
    return model, kept
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-recipe-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03a-recipe", run_recipe)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-recipe", run_recipe)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Code, config, data, seed, environment: five layers, one record. The bits depend on all five; the conclusion
# should not.

# %% [markdown]
# ## 7 Two habits that are not the same
#
# **Goal.** Tell `model.eval()` from `torch.no_grad()`.
#
# Both appear in every evaluation loop, side by side, and are easily taken for one thing in two halves. The cell below
# lets dropout show the difference. Eight ones go through one dropout layer four times: in train mode and in eval mode,
# each with and without the tape. Predict for how many of the four the output is all ones.

# %% tags=["demo"]
predict("eval", None)

# %% tags=["demo"]
torch.manual_seed(0)
layer, ones = nn.Dropout(0.5), torch.ones(8)
rows = {}
for mode in ("train", "eval"):
    layer.train(mode == "train")
    rows[f"{mode}, with tape"] = layer(ones)
    with torch.no_grad():
        rows[f"{mode}, no_grad"] = layer(ones)
for name, row in rows.items():
    print(f"{name:16s} all ones: {bool((row == 1).all())}")
reveal("eval", sum(bool((row == 1).all()) for row in rows.values()))

# %% [markdown] nbgrader={"grade": false, "grade_id": "03a-p5-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# You should see 2: only the mode decides what dropout does, and `no_grad` does not touch it.
#
# ### Question 03a-p5 · 20 points, graded by hand
#
# `model.eval()` and `torch.no_grad()` are not two names for one thing. Say what each of them changes, and describe a
# case in which you need both, with what goes wrong when either is missing. Five sentences are enough.
#
# Graded on: what `eval()` changes (5), what `no_grad()` changes (5), an example that needs both (5), what goes wrong
# without each (5).
#
# <details><summary>Hint</summary>
#
# Name one layer that computes something else in training, and one resource that grows when a graph is kept.
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03a-p5", "locked": false, "points": 20, "schema_version": 3, "solution": true, "task": false}
# `eval()` switches the layers that behave differently in training: dropout stops dropping, batch normalisation takes
# its stored statistics. `no_grad()` leaves every layer as it is and stops autograd from recording. A validation loop
# over a network with dropout wants both. Leave out `eval()` and the score is noisy and usually too low; leave out `no_grad()`
# and every forward pass builds a graph for nothing, which costs time, and memory for as long as the loss is kept.

# %% [markdown]
# ## What to take along
#
# | stage | the discipline | skipped, it costs you |
# |---|---|---|
# | build | every parameter and every buffer registered | weights that silently never train |
# | batch | shape, dtype, range, classes, pictures | a day on a bug that is in the data |
# | feed | the loader measured alone, then its options | a processor that waits |
# | accumulate | sum of losses over the window's count | a learning rate that depends on the epoch's last batch |
# | clip | one norm for all parameters, the norm before returned | a turned gradient, or one lost training |
# | precision | range against precision, measured on your hardware | gradients that vanish, or no gain at all |
# | rate | 100 steps of the finder, the rule named | ten trainings |
# | train | zero, backward, clip, step; best weights copied | gradients of yesterday, weights of the last epoch |
# | evaluate | off the tape, in eval mode, means over examples | a score that you cannot trust |
# | save | the whole state, written whole or not at all | the night's run |
# | record | code, config, data, seed, environment, metrics | two runs that cannot be compared |
#
# ## Where you are
#
# The next cell sums up the visible checks that ran in this session.

# %% tags=["demo"]
show_progress("03a")

# %% [markdown]
# When all checks are as you want them, save the notebook and run `lecture submit --id YOUR-ID --name "Your Name"` in
# a terminal, in the course's folder with its environment active: it packs your notebooks and says what is still
# unanswered.
