-- The visits of each link, one row for every link. They are not a column of links: an update writes a new version of its row,
-- which would enter every index of links again, the one of the search too.
CREATE TABLE link_visits (
    link_id bigint PRIMARY KEY REFERENCES links (id) ON DELETE CASCADE,
    visits  bigint NOT NULL
);

-- The list by visits.
CREATE INDEX link_visits_by_visits ON link_visits (visits, link_id);

-- Visits per link and quarter hour: in every time zone of today, a day begins with one.
CREATE TABLE visits_quarterly (
    link_id bigint NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    quarter bigint NOT NULL,                -- quarter hours since 1970, UTC
    count   bigint NOT NULL,
    PRIMARY KEY (link_id, quarter)
);

-- The sums of older ones.
CREATE TABLE visits_daily (
    link_id bigint NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    day     bigint NOT NULL,                -- days since 1970, UTC
    count   bigint NOT NULL,
    PRIMARY KEY (link_id, day)
);

-- Visits per link, day and value of a dimension: there is no row for a single visit, and no address.
CREATE TABLE visit_dimensions (
    link_id   bigint   NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    day       bigint   NOT NULL,            -- days since 1970, UTC
    dimension smallint NOT NULL,            -- 0 referrer, 1 browser, 2 system, 3 device, 4 country, 5 bot
    value     text     COLLATE "C" NOT NULL,
    count     bigint   NOT NULL,
    PRIMARY KEY (link_id, day, dimension, value)
);

-- To find the rows that are old enough to be summed, or to be dropped.
CREATE INDEX visits_quarterly_by_quarter ON visits_quarterly (quarter);
CREATE INDEX visits_daily_by_day ON visits_daily (day);
CREATE INDEX visit_dimensions_by_day ON visit_dimensions (day);

-- The last batches of visits that each instance has written. An instance whose connection broke during a commit finds here
-- whether its batch is stored.
CREATE TABLE visit_batches (
    instance   bytea  NOT NULL,
    number     bigint NOT NULL,
    written_at bigint NOT NULL,
    PRIMARY KEY (instance, number)
);

CREATE INDEX visit_batches_by_time ON visit_batches (written_at);
