"""Multi-label tagging of audio clips (eight tags, 120 spectral features): an MLP with much dropout, few clips.

Fault: every six batches the loop measures the validation loss for its log. The helper calls `model.eval()`, and
nothing calls `model.train()` afterwards but the start of the next epoch, so that most of training runs without
dropout. It comes about when "validate every n steps" is added to a loop which used to validate between the
epochs.

Measured (seeds 0 and 1): validation loss 0.84 and 0.83 after 20 epochs, worse than after the first (0.55 and
0.56), F1 0.684 and 0.671; twin 0.52 and 0.54, F1 0.690 and 0.691.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("step",)

TAGS, FEATURES, LOG_EVERY = 8, 120, 6


def clips(count: int, timbre: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Features and tags: a clip mixes the timbres of its tags, in noise; listeners err in one tag of eight."""
    tags = (torch.rand(count, TAGS, generator=generator) < 0.3).float()
    loudness = 0.5 + torch.rand(count, TAGS, generator=generator)
    features = (tags * loudness) @ timbre + 2.0 * torch.randn(count, FEATURES, generator=generator)
    error = (torch.rand(count, TAGS, generator=generator) < 0.12).float()
    return features, (tags - error).abs()


def micro_f1(logits: Tensor, tags: Tensor) -> float:
    """F1 over all clips and tags."""
    predicted = logits > 0
    true = tags > 0.5
    return (2 * (predicted & true).sum() / (predicted.sum() + true.sum()).clamp(min=1)).item()


def validation_loss(program: Program) -> float:
    """Mean loss over the validation clips."""
    program.model.eval()
    with torch.no_grad():
        losses = [program.loss_fn(program.model(features), tags).item() for features, tags in program.val_loader]
    return sum(losses) / len(losses)


def build(seed: int, restore: bool) -> tuple[Program, Spec]:
    """The program, whose loop goes back to training mode after validating or does not."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    timbre = torch.randn(TAGS, FEATURES, generator=generator)
    train_x, train_y = clips(400, timbre, generator)
    val_x, val_y = clips(600, timbre, generator)

    model = nn.Sequential(
        nn.Linear(FEATURES, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, TAGS),
    )

    def train_epoch(program: Program) -> None:
        program.model.train()
        for number, batch in enumerate(program.train_loader, 1):
            program.run_step(batch)
            if number % LOG_EVERY == 0:
                validation_loss(program)
                if restore:
                    program.model.train()

    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        loss_fn=F.binary_cross_entropy_with_logits,
        train_loader=DataLoader(TensorDataset(train_x, train_y), 8, shuffle=True, generator=generator),
        val_loader=DataLoader(TensorDataset(val_x, val_y), 200),
        train_epoch=train_epoch,
        metric=micro_f1,
    )
    return program, Spec(task="multi-label", classes=TAGS, epochs=20)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, restore=False)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with the model back in training mode after each validation."""
    return build(seed, restore=True)
