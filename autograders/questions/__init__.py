"""A question's hidden half: how it is drawn, judged, and tried on a bank of answers."""
