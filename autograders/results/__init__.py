"""What a class did, as tables and pages."""
