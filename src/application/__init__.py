"""The use cases and the ports they need; knows the domain and nothing else."""
