//! The snapshot of a server: read at its start, written at its end.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::db::Store;
use crate::db::snapshot::{self, Written};
use crate::error::{ServerError, SnapshotError};

/// Fails if no snapshot could be written at this path: it is better known at the start than at the end.
pub(super) fn check_writable(path: &Path) -> Result<(), ServerError> {
    let failed =
        |error: std::io::Error| ServerError::Snapshot { path: path.to_owned(), source: error.into() };
    snapshot::check_writable(path).map_err(failed)
}

/// Begins to load the snapshot at this path, if there is one. One that cannot be read is reported and left: the server starts
/// without it.
pub(super) async fn begin(store: &Store, path: &Path) {
    let (owned_path, path) = (path.to_owned(), path.display());
    // Also of a keyspace that is newer than it, or is about to be copied: the file must be gone.
    let opening = tokio::task::spawn_blocking(move || snapshot::open(&owned_path));
    match opening.await.unwrap_or_else(|panic| Err(SnapshotError::Io(std::io::Error::other(panic)))) {
        Ok(Some(loading)) if store.is_empty() && !store.is_loading() && !store.is_copying() => {
            tracing::info!(%path, keys = loading.left(), "loading the snapshot");
            store.begin_loading(loading);
        }
        Ok(_) => tracing::info!(%path, "there is no snapshot to load"),
        Err(error) => tracing::warn!(%path, %error, "the snapshot cannot be read"),
    }
}

/// A thread that loads the rest of a snapshot, until it is dropped.
pub(super) struct Loader {
    /// Dropped to stop the thread.
    _goes_on: Arc<()>,
}

impl Loader {
    /// Starts the thread, if there is a snapshot to load.
    pub(super) fn start(store: &Store) -> std::io::Result<Loader> {
        let goes_on = Arc::new(());
        if store.is_loading() {
            let (store, goes_on) = (store.clone(), Arc::downgrade(&goes_on));
            std::thread::Builder::new().name("snapshot".into()).spawn(move || load(&store, &goes_on))?;
        }
        Ok(Loader { _goes_on: goes_on })
    }
}

fn load(store: &Store, goes_on: &Weak<()>) {
    let started = Instant::now();
    let Some(loading) = store.loading() else { return };
    if !store.load_rest(|| goes_on.strong_count() > 0) {
        return;
    }
    let seconds = started.elapsed().as_secs_f64();
    match loading.lost() {
        0 => tracing::info!(keys = store.len(), seconds, "the snapshot is loaded"),
        lost => tracing::warn!(
            keys = store.len(),
            lost,
            seconds,
            "the snapshot is loaded without some keys: their part of it is damaged, or there was no memory for them"
        ),
    }
}

/// Writes the keyspace, which nobody uses any more, to this path.
pub(super) async fn write(store: &Store, path: &Path) -> Result<(), ServerError> {
    let (store, owned_path) = (store.clone(), path.to_owned());
    let (started, until) = (Instant::now(), Instant::now() + snapshot::WRITE_LIMIT);
    let writing = tokio::task::spawn_blocking(move || match store.load_rest(|| Instant::now() < until) {
        true => snapshot::write(&store, &owned_path, until),
        false => Err(SnapshotError::TooSlow),
    });
    let written = writing.await.unwrap_or_else(|panic| Err(SnapshotError::Io(std::io::Error::other(panic))));
    let failed = |source| ServerError::Snapshot { path: path.to_owned(), source };
    let Written { keys, bytes } = written.map_err(failed)?;
    let seconds = started.elapsed().as_secs_f64();
    tracing::info!(path = %path.display(), keys, bytes, seconds, "the snapshot is written");
    Ok(())
}
