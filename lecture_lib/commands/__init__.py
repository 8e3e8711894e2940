"""The student's commands: `lecture train`, `lecture doctor`, `lecture submit`."""
