-- An index of all sequences of three characters in slug, title and address, without a copy of the texts.
CREATE VIRTUAL TABLE links_text USING fts5 (
    slug, title, url, content = 'links', content_rowid = 'id', tokenize = 'trigram', columnsize = 0
);

INSERT INTO links_text (links_text) VALUES ('rebuild');

-- An insertion adds its own row to the index. A trigger would open a savepoint for each, at which FTS5 writes what it has in
-- memory: an import would take twice the time.
CREATE TRIGGER links_text_delete AFTER DELETE ON links BEGIN
    INSERT INTO links_text (links_text, rowid, slug, title, url)
    VALUES ('delete', old.id, old.slug, old.title, old.url);
END;

-- Not of the other columns: every write of visits would update the index.
CREATE TRIGGER links_text_update AFTER UPDATE OF slug, title, url ON links BEGIN
    INSERT INTO links_text (links_text, rowid, slug, title, url)
    VALUES ('delete', old.id, old.slug, old.title, old.url);
    INSERT INTO links_text (rowid, slug, title, url) VALUES (new.id, new.slug, new.title, new.url);
END;
