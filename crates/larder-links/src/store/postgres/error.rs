//! The errors of PostgreSQL as errors of the store.

use super::tls;
use crate::store::StoreError;
use deadpool_postgres::PoolError;
use deadpool_postgres::TimeoutType::Wait;
use std::error::Error;
use std::sync::Arc;
use tokio_postgres::error::SqlState;

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> StoreError {
        let Some(state) = error.code().cloned() else {
            return match error.is_closed() || is_io(&error) {
                true => StoreError::Unreachable(source(error)),
                false => StoreError::Failed(source(error)),
            };
        };
        let is = |states: &[SqlState]| states.contains(&state);
        if is(&[SqlState::DISK_FULL, SqlState::OUT_OF_MEMORY]) {
            StoreError::Full(source(error))
        } else if is(&[SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::INSUFFICIENT_PRIVILEGE]) {
            StoreError::ReadOnly(source(error))
        } else if is(&[
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
        ]) {
            StoreError::Locked(source(error))
        } else if ends_connection(&state) {
            StoreError::Unreachable(source(error))
        } else {
            StoreError::Failed(source(error))
        }
    }
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> StoreError {
        match error {
            PoolError::Timeout(Wait) => StoreError::Busy("a connection"),
            PoolError::Closed => StoreError::Closed,
            PoolError::Backend(error) => StoreError::Unreachable(source(error)),
            error => StoreError::Unreachable(Arc::new(error)),
        }
    }
}

/// The error of a COMMIT: only the server itself can say that nothing was committed. Where the connection ends before it
/// says so, the commit may be stored.
pub(super) fn of_commit(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(state) if !ends_connection(state) => error.into(),
        _ => StoreError::Unknown(source(error)),
    }
}

/// What PostgreSQL or the system says: the error of the client itself is "db error" and little more.
pub(super) fn source(error: tokio_postgres::Error) -> Arc<dyn Error + Send + Sync> {
    if let Some(error) = error.as_db_error() {
        return Arc::new(error.clone());
    }
    match error.source() {
        Some(_) => tls::explain(error.into_source().expect("it has a source")),
        None => Arc::new(error),
    }
}

/// Classes 08 and 57: the connection failed, or the server stops, starts or was asked to end it.
fn ends_connection(state: &SqlState) -> bool {
    let class = &state.code()[..2];
    matches!(class, "08" | "57") && *state != SqlState::QUERY_CANCELED
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|source| source.is::<std::io::Error>())
}
