//! Environment variables with our prefix that no option reads: a misspelt one would be ignored in silence.

use crate::flags::Cli;
use clap::{Command, CommandFactory};
use larder_text::similar;
use std::collections::BTreeSet;

const PREFIX: &str = "LARDER_";
/// What no option reads: the filter of the log, and variables of our own tests.
const OTHERS: [&str; 4] = ["LARDER_LOG", "LARDER_SKIP_LOG", "LARDER_SOAK", "LARDER_TEST_SERVER"];

/// One warning about all variables of the environment that have no effect, with suggestions; `None` if there are none.
pub(crate) fn warning(environment: impl IntoIterator<Item = (String, String)>) -> Option<String> {
    let mut known = BTreeSet::from(OTHERS.map(str::to_owned));
    collect(&Cli::command(), &mut known);
    let known: Vec<String> = known.into_iter().collect();
    let endings: Vec<String> = known.iter().map(|name| name[PREFIX.len()..].to_ascii_lowercase()).collect();
    let endings: Vec<&str> = endings.iter().map(String::as_str).collect();
    let mut unknown: Vec<String> = environment
        .into_iter()
        .filter(|(name, value)| name.starts_with(PREFIX) && !is_of_kubernetes(name, value))
        .map(|(name, _)| name)
        .filter(|name| !known.contains(name))
        .collect();
    unknown.sort();
    let with_hint = |name: &String| match similar(&name[PREFIX.len()..], &endings).first() {
        Some(ending) => format!("{name} (did you mean {PREFIX}{}?)", ending.to_ascii_uppercase()),
        None => name.clone(),
    };
    let list: Vec<String> = unknown.iter().map(with_hint).collect();
    let verb = if list.len() == 1 {
        "is no variable of larder and has"
    } else {
        "are no variables of larder and have"
    };
    (!list.is_empty()).then(|| format!("larder: {} {verb} no effect", list.join(", ")))
}

fn collect(command: &Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(|argument| argument.get_env());
    known.extend(variables.map(|name| name.to_string_lossy().into_owned()));
    command.get_subcommands().for_each(|command| collect(command, known));
}

/// Kubernetes tells each container of a service named `larder` in such variables.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let is_url = value.starts_with("tcp://") || value.starts_with("udp://");
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && is_url)
        || ["_TCP", "_UDP"].iter().any(|protocol| name.contains("_PORT_") && name.contains(protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning_about(names: &[&str]) -> Option<String> {
        warning(names.iter().map(|name| (name.to_string(), "tcp://10.0.0.1:6379".to_owned())))
    }

    #[test]
    fn variables_without_effect_are_one_warning_with_suggestions() {
        let expected =
            "larder: LARDER_UP_RSP (did you mean LARDER_UP_RESP?) is no variable of larder and has no effect";
        assert_eq!(warning_about(&["LARDER_UP_RSP", "HOME", "LARDERX"]).as_deref(), Some(expected));
        let expected = "larder: LARDER_QQQ, LARDER_SERVER_MAXMEMORY (did you mean LARDER_SERVER_MAX_MEMORY?) are no \
                        variables of larder and have no effect";
        assert_eq!(warning_about(&["LARDER_SERVER_MAXMEMORY", "LARDER_QQQ"]).as_deref(), Some(expected));
    }

    #[test]
    fn known_variables_and_those_of_kubernetes_are_no_warning() {
        assert_eq!(
            warning_about(&[
                "LARDER_UP_RESP",
                "LARDER_CONFIG",
                "LARDER_LOG",
                "LARDER_LINKS_TOKEN",
                "LARDER_SERVICE_HOST",
                "LARDER_SERVICE_PORT_RESP",
                "LARDER_PORT",
                "LARDER_PORT_6379_TCP_ADDR",
            ]),
            None
        );
    }
}
