-- The words of the name (plantstore.words). They are NULL while the plant is not indexed yet.
ALTER TABLE plants ADD COLUMN words TSVECTOR;
-- A search reads the whole list of pending entries, so it is kept short (KiB).
CREATE INDEX plants_by_word ON plants USING gin (words) WITH (gin_pending_list_limit = 256);
CREATE INDEX plants_to_index ON plants (id) WHERE words IS NULL;

-- The number of plants is the sum of the rows.
CREATE TABLE totals (
    slot BIGINT PRIMARY KEY,
    plants BIGINT NOT NULL
);
INSERT INTO totals SELECT 0, count(*) FROM plants;
