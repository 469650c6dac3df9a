//! Where the requests come from: a recorded trace, or a workload that is generated from a seed.

use crate::trace::{self, Format, Requests};
use crate::workload::Synthetic;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Trace { path: PathBuf, format: Format },
    Synthetic(Synthetic),
}

impl Source {
    /// Whether requests have the sizes of their objects.
    pub(super) fn has_sizes(&self) -> bool {
        matches!(self, Source::Trace { format, .. } if format.has_sizes())
    }

    /// The requests, in order. The bar advances as they are read.
    pub(crate) fn open(&self, bar: &ProgressBar) -> Result<Requests> {
        let bar = bar.clone();
        match self {
            Source::Trace { path, format } => trace::open(path, *format, |raw| bar.wrap_read(raw)),
            Source::Synthetic(workload) => Ok(Box::new(bar.wrap_iter(workload.iter()).map(Ok))),
        }
    }

    /// A bar over the bytes of the file or the requests of the workload; drawn only on a terminal.
    pub(super) fn progress(&self) -> ProgressBar {
        let length = match self {
            Source::Trace { path, .. } => {
                std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| file.len())
            }
            Source::Synthetic(workload) => Some(workload.requests()),
        };
        let (bar, template) = match length {
            Some(length) => (ProgressBar::new(length), "{bar:40} {percent:>3} % {eta} {msg}"),
            None => (ProgressBar::new_spinner(), "{spinner} {bytes} {msg}"),
        };
        bar.with_style(ProgressStyle::with_template(template).expect("the template is well formed"))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Trace { path, .. } => path.display().fmt(f),
            Source::Synthetic(workload) => workload.fmt(f),
        }
    }
}
