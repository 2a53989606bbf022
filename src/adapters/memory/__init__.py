"""Everything in this process: a small honest database and the ports on top of it, for tests and simulations.

No real time, no threads, no randomness. Every await of a port passes a `Switch`, where a simulator may let others go
first, cancel, or fail the call.
"""
