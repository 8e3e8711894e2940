"""From the bytes that a student handed in to the notebook that is graded."""
