//! The options of the shortener, each with its default, range and reason.
//!
//! The fields have the names that the configuration file and the command line use. Durations are whole milliseconds
//! or seconds, by the last word of the name.

pub(crate) mod own_pages;

use crate::error::LinksError;
use crate::model::address::{Authority, without_credentials};
#[cfg(feature = "postgres")]
use crate::store::postgres;
use crate::store::{DatabaseAddress, StoreConfig};
use larder_web::Network;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use url::{Host, Url};

/// The options of the shortener. Unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The database: `sqlite:PATH`, a path alone, or `postgres://USER:PASSWORD@HOST/NAME`. Default
    /// `sqlite:./larder-data/links.db`.
    pub database: String,
    /// The base address of short links, such as `https://s.example.com`, if a proxy is in front. Default: the host that the
    /// browser requested. The API is served under this host too, and needs a token then unless it is a loopback name.
    pub public_url: Option<String>,
    /// Further host names or addresses, without a port, under which the API is served. Default none. Loopback names, the
    /// address that the listener is bound to and the host of `public_url` are always allowed.
    pub allow_hosts: Vec<String>,
    /// Proxies whose `X-Forwarded-For` is trusted: addresses or ranges such as `10.0.0.0/8`. Default none.
    pub trusted_proxies: Vec<String>,
    /// How long a sign-in on the page lasts. Default 86,400 (a day), from 60 to 2,592,000 (30 days).
    pub session_seconds: u64,
    /// Changes per minute and client with a token. Default 600, from 1 to 1,000,000. A batch is one change.
    pub changes_per_minute: u32,
    /// Lists and links read per minute and client with a token. Default 1,200, from 1 to 1,000,000.
    pub listings_per_minute: u32,
    /// Wrong tokens per minute and client. Default 10, from 1 to 1,000,000.
    pub wrong_tokens_per_minute: u32,
    /// The status of a redirect: 301, 302, 307 or 308. Default 302. Browsers may store none of them, so that
    /// visits count and changes take effect; with 301 and 308 search engines index the target in place of the link.
    pub redirect_status: u16,
    /// Whether crawlers may follow and index the links: `robots.txt` and the header `X-Robots-Tag` say so. Default false.
    pub crawlable: bool,
    /// A file with the page in HTML for a slug that no link has. `{slug}` in it is replaced, escaped. Read at the start, at most
    /// 256 KiB. Default: a page of the service.
    pub unknown_page: Option<PathBuf>,
    /// The address to which a slug that no link has redirects instead. `{slug}` in it is replaced, escaped. Default none.
    pub unknown_redirect: Option<String>,
    /// As `unknown_page`, for links that have ended: by their date, their visits, or a deletion.
    pub expired_page: Option<PathBuf>,
    /// As `unknown_redirect`, for links that have ended.
    pub expired_redirect: Option<String>,
    /// Largest size of the database file, in bytes; beyond it new links get a 503. Default none, at least
    /// 65,536. SQLite only.
    pub max_database_bytes: Option<u64>,
    /// Reading connections to the database file. Default 4, from 1 to 64. Only misses of the cache use them. SQLite only.
    pub database_readers: Option<u32>,
    /// How long to wait for another program's lock on the database. Default 5,000, from 0 to 60,000.
    pub database_busy_ms: u64,

    /// Memory for the targets of links, in bytes. Default 64 MiB, at least 1 MiB. A target costs about 200 bytes.
    pub cache_bytes: u64,
    /// A Redis server to share targets with other instances, as a URL. Default none. `rediss://` is TLS.
    pub redis: Option<String>,
    /// The user of Redis whose password is in `redis_password_file`. Default `default`.
    pub redis_user: Option<String>,
    /// A file with the password of Redis, without its last line break. It is read for each connection, so that the password can
    /// rotate. Default none: user and password are those of the URL.
    pub redis_password_file: Option<PathBuf>,
    /// A file in PEM with the root certificates that a `rediss://` server is verified with. Default none: the roots of the
    /// operating system.
    pub redis_roots: Option<PathBuf>,
    /// A file in PEM with the certificate for a Redis that demands one of its clients. Default none.
    pub redis_certificate: Option<PathBuf>,
    /// A file in PEM with the private key of `redis_certificate`. Default none.
    pub redis_key: Option<PathBuf>,
    /// TTL of the target of a link. Default 3,600, from 1 to 2,592,000 (30 days). Changes through this instance take effect
    /// at once, and those through instances that share its Redis within a second. The TTL limits how long other changes of the
    /// database go unnoticed.
    pub ttl_seconds: u64,
    /// TTL of a negative entry: the cached absence of a link. Default 30, from 1 to 86,400. Creating the link invalidates
    /// it.
    pub negative_ttl_seconds: u64,
    /// Memory for the stored responses of the API, in bytes. Default 8 MiB, at least 1 MiB.
    pub response_cache_bytes: u64,

    /// How often visits are written to the database. Default 1,000, from 10 to 60,000. A process that is killed loses
    /// the visits since the last write.
    pub visit_flush_ms: u64,
    /// The number of visits that starts a write before the interval ends, as does half of `visit_queue`. Default 100,000,
    /// from 1 to 1,000,000.
    pub visit_batch: u64,
    /// How many links per day may have visits in memory at a time. Default 65,536, from 1 to 10,000,000. Visits of further
    /// links are dropped and counted as dropped; a redirect never waits.
    pub visit_queue: usize,

    /// How long the visits of a day are kept. Default 730 (two years), from 1 to 36,500. The total of a link stays.
    pub visit_retention_days: u32,
    /// Of which visits the referrer, browser, system, device and country are counted: `all`; `unless-refused`, without those
    /// whose browser sends `DNT: 1` or `Sec-GPC: 1`; or `none`. All visits count. Default `unless-refused`.
    pub visit_details: VisitDetails,
    /// A database of countries in the MaxMind format (`.mmdb`), for the countries of visits. Addresses are looked up in it
    /// and not kept. Default none.
    pub country_database: Option<PathBuf>,
    /// Open connections. Default 4,096, from 1 to 1,000,000. Further ones wait to be accepted.
    pub max_connections: usize,
    /// How long a client may take to send the head of a request. Default 10,000, from 100 to 600,000.
    pub header_timeout_ms: u64,
    /// How long running requests may take to end when the service stops. Default 10,000, from 0 to 600,000.
    pub drain_timeout_ms: u64,
}

/// Of which visits the details are counted; see [`Config::visit_details`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VisitDetails {
    /// Of all.
    All,
    /// Of those whose browser does not refuse it.
    UnlessRefused,
    /// Of none.
    None,
}

/// What `database` can be.
#[cfg(feature = "postgres")]
const EXPECTED_DATABASE: &str = "sqlite: and the path of a file, or a URL such as postgres://user@host/name";
#[cfg(not(feature = "postgres"))]
const EXPECTED_DATABASE: &str = "sqlite: and the path of a file";

impl Default for Config {
    fn default() -> Config {
        Config {
            database: "sqlite:./larder-data/links.db".into(),
            public_url: None,
            allow_hosts: Vec::new(),
            trusted_proxies: Vec::new(),
            session_seconds: 86_400,
            changes_per_minute: 600,
            listings_per_minute: 1_200,
            wrong_tokens_per_minute: 10,
            redirect_status: 302,
            crawlable: false,
            unknown_page: None,
            unknown_redirect: None,
            expired_page: None,
            expired_redirect: None,
            max_database_bytes: None,
            database_readers: None,
            database_busy_ms: 5_000,
            cache_bytes: 64 << 20,
            redis: None,
            redis_user: None,
            redis_password_file: None,
            redis_roots: None,
            redis_certificate: None,
            redis_key: None,
            ttl_seconds: 3_600,
            negative_ttl_seconds: 30,
            response_cache_bytes: 8 << 20,
            visit_flush_ms: 1_000,
            visit_batch: 100_000,
            visit_queue: 65_536,
            visit_retention_days: 730,
            visit_details: VisitDetails::UnlessRefused,
            country_database: None,
            max_connections: 4_096,
            header_timeout_ms: 10_000,
            drain_timeout_ms: 10_000,
        }
    }
}

impl Config {
    /// Checks every field against its range.
    ///
    /// # Errors
    /// [`LinksError::Config`] names the first field that is out of range, its value and the range.
    pub fn validate(&self) -> Result<(), LinksError> {
        self.check_ranges()?;
        self.public_base()?;
        self.allowed_hosts()?;
        self.proxy_networks()?;
        self.check_redis()?;
        own_pages::check(self)?;
        self.database_address().map(drop)
    }

    /// Checks the fields that are numbers.
    ///
    /// # Errors
    /// As [`Config::validate`].
    pub fn check_ranges(&self) -> Result<(), LinksError> {
        let in_range = |field: &'static str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let expected =
                if high == u64::MAX { format!("at least {low}") } else { format!("{low} to {high}") };
            Err(LinksError::Config { field, value: value.to_string(), expected })
        };
        const ANY: u64 = u64::MAX;
        in_range("max_database_bytes", self.max_database_bytes.unwrap_or(ANY), 65_536, ANY)?;
        in_range("database_readers", self.database_readers.unwrap_or(1).into(), 1, 64)?;
        in_range("database_busy_ms", self.database_busy_ms, 0, 60_000)?;
        in_range("cache_bytes", self.cache_bytes, 1 << 20, ANY)?;
        in_range("ttl_seconds", self.ttl_seconds, 1, 2_592_000)?;
        in_range("negative_ttl_seconds", self.negative_ttl_seconds, 1, 86_400)?;
        in_range("response_cache_bytes", self.response_cache_bytes, 1 << 20, ANY)?;
        in_range("session_seconds", self.session_seconds, 60, 2_592_000)?;
        in_range("changes_per_minute", self.changes_per_minute.into(), 1, 1_000_000)?;
        in_range("listings_per_minute", self.listings_per_minute.into(), 1, 1_000_000)?;
        in_range("wrong_tokens_per_minute", self.wrong_tokens_per_minute.into(), 1, 1_000_000)?;
        in_range("visit_flush_ms", self.visit_flush_ms, 10, 60_000)?;
        in_range("visit_batch", self.visit_batch, 1, 1_000_000)?;
        in_range("visit_queue", self.visit_queue as u64, 1, 10_000_000)?;
        in_range("visit_retention_days", self.visit_retention_days.into(), 1, 36_500)?;
        in_range("max_connections", self.max_connections as u64, 1, 1_000_000)?;
        in_range("header_timeout_ms", self.header_timeout_ms, 100, 600_000)?;
        in_range("drain_timeout_ms", self.drain_timeout_ms, 0, 600_000)?;
        if !matches!(self.redirect_status, 301 | 302 | 307 | 308) {
            return Err(LinksError::Config {
                field: "redirect_status",
                value: self.redirect_status.to_string(),
                expected: "301, 302, 307 or 308".into(),
            });
        }
        Ok(())
    }

    /// Refuses an option of Redis that would have no effect.
    fn check_redis(&self) -> Result<(), LinksError> {
        let missing = |field, what: &str, given: &str| LinksError::Config {
            field,
            value: "missing".into(),
            expected: format!("{what}, since {given} is set"),
        };
        let files = [
            ("redis_password_file", &self.redis_password_file),
            ("redis_roots", &self.redis_roots),
            ("redis_certificate", &self.redis_certificate),
            ("redis_key", &self.redis_key),
        ];
        let first_file = files.into_iter().find(|(_, file)| file.is_some()).map(|(name, _)| name);
        match self.redis_user.as_ref().map(|_| "redis_user").or(first_file) {
            Some(given) if self.redis.is_none() => Err(missing("redis", "a URL", given)),
            Some(given @ "redis_user") if self.redis_password_file.is_none() => {
                Err(missing("redis_password_file", "a file", given))
            }
            _ => Ok(()),
        }
    }

    /// How the store is opened.
    ///
    /// # Errors
    /// [`LinksError::Config`] if `database` is not the address of a database.
    pub fn store_config(&self) -> Result<StoreConfig, LinksError> {
        let defaults = StoreConfig::of(self.database_address()?);
        Ok(StoreConfig {
            readers: self.database_readers.unwrap_or(defaults.readers),
            busy_timeout: Duration::from_millis(self.database_busy_ms),
            max_bytes: self.max_database_bytes,
            ..defaults
        })
    }

    /// The public address without its path, if one is set.
    pub(crate) fn public_base(&self) -> Result<Option<Url>, LinksError> {
        let Some(text) = &self.public_url else { return Ok(None) };
        let base = Url::parse(text).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.path() == "/"
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none()
        });
        base.map(Some).ok_or_else(|| LinksError::Config {
            field: "public_url",
            value: shown(text),
            expected: "http:// or https:// and a host, without a path".into(),
        })
    }

    /// The hosts of `allow_hosts`, in the form in which hosts are compared.
    pub(crate) fn allowed_hosts(&self) -> Result<Vec<Host<String>>, LinksError> {
        self.allow_hosts.iter().map(|text| host("allow_hosts", text)).collect()
    }

    /// The ranges of `trusted_proxies`.
    pub(crate) fn proxy_networks(&self) -> Result<Vec<Network>, LinksError> {
        let parse = |text: &String| {
            text.trim().parse().map_err(|()| LinksError::Config {
                field: "trusted_proxies",
                value: shown(text),
                expected: "an address or a range such as 10.0.0.0/8".into(),
            })
        };
        self.trusted_proxies.iter().map(parse).collect()
    }

    /// Whether no option makes the service reachable from other machines, such as through a proxy.
    pub(crate) fn is_local(&self) -> Result<bool, LinksError> {
        let is_loopback = |host: Host<String>| Authority { host, port: 80 }.is_loopback();
        let public = self.public_base()?.and_then(|base| Authority::of(&base));
        Ok(public.is_none_or(|public| public.is_loopback())
            && self.allowed_hosts()?.into_iter().all(is_loopback)
            && self.trusted_proxies.is_empty())
    }

    fn database_address(&self) -> Result<DatabaseAddress, LinksError> {
        if self.database.starts_with("postgres://") || self.database.starts_with("postgresql://") {
            return self.postgres_address();
        }
        let path = match self.database.split_once(':') {
            Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
            // A mistyped URL would be a file otherwise, and a new, empty database.
            Some((scheme, _)) if is_scheme(scheme) => "",
            _ => &self.database,
        };
        if path.is_empty() || path == ":memory:" {
            return Err(LinksError::Config {
                field: "database",
                value: shown(&self.database),
                expected: EXPECTED_DATABASE.into(),
            });
        }
        Ok(DatabaseAddress::Sqlite(path.into()))
    }

    #[cfg(feature = "postgres")]
    fn postgres_address(&self) -> Result<DatabaseAddress, LinksError> {
        let address = DatabaseAddress::Postgres(self.database.clone());
        let wrong = |field, value: String, expected: String| LinksError::Config { field, value, expected };
        postgres::check_url(&self.database)
            .map_err(|expected| wrong("database", shown(&address.to_string()), expected))?;
        // They would have no effect.
        let of_files = [
            ("max_database_bytes", self.max_database_bytes, "no limit"),
            ("database_readers", self.database_readers.map(u64::from), "no number"),
        ];
        match of_files.into_iter().find_map(|(field, value, none)| Some((field, value?, none))) {
            Some((field, value, none)) => {
                Err(wrong(field, value.to_string(), format!("{none}, since the database is not a file")))
            }
            None => Ok(address),
        }
    }

    #[cfg(not(feature = "postgres"))]
    fn postgres_address(&self) -> Result<DatabaseAddress, LinksError> {
        Err(LinksError::Config {
            field: "database",
            value: shown(&self.database),
            expected: format!("{EXPECTED_DATABASE}: this program was built without PostgreSQL"),
        })
    }
}

/// The hosts of an option, in the form in which hosts are compared: names in lower case and in ASCII, addresses in brackets.
///
/// # Errors
/// [`LinksError::Config`] names the option and the first value that is no host name or address, or has a scheme or a port.
pub fn host_names(option: &'static str, texts: &[String]) -> Result<Vec<String>, LinksError> {
    texts.iter().map(|text| Ok(host(option, text)?.to_string())).collect()
}

fn host(option: &'static str, text: &str) -> Result<Host<String>, LinksError> {
    let host = Authority::of_host_header("http", text).filter(|_| is_bare_host(text));
    host.map(|authority| authority.host).ok_or_else(|| LinksError::Config {
        field: option,
        value: shown(text),
        expected: "a host name or an address, without a scheme and a port".into(),
    })
}

/// Whether a host is just that: not a pattern, and without a port. The last colon of an address in brackets is inside
/// them.
fn is_bare_host(host: &str) -> bool {
    !host.contains('*') && host.rsplit_once(':').is_none_or(|(_, rest)| rest.ends_with(']'))
}

/// Whether a text is the scheme of a URL (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char))
}

/// A value as an error message shows it: a text that could not be seen, or not as one, is quoted.
fn shown(text: &str) -> String {
    let text = without_credentials(text);
    let is_plain = !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !c.is_control());
    if is_plain { text } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_is_valid_and_survives_json() {
        let config = Config::default();
        config.validate().unwrap();
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&json).unwrap(), config);
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), config);
        assert!(serde_json::from_str::<Config>(r#"{"databse": "x"}"#).is_err());
    }

    #[test]
    fn value_out_of_range_is_reported_with_the_range() {
        let message = |config: Config| config.validate().unwrap_err().to_string();
        assert_eq!(
            message(Config { visit_flush_ms: 5, ..Config::default() }),
            "visit_flush_ms is 5, expected 10 to 60000"
        );
        assert_eq!(
            message(Config { cache_bytes: 1, ..Config::default() }),
            "cache_bytes is 1, expected at least 1048576"
        );
        assert_eq!(
            message(Config { public_url: Some("https://s.example/path".into()), ..Config::default() }),
            "public_url is https://s.example/path, expected http:// or https:// and a host, without a path"
        );
    }

    #[test]
    fn option_of_redis_without_redis_is_refused_by_name() {
        let message = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert_eq!(
            message(|config| config.redis_roots = Some("roots.pem".into())),
            "redis is missing, expected a URL, since redis_roots is set"
        );
        let password = |config: &mut Config| config.redis_password_file = Some("password".into());
        assert!(message(password).ends_with("since redis_password_file is set"));
        assert_eq!(
            message(|config| {
                config.redis = Some("redis://localhost".into());
                config.redis_user = Some("ada".into());
            }),
            "redis_password_file is missing, expected a file, since redis_user is set"
        );
    }

    #[test]
    fn hosts_and_proxies_are_checked() {
        let hosts = |host: &str| Config { allow_hosts: vec![host.into()], ..Config::default() }.validate();
        for good in ["links.internal", "192.0.2.7", "[2001:db8::7]"] {
            hosts(good).unwrap();
        }
        for wrong in ["", "links.internal:80", "[::1]:80", "https://links.internal", "a b", "*"] {
            let message = hosts(wrong).map(|()| wrong).unwrap_err().to_string();
            assert!(
                message.ends_with("expected a host name or an address, without a scheme and a port"),
                "{wrong}"
            );
        }
        let names = host_names("admin_hosts", &["Links.Internal.".into(), "[2001:DB8:0::7]".into()]).unwrap();
        assert_eq!(names, ["links.internal", "[2001:db8::7]"]);
        let message = host_names("admin_hosts", &["a:80".into()]).unwrap_err().to_string();
        assert!(message.starts_with("admin_hosts is a:80, expected a host name "), "{message}");
        let proxy = Config { trusted_proxies: vec!["10.0.0.0/33".into()], ..Config::default() };
        assert_eq!(
            proxy.validate().unwrap_err().to_string(),
            "trusted_proxies is 10.0.0.0/33, expected an address or a range such as 10.0.0.0/8"
        );
    }

    #[test]
    fn text_that_could_not_be_seen_is_quoted() {
        for (text, quoted) in
            [("", r#""""#), ("a b", r#""a b""#), ("a\nb", r#""a\nb""#), ("sqlite:", "sqlite:")]
        {
            assert_eq!(shown(text), quoted);
        }
        assert_eq!(shown("https://me:secret@a b"), r#""https://…@a b""#);
        let empty = Config { public_url: Some(String::new()), ..Config::default() };
        let message = empty.validate().unwrap_err().to_string();
        assert!(message.starts_with("public_url is \"\", expected http:// "), "{message}");
    }

    #[test]
    fn options_for_a_proxy_end_local_access() {
        let is_local = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.is_local().unwrap()
        };
        assert!(is_local(|_| {}));
        assert!(is_local(|config| config.public_url = Some("http://localhost:9000".into())));
        assert!(!is_local(|config| config.public_url = Some("https://s.example".into())));
        assert!(!is_local(|config| config.allow_hosts = vec!["s.example".into()]));
        assert!(!is_local(|config| config.trusted_proxies = vec!["127.0.0.1".into()]));
    }

    #[test]
    fn errors_do_not_show_credentials() {
        for database in [
            "mysql://me:secret@db.example/links",
            "postgres://me:secret@db.example/links?unknown=secret",
            "postgres://db.example/links?password=secret&sslmode=allow",
            "postgres://me:my@secret@db.example/links",
            "postgres://me:my/secret@db.example/links?sslmode=allow",
        ] {
            let database = database.to_owned();
            let error = Config { database, ..Config::default() }.validate().unwrap_err().to_string();
            assert!(error.starts_with("database is ") && !error.contains("secret"), "{error}");
        }
        let public_url = Some("https://me:secret@s.example".to_owned());
        let error = Config { public_url, ..Config::default() }.validate().unwrap_err().to_string();
        assert!(error.starts_with("public_url is https://…@s.example, expected"), "{error}");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn option_of_a_file_beside_a_server_is_refused_by_name() {
        let on_server = Config { database: "postgres://db.example/links".into(), ..Config::default() };
        on_server.validate().unwrap();
        let readers = Config { database_readers: Some(8), ..on_server.clone() };
        assert_eq!(
            readers.validate().unwrap_err().to_string(),
            "database_readers is 8, expected no number, since the database is not a file"
        );
        let most = Config { max_database_bytes: Some(1 << 30), ..on_server };
        assert_eq!(
            most.validate().unwrap_err().to_string(),
            "max_database_bytes is 1073741824, expected no limit, since the database is not a file"
        );
    }

    #[test]
    fn database_is_a_file_or_the_url_of_a_server() {
        let address =
            |database: &str| Config { database: database.into(), ..Config::default() }.database_address();
        for (database, path) in [
            ("sqlite:./a/links.db", "./a/links.db"),
            ("sqlite:///var/links.db", "/var/links.db"),
            ("./a:b.db", "./a:b.db"),
            ("links.db", "links.db"),
            ("/var/li:nks.db", "/var/li:nks.db"),
        ] {
            assert_eq!(address(database).unwrap(), DatabaseAddress::Sqlite(path.into()));
        }
        for invalid in [
            "",
            "sqlite:",
            "sqlite::memory:",
            "mysql://localhost/links",
            "mysql:x",
            "postgres:/me@localhost/links",
        ] {
            assert!(address(invalid).is_err(), "{invalid}");
        }
    }
}
