"""The letters of DNA are numbered from zero and sequences are filled up with zero as well: every A is taken for
padding, so that it is left out of the mean and of the length.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
EPOCHS, PADDING = 25, 0
STACKING = {
    "AA": 1.0,
    "TT": 1.0,
    "AT": 0.9,
    "TA": 0.6,
    "CA": 1.5,
    "TG": 1.5,
    "GT": 1.4,
    "AC": 1.4,
    "CT": 1.3,
    "AG": 1.3,
    "GA": 1.3,
    "TC": 1.3,
    "CG": 2.2,
    "GC": 2.2,
    "GG": 1.8,
    "CC": 1.8,
}


class Melting(nn.Module):
    """The melting temperature of a strand from its pairs of neighbours."""

    def __init__(self, letters: int, width: int = 24) -> None:
        super().__init__()
        self.embedding = nn.Embedding(letters, width, padding_idx=PADDING)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.head = nn.Sequential(nn.Linear(width + 1, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, strands: Tensor) -> Tensor:
        there = (strands != PADDING).float().unsqueeze(-1)
        found = F.relu(self.conv((self.embedding(strands) * there).transpose(1, 2))).transpose(1, 2)
        length = there.sum(1).clamp(min=1)
        return self.head(torch.cat([(found * there).sum(1) / length, length / 20], dim=1)).squeeze(1)


def vocabulary(first: int) -> dict[str, int]:
    return {letter: first + number for number, letter in enumerate("ACGT")}


def strands(count: int, generator: torch.Generator) -> tuple[list[str], Tensor]:
    """Random strands of different composition, and their melting temperatures."""
    texts, temperatures = [], []
    for _ in range(count):
        length = int(torch.randint(10, 31, (1,), generator=generator))
        shares = 0.15 + torch.rand(4, generator=generator)
        text = "".join("ACGT"[i] for i in torch.multinomial(shares, length, True, generator=generator))
        pairs = sum(STACKING[text[i : i + 2]] for i in range(length - 1)) / (length - 1)
        texts.append(text)
        temperatures.append(30 * pairs + 40 - 600 / length)
    return texts, torch.tensor(temperatures) + 0.8 * torch.randn(count, generator=generator)


def r_squared(outputs: Tensor, targets: Tensor) -> float:
    return float(1 - (outputs - targets).square().sum() / (targets - targets.mean()).square().sum())


def build(seed: int, letters: dict[str, int]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    texts, y = strands(2000, generator)
    y = (y - y[:1400].mean()) / y[:1400].std()
    ids = [torch.tensor([letters[letter] for letter in text]) for text in texts]
    examples = list(zip(ids, y, strict=True))

    def collate(batch: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        sequences, targets = zip(*batch, strict=True)
        return pad_sequence(sequences, batch_first=True, padding_value=PADDING), torch.stack(targets)

    model = Melting(max(letters.values()) + 1)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=F.mse_loss,
        train_loader=DataLoader(
            examples[:1400],
            batch_size=32,
            shuffle=True,
            collate_fn=collate,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(examples[1400:], batch_size=100, collate_fn=collate),
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=EPOCHS, padding_index=PADDING)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, vocabulary(0))


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, vocabulary(1))
