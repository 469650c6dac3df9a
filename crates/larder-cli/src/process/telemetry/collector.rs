//! The requests of the exporters to the collector.

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use std::pin::Pin;
use std::time::Duration;
use tokio::runtime::Handle;

/// The longest request, its response included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest response that is read.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Sends requests to the collector. Clones share their connections.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
}

impl Connection {
    /// Only a collector with TLS needs the certificates of the system.
    ///
    /// # Errors
    /// If there are none.
    pub(super) fn new(has_tls: bool, runtime: &Handle) -> Result<Connection> {
        let client = Client::builder(TokioExecutor::new()).build(connector(has_tls)?);
        Ok(Connection { client, runtime: runtime.clone() })
    }
}

fn connector(has_tls: bool) -> Result<HttpsConnector<HttpConnector>> {
    let provider = rustls::crypto::ring::default_provider();
    let builder = match has_tls {
        true => HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .context("cannot read the root certificates of the system")?,
        false => {
            let config = rustls::ClientConfig::builder_with_provider(provider.into())
                .with_safe_default_protocol_versions()
                .context("there is no version of TLS")?
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            HttpsConnectorBuilder::new().with_tls_config(config)
        }
    };
    Ok(builder.https_or_http().enable_http1().build())
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Connection {
    fn send_bytes<'own, 'sending>(&'own self, request: Request<Bytes>) -> Sending<'sending>
    where
        'own: 'sending,
        Self: 'sending,
    {
        let client = self.client.clone();
        let exchange = async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        let exchange = self.runtime.spawn(async { tokio::time::timeout(TIMEOUT, exchange).await? });
        Box::pin(async move { exchange.await? })
    }
}
