"""The pages of the documentation that are written from the code: ``python -m tools.reference``; a test holds them."""
