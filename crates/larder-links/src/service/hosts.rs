//! The host names of this service: for the addresses of short links, for the loop check, and for the guard that keeps
//! foreign web pages from using the API through a visitor's browser.
//!
//! The guard relies on two facts. A page of another origin can make a browser send a request here, but the browser then
//! sends `Origin` and `Sec-Fetch-Site`. A page that points its own name at this machine (DNS rebinding) has an equal
//! `Origin` and `Host`, but that name is not one of ours. IP addresses cannot be rebound, so they are accepted with any
//! port, as is `localhost`: a mapped port works.

use crate::config::Config;
use crate::error::LinksError;
use crate::model::address::{Address, Authority};
use crate::service::api_error::ApiError;
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};
use larder_web::host_header_is_unambiguous;
use parking_lot::RwLock;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use url::{Host, Url};

/// The addresses of a shortener that is not running, for an import into its database.
#[derive(Clone, Debug, Default)]
pub struct OwnAddresses(Arc<OwnHosts>);

impl OwnAddresses {
    /// Those that the options of the shortener name, and those on which it will listen. The default has none.
    ///
    /// # Errors
    /// [`LinksError::Config`] if `public_url` or `allow_hosts` is invalid.
    pub fn new(
        config: &Config,
        listeners: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<OwnAddresses, LinksError> {
        let hosts = OwnHosts::new(config.public_base()?, config.allowed_hosts()?);
        listeners.into_iter().for_each(|listener| hosts.add_bound(listener));
        Ok(OwnAddresses(Arc::new(hosts)))
    }

    pub(crate) fn contains(&self, address: &Address) -> bool {
        self.0.is_own(address.authority(), &HeaderMap::new())
    }
}

/// The names of this service.
#[derive(Debug, Default)]
pub(crate) struct OwnHosts {
    public: Option<Url>,
    /// Further names, without a port.
    allowed: Vec<Host<String>>,
    /// The addresses of all listeners since the start.
    bound: RwLock<Vec<SocketAddr>>,
}

impl OwnHosts {
    pub(crate) fn new(public: Option<Url>, allowed: Vec<Host<String>>) -> OwnHosts {
        OwnHosts { public, allowed, bound: RwLock::default() }
    }

    /// Adds the address of a listener.
    pub(crate) fn add_bound(&self, address: SocketAddr) {
        let mut bound = self.bound.write();
        if !bound.contains(&address) {
            bound.push(address);
        }
    }

    /// Whether no listener accepts connections from another machine.
    pub(crate) fn is_bound_to_loopback(&self) -> bool {
        self.bound.read().iter().all(|bound| bound.ip().to_canonical().is_loopback())
    }

    /// Whether the listeners and the `Host` of a request are loopback addresses or names.
    pub(crate) fn is_local(&self, headers: &HeaderMap) -> bool {
        let host = host_value(headers).and_then(|host| Authority::of_host_header("http", host));
        self.is_bound_to_loopback() && host.is_some_and(|host| host.is_loopback())
    }

    /// The base address of short links, with `/` at the end.
    pub(crate) fn base(&self, headers: &HeaderMap) -> String {
        if let Some(public) = &self.public {
            return public.to_string();
        }
        let requested = host_value(headers).filter(|host| Authority::of_host_header("http", host).is_some());
        match (requested, self.bound.read().last()) {
            (Some(host), _) => format!("http://{host}/"),
            (None, Some(bound)) => format!("http://{bound}/"),
            (None, None) => "http://localhost/".into(),
        }
    }

    /// Whether an address points to this service, as far as the request and the options show.
    pub(crate) fn is_own(&self, target: &Authority, headers: &HeaderMap) -> bool {
        let requested = host_value(headers).into_iter();
        let requested: Vec<_> = requested
            .flat_map(|host| ["http", "https"].map(|scheme| Authority::of_host_header(scheme, host)))
            .collect();
        let mut requested_hosts = requested.iter().flatten();
        let public = self.public.as_ref().and_then(Authority::of);
        let bound = self.bound.read();
        let is_own_port = matches!(target.port, 80 | 443)
            || public.as_ref().is_some_and(|public| public.port == target.port)
            || bound.iter().any(|bound| bound.port() == target.port);
        // The unspecified address is, for a client on this machine, this machine.
        let is_this_machine = target.is_loopback() || target.is_unspecified();
        requested_hosts
            .any(|name| name == target || (is_this_machine && name.is_loopback() && name.port == target.port))
            || public.is_some_and(|public| public.host == target.host && is_own_port)
            || (is_own_port && self.is_allowed(&target.host))
            || bound.iter().any(|bound| {
                bound.port() == target.port && (is_this_machine || is_bound_ip(bound.ip(), &target.host))
            })
    }

    /// Rejects a request whose `Host` is not one of ours.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let host =
            host_value(headers).ok_or_else(|| ApiError::forbidden("the Host header is missing", None))?;
        let schemes = ["http", self.public.as_ref().map_or("http", Url::scheme)];
        if schemes.iter().any(|scheme| self.is_accepted(Authority::of_host_header(scheme, host))) {
            return Ok(());
        }
        let message = "the API is not served under this host; name it in allow_hosts or public_url";
        Err(ApiError::forbidden(message, Some(host)))
    }

    /// Rejects a request that a browser sends for a page of another origin.
    ///
    /// Every `Origin` must be ours, the scheme included. `Sec-Fetch-Site: same-site` is not enough: another port of the same
    /// machine is the same site.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        for site in headers.get_all("sec-fetch-site") {
            if !matches!(site.as_bytes(), b"same-origin" | b"none") {
                let site = String::from_utf8_lossy(site.as_bytes());
                let message = "changes from pages of another site are not allowed";
                return Err(ApiError::forbidden(message, Some(&site)));
            }
        }
        let host = host_value(headers).unwrap_or_default();
        for origin in headers.get_all(ORIGIN) {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            if !self.is_same_origin(&origin, host) {
                let message = "changes from pages of another origin are not allowed";
                return Err(ApiError::forbidden(message, Some(&origin)));
            }
        }
        Ok(())
    }

    fn is_accepted(&self, host: Option<Authority>) -> bool {
        let Some(host) = host else { return false };
        let public = self.public.as_ref().and_then(Authority::of).is_some_and(|public| public == host);
        let bound = self.bound.read().iter().any(|bound| is_bound_ip(bound.ip(), &host.host));
        public || bound || self.is_allowed(&host.host) || host.is_loopback()
    }

    fn is_allowed(&self, host: &Host<String>) -> bool {
        self.allowed.contains(host)
    }

    fn is_same_origin(&self, origin: &str, host: &str) -> bool {
        // An opaque origin ("null") has no authority, so it is never the same.
        let Ok(origin) = Url::parse(origin) else { return false };
        let Some(from) = Authority::of(&origin) else { return false };
        if self.public.as_ref().is_some_and(|public| public.origin() == origin.origin()) {
            return true;
        }
        origin.scheme() == self.scheme_of(&from) && is_host_header(origin.scheme(), host, &from)
    }

    /// The scheme of our own pages under a host: the listener uses HTTP; a proxy for other names uses the scheme of
    /// `public_url`.
    fn scheme_of(&self, host: &Authority) -> &str {
        match &self.public {
            Some(public) if is_host_of(public, host) || self.is_allowed(&host.host) => public.scheme(),
            _ => "http",
        }
    }
}

fn is_host_of(public: &Url, host: &Authority) -> bool {
    Authority::of(public).is_some_and(|public| public.host == host.host)
}

/// Whether an IP address is that of the listener. A listener on the unspecified address has all of them.
fn is_bound_ip(bound: IpAddr, host: &Host<String>) -> bool {
    let named = match host {
        Host::Ipv4(ip) => IpAddr::V4(*ip),
        Host::Ipv6(ip) => IpAddr::V6(*ip),
        Host::Domain(_) => return false,
    };
    bound.is_unspecified() || named.to_canonical() == bound.to_canonical()
}

fn is_host_header(scheme: &str, value: &str, authority: &Authority) -> bool {
    Authority::of_host_header(scheme, value).is_some_and(|host| host == *authority)
}

fn host_value(headers: &HeaderMap) -> Option<&str> {
    headers.get(HOST)?.to_str().ok()
}

/// Rejects a request with more than one host, or with two that contradict each other (RFC 9112, section 3.2).
pub(crate) fn check_single_host(uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    if !host_header_is_unambiguous(uri, headers) {
        return Err(ApiError::bad_request("a request must name one host"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: Option<&str>, origin: Option<&str>) -> HeaderMap {
        let pairs = [(HOST, host), (ORIGIN, origin)];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?.parse().unwrap()))).collect()
    }

    fn may_write(hosts: &OwnHosts, host: &str, origin: Option<&str>) -> bool {
        let headers = headers(Some(host), origin);
        hosts.check_host(&headers).is_ok() && hosts.check_origin(&headers).is_ok()
    }

    #[test]
    fn changes_require_own_host_and_no_foreign_origin() {
        let local = OwnHosts::new(None, Vec::new());
        local.add_bound("127.0.0.1:8080".parse().unwrap());
        for host in
            ["127.0.0.1:8080", "localhost:8080", "localhost", "[::1]:8080", "LOCALHOST:9000", "127.9.9.9"]
        {
            assert!(may_write(&local, host, None), "{host}");
            assert!(may_write(&local, host, Some(&format!("http://{host}"))), "{host}");
            assert!(!may_write(&local, host, Some("http://evil.example")), "{host}");
            assert!(!may_write(&local, host, Some("http://localhost:3000")), "{host}");
            assert!(!may_write(&local, host, Some("null")), "{host}");
            assert!(!may_write(&local, host, Some("")), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "192.0.2.1:8080",
            "a@localhost",
            "",
        ] {
            assert!(!may_write(&local, host, None), "{host}");
            assert!(!may_write(&local, host, Some(&format!("http://{host}"))), "{host}");
        }
        assert!(local.check_host(&headers(None, None)).is_err());
    }

    #[test]
    fn public_host_is_accepted() {
        let public = OwnHosts::new(Some(Url::parse("https://s.example").unwrap()), Vec::new());
        public.add_bound("0.0.0.0:8080".parse().unwrap());
        assert!(may_write(&public, "s.example", Some("https://s.example")));
        // A proxy that passes its own idea of the host on.
        assert!(may_write(&public, "127.0.0.1:8080", Some("https://s.example")));
        assert!(may_write(&public, "192.0.2.7:8080", Some("http://192.0.2.7:8080")));
        assert!(!may_write(&public, "s.example:444", None));
        assert!(!may_write(&public, "s.example", Some("https://other.example")));
        assert!(!may_write(&public, "s.example", Some("http://s.example.evil.example")));
        // The other scheme is another origin.
        assert!(!may_write(&public, "s.example", Some("http://s.example")));
        assert!(!may_write(&public, "127.0.0.1:8080", Some("https://127.0.0.1:8080")));
    }

    #[test]
    fn allowed_host_is_accepted_with_any_port_and_the_public_scheme() {
        let allowed = || vec![Host::parse("Links.internal").unwrap()];
        let plain = OwnHosts::new(None, allowed());
        assert!(may_write(&plain, "links.internal", Some("http://links.internal")));
        assert!(may_write(&plain, "LINKS.internal.:8443", None));
        assert!(!may_write(&plain, "links.internal", Some("https://links.internal")));
        assert!(!may_write(&plain, "other.internal", None));
        let secure = OwnHosts::new(Some(Url::parse("https://s.example").unwrap()), allowed());
        assert!(may_write(&secure, "links.internal", Some("https://links.internal")));
        assert!(!may_write(&secure, "links.internal", Some("http://links.internal")));
    }

    #[test]
    fn every_origin_line_and_the_fetch_site_count() {
        let hosts = OwnHosts::new(None, Vec::new());
        let check = |lines: &[(&'static str, &str)]| {
            let mut headers = headers(Some("localhost:8080"), None);
            for (name, value) in lines {
                headers.append(*name, value.parse().unwrap());
            }
            hosts.check_origin(&headers).is_ok()
        };
        let own = ("origin", "http://localhost:8080");
        assert!(check(&[own]) && check(&[own, own]));
        assert!(!check(&[own, ("origin", "http://evil.example")]));
        assert!(!check(&[("origin", "http://evil.example"), own]));
        assert!(check(&[own, ("sec-fetch-site", "same-origin")]) && check(&[("sec-fetch-site", "none")]));
        for site in ["cross-site", "same-site", "", "CROSS-SITE"] {
            assert!(!check(&[own, ("sec-fetch-site", site)]), "{site}");
        }
    }

    #[test]
    fn own_address_is_recognised_in_every_form() {
        let own = |hosts: &OwnHosts, requested: &str, target: &str| {
            let url = Url::parse(target).unwrap();
            hosts.is_own(&Authority::of(&url).unwrap(), &headers(Some(requested), None))
        };
        let hosts = OwnHosts::new(Some(Url::parse("https://s.example").unwrap()), Vec::new());
        hosts.add_bound("127.0.0.1:8080".parse().unwrap());
        for target in [
            "https://s.example/a",
            "https://S.Example.:443/a",
            "http://s.example/a",
            "http://localhost:8080/",
            "http://127.0.0.1:8080/x",
            "http://0x7f000001:8080/",
            "http://[::1]:8080/",
            "http://requested.example:81/",
            "http://0.0.0.0:8080/x",
            "http://0:8080/",
            "http://[::]:8080/",
            "http://[::ffff:127.0.0.1]:8080/",
            "http://[::ffff:0.0.0.0]:8080/",
            "http://127.1:8080/",
            "http://2130706433:8080/",
            "http://localhost.:8080/",
            "http://a.localhost:8080/",
            "http://localhost.localdomain:8080/",
            "http://ip6-localhost:8080/",
        ] {
            assert!(own(&hosts, "requested.example:81", target), "{target}");
        }
        for target in ["http://localhost:3000/", "http://example.com/", "https://s.example:8443/"] {
            assert!(!own(&hosts, "requested.example:81", target), "{target}");
        }
        let everywhere = OwnHosts::new(None, vec![Host::parse("links.internal").unwrap()]);
        everywhere.add_bound("[::]:8080".parse().unwrap());
        for target in
            ["http://192.0.2.7:8080/", "http://[::ffff:192.0.2.7]:8080/", "https://links.internal/a"]
        {
            assert!(own(&everywhere, "localhost:8080", target), "{target}");
        }
        assert!(!own(&everywhere, "localhost:8080", "http://links.internal:3000/"));
    }

    #[test]
    fn base_is_the_public_or_the_requested_host() {
        let public = OwnHosts::new(Some(Url::parse("https://s.example").unwrap()), Vec::new());
        assert_eq!(public.base(&headers(Some("localhost:1"), None)), "https://s.example/");
        let local = OwnHosts::new(None, Vec::new());
        assert_eq!(local.base(&headers(Some("localhost:8080"), None)), "http://localhost:8080/");
        assert_eq!(local.base(&headers(Some("a/b"), None)), "http://localhost/");
        local.add_bound("127.0.0.1:8080".parse().unwrap());
        assert_eq!(local.base(&headers(None, None)), "http://127.0.0.1:8080/");
    }

    #[test]
    fn second_host_is_rejected() {
        let uri = Uri::from_static("/");
        let mut twice = headers(Some("a"), None);
        assert!(check_single_host(&uri, &twice).is_ok());
        twice.append(HOST, "b".parse().unwrap());
        assert!(check_single_host(&uri, &twice).is_err());
        let absolute = Uri::from_static("http://a/");
        assert!(check_single_host(&absolute, &headers(Some("a"), None)).is_ok());
        assert!(check_single_host(&absolute, &headers(Some("b"), None)).is_err());
    }
}
