//! The SQL of tokens and sessions.

use super::migrate::lock;
use crate::model::token::{Scope, SecretHash, Token};
use crate::store::StoreError;
use crate::store::credential::{Credential, MAX_SESSIONS_PER_TOKEN, MAX_TOKENS};
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::{Error, Row};

const SELECT_TOKENS: &str = "SELECT id, name, scope, to_char(to_timestamp(created_at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') FROM tokens";

pub(super) async fn add_token(
    transaction: &Transaction<'_>,
    hash: SecretHash,
    name: &str,
    scope: Scope,
    now_ms: i64,
) -> Result<Token, StoreError> {
    // Otherwise two instances would each count 255.
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&lock::TOKENS]).await?;
    let count: i64 = transaction.query_one("SELECT count(*) FROM tokens", &[]).await?.get(0);
    if count >= MAX_TOKENS as i64 {
        return Err(StoreError::TooManyTokens(MAX_TOKENS));
    }
    let insert = "INSERT INTO tokens (hash, name, scope, created_at) VALUES ($1, $2, $3, $4) RETURNING id";
    let id: i64 = transaction.query_one(insert, &[&&hash[..], &name, &scope.as_str(), &now_ms]).await?.get(0);
    let select = format!("{SELECT_TOKENS} WHERE id = $1");
    Ok(read_token(&transaction.query_one(&select, &[&id]).await?))
}

pub(super) async fn tokens(client: &impl GenericClient) -> Result<Vec<Token>, Error> {
    let rows = client.query(&format!("{SELECT_TOKENS} ORDER BY id"), &[]).await?;
    Ok(rows.iter().map(read_token).collect())
}

/// Removes a token and, by the foreign key, its sessions; false if there was none.
pub(super) async fn remove_token(transaction: &Transaction<'_>, id: u64) -> Result<bool, Error> {
    let Ok(id) = i64::try_from(id) else { return Ok(false) };
    Ok(transaction.execute("DELETE FROM tokens WHERE id = $1", &[&id]).await? == 1)
}

/// Every token and every session that has not expired.
pub(super) async fn credentials(client: &impl GenericClient, now_ms: i64) -> Result<Vec<Credential>, Error> {
    let sql = "SELECT hash, id, scope, NULL::bigint FROM tokens
               UNION ALL
               SELECT sessions.hash, token_id, scope, expires_at FROM sessions JOIN tokens ON tokens.id = token_id
               WHERE expires_at > $1";
    let select = client.prepare_cached(sql).await?;
    let rows = client.query(&select, &[&now_ms]).await?;
    let read = |row: &Row| {
        // A hash of another length is none of this program's, and opens nothing.
        let hash = row.get::<_, &[u8]>(0).try_into().ok()?;
        Some(Credential {
            hash,
            token_id: row.get::<_, i64>(1) as u64,
            scope: scope(row, 2),
            expires_at: row.get(3),
        })
    };
    Ok(rows.iter().filter_map(read).collect())
}

/// Adds a session; false if its token was removed. Expired sessions and those beyond the bound are removed.
pub(super) async fn add_session(
    transaction: &Transaction<'_>,
    hash: SecretHash,
    token_id: u64,
    expires_at: i64,
    now_ms: i64,
) -> Result<bool, Error> {
    // Locks the token, so that two sessions at a time do not both find room.
    let lock = "SELECT 1 FROM tokens WHERE id = $1 FOR UPDATE";
    if transaction.query_opt(lock, &[&(token_id as i64)]).await?.is_none() {
        return Ok(false);
    }
    transaction.execute("DELETE FROM sessions WHERE expires_at <= $1", &[&now_ms]).await?;
    let insert = "INSERT INTO sessions (hash, token_id, expires_at) VALUES ($1, $2, $3)";
    transaction.execute(insert, &[&&hash[..], &(token_id as i64), &expires_at]).await?;
    let surplus = "DELETE FROM sessions WHERE hash IN (
                       SELECT hash FROM sessions WHERE token_id = $1 ORDER BY expires_at DESC OFFSET $2)";
    transaction.execute(surplus, &[&(token_id as i64), &(MAX_SESSIONS_PER_TOKEN as i64)]).await?;
    Ok(true)
}

pub(super) async fn remove_session(transaction: &Transaction<'_>, hash: SecretHash) -> Result<(), Error> {
    transaction.execute("DELETE FROM sessions WHERE hash = $1", &[&&hash[..]]).await.map(drop)
}

fn read_token(row: &Row) -> Token {
    Token { id: row.get::<_, i64>(0) as u64, name: row.get(1), scope: scope(row, 2), created_on: row.get(3) }
}

/// The table allows the two scopes only.
fn scope(row: &Row, column: usize) -> Scope {
    row.get::<_, &str>(column).parse().unwrap_or(Scope::Read)
}
