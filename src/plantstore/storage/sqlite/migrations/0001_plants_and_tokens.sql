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
