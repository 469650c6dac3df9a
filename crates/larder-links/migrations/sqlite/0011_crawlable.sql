-- Whether crawlers may follow and index a link.
ALTER TABLE links ADD COLUMN crawlable INTEGER NOT NULL DEFAULT 0;

CREATE INDEX links_crawlable ON links (id) WHERE crawlable;
