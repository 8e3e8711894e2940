"""More padding must not change what a model gives, however a program says where its sequences end."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec
from lecture_lib.debugging._engine.evidence import Evidence
from lecture_lib.debugging.faults.padding_rules import padding_leaks

LONGEST, BANDS = 20, 4


class Pooled(nn.Module):
    """The class of a sequence from the mean of its frames: those before its end, those beyond it, or all."""

    def __init__(self, over: str, says: str) -> None:
        super().__init__()
        self.over, self.says = over, says
        self.frames, self.head = nn.Conv1d(BANDS, 8, 3, padding=1), nn.Linear(8, 3)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        hidden = self.frames(inputs["frames"].transpose(1, 2)).relu().transpose(1, 2)
        if self.says == "lengths":
            there = torch.arange(hidden.shape[1]) < inputs["end"][:, None]
        else:
            there = inputs["end"] == (0 if self.says == "mask of padding" else 1)
        if self.over == "all":
            return self.head(hidden.mean(dim=1))
        kept = (there if self.over == "its own" else ~there).unsqueeze(-1)
        return self.head((hidden * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1))


def program_of(over: str, says: str, filler: float = 0.0, noise: bool = False, batch_size: int = 30) -> Program:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(5, LONGEST + 1, (60,), generator=generator)
    there = torch.arange(LONGEST) < lengths[:, None]
    frames = torch.randn(60, LONGEST, BANDS, generator=generator)
    if not noise:
        frames[~there] = filler
    end = {"lengths": lengths, "mask of places": there.long(), "mask of padding": ~there}[says]
    loader = DataLoader(TensorDataset(frames, end, torch.randint(0, 3, (60,), generator=generator)), batch_size)
    torch.manual_seed(0)
    model = Pooled(over, says)
    return Program(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        nn.CrossEntropyLoss(),
        loader,
        loader,
        unpack=lambda batch: ({"frames": batch[0], "end": batch[1]}, batch[2]),
    )


@pytest.mark.parametrize("says", ["lengths", "mask of places", "mask of padding"])
@pytest.mark.parametrize("filler", [0.0, -3.0])
@pytest.mark.parametrize("over", ["its own", "beyond", "all"])
def test_frames_beyond_the_end_change_nothing(over: str, filler: float, says: str) -> None:
    finding = padding_leaks(Evidence(program_of(over, says, filler), Spec("classification", classes=3)))
    assert (finding.fault if finding else None) == (None if over == "its own" else "A16")


def test_what_is_no_padding_is_not_asked() -> None:
    """Frames that differ beyond the numbers beside them: these are then no lengths."""
    assert padding_leaks(Evidence(program_of("all", "lengths", noise=True), Spec())) is None


def test_of_a_single_sequence_nothing_is_said() -> None:
    """A sound model, validated one sequence at a time: one output has no spread to compare a change with."""
    program = program_of("its own", "mask of places", batch_size=1)
    assert padding_leaks(Evidence(program, Spec())) is None


class Rounded(Pooled):
    """Sound up to rounding, and with the same answer for all: what padding moves is no more than rounding."""

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        answer = torch.full((len(inputs["frames"]), 3), 4.0)
        return torch.nextafter(answer, answer + inputs["frames"].shape[1] - LONGEST)


def test_rounding_is_no_leak() -> None:
    program = program_of("its own", "lengths")
    program.model = Rounded("its own", "lengths")
    assert padding_leaks(Evidence(program, Spec())) is None
