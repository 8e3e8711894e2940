"""What happens to a course in the course of a term: extensions, a student who leaves, copies and other machines."""
