"""Random batches of changes: every store agrees with a model that makes the changes one by one."""

from collections.abc import Callable

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plantstore.changes import (
    ANY,
    Change,
    Conditional,
    Deletion,
    Outcome,
    Patch,
    PlantOutcome,
    Precondition,
    Replacement,
    Result,
    Upsert,
    entity_tag,
)
from plantstore.listings import Listing, Page
from plantstore.plants import ID_MAX, ID_MIN, NewPlant, Plant, PlantPatch
from plantstore.store import Store

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
names = st.sampled_from(["a", "b"]) | texts
tags = st.none() | st.sampled_from(["a", "b"]) | texts
ids = st.sampled_from([ID_MIN, -1, 0, 1, 2**53 + 1, ID_MAX]) | st.integers(ID_MIN, ID_MAX)
patches = st.builds(PlantPatch, st.just(msgspec.UNSET) | names, st.just(msgspec.UNSET) | tags)
creates = st.builds(NewPlant, ids, names, tags)
unconditional = st.one_of(
    st.builds(Upsert, creates),
    st.builds(Replacement, ids, st.builds(Plant, names, tags)),
    st.builds(Patch, ids, patches),
    st.builds(Deletion, ids),
)
etags = st.builds(entity_tag, names, tags)
fields = st.none() | st.just(ANY) | st.frozensets(etags, max_size=3)
conditional = st.builds(Conditional, unconditional, st.builds(Precondition, fields, fields))
changes = creates | unconditional | conditional


def make(change: Change, model: dict[int, NewPlant]) -> Result:
    """Apply one change to the model, by the rules of the contract."""
    there = model.get(change.id)
    match change:
        case Conditional(change=inner, precondition=precondition):
            return make_if(precondition, inner, model)
        case NewPlant() if there is None:
            model[change.id] = change
            return Outcome.STORED
        case NewPlant():
            return Outcome.ALREADY_STORED if there == change else Outcome.ID_TAKEN
        case Upsert(plant=plant):
            outcome = make(plant, model)
            model[change.id] = plant
            return Outcome.REPLACED if outcome is Outcome.ID_TAKEN else outcome
    return Outcome.NO_SUCH_PLANT if there is None else make_of(there, change, model)


def make_of(there: NewPlant, change: Change, model: dict[int, NewPlant]) -> Result:
    """Apply a change of a plant that is there to the model."""
    match change:
        case Replacement(plant=plant):
            model[change.id] = NewPlant(change.id, plant.name, plant.tag)
            return Outcome.REPLACED
        case Patch(patch=patch):
            members = msgspec.structs.asdict(patch).items()
            new = {name: value for name, value in members if value is not msgspec.UNSET}
            model[change.id] = after = msgspec.structs.replace(there, **new)
            same = after == there
            return PlantOutcome(Outcome.ALREADY_STORED if same else Outcome.REPLACED, after)
    del model[change.id]
    return Outcome.DELETED


def make_if(precondition: Precondition, change: Change, model: dict[int, NewPlant]) -> Result:
    """Apply a change if its condition is true, or if it changes nothing and was made before."""
    there = model.get(change.id)
    tags = set() if there is None else {"*", entity_tag(there.name, there.tag)}
    may = precondition.if_match is None or bool(tags & precondition.if_match)
    may_not = bool(tags & (precondition.if_none_match or set()))
    before = dict(model)
    result = make(change, model)
    if may_not or not (may or (there is not None and before == model)):
        model.clear()
        model.update(before)
        return PlantOutcome(Outcome.PRECONDITION_FAILED, there)
    return result


@given(st.lists(st.lists(changes, max_size=8), max_size=4))
@settings(
    max_examples=100,
    deadline=None,
    # Each example opens a store of its own.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_batches_have_the_same_outcomes_and_records_as_single_changes(
    open_another: Callable[[], Store], batches: list[list[Change]]
) -> None:
    opened = open_another()
    model: dict[int, NewPlant] = {}

    for batch in batches:
        assert opened.apply_changes(batch) == [make(change, model) for change in batch]

    everything = [model[id_] for id_ in sorted(model)]
    assert opened.list_plants(Listing(limit=100)) == Page(everything, is_last=True)
    assert opened.find_plants(list(model)) == model
    assert [plant for plants in opened.scan_plants() for plant in plants] == everything
    for tag in {plant.tag for plant in everything} - {None}:
        tagged = [plant for plant in everything if plant.tag == tag]
        assert opened.list_plants(Listing(limit=100, tag=tag)) == Page(tagged, is_last=True)
    opened.close()
