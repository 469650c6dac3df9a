//! OpenTelemetry: where the environment names a collector, the figures of the parts and the spans of their fetches go there, by
//! OTLP over HTTP, with TLS or without.
//!
//! The exporters have threads of their own, without a runtime. One runtime of a single thread carries their requests.

mod collector;
mod environment;

use anyhow::{Context, Result};
use collector::Connection;
use environment::Exports;
use larder_admin::Registry;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;
use tokio::runtime::Runtime;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

/// The spans that are sent: those of the caches.
const SPANS: &str = "larder=debug";
/// How long the end of the process waits for what was not sent yet.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// The meters of the process, for the parts that are registered later.
static METERS: OnceLock<SdkMeterProvider> = OnceLock::new();

/// What exports. [`Telemetry::end`] sends the rest.
pub(crate) struct Telemetry {
    tracers: Option<SdkTracerProvider>,
    meters: Option<SdkMeterProvider>,
    _runtime: Runtime,
}

impl Telemetry {
    /// Starts the exporters; `None` if the environment wants nothing exported.
    ///
    /// # Errors
    /// For an endpoint that cannot be used, and for a protocol or an exporter that is not there. The error names the variable.
    pub(crate) fn start() -> Result<Option<Telemetry>> {
        let exports = Exports::of(|name| std::env::var(name).ok())?;
        if !exports.any() {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("larder-otlp")
            .enable_all()
            .build()
            .context("cannot start the runtime of the exporters")?;
        let connection = Connection::new(exports.has_tls, runtime.handle())?;
        let resource = environment::resource();
        let tracers = match exports.spans {
            true => {
                let exporter =
                    SpanExporter::builder().with_http().with_http_client(connection.clone()).build()?;
                let tracers = SdkTracerProvider::builder().with_batch_exporter(exporter);
                Some(tracers.with_resource(resource.clone()).build())
            }
            false => None,
        };
        let meters = match exports.figures {
            true => {
                let exporter = MetricExporter::builder().with_http().with_http_client(connection).build()?;
                let meters =
                    SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter).build());
                Some(meters.with_resource(resource).build())
            }
            false => None,
        };
        if let Some(meters) = &meters {
            _ = METERS.set(meters.clone());
        }
        Ok(Some(Telemetry { tracers, meters, _runtime: runtime }))
    }

    /// What makes spans of `tracing` those of OpenTelemetry; `None` if none are exported.
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.tracers.as_ref()?.tracer("larder"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false);
        Some(layer.with_filter(EnvFilter::new(SPANS)))
    }

    /// Sends what was not sent yet. A collector that does not reply is not waited for longer than a moment.
    pub(crate) fn end(self) {
        let (done, ended) = mpsc::channel();
        // The exporters have no limit of their own here.
        thread::spawn(move || {
            _ = self.tracers.map(|tracers| tracers.shutdown());
            _ = self.meters.map(|meters| meters.shutdown());
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
