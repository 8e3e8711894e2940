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
import time
from functools import partial
from timeit import timeit

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, Dataset, TensorDataset

import lecture_lib.data
from lecture_lib.data import TensorLoader, load_digits, stratified_split
from lecture_lib.debugging import find_lr
from lecture_lib.notebook import (
    check, predict, reveal, saved_bytes, show_arrows, show_figure, show_float_formats, show_images
)
from lecture_lib.training import choose_precision, evaluate, train

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
# ### The contract, row by row
#
# **Goal.** Write the looks down as conditions, and know which broken batches nobody will tell you about.
#
# | item | what a classifier expects | common bug |
# |---|---|---|
# | shape of `x` | `[B, C, H, W]` images or `[B, d]` vectors | no batch dimension |
# | dtype of `x` | `float32` or `bfloat16` | raw `uint8` pixels |
# | range of `x` | a few units around 0 | values still in 0 to 255 |
# | shape of `y` | `[B]`, one class index an example | one-hot rows |
# | dtype of `y` | `int64` for `CrossEntropyLoss` | labels stored as floats |
#
# The next cell breaks each row once. Every batch then goes through a small network and the loss. Some stop with an
# error: those are the kind ones. Predict how many of the five stop.

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
        print(f"{name} stops the step")
reveal("contract", len(broken) - len(silent))

# %% tags=["demo"]
print("runs without a word:", ", ".join(silent))
for name, (x, y) in broken.items():
    found = lecture_lib.data.check_contract("classification", x, y)
    print(f"{name} -> {found[0].item}, {found[0].kind}: {found[0].found}")


# %% [markdown]
# You should see that 3 stop. The other two train. `Flatten` took the channel of the single image for its batch
# dimension, and pixels up to 255 only make the loss large and the steps wild. Both would have been found by two
# comparisons. The second list is what the course's own check says about the same batches. One-hot rows stored as
# *floats* run as well: the loss then reads them as probabilities, which is right when you mean it. That is why a
# contract belongs to a task, here to class indices.
#
# ### Question 03a-contract · 8 points
#
# Write `check_batch(x, y)`. It gets two tensors and returns the set of the names of all problems that the batch has;
# a good batch gives the empty set.
#
# - `"x.shape"`: `x` has neither 4 dimensions (images) nor 2 (vectors).
# - `"x.dtype"`: `x` is neither `float32` nor `bfloat16`.
# - `"x.range"`: some entry of `x` does not lie between −10 and 10. NaN lies nowhere.
# - `"y.shape"`: `y` has not exactly one dimension, or not one label for each example (the first dimension of `x`).
# - `"y.dtype"`: `y` is not `int64`.
#
# Hidden cases: each name when it is found in every batch that has the problem and in no other: `x.shape` 2 points,
# `x.dtype` 1, `x.range` 2, `y.shape` 2, `y.dtype` 1. Good batches come as RGB images, vectors, single examples and in
# `bfloat16`. The course's own check is switched off while your answer is checked. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Five conditions, none of which waits for another: a batch of `uint8` pixels can have two problems.
#
# </details>
# <details><summary>Hint 2</summary>
#
# A comparison with NaN is false. Ask whether all entries are inside, not whether one is outside.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-contract", "locked": false, "schema_version": 3, "solution": true, "task": false}
def check_batch(x, y):
    """The names of the problems that the batch has, as a set."""
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
# **Recap.** Two of five broken batches run without a word. Five comparisons on the first batch find all of them, and
# cost nothing.

# %% [markdown]
# ### A data set has two methods
#
# **Goal.** Turn a list of files into batches.
#
# A loader asks a data set for two things: how many examples there are (`__len__`), and example number `i`
# (`__getitem__`). It decides the order, calls `__getitem__` once for each example, and stacks what it gets. A
# *transform*, say a random shift of the image, is called in `__getitem__`.
#
# It could also be called once for all images, when the data set is made. Predict how many versions of one image a
# model then sees in five epochs, if the transform is random.

# %% tags=["demo"]
predict("versions", None)


# %% tags=["demo"]
def brighter(image):
    return image + torch.rand(1)


image = images[0]
made_once = brighter(image)
versions = {made_once.sum().item() for epoch in range(5)}
on_request = {brighter(image).sum().item() for epoch in range(5)}
print("transformed on request:", len(on_request), "versions")
reveal("versions", len(versions))


# %% [markdown]
# You should see 1, against 5 on request: augmentation that is computed in advance is frozen. The rest is decided by
# the loader.
#
# | flag | what it does | take it |
# |---|---|---|
# | `shuffle` | a new order in every epoch | for training; validation keeps its order |
# | `generator` | where the order is drawn from | to get the same orders again from a seed |
# | `drop_last` | leaves out a last batch that is not full | for training; never where a score is computed |
# | `num_workers` | processes that make batches ahead | when examples are expensive to make; measure |
# | `persistent_workers` | keeps these processes between epochs | with workers and short epochs |
# | `pin_memory` | memory that a GPU can copy from by itself | with CUDA only; measure |
#
# ### Question 03a-dataset · 6 points
#
# Write the two missing methods of `ImageFiles`, whose files are stored with their labels as pairs, and the function
# `make_loader`.
#
# - The length is the number of files. Item `index` is a pair: the file as a `float32` tensor `[3, H, W]` between 0
#   and 1, and its label. Files can be grey, coloured or partly transparent; `Image.open(path).convert("RGB")` makes
#   three channels of each. If there is a transform, it is called with this tensor *whenever the item is asked for*,
#   and what it returns takes the tensor's place.
# - `make_loader(dataset, batch_size, training, seed, workers=0)` returns a `DataLoader`. When `training` is true: a
#   new random order in every epoch, the same orders again for the same `seed` (whoever else draws random numbers in
#   between), and no last batch that is not full. Otherwise every example, in the data set's order.
# - A worker process may get its data set through `pickle`, so nothing may be stored in it that cannot be pickled, and
#   two data sets must not share what they store. No process is started while your answer is checked.
#
# Hidden cases: items 2 points, transform 1, loader for validation 1, loader for training 1, copies for workers 1.
# Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# `np.array(picture)` has the channels last and whole numbers up to 255. Two operations bring it to the contract.
#
# </details>
# <details><summary>Hint 2</summary>
#
# Seeding the whole process is not enough: others draw from the same stream. A `DataLoader` takes a generator of its
# own.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-dataset", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ImageFiles(Dataset):
    def __init__(self, paths, labels, transform=None):
        self.files, self.transform = list(zip(paths, labels, strict=True)), transform

    def __len__(self):
        """How many examples there are."""
        ### BEGIN SOLUTION
        return len(self.files)
        ### END SOLUTION

    def __getitem__(self, index):
        """The image of a file, transformed, and its label."""
        ### BEGIN SOLUTION
        path, label = self.files[index]
        picture = np.array(Image.open(path).convert("RGB"), dtype=np.float32)
        image = torch.tensor(picture).movedim(2, 0) / 255
        return self.transform(image) if self.transform else image, label
        ### END SOLUTION


def make_loader(dataset, batch_size, training, seed, workers=0):
    """A loader that shuffles for training and keeps everything for validation."""
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
# **Recap.** `__len__` and `__getitem__`; random transforms on request; an order that belongs to the loader. On macOS,
# Windows and newer versions of Python a worker is started from nothing and gets the data set through `pickle`: there
# a class that is written in a notebook has to move into a file before workers can use it.

# %% [markdown]
# ### Is the model waiting?
#
# **Goal.** Measure the loader alone before you buy a faster GPU.
#
# | symptom | likely cause | try first |
# |---|---|---|
# | the GPU's load goes up and down like a saw | batches are made too slowly | more workers |
# | the first batch of every epoch is slow | workers start anew | `persistent_workers=True` |
# | copies to the GPU take long | memory that is not pinned | `pin_memory=True`, copies with `non_blocking=True` |
# | random crops take most of the time | heavy transforms | cache, simplify, or move them to the GPU |
#
# A number of workers that is right for every GPU does not exist: a worker must save more time than it takes to hand
# its batch over. The digits lie in memory already. Predict what two workers do to the number of batches a second:
# "more" or "fewer"?

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
reveal("workers", "more" if two.loader > without.loader else "fewer")

# %% tags=["demo", "nbval-ignore-output"]
# Rates of the machine that this ran on: they differ from machine to machine and from run to run.
print(measured)


# %% [markdown]
# You should see fewer, often by a factor of ten or more: indexing a tensor takes microseconds, sending a batch to
# another process takes longer. Now an expensive transform, 2 ms an example, played by a pause. The measurement times
# the loader alone, the step alone and both, says where an epoch's time goes, and what to try first. A better
# optimizer or a larger model would change nothing here.

# %% tags=["demo"]
class Slow(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.002)
        return images[index], labels[index]


# %% tags=["demo"]
slow = lecture_lib.data.measure_throughput(
    DataLoader(Slow(), batch_size=8), lambda batch: network(batch[0]), batches=4
)
print("bottleneck:", slow.bottleneck)
print("first:", slow.first_fix.split(":")[0])
print("the step waits more than half of the time:", slow.waiting > 0.5)

# %% [markdown]
# Pinned memory is a matter of CUDA only: a GPU copies from it by itself, while the CPU goes on. Whether it pays
# depends on the size of the batches and on who pins: the loader's own thread does it beside the training, while
# `x.pin_memory().to("cuda")` in the loop pins in the loop's own time and can be slower than a plain copy. The next
# cell measures where there is a GPU; elsewhere pinning would change nothing.

# %% tags=["demo", "nbval-ignore-output"]
# Depends on whether the machine has a GPU.
print("CUDA device here:", torch.cuda.is_available())
if torch.cuda.is_available():
    print(lecture_lib.data.compare_loaders(
        lambda pin_memory: DataLoader(in_memory, batch_size=256, pin_memory=pin_memory),
        [{"pin_memory": False}, {"pin_memory": True}],
        step=lambda batch: batch[0].to("cuda", non_blocking=True),
    ))

# %% [markdown]
# **Recap.** Measure the loader alone, then the step alone. Change one flag, measure again, keep it only if the rate of
# both together rose.

# %% [markdown]
# ## Precision: range against digits
#
# **Goal.** Know what 16 bits can hold, and train a step with them without losing anything that matters.
#
# A floating-point number is a sign, an exponent and a fraction. The exponent says how large or small a number can be,
# the fraction how many digits it has. FP32 spends 8 bits on the exponent and 23 on the fraction. With half of the bits
# something has to go: FP16 keeps more digits (5 and 10), BF16 keeps the range (8 and 7). The field below takes other
# numbers when the notebook runs: try 65519, 65520, 1e-8 and 1.001.

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
# FP16 ends at 65,504, and a gradient of 1e-8 becomes 0 in it. BF16 holds both, with two to three decimal digits. It can
# overflow too: 3.4e38 still fits into FP32 and not into BF16. Its range is large, not infinite.
#
# A gradient that is too small for FP16 can be saved: multiply the loss by a large number before `backward()`, and
# divide the gradients by it before the step. `GradScaler` does this; when a gradient overflows, it skips the step and
# lowers the number. BF16 holds such gradients as they are, so it needs no scaler.

# %% tags=["demo"]
gradient, scale = torch.tensor(1e-8), 2.0**16
print(f"plain:  {gradient.half().item():g}")
print(f"scaled: {((gradient * scale).half().float() / scale).item():.1e}")

# %% [markdown]
# What BF16 lacks are digits. A weight is 1, and a thousand steps each add 0.001 to it. Predict where it ends when the
# weight itself is stored in BF16.

# %% tags=["demo"]
predict("vanish", None)

# %% tags=["demo"]
in_bf16, in_fp32 = torch.tensor(1.0, dtype=torch.bfloat16), torch.tensor(1.0)
for _ in range(1000):
    in_bf16 += 0.001
    in_fp32 += 0.001
print(f"stored in FP32: {in_fp32.item():.3f}")
reveal("vanish", in_bf16.item())

# %% [markdown]
# You should see 1: the next number after 1 in BF16 is 1.0078, and each step was rounded away. So the weights stay in
# FP32, and with them the gradients and the optimizer's state. What changes format is the arithmetic. Inside
# `torch.autocast`, inputs of matrix products and convolutions are converted to BF16, while losses such as
# `CrossEntropyLoss` and `MSELoss` convert back to FP32. The backward pass belongs outside: it uses the formats of the
# forward pass by itself.
#
# Does this halve the memory? The next cell counts the bytes that the forward pass keeps for the backward pass, and the
# sum with weights, gradients and AdamW's two averages (four FP32 numbers for each parameter).

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
    print(f"batch {batch}: kept for backward {bf16 / fp32 - 1:+.0%}, in all {total - 1:+.0%}")


# %% [markdown]
# With 64 examples the total *grows* by 4 %: the BF16 copies of the weights are kept too. With 512 the activations
# count for more, and the total falls by 18 %. Half is what a single activation saves. The speed depends on the hardware
# and on the size: on one and the same processor BF16 can be slower for a small batch and faster for a large one.
# Measure your own.

# %% tags=["demo", "nbval-ignore-output"]
# A time of the machine that this ran on.
def step(batch, bf16):
    forward(batch, bf16).backward()


for batch in (64, 512):
    fp32, bf16 = (timeit(partial(step, batch, on), number=20) for on in (False, True))
    print(f"batch {batch}: BF16 does {fp32 / bf16:.2f} times the steps of FP32 a second")

# %% tags=["demo"]
for name, capability in [("T4", (7, 5)), ("A100", (8, 0)), ("H100", (9, 0))]:
    print(name, "->", choose_precision("auto", "cuda", capability=capability).name)
print("CPU ->", choose_precision("auto", "cpu").name)


# %% [markdown]
# `choose_precision("auto", device)` is what the course's `train` asks: BF16 where the hardware multiplies in it, FP16
# with a scaler on older GPUs, FP32 on a CPU, where you should measure first.
#
# ### Question 03a-precision · 6 points
#
# Write two functions.
#
# `autocast_step(model, optimizer, loss_fn, x, y)` trains `model` for one step under BF16 autocast on the CPU, with
# `loss_fn(model(x), y)` as loss. Gradients of an earlier step may still be there and must not count. It returns a
# dict with the dtypes that you *find* in this step, for example `torch.float32`:
#
# - `"parameter"` and `"gradient"`: of the model's parameters after `backward()`;
# - `"output"`: what the model returned under autocast; `"loss"`: what `loss_fn` returned;
# - `"momentum"`: of the `"momentum_buffer"` that the optimizer, SGD with momentum, keeps in `optimizer.state` for each
#   parameter.
#
# The models are linear layers with weights stored in FP32, BF16 or FP64 (which autocast leaves alone), and one loss
# does not convert to FP32. So look, instead of answering by heart.
#
# `fate(number, dtype)` returns what becomes of a Python number that FP32 holds exactly when it is stored in
# `torch.float16` or `torch.bfloat16`: `"overflow"` (it becomes infinite), `"underflow"` (it becomes 0 and was not),
# `"exact"`, or `"rounded"`.
#
# Hidden cases: weights after the step 2 points, dtypes 2, fates 2. Limit: 30 seconds.
#
# <details><summary>Hint 1</summary>
#
# Five lines of a step, and one context around two of them. Every tensor has a `.dtype`.
#
# </details>
# <details><summary>Hint 2</summary>
#
# You need no limits for the fate: convert the number, and compare what comes back with what went in.
#
# </details>

# %% nbgrader={"grade": false, "grade_id": "03a-precision", "locked": false, "schema_version": 3, "solution": true, "task": false}
def autocast_step(model, optimizer, loss_fn, x, y):
    """One step under BF16 autocast; the dtypes that were found in it."""
    ### BEGIN SOLUTION
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        output = model(x)
        loss = loss_fn(output, y)
    loss.backward()
    optimizer.step()
    (some, *_) = model.parameters()
    found = {"parameter": some, "gradient": some.grad, "output": output, "loss": loss}
    found["momentum"] = optimizer.state[some]["momentum_buffer"]
    return {name: tensor.dtype for name, tensor in found.items()}
    ### END SOLUTION


def fate(number, dtype):
    """'overflow', 'underflow', 'exact' or 'rounded'."""
    ### BEGIN SOLUTION
    kept = torch.tensor(number).to(dtype).item()
    if kept == number:
        return "exact"
    return "overflow" if math.isinf(kept) else "rounded" if kept != 0 else "underflow"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03a-precision-test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("03a-precision", autocast_step, fate)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03a-precision", autocast_step, fate)
### END HIDDEN TESTS

# %% [markdown]
# **Recap.** FP16 has digits and a short range, so it needs a scaler; BF16 has the range of FP32 and few digits, so it
# needs none, but weights stay in FP32. Autocast changes the arithmetic, not what is stored.

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
