//! Keeps the parts running: one that panics or fails is started again, after a pause that grows, and everything that
//! it uses is kept, for it is made outside and only lent.

use anyhow::Result;
use std::future::Future;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The pause before the first restart; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A part that ran this long is taken to be well: the next pause is the first again.
const WELL_AFTER: Duration = Duration::from_secs(10);

/// What a part is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// It has failed and waits to be started again.
    Pausing,
    Stopped,
}

/// A part as the dashboard sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Watched(Arc<Mutex<Health>>);

#[derive(Clone, Debug)]
pub(crate) struct Health {
    pub(crate) state: State,
    pub(crate) restarts: u64,
    /// Why it was last started again.
    pub(crate) last_failure: Option<String>,
}

impl Watched {
    /// How the part is now.
    pub(crate) fn health(&self) -> Health {
        self.0.lock().expect("nothing panics under this lock").clone()
    }

    fn change(&self, change: impl FnOnce(&mut Health)) {
        change(&mut self.0.lock().expect("nothing panics under this lock"));
    }
}

/// The request to stop, as a part sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Completes when the parts are to stop.
    pub(crate) async fn requested(mut self) {
        // A supervisor that is gone wants nothing any more either.
        _ = self.0.wait_for(|stop| *stop).await;
    }

    fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}

/// The parts under supervision.
#[derive(Debug)]
pub(crate) struct Supervisor {
    stop: watch::Sender<bool>,
    parts: JoinSet<()>,
}

impl Supervisor {
    pub(crate) fn new() -> Self {
        Supervisor { stop: watch::Sender::new(false), parts: JoinSet::new() }
    }

    /// What the parts wait for.
    pub(crate) fn stop(&self) -> Stop {
        Stop(self.stop.subscribe())
    }

    /// Starts a part: `run` makes its future, again for each restart. The future ends when a stop is requested.
    pub(crate) fn start<F>(&mut self, name: &'static str, run: impl Fn(Stop) -> F + Send + 'static) -> Watched
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let health = Health { state: State::Running, restarts: 0, last_failure: None };
        let watched = Watched(Arc::new(Mutex::new(health)));
        self.parts.spawn(supervise(name, run, self.stop(), watched.clone()));
        watched
    }

    /// Asks all parts to stop and waits for them until the deadline. False if some had not stopped by then.
    pub(crate) async fn shut_down(mut self, deadline: Duration) -> bool {
        self.stop.send_replace(true);
        let all = async { while self.parts.join_next().await.is_some() {} };
        tokio::time::timeout(deadline, all).await.is_ok()
    }
}

async fn supervise<F>(name: &'static str, run: impl Fn(Stop) -> F, stop: Stop, watched: Watched)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let ended = tokio::spawn(run(stop.clone())).await;
        if stop.is_requested() {
            if let Ok(Err(error)) = &ended {
                tracing::error!(part = name, error = format!("{error:#}"), "did not stop cleanly");
            }
            break;
        }
        let reason = match ended {
            Ok(Ok(())) => "it ended without being asked to".to_owned(),
            Ok(Err(error)) => format!("{error:#}"),
            Err(error) if error.is_panic() => "it panicked".to_owned(),
            Err(_) => break,
        };
        if began.elapsed() >= WELL_AFTER {
            pause = FIRST_PAUSE;
        }
        tracing::error!(part = name, reason, pause_ms = pause.as_millis() as u64, "restarting");
        watched.change(|health| {
            health.state = State::Pausing;
            health.last_failure = Some(reason);
        });
        if tokio::time::timeout(pause, stop.clone().requested()).await.is_ok() {
            break;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        watched.change(|health| {
            health.state = State::Running;
            health.restarts += 1;
        });
    }
    watched.change(|health| health.state = State::Stopped);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test(start_paused = true)]
    async fn a_part_that_panics_or_fails_is_started_again_and_stops_when_asked() {
        let starts = Arc::new(AtomicU64::new(0));
        let mut supervisor = Supervisor::new();
        let counted = starts.clone();
        let watched = supervisor.start("part", move |stop| {
            let start = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match start {
                    0 => panic!("on purpose"),
                    1 => anyhow::bail!("no luck"),
                    _ => stop.requested().await,
                }
                Ok(())
            }
        });
        while starts.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let health = watched.health();
        assert_eq!((health.state, health.restarts), (State::Running, 2));
        assert_eq!(health.last_failure.as_deref(), Some("no luck"));
        assert!(supervisor.shut_down(Duration::from_secs(1)).await);
        assert_eq!(watched.health().state, State::Stopped);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_does_not_stop_is_not_waited_for_for_ever() {
        let mut supervisor = Supervisor::new();
        supervisor.start("deaf", |_| std::future::pending());
        assert!(!supervisor.shut_down(Duration::from_secs(1)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_in_its_pause_stops_at_once() {
        let mut supervisor = Supervisor::new();
        let watched = supervisor.start("failing", |_| async { anyhow::bail!("always") });
        while watched.health().restarts < 10 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(supervisor.shut_down(Duration::from_millis(10)).await);
    }
}
