//! The faults, in an order that a seed decides, and how each is made.

use super::fleet::Fleet;
use super::random::Random;
use super::shared::Shared;
use super::windows::Tier;
use anyhow::Result;
use std::time::{Duration, Instant};

/// The server is restarted in the first of so many rounds of the other faults, so that its memory can be judged in between.
const ROUNDS_PER_RESTART: u64 = 8;
/// Seconds from the end of a fault to the next one: with the time to recover.
const PAUSE: (f64, f64) = (20.0, 40.0);
/// Seconds that something is stopped or away.
const LENGTH: (f64, f64) = (1.0, 6.0);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGSTOP, and SIGCONT.
    RedisStopped,
    /// SIGKILL; it starts again empty.
    RedisKilled,
    OriginKilled,
    ShortenerKilled,
    ProxyKilled,
    /// SIGTERM; it starts again from its snapshot.
    ServerRestarted,
}

impl Fault {
    /// Those of each round.
    const FREQUENT: [Fault; 5] = [
        Fault::RedisStopped,
        Fault::RedisKilled,
        Fault::OriginKilled,
        Fault::ShortenerKilled,
        Fault::ProxyKilled,
    ];

    fn name(self) -> &'static str {
        match self {
            Fault::RedisStopped => "redis is stopped and goes on",
            Fault::RedisKilled => "redis is killed and starts again empty",
            Fault::OriginKilled => "the origin is killed and starts again",
            Fault::ShortenerKilled => "up-2 is killed and starts again",
            Fault::ProxyKilled => "proxy-2 is killed and starts again",
            Fault::ServerRestarted => "the server is restarted with its snapshot",
        }
    }

    fn tier(self) -> Option<Tier> {
        match self {
            Fault::RedisStopped | Fault::RedisKilled => Some(Tier::Redis),
            Fault::ServerRestarted => Some(Tier::Server),
            Fault::OriginKilled | Fault::ShortenerKilled | Fault::ProxyKilled => None,
        }
    }
}

/// A fault, after a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) pause: Duration,
    pub(super) fault: Fault,
    /// How long it lasts, apart from the time that a start takes.
    pub(super) length: Duration,
}

/// An endless list of faults.
#[derive(Debug)]
pub(super) struct Schedule {
    random: Random,
    round: u64,
    left: Vec<Fault>,
}

impl Schedule {
    pub(super) fn new(seed: u64) -> Self {
        Schedule { random: Random::new(seed, 0), round: 0, left: Vec::new() }
    }

    pub(super) fn next(&mut self) -> Step {
        if self.left.is_empty() {
            self.left.extend(Fault::FREQUENT);
            if self.round.is_multiple_of(ROUNDS_PER_RESTART) {
                self.left.push(Fault::ServerRestarted);
            }
            self.random.shuffle(&mut self.left);
            self.round += 1;
        }
        let fault = self.left.pop().expect("a round has faults");
        let mut seconds = |(least, most)| Duration::from_secs_f64(self.random.between(least, most));
        Step { pause: seconds(PAUSE), fault, length: seconds(LENGTH) }
    }
}

/// Makes faults until the soak is over. `end` is when that will be: no fault begins shortly before.
pub(super) fn make(shared: &Shared, fleet: &Fleet, seed: u64, start: Instant, end: Instant) {
    let mut schedule = Schedule::new(seed);
    loop {
        let step = schedule.next();
        let begin = Instant::now() + step.pause;
        if begin + step.length + Duration::from_secs_f64(LENGTH.1) > end || !shared.wait_until(begin) {
            return;
        }
        println!("  {:>6.0} s  {}", start.elapsed().as_secs_f64(), step.fault.name());
        shared.windows.begin(step.fault.tier(), Instant::now());
        let made = perform(shared, fleet, step);
        shared.windows.end(Instant::now());
        if let Err(error) = made {
            shared.fail(format!("{}: {error:#}", step.fault.name()));
        }
    }
}

/// Makes a fault, and returns when everything runs again.
fn perform(shared: &Shared, fleet: &Fleet, step: Step) -> Result<()> {
    match step.fault {
        Fault::RedisStopped => fleet.with("redis", |redis| {
            redis.pause();
            shared.wait(step.length);
            redis.resume();
            Ok(())
        }),
        Fault::RedisKilled | Fault::OriginKilled => {
            let name = if step.fault == Fault::RedisKilled { "redis" } else { "origin" };
            fleet.with(name, |member| {
                member.kill();
                shared.wait(step.length);
                member.start()
            })
        }
        Fault::ShortenerKilled | Fault::ProxyKilled => {
            let name = if step.fault == Fault::ShortenerKilled { "up-2" } else { "proxy-2" };
            fleet.with(name, |member| {
                member.kill();
                member.start()
            })
        }
        Fault::ServerRestarted => fleet.with("server", |server| {
            server.stop()?;
            server.start()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_makes_the_same_faults() {
        let steps = |seed| {
            let mut schedule = Schedule::new(seed);
            [(); 12].map(|()| schedule.next())
        };
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }

    #[test]
    fn round_has_every_fault_and_the_first_of_eight_a_restart() {
        let mut schedule = Schedule::new(5);
        for round in 0..16 {
            let is_first = round % 8 == 0;
            let length = Fault::FREQUENT.len() + usize::from(is_first);
            let steps: Vec<Step> = (0..length).map(|_| schedule.next()).collect();
            let has = |fault| steps.iter().any(|step| step.fault == fault);
            assert!(Fault::FREQUENT.into_iter().all(has), "{steps:?}");
            assert_eq!(has(Fault::ServerRestarted), is_first, "{steps:?}");
            assert!(steps.iter().all(|step| step.pause.as_secs_f64() >= PAUSE.0));
        }
    }
}
