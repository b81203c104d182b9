-- Each commit merges a few pages of the index of words, if there are sixteen segments of about one size.
INSERT INTO plant_words (plant_words, rank) VALUES ('automerge', 16), ('usermerge', 16), ('crisismerge', 64);
