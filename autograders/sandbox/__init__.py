"""Where a student's notebook runs: its kernel, its inputs, its limits."""
