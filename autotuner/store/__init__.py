"""The results database: every row is written when it happens."""
