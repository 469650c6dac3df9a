//! Slots that move while another thread injects the faults.

use crate::promise::rng::Rng;
use crate::promise::trace::Trace;
use larder_testkit::{MoveMethod, Mover, PATIENCE, slot_of};
use std::fmt;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// The longest pause between two steps of a move, in milliseconds: requests meet each state of it.
const STEP_MS: u64 = 60;
/// The pause between two moves.
const BETWEEN: Duration = Duration::from_millis(2);
/// The pause after a move that has failed: a server is lost.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// How many slots moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moves {
    stepwise: u64,
    atomic: u64,
    /// Moves that a fault has ended between two steps.
    failed: u64,
}

impl Moves {
    /// Those that came to their end.
    pub(crate) fn done(&self) -> u64 {
        self.stepwise + self.atomic
    }
}

impl AddAssign for Moves {
    fn add_assign(&mut self, other: Self) {
        self.stepwise += other.stepwise;
        self.atomic += other.atomic;
        self.failed += other.failed;
    }
}

impl fmt::Display for Moves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moves { stepwise, atomic, failed } = self;
        write!(f, "slots moved by steps {stepwise}, at once {atomic}, interrupted {failed}")
    }
}

/// Slots that move until this ends.
pub(crate) struct Moving {
    is_over: Arc<AtomicBool>,
    /// Held during each move.
    may_move: Arc<Mutex<()>>,
    thread: Option<JoinHandle<Moves>>,
}

impl Moving {
    /// Moves the slots of these keys.
    pub(crate) fn start(mut mover: Mover, keys: &[String], rng: Arc<Rng>, trace: Arc<Trace>) -> Self {
        let slots: Vec<_> = keys.iter().map(|key| slot_of(key)).collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let may_move = Arc::new(Mutex::new(()));
        let (ends, moves_now) = (is_over.clone(), may_move.clone());
        let thread = std::thread::spawn(move || {
            let mut moves = Moves::default();
            while !ends.load(Ordering::Relaxed) {
                moves += {
                    let _moving = moves_now.lock().expect("no move panics");
                    move_one(&mut mover, &slots, &rng, &trace)
                };
                // Whoever waits for a rest gets it.
                sleep(BETWEEN);
            }
            let start = Instant::now();
            while !mover.repair() && start.elapsed() < PATIENCE {
                sleep(AFTER_FAILURE);
            }
            moves
        });
        Moving { is_over, may_move, thread: Some(thread) }
    }

    /// Waits for the end of the move under way. No slot moves until the guard is dropped.
    pub(crate) fn rest(&self) -> MutexGuard<'_, ()> {
        self.may_move.lock().expect("no move panics")
    }

    /// Ends with a cluster in which no slot is left in the middle of a move, and returns how many moved.
    pub(crate) fn end(mut self) -> Moves {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().expect("it ends once").join().expect("no move panics")
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Repairs what was interrupted, and moves one slot.
fn move_one(mover: &mut Mover, slots: &[u16], rng: &Rng, trace: &Trace) -> Moves {
    mover.repair();
    let slot = slots[rng.below(0..slots.len() as u64) as usize];
    let method = if rng.chance(500) { MoveMethod::Stepwise } else { MoveMethod::Atomic };
    let method = if mover.knows(method) { method } else { MoveMethod::Stepwise };
    if mover.is_open(slot) {
        sleep(AFTER_FAILURE);
        return Moves::default();
    }
    trace.note(|| format!("slot {slot} begins to move, {method:?}"));
    let pause = || sleep(rng.ms(0..STEP_MS));
    match (mover.move_slot(slot, rng.next(), method, pause), method) {
        (Ok(()), method) => {
            trace.note(|| format!("slot {slot} has moved"));
            let atomic = u64::from(method == MoveMethod::Atomic);
            Moves { stepwise: 1 - atomic, atomic, failed: 0 }
        }
        (Err(error), _) => {
            trace.note(|| format!("slot {slot} has not moved: {error}"));
            sleep(AFTER_FAILURE);
            Moves { failed: u64::from(mover.is_open(slot)), ..Moves::default() }
        }
    }
}
