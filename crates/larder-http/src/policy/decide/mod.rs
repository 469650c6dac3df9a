//! The decision by the head of a response whether it may be stored: by its handler's settings ([`app`]), or by its own fields
//! ([`origin`]), as the profile says. Whether the client that asked for it may fill it, which the credentials of its request
//! decide, is checked after that: by `Requester::check` in `gate`.

mod app;
mod origin;

use std::time::Duration;

use http::{Extensions, Response};

use crate::policy::cached::Cached;
use crate::policy::ctx::{CacheCtx, ForbiddenBecause};
use crate::policy::plan::Plan;
use crate::policy::profile::Profile;
use crate::policy::rules::Rules;
use crate::policy::settings::{MAX_TAGS, Settings};
use crate::rfc::storing::Asked;
use crate::status::Reason;

/// Longer TTLs and grace periods are reduced to a year, as usual in HTTP caches (RFC 9111, 1.2.2 allows up to 68
/// years).
const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// Decides by the head of a response whether it may be stored. Adds its labels to its extensions. `delay` is the time from
/// the start of its request.
///
/// # Errors
/// The first reason against storing it. The settings are checked first, then the headers.
pub(crate) fn plan<B>(
    response: &mut Response<B>,
    ctx: &CacheCtx,
    rules: &Rules,
    asked: Asked,
    delay: Duration,
) -> Result<Plan, Reason> {
    let settings = merged_settings(response.extensions_mut(), ctx);
    settings.labels.add_to(response.extensions_mut());
    if let Some(reason) = settings.forbidden {
        response.extensions_mut().insert(ForbiddenBecause(reason));
        return Err(Reason::Forbidden);
    }
    if settings.tags.len() > MAX_TAGS {
        return Err(Reason::TooManyTags);
    }
    match rules.profile {
        Profile::App => app::plan(response, settings, &rules.cached_errors),
        Profile::Rfc => origin::plan(response, settings, asked, delay),
    }
}

/// Adds the labels of a response whose settings are not used.
pub(crate) fn add_labels<B>(response: &mut Response<B>, ctx: &CacheCtx) {
    let extensions = response.extensions_mut();
    let mut labels = ctx.settings().labels.clone();
    if let Some(Cached(own)) = extensions.get::<Cached>() {
        labels.merge(own.labels.clone());
    }
    labels.add_to(extensions);
}

fn merged_settings(extensions: &mut Extensions, ctx: &CacheCtx) -> Settings {
    let mut settings = std::mem::take(&mut *ctx.settings());
    if let Some(Cached(own)) = extensions.remove::<Cached>() {
        settings.merge(own);
    }
    settings
}

#[cfg(test)]
mod tests;
