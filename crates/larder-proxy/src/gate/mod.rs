//! The gate: asks the origin whether a client may have stored responses that are not for everyone, and who it is.
//!
//! ```text
//! cache ─ stored response of a rule with a scope ─► Gate ─┬─ remembered ──────────► verdict
//!                                                         └─ question ─► origin ──► verdict, or none: 503
//! ```
//!
//! The cache asks, so that it does so only where the verdict matters. It knows two verdicts; that there is none is noted in the
//! request, which is refused when it gets to the origins.

mod progress;
mod question;
mod remembered;
mod verdict;

pub(crate) use progress::GateProgress;

use crate::config::ms;
use crate::error::ProxyError;
use crate::gate::question::Question;
use crate::gate::remembered::Remembered;
use crate::origin::Origins;
use crate::rules::config::GateConfig;
use http::header::HeaderName;
use http::request::Parts;
use http::uri::PathAndQuery;
use larder_http::Access;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;
use tower_service::Service;

/// The gate. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    origins: Origins,
    path: PathAndQuery,
    principal_header: HeaderName,
    timeout: Duration,
    /// `None` if each use is asked about.
    remembered: Option<Remembered>,
    /// Whether the last question had no answer: the log has the first of several.
    is_failing: AtomicBool,
}

impl Gate {
    /// The gate of a checked configuration.
    ///
    /// # Errors
    /// The path or the field is not valid, or there is no memory for verdicts.
    pub(crate) fn new(config: &GateConfig, origins: Origins) -> Result<Gate, ProxyError> {
        let wrong = |field, value: &String| ProxyError::Config {
            field,
            value: format!("{value:?}"),
            expected: "one that is valid in HTTP".to_owned(),
        };
        let path = config.path.parse().map_err(|_| wrong("gate.path", &config.path))?;
        let principal_header = config.principal_header.parse();
        Ok(Gate(Arc::new(Shared {
            origins,
            path,
            principal_header: principal_header
                .map_err(|_| wrong("gate.principal_header", &config.principal_header))?,
            timeout: ms(config.timeout_ms),
            remembered: Remembered::new(Duration::from_secs(config.ttl_seconds))?,
            is_failing: AtomicBool::new(false),
        })))
    }

    /// The verdict on a request. It is denied without a credential that its rule names, and without an answer of the gate, which
    /// the request's [`GateProgress`] knows.
    pub(crate) fn judge(&self, head: &Parts) -> impl Future<Output = Access> + Send + use<> {
        let progress = head.extensions.get::<GateProgress>().cloned();
        let asked = progress.and_then(|progress| Some((Question::about(head, &self.0.path)?, progress)));
        if let Some((_, progress)) = &asked {
            progress.begin();
        }
        let gate = self.0.clone();
        async move {
            let Some((question, progress)) = asked else { return Access::Denied };
            let answer = gate.answer(question).await;
            progress.end(answer.as_ref().err());
            answer.unwrap_or(Access::Denied)
        }
    }
}

impl Shared {
    /// The answer to a question. The error says why there is none.
    async fn answer(&self, question: Question) -> Result<Access, String> {
        let key = self.remembered.as_ref().map(|remembered| (remembered, question.key()));
        if let Some((remembered, key)) = &key
            && let Some(access) = remembered.get(key)
        {
            return Ok(access);
        }
        let asked = timeout(self.timeout, self.ask(question)).await;
        let answer = asked
            .unwrap_or_else(|_| Err(format!("it did not respond within {} ms", self.timeout.as_millis())));
        let was_failing = self.is_failing.swap(answer.is_err(), Ordering::Relaxed);
        match &answer {
            Err(reason) if !was_failing => tracing::warn!(reason, "the gate does not answer"),
            Err(reason) => tracing::debug!(reason, "the gate does not answer"),
            Ok(_) if was_failing => tracing::info!("the gate answers again"),
            Ok(_) => {}
        }
        if let (Some((remembered, key)), Ok(access)) = (key, &answer) {
            remembered.insert(key, access.clone());
        }
        answer
    }

    async fn ask(&self, question: Question) -> Result<Access, String> {
        let response = self.origins.clone().call(question.into_request()).await;
        let (head, body) = response.map_err(|error| error.to_string())?.into_parts();
        let access = verdict::of(&head, &self.principal_header)?;
        verdict::read_rest(body).await.map_err(|error| error.to_string())?;
        Ok(access)
    }
}
