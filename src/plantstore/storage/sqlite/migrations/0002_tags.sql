-- An index ends in the row's id, so plants with one tag stand in it in order of id.
CREATE INDEX plants_by_tag ON plants (tag) WHERE tag IS NOT NULL;
