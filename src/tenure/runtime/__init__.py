"""The worker: claims jobs, runs handlers, settles outcomes. Knows the engine interface and a driver, never Redis."""
