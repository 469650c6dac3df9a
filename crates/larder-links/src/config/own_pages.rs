//! The operator's own answers for links that do not redirect: a page, or an address.

use super::Config;
use crate::error::LinksError;
use crate::model::address::Address;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Stands for the slug in a page or an address of the operator.
pub(crate) const SLUG: &str = "{slug}";
/// The longest page of the operator, in bytes: it is in memory.
const MAX_PAGE_BYTES: u64 = 256 * 1024;

/// The pages for links that do not redirect.
pub(crate) struct Pages {
    pub(crate) unknown: Option<OwnAnswer>,
    pub(crate) expired: Option<OwnAnswer>,
}

/// What the operator has chosen.
pub(crate) enum OwnAnswer {
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
