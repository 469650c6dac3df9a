//! What was purged or invalidated never returns, whatever ends the process after that.

use std::future::ready;

use larder_http::{Cached, HttpCache};

use super::*;

/// A site whose responses have a tag, and say by `text` which process has made them.
fn tagged(folder: &Folder, text: &'static str) -> Site {
    folder.site(move |request, _| {
        let body = format!("{text} {}", request.uri().path());
        ready(with_cached(plain(body), Cached::ttl(MINUTE * 60).swr(MINUTE).tag("tag")))
    })
}

type Purge = fn(&HttpCache);

/// The ways to purge `/shop/1`, and whether `/blog/1` is covered.
const PURGES: [(Purge, bool); 8] = [
    (|cache| assert!(cache.purge_uri("http://site.example/shop/1").unwrap()), false),
    (|cache| cache.purge_tag("tag"), true),
    (|cache| cache.purge_prefix("http://site.example/shop/").unwrap(), false),
    (|cache| cache.purge_all(), true),
    (|cache| assert!(cache.soft_purge_uri("http://site.example/shop/1").unwrap()), false),
    (|cache| cache.soft_purge_tag("tag"), true),
    (|cache| cache.soft_purge_prefix("http://site.example/shop/").unwrap(), false),
    (|cache| cache.soft_purge_all(), true),
];

#[tokio::test]
async fn purged_response_never_returns() {
    for (index, (purge, covers_blog)) in PURGES.into_iter().enumerate() {
        let folder = Folder::new();
        let site = tagged(&folder, "first");
        site.get("/shop/1").await;
        site.get("/blog/1").await;
        writes(&site, 2).await;
        purge(&site.cache);
        let killed = folder.copy();
        let (after_kill, after_end) = (tagged(&killed, "second"), folder.copy_after_end(site, "second"));
        for site in [after_kill, after_end] {
            assert_eq!(site.get("/shop/1").await.body, "second /shop/1", "purge {index}");
            let blog = if covers_blog { "second /blog/1" } else { "first /blog/1" };
            assert_eq!(site.get("/blog/1").await.body, blog, "purge {index}");
        }
    }
}

impl Folder {
    /// The next site over the folder after this one has ended.
    fn copy_after_end(&self, site: Site, text: &'static str) -> Site {
        drop(site);
        tagged(self, text)
    }
}

/// The purge is of one process, and the entry was written and read by others.
#[tokio::test]
async fn response_that_is_on_disk_only_is_purged() {
    for (index, (purge, _)) in PURGES.into_iter().enumerate() {
        let folder = Folder::new();
        let site = tagged(&folder, "first");
        site.get("/shop/1").await;
        writes(&site, 1).await;
        drop(site);
        purge(&tagged(&folder, "second").cache);
        assert_eq!(tagged(&folder, "third").get("/shop/1").await.body, "third /shop/1", "purge {index}");
    }
}

/// What was softly purged is stale as long as the process runs that knows since when.
#[tokio::test]
async fn softly_purged_response_is_read_as_a_stale_one() {
    let folder = Folder::new();
    let site = tagged(&folder, "first");
    site.get("/shop/1").await;
    writes(&site, 1).await;
    drop(site);
    let site = tagged(&folder, "second");
    site.cache.soft_purge_tag("tag");
    let found = site.get("/shop/1").await;
    assert_eq!(found.body, "first /shop/1");
    assert!(matches!(found.outcome, larder_http::Outcome::Stale { .. }), "{:?}", found.outcome);
}

#[tokio::test]
async fn unsafe_method_invalidates_what_is_on_disk_only() {
    for method in ["POST", "PUT", "DELETE"] {
        let folder = Folder::new();
        let site = tagged(&folder, "first");
        site.get("/a").await;
        writes(&site, 1).await;
        drop(site);
        let site = tagged(&folder, "second");
        site.send(request(method, "/a", &[])).await;
        let killed = folder.copy();
        assert_eq!(site.get("/a").await.body, "second /a");
        assert_eq!(tagged(&killed, "third").get("/a").await.body, "third /a");
    }
}

#[tokio::test]
async fn unsafe_method_on_what_was_never_stored_is_no_purge() {
    let folder = Folder::new();
    let site = tagged(&folder, "first");
    eventually(&site, |disk| disk.entries == 0).await;
    site.send(request("POST", "/a", &[])).await;
    assert_eq!(site.cache.stats().purges, 0);
}

#[tokio::test]
async fn purge_during_the_fill_covers_what_is_written_after_it() {
    let folder = Folder::new();
    let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
    let site = std::sync::Arc::new(folder.site(move |_, _| {
        let (reply, replied) = tokio::sync::oneshot::channel::<Reply>();
        asked.send(reply).unwrap();
        async move { replied.await.unwrap() }
    }));
    let waiting = tokio::spawn({
        let site = site.clone();
        async move { site.get("/a").await.body }
    });
    let reply = asks.recv().await.unwrap();
    site.cache.purge_tag("tag");
    reply.send(with_cached(plain("old"), Cached::ttl(MINUTE).tag("tag"))).unwrap();
    assert_eq!(waiting.await.unwrap(), "old");
    drop(site);
    assert_eq!(tagged(&folder, "second").get("/a").await.body, "second /a");
}

/// Numbers go on where the last process was: a stamp of this process must not be above a purge of the next one.
#[tokio::test]
async fn purges_of_each_process_cover_the_entries_of_all_before() {
    let folder = Folder::new();
    let site = tagged(&folder, "first");
    for _ in 0..100 {
        site.cache.purge_tag("another");
    }
    site.get("/a").await;
    writes(&site, 1).await;
    drop(site);
    let site = tagged(&folder, "second");
    assert_eq!(site.get("/a").await.body, "first /a");
    drop(site);
    let site = tagged(&folder, "third");
    site.cache.purge_tag("tag");
    assert_eq!(site.get("/a").await.body, "third /a");
}

#[tokio::test]
async fn file_of_a_purged_response_is_removed_when_it_is_read() {
    let folder = Folder::new();
    let site = tagged(&folder, "first");
    site.get("/a").await;
    site.get("/b").await;
    writes(&site, 2).await;
    drop(site);
    let site = folder.site(|_, _| ready(plain("not stored")));
    site.cache.purge_tag("tag");
    assert_eq!(site.get("/a").await.body, "not stored");
    assert_eq!(folder.entries().len(), 1);
}

#[tokio::test]
async fn purge_of_all_frees_the_room() {
    let folder = Folder::new();
    let site = tagged(&folder, "first");
    for number in 0..50 {
        site.get(&format!("/{number}")).await;
    }
    writes(&site, 50).await;
    site.cache.purge_all();
    assert_eq!((disk(&site).entries, disk(&site).bytes), (0, 0));
    drop(site);
    assert!(folder.entries().is_empty());
}
