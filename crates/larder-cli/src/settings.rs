//! The settings of the parts. Precedence: flags, environment (both parsed by `args`), configuration file, defaults.

use crate::args::{HostFlags, LinksFlags, ServerFlags, UpFlags};
use crate::listen::ListenAddress;
use anyhow::{Context, Result};
use larder_server::Password;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The reference configuration, which `larder config` prints.
pub(crate) const REFERENCE: &str = include_str!("../../../config/larder.toml");

const ADMIN_PORT: u16 = 8081;
const DATA_FOLDER: &str = "larder-data";

/// The configuration file. Unknown keys are errors, here and in the sections of the parts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct File {
    up: UpSection,
    server: toml::Table,
    links: toml::Table,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct UpSection {
    resp: Option<SocketAddr>,
    http: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    data: Option<PathBuf>,
}

/// The settings of `larder up`.
#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) data: PathBuf,
    pub(crate) admin: ListenAddress,
    pub(crate) server: Server,
    pub(crate) links: Links,
}

/// The settings of the cache server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) listen: Option<ListenAddress>,
    pub(crate) config: larder_server::Config,
    /// The password in plain text, for parts of this process that are clients of the server.
    pub(crate) password: Option<String>,
}

/// The settings of the URL shortener.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) listen: ListenAddress,
    pub(crate) config: larder_links::Config,
    /// Whether the database is configured and not the default.
    pub(crate) is_database_configured: bool,
}

impl File {
    /// Reads a configuration file. Without a path, every key has its default.
    pub(crate) fn read(path: Option<&Path>) -> Result<File> {
        let Some(path) = path else { return Ok(File::default()) };
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        File::parse(&text).with_context(|| format!("{name}"))
    }

    fn parse(text: &str) -> Result<File> {
        // Errors of toml have several lines, ours have one.
        let file: File = toml::from_str(text).map_err(|error| one_line(text, &error))?;
        // Check all sections here, where an error can name the file.
        file.clone().server(ServerFlags::default())?;
        file.clone().links(LinksFlags::default())?;
        Ok(file)
    }

    pub(crate) fn server(mut self, flags: ServerFlags) -> Result<Server> {
        let section = &mut self.server;
        let is_configured = flags.listen.is_some() || section.contains_key("listen");
        let password = match (flags.requirepass, section.get("requirepass")) {
            (Some(password), _) => Some(password),
            (None, file) => file.and_then(|password| password.as_str()).map(str::to_owned),
        };
        let mut config: larder_server::Config = section_of("server", std::mem::take(section))?;
        config.listen = flags.listen.or(config.listen);
        config.unixsocket = flags.unixsocket.or(config.unixsocket);
        config.max_memory = flags.max_memory.or(config.max_memory);
        config.threads = flags.threads.or(config.threads);
        config.maxclients = flags.maxclients.unwrap_or(config.maxclients);
        config.requirepass = password.clone().map(Password::new);
        let listen = config.listen.map(|address| ListenAddress { address, is_configured });
        Ok(Server { listen, config, password })
    }

    pub(crate) fn links(mut self, flags: LinksFlags) -> Result<Links> {
        let section = &mut self.links;
        let file_listen = match section.remove("listen") {
            Some(address) => Some(address.try_into().context("links.listen is not an address")?),
            None => None,
        };
        let listen = ListenAddress::or_default(flags.listen.or(file_listen), 8080);
        let is_database_configured = flags.database.is_some() || section.contains_key("database");
        let mut config: larder_links::Config = section_of("links", std::mem::take(section))?;
        config.database = flags.database.unwrap_or(config.database);
        config.redis = flags.redis.or(config.redis);
        config.public_url = flags.public_url.or(config.public_url);
        let HostFlags { allow_hosts, trusted_proxies } = flags.hosts;
        if !allow_hosts.is_empty() {
            config.allow_hosts = allow_hosts;
        }
        if !trusted_proxies.is_empty() {
            config.trusted_proxies = trusted_proxies;
        }
        Ok(Links { listen, config, is_database_configured })
    }

    /// The URL of the admin port of `larder up`.
    pub(crate) fn admin_url(&self, flag: Option<String>) -> String {
        let configured = ListenAddress::or_default(self.up.admin, ADMIN_PORT).address;
        let reachable = match configured.ip().is_unspecified() {
            true => SocketAddr::from((Ipv4Addr::LOCALHOST, configured.port())),
            false => configured,
        };
        flag.unwrap_or_else(|| format!("http://{reachable}"))
    }

    /// The data folder of `larder up`.
    pub(crate) fn data_folder(&self, flag: Option<PathBuf>) -> PathBuf {
        flag.or_else(|| self.up.data.clone()).unwrap_or_else(|| PathBuf::from(DATA_FOLDER))
    }

    pub(crate) fn up(mut self, flags: UpFlags) -> Result<Up> {
        let up = std::mem::take(&mut self.up);
        let resp = flags.resp.or(up.resp);
        let http = flags.http.or(up.http);
        let admin = ListenAddress::or_default(flags.admin.or(up.admin), ADMIN_PORT);
        let data = flags.data.or(up.data).unwrap_or_else(|| PathBuf::from(DATA_FOLDER));
        let (server, links) = (std::mem::take(&mut self.server), std::mem::take(&mut self.links));
        let server = File { server, ..File::default() }
            .server(ServerFlags { listen: resp, ..ServerFlags::default() })?;
        let links_flags = LinksFlags { listen: http, hosts: flags.hosts, ..LinksFlags::default() };
        let mut links = File { links, ..File::default() }.links(links_flags)?;
        if !links.is_database_configured {
            links.config.database = format!("sqlite:{}", data.join("links.db").display());
        }
        Ok(Up { data, admin, server, links })
    }
}

impl ListenAddress {
    fn or_default(address: Option<SocketAddr>, port: u16) -> ListenAddress {
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        ListenAddress { address: address.unwrap_or(default), is_configured: address.is_some() }
    }
}

fn section_of<'de, T: Deserialize<'de>>(name: &str, table: toml::Table) -> Result<T> {
    T::deserialize(table).map_err(|error| anyhow::anyhow!("[{name}]: {}", error.message()))
}

fn one_line(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
    anyhow::anyhow!("line {line}: {}", error.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_valid_and_has_the_defaults() {
        let reference = || File::parse(REFERENCE).expect("the reference parses");
        let server = reference().server(ServerFlags::default()).expect("valid");
        let links = reference().links(LinksFlags::default()).expect("valid");
        assert_eq!(format!("{:?}", server.config), format!("{:?}", larder_server::Config::default()));
        assert_eq!(links.config, larder_links::Config::default());
        let up = reference().up(UpFlags::default()).expect("valid");
        assert_eq!(up.data, PathBuf::from("./larder-data"));
        assert_eq!(up.admin.address, SocketAddr::from(([127, 0, 0, 1], 8081)));
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
    fn flag_takes_precedence_over_file_and_file_over_default() {
        let text = "[server]\nmaxclients = 7\nlisten = \"127.0.0.1:7000\"\n";
        let from_file = File::parse(text).expect("parses").server(ServerFlags::default()).expect("valid");
        assert_eq!(
            (from_file.config.maxclients, from_file.listen.map(|listen| listen.is_configured)),
            (7, Some(true))
        );
        let flags = ServerFlags { maxclients: Some(8), ..ServerFlags::default() };
        assert_eq!(File::parse(text).expect("parses").server(flags).expect("valid").config.maxclients, 8);
        let default = File::default().server(ServerFlags::default()).expect("valid");
        assert_eq!(
            (default.config.maxclients, default.listen.map(|listen| listen.is_configured)),
            (10_000, Some(false))
        );
    }

    #[test]
    fn parse_errors_are_one_line_that_names_the_cause() {
        let message = |text: &str| match File::parse(text) {
            Ok(file) => file.server(ServerFlags::default()).expect_err("refused").to_string(),
            Err(error) => error.to_string(),
        };
        for (text, expected) in [
            ("[server]\nmax_clients = 7\n", "unknown field `max_clients`"),
            ("[sever]\n", "unknown field `sever`"),
            ("[server\n", "line 1: "),
            ("[server]\nmaxclients = \"many\"\n", "invalid type"),
        ] {
            let message = message(text);
            assert!(message.contains(expected) && !message.contains('\n'), "{text:?}: {message}");
        }
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
