//! One large object and many slow clients: what the server holds in memory beside the object.

use crate::measure::rounds::{Runner, Sample, Value};
use crate::suite::documents::Child;
use crate::tool::{peak_resident_bytes, resident_bytes};
use anyhow::{Context, Result, ensure};
use larder_terminal::remark;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

const CLIENTS: u32 = 50;
/// How much a client reads at once.
const READ: usize = 64 << 10;
/// The time in which a client reads the object.
const DURATION: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// The runners of a cache and of a handler without one. Each round starts a server for an object of so many bytes.
pub(super) fn runners(bytes: usize) -> Vec<Runner> {
    let runner = |subject, stored| Runner {
        subject,
        round: Box::new(move || match round(bytes, stored) {
            Ok(beside_object) => {
                let megabytes = Value::low("beside the object", "MB", beside_object / 1e6);
                Sample { values: vec![megabytes], succeeded: 1, expected: 1 }
            }
            Err(error) => {
                remark(&format!("{subject}: {error:#}"));
                Sample { values: Vec::new(), succeeded: 0, expected: 1 }
            }
        }),
    };
    vec![runner("larder", true), runner("no cache", false)]
}

/// The bytes that the server held at most while all clients read, beside those of the object.
fn round(bytes: usize, stored: bool) -> Result<f64> {
    let length = bytes.to_string();
    let mut arguments = vec!["object", "--bytes", &length];
    arguments.extend(stored.then_some("--stored"));
    let server = Child::serve(&arguments)?;
    let before = resident_bytes(server.id());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let readers = runtime.block_on(async {
        let start = Instant::now();
        // Half of them come while the first one is served, the others when the object is stored.
        let readers = (0..CLIENTS).map(|n| read(server.address(), start + DURATION * n / CLIENTS, bytes));
        timeout(PATIENCE, readers.collect::<JoinSet<_>>().join_all()).await
    });
    for read in readers.context("the clients take too long")? {
        read?;
    }
    let grown = peak_resident_bytes(server.id()).saturating_sub(before) as f64;
    Ok(grown - if stored { bytes as f64 } else { 0.0 })
}

/// Reads the object slowly, from `start` on.
async fn read(address: SocketAddr, start: Instant, bytes: usize) -> Result<()> {
    sleep_until(start).await;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: bench.test\r\nconnection: close\r\n\r\n").await?;
    let (mut buffer, mut received) = (vec![0; READ], 0);
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        received += read;
        sleep_until(start + DURATION.mul_f64(received as f64 / bytes as f64)).await;
    }
    ensure!(received >= bytes, "a client received {received} of {bytes} bytes");
    Ok(())
}
