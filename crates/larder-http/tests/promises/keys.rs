//! One key, one response: different requests have different keys, and ambiguous requests bypass.

use http::Request;

use crate::support::*;

#[tokio::test]
async fn different_targets_have_different_entries() {
    let site = Site::counting();
    let targets = ["/a", "/a?", "/a?x=1", "/a?x=1&y=2", "/a?y=2&x=1", "/A", "/%61", "/a/", "/a;x"];
    for (n, target) in targets.iter().enumerate() {
        assert_eq!(site.get(target).await.body, (n + 1).to_string(), "{target}");
    }
    for (n, target) in targets.iter().enumerate() {
        assert_eq!(site.get(target).await.body, (n + 1).to_string(), "second request of {target}");
    }
}

#[tokio::test]
async fn different_hosts_and_schemes_have_different_entries() {
    let site = Site::counting();
    let send = |uri: &str| site.send(Request::get(uri).body(String::new()).unwrap());
    for (n, uri) in ["http://a.example/", "https://a.example/", "http://b.example/"].iter().enumerate() {
        assert_eq!(send(uri).await.body, (n + 1).to_string());
    }
    assert_eq!(send("http://A.EXAMPLE:80/").await.body, "1");
}

#[tokio::test]
async fn absolute_target_and_host_line_share_entry() {
    let site = Site::counting();
    site.get("/x").await;
    assert_eq!(site.get("http://site.example/x").await.body, "1");
}

#[tokio::test]
async fn ambiguous_authority_bypasses() {
    let site = Site::counting();
    site.get("/").await;
    for request in [
        get("/", &[("host", "site.example")]),
        get("http://other.example/", &[]),
        Request::get("/").header("host", "site.example, other.example").body(String::new()).unwrap(),
        Request::get("/").header("host", "user@site.example").body(String::new()).unwrap(),
    ] {
        assert_eq!(site.send(request).await.cache_status(), "fwd=bypass; detail=authority");
    }
}

#[tokio::test]
async fn get_with_body_bypasses() {
    let site = Site::counting();
    site.get("/").await;
    for field in [("content-length", "3"), ("transfer-encoding", "chunked"), ("content-length", "x")] {
        let response = site.send(get("/", &[field])).await;
        assert_eq!(
            (response.cache_status(), response.body == "1"),
            ("fwd=bypass; detail=request-body", false)
        );
    }
    assert_eq!(site.send(get("/", &[("content-length", "0")])).await.body, "1");
}

#[tokio::test]
async fn method_override_bypasses() {
    let site = Site::counting();
    site.get("/").await;
    for name in ["x-http-method-override", "X-HTTP-Method", "x-method-override"] {
        let response = site.send(get("/", &[(name, "POST")])).await;
        assert_eq!(response.cache_status(), "fwd=bypass; detail=method-override", "{name}");
    }
}

#[tokio::test]
async fn other_methods_bypass() {
    let site = Site::counting();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY", "TRACE"] {
        let before = site.calls();
        assert_eq!(site.send(request(method, "/", &[])).await.cache_status(), "fwd=method", "{method}");
        assert_eq!(site.calls(), before + 1);
    }
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn upgrade_and_preconditions_bypass() {
    let site = Site::counting();
    site.get("/").await;
    for (name, detail) in
        [("upgrade", "upgrade"), ("if-match", "precondition"), ("if-unmodified-since", "precondition")]
    {
        let response = site.send(get("/", &[(name, "x")])).await;
        assert_eq!(response.cache_status(), format!("fwd=bypass; detail={detail}"));
    }
}

#[tokio::test]
async fn target_above_max_key_bypasses() {
    let site = Site::counting();
    let response = site.get(&format!("/{}", "a".repeat(17_000))).await;
    assert_eq!(response.cache_status(), "fwd=bypass; detail=target-too-long");
}
