//! What the folder has: files that only their owner may read, in bounded room, and nothing that is for some clients only. A file
//! that is not as it was written is a miss.

use std::future::ready;
use std::os::unix::fs::PermissionsExt;

use larder_http::{Access, Cached, Scope};

use super::*;

#[tokio::test]
async fn only_the_owner_may_read_anything() {
    let folder = Folder::new();
    let site = folder.counting("first");
    site.get("/a").await;
    writes(&site, 1).await;
    site.cache.purge_tag("tag");
    drop(site);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let mut names = Vec::new();
    visit(&folder.path, &mut |file| {
        assert_eq!(mode(file), 0o600, "{file:?}");
        assert_eq!(mode(file.parent().unwrap()), 0o700, "{file:?}");
        names.push(file.file_name().unwrap().to_owned());
    });
    assert_eq!(names.len(), 5, "{names:?}");
}

#[tokio::test]
async fn entries_take_no_more_room_than_they_may() {
    const MAX_BYTES: u64 = 1 << 20;
    let folder = Folder::new();
    let site = Site::with(
        |builder| builder.disk(&folder.path, MAX_BYTES),
        |_, call| ready(cached(format!("{call} {}", "x".repeat(call % 7 * 3000)))),
    );
    let room = || -> u64 {
        let blocks = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len().div_ceil(4096) * 4096);
        folder.entries().iter().map(blocks).sum()
    };
    for number in 0..600u64 {
        site.get(&format!("/{number}")).await;
        writes(&site, number + 1).await;
        if number % 50 == 0 {
            // One file that is written, and one that must go for it.
            assert!(room() <= MAX_BYTES + (64 << 10), "{number}");
        }
    }
    assert!(disk(&site).bytes <= MAX_BYTES && disk(&site).bytes > MAX_BYTES / 2, "{:?}", disk(&site));
    let entries = disk(&site).entries;
    drop(site);
    assert!(room() <= MAX_BYTES);
    assert_eq!(folder.entries().len() as u64, entries);
    let site = Site::with(|builder| builder.disk(&folder.path, MAX_BYTES), |_, _| ready(plain("")));
    assert_eq!(disk(&site).entries, entries, "the next process finds them");
}

#[tokio::test]
async fn entries_go_if_the_next_process_may_take_less_room() {
    let folder = Folder::new();
    let site = folder.site(|_, _| ready(cached("x".repeat(60_000))));
    for number in 0..50 {
        site.get(&format!("/{number}")).await;
    }
    writes(&site, 50).await;
    drop(site);
    let site = Site::with(|builder| builder.disk(&folder.path, 1 << 20), |_, _| ready(plain("")));
    eventually(&site, |disk| disk.entries < 20 && disk.bytes > 0).await;
    drop(site);
    assert!(folder.entries().len() < 20);
}

#[tokio::test]
async fn private_and_gated_responses_are_never_written() {
    let folder = Folder::new();
    let site = folder.site_with(
        |builder| builder.gate(|_| ready(Access::AllowedAs("ann".to_owned()))),
        |request, _| {
            let scope = match request.uri().path() {
                "/private" => Scope::Private,
                "/gated" => Scope::Gated,
                _ => Scope::Public,
            };
            let body = format!("body-of-{}", &request.uri().path()[1..]);
            ready(with_cached(plain(body), Cached::ttl(MINUTE).scope(scope).tag(format!("tag-{scope:?}"))))
        },
    );
    for target in ["/private", "/gated", "/public", "/private", "/gated"] {
        site.send(get(target, &[("authorization", "Bearer 7f3a")])).await;
    }
    assert_eq!(site.calls(), 3, "they are in memory");
    writes(&site, 1).await;
    drop(site);
    let bytes = folder.bytes();
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("body-of-public") && has("tag-Public"));
    for text in ["body-of-private", "body-of-gated", "tag-Private", "tag-Gated", "7f3a", "/private", "/gated"]
    {
        assert!(!has(text), "{text}");
    }
}

/// A folder with one entry, and the file of it.
async fn one_entry() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let site = folder.counting("first");
    site.get("/a").await;
    writes(&site, 1).await;
    drop(site);
    let file = folder.entries().remove(0);
    (folder, file)
}

#[tokio::test]
async fn file_that_is_not_as_it_was_written_is_a_miss_and_removed() {
    let (folder, file) = one_entry().await;
    let whole = fs::read(&file).unwrap();
    let len = whole.len();
    for at in [0, 4, 20, 28, 44, 52, 68, 84, 100, 120, len - 30, len - 1] {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        check_damaged(&folder, &file, &changed, &format!("byte {at}")).await;
    }
    for end in [0, 1, 27, 100, len / 2, len - 1] {
        check_damaged(&folder, &file, &whole[..end], &format!("{end} bytes")).await;
    }
    check_damaged(&folder, &file, &[&whole[..], b"more"].concat(), "longer").await;
    check_damaged(&folder, &file, b"\0\0\0\0", "another file").await;
    let damaged = folder.copy();
    assert_eq!(damaged.counting("second").get("/a").await.body, "first 1", "the undamaged file is used");
}

async fn check_damaged(folder: &Folder, file: &Path, bytes: &[u8], what: &str) {
    let damaged = folder.copy();
    let file = damaged.path.join(file.strip_prefix(&folder.path).unwrap());
    fs::write(&file, bytes).unwrap();
    let site = damaged.site(|_, _| ready(plain("handler")));
    assert_eq!(site.get("/a").await.body, "handler", "{what}");
    assert!(!file.exists(), "{what}");
}

#[tokio::test]
async fn file_of_another_key_is_a_miss() {
    let folder = Folder::new();
    let site = folder.site(|request, _| ready(cached(request.uri().path().to_owned())));
    site.get("/a").await;
    writes(&site, 1).await;
    let a = folder.entries().remove(0);
    site.get("/b").await;
    writes(&site, 2).await;
    drop(site);
    let b = folder.entries().into_iter().find(|file| *file != a).unwrap();
    fs::copy(&a, &b).unwrap();
    let site = folder.site(|_, _| ready(plain("handler")));
    assert_eq!(site.get("/b").await.body, "handler");
    assert_eq!(site.get("/a").await.body, "/a");
}

#[tokio::test]
async fn foreign_files_between_the_entries_stay() {
    let (folder, file) = one_entry().await;
    let foreign = [
        folder.path.join("entries/notes.txt"),
        file.parent().unwrap().join("notes.txt"),
        file.parent().unwrap().join("README"),
    ];
    for path in &foreign {
        fs::write(path, "mine").unwrap();
    }
    let unfinished = file.with_extension("part");
    fs::write(&unfinished, "half").unwrap();
    let site = folder.counting("second");
    assert_eq!(site.get("/a").await.body, "first 1");
    eventually(&site, |_| !unfinished.exists()).await;
    assert_eq!(disk(&site).entries, 1);
    assert!(foreign.iter().all(|path| fs::read(path).unwrap() == b"mine"));
}

#[tokio::test]
async fn journal_that_is_damaged_begins_a_new_generation() {
    for damage in [
        |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1),
        |bytes: &mut Vec<u8>| bytes[30] ^= 1,
        |bytes: &mut Vec<u8>| bytes.clear(),
    ] {
        let (folder, _) = one_entry().await;
        let path = folder.path.join("purges");
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(path, bytes).unwrap();
        let site = folder.counting("second");
        assert_eq!(site.get("/a").await.body, "second 1");
        writes(&site, 1).await;
        assert_eq!(folder.copy().counting("third").get("/a").await.body, "second 1", "it is a good one");
    }
}
