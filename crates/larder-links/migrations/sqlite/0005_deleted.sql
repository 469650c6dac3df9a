-- A deleted link is kept for some time, so that it can be restored with its slug and its visits.
ALTER TABLE links ADD COLUMN deleted_at INTEGER;     -- milliseconds since 1970, UTC; NULL: not deleted

CREATE INDEX links_deleted ON links (deleted_at) WHERE deleted_at IS NOT NULL;
