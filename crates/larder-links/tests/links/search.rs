//! A text finds the links that contain it, newest first, page by page.

use crate::support::{Fixture, open};
use http::{Method, StatusCode};
use serde_json::{Value, json};

async fn create(fixture: &Fixture, slug: &str, title: &str, url: &str) {
    let answer = fixture.post("/api/links", json!({ "slug": slug, "title": title, "url": url })).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
}

/// The slugs that a search finds, over all pages.
async fn find(fixture: &Fixture, text: &str, limit: usize) -> Vec<String> {
    let mut slugs = Vec::new();
    let mut after = String::new();
    loop {
        let query: String = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("q", text), ("limit", &limit.to_string()), ("after", &after)])
            .finish();
        let page = fixture.get(&format!("/api/links?{query}")).await.json();
        let links = page["links"].as_array().unwrap_or_else(|| panic!("{page}"));
        assert!(links.len() <= limit);
        slugs.extend(links.iter().map(|link| link["slug"].as_str().unwrap().to_owned()));
        match &page["next"] {
            Value::String(next) => after = next.clone(),
            _ => return slugs,
        }
    }
}

#[tokio::test]
async fn text_of_three_characters_is_found_in_slug_title_and_address() {
    let fixture = open();
    create(&fixture, "Spring-Sale", "Offers", "https://shop.example/a").await;
    create(&fixture, "b", "The SPRING catalogue", "https://shop.example/b").await;
    create(&fixture, "c", "", "https://shop.example/offspring").await;
    create(&fixture, "d", "Ölflecken 100%", "https://shop.example/d").await;
    for limit in [1, 2, 50] {
        assert_eq!(find(&fixture, "spring", limit).await, ["c", "b", "Spring-Sale"], "{limit}");
    }
    assert_eq!(find(&fixture, "ölfl", 50).await, ["d"]);
    assert_eq!(find(&fixture, "00%", 50).await, ["d"]);
    // A match does not extend over two columns.
    assert!(find(&fixture, "SaleOffers", 50).await.is_empty());
}

#[tokio::test]
async fn short_text_is_found_at_the_beginning_of_slug_and_title() {
    let fixture = open();
    create(&fixture, "abc", "", "https://x.example/").await;
    create(&fixture, "x1", "About us", "https://x.example/").await;
    create(&fixture, "x2", "Not about", "https://ab.example/ab").await;
    create(&fixture, "x_3", "100%", "https://x.example/").await;
    assert_eq!(find(&fixture, "ab", 1).await, ["x1", "abc"]);
    assert_eq!(find(&fixture, "x_", 50).await, ["x_3"]);
    assert_eq!(find(&fixture, "1%", 50).await, Vec::<String>::new());
    assert_eq!(find(&fixture, "é", 50).await, Vec::<String>::new());
}

#[tokio::test]
async fn query_language_of_the_index_has_no_meaning() {
    let fixture = open();
    create(&fixture, "a", "say \"hello\" AND wave", "https://x.example/").await;
    for text in ["\"hello\"", "hello\" AND", "AND wave"] {
        assert_eq!(find(&fixture, text, 50).await, ["a"], "{text}");
    }
    for text in
        ["hello OR nothing", "title:hello", "hel*", "NEAR(hello wave)", "^say", "-say", "(say", "' OR 1=1"]
    {
        assert!(find(&fixture, text, 50).await.is_empty(), "{text}");
    }
    let nul = fixture.get("/api/links?q=abc%00def").await;
    assert_eq!(nul.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn index_follows_every_change() {
    let fixture = open();
    create(&fixture, "a", "First title", "https://one.example/").await;
    let change = json!({ "title": "Second", "url": "https://two.example/" });
    fixture.send_json(Method::PATCH, "/api/links/a", change).await;
    assert!(
        find(&fixture, "first", 50).await.is_empty() && find(&fixture, "one.example", 50).await.is_empty()
    );
    assert_eq!(find(&fixture, "second", 50).await, ["a"]);
    assert_eq!(find(&fixture, "two.example", 50).await, ["a"]);
    fixture.send_json(Method::DELETE, "/api/links/a", json!({})).await;
    assert!(find(&fixture, "second", 50).await.is_empty());
    fixture.post("/api/links/a/restore", json!({})).await;
    assert_eq!(find(&fixture, "second", 50).await, ["a"]);
    fixture.send_json(Method::DELETE, "/api/links/a", json!({})).await;
    assert_eq!(fixture.links.store().drop_deleted(i64::MAX).await.unwrap(), ["a"]);
    if fixture.is_sqlite() {
        fixture.execute("INSERT INTO links_text (links_text, rank) VALUES ('integrity-check', 1)");
    }
}

#[tokio::test]
async fn short_text_is_found_in_either_case_of_letters() {
    let fixture = open();
    create(&fixture, "a", "Übung", "https://shop.example/a").await;
    create(&fixture, "b", "ürig", "https://shop.example/b").await;
    create(&fixture, "c", "ЯБЛОКО", "https://shop.example/c").await;
    create(&fixture, "d", "%_\\", "https://shop.example/d").await;
    for (slug, title) in [("e", "*"), ("f", "[?]"), ("g", "]^"), ("h", "^-z")] {
        create(&fixture, slug, title, "https://shop.example/").await;
    }
    for (text, found) in [
        ("ü", vec!["b", "a"]),
        ("Ü", vec!["b", "a"]),
        ("üB", vec!["a"]),
        ("яб", vec!["c"]),
        ("%_", vec!["d"]),
        ("%", vec!["d"]),
        ("_", vec![]),
        ("*", vec!["e"]),
        ("[?", vec!["f"]),
        ("]^", vec!["g"]),
        ("^-", vec!["h"]),
        ("D", vec!["d"]),
    ] {
        assert_eq!(find(&fixture, text, 50).await, found, "{text}");
    }
}
