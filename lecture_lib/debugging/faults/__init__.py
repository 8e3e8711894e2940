"""What the ladder can say: each fault's texts, and the rules that find it."""
