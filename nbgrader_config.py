"""nbgrader finds its course here: `nbgrader autograde 03a-training-recipe`, `nbgrader generate_feedback …`, formgrader.

The working folder is `grading/`, or the one that the environment variable LECTURE_COURSE names.
"""

from autograders.course import Course
from autograders.nbgrader.configuration import configure

configure(get_config(), Course.default())  # noqa: F821 - traitlets puts get_config here
