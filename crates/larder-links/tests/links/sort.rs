//! The list by visits: most visits first, page by page, also while visits are counted.

use crate::support::{Fixture, open};
use http::{Method, StatusCode};
use larder_links::store::{TotalsOf, VisitKey};
use serde_json::{Value, json};
use std::collections::HashSet;

/// One of the links `a`, `b`, …, with this many visits more.
async fn visit(fixture: &Fixture, slug: &str, visits: u64) {
    let link_id = fixture.links.store().find(slug).await.unwrap().unwrap().id;
    let written = fixture
        .links
        .store()
        .add_visits(vec![(VisitKey { link_id, quarter: 1 }, visits)], TotalsOf::None)
        .await;
    assert_eq!(written.unwrap().visits, visits);
}

/// Links with these visits, oldest first.
pub(crate) async fn create(fixture: &Fixture, links: &[(&str, u64)]) {
    for (slug, visits) in links {
        fixture.link(Some(slug), &format!("https://{slug}.example/")).await;
        visit(fixture, slug, *visits).await;
    }
}

fn slugs(page: &Value) -> Vec<&str> {
    let links = page["links"].as_array().unwrap_or_else(|| panic!("{page}"));
    links.iter().map(|link| link["slug"].as_str().unwrap()).collect()
}

/// The slugs of all pages.
async fn list(fixture: &Fixture, query: &str, limit: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/api/links?sort=visits&limit={limit}&after={after}&{query}");
        let page = fixture.get(&path).await.json();
        all.extend(slugs(&page).into_iter().map(str::to_owned));
        match &page["next"] {
            Value::String(next) => after.clone_from(next),
            _ => return all,
        }
    }
}

#[tokio::test]
async fn most_visited_links_come_first_and_the_newer_of_two_equals() {
    let fixture = open();
    create(&fixture, &[("few1", 1), ("many", 900), ("none", 0), ("some", 30), ("few2", 1)]).await;
    for limit in [1, 2, 3, 50] {
        let all = list(&fixture, "", limit).await;
        assert_eq!(all, ["many", "some", "few2", "few1", "none"], "{limit}");
    }
    visit(&fixture, "none", 31).await;
    assert_eq!(list(&fixture, "", 4).await, ["many", "none", "some", "few2", "few1"]);
}

#[tokio::test]
async fn tag_text_and_deleted_links_are_sorted_too() {
    let fixture = open();
    create(&fixture, &[("sale1", 5), ("sale2", 70), ("other", 99), ("sale3", 6), ("gone1", 1), ("gone2", 2)])
        .await;
    for slug in ["sale1", "sale2", "other"] {
        let change = fixture
            .send_json(Method::PATCH, &format!("/api/links/{slug}"), json!({ "tags": ["news"] }))
            .await;
        assert_eq!(change.status, StatusCode::OK, "{}", change.text());
    }
    for slug in ["gone1", "gone2"] {
        fixture.send_json(Method::DELETE, &format!("/api/links/{slug}"), json!({})).await;
    }
    for limit in [1, 2, 50] {
        assert_eq!(list(&fixture, "q=sale", limit).await, ["sale2", "sale3", "sale1"], "{limit}");
        assert_eq!(list(&fixture, "q=sa", limit).await, ["sale2", "sale3", "sale1"], "{limit}");
        assert_eq!(list(&fixture, "tag=news", limit).await, ["other", "sale2", "sale1"], "{limit}");
        assert_eq!(list(&fixture, "tag=news&q=sale", limit).await, ["sale2", "sale1"], "{limit}");
        assert_eq!(list(&fixture, "deleted=true", limit).await, ["gone2", "gone1"], "{limit}");
    }
}

/// A cursor that is a number of links would repeat those that other links overtake.
#[tokio::test]
async fn pages_repeat_no_link_while_visits_are_counted() {
    let fixture = open();
    let names: Vec<String> = (0..40).map(|n| format!("link{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        create(&fixture, &[(name, n as u64 % 7)]).await;
    }
    let (mut seen, mut visited) = (Vec::new(), HashSet::new());
    let mut after = String::new();
    for turn in 0.. {
        let page = fixture.get(&format!("/api/links?sort=visits&limit=3&after={after}")).await.json();
        seen.extend(slugs(&page).into_iter().map(str::to_owned));
        let Value::String(next) = &page["next"] else { break };
        after.clone_from(next);
        // One of those that were seen, and one of any.
        for slug in [&seen[turn], &names[turn * 17 % names.len()]] {
            visit(&fixture, slug, 3).await;
            visited.insert(slug.clone());
        }
    }
    let unique: HashSet<_> = seen.iter().cloned().collect();
    assert_eq!(unique.len(), seen.len(), "{seen:?}");
    let missing: Vec<_> = names.iter().filter(|name| !unique.contains(*name)).collect();
    assert!(missing.iter().all(|name| visited.contains(*name)), "not visited and not listed: {missing:?}");
}

#[tokio::test]
async fn cursor_of_another_order_and_unknown_orders_are_refused() {
    let fixture = open();
    create(&fixture, &[("a", 1), ("b", 2)]).await;
    let next = async |query: &str| {
        let page = fixture.get(&format!("/api/links?limit=1&{query}")).await.json();
        page["next"].as_str().unwrap().to_owned()
    };
    let (newest, by_visits) = (next("sort=newest").await, next("sort=visits").await);
    for (query, field) in [
        (format!("sort=visits&after={newest}"), "after"),
        (format!("after={by_visits}"), "after"),
        (format!("after={by_visits}&sort=newest"), "after"),
        ("sort=visits&after=99999999999999999999-a".into(), "after"),
        ("sort=size".into(), "sort"),
        ("sort=".into(), "sort"),
    ] {
        let answer = fixture.get(&format!("/api/links?{query}")).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
        assert_eq!(answer.json()["error"]["field"], field, "{query}");
    }
    // The order of the parameters does not matter.
    let page = fixture.get(&format!("/api/links?after={by_visits}&sort=visits")).await.json();
    assert_eq!(slugs(&page), ["a"]);
}
