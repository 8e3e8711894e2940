"""What we put into nbgrader: its converters called quietly, and one step of ours a file."""
