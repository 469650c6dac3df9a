//! What a visitor gets for a link that does not redirect: our page, or a page or an address of the operator.

use crate::config::Config;
use crate::error::LinksError;
use crate::model::address::Address;
use axum::body::Body;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, LOCATION};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Stands for the slug in a page or an address of the operator.
const SLUG: &str = "{slug}";
/// The longest page of the operator, in bytes: it is in memory.
const MAX_PAGE_BYTES: u64 = 256 * 1024;
/// How much of a path that is no slug a page contains, in characters.
const MAX_PATH_CHARS: usize = 200;

/// For pages of the operator: styles and pictures of their own, no scripts.
const POLICY: &str = "default-src 'none'; style-src 'self' 'unsafe-inline' https:; img-src 'self' data: https:; \
                      font-src 'self' data: https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TEMPLATE: &str = include_str!("../../static/error.html");

/// The pages for links that do not redirect.
pub(crate) struct Pages {
    unknown: Option<OwnAnswer>,
    expired: Option<OwnAnswer>,
}

/// What the operator has chosen.
enum OwnAnswer {
    /// The text of a page.
    Page(String),
    /// An address.
    Redirect(String),
}

impl Pages {
    /// Reads the pages of the operator.
    ///
    /// # Errors
    /// [`LinksError::Config`] if a page cannot be read, or there are a page and an address for the same links.
    pub(crate) fn open(config: &Config) -> Result<Pages, LinksError> {
        let own = |name, page: &Option<_>, redirect: &Option<String>| {
            let page = page.as_deref().map(|path: &Path| read_page(name, path)).transpose()?;
            Ok::<_, LinksError>(page.map(OwnAnswer::Page).or(redirect.clone().map(OwnAnswer::Redirect)))
        };
        Ok(Pages {
            unknown: own("unknown_page", &config.unknown_page, &config.unknown_redirect)?,
            expired: own("expired_page", &config.expired_page, &config.expired_redirect)?,
        })
    }

    /// 404: there is no link of this slug, or no link can have this path.
    pub(crate) fn unknown(&self, path: &str) -> Response {
        let text = "The link may have been mistyped, or it was deleted.";
        let ours = || error_page(StatusCode::NOT_FOUND, "There is no link here", text);
        self.unknown.as_ref().map_or_else(ours, |own| own.answer(StatusCode::NOT_FOUND, path))
    }

    /// 410: the link has reached its date or its limit of visits.
    pub(crate) fn expired(&self, slug: &str) -> Response {
        let text = "Its owner gave it an end, which it has reached.";
        self.gone(slug, "This link has expired", text)
    }

    /// 410: the link was deleted, and can be restored.
    pub(crate) fn deleted(&self, slug: &str) -> Response {
        self.gone(slug, "This link was deleted", "Its owner removed it.")
    }

    fn gone(&self, slug: &str, title: &str, text: &str) -> Response {
        let ours = || error_page(StatusCode::GONE, title, text);
        self.expired.as_ref().map_or_else(ours, |own| own.answer(StatusCode::GONE, slug))
    }
}

impl OwnAnswer {
    fn answer(&self, status: StatusCode, path: &str) -> Response {
        let slug: String = path.trim_start_matches('/').chars().take(MAX_PATH_CHARS).collect();
        let mut response = match self {
            OwnAnswer::Page(text) => {
                let policy = [(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))];
                (status, policy, Html(text.replace(SLUG, &escaped(&slug)))).into_response()
            }
            OwnAnswer::Redirect(address) => {
                let slug = url::form_urlencoded::byte_serialize(slug.as_bytes()).collect::<String>();
                let location = HeaderValue::try_from(address.replace(SLUG, &slug));
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::FOUND;
                // The address was checked, and the slug has no other characters than letters, digits and `%+-._`.
                response.headers_mut().extend(location.ok().map(|location| (LOCATION, location)));
                response
            }
        };
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// A page of ours. It contains fixed texts only, nothing of the request.
pub(crate) fn error_page(status: StatusCode, title: &str, text: &str) -> Response {
    let page = TEMPLATE.replace("{code}", status.as_str()).replace("{title}", title).replace("{text}", text);
    let no_store = HeaderValue::from_static("no-store");
    (status, [(CACHE_CONTROL, no_store)], Html(page)).into_response()
}

/// Checks the options of pages, but for what the files contain.
pub(crate) fn check(config: &Config) -> Result<(), LinksError> {
    let wrong = |field, value: &str, expected: &str| {
        Err(LinksError::Config { field, value: value.to_owned(), expected: expected.to_owned() })
    };
    for (field, page, redirect) in [
        ("unknown_redirect", &config.unknown_page, &config.unknown_redirect),
        ("expired_redirect", &config.expired_page, &config.expired_redirect),
    ] {
        let Some(redirect) = redirect else { continue };
        if page.is_some() {
            return wrong(field, redirect, "nothing beside the page for the same links");
        }
        let with = |slug: &str| Address::parse(&redirect.replace(SLUG, slug)).ok();
        let is_valid = match (with("a"), with("b")) {
            // A visitor must not choose the host.
            (Some(one), Some(other)) => one.authority() == other.authority(),
            _ => false,
        };
        if !is_valid || !redirect.is_ascii() {
            let expected = "an address in ASCII that begins with http:// or https://, with {slug} behind the host at most";
            return wrong(field, redirect, expected);
        }
    }
    Ok(())
}

fn read_page(field: &'static str, path: &Path) -> Result<String, LinksError> {
    let wrong = |expected: String| LinksError::Config { field, value: path.display().to_string(), expected };
    let mut text = String::new();
    let file = File::open(path).map_err(|error| wrong(format!("a file with a page in HTML: {error}")))?;
    let read = file.take(MAX_PAGE_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| wrong(format!("a file with a page in HTML: {error}")))?;
    if text.len() as u64 > MAX_PAGE_BYTES {
        return Err(wrong(format!("a page of at most {MAX_PAGE_BYTES} bytes")));
    }
    Ok(text)
}

/// A text for HTML, between tags and in attributes.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            _ => safe.push(character),
        }
    }
    safe
}
