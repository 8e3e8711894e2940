"""From what an instructor was sent to nbgrader's folders: whose it is, which assignment, when."""
