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
import math

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from lecture_lib import tape
from lecture_lib.data import TensorLoader, load_digits, stratified_split
from lecture_lib.debugging import find_lr
from lecture_lib.notebook import (
    check, predict, reveal, show_arrows, show_figure, show_images, show_walk
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
# ## Graph: the notes as a picture, by hand
#
# **Goal.** Compute every value and every gradient of a small graph with a pencil.
#
# What the friend writes down is a list, one line for each operation. Drawn, it is a *graph*: a box for each number, an
# arrow from each operation's inputs to its result. Take $L = a x + b$ with $a = 2$, $x = 3$ and $b = 1$. Forwards,
# the product is 6 and $L = 7$. Backwards, start with 1 at $L$. A sum hands its gradient on to both inputs. A product
# hands each factor the gradient times the *other* factor. That is the whole chain rule, one arrow at a time.
#
# `lecture_lib.tape` is a small autograd on NumPy, written to be read. It can show its notes.

# %% tags=["demo"]
a, x, b = (tape.Tensor(number, requires_grad=True) for number in (2.0, 3.0, 1.0))
loss = a * x + b
tape.trace(loss, a=a, x=x, b=b, L=loss)

# %% [markdown]
# You should see 7 in the last row, and the gradients 3, 2 and 1 for $a$, $x$ and $b$. The last column is the walk back:
# what each row passes on to its inputs.
#
# Now one operation more: $L = (w x + b)^2$ with $w = 3$, $x = 2$ and $b = 1$. With $u = w x$ and $v = u + b$ the values
# are 6, 7 and 49. The square's slope is $2v$, taken at its *input* $v$. Predict $\partial L/\partial w$. Then walk the
# tape below, with the slider or the buttons; with the keyboard, Tab reaches them, the arrow keys move the slider, and
# Enter presses a button. Where no widget can run, you see the picture of the last step.

# %% tags=["demo"]
predict("graph", None)

# %% tags=["demo"]
w, x, b = (tape.Tensor(number, requires_grad=True) for number in (3.0, 2.0, 1.0))
u = w * x
v = u + b
loss = v**2
show_walk(
    loss, caption="Values grow from left to right, gradients from right to left.",
    w=w, x=x, b=b, u=u, v=v, L=loss,
)

# %% tags=["demo"]
loss.backward()
print("values", u.item(), v.item(), loss.item())
print("gradients of w, x, b:", w.grad, x.grad, b.grad)
reveal("graph", float(w.grad))

# %% [markdown]
# You should see the values 6, 7, 49 and the gradients 28, 42, 14: the square contributes $2 \cdot 7 = 14$, which goes
# through the sum as it is and through the product as $14 \cdot 2$ and $14 \cdot 3$.
#
# The tape is *dynamic*: nobody declares the graph beforehand. Every forward pass writes it anew, so a loop or an `if`
# in Python gives another graph each time it runs differently, and `backward()` walks the one that was written.

# %% tags=["demo"]
for exponent in (2, 4):
    power = w
    for _ in range(exponent - 1):
        power = power * w
    notes = tape.trace(power, w=w)
    print(f"w to the power {exponent}: {len(notes)} rows, gradient {notes['w'].gradient:g}")

# %% [markdown]
# You should see 2 rows and 4: a line for $w$ and one for each product. The gradients at $w = 3$ are $2w = 6$ and
# $4w^3 = 108$, and nobody wrote these formulas down: $w$ is used several times, and its shares are added.
#
# Two layers are only a longer walk. Take $h = \mathrm{relu}(w_1 x)$, $p = \mathrm{relu}(w_2 h)$ and $L = (p - y)^2$
# with $x = 2$, $y = 1$ and both weights 0.5. Then $h = 1$, $p = 0.5$ and $L = 0.25$. Relu is a gate: its slope is 1 where its input is
# positive, else 0. Both gates are open here. Predict $\partial L/\partial w_1$; the next cell also closes the first
# gate, with $w_1 = -0.5$.

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
reveal("two_layers", slopes[0.5][0])


# %% [markdown]
# You should see −1 and −1, and with the gate closed 0 and 0. A closed gate lets nothing back: this example can teach
# neither weight anything. A unit that is closed for every example gets no gradient at all: as long as its inputs stay as
# they are, so does it. The debug ladder in notebook 03b looks for such units.
#
# ### Question 03a-graph · 4 points
#
# Write the two walks above as formulas that hold for any numbers.
#
# - `square_graph(w, x, b)`, with $u = w x$, $v = u + b$ and $L = v^2$, returns two lists: the values $u, v, L$ and the
#   gradients of $L$ towards $w, x, b$.
# - `relu_graph(w1, w2, x, y)`, with $h$, $p$ and $L$ as above, returns two lists: the values $h, p, L$ and the gradients
#   of $L$ towards $w_1, w_2$.
#
# All arguments are numbers, and so is everything in the lists. Work it out by hand. An autograd would give the same
# numbers and the same points; but then it has practised, not you.
#
# Hidden cases: values and gradients of each graph, 1 point each; gates are open and closed. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Write a name for the gradient of every node, starting with 1 at L, and fill them in from the last to the first.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A gate is a factor, 1 or 0. It stands in the product at the place where the walk passes it.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-graph", "locked": false, "schema_version": 3, "solution": true, "task": false}
def square_graph(w, x, b):
    """The values [u, v, L], and the gradients of L towards [w, x, b]."""
    ### BEGIN SOLUTION
    u = w * x
    v = u + b
    towards_v = 2 * v
    return [u, v, v**2], [towards_v * x, towards_v * w, towards_v]
    ### END SOLUTION


def relu_graph(w1, w2, x, y):
    """The values [h, p, L], and the gradients of L towards [w1, w2]."""
    ### BEGIN SOLUTION
    h = max(0.0, w1 * x)
    p = max(0.0, w2 * h)
    behind_gate = 2 * (p - y) if w2 * h > 0 else 0.0
    towards_h = behind_gate * w2 if w1 * x > 0 else 0.0
    return [h, p, (p - y) ** 2], [towards_h * x, behind_gate * h]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-graph-test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("03a-graph", square_graph, relu_graph)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-graph", square_graph, relu_graph)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Values forwards, gradients back; a sum copies, a product exchanges the factors, a gate lets through or
# stops, and what is used twice adds up. The tape is written anew in every forward pass.

# %% [markdown]
# ## Rules: what one operation does on the way back
#
# **Goal.** Write a backward rule, and have it checked by differences.
#
# An autograd knows nothing about networks. It knows one *rule* for each operation: given the gradient of the result,
# what is the gradient of each input? A rule multiplies by the local slope, taken at the values of the forward pass, and
# what it returns has the shape of the input. On our tape, `record` stores a value together with its rules. Here is the
# operation $x^3$, once with the right slope $3x^2$ and once with a wrong one. `gradcheck` moves every entry a little and
# compares.

# %% tags=["demo"]
def cube(x, factor=3):
    def rule(gradient):
        return gradient * factor * x.data**2

    return tape.record("cube", x.data**3, (x, rule))


# %% tags=["demo"]
points = tape.Tensor([0.5, -1.0, 2.0], requires_grad=True)
print("right rule, off by less than 1e-6:", tape.gradcheck(cube, points) < 1e-6)
try:
    tape.gradcheck(lambda x: cube(x, factor=2), points)
except tape.GradientError as error:
    print(error)

# %% [markdown]
# You should see that the rule with factor 2 gives 0.568 where the differences give 0.853, exactly 2 to 3. Such a check needs no
# knowledge of calculus, and it finds nearly every wrong rule.
#
# Two cases are easy to get wrong. The first is a *bias*. In `x @ weight + bias` the bias has shape `[outputs]` and is
# stretched over a batch `[examples, outputs]`: each entry is used once for every example. Four examples, and a loss
# that is the sum of all results, so that every result has gradient 1: predict the gradient of one entry of the bias.

# %% tags=["demo"]
predict("bias", None)

# %% tags=["demo"]
batch, weight = torch.ones(4, 2), torch.ones(2, 3)
bias = torch.zeros(3, requires_grad=True)
(batch @ weight + bias).sum().backward()
print("gradient of the bias:", bias.grad.tolist())
reveal("bias", bias.grad[0].item())

# %% [markdown]
# You should see 4 for each of the three outputs: broadcasting forwards is a sum backwards.
#
# The second is relu at exactly 0. Left of it the slope is 0, right of it 1, and at the kink there is no slope at all.
# Any value in between could be defended. PyTorch takes 0, and so does our tape. It matters where many inputs are
# exactly 0: empty pixels, for instance, and a bias that starts at 0.

# %% tags=["demo"]
around_zero = torch.tensor([-1.0, 0.0, 1.0], requires_grad=True)
torch.relu(around_zero).sum().backward()
print("slopes:", around_zero.grad.tolist())


# %% [markdown]
# ### Question 03a-backward · 8 points
#
# Write two backward rules. All arguments are NumPy arrays of float64, and so is what you return.
#
# - `relu_rule(x, gradient)` returns the gradient of relu's input `x`. Both arrays have the same shape, whichever it is.
#   At 0 nothing passes.
# - `linear_rule(x, weight, bias, gradient)` is for `x @ weight + bias`, with shapes `[examples, inputs]`,
#   `[inputs, outputs]` and `[outputs]`; `gradient` is that of the result. It returns three arrays: the gradients of
#   `x`, `weight` and `bias`, each of the shape of what it belongs to.
#
# `gradient` is read-only, as on the tape, where several rules share it: return new arrays.
#
# Hidden cases: relu 2 points, `x` and `weight` 3, `bias` 2, and two layers on the tape with your rules 1; also with one
# example, one input, one output, and at the kink. Limit: 30 seconds. The ready-made versions are switched off.
#
# <details><summary>Hint 1</summary>
#
# Write the three shapes down first. Only one product of `x` and `gradient`, one of them transposed, has the weight's
# shape.
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
    """The gradient of relu's input x, given that of its result."""
    ### BEGIN SOLUTION
    closed_gate = np.zeros_like(gradient)
    return np.where(x > 0, gradient, closed_gate)
    ### END SOLUTION


def linear_rule(x, weight, bias, gradient):
    """The gradients of x, weight and bias, given that of x @ weight + bias."""
    ### BEGIN SOLUTION
    towards_x = gradient @ weight.T
    towards_weight = x.T @ gradient
    towards_bias = gradient.sum(axis=0)
    return towards_x, towards_weight, towards_bias
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-backward-test", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("03a-backward", relu_rule, linear_rule)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-backward", relu_rule, linear_rule)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** One rule for each operation: incoming gradient times local slope, in the shape of the input. What was
# stretched forwards is summed backwards. Check a rule by differences before you trust it.

# %% [markdown]
# ## Off the tape: `no_grad` and `detach`
#
# **Goal.** Say which operations are recorded, and stop a gradient on purpose.
#
# Autograd does not note everything. An operation is recorded when recording is on *and* at least one input requires a
# gradient. Two tools switch it off. Inside `torch.no_grad()` nothing is recorded, which suits evaluation and updates:
# no notes to write, and no intermediate results to keep for a walk back that never comes. `detach()` gives the same value
# without its history: from there on it is a constant. Five results below; predict how many of them are recorded.

# %% tags=["demo"]
predict("recorded", None)

# %% tags=["demo"]
w, x = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0)
results = {"w * x": w * x, "x * x": x * x, "w * w.detach()": w * w.detach()}
results["(w * x).detach()"] = (w * x).detach()
with torch.no_grad():
    results["w * x in no_grad"] = w * x
for name, result in results.items():
    print(f"{name:17s} value {result.item():g}, recorded: {result.requires_grad}")
reveal("recorded", sum(result.requires_grad for result in results.values()))

# %% [markdown]
# You should see 2. The values of `w * x` are 6 each time: neither tool changes what is computed, only what is written down.
#
# One line deserves a second look. `w * w.detach()` has the value of $w^2$, but not its gradient: the second factor is
# a constant, so the gradient is 3 instead of 6. This is what you want when a model is compared with a *target* that
# another model computes, and it is a silent fault where you did not want it. The next cell compares a student with a
# teacher; the teacher shall not move.

# %% tags=["demo"]
(w * w.detach()).backward()
student = torch.tensor(3.0, requires_grad=True)
teacher = torch.tensor(2.0, requires_grad=True)
((student - teacher.detach()) ** 2).backward()
print("with one factor detached:", w.grad.item())
print("student", student.grad.item(), "teacher", teacher.grad)

# %% [markdown]
# You should see 3, and a gradient of 2 for the student and `None` for the teacher.
#
# The opposite mistake is to keep history by accident. A running total of losses that adds up tensors is itself a
# result with a history: it holds the notes of every step since the start, and memory grows until the total is dropped.
# Our tape can count its notes.

# %% tags=["demo"]
weight, total, number = tape.Tensor(3.0, requires_grad=True), 0.0, 0.0
for _ in range(100):
    loss = (weight * 2.0 - 1.0) ** 2
    total, number = total + loss, number + loss.item()
print("one loss:", len(tape.trace(loss)), "rows; the total:", len(tape.trace(total)), "rows")
print(f"{number:g} as a plain number, without a row; the total is {total.item():g}")

# %% [markdown]
# **Recap.** `no_grad()` for evaluation and updates, `detach()` for targets, `.item()` for logs. None of them changes a
# value. What `no_grad()` does *not* do is the subject of this notebook's last section: it does not put layers into eval
# mode.

# %% [markdown]
# ## Module: what belongs to a model
#
# **Goal.** Make everything that a model owns visible to optimizer, checkpoint and device.
#
# An `nn.Module` is a container that keeps lists of what it owns. `parameters()`, `state_dict()` and `.to()` read these
# lists and nothing else. What you assign in `__init__` gets onto them by its *type*; only a buffer is named in a call.
#
# | you assign | trained | saved | moved |
# |---|---|---|---|
# | `nn.Parameter`: learned numbers | yes | yes | yes |
# | a buffer, `register_buffer(name, tensor)`: numbers that are not learned | no | yes | yes |
# | an `nn.Module`, or several in an `nn.ModuleList` | what it owns | what it owns | what it owns |
# | anything else: a tensor, a number, a Python list | no | no | no |
#
# Batch normalisation has both kinds: scale and shift are learned, the running mean and variance are measured.

# %% tags=["demo"]
norm = nn.BatchNorm1d(8)
print("parameters:", [name for name, _ in norm.named_parameters()])
print("buffers:   ", [name for name, _ in norm.named_buffers()])

# %% [markdown]
# The next module computes what it should. Its layers stand in a Python list, its temperature and its running mean are
# plain tensors; only the last layer is assigned as it is. There are two hidden layers with weight and bias, the temperature, and the
# last layer with weight and bias: seven tensors to train. Predict how many of them `parameters()` finds.

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
reveal("registered", len(list(careless.parameters())))

# %% tags=["demo"]
before = careless.hidden[0].weight.detach().clone()
sgd = torch.optim.SGD(careless.parameters(), lr=0.1)
careless(torch.ones(4, 8)).square().sum().backward()
sgd.step()
print("hidden layer has a gradient:", careless.hidden[0].weight.grad is not None)
print("hidden layer has moved:", not torch.equal(before, careless.hidden[0].weight))

# %% tags=["demo"]
print("saved:", list(careless.state_dict()))
careless.double()
print("after double():", careless.last.weight.dtype, careless.hidden[0].weight.dtype)


# %% [markdown]
# You should see 2, then a gradient that arrives and a layer that does not move. Nothing complains: autograd follows the
# computation and does not care where a tensor is stored, but the optimizer was never given it. The checkpoint holds `last` only, and
# `double()` left the hidden layers in `float32`, where the next forward pass fails. A move to the GPU would do
# the same.
#
# ### Question 03a-register · 7 points
#
# Complete `Scaled(layers, mean, temperature)`. Its `forward` is written and can stay as it is.
#
# - `layers` is a list of modules. All that they own shall be visible.
# - `temperature` is a number; the module starts from it and learns it.
# - `mean` is a tensor `[features]`; the running mean starts from it. It is not learned, but it is saved and it moves.
#
# Nothing else is registered.
#
# Hidden cases, with one to three layers: parameters 2 points, buffers 2, a second module restored from the first one's `state_dict()` 1,
# and `double()` and `to("meta")` (a device without memory) take everything along 2. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Three attributes, three rows of the table above. And before any of them, the container itself has to be set up.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `nn.Parameter` wants a tensor of a floating-point dtype. After building a module, print `list(module.state_dict())`.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-register", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Scaled(nn.Module):
    """Centred by a running mean, through the layers, divided by a learned temperature."""

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
                self.running_mean.lerp_(x.mean(dim=0), 0.1)  # nine tenths old, one tenth new
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
# **Recap.** Learned: `nn.Parameter`. Measured or fixed: a buffer. Several modules: `nn.ModuleList`. Anything else is
# invisible, and nothing will tell you. Count `parameters()` and read `state_dict()` once for every model that you write.

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
def make_model(seed):
    """A small convolutional network: [N, 1, 8, 8] in, 10 logits out. The seed fixes the weights."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Flatten(), nn.Linear(1024, 10),
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
# There are other rules: `sweep.suggestions` also holds a tenth of the rate at the minimum, the usual rule of thumb, and
# the rate at the steepest fall. Rules can differ by a decade, so say which one you used when you report a rate. The end
# of the floor is too far: there the curve is about to rise.
#
# **Recap.** The finder gives the size, not the third digit. The network and the optimizer are exactly as before it ran.

# %% [markdown]
# ## 6 Recipe: one function, kept boring
#
# **Goal.** Train to at least 97 % on digits that took no part in training or in choosing the rate or the epoch.
#
# `train` is the lecture's loop: forward, loss, `zero_grad`, `backward`, `step`, then the schedule, and after each
# epoch an evaluation in which the layers are in eval mode and nothing is written on the tape. It keeps a *copy* of the
# best weights, by validation loss. A copy, since an alias would follow every later step. The one-cycle schedule raises
# the rate to its maximum and lowers it again; it is stepped after every batch, not after every epoch. Predict the
# accuracy on the test part, in percent.

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
# | batch | shape, dtype, range, classes, pictures | a day on a bug that is in the data |
# | accumulate | sum of losses over the window's count | a learning rate that depends on the epoch's last batch |
# | clip | one norm for all parameters, the norm before returned | a turned gradient, or one lost training |
# | rate | 100 steps of the finder, the rule named | ten trainings |
# | train | best weights copied, evaluation off the tape and in eval mode | a score that you cannot trust |
#
# When all checks are as you want them, save the notebook and run `lecture submit --id YOUR-ID --name "Your Name"` in
# a terminal, in the course's folder with its environment active: it packs your notebooks and says what is still
# unanswered.
