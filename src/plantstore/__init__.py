"""The Plant Store: POST /plants, durable before it answers."""

__version__ = "0.9.0"
