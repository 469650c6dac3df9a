//! What the parts say about a key or a URL, for `larder explain` and the admin port.

use axum::http::{StatusCode, Uri};
use larder::Validity;
use larder_admin::{ExplainFuture, Explainer, Explanation, Registry};
use larder_links::{Links, SlugState};
use larder_server::Store;
use std::time::Duration;
use tokio::time::timeout;

/// How long an explanation waits for the database of the shortener.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Lets the shortener explain.
pub(crate) fn of_links(registry: &Registry, links: &Links) {
    registry.explain_with("links", SlugExplainer(links.clone()));
}

/// Lets the cache server explain.
pub(crate) fn of_server(registry: &Registry, store: Store) {
    registry.explain_with("server", move |target: &str| explain_key(&store, target));
}

struct SlugExplainer(Links);

impl Explainer for SlugExplainer {
    fn explain<'a>(&'a self, target: &'a str) -> ExplainFuture<'a> {
        Box::pin(explain_slug(&self.0, target))
    }
}

/// The target is a slug, or a URL whose path is one.
async fn explain_slug(links: &Links, target: &str) -> Option<Explanation> {
    let path = url_of(target).map(|url| url.path().trim_start_matches('/').to_owned());
    let slug = path.as_deref().unwrap_or(target);
    let found = links.inspect(slug)?;
    let lower = if found.has_redis { "Redis, then the database" } else { "the database" };
    let validity = found.entry.as_ref().map(|entry| entry.validity);
    let source = match validity {
        None => format!("not in memory: the next request asks {lower}, and the answer is stored"),
        Some(Validity::Valid) => "answered from memory".to_owned(),
        Some(Validity::Stale) => format!("stale: {lower} is asked, and the entry is served if that fails"),
        Some(Validity::Unknown) => "in memory, and compared with Redis before it is served".to_owned(),
        Some(Validity::Dead) => format!("invalidated: the next request asks {lower}"),
    };
    // Memory knows no visits, so that the limit of a link is looked up. A remembered absence is served whatever the database
    // has.
    let is_absent = found.entry.as_ref().is_some_and(|entry| entry.is_absence);
    let is_served = matches!(validity, Some(Validity::Valid | Validity::Unknown));
    let state = state_of(links, slug).await;
    let (status, reason) = match state {
        Ok(SlugState::Unknown) => (Some(StatusCode::NOT_FOUND), "there is no such link".to_owned()),
        Ok(_) if is_absent && is_served => {
            (Some(StatusCode::NOT_FOUND), "there was no such link; the database has it now".to_owned())
        }
        Ok(SlugState::Redirects) => (Some(links.redirect_status()), String::new()),
        Ok(SlugState::Deleted) => (Some(StatusCode::GONE), "the link was deleted".to_owned()),
        Ok(SlugState::Expired) => (Some(StatusCode::GONE), "the link has expired".to_owned()),
        Ok(SlugState::UsedUp) => (Some(StatusCode::GONE), "the link has had all of its visits".to_owned()),
        Ok(state) => (None, format!("{state:?}")),
        Err(error) => (None, error),
    };
    let verdict = match status {
        Some(_) if reason.is_empty() => source,
        Some(status) => format!("{source}; a request gets {}: {reason}", status.as_u16()),
        None => format!("{source}; whether there is a link that redirects is unknown: {reason}"),
    };
    let explanation = Explanation::new(verdict)
        .fact("slug", slug)
        .fact("redis_key", String::from_utf8_lossy(&found.redis_key))
        .fact("status", status.map(|status| status.as_u16()));
    let Some(entry) = found.entry else { return Some(explanation.fact("tier", "none")) };
    let tags: Vec<&str> = entry.tags.iter().map(|tag| &**tag).collect();
    Some(
        explanation
            .fact("tier", "memory")
            .fact("value", if entry.is_absence { "no such link" } else { "a link" })
            .fact("age_seconds", entry.age.as_secs_f64())
            .fact("ttl_seconds", entry.ttl.as_secs_f64())
            .fact("grace_seconds", entry.grace.as_secs_f64())
            .fact("tags", tags),
    )
}

/// What the database says of a slug, or why it says nothing.
async fn state_of(links: &Links, slug: &str) -> Result<SlugState, String> {
    let state = timeout(DATABASE_TIMEOUT, links.slug_state(slug)).await;
    let late = |_| format!("the database did not respond within {} s", DATABASE_TIMEOUT.as_secs());
    state.map_err(late)?.map_err(|error| error.to_string())
}

/// The target is a key. A URL is taken for one only if it exists.
fn explain_key(store: &Store, target: &str) -> Option<Explanation> {
    let found = store.inspect(target.as_bytes());
    let Some(first) = found.first() else {
        let missing = || Explanation::new("no database has this key: GET returns null").fact("key", target);
        return url_of(target).is_none().then(|| missing().fact("tier", "none"));
    };
    let databases: Vec<u8> = found.iter().map(|entry| entry.database).collect();
    Some(
        Explanation::new(format!("answered from database {}", first.database))
            .fact("key", target)
            .fact("tier", "memory")
            .fact("databases", databases)
            .fact("encoding", first.encoding)
            .fact("ttl_seconds", first.ttl.map(|ttl| ttl.as_secs_f64()))
            .fact("bytes", first.charged_bytes),
    )
}

fn url_of(target: &str) -> Option<Uri> {
    let is_url = target.starts_with("http://") || target.starts_with("https://");
    target.parse().ok().filter(|_| is_url)
}
