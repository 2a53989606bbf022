"""What the embedded default needs: a local PostgreSQL, a folder as storage, a file as message log."""
