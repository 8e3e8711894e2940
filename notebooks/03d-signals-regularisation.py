# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 03d · Signals, then regularisation
#
# A deep network learns only if two signals survive: the activations on their way forward, and the gradients on their
# way back. The first half of this notebook keeps both alive, from the first random weights to an FP16 run. In the
# second half the network fits its training set, and you make it do well on other data. The order matters: a network
# that cannot fit cannot be regularised.
#
# How to work: each section states a goal and asks for a prediction before it shows a result. To predict, replace `None`
# in the `predict` cell by a number, or by a word in quotation marks. A folded cell further down compares it with the
# result; run it like any other cell. Each coding question has an answer cell and a visible check below it. The check
# tells you what happened and where to look. Points come from hidden tests on other inputs. You may skip a question:
# nothing later depends on your answer. Run the cells from top to bottom: later sections use functions of earlier ones.
#
# Unless a question says otherwise, a function leaves its arguments as they are, and gives the same result when it is
# called again. It gets contiguous tensors on the CPU, and PyTorch has its default settings.
#
# Limits for each cell while your answers are graded: 30 s of CPU time, 120 s of wall-clock time, 3 GB of memory, 64
# processes, 256 MB of files and 1 MB of output. A cell that exceeds a limit, or ends its kernel, loses only its own
# question.
#
# | sections | you will be able to | points |
# |---|---|---|
# | 1 Initialisation | choose the scale of initial weights so that a signal keeps its size through all layers | 12 |
# | 2 Activations | find dead and saturated units with hooks that leave nothing behind | 12 |
# | 3 Normalisation | write batch, layer, group and RMS norm, and choose one | 16 |
# | 4 Gradients | watch norms and updates, and choose a clipping threshold from a run | 14 |
# | 5 Instabilities | find the operation that makes nan, and write losses that stay finite | 14 |
# | 6 Overfit, then regularise | ask a record of runs what the next step is | – |
# | 7 Dropout, mixup, CutMix | write three regularisers, and measure what they are worth | 22 |
# | 8 Averages | average weights, with running statistics that fit them, and read a loss landscape | 10 |

# %% [markdown]
# ## Contents
#
# The minutes are estimates: time to read, predict and run a section, and time to answer its question. The whole takes
# about five hours. A good division is into four sittings: sections 1 and 2, 3 and 4, 5 and 6, 7 and 8. The last one
# takes 91 minutes, the others take less. No section needs the answers of another one, but some need its functions: when
# you begin a new sitting, choose *Run All Above Selected Cell* in the *Run* menu first. That also fills in the table of
# your progress at the end.
#
# | section | minutes | questions, with minutes |
# |---|---|---|
# | [1 Initialisation](#1-Initialisation:-a-signal-through-twenty-layers) | 17 | [03d-init](#Question-03d-init-·-12-points) 22 |
# | [2 Activations](#2-Activations:-dead-and-saturated-units) | 12 | [03d-activations](#Question-03d-activations-·-12-points) 22 |
# | [3 Normalisation](#3-Normalisation:-four-norms,-two-modes) | 16 | [03d-norms](#Question-03d-norms-·-16-points) 28 |
# | [4 Gradients](#4-Gradients:-what-to-watch-while-training) | 20 | [03d-gradients](#Question-03d-gradients-·-14-points) 20 |
# | [5 Instabilities](#5-Instabilities:-where-nan-comes-from) | 15 | [03d-nan](#Question-03d-nan-·-14-points) 28 |
# | [6 Overfit, then regularise](#6-Overfit,-then-regularise:-a-run-with-a-record) | 18 | |
# | [7 Dropout, mixup, CutMix](#7-Dropout,-mixup,-CutMix:-noise-that-helps) | 14 | [03d-dropout](#Question-03d-dropout-·-10-points) 12, [03d-mixup](#Question-03d-mixup-·-12-points) 22 |
# | [8 Averages](#8-Averages:-of-weights,-and-the-loss-around-them) | 16 | [03d-averages](#Question-03d-averages-·-6-points) 15, [03d-p](#Question-03d-p-·-4-points,-graded-by-hand) 12 |

# %% tags=["setup"]
import math
from copy import deepcopy

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# %% tags=["setup"]
from lecture_lib.analysis import find_non_finite, loss_landscape
from lecture_lib.data import load_digits, stratified_split
from lecture_lib.notebook import OKABE_ITO, check, predict, reveal, show_figure, show_progress
from lecture_lib.training import clip_threshold

# %% [markdown]
# ## 1 Initialisation: a signal through twenty layers
#
# **Goal.** Know what the scale of the first random weights does to a deep network, and compute the right one.
#
# One output of a linear layer is a sum of $n$ products, one for each input. If weights and inputs are independent with
# mean 0, the mean square of the sum is $n$ times the mean square of a weight times the mean square of an input. A layer
# therefore multiplies the mean square of the signal by $n\,\sigma^2$, where $\sigma$ is the standard deviation of its
# weights. A ReLU sets negative numbers to 0, which halves the mean square. Twenty layers multiply twenty such factors.
#
# The network here has twenty hidden layers of 64 units with ReLUs, and its data are handwritten digits, standardised.
# `nn.Linear` draws its weights uniformly between $-1/\sqrt{n}$ and $1/\sqrt{n}$. Their variance is $1/(3n)$, so a layer
# with ReLU multiplies the mean square by 1/6. Predict the factor for all twenty layers together, as a power of ten: −3
# for a thousandth.

# %% tags=["demo"]
predict("shrinks", None)

# %% tags=["setup"]
digits = load_digits()
training, held_out = stratified_split(digits.labels, (0.3, 0.7), seed=0)
flat = digits.images.flatten(1)
pixels = (flat - flat[training].mean()) / flat[training].std()
labels = digits.labels


# %% tags=["setup"]
def deep_network(depth, make_activation=nn.ReLU, make_norm=None, width=64):
    """A network with hidden layers of one width, with or without a norm before each activation."""
    layers = []
    for _ in range(depth):
        layers.append(nn.Linear(width, width))
        layers += [make_norm(width)] if make_norm else []
        layers.append(make_activation())
    return nn.Sequential(*layers, nn.Linear(width, 10))


# %% tags=["setup"]
def initialised(network, scheme, seed=0):
    """Draw the weights of all linear layers; biases become 0, except for PyTorch's own scheme."""
    torch.manual_seed(seed)
    for layer in network.modules():
        if not isinstance(layer, nn.Linear):
            continue
        layer.reset_parameters()
        if scheme == "he":
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        elif scheme == "xavier":
            nn.init.xavier_normal_(layer.weight)
        if scheme != "default":
            nn.init.zeros_(layer.bias)
    return network


# %% tags=["demo"]
def mean_squares_of(network, x):
    """Return the mean square of what goes into each hidden linear layer but the first."""
    squares = []
    with torch.no_grad():
        for layer in network:
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                squares.append(x.square().mean().item())
    return squares


# %% tags=["demo"]
schemes = ("default", "xavier", "he")
squares = {}
for scheme in schemes:
    network = initialised(deep_network(20), scheme)
    if scheme == "default":
        for layer in network[:-1:2]:
            nn.init.zeros_(layer.bias)
    squares[scheme] = mean_squares_of(network, pixels[training])
    print(f"{scheme:8} after 1 layer {squares[scheme][0]:.2g}, after 20 {squares[scheme][-1]:.1e}")

# %% tags=["demo"]
shrinking = math.log10(squares["default"][-1] / squares["default"][0] / 6)

# %% tags=["demo"]
reveal("shrinks", shrinking, tolerance=1.5, usual={
    -10: "This would be a factor of 1/3 for each layer: the ReLU halves the mean square as well.",
    -1: "The factors multiply, twenty times.",
})

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(5.5, 3))
for scheme, style, colour in zip(schemes, ("-", "--", "-."), OKABE_ITO, strict=False):
    axis.semilogy(range(1, 21), squares[scheme], style, color=colour, label=scheme)
axis.set(xlabel="hidden layer", ylabel="mean square of its output", xticks=(1, 5, 10, 15, 20))
axis.legend()
show_figure(
    figure,
    caption="PyTorch's default and Xavier lose the signal layer by layer. He nearly keeps it.",
    alt="Mean square of activations on a logarithmic axis against the layer, 1 to 20. He stays "
    "between 0.1 and 1. Xavier falls to about 10 to the -7, the default to about 10 to the -16.",
)

# %% [markdown]
# The default shrinks the mean square by almost sixteen powers of ten. (Its biases are set to 0 for this table.
# Otherwise the biases take over after a few layers, and the network says the same for every input.) *Xavier*
# initialisation has $\sigma^2 = 2/(n_\text{in} + n_\text{out})$: it keeps the signal in a linear or tanh network, and a
# ReLU halves it. *He* initialisation adds the missing factor of 2: $\sigma^2 = 2/n_\text{in}$.
#
# The factor in front, here $\sqrt 2$, is called the *gain* of the activation. Gradients follow the same rule with
# $n_\text{out}$ in place of $n_\text{in}$. So $n_\text{in}$ keeps the size of activations, $n_\text{out}$ that of
# gradients, and Xavier takes the mean. For most networks the two hardly differ. Now train each network for 300 steps.
# Which accuracy do you expect with the default initialisation, in percent? Chance is 10.

# %% tags=["demo"]
predict("deep", None)


# %% tags=["setup"]
def fit(network, steps=300, rate=0.01, seed=0, batch=64):
    """Train with SGD and momentum on batches of the training digits; return the network."""
    optimizer = torch.optim.SGD(network.parameters(), rate, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    network.train()
    for _ in range(steps):
        rows = training[torch.randint(len(training), (batch,), generator=generator)]
        optimizer.zero_grad()
        F.cross_entropy(network(pixels[rows]), labels[rows]).backward()
        optimizer.step()
    return network


# %% tags=["setup"]
@torch.no_grad()
def accuracy_of(network, rows=held_out):
    """Return the share of right answers in percent, in evaluation mode."""
    network.eval()
    return 100 * (network(pixels[rows]).argmax(1) == labels[rows]).float().mean().item()


# %% tags=["demo", "nbval-ignore-output"]
deep_results = {
    scheme: [accuracy_of(fit(initialised(deep_network(20), scheme, seed))) for seed in range(3)]
    for scheme in schemes
}
for scheme, values in deep_results.items():
    print(f"{scheme:8} accuracy of three seeds:", *(f"{value:.0f} %" for value in values))

# %% tags=["demo"]
reveal("deep", round(np.mean(deep_results["default"])), "%", tolerance=3, usual={
    95: "A shallow network reaches that. Here hardly any signal arrives at the other end.",
    50: "Nothing of the input is left after twenty layers, so nothing can be learned.",
})

# %% [markdown]
# With the default initialisation the network does not learn at all, with three of three seeds. With Xavier it learns
# something, and with He it reaches 69 to 92 percent: twenty layers without a norm still depend on luck. It is often
# said that `nn.Linear` "uses Kaiming initialisation, so it suits ReLU". It calls the function of that name with a
# setting that gives $1/(3n)$, a sixth of He's variance. In a shallow network that does no harm.
#
# Two more schemes. If all weights start at *zero*, all units of a layer compute the same, get the same gradient and
# stay alike for ever. The next cell starts all weights of a small network at 0.1 instead, so that a gradient flows, and
# counts the different units of its first layer after training.

# %% tags=["demo"]
alike = initialised(deep_network(2), "he")
with torch.no_grad():
    for layer in alike[::2]:
        layer.weight.fill_(0.1)
fit(alike)

# %% tags=["demo"]
different = len(alike[0].weight.detach().unique(dim=0))
print(f"{different} different unit of 64, accuracy ≈ {accuracy_of(alike):.0f} %")

# %% [markdown]
# After 300 steps the 64 units of a layer are still one unit, written down 64 times. Their gradients are equal in every
# step, so no optimizer can tell them apart, and the network is hardly better than chance. Random weights are needed to
# break this symmetry, and they are needed in every layer. Biases may start at 0, because the weights differ already.
# The exception is a bias that should hold a gate open, such as that of an LSTM's forget gate, which often starts at 1.
#
# An *orthogonal* matrix keeps the length of every vector exactly, not only on average. Predict by what factor twenty
# random layers without an activation ($\sigma^2 = 1/n$, $n = 64$) change the length of a vector, in the typical case of
# 200 vectors: the ratio of the largest to the smallest length.

# %% tags=["demo"]
predict("lengths", None)

# %% tags=["demo"]
torch.manual_seed(0)
vectors = torch.randn(200, 64)
vectors /= vectors.norm(dim=1, keepdim=True)

# %% tags=["demo"]
gaussian, orthogonal_way = vectors.clone(), vectors.clone()
for _ in range(20):
    gaussian = gaussian @ torch.randn(64, 64).T / 8
    orthogonal_way = orthogonal_way @ nn.init.orthogonal_(torch.empty(64, 64)).T

# %% tags=["demo"]
spread = {}
for name, result in [("Gaussian", gaussian), ("orthogonal", orthogonal_way)]:
    lengths = result.norm(dim=1)
    spread[name] = (lengths.max() / lengths.min()).item()
    print(f"{name}: largest / smallest length = {spread[name]:.1f}")

# %% tags=["demo"]
reveal("lengths", spread["Gaussian"], tolerance=3, usual={
    1: "This is what an orthogonal matrix gives. A Gaussian one keeps lengths only on average.",
})


# %% [markdown]
# A product of twenty Gaussian matrices stretches some directions several times as much as others. Orthogonal matrices
# keep them all. That helps very deep linear parts, such as the recurrent weights of an RNN.
#
# **In your own program.** Before you train a network of your own for the first time, send one batch through it and
# print the standard deviation behind each layer. If it changes by more than a factor of ten from the first layer to the
# last, look at the initialisation first. `lecture_lib.training.activation_statistics(model, batch)` prints the table
# and has a `plot()`, and `initialise(model, 'he')` draws all linear and convolution layers anew. Networks with norms or
# residual connections forgive a wrong scale, plain deep ones do not. Check also the loss before the first step: with C
# balanced classes and outputs near 0 it must be near ln C (03b, rung 3). If it is far above, the last layer is too
# large.
#
# ### Question 03d-init · 12 points
#
# Write five functions about the scale of weights.
#
# - `fans(shape)` returns the pair (fan_in, fan_out) of a weight of this shape: `[out, in]` for a linear layer, and
#   `[out, in, *kernel]` for a convolution whose kernel has one to three sides. One output adds up fan_in products; one
#   input contributes to fan_out of them. Stride and padding are left out.
# - `weight_std(shape, scheme, gain)` returns the standard deviation of the weights:
#   $\mathrm{gain} \cdot \sqrt{2/(\mathrm{fan\_in} + \mathrm{fan\_out})}$ for `"xavier"`, and
#   $\mathrm{gain}/\sqrt{\mathrm{fan\_in}}$ for `"he"`. (For a ReLU, the caller passes the gain $\sqrt 2$.)
# - `uniform_bound(std)` returns the bound $b$ for which numbers drawn uniformly between $-b$ and $b$ have this standard
#   deviation.
# - `orthogonal(matrix, gain)` makes a matrix of the same shape `[R, C]` from a random one. If $R \le C$, its rows are
#   at right angles to each other, have the length `gain`, and span the same space as the rows of `matrix`. If
#   $R \ge C$, the same holds for the columns. Several results are correct. The rows (or columns) of `matrix` are
#   linearly independent.
# - `mean_squares(start, layers, rectified)` returns a list: the mean square after each layer, before its activation.
#   `start` is the mean square of the input, `layers` a list of pairs (shape, std). If `rectified`, there is a ReLU
#   *between* the layers, and it halves the mean square.
#
# Shapes are lists with sides from 1 to 60, and there are 1 to 12 layers. `gain`, `std` and `start` are numbers from
# 0.01 to 10. Mean squares may become as small as 1e-60 or as large as 1e60. `matrix` is float64, with sides up to 6.
# Its scale varies: all entries together may be of size 1e-6, or all of size 1e6. The tolerance is 1e-6, or 1e-6 times
# the number itself if it is above 1.
#
# Hidden cases: fans 2 points, Xavier 2, He 2, bound 2, orthogonal 2, mean squares 2. Limit: 30 seconds.
# `torch.nn.init.orthogonal_` and `_calculate_fan_in_and_fan_out` are switched off.
#
# <details><summary>Hint 1</summary>
#
# How many numbers does one output of a 3 × 3 convolution with 8 input channels add up? The variance of a uniform
# variable between −b and b is b²/3.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `torch.linalg.qr` of a tall matrix gives columns at right angles. A wide matrix is the transpose of a tall one.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03d-init", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fans(shape):
    """Return (fan_in, fan_out) of a weight [out, in, *kernel]."""
    ### BEGIN SOLUTION
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel
    ### END SOLUTION


def weight_std(shape, scheme, gain):
    """Return the standard deviation of the weights under a scheme."""
    ### BEGIN SOLUTION
    fan_in, fan_out = fans(shape)
    fan = (fan_in + fan_out) / 2 if scheme == "xavier" else fan_in
    return gain / math.sqrt(fan)
    ### END SOLUTION


def uniform_bound(std):
    """Return the bound of a uniform distribution with this standard deviation."""
    ### BEGIN SOLUTION
    return math.sqrt(3) * std
    ### END SOLUTION


def orthogonal(matrix, gain):
    """Return a matrix with rows or columns at right angles, of length gain."""
    ### BEGIN SOLUTION
    if matrix.shape[0] < matrix.shape[1]:
        return orthogonal(matrix.T, gain).T
    return gain * torch.linalg.qr(matrix).Q
    ### END SOLUTION


def mean_squares(start, layers, rectified):
    """Return the mean square after each layer, before its activation."""
    ### BEGIN SOLUTION
    values = []
    for number, (shape, std) in enumerate(layers):
        start *= fans(shape)[0] * std**2 / (2 if rectified and number else 1)
        values.append(start)
    return values
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03d-init-test", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false}
check("03d-init", fans, weight_std, uniform_bound, orthogonal, mean_squares)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03d-init", fans, weight_std, uniform_bound, orthogonal, mean_squares)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** A layer multiplies the mean square of a signal by fan_in times the variance of its weights, and a ReLU
# halves it. He initialisation makes the product 1. The default of `nn.Linear` has a sixth of that variance, which only
# deep networks without norms or residual connections feel.

# %% [markdown]
# ## 2 Activations: dead and saturated units
#
# **Goal.** Look inside a network with hooks, and tell a healthy ReLU from a dead one.
#
# A *forward hook* is a function that PyTorch calls whenever a module has computed its output. It sees the module, the
# inputs and the output, and so reads activations without a change of the model's code. `register_forward_hook` returns
# a handle, and `handle.remove()` ends the hook. A hook that is not removed runs in every later forward pass.
#
# A ReLU unit is *dead* when its output is 0 for every example. Then its gradient is 0 as well, and it never changes.
# Many texts count the share of *zeros* instead, and call more than one half alarming. Predict the share of zeros, in
# percent, in the first ReLU of a healthy network with He initialisation.

# %% tags=["demo"]
predict("zeros", None)


# %% tags=["setup"]
def small_network(make_activation=nn.ReLU):
    """Two hidden layers of 64 units."""
    return deep_network(2, make_activation)


# %% tags=["demo"]
def zeros_and_dead(network, place=1):
    """Return the shares of zero entries and of dead units behind one layer, in percent."""
    outputs = []
    handle = network[place].register_forward_hook(lambda m, inputs, out: outputs.append(out))
    with torch.no_grad():
        network(pixels[training])
    handle.remove()
    zero = outputs[0] == 0
    return 100 * zero.float().mean().item(), 100 * zero.all(dim=0).float().mean().item()


# %% tags=["demo"]
fresh = zeros_and_dead(initialised(small_network(), "he"))
print(f"fresh network: zeros {fresh[0]:.0f} %, dead units {fresh[1]:.0f} %")

# %% tags=["demo"]
reveal("zeros", round(fresh[0]), "%", tolerance=6, usual={
    0: "Zeros are what a ReLU is for: about half of its inputs are negative.",
    5: "Zeros are what a ReLU is for: about half of its inputs are negative.",
})

# %% [markdown]
# About half of the entries are 0, and no unit is dead. So count *units that are zero for every example*, not entries.
#
# Units die when a step is far too long: it pushes a bias so low that the unit is never open again. The next cell takes
# ten steps with a rate of 2 instead of 0.02, and then trains for 300 steps with the right rate. It does this with ReLU
# and with leaky ReLU, which has the slope 0.01 for negative inputs. Predict the share of dead units that the ReLU
# network still has at the end, in percent, as the mean of three seeds.

# %% tags=["demo"]
predict("dead", None)


# %% tags=["demo"]
def after_bad_steps(make_activation, seed):
    """Ten steps that are far too long, then 300 good ones; return dead units and accuracy."""
    network = initialised(small_network(make_activation), "default", seed)
    bad = torch.optim.SGD(network.parameters(), 2.0)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(10):
        rows = training[torch.randint(len(training), (64,), generator=generator)]
        bad.zero_grad()
        F.cross_entropy(network(pixels[rows]), labels[rows]).backward()
        bad.step()
    before = zeros_and_dead(network)[1]
    fit(network, rate=0.02, seed=seed)
    return before, zeros_and_dead(network)[1], accuracy_of(network)


# %% tags=["demo", "nbval-ignore-output"]
after_bad = {
    make.__name__: [after_bad_steps(make, seed) for seed in range(3)]
    for make in (nn.ReLU, nn.LeakyReLU)
}
for name, rows in after_bad.items():
    for before, after, accuracy in rows:
        print(f"{name:9} dead after the bad steps {before:.0f} %, at the end {after:.0f} %, "
              f"accuracy {accuracy:.0f} %")

# %% tags=["demo", "nbval-ignore-output"]
reveal("dead", round(np.mean([row[1] for row in after_bad["ReLU"]])), "%", tolerance=10, usual={
    0: "A dead unit has gradient 0, so good steps do not bring it back.",
})

# %% [markdown]
# The dead units did not come back, and a few more died. The leaky ReLU has none, since its slope is never 0. It does
# not make the long steps good, though: with one of the three seeds it learns nothing afterwards, because the weights
# are far too large. The cure is the right rate, or warm-up. Leaky slopes only keep the door open.
#
# The counterpart for tanh and sigmoid is *saturation*: at an output near ±1 the slope of tanh, $1 - \tanh^2$, is
# near 0. The next cell multiplies the weights of the first layer. Predict by what factor the gradient of these weights
# shrinks when they are multiplied by 20.

# %% tags=["demo"]
predict("saturated", None)

# %% tags=["demo"]
saturated_norms = {}
for factor in (1, 5, 20):
    network = initialised(small_network(nn.Tanh), "default")
    with torch.no_grad():
        network[0].weight *= factor
        outputs = network[1](network[0](pixels[training]))
    F.cross_entropy(network(pixels[training]), labels[training]).backward()
    saturated_norms[factor] = network[0].weight.grad.norm().item()
    share = 100 * (outputs.abs() > 0.97).float().mean().item()
    print(f"weights × {factor:2}: saturated {share:.0f} %, gradient {saturated_norms[factor]:.3f}")

# %% tags=["demo"]
reveal("saturated", round(saturated_norms[1] / saturated_norms[20], 1), tolerance=3, usual={
    20: "Some entries are not saturated, and their gradient is as large as before.",
    1: "Most outputs are near ±1 now, where the slope of tanh is near 0.",
})


# %% [markdown]
# **In your own program.** Measure after a few hundred steps as well as before the first one, because units die while
# you train. A share of dead units below ten percent is common and harmless. If it grows from epoch to epoch, the rate
# is too high, or a bias runs away: look at the largest update ratio (section 4). If units are dead before the first
# step, look at the inputs, which may be far from 0, such as pixels from 0 to 255 or a column in metres beside one in
# millimetres. Always measure on a batch of real data: random numbers have no dead pixels and no constant columns.
#
# ### Question 03d-activations · 12 points
#
# Write `activation_statistics(model, x)`. It runs the model once on the batch `x`, in the mode that the model is in,
# and returns a dict. Its keys are the names of all `nn.ReLU` and `nn.Tanh` modules, as `model.named_modules()` gives
# them. Each value is a dict of four numbers about the module's output:
#
# - `"mean"` and `"std"` of all entries; the standard deviation divides by their number, $n$.
# - `"dead"`: for a ReLU, the share of *units* whose output is 0 for every example. For outputs `[N, H]` the H columns
#   are units. For outputs `[N, C, L]` the C channels are units, and a channel is dead if it is 0 at all positions of
#   all examples. For a tanh it is 0.
# - `"saturated"`: for a tanh, the share of *entries* beyond ±0.97. For a ReLU it is 0.
#
# Afterwards the model must be as before: no hook of yours is left, hooks that it had are still there, every module is
# in the mode in which it was, and the buffers have their old values. (In training mode a batch norm moves its running
# statistics in every forward pass.) You may run a copy of the model instead.
#
# The model is an `nn.Sequential` of linear layers, convolutions with a kernel of 1, batch norms, ReLUs and tanhs, with
# one to seven layers, and each activation is called once and is not in place. All modules are in the same mode,
# training or evaluation. Everything is float64. N is at least 2.
#
# Hidden cases: names 1 point, mean and deviation 2, dead units 2, dead channels 2, saturated entries 1. Once one of
# these is right, hooks 2, and mode and buffers 2. Limit: 30 seconds. `lecture_lib.training.activation_statistics` is
# switched off.
#
# <details><summary>Hint 1</summary>
#
# The hook must know its module's name: `lambda module, inputs, output, name=name: …`. Keep the handles in a list.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `output.transpose(0, 1).flatten(1)` has one row for each unit, in both shapes. Clone the buffers before the pass.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03d-activations", "locked": false, "schema_version": 3, "solution": true, "task": false}
def activation_statistics(model, x):
    """Return mean, std, dead and saturated for each ReLU and tanh, by name."""
    ### BEGIN SOLUTION
    statistics, handles = {}, []
    buffers = [buffer.clone() for buffer in model.buffers()]

    def measure(name, module, inputs, output):
        units = output.detach().transpose(0, 1).flatten(1)
        is_relu = isinstance(module, nn.ReLU)
        statistics[name] = {
            "mean": units.mean().item(),
            "std": units.std(correction=0).item(),
            "dead": (units == 0).all(dim=1).double().mean().item() if is_relu else 0.0,
            "saturated": 0.0 if is_relu else (units.abs() > 0.97).double().mean().item(),
        }

    for name, module in model.named_modules():
        if isinstance(module, (nn.ReLU, nn.Tanh)):
            hook = lambda *arguments, name=name: measure(name, *arguments)  # noqa: E731
            handles.append(module.register_forward_hook(hook))
    with torch.no_grad():
        model(x)
        for buffer, before in zip(model.buffers(), buffers, strict=True):
            buffer.copy_(before)
    for handle in handles:
        handle.remove()
    return statistics
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03d-activations-test", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false}
check("03d-activations", activation_statistics)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03d-activations", activation_statistics)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Half of a healthy ReLU's outputs are 0. A dead *unit* is 0 for every example, and does not come back. A
# hook reads activations without a change of the model. Remove it, and put back what a forward pass in training mode
# moves.

# %% [markdown]
# ## 3 Normalisation: four norms, two modes
#
# **Goal.** Know over which numbers each norm takes its statistics, and what follows from that.
#
# A norm subtracts a mean, divides by a standard deviation, and then multiplies by a learned weight and adds a learned
# bias. The norms differ in the numbers that share a mean:
#
# | norm | statistics for each | over |
# |---|---|---|
# | batch | channel | all examples of the batch and all positions |
# | layer | example (and position) | all features |
# | group | example and group of channels | the channels of the group and all positions |
# | RMS | example (and position) | all features; nothing is subtracted, and there is no bias |
# | instance | example and channel | all positions: a group norm with one channel in each group |
#
# Batch norm couples the examples of a batch. For a prediction of one example there is no batch, so it keeps *running*
# averages of mean and variance while it trains, and uses these in evaluation mode. The other norms treat each example
# alone, and do the same in both modes.
#
# Section 1's network with PyTorch's default initialisation did not learn. Predict its accuracy with a batch norm before
# each ReLU, in percent.

# %% tags=["demo"]
predict("rescued", None)

# %% tags=["demo", "nbval-ignore-output"]
rescued = {}
for name, make_norm in [("batch norm", nn.BatchNorm1d), ("layer norm", nn.LayerNorm)]:
    rescued[name] = []
    for seed in range(3):
        network = initialised(deep_network(20, make_norm=make_norm), "default", seed)
        rescued[name].append(accuracy_of(fit(network)))
    print(f"{name}: accuracy of three seeds:", *(f"{value:.0f} %" for value in rescued[name]))

# %% tags=["demo", "nbval-ignore-output"]
reveal("rescued", round(np.mean(rescued["batch norm"])), "%", tolerance=4, usual={
    10: "This is right for layer norm. Batch norm makes every unit differ between examples.",
    84: "This is what He initialisation reached on average. Batch norm does better here.",
})

# %% [markdown]
# Batch norm rescues the network, and layer norm does not. Both keep the size of the signal. But after twenty random
# layers nearly the same numbers come out for *every* example: their mean cosine is 0.99. Layer norm looks at one
# example at a time and does not see that. Batch norm subtracts what all examples have in common.

# %% tags=["demo"]
for name, make_norm in [("batch norm", nn.BatchNorm1d), ("layer norm", nn.LayerNorm)]:
    network = initialised(deep_network(20, make_norm=make_norm), "default")
    with torch.no_grad():
        directions = F.normalize(network[:-1](pixels[training]), dim=1)
    cosines = directions @ directions.T
    count = len(training)
    print(f"{name}: mean cosine {(cosines.sum() - count) / (count * (count - 1)):.2f}")

# %% [markdown]
# Transformers use layer or RMS norm all the same, and train with many layers. They have *residual connections*: each
# block adds something to its input, $x + f(x)$, so the input itself arrives at the end. There the place of the norm
# matters. *Pre-norm*, $x + f(\text{norm}(x))$, leaves the path of the sum untouched. *Post-norm*, $\text{norm}(x +
# f(x))$, normalises on that path in every block. Predict which of the two has the larger gradient in its first block,
# compared with its last one, in a network of 20 blocks: `pre` or `post`.

# %% tags=["demo"]
predict("place", None)


# %% tags=["demo"]
class Block(nn.Module):
    """A linear layer with ReLU, added to its input, with a layer norm before or after."""

    def __init__(self, place):
        super().__init__()
        self.place, self.norm = place, nn.LayerNorm(64)
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x):
        return x + self.body(self.norm(x)) if self.place == "pre" else self.norm(x + self.body(x))


# %% tags=["demo"]
relative = {}
for place in ("pre", "post"):
    network = nn.Sequential(*[Block(place) for _ in range(20)], nn.Linear(64, 10))
    network = initialised(network, "he")
    F.cross_entropy(network(pixels[training]), labels[training]).backward()
    first, last = (network[block].body[0].weight.grad.norm() for block in (0, 19))
    relative[place] = (first / last).item()
    print(f"{place}: gradient of the first block / last block = {relative[place]:.2g}")

# %% tags=["demo"]
reveal("place", max(relative, key=relative.get))

# %% [markdown]
# With post-norm, the gradient of the first block is about a third of that of the last one, because each norm on the way
# scales the sum down. With pre-norm it is even larger. Pre-norm keeps the early blocks learning, which is why deep
# transformers use it, at the price of activations that grow from block to block.
#
# The weak point of batch norm is a small batch. Predict the validation accuracy of a network with two hidden layers and
# batch norm that was trained with batches of 2, in percent. Without any norm it is about 75.

# %% tags=["demo"]
predict("small_batch", None)

# %% tags=["setup"]
norms = {
    "none": None,
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "group": lambda width: nn.GroupNorm(8, width),
    "RMS": nn.RMSNorm,
}


# %% tags=["demo"]
def normed_accuracy(make_norm, batch, rate, seed):
    network = initialised(deep_network(2, make_norm=make_norm), "default", seed)
    return accuracy_of(fit(network, rate=rate, batch=batch, seed=seed))


# %% tags=["demo", "nbval-ignore-output"]
by_batch = {}
print("accuracy in %, mean of three seeds")
for batch, rate in [(2, 0.002), (4, 0.005), (32, 0.02)]:
    for name, make_norm in norms.items():
        values = [normed_accuracy(make_norm, batch, rate, seed) for seed in range(3)]
        by_batch[batch, name] = np.mean(values)
    print(f"batches of {batch:2}:", *(f"{name} {by_batch[batch, name]:.0f} " for name in norms))

# %% tags=["demo", "nbval-ignore-output"]
reveal("small_batch", round(by_batch[2, "batch"]), "%", tolerance=5, usual={
    75: "This is the network without a norm. Batch norm makes it worse here.",
    95: "With batches of 32 it is better still. A variance of two numbers is mostly noise.",
})


# %% [markdown]
# Read the table by rows: within a row all networks saw the same number of examples, between rows they did not, because
# each made 300 steps. With a batch of 2, each step sees two examples, with 32 it sees 32. The rates were chosen for
# each size by the network without a norm.
#
# With two examples, batch norm turns each unit into nearly +1 and −1, whatever the values were. With 32 all norms help.
# The norms that look at one example do well with two as well.
#
# **In your own program.** Use batch norm for convolutions with at least 16 examples in a batch, group norm for images
# if only a few fit, and layer or RMS norm for sequences. If training is good and validation is bad from the first epoch
# on, compare both modes on the *same* training batch: evaluate it in training mode and in evaluation mode. If the two
# differ much, the running statistics are wrong, because the batches were too small, the momentum was too low for a
# short run, or the statistics come from other data. With gradient accumulation, batch norm still sees the small
# batches.
#
# ### Question 03d-norms · 16 points
#
# Write the four norms with PyTorch's conventions. All tensors are float64.
#
# - `batch_norm(x, weight, bias, running_mean, running_var, momentum, eps, training)` returns a tuple (output, new
#   running mean, new running variance). `x` is `[N, C]` or `[N, C, L]`, and the other tensors are `[C]`. In training,
#   each channel is normalised by its mean and variance in this batch. This variance *divides by n*, the number of
#   examples times the number of positions. The running values become (1 − momentum) · old + momentum · batch, and here
#   the batch variance *divides by n − 1*. In evaluation, normalise by the running values and return them unchanged.
# - `layer_norm(x, weight, bias, eps)` normalises each vector of the last axis. `x` is `[N, D]` or `[N, T, D]`, and
#   `weight` and `bias` are `[D]`.
# - `group_norm(x, groups, weight, bias, eps)` divides the C channels of `[N, C]` or `[N, C, L]` into `groups` groups of
#   neighbours, and normalises each group of each example over its channels and positions. `weight` and `bias` are
#   `[C]`.
# - `rms_norm(x, weight, eps)` divides each vector of the last axis by the root of (mean of squares + eps), and
#   multiplies by `weight`, `[D]`. `x` is `[N, D]` or `[N, T, D]`.
#
# `eps` is added to the variance, under the root. It is a number from 0.001 to 0.5. Entries of `x` are from −200 to 200.
# N is at least 2, `momentum` is from 0 to 1, and `groups` divides C. Your functions may overwrite the tensors that they
# get.
#
# Hidden cases: batch norm in training 3 points, its running statistics 3, in evaluation 2, layer norm 3, group norm 3,
# RMS norm 2. Limit: 30 seconds. PyTorch's own norms are switched off.
#
# <details><summary>Hint 1</summary>
#
# `x.var(dim, correction=0, keepdim=True)` is the variance with n. For `[N, C, L]` the statistics of a channel are over
# `dim=(0, 2)`. Weights for `[N, C, L]` must be reshaped to `[1, C, 1]`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Reshape for group norm: `x.reshape(N, groups, -1)` has one row for each group.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03d-norms", "locked": false, "schema_version": 3, "solution": true, "task": false}
def batch_norm(x, weight, bias, running_mean, running_var, momentum, eps, training):
    """Return output, new running mean, new running variance."""
    ### BEGIN SOLUTION
    dims, shape = [d for d in range(x.dim()) if d != 1], [1, -1] + [1] * (x.dim() - 2)
    mean, variance = running_mean, running_var
    if training:
        mean, variance = x.mean(dims), x.var(dims, correction=0)
        running_mean = torch.lerp(running_mean, mean, momentum)
        running_var = torch.lerp(running_var, x.var(dims), momentum)
    y = (x - mean.reshape(shape)) / torch.sqrt(variance.reshape(shape) + eps)
    return y * weight.reshape(shape) + bias.reshape(shape), running_mean, running_var
    ### END SOLUTION


def layer_norm(x, weight, bias, eps):
    """Return each vector of the last axis normalised."""
    ### BEGIN SOLUTION
    variance = x.var(-1, correction=0, keepdim=True)
    return weight * (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + eps) + bias
    ### END SOLUTION


def group_norm(x, groups, weight, bias, eps):
    """Return each group of channels of each example normalised."""
    ### BEGIN SOLUTION
    rows = x.reshape(len(x), groups, -1)
    variance = rows.var(-1, correction=0, keepdim=True)
    y = ((rows - rows.mean(-1, keepdim=True)) / torch.sqrt(variance + eps)).reshape(x.shape)
    shape = [1, -1] + [1] * (x.dim() - 2)
    return y * weight.reshape(shape) + bias.reshape(shape)
    ### END SOLUTION


def rms_norm(x, weight, eps):
    """Return each vector of the last axis divided by its root mean square."""
    ### BEGIN SOLUTION
    return x * weight / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03d-norms-test", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false}
check("03d-norms", batch_norm, layer_norm, group_norm, rms_norm)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03d-norms", batch_norm, layer_norm, group_norm, rms_norm)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Ask of a norm which numbers share a mean. Batch norm shares it among examples: it has two modes, and needs
# batches that are not too small. Layer, group and RMS norm treat each example alone. In deep residual networks put the
# norm before the block.

# %% [markdown]
# ## 4 Gradients: what to watch while training
#
# **Goal.** Read gradient norms and updates, and choose a clipping threshold from what was measured.
#
# After `backward()` each layer has a gradient, and its norm says how strong a signal has arrived there. A sigmoid has a
# slope of at most 1/4. In the backward pass each sigmoid layer multiplies by such a slope. Predict by what factor the
# gradient of the first layer is smaller than that of the last one, in a network with eight sigmoid layers: the power of
# ten.

# %% tags=["demo"]
predict("sigmoid", None)

# %% tags=["demo"]
layer_norms = {}
for make, scheme in [(nn.Sigmoid, "xavier"), (nn.Tanh, "xavier"), (nn.ReLU, "he")]:
    network = initialised(deep_network(8, make), scheme)
    F.cross_entropy(network(pixels[training]), labels[training]).backward()
    layers = network[::2]
    layer_norms[make.__name__] = [layer.weight.grad.norm().item() for layer in layers]
    values = layer_norms[make.__name__]
    print(f"{make.__name__:8} first layer {values[0]:.1g}, last layer {values[-1]:.1g}")

# %% tags=["demo"]
decades = math.log10(layer_norms["Sigmoid"][-1] / layer_norms["Sigmoid"][0])

# %% tags=["demo"]
reveal("sigmoid", decades, tolerance=0.7, usual={
    1: "The slopes multiply, eight times.",
    8: "A slope of 1/4 is less than a power of ten for each layer: 8 times 0.6 is 4.8.",
})

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(5.5, 2.8))
for (name, values), style, colour in zip(layer_norms.items(), "-:.", OKABE_ITO, strict=False):
    axis.semilogy(range(1, 10), values, "--" if style == "." else style, color=colour, label=name)
axis.set(xlabel="layer, from the input", ylabel="norm of its gradient")
axis.legend()
show_figure(
    figure,
    caption="Gradients vanish through sigmoids. Through tanh and ReLU they keep their size.",
    alt="Gradient norm on a logarithmic axis against the layer, 1 to 9. Sigmoid rises from "
    "a hundred-thousandth to one half. Tanh stays near 0.4, ReLU near 2.",
)

# %% [markdown]
# The *global norm* is the norm of all gradients as one vector: the root of the sum of squares of all entries. It is not
# the sum of the layers' norms, as some tables say. For two layers with norms 3 and 4 it is 5.
#
# A gradient alone does not say how far the weights move: Adam divides it by its own size. The *update ratio* does: the
# norm of a step divided by the norm of the weights. A rule of thumb wants it near $10^{-3}$. The next cell measures it
# for Adam with four rates. Predict the ratio for the rate that gives the best accuracy.

# %% tags=["demo"]
predict("ratio", None)


# %% tags=["demo"]
def median_ratio(rate, steps=100):
    """Train with Adam; return the median update ratio of the first layer, and the accuracy."""
    network = initialised(small_network(), "default")
    optimizer = torch.optim.Adam(network.parameters(), rate)
    generator = torch.Generator().manual_seed(0)
    weight, ratios = network[0].weight, []
    for _ in range(steps):
        rows = training[torch.randint(len(training), (64,), generator=generator)]
        optimizer.zero_grad()
        F.cross_entropy(network(pixels[rows]), labels[rows]).backward()
        before = weight.detach().clone()
        optimizer.step()
        ratios.append(((weight.detach() - before).norm() / before.norm()).item())
    return float(np.median(ratios)), accuracy_of(network)


# %% tags=["demo"]
ratios = {rate: median_ratio(rate) for rate in (1e-4, 1e-3, 1e-2, 1e-1)}
for rate, (ratio, accuracy) in ratios.items():
    print(f"rate {rate:g}: update ratio ≈ {ratio:.4f}, accuracy ≈ {accuracy:.0f} %")

# %% tags=["demo"]
best_ratio = max(ratios.values(), key=lambda row: row[1])[0]

# %% tags=["demo"]
reveal("ratio", round(best_ratio, 3), tolerance=0.006, usual={
    0.001: "This is the rule of thumb. In a run of 100 steps it is far too slow.",
})

# %% [markdown]
# In this short run the best rate has a ratio of about one hundredth, ten times the rule of thumb. At the rule's ratio
# 100 steps are not enough. So the rule is a start for long runs, no law. What it does show: with the largest rate the
# ratio is no larger than with 0.01. The weights have grown, and the accuracy is worse.
#
# **Noise.** The gradient of a batch is an estimate of the gradient of all training examples. How far is it off? Predict
# by what factor the distance from the full gradient shrinks when batches grow from 16 to 64 examples.

# %% tags=["demo"]
predict("noise", None)


# %% tags=["demo"]
def first_gradient(network, rows):
    """Return the gradient of the first layer for some rows."""
    network.zero_grad()
    F.cross_entropy(network(pixels[rows]), labels[rows]).backward()
    return network[0].weight.grad.clone()


# %% tags=["demo"]
network = fit(initialised(small_network(), "default"), steps=20)
full, generator = first_gradient(network, training), torch.Generator().manual_seed(0)
distances_of = {}
for batch in (4, 16, 64, 256):
    draws = [training[torch.randint(539, (batch,), generator=generator)] for _ in range(50)]
    off = [(first_gradient(network, rows) - full).norm() / full.norm() for rows in draws]
    distances_of[batch] = torch.stack(off).mean().item()
    print(f"batches of {batch:3}: off by ≈ {distances_of[batch]:.2f} of the full gradient")

# %% tags=["demo"]
reveal("noise", round(distances_of[16] / distances_of[64], 1), tolerance=0.4, usual={
    4: "Four times as many examples halve the noise: it falls with the root of their number.",
    1: "Every batch has the same mean, but not the same spread around it.",
})


# %% [markdown]
# Four times as many examples halve the noise. A small batch therefore wastes part of each step, and a large one pays
# more and more for less and less. That the noise of small batches *helps* to generalise is often said. On large image
# sets it was measured that very large batches did worse with the same settings, and that longer warm-up and another
# rate closed most of the gap. So compare batch sizes with a rate that was tuned for each (03a, section 11).
#
# **Clipping.** Most steps have a usual gradient and a few do not. A threshold from a *percentile* of recorded norms
# leaves the usual ones alone. Record first, without clipping.

# %% tags=["demo"]
def run_with_spikes(limit, seed, spoilt=True, steps=300):
    """Train; every sixtieth batch has eight spoilt images. Return norms and accuracy."""
    network = initialised(small_network(), "default", seed)
    optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    norms = []
    for step in range(steps):
        rows = training[torch.randint(len(training), (64,), generator=generator)]
        x = pixels[rows].clone()
        if spoilt and step % 60 == 50:
            x[:8] *= 1000
        optimizer.zero_grad()
        F.cross_entropy(network(x), labels[rows]).backward()
        norms.append(nn.utils.clip_grad_norm_(network.parameters(), limit).item())
        optimizer.step()
    return norms, accuracy_of(network)


# %% tags=["demo"]
recorded, _ = run_with_spikes(math.inf, seed=0, spoilt=False)
threshold = clip_threshold(recorded, 95)
print(f"median {np.median(recorded):.1f}, largest {max(recorded):.1f}")
print(f"95th percentile {threshold:.1f}")

# %% [markdown]
# Then eight images of every sixtieth batch are multiplied by 1,000, as if somebody had mixed up two units. Predict with
# how many of ten seeds the run *without* clipping ends below 90 percent.

# %% tags=["demo"]
predict("spikes", None)

# %% tags=["demo", "nbval-ignore-output"]
limits = {"no limit": math.inf, "95th percentile": threshold, "0.1": 0.1}
clipped = {
    name: [run_with_spikes(value, seed) for seed in range(10)] for name, value in limits.items()
}
print("accuracy of ten seeds, in %")
for name, runs in clipped.items():
    print(f"{name:16}", *(f"{accuracy:3.0f}" for _, accuracy in runs))

# %% tags=["demo", "nbval-ignore-output"]
failed = sum(accuracy < 90 for _, accuracy in clipped["no limit"])

# %% tags=["demo", "nbval-ignore-output"]
reveal("spikes", failed, "of 10", tolerance=1, usual={
    0: "One step with a gradient hundreds of times too long can destroy all weights.",
    10: "Most seeds are lucky: not every spoilt batch has a large gradient.",
})

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(5.5, 2.8))
axis.semilogy(clipped["no limit"][2][0], color=OKABE_ITO[1], linewidth=1, label="no limit")
axis.semilogy(clipped["95th percentile"][2][0], color=OKABE_ITO[0], linewidth=1, label="clipped")
axis.axhline(threshold, color="black", linestyle=":", label="threshold")
axis.set(xlabel="step", ylabel="global norm before clipping")
axis.legend()
show_figure(
    figure,
    caption="The norms before clipping, with the third seed.",
    alt="Global gradient norm on a logarithmic axis over 300 steps. Both runs jump to several "
    "hundred at step 50. Without a limit the next fifty norms stay large, and step 110 jumps "
    "again. Clipped, the next norms are as small as before.",
)


# %% [markdown]
# Without clipping four of ten runs are destroyed. With the threshold all ten end near 96 percent. A limit of 0.1
# protects as well, but it clips nearly every step, and costs one to three points: that is training with another,
# shorter step. Clipping is a safety net. If it acts all the time, look for the cause.
#
# Why only four? An image that is multiplied by 1,000 usually keeps its predicted class, because the biases are small:
# its logits become about a thousand times larger. If that class is right, the loss of the image is now 0, and so is its
# gradient. If it is wrong, the loss is near 1,000, and the gradient is hundreds of times as long as usual. So a spoilt
# batch does harm only if one of its eight images is classified wrongly. This gets rarer while the network learns, and
# six seeds were lucky.
#
# Look at step 50 in the figure, where both runs meet a spoilt batch with a large gradient. The one without a limit
# takes a step that is hundreds of times too long, and the next batches, which are all right, have large gradients as
# well: the weights are damaged. In the clipped run the next gradients are as before. Record the norm *before* clipping.
# The norm after clipping never exceeds the limit, so it cannot show a spike.
#
# **In your own program.** Log three numbers at every step: the loss, the global norm before clipping, and the rate.
# Once in an epoch, log the norm of each layer. A norm of exactly 0 in one layer means that it gets no gradient
# (detached, frozen, or dead). A norm that falls by a power of ten from layer to layer vanishes. A norm that rises over
# thousands of steps announces a collapse while the loss still looks well. `lecture_lib.training.train(...,
# gradient_norms=True)` records them by layer, and `max_norm=` clips.
#
# ### Question 03d-gradients · 14 points
#
# Write four functions. `gradients` is a list of one to five items. Each is a float64 tensor with finite entries, or
# `None` for a parameter without a gradient. At least one is a tensor. Either all entries are 0, or the norm of all
# entries together is from 0.1 to 100. `limit` is from 0.001 to 1,000. Numbers that you return may be floats or tensors
# with one entry.
#
# - `global_norm(gradients)` returns the norm of all entries together.
# - `update_ratios(before, after)` gets two lists of tensors, without `None`. For each parameter it returns the norm of
#   the update divided by the norm of the weights *before* it, as a list. No tensor in `before` is all zeros.
# - `clip_threshold(norms, percent)` returns the percentile of a list of recorded norms. Norms that are not finite are
#   left out, and at least one is finite. The finite ones are from 0 to 1,000,000. Between two norms it is interpolated
#   linearly, as in `numpy.percentile`. `percent` is from 0 to 100.
# - `clip_gradients(gradients, limit)` returns a tuple: the list of clipped gradients, in which `None` stays `None`, and
#   the global norm *before* clipping. A norm above `limit` is scaled down to it. Otherwise nothing changes.
#
# `clip_gradients` may overwrite the tensors, and return them or new ones. PyTorch adds 1e-6 to the norm before it
# divides by it. You may do so, too, also where the norm equals the limit.
#
# Hidden cases: global norm 3 points, update ratios 3, threshold 3, norms that are not finite 2, clipped gradients 2,
# norm before clipping 1. Limit: 30 seconds. The clipping functions of `torch.nn.utils` and `lecture_lib.training` are
# switched off.
#
# <details><summary>Hint</summary>
#
# The global norm of tensors with norms 3 and 4 is 5. Compare a percentile of your own with the median of two numbers.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03d-gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
def global_norm(gradients):
    """Return the norm of all entries together."""
    ### BEGIN SOLUTION
    return math.sqrt(sum(g.square().sum().item() for g in gradients if g is not None))
    ### END SOLUTION


def update_ratios(before, after):
    """Return the norm of each update over the norm of the old weights."""
    ### BEGIN SOLUTION
    pairs = zip(before, after, strict=True)
    return [((new - old).norm() / old.norm()).item() for old, new in pairs]
    ### END SOLUTION


def clip_threshold(norms, percent):
    """Return a percentile of the norms that are finite."""
    ### BEGIN SOLUTION
    return float(np.percentile([norm for norm in norms if math.isfinite(norm)], percent))
    ### END SOLUTION


def clip_gradients(gradients, limit):
    """Return the clipped gradients and the global norm before clipping."""
    ### BEGIN SOLUTION
    norm = global_norm(gradients)
    scale = min(1.0, limit / norm) if norm > 0 else 1.0
    return [None if g is None else g * scale for g in gradients], norm
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03d-gradients-test", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false}
check("03d-gradients", global_norm, update_ratios, clip_threshold, clip_gradients)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03d-gradients", global_norm, update_ratios, clip_threshold, clip_gradients)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Watch norms layer by layer, the global norm before clipping, and the update ratio. Choose the threshold
# from a percentile of a recorded run, and clip one vector with one factor.

# %% [markdown]
# ## 5 Instabilities: where nan comes from
#
# **Goal.** Find the operation that makes nan, and repair it at its cause.
#
# Four operations make most of the nan's in losses: the root of 0 (its slope is infinite), the logarithm of 0, a
# division by 0, and infinity minus infinity. In each case the *value* can look fine while the *gradient* is nan.
#
# The obvious repair is `torch.where`: choose 0 where the argument is 0. Predict the gradient of `torch.where(x > 0,
# x.sqrt(), 0)` at x = 0: a number, or "nan" or "inf".

# %% tags=["demo"]
predict("where", None)

# %% tags=["demo"]
x = torch.tensor([0.0, 4.0], requires_grad=True)
torch.where(x > 0, x.sqrt(), 0.0).sum().backward()
print("chosen after the root: ", x.grad.tolist())

# %% tags=["demo"]
z = torch.tensor([0.0, 4.0], requires_grad=True)
safe = torch.where(z > 0, z, 1.0)
torch.where(z > 0, safe.sqrt(), 0.0).sum().backward()
print("replaced before the root:", z.grad.tolist())

# %% tags=["demo"]
reveal("where", str(x.grad[0].item()), usual={
    "0": "The side that was not chosen gets the gradient 0, and 0 times infinity is nan.",
    "inf": "This is the slope of the root. It is multiplied by 0, and 0 times infinity is nan.",
})

# %% [markdown]
# `where` passes the gradient 0 to the side that it did not choose. Then 0 is multiplied by the slope of the root, which
# is infinite, and the result is nan. The repair comes *before* the dangerous operation: replace its argument by a
# harmless number, compute, and choose afterwards. `nan_to_num` and `clamp` after the operation fail for the same
# reason.
#
# How do you find the operation in a real program? `torch.autograd.set_detect_anomaly(True)` names the backward function
# that returned nan. `find_non_finite` of this course asks the same of a copy of the model, and first looks at weights,
# inputs, outputs of layers and the loss. Four broken losses follow. Read them, and predict which one is found in the
# *forward* pass already: `distance`, `log`, `entropy` or `ratio`.

# %% tags=["demo"]
predict("forward", None)

# %% tags=["demo"]
probe_model = initialised(nn.Sequential(nn.Linear(64, 3), nn.ReLU()), "he")
batch = pixels[training][:32]


def distance_loss(model):
    """Distance between two outputs of the same batch."""
    outputs = model(batch)
    return (outputs - outputs.detach()).square().sum(1).sqrt().mean()


# %% tags=["demo"]
def log_loss(model):
    """Mean logarithm of the outputs that are not 0."""
    outputs = model(batch)
    return torch.where(outputs > 0, outputs.log(), 0.0).mean()


def entropy_loss(model):
    """Entropy of a softmax with large logits."""
    p = torch.softmax(1000 * model(batch), dim=1)
    return torch.nan_to_num(p * p.log()).sum(1).mean()


# %% tags=["demo"]
def ratio_loss(model):
    """Outputs divided by their sum."""
    outputs = model(batch)
    return (outputs / outputs.sum(1, keepdim=True)).square().mean()



# %% tags=["demo"]
broken = {"distance": distance_loss, "log": log_loss, "entropy": entropy_loss, "ratio": ratio_loss}
places = {name: find_non_finite(probe_model, loss) for name, loss in broken.items()}
for name, place in places.items():
    print(f"{name}: {place}")

# %% tags=["demo"]
early = next(name for name, place in places.items() if place.phase in ("loss", "forward"))

# %% tags=["demo"]
reveal("forward", early, usual={
    "log": "The logarithm of 0 is -inf, but `where` does not choose it: the value is fine.",
    "entropy": "0 times -inf is nan, and `nan_to_num` hides it in the value.",
    "distance": "The distance of equal vectors is 0, which is right. Its gradient is not.",
})

# %% [markdown]
# Three of the four have a finite loss, and the gradient destroys the weights in the next step. When the loss becomes
# nan one step later, its cause is gone. So ask with the weights from *before* that step. The name that you get is that
# of the operation in which infinity met 0. For `distance` it is the square (`Pow`): the root, whose slope is infinite,
# comes just after it.
#
# **Spikes and collapse.** A loss that jumps once and recovers is usually harmless: a rare batch, or an FP16 overflow
# whose step was skipped. A loss that jumps and stays is a collapse. Go back to a checkpoint, lower the rate or clip,
# and look at the batch.
#
# **Oscillation.** A validation loss that goes up and down from epoch to epoch, while the training loss falls, has one
# of two causes. The steps may be too long for the valley, which is common late in fine-tuning. Or the validation set is
# so small that a handful of examples decide. To tell the two apart, evaluate the same weights on two halves of the
# validation set. If the halves disagree as much as the epochs do, the set is too small. If they rise and fall together,
# lower the rate, let it decay to 0, or average the weights (section 8). Do not choose the luckiest epoch and report its
# score.
#
# **FP16** has a smallest positive number of about $6 \cdot 10^{-8}$. Gradients below half of it are rounded to 0, those
# between are rounded up to it. *Loss scaling* multiplies the loss by a large number before `backward()`, and divides
# the gradients by it afterwards, in FP32. Predict the share of gradients with a standard deviation of $10^{-7}$ that
# become 0 in FP16, in percent.

# %% tags=["demo"]
predict("underflow", None)

# %% tags=["demo"]
torch.manual_seed(0)
small = 1e-7 * torch.randn(100_000)
lost = {scale: 100 * ((small * scale).half() == 0).float().mean().item() for scale in (1, 1024)}
for scale, share in lost.items():
    print(f"scale {scale:4}: {share:.1f} % of the gradients become 0")

# %% tags=["demo"]
reveal("underflow", lost[1], "%", tolerance=4, usual={
    45: "This is the share below the smallest number. The upper half of them is rounded up to it.",
    100: "Most are above half of the smallest number, and are rounded up to it, or kept.",
})


# %% [markdown]
# With a scale of 1,024 nearly all survive. The largest scale at which nothing overflows is best, so `GradScaler` looks
# for it: after an overflow the step is skipped and the scale is multiplied by `backoff`. After `interval` good steps in
# a row it is multiplied by `growth`, and the count starts again.
#
# **In your own program.** Check the inputs first: `torch.isfinite(x).all()`. Then save the weights before each step for
# as long as it takes to see the nan again, and ask `find_non_finite` with the last good weights and that batch. Check
# also whether the optimizer's state was already damaged: a single step with an infinite gradient makes Adam's averages
# infinite and the weights nan, and no later batch repairs them. That is why `train` of this course refuses such a step,
# or skips it with `non_finite='skip'`, before it touches anything.
#
# ### Question 03d-nan · 14 points
#
# Write five functions. The values and the gradients of the first four must be finite for all inputs described here. All
# tensors are float64, and entries of `a` and `b` are between −10 and 10. Gradients are computed by PyTorch's autograd.
#
# - `distances(a, b)`: the Euclidean distance of each row of `a` from the corresponding row of `b`, both `[N, D]`. The
#   result is `[N]`. Where two rows are equal, the distance is 0, and so is its gradient. Rows that are not equal are at
#   least 0.0005 apart.
# - `masked_log_mean(x, mask)`: the mean of $\log x$ over the entries at which the boolean `mask` is true: one number.
#   Both tensors are `[N, D]`. Where the mask is true, the entries of `x` are from 1e-9 to 1,000. The others may be 0 or
#   negative, and their gradient is 0. If the mask is true nowhere, the result is 0, and it may then be a constant
#   without a gradient.
# - `entropy(logits)`: the entropy $-\sum_c p_c \ln p_c$ of the softmax of each row, in nats. `logits` is `[N, C]`, with
#   entries between −10,000 and 10,000. The result is `[N]`.
# - `cosine_similarity(a, b)`: the cosine of the angle between each row of `a` and the corresponding row of `b`. The
#   result is `[N]`. If a row of `a` or of `b` is all zeros, the similarity is 0, and so are the gradients of both rows
#   of this pair. All other rows have a norm above 0.01.
# - `loss_scales(finite, scale, growth, backoff, interval)`: the list of the scales *used* in each step, by the rule of
#   `GradScaler`: after an overflow the scale is multiplied by `backoff`; after `interval` good steps in a row it is
#   multiplied by `growth`. Both set the count of good steps back to 0. `finite` is a list of at least one boolean:
#   whether the gradients of that step were finite. `scale` is the scale of the first step. `interval` is at least 2,
#   `growth` is above 1, and `backoff` is between 0 and 1.
#
# The tolerance for values and gradients is 1e-5, or 1e-5 times the largest entry if this entry is above 1 in magnitude.
#
# Hidden cases: each of the four values 1 point, each of the four gradients 2, loss scale 2. Limit: 30 seconds.
# `cosine_similarity` and `pairwise_distance` of PyTorch, and `torch.distributions.Categorical`, are switched off.
#
# <details><summary>Hint 1</summary>
#
# `F.normalize` divides by at least 1e-12, so the gradient of a row of zeros is huge there, not 0.
#
# </details>
# <details><summary>Hint 2</summary>
#
# `torch.log_softmax` gives ln p without computing p. Where p underflows to 0, the product of p and ln p is 0.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03d-nan", "locked": false, "schema_version": 3, "solution": true, "task": false}
def distances(a, b):
    """Return the distance of each pair of rows."""
    ### BEGIN SOLUTION
    squares = (a - b).square().sum(dim=1)
    equal = squares == 0
    return torch.where(equal, 1.0, squares).sqrt().masked_fill(equal, 0.0)
    ### END SOLUTION


def masked_log_mean(x, mask):
    """Return the mean of log x where mask is true."""
    ### BEGIN SOLUTION
    return torch.where(mask, x, 1.0).log().sum() / mask.sum().clamp(min=1)
    ### END SOLUTION


def entropy(logits):
    """Return the entropy of each row's softmax in nats."""
    ### BEGIN SOLUTION
    log_p = torch.log_softmax(logits, dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)
    ### END SOLUTION


def cosine_similarity(a, b):
    """Return the cosine of each pair of rows, 0 for rows of zeros."""
    ### BEGIN SOLUTION
    zero = (a == 0).all(dim=1) | (b == 0).all(dim=1)
    a, b = (torch.where(zero[:, None], 1.0, rows) for rows in (a, b))
    cosine = (a * b).sum(dim=1) / (a.norm(dim=1) * b.norm(dim=1))
    return torch.where(zero, 0.0, cosine)
    ### END SOLUTION


def loss_scales(finite, scale, growth, backoff, interval):
    """Return the scale used in each step."""
    ### BEGIN SOLUTION
    used, good = [], 0
    for step_is_finite in finite:
        used.append(scale)
        good = good + 1 if step_is_finite else 0
        if not step_is_finite:
            scale *= backoff
        elif good == interval:
            scale, good = scale * growth, 0
    return used
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03d-nan-test", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false}
check("03d-nan", distances, masked_log_mean, entropy, cosine_similarity, loss_scales)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03d-nan", distances, masked_log_mean, entropy, cosine_similarity, loss_scales)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** A finite loss can have a gradient of nan. Replace the argument before the dangerous operation, not the
# result after it. Anomaly mode names the operation, if you ask with the weights from before the bad step.

# %% [markdown]
# ## 6 Overfit, then regularise: a run with a record
#
# **Goal.** Fit first, then close the gap step by step, and believe a step only over several seeds.
#
# The order of work: first make the training loss as small as it gets. A network that cannot fit its training set has a
# fault, or is too small, and no regulariser helps. Then the gap between training and validation is what there is to
# win.
#
# Here are 150 digits for training and 600 for validation. The network has two hidden layers of 256 units, and AdamW
# makes 600 steps. Every 20 steps the validation loss is recorded, and the best one is kept: that is *early stopping*.
# Predict the training accuracy of the plain network, in percent.

# %% tags=["demo"]
predict("fits", None)

# %% tags=["setup"]
few, validation = training[:150], held_out[:600]
background = pixels.min().item()


def shifted(x, generator):
    """Move all images of a batch by up to one pixel in both directions."""
    down, right = torch.randint(0, 3, (2,), generator=generator).tolist()
    padded = F.pad(x.view(-1, 8, 8), (1, 1, 1, 1), value=background)
    return padded[:, down : down + 8, right : right + 8].flatten(1)


# %% tags=["setup"]
def mixed_batch(x, targets, alpha, generator, numbers):
    """Blend a batch with itself in another order."""
    share = numbers.beta(alpha, alpha)
    order = torch.randperm(len(x), generator=generator)
    return share * x + (1 - share) * x[order], share * targets + (1 - share) * targets[order]


# %% tags=["setup"]
def validated(network):
    """Return loss and accuracy (in %) on the validation digits."""
    network.eval()
    with torch.no_grad():
        loss = F.cross_entropy(network(pixels[validation]), labels[validation]).item()
    return loss, accuracy_of(network, validation)


def hidden_layers(dropout, width=256):
    layers = [nn.Linear(64, width), nn.ReLU(), nn.Dropout(dropout)]
    layers += [nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(width, 10))


# %% tags=["setup"]
def record(seed, decay=0.0, dropout=0.0, shift=False, smoothing=0.0, mixup=0.0, steps=600):
    """Train once; return losses and accuracies at the end and at the best step."""
    torch.manual_seed(seed)
    generator, numbers = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    network = hidden_layers(dropout)
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=decay)
    best = (math.inf, 0.0, 0)
    for step in range(1, steps + 1):
        rows = few[torch.randint(len(few), (50,), generator=generator)]
        x, targets = pixels[rows], F.one_hot(labels[rows], 10).float()
        x = shifted(x, generator) if shift else x
        if mixup:
            x, targets = mixed_batch(x, targets, mixup, generator, numbers)
        network.train()
        optimizer.zero_grad()
        F.cross_entropy(network(x), targets, label_smoothing=smoothing).backward()
        optimizer.step()
        if step % 20 == 0:
            best = min(best, (*validated(network), step))
    loss, accuracy = validated(network)
    return {"fit": accuracy_of(network, few), "loss": loss, "accuracy": accuracy, "best": best}


# %% tags=["setup"]
def summary(name, runs):
    """Print the means of three runs: training accuracy, then loss and accuracy in validation."""
    fit_, loss, accuracy = (np.mean([r[key] for r in runs]) for key in ("fit", "loss", "accuracy"))
    half = np.ptp([run["loss"] for run in runs]) / 2
    best_loss, best_accuracy, step = np.mean([run["best"] for run in runs], axis=0)
    print(f"{name:15} fit {fit_:3.0f} %, end: loss {loss:.2f} ± {half:.2f}, {accuracy:.1f} %; "
          f"best step (≈ {step:.0f}): loss {best_loss:.2f}, {best_accuracy:.1f} %")


# %% tags=["demo", "nbval-ignore-output"]
runs = {"plain": [record(seed) for seed in range(3)]}
summary("plain", runs["plain"])

# %% tags=["demo", "nbval-ignore-output"]
reveal("fits", round(np.mean([run["fit"] for run in runs["plain"]])), "%", tolerance=1, usual={
    91: "This is about the validation accuracy. A network of this size learns 150 digits by heart.",
})

# %% [markdown]
# It fits all 150 digits. The gap is open, and the first step costs nothing: the best validation loss came long before
# the end, so *stop early*. The accuracy hardly differs between the two, because an overfitted network is mostly too
# certain rather than wrong. Next, try one regulariser at a time, each with three seeds: weight decay, dropout, images
# shifted by up to a pixel, and mixup (a blend of two images and of their labels; section 7). Predict how many of the
# four lower the final validation loss clearly, by more than 0.05.

# %% tags=["demo"]
predict("regulariser", None)

# %% tags=["demo", "nbval-ignore-output"]
settings = {
    "decay": {"decay": 1.0},
    "dropout": {"dropout": 0.5},
    "shift": {"shift": True},
    "mixup": {"mixup": 1.0},
}
for name, setting in settings.items():
    runs[name] = [record(seed, **setting) for seed in range(3)]
    summary(name, runs[name])

# %% tags=["demo"]
means = {name: np.mean([run["loss"] for run in runs[name]]) for name in runs}
clearly = [name for name in settings if means[name] < means["plain"] - 0.05]
print("clearly lower:", ", ".join(clearly))

# %% tags=["demo"]
reveal("regulariser", len(clearly), tolerance=0, usual={
    4: "Not every regulariser helps everywhere. That is why each one is measured.",
    0: "One of them adds what the data lack: other positions.",
})

# %% [markdown]
# Shifts and decay lower the loss at the end by about 0.11, well beyond the spread of the seeds. Dropout and mixup do
# not. But read the second half of each line as well. The best step of dropout is nearly as good as theirs, only it
# comes early. Mixup has a somewhat lower loss at its best step than the plain network, and about two points more
# accuracy: it helps if you stop in time. A comparison after a fixed number of steps does not show this.
#
# For the shifts the *kind* of data explains the gain: a digit is the same digit one pixel further left, and 150 images
# do not say so. Then combine the best with the next, and keep a step only if it gains more than the spread.

# %% tags=["demo", "nbval-ignore-output"]
combined = {
    "shift + decay": {"shift": True, "decay": 1.0},
    "shift + dropout": {"shift": True, "dropout": 0.3},
    "shift + mixup": {"shift": True, "mixup": 0.4},
}
for name, setting in combined.items():
    runs[name] = [record(seed, **setting) for seed in range(3)]
    summary(name, runs[name])

# %% tags=["demo"]
figure, axis = plt.subplots(figsize=(6, 3))
for place, name in enumerate(runs):
    axis.plot([run["loss"] for run in runs[name]], [place] * 3, "o", color=OKABE_ITO[0])
    axis.plot([run["best"][0] for run in runs[name]], [place] * 3, "|", color=OKABE_ITO[1], ms=12)
axis.set(yticks=range(len(runs)), yticklabels=runs, xlabel="validation loss (nats)", xlim=(0, None))
axis.invert_yaxis()
show_figure(
    figure,
    caption="Three seeds each. Dots: loss at the end. Lines: loss at the best step, which early "
    "stopping keeps.",
    alt="Validation loss of eight settings, three seeds each. Plain 0.35 to 0.41, decay and shift "
    "about 0.27, mixup about 0.41, shift with dropout 0.17 to 0.21, which is the lowest.",
)

# %% [markdown]
# Shifts with dropout are the best, about half of the plain loss, and the end of the run is as good as its best step:
# early stopping has nothing left to gain. The training set is still fitted completely, so the record asks for *more* of
# the same next: larger shifts, small rotations, or more dropout. Stop when the training accuracy falls and the
# validation loss rises. The validation digits were used here to choose among eight settings. A number to report needs a
# third part of the data.
#
# **In your own program.** Write down the training loss at which you would call the network able to fit, before you
# start. Reach it without any regulariser; if you cannot, climb the debug ladder (03b) instead of adding dropout. Then
# change one thing at a time. Give each change three seeds, because here the seeds alone move the loss by 0.03, and a
# gain of that size is no gain. Early stopping comes first and for free. Keep the table of all changes, the failed ones
# too: they save you from trying them again in a month. When nothing gains more than the spread any more, collect data,
# or look at the mistakes one by one (03b, rung 7).
#
# A record does not need much: a line for each run with its settings, seed, losses and best step, in a file that only
# grows. The next cells write it and read it back, sorted by what counts.

# %% tags=["demo"]
import json
from pathlib import Path
from tempfile import mkdtemp

log = Path(mkdtemp()) / "runs.jsonl"
with log.open("a") as file:
    for name, three in runs.items():
        for seed, run in enumerate(three):
            file.write(json.dumps({"setting": name, "seed": seed, **run}) + "\n")

# %% tags=["demo", "nbval-ignore-output"]
lines = [json.loads(line) for line in log.read_text().splitlines()]
print(f"{len(lines)} runs; the three with the lowest loss at their best step:")
for line in sorted(lines, key=lambda line: line["best"][0])[:3]:
    best_loss, _, step = line["best"]
    print(f"{line['setting']:16} seed {line['seed']}: {best_loss:.2f} at step {step}")

# %% [markdown]
# With such a file nothing is lost when a notebook is closed. `lecture_lib.experiments` adds the commit, the versions
# and the machine (03a, section 18). TensorBoard and Weights & Biases draw the same numbers while they arrive, which
# helps with runs of hours, and they keep histograms of weights and gradients.

# %% [markdown]
# ## 7 Dropout, mixup, CutMix: noise that helps
#
# **Goal.** Write three regularisers, and know what each changes in training and leaves alone in evaluation.
#
# *Dropout* sets each entry to 0 with probability $p$ in training, and divides the others by $1-p$. In evaluation it
# does nothing. The division keeps the mean: predict the mean of dropout with $p = 0.25$ over a million ones.

# %% tags=["demo"]
predict("mean", None)

# %% tags=["demo"]
torch.manual_seed(0)
ones = torch.ones(1_000_000)
dropped = F.dropout(ones, 0.25, training=True)
zeros = (dropped == 0).float().mean()
print(f"training: mean {dropped.mean():.2f}, largest {dropped.max():.4f}, zeros {zeros:.2f}")
print(f"evaluation: mean {F.dropout(ones, 0.25, training=False).mean():.2f}")

# %% tags=["demo"]
reveal("mean", round(dropped.mean().item(), 2), tolerance=0.02, usual={
    0.75: "This would be the mean without the division by 1 - p.",
})

# %% [markdown]
# *Label smoothing* is in 03c, section 2: it mixes every target with the uniform distribution. *Mixup* mixes two
# examples: $\lambda x_i + (1-\lambda) x_j$, with the target $\lambda y_i + (1-\lambda) y_j$. *CutMix* pastes a box of
# image j into image i, and mixes the targets by the *area* of the box. torchvision has both. On two photographs they
# look like this:

# %% tags=["demo"]
from sklearn.datasets import load_sample_images
from torchvision.transforms import v2

photographs = torch.stack([
    torch.tensor(image[::2, ::2]).permute(2, 0, 1) / 255 for image in load_sample_images().images
])

# %% tags=["demo"]
torch.manual_seed(22)
both = torch.tensor([0, 1])
blend, blend_targets = v2.MixUp(alpha=5.0, num_classes=2)(photographs, both)
pasted, pasted_targets = v2.CutMix(alpha=5.0, num_classes=2)(photographs, both)

# %% tags=["demo"]
figure, axes = plt.subplots(1, 4, figsize=(9, 2))
shown = [photographs[0], photographs[1], blend[0], pasted[0]]
titles = ["temple", "flower"]
titles += [f"{100 * t[0, 0]:.0f} % temple" for t in (blend_targets, pasted_targets)]
for axis, image, title in zip(axes, shown, titles, strict=True):
    axis.imshow(image.permute(1, 2, 0).numpy())
    axis.set_title(title, fontsize=9)
    axis.axis("off")
show_figure(
    figure,
    caption="Two photographs, their mixup, and their CutMix. The targets are mixed as well.",
    alt="Four pictures: a Chinese temple, a pink flower, both blended into each other, and the "
    "temple with a rectangle from the flower pasted into it.",
)

# %% [markdown]
# The box of CutMix has the sides $\sqrt{1-\lambda}$ times those of the image, so that its area is $1-\lambda$. Near the
# border it is cut off, and its area is smaller. The targets must use the area that is really there. Predict by how much
# the shares are off, on average, if $\lambda$ is not computed again, for uniform $\lambda$ and centres: the mean
# difference, between 0 and 1.

# %% tags=["demo"]
predict("border", None)

# %% tags=["demo"]
numbers = np.random.default_rng(0)
shares, centres = numbers.random(20_000), numbers.random((20_000, 2))
halves = np.sqrt(1 - shares)[:, None] / 2
sides = np.minimum(centres + halves, 1) - np.maximum(centres - halves, 0)

# %% tags=["demo"]
error = np.mean((1 - shares) - sides.prod(axis=1))
print(f"mean difference {error:.2f}")

# %% tags=["demo"]
reveal("border", error, tolerance=0.04, usual={
    0: "Half of all boxes of this size reach the border.",
})


# %% [markdown]
# Almost a fifth of the image, on average. Without the correction the targets would often say "half" where much more of
# the image is still visible.
#
# In section 6 mixup alone helped a little if the run was stopped at its best step, and did harm after 600 steps. It was
# made for large image sets and long training. Three seeds took seconds to find out what it does here. And validation
# data are never mixed: there the question is how good the network is on what was measured.
#
# **In your own program.** Begin with what your data lack. Images: shifts, mirror images if the class allows it (a
# mirrored 2 is no 2), crops, colours. Tables: weight decay and fewer features. Text: more text. Then weight decay from
# 0.01 to 1 with AdamW, then dropout from 0.1 to 0.5 before the last layers. Label smoothing and mixup come last, since
# both make probabilities less certain, which hurts where you need calibrated ones. Give each setting the same number of
# steps *and* early stopping, or you compare how long they take to overfit.
#
# ### Question 03d-dropout · 10 points
#
# Write dropout and its backward pass, with random numbers that are given.
#
# - `dropout(x, p, uniform, training)` returns a tensor of the shape of `x`. In training an entry is dropped where
#   `uniform` is *below* `p`, and the others are divided by $1-p$. In evaluation `x` is unchanged. `p` is from 0 to 1.
#   With p = 1 everything is dropped: output and gradient are 0, not nan.
# - `dropout_gradient(gradient, p, uniform, training)` gets the gradient of the loss with respect to the output, and
#   returns the gradient with respect to `x`. The random numbers are the same.
#
# `x`, `gradient` and `uniform` have the same shape, with one to three axes, and are float64. The entries of `x` and
# `gradient` are from −1,000 to 1,000. The entries of `uniform` are at least 0 and below 1, as those of `torch.rand`,
# and one may equal `p` exactly. You may overwrite the tensors.
#
# Hidden cases: training 3 points, evaluation 2, gradient 3, gradient in evaluation 1, and 1 for p = 1. You get the last
# point only if another part is right too. Limit: 30 seconds. PyTorch's dropout is switched off.
#
# <details><summary>Hint</summary>
#
# Dropout multiplies each entry by a number that does not depend on `x`. What is the derivative of such a product?
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03d-dropout", "locked": false, "schema_version": 3, "solution": true, "task": false}
def dropout(x, p, uniform, training):
    """Return x after dropout."""
    ### BEGIN SOLUTION
    if not training:
        return x
    return torch.zeros_like(x) if p == 1 else x * (uniform >= p) / (1 - p)
    ### END SOLUTION


def dropout_gradient(gradient, p, uniform, training):
    """Return the gradient with respect to the input of dropout."""
    ### BEGIN SOLUTION
    return dropout(gradient, p, uniform, training)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03d-dropout-test", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
check("03d-dropout", dropout, dropout_gradient)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03d-dropout", dropout, dropout_gradient)
### END HIDDEN TESTS

# %% [markdown]
# ### Question 03d-mixup · 12 points
#
# Write mixup and CutMix. Partners, share and centre are given.
#
# - `mixup(images, labels, classes, share, order, training)` returns a tuple (inputs, targets). Row i of the inputs is
#   share · images[i] + (1 − share) · images[order[i]]. The targets are `[N, classes]`: the one-hot labels, mixed in the
#   same way.
# - `cutmix(images, labels, classes, share, order, centre, training)` returns a tuple (images, targets). A box of
#   images[order[i]] replaces the same box of image i. With H rows and W columns, the box has the half height int(0.5 ·
#   $\sqrt{1 - \text{share}}$ · H) and the half width int(0.5 · $\sqrt{1 - \text{share}}$ · W). It goes from centre −
#   half (included) to centre + half (excluded), and what lies outside the image is cut off. `centre` is a
#   pair of whole numbers, (row, column). The targets are mixed by the share of pixels that *really* come from each
#   image.
# - With `training=False` both return the images unchanged and one-hot targets. All targets may have any type of number.
#
# `images` is float64, `[N, C, H, W]`, with H and W from 1 to 20 and pixels from −10 to 10, `labels` is int64, `[N]`,
# and `order` is a permutation, int64, `[N]`. `share` is from 0 to 1. The centre is inside the image. You may overwrite
# the tensors.
#
# Hidden cases: mixed inputs 2 points, mixed targets 2, boxes 2, boxes at the border 2, targets of boxes 2,
# validation 2. Limit: 30 seconds. `MixUp` and `CutMix` of torchvision are switched off.
#
# <details><summary>Hint</summary>
#
# Clone the images before you paste, or a later row gets pixels that were pasted before. Compute the area from the
# borders of the box after they were cut off.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03d-mixup", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mixup(images, labels, classes, share, order, training):
    """Return mixed inputs and mixed targets."""
    ### BEGIN SOLUTION
    targets = F.one_hot(labels, classes).double()
    if not training:
        return images, targets
    inputs = share * images + (1 - share) * images[order]
    return inputs, share * targets + (1 - share) * targets[order]
    ### END SOLUTION


def cutmix(images, labels, classes, share, order, centre, training):
    """Return images with pasted boxes, and targets mixed by area."""
    ### BEGIN SOLUTION
    targets = F.one_hot(labels, classes).double()
    if not training:
        return images, targets
    height, width = images.shape[2:]
    halves = [int(0.5 * math.sqrt(1 - share) * side) for side in (height, width)]
    rows, columns = (
        slice(max(place - half, 0), min(place + half, side))
        for place, half, side in zip(centre, halves, (height, width), strict=True)
    )
    cut = images.clone()
    cut[:, :, rows, columns] = images[order][:, :, rows, columns]
    pasted_share = cut[0, 0, rows, columns].numel() / (height * width)
    return cut, (1 - pasted_share) * targets + pasted_share * targets[order]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03d-mixup-test", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false}
check("03d-mixup", mixup, cutmix)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03d-mixup", mixup, cutmix)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Dropout divides by $1-p$ in training and does nothing in evaluation. Mixup and CutMix mix inputs *and*
# targets, and CutMix by the area that is really visible. Measure a regulariser with several seeds. Choose first what
# your data lack.

# %% [markdown]
# ## 8 Averages: of weights, and the loss around them
#
# **Goal.** Average weights in two ways, keep batch norms right, and know what a picture of the loss can show.
#
# At a constant rate SGD does not settle. It moves around in the valley. The mean of the points that it passes lies
# nearer to the middle. *Exponential moving average* (EMA): average = d · average + (1 − d) · weights, after each step,
# with $d$ near 1. *Stochastic weight averaging* (SWA): the plain mean of the weights of the last epochs. Predict by how
# many points the accuracy of the average is above that of the last weights, in a run with a rate that is too large to
# settle.

# %% tags=["demo"]
predict("averaged", None)

# %% tags=["setup"]
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn


def noisy_run(seed, steps=400, rate=0.3):
    """Train with a large constant rate; return the network, its EMA and its SWA."""
    network = initialised(deep_network(2, make_norm=nn.BatchNorm1d), "default", seed)
    ema = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.98))
    swa = AveragedModel(network)
    optimizer = torch.optim.SGD(network.parameters(), rate)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rows = few[torch.randint(len(few), (8,), generator=generator)]
        optimizer.zero_grad()
        F.cross_entropy(network(pixels[rows]), labels[rows]).backward()
        optimizer.step()
        ema.update_parameters(network)
        if step >= steps // 2 and step % 10 == 0:
            swa.update_parameters(network)
    return network, ema, swa


# %% tags=["demo", "nbval-ignore-output"]
averaged = {"last weights": [], "EMA": [], "SWA, old statistics": [], "SWA, updated": []}
for seed in range(3):
    network, ema, swa = noisy_run(seed)
    batches = [pixels[few][start : start + 50] for start in (0, 50, 100)]
    update_bn(batches, ema)
    averaged["last weights"].append(accuracy_of(network))
    averaged["EMA"].append(accuracy_of(ema))
    averaged["SWA, old statistics"].append(accuracy_of(swa))
    update_bn(batches, swa)
    averaged["SWA, updated"].append(accuracy_of(swa))

# %% tags=["demo", "nbval-ignore-output"]
for name, values in averaged.items():
    print(f"{name:20}", *(f"{value:.1f} %" for value in values))

# %% tags=["demo", "nbval-ignore-output"]
gain = np.mean(averaged["SWA, updated"]) - np.mean(averaged["last weights"])

# %% tags=["demo", "nbval-ignore-output"]
reveal("averaged", round(gain, 1), "points", tolerance=1.5, usual={
    0: "At a constant rate the last weights are one noisy point among many.",
})

# %% [markdown]
# Both averages beat the last weights with all three seeds, by about two points. The third row shows a trap that costs
# more than one point of that: batch norms keep running statistics of activations, and these belong to the weights of
# the run, not to the average. (`AveragedModel` takes over the buffers of the run at each update.) After averaging, pass
# some training batches through the averaged model in training mode: `torch.optim.swa_utils.update_bn`. Models without
# batch norm do not need it.
#
# A schedule that lets the rate fall to 0 has much the same effect as averaging. Do not expect both to add up.
#
# **The loss around the weights.** A common picture shows the loss along two random directions in the space of all
# weights. It is tempting to call one network's valley flatter than another's. But the *same* function has many sets of
# weights: with ReLU, multiply one layer by 10 and divide the next by 10. The next cell does that to a trained network,
# and computes the rise of the loss at the border of the picture twice: along raw random directions, and along
# directions in which each filter is as long as the network's own (*filter normalisation*). Predict by what factor the
# raw rise changes.

# %% tags=["demo"]
predict("sharp", None)

# %% tags=["demo"]
trained = fit(initialised(small_network(), "he"), rate=0.02).eval()
twin = deepcopy(trained)
with torch.no_grad():
    twin[0].weight *= 10
    twin[0].bias *= 10
    twin[2].weight /= 10


def training_loss(network):
    return F.cross_entropy(network(pixels[training]), labels[training])


# %% tags=["demo"]
rises = {}
for normalise in (False, True):
    kind = "filter-normalised" if normalise else "raw"
    for name, network in [("trained", trained), ("twin", twin)]:
        radius = 1.0 if normalise else 0.05
        landscape = loss_landscape(
            network, training_loss, radius=radius, points=9, normalise=normalise
        )
        rises[normalise, name] = landscape.sharpness
        print(f"{kind:17} {name:8} rise ≈ {landscape.sharpness:.3f}")

# %% tags=["demo", "nbval-ignore-output"]
same = (trained(pixels) - twin(pixels)).abs().max().item()
print(f"largest difference between the outputs of the two: {same:.0e}")

# %% tags=["demo", "nbval-ignore-output"]
reveal("sharp", round(rises[False, "twin"] / rises[False, "trained"]), tolerance=40, usual={
    1: "This is right for filter-normalised directions. Raw ones ignore the scale of the weights.",
    10: "The loss rises with the square of a small step, and so does the factor.",
})

# %% tags=["demo"]
landscape = loss_landscape(trained, training_loss, points=15)
show_figure(
    landscape.plot(),
    caption="The loss of the trained network around its weights (cross), along two random "
    "directions.",
    alt="Contour lines of the loss around a cross in the middle: nearly round, rising from about 0 "
    "in the middle to several nats at the border.",
)


# %% [markdown]
# The two networks compute the same. Along raw directions one looks about 86 times as sharp as the other. Nearly all of
# its rise comes from the second layer: its weights are ten times smaller, so the same step is ten times as long for
# them, and the rise goes with the square. The full factor of 100 is missed because the other layers' part of the rise
# does not grow. Filter normalisation gives both networks the same picture. Even so, two directions out of thousands are
# a thin slice: the picture illustrates, and proves little.
#
# **In your own program.** EMA costs one line and one copy of the weights, and evaluation uses the copy: `train(...,
# ema=0.999)` does it. Choose the decay by the length of the run: 0.999 remembers about the last thousand steps, so a
# run of 500 steps needs 0.98. Save both sets of weights in the checkpoint, because training goes on from the raw ones.
# Report which of the two a score belongs to.
#
# ### Question 03d-averages · 6 points
#
# - `moving_averages(weights, decay)` returns a list of tensors: the exponential moving average after each entry of the
#   list `weights`. The first average is the first entry. `decay` weighs the old average, and is from 0 to 1.
# - `mean_weights(weights)` returns the plain mean of the list, as a tensor.
# - `refresh_statistics(model, batches)` gives every `nn.BatchNorm1d`, also in nested modules, running statistics that
#   fit the present weights of the model. Run the model on all batches in training mode. The running mean becomes the
#   plain average of the batch means, and the running variance the plain average of the batch variances (with $n - 1$).
#   Old statistics do not count. Other layers, too, may do something else in training mode. Afterwards the mode of the model and the momentum of each norm are as before.
#   `num_batches_tracked` is not checked. The function need not return anything.
#
# `weights` has one to six float64 tensors of one shape, which must not change. The batches are one to five tensors of
# the same shape `[N, features]`, with N at least 2. All modules of the model are in the same mode, training or
# evaluation, and every batch norm keeps running statistics.
#
# Hidden cases: moving average 2 points, plain average 1, running statistics 2, mode and momentum afterwards 1. You get
# the last point only if the running statistics are right too. Limit: 30 seconds. `AveragedModel` and `update_bn` are
# switched off.
#
# <details><summary>Hint</summary>
#
# A batch norm whose `momentum` is `None` keeps a plain mean of what it sees since `reset_running_stats()`.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03d-averages", "locked": false, "schema_version": 3, "solution": true, "task": false}
def moving_averages(weights, decay):
    """Return the moving average after each entry."""
    ### BEGIN SOLUTION
    averages = [weights[0].clone()]
    for weight in weights[1:]:
        averages.append(decay * averages[-1] + (1 - decay) * weight)
    return averages
    ### END SOLUTION


def mean_weights(weights):
    """Return the plain mean."""
    ### BEGIN SOLUTION
    return torch.stack(weights).mean(dim=0)
    ### END SOLUTION


def refresh_statistics(model, batches):
    """Give all batch norms the statistics of these batches."""
    ### BEGIN SOLUTION
    mode = model.training
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(mode)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03d-averages-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03d-averages", moving_averages, mean_weights, refresh_statistics)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03d-averages", moving_averages, mean_weights, refresh_statistics)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** Averages of weights help where the rate does not fall. Batch norms need new running statistics afterwards.
# A picture of the loss needs directions with the scale of the weights, and is an illustration.

# %% [markdown] nbgrader={"grade": false, "grade_id": "03d-p-question", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### Question 03d-p · 4 points, graded by hand
#
# A colleague trains a network with 24 layers, tanh and no norms, in batches of 4. Validation accuracy stays at chance.
# These are the measurements:
#
# | what | value |
# |---|---|
# | initial weights | all layers: normal, standard deviation 0.01; 256 units wide |
# | standard deviation of activations | layer 1: 0.16, layer 4: 0.0006, layer 24: 8e-20 |
# | gradient norm of the biases | layer 24: 0.08, layer 12: 2e-11, layer 1: 4e-20 |
# | global norm after clipping at 0.1 | 0.1 in every step |
# | training accuracy | at chance as well |
#
# The colleague wants to add dropout, since "validation is bad", and batch norm "because it always helps". Write what
# the measurements show, which one change you would make first and how you would check that it worked, what a fair
# comparison of the runs needs, and what you say to both proposals. Say also which of the five rows tells nothing here.
# Ten sentences are enough.
#
# Graded on: the cause, with the numbers that show it (1), the first change with its check (1), dropout (0.5), batch
# norm with batches of 4 (0.5), the row that tells nothing (0.5), and a comparison that changes one thing at a time and
# uses several seeds (0.5).
#
# <details><summary>Hint</summary>
#
# By what factor does a layer with 256 inputs and a standard deviation of 0.01 multiply the signal?
#
# </details>

# %% [markdown] nbgrader={"grade": true, "grade_id": "03d-p", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# The weights are too small. A layer multiplies the standard deviation by √256 · 0.01 = 0.16, and the table shows that
# factor: 0.16 after one layer, 0.16⁴ ≈ 0.0007 after four. After 24 layers the signal is 0.16²⁴ ≈ 10⁻¹⁹, so the network
# says the same for every input. The gradients of the biases fall by the same factor on their way back, so nothing
# arrives at the first layer. Only the last biases learn: how frequent each class is.
#
# First change: Xavier initialisation for tanh, standard deviation 1/√256 = 0.0625 (times the gain 5/3). The check is
# one forward and backward pass: standard deviations and gradient norms of about the same size in all layers. Then
# overfit one batch, then train, with three seeds, and change nothing else.
#
# Dropout is for a network that fits its training set and does badly on other data. Here training accuracy is at chance,
# so there is nothing to regularise. Batch norm would repair the scale, but with batches of 4 its statistics are noisy;
# layer norm or a residual connection would be the second step if the initialisation is not enough.
#
# The global norm after clipping tells nothing: it never exceeds the limit. Record it before clipping.

# %% [markdown]
# ## Where you are
#
# The next cell sums up the visible checks that ran in this session.

# %% tags=["demo"]
show_progress("03d")
