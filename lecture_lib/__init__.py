"""What the notebooks of "Training in practice" teach with: a folder for each part of the lecture.

`tape` is a small autograd; `data` loads, splits and checks; `training` holds the recipe and the learning-rate finder,
`debugging` the ladder; `analysis` reads curves and errors, `experiments` keeps records and compares; `notebook` has
what a notebook shows: visible checks, predictions, figures; `commands` are those of the program `lecture`.
"""

__version__ = "0.1.0"
