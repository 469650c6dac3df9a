//! Serves on the address given, 127.0.0.1:6379 by default, until it is interrupted.
//!
//!     cargo run -p larder-server --example cache_server -- 127.0.0.1:7379 [threads] [max-memory]

use std::error::Error;

use larder_server::{Config, Server};

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut config = Config::default();
    let mut args = std::env::args().skip(1);
    if let Some(address) = args.next() {
        config.listen = Some(address.parse()?);
    }
    if let Some(threads) = args.next() {
        config.threads = Some(threads.parse()?);
    }
    if let Some(size) = args.next() {
        config.max_memory = Some(size.parse()?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::bind(config)?;
        if let Some(address) = server.local_addr() {
            println!("listening on {address}");
        }
        server.run(std::future::pending()).await?;
        Ok(())
    })
}
