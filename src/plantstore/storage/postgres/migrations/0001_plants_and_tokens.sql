-- The migrations that were applied. Each record is committed together with its migration.
CREATE TABLE plantstore_migrations (
    version BIGINT PRIMARY KEY,
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE plants (
    id BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    tag TEXT
);

-- Times are whole seconds since 1970, UTC. Scopes are separated by spaces (RFC 6749 §3.3).
CREATE TABLE tokens (
    name TEXT PRIMARY KEY,
    digest BYTEA NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
