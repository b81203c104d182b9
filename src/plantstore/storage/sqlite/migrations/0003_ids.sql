-- One row: the last id that the service handed out. It has no row until then.
CREATE TABLE handed_out_ids (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last_id INTEGER NOT NULL
) STRICT;
