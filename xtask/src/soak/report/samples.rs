//! The samples of all runs: one line of JSON each, in a file that every run appends to.

use crate::soak::fleet::Figures;
use crate::soak::tally::{Answers, Requests};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// What was counted and measured in some seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The number of the run, from 1 on.
    pub(crate) run: u64,
    /// Since the start of the run.
    pub(crate) seconds: f64,
    /// Whether there was a fault.
    pub(crate) is_fault: bool,
    pub(crate) processes: Vec<(String, Figures)>,
    pub(crate) kinds: Vec<(String, KindFigures)>,
    pub(crate) answers: Answers,
    /// Rounds of the tests that passed and that failed, since the last sample.
    pub(crate) rounds: (u64, u64),
}

/// The requests of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindFigures {
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) fault_errors: u64,
    /// Of requests that succeeded while there was no fault; `None` if there were none.
    pub(crate) p50_us: Option<u64>,
    pub(crate) p99_us: Option<u64>,
    pub(crate) max_us: Option<u64>,
}

impl From<&Requests> for KindFigures {
    fn from(requests: &Requests) -> Self {
        KindFigures {
            count: requests.count,
            errors: requests.errors,
            fault_errors: requests.fault_errors,
            p50_us: requests.latencies.quantile_us(0.5),
            p99_us: requests.latencies.quantile_us(0.99),
            max_us: requests.latencies.max_us(),
        }
    }
}

impl Sample {
    fn to_json(&self) -> Value {
        let process = |(name, figures): &(String, Figures)| {
            let Figures { pid, rss_bytes, anonymous_bytes, descriptors, threads } = figures;
            let value = json!({
                "pid": pid, "rss_bytes": rss_bytes, "anonymous_bytes": anonymous_bytes,
                "descriptors": descriptors, "threads": threads,
            });
            (name.clone(), value)
        };
        let kind = |(name, figures): &(String, KindFigures)| {
            let KindFigures { count, errors, fault_errors, p50_us, p99_us, max_us } = figures;
            let value = json!({
                "count": count, "errors": errors, "fault_errors": fault_errors,
                "p50_us": p50_us, "p99_us": p99_us, "max_us": max_us,
            });
            (name.clone(), value)
        };
        json!({
            "run": self.run,
            "seconds": self.seconds,
            "fault": self.is_fault,
            "processes": self.processes.iter().map(process).collect::<serde_json::Map<_, _>>(),
            "kinds": self.kinds.iter().map(kind).collect::<serde_json::Map<_, _>>(),
            "judged": self.answers.judged,
            "excused": self.answers.excused,
            "stale": self.answers.stale,
            "rounds_passed": self.rounds.0,
            "rounds_failed": self.rounds.1,
        })
    }

    fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let number = |value: &Value, name: &str| value[name].as_u64();
        let process = |(name, value): (&String, &Value)| {
            let figures = Figures {
                pid: u32::try_from(number(value, "pid")?).ok()?,
                rss_bytes: number(value, "rss_bytes")?,
                anonymous_bytes: number(value, "anonymous_bytes")?,
                descriptors: number(value, "descriptors")?,
                threads: number(value, "threads")?,
            };
            Some((name.clone(), figures))
        };
        let kind = |(name, value): (&String, &Value)| {
            let figures = KindFigures {
                count: number(value, "count")?,
                errors: number(value, "errors")?,
                fault_errors: number(value, "fault_errors")?,
                p50_us: number(value, "p50_us"),
                p99_us: number(value, "p99_us"),
                max_us: number(value, "max_us"),
            };
            Some((name.clone(), figures))
        };
        Some(Sample {
            run: number(&value, "run")?,
            seconds: value["seconds"].as_f64()?,
            is_fault: value["fault"].as_bool()?,
            processes: value["processes"].as_object()?.iter().map(process).collect::<Option<_>>()?,
            kinds: value["kinds"].as_object()?.iter().map(kind).collect::<Option<_>>()?,
            answers: Answers {
                judged: number(&value, "judged")?,
                excused: number(&value, "excused")?,
                stale: number(&value, "stale")?,
            },
            rounds: (number(&value, "rounds_passed")?, number(&value, "rounds_failed")?),
        })
    }
}

/// All samples, and the file that has them.
#[derive(Debug)]
pub(crate) struct Samples {
    file: File,
    pub(crate) all: Vec<Sample>,
}

impl Samples {
    /// Reads the samples of earlier runs. A line that is not complete, as of a run that was killed, is left out.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let what = || format!("cannot open {}", path.display());
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(what);
            }
            text => text.unwrap_or_default(),
        };
        let mut file = OpenOptions::new().create(true).append(true).open(path).with_context(what)?;
        if !text.is_empty() && !text.ends_with('\n') {
            writeln!(file)?;
        }
        Ok(Samples { file, all: text.lines().filter_map(Sample::parse).collect() })
    }

    pub(crate) fn next_run(&self) -> u64 {
        self.all.last().map_or(1, |sample| sample.run + 1)
    }

    pub(crate) fn add(&mut self, sample: Sample) -> Result<()> {
        writeln!(self.file, "{}", sample.to_json()).context("cannot write a sample")?;
        self.all.push(sample);
        Ok(())
    }

    /// The hours of soaking at which each sample was taken: runs follow each other without the time between them.
    pub(crate) fn hours(&self) -> Vec<f64> {
        let (mut before, mut last) = (0.0, 0.0);
        let mut hours = Vec::with_capacity(self.all.len());
        let mut run = 0;
        for sample in &self.all {
            if sample.run != run {
                (before, run) = (before + last, sample.run);
            }
            last = sample.seconds;
            hours.push((before + last) / 3_600.0);
        }
        hours
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A sample with one process and one kind.
    pub(in crate::soak::report) fn sample(run: u64, seconds: f64, pid: u32, anonymous_bytes: u64) -> Sample {
        let figures = Figures { pid, rss_bytes: 9 << 20, anonymous_bytes, descriptors: 30, threads: 4 };
        let kind =
            KindFigures { count: 5, errors: 1, p50_us: Some(90), p99_us: Some(800), ..Default::default() };
        Sample {
            run,
            seconds,
            is_fault: false,
            processes: vec![("up-1".to_owned(), figures)],
            kinds: vec![("page".to_owned(), kind)],
            answers: Answers { judged: 10, excused: 1, stale: 0 },
            rounds: (1, 0),
        }
    }

    #[test]
    fn sample_is_read_as_it_was_written() {
        let sample = sample(3, 20.5, 77, 4 << 20);
        assert_eq!(Sample::parse(&sample.to_json().to_string()), Some(sample));
        assert_eq!(Sample::parse("{\"run\": 1"), None);
    }

    #[test]
    fn later_run_goes_on_where_the_earlier_one_ended() {
        let path = std::env::temp_dir().join(format!("larder-soak-samples-{}", std::process::id()));
        std::fs::write(&path, "not complete").unwrap();
        let mut samples = Samples::open(&path).unwrap();
        assert_eq!(samples.next_run(), 1);
        samples.add(sample(1, 1_800.0, 1, 0)).unwrap();
        samples.add(sample(1, 3_600.0, 1, 0)).unwrap();
        let mut samples = Samples::open(&path).unwrap();
        assert_eq!((samples.all.len(), samples.next_run()), (2, 2));
        samples.add(sample(2, 1_800.0, 2, 0)).unwrap();
        samples.add(sample(3, 3_600.0, 3, 0)).unwrap();
        assert_eq!(samples.hours(), [0.5, 1.0, 1.5, 2.5]);
        std::fs::remove_file(&path).unwrap();
    }
}
