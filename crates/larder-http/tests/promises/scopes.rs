//! Who may have a stored response: everyone, whom the gate allows now, or one principal.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use http::request::Parts;
use larder_http::{Access, Builder, CacheCtx, Cached, Scope};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::support::*;

/// Sessions by token, and how often the gate was asked.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<(HashMap<String, String>, usize)>>);

impl Sessions {
    fn of(tokens: &[(&str, &str)]) -> Sessions {
        let sessions = Sessions::default();
        for (token, user) in tokens {
            sessions.0.lock().unwrap().0.insert((*token).to_owned(), (*user).to_owned());
        }
        sessions
    }

    fn revoke(&self, token: &str) {
        self.0.lock().unwrap().0.remove(token);
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().1
    }

    fn user(&self, headers: &http::HeaderMap) -> Option<String> {
        let token = headers.get("authorization")?.to_str().ok()?;
        self.0.lock().unwrap().0.get(token).cloned()
    }

    fn gate(&self) -> impl Fn(&Parts) -> std::future::Ready<Access> + Send + Sync + 'static {
        let sessions = self.clone();
        move |head| {
            sessions.0.lock().unwrap().1 += 1;
            let user = sessions.user(&head.headers);
            std::future::ready(user.map_or(Access::Denied, Access::AllowedAs))
        }
    }
}

/// A site whose handler answers 401 without a session, and else its user and the number of the call.
fn guarded_site(sessions: &Sessions, scope: Scope, options: impl FnOnce(Builder) -> Builder) -> Site {
    let (of_handler, gate) = (sessions.clone(), sessions.gate());
    Site::with(
        |builder| options(builder.gate(gate)),
        move |request, call| {
            let user = of_handler.user(request.headers());
            async move {
                match user {
                    Some(user) => {
                        let cached = Cached::ttl(MINUTE).swr(MINUTE).scope(scope);
                        with_cached(plain(format!("{user} {call}")), cached)
                    }
                    None => {
                        let mut reply = cached("no session");
                        *reply.status_mut() = StatusCode::UNAUTHORIZED;
                        reply
                    }
                }
            }
        },
    )
}

async fn get_as(site: &Site, target: &str, token: &str) -> CollectedResponse {
    site.send(get(target, &[("authorization", token)])).await
}

#[tokio::test]
async fn gated_response_is_shared_by_those_whom_the_gate_allows() {
    let sessions = Sessions::of(&[("a", "ann"), ("b", "bob")]);
    let site = guarded_site(&sessions, Scope::Gated, |builder| builder);
    assert_eq!(get_as(&site, "/", "a").await.cache_status(), "fwd=uri-miss; stored");
    let response = get_as(&site, "/", "b").await;
    assert_eq!((&response.body[..], response.cache_status()), (&b"ann 1"[..], "hit; ttl=60"));
    assert_eq!(sessions.asked(), 2);
}

#[tokio::test]
async fn revoked_session_gets_nothing_from_the_cache() {
    for scope in [Scope::Gated, Scope::Private] {
        let sessions = Sessions::of(&[("a", "ann")]);
        let site = guarded_site(&sessions, scope, |builder| builder);
        get_as(&site, "/", "a").await;
        assert_eq!(get_as(&site, "/", "a").await.cache_status(), "hit; ttl=60");
        sessions.revoke("a");
        for token in ["a", "unknown"] {
            let response = get_as(&site, "/", token).await;
            assert_eq!(response.status, StatusCode::UNAUTHORIZED, "the handler answers");
            assert_eq!(response.cache_status(), "fwd=bypass; detail=gate");
        }
        let anonymous = site.get("/").await;
        assert_eq!((anonymous.status, &anonymous.body[..]), (StatusCode::UNAUTHORIZED, &b"no session"[..]));
    }
}

#[tokio::test]
async fn private_responses_are_stored_by_principal() {
    let sessions = Sessions::of(&[("a", "ann"), ("b", "bob"), ("a2", "ann")]);
    let site = guarded_site(&sessions, Scope::Private, |builder| builder);
    assert_eq!(get_as(&site, "/", "a").await.body, "ann 1");
    assert_eq!(get_as(&site, "/", "b").await.body, "bob 2");
    assert_eq!(get_as(&site, "/", "a").await.body, "ann 1");
    assert_eq!(get_as(&site, "/", "a2").await.body, "ann 1", "another session of the principal");
    assert_eq!(get_as(&site, "/", "b").await.body, "bob 2");
}

#[tokio::test]
async fn private_responses_of_more_principals_than_variants_are_kept() {
    let users: Vec<(String, String)> = (0..40).map(|n| (format!("t{n}"), format!("user{n}"))).collect();
    let tokens: Vec<(&str, &str)> = users.iter().map(|(token, user)| (&token[..], &user[..])).collect();
    let site = guarded_site(&Sessions::of(&tokens), Scope::Private, |builder| builder);
    for _ in 0..2 {
        for (token, user) in &tokens {
            assert!(get_as(&site, "/", token).await.body.starts_with(user.as_bytes()));
        }
    }
    assert_eq!(site.calls(), 40);
}

#[tokio::test]
async fn scope_without_gate_is_not_stored() {
    for scope in [Scope::Gated, Scope::Private] {
        let site = Site::new(move |_, call| async move {
            with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(scope))
        });
        for fields in [&[][..], &[("authorization", "a")]] {
            assert_eq!(site.send(get("/", fields)).await.cache_status(), "fwd=uri-miss; detail=scope");
        }
        assert_eq!(site.cache.stats().entries, 0);
    }
}

#[tokio::test]
async fn private_response_without_principal_is_not_stored() {
    let site = Site::with(
        |builder| builder.gate(|_| async { Access::Allowed }),
        |_, call| async move { with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(Scope::Private)) },
    );
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=scope");
    assert_eq!(site.get("/").await.body, "2");
}

#[tokio::test]
async fn public_response_is_shared_regardless_of_credentials() {
    let site = Site::new(|_, call| async move {
        with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(Scope::Public))
    });
    for fields in [&[("authorization", "a")][..], &[("cookie", "b=c")], &[("authorization", "d")], &[]] {
        assert_eq!(site.send(get("/", fields)).await.body, "1");
    }
}

#[tokio::test]
async fn narrowest_scope_counts() {
    let sessions = Sessions::of(&[("a", "ann"), ("b", "bob")]);
    let site = Site::with(
        |builder| builder.gate(sessions.gate()),
        |request, call| async move {
            let ctx: &CacheCtx = request.extensions().get().unwrap();
            ctx.scope(Scope::Private);
            ctx.scope(Scope::Gated);
            with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(Scope::Public))
        },
    );
    assert_eq!(get_as(&site, "/", "a").await.body, "1");
    assert_eq!(get_as(&site, "/", "b").await.body, "2");
    assert_eq!(get_as(&site, "/", "a").await.body, "1");
}

#[tokio::test]
async fn only_private_responses_may_say_private() {
    for (scope, status) in
        [(Scope::Gated, "fwd=uri-miss; detail=private"), (Scope::Private, "fwd=uri-miss; stored")]
    {
        let sessions = Sessions::of(&[("a", "ann")]);
        let site = Site::with(
            |builder| builder.gate(sessions.gate()),
            move |_, _| async move {
                let reply = with_cached(plain("x"), Cached::ttl(MINUTE).scope(scope));
                field(reply, "cache-control", "private, max-age=5")
            },
        );
        assert_eq!(get_as(&site, "/", "a").await.cache_status(), status);
    }
}

/// Sends requests at once, to a handler that waits until all have arrived at the cache.
async fn send_at_once(
    site: &Site,
    handler_gate: &Semaphore,
    tokens: &[&str],
    before_the_end: impl FnOnce(),
) -> Vec<CollectedResponse> {
    let requests = tokens.iter().map(|token| get("/", &[("authorization", token)]));
    let tasks: Vec<_> = requests.map(|request| tokio::spawn(site.service.clone().oneshot(request))).collect();
    settle().await;
    before_the_end();
    handler_gate.add_permits(tokens.len());
    let mut responses = Vec::new();
    for task in tasks {
        responses.push(CollectedResponse::read(task.await.unwrap().unwrap()).await.unwrap());
    }
    responses
}

/// A site whose handler waits for a permit.
fn waiting_site(sessions: &Sessions, scope: Scope) -> (Site, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let (of_handler, gate, waiting) = (sessions.clone(), sessions.gate(), permits.clone());
    let site = Site::with(
        |builder| builder.gate(gate),
        move |request, call| {
            let (permits, sessions) = (waiting.clone(), of_handler.clone());
            async move {
                permits.acquire().await.unwrap().forget();
                let user = sessions.user(request.headers()).unwrap_or_default();
                with_cached(plain(format!("{user} {call}")), Cached::ttl(SECOND).scope(scope))
            }
        },
    );
    (site, permits)
}

#[tokio::test]
async fn requests_with_credentials_follow_each_other_once_the_scope_is_known() {
    let tokens = ["a", "b", "a", "b"];
    for (scope, fills) in [(Scope::Public, 1), (Scope::Gated, 1), (Scope::Private, 2)] {
        let sessions = Sessions::of(&[("a", "ann"), ("b", "bob")]);
        let (site, permits) = waiting_site(&sessions, scope);
        send_at_once(&site, &permits, &tokens, || ()).await;
        assert_eq!(site.calls(), 4, "nothing is known of the resource: each calls the handler");
        site.clock.advance(SECOND);
        let responses = send_at_once(&site, &permits, &tokens, || ()).await;
        assert_eq!(site.calls(), 4 + fills, "{scope:?}");
        if scope == Scope::Private {
            let users: Vec<_> = responses.iter().map(|response| response.body[..3].to_vec()).collect();
            assert_eq!(users, [b"ann", b"bob", b"ann", b"bob"]);
        }
    }
}

#[tokio::test]
async fn session_that_is_revoked_while_its_request_waits_gets_nothing() {
    let sessions = Sessions::of(&[("a", "ann"), ("b", "bob")]);
    let (site, permits) = waiting_site(&sessions, Scope::Gated);
    send_at_once(&site, &permits, &["a"], || ()).await;
    site.clock.advance(SECOND);
    let responses = send_at_once(&site, &permits, &["a", "b"], || sessions.revoke("b")).await;
    assert_eq!(responses[0].body, "ann 2");
    assert_eq!(
        (&responses[1].body[..], responses[1].cache_status()),
        (&b" 3"[..], "fwd=bypass; detail=gate")
    );
}

#[tokio::test]
async fn guarded_response_is_never_served_stale() {
    for scope in [Scope::Gated, Scope::Private] {
        let site = guarded_site(&Sessions::of(&[("a", "ann")]), scope, |builder| builder);
        get_as(&site, "/", "a").await;
        site.clock.advance(MINUTE);
        assert_eq!(get_as(&site, "/", "a").await.body, "ann 2");
    }
}

#[tokio::test]
async fn purge_of_a_principal_concerns_its_private_responses() {
    let sessions = Sessions::of(&[("a", "ann"), ("b", "bob")]);
    let site = guarded_site(&sessions, Scope::Private, |builder| builder);
    for target in ["/1", "/2"] {
        get_as(&site, target, "a").await;
        get_as(&site, target, "b").await;
    }
    site.cache.purge_principal("ann");
    assert_eq!(get_as(&site, "/1", "a").await.body, "ann 5");
    assert_eq!(get_as(&site, "/2", "a").await.body, "ann 6");
    assert_eq!(get_as(&site, "/2", "b").await.body, "bob 4");
}

#[tokio::test]
async fn purge_of_uri_concerns_all_principals() {
    let sessions = Sessions::of(&[("a", "ann"), ("b", "bob")]);
    let site = guarded_site(&sessions, Scope::Private, |builder| builder);
    for token in ["a", "b"] {
        get_as(&site, "/", token).await;
    }
    assert!(site.cache.purge_uri("http://site.example/").unwrap());
    assert_eq!(get_as(&site, "/", "a").await.body, "ann 3");
    assert_eq!(get_as(&site, "/", "b").await.body, "bob 4");
}

#[tokio::test]
async fn changed_scope_hides_what_was_stored_before() {
    let scopes = Arc::new(Mutex::new(Scope::Gated));
    let (sessions, of_handler) = (Sessions::of(&[("a", "ann"), ("b", "bob")]), scopes.clone());
    let site = Site::with(
        |builder| builder.gate(sessions.gate()),
        move |_, call| {
            let scope = *of_handler.lock().unwrap();
            async move { with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(scope)) }
        },
    );
    for scope in [Scope::Gated, Scope::Private, Scope::Public, Scope::Private, Scope::Gated] {
        *scopes.lock().unwrap() = scope;
        let before = site.calls();
        site.clock.advance(MINUTE);
        get_as(&site, "/", "a").await;
        get_as(&site, "/", "b").await;
        let fills = if scope == Scope::Private { 2 } else { 1 };
        assert_eq!(site.calls() - before, fills, "{scope:?}");
    }
}

#[tokio::test]
async fn one_principal_takes_a_hundredth_of_the_store() {
    let sessions = Sessions::of(&[("a", "ann"), ("b", "bob")]);
    let site = guarded_site(&sessions, Scope::Private, |builder| builder.max_bytes(200_000));
    get_as(&site, "/of-bob", "b").await;
    for n in 0..100 {
        get_as(&site, &format!("/{n}"), "a").await;
    }
    assert!(get_as(&site, "/99", "a").await.cache_status().starts_with("hit"));
    assert!(
        get_as(&site, "/0", "a").await.cache_status().starts_with("fwd=vary-miss"),
        "the oldest has gone"
    );
    assert!(get_as(&site, "/of-bob", "b").await.cache_status().starts_with("hit"));
}

/// The response that it replaces goes first, and not the ticket of its fill.
#[tokio::test]
async fn expired_private_response_is_replaced_in_a_full_share() {
    for (max_bytes, pages) in [(400_000, 1), (1_200_000, 4)] {
        let gate = |_: &Parts| std::future::ready(Access::AllowedAs("ann".to_owned()));
        let site = Site::with(
            move |builder| builder.max_bytes(max_bytes).gate(gate),
            |_, _| async { with_cached(plain(vec![b'x'; 2_000]), Cached::ttl(MINUTE).scope(Scope::Private)) },
        );
        for round in 0..5 {
            for page in 0..pages {
                let response = get_as(&site, &format!("/{page}"), "a").await;
                let status = response.cache_status();
                assert!(status.ends_with("stored"), "{status}, round {round}, page {page} of {pages}");
            }
            site.clock.advance(MINUTE + SECOND);
        }
    }
}

#[tokio::test]
async fn private_response_longer_than_a_share_is_not_stored() {
    let sessions = Sessions::of(&[("a", "ann")]);
    let site = Site::with(
        |builder| builder.max_bytes(100_000).gate(sessions.gate()),
        |_, _| async move { with_cached(plain(vec![b'x'; 1000]), Cached::ttl(MINUTE).scope(Scope::Private)) },
    );
    assert_eq!(get_as(&site, "/", "a").await.cache_status(), "fwd=uri-miss; detail=private-share");
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test(start_paused = true)]
async fn gate_that_hangs_denies_after_its_timeout() {
    let site = Site::with(
        |builder| {
            builder.gate_timeout(SECOND).gate(|head| {
                let hangs = head.headers.contains_key("x-hang");
                async move { if hangs { pending().await } else { Access::Allowed } }
            })
        },
        |_, call| async move { with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(Scope::Gated)) },
    );
    assert_eq!(site.get("/").await.body, "1");
    for call in [b"2", b"3"] {
        let answered =
            timeout(SECOND * 2, site.send(get("/", &[("x-hang", "1")]))).await.expect("a second has passed");
        assert_eq!((&answered.body[..], answered.cache_status()), (&call[..], "fwd=bypass; detail=gate"));
    }
    assert_eq!(site.get("/").await.body, "1", "others still get the entry");
}

#[tokio::test]
async fn gate_that_panics_fails_its_request_only() {
    let site = Site::with(
        |builder| {
            builder.gate(|head| {
                let panics = head.headers.contains_key("x-panic");
                async move { if panics { panic!("the gate fails") } else { Access::Allowed } }
            })
        },
        |_, call| async move { with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(Scope::Gated)) },
    );
    for _ in 0..2 {
        let failed = tokio::spawn(site.service.clone().oneshot(get("/", &[("x-panic", "1")]))).await;
        assert!(failed.unwrap_err().is_panic());
        assert_eq!(site.get("/").await.body, "1");
    }
}
