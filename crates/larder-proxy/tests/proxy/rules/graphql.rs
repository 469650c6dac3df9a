//! A GraphQL endpoint over POST.

use super::*;
use http_body_util::BodyExt;
use larder_proxy::RuleBody;

/// An endpoint that responds with the request's body, as data.
async fn endpoint() -> HttpOrigin {
    HttpOrigin::start(|request: Request<Incoming>| async move {
        let host = field(&request, "host");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let text = format!("{{\"data\":{{\"host\":\"{host}\",\"bytes\":{}}}}}", body.len());
        reply(200, text, &[("content-type", "application/json"), ("cache-control", "max-age=60")])
    })
    .await
}

fn post(host: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn queries_are_answered_from_the_cache_and_others_are_not() {
    let origin = endpoint().await;
    let rule =
        RuleConfig { host: Some("site.example".into()), body: Some(RuleBody::Graphql), ..rule("/graphql") };
    let proxy = start(with_rules(origin.address, [rule])).await;
    let query = |host, path| proxy.exchange(post(host, path, "{\"query\":\"{ shop { name } }\"}"));
    assert_eq!(cache_status(&query("site.example", "/graphql").await), "larder; fwd=uri-miss; stored");
    assert_hit(&query("site.example", "/graphql").await);
    // White space and commas do not count.
    assert_hit(&proxy.exchange(post("site.example", "/graphql", "{\"query\":\"{shop{ name, }}\"}")).await);
    assert_eq!(origin.requests(), 1);
    for (host, path) in
        [("other.example", "/graphql"), ("site.example", "/graphql/x"), ("site.example", "/other")]
    {
        for _ in 0..2 {
            assert_eq!(cache_status(&query(host, path).await), "larder; fwd=method", "{host}{path}");
        }
    }
    let mutation = proxy.exchange(post("site.example", "/graphql", "{\"query\":\"mutation { buy }\"}")).await;
    assert_eq!(cache_status(&mutation), "larder; fwd=bypass; detail=graphql-mutation");
    assert!(mutation.ends_with("\"bytes\":28}}"), "{mutation}");
    assert_hit(&query("site.example", "/graphql").await);
}

#[tokio::test]
async fn long_query_is_forwarded_whole() {
    let origin = endpoint().await;
    let rule = RuleConfig { body: Some(RuleBody::Graphql), ..rule("/graphql") };
    let proxy = start(with_rules(origin.address, [rule])).await;
    let long = format!("{{\"query\":\"{{ a }} #{}\"}}", "x".repeat(100_000));
    let response = proxy.exchange(post("site.example", "/graphql", &long)).await;
    assert_eq!(cache_status(&response), "larder; fwd=bypass; detail=request-body-too-large");
    assert!(response.ends_with(&format!("\"bytes\":{}}}}}", long.len())), "{response}");
}
