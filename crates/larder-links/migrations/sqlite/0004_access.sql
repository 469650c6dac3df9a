-- Who may use the API. Only hashes are stored: a copy of the database opens nothing.
CREATE TABLE tokens (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB    NOT NULL UNIQUE,     -- SHA-256 of the token
    name       TEXT    NOT NULL,
    scope      TEXT    NOT NULL CHECK (scope IN ('read', 'write')),
    created_at INTEGER NOT NULL             -- milliseconds since 1970, UTC
);

CREATE TABLE sessions (
    hash       BLOB    PRIMARY KEY,         -- SHA-256 of the cookie's value
    token_id   INTEGER NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL             -- milliseconds since 1970, UTC
) WITHOUT ROWID;

CREATE INDEX sessions_by_token ON sessions (token_id, expires_at);
