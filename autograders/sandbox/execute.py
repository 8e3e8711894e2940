"""Runs a submitted notebook: nbgrader's Execute with hidden inputs laid out, one thread, and a dead kernel survived."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from nbclient.exceptions import DeadKernelError
from nbclient.util import run_sync
from nbformat import NotebookNode
from nbgrader.preprocessors import Execute
from traitlets import Unicode

from ..drawn import DrawnCases
from ..notebooks import STAMP
from ..probes import INPUTS_VARIABLE
from ..questions import encode_inputs
from .sockets import use_private_sockets

# One thread a kernel: under load two threads make the same training ten times slower, and scores must not depend on it.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class ProbedExecute(Execute):
    """Executes the notebook with the hidden inputs of its questions in a private folder.

    The inputs travel as plain data; the secret they are drawn from and what the judge knows besides stay here.
    """

    course_root = Unicode(help="The course's working folder, which holds the secret.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any, km: Any = None) -> tuple[NotebookNode, Any]:
        """Run the notebook; when its kernel dies, keep what ran and note it."""
        drawn = DrawnCases(Path(self.course_root), resources["nbgrader"]["assignment"], nb)
        with tempfile.TemporaryDirectory(prefix="lecture-") as folder:
            self._folder = Path(folder)
            inputs = self._folder / "inputs"
            inputs.mkdir()
            for question in drawn.questions:
                encoded = json.dumps(encode_inputs(drawn.cases(question)))
                (inputs / f"{question.id}.json").write_text(encoded, "utf-8")
            try:
                nb, resources = super().preprocess(nb, resources, km)
            except DeadKernelError as error:
                nb.metadata.setdefault(STAMP, {})["incident"] = f"the kernel died: {error}"
        return nb, resources

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        """Start the kernel in an environment of its own: no start-up files, no history, one thread, private sockets."""
        use_private_sockets(self.km, self._folder)
        kwargs["env"] = {
            **os.environ,
            **_ONE_THREAD,
            INPUTS_VARIABLE: str(self._folder / "inputs"),
            "IPYTHONDIR": str(self._folder / "ipython"),
            "PYTHONHASHSEED": "0",
        }
        await super().async_start_new_kernel(**kwargs)

    # nbclient binds the blocking name to its own coroutine when the class is made.
    start_new_kernel = run_sync(async_start_new_kernel)
