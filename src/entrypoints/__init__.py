"""How the package is run: composition root, worker, commands, settings. The only place that knows everybody."""
