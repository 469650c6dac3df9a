-- A hash of address and title: finds the link that an import has made before without an index over whole addresses.
-- Rows older than this column have none, and are simply not recognised by an import.
ALTER TABLE links ADD COLUMN fingerprint INTEGER;

CREATE INDEX links_by_fingerprint ON links (fingerprint) WHERE fingerprint IS NOT NULL;
