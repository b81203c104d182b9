-- What is written where an engine has no message for its log (pg_logical_emit_message).
CREATE TABLE plantstore_traces (
    slot BIGINT PRIMARY KEY,
    number BIGINT NOT NULL
);
