"""What all parts share: colours, axes, random streams."""
