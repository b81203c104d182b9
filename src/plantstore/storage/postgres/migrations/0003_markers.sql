-- Rows that are written where an engine cannot put a message into its log (pg_logical_emit_message).
CREATE TABLE plantstore_markers (
    slot BIGINT PRIMARY KEY,
    number BIGINT NOT NULL
);
