//! It is counted where visits come from, unless they refuse, and nothing of a visitor is stored.

use crate::support::{Answer, Fixture, open, open_with, peer, request};
use axum::body::Body;
use http::{Method, StatusCode};
use larder_links::VisitDetails;
use larder_links::store::{Dimension, DimensionKey, MAX_DIMENSION_VALUES, today};
use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;
use serde_json::{Value, json};

const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";
const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1";
const BOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

async fn visit(fixture: &Fixture, fields: &[(&str, &str)]) {
    let answer = fixture.ask(Method::GET, "/a", fields, None).await;
    assert_eq!(answer.status, StatusCode::FOUND);
}

pub(crate) async fn visit_from(fixture: &Fixture, ip: &str, fields: &[(&str, &str)]) -> Answer {
    let builder = request(Method::GET, "/a").header("user-agent", CHROME);
    let builder = fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    let mut request = builder.body(Body::empty()).unwrap();
    request.extensions_mut().insert(peer(ip));
    fixture.send(request).await
}

/// The counts after a write.
async fn counts(fixture: &Fixture) -> Value {
    fixture.links.flush_visits().await.unwrap();
    let id = fixture.links.store().find("a").await.unwrap().unwrap().id;
    serde_json::to_value(fixture.links.store().dimensions(id, 0).await.unwrap()).unwrap()
}

#[tokio::test]
async fn people_are_counted_by_each_dimension_and_bots_by_name() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    let news = ("referer", "https://news.example/article?user=7");
    visit(&fixture, &[("user-agent", CHROME), news]).await;
    visit(&fixture, &[("user-agent", CHROME)]).await;
    visit(&fixture, &[("user-agent", PHONE), news]).await;
    visit(&fixture, &[("user-agent", BOT), news]).await;
    visit(&fixture, &[]).await;
    fixture.ask(Method::HEAD, "/a", &[("user-agent", CHROME)], None).await;
    fixture.links.flush_visits().await.unwrap();
    let shown = fixture.get("/api/links/a").await.json();
    assert_eq!(shown["visits"], 4, "a bot is no visit");
    let value = |value: &str, visits: u64| json!({ "value": value, "visits": visits });
    let expected = json!({
        "referrers": [value("news.example", 2), value("direct", 1)],
        "browsers": [value("Chrome", 2), value("Safari", 1)],
        "systems": [value("Windows", 2), value("iOS", 1)],
        "devices": [value("desktop", 2), value("phone", 1)],
        "countries": [],
        "bots": [value("Googlebot", 1), value("other", 1)],
    });
    assert_eq!(shown["dimensions"], expected);
    let document = "{ link(slug: \"a\") { dimensions { browsers { value visits } } } }";
    let reply = fixture.post("/api/graphql", json!({ "query": document })).await.json();
    assert_eq!(reply["data"]["link"]["dimensions"]["browsers"], expected["browsers"]);
}

#[tokio::test]
async fn refused_and_switched_off_details_are_not_counted() {
    let no =
        ["referrers", "browsers", "systems", "devices", "countries", "bots"].map(|name| (name, json!([])));
    let nothing = Value::Object(no.map(|(name, list)| (name.to_owned(), list)).into_iter().collect());
    for (details, counted) in
        [(VisitDetails::UnlessRefused, 1), (VisitDetails::All, 3), (VisitDetails::None, 0)]
    {
        let fixture = open_with(|config| config.visit_details = details);
        fixture.link(Some("a"), "https://a.example/").await;
        for refusal in [("dnt", "1"), ("sec-gpc", "1"), ("dnt", "0")] {
            visit(&fixture, &[("user-agent", CHROME), refusal]).await;
        }
        let counts = counts(&fixture).await;
        match counted {
            0 => assert_eq!(counts, nothing),
            _ => assert_eq!(
                counts["browsers"],
                json!([{ "value": "Chrome", "visits": counted }]),
                "{details:?}"
            ),
        }
        assert_eq!(fixture.written_visits("a").await, 3, "the visits themselves count");
    }
}

#[tokio::test]
async fn countries_are_those_of_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("countries.mmdb");
    let mut database = Database::default();
    database.metadata.ip_version = IpVersion::V6;
    database.metadata.binary_format_major_version = 2;
    // An IPv4 address is one of IPv6 whose first 96 bits are zero.
    for (network, bits, code) in
        [("::203.0.113.0", 120, "NP"), ("2001:db8::", 32, "DE"), ("::198.51.100.0", 120, "<b>")]
    {
        let country = database.insert_value(json!({ "country": { "iso_code": code } })).unwrap();
        database.insert_node(IpAddrWithMask::new(network.parse().unwrap(), bits), country);
    }
    std::fs::write(&path, database.write_to(Vec::new()).unwrap()).unwrap();
    let fixture = open_with(|config| {
        config.country_database = Some(path);
        config.trusted_proxies = vec!["10.0.0.0/8".into()];
    });
    fixture.link_with_token("a", "https://a.example/").await;
    visit_from(&fixture, "203.0.113.7", &[]).await;
    visit_from(&fixture, "10.0.0.1", &[("x-forwarded-for", "203.0.113.9")]).await;
    // A client cannot choose its country.
    visit_from(&fixture, "192.0.2.1", &[("x-forwarded-for", "203.0.113.9")]).await;
    visit_from(&fixture, "2001:db8:1:2:3:4:5:6", &[]).await;
    visit_from(&fixture, "198.51.100.1", &[]).await;
    let counts = counts(&fixture).await;
    let country = |value: &str, visits: u64| json!({ "value": value, "visits": visits });
    assert_eq!(counts["countries"], json!([country("NP", 2), country("unknown", 2), country("DE", 1)]));
}

#[tokio::test]
async fn unreadable_database_of_countries_is_an_error_that_names_it() {
    let fixture = open();
    let mut config = fixture.config.clone();
    config.country_database = Some(fixture.folder.path().join("links.db"));
    let error = larder_links::Links::open(config.clone(), larder_links::Deps::open(&config).unwrap()).err();
    let error = error.unwrap().to_string();
    assert!(error.contains("country_database") && error.contains("links.db"), "{error}");
}

#[tokio::test]
async fn values_of_a_day_are_limited_and_the_rest_is_other() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    for n in 0..MAX_DIMENSION_VALUES + 50 {
        let referrer = format!("https://site-{n}.example/");
        visit(&fixture, &[("user-agent", CHROME), ("referer", &referrer)]).await;
    }
    fixture.links.flush_visits().await.unwrap();
    // Another write finds the same limit.
    visit(&fixture, &[("user-agent", CHROME), ("referer", "https://late.example/")]).await;
    fixture.links.flush_visits().await.unwrap();
    let rows = rows(&fixture, "SELECT count(*), sum(count) FROM visit_dimensions WHERE dimension = 0");
    assert_eq!(rows, (MAX_DIMENSION_VALUES as i64, MAX_DIMENSION_VALUES as i64 + 51));
    let other = rows_of_other(&fixture);
    assert_eq!(other, (1, 52));
    let shown = counts(&fixture).await;
    let list = shown["referrers"].as_array().unwrap();
    assert_eq!(list.len(), 11, "the ten most frequent ones, and the others");
}

fn rows_of_other(fixture: &Fixture) -> (i64, i64) {
    rows(fixture, "SELECT count(*), sum(count) FROM visit_dimensions WHERE dimension = 0 AND value = 'other'")
}

fn rows(fixture: &Fixture, sql: &str) -> (i64, i64) {
    let rows = fixture.execute(sql);
    let numbers: Vec<i64> = rows.split('|').map(|number| number.parse().unwrap_or(0)).collect();
    (numbers[0], numbers[1])
}

#[tokio::test]
async fn full_table_counts_visits_without_their_details() {
    let fixture = open_with(|config| config.visit_queue = 2);
    fixture.link(Some("a"), "https://a.example/").await;
    for n in 0..5 {
        visit(&fixture, &[("user-agent", CHROME), ("referer", &format!("https://site-{n}.example/"))]).await;
    }
    fixture.links.flush_visits().await.unwrap();
    assert_eq!(fixture.written_visits("a").await, 5);
    // Two visits fit the table, and two of their values the queue of rows.
    assert_eq!(rows(&fixture, "SELECT count(*), 0 FROM visit_dimensions").0, 2);
}

#[tokio::test]
async fn counts_are_kept_for_as_long_as_they_are_shown() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    let id = fixture.links.store().find("a").await.unwrap().unwrap().id;
    let key = |day| DimensionKey { link_id: id, day, dimension: Dimension::Device, value: "phone".into() };
    let written = vec![(key(today() - 32), 1), (key(today() - 31), 1)];
    fixture.links.store().add_dimensions(written).await.unwrap();
    fixture.links.fold_visits().await.unwrap();
    assert_eq!(rows(&fixture, "SELECT count(*), 0 FROM visit_dimensions").0, 1);
}

#[tokio::test]
async fn forgotten_and_old_counts_are_gone() {
    let fixture = open_with(|config| config.visit_retention_days = 1);
    fixture.link(Some("a"), "https://a.example/").await;
    let id = fixture.links.store().find("a").await.unwrap().unwrap().id;
    let key = |day| DimensionKey { link_id: id, day, dimension: Dimension::Device, value: "phone".into() };
    let written = vec![(key(today() - 2), 1), (key(today()), 2)];
    fixture.links.store().add_dimensions(written).await.unwrap();
    fixture.links.fold_visits().await.unwrap();
    assert_eq!(counts(&fixture).await["devices"], json!([{ "value": "phone", "visits": 2 }]));
    // One in memory, one in the database.
    visit(&fixture, &[("user-agent", CHROME)]).await;
    let forgotten = fixture.send_json(Method::DELETE, "/api/links/a/visits", json!({})).await;
    assert_eq!(forgotten.status, StatusCode::NO_CONTENT);
    assert_eq!(counts(&fixture).await["devices"], json!([]));
    // Nothing is written for a link that is gone.
    let gone = DimensionKey { link_id: id + 1, ..key(today()) };
    fixture.links.store().add_dimensions(vec![(gone, 1)]).await.unwrap();
    assert_eq!(rows(&fixture, "SELECT count(*), 0 FROM visit_dimensions").0, 0);
}
