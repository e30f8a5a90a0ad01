"""What the worker reports: events for listeners, the log's format, and progress."""
