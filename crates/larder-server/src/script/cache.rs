//! The scripts that a server knows, shared by its threads.
//!
//! `SCRIPT LOAD` keeps a script until `SCRIPT FLUSH`. `EVAL` keeps the scripts that were used last. Each thread compiles a
//! script when it first runs it; a script that is removed here is marked, so that no thread runs its copy.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use sha1::{Digest as _, Sha1};

/// Scripts of `EVAL` that are kept.
pub(super) const MAX_UNLOADED: usize = 500;
/// Bytes of the scripts of each kind that are kept.
const MAX_BYTES: usize = 32 << 20;

/// The SHA-1 of a script.
pub(crate) type Digest = [u8; 20];

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(super) digest: Digest,
    /// The text, without the line that chooses options.
    pub(super) code: Box<[u8]>,
    options: Option<Options>,
    uses_other_keys: AtomicBool,
    is_removed: AtomicBool,
    is_loaded: AtomicBool,
    last_used_ms: AtomicI64,
}

impl Script {
    /// Parses the first line. The error is the text of the reply.
    pub(super) fn parse(body: &[u8]) -> Result<Script, String> {
        let (options, code) = split_options(body)?;
        Ok(Script {
            digest: digest(body),
            code: code.into(),
            options: options.map(Options::parse).transpose()?,
            uses_other_keys: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
            is_loaded: AtomicBool::new(false),
            last_used_ms: AtomicI64::new(0),
        })
    }

    pub(crate) fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Whether it must not write, by its first line.
    pub(crate) fn is_read_only(&self) -> bool {
        self.options.is_some_and(|options| options.is_read_only)
    }

    /// Whether its first line has options.
    pub(crate) fn has_options(&self) -> bool {
        self.options.is_some()
    }

    /// Whether it may not start while memory is used up, by its first line.
    pub(crate) fn needs_memory(&self) -> bool {
        self.options.is_some_and(|options| !options.ignores_limit())
    }

    /// As [`needs_memory`](Self::needs_memory), of the script with this text.
    pub(crate) fn needs_memory_by(body: &[u8]) -> bool {
        let options = split_options(body).ok().and_then(|(options, _)| options.map(Options::parse));
        options.is_some_and(|options| options.is_ok_and(|options| !options.ignores_limit()))
    }

    /// Whether its commands are executed even if memory was used up when it started, by its first line.
    pub(crate) fn ignores_memory_limit(&self) -> bool {
        self.options.is_some_and(Options::ignores_limit)
    }

    /// Whether it has used a key that was not declared: it locks all keys from the start.
    pub(crate) fn uses_other_keys(&self) -> bool {
        self.uses_other_keys.load(Ordering::Relaxed)
    }

    pub(crate) fn set_uses_other_keys(&self) {
        self.uses_other_keys.store(true, Ordering::Relaxed);
    }

    /// Whether the server does not know it any more.
    pub(super) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Relaxed)
    }

    /// Whether `SCRIPT LOAD` keeps it.
    pub(super) fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Relaxed)
    }

    /// Records a use, at this server time.
    pub(crate) fn mark_used(&self, now_ms: i64) {
        // Many uses are in the same millisecond; only one of them writes.
        if self.last_used_ms.load(Ordering::Relaxed) != now_ms {
            self.last_used_ms.store(now_ms, Ordering::Relaxed);
        }
    }
}

/// The SHA-1 of a text.
pub(super) fn digest(body: &[u8]) -> Digest {
    Sha1::digest(body).into()
}

/// The digest that these 40 hexadecimal digits stand for.
pub(crate) fn parse_digest(text: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.chunks(2)) {
        let digit = |index: usize| char::from(pair[index]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(digest)
}

/// A digest as 40 hexadecimal digits.
pub(crate) fn format_digest(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first line, if it chooses options, without its start; and the rest with its line end, so that lines keep their
/// numbers.
fn split_options(body: &[u8]) -> Result<(Option<&str>, &[u8]), String> {
    if !body.starts_with(b"#!") {
        return Ok((None, body));
    }
    let end = body.iter().position(|byte| *byte == b'\n').ok_or("ERR Invalid script shebang")?;
    let line = std::str::from_utf8(&body[..end]).map_err(|_| "ERR Invalid script shebang")?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    let engine = line.split_ascii_whitespace().next().unwrap_or_default();
    match engine {
        "#!lua" => Ok((Some(&line[engine.len()..]), &body[end..])),
        _ => Err(format!("ERR Unexpected engine in script shebang: {engine}")),
    }
}

/// The options of the first line.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    is_read_only: bool,
    allows_oom: bool,
}

impl Options {
    /// Parses `flags=no-writes,…`. The other flags of Redis have no effect here.
    fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for option in text.split_ascii_whitespace() {
            let flags = option
                .strip_prefix("flags=")
                .ok_or_else(|| format!("ERR Unknown lua shebang option: {option}"))?;
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => options.is_read_only = true,
                    "allow-oom" => options.allows_oom = true,
                    "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    _ => return Err(format!("ERR Unexpected flag in script shebang: {flag}")),
                }
            }
        }
        Ok(options)
    }

    fn ignores_limit(self) -> bool {
        self.is_read_only || self.allows_oom
    }
}

/// All scripts, and those that run for so long that `SCRIPT KILL` may end them.
#[derive(Debug, Default)]
pub(crate) struct ScriptCache {
    scripts: Mutex<Scripts>,
    slow: AtomicUsize,
    kills: AtomicU64,
}

#[derive(Debug, Default)]
struct Scripts {
    by_digest: HashMap<Digest, Arc<Script>>,
    /// The number and the bytes of the scripts that `SCRIPT LOAD` does not keep.
    unloaded: usize,
    unloaded_bytes: usize,
    loaded_bytes: usize,
}

impl ScriptCache {
    pub(super) fn get(&self, digest: &Digest) -> Option<Arc<Script>> {
        self.scripts.lock().by_digest.get(digest).cloned()
    }

    /// Keeps a script of `EVAL`, until others are used later. Returns the one that is known, if it is another thread's.
    pub(super) fn add(&self, script: Script, now_ms: i64) -> Arc<Script> {
        let mut scripts = self.scripts.lock();
        if let Some(known) = scripts.by_digest.get(&script.digest) {
            return Arc::clone(known);
        }
        script.mark_used(now_ms);
        let script = Arc::new(script);
        scripts.unloaded += 1;
        scripts.unloaded_bytes += script.code.len();
        while scripts.unloaded > MAX_UNLOADED || scripts.unloaded_bytes > MAX_BYTES && scripts.unloaded > 1 {
            scripts.remove_oldest();
        }
        scripts.by_digest.insert(script.digest, Arc::clone(&script));
        script
    }

    /// Keeps a script until [`clear`](Self::clear). Fails if all such scripts together would be too large.
    pub(crate) fn load(&self, script: Script) -> Result<(), &'static str> {
        let mut scripts = self.scripts.lock();
        let known = scripts.by_digest.get(&script.digest).cloned();
        if known.as_deref().is_some_and(Script::is_loaded) {
            return Ok(());
        }
        let bytes = script.code.len();
        if scripts.loaded_bytes + bytes > MAX_BYTES {
            return Err("ERR the loaded scripts are too large together: SCRIPT FLUSH removes them");
        }
        scripts.loaded_bytes += bytes;
        let script = match known {
            None => Arc::new(script),
            Some(known) => {
                scripts.unloaded -= 1;
                scripts.unloaded_bytes -= bytes;
                known
            }
        };
        script.is_loaded.store(true, Ordering::Relaxed);
        scripts.by_digest.insert(script.digest, script);
        Ok(())
    }

    pub(crate) fn contains(&self, digest: &Digest) -> bool {
        self.scripts.lock().by_digest.contains_key(digest)
    }

    /// Removes all scripts.
    pub(crate) fn clear(&self) {
        let removed = std::mem::take(&mut *self.scripts.lock());
        removed.by_digest.values().for_each(|script| script.is_removed.store(true, Ordering::Relaxed));
    }

    /// The number of scripts, and their bytes.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let scripts = self.scripts.lock();
        (scripts.by_digest.len(), scripts.unloaded_bytes + scripts.loaded_bytes)
    }

    /// How often scripts were asked to end.
    pub(crate) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Relaxed)
    }

    /// Counts a script that runs for long, or not any more.
    pub(crate) fn count_slow(&self, is_slow: bool) {
        match is_slow {
            true => self.slow.fetch_add(1, Ordering::Relaxed),
            false => self.slow.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Asks the scripts that run for long to end. Returns whether there is any.
    pub(crate) fn kill(&self) -> bool {
        let is_any_slow = self.slow.load(Ordering::Relaxed) > 0;
        if is_any_slow {
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
        is_any_slow
    }
}

impl Scripts {
    /// Removes the script of `EVAL` that was not used for the longest time.
    fn remove_oldest(&mut self) {
        let unloaded = self.by_digest.values().filter(|script| !script.is_loaded());
        let oldest = unloaded.min_by_key(|script| script.last_used_ms.load(Ordering::Relaxed));
        let Some(digest) = oldest.map(|script| script.digest) else {
            self.unloaded = 0;
            return;
        };
        if let Some(script) = self.by_digest.remove(&digest) {
            script.is_removed.store(true, Ordering::Relaxed);
            self.unloaded -= 1;
            self.unloaded_bytes -= script.code.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(body: &str) -> Script {
        Script::parse(body.as_bytes()).expect("a valid first line")
    }

    #[test]
    fn scripts_of_eval_are_bounded_and_loaded_ones_stay() {
        let cache = ScriptCache::default();
        cache.load(script("loaded")).unwrap();
        for index in 0..2 * MAX_UNLOADED {
            cache.add(script(&format!("return {index}")), index as i64);
        }
        assert_eq!(cache.counts().0, MAX_UNLOADED + 1);
        let has = |body: &str| cache.contains(&digest(body.as_bytes()));
        assert!(has("loaded") && has("return 999") && has("return 500") && !has("return 499"));
        let last = cache.get(&digest(b"return 999")).unwrap();
        cache.clear();
        assert!(cache.counts() == (0, 0) && last.is_removed());
    }

    #[test]
    fn script_that_is_used_stays_longer() {
        let cache = ScriptCache::default();
        let first = cache.add(script("first"), 0);
        (1..MAX_UNLOADED).for_each(|index| _ = cache.add(script(&format!("return {index}")), index as i64));
        first.mark_used(1_000);
        cache.add(script("one more"), 2_000);
        assert!(!first.is_removed() && !cache.contains(&digest(b"return 1")));
    }

    #[test]
    fn loading_a_script_of_eval_keeps_it() {
        let cache = ScriptCache::default();
        cache.add(script("return 1"), 0);
        cache.load(script("return 1")).unwrap();
        cache.load(script("return 1")).unwrap();
        assert_eq!(cache.counts(), (1, 8));
        (0..MAX_UNLOADED).for_each(|index| _ = cache.add(script(&format!("-- {index}")), 1));
        assert!(cache.contains(&digest(b"return 1")));
        let large = format!("--{}", "x".repeat(MAX_BYTES));
        assert!(cache.load(script(&large)).unwrap_err().contains("SCRIPT FLUSH"));
    }

    #[test]
    fn digest_round_trips_in_any_case() {
        let digest = digest(b"return 1");
        assert_eq!(format_digest(&digest), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(parse_digest(b"E0E1f9fabfc9d4800c877a703b823ac0578ff8db"), Some(digest));
        assert_eq!(parse_digest(b"g0e1f9fabfc9d4800c877a703b823ac0578ff8db"), None);
        assert_eq!(parse_digest(b"+0e1f9fabfc9d4800c877a703b823ac0578ff8db"), None);
    }
}
