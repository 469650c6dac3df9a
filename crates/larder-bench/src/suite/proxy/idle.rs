//! The memory of connections that have had a response and wait for their next request.

use super::origin::{self, Origin};
use super::peer::Peer;
use super::running::Proxy;
use crate::measure::rounds::Value;
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections before the measured ones: memory that any number of them needs.
const FIRST: usize = 100;
/// Connections that are opened at once.
const BATCH: usize = 100;
const BODY_BYTES: usize = 1 << 10;
const PATIENCE: Duration = Duration::from_secs(30);
/// After which a proxy has released what a request needs.
const SETTLE: Duration = Duration::from_secs(1);

/// The memory for each of `count` connections. At the end each must still answer.
pub(super) fn connections(peer: Peer, count: usize) -> Result<Vec<Value>> {
    let origin = Origin::start()?;
    let proxy = Proxy::start(peer, origin.address(), None)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let _first = open(proxy.address(), FIRST).await?;
        sleep(SETTLE).await;
        let before = proxy.memory_bytes();
        let idle = open(proxy.address(), count).await?;
        sleep(SETTLE).await;
        let memory = proxy.memory_bytes().saturating_sub(before);
        let closed = ask_again(idle).await;
        ensure!(closed == 0, "{closed} of {count} connections are closed");
        Ok(vec![Value::low("memory", "KiB", memory as f64 / 1024.0 / count as f64)])
    })
}

/// Opens connections, each of which gets one response.
async fn open(address: SocketAddr, count: usize) -> Result<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(count);
    while streams.len() < count {
        let mut batch = JoinSet::new();
        for _ in 0..BATCH.min(count - streams.len()) {
            batch.spawn(async move {
                let stream = TcpStream::connect(address).await?;
                ask(stream, address).await
            });
        }
        let opened = timeout(PATIENCE, batch.join_all()).await;
        for stream in opened.with_context(|| format!("{} connections are answered", streams.len()))? {
            streams.push(stream?);
        }
    }
    Ok(streams)
}

/// How many of the connections do not answer again.
async fn ask_again(streams: Vec<TcpStream>) -> usize {
    let mut closed = 0;
    for stream in streams {
        let Ok(address) = stream.peer_addr() else {
            closed += 1;
            continue;
        };
        closed += usize::from(!matches!(timeout(PATIENCE, ask(stream, address)).await, Ok(Ok(_))));
    }
    closed
}

/// Sends a request, and reads its response to the last byte.
async fn ask(mut stream: TcpStream, address: SocketAddr) -> Result<TcpStream> {
    let request = format!("GET {} HTTP/1.1\r\nhost: {address}\r\n\r\n", origin::path(BODY_BYTES));
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::with_capacity(2 * BODY_BYTES);
    loop {
        ensure!(stream.read_buf(&mut response).await? > 0, "a connection is closed");
        let head = response.windows(4).position(|window| window == b"\r\n\r\n");
        if head.is_some_and(|head| response.len() >= head + 4 + BODY_BYTES) {
            ensure!(response.starts_with(b"HTTP/1.1 200"), "a response has another status than 200");
            return Ok(stream);
        }
    }
}
