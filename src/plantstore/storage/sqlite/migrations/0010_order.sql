-- Each plant has a word more, by which it has its place in the order by name; plants without a tag have
-- one for that, and the words of tags are in order. The index is filled again, in short transactions.
INSERT INTO plant_words (plant_words) VALUES ('delete-all');
DELETE FROM plants_to_index;
INSERT INTO plants_to_index SELECT id FROM plants ORDER BY id LIMIT 1;
