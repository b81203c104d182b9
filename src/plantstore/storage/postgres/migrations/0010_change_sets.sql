-- Change sets (plantstore.change_sets). A set is recorded with its first change: `first_number` is the
-- number of this change, and the key of the set. `changes` is how many it has. A closed set gets no more.
-- Its row is locked after that of `feed`.
CREATE TABLE change_sets (
    first_number BIGINT PRIMARY KEY,
    last_number BIGINT NOT NULL,
    name TEXT NOT NULL UNIQUE,
    changes BIGINT NOT NULL,
    closed BOOLEAN NOT NULL
);

-- The set of the change, and what the plant was before. All are NULL if the change is in no set.
ALTER TABLE changes ADD COLUMN set_number BIGINT;
ALTER TABLE changes ADD COLUMN name_before TEXT;
ALTER TABLE changes ADD COLUMN tag_before TEXT;
CREATE INDEX changes_of_sets ON changes (set_number, id, number) WHERE set_number IS NOT NULL;

-- Names with a tatweel, or with more characters that look like an apostrophe, have other words and
-- another key now. All but one are not ASCII.
UPDATE plants SET words = NULL, name_key = NULL WHERE octet_length(name) <> char_length(name) OR strpos(name, '`') > 0;
