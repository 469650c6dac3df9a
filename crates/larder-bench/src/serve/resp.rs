//! The servers of document 3 in Rust: one map behind one lock, and two ways to accept connections.

use super::{listen, runtime};
use anyhow::Result;
use clap::ValueEnum;
use larder_resp::{Args, Encoder, Limits, Progress, Protocol, RequestParser};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BUFFER: usize = 16 << 10;

type Store = Arc<Mutex<HashMap<Vec<u8>, Arc<[u8]>>>>;

/// Who serves a connection.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Accept {
    /// The acceptor, which accepts the next connection when this one has ended.
    Sequential,
    /// A task for each connection.
    Task,
}

pub(super) fn serve(accept: Accept, backlog: u32) -> Result<()> {
    let store = Store::default();
    runtime()?.block_on(async {
        let listener = listen(backlog)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let connection = converse(stream, store.clone());
            match accept {
                // A client that breaks the protocol ends its own connection only.
                Accept::Sequential => _ = connection.await,
                Accept::Task => drop(tokio::spawn(connection)),
            }
        }
    })
}

/// Answers all complete requests of each read with one write.
async fn converse(mut stream: TcpStream, store: Store) -> Result<()> {
    let (mut buffer, mut replies, limits) = (Vec::with_capacity(BUFFER), Vec::new(), Limits::default());
    while stream.read_buf(&mut buffer).await? > 0 {
        let (mut start, mut parser) = (0, RequestParser::new());
        while let Progress::Complete { consumed, .. } = parser.parse(&buffer[start..], &limits)? {
            reply(parser.args(&buffer[start..]), &store, &mut Encoder::new(&mut replies, Protocol::Resp2));
            start += consumed;
            parser.restart();
        }
        buffer.drain(..start);
        stream.write_all(&replies).await?;
        replies.clear();
    }
    Ok(())
}

/// As in the document, a command that is not known is answered with OK, so that redis-benchmark starts.
fn reply(args: Args<'_>, store: &Store, out: &mut Encoder<'_>) {
    let name = args.get(0).unwrap_or_default();
    match (args.get(1), args.get(2)) {
        (Some(key), Some(value)) if name.eq_ignore_ascii_case(b"SET") => {
            store.lock().insert(key.to_vec(), value.into());
            out.simple("OK");
        }
        (Some(key), None) if name.eq_ignore_ascii_case(b"GET") => {
            let value = store.lock().get(key).cloned();
            match value {
                Some(value) => out.bulk(&value),
                None => out.null(),
            }
        }
        _ => out.simple("OK"),
    }
}
