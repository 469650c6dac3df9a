//! The versions of programs, as they print them.

use larder_process::find_program;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of a program, by its name or its path; `None` if it is not installed or does not tell.
pub(crate) fn version_of(program: &str) -> Option<String> {
    let path = if program.contains('/') { Some(PathBuf::from(program)) } else { find_program(program) };
    let flag = match program {
        "ab" | "memcached" | "siege" | "varnishd" => "-V",
        "apache2" | "nginx" | "wrk" => "-v",
        _ => "--version",
    };
    let output = Command::new(path?).arg(flag).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    text.iter().flat_map(|text| text.split_ascii_whitespace()).find_map(version_in).map(str::to_owned)
}

/// The name under which a program is recorded.
pub(crate) fn program_name(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

/// The version in a word such as `4.0.7`, `v=7.0.15` or `debian/4.1.0-3`.
fn version_in(word: &str) -> Option<&str> {
    let prefixes = ["v=", "debian/", "nginx/", "Apache/", "(varnish-", "nghttp2/", "v"];
    let word = prefixes.iter().find_map(|prefix| word.strip_prefix(prefix)).unwrap_or(word);
    let word = word.trim_end_matches([',', ')']);
    let is_version = word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    is_version.then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::program;

    #[test]
    fn version_is_the_first_word_that_looks_like_one() {
        let find = |text: &'static str| text.split(' ').find_map(version_in);
        assert_eq!(find("Redis server v=7.0.15 sha=00000000:0"), Some("7.0.15"));
        assert_eq!(find("This is ApacheBench, Version 2.3 <$Revision: 1 $>"), Some("2.3"));
        assert_eq!(find("Erlang/OTP 25 [erts-13.1.5] [64-bit] Elixir 1.14.0 (compiled"), Some("1.14.0"));
        assert_eq!(find("wrk debian/4.1.0-3+b2 [epoll] Copyright"), Some("4.1.0-3+b2"));
        assert_eq!(find("varnishd (varnish-7.1.1 revision 7cee1c5)"), Some("7.1.1"));
        assert_eq!(find("Server version: Apache/2.4.71 (Debian)"), Some("2.4.71"));
        assert_eq!(find("v20.20.2"), Some("20.20.2"));
        assert_eq!(find("no version"), None);
    }

    #[test]
    fn version_of_every_program_of_the_documents_is_found() {
        for name in ["redis-server", "redis-benchmark", "siege", "ab", "elixir", "ruby", "memcached", "wrk"] {
            if program(name).is_some() {
                assert!(version_of(name).is_some(), "{name}");
            }
        }
        assert_eq!(version_of("no-such-program"), None);
    }
}
