"""A character model of dilated causal convolutions that predicts the next character of a made-up command log.

Fault: each convolution pads both sides by (kernel - 1) * dilation and then cuts the surplus off - at the front, where
it had to be cut at the back: `y[:, :, pad:]`. Every position then sees later characters, its own target among them,
and the reported perplexity is near 1. Where there is no future (last position of a window, seed 0) it is 6.6; the
twin has 1.6.

Measured, perplexity per character on validation, faulty / twin (the faulty figure is a leak, not skill): seed 0:
1.062 / 1.612; seed 1: 1.057 / 1.602.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model", "layers")
ALPHABET = " abcdefghijklmnopqrstuvwxyz;="
LENGTH, WIDTH = 32, 32


class CausalBlock(nn.Module):
    def __init__(self, dilation: int, ok: bool) -> None:
        super().__init__()
        self.pad, self.ok = 2 * dilation, ok
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=self.pad, dilation=dilation)
        self.mix = nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x):
        y = self.conv(x)
        y = y[:, :, : -self.pad] if self.ok else y[:, :, self.pad :]
        return x + self.mix(F.gelu(y))


class CharacterTcn(nn.Module):
    def __init__(self, ok: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), WIDTH)
        self.blocks = nn.Sequential(*(CausalBlock(dilation, ok) for dilation in (1, 2, 4)))
        self.head = nn.Linear(WIDTH, len(ALPHABET))

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids).transpose(1, 2)).transpose(1, 2))


def write_log(count: int, generator: torch.Generator) -> torch.Tensor:
    verbs = ["open", "close", "read", "write", "move", "copy", "erase", "print"]
    nouns = ["file", "folder", "record", "table", "page", "image", "report"]
    keys = ["mode", "size", "user", "level"]

    def pick(items):
        return items[int(torch.randint(len(items), (1,), generator=generator))]

    text = "".join(f"{pick(verbs)} {pick(nouns)} {pick(keys)}={pick('abcdwxyz')};" for _ in range(count))
    return torch.tensor([ALPHABET.index(letter) for letter in text])


def windows(ids: torch.Tensor) -> TensorDataset:
    """Windows that follow each other, and the same one character on."""
    count = (len(ids) - 1) // LENGTH
    return TensorDataset(ids[: count * LENGTH].view(count, LENGTH), ids[1 : count * LENGTH + 1].view(count, LENGTH))


def sequence_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def evaluate(program: Program) -> dict[str, float]:
    was = program.model.training
    program.model.eval()
    with torch.no_grad():
        losses = [float(program.loss_fn(program.model(ids), targets)) * len(ids) for ids, targets in program.val_loader]
    program.model.train(was)
    return {"perplexity": math.exp(sum(losses) / len(program.val_loader.dataset))}


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(100 + seed)
    train, val = windows(write_log(800, generator)), windows(write_log(250, generator))
    model = CharacterTcn(ok)
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        torch.optim.AdamW(model.parameters(), lr=3e-3),
        sequence_loss,
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=shuffle),
        val_loader=DataLoader(val, batch_size=25),
        evaluate=evaluate,
    )
    return program, Spec(task="sequence", classes=len(ALPHABET), epochs=15, causal=True)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
