-- The checksum of the plant (plantstore.storage.sqlite.checksums). It is NULL while the plant is not
-- indexed yet, and if another program has stored it.
ALTER TABLE plants ADD COLUMN checksum INTEGER;

-- The Plant Store sets another checksum with each change. Other programs leave the old one.
CREATE TRIGGER forget_checksum AFTER UPDATE OF id, name, tag ON plants
WHEN new.checksum IS old.checksum AND (new.id, new.name, new.tag) IS NOT (old.id, old.name, old.tag)
BEGIN
    UPDATE plants SET checksum = NULL WHERE id = new.id;
END;

-- The index is filled again, in short transactions, and with it the checksums.
INSERT INTO plant_words (plant_words) VALUES ('delete-all');
DELETE FROM plants_to_index;
INSERT INTO plants_to_index SELECT id FROM plants ORDER BY id LIMIT 1;
