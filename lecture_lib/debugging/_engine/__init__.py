"""What the ladder's rules look at: recordings, probes, trials, and programs put back as they were."""
