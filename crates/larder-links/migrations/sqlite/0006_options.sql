-- What the owner can choose for a link besides its address, slug and title.
ALTER TABLE links ADD COLUMN expires_at INTEGER;     -- milliseconds since 1970, UTC; NULL: never
ALTER TABLE links ADD COLUMN max_visits INTEGER;     -- NULL: any number
ALTER TABLE links ADD COLUMN forward_query INTEGER NOT NULL DEFAULT 0;

CREATE TABLE link_tags (
    tag     TEXT    NOT NULL,
    link_id INTEGER NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, link_id)
) WITHOUT ROWID;

CREATE INDEX link_tags_by_link ON link_tags (link_id);
