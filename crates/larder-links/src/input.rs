//! From the bytes of a request to checked input: content type, size, JSON, fields, in this order.
//!
//! Fields are read one by one and not by a derived decoder, so that an error can name the field, its value and what
//! was expected. A field that is not known is an error as well: a misspelt option must not be ignored in silence.

use crate::address::Address;
use crate::reply::ApiError;
use crate::slug;
use crate::store::{LinkChange, ListQuery, MAX_BATCH_LINKS, MAX_PAGE_LINKS, MAX_TITLE_BYTES, NewLink};
use axum::body::{Body, to_bytes};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Request, StatusCode};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::timeout;

/// The largest body of a request about one link. An address of 8 KiB takes at most 48 KiB with every byte escaped.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024;

/// The largest body of a batch.
pub(crate) const MAX_BATCH_BODY_BYTES: usize = 4 * 1024 * 1024;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest text to search for, in bytes.
const MAX_SEARCH_BYTES: usize = 200;

const DEFAULT_PAGE_LINKS: usize = 50;

/// Reads a JSON body: 415 if it is not said to be JSON, 413 if it is larger than `limit`, 408 if it takes
/// more than 30 s, 400 if it is not JSON.
pub(crate) async fn read_json(request: Request<Body>, limit: usize) -> Result<Value, ApiError> {
    check_json_type(request.headers())?;
    let too_large = || {
        let message = format!("the body is too large: at most {limit} bytes are allowed");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if announced_bytes(request.headers()).is_some_and(|bytes| bytes > limit as u64) {
        return Err(too_large());
    }
    let reading = timeout(BODY_TIMEOUT, to_bytes(request.into_body(), limit)).await;
    let read = reading.map_err(|_| {
        let message = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
        ApiError::new(StatusCode::REQUEST_TIMEOUT, message)
    })?;
    let body = read.map_err(|error| {
        let source = std::error::Error::source(&error);
        if source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
            return too_large();
        }
        ApiError::bad_request("the body ended early")
    })?;
    serde_json::from_slice(&body)
        .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))
}

/// Requires `Content-Type: application/json`, with or without parameters.
pub(crate) fn check_json_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let essence = given.as_deref().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = "the Content-Type header must be application/json";
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

fn announced_bytes(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A link to be made: `{"url", "slug"?, "title"?}`.
pub(crate) fn new_link(input: &Value) -> Result<NewLink, ApiError> {
    let fields = object(input, &["url", "slug", "title"])?;
    let url = address(fields)?.ok_or_else(|| ApiError::address(&crate::AddressError::Empty, ""))?;
    // An empty slug or title is what an empty form field sends.
    let slug = text(fields, "slug")?.map(str::trim).filter(|slug| !slug.is_empty());
    if let Some(slug) = slug {
        slug::check_custom(slug).map_err(|error| ApiError::slug(error, slug))?;
    }
    Ok(NewLink { url, slug: slug.map(str::to_owned), title: title(fields)?.unwrap_or_default() })
}

/// A batch of links to be made. The outer error is the batch's, the inner ones are those of its items.
pub(crate) fn batch(input: &Value) -> Result<Vec<Result<NewLink, ApiError>>, ApiError> {
    let items = input
        .as_array()
        .ok_or_else(|| ApiError::invalid("body", "must be an array of links", kind(input)))?;
    if items.len() > MAX_BATCH_LINKS {
        let message = format!("at most {MAX_BATCH_LINKS} links are allowed in a batch");
        return Err(ApiError::invalid("body", message, &items.len().to_string()));
    }
    Ok(items.iter().map(new_link).collect())
}

/// A change to a link: `{"url"?, "title"?}`, at least one of them.
pub(crate) fn link_change(input: &Value) -> Result<LinkChange, ApiError> {
    let fields = object(input, &["url", "title"])?;
    let change = LinkChange { url: address(fields)?, title: title(fields)? };
    if change.url.is_none() && change.title.is_none() {
        return Err(ApiError::address(&crate::AddressError::Empty, ""));
    }
    Ok(change)
}

/// The query of a list: `limit`, `after` (a cursor, turned into an id by `decode`), `q`.
pub(crate) fn list_query(query: &str, decode: impl Fn(&str) -> Option<u64>) -> Result<ListQuery, ApiError> {
    let mut list = ListQuery { limit: DEFAULT_PAGE_LINKS, before: None, text: None };
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_PAGE_LINKS).contains(limit));
                let message = || format!("must be a number from 1 to {MAX_PAGE_LINKS}");
                list.limit = limit.ok_or_else(|| ApiError::invalid("limit", message(), &value))?;
            }
            "after" if value.is_empty() => {}
            "after" => {
                let message = "must be the `next` of an earlier answer";
                let id = decode(&value).filter(|&id| i64::try_from(id).is_ok());
                list.before = Some(id.ok_or_else(|| ApiError::invalid("after", message, &value))?);
            }
            "q" => {
                let text = value.trim();
                if text.len() > MAX_SEARCH_BYTES {
                    let message =
                        format!("must be at most {MAX_SEARCH_BYTES} bytes long, this has {}", text.len());
                    return Err(ApiError::invalid("q", message, text));
                }
                list.text = Some(text.to_owned()).filter(|text| !text.is_empty());
            }
            other => return Err(ApiError::invalid(other, "is not known; limit, after and q are", &value)),
        }
    }
    Ok(list)
}

fn object<'a>(input: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>, ApiError> {
    let fields =
        input.as_object().ok_or_else(|| ApiError::invalid("body", "must be an object", kind(input)))?;
    match fields.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, value)) => {
            let message = format!("is not known; these are: {}", known.join(", "));
            Err(ApiError::invalid(name, message, &value.to_string()))
        }
        None => Ok(fields),
    }
}

fn address(fields: &Map<String, Value>) -> Result<Option<Address>, ApiError> {
    let Some(text) = text(fields, "url")? else { return Ok(None) };
    Address::parse(text).map(Some).map_err(|error| ApiError::address(&error, text))
}

fn title(fields: &Map<String, Value>) -> Result<Option<String>, ApiError> {
    let Some(text) = text(fields, "title")? else { return Ok(None) };
    check_title(text).map(|title| Some(title.to_owned()))
}

/// A title without surrounding white space, if it is short enough.
pub(crate) fn check_title(text: &str) -> Result<&str, ApiError> {
    let title = text.trim();
    if title.len() > MAX_TITLE_BYTES {
        let message = format!("is {} bytes long; at most {MAX_TITLE_BYTES} are allowed", title.len());
        return Err(ApiError::invalid("title", message, title));
    }
    Ok(title)
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, ApiError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => {
            Err(ApiError::invalid(name, format!("must be a string, not {}", kind(other)), &other.to_string()))
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
