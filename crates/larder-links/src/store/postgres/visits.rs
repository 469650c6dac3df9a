//! The SQL of visits: written in quarter hours, summed into days when they are old, dropped when they are older still.
//!
//! All transactions lock rows in the same order: `link_visits` first, then `visits_quarterly`, in each by link. Instances
//! that write the same links in different orders would wait for each other.

use crate::store::{
    Day, LinkTotal, QUARTERS_PER_DAY, Quarter, TotalsOf, VisitBatch, VisitHistory, WrittenVisits,
};
use deadpool_postgres::{GenericClient, Transaction};
use std::collections::HashMap;
use tokio_postgres::{Error, Row};

/// How many of its last batches a writer keeps in the table. It asks for its last one only.
const KEPT_BATCHES: i64 = 16;

/// How long the last batches of an instance that is gone are kept.
const BATCHES_KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// Notes that a batch is written by this transaction; false if it is stored already. Waits for another transaction of the
/// same batch: one whose connection broke can still be on its way.
pub(super) async fn claim_batch(
    transaction: &Transaction<'_>,
    writer: &[u8],
    number: u64,
    now_ms: i64,
) -> Result<bool, Error> {
    let number = number as i64;
    let insert =
        "INSERT INTO visit_batches (instance, number, written_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    let insert = transaction.prepare_cached(insert).await?;
    if transaction.execute(&insert, &[&writer, &number, &now_ms]).await? == 0 {
        return Ok(false);
    }
    let delete =
        transaction.prepare_cached("DELETE FROM visit_batches WHERE instance = $1 AND number < $2").await?;
    transaction.execute(&delete, &[&writer, &(number - KEPT_BATCHES)]).await?;
    Ok(true)
}

/// Adds the visits of a batch; those of links that do not exist are left out.
pub(super) async fn add(
    transaction: &Transaction<'_>,
    batch: &VisitBatch,
    totals: &TotalsOf,
) -> Result<WrittenVisits, Error> {
    let sql = "INSERT INTO link_visits (link_id, visits)
               SELECT links.id, sum(given.count)::bigint
               FROM unnest($1::bigint[], $2::bigint[]) AS given (link_id, count) JOIN links ON links.id = given.link_id
               GROUP BY links.id ORDER BY links.id
               ON CONFLICT (link_id) DO UPDATE SET visits = link_visits.visits + excluded.visits
               RETURNING link_id, visits";
    let (ids, quarters, counts) = columns(batch);
    let upsert = transaction.prepare_cached(sql).await?;
    let rows = transaction.query(&upsert, &[&ids, &counts]).await?;
    let visits: HashMap<u64, u64> = rows.iter().map(id_and_count).collect();

    let sql = "INSERT INTO visits_quarterly (link_id, quarter, count)
               SELECT given.link_id, given.quarter, sum(given.count)::bigint
               FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS given (link_id, quarter, count)
                    JOIN links ON links.id = given.link_id
               GROUP BY 1, 2 ORDER BY 1, 2
               ON CONFLICT (link_id, quarter) DO UPDATE SET count = visits_quarterly.count + excluded.count";
    let upsert = transaction.prepare_cached(sql).await?;
    transaction.execute(&upsert, &[&ids, &quarters, &counts]).await?;
    written(transaction, batch, totals, visits).await
}

/// What a batch that is stored already has written.
pub(super) async fn already_written(
    transaction: &Transaction<'_>,
    batch: &VisitBatch,
    totals: &TotalsOf,
) -> Result<WrittenVisits, Error> {
    let sql = "SELECT link_id, visits FROM link_visits WHERE link_id = ANY($1)";
    let rows = transaction.query(sql, &[&columns(batch).0]).await?;
    written(transaction, batch, totals, rows.iter().map(id_and_count).collect()).await
}

/// The result of a batch, of whose links these exist, with their visits.
async fn written(
    transaction: &Transaction<'_>,
    batch: &VisitBatch,
    totals: &TotalsOf,
    visits: HashMap<u64, u64>,
) -> Result<WrittenVisits, Error> {
    let exists = |link_id| visits.contains_key(link_id);
    let count = batch.rows.iter().filter(|(key, _)| exists(&key.link_id)).map(|(_, count)| count).sum();
    let requested: Vec<i64> = visits.keys().filter(|id| totals.include(**id)).map(|id| *id as i64).collect();
    let mut written = WrittenVisits { visits: count, totals: Vec::new() };
    if !requested.is_empty() {
        let select = transaction.prepare_cached("SELECT id, slug FROM links WHERE id = ANY($1)").await?;
        let total = |row: Row| {
            let link_id = row.get::<_, i64>(0) as u64;
            LinkTotal { link_id, slug: row.get(1), visits: visits[&link_id] }
        };
        written.totals = transaction.query(&select, &[&requested]).await?.into_iter().map(total).collect();
    }
    Ok(written)
}

/// Link, quarter hour and count of each row.
fn columns(batch: &VisitBatch) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let ids = batch.rows.iter().map(|(key, _)| key.link_id as i64).collect();
    let quarters = batch.rows.iter().map(|(key, _)| key.quarter).collect();
    let counts = batch.rows.iter().map(|(_, count)| *count as i64).collect();
    (ids, quarters, counts)
}

fn id_and_count(row: &Row) -> (u64, u64) {
    (row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64)
}

/// The visits of a link in the database; `None` if it does not exist.
pub(super) async fn total(client: &impl GenericClient, link_id: u64) -> Result<Option<u64>, Error> {
    let select = client.prepare_cached("SELECT visits FROM link_visits WHERE link_id = $1").await?;
    let row = client.query_opt(&select, &[&(link_id as i64)]).await?;
    Ok(row.map(|row| row.get::<_, i64>(0) as u64))
}

/// The visits of a link since a quarter hour, and the sums of whole days in UTC since then.
pub(super) async fn history(
    client: &impl GenericClient,
    link_id: u64,
    since: Quarter,
) -> Result<VisitHistory, Error> {
    let read = |row: &Row| (row.get(0), row.get::<_, i64>(1) as u64);
    let sql =
        "SELECT quarter, count FROM visits_quarterly WHERE link_id = $1 AND quarter >= $2 ORDER BY quarter";
    let quarters = client.query(&client.prepare_cached(sql).await?, &[&(link_id as i64), &since]).await?;
    let sql = "SELECT day, count FROM visits_daily WHERE link_id = $1 AND day >= $2 ORDER BY day";
    let since = since.div_euclid(QUARTERS_PER_DAY);
    let days = client.query(&client.prepare_cached(sql).await?, &[&(link_id as i64), &since]).await?;
    Ok(VisitHistory { quarters: quarters.iter().map(read).collect(), days: days.iter().map(read).collect() })
}

/// Sums up to `limit` rows of quarter hours before a day into days; returns how many rows there were. Those that another
/// instance sums at this moment are left to it.
pub(super) async fn fold(transaction: &Transaction<'_>, before: Day, limit: usize) -> Result<usize, Error> {
    let sql = format!(
        "WITH old AS (
             DELETE FROM visits_quarterly WHERE (link_id, quarter) IN (
                 SELECT link_id, quarter FROM visits_quarterly WHERE quarter < $1
                 ORDER BY quarter, link_id LIMIT $2 FOR UPDATE SKIP LOCKED)
             RETURNING link_id, quarter, count
         ), folded AS (
             INSERT INTO visits_daily (link_id, day, count)
             SELECT link_id, quarter / {QUARTERS_PER_DAY}, sum(count)::bigint FROM old GROUP BY 1, 2 ORDER BY 1, 2
             ON CONFLICT (link_id, day) DO UPDATE SET count = visits_daily.count + excluded.count
         )
         SELECT count(*) FROM old"
    );
    let row = transaction.query_one(&sql, &[&(before * QUARTERS_PER_DAY), &(limit as i64)]).await?;
    Ok(row.get::<_, i64>(0) as usize)
}

/// Drops up to `limit` rows of each table before a day; returns how many there were.
pub(super) async fn drop_before(
    transaction: &Transaction<'_>,
    day: Day,
    limit: usize,
) -> Result<usize, Error> {
    let quarters = "DELETE FROM visits_quarterly WHERE (link_id, quarter) IN (
                        SELECT link_id, quarter FROM visits_quarterly WHERE quarter < $1
                        ORDER BY link_id, quarter LIMIT $2 FOR UPDATE SKIP LOCKED)";
    let days = "DELETE FROM visits_daily WHERE (link_id, day) IN (
                    SELECT link_id, day FROM visits_daily WHERE day < $1
                    ORDER BY link_id, day LIMIT $2 FOR UPDATE SKIP LOCKED)";
    let limit = limit as i64;
    let dropped = transaction.execute(quarters, &[&(day * QUARTERS_PER_DAY), &limit]).await?
        + transaction.execute(days, &[&day, &limit]).await?;
    Ok(dropped as usize)
}

/// Drops the last batches of instances that are gone.
pub(super) async fn drop_batches(transaction: &Transaction<'_>, now_ms: i64) -> Result<(), Error> {
    let sql = "DELETE FROM visit_batches WHERE written_at < $1";
    transaction.execute(sql, &[&(now_ms - BATCHES_KEPT_MS)]).await.map(drop)
}

/// Drops up to `limit` rows of each table of links that were deleted until then; returns how many there were.
pub(super) async fn drop_of_deleted(
    transaction: &Transaction<'_>,
    until_ms: i64,
    limit: usize,
) -> Result<usize, Error> {
    let quarters = "DELETE FROM visits_quarterly WHERE (link_id, quarter) IN (
                        SELECT link_id, quarter FROM visits_quarterly JOIN links ON links.id = link_id
                        WHERE deleted_at <= $1 ORDER BY 1, 2 LIMIT $2)";
    let days = "DELETE FROM visits_daily WHERE (link_id, day) IN (
                    SELECT link_id, day FROM visits_daily JOIN links ON links.id = link_id
                    WHERE deleted_at <= $1 ORDER BY 1, 2 LIMIT $2)";
    let limit = limit as i64;
    let dropped = transaction.execute(quarters, &[&until_ms, &limit]).await?
        + transaction.execute(days, &[&until_ms, &limit]).await?;
    Ok(dropped as usize)
}

/// Forgets the visits of a link, its total included; false if there is no such link.
pub(super) async fn forget(transaction: &Transaction<'_>, link_id: u64) -> Result<bool, Error> {
    let id = link_id as i64;
    let update = "UPDATE link_visits SET visits = 0 WHERE link_id = $1";
    let exists = transaction.execute(update, &[&id]).await? == 1;
    transaction.execute("DELETE FROM visits_quarterly WHERE link_id = $1", &[&id]).await?;
    transaction.execute("DELETE FROM visits_daily WHERE link_id = $1", &[&id]).await?;
    Ok(exists)
}
