"""Training programs with one known fault each, and healthy ones that look suspicious: what the ladder is tested on."""
