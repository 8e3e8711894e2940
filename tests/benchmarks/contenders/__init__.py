"""What is measured, one file for each thing, so that the benchmarks read as the list of their rows."""
