"""A command that fails prints one line, and changes no plant, no token and no other file."""

from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.tokens import SCOPES, TokenRecord
from support.command import call
from support.service import opened, stored_plants

FILES = {
    "good.csv": "id,name\n1,a\n",
    "bad.csv": "number,name\n",
    "all_bad.csv": "id,name\nx,y\n",
    "old": "precious",
    # SQLite would replay the log of another database into the copy.
    "logged.db-wal": "changes of another database",
    "journaled.db-journal": "changes of another database",
}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("token create taken", 1, 'a token named "taken" already'),
        ("token revoke nobody", 1, 'no token named "nobody"'),
        ("token create x --database sqlite:///no/where.db", 1, "No such file"),
        ("import all_bad.csv --rejects /dev/full", 1, "/dev/full cannot be written: No sp"),
        ("import good.csv --rejects no/r", 1, "no/r cannot be written: No such file"),
        ("import bad.csv", 1, "must name the columns id and name"),
        ("export no/a.csv", 1, "no/a.csv cannot be written"),
        ("export a.csv", 1, "tag is empty"),
        ("backup logged.db --force", 1, "logged.db-wal exists: logged.db is in use"),
        ("backup journaled.db --force", 1, "journaled.db-journal exists: journaled.db is in use"),
        ("backup no/copy.db --force", 1, "/no"),
        ("backup .", 1, "is a folder; name a file in it"),
        ("export . --format csv --force", 1, "is a folder; name a file in it"),
        ("import good.csv --rejects plants.db", 2, "is a file of the store itself"),
        ("import good.csv --rejects plants.db-journal", 2, "is a file of the store itself"),
        ("export plants.db --format csv --force", 2, "is a file of the store itself"),
        ("backup plants.db --force", 2, "is a file of the store itself"),
    ],
)
def test_a_command_that_fails_prints_one_line_and_changes_nothing(
    tmp_path: Path, database: str, arguments: str, status: int, said: str
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with opened(database) as store:
        store.apply_changes([NewPlant(9, "a", "")])
        store.add_token(TokenRecord("taken", bytes(32), frozenset(SCOPES), 0))

    done = call(tmp_path, *arguments.split())

    assert done.returncode == status
    # An import that has begun prints its counts.
    assert not done.stdout or done.stdout.startswith("0 stored, ")
    [line] = done.stderr.splitlines()
    assert line.startswith("plantstore: ")
    assert said in line
    assert stored_plants(database) == {9: NewPlant(9, "a", "")}
    left = {file.name for file in tmp_path.iterdir()}
    assert left - {"plants.db-wal", "plants.db-shm"} == FILES.keys() | {"plants.db"}
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in FILES} == FILES
