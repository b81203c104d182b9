"""The Plant Store: POST /plants, durable before it responds."""

__version__ = "1.1.0"
