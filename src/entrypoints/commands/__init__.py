"""The operators' commands, one a file; `cli` registers them."""
