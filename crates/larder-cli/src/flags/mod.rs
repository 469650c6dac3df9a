//! The command line: commands, flags and their help. Defaults are applied in `settings`.

pub(crate) mod values;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use larder_links::export::Format;
use larder_links::import::SourceFormat;
use larder_links::{Scope, TokenName};
use larder_server::{ClientCertificates, MemoryPolicy};
use larder_terminal::whole_number;
use larder_text::ByteSize;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use values::{address, admin_authority, count, policy, source_format};

/// The largest row number of SQLite.
const MAX_TOKEN_ID: u64 = i64::MAX as u64;

/// A cache for web services: a Redis-protocol cache server, a response cache, and a URL shortener that uses them.
#[derive(Debug, Parser)]
#[command(name = "larder", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Read options from this file. A flag takes precedence over the environment, and the environment over the file.
    #[arg(long, global = true, env = "LARDER_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the cache server, the URL shortener and the dashboard in one process.
    Up(Box<UpFlags>),
    /// Start the cache server (Redis protocol).
    Server(Box<ServerFlags>),
    /// Start the URL shortener, import links, or manage tokens.
    #[command(args_conflicts_with_subcommands = true)]
    Links {
        #[command(flatten)]
        flags: Box<LinksFlags>,
        #[command(subcommand)]
        command: Option<LinksCommand>,
    },
    /// Start a reverse proxy with a response cache in front of a web service.
    Proxy(Box<ProxyFlags>),
    /// Print the figures of a running Larder.
    Stats(StatsFlags),
    /// Watch the figures of a running Larder in the terminal.
    Top(TopFlags),
    /// Say what looks wrong in a running Larder, and what to do about it.
    Doctor(DoctorFlags),
    /// Explain what a running Larder would do with a key or a URL now. It changes nothing.
    Explain(ExplainFlags),
    /// Purge a part of a running Larder.
    Purge(PurgeFlags),
    /// Request URLs through a running proxy, so that their responses are stored.
    Warm(WarmFlags),
    /// Name the program that measures.
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Print the reference configuration, with every key and its default, or check a file.
    Config {
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    /// Print the completion script for a shell.
    Completions {
        /// The shell: bash, zsh, fish, elvish or powershell.
        shell: Shell,
    },
    /// Write the manual pages, one for each command, for a package.
    #[command(hide = true)]
    Man {
        /// The folder to write them into.
        folder: PathBuf,
    },
}

/// Flags of `larder up`.
#[derive(Debug, Default, Args)]
pub(crate) struct UpFlags {
    /// The address of the cache server [default: 127.0.0.1:6379, or a free port if 6379 is in use].
    #[arg(long, env = "LARDER_UP_RESP", value_name = "ADDRESS", value_parser = address)]
    pub(crate) resp: Option<SocketAddr>,
    /// The address of the URL shortener [default: 127.0.0.1:8080, or a free port if 8080 is in use].
    #[arg(long, env = "LARDER_UP_HTTP", value_name = "ADDRESS", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,
    /// A web service to put a caching proxy in front of, in the place of the URL shortener: http://HOST:PORT, https://HOST:PORT
    /// or h2c://HOST:PORT. Repeat it for several.
    #[arg(long, env = "LARDER_UP_ORIGIN", value_name = "URL", value_delimiter = ',', conflicts_with_all = ["database", "redis", "public_url", "allow_hosts"])]
    pub(crate) origin: Vec<String>,
    /// The address of the dashboard [default: 127.0.0.1:8081, or a free port if 8081 is in use].
    #[arg(long, env = "LARDER_UP_ADMIN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) admin: Option<SocketAddr>,
    /// The folder for the database and the tokens [default: ./larder-data].
    #[arg(long, env = "LARDER_UP_DATA", value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) admin_hosts: AdminHosts,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) links: LinksOptions,
}

/// The admin port of a running Larder.
#[derive(Debug, Args)]
pub(crate) struct AdminFlag {
    /// The admin port [default: that of the file, or http://127.0.0.1:8081].
    #[arg(long, env = "LARDER_ADMIN", value_name = "URL", value_parser = admin_authority)]
    pub(crate) admin: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatsFlags {
    #[command(flatten)]
    pub(crate) admin: AdminFlag,
    /// Print JSON, in the shape of /api/stats.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopFlags {
    #[command(flatten)]
    pub(crate) admin: AdminFlag,
    /// The seconds between two looks.
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = whole_number(1..=3_600u64))]
    pub(crate) interval: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    #[command(flatten)]
    pub(crate) admin: AdminFlag,
    /// How long to watch what happens, in seconds; 0 for all that happened since the start.
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = whole_number(0..=3_600u64))]
    pub(crate) seconds: u64,
    /// Also ask this Redis whether it is fit for caches, as redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH.
    #[arg(long, env = "LARDER_DOCTOR_REDIS", value_name = "URL", hide_env_values = true)]
    pub(crate) redis: Option<String>,
    /// Its password. Prefer the variable: other users can see flags.
    #[arg(long, env = "LARDER_DOCTOR_REDIS_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    pub(crate) redis_password: Option<String>,
    /// A file with its password.
    #[arg(long, env = "LARDER_DOCTOR_REDIS_PASSWORD_FILE", value_name = "FILE")]
    pub(crate) redis_password_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainFlags {
    /// A key of the cache server, a slug, or a URL of the shortener or its API.
    #[arg(value_name = "URL|KEY")]
    pub(crate) target: String,
    /// Ask this part only, by the name that `larder stats` prints.
    #[arg(long)]
    pub(crate) part: Option<String>,
    #[command(flatten)]
    pub(crate) admin: AdminFlag,
    /// Print JSON, in the shape of /api/explain.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PurgeFlags {
    /// The name of the part, as `larder stats` prints it.
    pub(crate) part: String,
    #[command(flatten)]
    pub(crate) target: PurgeTarget,
    /// Make it stale instead of dropping it: it is served while it is refreshed, or validated, where that is allowed.
    #[arg(long)]
    pub(crate) soft: bool,
    #[command(flatten)]
    pub(crate) admin: AdminFlag,
    /// The data folder of `larder up`, which has the admin token [default: ./larder-data].
    #[arg(long, env = "LARDER_UP_DATA", value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
}

/// What to purge.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PurgeTarget {
    /// Everything with this tag.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tag: Option<String>,
    /// One resource of a response cache, with its query.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) uri: Option<String>,
    /// All resources of a response cache whose URI begins with this.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) prefix: Option<String>,
    /// The private responses of this principal in a response cache.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) principal: Option<String>,
    /// Everything.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WarmFlags {
    /// A file with one URL in each line: http://HOST/PATH, or only the path.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The proxy [default: that of the file of options, or http://127.0.0.1:8080].
    #[arg(long, env = "LARDER_WARM_PROXY", value_name = "URL", value_parser = admin_authority)]
    pub(crate) proxy: Option<String>,
}

/// Flags of `larder server`.
#[derive(Debug, Default, Args)]
pub(crate) struct ServerFlags {
    /// The address to listen on [default: 127.0.0.1:6379, or a free port if 6379 is in use].
    #[arg(long, env = "LARDER_SERVER_LISTEN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The address of a dashboard with metrics for this server [default: none].
    #[arg(long, env = "LARDER_SERVER_ADMIN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) admin: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) admin_hosts: AdminHosts,
    #[command(flatten)]
    pub(crate) options: ServerOptions,
    #[command(flatten)]
    pub(crate) move_in: MoveInFlags,
}

/// Commands of `larder config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration file, and start nothing: every section, key and range.
    Check {
        /// The file [default: that of --config].
        file: Option<PathBuf>,
    },
}

/// Flags of `larder server --check` and `--from`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Moving in from a Redis")]
pub(crate) struct MoveInFlags {
    /// Start nothing: print which commands this Redis or Valkey has executed, and which of them are missing here.
    #[arg(long, value_name = "URL")]
    pub(crate) check: Option<String>,
    /// Copy this Redis or Valkey while it is in use, and refuse writes until REPLICAOF NO ONE.
    #[arg(long, env = "LARDER_SERVER_FROM", value_name = "URL", hide_env_values = true)]
    pub(crate) from: Option<String>,
    /// Its password. Prefer the variable: other users can see flags.
    #[arg(long, env = "LARDER_SERVER_REDIS_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    pub(crate) redis_password: Option<String>,
    /// A file with its password.
    #[arg(long, env = "LARDER_SERVER_REDIS_PASSWORD_FILE", value_name = "FILE")]
    pub(crate) redis_password_file: Option<PathBuf>,
}

/// Flags of `larder links`.
#[derive(Debug, Default, Args)]
pub(crate) struct LinksFlags {
    /// The address to listen on [default: 127.0.0.1:8080, or a free port if 8080 is in use].
    #[arg(long, env = "LARDER_LINKS_LISTEN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The address of a dashboard with metrics for this shortener [default: none].
    #[arg(long, env = "LARDER_LINKS_ADMIN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) admin: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) admin_hosts: AdminHosts,
    #[command(flatten)]
    pub(crate) options: LinksOptions,
}

/// Flags of `larder proxy`.
#[derive(Debug, Default, Args)]
pub(crate) struct ProxyFlags {
    /// The web service to forward requests to, http://HOST:PORT or https://HOST:PORT, or h2c://HOST:PORT for HTTP/2 without
    /// encryption. Repeat it for several, which get requests in turn; one that does not answer is left out for a while.
    #[arg(long, env = "LARDER_PROXY_ORIGIN", value_name = "URL", value_delimiter = ',')]
    pub(crate) origin: Vec<String>,
    /// The address to listen on [default: 127.0.0.1:8080, or a free port if 8080 is in use].
    #[arg(long, env = "LARDER_PROXY_LISTEN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The address of a dashboard with metrics and purges for this proxy [default: none].
    #[arg(long, env = "LARDER_PROXY_ADMIN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) admin: Option<SocketAddr>,
    /// The folder for the admin token [default: ./larder-data].
    #[arg(long, env = "LARDER_PROXY_DATA", value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) admin_hosts: AdminHosts,
    /// A Redis through which the replicas of the proxy share responses and purges [default: none, it is alone].
    #[arg(long, env = "LARDER_PROXY_REDIS", value_name = "URL", hide_env_values = true)]
    pub(crate) redis: Option<String>,
    /// The memory limit for stored responses, for example 512mb [default: 64mb].
    #[arg(long, env = "LARDER_PROXY_CACHE_BYTES", value_name = "SIZE")]
    pub(crate) cache_bytes: Option<ByteSize>,
    /// A folder of its own for responses beyond memory and over restarts [default: none, memory alone].
    #[arg(long, env = "LARDER_PROXY_DISK", value_name = "FOLDER")]
    pub(crate) disk: Option<PathBuf>,
    /// Serve HTTPS with the certificate chain in this PEM file. SIGHUP reads it again [default: none, HTTP].
    #[arg(long, env = "LARDER_PROXY_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM, in a file that only its owner can access [default: none].
    #[arg(long, env = "LARDER_PROXY_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Further root certificates for https origins, in PEM [default: none, those of the operating system].
    #[arg(long, env = "LARDER_PROXY_ORIGIN_ROOTS", value_name = "FILE")]
    pub(crate) origin_roots: Option<PathBuf>,
    /// Whether origins get the Host that the client sent, and not their own [default: true].
    #[arg(long, env = "LARDER_PROXY_PRESERVE_HOST", value_name = "true|false", hide_possible_values = true)]
    pub(crate) preserve_host: Option<bool>,
    /// Proxies in front whose X-Forwarded-* and Forwarded are kept: addresses or ranges like 10.0.0.0/8 [default: none].
    #[arg(long, env = "LARDER_PROXY_TRUSTED_PROXIES", value_name = "ADDRESS,…", value_delimiter = ',')]
    pub(crate) trusted_proxies: Vec<String>,
}

/// Who may read the pages of an admin port.
#[derive(Debug, Default, Args)]
pub(crate) struct AdminHosts {
    /// Additional host names for the dashboard and the metrics, without ports [default: none].
    #[arg(long = "admin-hosts", env = "LARDER_ADMIN_HOSTS", value_name = "HOST,…", value_delimiter = ',')]
    pub(crate) names: Vec<String>,
}

/// The options of the cache server that `larder server` and `larder up` have in common.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Cache server")]
pub(crate) struct ServerOptions {
    /// Also listen on this Unix socket [default: none].
    #[arg(long, env = "LARDER_SERVER_UNIXSOCKET", value_name = "PATH")]
    pub(crate) unixsocket: Option<PathBuf>,
    /// The memory limit for keys and values, for example 512mb or 1.5GiB [default: half of the machine's memory].
    #[arg(long, env = "LARDER_SERVER_MAX_MEMORY", value_name = "SIZE")]
    pub(crate) max_memory: Option<ByteSize>,
    /// What is evicted when that is used up: a maxmemory-policy of Redis [default: allkeys-lfu].
    #[arg(long, env = "LARDER_SERVER_MAX_MEMORY_POLICY", value_name = "POLICY", value_parser = policy())]
    pub(crate) max_memory_policy: Option<MemoryPolicy>,
    /// Keep all keys in this file from a stop to the next start [default: none].
    #[arg(long, env = "LARDER_SERVER_SNAPSHOT", value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    /// The number of threads that serve connections [default: one per core].
    #[arg(long, env = "LARDER_SERVER_THREADS", value_name = "N", value_parser = count(1..=256))]
    pub(crate) threads: Option<usize>,
    /// The password that clients must send [default: none].
    #[arg(long, env = "LARDER_SERVER_REQUIREPASS", value_name = "PASSWORD", hide_env_values = true)]
    pub(crate) requirepass: Option<String>,
    /// A file of users, in the form of Redis [default: none].
    #[arg(long, env = "LARDER_SERVER_ACLFILE", value_name = "FILE")]
    pub(crate) aclfile: Option<PathBuf>,
    /// Also serve TLS on this port of the address; 0 selects a free one. Needs --tls-cert and --tls-key [default: none].
    #[arg(long, env = "LARDER_SERVER_TLS_PORT", value_name = "PORT")]
    pub(crate) tls_port: Option<u16>,
    /// Serve no other port than that for TLS [default: false].
    #[arg(long, env = "LARDER_SERVER_TLS_ONLY", value_name = "true|false", num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) tls_only: Option<bool>,
    /// The certificate chain for TLS, in PEM. SIGHUP reads it again [default: none].
    #[arg(long, env = "LARDER_SERVER_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM, in a file that only its owner can access [default: none].
    #[arg(long, env = "LARDER_SERVER_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Roots that have signed the certificates of clients, in PEM [default: none, clients need no certificate].
    #[arg(long, env = "LARDER_SERVER_TLS_CA", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Whether clients need a certificate, if there is --tls-ca: no, optional or yes [default: yes].
    #[arg(long, env = "LARDER_SERVER_TLS_AUTH_CLIENTS", value_name = "no|optional|yes")]
    pub(crate) tls_auth_clients: Option<ClientCertificates>,
    /// The maximum number of open connections [default: 10000].
    #[arg(long, env = "LARDER_SERVER_MAXCLIENTS", value_name = "N", value_parser = count(1..=1_000_000))]
    pub(crate) maxclients: Option<usize>,
    /// Answer as the only node of a cluster, for clients that work with clusters only [default: false].
    #[arg(long, env = "LARDER_SERVER_CLUSTER_MODE", value_name = "true|false", num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub(crate) cluster_mode: Option<bool>,
}

/// The options of the URL shortener that `larder links` and `larder up` have in common.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "URL shortener")]
pub(crate) struct LinksOptions {
    /// The database, sqlite:FILE or postgres://USER@HOST/NAME [default: sqlite:./larder-data/links.db].
    #[arg(long, env = "LARDER_LINKS_DATABASE", value_name = "URL", hide_env_values = true)]
    pub(crate) database: Option<String>,
    /// A Redis as the second tier, shared with other instances [default: none; with `up`, its cache server].
    #[arg(long, env = "LARDER_LINKS_REDIS", value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// The base URL of short links if a proxy is in front [default: from the request].
    #[arg(long, env = "LARDER_LINKS_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Additional host names for the API of the URL shortener, without ports [default: none].
    #[arg(long, env = "LARDER_LINKS_ALLOW_HOSTS", value_name = "HOST,…", value_delimiter = ',')]
    pub(crate) allow_hosts: Vec<String>,
    /// Proxies whose X-Forwarded-For the URL shortener trusts: addresses or ranges like 10.0.0.0/8 [default: none].
    #[arg(long, env = "LARDER_LINKS_TRUSTED_PROXIES", value_name = "ADDRESS,…", value_delimiter = ',')]
    pub(crate) trusted_proxies: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LinksCommand {
    /// Import links from a CSV file with the columns name and url, whose name becomes the title, or from an export.
    Import(ImportFlags),
    /// Write all links as CSV or JSON, also while a shortener uses the database.
    Export(ExportFlags),
    /// Copy the database file, also while a shortener uses it.
    Backup {
        /// The file of the copy. An existing file is replaced.
        file: PathBuf,
        #[command(flatten)]
        database: DatabaseFlag,
    },
    /// Copy a database file into an empty database of PostgreSQL: links, tokens and visits. No shortener may use either.
    Copy {
        /// The file that is copied.
        #[arg(long, value_name = "URL")]
        from: String,
        /// The database that it is copied into, as postgres://USER@HOST/NAME.
        #[arg(long, value_name = "URL")]
        to: String,
    },
    /// Create, list or remove API tokens.
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it. It cannot be shown again, because the database stores only its hash.
    Add {
        /// A name for the token, at most 64 characters.
        #[arg(long, default_value = "", hide_default_value = true)]
        name: TokenName,
        /// read allows listing and reading links; write also allows changing them.
        #[arg(long, default_value = "write", value_name = "read|write")]
        scope: Scope,
        #[command(flatten)]
        database: DatabaseFlag,
    },
    /// List the tokens with their id, scope, day of creation and name.
    List {
        #[command(flatten)]
        database: DatabaseFlag,
    },
    /// Remove a token. Its sessions end within a second, also in running processes.
    Remove {
        /// The id of the token, as `list` prints it.
        #[arg(value_parser = whole_number(1..=MAX_TOKEN_ID))]
        id: u64,
        #[command(flatten)]
        database: DatabaseFlag,
    },
}

/// The database of a command.
#[derive(Debug, Args)]
pub(crate) struct DatabaseFlag {
    /// The database, sqlite:FILE or postgres://USER@HOST/NAME [default: sqlite:./larder-data/links.db].
    #[arg(long, env = "LARDER_LINKS_DATABASE", value_name = "URL", hide_env_values = true)]
    pub(crate) database: Option<String>,
}

/// Flags of `larder links export`.
#[derive(Debug, Args)]
pub(crate) struct ExportFlags {
    /// The file to write, only for its owner [default: `-`, the standard output].
    pub(crate) file: Option<PathBuf>,
    /// The format.
    #[arg(long, default_value = "csv", value_name = "csv|json")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) database: DatabaseFlag,
}

/// Flags of `larder links import`.
#[derive(Debug, Args)]
pub(crate) struct ImportFlags {
    /// The CSV or JSON file to import.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The program that has exported the file.
    #[arg(long, default_value = "larder", value_name = "FORMAT", value_parser = source_format())]
    pub(crate) format: SourceFormat,
    /// The URL of the running URL shortener to import into [default: that of the file, or http://127.0.0.1:8080].
    #[arg(long, env = "LARDER_IMPORT_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A token with the scope write, if the server requires one. Prefer the variable: other users can see flags.
    #[arg(long, env = "LARDER_LINKS_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Import into this database instead. No server may use it meanwhile. Its own addresses, to which no link may lead, are
    /// those of the file and the environment.
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    pub(crate) database: Option<String>,
}
