//! Wall time and processor time of a piece of work. Other processes lengthen the wall time only.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The processor time of the calling thread since it started.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Start and end of a piece of work, and its processor time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) cpu: Duration,
}

impl Timing {
    /// Runs `work` on the calling thread and times it.
    pub(crate) fn measure<T>(work: impl FnOnce() -> T) -> (T, Timing) {
        let cpu = thread_cpu();
        let start = Instant::now();
        let result = work();
        let end = Instant::now();
        (result, Timing { start, end, cpu: thread_cpu() - cpu })
    }

    /// The timing of several threads' work as a whole.
    pub(crate) fn merge(parts: &[Timing]) -> Timing {
        Timing {
            start: parts.iter().map(|part| part.start).min().expect("parts is not empty"),
            end: parts.iter().map(|part| part.end).max().expect("parts is not empty"),
            cpu: parts.iter().map(|part| part.cpu).sum(),
        }
    }

    pub(crate) fn wall(&self) -> Duration {
        self.end - self.start
    }
}
