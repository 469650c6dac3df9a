//! OpenTelemetry: where `OTEL_EXPORTER_OTLP_ENDPOINT` is set, the figures of the parts and the spans of their fetches go there, by
//! OTLP over HTTP, with TLS or without.
//!
//! The exporters have threads of their own, without a runtime. One runtime of a single thread carries their requests.

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use larder_admin::Registry;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::pin::Pin;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;
use tokio::runtime::Runtime;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

/// Where to send to: all, or one of the two kinds.
const ENDPOINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
];
/// The spans that are sent: those of the caches.
const SPANS: &str = "larder=debug";
/// The longest request, its response included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest response that is read.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
/// How long the end of the process waits for what was not sent yet.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// The meters of the process, for the parts that are registered later.
static METERS: OnceLock<SdkMeterProvider> = OnceLock::new();

/// What exports. [`Telemetry::end`] sends the rest.
pub(crate) struct Telemetry {
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
    _runtime: Runtime,
}

impl Telemetry {
    /// Starts the exporters; `None` if the environment names no endpoint.
    ///
    /// # Errors
    /// For an endpoint that cannot be used. The error names the variable.
    pub(crate) fn start() -> Result<Option<Telemetry>> {
        let set = ENDPOINTS.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
        let set: Vec<(&str, String)> = set.filter(|(_, url)| !url.is_empty()).collect();
        if set.is_empty() {
            return Ok(None);
        }
        let is_url = |url: &str| ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
        if let Some((name, url)) = set.iter().find(|(_, url)| !is_url(url)) {
            bail!("{name} is {url:?}, expected http://HOST:PORT or https://HOST:PORT of a collector");
        }
        let connector = connector(set.iter().any(|(_, url)| url.starts_with("https://")))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("larder-otlp")
            .enable_all()
            .build()
            .context("cannot start the runtime of the exporters")?;
        let client = || Collector {
            client: Client::builder(TokioExecutor::new()).build(connector.clone()),
            runtime: runtime.handle().clone(),
        };
        let spans = SpanExporter::builder().with_http().with_http_client(client()).build()?;
        let metrics = MetricExporter::builder().with_http().with_http_client(client()).build()?;
        let tracers =
            SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource()).build();
        let reader = PeriodicReader::builder(metrics).build();
        let meters = SdkMeterProvider::builder().with_reader(reader).with_resource(resource()).build();
        _ = METERS.set(meters.clone());
        Ok(Some(Telemetry { tracers, meters, _runtime: runtime }))
    }

    /// What makes spans of `tracing` those of OpenTelemetry.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.tracers.tracer("larder"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(EnvFilter::new(SPANS))
    }

    /// Sends what was not sent yet. A collector that does not reply is not waited for longer than a moment.
    pub(crate) fn end(self) {
        let (done, ended) = mpsc::channel();
        // The exporters have no limit of their own here.
        thread::spawn(move || {
            _ = self.tracers.shutdown();
            _ = self.meters.shutdown();
            _ = done.send(());
        });
        _ = ended.recv_timeout(LAST_EXPORT);
    }
}

/// Exports the figures of the parts of a registry, if anything is exported. All parts are registered.
pub(crate) fn observe(registry: &Registry) {
    if let Some(meters) = METERS.get() {
        registry.observe(&meters.meter("larder"));
    }
}

/// Connects to collectors. Only those with TLS need the certificates of the system.
///
/// # Errors
/// If there are none.
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

/// What `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say of the process, and our name.
fn resource() -> Resource {
    let has_name = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"].iter().any(|name| {
        std::env::var(name).is_ok_and(|text| *name == "OTEL_SERVICE_NAME" || text.contains("service.name="))
    });
    let resource = Resource::builder();
    if has_name { resource.build() } else { resource.with_service_name("larder").build() }
}

/// Sends requests to the collector.
#[derive(Debug)]
struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: tokio::runtime::Handle,
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Collector {
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
