-- Names with apostrophes or invisible characters have other words now. All but one are not ASCII.
UPDATE plants SET words = NULL WHERE octet_length(name) <> char_length(name) OR strpos(name, '''') > 0;
