"""Fine-tuning, as it is meant: frozen parts, parts without an optimizer, norms in evaluation, tiny rates."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .model_bases import OWN, FineTuned, own
from .programs import make

PRETRAINED = ("pretrained digits", "pretrained shapes")


def frozen_backbone(base: str) -> FineTuned:
    """The pretrained model with a backbone that is not to be trained."""
    model = own(base).model()
    for parameter in model.backbone.parameters():
        parameter.requires_grad = False
    return model


def train_head(p: Program) -> None:
    """One epoch with the backbone in evaluation mode."""
    p.model.train()
    p.model.backbone.eval()
    for x, y in p.train_loader:
        p.optimizer.zero_grad()
        p.loss_fn(p.model(x), y).backward()
        p.optimizer.step()


def frozen_spec(base: str) -> Spec:
    """The backbone is frozen and stays in evaluation mode."""
    return replace(OWN[base].spec, frozen=("backbone.*",), eval_modules=("backbone", "backbone.*"))


@case("K01", "Adam holds everything", *PRETRAINED)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    parts = own(
        base,
        model=lambda: frozen_backbone(base),
        optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=1e-2),
    )
    return make(base, seed, frozen_spec(base), parts, train_epoch=train_head)


class Extractor(FineTuned):
    """A backbone whose features are taken without gradients."""

    @classmethod
    def of(cls, model: FineTuned) -> Extractor:
        """The same parts."""
        made = cls(model.backbone, model.head.in_features, model.head.out_features)
        made.backbone.requires_grad_(False)
        return made

    def train(self, mode: bool = True) -> Extractor:
        """Leave the backbone in evaluation mode."""
        super().train(mode)
        self.backbone.eval()
        return self


@case("K01", "requires_grad_ on the backbone, SGD with momentum", *PRETRAINED)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def sgd(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    parts = own(base, model=lambda: Extractor.of(own(base).model()), optimizer=sgd)
    return make(base, seed, frozen_spec(base), parts)


@case("K02", "SGD holds the head", *PRETRAINED)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def sgd(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.head.parameters(), lr=0.01, momentum=0.9)

    return make(base, seed, frozen_spec(base), own(base, optimizer=sgd), train_epoch=train_head)


@case("K02", "AdamW filters by requires_grad", *PRETRAINED)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def adam(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)

    parts = own(base, model=lambda: Extractor.of(own(base).model()), optimizer=adam)
    return make(base, seed, frozen_spec(base), parts)


@lru_cache
def trained_weights(base: str) -> dict[str, Tensor]:
    """The program's weights after training, as a checkpoint would give them."""
    with torch.random.fork_rng(devices=[]):
        program, spec = make(base, 23, parts=own(base))
        for _ in range(spec.epochs or 8):
            program.run_epoch()
    return program.model.state_dict()


@case("K06", "last epochs at 1e-6", *PRETRAINED)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = own(base).model()
        made.load_state_dict(trained_weights(base))
        return made

    parts = own(base, model=model, optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=1e-6))
    return make(base, seed, replace(OWN[base].spec, epochs=2), parts)


@case("K06", "a smaller rate for the backbone", *PRETRAINED)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def groups(model: nn.Module) -> torch.optim.Optimizer:
        backbone = {"params": model.backbone.parameters(), "lr": 1e-6}
        return torch.optim.AdamW([backbone, {"params": model.head.parameters(), "lr": 1e-2}])

    return make(base, seed, parts=own(base, optimizer=groups))


class FrozenNorms(nn.Module):
    """The pretrained model, whose norms keep what they have."""

    def __init__(self, inner: FineTuned) -> None:
        super().__init__()
        self.inner = inner

    def train(self, mode: bool = True) -> FrozenNorms:
        """All but the norms."""
        super().train(mode)
        for layer in self.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


@case("K26", "train() leaves norms in evaluation", "pretrained shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    spec = replace(OWN[base].spec, eval_modules=("inner.backbone.1", "inner.backbone.5"))
    return make(base, seed, spec, own(base, model=lambda: FrozenNorms(own(base).model())))


@case("K26", "eval() of norms in the loop", "pretrained shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def train_epoch(p: Program) -> None:
        p.model.train()
        p.model.backbone[1].eval()
        p.model.backbone[5].eval()
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            p.optimizer.step()

    spec = replace(OWN[base].spec, eval_modules=("backbone.1", "backbone.5"))
    return make(base, seed, spec, own(base), train_epoch=train_epoch)
