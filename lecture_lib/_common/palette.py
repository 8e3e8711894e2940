"""The colours of every figure: Okabe and Ito's palette, told apart by the common kinds of colour blindness."""

from __future__ import annotations

BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
PURPLE, ORANGE, SKY_BLUE = "#CC79A7", "#E69F00", "#56B4E9"

# In the order of use.
OKABE_ITO = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE)

INK = "#767676"
"""Axes and text of a figure without a background: a contrast of 4.5 to white and of 4.2 to JupyterLab's dark theme.
No grey has 4.5 to both."""
