//! The decision by the fields of an origin that knows nothing of this cache, as RFC 9111 gives it to a shared cache. Settings,
//! such as those of a proxy's rules, may replace the freshness, and add tags and a scope; they store nothing that the origin
//! forbids.

use std::time::{Duration, SystemTime};

use http::Response;
use http::header::ETAG;

use super::MAX_TTL;
use crate::headers::vary;
use crate::policy::plan::{LaterUse, Plan};
use crate::policy::scope::Scope;
use crate::policy::settings::Settings;
use crate::rfc::freshness::Received;
use crate::rfc::storing::{self, Asked, Operator};
use crate::status::Reason;

/// How long a stale response is kept for its validation. The engine evicts what is not used before it needs the room.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long after its TTL a response may be served if the origin cannot be reached, unless the origin forbids that or says how
/// long (RFC 9111, 4.2.4).
const UNREACHABLE: Duration = Duration::from_secs(3600);

/// # Errors
/// The first reason against storing the response.
pub(super) fn plan<B>(
    response: &Response<B>,
    settings: Settings,
    asked: Asked,
    delay: Duration,
) -> Result<Plan, Reason> {
    let headers = response.headers();
    let operator = Operator {
        own_field: None,
        ttl: settings.ttl,
        permits_private: settings.scope == Some(Scope::Private),
        permits_authorized: settings.scope.is_some(),
    };
    let received = Received { at: SystemTime::now(), delay };
    let terms = storing::terms(operator, asked, response.status(), headers, received)?;
    let ttl = if terms.must_validate { Duration::ZERO } else { terms.lifetime.saturating_sub(terms.age) };
    let ttl = settings.limit().map_or(ttl, |limit| ttl.min(limit)).min(MAX_TTL);
    // A refresh in the background has no credentials, so that the gate would deny it.
    let is_shared = settings.scope < Some(Scope::Gated);
    let granted =
        |duration: Option<Duration>| duration.filter(|_| is_shared).unwrap_or_default().min(MAX_TTL);
    let grace = granted(terms.stale_while_revalidate.or(settings.swr));
    let on_error = granted(terms.stale_if_error);
    let if_unreachable = granted(terms.may_be_stale.then(|| terms.stale_if_error.unwrap_or(UNREACHABLE)));
    let validated = if terms.has_validator { KEPT } else { Duration::ZERO };
    let later = LaterUse {
        kept: grace.max(on_error).max(if_unreachable).max(validated),
        on_error,
        if_unreachable,
        is_heuristic: terms.is_heuristic,
        is_immutable: terms.is_immutable,
        has_own_etag: headers.contains_key(ETAG),
    };
    let plan = Plan {
        ttl,
        grace,
        later: (!later.kept.is_zero()).then(|| Box::new(later)),
        age: terms.age,
        outlives_values: settings.outlives_values,
        tags: settings.tags,
        scope: settings.scope.or(terms.is_for_authorized.then_some(Scope::Public)),
        labels: settings.labels,
        #[cfg(feature = "axum")]
        route: settings.route,
        vary: vary::parse_vary(headers)?,
        fields_read: settings.fields_read,
        unstored_fields: terms.unstored_fields.into(),
    };
    if plan.is_useless() { Err(Reason::ZeroTtl) } else { Ok(plan) }
}
