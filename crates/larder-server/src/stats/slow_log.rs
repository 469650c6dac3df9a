//! The log of slow commands. It is bounded by entries and by bytes: an entry has a cut copy of its request.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use larder_resp::Args;
use parking_lot::Mutex;

use crate::spec::CommandSpec;

/// The time in microseconds from which on commands are logged at first, and the entries that are kept: as in Redis.
const DEFAULT_THRESHOLD_MICROS: i64 = 10_000;
const DEFAULT_MAX_ENTRIES: usize = 128;
/// Below it, commands that take constant time are logged, too.
const SHORTEST_SLOW_MICROS: i64 = 1_000;
/// What an entry keeps of a request, as in Redis.
const MAX_ARGUMENTS: usize = 32;
const MAX_ARGUMENT_BYTES: usize = 128;
/// What the entries may take together, whatever their number is.
const MAX_BYTES: usize = 16 << 20;

/// A request as the log shows it: without secrets, and of many or long arguments only the first part.
#[derive(Debug, Clone)]
pub(crate) struct LoggedRequest(Vec<Box<[u8]>>);

impl LoggedRequest {
    pub(crate) fn new(spec: &CommandSpec, args: Args<'_>) -> Self {
        let has_all = args.len() <= MAX_ARGUMENTS;
        let shown = if has_all { args.len() } else { MAX_ARGUMENTS - 1 };
        let arguments = args.iter().take(shown).enumerate();
        let mut arguments: Vec<Box<[u8]>> =
            arguments.map(|(index, arg)| cut(spec.shown_argument(args, index, arg))).collect();
        if !has_all {
            arguments.push(format!("... ({} more arguments)", args.len() - shown).into_bytes().into());
        }
        LoggedRequest(arguments)
    }

    pub(crate) fn arguments(&self) -> &[Box<[u8]>] {
        &self.0
    }

    /// The memory that it needs, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|argument| size_of::<Box<[u8]>>() + argument.len()).sum()
    }
}

fn cut(argument: &[u8]) -> Box<[u8]> {
    match argument.split_at_checked(MAX_ARGUMENT_BYTES) {
        Some((shown, rest)) if !rest.is_empty() => {
            [shown, format!("... ({} more bytes)", rest.len()).as_bytes()].concat().into()
        }
        _ => argument.into(),
    }
}

/// A slow command.
#[derive(Debug, Clone)]
pub(crate) struct SlowCommand {
    pub(crate) request: LoggedRequest,
    /// Unix time of its end.
    pub(crate) ended: Duration,
    /// The time of its execution, without that in which it waited.
    pub(crate) time: Duration,
    pub(crate) address: String,
    pub(crate) client_name: Vec<u8>,
}

impl SlowCommand {
    fn bytes(&self) -> usize {
        size_of::<(u64, SlowCommand)>() + self.request.bytes() + self.address.len() + self.client_name.len()
    }
}

/// The last slow commands.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Microseconds; negative if nothing is logged.
    threshold_micros: AtomicI64,
    max_entries: AtomicUsize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    next_id: u64,
    /// The oldest one first.
    list: VecDeque<(u64, SlowCommand)>,
    bytes: usize,
}

impl Entries {
    fn cut_to(&mut self, max_entries: usize, max_bytes: usize) {
        while self.list.len() > max_entries || self.bytes > max_bytes {
            let Some((_, removed)) = self.list.pop_front() else { return };
            self.bytes -= removed.bytes();
        }
    }
}

impl Default for SlowLog {
    fn default() -> Self {
        SlowLog {
            threshold_micros: AtomicI64::new(DEFAULT_THRESHOLD_MICROS),
            max_entries: AtomicUsize::new(DEFAULT_MAX_ENTRIES),
            entries: Mutex::default(),
        }
    }
}

impl SlowLog {
    pub(crate) fn threshold_micros(&self) -> i64 {
        self.threshold_micros.load(Ordering::Relaxed)
    }

    /// Sets from how many microseconds on a command is logged; a negative number logs nothing.
    pub(crate) fn set_threshold_micros(&self, micros: i64) {
        self.threshold_micros.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn max_entries(&self) -> usize {
        self.max_entries.load(Ordering::Relaxed)
    }

    /// Sets how many entries are kept. It is applied when the next one comes, as in Redis.
    pub(crate) fn set_max_entries(&self, entries: usize) {
        self.max_entries.store(entries, Ordering::Relaxed);
    }

    /// Whether anything is logged.
    pub(crate) fn is_used(&self) -> bool {
        self.threshold_micros() >= 0
    }

    /// Whether a call of a command may be logged, whatever its arguments are. One that takes constant time is logged only if
    /// that is about what is to be logged: to measure it would cost more than it does.
    pub(crate) fn may_log(&self, spec: &CommandSpec) -> bool {
        self.is_used() && (spec.may_be_slow() || self.threshold_micros() < SHORTEST_SLOW_MICROS)
    }

    /// Whether a command that has taken this time is logged.
    pub(crate) fn is_slow(&self, time: Duration) -> bool {
        u64::try_from(self.threshold_micros())
            .is_ok_and(|threshold| time.as_micros() >= u128::from(threshold))
    }

    pub(crate) fn push(&self, command: SlowCommand) {
        let mut entries = self.entries.lock();
        let id = entries.next_id;
        entries.next_id += 1;
        entries.bytes += command.bytes();
        entries.list.push_back((id, command));
        entries.cut_to(self.max_entries(), MAX_BYTES);
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().list.len()
    }

    /// At most so many entries with their ids, the last one first.
    pub(crate) fn last(&self, count: usize) -> Vec<(u64, SlowCommand)> {
        self.entries.lock().list.iter().rev().take(count).cloned().collect()
    }

    /// Removes all entries. Ids go on.
    pub(crate) fn clear(&self) {
        self.entries.lock().cut_to(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_bounded_by_bytes() {
        let log = SlowLog::default();
        log.set_max_entries(usize::MAX);
        let command = || SlowCommand {
            request: LoggedRequest(vec![vec![0; MAX_BYTES / 4].into()]),
            ended: Duration::ZERO,
            time: Duration::ZERO,
            address: String::new(),
            client_name: Vec::new(),
        };
        (0..5).for_each(|_| log.push(command()));
        let ids: Vec<u64> = log.last(10).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [4, 3, 2]);
        log.clear();
        assert_eq!((log.len(), log.entries.lock().bytes), (0, 0));
    }
}
