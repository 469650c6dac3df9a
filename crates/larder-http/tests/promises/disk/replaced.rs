//! What was replaced, or is forbidden by now, never returns.

use std::future::ready;

use larder_http::{CacheCtx, Cached};

use super::*;

/// An origin with a version of its response for each call: fresh for an hour, but replaced for a client that asks for it.
fn versions(folder: &Folder, first: usize) -> Site {
    folder.rfc_site(move |_, call| {
        let version = first + call - 1;
        let reply = field(plain(format!("version {version}")), "cache-control", "max-age=3600");
        ready(field(reply, "etag", &format!("\"{version}\"")))
    })
}

fn reload(target: &str) -> http::Request<String> {
    get(target, &[("cache-control", "no-cache")])
}

#[tokio::test]
async fn replaced_response_never_returns() {
    let folder = Folder::new();
    let site = versions(&folder, 1);
    assert_eq!(site.get("/a").await.body, "version 1");
    writes(&site, 1).await;
    assert_eq!(site.send(reload("/a")).await.body, "version 2");
    // Whether the second version was written by now or not.
    let killed = folder.copy();
    let found = versions(&killed, 3).get("/a").await;
    assert!(found.body != "version 1", "{found:?}");
    writes(&site, 2).await;
    drop(site);
    assert_eq!(versions(&folder, 4).get("/a").await.body, "version 2");
}

/// Memory knows that it is stale; another process would not.
#[tokio::test]
async fn response_that_a_head_has_made_stale_never_returns() {
    let folder = Folder::new();
    let site = versions(&folder, 1);
    site.get("/a").await;
    writes(&site, 1).await;
    site.send(request("HEAD", "/a", &[("cache-control", "no-cache")])).await;
    let found = versions(&folder.copy(), 3).get("/a").await;
    assert!(found.body != "version 1", "{found:?}");
}

#[tokio::test]
async fn response_that_a_head_has_renewed_is_fresh_on_disk() {
    let origin = |folder: &Folder| {
        folder.rfc_site(|request, call| {
            let control = if request.method() == "HEAD" { "max-age=3600" } else { "max-age=20" };
            let reply = field(plain(format!("version {call}")), "cache-control", control);
            ready(field(reply, "etag", "\"a\""))
        })
    };
    let folder = Folder::new();
    let site = origin(&folder);
    site.get("/a").await;
    writes(&site, 1).await;
    site.send(request("HEAD", "/a", &[("cache-control", "no-cache")])).await;
    writes(&site, 2).await;
    drop(site);
    let site = origin(&folder);
    site.clock.advance(SECOND * 60);
    let found = site.get("/a").await;
    assert_eq!((found.outcome.as_str(), &found.body[..]), ("disk", &b"version 1"[..]));
}

#[tokio::test]
async fn response_that_is_on_disk_only_is_replaced() {
    let folder = Folder::new();
    let site = versions(&folder, 1);
    site.get("/a").await;
    writes(&site, 1).await;
    drop(site);
    let site = versions(&folder, 2);
    assert_eq!(site.send(reload("/a")).await.body, "version 2");
    let found = versions(&folder.copy(), 3).get("/a").await;
    assert!(found.body != "version 1", "{found:?}");
}

/// Its client has the head of the new response already.
#[tokio::test]
async fn response_is_gone_before_another_one_is_streamed() {
    use tower::ServiceExt;

    let folder = Folder::new();
    let site = versions(&folder, 1);
    site.get("/a").await;
    writes(&site, 1).await;
    drop(site);
    let (frames, body) = tokio::sync::mpsc::unbounded_channel();
    let body = std::sync::Arc::new(std::sync::Mutex::new(Some(body)));
    let site = folder.rfc_site(move |_, _| {
        let body = body.lock().unwrap().take().unwrap();
        let reply = plain("").map(|_| http_body_util::BodyExt::boxed(Streamed(body)));
        ready(field(field(reply, "cache-control", "max-age=3600"), "etag", "\"2\""))
    });
    let response = site.service.clone().oneshot(reload("/a")).await.unwrap();
    assert_eq!(response.headers()["etag"], "\"2\"");
    assert!(folder.entries().is_empty());
    drop(frames);
}

/// A response that may not be stored any more removes the one that is.
#[tokio::test]
async fn forbidden_response_never_returns() {
    let folder = Folder::new();
    let site = versions(&folder, 1);
    site.get("/a").await;
    writes(&site, 1).await;
    drop(site);
    let site = folder.rfc_site(|request, _| {
        assert_eq!(request.headers()["if-none-match"], "\"1\"", "the origin may validate what is there");
        ready(field(plain("secret"), "cache-control", "no-store"))
    });
    assert_eq!(site.send(reload("/a")).await.body, "secret");
    assert!(folder.entries().is_empty());
    drop(site);
    let site = folder.rfc_site(|request, _| {
        assert!(!request.headers().contains_key("if-none-match"));
        ready(plain("new"))
    });
    assert_eq!(site.get("/a").await.body, "new");
}

/// An origin that fails has not said that its last response is outdated.
#[tokio::test]
async fn response_stays_if_its_origin_fails() {
    let folder = Folder::new();
    let site = versions(&folder, 1);
    site.get("/a").await;
    writes(&site, 1).await;
    drop(site);
    let site = folder.rfc_site(|_, _| {
        let mut reply = plain("down");
        *reply.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        ready(reply)
    });
    site.send(reload("/a")).await;
    drop(site);
    assert_eq!(versions(&folder, 2).get("/a").await.body, "version 1");
}

#[tokio::test]
async fn refreshed_response_replaces_the_one_on_disk() {
    let folder = Folder::new();
    let site = folder.site(|_, call| {
        let settings = Cached::ttl(SECOND * 20).swr(MINUTE);
        ready(with_cached(plain(call.to_string()), settings))
    });
    site.get("/a").await;
    writes(&site, 1).await;
    site.clock.advance(SECOND * 21);
    assert_eq!(site.get("/a").await.body, "1", "stale, and refreshed");
    writes(&site, 2).await;
    drop(site);
    assert_eq!(folder.counting("later").get("/a").await.body, "2");
}

#[tokio::test]
async fn response_whose_refresh_is_forbidden_never_returns() {
    let folder = Folder::new();
    let site = folder.site(|request, call| {
        let ctx = request.extensions().get::<CacheCtx>().unwrap().clone();
        if call > 1 {
            ctx.forbid("private from now on");
        }
        let settings = Cached::ttl(SECOND * 20).swr(MINUTE);
        ready(with_cached(plain(call.to_string()), settings))
    });
    site.get("/a").await;
    writes(&site, 1).await;
    site.clock.advance(SECOND * 21);
    site.get("/a").await;
    settle().await;
    assert_eq!(site.calls(), 2);
    assert!(folder.entries().is_empty());
}

#[tokio::test]
async fn variants_of_a_replaced_record_never_return() {
    let by = |name: &'static str, text: &'static str| {
        move |_: http::Request<String>, call: usize| {
            let reply = field(plain(format!("{text} {call}")), "cache-control", "max-age=3600");
            ready(field(reply, "vary", name))
        }
    };
    let folder = Folder::new();
    let site = folder.rfc_site(by("accept-language", "first"));
    site.send(get("/a", &[("accept-language", "de")])).await;
    site.send(get("/a", &[("accept-language", "fr")])).await;
    writes(&site, 3).await;
    drop(site);
    let site = folder.rfc_site(by("accept", "second"));
    let replaced = get("/a", &[("accept-language", "de"), ("cache-control", "no-cache")]);
    assert_eq!(site.send(replaced).await.body, "second 1");
    writes(&site, 2).await;
    let killed = folder.copy();
    drop(site);
    for folder in [folder, killed] {
        let site = folder.rfc_site(by("accept", "third"));
        let found = site.send(get("/a", &[("accept-language", "fr")])).await;
        assert_eq!(found.body, "second 1", "one of all languages");
    }
}
