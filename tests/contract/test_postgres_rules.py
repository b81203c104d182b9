"""The operator's own rules: triggers, constraints and policies of a database."""

import contextlib
import uuid
from collections.abc import Iterator

import pytest

from plantstore.changes import Outcome
from plantstore.errors import BatchRefusedError, StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from support.postgres import execute

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture
def owner(url: str) -> Iterator[str]:
    """Return the URL of a role that owns its schema. Functions there hide those of the engine."""
    role = f"role_{uuid.uuid4().hex}"
    [[schema]] = execute(url, "SELECT current_schema()")
    execute(url, f"CREATE ROLE {role} LOGIN")
    execute(url, f"GRANT CREATE, USAGE ON SCHEMA {schema} TO {role}")
    yield url.replace("//postgres@", f"//{role}@") + ",pg_catalog"
    execute(url, f"DROP OWNED BY {role} CASCADE")
    execute(url, f"DROP ROLE {role}")


def add_function(url: str, signature: str, body: str) -> None:
    execute(url, f"CREATE FUNCTION {signature} LANGUAGE plpgsql AS $body$ BEGIN {body} END $body$")


def add_rule(url: str, body: str) -> None:
    """Create a trigger that runs this body for each inserted plant."""
    add_function(url, "rule() RETURNS trigger", f"{body} RETURN NEW;")
    execute(url, "CREATE TRIGGER rule BEFORE INSERT ON plants FOR EACH ROW EXECUTE FUNCTION rule()")


def raising(sqlstate: str) -> str:
    return f"RAISE EXCEPTION 'that is the rule' USING ERRCODE = '{sqlstate}';"


def test_an_unrelated_warning_of_the_server_fails_no_change(owner: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        add_rule(owner, "RAISE WARNING 'the database must be vacuumed';")

        assert store.apply_changes([PLANT]) == [Outcome.STORED]


@pytest.mark.parametrize("sqlstate", ["CR000", "XX000", "58000", "P0001", "23514", "22001"])
def test_an_error_of_the_server_is_reported_with_its_sqlstate(owner: str, sqlstate: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        add_rule(owner, raising(sqlstate))

        with pytest.raises(StoreUnavailableError) as caught:
            store.apply_changes([PLANT])

    assert caught.value.reason.endswith(f": that is the rule ({sqlstate})")
    assert isinstance(caught.value, BatchRefusedError) == (sqlstate in ("P0001", "23514", "22001"))


def test_a_batch_that_was_stored_before_an_error_is_not_reported_as_refused(owner: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        store.apply_changes([PLANT])
        body = f"IF current_query() ~ 'FOR UPDATE' THEN {raising('P0001')} END IF; RETURN true;"
        add_function(owner, "may_lock() RETURNS boolean", body)
        for statement in (
            "ALTER TABLE plants ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE plants FORCE ROW LEVEL SECURITY",
            "CREATE POLICY every ON plants USING (true)",
            "CREATE POLICY may_lock ON plants AS RESTRICTIVE FOR UPDATE USING (may_lock())",
        ):
            execute(owner, statement)

        with pytest.raises(StoreUnavailableError) as caught:
            store.apply_changes([PLANT, NewPlant(2, "b")])

        assert not isinstance(caught.value, BatchRefusedError)
        assert store.find_plants([2]) == {2: NewPlant(2, "b")}
