//! A 304 about another response than the stored one validates nothing: the request is repeated once, without conditions
//! (RFC 9111, 4.3.4).

use std::future::ready;
use std::sync::Arc;

use http::Request;
use larder_http::Profile;
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::support::*;

const A: &[(&str, &str)] = &[("cache-control", "max-age=10"), ("etag", "\"a\"")];
const B: &[(&str, &str)] = &[("cache-control", "max-age=10"), ("etag", "\"b\"")];

/// A site whose cache can make a request twice, with a response that is stored and stale. The handler gets the later requests.
async fn stale_site<F>(
    fields: &'static [(&'static str, &'static str)],
    handler: impl Fn(Request<String>, usize) -> F + Send + Sync + 'static,
) -> Site
where
    F: Future<Output = Reply> + Send + 'static,
{
    let handler = Arc::new(handler);
    let site = Site::with(
        |builder| builder.profile(Profile::Rfc).empty_body(String::new),
        move |request, call| {
            let handler = handler.clone();
            async move { if call == 1 { reply_with(1, fields) } else { handler(request, call).await } }
        },
    );
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    site
}

/// The reply of an origin that has `b` by now, and believes that a client with `a` has it too.
fn confused(request: &Request<String>, call: usize) -> Reply {
    match request.headers().contains_key("if-none-match") {
        true => not_modified(B),
        false => reply_with(call, B),
    }
}

#[tokio::test]
async fn request_is_repeated_without_conditions_and_its_response_is_stored() {
    let site = stale_site(A, |request, call| {
        assert_eq!(request.headers().contains_key("if-none-match"), call == 2);
        assert_eq!(request.headers()["x-kept"], "1");
        ready(confused(&request, call))
    })
    .await;
    let answer = site.send(get("/", &[("x-kept", "1")])).await;
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"3"[..]));
    assert_eq!((answer.cache_status(), answer.header("etag")), ("fwd=uri-miss; stored", Some("\"b\"")));
    let hit = site.get("/").await;
    assert_eq!((hit.cache_status(), &hit.body[..], site.calls()), ("hit; ttl=10", &b"3"[..], 3));
}

#[tokio::test]
async fn condition_of_the_client_is_evaluated_after_the_repetition() {
    let site = stale_site(A, |request, call| ready(confused(&request, call))).await;
    assert_eq!(site.send(get("/", &[("if-none-match", "\"b\"")])).await.status, 304);
    assert_eq!(site.calls(), 3);
}

/// Such an origin would be asked for ever.
#[tokio::test]
async fn second_304_ends_the_repetition() {
    let site =
        stale_site(A, |_, call| ready(if call < 4 { not_modified(B) } else { reply_with(call, B) })).await;
    let refused = site.get("/").await;
    assert_eq!((refused.status.as_u16(), refused.cache_status()), (502, "fwd=uri-miss; detail=validation"));
    assert_eq!(site.calls(), 3);
    assert_eq!(site.get("/").await.body, "4");
}

#[tokio::test]
async fn validation_of_another_response_is_refused_if_the_request_cannot_be_made_twice() {
    let site = site(|_, call| ready(if call == 2 { not_modified(B) } else { reply_with(call, A) }));
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    let refused = site.get("/").await;
    assert_eq!((refused.status.as_u16(), refused.cache_status()), (502, "fwd=uri-miss; detail=validation"));
    assert_eq!(site.get("/").await.body, "3");
}

#[tokio::test]
async fn all_who_wait_get_the_response_to_one_repetition() {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = stale_site(A, move |request, call| {
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            confused(&request, call)
        }
    })
    .await;
    let requests = [(); 5].map(|()| tokio::spawn(site.service.clone().oneshot(get("/", &[]))));
    settle().await;
    gate.add_permits(2);
    for request in requests {
        let answer = CollectedResponse::read(request.await.unwrap().unwrap()).await.unwrap();
        assert_eq!(answer.body, "3");
    }
    assert_eq!(site.calls(), 3);
}

#[tokio::test]
async fn stale_response_is_served_if_the_repetition_fails_and_the_origin_allows_it() {
    const MAY_BE_STALE: &[(&str, &str)] =
        &[("cache-control", "max-age=10, stale-if-error=60"), ("etag", "\"a\"")];
    const MUST_BE_VALID: &[(&str, &str)] =
        &[("cache-control", "max-age=10, must-revalidate"), ("etag", "\"a\"")];
    for (fields, expected) in [(MAY_BE_STALE, (200, "1")), (MUST_BE_VALID, (503, "3"))] {
        let site = stale_site(fields, |_, call| {
            ready(if call == 2 { not_modified(B) } else { status(503, reply_with(call, &[])) })
        })
        .await;
        let answer = site.get("/").await;
        assert_eq!((answer.status.as_u16(), &*String::from_utf8_lossy(&answer.body)), expected);
    }
}

#[tokio::test]
async fn purge_during_the_repetition_is_final() {
    let gate = Arc::new(Semaphore::new(1));
    let handler_gate = gate.clone();
    let site = stale_site(A, move |request, call| {
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            confused(&request, call)
        }
    })
    .await;
    let waiting = tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    settle().await;
    assert_eq!(site.calls(), 3, "it is repeated");
    site.cache.purge_uri("http://site.example/").unwrap();
    gate.add_permits(2);
    let answer = CollectedResponse::read(waiting.await.unwrap().unwrap()).await.unwrap();
    assert_eq!(answer.cache_status(), "fwd=uri-miss; detail=purged");
    assert_eq!(site.get("/").await.body, "4");
}

#[tokio::test]
async fn refresh_in_the_background_is_repeated_too() {
    let fields = &[("cache-control", "max-age=10, stale-while-revalidate=60"), ("etag", "\"a\"")];
    let site = stale_site(fields, |request, call| ready(confused(&request, call))).await;
    assert_eq!(site.get("/").await.body, "1");
    settle().await;
    assert_eq!((site.get("/").await.body.as_ref(), site.calls()), (&b"3"[..], 3));
}

#[tokio::test]
async fn client_that_wants_a_validation_gets_the_response_to_the_repetition() {
    let fields = &[("cache-control", "max-age=100"), ("etag", "\"a\"")];
    let site = stale_site(fields, |request, call| ready(confused(&request, call))).await;
    assert_eq!(site.send(get("/", &[("cache-control", "no-cache")])).await.body, "3");
    let hit = site.get("/").await;
    assert_eq!((hit.cache_status(), &hit.body[..], site.calls()), ("hit; ttl=10", &b"3"[..], 3));
}
