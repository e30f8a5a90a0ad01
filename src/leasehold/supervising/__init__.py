"""Worker processes and who looks after them: starting, replacing, recycling, reloading, health. Runs no user code."""
