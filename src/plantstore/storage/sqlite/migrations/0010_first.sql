-- The schema of version 1.0.0, the first one.

-- The id is the rowid, so each plant is one entry in one B-tree.
CREATE TABLE plants (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    tag TEXT
) STRICT;

-- Times are whole seconds since 1970, UTC. Scopes are separated by spaces (RFC 6749 §3.3).
CREATE TABLE tokens (
    name TEXT PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- One row: the last id that the service handed out. It has no row until then.
CREATE TABLE handed_out_ids (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last_id INTEGER NOT NULL
) STRICT;

-- The words of the plants' names (plantstore.words). The table is only an index: it has no texts.
CREATE VIRTUAL TABLE plant_words USING fts5(
    words, content='', columnsize=0, detail=none, prefix='1 3 4', tokenize='ascii'
);
-- Each commit merges a few pages of the index of words, if there are sixteen segments of about one size.
-- A piece of a segment (pgsz bytes) fits on one page of 2048 bytes.
INSERT INTO plant_words (plant_words, rank)
VALUES ('automerge', 16), ('usermerge', 16), ('crisismerge', 64), ('pgsz', 1990);

-- While it has a row, plants from this id on are not in the index yet.
CREATE TABLE plants_to_index (first INTEGER NOT NULL) STRICT;

-- One row: the number of plants.
CREATE TABLE totals (plants INTEGER NOT NULL) STRICT;
INSERT INTO totals VALUES (0);

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
