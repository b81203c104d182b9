"""The Plant Store: POST /plants, durable before it answers."""

__version__ = "1.0.0"
