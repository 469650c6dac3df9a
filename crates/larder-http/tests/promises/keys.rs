//! One key, one response: what could name something else bypasses, or is something else.

use http::Request;

use crate::support::*;

#[tokio::test]
async fn other_targets_are_other_entries() {
    let site = Site::counting();
    let targets = ["/a", "/a?", "/a?x=1", "/a?x=1&y=2", "/a?y=2&x=1", "/A", "/%61", "/a/", "/a;x"];
    for (n, target) in targets.iter().enumerate() {
        assert_eq!(site.get(target).await.body, (n + 1).to_string(), "{target}");
    }
    for (n, target) in targets.iter().enumerate() {
        assert_eq!(site.get(target).await.body, (n + 1).to_string(), "{target} again");
    }
}

#[tokio::test]
async fn hosts_and_schemes_do_not_share() {
    let site = Site::counting();
    let ask = |uri: &str| site.send(Request::get(uri).body(String::new()).unwrap());
    for (n, uri) in ["http://a.example/", "https://a.example/", "http://b.example/"].iter().enumerate() {
        assert_eq!(ask(uri).await.body, (n + 1).to_string());
    }
    assert_eq!(ask("http://A.EXAMPLE:80/").await.body, "1");
}

#[tokio::test]
async fn an_absolute_target_and_a_host_line_are_the_same_resource() {
    let site = Site::counting();
    site.get("/x").await;
    assert_eq!(site.get("http://site.example/x").await.body, "1");
}

#[tokio::test]
async fn requests_without_one_authority_bypass() {
    let site = Site::counting();
    site.get("/").await;
    for request in [
        get("/", &[("host", "site.example")]),
        get("http://other.example/", &[]),
        Request::get("/").header("host", "site.example, other.example").body(String::new()).unwrap(),
        Request::get("/").header("host", "user@site.example").body(String::new()).unwrap(),
    ] {
        assert_eq!(site.send(request).await.says(), "fwd=bypass; detail=authority");
    }
}

#[tokio::test]
async fn a_get_with_a_body_bypasses() {
    let site = Site::counting();
    site.get("/").await;
    for field in [("content-length", "3"), ("transfer-encoding", "chunked"), ("content-length", "x")] {
        let answer = site.send(get("/", &[field])).await;
        assert_eq!((answer.says(), answer.body == "1"), ("fwd=bypass; detail=request-body", false));
    }
    assert_eq!(site.send(get("/", &[("content-length", "0")])).await.body, "1");
}

#[tokio::test]
async fn a_method_override_bypasses() {
    let site = Site::counting();
    site.get("/").await;
    for name in ["x-http-method-override", "X-HTTP-Method", "x-method-override"] {
        let answer = site.send(get("/", &[(name, "POST")])).await;
        assert_eq!(answer.says(), "fwd=bypass; detail=method-override", "{name}");
    }
}

#[tokio::test]
async fn other_methods_reach_the_handler() {
    let site = Site::counting();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY", "TRACE"] {
        let before = site.calls();
        assert_eq!(site.send(request(method, "/", &[])).await.says(), "fwd=method", "{method}");
        assert_eq!(site.calls(), before + 1);
    }
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn an_upgrade_and_a_precondition_reach_the_handler() {
    let site = Site::counting();
    site.get("/").await;
    for (name, detail) in
        [("upgrade", "upgrade"), ("if-match", "precondition"), ("if-unmodified-since", "precondition")]
    {
        let answer = site.send(get("/", &[(name, "x")])).await;
        assert_eq!(answer.says(), format!("fwd=bypass; detail={detail}"));
    }
}

#[tokio::test]
async fn a_target_beyond_the_longest_key_bypasses() {
    let site = Site::counting();
    let answer = site.get(&format!("/{}", "a".repeat(17_000))).await;
    assert_eq!(answer.says(), "fwd=bypass; detail=target-too-long");
}
