"""What the worker reports: events for listeners, and the format of the log."""
