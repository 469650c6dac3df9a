//! The import's client of `POST /api/links/batch`: one request per batch, one result per link.

use super::{ImportError, ItemResult};
use crate::model::address::without_credentials;
use crate::model::tag::Tag;
use crate::store::{LinkOptions, NewLink};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Delays before a batch is sent again. That is safe: a batch that arrives twice creates no link twice.
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];
const MIN_WAIT: Duration = Duration::from_millis(100);
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// A running shortener, reached over HTTP.
pub(super) struct Server {
    uri: Uri,
    /// The value of `Authorization`.
    authorization: Option<HeaderValue>,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// Why one attempt failed.
enum Failure {
    /// The server's rate limit, with the time to wait.
    RateLimited(Duration),
    /// Another attempt may succeed.
    Transient(String),
    /// Another attempt fails too.
    Permanent(String),
}

impl Server {
    /// A server by its address, such as `http://127.0.0.1:8080`.
    pub(super) fn new(address: &str, token: Option<&str>) -> Result<Server, ImportError> {
        let wrong = || ImportError::Address { value: without_credentials(address) };
        let base: Uri = address.parse().map_err(|_| wrong())?;
        let authority = base.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or_else(wrong)?;
        if base.scheme_str() != Some("http") || !matches!(base.path(), "" | "/") || base.query().is_some() {
            return Err(wrong());
        }
        let uri = format!("http://{authority}/api/links/batch").parse().map_err(|_| wrong())?;
        let authorization = match token {
            Some(token) => {
                let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                    .map_err(|_| ImportError::Token)?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Server { uri, authorization, client: Client::builder(TokioExecutor::new()).build_http() })
    }

    pub(super) async fn send(&self, links: &[NewLink]) -> Result<Vec<ItemResult>, ImportError> {
        let failed = |message| ImportError::Server { uri: self.uri.to_string(), message };
        let body = Bytes::from(
            serde_json::to_vec(&links.iter().map(Item::from).collect::<Vec<_>>())
                .map_err(|error| failed(error.to_string()))?,
        );
        let mut delays = RETRY_DELAYS.iter();
        loop {
            match (self.try_once(body.clone(), links.len()).await, delays.next()) {
                (Ok(results), _) => return Ok(results),
                // A rate limit does not count as a failed attempt.
                (Err(Failure::RateLimited(wait)), _) => sleep(wait).await,
                (Err(Failure::Transient(_)), Some(&delay)) => sleep(delay).await,
                (Err(Failure::Transient(message) | Failure::Permanent(message)), _) => {
                    return Err(failed(message));
                }
            }
        }
    }

    async fn try_once(&self, body: Bytes, count: usize) -> Result<Vec<ItemResult>, Failure> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(body)).map_err(|error| Failure::Permanent(error.to_string()))?;
        let exchange = async {
            let response =
                self.client.request(request).await.map_err(|error| Failure::Transient(root_cause(&error)))?;
            let status = response.status();
            let wait =
                response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            Ok((status, wait, body.map_err(|error| Failure::Transient(error.to_string()))?.to_bytes()))
        };
        let (status, wait, body) = timeout(TIMEOUT, exchange).await.unwrap_or_else(|_| {
            Err(Failure::Transient(format!("no response within {} s", TIMEOUT.as_secs())))
        })?;
        match status {
            StatusCode::OK => read_results(&body, count),
            StatusCode::TOO_MANY_REQUESTS => {
                Err(Failure::RateLimited(Duration::from_secs(wait.unwrap_or(1)).clamp(MIN_WAIT, TIMEOUT)))
            }
            StatusCode::SERVICE_UNAVAILABLE => Err(Failure::Transient(read_error(status, &body))),
            _ => Err(Failure::Permanent(read_error(status, &body))),
        }
    }
}

/// One link of a batch.
#[derive(Serialize)]
struct Item<'a> {
    url: &'a str,
    title: &'a str,
    slug: Option<&'a str>,
    tags: Vec<&'a str>,
    expires_at: Option<i64>,
    max_visits: Option<u64>,
    forward_query: bool,
    crawlable: bool,
}

impl<'a> From<&'a NewLink> for Item<'a> {
    fn from(link: &'a NewLink) -> Item<'a> {
        let LinkOptions { tags, expires_at, max_visits, forward_query, crawlable } = &link.options;
        Item {
            url: link.url.as_str(),
            title: &link.title,
            slug: link.slug.as_deref(),
            tags: tags.iter().map(Tag::as_str).collect(),
            expires_at: *expires_at,
            max_visits: *max_visits,
            forward_query: *forward_query,
            crawlable: *crawlable,
        }
    }
}

fn read_results(body: &[u8], count: usize) -> Result<Vec<ItemResult>, Failure> {
    #[derive(Deserialize)]
    #[serde(tag = "status", rename_all = "lowercase")]
    enum Item {
        Created,
        Existing,
        Invalid { error: Message },
    }
    #[derive(Deserialize)]
    struct Answer {
        results: Vec<Item>,
    }
    let answer: Answer =
        serde_json::from_slice(body).map_err(|error| Failure::Permanent(error.to_string()))?;
    if answer.results.len() != count {
        return Err(Failure::Permanent(format!("{} results for {count} links", answer.results.len())));
    }
    let result = |item| match item {
        Item::Created => ItemResult::Created,
        Item::Existing => ItemResult::Existing,
        Item::Invalid { error } => ItemResult::Refused(error.to_text()),
    };
    Ok(answer.results.into_iter().map(result).collect())
}

/// The fields of an API error that the report contains.
#[derive(Deserialize)]
struct Message {
    field: Option<String>,
    message: String,
}

impl Message {
    fn to_text(&self) -> String {
        match &self.field {
            Some(field) => format!("{field} {}", self.message),
            None => self.message.clone(),
        }
    }
}

fn read_error(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Answer {
        error: Message,
    }
    match serde_json::from_slice::<Answer>(body) {
        Ok(answer) => format!("{status}: {}", answer.error.to_text()),
        Err(_) => status.to_string(),
    }
}

/// The innermost cause: "connection refused" is clearer than "client error".
fn root_cause(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error).to_string()
}
