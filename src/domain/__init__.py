"""The rules of deal chat provisioning and of recording finalization, free of I/O, clocks, randomness and frameworks."""
