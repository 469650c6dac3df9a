//! The settings of the parts. Precedence: flags, environment (both parsed by `args`), configuration file, defaults.

use crate::flags::values;
use crate::flags::{AdminHosts, LinksFlags, LinksOptions, ProxyFlags, ServerFlags, ServerOptions, UpFlags};
use crate::options::config_file;
use crate::options::option_sources::{GivenOptions, OptionSources};
use crate::options::wrong_usage::WrongUsage;
use crate::process::listen::ListenAddress;
use anyhow::{Context, Result, anyhow, bail};
use larder_links::host_names;
use larder_server::Password;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The reference configuration, which `larder config` prints.
pub(crate) const REFERENCE: &str = include_str!("../../../../config/larder.toml");

const ADMIN_PORT: u16 = 8081;
const LINKS_PORT: u16 = 8080;
const PROXY_PORT: u16 = 8080;
const DATA_FOLDER: &str = "larder-data";

/// The configuration file. Unknown keys are errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    up: UpSection,
    /// The keys of `[up]`.
    up_keys: toml::Table,
    server: toml::Table,
    links: toml::Table,
    proxy: toml::Table,
    /// Its name, if there is one; an error of [`File::parse`] is named by its caller.
    name: Option<PathBuf>,
    /// The options that precede those of the file.
    given: GivenOptions,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct UpSection {
    resp: Option<SocketAddr>,
    http: Option<SocketAddr>,
    origin: Vec<String>,
    admin: Option<SocketAddr>,
    admin_hosts: Vec<String>,
    data: Option<PathBuf>,
}

/// What `[server]` has beside the options of the server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerKeys {
    admin: Option<SocketAddr>,
    admin_hosts: Vec<String>,
}

/// What `[links]` has beside the options of the shortener.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LinksKeys {
    listen: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    admin_hosts: Vec<String>,
}

/// What `[proxy]` has beside the options of the proxy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProxyKeys {
    listen: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    admin_hosts: Vec<String>,
    data: Option<PathBuf>,
}

/// A section without further keys.
#[derive(Debug, Deserialize)]
struct NoKeys {}

/// The settings of `larder up`.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) data: PathBuf,
    pub(crate) admin: AdminPort,
    pub(crate) server: Server,
    pub(crate) links: Links,
    /// The proxy that takes the place of the shortener, at its address.
    pub(crate) proxy: Option<Proxy>,
    pub(crate) sources: OptionSources,
}

/// The settings of the cache server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) listen: Option<ListenAddress>,
    pub(crate) admin: PartAdmin,
    pub(crate) config: larder_server::Config,
    /// The password in plain text, for parts of this process that are clients of the server.
    pub(crate) password: Option<String>,
    pub(crate) sources: OptionSources,
}

/// The settings of the URL shortener.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) listen: ListenAddress,
    pub(crate) admin: PartAdmin,
    pub(crate) config: larder_links::Config,
    /// Whether the database is configured and not the default.
    pub(crate) is_database_configured: bool,
    pub(crate) sources: OptionSources,
}

/// The settings of the proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) listen: ListenAddress,
    pub(crate) admin: PartAdmin,
    /// The folder of the admin token.
    pub(crate) data: PathBuf,
    pub(crate) config: larder_proxy::Config,
    pub(crate) sources: OptionSources,
}

/// The settings of an admin port.
#[derive(Debug)]
pub(crate) struct AdminPort {
    pub(crate) listen: ListenAddress,
    /// Host names in addition to loopback.
    pub(crate) hosts: Vec<String>,
}

/// The admin port of a part that runs alone: there is none by default.
#[derive(Debug, Default)]
pub(crate) struct PartAdmin {
    listen: Option<ListenAddress>,
    hosts: Vec<String>,
}

impl File {
    /// Reads a configuration file. Without a path, every key has its default. The options that are given precede its keys.
    pub(crate) fn read(path: Option<&Path>, given: GivenOptions) -> Result<File> {
        let Some(path) = path else { return Ok(File { given, ..File::default() }) };
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let file = File::parse(&text).with_context(|| format!("{name}"))?;
        Ok(File { name: Some(path.to_owned()), given, ..file })
    }

    fn parse(text: &str) -> Result<File> {
        let [up, server, links, proxy] = config_file::sections(text, ["up", "server", "links", "proxy"])?;
        let (up_keys, (up, NoKeys {})) = (up.clone(), config_file::read("up", up)?);
        let file = File { up, up_keys, server, links, proxy, ..File::default() };
        if file.up.data.as_ref().is_some_and(|data| data.as_os_str().is_empty()) {
            bail!("[up] data: \"\" is not the path of a folder");
        }
        host_names("admin_hosts", &file.up.admin_hosts).context("[up]")?;
        // Check the numbers of all sections here, also of parts that are not started.
        let server = file.clone().server(ServerFlags::default())?;
        server.config.validate().map_err(|error| server.sources.of_server(error))?;
        let links = file.clone().links(LinksFlags::default())?;
        links.config.check_ranges().map_err(|error| links.sources.of_links(error))?;
        let proxy = file.clone().proxy_section(ProxyFlags::default())?;
        proxy.config.check_ranges().map_err(|error| proxy.sources.of_proxy(error))?;
        Ok(file)
    }

    /// Checks the sections that are there as the parts do that start with them.
    ///
    /// # Errors
    /// The first option that a start would refuse.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.links.is_empty() {
            let links = self.clone().links(LinksFlags::default())?;
            links.config.validate().map_err(|error| links.sources.of_links(error))?;
        }
        if self.proxy.contains_key("origin") {
            let proxy = self.clone().proxy_section(ProxyFlags::default())?;
            proxy.config.validate().map_err(|error| proxy.sources.of_proxy(error))?;
        }
        Ok(())
    }

    fn sources(&self, section: &'static str, keys: &toml::Table) -> OptionSources {
        OptionSources::new(section, keys, &self.given, self.name.clone())
    }

    pub(crate) fn server(self, flags: ServerFlags) -> Result<Server> {
        let sources = self.sources("server", &self.server);
        let section = self.server;
        let ServerOptions {
            unixsocket,
            max_memory,
            max_memory_policy,
            snapshot,
            threads,
            requirepass,
            aclfile,
            tls_port,
            tls_only,
            tls_cert,
            tls_key,
            tls_ca,
            tls_auth_clients,
            maxclients,
            cluster_mode,
        } = flags.options;
        let is_configured = flags.listen.is_some() || section.contains_key("listen");
        let file_password = section.get("requirepass").and_then(|password| password.as_str());
        let password = requirepass.or_else(|| file_password.map(str::to_owned));
        let (keys, mut config): (ServerKeys, larder_server::Config) = config_file::read("server", section)?;
        config.listen = flags.listen.or(config.listen);
        config.unixsocket = unixsocket.or(config.unixsocket);
        config.max_memory = max_memory.or(config.max_memory);
        config.max_memory_policy = max_memory_policy.or(config.max_memory_policy);
        config.snapshot = snapshot.or(config.snapshot);
        config.threads = threads.or(config.threads);
        config.aclfile = aclfile.or(config.aclfile);
        config.tls_port = tls_port.or(config.tls_port);
        config.tls_only = tls_only.unwrap_or(config.tls_only);
        config.tls_cert = tls_cert.or(config.tls_cert);
        config.tls_key = tls_key.or(config.tls_key);
        config.tls_ca = tls_ca.or(config.tls_ca);
        config.tls_auth_clients = tls_auth_clients.unwrap_or(config.tls_auth_clients);
        config.maxclients = maxclients.unwrap_or(config.maxclients);
        config.cluster_mode = cluster_mode.unwrap_or(config.cluster_mode);
        config.requirepass = password.clone().map(Password::new);
        let listen = config.listen.map(|address| ListenAddress { address, is_configured });
        let admin =
            PartAdmin::new(flags.admin.or(keys.admin), flags.admin_hosts, keys.admin_hosts, &sources)?;
        Ok(Server { listen, admin, config, password, sources })
    }

    pub(crate) fn links(self, flags: LinksFlags) -> Result<Links> {
        let sources = self.sources("links", &self.links);
        let section = self.links;
        let LinksOptions { database, redis, public_url, allow_hosts, trusted_proxies } = flags.options;
        let is_database_configured = database.is_some() || section.contains_key("database");
        let (keys, mut config): (LinksKeys, larder_links::Config) = config_file::read("links", section)?;
        config.database = match (database, &self.up.data) {
            (Some(database), _) => database,
            // That of the `larder up` of this file.
            (None, Some(data)) if !is_database_configured => database_in(data),
            (None, _) => config.database,
        };
        config.redis = redis.or(config.redis);
        config.public_url = public_url.or(config.public_url);
        config.allow_hosts = first_given(allow_hosts, config.allow_hosts);
        config.trusted_proxies = first_given(trusted_proxies, config.trusted_proxies);
        let listen = ListenAddress::or_default(flags.listen.or(keys.listen), LINKS_PORT);
        let admin =
            PartAdmin::new(flags.admin.or(keys.admin), flags.admin_hosts, keys.admin_hosts, &sources)?;
        Ok(Links { listen, admin, config, is_database_configured, sources })
    }

    /// The settings of `larder proxy`, which needs an origin.
    pub(crate) fn proxy(self, flags: ProxyFlags) -> Result<Proxy> {
        let settings = self.proxy_section(flags)?;
        if settings.config.origin.is_empty() {
            let missing =
                "origin is missing: name the web service by --origin, such as --origin http://127.0.0.1:3000";
            return Err(WrongUsage(missing.to_owned()).into());
        }
        Ok(settings)
    }

    fn proxy_section(self, flags: ProxyFlags) -> Result<Proxy> {
        let sources = self.sources("proxy", &self.proxy);
        let (keys, mut config): (ProxyKeys, larder_proxy::Config) = config_file::read("proxy", self.proxy)?;
        config.origin = first_given(flags.origin, config.origin);
        config.origin_roots = flags.origin_roots.or(config.origin_roots);
        config.preserve_host = flags.preserve_host.unwrap_or(config.preserve_host);
        config.trusted_proxies = first_given(flags.trusted_proxies, config.trusted_proxies);
        config.tls_cert = flags.tls_cert.or(config.tls_cert);
        config.tls_key = flags.tls_key.or(config.tls_key);
        config.redis = flags.redis.or(config.redis);
        config.disk = flags.disk.or(config.disk);
        config.cache_bytes = flags.cache_bytes.map_or(config.cache_bytes, |size| size.0);
        let listen = ListenAddress::or_default(flags.listen.or(keys.listen), PROXY_PORT);
        let admin =
            PartAdmin::new(flags.admin.or(keys.admin), flags.admin_hosts, keys.admin_hosts, &sources)?;
        let data = flags.data.or(keys.data).unwrap_or_else(|| PathBuf::from(DATA_FOLDER));
        Ok(Proxy { listen, admin, data, config, sources })
    }

    /// The `HOST:PORT` of the admin port: of `larder up`, or else of `larder server`, `larder links` or `larder proxy`.
    pub(crate) fn admin_authority(&self, flag: Option<String>) -> String {
        let of_part = || {
            [&self.server, &self.links, &self.proxy].into_iter().find_map(|part| address_in(part, "admin"))
        };
        let configured = || ListenAddress::or_default(self.up.admin.or_else(of_part), ADMIN_PORT);
        flag.unwrap_or_else(|| configured().reachable().to_string())
    }

    /// The `HOST:PORT` of the proxy: of `larder proxy`, or else of `larder up`.
    pub(crate) fn proxy_authority(&self, flag: Option<String>) -> String {
        let listen = address_in(&self.proxy, "listen").or(self.up.http);
        flag.unwrap_or_else(|| ListenAddress::or_default(listen, PROXY_PORT).reachable().to_string())
    }

    /// The URL of the shortener: of `larder links`, or else of `larder up`.
    pub(crate) fn links_url(&self, flag: Option<String>) -> String {
        let listen = address_in(&self.links, "listen").or(self.up.http);
        flag.unwrap_or_else(|| ListenAddress::or_default(listen, LINKS_PORT).url())
    }

    /// Where the shortener listens, by `larder links` and by `larder up`; the default if neither is configured.
    pub(crate) fn links_listeners(&self, flag: Option<SocketAddr>) -> Vec<SocketAddr> {
        let configured: Vec<_> =
            flag.or(address_in(&self.links, "listen")).into_iter().chain(self.up.http).collect();
        if configured.is_empty() {
            vec![ListenAddress::or_default(None, LINKS_PORT).address]
        } else {
            configured
        }
    }

    /// The data folder of `larder up`, or else of `larder proxy`.
    pub(crate) fn data_folder(&self, flag: Option<PathBuf>) -> PathBuf {
        let of_proxy = || self.proxy.get("data").and_then(|data| data.as_str()).map(PathBuf::from);
        flag.or_else(|| self.up.data.clone()).or_else(of_proxy).unwrap_or_else(|| PathBuf::from(DATA_FOLDER))
    }

    pub(crate) fn up(mut self, flags: UpFlags) -> Result<Up> {
        let sources = self.sources("up", &self.up_keys);
        let up = std::mem::take(&mut self.up);
        let server_flags =
            ServerFlags { listen: flags.resp.or(up.resp), options: flags.server, ..ServerFlags::default() };
        let links_flags =
            LinksFlags { listen: flags.http.or(up.http), options: flags.links, ..LinksFlags::default() };
        let mut server = self.clone().server(server_flags)?;
        server.sources.replace("listen", &sources, "resp");
        let origin = first_given(flags.origin, up.origin);
        let proxy = if origin.is_empty() {
            None
        } else {
            let mut proxy = self.clone().proxy_section(ProxyFlags { origin, ..ProxyFlags::default() })?;
            proxy.sources.replace("origin", &sources, "origin");
            Some(proxy)
        };
        let mut links = self.links(links_flags)?;
        links.sources.replace("listen", &sources, "http");
        let data = flags.data.or(up.data).unwrap_or_else(|| PathBuf::from(DATA_FOLDER));
        if !links.is_database_configured {
            links.config.database = database_in(&data);
        }
        let admin = AdminPort {
            listen: ListenAddress::or_default(flags.admin.or(up.admin), ADMIN_PORT),
            hosts: admin_hosts(flags.admin_hosts, up.admin_hosts, &sources)?,
        };
        Ok(Up { data, admin, server, links, proxy, sources })
    }
}

impl PartAdmin {
    fn new(
        address: Option<SocketAddr>,
        flag: AdminHosts,
        file: Vec<String>,
        sources: &OptionSources,
    ) -> Result<PartAdmin> {
        let listen = address.map(|address| ListenAddress { address, is_configured: true });
        Ok(PartAdmin { listen, hosts: admin_hosts(flag, file, sources)? })
    }

    /// The port, if there is one.
    ///
    /// # Errors
    /// Hosts are configured and the port is not, so that they have no effect.
    pub(crate) fn port(self, sources: &OptionSources) -> Result<Option<AdminPort>> {
        match (self.listen, self.hosts) {
            (Some(listen), hosts) => Ok(Some(AdminPort { listen, hosts })),
            (None, hosts) if hosts.is_empty() => Ok(None),
            (None, _) => {
                let missing = anyhow!("admin is missing, expected an address, since admin_hosts is set");
                Err(sources.unparsable("admin_hosts", missing))
            }
        }
    }
}

/// An address among the keys of a section, which were checked.
fn address_in(section: &toml::Table, key: &str) -> Option<SocketAddr> {
    values::address(section.get(key)?.as_str()?).ok()
}

/// The database in a data folder.
fn database_in(data: &Path) -> String {
    format!("sqlite:{}", data.join("links.db").display())
}

/// The checked hosts of an admin port.
fn admin_hosts(flag: AdminHosts, file: Vec<String>, sources: &OptionSources) -> Result<Vec<String>> {
    let hosts = host_names("admin_hosts", &first_given(flag.names, file));
    hosts.map_err(|error| sources.unparsable("admin_hosts", error))
}

/// The list of the flag or the environment, or else of the file.
fn first_given(flag: Vec<String>, file: Vec<String>) -> Vec<String> {
    if flag.is_empty() { file } else { flag }
}

impl ListenAddress {
    fn or_default(address: Option<SocketAddr>, port: u16) -> ListenAddress {
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        ListenAddress { address: address.unwrap_or(default), is_configured: address.is_some() }
    }

    /// The address that reaches it from this machine.
    fn reachable(self) -> SocketAddr {
        match self.address.ip().is_unspecified() {
            true => SocketAddr::from((Ipv4Addr::LOCALHOST, self.address.port())),
            false => self.address,
        }
    }

    /// A URL that reaches it from this machine.
    fn url(self) -> String {
        format!("http://{}", self.reachable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::config_file::keys_of;
    use larder_server::MemoryPolicy;

    #[test]
    fn reference_is_valid_and_has_the_defaults() {
        let reference = || File::parse(REFERENCE).expect("the reference parses");
        let server = reference().server(ServerFlags::default()).expect("valid");
        let links = reference().links(LinksFlags::default()).expect("valid");
        assert_eq!(format!("{:?}", server.config), format!("{:?}", larder_server::Config::default()));
        assert_eq!(links.config, larder_links::Config::default());
        let proxy = reference().proxy_section(ProxyFlags::default()).expect("valid");
        assert_eq!(proxy.config, larder_proxy::Config::default());
        let up = reference().up(UpFlags::default()).expect("valid");
        assert_eq!(up.data, PathBuf::from("./larder-data"));
        assert_eq!(up.admin.listen.address, SocketAddr::from(([127, 0, 0, 1], 8081)));
    }

    #[test]
    fn reference_has_every_key() {
        let sections: [(&str, &[&[&str]]); 4] = [
            ("[up]", &[keys_of::<UpSection>()]),
            ("[server]", &[keys_of::<ServerKeys>(), keys_of::<larder_server::Config>()]),
            ("[links]", &[keys_of::<LinksKeys>(), keys_of::<larder_links::Config>()]),
            ("[proxy]", &[keys_of::<ProxyKeys>(), keys_of::<larder_proxy::Config>()]),
        ];
        for (section, keys) in sections {
            let (_, text) = REFERENCE.split_once(section).expect("the section");
            let text = text.split("\n[").next().expect("a text");
            for key in keys.concat() {
                let is_key = |line: &str| line.trim_start_matches("#: ").starts_with(&format!("{key} = "));
                assert!(text.lines().any(is_key), "{section} has no {key}");
            }
        }
    }

    #[test]
    fn commented_out_keys_of_the_reference_are_valid() {
        let uncommented: String = REFERENCE
            .lines()
            .map(|line| line.strip_prefix("#: ").unwrap_or(line).to_owned() + "\n")
            .collect();
        assert!(uncommented.len() > 100 && uncommented != REFERENCE, "the reference has optional keys");
        let file = || File::parse(&uncommented).expect("every key is known");
        assert_eq!(file().server(ServerFlags::default()).expect("valid").password.as_deref(), Some("secret"));
        assert!(file().links(LinksFlags::default()).expect("valid").config.redis.is_some());
    }

    #[test]
    fn commands_reach_the_ports_of_the_file() {
        let urls = |text: &str| {
            let file = File::parse(text).expect("parses");
            (format!("http://{}", file.admin_authority(None)), file.links_url(None))
        };
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        assert_eq!(urls(""), (url(8081), url(8080)));
        // The dashboard of a part that runs alone, unless `larder up` has one.
        let (server, links) =
            ("[server]\nadmin = \"127.0.0.1:7004\"\n", "[links]\nadmin = \"127.0.0.1:7005\"\n");
        assert_eq!(urls(links).0, url(7005));
        let proxy = "[proxy]\nadmin = \"127.0.0.1:7006\"\ndata = \"/p\"\n";
        assert_eq!(urls(proxy).0, url(7006));
        assert_eq!(File::parse(proxy).expect("parses").data_folder(None), PathBuf::from("/p"));
        assert_eq!(urls(&format!("{links}{server}")).0, url(7004));
        assert_eq!(urls(&format!("{server}[up]\nadmin = \"127.0.0.1:7001\"\n")).0, url(7001));
        let up = "[up]\nadmin = \"0.0.0.0:7001\"\nhttp = \"127.0.0.1:7002\"\n";
        assert_eq!(urls(up), (url(7001), url(7002)));
        assert_eq!(urls(&format!("{up}[links]\nlisten = \"0.0.0.0:7003\"\n")).1, url(7003));
        assert_eq!(File::parse(up).expect("parses").links_url(Some("http://a".into())), "http://a");
    }

    #[test]
    fn shortener_listens_where_the_file_says_for_either_command() {
        let ports = |text: &str, flag: Option<SocketAddr>| -> Vec<u16> {
            let listeners = File::parse(text).expect("parses").links_listeners(flag);
            listeners.iter().map(SocketAddr::port).collect()
        };
        let both = "[up]\nhttp = \"127.0.0.1:7002\"\n[links]\nlisten = \"0.0.0.0:7003\"\n";
        assert_eq!(ports("", None), [8080]);
        assert_eq!(ports(both, None), [7003, 7002]);
        assert_eq!(ports(both, Some(([127, 0, 0, 1], 7004).into())), [7004, 7002]);
        assert_eq!(ports("[up]\nhttp = \"127.0.0.1:7002\"\n", None), [7002]);
    }

    #[test]
    fn flag_takes_precedence_over_file_and_file_over_default() {
        let text = "[server]\nmaxclients = 7\nlisten = \"127.0.0.1:7000\"\n";
        let from_file = File::parse(text).expect("parses").server(ServerFlags::default()).expect("valid");
        assert_eq!(
            (from_file.config.maxclients, from_file.listen.map(|listen| listen.is_configured)),
            (7, Some(true))
        );
        let options = ServerOptions { maxclients: Some(8), ..ServerOptions::default() };
        let flags = ServerFlags { options, ..ServerFlags::default() };
        assert_eq!(File::parse(text).expect("parses").server(flags).expect("valid").config.maxclients, 8);
        let default = File::default().server(ServerFlags::default()).expect("valid");
        assert_eq!(
            (default.config.maxclients, default.listen.map(|listen| listen.is_configured)),
            (10_000, Some(false))
        );
    }

    #[test]
    fn every_section_is_checked() {
        for (text, expected) in [
            ("[server]\nmax_clients = 7\n", "[server] max_clients: unknown key; did you mean maxclients?"),
            (
                "[server]\nadmin = 7\n",
                "[server] admin: invalid type: integer `7`, expected an address in quotes",
            ),
            ("[up]\norigin = 'x'\n", "[up] origin: invalid type: string \"x\", expected a list in brackets"),
            ("[up]\ndata = 1\n", "[up] data: invalid type: integer `1`, expected a text in quotes"),
            ("[links]\nlisten = \"x\"\n", "[links] listen: \"x\" is not an address; expected HOST:PORT, "),
            ("[links]\ncache_byte = 7\n", "[links] cache_byte: unknown key; did you mean cache_bytes?"),
            ("[proxy]\norigins = []\n", "[proxy] origins: unknown key; did you mean origin?"),
            ("[proxy]\nmax_connections = 0\n", "[proxy]: max_connections is 0, expected 1 to 1000000"),
            ("[up]\nport = 1\n", "[up] port: unknown key; "),
            ("[up]\ndata = \"\"\n", "[up] data: \"\" is not the path of a folder"),
            (
                "[up]\nadmin_hosts = [\"a:80\"]\n",
                "[up]: admin_hosts is a:80, expected a host name or an address",
            ),
            (
                "[server]\nadmin_hosts = [\"*\"]\n",
                "[server]: admin_hosts is *, expected a host name or an address",
            ),
        ] {
            let message = format!("{:#}", File::parse(text).expect_err("refused"));
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
    }

    #[test]
    fn proxy_needs_an_origin_and_takes_that_of_the_flag_before_that_of_the_file() {
        let missing = File::default().proxy(ProxyFlags::default()).expect_err("refused");
        assert!(
            missing.is::<WrongUsage>() && missing.to_string().starts_with("origin is missing: "),
            "{missing}"
        );
        let text = "[proxy]\norigin = [\"http://file:1\"]\nlisten = \":7000\"\ncache_bytes = \"2mb\"\n";
        let proxy = |flags| File::parse(text).expect("parses").proxy(flags).expect("valid");
        let from_file = proxy(ProxyFlags::default());
        assert_eq!(
            (from_file.config.origin, from_file.config.cache_bytes),
            (vec!["http://file:1".into()], 2 << 20)
        );
        assert_eq!((from_file.listen.address.port(), from_file.listen.is_configured), (7000, true));
        let flags = ProxyFlags { origin: vec!["http://flag:1".into()], ..ProxyFlags::default() };
        assert_eq!(proxy(flags).config.origin, ["http://flag:1"]);
    }

    #[test]
    fn policy_of_a_flag_precedes_that_of_the_file() {
        let text = "[server]\nmax_memory_policy = \"volatile-ttl\"\n";
        let policy = |max_memory_policy| {
            let options = ServerOptions { max_memory_policy, ..ServerOptions::default() };
            let flags = ServerFlags { options, ..ServerFlags::default() };
            File::parse(text).expect("parses").server(flags).expect("valid").config.max_memory_policy
        };
        assert_eq!(policy(None), Some(MemoryPolicy::VolatileTtl));
        assert_eq!(policy(Some(MemoryPolicy::Noeviction)), Some(MemoryPolicy::Noeviction));
        let message =
            File::parse("[server]\nmax_memory_policy = \"volatile\"\n").expect_err("refused").to_string();
        assert!(message.contains("'volatile' is not a policy"), "{message}");
    }

    #[test]
    fn up_passes_options_and_sizes_to_its_parts() {
        let text =
            "[links]\ncache_bytes = \"2mb\"\nmax_database_bytes = \"1gb\"\n[server]\nmax_memory = \"3mb\"\n";
        let server = ServerOptions { threads: Some(3), ..ServerOptions::default() };
        let links = LinksOptions { redis: Some("redis://r".into()), ..LinksOptions::default() };
        let up = File::parse(text).expect("parses").up(UpFlags { server, links, ..UpFlags::default() });
        let up = up.expect("valid");
        assert_eq!(
            (up.links.config.cache_bytes, up.links.config.max_database_bytes),
            (2 << 20, Some(1 << 30))
        );
        assert_eq!(
            (up.server.config.max_memory.map(|size| size.0), up.server.config.threads),
            (Some(3 << 20), Some(3))
        );
        assert_eq!(up.links.config.redis.as_deref(), Some("redis://r"));
    }

    #[test]
    fn up_database_is_in_the_data_folder_unless_configured() {
        let flags = || UpFlags { data: Some("/d".into()), ..UpFlags::default() };
        let up = File::default().up(flags()).expect("valid");
        assert_eq!(up.links.config.database, "sqlite:/d/links.db");
        let named = File::parse("[links]\ndatabase = \"sqlite:/e/x.db\"\n").expect("parses").up(flags());
        assert_eq!(named.expect("valid").links.config.database, "sqlite:/e/x.db");
    }
}
