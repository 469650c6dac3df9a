//! The folder of the result files of a run.

use crate::result::create_folder;
use anyhow::Result;
use std::fs::remove_dir;
use std::path::{Path, PathBuf};

/// The folder of the result files. A run that writes nothing removes the folders that it has created.
#[derive(Clone, Debug)]
pub(crate) struct OutputFolder {
    path: PathBuf,
    /// The folders that did not exist before, the innermost first.
    created: Vec<PathBuf>,
}

impl OutputFolder {
    pub(crate) fn create(path: PathBuf) -> Result<OutputFolder> {
        let missing =
            path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let created = missing.map(Path::to_owned).collect();
        let folder = OutputFolder { path, created };
        match create_folder(&folder.path) {
            Ok(()) => Ok(folder),
            Err(error) => {
                folder.remove_if_empty();
                Err(error)
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what was created and has no file.
    pub(crate) fn remove_if_empty(&self) {
        // The system refuses to remove a folder that is not empty.
        self.created.iter().for_each(|folder| _ = remove_dir(folder));
    }
}
