//! Tags invalidate many entries in one call. `cargo run -p larder --example tags`

use larder::{Cache, Invalidation, LoadCx, Reach, View};
use std::convert::Infallible;
use std::time::Duration;

async fn render(path: &'static str, cx: LoadCx<String>) -> Result<String, Infallible> {
    // A loader may name its tags at any time, also after it has read what they depend on.
    cx.tag("user:7");
    println!("render {path}");
    Ok(format!("<h1>{path}</h1>"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::builder("site").ttl(Duration::from_secs(60)).build()?;
    let pages: View<str, String, Infallible> = cache.view("page");

    for path in ["home", "cart", "home"] {
        pages.fetch(path).load(move |cx| render(path, cx)).await?;
    }
    println!("user 7 changes: both pages are invalid");
    assert_eq!(cache.invalidate_tags(["user:7"], Invalidation::Hard).await?, Reach::Everywhere);
    for path in ["home", "cart"] {
        pages.fetch(path).load(move |cx| render(path, cx)).await?;
    }
    Ok(())
}
