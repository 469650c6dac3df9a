//! The shop in Rust, as the examples of the other languages have it, and a page that shows the shops in all of them.
//!
//! | variable | is |
//! |---|---|
//! | `PORT` | the port, 3000 by default |
//! | `REDIS_URL` | the Redis of all shops; without it there is only memory |
//! | `ORIGIN_FILE` | a JSON file that is the database of all shops |
//! | `SHOPS` | the other shops: `Django=http://localhost:8000 Express=http://localhost:3001` |
//!
//! `cargo xtask shops` starts all of them.

mod origin;
mod shop;
mod shops;

use anyhow::{Context, Result};
use axum::Router;
use axum::response::Html;
use axum::routing::get;
use origin::Origin;
use shop::Shop;
use shops::Shops;
use std::env::var;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    let port = match var("PORT") {
        Ok(port) => {
            port.parse().with_context(|| format!("PORT is {port:?}; it must be the number of a port"))?
        }
        Err(_) => 3000,
    };
    let file = var("ORIGIN_FILE").context("ORIGIN_FILE names no file")?;
    let shop = Shop::open(var("REDIS_URL").ok().as_deref(), Origin::open(file.into())?)?;
    let listener = TcpListener::bind(("localhost", port)).await.context("cannot listen")?;
    let address = format!("http://localhost:{}", listener.local_addr()?.port());
    let shops = Shops::new(&format!("Rust={address} {}", var("SHOPS").unwrap_or_default()))?;
    let page = get(async || Html(include_str!("../index.html")));
    println!("{address}");
    let routes = Router::new().route("/", page).merge(shop.routes()).merge(shops.routes());
    Ok(axum::serve(listener, routes).await?)
}
