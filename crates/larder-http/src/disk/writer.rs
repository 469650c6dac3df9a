//! The thread that writes: it lists what the folder has at the start, writes entries and removes those that must go, begins a new
//! generation after a failure, and marks the folder as clean at the end.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::HeaderMap;

use crate::disk::file::{Frame, Head};
use crate::disk::folder::{self, UNFINISHED};
use crate::disk::queue::{Content, Write};
use crate::disk::tier::Tier;
use crate::stored::entry::StoredResponse;

/// How long a failed generation is over before the next one begins.
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);
/// How long nothing is written after a write has failed: a full disk would fail for each entry.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// How long entries are still written after the cache has ended.
const MAX_REST: Duration = Duration::from_secs(3);
/// How often the end of the cache is looked for while files are listed.
const LISTED_AT_ONCE: usize = 1024;

/// Runs until the queue is closed.
pub(super) fn run(tier: &Arc<Tier>) {
    if tier.folder.is_on() {
        list(tier);
    }
    tier.index.set_listing(false);
    tier.folder.remove_discarded();
    let mut paused_until = None;
    while !tier.queue.is_closed() {
        if !tier.folder.is_on() {
            tier.journal.close();
            tier.index.clear();
            tier.queue.clear();
            tier.folder.retry_end();
            if tier.queue.wait_closed(RENEWAL_PAUSE) {
                break;
            }
            _ = tier.renew();
            tier.folder.remove_discarded();
            continue;
        }
        if let Some(write) = tier.queue.pop(RENEWAL_PAUSE) {
            write_unless_paused(tier, write, &mut paused_until);
        }
        remove_evicted(tier);
    }
    finish(tier);
    tier.journal.close();
    tier.folder.unlock();
    tier.queue.end();
}

/// Writes what is left, and marks the folder as clean.
fn finish(tier: &Tier) {
    let deadline = Instant::now() + MAX_REST;
    let mut paused_until = None;
    while Instant::now() < deadline
        && let Some(write) = tier.queue.pop(Duration::ZERO)
    {
        write_unless_paused(tier, write, &mut paused_until);
    }
    tier.queue.clear();
    remove_evicted(tier);
    if tier.folder.is_on() {
        // Without the mark the folder is as after a kill.
        _ = tier.folder.finish(tier.generation());
    } else {
        tier.folder.retry_end();
    }
}

/// Adds the files of the generation to the index, the oldest first.
fn list(tier: &Tier) {
    let mut files: Vec<(SystemTime, u128)> = Vec::new();
    for part in fs::read_dir(tier.folder.entries()).into_iter().flatten().flatten() {
        for file in fs::read_dir(part.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_str().unwrap_or_default();
            match (folder::entry_name(name), name.strip_suffix(UNFINISHED).and_then(folder::entry_name)) {
                (Some(name), _) => {
                    let written = file.metadata().and_then(|file| file.modified());
                    files.extend(written.ok().map(|written| (written, name)));
                }
                (None, Some(_)) => _ = fs::remove_file(file.path()),
                (None, None) => {}
            }
        }
        if tier.queue.is_closed() {
            return;
        }
    }
    files.sort_unstable();
    for names in files.chunks(LISTED_AT_ONCE) {
        for (_, name) in names {
            _ = tier.adopt(*name);
        }
        remove_evicted(tier);
        if tier.queue.is_closed() {
            return;
        }
    }
}

fn write_unless_paused(tier: &Tier, write: Write, paused_until: &mut Option<Instant>) {
    let is_paused = paused_until.is_some_and(|until| Instant::now() < until);
    if is_paused || write.generation != tier.generation() {
        tier.counts.dropped.add(1);
        return tier.index.slot(write.name).end_write(write.number);
    }
    let unfinished = tier.folder.part_of(write.name).join(format!("{:032x}{UNFINISHED}", write.name));
    match write_entry(tier, &write, &unfinished) {
        Ok(true) => tier.counts.writes.add(1),
        Ok(false) => {}
        Err(_) => {
            tier.counts.write_errors.add(1);
            *paused_until = Some(Instant::now() + PAUSE_AFTER_ERROR);
            _ = fs::remove_file(&unfinished);
            tier.index.slot(write.name).end_write(write.number);
        }
    }
}

/// Writes an entry. Returns whether it was still to be written at the end.
fn write_entry(tier: &Tier, write: &Write, unfinished: &Path) -> io::Result<bool> {
    let Some((head, body)) = encode(write) else { return Ok(false) };
    if write.is_other_key && !tier.has_other_keys() {
        tier.folder.note_other_keys()?;
        tier.set_other_keys(true);
    }
    let mut file = create(tier, write.name, unfinished)?;
    let len = head.write(body.as_ref().and_then(|stored| stored.complete_body()), &mut file)?;
    let path = tier.folder.entry(write.name);
    let mut slot = tier.index.slot(write.name);
    if !slot.is_current(write.number) || !tier.folder.is_on() {
        drop(slot);
        fs::remove_file(unfinished)?;
        return Ok(false);
    }
    fs::rename(unfinished, &path)?;
    slot.end_write(write.number);
    if slot.add(len).is_none() && folder::remove(&path).is_err() {
        tier.fail();
    }
    Ok(true)
}

fn create(tier: &Tier, name: u128, unfinished: &Path) -> io::Result<File> {
    let open = || folder::private_file().write(true).truncate(true).open(unfinished);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            folder::create_folder(&tier.folder.part_of(name))?;
            open()
        }
        opened => opened,
    }
}

/// The head of a file, and the response whose body comes next.
fn encode(write: &Write) -> Option<(Head, Option<Arc<StoredResponse>>)> {
    // Before the times: a soft purge shortens them and then advances the stamp.
    let stamp = match &write.content {
        Content::Response(stored) => stored.stamp.numbers(),
        Content::Record(record) => record.stamp.numbers(),
    };
    let mut frame = Frame {
        generation: write.generation,
        created_ms: write.created_ms,
        stamp,
        ttl: Duration::ZERO,
        grace: Duration::ZERO,
        later: None,
        tags: write.tags.clone(),
    };
    match &write.content {
        Content::Record(record) => Some((Head::of_record(&frame, &write.key, record)?, None)),
        Content::Response(stored) => {
            (frame.ttl, frame.grace, frame.later) = stored.times();
            let headers: HeaderMap = stored.headers_without_siblings();
            let head = Head::of_response(&frame, &write.key, stored, &headers)?;
            Some((head, Some(stored.clone())))
        }
    }
}

/// Removes the files that had to go for others.
fn remove_evicted(tier: &Tier) {
    while let Some(name) = tier.index.next_evicted() {
        let mut slot = tier.index.slot(name);
        // A new file of the name may be there by now.
        if slot.take_evicted() && slot.file().is_none() && folder::remove(&tier.folder.entry(name)).is_err() {
            drop(slot);
            tier.fail();
        }
    }
}
