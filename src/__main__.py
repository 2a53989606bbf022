"""``python -m messenger_jobs`` is the command ``messenger-jobs``."""

from .entrypoints.cli import main

if __name__ == "__main__":
    main()
