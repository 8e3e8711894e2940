"""The instructor's commands, each beside what it calls."""
