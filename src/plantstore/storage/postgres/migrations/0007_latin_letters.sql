-- Names with letters such as ø, or with ×, have other words now. They are not ASCII.
UPDATE plants SET words = NULL WHERE octet_length(name) <> char_length(name);
