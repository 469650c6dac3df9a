//! A QR code shows the short link. Another library reads it.

use crate::support::{Answer, open, open_with};
use http::StatusCode;
use larder_links::Scope;
use rqrr::PreparedImage;

fn text_of(png: &Answer) -> String {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(&png.body));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    let (width, height) = (frame.width as usize, frame.height as usize);
    let mut image = PreparedImage::prepare_from_greyscale(width, height, |x, y| pixels[y * width + x]);
    let grids = image.detect_grids();
    assert_eq!(grids.len(), 1);
    grids[0].decode().unwrap().1
}

#[tokio::test]
async fn code_contains_the_short_link() {
    let fixture = open();
    for slug in ["a", "Q3_report-2026", &"x".repeat(64)] {
        fixture.link(Some(slug), "https://example.com/").await;
        let png = fixture.get(&format!("/api/links/{slug}/qr.png")).await;
        assert_eq!((png.status, png.header("content-type")), (StatusCode::OK, "image/png"));
        assert_eq!(text_of(&png), format!("http://localhost:8080/{slug}"));
        let svg = fixture.get(&format!("/api/links/{slug}/qr.svg")).await;
        assert_eq!(svg.header("content-type"), "image/svg+xml");
        assert!(svg.text().contains("<svg") && !svg.text().contains("<script"));
    }
    for path in ["/api/links/none/qr.png", "/api/links/a/qr.gif", "/api/links/%ff/qr.png"] {
        assert_eq!(fixture.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}

/// A slug alone would be an option of a command, or a device of Windows.
#[tokio::test]
async fn file_of_a_code_has_a_harmless_name_whatever_the_slug() {
    let fixture = open();
    // Some of them are segments of other routes.
    for slug in ["-", "--help", "con", "nul", "batch", "visits", "restore", "_"] {
        fixture.link(Some(slug), "https://example.com/").await;
        for format in ["svg", "png"] {
            let code = fixture.get(&format!("/api/links/{slug}/qr.{format}")).await;
            let name = format!("inline; filename=\"qr-{slug}.{format}\"");
            assert_eq!((code.status, code.header("content-disposition")), (StatusCode::OK, &*name));
        }
    }
}

#[tokio::test]
async fn code_has_the_public_address_and_needs_a_token() {
    let fixture = open_with(|config| config.public_url = Some("https://s.example".into()));
    fixture.link_with_token("a", "https://example.com/").await;
    assert_eq!(fixture.get("/api/links/a/qr.png").await.status, StatusCode::UNAUTHORIZED);
    let (_, bearer) = fixture.bearer(Scope::Read).await;
    let png =
        fixture.ask(http::Method::GET, "/api/links/a/qr.png", &[("authorization", &bearer)], None).await;
    assert_eq!(text_of(&png), "https://s.example/a");
}
