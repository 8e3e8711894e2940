"""Builds and publishes what students get."""
