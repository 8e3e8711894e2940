"""Faults of loops (G), parameters (P), architecture (A) and settings (H), and twelve healthy programs (K)."""

import copy
import math

import torch
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

from .loop_tasks import (
    Curve,
    DigitNet,
    FineTuned,
    FlatDigits,
    TinyGPT,
    Vote,
    accuracy,
    blobs,
    cancer,
    chain,
    digit_data,
    digits,
    friedman,
    mlp,
    r2,
    shape_data,
    shape_net,
    shapes,
    shares,
    spiral,
    sums,
    votes,
)
from .register import case

# ================================================================ G: the training loop


@case("G01", "no zero_grad on blobs")
def _(seed):
    def step(p, batch):
        x, y = batch
        loss = p.loss_fn(p.model(x), y)
        loss.backward()
        p.optimizer.step()

    return blobs(seed, step=step)


@case("G02", "zero_grad between backward and step, digits CNN")
def _(seed):
    def train_epoch(p):
        p.model.train()
        for images, labels in p.train_loader:
            loss = p.loss_fn(p.model(images), labels)
            loss.backward()
            p.optimizer.zero_grad()
            p.optimizer.step()

    return digits(seed, train_epoch=train_epoch)


@case("G03", "no optimizer.step, friedman")
def _(seed):
    def train_epoch(p):
        p.model.train()
        running = 0.0
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            loss = p.loss_fn(p.model(x), y)
            loss.backward()
            running += loss.item() * len(x)
        return running / len(p.train_loader.dataset)

    return friedman(seed, train_epoch=train_epoch)


@case("G04", "no backward, breast cancer")
def _(seed):
    def step(p, batch):
        x, y = batch
        p.optimizer.zero_grad()
        logits = p.model(x)
        loss = p.loss_fn(logits, y)
        p.optimizer.step()
        return loss.item()

    return cancer(seed, step=step)


@case("G05", "step and backward swapped, GRU adder")
def _(seed):
    def train_epoch(p):
        p.model.train()
        for ids, labels in p.train_loader:
            p.optimizer.zero_grad()
            loss = p.loss_fn(p.model(ids), labels)
            p.optimizer.step()
            loss.backward()

    return sums(seed, train_epoch=train_epoch)


@case("G06", "step dedented out of the batch loop, spiral")
def _(seed):
    def train_epoch(p):
        p.model.train()
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            loss = p.loss_fn(p.model(x), y)
            loss.backward()
        p.optimizer.step()

    return spiral(seed, train_epoch=train_epoch)


@case("G07", "5 micro-batches, loss not divided, shapes CNN")
def _(seed):
    def train_epoch(p):
        p.model.train()
        p.optimizer.zero_grad()
        for i, (x, y) in enumerate(p.train_loader):
            loss = p.loss_fn(p.model(x), y)
            loss.backward()
            if (i + 1) % 5 == 0:
                p.optimizer.step()
                p.optimizer.zero_grad()

    def opt(net):
        return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    return shapes(seed, opt=opt, batch=16, train_epoch=train_epoch, spec={"accumulate": 5, "epochs": 12})


@case("G10", "leftover micro-batches go into the next epoch, blobs")
def _(seed):
    def train_epoch(p):
        p.model.train()
        for i, (x, y) in enumerate(p.train_loader):
            loss = p.loss_fn(p.model(x), y) / 4
            loss.backward()
            if (i + 1) % 4 == 0:
                p.optimizer.step()
                p.optimizer.zero_grad()

    def opt(net):
        return torch.optim.SGD(net.parameters(), lr=0.06, momentum=0.9, weight_decay=5e-3)

    return blobs(seed, opt=opt, train_epoch=train_epoch, spec={"accumulate": 4, "epochs": 15})


class PlainRNN(nn.Module):
    def __init__(self, width=48, act="tanh", std=None):
        super().__init__()
        self.emb = nn.Embedding(5, 16)
        self.rnn = nn.RNN(16, width, nonlinearity=act, batch_first=True)
        self.out = nn.Linear(width, 5)
        if std:
            nn.init.normal_(self.rnn.weight_hh_l0, std=std)
            nn.init.normal_(self.rnn.weight_ih_l0, std=std)

    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])


@case("G14", "clipping gets the generator that the optimizer has used up")
def _(seed):
    torch.manual_seed(seed)
    net = PlainRNN(act="relu")
    params = net.parameters()
    optimizer = torch.optim.SGD(params, lr=1.0, momentum=0.9)

    def step(p, batch):
        ids, labels = batch
        p.optimizer.zero_grad()
        loss = p.loss_fn(p.model(ids), labels)
        loss.backward()
        clip_grad_norm_(params, max_norm=0.25)
        p.optimizer.step()

    return sums(seed, model=lambda: net, opt=lambda _: optimizer, step=step, spec={"max_norm": 0.25})


@case("G15", "clipping to 0.002 with SGD, shapes CNN")
def _(seed):
    def step(p, batch):
        x, y = batch
        p.optimizer.zero_grad()
        p.loss_fn(p.model(x), y).backward()
        clip_grad_norm_(p.model.parameters(), 0.002)
        p.optimizer.step()

    return shapes(seed, step=step, spec={"max_norm": 0.002})


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(256, 64, 64, 64, 64, 256)

    def forward(self, x):
        return self.net(x)


def denoise_loaders(seed):
    noisy, _ = shape_data(1000, 206, 0.5)
    clean, _ = shape_data(1000, 206, 0.0)
    noisy, clean = noisy.flatten(1), clean.flatten(1)
    noisy = (noisy - noisy[:800].mean()) / noisy[:800].std()
    clean = (clean - clean[:800].mean()) / clean[:800].std()
    train = DataLoader(TensorDataset(noisy[:800], clean[:800]), batch_size=50, shuffle=True)
    return train, DataLoader(TensorDataset(noisy[800:], clean[800:]), batch_size=100)


def denoise(seed, half):
    torch.manual_seed(seed)
    net = Denoiser()
    train, val = denoise_loaders(seed)

    def step(p, batch):
        noisy, clean = batch
        p.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=half):
            restored = p.model(noisy)
        loss = 0.1 * F.mse_loss(restored.float(), clean) / len(train.dataset)  # share of the epoch's loss
        loss.backward()
        p.optimizer.step()

    program = Program(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=2e-3, eps=1e-12),
        loss_fn=lambda out, y: F.mse_loss(out.float(), y),
        train_loader=train,
        val_loader=val,
        step=step,
        metric=r2,
    )
    return program, Spec(task="regression", epochs=10)


@case("sound", "denoiser")
def denoiser(seed):
    return denoise(seed, False)


@case("G17", "autocast to float16 without a scaler, denoiser")
def _(seed):
    return denoise(seed, True)


@case("G18", "minimises the log-likelihood, digits CNN")
def _(seed):
    def step(p, batch):
        images, labels = batch
        log_p = F.log_softmax(p.model(images), 1)
        loss = log_p[torch.arange(len(labels)), labels].mean()
        p.optimizer.zero_grad()
        loss.backward()
        p.optimizer.step()

    return digits(seed, step=step)


@case("G20", "features taken by .data, vote over padded sequences")
def _(seed):
    class Cut(Vote):
        def forward(self, ids):
            h = torch.relu(self.mix(self.emb(ids))).data
            return self.head(self.pool(h, ids))

    return votes(seed, model=lambda: Cut(6))


@case("G21", "no_grad around the training forward, breast cancer")
def _(seed):
    def step(p, batch):
        x, y = batch
        p.optimizer.zero_grad()
        with torch.no_grad():
            loss = p.loss_fn(p.model(x), y)
        loss.backward()
        p.optimizer.step()

    return cancer(seed, step=step)


@case("G23", "hidden state carried over without detach, next symbol")
def _(seed):
    class Carry(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(12, 16)
            self.rnn = nn.GRU(16, 32, batch_first=True)
            self.out = nn.Linear(32, 12)

        def forward(self, ids, hidden=None):
            h, hidden = self.rnn(self.emb(ids), hidden)
            return self.out(h), hidden

    def train_epoch(p):
        p.model.train()
        hidden = None
        for ids, nxt in p.train_loader:
            p.optimizer.zero_grad()
            logits, hidden = p.model(ids, hidden)
            loss = p.loss_fn(logits, nxt)
            loss.backward()
            p.optimizer.step()

    return chain(seed, model=Carry, forward=lambda m, ids: m(ids)[0], train_epoch=train_epoch, spec={"tied": ()})


@case("G24", "validation without eval(), digits CNN with dropout and batch norm")
def _(seed):
    @torch.no_grad()
    def evaluate(p):
        loss, right, n = 0.0, 0, 0
        for images, labels in p.val_loader:
            logits = p.model(images)
            loss += p.loss_fn(logits, labels).item() * len(labels)
            right += (logits.argmax(1) == labels).sum().item()
            n += len(labels)
        return {"loss": loss / n, "accuracy": right / n}

    return digits(seed, model=lambda: DigitNet(p=0.4), evaluate=evaluate)


@case("G25", "train() is called once, validate() leaves eval mode, digits CNN")
def _(seed):
    def train_epoch(p):
        for images, labels in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(images), labels).backward()
            p.optimizer.step()

    @torch.no_grad()
    def validate(p):
        p.model.eval()
        right = sum((p.model(x).argmax(1) == y).sum().item() for x, y in p.val_loader)
        return {"accuracy": right / len(p.val_loader.dataset)}

    program, spec = digits(seed, train_epoch=train_epoch, evaluate=validate)
    program.model.train()
    return program, spec


@case("G27", "sum of batch means over the number of examples, blobs")
def _(seed):
    @torch.no_grad()
    def evaluate(p):
        p.model.eval()
        total = 0.0
        for x, y in p.val_loader:
            total += p.loss_fn(p.model(x), y).item()
        p.model.train()
        return {"val_loss": total / len(p.val_loader.dataset)}

    return blobs(seed, evaluate=evaluate)


@case("G30", "one-cycle schedule over batches, stepped once an epoch, shapes CNN")
def _(seed):
    torch.manual_seed(seed)
    net = shape_net()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, epochs=12, steps_per_epoch=25)
    return shapes(seed, model=lambda: net, opt=lambda _: optimizer, scheduler=schedule, spec={"epochs": 12})


@case("G32", "checkpoint holds the weights alone, Adam with a schedule")
def _(seed):
    def save(p):
        return copy.deepcopy(p.model.state_dict())

    def load(p, state):
        p.model.load_state_dict(state)

    program, spec = friedman(seed, save=save, load=load)
    program.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(program.optimizer, T_max=15)
    return program, spec


# ================================================================ P: parameters


@case("P01", "residual blocks in a Python list, blobs")
def _(seed):
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(10, 24)
            self.blocks = [nn.Sequential(nn.Linear(24, 24), nn.ReLU()) for _ in range(3)]
            self.out = nn.Linear(24, 5)

        def forward(self, x):
            h = torch.relu(self.inp(x))
            for block in self.blocks:
                h = block(h)
            return self.out(h)

    return blobs(seed, model=Deep)


@case("P02", "hand-made layer with plain tensors, friedman")
def _(seed):
    class Rbf(nn.Module):
        def __init__(self):
            super().__init__()
            self.centres = torch.randn(32, 8, requires_grad=True)
            self.width = torch.full((32,), 0.1, requires_grad=True)
            self.out = nn.Linear(32, 1)

        def forward(self, x):
            d = ((x[:, None] - self.centres) ** 2).sum(-1)
            return self.out(torch.exp(-self.width * d))[:, 0]

    return friedman(seed, model=Rbf)


@case("P03", "optimizer has the classifier's parameters only, shapes CNN")
def _(seed):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = shape_net()[:-1]
            self.classifier = nn.Linear(16, 4)

        def forward(self, x):
            return self.classifier(self.features(x))

    return shapes(seed, model=Net, opt=lambda m: torch.optim.Adam(m.classifier.parameters(), lr=5e-3))


@case("P04", "model copied after the optimizer was made, spiral")
def _(seed):
    torch.manual_seed(seed)
    net = mlp(2, 32, 32, 3, act=nn.Tanh)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    net = copy.deepcopy(net)
    return spiral(seed, model=lambda: net, opt=lambda _: optimizer)


@case("P06", "freezes all but batch norm in place of batch norm, digits CNN")
def _(seed):
    def opt(net):
        for name, q in net.named_parameters():
            if "bn" not in name:
                q.requires_grad = False
        return torch.optim.Adam([q for q in net.parameters() if q.requires_grad], lr=2e-3)

    return digits(seed, opt=opt, spec={"frozen": ("bn1.*", "bn2.*")})


@case("P08", "backbone unfrozen in epoch 3, optimizer made from a filter before")
def _(seed):
    torch.manual_seed(seed)
    net = FineTuned()
    for q in net.backbone.parameters():
        q.requires_grad_(False)
    optimizer = torch.optim.Adam([q for q in net.parameters() if q.requires_grad], lr=2e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)

    def train_epoch(p):
        if p.scheduler.last_epoch == 3:
            for q in p.model.backbone.parameters():
                q.requires_grad_(True)
        p.model.train()
        for x, y in p.train_loader:
            p.run_step((x, y))
        p.scheduler.step()

    return digits(
        seed,
        model=lambda: net,
        opt=lambda _: optimizer,
        scheduler=schedule,
        train_epoch=train_epoch,
        spec={"epochs": 10, "scheduler_steps": "epoch"},
    )


@case("P11", "output layer is a copy of the embedding, tiny GPT")
def _(seed):
    class Untied(TinyGPT):
        def __init__(self):
            super().__init__()
            self.out.weight = nn.Parameter(self.emb.weight.detach().clone())

    return chain(seed, model=Untied)


@case("P14", "float64 inputs into a float32 model, breast cancer")
def _(seed):
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x[:420].mean(0)) / x[:420].std(0)
    data = TensorDataset(torch.from_numpy(x[:420]), torch.from_numpy(y[:420]).float())
    held_out = TensorDataset(torch.from_numpy(x[420:]), torch.from_numpy(y[420:]).float())
    return cancer(
        seed,
        train_loader=DataLoader(data, batch_size=30, shuffle=True),
        val_loader=DataLoader(held_out, batch_size=64),
    )


@case("P15", "second tower made but not called, digits CNN")
def _(seed):
    class TwoTowers(nn.Module):
        def __init__(self):
            super().__init__()
            self.fine = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
            self.coarse = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
            self.head = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10))

        def forward(self, x):
            fine = self.fine(x)
            return self.head(fine.flatten(1))

    return digits(seed, model=TwoTowers)


@case("P17", "batch norm momentum 0.001, digits CNN")
def _(seed):
    return digits(seed, model=lambda: DigitNet(momentum=0.001))


# ================================================================ A: architecture


@case("A02", "weights from N(0, 1), digits MLP")
def _(seed):
    def model():
        net = mlp(64, 64, 64, 10)
        for m in net:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight)
                nn.init.zeros_(m.bias)
        return FlatDigits(net)

    return digits(seed, model=model, opt=lambda m: torch.optim.SGD(m.parameters(), lr=0.02, momentum=0.9))


@case("A03", "weights from N(0, 1e-4) in 6 layers, blobs")
def _(seed):
    def model():
        net = mlp(10, 32, 32, 32, 32, 32, 5)
        for m in net:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=1e-4)
        return net

    return blobs(seed, model=model)


@case("A05", "biases of -8 before ReLU, friedman")
def _(seed):
    def model():
        net = mlp(8, 32, 32, 1)
        for m in net[:-1]:
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.bias, -8.0)
        return Curve(net)

    return friedman(seed, model=model)


@case("A06", "tanh layers with weights of U(-4, 4), blobs")
def _(seed):
    def model():
        net = mlp(10, 32, 32, 5, act=nn.Tanh)
        for m in net[:-1]:
            if isinstance(m, nn.Linear):
                nn.init.uniform_(m.weight, -4, 4)
        return net

    return blobs(seed, model=model)


@case("A07", "9 sigmoid layers, digits MLP")
def _(seed):
    return digits(
        seed,
        model=lambda: FlatDigits(mlp(64, *[48] * 9, 10, act=nn.Sigmoid)),
        opt=lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9),
    )


@case("A08", "ReLU RNN with a recurrent matrix of N(0, 0.4)")
def _(seed):
    def opt(m):
        return torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)

    return sums(seed, model=lambda: PlainRNN(act="relu", std=0.4), opt=opt)


@case("A09", "no activation between the layers, spiral")
def _(seed):
    return spiral(seed, model=lambda: nn.Sequential(nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 3)))


@case("A11", "encoder layer without batch_first, most frequent symbol")
def _(seed):
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(5, 16)
            self.pos = nn.Parameter(0.1 * torch.randn(14, 16))
            self.mix = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
            self.head = nn.Linear(16, 5)

        def forward(self, ids):
            return self.head(self.mix(self.emb(ids) + self.pos).mean(1))

    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(110)
    x = torch.randint(0, 5, (2200, 14), generator=g)
    counts = F.one_hot(x, 5).sum(1)
    top2 = counts.topk(2).values
    x, y = x[top2[:, 0] > top2[:, 1]], counts.argmax(1)[top2[:, 0] > top2[:, 1]]  # the most frequent symbol
    keep = torch.cat([(y == k).nonzero()[:220, 0] for k in range(5)])
    keep = keep[torch.randperm(len(keep), generator=g)]
    x, y = x[keep], y[keep]
    net = Encoder()
    program = Program(
        model=net,
        optimizer=torch.optim.AdamW(net.parameters(), lr=5e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[:800], y[:800]), batch_size=32, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[800:], y[800:]), batch_size=100),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=5, epochs=12)


@case("A13", "squeeze() after global pooling, shapes CNN")
def _(seed):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = shape_net()[:-2]
            self.fc = nn.Linear(16, 4)

        def forward(self, x):
            return self.fc(self.features(x).squeeze())

    return shapes(seed, model=Net)


@case("A14", "in_features as if there was one pooling, digits CNN")
def _(seed):
    class Wrong(DigitNet):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(24 * 4 * 4, 10)

    return digits(seed, model=Wrong)


@case("A16", "mean over the padding too, share of marks in a sequence")
def _(seed):
    class Leaky(Vote):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 1)

        def forward(self, ids):
            h = torch.relu(self.mix(self.emb(ids)))
            return self.head(h.mean(1))[:, 0]

    return shares(seed, model=Leaky)


@case("A18", "dropout of 0.9 after each layer, friedman")
def _(seed):
    return friedman(seed, model=lambda: Curve(mlp(8, 32, 32, 1, dropout=0.9)))


@case("A20", "bottleneck of 1 unit, digits CNN")
def _(seed):
    class Narrow(DigitNet):
        def __init__(self):
            super().__init__(p=0.0)
            self.fc = nn.Sequential(nn.Linear(96, 1), nn.Tanh(), nn.Linear(1, 10))

    return digits(seed, model=Narrow)


@case("A21", "2 x 512 units on 300 noisy examples of 60 features")
def _(seed):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(111)
    centres = 0.25 * torch.randn(3, 60, generator=g)
    y = torch.arange(600) % 3
    x = centres[y] + torch.randn(600, 60, generator=g)
    net = mlp(60, 512, 512, 3)
    program = Program(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=1e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[:300], y[:300]), batch_size=30, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[300:], y[300:]), batch_size=100),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=3, epochs=20)


# ================================================================ H: settings


@case("H01", "Adam with lr 0.2, digits CNN")
def _(seed):
    return digits(seed, opt=lambda m: torch.optim.Adam(m.parameters(), lr=0.2))


@case("H02", "AdamW with lr 1e-6, breast cancer")
def _(seed):
    return cancer(seed, opt=lambda m: torch.optim.AdamW(m.parameters(), lr=1e-6, weight_decay=0.05))


@case("H03", "full batch at the mini-batch's lr, shapes CNN")
def _(seed):
    return shapes(seed, batch=800)


@case("H04", "3 epochs where 20 are needed, spiral")
def _(seed):
    return spiral(seed, opt=lambda m: torch.optim.Adam(m.parameters(), lr=3e-3), spec={"epochs": 3})


# ================================================================ K: healthy


@case("K16", "log counts as z-scores up to 5")
def _(seed):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(112)
    counts = torch.poisson(torch.exp(1 + 1.2 * torch.randn(1300, 12, generator=g)), generator=g)
    z = torch.log1p(counts)
    z = (z - z[:1000].mean(0)) / z[:1000].std(0)
    w = torch.randn(12, generator=g)
    score = z @ w + 1.5 * z[:, 0] * z[:, 1] + 0.5 * torch.randn(1300, generator=g)
    y = torch.bucketize(score, torch.quantile(score, torch.tensor([1 / 3, 2 / 3])))
    net = mlp(12, 32, 3)
    program = Program(
        model=net,
        optimizer=torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=0.05),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(z[:1000], y[:1000]), batch_size=40, shuffle=True),
        val_loader=DataLoader(TensorDataset(z[1000:], y[1000:]), batch_size=100),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=3, epochs=12)


@case("K17", "ids up to 50 000 into an embedding bag")
def _(seed):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(113)
    words = torch.randperm(50_000, generator=g)[:240].view(4, 60)
    y = torch.arange(1500) % 4
    own = torch.gather(words[y], 1, torch.randint(0, 60, (1500, 12), generator=g))
    other = words.flatten()[torch.randint(0, 240, (1500, 12), generator=g)]
    x = torch.where(torch.rand(1500, 12, generator=g) < 0.5, own, other)
    order = torch.randperm(1500, generator=g)
    x, y = x[order], y[order]

    class Topics(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(50_000, 8)
            nn.init.normal_(self.emb.weight, std=0.1)
            self.head = nn.Linear(8, 4)

        def forward(self, ids):
            return self.head(self.emb(ids).mean(1))

    net = Topics()
    program = Program(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=1e-2),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[:1200], y[:1200]), batch_size=40, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[1200:], y[1200:]), batch_size=100),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=4, epochs=8)


@case("K18", "easy images, nearly all right")
def _(seed):
    return shapes(seed)


@case("K21", "mixture of experts with a softmax gate, digits")
def _(seed):
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Sequential(nn.Linear(64, 3), nn.Softmax(dim=1))
            self.experts = nn.ModuleList(mlp(64, 24, 10, dropout=0.2) for _ in range(3))

        def forward(self, x):
            x = x.flatten(1)
            votes = torch.stack([e(x) for e in self.experts], 1)
            return (self.gate(x).unsqueeze(-1) * votes).sum(1)

    return digits(seed, model=Experts, opt=lambda m: torch.optim.Adam(m.parameters(), lr=3e-3))


@case("K22", "Gaussian likelihood of a sine with little noise")
def _(seed):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(114)
    x = 4 * torch.rand(1300, 1, generator=g) - 2
    y = torch.sin(2 * x[:, 0]) + (0.05 + 0.1 * x[:, 0].abs()) * torch.randn(1300, generator=g)
    x = x / x[:1000].std()

    def nll(out, target):
        mean, log_var = out[:, 0], out[:, 1]
        return 0.5 * (log_var + (target - mean) ** 2 / log_var.exp()).mean()

    net = mlp(1, 32, 32, 2, act=nn.Tanh)
    program = Program(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=5e-3),
        loss_fn=nll,
        train_loader=DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=40, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[1000:], y[1000:]), batch_size=100),
        metric=lambda out, target: r2(out[:, 0], target),
    )
    return program, Spec(task="regression", epochs=25)


@case("K23", "warm-up from 0 and cosine restarts, friedman")
def _(seed):
    torch.manual_seed(seed)
    net = Curve()
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-3, weight_decay=0.01)
    per_epoch, warm = 25, 40

    def factor(i):
        if i < warm:
            return i / warm
        t = (i - warm) % (5 * per_epoch) / (5 * per_epoch)
        return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * t))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)

    def train_epoch(p):
        p.model.train()
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            p.optimizer.step()
            p.scheduler.step()

    return friedman(
        seed,
        model=lambda: net,
        opt=lambda _: optimizer,
        scheduler=schedule,
        train_epoch=train_epoch,
        spec={"epochs": 16, "scheduler_steps": "batch"},
    )


@case("K26", "fine-tuning with batch norm kept in eval mode, digits")
def _(seed):
    class FrozenNorm(FineTuned):
        def train(self, mode=True):
            super().train(mode)
            self.backbone.bn1.eval()
            self.backbone.bn2.eval()
            return self

    return digits(seed, model=FrozenNorm, spec={"eval_modules": ("backbone.bn1", "backbone.bn2")})


@case("K28", "supervised contrastive embedding of digits")
def _(seed):
    def contrastive(z, labels):
        sim = z @ z.T / 0.2
        sim = sim.masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
        log_p = sim - sim.logsumexp(1, keepdim=True)
        same = (labels[:, None] == labels[None]).float() - torch.eye(len(z))
        pairs = same.sum(1)
        return -((log_p * same).sum(1) / pairs.clamp(min=1))[pairs > 0].mean()

    def nearest(z, labels):
        sim = (z @ z.T).fill_diagonal_(-2)
        return (labels[sim.argmax(1)] == labels).float().mean().item()

    class Embed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(64, 64, 16, dropout=0.1)

        def forward(self, x):
            return F.normalize(self.body(x.flatten(1)), dim=1)

    return digits(
        seed,
        model=Embed,
        batch=56,
        opt=lambda m: torch.optim.Adam(m.parameters(), lr=2e-3),
        loss_fn=contrastive,
        metric=nearest,
        val_loader=DataLoader(TensorDataset(*digit_data()[2:]), batch_size=56, drop_last=True),
        spec={"task": None, "classes": None, "couples_samples": True},
    )


@case("K32", "a sanity run that overfits one batch and reports on the same batch")
def _(seed):
    xt, yt, _, _ = digit_data()
    batch = (xt[:40], yt[:40])

    @torch.no_grad()
    def evaluate(p):
        p.model.eval()
        x, y = batch
        out = p.model(x)
        p.model.train()
        return {"batch_loss": p.loss_fn(out, y).item(), "batch_accuracy": accuracy(out, y)}

    return digits(
        seed,
        model=lambda: DigitNet(p=0.0),
        train_loader=[batch],
        val_loader=None,
        evaluate=evaluate,
        spec={"epochs": 50, "examples": 40},
    )


@case("K34", "parity of 3 of 12 bits: a plateau first")
def _(seed):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(115)
    ids = torch.randperm(4096, generator=g)[:1900]
    bits = (ids[:, None] >> torch.arange(12)) & 1
    y = bits[:, [1, 4, 9]].sum(1) % 2
    x = bits.float() * 2 - 1
    net = mlp(12, 64, 2)
    program = Program(
        model=net,
        optimizer=torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.05),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=30, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[1500:], y[1500:]), batch_size=100),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=2, epochs=22)


@case("K35", "validation from another scanner on purpose")
def _(seed):
    xt, yt = shape_data(800, 116)
    xv, yv = shape_data(240, 117, 0.5, 1.1, 0.12)
    m, s = xt.mean(), xt.std()
    return shapes(
        seed,
        train_loader=DataLoader(TensorDataset((xt - m) / s, yt), batch_size=32, shuffle=True),
        val_loader=DataLoader(TensorDataset((xv - m) / s, yv), batch_size=80),
        spec={"shift_expected": True},
    )


@case("K36", "tiny GPT with AdamW and clipping to 1.0")
def _(seed):
    def step(p, batch):
        ids, nxt = batch
        p.optimizer.zero_grad()
        # the sum over positions, as usual in papers: its gradient is nearly always longer than 1
        (p.loss_fn(p.model(ids), nxt) * ids.shape[1]).backward()
        clip_grad_norm_(p.model.parameters(), 1.0)
        p.optimizer.step()

    return chain(seed, step=step, spec={"max_norm": 1.0})
