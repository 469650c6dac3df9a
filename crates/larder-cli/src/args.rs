//! The command line: names, flags and their help. What a flag means when it is not given is decided in `settings`.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use larder_bench::BenchCommand;
use larder_links::{Scope, TokenName};
use larder_server::ByteSize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A cache for web services: a Redis-protocol cache server, a response cache, and a URL shortener that uses them.
#[derive(Debug, Parser)]
#[command(name = "larder", version, about, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Read options from this file. A flag beats the environment, which beats the file.
    #[arg(long, global = true, env = "LARDER_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start everything on this machine: cache server, URL shortener, dashboard.
    Up(UpFlags),
    /// Start the cache server, which speaks the Redis protocol.
    Server(ServerFlags),
    /// Start the URL shortener, import links into one, or manage its tokens.
    #[command(args_conflicts_with_subcommands = true)]
    Links {
        #[command(flatten)]
        flags: LinksFlags,
        #[command(subcommand)]
        command: Option<LinksCommand>,
    },
    /// Measure Larder beside its peers, or replay a trace of requests through them.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Print the reference configuration: every key with its default.
    Config,
    /// Print a completion script for a shell.
    Completions {
        /// bash, zsh, fish, elvish or powershell.
        shell: Shell,
    },
}

/// Flags of `larder up`.
#[derive(Debug, Default, Args)]
pub(crate) struct UpFlags {
    /// Where the cache server listens [default: 127.0.0.1:6379, or a free port if that is taken].
    #[arg(long, env = "LARDER_UP_RESP", value_name = "ADDRESS")]
    pub(crate) resp: Option<SocketAddr>,
    /// Where the URL shortener listens [default: 127.0.0.1:8080, or a free port if that is taken].
    #[arg(long, env = "LARDER_UP_HTTP", value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,
    /// Where the dashboard listens [default: 127.0.0.1:8081, or a free port if that is taken].
    #[arg(long, env = "LARDER_UP_ADMIN", value_name = "ADDRESS")]
    pub(crate) admin: Option<SocketAddr>,
    /// The folder for the database and the admin token [default: ./larder-data].
    #[arg(long, env = "LARDER_UP_DATA", value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
}

/// Flags of `larder server`.
#[derive(Debug, Default, Args)]
pub(crate) struct ServerFlags {
    /// Where to listen [default: 127.0.0.1:6379, or a free port if that is taken].
    #[arg(long, env = "LARDER_SERVER_LISTEN", value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// A Unix socket to listen on as well.
    #[arg(long, env = "LARDER_SERVER_UNIXSOCKET", value_name = "PATH")]
    pub(crate) unixsocket: Option<PathBuf>,
    /// What keys and values may take, such as 512mb [default: half of the machine's memory].
    #[arg(long, env = "LARDER_SERVER_MAX_MEMORY", value_name = "SIZE")]
    pub(crate) max_memory: Option<ByteSize>,
    /// Threads that serve connections [default: one per core].
    #[arg(long, env = "LARDER_SERVER_THREADS", value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// The password that clients must send.
    #[arg(long, env = "LARDER_SERVER_REQUIREPASS", value_name = "PASSWORD", hide_env_values = true)]
    pub(crate) requirepass: Option<String>,
    /// Connections open at a time [default: 10000].
    #[arg(long, env = "LARDER_SERVER_MAXCLIENTS", value_name = "N")]
    pub(crate) maxclients: Option<usize>,
}

/// Flags of `larder links`.
#[derive(Debug, Default, Args)]
pub(crate) struct LinksFlags {
    /// Where to listen [default: 127.0.0.1:8080, or a free port if that is taken].
    #[arg(long, env = "LARDER_LINKS_LISTEN", value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// The database [default: sqlite:./larder-data/links.db].
    #[arg(long, env = "LARDER_LINKS_DATABASE", value_name = "URL")]
    pub(crate) database: Option<String>,
    /// A Redis behind the memory, shared with other instances [default: none].
    #[arg(long, env = "LARDER_LINKS_REDIS", value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// The address that short links begin with, where a proxy stands in front.
    #[arg(long, env = "LARDER_LINKS_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Further host names under which the API is served, without ports [default: none].
    #[arg(long, env = "LARDER_LINKS_ALLOW_HOSTS", value_name = "HOST,…", value_delimiter = ',')]
    pub(crate) allow_hosts: Vec<String>,
    /// Proxies whose X-Forwarded-For is believed: addresses or ranges such as 10.0.0.0/8 [default: none].
    #[arg(long, env = "LARDER_LINKS_TRUSTED_PROXIES", value_name = "ADDRESS,…", value_delimiter = ',')]
    pub(crate) trusted_proxies: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LinksCommand {
    /// Import links from a CSV file with the columns name and url; the name becomes the title.
    Import(ImportFlags),
    /// Make, list or remove the tokens that open the API.
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it. It is shown only here: the database holds its hash.
    Add {
        /// What the token is for, at most 64 characters.
        #[arg(long, default_value = "", hide_default_value = true)]
        name: TokenName,
        /// read lists and reads links; write changes them as well.
        #[arg(long, default_value = "write", value_name = "read|write")]
        scope: Scope,
        #[command(flatten)]
        database: DatabaseFlag,
    },
    /// List the tokens: id, scope, day of creation, name.
    List {
        #[command(flatten)]
        database: DatabaseFlag,
    },
    /// Remove a token. Its sessions end within a second, in running processes as well.
    Remove {
        /// The id that `list` shows.
        id: u64,
        #[command(flatten)]
        database: DatabaseFlag,
    },
}

/// Which database a command works on.
#[derive(Debug, Args)]
pub(crate) struct DatabaseFlag {
    /// The database [default: sqlite:./larder-data/links.db].
    #[arg(long, env = "LARDER_LINKS_DATABASE", value_name = "URL")]
    pub(crate) database: Option<String>,
}

/// Flags of `larder links import`.
#[derive(Debug, Args)]
pub(crate) struct ImportFlags {
    /// The file to read.
    #[arg(value_name = "FILE.csv")]
    pub(crate) file: PathBuf,
    /// The running URL shortener to import into.
    #[arg(long, env = "LARDER_IMPORT_SERVER", value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) server: String,
    /// A token with the scope write, if the server needs one. In a variable it is not in the list of processes.
    #[arg(long, env = "LARDER_LINKS_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Import into this database instead, with no server running.
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    pub(crate) database: Option<String>,
}
