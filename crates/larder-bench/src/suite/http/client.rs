//! A client of HTTP/1.1 with keep-alive: each connection sends a request, reads the response to its last byte, and sends
//! the next. It allocates next to nothing during a round, so that the allocations of the process are those of the server.

use super::graphql::PATH;
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Large enough for a few reads of a large body.
const BUFFER: usize = 256 << 10;
const MAX_FIELDS: usize = 32;
/// What follows the target: the fields of a browser.
const REST_OF_HEAD: &str = " HTTP/1.1\r\nhost: bench.test\r\nuser-agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 \
    Firefox/140.0\r\naccept: application/json\r\naccept-language: en-US,en;q=0.5\r\n";
/// A response that takes longer fails the round.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Client {
    runtime: Runtime,
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    buffer: Vec<u8>,
    times: Vec<Duration>,
}

/// What the requests of a round ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Targets {
    /// The same target each time.
    Same,
    /// Targets that nobody asked for before, starting with this number.
    New(u64),
    /// The GraphQL endpoint each time, with this body.
    Graphql(&'static str),
}

impl Targets {
    /// The targets after so many requests.
    pub(super) fn after(self, requests: u64) -> Targets {
        match self {
            Targets::Same | Targets::Graphql(_) => self,
            Targets::New(first) => Targets::New(first + requests),
        }
    }
}

/// The responses of a round: all are complete, with status 200 and the expected length.
pub(super) struct Received {
    pub(super) elapsed: Duration,
    /// The time from a request to the last byte of its response, sorted.
    pub(super) times: Vec<Duration>,
}

impl Received {
    pub(super) fn average(&self) -> Duration {
        self.times.iter().sum::<Duration>().checked_div(self.times.len() as u32).unwrap_or_default()
    }

    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let last = self.times.len().saturating_sub(1);
        self.times.get((self.times.len() * percent / 100).min(last)).copied().unwrap_or_default()
    }
}

impl Client {
    pub(super) fn connect(address: SocketAddr, count: usize) -> Result<Client> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connect = || async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (request, buffer) = (Vec::with_capacity(512), vec![0; BUFFER]);
            anyhow::Ok(Connection { stream, request, buffer, times: Vec::new() })
        };
        let connections = (0..count).map(|_| runtime.block_on(connect())).collect::<Result<_>>()?;
        Ok(Client { runtime, connections })
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Sends `requests` on each connection, all connections at once.
    pub(super) fn send(&mut self, targets: Targets, requests: usize, expected: usize) -> Result<Received> {
        let step = self.connections.len() as u64;
        let mut tasks = JoinSet::new();
        for (first, mut connection) in (0..).zip(self.connections.drain(..)) {
            connection.times.clear();
            connection.times.reserve(requests);
            let sending = async move {
                for n in 0..requests as u64 {
                    connection.request(targets, first + n * step, expected).await?;
                }
                anyhow::Ok(connection)
            };
            tasks.spawn_on(sending, self.runtime.handle());
        }
        let start = Instant::now();
        let connections = self.runtime.block_on(tasks.join_all());
        let elapsed = start.elapsed();
        self.connections = connections.into_iter().collect::<Result<_>>()?;
        let mut times: Vec<_> = self.connections.iter().flat_map(|each| each.times.iter().copied()).collect();
        times.sort_unstable();
        Ok(Received { elapsed, times })
    }
}

impl Connection {
    /// Sends one request, and reads its response to the last byte.
    async fn request(&mut self, targets: Targets, n: u64, expected: usize) -> Result<()> {
        self.request.clear();
        match targets {
            Targets::Same => write!(self.request, "GET /body{REST_OF_HEAD}\r\n")?,
            Targets::New(first) => write!(self.request, "GET /body?n={}{REST_OF_HEAD}\r\n", first + n)?,
            Targets::Graphql(query) => write!(
                self.request,
                "POST {PATH}{REST_OF_HEAD}content-type: application/json\r\ncontent-length: {}\r\n\r\n{query}",
                query.len()
            )?,
        }
        let start = Instant::now();
        self.stream.write_all(&self.request).await?;
        timeout(PATIENCE, self.read_response(expected)).await.context("the response takes too long")??;
        self.times.push(start.elapsed());
        Ok(())
    }

    async fn read_response(&mut self, expected: usize) -> Result<()> {
        let mut filled = 0;
        let in_buffer = loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            ensure!(read > 0, "the connection was closed before the head of a response");
            filled += read;
            if let Some(head) = parse_head(&self.buffer[..filled])? {
                ensure!(head.status == 200, "a response has status {}", head.status);
                ensure!(head.body == expected, "a body has {} bytes instead of {expected}", head.body);
                break filled - head.length;
            }
        };
        let mut left = expected.checked_sub(in_buffer).context("a response is longer than it says")?;
        while left > 0 {
            let end = left.min(BUFFER);
            let read = self.stream.read(&mut self.buffer[..end]).await?;
            ensure!(read > 0, "the connection was closed {left} bytes before the end of a body");
            left -= read;
        }
        Ok(())
    }
}

struct Head {
    status: u16,
    /// The length of the head and of the body in bytes.
    length: usize,
    body: usize,
}

/// Parses the head of a response; `None` if it is not complete.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(length) = response.parse(bytes)? else { return Ok(None) };
    let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let body = str::from_utf8(field.context("a response has no Content-Length")?.value)?.parse()?;
    Ok(Some(Head { status: response.code.context("a response has no status")?, length, body }))
}
