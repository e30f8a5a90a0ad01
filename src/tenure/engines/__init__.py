"""The engines: how jobs lie in Redis, one package a wire format. They yield calls and never saw a Redis client."""
