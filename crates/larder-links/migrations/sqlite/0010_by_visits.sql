-- The list by visits. Deleted links are few, and have an index of their own. An entry of an index ends with the row's id, so
-- this is the order of visits and id.
CREATE INDEX links_by_visits ON links (visits) WHERE deleted_at IS NULL;
