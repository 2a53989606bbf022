"""Scripts that measure: each prints ratios against a limit measured in the same run."""
