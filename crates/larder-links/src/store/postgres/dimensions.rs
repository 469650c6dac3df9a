//! The SQL of dimensions: where visits come from, by link, day and value.

use super::migrate::lock;
use crate::store::{Day, DimensionCounts, DimensionKey, MAX_DIMENSION_VALUES, OTHER_VALUE};
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Error;

/// Adds counts. A link has at most 200 values of a dimension and day; further ones are `other`. Nothing is added to a link
/// that does not exist.
pub(super) async fn add(transaction: &Transaction<'_>, rows: &[(DimensionKey, u64)]) -> Result<(), Error> {
    // One writer at a time: the bound of 200 holds for all instances together, and each writes only once in ten seconds.
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&lock::DIMENSIONS]).await?;
    let sql = "WITH given AS (
                   SELECT given.* FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::text[], $5::bigint[])
                       AS given (link_id, day, dimension, value, count)
                       JOIN links ON links.id = given.link_id
               ), used AS (
                   SELECT link_id, day, dimension, count(*) AS used FROM visit_dimensions
                   JOIN (SELECT DISTINCT link_id, day, dimension FROM given) AS groups USING (link_id, day, dimension)
                   GROUP BY 1, 2, 3
               ), placed AS (
                   SELECT given.*, known.value IS NOT NULL AS is_known, coalesce(used.used, 0) + row_number() OVER (
                       PARTITION BY given.link_id, given.day, given.dimension, known.value IS NULL
                       ORDER BY given.value) AS place
                   FROM given
                        LEFT JOIN visit_dimensions AS known USING (link_id, day, dimension, value)
                        LEFT JOIN used USING (link_id, day, dimension)
               )
               INSERT INTO visit_dimensions (link_id, day, dimension, value, count)
               SELECT link_id, day, dimension, CASE WHEN is_known OR place <= $6 THEN value ELSE $7 END, sum(count)::bigint
               FROM placed GROUP BY 1, 2, 3, 4
               ON CONFLICT (link_id, day, dimension, value) DO UPDATE SET count = visit_dimensions.count + excluded.count";
    let ids: Vec<i64> = rows.iter().map(|(key, _)| key.link_id as i64).collect();
    let days: Vec<i64> = rows.iter().map(|(key, _)| key.day).collect();
    let dimensions: Vec<i16> = rows.iter().map(|(key, _)| key.dimension as i16).collect();
    let values: Vec<&str> = rows.iter().map(|(key, _)| &*key.value).collect();
    let counts: Vec<i64> = rows.iter().map(|(_, count)| *count as i64).collect();
    // One of them is `other`.
    let most = MAX_DIMENSION_VALUES as i64 - 1;
    let upsert = transaction.prepare_cached(sql).await?;
    transaction
        .execute(&upsert, &[&ids, &days, &dimensions, &values, &counts, &most, &OTHER_VALUE])
        .await
        .map(drop)
}

/// The most frequent values of each dimension of a link since a day, the others as one.
pub(super) async fn counts(
    client: &impl GenericClient,
    link_id: u64,
    since: Day,
) -> Result<DimensionCounts, Error> {
    let sql = "SELECT dimension, value, sum(count)::bigint AS visits FROM visit_dimensions
               WHERE link_id = $1 AND day >= $2 GROUP BY dimension, value ORDER BY visits DESC, value";
    let select = client.prepare_cached(sql).await?;
    let mut counts = DimensionCounts::default();
    for row in client.query(&select, &[&(link_id as i64), &since]).await? {
        counts.add(row.get::<_, i16>(0).into(), row.get(1), row.get::<_, i64>(2) as u64);
    }
    Ok(counts)
}

/// Drops up to `limit` rows before a day; returns how many there were.
pub(super) async fn drop_before(
    transaction: &Transaction<'_>,
    day: Day,
    limit: usize,
) -> Result<usize, Error> {
    let sql = "DELETE FROM visit_dimensions WHERE (link_id, day, dimension, value) IN (
                   SELECT link_id, day, dimension, value FROM visit_dimensions WHERE day < $1
                   LIMIT $2 FOR UPDATE SKIP LOCKED)";
    Ok(transaction.execute(sql, &[&day, &(limit as i64)]).await? as usize)
}

/// Drops up to `limit` rows of links that were deleted until then; returns how many there were.
pub(super) async fn drop_of_deleted(
    transaction: &Transaction<'_>,
    until_ms: i64,
    limit: usize,
) -> Result<usize, Error> {
    let sql = "DELETE FROM visit_dimensions WHERE (link_id, day, dimension, value) IN (
                   SELECT link_id, day, dimension, value FROM visit_dimensions JOIN links ON links.id = link_id
                   WHERE deleted_at <= $1 LIMIT $2)";
    Ok(transaction.execute(sql, &[&until_ms, &(limit as i64)]).await? as usize)
}

/// Forgets where the visits of a link came from.
pub(super) async fn forget(transaction: &Transaction<'_>, link_id: u64) -> Result<(), Error> {
    let sql = "DELETE FROM visit_dimensions WHERE link_id = $1";
    transaction.execute(sql, &[&(link_id as i64)]).await.map(drop)
}
