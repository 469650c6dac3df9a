-- Links, and the key under which row ids become slugs.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- The program sets it: a generator of this process, as that of SQLite, is copied by a fork.
INSERT INTO meta (name, value) VALUES ('slug_key', zeroblob(16));

-- AUTOINCREMENT: the id of a deleted link never comes back, and so neither does its slug.
CREATE TABLE links (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    slug       TEXT    NOT NULL UNIQUE,
    url        TEXT    NOT NULL,
    title      TEXT    NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,            -- milliseconds since 1970, UTC
    visits     INTEGER NOT NULL DEFAULT 0
);
