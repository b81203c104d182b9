-- Change sets (plantstore.change_sets). A set is recorded with its first change: `first_number` is the
-- number of this change, and the key of the set. `changes` is how many it has. A closed set gets no more.
CREATE TABLE change_sets (
    first_number INTEGER PRIMARY KEY,
    last_number INTEGER NOT NULL,
    name TEXT NOT NULL UNIQUE,
    changes INTEGER NOT NULL,
    closed INTEGER NOT NULL
) STRICT;

-- The set of the change, and what the plant was before. All are NULL if the change is in no set.
ALTER TABLE changes ADD COLUMN set_number INTEGER;
ALTER TABLE changes ADD COLUMN name_before TEXT;
ALTER TABLE changes ADD COLUMN tag_before TEXT;
CREATE INDEX changes_of_sets ON changes (set_number, id) WHERE set_number IS NOT NULL;
