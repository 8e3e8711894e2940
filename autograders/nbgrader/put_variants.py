"""What the answer cell of a question that differs from course to course holds when it is released."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from ..questions.question import QUESTIONS
from ..questions.seeds import read_secret


class PutVariants(NbGraderPreprocessor):
    """Puts the course's variant of a question in the place of the stub, behind the step that removes solutions."""

    course_root = Unicode(help="The course's working folder, which holds the secret.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Write the answer cells of one notebook. Raises SecretError for a course without a secret."""
        for cell in nb.cells:
            meta = cell.metadata.get("nbgrader", {})
            question = QUESTIONS.get(meta.get("grade_id", ""))
            if question is None or not meta.get("solution") or not question.variants:
                continue
            variant = question.of_course(read_secret(Path(self.course_root) / "secret")).variant
            assert variant is not None
            cell.source = variant.stub
        return nb, resources
