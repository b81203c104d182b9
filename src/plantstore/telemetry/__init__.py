"""Who listens to what happens."""
