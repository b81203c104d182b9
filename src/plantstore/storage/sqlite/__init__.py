"""The SQLite store: one database file."""
