"""What the application says about itself, as log lines and as Prometheus metrics."""
