-- The index of words has the tags, too. An entry of a B-tree for each plant changed one more page if
-- its id or tag was random; FTS5 appends its entries and merges them later.
DROP INDEX plants_by_tag;
INSERT INTO plant_words (plant_words) VALUES ('delete-all');

-- The index is filled again, in short transactions.
DELETE FROM plants_to_index;
INSERT INTO plants_to_index SELECT id FROM plants ORDER BY id LIMIT 1;
