-- The schema of version 1.0.0, the first one.

-- The migrations that were applied. Each record is committed together with its migration.
CREATE TABLE plantstore_migrations (
    version BIGINT PRIMARY KEY,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- `words` are those of the name (plantstore.words). `name_key` is the key by which names are in order,
-- compared by its bytes. Both are NULL while the plant is not indexed yet.
CREATE TABLE plants (
    id BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    tag TEXT,
    words TSVECTOR,
    name_key TEXT COLLATE "C"
);
-- A tag may be longer than an index entry (2,704 bytes). Its hash has 16 bytes.
CREATE INDEX plants_by_tag ON plants ((md5(tag)::uuid), id) WHERE tag IS NOT NULL;
CREATE INDEX plants_without_tag ON plants (id) WHERE tag IS NULL;
-- A search reads the whole list of pending entries, so it is kept short (KiB).
CREATE INDEX plants_by_word ON plants USING gin (words) WITH (gin_pending_list_limit = 256);
CREATE INDEX plants_by_name ON plants (name_key, id) WHERE name_key IS NOT NULL;
CREATE INDEX plants_to_index ON plants (id) WHERE name_key IS NULL;

-- Times are whole seconds since 1970, UTC. Scopes are separated by spaces (RFC 6749 §3.3).
CREATE TABLE tokens (
    name TEXT PRIMARY KEY,
    digest BYTEA NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);

-- Rows that a batch updates if it changes nothing else, so that its commit waits for the standbys.
CREATE TABLE plantstore_markers (
    slot BIGINT PRIMARY KEY,
    number BIGINT NOT NULL
);

-- One row: the last id that the service handed out. It has no row until then. A table without a
-- primary key could not be changed while it is published (logical replication).
CREATE TABLE handed_out_ids (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    last_id BIGINT NOT NULL
);

-- The number of plants is the sum of the rows.
CREATE TABLE totals (
    slot BIGINT PRIMARY KEY,
    plants BIGINT NOT NULL
);
INSERT INTO totals VALUES (0, 0);

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
