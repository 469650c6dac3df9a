//! Which requests a rule is for: by their host, and by their path or a pattern of it.

use crate::rules::canonical_path::canonical;
use crate::rules::config::RuleConfig;
use http::Uri;
use larder_glob::Pattern;

/// The requests that a rule is for. Without host and path it is for all.
#[derive(Debug)]
pub(super) struct Match {
    host: Option<HostMatch>,
    path: Option<PathMatch>,
}

/// Hosts, in lower case and without a port.
#[derive(Debug)]
enum HostMatch {
    One(String),
    /// All below this name, which starts with a full stop.
    Below(String),
}

/// Paths in their canonical form.
#[derive(Debug)]
enum PathMatch {
    /// A path alone: of an endpoint.
    One(Vec<u8>),
    /// A path and all that is below it.
    From(Vec<u8>),
    Pattern {
        text: String,
        pattern: Pattern,
    },
}

impl Match {
    /// What the configuration of a rule says.
    ///
    /// # Errors
    /// Which key is wrong, and what is expected of it.
    pub(super) fn new(config: &RuleConfig) -> Result<Match, String> {
        let host = config.host.as_deref().map(HostMatch::parse).transpose()?;
        let path = match (&config.path, &config.pattern) {
            (Some(_), Some(_)) => return Err("path excludes pattern".to_owned()),
            (Some(path), None) => {
                let path = checked(path)?;
                Some(if config.body.is_some() { PathMatch::One(path) } else { PathMatch::From(path) })
            }
            (None, Some(text)) => Some(PathMatch::pattern(text)?),
            (None, None) => None,
        };
        Ok(Match { host, path })
    }

    /// Whether a request is one of them. Its target has a host, unless it is `*`. `path` is that of the target, canonical.
    pub(super) fn is_for(&self, target: &Uri, path: &[u8]) -> bool {
        self.host.as_ref().is_none_or(|own| target.host().is_some_and(|host| own.has(host)))
            && self.path.as_ref().is_none_or(|own| own.has(path))
    }

    /// Whether it is known to be for all requests that another one is for.
    pub(super) fn covers(&self, other: &Match) -> bool {
        let covers_host = match (&self.host, &other.host) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(HostMatch::One(name))) => own.has(name),
            (Some(HostMatch::Below(own)), Some(HostMatch::Below(suffix))) => suffix.ends_with(own.as_str()),
            (Some(HostMatch::One(_)), Some(HostMatch::Below(_))) => false,
        };
        let covers_path = || match (&self.path, &other.path) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(PathMatch::One(path))) => own.has(path),
            (Some(own @ PathMatch::From(_)), Some(PathMatch::From(path))) => own.has(path),
            (Some(PathMatch::Pattern { text: own, .. }), Some(PathMatch::Pattern { text, .. })) => {
                own == text
            }
            (Some(_), Some(_)) => false,
        };
        covers_host && covers_path()
    }
}

impl HostMatch {
    fn parse(text: &str) -> Result<HostMatch, String> {
        let name = text.strip_prefix("*.").unwrap_or(text);
        let is_name = name.parse::<http::uri::Authority>().is_ok_and(|own| own.host() == name);
        if !is_name || name.contains(['*', '@']) || name.ends_with('.') {
            return Err(format!(
                "host is {text:?}, expected a host such as example.com or *.example.com, without a port"
            ));
        }
        let name = name.to_ascii_lowercase();
        Ok(if text.starts_with("*.") { HostMatch::Below(format!(".{name}")) } else { HostMatch::One(name) })
    }

    /// `example.com.` is the same host as `example.com`.
    fn has(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        match self {
            HostMatch::One(own) => host.eq_ignore_ascii_case(own),
            HostMatch::Below(suffix) => {
                let end = host.len().checked_sub(suffix.len()).and_then(|start| host.get(start..));
                host.len() > suffix.len() && end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
            }
        }
    }
}

impl PathMatch {
    fn pattern(text: &str) -> Result<PathMatch, String> {
        let wrong = |expected: &str| format!("pattern is {text:?}, expected {expected}");
        if !text.starts_with(['/', '*']) {
            return Err(wrong("a pattern of whole paths, which starts with / or *"));
        }
        let pattern =
            Pattern::portable(text.as_bytes()).map_err(|error| wrong(&format!("another one: {error}")))?;
        Ok(PathMatch::Pattern { text: text.to_owned(), pattern })
    }

    fn has(&self, path: &[u8]) -> bool {
        match self {
            PathMatch::One(own) => path == own,
            PathMatch::From(own) => path.strip_prefix(&own[..]).is_some_and(|rest| {
                // `/shop` has `/shop/1`, and not `/shopping`.
                rest.is_empty() || rest[0] == b'/' || own.ends_with(b"/")
            }),
            PathMatch::Pattern { pattern, .. } => pattern.matches(path),
        }
    }
}

/// A path as it is compared.
fn checked(path: &str) -> Result<Vec<u8>, String> {
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return Err(format!("path is {path:?}, expected one that starts with /, without a query"));
    }
    let canonical = canonical(path);
    if *canonical != *path.as_bytes() {
        return Err(format!(
            "path is {path:?}, expected its plain form {:?}",
            String::from_utf8_lossy(&canonical)
        ));
    }
    Ok(canonical.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: Option<&str>, path: Option<&str>, pattern: Option<&str>) -> Result<Match, String> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let (host, path, pattern) = (owned(host), owned(path), owned(pattern));
        Match::new(&RuleConfig { host, path, pattern, ..RuleConfig::default() })
    }

    fn is_for(own: &Match, target: &str) -> bool {
        let target: Uri = target.parse().unwrap();
        own.is_for(&target, &canonical(target.path()))
    }

    #[test]
    fn host_is_one_or_all_below_a_name() {
        for (host, target, expected) in [
            ("a.example", "http://a.example/", true),
            ("a.example", "http://A.Example:8080/", true),
            ("A.example", "http://a.example./", true),
            ("a.example", "http://b.example/", false),
            ("a.example", "http://a.a.example/", false),
            ("*.example", "http://a.example/", true),
            ("*.example", "http://b.A.EXAMPLE.:1/", true),
            ("*.example", "http://example/", false),
            ("*.example", "http://.example/", false),
            ("*.example", "http://badexample/", false),
            ("[::1]", "http://[::1]:80/", true),
            ("a.example", "*", false),
        ] {
            assert_eq!(is_for(&of(Some(host), None, None).unwrap(), target), expected, "{host} {target}");
        }
    }

    #[test]
    fn path_has_all_below_it_in_every_spelling() {
        for (path, target, expected) in [
            ("/shop", "http://h/shop", true),
            ("/shop", "http://h/shop/1?q", true),
            ("/shop", "http://h/shopping", false),
            ("/shop/", "http://h/shop/1", true),
            ("/shop/", "http://h/shop", false),
            ("/", "http://h/x", true),
            ("/shop", "http://h//%73hop/1", true),
            ("/shop", "http://h/x/../shop", true),
            ("/shop", "http://h/shop/../x", false),
            ("/shop", "*", false),
        ] {
            assert_eq!(is_for(&of(None, Some(path), None).unwrap(), target), expected, "{path} {target}");
        }
    }

    #[test]
    fn pattern_is_compared_with_the_whole_path() {
        for (pattern, target, expected) in [
            ("*.jpg", "http://h/a/b.jpg?x", true),
            ("*.jpg", "http://h/a/b.jpg/x", false),
            ("/*/edit", "http://h/a/b/edit", true),
            ("/[ab]?", "http://h/%61x", true),
            ("/[ab]?", "http://h/cx", false),
        ] {
            assert_eq!(
                is_for(&of(None, None, Some(pattern)).unwrap(), target),
                expected,
                "{pattern} {target}"
            );
        }
    }

    #[test]
    fn endpoint_is_its_path_alone() {
        let config = RuleConfig {
            path: Some("/graphql".into()),
            body: Some(crate::rules::config::RuleBody::Graphql),
            ..RuleConfig::default()
        };
        let own = Match::new(&config).unwrap();
        assert!(is_for(&own, "http://h/graphql?query=x") && !is_for(&own, "http://h/graphql/x"));
    }

    #[test]
    fn wrong_values_are_errors_that_show_them() {
        for (host, path, pattern, expected) in [
            (Some("a:80"), None, None, "host is \"a:80\", expected a host such as "),
            (Some(""), None, None, "host is \"\""),
            (Some("*"), None, None, "host is \"*\""),
            (Some("a.*"), None, None, "host is \"a.*\""),
            (Some("a/b"), None, None, "host is \"a/b\""),
            (None, Some("shop"), None, "path is \"shop\", expected one that starts with /"),
            (None, Some("/a?b"), None, "path is \"/a?b\", expected one that starts with /, without a query"),
            (None, Some("/a//b"), None, "path is \"/a//b\", expected its plain form \"/a/b\""),
            (None, Some("/%61"), None, "path is \"/%61\", expected its plain form \"/a\""),
            (None, Some("/a"), Some("/b*"), "path excludes pattern"),
            (None, None, Some("a*"), "pattern is \"a*\", expected a pattern of whole paths"),
            (None, None, Some("/[é]"), "pattern is \"/[é]\", expected another one: a class matches one byte"),
        ] {
            let message = of(host, path, pattern).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn rule_that_is_for_all_of_another_covers_it() {
        type Parts = (Option<&'static str>, Option<&'static str>, Option<&'static str>);
        let covers = |own: Parts, other: Parts| {
            of(own.0, own.1, own.2).unwrap().covers(&of(other.0, other.1, other.2).unwrap())
        };
        for (own, other, expected) in [
            ((None, None, None), (Some("a"), Some("/x"), None), true),
            ((Some("a"), None, None), (None, None, None), false),
            ((Some("*.a"), None, None), (Some("b.a"), None, None), true),
            ((Some("*.a"), None, None), (Some("*.b.a"), None, None), true),
            ((Some("*.b.a"), None, None), (Some("*.a"), None, None), false),
            ((Some("b.a"), None, None), (Some("*.a"), None, None), false),
            ((None, Some("/a"), None), (None, Some("/a/b"), None), true),
            ((None, Some("/a"), None), (None, Some("/ab"), None), false),
            ((None, Some("/a/b"), None), (None, Some("/a"), None), false),
            ((None, Some("/a"), None), (Some("h"), None, None), false),
            ((None, None, Some("*.js")), (None, None, Some("*.js")), true),
            ((None, None, Some("*")), (None, Some("/a"), None), false),
            ((None, Some("/"), None), (None, None, Some("*.js")), false),
        ] {
            assert_eq!(covers(own, other), expected, "{own:?} {other:?}");
        }
    }
}
