//! What else is in the key, and what is not: request fields, and parameters of the query.

use super::*;

#[tokio::test]
async fn requests_that_differ_in_a_field_of_the_rule_have_responses_of_their_own() {
    let origin = HttpOrigin::start(|request: Request<Incoming>| async move {
        reply(200, field(&request, "x-tenant"), &[("cache-control", "max-age=60"), ("vary", "accept")])
    })
    .await;
    let rule = RuleConfig { vary: vec!["X-Tenant".into()], ..rule("/") };
    let proxy = start(with_rules(origin.address, [rule])).await;
    for _ in 0..2 {
        for tenant in ["a", "b"] {
            let response = proxy.exchange(get_with("/", &format!("X-Tenant: {tenant}\r\n"))).await;
            assert_eq!(body(&response), tenant);
            assert_eq!(values(&response, "vary"), ["accept", "x-tenant"]);
        }
    }
    assert_eq!(origin.requests(), 2);
}

#[tokio::test]
async fn ignored_parameters_do_not_count_once_the_path_is_known() {
    let origin = HttpOrigin::start(|request: Request<Incoming>| async move {
        reply(200, request.uri().query().unwrap_or_default(), &[("cache-control", "max-age=60")])
    })
    .await;
    let rule = RuleConfig { ignore_query: vec!["utm_source".into(), "a&b".into()], ..rule("/") };
    let proxy = start(with_rules(origin.address, [rule])).await;
    // The first response tells that they do not.
    let first = proxy.get("/?id=1").await;
    assert_eq!(values(&first, "no-vary-search"), ["params=(\"utm_source\" \"a%26b\")"]);
    proxy.get("/?id=1").await;
    for query in ["utm_source=x&id=1", "id=1&a%26b=2", "id=1"] {
        let response = proxy.get(&format!("/?{query}")).await;
        assert_hit(&response);
        assert_eq!(body(&response), "id=1");
    }
    assert_eq!(body(&proxy.get("/?id=2").await), "id=2");
}

#[tokio::test]
async fn own_no_vary_search_of_the_origin_stays() {
    let origin = HttpOrigin::start(|_| async {
        reply(200, "page", &[("cache-control", "max-age=60"), ("no-vary-search", "params=(\"own\")")])
    })
    .await;
    let rule = RuleConfig { ignore_query: vec!["utm_source".into()], ..rule("/") };
    let proxy = start(with_rules(origin.address, [rule])).await;
    for _ in 0..2 {
        assert_eq!(values(&proxy.get("/").await, "no-vary-search"), ["params=(\"own\")"]);
    }
    assert_hit(&proxy.get("/?own=1").await);
    assert_eq!(cache_status(&proxy.get("/?utm_source=1").await), "larder; fwd=uri-miss; stored");
}
