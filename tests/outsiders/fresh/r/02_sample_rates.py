"""A small CNN tells six species of birds apart by log spectrograms of a quarter of a second of their calls. The archive
holds recordings of two kinds of recorders: 16 kHz, and 8 kHz.

Fault: the spectrogram code takes every file as one of 16 kHz, so calls of the 8 kHz files are an octave too high and
twice as fast. The twin resamples them to 16 kHz first.

Measured (seeds 0 and 1): accuracy on 1,500 fresh recordings 0.674 and 0.669 with the fault, 0.987 and 0.992 in the
twin.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
SPEC = Spec(task="classification", classes=6, epochs=10)
RATE = 16000
PITCHES = (650, 920, 1300, 1840, 2600, 3200)  # In Hz, of each species.


def recordings(rng, n):
    """Waveforms of 0.6 s with the sample rate of each, and the species."""
    labels = rng.integers(0, len(PITCHES), n)
    files = []
    for label in labels:
        rate = int(rng.choice([16000, 8000]))
        t = np.arange(int(0.6 * rate)) / rate
        pitch = PITCHES[label] * np.exp(rng.normal(0, 0.05))
        vibrato = rng.uniform(0.02, 0.06) * np.sin(2 * np.pi * rng.uniform(5, 12) * t + rng.uniform(0, 6.28))
        phase = 2 * np.pi * np.cumsum(pitch * (1 + vibrato)) / rate
        trill = 0.6 + 0.4 * np.sin(2 * np.pi * rng.uniform(6, 14) * t + rng.uniform(0, 6.28))
        noise = rng.normal(0, rng.uniform(0.3, 0.9), len(t))
        files.append((rng.uniform(0.3, 1.0) * (trill * np.sin(phase) + noise), rate))
    return files, torch.tensor(labels)


def resampled(wave, rate):
    """The waveform at RATE."""
    if rate == RATE:
        return wave
    seconds = len(wave) / rate
    at = np.arange(int(seconds * RATE)) / RATE
    return np.interp(at, np.arange(len(wave)) / rate, wave)


def spectrograms(files, resample):
    """Log spectrograms of the first quarter of a second, 64 bands up to 4 kHz, each of mean 0 and deviation 1."""
    waves = [resampled(wave, rate) if resample else wave for wave, rate in files]
    batch = torch.tensor(np.stack([wave[: RATE // 4] for wave in waves]), dtype=torch.float32)
    power = torch.stft(batch, 256, 128, window=torch.hann_window(256), return_complex=True).abs()[:, :64] ** 2
    bands = torch.log(power + 1e-3)
    bands = bands - bands.mean((1, 2), keepdim=True)
    return (bands / bands.std((1, 2), keepdim=True))[:, None]


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, resample):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    files, labels = recordings(rng, 900)
    val_files, val_labels = recordings(rng, 500)
    train = TensorDataset(spectrograms(files, resample), labels)
    val = TensorDataset(spectrograms(val_files, resample), val_labels)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 4)),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(16 * 16 * 4, 32), nn.ReLU(), nn.Linear(32, 6),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 250),
        metric=accuracy,
    )


def make(seed):
    return build(seed, False), SPEC


def twin(seed):
    return build(seed, True), SPEC
