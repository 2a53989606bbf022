"""What every adapter of a port must show: one class a port, and one short subclass of it for each adapter."""
