//! All links leave as CSV and JSON, and come back with an import.

use crate::support::{Fixture, open, open_with};
use http::{Method, StatusCode};
use larder_links::import::{Destination, SourceFormat, import};
use serde_json::{Value, json};
use std::io::Cursor;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Links with every option, and texts that are difficult in CSV.
async fn fill(fixture: &Fixture) {
    for link in [
        json!({ "url": "https://a.example/?q=1,2", "slug": "a", "title": "Comma, \"quotes\"", "tags": ["x", "y z"] }),
        json!({ "url": "https://b.example/", "slug": "-b", "title": "=HYPERLINK(\"http://evil\")", "forward_query": true }),
        json!({ "url": "https://c.example/", "title": "two\nlines", "expires_at": "2100-01-01T00:00:00.25Z", "max_visits": 7 }),
        json!({ "url": "https://d.example/", "slug": "d", "title": "'=1", "tags": ["@tag"] }),
        json!({ "url": "https://e.example/", "slug": "deleted" }),
    ] {
        let answer = fixture.post("/api/links", link).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
    }
    fixture.send_json(Method::DELETE, "/api/links/deleted", json!({})).await;
    // An edited link is found again by its slug.
    fixture.send_json(Method::PATCH, "/api/links/a", json!({ "url": "https://a.example/edited" })).await;
    fixture.get("/a").await;
    fixture.links.flush_visits().await.unwrap();
}

/// The export as JSON, without what the database sets.
async fn links_of(fixture: &Fixture) -> Value {
    let mut links = fixture.get("/api/export?format=json").await.json();
    for link in links.as_array_mut().unwrap() {
        let link = link.as_object_mut().unwrap();
        assert!(link.remove("created_at").is_some() && link.remove("visits").is_some());
    }
    links
}

#[tokio::test]
async fn export_is_imported_into_a_database_once() {
    let source = open();
    fill(&source).await;
    for format in ["csv", "json"] {
        let export = source.get(&format!("/api/export?format={format}")).await;
        assert_eq!(export.status, StatusCode::OK);
        assert_eq!(export.header("content-disposition"), format!("attachment; filename=\"links.{format}\""));
        let target = open();
        let destination = target.destination();
        let report =
            import(Cursor::new(export.body.clone()), SourceFormat::Larder, destination.clone(), |_| {})
                .await
                .unwrap();
        assert_eq!((report.progress.created, &report.invalid[..]), (4, &[][..]), "{format}");
        assert_eq!(links_of(&target).await, links_of(&source).await, "{format}");
        let again =
            import(Cursor::new(export.body), SourceFormat::Larder, destination, |_| {}).await.unwrap();
        assert_eq!((again.progress.created, again.progress.existing), (0, 4), "{format}");
        // Into its own source, too.
        let own = source.destination();
        let export = source.get(&format!("/api/export?format={format}")).await;
        let same = import(Cursor::new(export.body), SourceFormat::Larder, own, |_| {}).await.unwrap();
        assert_eq!((same.progress.existing, same.progress.invalid), (4, 0), "{format}");
    }
}

#[tokio::test]
async fn export_with_a_byte_order_mark_is_imported() {
    let source = open();
    fill(&source).await;
    for format in ["csv", "json"] {
        let export = source.get(&format!("/api/export?format={format}")).await;
        let file = [b"\xef\xbb\xbf", &export.body[..]].concat();
        let target = open();
        let destination = target.destination();
        let report = import(Cursor::new(file), SourceFormat::Larder, destination, |_| {}).await.unwrap();
        assert_eq!((report.progress.created, report.progress.invalid), (4, 0), "{format}");
        assert_eq!(links_of(&target).await, links_of(&source).await, "{format}");
    }
}

#[tokio::test]
async fn export_is_imported_into_a_server() {
    let (source, target) = (open(), open());
    fill(&source).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = {
        let links = target.links.clone();
        tokio::spawn(async move { links.serve(listener, async { drop(stopped.await) }).await })
    };
    let export = source.get("/api/export").await;
    let destination = Destination::Server { address, token: None };
    let report = import(Cursor::new(export.body), SourceFormat::Larder, destination, |_| {}).await.unwrap();
    assert_eq!(report.progress.created, 4, "{:?}", report.invalid);
    assert_eq!(links_of(&target).await, links_of(&source).await);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn no_cell_begins_like_a_formula() {
    let fixture = open();
    fill(&fixture).await;
    let export = fixture.get("/api/export?format=csv").await;
    assert_eq!(export.header("content-type"), "text/csv; charset=utf-8");
    let mut rows = csv::Reader::from_reader(&export.body[..]);
    assert_eq!(rows.headers().unwrap().len(), 10);
    let cells: Vec<String> =
        rows.records().flat_map(|row| row.unwrap().iter().map(str::to_owned).collect::<Vec<_>>()).collect();
    assert_eq!(cells.len(), 4 * 10);
    for cell in &cells {
        assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell}");
    }
    assert!(cells.contains(&"'-b".to_owned()) && cells.contains(&"''=1".to_owned()));
}

#[tokio::test]
async fn invalid_option_of_a_row_is_reported() {
    let fixture = open();
    let file = "slug,url,tags,expires_at,max_visits,forward_query\n\
                ok,https://a.example/,\"b,a\",2100-01-01T00:00:00Z,3,TRUE\n\
                api,https://a.example/,,,,\n\
                t,https://a.example/,,soon,,\n\
                v,https://a.example/,,,many,\n\
                f,https://a.example/,,,,1\n";
    let destination = fixture.destination();
    let report = import(file.as_bytes(), SourceFormat::Larder, destination, |_| {}).await.unwrap();
    let reasons: Vec<_> = report.invalid.iter().map(|row| (row.line, row.reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            (3, "slug is reserved for the service; choose another"),
            (
                4,
                "expires_at must be a time such as 2027-01-31T12:00:00Z, or milliseconds since 1970, in the years 1970 to 9998",
            ),
            (5, "max_visits must be a whole number from 1 to 1000000000000"),
            (6, "forward_query must be true or false"),
        ]
    );
    let link = fixture.get("/api/links/ok").await.json();
    assert_eq!(
        (&link["tags"], &link["max_visits"], &link["forward_query"]),
        (&json!(["a", "b"]), &json!(3), &json!(true))
    );
}

#[tokio::test]
async fn empty_export_is_valid_and_wrong_parameters_are_named() {
    let fixture = open();
    assert_eq!(fixture.get("/api/export?format=json").await.json(), json!([]));
    assert_eq!(fixture.get("/api/export").await.text().lines().count(), 1);
    let wrong = fixture.get("/api/export?format=xml").await;
    assert_eq!(
        (wrong.status, &wrong.json()["error"]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("format"))
    );
    let public = open_with(|config| config.public_url = Some("https://s.example".into()));
    assert_eq!(public.get("/api/export").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn export_of_more_than_one_step_has_every_link_once() {
    let fixture = open();
    let mut file = String::from("name,url\n");
    for n in 0..2_500 {
        file += &format!("{n},https://a.example/{n}\n");
    }
    let destination = fixture.destination();
    import(Cursor::new(file), SourceFormat::Larder, destination, |_| {}).await.unwrap();
    let links = fixture.get("/api/export?format=json").await.json();
    let titles: Vec<_> =
        links.as_array().unwrap().iter().map(|link| link["title"].as_str().unwrap()).collect();
    assert_eq!(titles, (0..2_500).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(fixture.get("/api/export").await.text().lines().count(), 2_501);
}
