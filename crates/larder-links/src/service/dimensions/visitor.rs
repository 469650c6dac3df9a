//! What a redirect keeps of its request, until it is counted: header fields, and the country of the client.

use super::AgentKinds;
use crate::config::VisitDetails;
use crate::error::LinksError;
use http::header::{REFERER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use maxminddb::{PathElement, Reader};
use std::net::IpAddr;
use std::path::Path;

/// How much of a field is read.
const MAX_FIELD_BYTES: usize = 512;
/// Where databases of countries have the code of a country.
const ISO_CODE: [PathElement<'_>; 2] = [PathElement::Key("country"), PathElement::Key("iso_code")];

const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");
const PURPOSE: HeaderName = HeaderName::from_static("purpose");

/// Who follows a link. Neither the address nor anything else that identifies a person.
#[derive(Debug)]
pub(crate) struct Visitor<'r> {
    is_visit: bool,
    traits: Option<Traits<'r>>,
}

/// What is counted of a visitor.
#[derive(Debug)]
pub(super) struct Traits<'r> {
    pub(super) user_agent: Option<&'r [u8]>,
    pub(super) referrer: Option<&'r [u8]>,
    /// If there is a database of countries.
    pub(super) country: Option<Country>,
}

impl<'r> Visitor<'r> {
    /// The visitor of a request with these headers. `country` is asked only if it is counted.
    pub(crate) fn new(
        details: VisitDetails,
        headers: &'r HeaderMap,
        agents: &AgentKinds,
        country: impl FnOnce() -> Option<Country>,
    ) -> Visitor<'r> {
        if is_prefetch(headers) {
            return Visitor { is_visit: false, traits: None };
        }
        let user_agent = headers.get(USER_AGENT).map(beginning);
        let is_counted = match details {
            VisitDetails::All => true,
            VisitDetails::UnlessRefused => !refuses(headers),
            VisitDetails::None => false,
        };
        let traits = is_counted.then(|| {
            let referrer = headers.get(REFERER).map(beginning);
            Traits { user_agent, referrer, country: country() }
        });
        Visitor { is_visit: !user_agent.is_some_and(|text| agents.is_bot(text)), traits }
    }

    /// Whether a redirect is a visit: neither that of a bot, nor one that a browser requests before anybody has clicked.
    pub(crate) fn is_visit(&self) -> bool {
        self.is_visit
    }

    /// What is counted; `None` if at most the visit itself is.
    pub(super) fn traits(&self) -> Option<&Traits<'_>> {
        self.traits.as_ref()
    }
}

fn beginning(field: &HeaderValue) -> &[u8] {
    let bytes = field.as_bytes();
    &bytes[..bytes.len().min(MAX_FIELD_BYTES)]
}

/// Whether a browser prepares for a click that may never come: `Sec-Purpose: prefetch`, with parameters such as `prerender`, or
/// the older `Purpose: prefetch`.
fn is_prefetch(headers: &HeaderMap) -> bool {
    let begins = |value: &HeaderValue| value.as_bytes().trim_ascii_start().starts_with(b"prefetch");
    [SEC_PURPOSE, PURPOSE].iter().any(|name| headers.get(name).is_some_and(begins))
}

/// Whether the client asks not to be tracked: `DNT: 1`, or `Sec-GPC: 1` (Global Privacy Control).
fn refuses(headers: &HeaderMap) -> bool {
    ["dnt", "sec-gpc"].iter().any(|name| headers.get(*name).is_some_and(|value| value == "1"))
}

/// A country by its code of two letters (ISO 3166-1), or an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Country(Option<[u8; 2]>);

impl Country {
    /// The code; `None` if the country is unknown.
    pub(super) fn code(&self) -> Option<&str> {
        self.0.as_ref().and_then(|code| std::str::from_utf8(code).ok())
    }
}

/// A database of countries by address, in the format of MaxMind.
pub(crate) struct Countries(Reader<Vec<u8>>);

impl Countries {
    /// Reads a database into memory.
    ///
    /// # Errors
    /// [`LinksError::Config`] if it cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Countries, LinksError> {
        let reader = Reader::open_readfile(path).map_err(|error| LinksError::Config {
            field: "country_database",
            value: path.display().to_string(),
            expected: format!("a database of countries in the MaxMind format: {error}"),
        })?;
        Ok(Countries(reader))
    }

    pub(crate) fn find(&self, address: IpAddr) -> Country {
        let found = self.0.lookup(address).ok();
        let code = found.and_then(|found| found.decode_path::<&str>(&ISO_CODE).ok().flatten());
        let is_letters = |code: &&[u8; 2]| code.iter().all(u8::is_ascii_uppercase);
        Country(code.and_then(|code| <&[u8; 2]>::try_from(code.as_bytes()).ok()).filter(is_letters).copied())
    }
}
