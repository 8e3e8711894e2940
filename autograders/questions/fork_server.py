"""Imported by the server from which answers are forked, and by nothing else: what each would do first, done once."""

import gc
import importlib

from lecture_lib.notebook.replaced_functions import remember_functions

from ..imports import imported_modules
from . import answer_process  # noqa: F401 - a fork would import it

for _name in imported_modules():
    importlib.import_module(_name)
remember_functions()
# What is here now stays as it is in every fork: its garbage collector need not look through it, which would copy it.
gc.collect()
gc.freeze()
