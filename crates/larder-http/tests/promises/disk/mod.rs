//! What is on disk outlives the process, and what was purged, invalidated or replaced never returns. `tempfile` has the folders; a
//! killed process is a copy of its folder at one moment, which another cache opens.
//!
//! - `restarts`: what is answered from disk, and how.
//! - `purges`: what was purged or invalidated stays so. `replaced`: so does what was replaced or forbidden.
//! - `files`: what the folder has, who may read it, how much room it takes, and what is made of a damaged one.
//! - `formats`: folders of former versions.
//! - `failures`: a folder that cannot be written, or belongs to others.
//! - `model`: random operations and restarts, compared with a model of what may be served.

mod failures;
mod files;
mod formats;
mod model;
mod purges;
mod replaced;
mod restarts;

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use larder_http::{Builder, DiskStats, Profile};
use tempfile::TempDir;

use crate::support::*;

/// Room of the entries on disk, unless a test is about that.
const DISK_BYTES: u64 = 64 << 20;

/// A folder that several sites use, one after the other.
struct Folder {
    _parent: TempDir,
    path: PathBuf,
}

impl Folder {
    fn new() -> Folder {
        // A clean end waits for the whole file system, which others use too.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap();
        Folder { path: parent.path().join("responses"), _parent: parent }
    }

    /// The folder as another process finds it if this one is killed now.
    fn copy(&self) -> Folder {
        let copy = Folder::new();
        copy_folder(&self.path, &copy.path);
        copy
    }

    /// A site over this folder.
    fn site<F>(&self, handler: impl Fn(http::Request<String>, usize) -> F + Send + Sync + 'static) -> Site
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        self.site_with(|builder| builder, handler)
    }

    fn site_with<F>(
        &self,
        options: impl FnOnce(Builder) -> Builder,
        handler: impl Fn(http::Request<String>, usize) -> F + Send + Sync + 'static,
    ) -> Site
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        Site::with(|builder| options(builder.disk(&self.path, DISK_BYTES)), handler)
    }

    /// A site over this folder whose origin decides.
    fn rfc_site<F>(&self, handler: impl Fn(http::Request<String>, usize) -> F + Send + Sync + 'static) -> Site
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        self.site_with(|builder| builder.profile(Profile::Rfc), handler)
    }

    /// A site over this folder whose body is the number of the call, and a text by which the test knows it.
    fn counting(&self, text: &'static str) -> Site {
        self.site(move |_, call| async move { cached(format!("{text} {call}")) })
    }

    /// The files of entries.
    fn entries(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for part in fs::read_dir(self.path.join("entries")).unwrap() {
            files.extend(fs::read_dir(part.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
        }
        files.retain(|file| file.extension().is_none());
        files.sort();
        files
    }

    /// All bytes below the folder.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        visit(&self.path, &mut |file| bytes.extend(fs::read(file).unwrap()));
        bytes
    }

    /// Changes the start of the machine in which the folder was used last.
    fn change_boot(&self) {
        let path = self.path.join("generation");
        let text = fs::read_to_string(&path).unwrap();
        let (id, _) = text.split_once('\n').unwrap();
        fs::write(path, format!("{id}\n00000000-0000-0000-0000-000000000000\n")).unwrap();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else if let Err(error) = fs::copy(entry.path(), to) {
            // An unfinished file has got its name meanwhile, or was removed.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
    }
}

fn visit(folder: &Path, f: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { visit(&path, f) } else { f(&path) }
    }
}

fn disk(site: &Site) -> DiskStats {
    site.cache.stats().disk.unwrap()
}

/// Waits until the tier is as expected.
async fn eventually(site: &Site, is_expected: impl Fn(DiskStats) -> bool) {
    let waiting = async {
        while !is_expected(disk(site)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(SECOND * 20, waiting).await.is_err() {
        panic!("{:?}", disk(site));
    }
}

/// Waits until so many entries were written.
async fn writes(site: &Site, count: u64) {
    eventually(site, |disk| disk.writes >= count).await;
}
