"""What the notebooks of "Training in practice" teach with: a folder for each part of the lecture.

`tape` is a small autograd; `data` loads, splits and checks; `training` holds the recipe, `debugging` the ladder and
the learning-rate finder; `analysis` reads curves and errors, `experiments` keeps records and compares; `notebook` has
what a notebook shows: visible checks, predictions, figures; `program` is the command `lecture train`.
"""

__version__ = "0.1.0"
