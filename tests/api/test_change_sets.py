"""Change sets: the field `Change-Set`, and `POST /undo`."""

from typing import Any

import httpx
import pytest

from plantstore.changes import Deletion, InSet, Outcome, Upsert
from plantstore.errors import ErrorCode, NothingDoneError, StoreUnavailableError
from plantstore.observe import CommitFailed
from plantstore.plants import NewPlant
from support.streams import lines
from support.world import World, assert_error

SET, OTHER = "set-a-0123456789", "set-b-0123456789"
IN_SET = {"Change-Set": SET}
NDJSON = {"Content-Type": "application/x-ndjson"}
CREATE_NEW = {"If-None-Match": "*"}


def undo(world: World, name: str = SET, more: str = "", **named: Any) -> httpx.Response:
    return world.send("POST", f"/undo?set={name}{more}", **named)


def counts(**nonzero: Any) -> dict[str, Any]:
    return {"restored": 0, "deleted": 0, "recreated": 0, "kept": 0, "kept_ids": []} | nonzero


# Each operation that changes plants, where the plants 1 and 2 are stored.
CHANGES: dict[str, tuple[Any, ...]] = {
    "create": ("POST", "/plants", b'{"id":3,"name":"c"}'),
    "replace": ("PUT", "/plants/1", b'{"name":"b"}'),
    "create by put": ("PUT", "/plants/3", b'{"name":"b"}', None, CREATE_NEW),
    "patch": ("PATCH", "/plants/1", b'{"tag":null}'),
    "delete": ("DELETE", "/plants/1"),
    "csv": ("POST", "/plants.csv", b"id,name\n3,c\n", None, {"Content-Type": "text/csv"}),
    "ndjson": ("POST", "/plants.ndjson", b'{"id":3,"name":"c"}\n', None, NDJSON),
    "undo": ("POST", f"/undo?set={OTHER}"),
}


def in_set(change: tuple[Any, ...], name: str = SET) -> tuple[Any, ...]:
    """Return the arguments of `World.send` for a change with the field."""
    method, path, content, token, fields = (*change, None, None, None)[:5]
    return method, path, content, token, (fields or {}) | {"Change-Set": name}


def fill(world: World) -> None:
    world.put_in(NewPlant(1, "a", "t"), NewPlant(2, "b"))
    world.store.apply_changes([InSet(NewPlant(9, "x"), OTHER)])


@pytest.fixture
def filled(world: World) -> World:
    fill(world)
    return world


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_operation_that_changes_plants_can_be_undone(
    filled: World, change: tuple[Any, ...]
) -> None:
    before = filled.store.plants

    made = filled.send(*in_set(change))
    changed = filled.store.plants
    undone = undo(filled)

    assert made.is_success
    assert made.headers["Change-Set"] == SET
    assert changed != before
    assert undone.status_code == 200
    assert sum(value for key, value in undone.json().items() if key != "kept_ids") == 1
    assert filled.store.plants == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_whose_set_is_closed_is_refused(filled: World, change: tuple[Any, ...]) -> None:
    filled.store.apply_changes([InSet(NewPlant(8, "a"), SET)])
    undo(filled)
    before = filled.store.plants

    refused = filled.send(*in_set(change))

    if change[1].startswith("/plants."):
        assert refused.json()["refused"] == 1
        assert refused.json()["errors"][0]["error"] == ErrorCode.SET_CLOSED
    else:
        assert_error(refused, 409, ErrorCode.SET_CLOSED, "closed")
    assert filled.store.plants == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_malformed_name_is_refused_and_nothing_is_done(
    filled: World, change: tuple[Any, ...]
) -> None:
    before = filled.store.plants

    for name in ("", "x" * 15, "x" * 65, f"{'x' * 16} y", f"{'x' * 16}/"):
        refused = filled.send(*in_set(change, name))
        assert_error(refused, 400, ErrorCode.INVALID_PARAMETER, "`Change-Set` must be 16 to 64")
    assert filled.store.plants == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_that_is_not_recorded_is_made_and_does_not_name_its_set(
    change: tuple[Any, ...],
) -> None:
    with World(changes_keep=0) as world:
        fill(world)
        before = world.store.plants

        made = world.send(*in_set(change))
        changed = world.store.plants

    if "/undo" in change[1]:
        assert_error(made, 400, ErrorCode.INVALID_PARAMETER, "--changes-keep 0")
    else:
        assert made.is_success
        assert changed != before
    assert "Change-Set" not in made.headers


def test_a_request_that_changes_nothing_names_its_set(world: World) -> None:
    world.put_in(NewPlant(1, "a"))

    same = world.post(b'{"id":1,"name":"a"}', fields=IN_SET)
    refused = world.send("POST", "/plants.ndjson", b'{"id":1,"name":"b"}', fields=NDJSON | IN_SET)

    assert refused.json()["refused"] == 1
    assert [same.headers["Change-Set"], refused.headers["Change-Set"]] == [SET, SET]


def test_a_dry_run_of_an_import_is_in_no_set(world: World) -> None:
    made = world.send("POST", "/plants.ndjson?dry-run", lines(1, 3), fields=NDJSON | IN_SET)

    assert made.json()["stored"] == 3
    assert "Change-Set" not in made.headers
    assert_error(undo(world), 404, ErrorCode.NO_SUCH_SET)


def test_an_undo_counts_what_it_did_and_lists_the_plants_that_others_changed(
    filled: World,
) -> None:
    world = filled
    before = world.store.plants
    for change in ("replace", "create"):
        world.send(*in_set(CHANGES[change]))
    world.send("DELETE", "/plants/2", fields=IN_SET)
    world.send("POST", "/plants", b'{"id":4,"name":"d"}', fields=IN_SET)
    world.send("PATCH", "/plants/4", b'{"tag":"t"}')
    number = world.store.read_changes(None, 1).end

    undone = undo(world)

    assert undone.json() == counts(restored=1, deleted=1, recreated=1, kept=1, kept_ids=[4])
    assert world.store.plants == before | {4: NewPlant(4, "d", "t")}
    assert int(undone.headers["Changes-Before"]) == number
    assert int(undone.headers["Changes-After"]) == world.store.read_changes(None, 1).end > number


def test_a_dry_run_counts_the_same_closes_the_set_and_changes_nothing(filled: World) -> None:
    filled.send(*in_set(CHANGES["create"]))
    filled.send(*in_set(CHANGES["delete"]))
    before = filled.store.plants

    tried = undo(filled, more="&dry-run", fields={"Change-Set": "set-c-0123456789"})
    unchanged = filled.store.plants
    late = filled.send(*in_set(CHANGES["patch"]))
    undone = undo(filled)

    assert tried.json() == undone.json() == counts(deleted=1, recreated=1)
    assert unchanged == before
    assert tried.headers["Changes-Before"] == tried.headers["Changes-After"]
    assert "Change-Set" not in tried.headers
    assert_error(late, 409, ErrorCode.SET_CLOSED)


def test_an_undo_is_not_made_in_its_own_set(filled: World) -> None:
    filled.send(*in_set(CHANGES["create"]))

    own = undo(filled, fields=IN_SET)

    assert_error(own, 400, ErrorCode.INVALID_PARAMETER, "another set")


@pytest.mark.parametrize("query", ["", "?set=x", f"?set={'x' * 65}", f"?set={SET}&x=1", "?dry-run"])
def test_a_malformed_undo_is_refused(filled: World, query: str) -> None:
    assert_error(filled.send("POST", f"/undo{query}"), 400, ErrorCode.INVALID_PARAMETER)
    with_body = undo(filled, OTHER, content=b"{}")
    assert_error(with_body, 400, ErrorCode.INVALID_PARAMETER, "The body must be empty")
    assert 9 in filled.store.plants


@pytest.mark.parametrize("dry_run", ["", "&dry-run"])
@pytest.mark.parametrize(
    ("made", "scope"),
    [
        (InSet(NewPlant(3, "c"), SET), "plants:delete"),
        (InSet(Deletion(1), SET), "plants:create"),
        (InSet(Upsert(NewPlant(1, "c")), SET), "plants:update"),
    ],
)
def test_an_undo_needs_the_scopes_of_its_changes_alone_before_it_closes_the_set(
    world: World, made: InSet, scope: str, dry_run: str
) -> None:
    world.put_in(NewPlant(1, "a"))
    world.store.apply_changes([made])
    others = {"plants:create", "plants:update", "plants:delete", "plants:read"} - {scope}

    refused = undo(world, more=dry_run, token=world.add_token("others", *others))
    later = world.store.apply_changes([InSet(NewPlant(4, "d"), SET), InSet(Deletion(4), SET)])
    undone = undo(world, more=dry_run, token=world.add_token("one", scope))

    assert_error(refused, 403, ErrorCode.SCOPE_MISSING, scope)
    assert later == [Outcome.STORED, Outcome.DELETED]
    assert undone.status_code == 200


def test_who_may_change_plants_may_undo_a_set_that_created_a_plant_and_deleted_it(
    world: World,
) -> None:
    world.store.apply_changes([InSet(NewPlant(3, "c"), SET)])
    world.store.apply_changes([InSet(Deletion(3), SET)])

    reader = world.add_token("reader", "plants:read")
    refused = undo(world, token=reader)
    unknown = undo(world, OTHER, token=reader)
    later = world.store.apply_changes([InSet(NewPlant(4, "d"), SET), InSet(Deletion(4), SET)])
    undone = undo(world, token=world.add_token("updates", "plants:update"))

    for each in (refused, unknown):  # it does not learn which sets exist
        assert_error(each, 403, ErrorCode.SCOPE_MISSING, "plants:create")
    assert later == [Outcome.STORED, Outcome.DELETED]
    assert undone.json() == counts(deleted=1)


def test_a_change_while_the_scopes_are_checked_is_checked_too(world: World) -> None:
    """It is made before the set is closed, so the undo would make a change without a scope."""
    world.store.apply_changes([NewPlant(1, "a"), InSet(NewPlant(2, "b"), SET)])

    def change_before_close(_name: str) -> None:
        del world.store.before["close_set"]
        world.store.apply_changes([InSet(Deletion(1), SET)])

    world.store.before["close_set"] = change_before_close
    token = world.add_token("deletes", "plants:delete")

    assert_error(undo(world, token=token), 403, ErrorCode.SCOPE_MISSING, "plants:create")
    assert world.store.plants == {2: NewPlant(2, "b")}


@pytest.mark.world(rate_per_token="10/hour")
def test_each_plant_that_is_changed_is_a_use_of_the_token_and_an_undo_goes_on_where_it_was(
    world: World,
) -> None:
    world.store.apply_changes([InSet(NewPlant(id_, "a"), SET) for id_ in range(13)])

    first = undo(world)
    left = world.store.plants
    second = undo(world, token=world.add_token("another"))

    assert_error(first, 429, ErrorCode.RATE_EXCEEDED)
    assert len(left) == 4  # the request is a use, and a batch is half of the rate
    assert second.json() == counts(deleted=13)
    assert world.store.plants == {}


@pytest.mark.world(rate_per_token="100/second")  # so batches are small
def test_an_undo_ends_between_two_batches_when_its_client_leaves(world: World) -> None:
    world.store.apply_changes([InSet(NewPlant(id_, "a"), SET) for id_ in range(180)])
    request = world.request("POST", "/undo")
    request.query = f"set={SET}"
    request.is_client_gone = lambda: len(world.store.plants) < 180

    response = world.run(world.call(request))

    assert response.status == 400
    assert 0 < len(world.store.plants) < 180


@pytest.mark.parametrize(
    ("left", "error", "said"),
    [
        (9000, NothingDoneError("The server is away"), "The server is away; nothing was done"),
        (4000, NothingDoneError("The server is away"), "The server is away"),
        (4000, StoreUnavailableError("The disk is full"), "sending it again is safe"),
    ],
)
def test_an_undo_that_fails_is_completed_when_it_is_sent_again_and_says_if_nothing_was_done(
    world: World, left: int, error: StoreUnavailableError, said: str
) -> None:
    world.store.apply_changes([InSet(NewPlant(id_, "a"), SET) for id_ in range(9000)])

    def fail(_changes: object) -> None:
        if len(world.store.plants) <= left:
            raise error

    world.store.before["apply_changes"] = fail
    failed = undo(world)
    is_untouched = len(world.store.plants) == 9000
    world.store.repair()
    undone = undo(world)

    assert_error(failed, 503, ErrorCode.STORE_UNAVAILABLE, said)
    assert ("nothing was done" in failed.json()["message"]) is is_untouched
    assert undone.json() == counts(deleted=9000)
    assert world.store.plants == {}


def test_a_plant_that_is_changed_between_the_read_and_the_commit_is_kept(world: World) -> None:
    world.store.apply_changes([InSet(NewPlant(id_, "a"), SET) for id_ in (1, 2)])

    def overtake(_changes: object) -> None:
        world.store.repair()
        world.store.apply_changes([Upsert(NewPlant(2, "other"))])

    world.store.before["apply_changes"] = overtake
    undone = undo(world)

    assert undone.json() == counts(deleted=1, kept=1, kept_ids=[2])
    assert world.store.plants == {2: NewPlant(2, "other")}


def test_a_set_that_cannot_be_closed_is_503_and_nothing_is_undone(filled: World) -> None:
    filled.store.fail(StoreUnavailableError("The disk is full"), "close_set")

    assert_error(undo(filled, OTHER), 503, ErrorCode.STORE_UNAVAILABLE)
    assert len(filled.told(CommitFailed)) == 1
    assert 9 in filled.store.plants
