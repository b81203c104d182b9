-- Rows that a batch updates if it changes nothing else, so that its commit waits for the standbys.
CREATE TABLE plantstore_markers (
    slot BIGINT PRIMARY KEY,
    number BIGINT NOT NULL
);
