//! The proof of the promise: random histories of two nodes over a simulated server, in virtual time, with every fault
//! that can happen, and a check of each read.
//!
//! ```text
//! clients ─► node 0: the real cache ─► network.rs ─┐
//!                                                  ├─► server.rs      the book records what was invalidated when,
//! clients ─► node 1: the real cache ─► network.rs ─┘                  and checks what every read returns
//! ```
//!
//! Clients, nodes and book are in `../promise`; `../chaos` runs the same clients over a real server.
//!
//! A seed repeats its history: one thread, virtual time, and every random number from the seed. A failure prints its
//! seed, the trace of the key and the command that repeats the history. `LARDER_CHECKER_HISTORIES` sets how many
//! histories run: 5,000, or a million in a soak. `LARDER_CHECKER_REPEATS` sets how many of them run twice.
//! `LARDER_CHECKER_SKIP` leaves out so many of the first ones: each round of `cargo xtask soak` runs others than the last.

mod cluster;
mod deadlines;
mod forgery;
mod history;
mod liveness;
mod network;
mod play;
#[path = "../promise/mod.rs"]
mod promise;
mod server;

use crate::forgery::Forgery;
use crate::history::run;
use crate::play::Histories;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

const HISTORIES: u64 = 5_000;
/// With `LARDER_SOAK`, which `cargo xtask test --soak` sets.
const SOAK_HISTORIES: u64 = 1_000_000;
/// A soak reports its progress after so many histories.
const PROGRESS: u64 = 100_000;
/// The checker must find a forgery within so many histories.
const FORGERY_HISTORIES: u64 = 60_000;
/// How many histories run twice.
const REPEATS: u64 = 1_000;
/// The first seed of each run; the others follow.
const SEED: u64 = 0x1a4d_e400_0000_0000;

/// The value of an environment variable that is a number.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}; it must be a number")))
}

/// How many histories are left out before the first.
fn skipped() -> u64 {
    number("LARDER_CHECKER_SKIP").unwrap_or(0)
}

fn is_soak() -> bool {
    std::env::var_os("LARDER_SOAK").is_some()
}

/// Calls `check` with the numbers below `histories`, on every core, until one returns true. Returns the lowest such
/// number of those that were checked.
fn find(histories: u64, check: impl Fn(u64) -> bool + Sync) -> Option<u64> {
    let (next, found, is_found) = (AtomicU64::new(0), AtomicU64::new(u64::MAX), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_found.load(Ordering::SeqCst) {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    if index >= histories {
                        return;
                    }
                    if check(index) {
                        found.fetch_min(index, Ordering::SeqCst);
                        is_found.store(true, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    is_found.into_inner().then_some(found.into_inner())
}

const ONE_SERVER: Histories = Histories { run, progress: PROGRESS, seed_variable: "LARDER_CHECKER_SEED" };

#[test]
fn invalidated_value_is_never_served() {
    if let Some(seed) = number("LARDER_CHECKER_SEED") {
        println!("{}", ONE_SERVER.describe(seed, Forgery::None));
        assert_eq!(run(seed, Forgery::None, false).violation, None);
        return;
    }
    let start = Instant::now();
    let usual = if is_soak() { SOAK_HISTORIES } else { HISTORIES };
    let histories = number("LARDER_CHECKER_HISTORIES").unwrap_or(usual);
    match ONE_SERVER.search(SEED + skipped(), histories, Forgery::None) {
        Ok((reads, pairs)) => {
            println!("{histories} histories, {reads} reads, {:.1} s", start.elapsed().as_secs_f64());
            assert!(reads >= 10 * histories, "{reads} reads in {histories} histories prove nothing");
            println!("{pairs}");
            let rare = pairs.rarer_than(histories / HISTORIES);
            // The first histories have been looked through for this; in as many others a pair may be missing by chance.
            assert!(
                skipped() > 0 || rare.is_empty(),
                "pairs of features that never took effect together: {rare:?}"
            );
        }
        Err(seed) => panic!("the promise is broken: {}", ONE_SERVER.describe(seed, Forgery::None)),
    }
}

#[test]
fn forged_protocol_is_found() {
    ONE_SERVER.find_forged(Forgery::ALL, FORGERY_HISTORIES);
}

/// A seed is worth nothing if its history cannot be repeated: the two traces must be equal, byte by byte.
#[test]
fn same_seed_repeats_its_trace() {
    let start = Instant::now();
    let repeats = number("LARDER_CHECKER_REPEATS").unwrap_or(REPEATS);
    let (bytes, hash) = (AtomicU64::new(0), AtomicU64::new(0));
    let differences = Mutex::new(Vec::new());
    find(repeats, |index| {
        let [first, second] = [(); 2].map(|()| run(SEED + index, Forgery::None, true).trace.text());
        if first != second {
            let difference = first_difference(&first, &second);
            differences.lock().expect("no panic").push(format!("seed {}: {difference}", SEED + index));
            return true;
        }
        bytes.fetch_add(first.len() as u64, Ordering::SeqCst);
        // Independent of the order in which threads get here; another process must print the same number.
        hash.fetch_xor(twox_hash::XxHash3_64::oneshot(first.as_bytes()), Ordering::SeqCst);
        false
    });
    let differences = differences.into_inner().expect("no panic");
    assert!(differences.is_empty(), "two runs of a seed differ: {}", differences.join("\n"));
    let (bytes, hash) = (bytes.into_inner(), hash.into_inner());
    let seconds = start.elapsed().as_secs_f64();
    println!("{repeats} histories twice, {bytes} bytes of trace, hash {hash:016x}, {seconds:.1} s");
    assert!(bytes >= 1_000 * repeats, "{bytes} bytes of trace prove nothing");
}

/// The lines before the first one in which two traces differ, and both of that.
fn first_difference(first: &str, second: &str) -> String {
    let equal = first.lines().zip(second.lines()).take_while(|(one, other)| one == other).count();
    let line = |text: &str| text.lines().nth(equal).unwrap_or("(the end)").to_owned();
    let before: Vec<_> = first.lines().take(equal).skip(equal.saturating_sub(20)).collect();
    format!("line {equal}\n{}\nfirst:  {}\nsecond: {}", before.join("\n"), line(first), line(second))
}
