"""The student's commands: `lecture train`, `lecture debug`, `lecture doctor`, `lecture submit`."""
