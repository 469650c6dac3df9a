//! A CSV file becomes links, once, and wrong rows are named.

use crate::support::open;
use larder_links::import::{Destination, ImportError, InvalidRow, Progress, SourceFormat, import};
use larder_links::{Config, OwnAddresses};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const FILE: &str = "name,url\n\
    Home,https://example.com/\n\
    \"Comma, quoted\",https://example.com/comma\n\
    Wrong,ftp://example.com/\n\
    Short\n\
    Home,https://example.com/\n";

fn wrong_rows() -> Vec<InvalidRow> {
    let row = |line, reason: &str| InvalidRow { line, reason: reason.into() };
    vec![
        row(4, "url must begin with http:// or https://; ftp: is not allowed"),
        row(5, "has 1 columns, expected 2"),
    ]
}

#[tokio::test]
async fn import_into_database_creates_links_once() {
    let fixture = open();
    let destination = fixture.destination();
    let mut seen = Vec::new();
    let report =
        import(FILE.as_bytes(), SourceFormat::Larder, destination.clone(), |progress| seen.push(*progress))
            .await
            .unwrap();
    let expected = Progress { rows: 5, created: 2, existing: 1, invalid: 2, bytes: FILE.len() as u64 };
    assert_eq!(report.progress, expected);
    assert_eq!(seen, [expected]);
    assert_eq!(report.invalid, wrong_rows());

    let again = import(FILE.as_bytes(), SourceFormat::Larder, destination, |_| {}).await.unwrap();
    assert_eq!(again.progress, Progress { created: 0, existing: 3, ..expected });
}

#[tokio::test]
async fn import_into_server_creates_links_once() {
    let fixture = open();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = {
        let links = fixture.links.clone();
        tokio::spawn(async move { links.serve(listener, async { drop(stopped.await) }).await })
    };
    let file = format!("{FILE}Loop,http://{address}/x\n");
    let destination = server(format!("http://{address}"));
    let report =
        import(std::io::Cursor::new(file.clone()), SourceFormat::Larder, destination.clone(), |_| {})
            .await
            .unwrap();
    let expected = Progress { rows: 6, created: 2, existing: 1, invalid: 3, bytes: file.len() as u64 };
    assert_eq!(report.progress, expected);
    let mut wrong = wrong_rows();
    wrong.push(InvalidRow { line: 7, reason: "url points to this service".into() });
    assert_eq!(report.invalid, wrong);

    let again = import(std::io::Cursor::new(file), SourceFormat::Larder, destination, |_| {}).await.unwrap();
    assert_eq!(again.progress, Progress { created: 0, existing: 3, ..expected });
    let listed = fixture.get("/api/links").await.json();
    assert_eq!(listed["links"][0]["title"], "Comma, quoted");
    assert_eq!(listed["links"].as_array().unwrap().len(), 2);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn import_into_database_refuses_the_addresses_of_its_shortener() {
    let fixture = open();
    let config = Config {
        public_url: Some("https://s.example".into()),
        allow_hosts: vec!["links.internal".into()],
        ..fixture.config.clone()
    };
    let own = OwnAddresses::new(&config, ["127.0.0.1:8080".parse().unwrap()]).unwrap();
    let destination = |own| Destination::Store { store: fixture.links.store().clone(), own };
    let csv = "name,url\n\
        One,https://s.example/a\n\
        Two,http://LINKS.internal.:8080/a\n\
        Kept,https://example.com/\n\
        Three,http://[::1]:8080/a\n\
        Another port,http://localhost:3000/\n";
    let report =
        import(csv.as_bytes(), SourceFormat::Larder, destination(own.clone()), |_| {}).await.unwrap();
    let refused = |line| InvalidRow { line, reason: "url points to this service".into() };
    assert_eq!(report.invalid, [2, 3, 5].map(refused));
    assert_eq!((report.progress.created, report.progress.rows, report.progress.invalid), (2, 5, 3));

    let json = r#"[{"url": "https://s.example/a"}]"#;
    let report = import(json.as_bytes(), SourceFormat::Larder, destination(own), |_| {}).await.unwrap();
    assert_eq!((report.invalid, report.progress.created), (vec![refused(1)], 0));
    // Nothing says that this is the shortener.
    let report = import(json.as_bytes(), SourceFormat::Larder, destination(OwnAddresses::default()), |_| {})
        .await
        .unwrap();
    assert_eq!(report.progress.created, 1);
}

#[tokio::test]
async fn import_of_another_program_keeps_its_slugs_in_any_encoding() {
    let fixture = open();
    let text = "\u{feff}keyword;url;title;timestamp;ip;clicks\n\
        gruss;https://example.com/;Grüße;2024-01-02 03:04:05;192.0.2.1;17\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin: Vec<u8> = text.chars().skip(1).map(|c| u8::try_from(c).unwrap()).collect();
    for (file, created) in [(text.as_bytes().to_vec(), 1), (utf16, 0), (latin, 0)] {
        let source = std::io::Cursor::new(file);
        let report = import(source, SourceFormat::Yourls, fixture.destination(), |_| {}).await.unwrap();
        let expected = Progress { rows: 1, created, existing: 1 - created, ..report.progress };
        assert_eq!((report.progress, report.invalid), (expected, vec![]));
    }
    let link = fixture.get("/api/links/gruss").await.json();
    assert_eq!((&link["title"], &link["url"]), (&"Grüße".into(), &"https://example.com/".into()));

    let refused = import(text.as_bytes(), SourceFormat::Larder, fixture.destination(), |_| {}).await;
    assert!(matches!(refused, Err(ImportError::Columns(_))), "{refused:?}");
    let refused = import("[]".as_bytes(), SourceFormat::Yourls, fixture.destination(), |_| {}).await;
    assert!(matches!(refused, Err(ImportError::NotCsv(SourceFormat::Yourls))), "{refused:?}");
}

#[tokio::test]
async fn import_keeps_the_order_of_rows() {
    let fixture = open();
    let mut file = String::from("name,url\n");
    for n in 0..3_500 {
        file.push_str(&format!("Link {n},https://example.com/{n}\n"));
    }
    let mut steps = Vec::new();
    let destination = fixture.destination();
    let report = import(std::io::Cursor::new(file), SourceFormat::Larder, destination, |progress| {
        steps.push(progress.rows)
    })
    .await
    .unwrap();
    assert_eq!(steps, [1_000, 2_000, 3_000, 3_500]);
    assert_eq!(report.progress.created, 3_500);
    let newest = fixture.get("/api/links?limit=1").await.json();
    assert_eq!(newest["links"][0]["title"], "Link 3499");
}

#[tokio::test]
async fn invalid_server_address_fails_at_once() {
    for address in [
        "127.0.0.1:8080",
        "https://127.0.0.1:8080",
        "ftp://x",
        "http://x/path",
        "",
        "http://",
        "http://me:secret@x",
    ] {
        let error =
            import(FILE.as_bytes(), SourceFormat::Larder, server(address.into()), |_| {}).await.unwrap_err();
        assert!(matches!(error, ImportError::Address { .. }), "{address}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_is_a_clear_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let destination = server(format!("http://{address}"));
    let error =
        import(FILE.as_bytes(), SourceFormat::Larder, destination, |_| {}).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("http://{address}/api/links/batch failed: ")), "{error}");
    assert!(error.to_lowercase().contains("connection refused"), "{error}");
}

fn server(address: String) -> Destination {
    Destination::Server { address, token: None }
}
