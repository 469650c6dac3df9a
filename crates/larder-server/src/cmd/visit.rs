//! Commands that visit every entry, or every byte of a large value, in slices, or wait for other threads: other connections
//! of the thread get their turns in between.

use std::time::{Duration, Instant};

use larder_glob::{Pattern, PatternError};
use larder_resp::Encoder;

use super::connection::client_kill::Closing;
use super::keys::dump::LargeRestore;
use super::strings::bitop::LargeCombination;
use super::strings::large_edit::LargeEdit;
use super::strings::large_read::LargeRead;
use super::{CommandError, Context};
use crate::db::{Database, Record, type_name};
use crate::observers::Notice;

/// Entries that are visited in one slice: a fraction of a millisecond.
const SLICE: usize = 1024;
/// Entries that are evicted in one slice, and freed: a policy may examine sixteen entries for each.
pub(super) const EVICTED_PER_SLICE: usize = 32;

/// A command that is not at its end.
pub(crate) struct Visit {
    purpose: Purpose,
    cursor: u64,
    /// The number of entries to visit at most.
    left: usize,
    /// Whether the command gets no reply.
    pub(super) is_muted: bool,
    /// How long the command has taken so far, if it is measured.
    pub(super) time: Option<Duration>,
    /// Bytes of large values that are not in the store any more.
    removed_bytes: usize,
}

/// What is done with the entries.
pub(super) enum Purpose {
    /// Collect the names that match, and reply with them.
    Keys(Names),
    /// The same, and reply with the cursor, too.
    Scan(Names),
    /// Remove those of the database, or of all.
    Flush { all: bool },
    /// Evict what exceeds the capacity.
    Evict,
    /// Build a large value and store it.
    Edit(Box<LargeEdit>),
    /// Read a large value.
    Read(Box<LargeRead>),
    /// Store a large value that `DUMP` has serialized.
    Restore(Box<LargeRestore>),
    /// Combine large values and store the result.
    Combine(Box<LargeCombination>),
    /// Wait for connections that are being closed.
    Close(Closing),
}

impl Visit {
    /// Starts at `cursor` and visits about `count` entries.
    pub(super) fn new(purpose: Purpose, cursor: u64, count: usize) -> Box<Self> {
        Box::new(Visit { purpose, cursor, left: count, is_muted: false, time: None, removed_bytes: 0 })
    }

    /// The memory that it holds beside entries, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = match &self.purpose {
            Purpose::Keys(names) | Purpose::Scan(names) => names.bytes_allocated(),
            Purpose::Edit(edit) => edit.bytes(),
            Purpose::Read(read) => read.bytes(),
            Purpose::Restore(restore) => restore.bytes(),
            Purpose::Combine(combination) => combination.bytes(),
            _ => 0,
        };
        bytes + self.removed_bytes
    }

    /// The bytes of its values that are not in the store any more: it alone may hold them now.
    fn removed_bytes(&mut self, db: Database<'_>) -> usize {
        match &mut self.purpose {
            Purpose::Edit(edit) => edit.removed_bytes(db),
            Purpose::Read(read) => read.removed_bytes(db),
            Purpose::Combine(combination) => combination.removed_bytes(db),
            _ => 0,
        }
    }

    /// Whether the reply is about a value as it was at the start: messages about later changes must follow it.
    pub(crate) fn is_about_start(&self) -> bool {
        matches!(self.purpose, Purpose::Read(_))
    }

    /// Visits some entries. Returns whether it has ended and written its reply.
    ///
    /// # Errors
    /// The error to reply with: it has ended.
    pub(super) fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let ended = self.visit_some(cx)?;
        if !ended {
            self.removed_bytes = self.removed_bytes(cx.db());
        }
        Ok(ended)
    }

    fn visit_some(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let db = cx.db();
        let count = self.left.min(SLICE);
        self.left -= count;
        self.cursor = match &mut self.purpose {
            Purpose::Edit(edit) => return edit.run_slice(cx, db),
            Purpose::Read(read) => return read.run_slice(cx),
            Purpose::Restore(restore) => return restore.run_slice(cx, db),
            Purpose::Combine(combination) => return combination.run_slice(cx),
            Purpose::Close(closing) => {
                let is_closed = closing.wait();
                if is_closed {
                    closing.end(cx);
                }
                return Ok(is_closed);
            }
            Purpose::Keys(names) | Purpose::Scan(names) => {
                // Patterns are compared after the locks are released.
                let begin = names.ends.len();
                let next = db.scan(self.cursor, count, |name, record| {
                    if names.has_type(record) {
                        names.push(name);
                    }
                });
                names.retain_matching(begin);
                cx.check_reply(names.reply_bytes())?;
                next
            }
            Purpose::Flush { all } => db.clear_from(self.cursor, count, *all),
            Purpose::Evict => u64::from(cx.state.store.evict_excess(EVICTED_PER_SLICE)),
        };
        let ended = self.cursor == 0 || self.left == 0;
        if ended {
            if matches!(self.purpose, Purpose::Flush { .. }) {
                cx.tell(Notice::FlushEnds(cx.origin()));
            }
            self.reply(&mut cx.reply());
        }
        Ok(ended)
    }

    fn reply(&self, reply: &mut Encoder<'_>) {
        match &self.purpose {
            Purpose::Keys(names) => names.reply(reply),
            Purpose::Scan(names) => {
                reply.array(2);
                reply.bulk(self.cursor.to_string().as_bytes());
                names.reply(reply);
            }
            Purpose::Flush { .. } | Purpose::Evict => reply.simple("OK"),
            // They have replied themselves.
            Purpose::Edit(_)
            | Purpose::Read(_)
            | Purpose::Restore(_)
            | Purpose::Combine(_)
            | Purpose::Close(_) => {}
        }
    }
}

/// Continues the command that visits entries, for one slice. Returns whether it has ended and written its reply.
pub(crate) fn continue_visit(cx: &mut Context<'_>, mut visit: Box<Visit>) -> bool {
    let start = cx.out.len();
    let counters = cx.session.last_command.map(|spec| cx.counters(spec));
    let started = visit.time.map(|_| Instant::now());
    if cx.held.is_none() {
        cx.session.reply_start = start;
    }
    let ended =
        visit.run_slice(cx).and_then(|ended| cx.check_reply(0).map(|()| ended)).unwrap_or_else(|error| {
            counters.into_iter().for_each(|counters| counters.errors.add(1));
            cx.reply_error(start, &error);
            true
        });
    if let Some((time, started)) = visit.time.as_mut().zip(started) {
        *time += started.elapsed();
        counters.filter(|_| ended).into_iter().for_each(|counters| counters.record(*time));
    }
    if !ended {
        cx.session.visit = Some(visit);
        return false;
    }
    if visit.is_muted {
        cx.truncate_replies(start);
    }
    if cx.session.receives_messages() && cx.held.is_none() {
        if !visit.is_about_start() {
            cx.take_mail(start);
        }
        cx.write_own_invalidations();
    }
    true
}

/// Runs the command that is not at its end, if there is one, to its end.
pub(super) fn finish(cx: &mut Context<'_>) {
    while let Some(visit) = cx.session.visit.take() {
        continue_visit(cx, visit);
    }
}

/// Which names to collect.
#[derive(Default)]
pub(super) enum Filter {
    #[default]
    All,
    Pattern(Box<Pattern>),
}

impl Filter {
    /// The names that match a glob pattern.
    ///
    /// # Errors
    /// The pattern is too expensive.
    pub(super) fn pattern(pattern: &[u8]) -> Result<Self, PatternError> {
        Ok(if pattern == b"*" { Filter::All } else { Filter::Pattern(Box::new(Pattern::new(pattern)?)) })
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Filter::All => true,
            Filter::Pattern(pattern) => pattern.matches(name),
        }
    }
}

/// Names, concatenated. They are collected because the reply starts with their number.
#[derive(Default)]
pub(super) struct Names {
    filter: Filter,
    /// The type of the values, if it matters; `None` in it if no value has that type.
    type_name: Option<Option<&'static str>>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    /// No names yet.
    pub(super) fn of(filter: Filter) -> Self {
        Names { filter, ..Names::default() }
    }

    /// The names of values of this type only.
    pub(super) fn of_type(self, name: &[u8]) -> Self {
        let known = ["string", "zset"].into_iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        Names { type_name: Some(known), ..self }
    }

    fn has_type(&self, record: &Record) -> bool {
        self.type_name.is_none_or(|name| name == Some(type_name(record)))
    }

    /// The memory that they need, in bytes.
    fn bytes_allocated(&self) -> usize {
        let pattern = if let Filter::Pattern(pattern) = &self.filter { pattern.bytes() } else { 0 };
        pattern + self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// The bytes of a reply with them, at least.
    fn reply_bytes(&self) -> u64 {
        const FRAME_BYTES: usize = b"$0\r\n\r\n".len();
        (self.bytes.len() + self.ends.len() * FRAME_BYTES) as u64
    }

    fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    /// Drops the names from index `begin` on that do not match.
    fn retain_matching(&mut self, begin: usize) {
        if matches!(self.filter, Filter::All) {
            return;
        }
        let mut start = begin.checked_sub(1).map_or(0, |last| self.ends[last]);
        let (mut kept, mut kept_end) = (begin, start);
        for index in begin..self.ends.len() {
            let end = self.ends[index];
            if self.filter.matches(&self.bytes[start..end]) {
                self.bytes.copy_within(start..end, kept_end);
                kept_end += end - start;
                self.ends[kept] = kept_end;
                kept += 1;
            }
            start = end;
        }
        self.ends.truncate(kept);
        self.bytes.truncate(kept_end);
    }

    fn reply(&self, reply: &mut Encoder<'_>) {
        reply.array(self.ends.len());
        let mut start = 0;
        for end in &self.ends {
            reply.bulk(&self.bytes[start..*end]);
            start = *end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_what_matches() {
        let mut names = Names::of(Filter::pattern(b"a*").unwrap());
        for slice in [&[&b"ab"[..], b"b", b"a", b""][..], &[b"ba", b"acc"], &[b"c"]] {
            let begin = names.ends.len();
            slice.iter().for_each(|name| names.push(name));
            names.retain_matching(begin);
        }
        assert_eq!((&names.bytes[..], &names.ends[..]), (&b"abaacc"[..], &[2, 3, 6][..]));
    }
}
