"""Several optimizers, closures, several passes a step, and none at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from bank.programs import accuracy, changed, digits_data, make, r2, regression_data
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

from .register import sound


class Game(nn.Module):
    """A generator of points and a discriminator."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def forward(self, noise: Tensor) -> Tensor:
        """Points for noise."""
        return self.generator(noise)


def ring(count: int) -> Tensor:
    """Points near a circle."""
    generator = torch.Generator().manual_seed(7)
    angle = 6.28 * torch.rand(count, generator=generator)
    return torch.stack([angle.cos(), angle.sin()], dim=1) + 0.1 * torch.randn(count, 2, generator=generator)


def energy(p: Program) -> dict[str, float]:
    """How far the drawn points are from real ones."""
    with torch.no_grad():
        fake = p.model.generator(torch.randn(200, 4, generator=torch.Generator().manual_seed(0)))
        real = ring(200)
        apart = torch.cdist(fake, real).mean()
        return {"energy": float(2 * apart - torch.cdist(fake, fake).mean() - torch.cdist(real, real).mean())}


def game(seed: int, train_epoch: Callable[[Program], None], rate: float = 1e-3) -> tuple[Program, Spec]:
    """A game on batches of one part: TensorDataset(points)."""
    torch.manual_seed(seed)
    model = Game()
    of_d = torch.optim.Adam(model.discriminator.parameters(), lr=rate, betas=(0.5, 0.999))
    of_g = torch.optim.Adam(model.generator.parameters(), lr=rate, betas=(0.5, 0.999))
    loader = DataLoader(TensorDataset(ring(640)), 64, shuffle=True)
    return Program(model, [of_d, of_g], None, loader, train_epoch=train_epoch, evaluate=energy), Spec(epochs=6)


@sound("GAN, the discriminator goes back twice", "has 2 optimizers", "one part and no targets")
def _() -> tuple[Program, Spec]:
    loss = nn.BCEWithLogitsLoss()

    def train_epoch(p: Program) -> None:
        of_d, of_g = p.optimizers
        for (real,) in p.train_loader:
            ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
            of_d.zero_grad()
            loss(p.model.discriminator(real), ones).backward()
            fake = p.model.generator(torch.randn(len(real), 4))
            loss(p.model.discriminator(fake.detach()), zeros).backward()
            of_d.step()
            of_g.zero_grad()
            loss(p.model.discriminator(fake), ones).backward()
            of_g.step()

    return game(0, train_epoch)


@sound("WGAN, five steps of the critic for one of the generator, gradient penalty", "optimizers")
def _() -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        critic, generator = p.model.discriminator, p.model.generator
        of_d, of_g = p.optimizers
        for number, (real,) in enumerate(p.train_loader):
            fake = generator(torch.randn(len(real), 4)).detach()
            share = torch.rand(len(real), 1)
            mixed = (share * real + (1 - share) * fake).requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            of_d.zero_grad()
            (critic(fake).mean() - critic(real).mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()).backward()
            of_d.step()
            if number % 5 == 4:
                for parameter in critic.parameters():
                    parameter.requires_grad_(False)
                of_g.zero_grad()
                (-critic(generator(torch.randn(len(real), 4))).mean()).backward()
                of_g.step()
                for parameter in critic.parameters():
                    parameter.requires_grad_(True)

    return game(0, train_epoch)


@sound("GAN whose generator starts in the second epoch", "optimizers")
def _() -> tuple[Program, Spec]:
    count = [0]

    def train_epoch(p: Program) -> None:
        of_d, of_g = p.optimizers
        count[0] += 1
        for (real,) in p.train_loader:
            fake = p.model.generator(torch.randn(len(real), 4))
            of_d.zero_grad()
            (
                F.softplus(-p.model.discriminator(real)).mean()
                + F.softplus(p.model.discriminator(fake.detach())).mean()
            ).backward()
            of_d.step()
            if count[0] % 6 != 1:
                of_g.zero_grad()
                F.softplus(-p.model.discriminator(fake)).mean().backward()
                of_g.step()

    return game(0, train_epoch)


class ThreeParts(nn.Module):
    """An encoder, a head and a second head that must not know the group."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
        self.head = nn.Linear(48, 10)
        self.adversary = nn.Linear(48, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        return self.head(self.encoder(x))


@sound("three optimizers in turn: encoder, head and adversary", "optimizers")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    data, model = digits_data(), ThreeParts()
    optimizers = [torch.optim.Adam(one.parameters(), lr=3e-3) for one in (model.encoder, model.head, model.adversary)]

    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:
            group = (x[:, 20] > 0).long()
            hidden = p.model.encoder(x)
            p.optimizers[2].zero_grad()
            F.cross_entropy(p.model.adversary(hidden.detach()), group).backward()
            p.optimizers[2].step()
            for one in p.optimizers[:2]:
                one.zero_grad()
            unsure = -p.model.adversary(hidden).log_softmax(dim=1).mean()
            (p.loss_fn(p.model.head(hidden), y) + 0.05 * unsure).backward()
            p.optimizers[1].step()
            p.optimizers[0].step()

    return Program(
        model,
        optimizers,
        F.cross_entropy,
        DataLoader(TensorDataset(data.x, data.y), 64, shuffle=True),
        DataLoader(TensorDataset(data.x_val, data.y_val), 64),
        metric=accuracy,
        train_epoch=train_epoch,
    ), Spec(task="classification", classes=10, epochs=12)


@sound("matrices by SGD and vectors by Adam, both in each step", "optimizers")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    p, spec = make("digits", 0)
    matrices = [one for one in p.model.parameters() if one.ndim > 1]
    vectors = [one for one in p.model.parameters() if one.ndim == 1]
    p.optimizer = [torch.optim.SGD(matrices, lr=0.05, momentum=0.9), torch.optim.Adam(vectors, lr=3e-3)]
    return p, spec


@sound("L-BFGS on the whole data", "closure")
def _() -> tuple[Program, Spec]:
    torch.manual_seed(0)
    data = regression_data()
    model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))

    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                p.optimizer.zero_grad()
                loss = p.loss_fn(p.model(x), y)
                loss.backward()
                return loss

            p.optimizer.step(closure)

    return Program(
        model,
        torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=10, line_search_fn="strong_wolfe"),
        F.mse_loss,
        [(data.x, data.y)],
        [(data.x_val, data.y_val)],
        train_epoch=train_epoch,
        metric=r2,
    ), Spec(task="regression", epochs=8)


@sound("L-BFGS in large batches, in the author's step", "closure")
def _() -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch

        def closure() -> Tensor:
            p.optimizer.zero_grad()
            loss = p.loss_fn(p.model(x), y)
            loss.backward()
            return loss

        p.optimizer.step(closure)

    parts = changed(
        "regression", optimizer=lambda model: torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=4), batch_size=200
    )
    return make("regression", 0, Spec(task="regression", epochs=10), parts, step=step)


@sound("Adam with a closure", "closure")
def _() -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch

        def closure() -> Tensor:
            p.optimizer.zero_grad()
            loss = p.loss_fn(p.model(x), y)
            loss.backward()
            return loss

        p.optimizer.step(closure=closure)

    return make("digits", 0, step=step)


class SAM(torch.optim.Optimizer):
    """Sharpness-aware minimisation around another optimizer, as its best-known implementation has it."""

    def __init__(self, params: Iterable[nn.Parameter], base: type[torch.optim.Optimizer], rho: float, **settings: Any):
        super().__init__(params, {"rho": rho, **settings})
        self.base_optimizer = base(self.param_groups, **settings)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self) -> None:
        """Climb to the worst point nearby."""
        norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"] if p.grad is not None]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p]["old"] = p.data.clone()
                    p.add_(p.grad * group["rho"] / (norm + 1e-12))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self) -> None:
        """Go back, and take the base optimizer's step with the gradient from there."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old"]
        self.base_optimizer.step()
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Both, with a closure."""
        assert closure is not None
        closure = torch.enable_grad()(closure)
        self.first_step()
        closure()
        self.second_step()


def sam(model: nn.Module) -> torch.optim.Optimizer:
    """SAM around SGD."""
    return SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.05, momentum=0.9)


@sound("SAM, two named steps", "weights")
def _() -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        p.loss_fn(p.model(x), y).backward()
        p.optimizer.first_step()
        p.loss_fn(p.model(x), y).backward()
        p.optimizer.second_step()

    return make("digits", 0, parts=changed("digits", optimizer=sam), step=step)


@sound("SAM, a step with a closure", "closure")
def _() -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                loss = p.loss_fn(p.model(x), y)
                loss.backward()
                return loss

            closure()
            p.optimizer.step(closure)

    return make("digits", 0, parts=changed("digits", optimizer=sam), train_epoch=train_epoch)


@sound("SAM by hand around any optimizer", "passes")
def _() -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        weights = list(p.model.parameters())
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            with torch.no_grad():
                norm = torch.stack([one.grad.norm() for one in weights]).norm()
                moves = [0.05 * one.grad / norm for one in weights]
                for one, move in zip(weights, moves, strict=True):
                    one.add_(move)
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            with torch.no_grad():
                for one, move in zip(weights, moves, strict=True):
                    one.sub_(move)
            p.optimizer.step()

    return make("digits", 0, train_epoch=train_epoch)


@sound("R-Drop: two passes with other dropout, one loss")
def _() -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        one, other = p.model(x), p.model(x)
        apart = F.kl_div(one.log_softmax(1), other.softmax(1), reduction="batchmean")
        ((p.loss_fn(one, y) + p.loss_fn(other, y)) / 2 + apart).backward()
        p.optimizer.step()

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))

    return make("digits", 0, parts=changed("digits", model=model), step=step)


@sound("two losses, each with its own backward pass")
def _() -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        p.loss_fn(p.model(x), y).backward()
        noisy = x + 0.1 * torch.randn_like(x)
        (0.5 * p.loss_fn(p.model(noisy), y)).backward()
        p.optimizer.step()

    return make("digits", 0, step=step)


@sound("no optimizer: the author's own update", "no optimizer was given")
def _() -> tuple[Program, Spec]:
    p, spec = make("digits", 0)

    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        p.model.zero_grad()
        p.loss_fn(p.model(x), y).backward()
        with torch.no_grad():
            for one in p.model.parameters():
                one.add_(one.grad, alpha=-0.3)

    p.optimizer, p.step = [], step
    return p, spec
