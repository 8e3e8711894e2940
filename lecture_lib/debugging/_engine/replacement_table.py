"""The table of replacements: for each part of a program, what can be put in its place."""

from __future__ import annotations

from .replace_data import of_everything, of_inputs, of_labels
from .replace_layers import of_initialisation, of_layers
from .replace_training import of_loss, of_optimizer, of_schedule, of_step
from .replacement import Profile, Replacement

TABLES = (
    of_step,
    of_loss,
    of_schedule,
    of_inputs,
    of_labels,
    of_layers,
    of_initialisation,
    of_optimizer,
    of_everything,
)
"""Smaller replacements first, and the weakest evidence last."""


def replacements(profile: Profile) -> list[Replacement]:
    """What can be replaced in this program and differs from its own part."""
    return [replacement for table in TABLES for replacement in table(profile)]
