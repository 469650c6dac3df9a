//! A folder that cannot be used is an error at the start, and one that cannot be written any more costs only what is not written.

use std::future::ready;
use std::process::Command;

use larder_http::{BuildError, Cached, DiskError, HttpCache};

use super::*;

fn error_of(folder: &Path, max_bytes: u64) -> DiskError {
    match HttpCache::builder().disk(folder, max_bytes).build() {
        Err(BuildError::Disk(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn folder_of_another_cache_is_refused() {
    let folder = Folder::new();
    let site = folder.counting("first");
    let error = error_of(&folder.path, DISK_BYTES);
    assert_eq!(error, DiskError::InUse(folder.path.clone()));
    assert!(error.to_string().contains("is in use by another response cache"), "{error}");
    drop(site);
    folder.counting("second");
}

#[test]
fn folder_with_other_files_is_refused_and_unchanged() {
    let folder = Folder::new();
    fs::create_dir(&folder.path).unwrap();
    fs::write(folder.path.join("thesis.tex"), "years of work").unwrap();
    let error = error_of(&folder.path, DISK_BYTES);
    assert!(
        error
            .to_string()
            .ends_with("has \"thesis.tex\", which is not of a response cache: name an empty folder")
    );
    assert_eq!(fs::read_dir(&folder.path).unwrap().count(), 1);
    assert_eq!(folder.bytes(), b"years of work");
}

#[test]
fn what_cannot_be_a_folder_is_refused() {
    let folder = Folder::new();
    fs::write(&folder.path, "a file").unwrap();
    assert!(matches!(error_of(&folder.path, DISK_BYTES), DiskError::Unusable { .. }));
    assert!(matches!(error_of(&folder.path.join("below"), DISK_BYTES), DiskError::Unusable { .. }));
    assert!(matches!(error_of(Path::new("/proc/responses"), DISK_BYTES), DiskError::Unusable { .. }));
}

#[test]
fn room_outside_of_the_range_is_refused() {
    let folder = Folder::new();
    for max_bytes in [0, (1 << 20) - 1, (1 << 48) + 1, u64::MAX] {
        assert_eq!(error_of(&folder.path, max_bytes), DiskError::MaxBytes(max_bytes));
        assert!(!folder.path.exists());
    }
    for max_bytes in [1 << 20, 1 << 48] {
        assert!(HttpCache::builder().disk(&folder.path, max_bytes).build().is_ok(), "{max_bytes}");
    }
}

/// A file system of its own, in memory; `None`, with a line, if this user may mount none.
struct SmallDisk(Folder);

impl SmallDisk {
    fn mount(bytes: u64) -> Option<SmallDisk> {
        let folder = Folder::new();
        fs::create_dir(&folder.path).unwrap();
        let size = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder.path).output();
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(SmallDisk(folder));
        }
        println!("skipped: this user may not mount a file system");
        None
    }

    /// Takes all the room that is left.
    fn fill(&self) -> PathBuf {
        let path = self.0.path.join("entries").join("filler");
        let mut file = fs::File::create(&path).unwrap();
        while std::io::Write::write(&mut file, &[1; 4096]).is_ok_and(|written| written > 0) {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("--lazy").arg(&self.0.path).status();
    }
}

#[tokio::test]
async fn full_disk_costs_only_what_is_not_written() {
    let Some(small) = SmallDisk::mount(4 << 20) else { return };
    let folder = &small.0;
    let site = folder.site(|request, _| ready(cached(format!("{} {}", request.uri(), "x".repeat(100_000)))));
    site.get("/first").await;
    writes(&site, 1).await;
    let filler = small.fill();
    for number in 0..3 {
        let target = format!("/{number}");
        assert!(site.get(&target).await.body.starts_with(target.as_bytes()));
        eventually(&site, |disk| disk.write_errors + disk.dropped_writes > number).await;
        assert!(matches!(site.get(&target).await.outcome, larder_http::Outcome::Hit { .. }));
    }
    assert!(disk(&site).is_on && disk(&site).write_errors >= 1);
    fs::remove_file(filler).unwrap();
    eventually_written(&site, 2).await;
    let killed = folder.copy();
    assert_eq!(killed.counting("handler").get("/first").await.body.len(), "/first ".len() + 100_000);
}

/// Requests until so many entries were written: after an error nothing is for a moment.
async fn eventually_written(site: &Site, count: u64) {
    for number in 100..200 {
        site.get(&format!("/{number}")).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        if disk(site).writes >= count {
            return;
        }
    }
    panic!("{:?}", disk(site));
}

/// A purge needs no room on a full disk to be final.
#[tokio::test]
async fn purge_on_a_full_disk_is_final() {
    let Some(small) = SmallDisk::mount(2 << 20) else { return };
    let folder = &small.0;
    let site =
        folder.site(|_, call| ready(with_cached(plain(call.to_string()), Cached::ttl(MINUTE).tag("tag"))));
    site.get("/a").await;
    site.get("/b").await;
    writes(&site, 2).await;
    let filler = small.fill();
    // The first ones may find room in the last block of the journal.
    for _ in 0..1000 {
        site.cache.purge_tag("another");
    }
    site.cache.purge_tag("tag");
    assert!(!disk(&site).is_on);
    let killed = folder.copy();
    let next = killed.counting("next");
    assert_eq!(next.get("/a").await.body, "next 1");
    assert_eq!(site.get("/a").await.body, "3", "memory goes on");
    fs::remove_file(filler).unwrap();
    eventually(&site, |disk| disk.is_on).await;
    assert_eq!(site.get("/c").await.body, "4");
    eventually_written(&site, 3).await;
    let killed = folder.copy();
    let next = killed.counting("next");
    assert_eq!(next.get("/c").await.body, "4", "a new generation");
    assert_eq!(next.get("/b").await.body, "next 1");
}
