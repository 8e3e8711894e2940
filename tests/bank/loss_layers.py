"""Faults L01 to L05: the last layer and the loss do not belong together."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .loss_programs import other, parts_of, share_above_half
from .programs import WORDS, make

CLASSES = ("digits", "shapes", "sequence")
YES_OR_NO = ("binary", "labels", "masks")


def with_layer(base: str, layer: nn.Module) -> nn.Module:
    """The model of a base program with one more layer."""
    return nn.Sequential(parts_of(base).model(), layer)


def of_labels(scores: Tensor, y: Tensor) -> Tensor:
    """The score of each label that is not -100."""
    known = y != -100
    return scores.gather(1, y.clamp(min=0).unsqueeze(1)).squeeze(1)[known]


@case("L01", "softmax in what is done after the model", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, forward=lambda model, x: F.softmax(model(x), dim=1))


@case("L01", "training on predicted probabilities", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def predict(model: nn.Module, x: Tensor) -> Tensor:
        return torch.exp(model(x)) / torch.exp(model(x)).sum(dim=1, keepdim=True)

    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        p.optimizer.zero_grad()
        p.loss_fn(predict(p.model, x), y).backward()
        p.optimizer.step()

    return make(base, seed, step=step)


@case("L02", "sigmoid as last layer", *YES_OR_NO)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, model=lambda: with_layer(base, nn.Sigmoid()), metric=share_above_half)


@case("L02", "sigmoid before the loss with logits", *YES_OR_NO)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    criterion = nn.BCEWithLogitsLoss()
    return other(base, seed, loss_fn=lambda outputs, targets: criterion(torch.sigmoid(outputs), targets))


@case("L02", "weighted loss of probabilities", "binary", "labels")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        probabilities = p.model(x).sigmoid()
        confidence = 0.5 + (y - 0.5).abs()
        loss = F.binary_cross_entropy_with_logits(probabilities, y, weight=confidence)
        p.optimizer.zero_grad()
        loss.backward()
        p.optimizer.step()

    return other(base, seed, {"step": step})


@case("L03", "softmax layer and NLLLoss", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, model=lambda: with_layer(base, nn.Softmax(dim=1)), loss_fn=nn.NLLLoss())


@case("L03", "probability of the label without logarithm", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        probabilities = outputs.softmax(dim=1)
        return -of_labels(probabilities, targets).mean()

    return other(base, seed, loss_fn=loss_fn)


@case("L04", "NLLLoss of scores", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, loss_fn=nn.NLLLoss(ignore_index=-100))


@case("L04", "score of the label by hand", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, loss_fn=lambda outputs, targets: -of_labels(outputs, targets).mean())


@case("L04", "log-softmax only in evaluation", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        scores = model(x)
        return scores if model.training else F.log_softmax(scores, dim=1)

    return make(base, seed, parts=parts_of(base, loss_fn=F.nll_loss), forward=forward)


@case("L05", "BCELoss of scores", *YES_OR_NO)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return other(base, seed, loss_fn=nn.BCELoss())


@case("L05", "one-hot labels and scores", *CLASSES)
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        one_hot = F.one_hot(targets.clamp(min=0), outputs.shape[1]).movedim(-1, 1).float()
        return F.binary_cross_entropy(outputs, one_hot)

    return other(base, seed, loss_fn=loss_fn)


@case("L05", "embeddings compared with words", "pairs of words")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    class Likeness(nn.Module):
        """Scores of pairs of ids [B, 2] to be neighbours: [B]."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 8)

        def forward(self, pairs: Tensor) -> Tensor:
            left, right = self.words(pairs).unbind(dim=1)
            return (left * right).sum(dim=1)

    torch.manual_seed(seed)
    pairs = torch.randint(0, WORDS, (512, 2))
    near = ((pairs[:, 0] - pairs[:, 1]).abs() < 3).float()
    model = Likeness()
    batches = list(zip(pairs.split(64), near.split(64), strict=True))
    program = Program(model, torch.optim.Adam(model.parameters(), lr=0.01), nn.BCELoss(), batches[:6], batches[6:])
    return program, Spec(task="multi-label", classes=1, epochs=10)
