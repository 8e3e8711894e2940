"""Batches of one part, losses without targets, no loader, drawing at evaluation, shifted pictures."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from bank.data_augmentation import augmented
from bank.programs import accuracy, changed, digits_data, make
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

from .register import sound


def coder() -> nn.Module:
    """64 pixels through 12 numbers."""
    return nn.Sequential(
        *(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 12), nn.ReLU()),
        *(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 64)),
    )


@sound("autoencoder on TensorDataset(x), the author's own loop", "one part")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    data, model = digits_data(), coder()

    def train_epoch(p: Program) -> None:
        p.model.train()
        for (x,) in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), x).backward()
            p.optimizer.step()

    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        with torch.no_grad():
            return {"loss": sum(float(p.loss_fn(p.model(x), x)) * len(x) for (x,) in p.val_loader) / 300}

    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=3e-3),
        nn.MSELoss(),
        DataLoader(TensorDataset(data.x), 64, shuffle=True),
        DataLoader(TensorDataset(data.x_val), 64),
        train_epoch=train_epoch,
        evaluate=evaluate,
    ), Spec(epochs=10)


@sound("autoencoder that unpacks its inputs as targets")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    data, model = digits_data(), coder()
    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=3e-3),
        nn.MSELoss(),
        DataLoader(TensorDataset(data.x), 64, shuffle=True),
        DataLoader(TensorDataset(data.x_val), 64),
        unpack=lambda batch: (batch[0], batch[0]),
    ), Spec(task="regression", epochs=30)


class VAE(nn.Module):
    """Mean, logarithm of the variance, and a picture drawn from them."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.mean, self.log = nn.Linear(64, 48), nn.Linear(48, 6), nn.Linear(48, 6)
        self.write = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Picture, mean, logarithm of the variance."""
        hidden = self.read(x).relu()
        mean, log = self.mean(hidden), self.log(hidden)
        return self.write(mean + torch.randn_like(mean) * (0.5 * log).exp()), mean, log


def evidence_bound(outputs: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    """Minus the evidence's lower bound for each example."""
    picture, mean, log = outputs
    divergence = -0.5 * (1 + log - mean.square() - log.exp()).sum(dim=1).mean()
    return F.mse_loss(picture, x, reduction="sum") / len(x) + divergence


@sound("variational autoencoder, outputs in a tuple", "tuple")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    data, model = digits_data(), VAE()
    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=3e-3),
        evidence_bound,
        DataLoader(TensorDataset(data.x), 64, shuffle=True),
        DataLoader(TensorDataset(data.x_val), 64),
        unpack=lambda batch: (batch[0], batch[0]),
    ), Spec(epochs=10)


def nt_xent(both: Tensor) -> Tensor:
    """Each view's other view is its class, among all others."""
    both = F.normalize(both, dim=1)
    scores = both @ both.t() / 0.3
    scores = scores.masked_fill(torch.eye(len(both), dtype=torch.bool), -1e9)
    half = len(both) // 2
    return F.cross_entropy(scores, torch.arange(len(both)).roll(half))


@sound("contrastive learning of two views (SimCLR)", "one part")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    data = digits_data()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))

    def views(x: Tensor) -> Tensor:
        return torch.cat([x + 0.4 * torch.randn_like(x), x + 0.4 * torch.randn_like(x)])

    def train_epoch(p: Program) -> None:
        p.model.train()
        for (x,) in p.train_loader:
            p.optimizer.zero_grad()
            nt_xent(p.model(views(x))).backward()
            p.optimizer.step()

    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        with torch.no_grad():
            known, new = F.normalize(p.model(data.x)), F.normalize(p.model(data.x_val))
            return {"nearest": float((data.y[(new @ known.t()).argmax(1)] == data.y_val).float().mean())}

    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=2e-3),
        None,
        DataLoader(TensorDataset(data.x), 100, shuffle=True, drop_last=True),
        DataLoader(TensorDataset(data.x_val), 100),
        train_epoch=train_epoch,
        evaluate=evaluate,
    ), Spec(epochs=6)


class Followed(nn.Module):
    """A student and a teacher that follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = (nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10)) for _ in range(2))
        self.teacher.load_state_dict(self.student.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        """What the student says."""
        return self.student(x)


def taught(asking: bool) -> tuple[Program, Spec]:
    """A mean teacher, whose weights ask for a gradient or do not."""

    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        with torch.no_grad():
            wanted = p.model.teacher(x).softmax(1)
        given = p.model(x + 0.2 * torch.randn_like(x))
        p.optimizer.zero_grad()
        (p.loss_fn(given, y) + (given.softmax(1) - wanted).square().mean()).backward()
        p.optimizer.step()
        with torch.no_grad():
            for one, other in zip(p.model.teacher.parameters(), p.model.student.parameters(), strict=True):
                one.lerp_(other, 0.05)

    def model() -> nn.Module:
        found = Followed()
        found.teacher.requires_grad_(asking)
        return found

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.student.parameters(), lr=3e-3)

    return make("digits", 0, parts=changed("digits", model=model, optimizer=optimizer), step=step)


@sound("a mean teacher that is frozen")
def _() -> tuple[Program, Spec]:
    return taught(False)


@sound("a mean teacher under no_grad")
def _() -> tuple[Program, Spec]:
    return taught(True)


@sound("a loss that takes the outputs alone", "does not depend on the targets")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    data = digits_data()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        return torch.stack([model(x), model(x + 0.4 * x.roll(1, 1))], dim=1)

    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=2e-3),
        lambda outputs, _: nt_xent(torch.cat([outputs[:, 0], outputs[:, 1]])),
        DataLoader(TensorDataset(data.x, data.y), 100, shuffle=True, drop_last=True),
        DataLoader(TensorDataset(data.x_val, data.y_val), 100, drop_last=True),
        forward=forward,
    ), Spec(epochs=6)


@sound("triplets", "does not take the batches")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    data = digits_data()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))
    loss = nn.TripletMarginLoss(margin=0.5)

    def triplets(x: Tensor, y: Tensor) -> TensorDataset:
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(len(y), generator=generator)
        near = torch.stack([x[order][y[order] == label][1] for label in y.tolist()])
        far = torch.stack([x[order][y[order] != label][n % 50] for n, label in enumerate(y.tolist())])
        return TensorDataset(x, near, far)

    def step(p: Program, batch: tuple[Tensor, Tensor, Tensor]) -> None:
        p.optimizer.zero_grad()
        loss(*map(p.model, batch)).backward()
        p.optimizer.step()

    def evaluate(p: Program) -> float:
        p.model.eval()
        with torch.no_grad():
            return float(sum(loss(*map(p.model, b)) * len(b[0]) for b in p.val_loader) / 300)

    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=2e-3),
        None,
        DataLoader(triplets(data.x, data.y), 50, shuffle=True),
        DataLoader(triplets(data.x_val, data.y_val), 50),
        step=step,
        evaluate=evaluate,
    ), Spec(epochs=6)


class GCN(nn.Module):
    """Two layers over a graph."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.one, self.other, self.dropout = nn.Linear(features, 16), nn.Linear(16, classes), nn.Dropout(0.3)

    def forward(self, x: Tensor, near: Tensor) -> Tensor:
        """Scores of each node."""
        return self.other(near @ self.dropout((near @ self.one(x)).relu()))


def graph() -> tuple[Tensor, Tensor, Tensor]:
    """Features, labels and the normalised neighbourhoods of 240 nodes in three communities."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(240) % 3
    linked = torch.rand(240, 240, generator=generator) < torch.where(y[:, None] == y, 0.06, 0.01)
    linked = (linked | linked.t()).float() + torch.eye(240)
    degree = linked.sum(1).rsqrt()
    x = torch.randn(240, 8, generator=generator) + 0.5 * F.one_hot(y, 8)
    return x, y, degree[:, None] * linked * degree


def on_a_graph(loaders: str) -> tuple[Program, Spec]:
    """Semi-supervised: 60 nodes are labelled, 90 are for validation."""
    torch.manual_seed(0)
    x, y, near = graph()
    train, val = torch.arange(240) < 60, (torch.arange(240) >= 60) & (torch.arange(240) < 150)
    model = GCN(8, 3)

    def train_epoch(p: Program) -> None:
        p.model.train()
        for _ in range(10):
            p.optimizer.zero_grad()
            F.cross_entropy(p.model(x, near)[train], y[train]).backward()
            p.optimizer.step()

    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        with torch.no_grad():
            outputs = p.model(x, near)
        return {"accuracy": accuracy(outputs[val], y[val])}

    p = Program(
        model,
        torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4),
        F.cross_entropy,
        None,
        train_epoch=train_epoch,
        evaluate=evaluate,
    )
    if loaders == "rows":
        p.train_loader, p.val_loader = [(x, torch.where(train, y, -100))], [(x, torch.where(val, y, -100))]
        p.forward = lambda model, x: model(x, near)
        p.train_epoch = p.evaluate = None
        p.metric = accuracy
        return p, Spec(task="classification", classes=3, epochs=100, ignore_index=-100)
    return p, Spec(task="classification", classes=3, epochs=10)


@sound("one graph, no loader", "no train_loader")
def _() -> tuple[Program, Spec]:
    return on_a_graph("")


@sound("one graph as the only batch of both loaders", "240 rows at once")
def _() -> tuple[Program, Spec]:
    return on_a_graph("rows")


@sound("one environment, no loader (REINFORCE)", "no train_loader")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def episode(p: Program) -> tuple[list[Tensor], list[float]]:
        place, logs, rewards = torch.randn(2), [], []
        for _ in range(12):
            drawn = torch.distributions.Categorical(logits=p.model(place))
            action = drawn.sample()
            logs.append(drawn.log_prob(action))
            place = 0.9 * place + torch.tensor([0.3, -0.3])[action] * torch.tensor([1.0, 0.0])
            rewards.append(-float(place[0].abs()))
        return logs, rewards

    def train_epoch(p: Program) -> None:
        for _ in range(20):
            logs, rewards = episode(p)
            returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
            returns = (returns - returns.mean()) / (returns.std() + 1e-6)
            p.optimizer.zero_grad()
            (-torch.stack(logs) * returns).sum().backward()
            p.optimizer.step()

    def evaluate(p: Program) -> float:
        with torch.no_grad():
            return sum(sum(episode(p)[1]) for _ in range(5)) / 5

    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    return Program(policy, optimizer, None, None, train_epoch=train_epoch, evaluate=evaluate), Spec(epochs=4)


def dropping(always: bool = False) -> Callable[[], nn.Module]:
    """A network with dropout; in evaluation too, where `always`."""

    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other, self.dropout = nn.Linear(64, 96), nn.Linear(96, 10), nn.Dropout(0.3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.one(x).relu()
            return self.other(F.dropout(hidden, 0.3, training=True) if always else self.dropout(hidden))

    return Dropped


def mean_of_draws(switch: Callable[[nn.Module], None]) -> Callable[[Program], dict[str, float]]:
    """An evaluation by the mean of 20 draws."""

    def evaluate(p: Program) -> dict[str, float]:
        p.model.eval()
        switch(p.model)
        outputs, targets = [], []
        with torch.no_grad():
            for x, y in p.val_loader:
                outputs.append(torch.stack([p.model(x).softmax(1) for _ in range(20)]).mean(0))
                targets.append(y)
        given, y = torch.cat(outputs), torch.cat(targets)
        loss = float(F.nll_loss(given.clamp(min=1e-9).log(), y))
        return {"loss": loss, "accuracy": accuracy(given, y)}

    return evaluate


def dropout_alone(model: nn.Module) -> None:
    """Switch dropout on."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.train()


@sound("Monte-Carlo dropout, the layers switched on", "draws random numbers")
def _() -> tuple[Program, Spec]:
    return make("digits", 0, parts=changed("digits", model=dropping()), evaluate=mean_of_draws(dropout_alone))


@sound("Monte-Carlo dropout from a seed of its own", "several times")
def _() -> tuple[Program, Spec]:
    evaluate = mean_of_draws(dropout_alone)

    def seeded(p: Program) -> dict[str, float]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return evaluate(p)

    return make("digits", 0, parts=changed("digits", model=dropping()), evaluate=seeded)


@sound("one draw of noise at evaluation, from a seed", "draws random numbers")
def _() -> tuple[Program, Spec]:
    def evaluate(p: Program) -> float:
        torch.manual_seed(0)
        p.model.eval()
        with torch.no_grad():
            # A number for an example: whole blocks of 16 numbers would be drawn alike in batches of any size.
            moved = ((x + 0.5 * torch.randn(len(x), 1), y) for x, y in p.val_loader)
            losses = [F.cross_entropy(p.model(x), y) * len(y) for x, y in moved]
        return float(sum(losses)) / 300

    return make("digits", 0, evaluate=evaluate)


@sound("Monte-Carlo dropout by train()", "several times")
def _() -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for batch in p.train_loader:
            p.run_step(batch)

    evaluate = mean_of_draws(lambda model: model.train() and None)
    return make("digits", 0, parts=changed("digits", model=dropping()), train_epoch=train_epoch, evaluate=evaluate)


@sound("Monte-Carlo dropout in the model itself", "several times", "draws random numbers")
def _() -> tuple[Program, Spec]:
    evaluate = mean_of_draws(lambda model: None)
    return make("digits", 0, parts=changed("digits", model=dropping(always=True)), evaluate=evaluate)


def moved(x: Tensor) -> Tensor:
    """A picture [1, H, W] moved by at most one pixel."""
    by = torch.randint(-1, 2, (2,)).tolist()
    wide = F.pad(x, (1, 1, 1, 1), value=float(x.min()))
    return wide[:, 1 + by[0] : 1 + by[0] + x.shape[1], 1 + by[1] : 1 + by[1] + x.shape[2]]


@sound("8 x 8 digits moved by a pixel in the data set", "few pixels")
def _() -> tuple[Program, Spec]:
    return augmented("digits", 0, lambda x: moved(x.view(1, 8, 8)).reshape(64))


@sound("shapes moved by a pixel in the data set", "few pixels")
def _() -> tuple[Program, Spec]:
    return augmented("shapes", 0, moved)


@sound("8 x 8 digits moved by a pixel in the step", "few pixels")
def _() -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        p.loss_fn(p.model(torch.stack([moved(one.view(1, 8, 8)).reshape(64) for one in x])), y).backward()
        p.optimizer.step()

    return make("digits", 0, step=step)


@sound("8 x 8 digits as pictures, moved by a pixel, in a short run", "few pixels")
def _() -> tuple[Program, Spec]:
    data = digits_data()

    def pictures(x: Tensor) -> Tensor:
        return x.view(-1, 1, 8, 8)

    class Moving(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(data.y)

        def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
            return moved(data.x[number].view(1, 8, 8)), data.y[number]

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(768, 10))
    return Program(
        model,
        torch.optim.Adam(model.parameters(), lr=2e-3),
        F.cross_entropy,
        DataLoader(Moving(), 64, shuffle=True),
        DataLoader(TensorDataset(pictures(data.x_val), data.y_val), 64),
        plain_loader=DataLoader(TensorDataset(pictures(data.x), data.y), 64),
        metric=accuracy,
    ), Spec(task="classification", classes=10, epochs=6)
