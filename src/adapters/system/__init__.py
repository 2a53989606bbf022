"""What the operating system gives: time."""

from .clock import SystemClock

__all__ = ["SystemClock"]
