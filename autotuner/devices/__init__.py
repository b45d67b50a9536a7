"""What runs and times modules."""
