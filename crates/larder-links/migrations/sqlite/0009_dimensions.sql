-- Visits per link, day and value of a dimension: there is no row for a single visit, and no address.
CREATE TABLE visit_dimensions (
    link_id   INTEGER NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    day       INTEGER NOT NULL,             -- days since 1970, UTC
    dimension INTEGER NOT NULL,             -- 0 referrer, 1 browser, 2 system, 3 device, 4 country, 5 bot
    value     TEXT    NOT NULL,
    count     INTEGER NOT NULL,
    PRIMARY KEY (link_id, day, dimension, value)
) WITHOUT ROWID;

-- To find the rows that are old enough to be dropped.
CREATE INDEX visit_dimensions_by_day ON visit_dimensions (day);
