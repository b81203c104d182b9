-- The feed of changes (plantstore.feed). A row is appended for each change. `change` is 1 if the plant
-- was created, 2 if it was replaced, and 3 if it was deleted. `at` is in whole seconds since 1970, UTC.
CREATE TABLE changes (
    number BIGINT PRIMARY KEY,
    change BIGINT NOT NULL,
    at BIGINT NOT NULL,
    id BIGINT NOT NULL,
    name TEXT,
    tag TEXT
);

-- One row. `days`: how long changes are kept; 0 if the feed is off. `kept_after`: all changes after
-- this number are kept. `last`: the last number. `kept`: the number of rows in `changes`. Each
-- transaction that appends to the feed updates the row, and so holds its lock until it commits.
CREATE TABLE feed (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    days BIGINT NOT NULL,
    kept_after BIGINT NOT NULL,
    last BIGINT NOT NULL,
    kept BIGINT NOT NULL
);
INSERT INTO feed VALUES (1, 0, 0, 0, 0);
