//! Workloads with a load: hits and stored misses, and hits while the origin stalls for other clients.

use super::origin::{self, Origin};
use super::peer::Peer;
use super::running::Proxy;
use crate::measure::rounds::Value;
use crate::suite::documents::http;
use crate::tool::{Certificate, H2load, Protocol, Wrk, WrkReport, WrkRequest, WrkRequests};
use anyhow::{Result, ensure};
use std::io::Write;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(super) const CONNECTIONS: u32 = 50;
/// The clients that wait for a response of the origin while others get hits.
const STALLED: usize = 100;
/// The body of a workload that names none.
const SMALL_BYTES: usize = 1 << 10;
/// How long a proxy may take to store a response.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// How long the workloads put a load on a proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The time of a load that is not measured.
    pub(super) warm_up: Duration,
    pub(super) time: Duration,
}

impl Load {
    pub(super) const fn of_seconds(warm_up: u64, time: u64) -> Load {
        Load { warm_up: Duration::from_secs(warm_up), time: Duration::from_secs(time) }
    }

    /// Hits of one body of so many bytes.
    pub(super) fn hits(self, peer: Peer, bytes: usize) -> Result<Vec<Value>> {
        let origin = Origin::start()?;
        let proxy = Proxy::start(peer, origin.address(), None)?;
        let path = origin::path(bytes);
        await_hit(&proxy, &origin, &path)?;
        self.measured_hits(&proxy, &origin, &path)
    }

    /// Hits while [`STALLED`] other clients wait for responses of the origin.
    pub(super) fn hits_beside_stalls(self, peer: Peer) -> Result<Vec<Value>> {
        let origin = Origin::start()?;
        let proxy = Proxy::start(peer, origin.address(), None)?;
        let path = origin::path(SMALL_BYTES);
        await_hit(&proxy, &origin, &path)?;
        let mut clients = Vec::new();
        for n in 0..STALLED {
            let mut client = TcpStream::connect(proxy.address())?;
            write!(client, "GET /stall/{n} HTTP/1.1\r\nhost: {}\r\n\r\n", proxy.address())?;
            clients.push(client);
        }
        let start = Instant::now();
        while origin.stalled() < STALLED as u64 {
            let stalled = origin.stalled();
            ensure!(start.elapsed() < PATIENCE, "only {stalled} of {STALLED} requests reach the origin");
            sleep(PAUSE);
        }
        self.measured_hits(&proxy, &origin, &path)
    }

    fn measured_hits(self, proxy: &Proxy, origin: &Origin, path: &str) -> Result<Vec<Value>> {
        let request = [WrkRequest { path, user_agent: "wrk", referrer: "" }];
        let run = |time| {
            let requests = WrkRequests::List(&request);
            Wrk { address: proxy.address(), requests, connections: CONNECTIONS, time }.run()
        };
        run(self.warm_up)?;
        let (cpu, requests) = (proxy.cpu(), origin.requests());
        let report = run(self.time)?;
        let cpu = proxy.cpu() - cpu;
        no_misses(origin.requests() - requests, report.requests)?;
        Ok(values(cpu, report))
    }

    /// New paths, whose responses are stored.
    pub(super) fn misses(self, peer: Peer) -> Result<Vec<Value>> {
        let origin = Origin::start()?;
        let proxy = Proxy::start(peer, origin.address(), None)?;
        let path = origin::path(SMALL_BYTES);
        let run = |prefix: &str, time| {
            let requests = WrkRequests::New(prefix);
            Wrk { address: proxy.address(), requests, connections: CONNECTIONS, time }.run()
        };
        run(&format!("{path}/warm-up-"), self.warm_up)?;
        let (cpu, requests, connections) = (proxy.cpu(), origin.requests(), origin.connections());
        let report = run(&format!("{path}/"), self.time)?;
        let cpu = proxy.cpu() - cpu;
        let (missed, connections) = (origin.requests() - requests, origin.connections() - connections);
        ensure!(missed >= report.requests, "only {missed} of {} requests reach the origin", report.requests);
        // The second path of the first thread, which has had its response.
        await_hit(&proxy, &origin, &format!("{path}/4"))?;
        let mut values = values(cpu, report);
        let share = 100.0 * connections as f64 / missed as f64;
        values.push(Value::low("new connections to the origin", "%", share));
        Ok(values)
    }

    /// Hits over TLS.
    pub(super) fn encrypted_hits(
        self,
        peer: Peer,
        protocol: Protocol,
        certificate: &Certificate,
    ) -> Result<Vec<Value>> {
        let origin = Origin::start()?;
        let proxy = Proxy::start(peer, origin.address(), Some(certificate))?;
        let path = origin::path(SMALL_BYTES);
        let address = proxy.address();
        let run = |connections, time| H2load { address, path: &path, protocol, connections, time }.run();
        // httpd stores nothing while many clients ask for the same.
        run(1, self.warm_up)?;
        run(CONNECTIONS, self.warm_up)?;
        let (cpu, requests) = (proxy.cpu(), origin.requests());
        let report = run(CONNECTIONS, self.time)?;
        let cpu = proxy.cpu() - cpu;
        no_misses(origin.requests() - requests, report.requests)?;
        Ok(vec![
            Value::low("cpu", "µs", micros_each(cpu, report.requests)),
            Value::high("rate", "/s", report.requests_per_second),
            Value::low("failed", "", report.failed as f64),
        ])
    }
}

fn no_misses(missed: u64, requests: u64) -> Result<()> {
    ensure!(requests > 0, "no request has a response");
    ensure!(missed == 0, "{missed} of {requests} requests reach the origin");
    Ok(())
}

/// Requests a path until its response is a stored one.
fn await_hit(proxy: &Proxy, origin: &Origin, path: &str) -> Result<()> {
    let start = Instant::now();
    loop {
        let requests = origin.requests();
        let response = http::get(proxy.address(), path)?;
        let status = response.lines().next().unwrap_or_default();
        ensure!(status.contains(" 200"), "{path}: {status}");
        if origin.requests() == requests {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "{path} is not stored");
        sleep(PAUSE);
    }
}

fn values(cpu: Duration, report: WrkReport) -> Vec<Value> {
    vec![
        Value::low("cpu", "µs", micros_each(cpu, report.requests)),
        Value::high("rate", "/s", report.requests_per_second()),
        Value::low("p50", "ms", report.p50_ms()),
        Value::low("p99", "ms", report.p99_ms()),
        Value::low("failed", "", report.failed as f64),
    ]
}

fn micros_each(cpu: Duration, requests: u64) -> f64 {
    cpu.as_secs_f64() * 1e6 / requests.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_store_the_longest_body() {
        for peer in Peer::ALL {
            if peer.program().is_some_and(|program| larder_testkit::program(program).is_some()) {
                let origin = Origin::start().unwrap();
                let proxy = Proxy::start(peer, origin.address(), None).unwrap();
                await_hit(&proxy, &origin, &origin::path(origin::MAX_BYTES)).unwrap();
            }
        }
    }
}
