"""Calling user code: handlers, middleware, hooks, threads and the event loop."""
