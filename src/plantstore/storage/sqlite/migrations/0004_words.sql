-- The words of the plants' names (plantstore.words). The table is only an index: it has no texts.
CREATE VIRTUAL TABLE plant_words USING fts5(
    words, content='', columnsize=0, detail=none, prefix='1 3 4', tokenize='ascii'
);
-- While plants are stored, segments are merged if there are eight of one size. An idle service merges
-- them also if there are two.
INSERT INTO plant_words (plant_words, rank) VALUES ('automerge', 8), ('usermerge', 2);
-- A piece of a segment (pgsz bytes) fits on one page of 2048 bytes.
INSERT INTO plant_words (plant_words, rank) VALUES ('pgsz', 1990);

-- While it has a row, plants from this id on are not in the index yet.
CREATE TABLE plants_to_index (first INTEGER NOT NULL) STRICT;
INSERT INTO plants_to_index SELECT id FROM plants ORDER BY id LIMIT 1;

-- One row: the number of plants.
CREATE TABLE totals (plants INTEGER NOT NULL) STRICT;
INSERT INTO totals SELECT count(*) FROM plants;
