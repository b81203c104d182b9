-- The key by which names are in order (plantstore.words), compared by its bytes. It is NULL while the
-- plant is not indexed yet.
ALTER TABLE plants ADD COLUMN name_key TEXT;

-- The words of names, of tags and of keys. `_` is a part of words now: no name has words with it, so the
-- words of tags and keys begin with it.
DROP TABLE plant_words;
CREATE VIRTUAL TABLE plant_words USING fts5(
    words, content='', columnsize=0, detail=none, prefix='1 3 4', tokenize='ascii tokenchars _'
);
INSERT INTO plant_words (plant_words, rank)
VALUES ('automerge', 16), ('usermerge', 16), ('crisismerge', 64), ('pgsz', 1990);

-- The index is filled again, in short transactions, and with it the keys.
DELETE FROM plants_to_index;
INSERT INTO plants_to_index SELECT id FROM plants ORDER BY id LIMIT 1;
