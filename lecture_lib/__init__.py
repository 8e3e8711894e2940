"""What the notebooks of "Training in practice" teach with: a folder for each part of the lecture.

`tape` is a small autograd, `data` loads and splits, `training` holds the recipe, `debugging` the learning-rate finder,
`experiments` seeds and run records, `notebook` what a notebook shows: visible checks, predictions, figures.
"""

__version__ = "0.1.0"
