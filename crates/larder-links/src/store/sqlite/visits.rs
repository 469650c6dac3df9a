//! The SQL of visits: written in quarter hours, summed into days when they are old, dropped when they are older still.
//!
//! ```text
//! visits_quarterly ── after 90 days ──► visits_daily (UTC) ── after the retention ──► dropped
//! ```
//!
//! The total in `links` stays.

use crate::store::{Day, QUARTERS_PER_DAY, Quarter, VisitHistory, VisitKey};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

/// The statements that add visits, prepared once for many rows.
pub(super) struct Additions<'c> {
    link: CachedStatement<'c>,
    known: CachedStatement<'c>,
    new: CachedStatement<'c>,
}

impl<'c> Additions<'c> {
    pub(super) fn prepare(connection: &'c Connection) -> rusqlite::Result<Additions<'c>> {
        // Without RETURNING, for which SQLite makes a table in memory for each row. And no upsert: for one that may fail it
        // keeps what it changes, while nearly all rows are known.
        let link = "UPDATE links SET visits = visits + ?2 WHERE id = ?1";
        let known = "UPDATE visits_quarterly SET count = count + ?3 WHERE link_id = ?1 AND quarter = ?2";
        let new = "INSERT INTO visits_quarterly (link_id, quarter, count) VALUES (?1, ?2, ?3)";
        Ok(Additions {
            link: connection.prepare_cached(link)?,
            known: connection.prepare_cached(known)?,
            new: connection.prepare_cached(new)?,
        })
    }

    /// Adds visits to a link; false if it does not exist.
    pub(super) fn add(&mut self, key: VisitKey, visits: u64) -> rusqlite::Result<bool> {
        let (link_id, visits) = (key.link_id as i64, visits as i64);
        if self.link.execute([link_id, visits])? == 0 {
            return Ok(false);
        }
        let row = [link_id, key.quarter, visits];
        if self.known.execute(row)? == 0 {
            self.new.execute(row)?;
        }
        Ok(true)
    }
}

/// The slug of a link and its visits; `None` if it does not exist.
pub(super) fn slug_and_total(
    connection: &Connection,
    link_id: u64,
) -> rusqlite::Result<Option<(String, u64)>> {
    connection
        .prepare_cached("SELECT slug, visits FROM links WHERE id = ?1")?
        .query_row([link_id as i64], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))
        .optional()
}

/// The visits of a link in the database; `None` if it does not exist.
pub(super) fn total(connection: &Connection, link_id: u64) -> rusqlite::Result<Option<u64>> {
    connection
        .prepare_cached("SELECT visits FROM links WHERE id = ?1")?
        .query_row([link_id as i64], |row| Ok(row.get::<_, i64>(0)? as u64))
        .optional()
}

/// The visits of a link since a quarter hour, and the sums of whole days in UTC since then.
pub(super) fn history(
    connection: &Connection,
    link_id: u64,
    since: Quarter,
) -> rusqlite::Result<VisitHistory> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64));
    let quarters = connection
        .prepare_cached(
            "SELECT quarter, count FROM visits_quarterly WHERE link_id = ?1 AND quarter >= ?2 ORDER BY quarter",
        )?
        .query_map(params![link_id as i64, since], read)?
        .collect::<rusqlite::Result<_>>()?;
    let days = connection
        .prepare_cached("SELECT day, count FROM visits_daily WHERE link_id = ?1 AND day >= ?2 ORDER BY day")?
        .query_map(params![link_id as i64, since.div_euclid(QUARTERS_PER_DAY)], read)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(VisitHistory { quarters, days })
}

/// Sums up to `limit` rows of quarter hours before a day into days; returns how many rows there were.
pub(super) fn fold(connection: &Connection, before: Day, limit: usize) -> rusqlite::Result<usize> {
    let select =
        "SELECT link_id, quarter, count FROM visits_quarterly WHERE quarter < ?1 ORDER BY quarter LIMIT ?2";
    let rows = connection
        .prepare_cached(select)?
        .query_map(params![before * QUARTERS_PER_DAY, limit as i64], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<rusqlite::Result<Vec<(i64, Quarter, i64)>>>()?;
    let insert = "INSERT INTO visits_daily (link_id, day, count) VALUES (?1, ?2, ?3)
                  ON CONFLICT (link_id, day) DO UPDATE SET count = count + excluded.count";
    let mut insert = connection.prepare_cached(insert)?;
    let mut delete =
        connection.prepare_cached("DELETE FROM visits_quarterly WHERE link_id = ?1 AND quarter = ?2")?;
    for &(link_id, quarter, count) in &rows {
        insert.execute(params![link_id, quarter.div_euclid(QUARTERS_PER_DAY), count])?;
        delete.execute(params![link_id, quarter])?;
    }
    Ok(rows.len())
}

/// Drops up to `limit` rows of each table before a day; returns how many there were.
pub(super) fn drop_before(connection: &Connection, day: Day, limit: usize) -> rusqlite::Result<usize> {
    let days = "DELETE FROM visits_daily WHERE (link_id, day) IN
                (SELECT link_id, day FROM visits_daily WHERE day < ?1 LIMIT ?2)";
    let quarters = "DELETE FROM visits_quarterly WHERE (link_id, quarter) IN
                    (SELECT link_id, quarter FROM visits_quarterly WHERE quarter < ?1 LIMIT ?2)";
    let limit = limit as i64;
    Ok(connection.prepare_cached(days)?.execute(params![day, limit])?
        + connection.prepare_cached(quarters)?.execute(params![day * QUARTERS_PER_DAY, limit])?)
}

/// Drops up to `limit` rows of each table of links that were deleted until then; returns how many there were.
pub(super) fn drop_of_deleted(
    connection: &Connection,
    until_ms: i64,
    limit: usize,
) -> rusqlite::Result<usize> {
    let quarters = "DELETE FROM visits_quarterly WHERE (link_id, quarter) IN
                    (SELECT link_id, quarter FROM links INDEXED BY links_deleted CROSS JOIN visits_quarterly ON link_id = id
                     WHERE deleted_at <= ?1 LIMIT ?2)";
    let days = "DELETE FROM visits_daily WHERE (link_id, day) IN
                (SELECT link_id, day FROM links INDEXED BY links_deleted CROSS JOIN visits_daily ON link_id = id
                 WHERE deleted_at <= ?1 LIMIT ?2)";
    let limit = limit as i64;
    Ok(connection.prepare_cached(quarters)?.execute(params![until_ms, limit])?
        + connection.prepare_cached(days)?.execute(params![until_ms, limit])?)
}

/// Forgets the visits of a link, its total included; false if there is no such link.
pub(super) fn forget(connection: &Connection, link_id: u64) -> rusqlite::Result<bool> {
    let id = link_id as i64;
    connection.prepare_cached("DELETE FROM visits_quarterly WHERE link_id = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM visits_daily WHERE link_id = ?1")?.execute([id])?;
    Ok(connection.prepare_cached("UPDATE links SET visits = 0 WHERE id = ?1")?.execute([id])? == 1)
}
