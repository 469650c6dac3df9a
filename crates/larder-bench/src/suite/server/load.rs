//! The rounds of `redis-benchmark`: throughput and latency as it reports them, and what the server used meanwhile.

use super::bare_loop::VALUE_BYTES;
use super::subject::Subject;
use crate::measure::rounds::{self, Runner, Sample, Value};
use crate::result::Figure;
use crate::tool::{Address, Outcome, RedisBenchmark, Report, SyscallCounter, Usage};
use anyhow::Result;
use indicatif::ProgressBar;
use larder_terminal::remark;
use std::rc::Rc;
use std::time::Duration;

/// How long a round may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// A workload of one command: the name of a test of `redis-benchmark`, or all its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) command: &'static [&'static str],
    pub(super) clients: u32,
    pub(super) pipeline: u32,
    pub(super) requests: u64,
    pub(super) keys: u64,
}

impl Load {
    fn benchmark(&self, address: Address) -> RedisBenchmark {
        RedisBenchmark {
            pipeline: self.pipeline,
            value_bytes: VALUE_BYTES as u32,
            keys: Some(self.keys),
            deadline: DEADLINE,
            command: self.command.iter().map(|word| (*word).to_owned()).collect(),
            ..RedisBenchmark::new(address, "", self.clients, self.requests)
        }
    }

    /// Runs rounds at one of the addresses of a server.
    pub(super) fn runner(&self, name: &'static str, subject: &Rc<Subject>, address: Address) -> Runner {
        let (subject, benchmark) = (subject.clone(), self.benchmark(address));
        Runner { subject: name, round: Box::new(move || round(&subject, &benchmark)) }
    }

    /// Runs the rounds, and one more in which system calls are counted.
    pub(super) fn measure(
        self,
        subjects: &[Rc<Subject>],
        rounds: usize,
        counter: Option<&SyscallCounter>,
        bar: &ProgressBar,
    ) -> Result<Vec<Figure>> {
        let runner =
            |subject: &Rc<Subject>| self.runner(subject.kind.name(), subject, Address::Tcp(subject.address));
        let mut runners: Vec<Runner> = subjects.iter().map(runner).collect();
        let mut figures = rounds::run(self.name, &mut runners, rounds, bar)?;
        if let Some(counter) = counter {
            for subject in subjects {
                let (_, calls) =
                    self.benchmark(Address::Tcp(subject.address)).run_counting(counter, subject.id())?;
                let value = Value::low("system calls", "/command", calls as f64 / self.requests as f64);
                figures.push(value.figure(self.name, subject.kind.name()));
            }
        }
        Ok(figures)
    }
}

/// One round. A round that stalls or fails has no successes.
fn round(subject: &Subject, benchmark: &RedisBenchmark) -> Sample {
    let expected = benchmark.requests;
    let before = subject.usage();
    let outcome = benchmark.run();
    let used = subject.usage() - before;
    let failure = match outcome {
        Ok(Outcome::Finished(report)) => {
            return Sample { values: values(&report, used, expected), succeeded: expected, expected };
        }
        Ok(stalled) => stalled.failure(expected).unwrap_or_default(),
        Err(error) => format!("{error:#}"),
    };
    remark(&format!("{}: {failure}", subject.kind.name()));
    Sample { values: Vec::new(), succeeded: 0, expected }
}

fn values(report: &Report, used: Usage, requests: u64) -> Vec<Value> {
    let requests = requests as f64;
    vec![
        Value::low("cpu", "µs", used.cpu.as_secs_f64() * 1e6 / requests),
        Value::high("throughput", "/s", report.requests_per_second),
        Value::low("p50", "ms", report.latency.p50),
        Value::low("p99", "ms", report.latency.p99),
        Value::low("context switches", "/command", used.context_switches as f64 / requests),
    ]
}
