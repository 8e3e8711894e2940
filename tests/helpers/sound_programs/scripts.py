"""Scripts with loops of their own, for the recorder alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .optimizers import SAM, Game, ring
from .shapes import Tagger, reshaped_loss
from .without_targets import GCN, graph, nt_xent

Script = Callable[[], tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]]
SCRIPTS: dict[str, tuple[Script, str]] = {}


def script(name: str, reason: str = "") -> Callable[[Script], Script]:
    """List a script, with a piece of what it says that it could not be asked."""

    def keep(make: Script) -> Script:
        SCRIPTS[name] = (make, reason)
        return make

    return keep


def played(generator_known: bool) -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    """A game of which both players are recorded, or the discriminator alone."""
    model, loss = Game(), nn.BCEWithLogitsLoss()
    of_d = torch.optim.Adam(model.discriminator.parameters(), lr=1e-3)
    of_g = torch.optim.Adam(model.generator.parameters(), lr=1e-3)

    def run() -> None:
        points, ones, zeros = ring(640), torch.ones(64, 1), torch.zeros(64, 1)
        for real in points.split(64):
            of_d.zero_grad()
            loss(model.discriminator(real), ones).backward()
            fake = model.generator(torch.randn(64, 4))
            loss(model.discriminator(fake.detach()), zeros).backward()
            of_d.step()
            of_g.zero_grad()
            loss(model.discriminator(fake), ones).backward()
            of_g.step()

    return (model, [of_d, of_g], run) if generator_known else (model.discriminator, [of_d], run)


@script("GAN, both players", "has 2 optimizers")
def _() -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    return played(True)


@script("L-BFGS on a part of the data", "closure")
def _() -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=20)
    x = torch.randn(80, 4)

    def run() -> None:
        for part in x.split(40):

            def closure(part: Tensor = part) -> Tensor:
                optimizer.zero_grad()
                loss = F.mse_loss(model(part), part[:, :1] * part[:, 1:2])
                loss.backward()
                return loss

            for _ in range(4):
                optimizer.step(closure)

    return model, [optimizer], run


@script("SAM, two named steps", "which is not seen")
def _() -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    model = nn.Linear(4, 3)
    optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.05)
    x, y = torch.randn(60, 4), torch.randint(3, (60,))

    def run() -> None:
        for a, b in zip(x.split(10), y.split(10), strict=True):
            F.cross_entropy(model(a), b).backward()
            optimizer.first_step()
            F.cross_entropy(model(a), b).backward()
            optimizer.second_step()

    return model, [optimizer], run


@script("SAM by hand", "as with SAM")
def _() -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(120, 4), torch.randint(3, (120,))

    def run() -> None:
        for a, b in zip(x.split(10), y.split(10), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(a), b).backward()
            moves = [0.5 * one.grad / one.grad.norm() for one in model.parameters()]
            with torch.no_grad():
                for one, move in zip(model.parameters(), moves, strict=True):
                    one.add_(move)
            optimizer.zero_grad()
            F.cross_entropy(model(a), b).backward()
            with torch.no_grad():
                for one, move in zip(model.parameters(), moves, strict=True):
                    one.sub_(move)
            optimizer.step()

    return model, [optimizer], run


@script("the author's own update, through .data", "no optimizer was given")
def _() -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    model = Tagger(5)
    ids = torch.randint(1, 9, (60, 7))

    def run() -> None:
        for part in ids.split(10):
            model.zero_grad()
            reshaped_loss(model(part), part % 5).backward()
            for one in model.parameters():
                one.data.add_(one.grad, alpha=-0.1)

    return model, [], run


@script("a loss through another network that is no part of the model", "not kept in the model")
def _() -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    model, judge = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(80, 4)

    def run() -> None:
        for part in x.split(10):
            optimizer.zero_grad()
            F.mse_loss(judge(model(part)), torch.zeros(10, 2)).backward()
            optimizer.step()

    return model, [optimizer], run


@script("an optimizer that is made later for the rest of the model", "no optimizer that was given holds them")
def _() -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    x, y = torch.randn(120, 4), torch.randint(3, (120,))

    def run() -> None:
        rest = torch.optim.SGD(model[0].parameters(), lr=0.01)
        for a, b in zip(x.split(10), y.split(10), strict=True):
            optimizer.zero_grad()
            rest.zero_grad()
            F.cross_entropy(model(a), b).backward()
            optimizer.step()
            rest.step()

    return model, [optimizer], run


@script("one graph, whole at each step")
def _() -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    x, y, near = graph()
    model = GCN(8, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def run() -> None:
        for _ in range(30):
            optimizer.zero_grad()
            F.cross_entropy(model(x, near)[:60], y[:60]).backward()
            optimizer.step()

    return model, [optimizer], run


@script("contrastive learning of two views")
def _() -> tuple[nn.Module, list[torch.optim.Optimizer], Callable[[], None]]:
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(200, 6)

    def run() -> None:
        for part in x.split(20):
            optimizer.zero_grad()
            nt_xent(torch.cat([model(part), model(part + 0.1 * torch.randn_like(part))])).backward()
            optimizer.step()

    return model, [optimizer], run
