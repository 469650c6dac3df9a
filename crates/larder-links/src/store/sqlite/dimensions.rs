//! The SQL of dimensions: where visits come from, by link, day and value.

use crate::store::{Day, DimensionCounts, DimensionKey, MAX_DIMENSION_VALUES, OTHER_VALUE};
use rusqlite::{CachedStatement, Connection, Row, params};

/// The statements that add counts, prepared once for many rows.
pub(super) struct Additions<'c> {
    known: CachedStatement<'c>,
    new: CachedStatement<'c>,
}

impl<'c> Additions<'c> {
    pub(super) fn prepare(connection: &'c Connection) -> rusqlite::Result<Additions<'c>> {
        let known = "UPDATE visit_dimensions SET count = count + ?5
                     WHERE link_id = ?1 AND day = ?2 AND dimension = ?3 AND value = ?4";
        let new = "INSERT INTO visit_dimensions (link_id, day, dimension, value, count)
                   SELECT ?1, ?2, ?3, CASE WHEN used < ?6 THEN ?4 ELSE ?7 END, ?5
                   FROM (SELECT count(*) AS used FROM visit_dimensions
                         WHERE link_id = ?1 AND day = ?2 AND dimension = ?3)
                   WHERE EXISTS (SELECT 1 FROM links WHERE id = ?1)
                   ON CONFLICT (link_id, day, dimension, value) DO UPDATE SET count = count + excluded.count";
        Ok(Additions { known: connection.prepare_cached(known)?, new: connection.prepare_cached(new)? })
    }

    /// Adds to the count of a value. A link has at most 200 values of a dimension and day; further ones are `other`. Nothing
    /// is added to a link that no longer exists.
    pub(super) fn add(&mut self, key: &DimensionKey, count: u64) -> rusqlite::Result<()> {
        let DimensionKey { link_id, day, dimension, value } = key;
        let (link_id, dimension, count) = (*link_id as i64, *dimension as i64, count as i64);
        if self.known.execute(params![link_id, day, dimension, value, count])? == 0 {
            // One of them is `other`.
            let max = MAX_DIMENSION_VALUES as i64 - 1;
            self.new.execute(params![link_id, day, dimension, value, count, max, OTHER_VALUE])?;
        }
        Ok(())
    }
}

/// The most frequent values of each dimension of a link since a day, the others as one.
pub(super) fn counts(connection: &Connection, link_id: u64, since: Day) -> rusqlite::Result<DimensionCounts> {
    let sql = "SELECT dimension, value, sum(count) AS visits FROM visit_dimensions
               WHERE link_id = ?1 AND day >= ?2 GROUP BY dimension, value ORDER BY visits DESC, value";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)? as u64));
    let mut counts = DimensionCounts::default();
    for row in connection.prepare_cached(sql)?.query_map(params![link_id as i64, since], read)? {
        let (dimension, value, visits): (i64, String, u64) = row?;
        counts.add(dimension, value, visits);
    }
    Ok(counts)
}

/// Drops up to `limit` rows before a day; returns how many there were.
pub(super) fn drop_before(connection: &Connection, day: Day, limit: usize) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM visit_dimensions WHERE (link_id, day, dimension, value) IN
               (SELECT link_id, day, dimension, value FROM visit_dimensions WHERE day < ?1 LIMIT ?2)";
    connection.prepare_cached(sql)?.execute(params![day, limit as i64])
}

/// Drops up to `limit` rows of links that were deleted until then; returns how many there were.
pub(super) fn drop_of_deleted(
    connection: &Connection,
    until_ms: i64,
    limit: usize,
) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM visit_dimensions WHERE (link_id, day, dimension, value) IN
               (SELECT link_id, day, dimension, value
                FROM links INDEXED BY links_deleted CROSS JOIN visit_dimensions ON link_id = id
                WHERE deleted_at <= ?1 LIMIT ?2)";
    connection.prepare_cached(sql)?.execute(params![until_ms, limit as i64])
}

/// Forgets where the visits of a link came from.
pub(super) fn forget(connection: &Connection, link_id: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM visit_dimensions WHERE link_id = ?1")?
        .execute([link_id as i64])?;
    Ok(())
}
