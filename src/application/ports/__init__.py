"""What the application asks of the outside, one protocol a file."""
