"""From the files that an instructor was sent to nbgrader's folders: whose, for which assignment, handed in when."""
