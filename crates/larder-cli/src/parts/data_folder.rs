//! The data folder of `larder up`: it is created for its owner alone, and one process at a time uses it.

use anyhow::{Context, Result, anyhow, bail};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The file that a running `larder up` has locked. It stays when the process ends.
const LOCK_FILE: &str = "up.lock";

/// The lock on a data folder. The system releases it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock(
    /// Locked until it is closed.
    #[expect(dead_code, reason = "only its drop matters")]
    File,
);

/// Creates the folder so that only its owner can access it, and locks it.
///
/// Without the lock, two processes would each have a cache of one database and a cache server of their own: a change in one
/// would not invalidate the entry of the other.
///
/// # Errors
/// Another `larder up` uses the folder, or it cannot be written.
pub(crate) fn open(folder: &Path) -> Result<Lock> {
    let name = folder.display();
    create(DirBuilder::new().mode(0o700), folder)?;
    let path = folder.join(LOCK_FILE);
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => bail!(
            "{name} is in use by another larder up; further shorteners share its database and cache server with: \
             larder links --database … --redis …"
        ),
        Err(TryLockError::Error(error)) => {
            Err(anyhow!(error).context(format!("cannot lock {}", path.display())))
        }
    }
}

/// Creates a folder and its parents, unless they exist.
pub(crate) fn create(builder: &mut DirBuilder, folder: &Path) -> Result<()> {
    builder.recursive(true).create(folder).map_err(|error| {
        let error = match error.kind() {
            ErrorKind::AlreadyExists => anyhow!("it is a file, expected a folder"),
            _ => error.into(),
        };
        error.context(format!("cannot create {}", folder.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_locked_until_the_lock_is_dropped() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("a/data");
        let lock = open(&data).expect("a new folder");
        let message = open(&data).expect_err("it is in use").to_string();
        assert!(
            message.starts_with(&format!("{} is in use by another larder up; ", data.display())),
            "{message}"
        );
        drop(lock);
        open(&data).expect("it is free again");
    }
}
