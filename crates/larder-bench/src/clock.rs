//! What a piece of work took: time on the wall, and time of the processor, which a busy machine does not lengthen.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// How long the calling thread has run on a processor.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// When a piece of work began and ended, and what it took of the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) cpu: Duration,
}

impl Took {
    /// Does the work on the calling thread.
    pub(crate) fn by<T>(work: impl FnOnce() -> T) -> (T, Took) {
        let cpu = thread_cpu();
        let began = Instant::now();
        let result = work();
        let ended = Instant::now();
        (result, Took { began, ended, cpu: thread_cpu() - cpu })
    }

    /// The work of several threads as one piece.
    pub(crate) fn together(parts: &[Took]) -> Took {
        Took {
            began: parts.iter().map(|part| part.began).min().expect("there is a part"),
            ended: parts.iter().map(|part| part.ended).max().expect("there is a part"),
            cpu: parts.iter().map(|part| part.cpu).sum(),
        }
    }

    pub(crate) fn wall(&self) -> Duration {
        self.ended - self.began
    }
}
