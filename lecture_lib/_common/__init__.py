"""What all parts share: colours, axes, random streams, the course's setting."""
