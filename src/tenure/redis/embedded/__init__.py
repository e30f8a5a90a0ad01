"""The embedded Redis: finds a server program, starts it on a data directory, and stops it."""
