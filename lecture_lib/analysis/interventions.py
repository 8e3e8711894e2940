"""What to do about a kind of error: the lecture's table, from the bucket to the intervention."""

from __future__ import annotations

INTERVENTIONS = {
    "blur": "augment with blur, or collect blurred examples",
    "rare class": "weight its loss, sample it more often, or collect examples of it",
    "ambiguous label": "clean the labels, merge the classes, or report the uncertainty",
    "background shortcut": "crop or mask the background, or augment with other backgrounds",
    "threshold": "choose the decision threshold on validation data",
}
OTHER = "look at ten of them, and name what they share"
