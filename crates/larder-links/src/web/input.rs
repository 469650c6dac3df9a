//! Parses the body of a request: content type, size, JSON, fields, in this order.
//!
//! Fields are read one by one and not by a derived decoder, so that an error can name the field, its value and the rule.
//! An unknown field is an error too: a misspelt option must not be ignored silently.

use crate::model::address::Address;
use crate::model::slug::{self, SlugCodec};
use crate::model::tag::Tag;
use crate::model::time;
use crate::service::api_error::ApiError;
use crate::service::chart;
use crate::store::{
    LinkOptions, LinkUpdate, ListQuery, MAX_BATCH_LINKS, MAX_PAGE_LINKS, MAX_TITLE_BYTES, NewLink, Sort,
};
use crate::web::cursor;
use axum::body::{Body, Bytes, to_bytes};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, StatusCode};
use jiff::tz::TimeZone;
use larder_web::has_json_type;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// The largest body of a request about one link. An address of 8 KiB takes at most 48 KiB with every byte escaped.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024;

/// The largest body of a batch.
pub(crate) const MAX_BATCH_BODY_BYTES: usize = 4 * 1024 * 1024;

/// The fields that a request can set.
const NEW_LINK_FIELDS: [&str; 8] =
    ["url", "slug", "title", "tags", "expires_at", "max_visits", "forward_query", "crawlable"];

/// The highest limit of visits. JavaScript represents it exactly.
const MAX_VISITS: u64 = 1_000_000_000_000;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest text to search for, in bytes.
const MAX_SEARCH_BYTES: usize = 200;

/// The links on one page if the request does not say how many.
pub(crate) const DEFAULT_PAGE_LINKS: usize = 50;

/// Reads a JSON body: 415 if its type is not JSON, 413 if it is larger than `limit`, 408 if it takes
/// more than 30 s, 400 if it is not JSON.
pub(crate) async fn read_json(request: Request<Body>, limit: usize) -> Result<Value, ApiError> {
    check_json_type(request.headers())?;
    let (head, body) = request.into_parts();
    serde_json::from_slice(&read_body(&head.headers, body, limit).await?).map_err(|error| not_json(&error))
}

fn not_json(error: &serde_json::Error) -> ApiError {
    ApiError::bad_request(format!("the body is not JSON: {error}"))
}

/// Reads a body: 413 if it is larger than `limit`, 408 if it takes more than 30 s.
pub(crate) async fn read_body(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let too_large = || {
        let message = format!("the body is too large: at most {limit} bytes are allowed");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if content_length(headers).is_some_and(|bytes| bytes > limit as u64) {
        return Err(too_large());
    }
    let reading = timeout(BODY_TIMEOUT, to_bytes(body, limit)).await;
    let read = reading.map_err(|_| {
        let message = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
        ApiError::new(StatusCode::REQUEST_TIMEOUT, message)
    })?;
    read.map_err(|error| {
        let source = std::error::Error::source(&error);
        if source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
            return too_large();
        }
        ApiError::bad_request("the body ended early")
    })
}

/// Requires `Content-Type: application/json`, with or without parameters.
pub(crate) fn check_json_type(headers: &HeaderMap) -> Result<(), ApiError> {
    if has_json_type(headers) {
        return Ok(());
    }
    let message = "the Content-Type header must be application/json";
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A new link: `{"url", "slug"?, "title"?, "tags"?, "expires_at"?, "max_visits"?, "forward_query"?,
/// "crawlable"?}`.
pub(crate) fn new_link(input: &Value) -> Result<NewLink, ApiError> {
    new_link_of(object(input, &NEW_LINK_FIELDS)?)
}

/// A link of an export, which has further fields. They are not imported: the database itself sets them.
pub(crate) fn exported_link(input: &Value) -> Result<NewLink, ApiError> {
    const SET_BY_DATABASE: [&str; 2] = ["created_at", "visits"];
    new_link_of(object(input, &[&NEW_LINK_FIELDS[..], &SET_BY_DATABASE].concat())?)
}

fn new_link_of(fields: &Map<String, Value>) -> Result<NewLink, ApiError> {
    let url = address(fields)?.ok_or_else(|| ApiError::address(&crate::AddressError::Empty, ""))?;
    // An empty form field arrives as an empty string.
    let slug = text(fields, "slug")?.map(str::trim).filter(|slug| !slug.is_empty());
    if let Some(slug) = slug {
        slug::check_custom(slug).map_err(|error| ApiError::slug(error, slug))?;
    }
    let options = options(fields)?;
    Ok(NewLink { url, slug: slug.map(str::to_owned), title: title(fields)?.unwrap_or_default(), options })
}

/// What the owner chose for a new link.
pub(crate) fn options(fields: &Map<String, Value>) -> Result<LinkOptions, ApiError> {
    Ok(LinkOptions {
        tags: tags(fields)?.unwrap_or_default(),
        expires_at: expires_at(fields)?.flatten(),
        max_visits: max_visits(fields)?.flatten(),
        forward_query: boolean(fields, "forward_query")?.unwrap_or_default(),
        crawlable: boolean(fields, "crawlable")?.unwrap_or_default(),
    })
}

/// A batch of new links. The outer error concerns the batch, an inner one its item.
///
/// Items are counted while they are found in the text and parsed one by one afterwards, so that a body of 4 MiB never
/// becomes a tree of a hundred times that.
pub(crate) fn batch(body: &[u8]) -> Result<Vec<Result<NewLink, ApiError>>, ApiError> {
    if body.trim_ascii_start().first() != Some(&b'[') {
        let value: &RawValue = serde_json::from_slice(body).map_err(|error| not_json(&error))?;
        return Err(ApiError::invalid("body", "must be an array of links", type_name_of_text(value.get())));
    }
    let mut is_too_long = false;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let items = Items { is_too_long: &mut is_too_long }.deserialize(&mut reader);
    if is_too_long {
        let message = format!("at most {MAX_BATCH_LINKS} links are allowed in a batch");
        return Err(ApiError::invalid("body", message, &format!("more than {MAX_BATCH_LINKS}")));
    }
    let items = items.and_then(|items| reader.end().map(|()| items)).map_err(|error| not_json(&error))?;
    Ok(items.into_iter().map(batch_item).collect())
}

fn batch_item(item: &RawValue) -> Result<NewLink, ApiError> {
    let text = item.get();
    if text.len() > MAX_BODY_BYTES {
        let message = format!("is {} bytes long; at most {MAX_BODY_BYTES} are allowed", text.len());
        return Err(ApiError::invalid("body", message, text));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    new_link(&value)
}

/// Finds the items of an array, and stops at the first one too many.
struct Items<'a> {
    is_too_long: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of links")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = array.next_element()? {
            if items.len() == MAX_BATCH_LINKS {
                *self.is_too_long = true;
                return Err(A::Error::custom("too long"));
            }
            items.push(item);
        }
        Ok(items)
    }
}

/// The text of a sign-in: `{"token"}`.
pub(crate) fn token(input: &Value) -> Result<&str, ApiError> {
    // Unlike that of other fields, a wrong value is not sent back: it may be a token under a misspelt key.
    let token = input.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("token"));
    let token = token.and_then(Value::as_str).map(str::trim);
    token.ok_or_else(|| ApiError::invalid("token", "must be a string, and the only field", ""))
}

/// The update of a link: at least one of the fields of [`new_link`] but the slug. A null `expires_at` or `max_visits`
/// removes the limit.
pub(crate) fn link_update(input: &Value) -> Result<LinkUpdate, ApiError> {
    let known: Vec<&str> = NEW_LINK_FIELDS.into_iter().filter(|name| *name != "slug").collect();
    let fields = object(input, &known)?;
    let is_empty = fields
        .iter()
        .all(|(name, value)| value.is_null() && !matches!(name.as_str(), "expires_at" | "max_visits"));
    if is_empty {
        let message = format!("must have one of the fields {}, and not null", known.join(", "));
        return Err(ApiError::invalid("body", message, &input.to_string()));
    }
    Ok(LinkUpdate {
        url: address(fields)?,
        title: title(fields)?,
        tags: tags(fields)?,
        expires_at: expires_at(fields)?,
        max_visits: max_visits(fields)?,
        forward_query: boolean(fields, "forward_query")?,
        crawlable: boolean(fields, "crawlable")?,
    })
}

/// The query of a list: `limit`, `sort`, `after` (a cursor of that order), `q`, `tag`, `deleted`.
pub(crate) fn list_query<'a>(
    parameters: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
    slugs: &SlugCodec,
) -> Result<ListQuery, ApiError> {
    let mut list = ListQuery { limit: DEFAULT_PAGE_LINKS, ..ListQuery::default() };
    let mut cursor = None;
    for (name, value) in parameters {
        match &*name {
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_PAGE_LINKS).contains(limit));
                let message = || format!("must be a whole number from 1 to {MAX_PAGE_LINKS}");
                list.limit = limit.ok_or_else(|| ApiError::invalid("limit", message(), &value))?;
            }
            "sort" => {
                list.sort = match &*value {
                    "newest" => Sort::Newest,
                    "visits" => Sort::Visits,
                    _ => return Err(ApiError::invalid("sort", "must be newest or visits", &value)),
                };
            }
            "after" => cursor = Some(value).filter(|value| !value.is_empty()),
            "q" => {
                let text = value.trim();
                if text.len() > MAX_SEARCH_BYTES {
                    let message =
                        format!("must be at most {MAX_SEARCH_BYTES} bytes long, this has {}", text.len());
                    return Err(ApiError::invalid("q", message, text));
                }
                if text.contains('\0') {
                    return Err(ApiError::invalid("q", "must not contain a NUL", text));
                }
                list.text = Some(text.to_owned()).filter(|text| !text.is_empty());
            }
            "tag" if value.is_empty() => {}
            "tag" => {
                let tag = Tag::parse(&value);
                list.tag = Some(tag.map_err(|error| ApiError::invalid("tag", error.to_string(), &value))?);
            }
            "deleted" => {
                let is_deleted =
                    value.parse().map_err(|_| ApiError::invalid("deleted", "must be true or false", &value));
                list.deleted = is_deleted?;
            }
            other => {
                let message = "is unknown; expected limit, sort, after, q, tag or deleted";
                return Err(ApiError::invalid(other, message, &value));
            }
        }
    }
    if let Some(text) = cursor {
        let message = "must be the `next` of an earlier response with the same sort";
        let position = cursor::decode(&text, list.sort, slugs);
        list.after = Some(position.ok_or_else(|| ApiError::invalid("after", message, &text))?);
    }
    Ok(list)
}

/// A time zone by its name; UTC if there is none.
pub(crate) fn time_zone(name: Option<&str>) -> Result<TimeZone, ApiError> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(TimeZone::UTC) };
    chart::zone(name)
        .ok_or_else(|| ApiError::invalid("tz", "must be a time zone such as Europe/Berlin", name))
}

/// The query of one link: `tz`.
pub(crate) fn link_query(query: Option<&str>) -> Result<TimeZone, ApiError> {
    let mut zone = TimeZone::UTC;
    for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match &*name {
            "tz" => zone = time_zone(Some(&value))?,
            other => return Err(ApiError::invalid(other, "is unknown; expected tz", &value)),
        }
    }
    Ok(zone)
}

fn object<'a>(input: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>, ApiError> {
    let fields =
        input.as_object().ok_or_else(|| ApiError::invalid("body", "must be an object", type_name(input)))?;
    match fields.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, value)) => {
            let message = format!("is unknown; expected one of: {}", known.join(", "));
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

/// A title without surrounding white space, if it is short enough and without control characters other than white space.
pub(crate) fn check_title(text: &str) -> Result<&str, ApiError> {
    let title = text.trim();
    if title.len() > MAX_TITLE_BYTES {
        let message = format!("is {} bytes long; at most {MAX_TITLE_BYTES} are allowed", title.len());
        return Err(ApiError::invalid("title", message, title));
    }
    // Titles are printed by programs too; an escape sequence would reach the terminal. White space may be inside a title
    // of several lines, as spreadsheets have them.
    if let Some(control) = title.chars().find(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r')) {
        let message = format!("contains the control character {control:?}");
        return Err(ApiError::invalid("title", message, title));
    }
    Ok(title)
}

fn tags(fields: &Map<String, Value>) -> Result<Option<Vec<Tag>>, ApiError> {
    let invalid = |message: String, value: &Value| ApiError::invalid("tags", message, &value.to_string());
    let texts = match fields.get("tags") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(items)) => items.iter().map(|item| {
            item.as_str().ok_or_else(|| invalid(format!("must be strings, not {}", type_name(item)), item))
        }),
        Some(other) => return Err(invalid(format!("must be an array, not {}", type_name(other)), other)),
    };
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let tags = Tag::parse_all(texts.iter().copied());
    tags.map(Some).map_err(|error| ApiError::invalid("tags", error.to_string(), &texts.join(", ")))
}

/// The date of expiry: `None` if absent, `Some(None)` if null.
fn expires_at(fields: &Map<String, Value>) -> Result<Option<Option<i64>>, ApiError> {
    let date = match fields.get("expires_at") {
        None => return Ok(None),
        Some(Value::Null) => return Ok(Some(None)),
        Some(Value::String(text)) => time::parse(text),
        Some(other) => other.as_i64().filter(|&ms| time::is_in_range(ms)),
    };
    let message =
        "must be a time such as 2027-01-31T12:00:00Z, or milliseconds since 1970, in the years 1970 to 9998";
    let date =
        date.ok_or_else(|| ApiError::invalid("expires_at", message, &fields["expires_at"].to_string()))?;
    Ok(Some(Some(date)))
}

/// The limit of visits: `None` if absent, `Some(None)` if null.
fn max_visits(fields: &Map<String, Value>) -> Result<Option<Option<u64>>, ApiError> {
    match fields.get("max_visits") {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(value) => {
            let max = value.as_u64().filter(|max| (1..=MAX_VISITS).contains(max));
            let message = || format!("must be a whole number from 1 to {MAX_VISITS}");
            max.map(|max| Some(Some(max)))
                .ok_or_else(|| ApiError::invalid("max_visits", message(), &value.to_string()))
        }
    }
}

fn boolean(fields: &Map<String, Value>, name: &str) -> Result<Option<bool>, ApiError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(is_set)) => Ok(Some(*is_set)),
        Some(other) => Err(ApiError::invalid(name, "must be true or false", &other.to_string())),
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, ApiError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(ApiError::invalid(
            name,
            format!("must be a string, not {}", type_name(other)),
            &other.to_string(),
        )),
    }
}

fn type_name_of_text(json: &str) -> &'static str {
    match json.bytes().next() {
        Some(b'n') => "null",
        Some(b't' | b'f') => "a boolean",
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        _ => "a number",
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
