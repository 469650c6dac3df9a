//! `/healthz` and `/readyz`, for what restarts a process and for what sends it requests.
//!
//! | | 200 | 503 | who asks |
//! |---|---|---|---|
//! | `/healthz` | every part runs, degraded or not | a part is restarting, stopped or unknown | what restarts the process: a restart brings no Redis back |
//! | `/readyz` | every part answers its requests | a part does not run, or lacks what its answers need | what sends it requests |

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::parts::sample::PartSample;
use crate::routes::state::AppState;

/// Liveness: every part runs.
pub(crate) async fn live(State(state): State<AppState>) -> Response {
    let not_running: Vec<String> = state.registry.sample().iter().filter_map(not_running).collect();
    answer(not_running.is_empty(), "ok\n", &not_running)
}

/// Readiness: every part answers its requests. The body tells also what a part lacks that is ready.
pub(crate) async fn ready(State(state): State<AppState>) -> Response {
    let parts = state.registry.sample();
    let lines: Vec<String> =
        parts.iter().flat_map(|part| not_running(part).into_iter().chain(lacks(part))).collect();
    answer(parts.iter().all(PartSample::is_ready), "ready\n", &lines)
}

fn answer(is_well: bool, first: &str, lines: &[String]) -> Response {
    match is_well {
        true => [first, &lines.concat()].concat().into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, lines.concat()).into_response(),
    }
}

fn not_running(part: &PartSample) -> Option<String> {
    let (name, state) = (&part.name, part.sample.state);
    (!state.is_alive()).then(|| match &part.sample.last_failure {
        Some(failure) => format!("{name} {}: {failure}\n", state.as_str()),
        None => format!("{name} {}\n", state.as_str()),
    })
}

/// A line for each thing that a part lacks.
fn lacks(part: &PartSample) -> impl Iterator<Item = String> {
    part.sample.degradations.iter().map(|own| {
        let (name, seconds) = (&part.name, own.lasting.as_secs());
        format!("{name} degraded by {} for {seconds} s: {}\n", own.name, own.meaning)
    })
}
