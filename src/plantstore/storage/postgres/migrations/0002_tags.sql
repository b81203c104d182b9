-- A tag may be longer than what an index holds (2,704 bytes), its hash is 16.
CREATE INDEX plants_by_tag ON plants ((md5(tag)::uuid), id) WHERE tag IS NOT NULL;
