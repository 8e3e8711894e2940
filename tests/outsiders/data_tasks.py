"""Tasks and sound programs that the cases of data, losses and evaluation are made from."""

from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.debugging import Program, Spec

from .register import case

# ---------------------------------------------------------------- data


def rng(seed):
    return torch.Generator().manual_seed(seed)


def cut(x, y, n_train, n_val, seed=0):
    """Random split: train, validation."""
    order = torch.randperm(len(x), generator=rng(seed))
    a, b = order[:n_train], order[n_train : n_train + n_val]
    return x[a], y[a], x[b], y[b]


def standardise(train, *others):
    mean, std = train.mean(0), train.std(0) + 1e-8
    return tuple((t - mean) / std for t in (train, *others))


def standardise_images(train, *others):
    mean, std = train.mean(), train.std()
    return tuple((t - mean) / std for t in (train, *others))


@lru_cache(None)
def digits_raw():
    images, y = load_digits(return_X_y=True)
    order = np.random.RandomState(4).permutation(len(y))
    return torch.tensor(images[order], dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(y[order])


def digits():
    """Digits of 8x8: 1200 to train, 397 to validate."""
    x, y = digits_raw()
    xt, xv = standardise_images(x[:1200], x[1200:1597])
    return xt, y[:1200], xv, y[1200:1597]


@lru_cache(None)
def cancer_raw():
    x, y = load_breast_cancer(return_X_y=True)
    return cut(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32), 400, 169, seed=3)


def cancer():
    xt, yt, xv, yv = cancer_raw()
    xt, xv = standardise(xt, xv)
    return xt, yt, xv, yv


def clouds(n=1500, classes=5, dim=8, spread=1.0, seed=11, prior=None, distance=1.9):
    """Clouds of points around two centres for each class."""
    g = rng(seed)
    centres = torch.randn(classes, 2, dim, generator=g) * distance
    if prior is None:
        y = torch.arange(n) % classes
        y = y[torch.randperm(n, generator=g)]
    else:
        y = torch.multinomial(torch.tensor(prior), n, replacement=True, generator=g)
    which = torch.randint(0, 2, (n,), generator=g)
    x = centres[y, which] + spread * torch.randn(n, dim, generator=g)
    return x, y


def five():
    x, y = clouds(1500)
    xt, yt, xv, yv = cut(x, y, 1150, 350)
    xt, xv = standardise(xt, xv)
    return xt, yt, xv, yv


@lru_cache(None)
def friedman_raw():
    x, y = make_friedman1(1500, n_features=8, noise=1.0, random_state=5)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def friedman():
    x, y = friedman_raw()
    xt, yt, xv, yv = cut(x, y, 1150, 350)
    xt, xv = standardise(xt, xv)
    m, s = yt.mean(), yt.std()
    return xt, ((yt - m) / s)[:, None], xv, ((yv - m) / s)[:, None]


def waves():
    """A noisy sine over one of three inputs, a slope over another."""
    g = rng(21)
    x = torch.rand(1100, 3, generator=g) * 2 - 1
    y = torch.sin(4 * x[:, 0]) + 0.6 * x[:, 1] + 0.15 * torch.randn(1100, generator=g)
    xt, yt, xv, yv = cut(x, y, 850, 250)
    xt, xv = standardise(xt, xv)
    return xt, yt, xv, yv


def draw_shapes(n, seed, size=16, kinds=4, noise=0.12):
    """Grey images in 0..1: horizontal bar, vertical bar, disc, frame, diagonal, cross."""
    g = np.random.RandomState(seed)
    rows, cols = np.mgrid[0:size, 0:size]
    y = g.permutation(np.arange(n) % kinds)
    images = np.empty((n, size, size), dtype=np.float32)
    for i, kind in enumerate(y):
        r, c = g.randint(5, size - 5, 2)
        a = g.randint(3, 5)
        dr, dc = rows - r, cols - c
        inside = (abs(dr) <= a) & (abs(dc) <= a)
        if kind == 0:
            mask = (abs(dr) <= 1) & (abs(dc) <= a)
        elif kind == 1:
            mask = (abs(dc) <= 1) & (abs(dr) <= a)
        elif kind == 2:
            mask = dr**2 + dc**2 <= (a - 0.5) ** 2
        elif kind == 3:
            mask = inside & ((abs(dr) == a) | (abs(dc) == a))
        elif kind == 4:
            mask = inside & (abs(dr - dc) <= 1)
        else:
            mask = inside & ((dr == 0) | (dc == 0))
        images[i] = 0.15 + g.uniform(0.4, 0.8) * mask + noise * g.randn(size, size)
    return images.clip(0, 1), y


@lru_cache(None)
def shapes_raw():
    """1300 uint8 images of 16x16 and their kinds."""
    images, y = draw_shapes(1300, 31)
    return torch.tensor((images * 255).round(), dtype=torch.uint8), torch.tensor(y)


def shapes():
    x, y = shapes_raw()
    x = x[:, None].float() / 255
    xt, xv = standardise_images(x[:1000], x[1000:])
    return xt, y[:1000], xv, y[1000:]


@lru_cache(None)
def colour_shapes(n=1000, seed=41, kinds=4):
    """[n, 16, 16, 3] in 0..1: reddish shapes on greenish ground with some blue noise."""
    grey, y = draw_shapes(n, seed, kinds=kinds, noise=0.05)
    g = np.random.RandomState(seed + 1)
    ink = np.array([0.9, 0.35, 0.15]) + 0.08 * g.randn(n, 1, 1, 3)
    ground = np.array([0.15, 0.5, 0.35]) + 0.08 * g.randn(n, 1, 1, 3)
    m = grey[..., None]
    images = m * ink + (1 - m) * ground + 0.05 * g.randn(n, 16, 16, 3)
    return images.clip(0, 1).astype(np.float32), y


@lru_cache(None)
def arrows_raw():
    """12x12 arrows: left, right, up, down."""
    g = np.random.RandomState(51)
    n = 1100
    y = g.permutation(np.arange(n) % 4)
    glyph = np.zeros((7, 7), dtype=np.float32)
    glyph[3, :] = 1
    for k in range(1, 4):
        glyph[3 - k, k] = glyph[3 + k, k] = 1
    right = glyph[:, ::-1]
    kinds = [glyph, right, glyph.T, right.T]
    images = 0.2 * g.randn(n, 12, 12).astype(np.float32)
    for i, kind in enumerate(y):
        r, c = g.randint(0, 6, 2)
        images[i, r : r + 7, c : c + 7] += kinds[kind] * g.uniform(0.8, 1.2)
    return torch.tensor(images)[:, None], torch.tensor(y)


SYMBOLS = 12


@lru_cache(None)
def chains():
    """Sequences of 12 symbols, none twice; the first symbol's parity says which of two tables of successors holds."""
    g = np.random.RandomState(61)
    likely = [g.permutation(SYMBOLS) for _ in range(2)]
    second = [(table + 5) % SYMBOLS for table in likely]
    seqs = {}
    while len(seqs) < 1450:
        row = [g.randint(0, SYMBOLS)]
        for t in range(SYMBOLS):
            u = g.rand()
            rule = likely if u < 0.62 else second
            row.append(rule[row[0] % 2][row[t]] if u < 0.92 else g.randint(SYMBOLS))
        seqs.setdefault(tuple(row[:-1]), row)
    seqs = torch.tensor(g.permutation(np.array(list(seqs.values()))))
    x, y = seqs[:, :-1], seqs[:, 1:]
    return x[:1200], y[:1200], x[1200:], y[1200:]


PAD = 0


@lru_cache(None)
def counting():
    """How often does symbol 3 occur (0 to 4)? Lengths of 8 to 16, filled up with 0."""
    g = np.random.RandomState(71)
    n = 1400
    ids = np.zeros((n, 16), dtype=np.int64)
    y = g.permutation(np.arange(n) % 5)
    for i in range(n):
        length = g.randint(8, 17)
        seq = g.choice([1, 2, 4, 5, 6, 7, 8], length)
        seq[g.choice(length, y[i], replace=False)] = 3
        ids[i, :length] = seq
    ids, y = torch.tensor(ids), torch.tensor(y)
    return ids[:1050], y[:1050], ids[1050:], y[1050:]


# ---------------------------------------------------------------- models, metrics, small helpers


class DigitNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1)
        self.fc = nn.Linear(24 * 2 * 2, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


class ShapeNet(nn.Module):
    def __init__(self, classes=4, channels=1):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Linear(64, classes)

    def forward(self, x):
        return self.classifier(self.features(x))


def mlp(d_in, hidden, d_out, act=nn.ReLU):
    return nn.Sequential(nn.Linear(d_in, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, d_out))


class ChainNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, 16)
        self.gru = nn.GRU(16, width, batch_first=True)
        self.out = nn.Linear(width, SYMBOLS)

    def forward(self, ids):
        h, _ = self.gru(self.embed(ids))
        return self.out(h)


class CountNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(9, width, padding_idx=PAD)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.head = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, 5))

    def forward(self, ids):
        mask = (ids != PAD).float().unsqueeze(-1)
        e = self.mix(self.embed(ids)) * mask
        return self.head(e.sum(1) / 2)


def accuracy(out, y):
    return (out.argmax(-1) == y).float().mean().item()


def binary_accuracy(out, y):
    return ((out > 0).float() == y).float().mean().item()


def r2(out, y):
    return (1 - ((out - y) ** 2).mean() / ((y - y.mean()) ** 2).mean()).item()


def balanced_accuracy(out, y):
    hit = out.argmax(-1) == y
    return torch.stack([hit[y == c].float().mean() for c in y.unique()]).mean().item()


def sequence_loss(out, y):
    return F.cross_entropy(out.flatten(0, 1), y.flatten())


def loaders(xt, yt, xv, yv, batch=32):
    train = DataLoader(TensorDataset(xt, yt), batch_size=batch, shuffle=True)
    val = DataLoader(TensorDataset(xv, yv), batch_size=128)
    return train, val


class Pictures(Dataset):
    def __init__(self, images, labels, transform=None):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = self.images[i]
        if self.transform is not None:
            x = self.transform(x)
        return x, self.labels[i]


class Table(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "y": self.y[i]}


def from_dict(batch):
    return batch["x"], batch["y"]


# ---------------------------------------------------------------- builders of the sound programs


def build_digits(data=None, loss=None, model=None, train=None, **kw):
    xt, yt, xv, yv = data or digits()
    tr, va = loaders(xt, yt, xv, yv, 32)
    model = model or DigitNet()
    kw.setdefault("metric", accuracy)
    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=2e-3),
        loss or nn.CrossEntropyLoss(),
        tr if train is None else train,
        va,
        **kw,
    )


def digits_spec(**kw):
    return Spec(**{"task": "classification", "classes": 10, "epochs": 10, **kw})


def build_cancer(data=None, loss=None, model=None, **kw):
    xt, yt, xv, yv = data or cancer()
    tr, va = loaders(xt, yt, xv, yv, 16)
    model = model or nn.Sequential(nn.Linear(xt.shape[1], 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-3)
    kw.setdefault("metric", binary_accuracy)
    return Program(model, optimizer, loss or nn.BCEWithLogitsLoss(), tr, va, **kw)


def cancer_spec(**kw):
    return Spec(**{"task": "multi-label", "epochs": 12, **kw})


def build_table(data=None, loss=None, model=None, classes=5, lr=3e-3, hidden=48, train=None, **kw):
    """Classes from columns: own Dataset of dictionaries, AdamW."""
    xt, yt, xv, yv = data or five()
    model = model or mlp(xt.shape[1], hidden, classes)
    train = train if train is not None else DataLoader(Table(xt, yt), batch_size=32, shuffle=True)
    val = DataLoader(Table(xv, yv), batch_size=100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    kw.setdefault("metric", accuracy)
    return Program(model, optimizer, loss or F.cross_entropy, train, val, unpack=from_dict, **kw)


def table_spec(classes=5, **kw):
    return Spec(**{"task": "classification", "classes": classes, "epochs": 12, **kw})


def build_friedman(data=None, train=None, model=None, epochs=15, **kw):
    xt, yt, xv, yv = data or friedman()
    tr, va = loaders(xt, yt, xv, yv, 32)
    model = model or mlp(xt.shape[1], 32, 1, nn.SiLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    return Program(
        model, optimizer, nn.MSELoss(), tr if train is None else train, va, scheduler=scheduler, metric=r2, **kw
    )


def friedman_spec(**kw):
    return Spec(**{"task": "regression", "epochs": 15, "scheduler_steps": "epoch", **kw})


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden1 = nn.Linear(3, 40)
        self.hidden2 = nn.Linear(40, 40)
        self.out = nn.Linear(40, 1)

    def forward(self, x):
        x = torch.tanh(self.hidden1(x))
        x = torch.tanh(self.hidden2(x))
        return self.out(x)


def build_waves(loss=None, metric=None):
    xt, yt, xv, yv = waves()
    tr, va = loaders(xt, yt, xv, yv, 32)
    model = WaveNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-3)
    return Program(
        model,
        optimizer,
        loss or (lambda out, y: F.mse_loss(out.squeeze(1), y)),
        tr,
        va,
        metric=metric or (lambda out, y: r2(out.squeeze(1), y)),
    )


def build_shapes(data=None, loss=None, train=None, val=None, model=None, **kw):
    xt, yt, xv, yv = data or shapes()
    train = train if train is not None else DataLoader(Pictures(xt, yt), batch_size=32, shuffle=True)
    val = val if val is not None else DataLoader(Pictures(xv, yv), batch_size=100)
    model = model or ShapeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    return Program(model, optimizer, loss or nn.CrossEntropyLoss(), train, val, metric=accuracy, **kw)


def shapes_spec(**kw):
    return Spec(**{"task": "classification", "classes": 4, "epochs": 8, **kw})


def build_chains(loss=None, model=None, **kw):
    tr, va = loaders(*chains(), 32)
    model = model or ChainNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    return Program(model, optimizer, loss or sequence_loss, tr, va, metric=accuracy, **kw)


def chains_spec(**kw):
    return Spec(**{"task": "sequence", "classes": SYMBOLS, "epochs": 8, "causal": True, **kw})


def build_counting(model=None, **kw):
    tr, va = loaders(*counting(), 32)
    model = model or CountNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    return Program(model, optimizer, nn.CrossEntropyLoss(), tr, va, metric=accuracy, **kw)


def counting_spec(**kw):
    return Spec(**{"task": "classification", "classes": 5, "epochs": 12, "padding_index": PAD, **kw})


SOUND = {
    "digits": (build_digits, digits_spec),
    "cancer": (build_cancer, cancer_spec),
    "table": (build_table, table_spec),
    "friedman": (build_friedman, friedman_spec),
    "waves": (build_waves, lambda: Spec(task="regression", epochs=20)),
    "shapes": (build_shapes, shapes_spec),
    "chains": (build_chains, chains_spec),
    "counting": (build_counting, counting_spec),
}
for _name, _parts in SOUND.items():

    @case("sound", _name)
    def _(seed, parts=_parts):
        torch.manual_seed(seed)
        build, spec = parts
        return build(), spec()
