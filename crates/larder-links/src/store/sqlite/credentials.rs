//! The SQL of tokens and sessions.

use crate::model::token::{Scope, SecretHash, Token};
use crate::store::StoreError;
use crate::store::credential::{Credential, MAX_SESSIONS_PER_TOKEN, MAX_TOKENS};
use rusqlite::{Connection, Row, params};

const SELECT_TOKENS: &str = "SELECT id, name, scope, date(created_at / 1000, 'unixepoch') FROM tokens";

pub(super) fn add_token(
    connection: &Connection,
    hash: SecretHash,
    name: &str,
    scope: Scope,
    now_ms: i64,
) -> Result<Token, StoreError> {
    let count: i64 = connection.query_row("SELECT count(*) FROM tokens", [], |row| row.get(0))?;
    if count >= MAX_TOKENS as i64 {
        return Err(StoreError::TooManyTokens(MAX_TOKENS));
    }
    connection.execute(
        "INSERT INTO tokens (hash, name, scope, created_at) VALUES (?1, ?2, ?3, ?4)",
        params![hash, name, scope.as_str(), now_ms],
    )?;
    let select = format!("{SELECT_TOKENS} WHERE id = ?1");
    Ok(connection.query_row(&select, [connection.last_insert_rowid()], read_token)?)
}

pub(super) fn tokens(connection: &Connection) -> rusqlite::Result<Vec<Token>> {
    connection.prepare_cached(&format!("{SELECT_TOKENS} ORDER BY id"))?.query_map([], read_token)?.collect()
}

/// Removes a token and, by the foreign key, its sessions; false if there was none.
pub(super) fn remove_token(connection: &Connection, id: u64) -> rusqlite::Result<bool> {
    let Ok(id) = i64::try_from(id) else { return Ok(false) };
    Ok(connection.prepare_cached("DELETE FROM tokens WHERE id = ?1")?.execute([id])? == 1)
}

/// Every token and every session that has not expired.
pub(super) fn credentials(connection: &Connection, now_ms: i64) -> rusqlite::Result<Vec<Credential>> {
    let sql = "SELECT hash, id, scope, NULL FROM tokens
               UNION ALL
               SELECT sessions.hash, token_id, scope, expires_at FROM sessions JOIN tokens ON tokens.id = token_id
               WHERE expires_at > ?1";
    connection
        .prepare_cached(sql)?
        .query_map([now_ms], |row| {
            Ok(Credential {
                hash: row.get(0)?,
                token_id: row.get::<_, i64>(1)? as u64,
                scope: scope(row, 2)?,
                expires_at: row.get(3)?,
            })
        })?
        .collect()
}

/// Adds a session; false if its token was removed. Expired sessions and those beyond the bound are removed.
pub(super) fn add_session(
    connection: &Connection,
    hash: SecretHash,
    token_id: u64,
    expires_at: i64,
    now_ms: i64,
) -> rusqlite::Result<bool> {
    connection.prepare_cached("DELETE FROM sessions WHERE expires_at <= ?1")?.execute([now_ms])?;
    let sql = "INSERT INTO sessions (hash, token_id, expires_at) SELECT ?1, id, ?3 FROM tokens WHERE id = ?2";
    if connection.prepare_cached(sql)?.execute(params![hash, token_id as i64, expires_at])? == 0 {
        return Ok(false);
    }
    let surplus = "DELETE FROM sessions WHERE hash IN (
                       SELECT hash FROM sessions WHERE token_id = ?1 ORDER BY expires_at DESC LIMIT -1 OFFSET ?2)";
    connection.prepare_cached(surplus)?.execute(params![token_id as i64, MAX_SESSIONS_PER_TOKEN as i64])?;
    Ok(true)
}

pub(super) fn remove_session(connection: &Connection, hash: SecretHash) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM sessions WHERE hash = ?1")?.execute([hash]).map(drop)
}

fn read_token(row: &Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        id: row.get::<_, i64>(0)? as u64,
        name: row.get(1)?,
        scope: scope(row, 2)?,
        created_on: row.get(3)?,
    })
}

fn scope(row: &Row<'_>, column: usize) -> rusqlite::Result<Scope> {
    let text: String = row.get(column)?;
    text.parse().map_err(|error: String| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Store, StoreConfig, now_ms};

    #[tokio::test]
    async fn sessions_are_bounded_and_end_with_their_token() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&StoreConfig::new(folder.path().join("links.db"))).unwrap();
        let (token, secret) = store.add_token("a", Scope::Read).await.unwrap();
        let far = now_ms() + 60_000;
        for n in 0..40 {
            assert!(store.add_session([n; 32], token.id, far + i64::from(n)).await.unwrap());
        }
        let sessions = async || {
            let all = store.credentials().await.unwrap();
            all.into_iter().filter(|c| c.expires_at.is_some()).map(|c| c.hash[0]).collect::<Vec<_>>()
        };
        assert_eq!(sessions().await, (8..40).collect::<Vec<_>>(), "the ones that expire last are kept");
        // One that has expired is no credential.
        assert!(store.add_session([99; 32], token.id, 1).await.unwrap());
        assert!(!sessions().await.contains(&99));

        assert!(store.remove_token(token.id).await.unwrap());
        assert!(store.credentials().await.unwrap().is_empty());
        assert!(!store.add_session([100; 32], token.id, far).await.unwrap());
        assert!(!store.remove_token(token.id).await.unwrap());
        // The database does not contain the text of a token.
        store.close().await;
        let bytes = std::fs::read(folder.path().join("links.db")).unwrap();
        assert!(!bytes.windows(secret.as_str().len()).any(|part| part == secret.as_str().as_bytes()));
    }

    #[tokio::test]
    async fn tokens_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&StoreConfig::new(folder.path().join("links.db"))).unwrap();
        for _ in 0..MAX_TOKENS {
            store.add_token("", Scope::Write).await.unwrap();
        }
        let error = store.add_token("", Scope::Write).await.unwrap_err();
        assert_eq!(error.to_string(), "the database has 256 tokens, the maximum; remove one first");
    }
}
