"""Tasks and sound programs that the cases of loops, parameters, architecture and settings are made from."""

import itertools
import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.debugging import Program, Spec

from .register import case

# ---------------------------------------------------------------- metrics and losses


def accuracy(outputs, targets):
    return (outputs.argmax(-1) == targets).float().mean().item()


def binary_accuracy(outputs, targets):
    return ((outputs > 0) == (targets > 0.5)).float().mean().item()


def r2(outputs, targets):
    return (1 - ((outputs - targets) ** 2).mean() / targets.var(unbiased=False)).item()


def token_loss(outputs, targets):
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())


# ---------------------------------------------------------------- data (own generators)


def split(x, y, n_train, generator):
    order = torch.randperm(len(x), generator=generator)
    a, b = order[:n_train], order[n_train:]
    return x[a], y[a], x[b], y[b]


@lru_cache(None)
def blob_data():
    """5 classes in 10 dimensions."""
    g = torch.Generator().manual_seed(101)
    centres = torch.randn(5, 10, generator=g) * 1.5
    y = torch.arange(1260) % 5
    x = centres[y] + torch.randn(1260, 10, generator=g)
    xt, yt, xv, yv = split(x, y, 960, g)
    m, s = xt.mean(0), xt.std(0)
    return (xt - m) / s, yt, (xv - m) / s, yv


@lru_cache(None)
def spiral_data():
    """3 arms of a spiral, 300 points each for training, 100 for validation."""
    g = torch.Generator().manual_seed(102)
    y = torch.arange(1200) % 3
    r = torch.rand(1200, generator=g) * 0.9 + 0.1
    angle = 4.0 * r + y * 2 * math.pi / 3 + 0.15 * torch.randn(1200, generator=g)
    x = torch.stack([r * angle.cos(), r * angle.sin()], 1)
    xt, yt, xv, yv = split(x, y, 900, g)
    m, s = xt.mean(0), xt.std(0)
    return (xt - m) / s, yt, (xv - m) / s, yv


@lru_cache(None)
def cancer_data():
    g = torch.Generator().manual_seed(103)
    x, y = load_breast_cancer(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    xt, yt, xv, yv = split(x, y, 420, g)
    m, s = xt.mean(0), xt.std(0)
    return (xt - m) / s, yt, (xv - m) / s, yv


@lru_cache(None)
def digit_data():
    g = torch.Generator().manual_seed(104)
    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8)
    xt, yt, xv, yv = split(x, torch.tensor(y), 1400, g)
    m, s = xt.mean(), xt.std()
    return (xt - m) / s, yt, (xv - m) / s, yv


@lru_cache(None)
def friedman_data():
    x, y = make_friedman1(1300, n_features=8, noise=1.0, random_state=105)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    xt, yt, xv, yv = x[:1000], y[:1000], x[1000:], y[1000:]
    m, s = xt.mean(0), xt.std(0)
    my, sy = yt.mean(), yt.std()
    return (xt - m) / s, (yt - my) / sy, (xv - m) / s, (yv - my) / sy


@lru_cache(None)
def shape_data(n=1000, seed=106, noise=0.45, gain=1.0, offset=0.0):
    """Noisy 16x16 images: 0 a horizontal bar, 1 a vertical bar, 2 a blob, 3 a frame."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 4
    images = torch.zeros(n, 1, 16, 16)
    rows, cols = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    place = torch.randint(3, 12, (n, 2), generator=g)
    for i in range(n):
        r, c = place[i].tolist()
        if y[i] == 0:
            images[i, 0, r : r + 2, 2:14] = 1
        elif y[i] == 1:
            images[i, 0, 2:14, c : c + 2] = 1
        elif y[i] == 2:
            images[i, 0] = torch.exp(-((rows - r) ** 2 + (cols - c) ** 2) / 8)
        else:
            images[i, 0, r - 3 : r + 4, c - 3 : c + 4] = 1
            images[i, 0, r - 2 : r + 3, c - 2 : c + 3] = 0
    images = gain * (images + noise * torch.randn(images.shape, generator=g)) + offset
    order = torch.randperm(n, generator=g)
    return images[order], y[order]


@lru_cache(None)
def shapes_split():
    x, y = shape_data()
    m, s = x[:800].mean(), x[:800].std()
    return (x[:800] - m) / s, y[:800], (x[800:] - m) / s, y[800:]


@lru_cache(None)
def sum_data():
    """At each position: (this symbol + the one before) mod 5."""
    g = torch.Generator().manual_seed(107)
    x = torch.randint(0, 5, (700, 14), generator=g)
    before = torch.cat([torch.zeros(700, 1, dtype=torch.long), x[:, :-1]], 1)
    y = (x + before) % 5
    return x[:512], y[:512], x[512:], y[512:]


@lru_cache(None)
def chain_data():
    """Next symbol of a Markov chain of 12 symbols: (current, next) for 16 positions."""
    g = torch.Generator().manual_seed(108)
    table = torch.softmax(3 * torch.randn(12, 12, generator=g), 1)
    s = torch.empty(800, 17, dtype=torch.long)
    s[:, 0] = torch.randint(0, 12, (800,), generator=g)
    for t in range(16):
        s[:, t + 1] = torch.multinomial(table[s[:, t]], 1, generator=g)[:, 0]
    return s[:600, :-1], s[:600, 1:], s[600:, :-1], s[600:, 1:]


@lru_cache(None)
def vote_data():
    """Sequences of 5 to 20 symbols (1..12); the class is the one of three marks (1, 2, 3) that is most frequent."""
    g = torch.Generator().manual_seed(109)
    found = []
    while len(found) < 1200:
        length = int(torch.randint(5, 21, (1,), generator=g))
        s = torch.randint(1, 8, (length,), generator=g)
        counts = [(s == k).sum().item() for k in (1, 2, 3)]
        top = max(counts)
        if any(len(s) == len(t) and bool((s == t).all()) for t, _ in found):
            continue
        if counts.count(top) == 1 and [y for _, y in found].count(counts.index(top)) < 400:
            found.append((s, counts.index(top)))
    order = torch.randperm(1200, generator=g).tolist()
    found = [found[i] for i in order]
    return found[:900], found[900:]


# ---------------------------------------------------------------- base programs


def mlp(*sizes, act=nn.ReLU, dropout=0.0):
    layers = []
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        layers.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers.append(act())
            if dropout:
                layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)


def merged(spec, more):
    return Spec(**{**spec, **(more or {})})


@case("sound", "blobs")
def blobs(seed, model=None, opt=None, batch=32, spec=None, **parts):
    torch.manual_seed(seed)
    xt, yt, xv, yv = blob_data()
    net = model() if model else mlp(10, 24, 24, 5)
    optimizer = opt(net) if opt else torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-3)
    shuffle = torch.Generator().manual_seed(seed)
    p = Program(
        **{
            "model": net,
            "optimizer": optimizer,
            "loss_fn": nn.CrossEntropyLoss(),
            "train_loader": DataLoader(TensorDataset(xt, yt), batch_size=batch, shuffle=True, generator=shuffle),
            "val_loader": DataLoader(TensorDataset(xv, yv), batch_size=100),
            "metric": accuracy,
            **parts,
        }
    )
    return p, merged({"task": "classification", "classes": 5, "epochs": 10}, spec)


@case("sound", "spiral")
def spiral(seed, model=None, opt=None, batch=30, spec=None, **parts):
    torch.manual_seed(seed)
    xt, yt, xv, yv = spiral_data()
    net = model() if model else mlp(2, 32, 32, 3, act=nn.Tanh)
    optimizer = opt(net) if opt else torch.optim.Adam(net.parameters(), lr=1e-2)
    p = Program(
        **{
            "model": net,
            "optimizer": optimizer,
            "loss_fn": F.cross_entropy,
            "train_loader": DataLoader(TensorDataset(xt, yt), batch_size=batch, shuffle=True),
            "val_loader": DataLoader(TensorDataset(xv, yv), batch_size=100),
            "metric": accuracy,
            **parts,
        }
    )
    return p, merged({"task": "classification", "classes": 3, "epochs": 20}, spec)


class Patients(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Risk(nn.Module):
    def __init__(self, width=16, p=0.1):
        super().__init__()
        self.fc1 = nn.Linear(30, width)
        self.drop = nn.Dropout(p)
        self.fc2 = nn.Linear(width, 1)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.fc1(x)))).squeeze(1)


@case("sound", "cancer")
def cancer(seed, model=None, opt=None, batch=30, spec=None, **parts):
    torch.manual_seed(seed)
    xt, yt, xv, yv = cancer_data()
    net = model() if model else Risk()
    optimizer = opt(net) if opt else torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    p = Program(
        **{
            "model": net,
            "optimizer": optimizer,
            "loss_fn": nn.BCEWithLogitsLoss(),
            "train_loader": DataLoader(Patients(xt, yt), batch_size=batch, shuffle=True),
            "val_loader": DataLoader(Patients(xv, yv), batch_size=64),
            "metric": binary_accuracy,
            **parts,
        }
    )
    return p, merged({"task": "multi-label", "epochs": 10}, spec)


class DigitNet(nn.Module):
    def __init__(self, p=0.2, momentum=0.1):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16, momentum=momentum)
        self.conv2 = nn.Conv2d(16, 24, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(24, momentum=momentum)
        self.drop = nn.Dropout(p)
        self.fc = nn.Linear(24 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(self.drop(x.flatten(1)))


class FlatDigits(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x.flatten(1))


@case("sound", "digits")
def digits(seed, model=None, opt=None, batch=35, spec=None, **parts):
    torch.manual_seed(seed)
    xt, yt, xv, yv = digit_data()
    net = model() if model else DigitNet()
    optimizer = opt(net) if opt else torch.optim.Adam(net.parameters(), lr=2e-3)
    p = Program(
        **{
            "model": net,
            "optimizer": optimizer,
            "loss_fn": nn.CrossEntropyLoss(),
            "train_loader": DataLoader(TensorDataset(xt, yt), batch_size=batch, shuffle=True),
            "val_loader": DataLoader(TensorDataset(xv, yv), batch_size=128),
            "metric": accuracy,
            **parts,
        }
    )
    return p, merged({"task": "classification", "classes": 10, "epochs": 8}, spec)


class Curve(nn.Module):
    """8 features to one number."""

    def __init__(self, body=None):
        super().__init__()
        self.body = body or mlp(8, 32, 32, 1)

    def forward(self, x):
        return self.body(x)[:, 0]


@case("sound", "friedman")
def friedman(seed, model=None, opt=None, batch=40, spec=None, **parts):
    torch.manual_seed(seed)
    xt, yt, xv, yv = friedman_data()
    net = model() if model else Curve()
    optimizer = opt(net) if opt else torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.01)
    shuffle = torch.Generator().manual_seed(seed + 1)
    p = Program(
        **{
            "model": net,
            "optimizer": optimizer,
            "loss_fn": F.mse_loss,
            "train_loader": DataLoader(Patients(xt, yt), batch_size=batch, shuffle=True, generator=shuffle),
            "val_loader": DataLoader(Patients(xv, yv), batch_size=100),
            "metric": r2,
            **parts,
        }
    )
    return p, merged({"task": "regression", "epochs": 15}, spec)


def shape_net(width=8):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(2 * width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 4),
    )


@case("sound", "shapes")
def shapes(seed, model=None, opt=None, batch=32, spec=None, **parts):
    torch.manual_seed(seed)
    xt, yt, xv, yv = shapes_split()
    net = model() if model else shape_net()
    optimizer = opt(net) if opt else torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    p = Program(
        **{
            "model": net,
            "optimizer": optimizer,
            "loss_fn": nn.CrossEntropyLoss(),
            "train_loader": DataLoader(TensorDataset(xt, yt), batch_size=batch, shuffle=True),
            "val_loader": DataLoader(TensorDataset(xv, yv), batch_size=100),
            "metric": accuracy,
            **parts,
        }
    )
    return p, merged({"task": "classification", "classes": 4, "epochs": 10}, spec)


class Adder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.emb = nn.Embedding(5, 16)
        self.rnn = nn.GRU(16, width, batch_first=True)
        self.out = nn.Linear(width, 5)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.out(h)


@case("sound", "sums")
def sums(seed, model=None, opt=None, batch=32, spec=None, **parts):
    torch.manual_seed(seed)
    xt, yt, xv, yv = sum_data()
    net = model() if model else Adder()
    optimizer = opt(net) if opt else torch.optim.Adam(net.parameters(), lr=1e-2)
    p = Program(
        **{
            "model": net,
            "optimizer": optimizer,
            "loss_fn": token_loss,
            "train_loader": DataLoader(TensorDataset(xt, yt), batch_size=batch, shuffle=True),
            "val_loader": DataLoader(TensorDataset(xv, yv), batch_size=94),
            "metric": accuracy,
            **parts,
        }
    )
    return p, merged({"task": "sequence", "classes": 5, "epochs": 12, "causal": True}, spec)


class TinyGPT(nn.Module):
    def __init__(self, vocab=12, dim=24, length=16, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(length, dim))
        block = nn.TransformerEncoderLayer(dim, 2, 48, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, vocab, bias=False)
        nn.init.normal_(self.emb.weight, std=0.1)
        self.out.weight = self.emb.weight

    def forward(self, ids):
        t = ids.shape[1]
        mask = torch.triu(torch.full((t, t), float("-inf")), 1)
        return self.out(self.norm(self.blocks(self.emb(ids) + self.pos[:t], mask=mask)))


@case("sound", "chain")
def chain(seed, model=None, opt=None, batch=30, spec=None, **parts):
    torch.manual_seed(seed)
    xt, yt, xv, yv = chain_data()
    net = model() if model else TinyGPT()
    optimizer = opt(net) if opt else torch.optim.AdamW(net.parameters(), lr=5e-3)
    p = Program(
        **{
            "model": net,
            "optimizer": optimizer,
            "loss_fn": token_loss,
            "train_loader": DataLoader(TensorDataset(xt, yt), batch_size=batch, shuffle=True),
            "val_loader": DataLoader(TensorDataset(xv, yv), batch_size=100),
            "metric": accuracy,
            **parts,
        }
    )
    meant = {"task": "sequence", "classes": 12, "epochs": 8, "causal": True, "tied": [("emb.weight", "out.weight")]}
    return p, merged(meant, spec)


class Sentences(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def pad(items):
    x = nn.utils.rnn.pad_sequence([s for s, _ in items], batch_first=True, padding_value=0)
    return x, torch.tensor([y for _, y in items])


class Vote(nn.Module):
    """Symbol by symbol features, averaged over the real positions."""

    def __init__(self, dim=16):
        super().__init__()
        self.emb = nn.Embedding(8, dim, padding_idx=0)
        self.mix = nn.Linear(dim, 32)
        self.head = nn.Linear(32, 3)

    def pool(self, h, ids):
        real = (ids != 0).unsqueeze(-1).float()
        return (h * real).sum(1) / real.sum(1)

    def forward(self, ids):
        return self.head(self.pool(torch.relu(self.mix(self.emb(ids))), ids))


@case("sound", "votes")
def votes(seed, model=None, opt=None, batch=30, spec=None, **parts):
    torch.manual_seed(seed)
    train, val = vote_data()
    net = model() if model else Vote()
    optimizer = opt(net) if opt else torch.optim.AdamW(net.parameters(), lr=1e-2)
    p = Program(
        **{
            "model": net,
            "optimizer": optimizer,
            "loss_fn": nn.CrossEntropyLoss(),
            "train_loader": DataLoader(Sentences(train), batch_size=batch, shuffle=True, collate_fn=pad),
            "val_loader": DataLoader(Sentences(val), batch_size=50, collate_fn=pad),
            "metric": accuracy,
            **parts,
        }
    )
    return p, merged({"task": "classification", "classes": 3, "epochs": 12, "padding_index": 0}, spec)


class Share(Vote):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(32, 1)

    def forward(self, ids):
        return super().forward(ids)[:, 0]


def pad_shares(items):
    x = nn.utils.rnn.pad_sequence([s for s, _ in items], batch_first=True, padding_value=0)
    return x, torch.stack([(((s <= 3).float().mean() + 0.5 * (s == 7).float().mean()) - 0.6) / 0.2 for s, _ in items])


@case("sound", "shares")
def shares(seed, model=None, **parts):
    """How much of a sequence are marks (symbol 7 counts half)."""
    torch.manual_seed(seed)
    train, val = vote_data()
    net = model() if model else Share()
    program = Program(
        model=net,
        optimizer=torch.optim.AdamW(net.parameters(), lr=5e-3),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(Sentences(train), batch_size=30, shuffle=True, collate_fn=pad_shares),
        val_loader=DataLoader(Sentences(val), batch_size=50, collate_fn=pad_shares),
        metric=r2,
        **parts,
    )
    return program, Spec(task="regression", epochs=10, padding_index=0)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 24, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(24)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return x.flatten(1)


@lru_cache(None)
def pretrained():
    """A backbone that has learned odd against even digits."""
    with torch.random.fork_rng():
        torch.manual_seed(77)
        body, head = Backbone(), nn.Linear(96, 2)
        optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=2e-3)
        x, y, _, _ = digit_data()
        for _ in range(3):
            for i in torch.randperm(len(x)).split(50):
                optimizer.zero_grad()
                F.cross_entropy(head(body(x[i])), y[i] % 2).backward()
                optimizer.step()
    return body.state_dict()


class FineTuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.backbone.load_state_dict(pretrained())
        self.head = nn.Linear(96, 10)

    def forward(self, x):
        return self.head(self.backbone(x))
