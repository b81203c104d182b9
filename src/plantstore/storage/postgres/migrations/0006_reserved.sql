-- Reserved for the feed of changes.
SELECT 1;
