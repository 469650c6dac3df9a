//! A variant is served only to requests that select it.

use larder_http::Cached;

use crate::support::*;

/// A site whose body is the requested language and the number of the call.
fn language_site(vary: &'static str) -> Site {
    Site::new(move |request, call| async move {
        let language = request.headers().get("accept-language").map_or("none", |v| v.to_str().unwrap());
        field(cached(format!("{language} {call}")), "vary", vary)
    })
}

fn in_language(language: &str) -> http::Request<String> {
    get("/", &[("accept-language", language)])
}

#[tokio::test]
async fn variants_are_stored_separately() {
    let site = language_site("Accept-Language");
    assert_eq!(site.send(in_language("de")).await.cache_status(), "fwd=uri-miss; stored");
    let other = site.send(in_language("fr")).await;
    assert_eq!((other.cache_status(), &other.body[..]), ("fwd=vary-miss; stored", &b"fr 2"[..]));
    assert_eq!(site.get("/").await.body, "none 3");
    assert_eq!(site.send(in_language("de")).await.body, "de 1");
    assert_eq!(site.send(in_language("fr")).await.body, "fr 2");
    assert_eq!(site.get("/").await.body, "none 3");
    assert_eq!(site.calls(), 3);
}

#[tokio::test]
async fn vary_star_is_not_stored() {
    for vary in ["*", "accept-language, *"] {
        let site = language_site(vary);
        assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=vary-any");
        assert_eq!(site.cache.stats().entries, 0);
    }
}

#[tokio::test]
async fn seventeenth_variant_evicts_oldest() {
    let site = language_site("accept-language");
    for n in 0..17 {
        site.send(in_language(&format!("l{n}"))).await;
    }
    assert_eq!(site.cache.stats().entries, 17, "sixteen variants and their record");
    assert_eq!(site.send(in_language("l16")).await.cache_status(), "hit; ttl=60");
    assert_eq!(site.send(in_language("l1")).await.cache_status(), "hit; ttl=60");
    assert_eq!(site.send(in_language("l0")).await.cache_status(), "fwd=vary-miss; stored");
}

#[tokio::test]
async fn changed_vary_hides_old_variants() {
    let site = Site::new(|request, call| async move {
        let reply = cached(call.to_string());
        match request.headers().get("x-other") {
            Some(_) => field(reply, "vary", "x-other"),
            None => field(reply, "vary", "accept-language"),
        }
    });
    site.send(in_language("de")).await;
    let changed = get("/", &[("accept-language", "fr"), ("x-other", "1")]);
    assert_eq!(site.send(changed).await.cache_status(), "fwd=vary-miss; stored");
    assert_eq!(
        site.send(in_language("de")).await.body,
        "3",
        "x-other selects the variant now, and this request has none"
    );
    assert_eq!(site.send(get("/", &[("x-other", "1")])).await.body, "4");
}

#[tokio::test]
async fn response_without_vary_replaces_variants() {
    let site = Site::new(|_, call| async move {
        match call {
            1 => field(cached("1"), "vary", "accept-language"),
            _ => cached(call.to_string()),
        }
    });
    site.send(in_language("de")).await;
    site.send(in_language("fr")).await;
    assert_eq!(site.send(in_language("de")).await.body, "2");
    assert_eq!(site.get("/").await.body, "2");
}

#[tokio::test]
async fn vary_record_outlives_newest_variant() {
    let site = Site::new(|request, call| async move {
        let ttl = if request.headers().contains_key("accept-language") { SECOND } else { MINUTE };
        field(with_cached(plain(call.to_string()), Cached::ttl(ttl)), "vary", "accept-language")
    });
    site.send(in_language("de")).await;
    site.get("/").await;
    site.clock.advance(SECOND * 30);
    assert_eq!(site.get("/").await.body, "2");
    assert_eq!(site.send(in_language("de")).await.body, "3");
}

#[tokio::test]
async fn vary_with_too_many_fields_is_not_stored() {
    let names: Vec<_> = (0..17).map(|n| format!("x-{n}")).collect();
    let vary: &'static str = names.join(", ").leak();
    assert_eq!(language_site(vary).get("/").await.cache_status(), "fwd=uri-miss; detail=vary-too-wide");
}

/// A site whose body is the value of the field that it varies by: what an attacker can choose must not reach others.
fn reflecting_site(name: &'static str) -> Site {
    Site::new(move |request, _| async move {
        let lines: Vec<_> = request.headers().get_all(name).iter().map(|line| line.as_bytes()).collect();
        field(cached(lines.join(&b'|')), "vary", name)
    })
}

/// Sends the first request, then the second one, which must get its own variant.
async fn assert_separate(name: &'static str, first: &[&str], second: &[&str]) {
    let site = reflecting_site(name);
    let request = |lines: &[&str]| {
        let fields: Vec<_> = lines.iter().map(|line| (name, *line)).collect();
        get("/", &fields)
    };
    site.send(request(first)).await;
    let response = site.send(request(second)).await;
    assert_eq!(response.body, second.join("|"), "{first:?} {second:?}");
    assert_eq!(response.cache_status(), "fwd=vary-miss; stored", "{first:?} {second:?}");
}

#[tokio::test]
async fn origin_with_trailing_comma_is_another_variant() {
    assert_separate("origin", &["https://good.test,"], &["https://good.test"]).await;
}

#[tokio::test]
async fn empty_line_before_a_value_is_another_variant() {
    for name in ["origin", "x-tenant", "accept-language"] {
        assert_separate(name, &["", "de"], &["de"]).await;
        assert_separate(name, &["de"], &["de", ""]).await;
    }
}

#[tokio::test]
async fn space_after_a_comma_in_user_agent_is_another_variant() {
    assert_separate("user-agent", &["(KHTML,like Gecko)"], &["(KHTML, like Gecko)"]).await;
}

#[tokio::test]
async fn two_lines_are_another_variant_than_one_joined_line() {
    for name in ["x-tenant", "accept-language"] {
        assert_separate(name, &["a", "b"], &["a, b"]).await;
    }
}

#[tokio::test]
async fn equivalent_lists_share_a_variant() {
    let site = reflecting_site("accept-encoding");
    site.send(get("/", &[("accept-encoding", "GZIP , br")])).await;
    let response = site.send(get("/", &[("accept-encoding", "gzip,br")])).await;
    assert_eq!((response.cache_status(), site.calls()), ("hit; ttl=60", 1));
}
