//! A response that varies is given only to requests that select it.

use larder_http::Cached;

use crate::support::*;

/// Answers with the language it was asked for and the number of the call.
fn speaking(vary: &'static str) -> Site {
    Site::new(move |request, call| async move {
        let language = request.headers().get("accept-language").map_or("none", |v| v.to_str().unwrap());
        field(cached(format!("{language} {call}")), "vary", vary)
    })
}

fn in_language(language: &str) -> http::Request<String> {
    get("/", &[("accept-language", language)])
}

#[tokio::test]
async fn each_variant_is_its_own() {
    let site = speaking("Accept-Language");
    assert_eq!(site.send(in_language("de")).await.says(), "fwd=uri-miss; stored");
    let other = site.send(in_language("fr")).await;
    assert_eq!((other.says(), &other.body[..]), ("fwd=vary-miss; stored", &b"fr 2"[..]));
    assert_eq!(site.get("/").await.body, "none 3");
    assert_eq!(site.send(in_language("de")).await.body, "de 1");
    assert_eq!(site.send(in_language("fr")).await.body, "fr 2");
    assert_eq!(site.get("/").await.body, "none 3");
    assert_eq!(site.calls(), 3);
}

#[tokio::test]
async fn a_star_anywhere_is_not_stored() {
    for vary in ["*", "accept-language, *"] {
        let site = speaking(vary);
        assert_eq!(site.get("/").await.says(), "fwd=uri-miss; detail=vary-any");
        assert_eq!(site.cache.stats().entries, 0);
    }
}

#[tokio::test]
async fn sixteen_variants_are_kept_and_the_oldest_makes_room() {
    let site = speaking("accept-language");
    for n in 0..17 {
        site.send(in_language(&format!("l{n}"))).await;
    }
    assert_eq!(site.cache.stats().entries, 17, "sixteen variants and their record");
    assert_eq!(site.send(in_language("l16")).await.says(), "hit; ttl=60");
    assert_eq!(site.send(in_language("l1")).await.says(), "hit; ttl=60");
    assert_eq!(site.send(in_language("l0")).await.says(), "fwd=vary-miss; stored");
}

#[tokio::test]
async fn when_the_fields_change_old_variants_are_not_found() {
    let site = Site::new(|request, call| async move {
        let reply = cached(call.to_string());
        match request.headers().get("x-other") {
            Some(_) => field(reply, "vary", "x-other"),
            None => field(reply, "vary", "accept-language"),
        }
    });
    site.send(in_language("de")).await;
    let changed = get("/", &[("accept-language", "fr"), ("x-other", "1")]);
    assert_eq!(site.send(changed).await.says(), "fwd=vary-miss; stored");
    assert_eq!(site.send(in_language("de")).await.body, "3", "selected by x-other now, of which it has none");
    assert_eq!(site.send(get("/", &[("x-other", "1")])).await.body, "4");
}

#[tokio::test]
async fn when_a_response_no_longer_varies_it_is_for_all() {
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
async fn the_record_lives_as_long_as_its_youngest_variant() {
    let site = Site::new(|request, call| async move {
        let ttl = if request.headers().contains_key("accept-language") { SECOND } else { MINUTE };
        field(with(plain(call.to_string()), Cached::ttl(ttl)), "vary", "accept-language")
    });
    site.send(in_language("de")).await;
    site.get("/").await;
    site.clock.advance(SECOND * 30);
    assert_eq!(site.get("/").await.body, "2");
    assert_eq!(site.send(in_language("de")).await.body, "3");
}

#[tokio::test]
async fn too_many_fields_are_not_stored() {
    let names: Vec<_> = (0..17).map(|n| format!("x-{n}")).collect();
    let vary: &'static str = names.join(", ").leak();
    assert_eq!(speaking(vary).get("/").await.says(), "fwd=uri-miss; detail=vary-too-wide");
}
