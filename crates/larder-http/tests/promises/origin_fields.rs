//! Under the profile `rfc` the header fields of the origin decide: what is stored, for how long, when it is validated, and
//! when it may be served stale (RFC 9111).

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use larder_http::{HttpCache, Profile};
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::*;

/// A site whose first response has these fields and body `1`, and whose handler answers every condition with a 304.
fn validating(fields: &'static [(&'static str, &'static str)]) -> Site {
    site(move |request, call| {
        let is_conditional = request.headers().contains_key("if-none-match");
        ready(if is_conditional { not_modified(fields) } else { reply_with(call, fields) })
    })
}

#[tokio::test]
async fn response_with_max_age_is_stored_without_opt_in() {
    let site = site(|_, call| ready(reply_with(call, &[("cache-control", "max-age=10")])));
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=10");
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/").await.body, "2");
}

#[tokio::test]
async fn response_without_freshness_and_validator_is_not_stored() {
    let site = site(|_, call| ready(reply_with(call, &[])));
    site.get("/").await;
    assert_eq!(site.get("/").await.body, "2");
}

#[tokio::test]
async fn stale_response_is_validated_and_gets_the_fields_of_the_304() {
    let site = site(|request, call| {
        let condition = request.headers().get("if-none-match").cloned();
        ready(match call {
            1 => reply_with(1, &[("cache-control", "max-age=10"), ("etag", "\"a\""), ("x-old", "1")]),
            _ => {
                assert_eq!(condition.expect("it is conditional"), "\"a\"");
                not_modified(&[("cache-control", "max-age=20"), ("etag", "\"a\""), ("x-new", "2")])
            }
        })
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    let validated = site.get("/").await;
    assert_eq!(validated.cache_status(), "fwd=stale; fwd-status=304; stored");
    assert_eq!((validated.status, &validated.body[..]), (StatusCode::OK, &b"1"[..]));
    assert_eq!((validated.header("x-old"), validated.header("x-new")), (Some("1"), Some("2")));
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=20");
    assert_eq!(site.cache.stats().validated, 1);
}

#[tokio::test]
async fn changed_response_replaces_the_stale_one() {
    let site = site(|_, call| ready(reply_with(call, &[("cache-control", "max-age=10"), ("etag", "\"a\"")])));
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/").await.body, "2");
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=10");
}

#[tokio::test]
async fn variants_are_validated_each() {
    let site = validating(&[("cache-control", "max-age=10"), ("etag", "\"a\""), ("vary", "accept")]);
    for _ in 0..2 {
        site.send(get("/", &[("accept", "a")])).await;
        site.send(get("/", &[("accept", "b")])).await;
    }
    assert_eq!(site.calls(), 2);
    site.clock.advance(SECOND * 11);
    let validated = site.send(get("/", &[("accept", "b")])).await;
    assert_eq!(
        (validated.cache_status(), &validated.body[..]),
        ("fwd=stale; fwd-status=304; stored", &b"2"[..])
    );
}

#[tokio::test]
async fn requests_for_a_stale_response_wait_for_one_validation() {
    let gate = Arc::new(Semaphore::new(1));
    let handler_gate = gate.clone();
    let site = site(move |request, call| {
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            let fields = [("cache-control", "max-age=10"), ("etag", "\"a\"")];
            match request.headers().contains_key("if-none-match") {
                true => not_modified(&fields),
                false => reply_with(call, &fields),
            }
        }
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    let (service, requests) = (site.service.clone(), (0..5).map(|_| get("/", &[])));
    let answers: Vec<_> = requests.map(|request| tokio::spawn(service.clone().oneshot(request))).collect();
    settle().await;
    gate.add_permits(1);
    for answer in answers {
        let response = CollectedResponse::read(answer.await.unwrap().unwrap()).await.unwrap();
        assert_eq!(response.body, "1");
    }
    assert_eq!(site.calls(), 2, "one load, one validation");
}

#[tokio::test]
async fn no_cache_response_is_validated_at_each_use() {
    let site = validating(&[("cache-control", "no-cache"), ("etag", "\"a\"")]);
    site.get("/").await;
    for call in 2..5 {
        let response = site.get("/").await;
        assert_eq!(
            (response.cache_status(), &response.body[..]),
            ("fwd=stale; fwd-status=304; stored", &b"1"[..])
        );
        assert_eq!(site.calls(), call);
    }
}

#[tokio::test]
async fn generated_etag_is_not_sent_to_the_origin() {
    let site = site(|request, call| {
        assert!(!request.headers().contains_key("if-none-match"));
        ready(reply_with(call, &[("cache-control", "max-age=10")]))
    });
    assert!(site.get("/").await.header("etag").is_some());
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/").await.body, "2");
}

#[tokio::test]
async fn condition_of_the_client_is_evaluated_after_the_validation() {
    let site = validating(&[("cache-control", "max-age=10"), ("etag", "\"a\"")]);
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    assert_eq!(site.send(get("/", &[("if-none-match", "\"a\"")])).await.status, 304);
    site.clock.advance(SECOND * 11);
    let other = site.send(get("/", &[("if-none-match", "\"b\"")])).await;
    assert_eq!((other.status.as_u16(), &other.body[..]), (200, &b"1"[..]));
}

#[tokio::test]
async fn validation_that_forbids_storing_is_answered_and_not_stored() {
    let site = site(|_, call| {
        ready(match call {
            2 => not_modified(&[("cache-control", "no-store")]),
            _ => reply_with(call, &[("cache-control", "max-age=10"), ("etag", "\"a\"")]),
        })
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    let last = site.get("/").await;
    assert_eq!(
        (last.status.as_u16(), &last.body[..], last.cache_status()),
        (200, &b"1"[..], "fwd=uri-miss; detail=no-store")
    );
    assert_eq!(site.get("/").await.body, "3");
}

#[tokio::test]
async fn error_is_hidden_only_as_long_as_stale_if_error_says() {
    let site = site(|_, call| {
        ready(match call {
            1 => reply_with(1, &[("cache-control", "max-age=10, stale-if-error=20"), ("etag", "\"a\"")]),
            _ => status(503, reply_with(call, &[])),
        })
    });
    site.get("/").await;
    site.clock.advance(SECOND * 25);
    let stale = site.get("/").await;
    assert_eq!((stale.cache_status(), &stale.body[..]), ("hit; ttl=-15; detail=stale", &b"1"[..]));
    site.clock.advance(SECOND * 6);
    let failed = site.get("/").await;
    assert_eq!((failed.status.as_u16(), &failed.body[..]), (503, &b"3"[..]));
}

#[tokio::test]
async fn error_without_stale_if_error_is_sent_and_the_stored_response_can_still_be_validated() {
    let site = site(|request, call| {
        ready(match call {
            1 => reply_with(1, &[("cache-control", "max-age=10, must-revalidate"), ("etag", "\"a\"")]),
            2 => status(500, reply_with(2, &[])),
            _ => {
                assert_eq!(request.headers()["if-none-match"], "\"a\"");
                not_modified(&[("cache-control", "max-age=10")])
            }
        })
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/").await.status, 500);
    // The key is hit-for-miss for ten seconds.
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/").await.body, "1");
}

#[tokio::test]
async fn unreachable_origin_is_hidden_unless_validation_is_required() {
    for (control, hides) in
        [("max-age=10", true), ("max-age=10, must-revalidate", false), ("no-cache", false)]
    {
        let is_down = Arc::new(AtomicBool::new(false));
        let origin_is_down = is_down.clone();
        let origin = service_fn(move |_: Request<String>| {
            let is_down = origin_is_down.load(Ordering::SeqCst);
            let reply = reply_with("old", &[("cache-control", control), ("etag", "\"a\"")]);
            async move { if is_down { Err("refused") } else { Ok(reply) } }
        });
        let (clock, manual_clock) = larder_http::Clock::manual();
        let cache = HttpCache::builder().clock(clock).profile(Profile::Rfc).build().unwrap();
        let service = cache.layer().layer(origin);
        service.clone().oneshot(get("/", &[])).await.unwrap();
        manual_clock.advance(SECOND * 60);
        is_down.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            let answer = service.clone().oneshot(get("/", &[])).await;
            assert_eq!(answer.is_ok(), hides, "{control}");
            if let Ok(response) = answer {
                assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), Bytes::from("old"));
            }
        }
        is_down.store(false, Ordering::SeqCst);
        manual_clock.advance(SECOND * 60);
        assert!(service.clone().oneshot(get("/", &[])).await.is_ok(), "{control}");
    }
}

#[tokio::test]
async fn set_cookie_is_stored_only_if_public_and_never_replayed() {
    for (control, calls) in [("public, max-age=10", 1), ("max-age=10", 2)] {
        let site = site(move |_, call| {
            ready(reply_with(call, &[("cache-control", control), ("set-cookie", "session=1")]))
        });
        assert_eq!(site.get("/").await.header("set-cookie"), Some("session=1"), "{control}");
        let second = site.get("/").await;
        assert_eq!(site.calls(), calls, "{control}");
        assert_eq!(second.header("set-cookie").is_some(), calls == 2, "{control}");
    }
}

#[tokio::test]
async fn cookies_of_a_request_do_not_bypass() {
    let site = site(|_, call| ready(reply_with(call, &[("cache-control", "max-age=10")])));
    for _ in 0..2 {
        assert_eq!(site.send(get("/", &[("cookie", "a=1")])).await.body, "1");
    }
}

#[tokio::test]
async fn response_to_authorization_is_stored_only_if_a_directive_allows_it() {
    for (control, calls) in
        [("max-age=10", 2), ("max-age=10, public", 1), ("s-maxage=10", 1), ("max-age=10, must-revalidate", 1)]
    {
        let site = site(move |_, call| ready(reply_with(call, &[("cache-control", control)])));
        for _ in 0..2 {
            site.send(get("/", &[("authorization", "Basic dXNlcg==")])).await;
        }
        assert_eq!(site.calls(), calls, "{control}");
    }
}

#[tokio::test]
async fn client_that_wants_validation_gets_it_and_others_keep_their_hits() {
    let site = validating(&[("cache-control", "max-age=100"), ("etag", "\"a\"")]);
    site.get("/").await;
    for control in ["no-cache", "max-age=0"] {
        site.clock.advance(SECOND);
        let response = site.send(get("/", &[("cache-control", control)])).await;
        assert_eq!(
            (response.cache_status(), &response.body[..]),
            ("fwd=stale; fwd-status=304; stored", &b"1"[..])
        );
    }
    assert_eq!(site.calls(), 3);
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=100");
}

#[tokio::test]
async fn stale_while_revalidate_answers_at_once_and_validates_behind() {
    let site = validating(&[("cache-control", "max-age=10, stale-while-revalidate=20"), ("etag", "\"a\"")]);
    site.get("/").await;
    site.clock.advance(SECOND * 15);
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=-5; detail=stale");
    settle().await;
    let fresh = site.get("/").await;
    assert_eq!((fresh.cache_status(), &fresh.body[..], site.calls()), ("hit; ttl=10", &b"1"[..], 2));
}

/// A site with a stale response, during whose validation this happens. The origin then fails. Returns the site, and the status that
/// the client got who waited for the validation.
async fn during_a_failed_validation(act: impl AsyncFnOnce(&Site)) -> (Site, StatusCode) {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = site(move |request, call| {
        let gate = handler_gate.clone();
        async move {
            if request.headers().contains_key("if-none-match") {
                gate.acquire().await.unwrap().forget();
                return status(503, reply_with(call, &[]));
            }
            reply_with(call, &[("cache-control", "max-age=10, stale-if-error=100"), ("etag", "\"a\"")])
        }
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    let validation = tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    settle().await;
    act(&site).await;
    gate.add_permits(1);
    let answer = validation.await.unwrap().unwrap();
    (site, answer.status())
}

#[tokio::test]
async fn unsafe_method_during_a_failed_validation_removes_what_was_stored() {
    let (site, status) = during_a_failed_validation(async |site| {
        site.send(request("POST", "/", &[])).await;
    })
    .await;
    assert_eq!(status, 200, "its client asked before");
    assert_ne!(site.get("/").await.body, "1", "the POST came after it");
}

#[tokio::test]
async fn followers_of_a_failed_validation_ask_the_origin_themselves() {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = site(move |request, call| {
        let gate = handler_gate.clone();
        async move {
            if request.headers().contains_key("if-none-match") {
                gate.acquire().await.unwrap().forget();
                return status(500, reply_with(call, &[]));
            }
            reply_with(call, &[("cache-control", "max-age=10, must-revalidate"), ("etag", "\"a\"")])
        }
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    let [leader, follower] = [(); 2].map(|()| site.service.clone().oneshot(get("/", &[])));
    let leader = tokio::spawn(leader);
    settle().await;
    let follower = tokio::spawn(follower);
    settle().await;
    gate.add_permits(2);
    assert_eq!(leader.await.unwrap().unwrap().status(), 500);
    let response = CollectedResponse::read(follower.await.unwrap().unwrap()).await.unwrap();
    assert_eq!((response.status.as_u16(), &response.body[..]), (200, &b"3"[..]), "not what is expired");
}

#[tokio::test]
async fn client_terms_decide_whether_a_stored_response_is_fresh_enough() {
    for (age, control, expected) in [
        (5, "min-fresh=5", "hit; ttl=5"),
        (5, "min-fresh=6", "fwd=stale; fwd-status=304; stored"),
        (12, "max-stale=2", "hit; ttl=-2; detail=stale"),
        (12, "max-stale=1", "fwd=stale; fwd-status=304; stored"),
        (12, "max-stale", "hit; ttl=-2; detail=stale"),
        (12, "only-if-cached", "fwd=bypass; detail=only-if-cached"),
        (5, "only-if-cached", "hit; ttl=5"),
        (5, "only-if-cached, max-age=4", "fwd=bypass; detail=only-if-cached"),
    ] {
        let site = validating(&[("cache-control", "max-age=10"), ("etag", "\"a\"")]);
        site.get("/").await;
        site.clock.advance(SECOND * age);
        let response = site.send(get("/", &[("cache-control", control)])).await;
        assert_eq!(response.cache_status(), expected, "{control} at {age} s");
    }
}

#[tokio::test]
async fn pragma_no_cache_counts_only_without_cache_control() {
    let site = validating(&[("cache-control", "max-age=100"), ("etag", "\"a\"")]);
    site.get("/").await;
    site.send(get("/", &[("pragma", "no-cache"), ("cache-control", "x")])).await;
    assert_eq!(site.calls(), 1);
    site.send(get("/", &[("pragma", "no-cache")])).await;
    assert_eq!(site.calls(), 2);
}

#[tokio::test]
async fn client_terms_have_no_effect_where_handlers_decide() {
    let site = Site::counting();
    site.get("/").await;
    site.clock.advance(SECOND);
    let response = site.send(get("/", &[("cache-control", "no-cache"), ("pragma", "no-cache")])).await;
    assert_eq!(response.cache_status(), "hit; ttl=59");
}

#[tokio::test]
async fn unsafe_method_invalidates_what_its_response_names_on_the_same_origin() {
    let site = site(|request, call| {
        ready(match request.method().as_str() {
            "POST" => reply_with(
                "",
                &[("location", "/made?a=1"), ("content-location", "http://site.example/state")],
            ),
            "PUT" => reply_with("", &[("location", "http://other.example/made?a=1")]),
            _ => reply_with(call, &[("cache-control", "max-age=100")]),
        })
    });
    for uri in ["/made?a=1", "/state", "/kept"] {
        site.get(uri).await;
    }
    site.send(request("PUT", "/x", &[])).await;
    assert_eq!(site.get("/made?a=1").await.cache_status(), "hit; ttl=100");
    site.send(request("POST", "/x", &[])).await;
    assert_eq!(site.get("/made?a=1").await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.get("/state").await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.get("/kept").await.cache_status(), "hit; ttl=100");
}

#[tokio::test]
async fn group_is_invalidated_by_the_response_to_an_unsafe_method() {
    let site = site(|request, call| {
        ready(match request.method().as_str() {
            "POST" => reply_with("", &[("cache-group-invalidation", "\"prices\"")]),
            _ => {
                reply_with(call, &[("cache-control", "max-age=100"), ("cache-groups", "\"prices\", \"all\"")])
            }
        })
    });
    site.get("/1").await;
    site.get("/2").await;
    assert_eq!(site.get("/1").await.cache_status(), "hit; ttl=100");
    site.send(request("POST", "/x", &[])).await;
    for uri in ["/1", "/2"] {
        assert_eq!(site.get(uri).await.cache_status(), "fwd=uri-miss; stored", "{uri}");
    }
}

/// Of a site whose queries `x` do not count.
fn ignoring_x() -> Site {
    site(|_, call| {
        ready(reply_with(call, &[("cache-control", "max-age=100"), ("no-vary-search", "params=(\"x\")")]))
    })
}

#[tokio::test]
async fn queries_that_the_origin_calls_equivalent_have_one_response() {
    let site = ignoring_x();
    assert_eq!(site.get("/?x=1&y=1").await.cache_status(), "fwd=uri-miss; detail=query-rule");
    assert_eq!(site.get("/?x=1&y=1").await.body, "2");
    assert_eq!(site.get("/?y=1&x=2").await.body, "2");
    assert_eq!(site.get("/?y=2").await.body, "3");
}

#[tokio::test]
async fn purge_of_a_uri_covers_the_response_of_equivalent_queries() {
    let site = ignoring_x();
    site.get("/?x=1").await;
    assert_eq!(site.get("/?x=1").await.body, "2");
    assert!(site.cache.purge_uri("http://site.example/?x=7").unwrap());
    assert_eq!(site.get("/?x=1").await.body, "3");
    site.send(request("POST", "/?x=9", &[])).await;
    assert_ne!(site.get("/?x=1").await.body, "3");
}

#[tokio::test]
async fn response_without_the_rule_ends_it() {
    let site = site(|_, call| {
        let rule = if call < 4 { "params=(\"x\")" } else { "" };
        ready(reply_with(call, &[("cache-control", "max-age=100"), ("no-vary-search", rule)]))
    });
    site.get("/?x=1").await;
    assert_eq!(site.get("/?x=1").await.body, "2");
    assert_eq!(site.get("/?y=1").await.body, "3");
    assert_eq!(site.get("/?y=4").await.cache_status(), "fwd=uri-miss; detail=query-rule");
    assert_eq!(site.get("/?x=1").await.body, "5", "it was stored by the former rule");
    assert_eq!(site.get("/?x=2").await.body, "6");
}

#[tokio::test]
async fn estimated_freshness_does_not_count_for_a_request_with_cookies() {
    let site = site(|request, call| {
        let fields = [("last-modified", "Wed, 01 Jan 2020 00:00:00 GMT")];
        let is_user = request.headers().contains_key("cookie");
        ready(if is_user { reply_with("of a user", &[]) } else { reply_with(call, &fields) })
    });
    site.get("/").await;
    assert_eq!(site.get("/").await.body, "1");
    assert_eq!(site.send(get("/", &[("cookie", "session=1")])).await.body, "of a user");
    assert_eq!(site.get("/").await.body, "1", "others keep their response");
}

#[tokio::test]
async fn request_with_cookies_does_not_share_a_response_that_says_nothing_of_caching() {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = site(move |request, _| {
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            let body = if request.headers().contains_key("cookie") { "of a user" } else { "of nobody" };
            reply_with(body, &[("etag", "\"a\"")])
        }
    });
    let first = tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    settle().await;
    let user = tokio::spawn(site.service.clone().oneshot(get("/", &[("cookie", "session=1")])));
    let nobody = tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    settle().await;
    gate.add_permits(3);
    for (request, body) in [(first, "of nobody"), (user, "of a user"), (nobody, "of nobody")] {
        let response = CollectedResponse::read(request.await.unwrap().unwrap()).await.unwrap();
        assert_eq!(response.body, body);
    }
}

#[tokio::test]
async fn request_with_cookies_does_not_read_a_body_on_its_way_that_says_nothing_of_caching() {
    let (frames, body) = tokio::sync::mpsc::unbounded_channel();
    let body = std::sync::Mutex::new(Some(body));
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = site(move |request, _| {
        let is_user = request.headers().contains_key("cookie");
        let body = if is_user { None } else { body.lock().unwrap().take() };
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            let reply = match body {
                Some(body) => plain("").map(|_| Streamed(body).boxed()),
                None => plain("of a user"),
            };
            field(reply, "etag", "\"a\"")
        }
    });
    let nobody = tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    settle().await;
    let user = tokio::spawn(site.service.clone().oneshot(get("/", &[("cookie", "session=1")])));
    settle().await;
    gate.add_permits(2);
    let nobody = nobody.await.unwrap().unwrap();
    frames.send(data("of nobody")).unwrap();
    let user = CollectedResponse::read(user.await.unwrap().unwrap()).await.unwrap();
    assert_eq!(user.body, "of a user");
    drop(frames);
    assert_eq!(CollectedResponse::read(nobody).await.unwrap().body, "of nobody");
}

#[tokio::test]
async fn purge_during_a_failed_validation_is_final() {
    let (_, status) = during_a_failed_validation(async |site| {
        site.cache.purge_uri("http://site.example/").unwrap();
    })
    .await;
    assert_eq!(status, 503, "not what was purged");
}

#[tokio::test]
async fn handler_that_decides_itself_is_asked_for_a_complete_response() {
    let site = Site::new(|request, call| async move {
        assert!(!request.headers().contains_key("if-modified-since"), "call {call}");
        let reply = field(plain(call.to_string()), "last-modified", "Wed, 01 Jan 2020 00:00:00 GMT");
        with_cached(reply, larder_http::Cached::ttl(SECOND * 10).swr(MINUTE))
    });
    site.get("/").await;
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/").await.body, "1");
    settle().await;
    assert_eq!(site.get("/").await.body, "2");
}
