-- Visits per link and day, so that a chart never has to count single visits.
CREATE TABLE visits_daily (
    link_id INTEGER NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    day     INTEGER NOT NULL,               -- days since 1970-01-01, UTC
    count   INTEGER NOT NULL,
    PRIMARY KEY (link_id, day)
) WITHOUT ROWID;
