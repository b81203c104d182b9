"""The Plant Store: POST /plants, durable before it answers."""

__version__ = "1.1.0"
