//! The `larder` binary: parses the command line, runs the command, and prints an error in one line.

// They panic if the output is closed or its disk is full.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod flags;
mod options;
mod output;
mod parts;
mod process;

use anyhow::{Context, Result};
use clap::CommandFactory;
use commands::{check, copy, export, import, remote, token, up, warm};
use flags::{Cli, Command, ConfigCommand, LinksCommand};
use options::option_sources::GivenOptions;
use options::settings::File;
use options::wrong_usage::WrongUsage;
use options::{settings, usage, variables};
use output::one_line;
use parts::redis_source::RedisSource;
use process::allocator;
use process::telemetry::Telemetry;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

fn main() -> ExitCode {
    allocator::give_memory_back_soon();
    let (cli, given) = usage::parse();
    let name = cli.command.name();
    let environment = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
    if let Some(warning) = variables::warning(environment) {
        output::remark(&warning);
    }
    // Other commands are over before an export begins, and a collector of the environment is not for them.
    let started = if cli.command.runs_parts() { Telemetry::start() } else { Ok(None) };
    let telemetry = match started {
        Ok(telemetry) => telemetry,
        Err(error) => {
            output::remark(&format!("larder {name}: {}", one_line(&error)));
            return ExitCode::FAILURE;
        }
    };
    start_logging(telemetry.as_ref());
    let ended = run(cli, given);
    if let Some(telemetry) = telemetry {
        telemetry.end();
    }
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::remark(&format!("larder {name}: {}", one_line(&error)));
            let is_usage = error.is::<WrongUsage>();
            if is_usage { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn lossy(text: std::ffi::OsString) -> String {
    text.to_string_lossy().into_owned()
}

fn run(cli: Cli, given: GivenOptions) -> Result<()> {
    let file = File::read(cli.config.as_deref(), given)?;
    match cli.command {
        Command::Up(flags) => up::run(file.up(*flags)?),
        Command::Server(mut flags) => {
            let move_in = std::mem::take(&mut flags.move_in);
            match RedisSource::to_check(&move_in)? {
                Some(source) => check::run(&source),
                None => parts::run_server(file.server(*flags)?, RedisSource::to_copy(&move_in)?),
            }
        }
        Command::Links { flags, command: None } => parts::run_links(file.links(*flags)?),
        Command::Links { command: Some(LinksCommand::Import(import)), flags } => {
            import::run(import, *flags, file)
        }
        Command::Links { command: Some(LinksCommand::Export(flags)), .. } => export::run(flags, file),
        Command::Links { command: Some(LinksCommand::Backup { file: to, database }), .. } => {
            export::backup(to, &database, file)
        }
        Command::Links { command: Some(LinksCommand::Copy { from, to }), .. } => copy::run(from, to),
        Command::Links { command: Some(LinksCommand::Token(command)), .. } => token::run(command, file),
        Command::Proxy(flags) => parts::proxy::run(file.proxy(*flags)?),
        Command::Stats(flags) => remote::stats(flags, file),
        Command::Top(flags) => remote::top(flags, file),
        Command::Doctor(flags) => remote::doctor(flags, file),
        Command::Explain(flags) => remote::explain(flags, file),
        Command::Purge(flags) => remote::purge(flags, file),
        Command::Warm(flags) => warm::run(flags, file),
        Command::Bench { words } => Err(usage::bench_moved(&words).into()),
        Command::Config { command: None } => output::print(settings::REFERENCE),
        Command::Config { command: Some(ConfigCommand::Check { file: path }) } => {
            let path = path.or(cli.config).ok_or_else(|| WrongUsage("name the file to check".to_owned()))?;
            File::read(Some(&path), GivenOptions::default())?.check()?;
            output::print(&format!("{} is valid\n", path.display()))
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "larder", &mut script);
            output::print(&String::from_utf8(script)?)
        }
        Command::Man { folder } => clap_mangen::generate_to(Cli::command(), &folder)
            .with_context(|| format!("cannot write the manual pages to {}", folder.display())),
    }
}

impl Command {
    /// Whether it serves something until it is stopped.
    fn runs_parts(&self) -> bool {
        matches!(
            self,
            Command::Up(_) | Command::Server(_) | Command::Proxy(_) | Command::Links { command: None, .. }
        )
    }

    fn name(&self) -> &'static str {
        match self {
            Command::Up(_) => "up",
            Command::Server(_) => "server",
            Command::Links { command: None, .. } => "links",
            Command::Links { command: Some(LinksCommand::Import(_)), .. } => "links import",
            Command::Links { command: Some(LinksCommand::Export(_)), .. } => "links export",
            Command::Links { command: Some(LinksCommand::Backup { .. }), .. } => "links backup",
            Command::Links { command: Some(LinksCommand::Copy { .. }), .. } => "links copy",
            Command::Links { command: Some(LinksCommand::Token(_)), .. } => "links token",
            Command::Proxy(_) => "proxy",
            Command::Stats(_) => "stats",
            Command::Top(_) => "top",
            Command::Doctor(_) => "doctor",
            Command::Explain(_) => "explain",
            Command::Purge(_) => "purge",
            Command::Warm(_) => "warm",
            Command::Bench { .. } => "bench",
            Command::Config { command: None } => "config",
            Command::Config { command: Some(ConfigCommand::Check { .. }) } => "config check",
            Command::Completions { .. } => "completions",
            Command::Man { .. } => "man",
        }
    }
}

/// Warnings and errors go to stderr; `LARDER_LOG=debug` shows more.
fn start_logging(telemetry: Option<&Telemetry>) {
    let requested = std::env::var_os("LARDER_LOG").map(|text| text.to_string_lossy().into_owned());
    let filter = match requested.as_deref() {
        None | Some("") => None,
        Some(text) => log_filter(text).or_else(|| {
            output::remark(&format!(
                "larder: LARDER_LOG is {text:?}, expected off, error, warn, info, debug or trace, or targets such as \
                 larder_links=debug; warnings are logged"
            ));
            None
        }),
    };
    let filter = filter.unwrap_or_else(|| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // By `eprintln!`, which panics if stderr is what failed.
        .log_internal_errors(false)
        .with_filter(filter);
    tracing_subscriber::registry().with(log).with(telemetry.and_then(Telemetry::layer)).init();
}

/// The filter that a text describes. A word is the name of a level or of one of our targets: the parser would take any other
/// word, such as a misspelt level, for a target, and log nothing else.
fn log_filter(text: &str) -> Option<EnvFilter> {
    let is_known = |part: &str| {
        part.contains(['=', '[', '{']) || part.starts_with("larder") || part.parse::<LevelFilter>().is_ok()
    };
    text.split(',').all(|part| is_known(part.trim())).then(|| EnvFilter::try_new(text).ok()).flatten()
}
