-- One row: the last id that the service handed out. It has no row until then. A table without a
-- primary key could not be changed while it is published (logical replication).
CREATE TABLE handed_out_ids (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    last_id BIGINT NOT NULL
);
