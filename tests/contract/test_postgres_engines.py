"""The same statements on other engines, and with the operator's own rules.

Functions, triggers and policies imitate these on a real PostgreSQL.
"""

import contextlib
import uuid
from collections.abc import Iterator

import pytest

from plantstore.changes import Change, Deletion, Outcome, Replacement
from plantstore.errors import BatchRefusedError, StoreUnavailableError
from plantstore.observe import Event, ServerChanged
from plantstore.plants import ID_MIN, NewPlant, Plant
from plantstore.storage import open_store
from support.postgres import connected, execute, wait_until

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


def test_rows_are_locked_one_by_one_on_an_engine_that_cannot_lock_several_at_once(
    owner: str,
) -> None:
    """Citus is such an engine. Creates take no lock there."""
    there = [NewPlant(id_, "there") for id_ in range(ID_MIN, ID_MIN + 8)]
    with contextlib.closing(open_store(owner)) as store:
        store.apply_changes(there)
    body = f"IF current_query() ~ 'ANY.*FOR UPDATE' THEN {raising('0A000')} END IF; RETURN true;"
    add_function(owner, "one_shard() RETURNS boolean", body)
    for statement in (
        "ALTER TABLE plants ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE plants FORCE ROW LEVEL SECURITY",
        "CREATE POLICY every ON plants USING (true)",
        "CREATE POLICY one_shard ON plants AS RESTRICTIVE FOR UPDATE USING (one_shard())",
    ):
        execute(owner, statement)
    new = NewPlant(ID_MIN + 1, "new")
    changes: list[Change] = [Deletion(ID_MIN), Replacement(new.id, Plant("new")), *there]
    changes.append(NewPlant(9, "c"))

    with contextlib.closing(open_store(owner)) as store:
        again = store.apply_changes([*there, NewPlant(8, "b")])
        mixed = store.apply_changes(changes)
        found = store.find_plants([ID_MIN, ID_MIN + 1, 9])

    assert again == [Outcome.ALREADY_STORED] * 8 + [Outcome.STORED]
    assert mixed == [
        *(Outcome.DELETED, Outcome.REPLACED, Outcome.STORED, Outcome.ID_TAKEN),
        *[Outcome.ALREADY_STORED] * 6,
        Outcome.STORED,
    ]
    assert found == {ID_MIN: there[0], new.id: new, 9: NewPlant(9, "c")}


@pytest.mark.parametrize("sqlstate", ["42883", "42501"], ids=["missing", "not allowed"])
def test_a_row_is_written_on_an_engine_without_logical_messages(owner: str, sqlstate: str) -> None:
    signature = "pg_logical_emit_message(boolean, text, text) RETURNS pg_lsn"
    add_function(owner, signature, raising(sqlstate))
    markers = "SELECT coalesce(sum(number), 0) FROM plantstore_markers"
    with contextlib.closing(open_store(owner)) as store:
        store.apply_changes([PLANT])
        numbers = [execute(owner, markers)]

        assert store.apply_changes([Deletion(2)]) == [Outcome.NO_SUCH_PLANT]
        numbers += [execute(owner, markers)]
        assert store.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]
        numbers += [execute(owner, markers)]
        store.probe()
        numbers += [execute(owner, markers)]

    assert numbers == [[(0,)], [(1,)], [(2,)], [(3,)]]


def test_a_transaction_with_a_serialization_failure_is_retried(owner: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        add_rule(owner, f"IF random() < 0.05 THEN {raising('40001')} END IF;")

        for start in range(0, 400, 8):
            plants = [NewPlant(id_, "a") for id_ in range(start, start + 8)]
            assert store.apply_changes(plants) == [Outcome.STORED] * 8


def test_an_unrelated_warning_of_the_server_fails_no_change(owner: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        add_rule(owner, "RAISE WARNING 'the database must be vacuumed';")

        assert store.apply_changes([PLANT]) == [Outcome.STORED]


@pytest.mark.parametrize("sqlstate", ["CR000", "XX000", "58000", "P0001", "23514"])
def test_an_error_of_the_server_is_reported_with_its_sqlstate(owner: str, sqlstate: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        add_rule(owner, raising(sqlstate))

        with pytest.raises(StoreUnavailableError) as caught:
            store.apply_changes([PLANT])

    assert caught.value.reason.endswith(f": that is the rule ({sqlstate})")
    assert isinstance(caught.value, BatchRefusedError) == (sqlstate in ("P0001", "23514"))


def test_a_batch_that_was_stored_before_an_error_is_not_reported_as_refused(owner: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        store.apply_changes([PLANT])
        signature = "pg_logical_emit_message(boolean, text, text) RETURNS pg_lsn"
        add_function(owner, signature, raising("P0001"))

        with pytest.raises(StoreUnavailableError) as caught:
            store.apply_changes([PLANT, NewPlant(2, "b")])

        assert not isinstance(caught.value, BatchRefusedError)
        assert store.find_plants([2]) == {2: NewPlant(2, "b")}


@pytest.mark.parametrize("sqlstate", ["42883", "0A000", "55000", "XX000"])
def test_an_engine_without_timelines_is_supported(owner: str, sqlstate: str) -> None:
    add_function(owner, "pg_current_wal_lsn() RETURNS pg_lsn", raising(sqlstate))
    told: list[Event] = []

    with contextlib.closing(open_store(owner, observe=told.append)) as store:
        assert store.apply_changes([PLANT]) == [Outcome.STORED]
        wait_until(lambda: bool(told))

    assert isinstance(told[0], ServerChanged)
    assert told[0].timeline is None


def test_a_timeout_without_a_unit_is_in_milliseconds(owner: str) -> None:
    body = """
        IF name = 'statement_timeout' THEN RETURN '1500'; END IF;
        RETURN pg_catalog.current_setting(name);
    """
    add_function(owner, "current_setting(name text) RETURNS text", body)

    with connected(owner) as connection:
        assert connection.wait_seconds == 3.5
