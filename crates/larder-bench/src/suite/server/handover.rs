//! Elements that are handed to a client which waits for them by `BLPOP`, as from a queue of jobs to a worker.
//!
//! Two clients add an element for each other and wait for the next one in turns, so that each element has a client that waits:
//!
//! ```text
//!  one     LPUSH b, BLPOP a …waits…  ──► LPUSH b, BLPOP a …
//!  other   …waits by BLPOP b… ──► LPUSH a, BLPOP b …waits…
//! ```

use super::subject::Subject;
use crate::measure::rounds::{Sample, Value};
use anyhow::{Result, ensure};
use larder_terminal::remark;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(super) const WORKLOAD: &str = "blpop hand-over";

const ONE: Side = Side {
    request: b"*3\r\n$5\r\nLPUSH\r\n$1\r\nb\r\n$1\r\nx\r\n*3\r\n$5\r\nBLPOP\r\n$1\r\na\r\n$1\r\n0\r\n",
    element: b"*2\r\n$1\r\na\r\n$1\r\nx\r\n",
};
const OTHER: Side = Side {
    request: b"*3\r\n$5\r\nLPUSH\r\n$1\r\na\r\n$1\r\nx\r\n*3\r\n$5\r\nBLPOP\r\n$1\r\nb\r\n$1\r\n0\r\n",
    element: b"*2\r\n$1\r\nb\r\n$1\r\nx\r\n",
};
/// The reply to `LPUSH`: the length of the list before the waiting client takes the element.
const PUSHED: &[u8] = b":1\r\n";

/// What one of both clients sends and receives.
struct Side {
    request: &'static [u8],
    element: &'static [u8],
}

/// One round of so many elements.
pub(super) fn round(subject: &Subject, elements: u64) -> Sample {
    let before = subject.usage();
    match hand_over(subject, elements) {
        Ok(mut times) => {
            let used = subject.usage() - before;
            times.sort_unstable();
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
            let cpu = used.cpu.as_secs_f64() * 1e6 / elements as f64;
            let values = vec![
                Value::low("cpu", "µs", cpu),
                Value::low("p50", "µs", at(0.5)),
                Value::low("p99", "µs", at(0.99)),
            ];
            Sample { values, succeeded: elements, expected: elements }
        }
        Err(error) => {
            remark(&format!("{}: {error:#}", subject.kind.name()));
            Sample { values: Vec::new(), succeeded: 0, expected: elements }
        }
    }
}

/// The time of each element from `LPUSH` to the client that waits.
fn hand_over(subject: &Subject, elements: u64) -> Result<Vec<Duration>> {
    let (mut one, mut other) = (subject.connect()?, subject.connect()?);
    one.write_all(b"*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n")?;
    expect(&mut one, b":0\r\n")?;
    // Nothing shows when this one waits; the first element tells whether it did, and is not counted.
    other.write_all(b"*3\r\n$5\r\nBLPOP\r\n$1\r\nb\r\n$1\r\n0\r\n")?;
    let mut times = Vec::with_capacity(elements as usize);
    for number in 0..=elements {
        let start = Instant::now();
        let (from, to, from_side, to_side) = match number % 2 {
            0 => (&mut one, &mut other, ONE, OTHER),
            _ => (&mut other, &mut one, OTHER, ONE),
        };
        from.write_all(from_side.request)?;
        expect(to, to_side.element)?;
        if number > 0 {
            times.push(start.elapsed());
        }
        expect(from, PUSHED)?;
    }
    Ok(times)
}

fn expect(stream: &mut TcpStream, expected: &[u8]) -> Result<()> {
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes)?;
    ensure!(bytes == expected, "received {} instead of {}", bytes.escape_ascii(), expected.escape_ascii());
    Ok(())
}
