"""What the optimizer holds is not what the model trains, or what should train is frozen."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .model_bases import own
from .programs import PARTS, changed, make


@case("P03", "only the last layer is given", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        head = model.head if base == "sequence" else model[-1]
        return torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)

    return make(base, seed, parts=changed(base, optimizer=optimizer))


@case("P03", "only weights are given", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        decayed = [parameter for parameter in model.parameters() if parameter.ndim > 1]
        return torch.optim.AdamW(decayed, lr=5e-3, weight_decay=1e-2)

    return make(base, seed, parts=changed(base, optimizer=optimizer))


@case("P03", "a slice that begins too late", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        learning_rate = 5e-3
        return torch.optim.AdamW(
            [
                {"params": model[1:-1].parameters(), "lr": learning_rate},
                {"params": model[-1].parameters(), "lr": 2 * learning_rate},
            ]
        )

    return make(base, seed, parts=changed(base, optimizer=optimizer))


@case("P04", "the model is made again", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    program, spec = make(base, seed)
    program.model = PARTS[base].model()
    return program, spec


@case("P04", "the model is a copy", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    program, spec = make(base, seed)
    start = copy.deepcopy(program.model)
    program.model = start.train()
    return program, spec


@case("P04", "the first layer is replaced after the optimizer", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    program, spec = make(base, seed)
    if base == "sequence":
        program.model.memory = nn.GRU(16, 32, batch_first=True)
    elif base == "shapes":
        program.model[0] = nn.Conv2d(1, 12, 3, padding=1, bias=False)
    else:
        program.model[0] = nn.Linear(program.model[0].in_features, program.model[0].out_features)
        nn.init.orthogonal_(program.model[0].weight)
    return program, spec


class Named(nn.Module):
    """Two blocks of the shapes program, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12)
        self.conv2, self.bn2 = nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24)
        self.head = nn.Linear(24 * 16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 2)
        x = nn.functional.max_pool2d(self.bn2(self.conv2(x)).relu(), 2)
        return self.head(x.flatten(1))


class NamedLayers(nn.Module):
    """Two hidden layers with norms, by name."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.fc1, self.bn1 = nn.Linear(inputs, 48), nn.BatchNorm1d(48)
        self.fc2, self.bn2 = nn.Linear(48, 48), nn.BatchNorm1d(48)
        self.fc3 = nn.Linear(48, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.fc1(x)).relu()
        return self.fc3(self.bn2(self.fc2(x)).relu())


@case("P06", "all but the norms are frozen", "digits", "shapes", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = Named() if base == "shapes" else NamedLayers(*((64, 10) if base == "digits" else (6, 1)))
        for name, parameter in made.named_parameters():
            if "bn" not in name:
                parameter.requires_grad = False
        return made

    spec = replace(PARTS[base].spec, frozen=("bn1.*", "bn2.*"))
    return make(base, seed, spec, changed(base, model=model))


@case("P06", "find is no test", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = PARTS[base].model()
        for name, parameter in made.named_parameters():
            if name.find("embedding"):
                parameter.requires_grad_(False)
        return made

    return make(base, seed, replace(PARTS[base].spec, frozen=("embedding.*",)), changed(base, model=model))


@case("P06", "left over from transfer learning", "digits", "shapes", "sequence", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = PARTS[base].model()
        for parameter in list(made.parameters())[:-2]:
            parameter.requires_grad = False
        return made

    return make(base, seed, parts=changed(base, model=model))


@case("P08", "second phase with the optimizer of the first", "pretrained digits", "pretrained shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def frozen() -> nn.Module:
        model = own(base).model()
        model.backbone.requires_grad_(False)
        return model

    def trainable_only(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=3e-3)

    program, spec = make(base, seed, parts=own(base, model=frozen, optimizer=trainable_only))
    program.run_epoch()
    program.model.backbone.requires_grad_(True)
    return program, spec


@case("P08", "unfrozen during training", "digits", "shapes", "pretrained digits", "pretrained shapes")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def head(model: nn.Module) -> nn.Module:
        return model.head if base.startswith("pretrained") else model[-1]

    def frozen() -> nn.Module:
        model = own(base).model().requires_grad_(False)
        head(model).requires_grad_(True)
        return model

    epochs_done = 0

    def train_epoch(p: Program) -> None:
        nonlocal epochs_done
        if epochs_done == 1:
            for parameter in p.model.parameters():
                parameter.requires_grad = True
        p.model.train()
        for x, y in p.train_loader:
            p.optimizer.zero_grad()
            p.loss_fn(p.model(x), y).backward()
            p.optimizer.step()
        epochs_done += 1

    parts = own(base, model=frozen, optimizer=lambda model: torch.optim.AdamW(head(model).parameters(), lr=3e-3))
    return make(base, seed, parts=parts, train_epoch=train_epoch)
