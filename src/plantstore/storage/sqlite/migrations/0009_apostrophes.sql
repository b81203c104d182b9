-- Names with apostrophes or invisible characters have other words now. The words of a name are not in
-- the table, so the index is filled again, in short transactions.
INSERT INTO plant_words (plant_words) VALUES ('delete-all');
DELETE FROM plants_to_index;
INSERT INTO plants_to_index SELECT id FROM plants ORDER BY id LIMIT 1;
