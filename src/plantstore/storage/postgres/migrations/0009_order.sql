-- The key by which names are in order (plantstore.words), compared by its bytes. It is NULL while the
-- plant is not indexed yet.
ALTER TABLE plants ADD COLUMN name_key TEXT COLLATE "C";
CREATE INDEX plants_by_name ON plants (name_key, id) WHERE name_key IS NOT NULL;
CREATE INDEX plants_without_tag ON plants (id) WHERE tag IS NULL;
DROP INDEX plants_to_index;
CREATE INDEX plants_to_index ON plants (id) WHERE name_key IS NULL;
