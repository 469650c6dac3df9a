//! Where the values of options are from: a flag, a variable, or a key of the configuration file.
//!
//! Some values are wrong only for a part: it cannot parse a text, cannot bind an address, or cannot open a file. Such an error
//! names the option. Here it gets the source of its value, so that nobody has to search for it.

use crate::flags::Cli;
use crate::options::wrong_usage::WrongUsage;
use crate::output::one_line;
use anyhow::Error;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory};
use larder_links::LinksError;
use larder_proxy::ProxyError;
use larder_server::ServerError;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Table;

/// Where the value of an option is from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// Such as `--max-memory`.
    Flag(String),
    /// Such as `LARDER_SERVER_MAX_MEMORY`.
    Variable(String),
    /// A key of the file, and its section.
    Key { section: &'static str, key: String },
}

/// The options that the command line and the environment set, by their names in the configuration file.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenOptions(BTreeMap<String, Source>);

impl GivenOptions {
    /// Those of a parsed command line.
    pub(crate) fn of(matches: &ArgMatches) -> GivenOptions {
        let mut given = GivenOptions::default();
        given.collect(&Cli::command(), matches);
        given
    }

    fn collect(&mut self, command: &Command, matches: &ArgMatches) {
        for argument in command.get_arguments() {
            let Some(flag) = argument.get_long() else { continue };
            let source = match (matches.value_source(argument.get_id().as_str()), argument.get_env()) {
                (Some(ValueSource::CommandLine), _) => Source::Flag(format!("--{flag}")),
                (Some(ValueSource::EnvVariable), Some(name)) => {
                    Source::Variable(name.to_string_lossy().into_owned())
                }
                _ => continue,
            };
            self.0.insert(flag.replace('-', "_"), source);
        }
        if let Some((name, matches)) = matches.subcommand()
            && let Some(command) = command.find_subcommand(name)
        {
            self.collect(command, matches);
        }
    }
}

/// The sources of the options of one part.
#[derive(Clone, Debug)]
pub(crate) struct OptionSources {
    /// The section of the part.
    section: &'static str,
    /// The configuration file, if there is one and its name is not part of the error already.
    file: Option<PathBuf>,
    sources: BTreeMap<String, Source>,
}

impl OptionSources {
    /// Those of the keys of a section, and of what was given instead.
    pub(crate) fn new(
        section: &'static str,
        keys: &Table,
        given: &GivenOptions,
        file: Option<PathBuf>,
    ) -> OptionSources {
        let keys = keys.keys().map(|key| (key.clone(), Source::Key { section, key: key.clone() }));
        let sources = keys.chain(given.0.clone()).collect();
        OptionSources { section, file, sources }
    }

    /// Takes the source of an option from another part, in which it may have another name.
    pub(crate) fn replace(&mut self, option: &str, other: &OptionSources, name: &str) {
        if let Some(source) = other.sources.get(name) {
            self.sources.insert(option.to_owned(), source.clone());
        }
    }

    /// The error of a value that is understood and cannot be used: the system refuses it.
    pub(crate) fn unusable(&self, option: &str, error: impl Into<Error>) -> Error {
        let error = error.into();
        let is_named = error.to_string().starts_with(option);
        match self.sources.get(option) {
            Some(Source::Flag(_)) if is_named => error,
            Some(Source::Flag(name) | Source::Variable(name)) => error.context(name.clone()),
            Some(Source::Key { section, .. }) if is_named => error.context(self.place(section)),
            Some(Source::Key { section, key }) => error.context(format!("{} {key}", self.place(section))),
            // What is missing is missing in the file: another key of it needs the option.
            None if is_named && self.file.is_some() => error.context(self.place(self.section)),
            None => error,
        }
    }

    /// The error of a text that cannot be parsed, or that is out of its range: wrong usage if it is not in the file.
    pub(crate) fn unparsable(&self, option: &str, error: impl Into<Error>) -> Error {
        let error = self.unusable(option, error);
        match self.sources.get(option) {
            Some(Source::Flag(_) | Source::Variable(_)) => WrongUsage(one_line(&error)).into(),
            _ => error,
        }
    }

    /// An error of the cache server.
    pub(crate) fn of_server(&self, error: ServerError) -> Error {
        let option = match &error {
            ServerError::Range { option, .. } => return self.unparsable(option, error),
            ServerError::Bind { option, .. } => *option,
            ServerError::Unprotected(_) => "listen",
            ServerError::UnixSocket { .. } => "unixsocket",
            ServerError::Store(_) => "max_memory",
            ServerError::Users(_) => "aclfile",
            ServerError::Tls { option, .. } => *option,
            _ => return error.into(),
        };
        self.unusable(option, error)
    }

    /// An error of the shortener.
    pub(crate) fn of_links(&self, error: LinksError) -> Error {
        match error {
            LinksError::Config { field, .. } => self.unparsable(field, error),
            LinksError::Cache(_) => self.unparsable("redis", error),
            LinksError::Store(_) => self.unusable("database", error),
            _ => error.into(),
        }
    }

    /// An error of the proxy.
    pub(crate) fn of_proxy(&self, error: ProxyError) -> Error {
        match error {
            ProxyError::Config { field, .. } => self.unparsable(field, error),
            ProxyError::Incomplete { given, .. } => self.unparsable(given, error),
            ProxyError::Rule { .. } => self.unusable("rules", error),
            ProxyError::File { field, .. } => self.unusable(field, error),
            ProxyError::NoRoots => self.unusable("origin", error),
            ProxyError::Redis(_) => self.unparsable("redis", error),
            _ => error.into(),
        }
    }

    fn place(&self, section: &str) -> String {
        match &self.file {
            Some(file) => format!("{}: [{section}]", file.display()),
            None => format!("[{section}]"),
        }
    }
}
