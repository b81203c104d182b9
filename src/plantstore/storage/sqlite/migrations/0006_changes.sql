-- The feed of changes (plantstore.feed). A row is appended for each change, and only its number is
-- indexed. `change` is 1 if the plant was created, 2 if it was replaced, and 3 if it was deleted. `at`
-- is in whole seconds since 1970, UTC.
CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    change INTEGER NOT NULL,
    at INTEGER NOT NULL,
    id INTEGER NOT NULL,
    name TEXT,
    tag TEXT
) STRICT;

-- One row. `days`: how long changes are kept; 0 if the feed is off. `kept_after`: all changes after
-- this number are kept. `last`: the last number. `kept`: the number of rows in `changes`.
CREATE TABLE feed (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    days INTEGER NOT NULL,
    kept_after INTEGER NOT NULL,
    last INTEGER NOT NULL,
    kept INTEGER NOT NULL
) STRICT;
INSERT INTO feed VALUES (1, 0, 0, 0, 0);
