//! Restarts parts that panic or fail, after a pause that grows. Caches and stores survive a restart, because their
//! owner is the caller and not the part.

use anyhow::{Context, Result};
use std::future::Future;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The pause before the first restart. It doubles with each restart.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After running this long a part counts as healthy, and its next pause is [`FIRST_PAUSE`] again.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// It failed and waits for its restart.
    Restarting,
    Stopped,
}

/// Access to the health of a part. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct HealthHandle(Arc<Mutex<Health>>);

#[derive(Clone, Debug)]
pub(crate) struct Health {
    pub(crate) state: State,
    pub(crate) restarts: u64,
    /// The reason of the last restart.
    pub(crate) last_failure: Option<String>,
}

impl HealthHandle {
    /// The health of a part that runs and was never restarted.
    pub(crate) fn running() -> HealthHandle {
        let health = Health { state: State::Running, restarts: 0, last_failure: None };
        HealthHandle(Arc::new(Mutex::new(health)))
    }

    /// The current health of the part.
    pub(crate) fn get(&self) -> Health {
        self.0.lock().expect("nothing panics under this lock").clone()
    }

    fn update(&self, change: impl FnOnce(&mut Health)) {
        change(&mut self.0.lock().expect("nothing panics under this lock"));
    }
}

/// Tells a part when to stop. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Completes when a stop is requested.
    pub(crate) async fn requested(mut self) {
        // An error means that the supervisor was dropped, which is also a stop.
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
    parts: JoinSet<Result<()>>,
}

impl Supervisor {
    pub(crate) fn new() -> Self {
        Supervisor { stop: watch::Sender::new(false), parts: JoinSet::new() }
    }

    /// A handle to the stop request.
    pub(crate) fn stop(&self) -> Stop {
        Stop(self.stop.subscribe())
    }

    /// Starts a part. `run` returns its future, and a new one for each restart; the future must end when a stop is
    /// requested.
    pub(crate) fn start<F>(
        &mut self,
        name: &'static str,
        run: impl Fn(Stop) -> F + Send + 'static,
    ) -> HealthHandle
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let health = HealthHandle::running();
        self.parts.spawn(supervise(name, run, self.stop(), health.clone()));
        health
    }

    /// Requests a stop of all parts and waits until the deadline. Returns whether all have stopped.
    ///
    /// # Errors
    /// That of a part that failed while it stopped; those of further parts are logged.
    pub(crate) async fn shut_down(mut self, deadline: Duration) -> Result<bool> {
        self.stop.send_replace(true);
        let mut failed = Ok(());
        let all = async {
            while let Some(ended) = self.parts.join_next().await {
                if let Ok(Err(error)) = ended
                    && let Err(former) = std::mem::replace(&mut failed, Err(error))
                {
                    tracing::error!(error = format!("{former:#}"), "a part failed while it stopped");
                }
            }
        };
        let have_ended = tokio::time::timeout(deadline, all).await.is_ok();
        failed.map(|()| have_ended)
    }
}

/// Runs a part until a stop is requested.
///
/// # Errors
/// That of the part, if it failed while it stopped.
async fn supervise<F>(
    name: &'static str,
    run: impl Fn(Stop) -> F,
    stop: Stop,
    health_handle: HealthHandle,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut pause = FIRST_PAUSE;
    let outcome = loop {
        let start = Instant::now();
        let ended = tokio::spawn(run(stop.clone())).await;
        if stop.is_requested() {
            break ended.unwrap_or(Ok(())).with_context(|| format!("{name} failed while it stopped"));
        }
        let reason = match ended {
            Ok(Ok(())) => "it ended without a request to stop".to_owned(),
            Ok(Err(error)) => format!("{error:#}"),
            Err(error) if error.is_panic() => "it panicked".to_owned(),
            Err(_) => break Ok(()),
        };
        if start.elapsed() >= HEALTHY_AFTER {
            pause = FIRST_PAUSE;
        }
        tracing::error!(part = name, reason, pause_ms = pause.as_millis() as u64, "restarting");
        health_handle.update(|health| {
            health.state = State::Restarting;
            health.last_failure = Some(reason);
        });
        if tokio::time::timeout(pause, stop.clone().requested()).await.is_ok() {
            break Ok(());
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        health_handle.update(|health| {
            health.state = State::Running;
            health.restarts += 1;
        });
    };
    health_handle.update(|health| health.state = State::Stopped);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test(start_paused = true)]
    async fn part_that_panics_or_fails_is_restarted_and_can_be_stopped() {
        let starts = Arc::new(AtomicU64::new(0));
        let mut supervisor = Supervisor::new();
        let counted = starts.clone();
        let health = supervisor.start("part", move |stop| {
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
        let last = health.get();
        assert_eq!((last.state, last.restarts), (State::Running, 2));
        assert_eq!(last.last_failure.as_deref(), Some("no luck"));
        assert!(supervisor.shut_down(Duration::from_secs(1)).await.expect("the part stops"));
        assert_eq!(health.get().state, State::Stopped);
    }

    #[tokio::test(start_paused = true)]
    async fn failure_of_a_part_that_stops_reaches_the_caller() {
        let mut supervisor = Supervisor::new();
        for name in ["one", "other"] {
            supervisor.start(name, |stop| async {
                stop.requested().await;
                anyhow::bail!("the disk is full")
            });
        }
        let error = supervisor.shut_down(Duration::from_secs(1)).await.expect_err("both fail");
        let text = format!("{error:#}");
        assert!(text.ends_with(" failed while it stopped: the disk is full"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn shut_down_does_not_wait_for_a_hanging_part_after_the_deadline() {
        let mut supervisor = Supervisor::new();
        supervisor.start("hanging", |_| std::future::pending());
        assert!(!supervisor.shut_down(Duration::from_secs(1)).await.expect("nothing fails"));
    }

    #[tokio::test(start_paused = true)]
    async fn part_stops_immediately_during_its_pause() {
        let mut supervisor = Supervisor::new();
        let health = supervisor.start("failing", |_| async { anyhow::bail!("always") });
        while health.get().restarts < 10 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(supervisor.shut_down(Duration::from_millis(10)).await.expect("nothing fails"));
    }
}
