//! Visits are shown by day in the zone of the reader, kept as long as the options say, and forgotten on request.

use crate::support::{Fixture, open, open_with};
use http::{Method, StatusCode};
use larder_links::store::{MS_PER_QUARTER, QUARTERS_PER_DAY, TotalsOf, VisitHistory, VisitKey, today};
use serde_json::{Value, json};

async fn id_of(fixture: &Fixture, slug: &str) -> u64 {
    fixture.links.store().find(slug).await.unwrap().unwrap().id
}

/// Writes visits in a quarter hour.
async fn add(fixture: &Fixture, link_id: u64, quarter: i64, visits: u64) {
    let written = fixture
        .links
        .store()
        .add_visits(vec![(VisitKey { link_id, quarter }, visits)], TotalsOf::None)
        .await
        .unwrap();
    assert_eq!(written.visits, visits);
}

async fn days(fixture: &Fixture, tz: &str) -> Value {
    fixture.get(&format!("/api/links/a?tz={tz}")).await.json()["days"].clone()
}

#[tokio::test]
async fn days_are_those_of_the_requested_zone() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    let id = id_of(&fixture, "a").await;
    // 18:00 and 18:15 in UTC: 23:45 in Kathmandu, and midnight.
    let evening = (today() - 2) * QUARTERS_PER_DAY + 18 * 4;
    add(&fixture, id, evening, 1).await;
    add(&fixture, id, evening + 1, 2).await;
    let date = |day: i64| {
        let day = jiff::Timestamp::from_millisecond(day * QUARTERS_PER_DAY * MS_PER_QUARTER).unwrap();
        day.to_string()[..10].to_owned()
    };
    let (first, second) = (date(today() - 2), date(today() - 1));
    assert_eq!(days(&fixture, "UTC").await, json!([{ "date": first, "visits": 3 }]));
    let split = json!([{ "date": first, "visits": 1 }, { "date": second, "visits": 2 }]);
    assert_eq!(days(&fixture, "Asia/Kathmandu").await, split);
    let document =
        json!({ "query": "{ link(slug: \"a\", tz: \"Asia/Kathmandu\") { days { date visits } } }" });
    assert_eq!(fixture.post("/api/graphql", document).await.json()["data"]["link"]["days"], split);

    for wrong in ["Berlin", "%2B01:00", "../etc/passwd"] {
        let answer = fixture.get(&format!("/api/links/a?tz={wrong}")).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
        assert_eq!(answer.json()["error"]["field"], "tz");
    }
}

#[tokio::test]
async fn old_visits_are_summed_by_day_and_dropped_after_the_retention() {
    let fixture = open_with(|config| config.visit_retention_days = 100);
    fixture.link(Some("a"), "https://a.example/").await;
    let id = id_of(&fixture, "a").await;
    let quarter_of = |days_ago: i64, quarter: i64| (today() - days_ago) * QUARTERS_PER_DAY + quarter;
    for (days_ago, quarter, visits) in
        [(101, 95, 1), (100, 0, 2), (91, 0, 4), (91, 95, 8), (90, 0, 16), (0, 0, 32)]
    {
        add(&fixture, id, quarter_of(days_ago, quarter), visits).await;
    }
    // Twice: what is summed already stays.
    for _ in 0..2 {
        fixture.links.fold_visits().await.unwrap();
        let history = fixture.links.store().history(id, 0).await.unwrap();
        let expected = VisitHistory {
            quarters: vec![(quarter_of(90, 0), 16), (quarter_of(0, 0), 32)],
            days: vec![(today() - 100, 2), (today() - 91, 12)],
        };
        assert_eq!(history, expected);
    }
    assert_eq!(fixture.written_visits("a").await, 63, "the total stays");
}

#[tokio::test]
async fn many_old_rows_are_summed_in_steps() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    let id = id_of(&fixture, "a").await;
    let first = (today() - 120) * QUARTERS_PER_DAY;
    let rows: Vec<_> = (0..1_900).map(|n| (VisitKey { link_id: id, quarter: first + n }, 1)).collect();
    fixture.links.store().add_visits(rows, TotalsOf::None).await.unwrap();
    fixture.links.fold_visits().await.unwrap();
    let history = fixture.links.store().history(id, 0).await.unwrap();
    assert_eq!((history.quarters.len(), history.days.len()), (0, 20));
    assert_eq!(history.days.iter().map(|(_, visits)| visits).sum::<u64>(), 1_900);
}

#[tokio::test]
async fn forgotten_visits_are_nowhere_and_others_stay() {
    let fixture = open();
    for slug in ["a", "b"] {
        fixture
            .post("/api/links", json!({ "url": "https://a.example/", "slug": slug, "max_visits": 3 }))
            .await;
        for _ in 0..2 {
            assert_eq!(fixture.get(&format!("/{slug}")).await.status, StatusCode::FOUND);
            fixture.links.flush_visits().await.unwrap();
        }
        // The last one is in memory only.
        assert_eq!(fixture.get(&format!("/{slug}")).await.status, StatusCode::FOUND);
        assert_eq!(fixture.get(&format!("/{slug}")).await.status, StatusCode::GONE);
    }
    let forget = async |path: &str| fixture.send_json(Method::DELETE, path, json!({})).await.status;
    assert_eq!(forget("/api/links/a/visits").await, StatusCode::NO_CONTENT);
    assert_eq!(forget("/api/links/none/visits").await, StatusCode::NOT_FOUND);
    fixture.links.flush_visits().await.unwrap();
    assert_eq!(fixture.links.stats().visits.queued, 0);
    let link = fixture.get("/api/links/a").await.json();
    assert_eq!((&link["visits"], &link["days"]), (&json!(0), &json!([])));
    assert_eq!(fixture.written_visits("b").await, 3);
    // A limit of visits counts anew.
    assert_eq!(fixture.get("/a").await.status, StatusCode::FOUND);
    assert_eq!(fixture.get("/b").await.status, StatusCode::GONE);
}
