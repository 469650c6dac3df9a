//! TLS to Redis: the certificates of an address, and what its errors mean.
//!
//! The client library builds its TLS configuration from the crypto provider of the process and panics without one. So the
//! provider and the certificates are checked when the cache is built.

use super::exchange::connect;
use super::sentinel::at;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::io::AsyncDNSResolver;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, RedisError, RedisFuture,
    TlsCertificates,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The certificates for a `rediss://` address. Without any, the server's certificate must be signed by a root of the
/// operating system, and no client certificate is sent. `Debug` shows no key.
#[derive(Clone, Default)]
pub struct RedisTls {
    roots: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl RedisTls {
    /// The roots of the operating system, and no client certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these root certificates, in PEM, and no others.
    #[must_use]
    pub fn with_root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots = Some(pem.into());
        self
    }

    /// Sends a client certificate to a server that demands one. The certificate, with its intermediates, and its
    /// private key are in PEM.
    #[must_use]
    pub fn with_client_certificate(
        self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.with_certificate(certificate_pem.into()).with_key(key_pem.into())
    }

    /// A client certificate whose key is given alone.
    pub(crate) fn with_certificate(mut self, pem: Vec<u8>) -> Self {
        self.certificate = Some(pem);
        self
    }

    /// The key of a certificate that is given alone.
    pub(crate) fn with_key(mut self, pem: Vec<u8>) -> Self {
        self.key = Some(pem);
        self
    }

    /// Whether there is a client certificate, and whether there is its key.
    pub(crate) fn has_certificate_and_key(&self) -> (bool, bool) {
        (self.certificate.is_some(), self.key.is_some())
    }

    /// Adds the certificates to the address.
    pub(super) fn apply(self, info: ConnectionInfo) -> Result<ConnectionInfo, String> {
        self.check()?;
        let client = self.certificate.zip(self.key);
        let client = client.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        let certificates = TlsCertificates { client_tls: client, root_cert: self.roots };
        let client = Client::build_with_tls(info, certificates).map_err(|error| error.to_string())?;
        Ok(client.get_connection_info().clone())
    }

    fn check(&self) -> Result<(), String> {
        let provider = crypto_provider()?;
        let mut roots = RootCertStore::empty();
        for certificate in self.roots.iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem)) {
            let certificate = certificate.map_err(|error| format!("the root certificates: {error}"))?;
            roots.add(certificate).map_err(|error| format!("the root certificates: {error}"))?;
        }
        if self.roots.is_some() && roots.is_empty() {
            return Err("the root certificates have no certificate in PEM".into());
        }
        let Some((certificate, key)) = self.certificate.as_ref().zip(self.key.as_ref()) else {
            return Ok(());
        };
        let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| format!("the client certificate: {error}"))?;
        if chain.is_empty() {
            return Err("the client certificate has no certificate in PEM".into());
        }
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| format!("the key of the client certificate: {error}"))?;
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots);
        let config = config.with_client_auth_cert(chain, key);
        config.map(drop).map_err(|error| format!("the key of the client certificate: {error}"))
    }
}

impl fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTls")
            .field("has_root_certificates", &self.roots.is_some())
            .field("has_client_certificate", &self.certificate.is_some())
            .finish()
    }
}

/// The crypto provider of the process. With the feature `tls-ring` it is ring unless the program installed another.
fn crypto_provider() -> Result<Arc<CryptoProvider>, String> {
    #[cfg(feature = "tls-ring")]
    if CryptoProvider::get_default().is_none() {
        // Another thread may have installed one meanwhile, which is as good.
        _ = rustls::crypto::ring::default_provider().install_default();
    }
    CryptoProvider::get_default().cloned().ok_or_else(|| {
        "TLS needs a crypto provider: enable the feature `tls-ring` of larder, or call \
         rustls::crypto::CryptoProvider::install_default first"
            .into()
    })
}

/// The hosts of the servers that were configured, where one of them has announced this one. If it has announced a number, the
/// certificate may be for the name of one of them.
#[derive(Debug, Default)]
pub(super) struct OtherNames {
    hosts: Vec<String>,
    /// The one that the last certificate was for.
    last: Mutex<Option<String>>,
}

/// Finds every host at one address.
struct At(SocketAddr);

impl AsyncDNSResolver for At {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _: &'b str,
        _: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async { Ok(Box::new(std::iter::once(self.0)) as Box<_>) })
    }
}

impl OtherNames {
    pub(super) fn new(hosts: impl Iterator<Item = String>) -> Self {
        OtherNames { hosts: hosts.collect(), last: Mutex::new(None) }
    }

    /// Connects to an address, whose host or one of these names must be that of the certificate.
    pub(super) async fn connect(
        &self,
        info: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, RedisError> {
        let address = match info.addr() {
            ConnectionAddr::TcpTls { host, port, .. } => {
                host.parse().ok().map(|ip| SocketAddr::new(ip, *port))
            }
            _ => None,
        };
        let Some(address) = address else { return connect(info, config).await };
        let by_name = async |host: &String| {
            let info = info.clone().set_addr(at(info.addr(), (host.clone(), address.port())));
            connect(info, &config.clone().set_dns_resolver(At(address))).await
        };
        let last = self.last.lock().clone();
        if let Some(host) = &last
            && let Ok(connection) = by_name(host).await
        {
            return Ok(connection);
        }
        let mut connection = connect(info.clone(), config).await;
        for host in self.hosts.iter().filter(|host| host.parse::<IpAddr>().is_err()) {
            if !connection.as_ref().is_err_and(is_for_another_name) {
                break;
            }
            connection = by_name(host).await;
            if connection.is_ok() {
                *self.last.lock() = Some(host.clone());
            }
        }
        connection
    }
}

/// Whether the certificate is a valid one for another host.
fn is_for_another_name(error: &RedisError) -> bool {
    matches!(
        tls_error(error),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        ))
    )
}

/// What a failed connection to this address means, and what to do, if TLS is the reason.
pub(super) fn explain(address: &ConnectionAddr, names: &OtherNames, error: &RedisError) -> Option<String> {
    let ConnectionAddr::TcpTls { host, .. } = address else { return None };
    let is_announced = !names.hosts.is_empty() && !names.hosts.contains(host);
    let error = tls_error(error)?;
    let advice = match error {
        // A root of the same name with another key.
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "no trusted root signed the server's certificate: give its root to RedisTls::with_root_certificates"
                .into()
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) if is_announced => format!(
            "the server that is announced as {host} has a certificate for another name: announce that with \
             cluster-announce-hostname and cluster-preferred-endpoint-type"
        ),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!("the server's certificate is not for {host}: use a name of the certificate as the host"),
        rustls::Error::InvalidCertificate(_) => "renew or replace the server's certificate".into(),
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        ) => "the server demands a client certificate: give it to RedisTls::with_client_certificate".into(),
        rustls::Error::AlertReceived(_) => {
            "the server refused the handshake: check the client certificate and the server's TLS versions"
                .into()
        }
        rustls::Error::InvalidMessage(_) => {
            "the server does not speak TLS here: use its TLS port, or redis://".into()
        }
        _ => return Some(format!("TLS failed: {error}")),
    };
    Some(format!("TLS failed: {error}: {advice}"))
}

/// The TLS error inside of an error of the client library.
fn tls_error(error: &RedisError) -> Option<&rustls::Error> {
    let inner = error.source()?.downcast_ref::<Arc<dyn Error + Send + Sync>>()?;
    let inner: &(dyn Error + 'static) = &**inner;
    match inner.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref()?.downcast_ref(),
        None => inner.downcast_ref(),
    }
}
