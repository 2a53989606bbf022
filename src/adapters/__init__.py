"""One folder per technology, each implementing ports of the application."""
