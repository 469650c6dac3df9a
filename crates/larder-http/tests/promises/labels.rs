//! Labels are kept with their entry: each response that a handler has labelled has them, also on a hit.

use std::time::Duration;

use http::StatusCode;
use larder_http::{CacheCtx, Cached, Labels};
use tower::ServiceExt;

use crate::support::*;

/// A reply that is cached for a second, and stale for a minute, with the number of the call as a label.
fn labelled(call: usize) -> Reply {
    let settings =
        Cached::ttl(SECOND).swr(MINUTE).label("route", "/pages/{page}").label("call", call.to_string());
    field(with_cached(plain("0123456789"), settings), "etag", "\"v1\"")
}

/// The status, the outcome and the label `call` of a response. The other label must be there too.
async fn seen(site: &Site, request: http::Request<String>) -> (StatusCode, &'static str, String) {
    let response = site.service.clone().oneshot(request).await.unwrap();
    let labels = response.extensions().get::<Labels>().expect("every response has labels");
    assert_eq!(labels.get("route"), Some("/pages/{page}"));
    let call = labels.get("call").unwrap().to_owned();
    (response.status(), response.body().outcome().unwrap().as_str(), call)
}

#[tokio::test]
async fn every_form_of_a_hit_has_the_labels_of_its_entry() {
    let site = Site::new(|_, call| async move { labelled(call) });
    let one = || "1".to_owned();
    assert_eq!(seen(&site, get("/", &[])).await, (StatusCode::OK, "miss", one()));
    assert_eq!(seen(&site, get("/", &[])).await, (StatusCode::OK, "hit", one()));
    assert_eq!(seen(&site, request("HEAD", "/", &[])).await, (StatusCode::OK, "hit", one()));
    let part = get("/", &[("range", "bytes=2-4")]);
    assert_eq!(seen(&site, part).await, (StatusCode::PARTIAL_CONTENT, "hit", one()));
    let after_the_end = get("/", &[("range", "bytes=20-")]);
    assert_eq!(seen(&site, after_the_end).await, (StatusCode::RANGE_NOT_SATISFIABLE, "hit", one()));
    let current = || get("/", &[("if-none-match", "\"v1\"")]);
    assert_eq!(seen(&site, current()).await, (StatusCode::NOT_MODIFIED, "hit", one()));
    site.clock.advance(SECOND);
    assert_eq!(seen(&site, get("/", &[])).await, (StatusCode::OK, "stale", one()));
    settle().await;
    assert_eq!(
        seen(&site, get("/", &[])).await,
        (StatusCode::OK, "hit", "2".to_owned()),
        "those of the refresh"
    );
    site.cache.purge_all();
    assert_eq!(seen(&site, current()).await, (StatusCode::NOT_MODIFIED, "miss", "3".to_owned()));
}

#[tokio::test]
async fn followers_have_the_labels_of_the_fill() {
    let site = Site::new(|_, call| async move {
        settle().await;
        labelled(call)
    });
    let (first, second) = tokio::join!(seen(&site, get("/", &[])), seen(&site, get("/", &[])));
    assert_eq!((first.1, second.1), ("miss", "collapsed"));
    assert_eq!((first.2, second.2), ("1".to_owned(), "1".to_owned()));
}

#[tokio::test]
async fn reader_of_a_running_body_has_the_labels() {
    let (_frames, receiver) = tokio::sync::mpsc::unbounded_channel();
    let body = std::sync::Mutex::new(Some(http_body_util::BodyExt::boxed(Streamed(receiver))));
    let site = Site::new(move |_, call| {
        let body = body.lock().unwrap().take().unwrap();
        async move { labelled(call).map(|_| body) }
    });
    assert_eq!(seen(&site, get("/", &[])).await.1, "miss");
    assert_eq!(seen(&site, get("/", &[])).await, (StatusCode::OK, "collapsed", "1".to_owned()));
}

#[tokio::test]
async fn response_that_is_not_stored_has_its_labels() {
    let site = Site::new(|_, call| async move { field(labelled(call), "set-cookie", "a=b") });
    for call in ["1", "2", "3"] {
        assert_eq!(seen(&site, get("/", &[])).await, (StatusCode::OK, "miss", call.to_owned()));
    }
}

#[tokio::test]
async fn request_that_bypasses_or_waits_in_vain_gets_its_labels() {
    let site = Site::with(
        |builder| builder.wait_timeout(Duration::ZERO),
        |_, call| async move {
            settle().await;
            labelled(call)
        },
    );
    assert_eq!(seen(&site, request("POST", "/", &[])).await, (StatusCode::OK, "bypass", "1".to_owned()));
    let (first, second) = tokio::join!(seen(&site, get("/", &[])), seen(&site, get("/", &[])));
    assert_eq!([first.1, second.1], ["miss", "miss"]);
    assert_eq!([first.2, second.2], ["2", "3"]);
}

#[tokio::test]
async fn labels_of_nested_code_are_merged_and_kept() {
    let site = Site::new(|request, _| async move {
        let ctx = request.extensions().get::<CacheCtx>().unwrap();
        ctx.label("route", "nested");
        ctx.label("operation", "products");
        with_cached(plain("x"), Cached::ttl(MINUTE).label("route", "/graphql"))
    });
    for _ in 0..2 {
        let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
        let labels: Vec<_> = response.extensions().get::<Labels>().unwrap().iter().collect();
        assert_eq!(labels, [("route", "/graphql"), ("operation", "products")]);
        let fields = format!("{:?}", response.headers());
        assert!(!fields.contains("graphql") && !fields.contains("operation"), "{fields}");
    }
}

#[tokio::test]
async fn response_without_labels_has_no_extension() {
    let site = Site::counting();
    for _ in 0..2 {
        let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
        assert_eq!(response.extensions().get::<Labels>(), None);
    }
}

#[tokio::test]
async fn labels_are_charged_and_bounded() {
    const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let bytes_with = async |labels: usize, len: usize| {
        let site = Site::new(move |_, _| async move {
            let settings = NAMES[..labels]
                .iter()
                .fold(Cached::ttl(MINUTE), |settings, name| settings.label(name, "x".repeat(len)));
            with_cached(plain("x"), settings)
        });
        site.get("/").await;
        site.cache.stats().bytes
    };
    let none = bytes_with(0, 0).await;
    assert!(bytes_with(8, 128).await >= none + 8 * 128);
    assert_eq!(bytes_with(10, 10_000).await, bytes_with(8, 128).await);
}

#[cfg(feature = "compression")]
#[tokio::test]
async fn encoded_sibling_has_the_labels() {
    let site = Site::with(
        |b| b.codings([larder_http::Coding::Gzip]),
        |_, call| async move {
            let long =
                labelled(call).map(|_| http_body_util::BodyExt::boxed(plain("x".repeat(10_000)).into_body()));
            field(long, "content-type", "text/plain")
        },
    );
    crate::encodings::encoded(&site, "gzip").await;
    assert_eq!(seen(&site, get("/", &[("accept-encoding", "gzip")])).await.2, "1");
}
