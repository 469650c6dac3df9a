//! The rounds of a workload: a client, a subject, and what its requests cost.

use super::bodies::{Body, Content};
use super::client::{Client, Received, Targets};
use super::kind;
use super::proxies::{self, Proxy};
use super::server::{Server, Usage};
use crate::measure::alloc::count_allocations;
use crate::measure::rounds::{Runner, Sample, Value};
use anyhow::Result;
use larder_terminal::remark;
use std::net::SocketAddr;
use std::time::Duration;

/// A server of this process, or a proxy and its origin.
pub(super) enum Subject {
    Own(kind::Kind, Server),
    Proxy { kind: proxies::Kind, proxy: Proxy, _origin: Server },
}

impl Subject {
    /// Starts every subject that is installed and can answer with this body from a cache, or without one if
    /// `has_uncached`.
    pub(super) fn all(body: &Body, has_uncached: bool) -> Result<Vec<Subject>> {
        use kind::Kind::{Bare, Cached, Encoded};
        let kinds: &[kind::Kind] = if has_uncached { &[Cached, Encoded, Bare] } else { &[Cached, Bare] };
        let mut subjects = Self::own(body, kinds)?;
        if let Content::Graphql(_) = body.content {
            // The proxies store no responses to POST.
            return Ok(subjects);
        }
        #[cfg(feature = "bench-peers")]
        subjects.extend(Self::own(body, &[kind::Kind::Peer])?);
        for kind in proxies::Kind::ALL {
            let origin = Server::start(Bare, body)?;
            if let Some(proxy) = Proxy::start(kind, origin.address())? {
                subjects.push(Subject::Proxy { kind, proxy, _origin: origin });
            }
        }
        Ok(subjects)
    }

    pub(super) fn own(body: &Body, kinds: &[kind::Kind]) -> Result<Vec<Subject>> {
        kinds.iter().map(|kind| Ok(Subject::Own(*kind, Server::start(*kind, body)?))).collect()
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Subject::Own(kind, _) => kind.subject(),
            Subject::Proxy { kind, .. } => kind.subject(),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Subject::Own(_, server) => server.address(),
            Subject::Proxy { proxy, .. } => proxy.address(),
        }
    }

    fn usage(&self) -> Usage {
        match self {
            Subject::Own(_, server) => server.usage(),
            Subject::Proxy { proxy, .. } => proxy.usage(),
        }
    }
}

/// The time that a server needs for one request.
pub(super) fn first_answer(subject: &Subject, size: usize) -> Result<Duration> {
    let mut client = Client::connect(subject.address(), 1)?;
    client.send(Targets::Same, 1, size)?;
    Ok(subject.usage().answered.map(|(_, time)| time).unwrap_or_default())
}

/// A runner for each subject. Each round sends `requests` on each of `clients` connections.
pub(super) fn runners(
    subjects: Vec<Subject>,
    targets: Targets,
    clients: usize,
    requests: usize,
    size: usize,
) -> Result<Vec<Runner>> {
    let runner = |subject: Subject| {
        let mut client = Client::connect(subject.address(), clients)?;
        // Fills the caches, and the buffers of the connections.
        let warm_up = if matches!(targets, Targets::New(_)) { requests } else { 1 };
        client.send(targets, warm_up, size)?;
        let (name, mut targets) = (subject.name(), targets.after((clients * warm_up) as u64));
        let round = move || {
            let sample = round(&subject, &mut client, targets, requests, size);
            targets = targets.after((clients * requests) as u64);
            sample
        };
        anyhow::Ok(Runner { subject: name, round: Box::new(round) })
    };
    subjects.into_iter().map(runner).collect()
}

/// One round. A round that fails has no successes.
fn round(subject: &Subject, client: &mut Client, targets: Targets, requests: usize, size: usize) -> Sample {
    let before = subject.usage();
    let counted = count_allocations(|| client.send(targets, requests, size));
    let (received, allocations) = match counted {
        Some((received, allocations)) => (received, Some(allocations)),
        None => (client.send(targets, requests, size), None),
    };
    let after = subject.usage();
    match received {
        Ok(received) => Sample {
            succeeded: received.times.len() as u64,
            expected: (requests * client.connections()) as u64,
            values: values(&received, before, after, allocations),
        },
        Err(error) => {
            remark(&format!("{}: {error:#}", subject.name()));
            Sample { values: Vec::new(), succeeded: 0, expected: requests as u64 }
        }
    }
}

fn values(received: &Received, before: Usage, after: Usage, allocations: Option<i64>) -> Vec<Value> {
    let requests = received.times.len() as f64;
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let mut values = vec![
        Value::low("cpu", "µs", micros(after.cpu - before.cpu) / requests),
        Value::low("time", "µs", micros(received.percentile(50))),
        Value::low("p99", "µs", micros(received.percentile(99))),
        Value::low("average", "ms", received.average().as_secs_f64() * 1e3),
        Value::low("max", "ms", received.percentile(100).as_secs_f64() * 1e3),
        Value::high("throughput", "/s", requests / received.elapsed.as_secs_f64()),
    ];
    if let (Some((before_count, before)), Some((count, after))) = (before.answered, after.answered) {
        let each = micros(after - before) / (count - before_count) as f64;
        values.push(Value::low("at the server", "µs", each));
        let each = |allocations| Value::low("allocations", "", allocations as f64 / requests);
        values.extend(allocations.map(each));
    }
    values
}
