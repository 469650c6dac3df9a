-- Visits per link and quarter hour: in every time zone of today, a day begins with one.
CREATE TABLE visits_quarterly (
    link_id INTEGER NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    quarter INTEGER NOT NULL,               -- quarter hours since 1970, UTC
    count   INTEGER NOT NULL,
    PRIMARY KEY (link_id, quarter)
) WITHOUT ROWID;

-- To find the rows that are old enough to be summed, or to be dropped. `visits_daily` has the sums from now on.
CREATE INDEX visits_quarterly_by_quarter ON visits_quarterly (quarter);
CREATE INDEX visits_daily_by_day ON visits_daily (day);
