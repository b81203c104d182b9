"""The schema's migrations: numbered files of plain SQL, forward only, one folder an engine."""

from importlib import resources


def migrations(engine: str) -> list[str]:
    """Return the SQL of each migration of an engine, the first one first."""
    folder = resources.files("plantstore.storage") / "sql" / engine
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in files if file.name.endswith(".sql")]
