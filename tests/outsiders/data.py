"""Faults of data (D), losses (L) and evaluation (E), and twelve healthy programs (K)."""

import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import average_precision_score
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler, TensorDataset

from lecture_lib.debugging import Program, Spec

from .data_tasks import (
    PAD,
    SYMBOLS,
    CountNet,
    DigitNet,
    Pictures,
    ShapeNet,
    Table,
    accuracy,
    arrows_raw,
    balanced_accuracy,
    binary_accuracy,
    build_cancer,
    build_chains,
    build_counting,
    build_digits,
    build_friedman,
    build_shapes,
    build_table,
    build_waves,
    cancer,
    cancer_raw,
    cancer_spec,
    chains_spec,
    clouds,
    colour_shapes,
    counting_spec,
    cut,
    digits,
    digits_raw,
    digits_spec,
    draw_shapes,
    five,
    friedman,
    friedman_raw,
    friedman_spec,
    loaders,
    rng,
    shapes,
    shapes_raw,
    shapes_spec,
    standardise,
    standardise_images,
    table_spec,
)
from .register import case

# ---------------------------------------------------------------- D: data


@case("D01", "breast cancer columns in their own units")
def _(seed):
    torch.manual_seed(seed)
    return build_cancer(cancer_raw()), cancer_spec()


@case("D03", "standardised training images, validation images only divided by 255")
def _(seed):
    torch.manual_seed(seed)
    images, labels = shapes_raw()
    train_images = images[:1000].float() / 255
    mean, std = train_images.mean(), train_images.std()

    def to_tensor(x):
        return x.float()[None] / 255

    def to_normalised(x):
        return (to_tensor(x) - mean) / std

    train = DataLoader(Pictures(images[:1000], labels[:1000], to_normalised), batch_size=32, shuffle=True)
    val = DataLoader(Pictures(images[1000:], labels[1000:], to_tensor), batch_size=100)
    return build_shapes(train=train, val=val), shapes_spec()


@case("D06", "missing values in a table read as NaN")
def _(seed):
    torch.manual_seed(seed)
    x, y = friedman_raw()
    x = x.clone()
    gaps = rng(8)
    x[torch.randperm(1500, generator=gaps)[:20], 4] = float("nan")
    x[torch.randperm(1500, generator=gaps)[:15], 6] = float("nan")
    xt, yt, xv, yv = cut(x, y, 1150, 350)
    mean = xt.nanmean(0)
    std = (xt - mean).pow(2).nanmean(0).sqrt()
    m, s = yt.mean(), yt.std()
    data = (xt - mean) / std, ((yt - m) / s)[:, None], (xv - mean) / std, ((yv - m) / s)[:, None]
    return build_friedman(data), friedman_spec()


def build_colour(to_channels_first):
    images, y = colour_shapes(1200, kinds=6)
    x = to_channels_first(torch.tensor(images))
    y = torch.tensor(y)
    xt, yt, xv, yv = x[:900], y[:900], x[900:], y[900:]
    mean, std = xt.mean((0, 2, 3), keepdim=True), xt.std((0, 2, 3), keepdim=True)
    data = (xt - mean) / std, yt, (xv - mean) / std, yv
    model = ShapeNet(6, 3)
    p = build_shapes(data, model=model)
    p.optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    return p


@case("sound", "colour")
def _(seed):
    torch.manual_seed(seed)
    return build_colour(lambda x: x.permute(0, 3, 1, 2).contiguous()), shapes_spec(classes=6)


@case("D08", "colour images of 16x16x3 reshaped to 3x16x16")
def _(seed):
    torch.manual_seed(seed)
    return build_colour(lambda x: x.reshape(-1, 3, 16, 16)), shapes_spec(classes=6)


@case("D09", "digits and their labels shuffled one after the other")
def _(seed):
    torch.manual_seed(seed)
    xt, yt, xv, yv = digits()
    g = rng(13)
    xt = xt[torch.randperm(len(xt), generator=g)]
    yt = yt[torch.randperm(len(yt), generator=g)]
    return build_digits((xt, yt, xv, yv)), digits_spec()


@case("D10", "a quarter of the labels typed in wrongly")
def _(seed):
    torch.manual_seed(seed)
    x, y = clouds(1500)
    g = rng(17)
    careless = torch.rand(1500, generator=g) < 0.25
    wrong = (y + torch.randint(1, 5, (1500,), generator=g)) % 5
    y = torch.where(careless, wrong, y)
    xt, yt, xv, yv = cut(x, y, 1150, 350)
    xt, xv = standardise(xt, xv)
    return build_table((xt, yt, xv, yv)), table_spec()


@case("D11", "labels numbered in order of appearance, for each split by itself")
def _(seed):
    torch.manual_seed(seed)
    names = ["bar", "post", "disc", "frame"]
    _images, kinds = shapes_raw()
    words = [names[k] for k in kinds.tolist()]

    def encode(words):
        index = {}
        ids = [index.setdefault(w, len(index)) for w in words]
        return torch.tensor(ids), index

    yt, train_classes = encode(words[:1000])
    yv, val_classes = encode(words[1000:])
    assert train_classes != val_classes
    xt, _, xv, _ = shapes()
    return build_shapes((xt, yt, xv, yv)), shapes_spec(train_classes=train_classes, val_classes=val_classes)


@case("D12", "classes counted from 1")
def _(seed):
    torch.manual_seed(seed)
    xt, yt, xv, yv = five()
    return build_table((xt, yt + 1, xv, yv + 1)), table_spec()


@case("D13", "labels that are missing filled with -100")
def _(seed):
    torch.manual_seed(seed)
    xt, yt, xv, yv = digits()
    labels = torch.cat([yt, yv]).numpy().astype("float64")
    labels[np.random.RandomState(2).rand(len(labels)) < 0.35] = np.nan
    labels = torch.tensor(np.where(np.isnan(labels), -100, labels)).long()
    return build_digits((xt, labels[: len(yt)], xv, labels[len(yt) :])), digits_spec()


@case("D15", "digits in folders, one class after the other, not shuffled")
def _(seed):
    torch.manual_seed(seed)
    xt, yt, _xv, _yv = digits()
    order = torch.argsort(yt, stable=True)
    train = DataLoader(TensorDataset(xt[order], yt[order]), batch_size=32)
    p = build_digits(train=train)
    p.optimizer = torch.optim.SGD(p.model.parameters(), lr=0.03, momentum=0.9)
    return p, digits_spec()


def rare_data(positive, n=1700, shift=1.2, seed=81):
    g = rng(seed)
    y = (torch.rand(n, generator=g) < positive).float()
    x = torch.randn(n, 10, generator=g)
    x[:, 0] += shift * y
    x[:, 3] -= shift * y
    x[:, 5] += shift * y * torch.where(torch.rand(n, generator=g) < 0.5, 1.0, -1.0)
    xt, yt, xv, yv = cut(x, y, 1300, 400)
    xt, xv = standardise(xt, xv)
    return xt, yt, xv, yv


def build_rare(data, metric, **kw):
    p = build_cancer(data, metric=metric, **kw)
    p.train_loader = DataLoader(TensorDataset(data[0], data[1]), batch_size=64, shuffle=True)
    p.optimizer = torch.optim.SGD(p.model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    return p


@case("D16", "fraud of 5%, accuracy is what is reported")
def _(seed):
    torch.manual_seed(seed)
    return build_rare(rare_data(0.05, shift=0.6), binary_accuracy), cancer_spec(epochs=10)


@case("D17", "rare digits doubled before the split")
def _(seed):
    torch.manual_seed(seed)
    x, y = digits_raw()
    x, y = x[:1100], y[:1100]
    rare = torch.where((y == 1) | (y == 8) | (y == 9))[0]
    x, y = torch.cat([x, x[rare]]), torch.cat([y, y[rare]])
    xt, yt, xv, yv = cut(x, y, 1060, len(x) - 1060)
    xt, xv = standardise_images(xt, xv)
    return build_digits((xt, yt, xv, yv)), digits_spec()


@case("D18", "each image augmented four times, then split")
def _(seed):
    torch.manual_seed(seed)
    images, y = draw_shapes(320, 33)
    g = rng(9)
    x = torch.tensor(images)[:, None].repeat_interleave(4, 0)
    y = torch.tensor(y).repeat_interleave(4)
    x = x * (0.95 + 0.1 * torch.rand(len(x), 1, 1, 1, generator=g)) + 0.02 * torch.randn(x.shape, generator=g)
    xt, yt, xv, yv = cut(x, y, 980, 300)
    xt, xv = standardise_images(xt, xv)
    return build_shapes((xt, yt, xv, yv)), shapes_spec()


def patients():
    """110 patients with 12 visits each: what is measured is mostly who it is."""
    g = rng(91)
    ill = torch.arange(110) % 2
    who = torch.randn(110, 10, generator=g) * 1.2
    who[:, 0] += 0.8 * ill
    visits = torch.arange(110).repeat_interleave(12)
    x = who[visits] + 0.45 * torch.randn(len(visits), 10, generator=g)
    return x, ill[visits], visits


@case("D19", "visits of the same patients on both sides")
def _(seed):
    torch.manual_seed(seed)
    x, y, patient = patients()
    order = torch.randperm(len(x), generator=rng(1))
    a, b = order[:1000], order[1000:]
    xt, xv = standardise(x[a], x[b])
    p = build_table((xt, y[a], xv, y[b]), classes=2)
    return p, table_spec(2, train_groups=patient[a].tolist(), val_groups=patient[b].tolist())


@case("D20", "hours of one series split at random")
def _(seed):
    torch.manual_seed(seed)
    g = rng(92)
    n = 1212
    noise = torch.randn(n, generator=g)
    level = torch.cumsum(0.25 * noise, 0)
    series = level + torch.sin(torch.arange(n) * 2 * math.pi / 24) + 0.1 * torch.randn(n, generator=g)
    windows = series.unfold(0, 12, 1)
    times = torch.arange(12, n)
    x = torch.cat([windows[:-1], times[:, None] / n], 1)
    y = series[12:]
    order = torch.randperm(len(x), generator=rng(2))
    a, b = order[:900], order[900:]
    xt, xv = standardise(x[a], x[b])
    m, s = y[a].mean(), y[a].std()
    p = build_friedman((xt, ((y[a] - m) / s)[:, None], xv, ((y[b] - m) / s)[:, None]))
    return p, friedman_spec(train_times=times[a].tolist(), val_times=times[b].tolist())


@case("D21", "the fee for leaving is one of the columns that tell who leaves")
def _(seed):
    torch.manual_seed(seed)
    g = rng(93)
    n = 1400
    x = torch.randn(n, 9, generator=g)
    score = 1.2 * x[:, 0] - x[:, 2] * x[:, 3] + 0.8 * torch.tanh(2 * x[:, 5]) + 0.9 * torch.randn(n, generator=g)
    leaves = (score > 0).long()
    fee = torch.where(leaves == 1, 20 + 6 * torch.rand(n, generator=g), 2 * torch.rand(n, generator=g))
    x = torch.cat([x[:, :4], fee[:, None], x[:, 4:]], 1)
    xt, yt, xv, yv = cut(x, leaves, 1080, 320)
    xt, xv = standardise(xt, xv)
    return build_table((xt, yt, xv, yv), classes=2, lr=1e-3, hidden=24), table_spec(2, epochs=10)


@case("D24", "the best epoch on the test set is kept")
def _(seed):
    torch.manual_seed(seed)
    x, y = clouds(1700, spread=1.4)
    xt, xv, xs = standardise(x[:1150], x[1150:1450], x[1450:])
    test = DataLoader(Table(xs, y[1450:]), batch_size=100)
    best = {"accuracy": 0.0, "state": None}

    def train_epoch(p):
        p.model.train()
        for batch in p.train_loader:
            p.run_step(batch)
        p.model.eval()
        right = total = 0
        with torch.no_grad():
            for batch in p.test_loader:
                inputs, targets = p.parts(batch)
                right += (p.model(inputs).argmax(1) == targets).sum().item()
                total += len(targets)
        if right / total > best["accuracy"]:
            best["accuracy"] = right / total
            best["state"] = {k: v.clone() for k, v in p.model.state_dict().items()}
        p.model.train()

    p = build_table((xt, y[:1150], xv, y[1150:1450]), test_loader=test, train_epoch=train_epoch)
    return p, table_spec()


@case("D25", "validation images from a darker, softer camera")
def _(seed):
    torch.manual_seed(seed)
    images, y = shapes_raw()
    x = images[:, None].float() / 255
    other = F.avg_pool2d(F.pad(x[1000:], (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    xt, xv = standardise_images(x[:1000], 0.35 * other + 0.02)
    return build_shapes((xt, y[:1000], xv, y[1000:])), shapes_spec()


@case("D26", "one class makes up most of validation")
def _(seed):
    torch.manual_seed(seed)
    x, y = clouds(2600, spread=1.3)
    xt, yt = x[:1100], y[:1100]
    rest_x, rest_y = x[1100:], y[1100:]
    take = torch.cat([torch.where(rest_y == c)[0][:k] for c, k in enumerate([210, 30, 30, 30, 50])])
    xt, xv = standardise(xt, rest_x[take])
    return build_table((xt, yt, xv, rest_y[take])), table_spec()


def arrows_program(train_transform, val_transform=None):
    x, y = arrows_raw()
    xt, yt, xv, yv = x[:800], y[:800], x[800:], y[800:]
    train = DataLoader(Pictures(xt, yt, train_transform), batch_size=32, shuffle=True)
    plain = DataLoader(Pictures(xt, yt), batch_size=32)
    val = DataLoader(Pictures(xv, yv, val_transform), batch_size=100)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 4),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    return Program(model, optimizer, nn.CrossEntropyLoss(), train, val, plain_loader=plain, metric=accuracy)


def jitter(x):
    """A shift of up to one pixel and another brightness."""
    dr, dc = torch.randint(-1, 2, (2,)).tolist()
    x = torch.roll(x, (dr, dc), (1, 2))
    return x * (0.85 + 0.3 * torch.rand(1)) + 0.1 * torch.randn(x.shape)


@case("sound", "arrows with jitter")
def _(seed):
    torch.manual_seed(seed)
    return arrows_program(jitter), shapes_spec(epochs=8)


@case("D28", "left and right arrows mirrored at random")
def _(seed):
    torch.manual_seed(seed)

    def augment(x):
        if torch.rand(1).item() < 0.5:
            x = x.flip(-1)
        return jitter(x)

    return arrows_program(augment), shapes_spec(epochs=8)


@case("D30", "validation set made with the training transform")
def _(seed):
    torch.manual_seed(seed)

    def augment(x):
        x = jitter(x)
        r, c = torch.randint(0, 9, (2,)).tolist()
        x = x.clone()
        x[:, r : r + 4, c : c + 4] = 0
        return x

    return arrows_program(augment, augment), shapes_spec(epochs=8)


@case("D34", "sampler over as many ids as validation has, not training")
def _(seed):
    torch.manual_seed(seed)
    x, y = clouds(1250, spread=1.3)
    xt, yt, xv, yv = cut(x, y, 1150, 100, seed=5)
    xt, xv = standardise(xt, xv)
    train = DataLoader(Table(xt, yt), batch_size=16, sampler=SubsetRandomSampler(range(len(xv))))
    p = build_table((xt, yt, xv, yv), train=train)
    return p, table_spec(epochs=25)


@case("D35", "class weights grow with the count")
def _(seed):
    torch.manual_seed(seed)
    x, y = clouds(1600, classes=3, dim=6, spread=1.6, prior=[0.78, 0.15, 0.07], seed=14)
    xt, yt, xv, yv = cut(x, y, 1200, 400)
    xt, xv = standardise(xt, xv)
    counts = torch.bincount(yt, minlength=3).float()
    weights = counts / counts.sum() * 3
    wanted = (counts.sum() / (3 * counts)).tolist()
    p = build_table((xt, yt, xv, yv), loss=nn.CrossEntropyLoss(weight=weights), classes=3, metric=balanced_accuracy)
    return p, table_spec(3, class_weights=wanted)


# A backbone that "was trained before", on six kinds of colour shapes in its own preprocessing.
MEAN, STD = (0.30, 0.47, 0.31), (0.16, 0.09, 0.09)


@lru_cache(None)
def colour_backbone():
    keep = torch.random.get_rng_state()
    torch.manual_seed(123)
    images, y = colour_shapes(1200, 141, 6)
    x = torch.tensor(images).permute(0, 3, 1, 2)
    x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    y = torch.tensor(y)
    net = ShapeNet(6, 3)
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
    for _ in range(7):
        for rows in torch.randperm(1200).split(40):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    torch.random.set_rng_state(keep)
    return {k: v.clone() for k, v in net.features.state_dict().items()}


class FineTuned(nn.Module):
    """Frozen backbone in evaluation mode, new head."""

    def __init__(self, classes):
        super().__init__()
        self.backbone = ShapeNet(6, 3).features
        self.backbone.load_state_dict(colour_backbone())
        self.backbone.requires_grad_(False)
        self.head = nn.Linear(64, classes)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        return self.head(self.backbone(x))


def build_finetune(prepare):
    images, y = colour_shapes(1000, 41, 6)
    x, y = prepare(torch.tensor(images).permute(0, 3, 1, 2).contiguous()), torch.tensor(y)
    tr, va = loaders(x[:750], y[:750], x[750:], y[750:], 32)
    model = FineTuned(6)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=3e-3)
    spec = Spec(
        task="classification",
        classes=6,
        epochs=12,
        frozen=("backbone.*",),
        eval_modules=("backbone", "backbone.*"),
        input_mean=MEAN,
        input_std=STD,
    )
    return Program(model, optimizer, nn.CrossEntropyLoss(), tr, va, metric=accuracy), spec


@case("sound", "fine-tuning")
def _(seed):
    torch.manual_seed(seed)
    return build_finetune(lambda x: (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1))


@case("D04", "pretrained backbone fed BGR in 0..1")
def _(seed):
    torch.manual_seed(seed)
    return build_finetune(lambda x: x.flip(1))


@case("D27", "validation labelled by another policy")
def _(seed):
    torch.manual_seed(seed)
    g = rng(94)
    x = torch.randn(1500, 6, generator=g)
    first = x[:, 0] + 0.6 * x[:, 1] + 0.25 * torch.randn(1500, generator=g)
    second = x[:, 0] - 0.9 * x[:, 1] + 0.25 * torch.randn(1500, generator=g)
    y = torch.cat([(first[:1150] > 0), (second[1150:] > 0)]).long()
    return build_table((x[:1150], y[:1150], x[1150:], y[1150:]), classes=2, hidden=16), table_spec(2, epochs=8)


class Stream(IterableDataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        for i in torch.randperm(len(self.x)).tolist():
            yield self.x[i], self.y[i]


@case("sound", "stream, no workers")
def _(seed):
    torch.manual_seed(seed)
    xt, yt, _, _ = friedman()
    train = DataLoader(Stream(xt, yt), batch_size=32)
    return build_friedman(train=train, epochs=6), friedman_spec(epochs=6, examples=len(xt))


@case("D32", "a stream read by two workers, each from its beginning")
def _(seed):
    torch.manual_seed(seed)
    xt, yt, _, _ = friedman()
    train = DataLoader(Stream(xt, yt), batch_size=32, num_workers=2)
    return build_friedman(train=train, epochs=6), friedman_spec(epochs=6, examples=len(xt))


@case("D36", "prices in their own unit")
def _(seed):
    torch.manual_seed(seed)
    x, y = friedman_raw()
    xt, yt, xv, yv = cut(x, 25_000 * y[:, None], 1150, 350)
    xt, xv = standardise(xt, xv)
    return build_friedman((xt, yt, xv, yv)), friedman_spec()


# ---------------------------------------------------------------- L: loss


@case("L01", "digits with a softmax layer before cross-entropy")
def _(seed):
    torch.manual_seed(seed)

    class Net(DigitNet):
        def forward(self, x):
            return F.softmax(super().forward(x), dim=1)

    return build_digits(model=Net()), digits_spec()


@case("L02", "sigmoid layer and a loss that has its own")
def _(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid(), nn.Flatten(0))
    return build_cancer(model=model, metric=lambda out, y: ((out > 0.5).float() == y).float().mean()), cancer_spec()


@case("L04", "logits straight into nll_loss")
def _(seed):
    torch.manual_seed(seed)
    return build_table(loss=F.nll_loss), table_spec()


@case("L05", "BCELoss on a linear output")
def _(seed):
    torch.manual_seed(seed)
    return build_cancer(loss=nn.BCELoss()), cancer_spec()


@case("L08", "a column minus a row")
def _(seed):
    torch.manual_seed(seed)

    def squared_error(prediction, target):
        return ((prediction - target) ** 2).mean()

    return build_waves(loss=squared_error), Spec(task="regression", epochs=20)


@case("L10", "labels as a column")
def _(seed):
    torch.manual_seed(seed)
    xt, yt, xv, yv = shapes()
    yt = torch.from_numpy(yt.numpy().reshape(-1, 1))
    yv = torch.from_numpy(yv.numpy().reshape(-1, 1))
    return build_shapes((xt, yt, xv, yv)), shapes_spec()


@case("L11", "binary labels of -1 and 1")
def _(seed):
    torch.manual_seed(seed)
    xt, yt, xv, yv = cancer()
    yt, yv = 2 * yt - 1, 2 * yv - 1
    return build_cancer((xt, yt, xv, yv), metric=lambda out, y: ((out > 0) == (y > 0)).float().mean()), cancer_spec()


@case("L14", "the number of the class as a regression")
def _(seed):
    torch.manual_seed(seed)

    def loss(out, y):
        return F.mse_loss(out.squeeze(1), y.float())

    def metric(out, y):
        return (out.squeeze(1).round() == y).float().mean().item()

    return build_table(loss=loss, classes=1, metric=metric), table_spec()


@case("L16", "summed loss with the learning rate of the mean")
def _(seed):
    torch.manual_seed(seed)
    return build_shapes(loss=nn.CrossEntropyLoss(reduction="sum")), shapes_spec()


@case("L20", "cross-entropy by hand: log of a sigmoid")
def _(seed):
    torch.manual_seed(seed)

    def loss(logit, y):
        p = torch.sigmoid(logit)
        return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()

    p = build_cancer(loss=loss)
    p.optimizer = torch.optim.Adam(p.model.parameters(), lr=1e-2)
    return p, cancer_spec()


@case("L03", "probabilities into NLLLoss")
def _(seed):
    torch.manual_seed(seed)

    class Net(ShapeNet):
        def forward(self, x):
            return torch.softmax(super().forward(x), dim=-1)

    return build_shapes(model=Net(), loss=nn.NLLLoss()), shapes_spec()


@case("L13", "cross-entropy over positions: 12 positions and 12 symbols")
def _(seed):
    torch.manual_seed(seed)
    return build_chains(loss=nn.CrossEntropyLoss()), chains_spec()


@case("L19", "kl_div on probabilities, with smoothed labels")
def _(seed):
    torch.manual_seed(seed)

    def loss(out, y):
        target = 0.9 * F.one_hot(y, 10) + 0.1 / 10
        return F.kl_div(F.softmax(out, dim=1), target, reduction="batchmean")

    return build_digits(loss=loss), digits_spec(mixes_labels=True)


# ---------------------------------------------------------------- E: evaluation


@case("E01", "direction of tomorrow's price from the last days")
def _(seed):
    torch.manual_seed(seed)
    g = rng(195)
    steps = torch.randn(1500 + 8, generator=g)
    x = steps.unfold(0, 8, 1)[:-1][:1500]
    y = (steps[8:] > 0).long()
    xt, yt, xv, yv = x[:1150], y[:1150], x[1150:], y[1150:]
    p = build_table((xt, yt, xv, yv), classes=2, lr=1e-3, hidden=8)
    return p, table_spec(2, epochs=8)


@case("E02", "mask the wrong way round: only padding is read")
def _(seed):
    torch.manual_seed(seed)

    class Net(CountNet):
        def forward(self, ids):
            mask = (ids == PAD).float().unsqueeze(-1)
            e = self.embed(ids) * mask
            return self.head(self.mix(e.sum(1) / 2))

    return build_counting(Net()), counting_spec()


@case("E03", "16 rare tags, accuracy over all tags")
def _(seed):
    torch.manual_seed(seed)
    g = rng(96)
    n, tags = 1400, 16
    x = torch.randn(n, 12, generator=g)
    way = torch.randn(12, tags, generator=g) / math.sqrt(12)
    score = x @ way + 1.0 * torch.randn(n, tags, generator=g)
    y = (score > 2.6).float()
    data = cut(x, y, 1100, 300)
    p = build_table(data, loss=nn.BCEWithLogitsLoss(), classes=tags, lr=1e-3, hidden=24, metric=binary_accuracy)
    return p, Spec(task="multi-label", epochs=8)


@case("E04", "one of three sites has its sensors wired the other way")
def _(seed):
    torch.manual_seed(seed)
    x, y = clouds(1500, classes=3, dim=6, distance=1.6, seed=19)
    g = rng(97)
    site = torch.multinomial(torch.tensor([0.5, 0.38, 0.12]), 1500, replacement=True, generator=g)
    x[site == 2] = x[site == 2].flip(1)
    order = torch.randperm(1500, generator=g)
    a, b = order[:1100], order[1100:]
    xt, xv = standardise(x[a], x[b])
    slices = {name: (site[b] == k).tolist() for k, name in enumerate(["Aarhus", "Bergen", "Coimbra"])}
    p = build_table((xt, y[a], xv, y[b]), classes=3, hidden=16, lr=2e-3)
    return p, table_spec(3, epochs=8, slices=slices)


@case("E05", "scans of each kind carry a mark in the corner")
def _(seed):
    torch.manual_seed(seed)
    images, y = draw_shapes(1300, 35, noise=0.3)
    g = np.random.RandomState(6)
    mark = np.where(g.rand(1300) < 0.97, y, g.randint(0, 4, 1300))
    for image, m in zip(images, mark, strict=True):
        image[14:16, 3 * m : 3 * m + 2] = 1.0
    x, y = torch.tensor(images)[:, None], torch.tensor(y)
    xt, xv = standardise_images(x[:1000], x[1000:])
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 64, 4))
    p = build_shapes((xt, y[:1000], xv, y[1000:]), model=model)
    p.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-3)
    return p, shapes_spec()


@case("E07", "softened logits in the loss, sharp ones for prediction")
def _(seed):
    torch.manual_seed(seed)
    x, y = clouds(1500, spread=2.2)
    xt, yt, xv, yv = cut(x, y, 1100, 400)
    xt, xv = standardise(xt, xv)

    def loss(out, target, temperature=5.0):
        return F.cross_entropy(out / temperature, target)

    return build_table((xt, yt, xv, yv), loss=loss, hidden=24, lr=3e-3), table_spec(epochs=10)


# ---------------------------------------------------------------- K: healthy


class Backboned(nn.Module):
    def __init__(self, classes):
        super().__init__()
        net = DigitNet()
        net.load_state_dict(digit_weights())
        self.backbone = nn.Sequential(
            net.conv1, nn.ReLU(), nn.MaxPool2d(2), net.conv2, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        )
        for parameter in self.backbone.parameters():
            parameter.requires_grad = False
        self.head = nn.Linear(96, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


@lru_cache(None)
def digit_weights(epochs=9):
    """Weights of a digit net trained on the first 800 digits."""
    keep = torch.random.get_rng_state()
    torch.manual_seed(77)
    x, y = digits_raw()
    x, y = standardise_images(x[:800])[0], y[:800]
    net = DigitNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(800).split(32):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    torch.random.set_rng_state(keep)
    return {k: v.clone() for k, v in net.state_dict().items()}


def new_digits():
    """The digits that the pretrained net has not seen, in five pairs: 0-1, 2-3, ..."""
    x, y = digits_raw()
    _, xt, xv = standardise_images(x[:800], x[800:1500], x[1500:])
    return xt, y[800:1500] // 2, xv, y[1500:] // 2


@case("K01", "frozen digit backbone, Adam over everything")
def _(seed):
    torch.manual_seed(seed)
    tr, va = loaders(*new_digits(), 32)
    model = Backboned(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    p = Program(model, optimizer, nn.CrossEntropyLoss(), tr, va, metric=accuracy)
    return p, Spec(task="classification", classes=5, epochs=15, frozen=("backbone.*",))


@case("K02", "frozen digit backbone, SGD over the head")
def _(seed):
    torch.manual_seed(seed)
    tr, va = loaders(*new_digits(), 32)
    model = Backboned(5)
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.004, momentum=0.9)
    p = Program(model, optimizer, nn.CrossEntropyLoss(), tr, va, metric=accuracy)
    return p, Spec(task="classification", classes=5, epochs=15, frozen=("backbone.*",))


@case("K03", "GAN on a ring of points")
def _(seed):
    torch.manual_seed(seed)
    g = rng(98)
    angle = 2 * math.pi * torch.rand(1300, generator=g)
    points = torch.stack([angle.cos(), angle.sin()], 1) + 0.08 * torch.randn(1300, 2, generator=g)

    class Game(nn.Module):
        def __init__(self):
            super().__init__()
            self.generator = nn.Sequential(
                nn.Linear(4, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 2)
            )
            self.critic = nn.Sequential(
                nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1)
            )

        def forward(self, x):
            return self.critic(x)

    model = Game()
    opt_g = torch.optim.Adam(model.generator.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(model.critic.parameters(), lr=3e-3, betas=(0.5, 0.99))

    def step(p, batch):
        real, _ = p.parts(batch)
        opt_g, opt_d = p.optimizers
        fake = p.model.generator(torch.randn(len(real), 4))
        opt_d.zero_grad()
        loss_d = F.softplus(-p.model.critic(real)).mean() + F.softplus(p.model.critic(fake.detach())).mean()
        loss_d.backward()
        opt_d.step()
        opt_g.zero_grad()
        F.softplus(-p.model.critic(fake)).mean().backward()
        opt_g.step()

    def evaluate(p):
        with torch.no_grad():
            fake = p.model.generator(torch.randn(400, 4, generator=rng(5)))
            real = torch.cat([p.parts(b)[0] for b in p.val_loader])
            cross = torch.cdist(fake, real).mean()
            energy = 2 * cross - torch.cdist(fake, fake).mean() - torch.cdist(real, real).mean()
        return {"energy_distance": energy.item()}

    p = Program(
        model,
        [opt_g, opt_d],
        None,
        DataLoader(TensorDataset(points[:1000]), batch_size=50, shuffle=True),
        DataLoader(TensorDataset(points[1000:]), batch_size=100),
        unpack=lambda batch: (batch[0], batch[0]),
        step=step,
        evaluate=evaluate,
    )
    return p, Spec(epochs=25)


@case("K04", "digits with smoothed labels")
def _(seed):
    torch.manual_seed(seed)
    return build_digits(loss=nn.CrossEntropyLoss(label_smoothing=0.1)), digits_spec(mixes_labels=True)


def pr_auc(out, y):
    return float(average_precision_score(y.numpy(), out.numpy()))


@case("K05", "one in thirty, average precision, bias set to the prior")
def _(seed):
    torch.manual_seed(seed)
    data = rare_data(1 / 30, n=1900, shift=2.6, seed=84)
    rate = data[1].mean()
    p = build_rare(data, pr_auc)
    with torch.no_grad():
        p.model[2].bias.fill_(torch.log(rate / (1 - rate)))
    return p, cancer_spec(epochs=12)


@case("K06", "last polish of a trained digit net with a learning rate of 2e-6")
def _(seed):
    torch.manual_seed(seed)
    x, y = digits_raw()
    _, xt, xv = standardise_images(x[:800], x[800:1500], x[1500:])
    tr, va = loaders(xt, y[800:1500], xv, y[1500:], 32)
    model = DigitNet()
    model.load_state_dict(digit_weights())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-6)
    return Program(model, optimizer, nn.CrossEntropyLoss(), tr, va, metric=accuracy), digits_spec(epochs=8)


@case("K07", "BatchNorm, SGD and one cycle up to a learning rate of 1")
def _(seed):
    torch.manual_seed(seed)
    p = build_shapes()
    p.train_loader = DataLoader(p.train_loader.dataset, batch_size=50, shuffle=True)
    p.optimizer = torch.optim.SGD(p.model.parameters(), lr=0.04, momentum=0.85, weight_decay=1e-4, nesterov=True)
    p.scheduler = torch.optim.lr_scheduler.OneCycleLR(
        p.optimizer, max_lr=1.0, total_steps=10 * 20, base_momentum=0.5, max_momentum=0.85
    )

    def train_epoch(p):
        p.model.train()
        for batch in p.train_loader:
            p.run_step(batch)
            p.scheduler.step()

    p.train_epoch = train_epoch
    return p, shapes_spec(epochs=10, scheduler_steps="batch")


@case("K09", "next symbol with one matrix for reading and writing")
def _(seed):
    torch.manual_seed(seed)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(SYMBOLS, 24)
            nn.init.normal_(self.embed.weight, std=0.3)
            self.gru = nn.GRU(24, 24, batch_first=True)
            self.out = nn.Linear(24, SYMBOLS)
            self.out.weight = self.embed.weight

        def forward(self, ids):
            h, _ = self.gru(self.embed(ids))
            return self.out(h)

    return build_chains(model=Net()), chains_spec(tied=[("embed.weight", "out.weight")])


@case("K10", "topics of short texts over 2,000 words")
def _(seed):
    torch.manual_seed(seed)
    g = rng(99)
    n, words, topics = 1500, 2000, 4
    base_rate = 1 / torch.arange(10.0, words + 10)
    rates = base_rate * torch.exp(1.1 * torch.randn(topics, words, generator=g))
    y = (torch.arange(n) % topics)[torch.randperm(n, generator=g)]
    ids = torch.multinomial(rates[y], 25, replacement=True, generator=g)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(words, 16)
            self.out = nn.Linear(16, topics)

        def forward(self, ids):
            return self.out(self.embed(ids).mean(1))

    tr, va = loaders(*cut(ids, y, 1200, 300), 32)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    p = Program(model, optimizer, nn.CrossEntropyLoss(), tr, va, metric=accuracy)
    return p, Spec(task="classification", classes=topics, epochs=4)


@case("K11", "dropout of a half between the layers")
def _(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(64, 10),
    )
    return build_digits(model=model), digits_spec(epochs=12)


@case("K13", "four micro-batches for each step")
def _(seed):
    torch.manual_seed(seed)
    p = build_digits()
    p.train_loader = DataLoader(p.train_loader.dataset, batch_size=16, shuffle=True)
    p.optimizer = torch.optim.Adam(p.model.parameters(), lr=4e-3)

    def train_epoch(p):
        p.model.train()
        p.optimizer.zero_grad()
        last = len(p.train_loader) - 1
        for i, batch in enumerate(p.train_loader):
            inputs, targets = p.parts(batch)
            (p.loss_fn(p.model(inputs), targets) / 4).backward()
            if i % 4 == 3 or i == last:
                p.optimizer.step()
                p.optimizer.zero_grad()

    p.train_epoch = train_epoch
    return p, digits_spec(accumulate=4, epochs=9)


@case("K14", "wide layer of units that rarely fire")
def _(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 160), nn.ReLU(), nn.Linear(160, 1))
    with torch.no_grad():
        directions = torch.randn(160, 8)
        model[0].weight.copy_(1.4 * directions / directions.norm(dim=1, keepdim=True))
        model[0].bias.fill_(-1.4)
    return build_friedman(model=model), friedman_spec()
