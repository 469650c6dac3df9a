//! Responses behind the gate are for whom it allows, at this moment.

use super::*;
use larder_proxy::RuleScope;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The sessions of a site, and the questions to its gate.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    users: BTreeMap<&'static str, &'static str>,
    /// The questions that were asked.
    questions: Vec<String>,
}

impl Sessions {
    fn of(users: impl IntoIterator<Item = (&'static str, &'static str)>) -> Sessions {
        let sessions = Sessions::default();
        sessions.0.lock().unwrap().users.extend(users);
        sessions
    }

    fn revoke(&self, session: &str) {
        self.0.lock().unwrap().users.remove(session);
    }

    fn questions(&self) -> usize {
        self.0.lock().unwrap().questions.len()
    }

    /// The user of a request, by its cookie `session` or its field `x-key`.
    fn user(&self, request: &Request<Incoming>) -> Option<&'static str> {
        let (cookie, key) = (field(request, "cookie"), field(request, "x-key"));
        let session = cookie.split("; ").find_map(|cookie| cookie.strip_prefix("session="));
        self.0.lock().unwrap().users.get(session.unwrap_or(&key)).copied()
    }

    /// A site with a gate. Its page says who has asked for it.
    async fn site(&self) -> HttpOrigin {
        let sessions = self.clone();
        HttpOrigin::start(move |request: Request<Incoming>| {
            let user = sessions.user(&request);
            if request.uri().path() == "/auth/check" {
                let mut fields: Vec<_> = request
                    .headers()
                    .iter()
                    .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
                    .collect();
                fields.sort_unstable();
                sessions.0.lock().unwrap().questions.push(fields.join(" "));
                let response = match user {
                    Some(user) => reply(200, "ok", &[("x-principal", user)]),
                    None => reply(403, "no", &[]),
                };
                return std::future::ready(response);
            }
            std::future::ready(match user {
                Some(user) => reply(200, format!("page of {user}"), &[("cache-control", "max-age=60")]),
                None => reply(200, "sign in", &[("cache-control", "max-age=60")]),
            })
        })
        .await
    }
}

fn gate() -> GateConfig {
    GateConfig { path: "/auth/check".into(), ..GateConfig::default() }
}

fn scoped(scope: RuleScope) -> RuleConfig {
    RuleConfig {
        scope: Some(scope),
        cookies: vec!["session".into()],
        headers: vec!["x-key".into()],
        ..rule("/")
    }
}

async fn get_as(proxy: &Running, session: &str) -> String {
    proxy
        .exchange(get_with("/page?x", &format!("Cookie: theme=dark; session={session}\r\nAccept: */*\r\n")))
        .await
}

#[tokio::test]
async fn private_response_is_for_its_principal_alone() {
    let sessions = Sessions::of([("a", "ann"), ("b", "bob"), ("c", "ann")]);
    let origin = sessions.site().await;
    let proxy = start(with_gate(origin.address, gate(), [scoped(RuleScope::Private)])).await;
    for (session, user) in [("a", "ann"), ("b", "bob")] {
        assert_eq!(body(&get_as(&proxy, session).await), format!("page of {user}"));
    }
    for (session, user) in [("a", "ann"), ("b", "bob"), ("c", "ann")] {
        let response = get_as(&proxy, session).await;
        assert_hit(&response);
        assert_eq!(body(&response), format!("page of {user}"), "{session}");
    }
}

#[tokio::test]
async fn gated_response_is_for_all_whom_the_gate_allows() {
    let sessions = Sessions::of([("a", "ann"), ("b", "bob")]);
    let origin = sessions.site().await;
    let proxy = start(with_gate(origin.address, gate(), [scoped(RuleScope::Gated)])).await;
    get_as(&proxy, "a").await;
    let shared = get_as(&proxy, "b").await;
    assert_hit(&shared);
    assert_eq!(body(&shared), "page of ann");
    let denied = get_as(&proxy, "nobody").await;
    assert_eq!((body(&denied), cache_status(&denied)), ("sign in", "larder; fwd=bypass; detail=gate"));
}

#[tokio::test]
async fn gate_sees_the_named_credentials_and_what_is_asked_for() {
    let sessions = Sessions::of([("a", "ann")]);
    let origin = sessions.site().await;
    let proxy = start(with_gate(origin.address, gate(), [scoped(RuleScope::Gated)])).await;
    get_as(&proxy, "a").await;
    let question = sessions.0.lock().unwrap().questions[0].clone();
    let (before_via, via) = question.split_once(" via=").unwrap();
    assert_eq!(before_via, "cookie=session=a host=site.example");
    let (_, after_via) = via.split_once(" x-").unwrap();
    assert_eq!(
        after_via,
        "forwarded-host=site.example x-forwarded-proto=http x-original-method=GET x-original-uri=/page?x"
    );
}

#[tokio::test]
async fn client_cannot_say_what_the_gate_is_asked_about() {
    let sessions = Sessions::of([("a", "ann")]);
    let origin = sessions.site().await;
    let proxy = start(with_gate(origin.address, gate(), [scoped(RuleScope::Gated)])).await;
    let claims = "X-Original-URI: /free\r\nX_Original_URI: /free\r\nX-Original-Method: PUT\r\nX-Key: a\r\n";
    proxy.exchange(get_with("/page", claims)).await;
    let question = sessions.0.lock().unwrap().questions[0].clone();
    assert!(question.ends_with(" x-key=a x-original-method=GET x-original-uri=/page"), "{question}");
}

#[tokio::test]
async fn revoked_session_gets_nothing_more() {
    let sessions = Sessions::of([("a", "ann")]);
    let origin = sessions.site().await;
    for scope in [RuleScope::Gated, RuleScope::Private] {
        let proxy = start(with_gate(origin.address, gate(), [scoped(scope)])).await;
        sessions.0.lock().unwrap().users.insert("a", "ann");
        get_as(&proxy, "a").await;
        assert_hit(&get_as(&proxy, "a").await);
        sessions.revoke("a");
        let response = get_as(&proxy, "a").await;
        assert_eq!(
            (body(&response), cache_status(&response)),
            ("sign in", "larder; fwd=bypass; detail=gate")
        );
    }
}

#[tokio::test]
async fn each_request_is_asked_about_once() {
    let sessions = Sessions::of([("a", "ann")]);
    let origin = sessions.site().await;
    let proxy = start(with_gate(origin.address, gate(), [scoped(RuleScope::Private)])).await;
    for asked in 1..=5 {
        get_as(&proxy, "a").await;
        assert_eq!(sessions.questions(), asked);
    }
    assert_eq!(origin.requests(), 5 + 1);
}

#[tokio::test]
async fn client_without_credentials_is_not_asked_about_and_fills_nothing() {
    let sessions = Sessions::of([("a", "ann")]);
    let origin = sessions.site().await;
    let proxy = start(with_gate(origin.address, gate(), [scoped(RuleScope::Gated)])).await;
    for _ in 0..2 {
        let response = proxy.exchange(get_with("/page?x", "Cookie: theme=dark\r\n")).await;
        assert_eq!(body(&response), "sign in");
        assert!(cache_status(&response).ends_with("detail=gate"), "{response}");
    }
    assert_eq!(body(&get_as(&proxy, "a").await), "page of ann");
    assert_eq!(body(&proxy.get("/page?x").await), "sign in");
    assert_eq!(sessions.questions(), 1);
}

#[tokio::test]
async fn first_requests_of_two_principals_do_not_wait_for_each_other() {
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let origin = HttpOrigin::start(move |request: Request<Incoming>| {
        let (both, session) = (both.clone(), field(&request, "cookie"));
        async move {
            if request.uri().path() == "/auth/check" {
                return reply(200, "", &[("x-principal", &session)]);
            }
            both.wait().await;
            reply(200, session, &[("cache-control", "max-age=60")])
        }
    })
    .await;
    let proxy = start(with_gate(origin.address, gate(), [scoped(RuleScope::Private)])).await;
    let (ann, bob) = tokio::join!(get_as(&proxy, "a"), get_as(&proxy, "b"));
    for (response, session) in [(ann, "session=a"), (bob, "session=b")] {
        assert_eq!(cache_status(&response), "larder; fwd=uri-miss; stored");
        assert!(body(&response).ends_with(session), "{response}");
    }
}

#[tokio::test]
async fn requests_beyond_the_rules_with_a_scope_are_not_asked_about() {
    let sessions = Sessions::default();
    let origin = sessions.site().await;
    let rules = [RuleConfig { path: Some("/private".into()), ..scoped(RuleScope::Gated) }];
    let proxy = start(with_gate(origin.address, gate(), rules)).await;
    get_as(&proxy, "a").await;
    assert_hit(&get_as(&proxy, "b").await);
    proxy
        .exchange(
            "POST /private HTTP/1.1\r\nHost: h\r\nCookie: session=a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )
        .await;
    assert_eq!(sessions.questions(), 0);
}

#[tokio::test]
async fn verdict_is_used_again_for_the_same_question_alone() {
    let sessions = Sessions::of([("a", "ann"), ("b", "bob")]);
    let origin = sessions.site().await;
    let gate = GateConfig { ttl_seconds: 60, ..gate() };
    let proxy = start(with_gate(origin.address, gate, [scoped(RuleScope::Private)])).await;
    let get = async |fields: &str| proxy.exchange(get_with("/page", fields)).await;
    for (fields, expected, questions) in [
        ("Cookie: session=a\r\n", "page of ann", 1),
        ("Cookie: session=a\r\n", "page of ann", 1),
        ("Cookie: theme=dark; session=a\r\n", "page of ann", 1),
        ("Cookie: session=b\r\n", "page of bob", 2),
        ("Cookie: session=x\r\n", "sign in", 3),
        ("Cookie: session=x\r\n", "sign in", 3),
        // The same text elsewhere is another credential.
        ("X-Key: b\r\n", "page of bob", 4),
        ("X-Key: session=a\r\n", "sign in", 5),
        ("X-Key: a\r\nCookie: session=x\r\n", "sign in", 6),
        ("X-Key: x\r\nCookie: session=a\r\n", "page of ann", 7),
        ("Cookie: session=a\r\n", "page of ann", 7),
        ("", "sign in", 7),
    ] {
        assert_eq!(body(&get(fields).await), expected, "{fields}");
        assert_eq!(sessions.questions(), questions, "{fields}");
    }
    let other_page = proxy.exchange(get_with("/other", "Cookie: session=a\r\n")).await;
    assert_eq!((body(&other_page), sessions.questions()), ("page of ann", 8));
}

#[tokio::test]
async fn response_that_its_origin_calls_private_is_stored_for_its_principal_alone() {
    let origin = HttpOrigin::start(|request: Request<Incoming>| async move {
        let session = field(&request, "cookie") + &field(&request, "authorization");
        match request.uri().path() {
            "/auth/check" => reply(200, "", &[("x-principal", &session)]),
            _ => reply(200, session, &[("cache-control", "private, max-age=60")]),
        }
    })
    .await;
    for (scope, is_stored) in [(RuleScope::Private, true), (RuleScope::Gated, false)] {
        let rule = RuleConfig { headers: vec!["authorization".into()], ..scoped(scope) };
        let proxy = start(with_gate(origin.address, gate(), [rule])).await;
        for fields in ["Cookie: session=a\r\n", "Cookie: session=b\r\n", "Authorization: Bearer c\r\n"] {
            let first = proxy.exchange(get_with("/page", fields)).await;
            let second = proxy.exchange(get_with("/page", fields)).await;
            assert_eq!(cache_status(&second).contains("hit"), is_stored, "{second}");
            assert_eq!(body(&first), body(&second));
            assert!(fields.contains(body(&second)), "{second}");
        }
    }
}
