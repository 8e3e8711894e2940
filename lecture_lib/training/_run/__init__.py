"""What supports a training run: batches, checks before the first step, positions to resume from, processes."""
