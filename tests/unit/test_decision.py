"""Which stored plants a batch has to be compared with."""

from plantstore.decision import DIFFERENT, decide, load_stored
from plantstore.plants import NewPlant, Plant
from plantstore.store import Change, Deletion, Outcome, Replacement


def test_only_plants_of_the_size_of_a_create_are_loaded() -> None:
    stored = {
        plant.id: plant
        for plant in [
            NewPlant(1, "equal", "tag"),
            NewPlant(2, "other", "tag"),
            NewPlant(3, "longer"),
            NewPlant(4, "a"),
            NewPlant(5, "×"),
            NewPlant(6, "gone"),
            NewPlant(7, "replaced"),
        ]
    }
    changes: list[Change] = [
        *(NewPlant(1, "equal", "tag"), NewPlant(2, "OTHER", "tag"), NewPlant(3, "long")),
        *(NewPlant(4, "a", ""), NewPlant(5, "ab"), Deletion(6), NewPlant(6, "new")),
        *(Replacement(7, Plant("b")), NewPlant(7, "b"), NewPlant(8, "new")),
    ]
    loaded: list[int] = []

    def load(ids: list[int]) -> dict[int, NewPlant]:
        loaded.extend(ids)
        return {id_: stored[id_] for id_ in ids}

    sizes = {
        plant.id: (len(plant.name.encode()), None if plant.tag is None else len(plant.tag))
        for plant in stored.values()
    }
    known = load_stored(changes, sizes, load)

    assert loaded == [1, 2, 5]
    assert known == dict.fromkeys(stored, DIFFERENT) | {id_: stored[id_] for id_ in loaded}
    assert decide(changes, known) == decide(changes, stored)


def test_nothing_is_loaded_for_a_batch_of_new_plants() -> None:
    def load(ids: list[int]) -> dict[int, NewPlant]:
        raise AssertionError(ids)

    known = load_stored([NewPlant(1, "a")], {}, load)

    assert decide([NewPlant(1, "a")], known)[0] == [Outcome.STORED]
