//! The handle of a proxy.

use crate::config::{Config, ms};
use crate::error::ProxyError;
use crate::fields::via::Pseudonym;
use crate::front::setup::{Front, FrontLimits};
use crate::gate::{Gate, GateProgress};
use crate::origin::Origins;
use crate::origin::request_body::RequestBody;
use crate::replicas::ProxyCache;
use crate::service::ProxyService;
use crate::stats::ProxyStats;
use bytes::Bytes;
use larder_http::{HttpCache, Profile};
use larder_tls::{Certificate, Clients, FileError, Files};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A reverse proxy with a response cache. Cheap to clone; all clones have one cache.
///
/// ```
/// use larder_proxy::{Config, Proxy};
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config { origin: vec!["http://127.0.0.1:3000".into()], ..Config::default() };
/// let proxy = Proxy::new(config)?;
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// # let stop = std::future::ready(());
/// proxy.serve(listener, stop).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Proxy {
    cache: ProxyCache,
    front: Front,
}

impl Proxy {
    /// A proxy with these options. It connects to no origin: one that is not there yet is an error of each request.
    ///
    /// # Errors
    /// An option is outside its range, or a file cannot be used.
    pub fn new(config: Config) -> Result<Proxy, ProxyError> {
        config.validate()?;
        let certificate = match (&config.tls_cert, &config.tls_key) {
            (Some(chain), Some(key)) => Some(Arc::new(load(chain, key)?)),
            _ => None,
        };
        let origins = Origins::new(&config)?;
        let rules = config.compiled_rules()?;
        let mut builder = HttpCache::builder()
            .profile(Profile::Rfc)
            .max_bytes(config.cache_bytes)
            .max_body_bytes(config.max_body_bytes as usize)
            .empty_body(|| RequestBody::from(Bytes::new()));
        if let Some(gate) = &config.gate {
            let (gate, timeout) = (Gate::new(gate, origins.clone())?, ms(gate.timeout_ms));
            // The gate has its own deadline, after which there is no verdict. The cache would take it for a denial.
            builder = builder.gate(move |head| gate.judge(head)).gate_timeout(timeout * 2);
            // What a client has with credentials is neither refreshed without them nor shared before its scope is known.
            builder = builder.personal_extension::<GateProgress>();
        }
        if let Some(folder) = &config.disk {
            builder = builder.disk(folder, config.disk_bytes);
        }
        let cache = ProxyCache::new(builder, &config)?;
        let pseudonym = Pseudonym::random().map_err(ProxyError::Random)?;
        let front = Front {
            service: ProxyService::new(&cache, origins, rules, pseudonym),
            certificate,
            trusted: config.trusted_networks()?.into(),
            limits: FrontLimits::new(&config),
        };
        Ok(Proxy { cache, front })
    }

    /// The cache of the proxy.
    pub fn cache(&self) -> &ProxyCache {
        &self.cache
    }

    /// Its figures, but for those of the cache.
    pub fn stats(&self) -> ProxyStats {
        let (responses, server_errors) = self.front.service.response_counts();
        ProxyStats {
            origins: self.front.service.origin_stats(),
            responses,
            server_errors,
            certificate_expires: self
                .front
                .certificate
                .as_ref()
                .and_then(|certificate| certificate.expires()),
        }
    }

    /// Whether the proxy serves HTTPS.
    pub fn is_encrypted(&self) -> bool {
        self.front.certificate.is_some()
    }

    /// Serves until `shutdown`; then running requests get the drain timeout to end, and tunnels end at once. Purges that Redis
    /// has not confirmed get as long after that.
    ///
    /// # Cancel safety
    /// A dropped call closes the listener and the tunnels; other connections go on until they end.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        self.cache.connect();
        self.front.serve(listener, shutdown).await;
        self.cache.flush(self.front.limits.drain).await;
    }

    /// Reads the certificate and its key again, for connections that are made later. Without a certificate it does nothing.
    ///
    /// # Errors
    /// A file cannot be used: the certificate stays what it was.
    pub fn reload_certificate(&self) -> Result<(), ProxyError> {
        let Some(certificate) = &self.front.certificate else { return Ok(()) };
        certificate.reload().map_err(|error| of_option(error, &certificate.files().chain))
    }
}

fn load(chain: &Path, key: &Path) -> Result<Certificate, ProxyError> {
    let loaded = Certificate::load(Files::new(chain, key), Clients::Anybody, &[b"h2", b"http/1.1"]);
    loaded.map_err(|error| of_option(error, chain))
}

/// The error of a file of the certificate, with the option that names it.
fn of_option(FileError { path, reason, .. }: FileError, chain: &Path) -> ProxyError {
    let field = if path == chain { "tls_cert" } else { "tls_key" };
    ProxyError::File { field, path, reason }
}
