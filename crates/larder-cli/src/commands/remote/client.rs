//! The client of an admin port.

use anyhow::{Context, Result, bail};
use axum::body::Bytes;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::error::Error;
use std::time::Duration;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// An admin port by its address.
pub(super) struct AdminClient {
    authority: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl AdminClient {
    /// `authority` is `HOST:PORT`.
    pub(super) fn new(authority: String) -> AdminClient {
        AdminClient { authority, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// The JSON of a response, as it was sent: a [`Value`] would sort the fields of its objects.
    pub(super) async fn get(&self, path: &str) -> Result<String> {
        self.send(Request::builder().method(Method::GET), path, Bytes::new()).await
    }

    /// Sends JSON with the admin token.
    pub(super) async fn post(&self, path: &str, token: &str, body: &Value) -> Result<String> {
        let request = Request::builder()
            .method(Method::POST)
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, format!("Bearer {token}"));
        self.send(request, path, body.to_string().into()).await
    }

    async fn send(&self, request: axum::http::request::Builder, path: &str, body: Bytes) -> Result<String> {
        let at = &self.authority;
        let request = request.uri(format!("http://{at}{path}")).body(Full::new(body))?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| {
                anyhow::anyhow!("cannot reach http://{at}: {}; is `larder up` running?", root_cause(&error))
            })?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!("http://{at}{path}: {error}"))?.to_bytes();
            anyhow::Ok((status, body))
        };
        let (status, body) = timeout(TIMEOUT, exchange)
            .await
            .with_context(|| format!("http://{at} did not respond within {} s", TIMEOUT.as_secs()))??;
        if !status.is_success() {
            let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
            let reason = answer["error"].as_str();
            let reason = reason.unwrap_or("no reason given; is it the address of a dashboard?");
            bail!("http://{at}{path}: {status}: {reason}");
        }
        let text = String::from_utf8(body.into()).ok();
        let text = text.filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        text.with_context(|| format!("http://{at}{path} did not return JSON"))
    }
}

/// The innermost cause: the outer ones only say that a request failed.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
