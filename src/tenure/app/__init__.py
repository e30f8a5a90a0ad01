"""The app: registers tasks and handlers, resolves their options, and runs a worker for them."""
