"""The log and the metrics: observers of the events of the service."""
