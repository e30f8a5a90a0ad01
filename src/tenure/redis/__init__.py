"""Access to Redis: the two drivers that run steps, their connections, and the embedded server. Knows no jobs."""
