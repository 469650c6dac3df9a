//! The shortener alone, on a free port or the address in the first argument, with its links in a temporary folder.
//!
//! ```text
//! cargo run -p larder-links --example shortener -- 127.0.0.1:8080
//! ```

use larder_links::{Config, Deps, Links};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:0".into());
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("links.db").display().to_string();
    let config = Config { database, ..Config::default() };

    let links = Links::open(config.clone(), Deps::open(&config)?)?;
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    let ctrl_c = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    links.serve(listener, ctrl_c).await?;
    println!("{} visits were written", links.stats().visits.written);
    Ok(())
}
