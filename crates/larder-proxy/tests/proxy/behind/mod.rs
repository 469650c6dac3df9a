//! Applications that know nothing of a cache work behind the proxy as they do without it: their sessions, tokens, redirects,
//! streams and uploads. The cache answers what their header fields allow.
//!
//! Each application has the same pages: `/page` is public for a minute, `/news` must be validated, `/visits` counts in a
//! session, `/form` wants a token that belongs to a cookie, `/old` redirects, `/stream` takes half a second, `/upload` sums bytes.

mod app;
mod browser;

use crate::support::{config, start};
use app::App;
use browser::{Browser, Page};

#[tokio::test(flavor = "multi_thread")]
async fn django_works_behind_the_proxy() {
    check(App::django()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn express_works_behind_the_proxy() {
    check(App::express()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rails_works_behind_the_proxy() {
    check(App::rails()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elixir_works_behind_the_proxy() {
    check(App::elixir()).await;
}

/// Checks an application without the proxy, then behind it; `None` if it is not installed.
async fn check(app: Option<App>) {
    let Some(app) = app else { return };
    works(&app, &app.address).await;
    let proxy = start(config([&app.address])).await;
    let address = proxy.address.to_string();
    works(&app, &address).await;
    works(&app, &address).await;
    is_answered_as_its_fields_allow(&address).await;
}

/// What a user of the application expects, whatever is in front of it.
async fn works(app: &App, address: &str) {
    let mut browsers = [Browser::new(address), Browser::new(address)];
    for (browser, visits) in [(0, 1), (0, 2), (1, 1), (0, 3), (1, 2)] {
        assert_eq!(browsers[browser].get("/visits").await.text(), format!("visits {visits}"));
    }
    let [mut one, mut other] = browsers;

    let token = one.get("/form").await.text();
    let other_token = other.get("/form").await.text();
    assert_ne!(token, other_token, "each session has its own");
    assert_eq!(
        one.submit("/form", app.token_field, &other_token).await.status,
        403,
        "it belongs to another session"
    );
    let submitted = one.submit("/form", app.token_field, &token).await;
    assert!([302, 303].contains(&submitted.status), "{}: {}", submitted.status, submitted.text());
    assert_eq!(
        submitted.field("location"),
        Some(&*format!("http://{address}/page")),
        "the host of the client"
    );

    let moved = one.get("/old").await;
    assert_eq!(moved.status, 302);
    assert!(moved.field("location").is_some_and(|target| target.ends_with("/page")));

    let body: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    assert_eq!(one.upload("/upload", body).await.text(), format!("3000000 bytes, {}", sum % 65_536));

    if app.streams {
        let stream = one.get("/stream").await;
        assert_eq!(stream.text(), "part 0\npart 1\npart 2\npart 3\npart 4\n");
        assert!(stream.frames >= 3, "its parts came one by one, in {} frames", stream.frames);
    }
}

/// What the cache answers.
async fn is_answered_as_its_fields_allow(address: &str) {
    let (mut one, mut other) = (Browser::new(address), Browser::new(address));
    let first = one.get("/page").await;
    let second = other.get("/page").await;
    assert_eq!(second.text(), first.text());
    assert!(status_of(&second).starts_with("larder; hit; ttl="), "{}", status_of(&second));

    one.get("/news").await;
    let validated = other.get("/news").await;
    assert_eq!(validated.text(), "the same news");
    assert_eq!(status_of(&validated), "larder; fwd=stale; fwd-status=304; stored");

    for path in ["/visits", "/form"] {
        one.get(path).await;
        let again = one.get(path).await;
        assert!(status_of(&again).starts_with("larder; fwd="), "{path}: {}", status_of(&again));
        assert!(!status_of(&again).contains("stored"), "{path}: {}", status_of(&again));
    }
}

fn status_of(page: &Page) -> &str {
    page.field("cache-status").expect("the proxy says what it did")
}
