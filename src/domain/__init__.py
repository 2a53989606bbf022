"""The rules of deal chat provisioning, free of I/O, clocks, randomness and frameworks."""
