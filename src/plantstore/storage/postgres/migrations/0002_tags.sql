-- A tag may be longer than an index entry (2,704 bytes). Its hash has 16 bytes.
CREATE INDEX plants_by_tag ON plants ((md5(tag)::uuid), id) WHERE tag IS NOT NULL;
