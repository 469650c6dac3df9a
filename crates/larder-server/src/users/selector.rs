//! One set of rights: which commands a user may run, with which keys and channels. A user has one, and may have further ones,
//! of which one has to allow all that a request asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_glob::Pattern;
use larder_resp::Args;

use super::catalogue::{Catalogue, Named};
use super::denied::Denied;
use super::rule_error::RuleError;
use crate::spec::{Access, CATEGORIES, Channels, Flags};

/// What a request uses.
pub(super) struct Uses<'a> {
    pub(super) named: Named,
    pub(super) first_argument: Option<&'a [u8]>,
    pub(super) keys: Vec<(&'a [u8], Access)>,
    /// The arguments, if they have channels.
    pub(super) args: Option<Args<'a>>,
}

impl<'a> Uses<'a> {
    /// What a request uses.
    pub(super) fn of_request(named: Named, args: Args<'a>) -> Self {
        let spec = named.spec;
        let key = spec.key_of_subcommand(args);
        // Without a valid number of keys the command fails before it uses any.
        let keys = key.map_or_else(|| spec.keys_of(args).unwrap_or_default(), |key| vec![key]);
        let with_access = |(index, key)| (key, spec.key_access(index, Some(args)));
        let keys =
            keys.into_iter().enumerate().map(with_access).filter(|(_, access)| *access != Access::NO_KEY);
        Uses { named, first_argument: args.get(1), keys: keys.collect(), args: Some(args) }
    }
}

/// What may be done with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeyRights {
    reads: bool,
    writes: bool,
}

impl KeyRights {
    /// What a request needs, by what it does with a key. To ask whether there is one needs neither.
    fn needed(access: Access) -> Self {
        let does = |word| access.0.contains(&word);
        let writes = does("insert") || does("update") || does("delete");
        KeyRights { reads: does("access"), writes }
    }

    fn include(self, needed: KeyRights) -> bool {
        (self.reads || !needed.reads) && (self.writes || !needed.writes)
    }
}

/// A pattern as it was given, and compiled.
#[derive(Debug, Clone)]
struct NamePattern {
    text: Box<[u8]>,
    compiled: Arc<Pattern>,
}

impl NamePattern {
    fn new(text: &[u8]) -> Result<Self, RuleError> {
        if text.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
            return Err(RuleError::Syntax);
        }
        Ok(NamePattern { text: text.into(), compiled: Arc::new(Pattern::new(text)?) })
    }
}

/// One set of rights.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    /// A bit for each command and subcommand.
    allowed: Box<[u64]>,
    /// Whether all of them are allowed.
    allows_all_commands: bool,
    /// By the position of a command that is not allowed: the first arguments with which it is.
    first_arguments: BTreeMap<u8, Vec<Box<[u8]>>>,
    /// The rules of commands since the last one about all of them, each with its sign.
    rules: Vec<String>,
    starts_with_all: bool,
    has_all_keys: bool,
    keys: Vec<(NamePattern, KeyRights)>,
    has_all_channels: bool,
    channels: Vec<NamePattern>,
}

impl Selector {
    /// Without any right.
    pub(super) fn new(catalogue: &Catalogue) -> Self {
        Selector {
            allowed: vec![0; catalogue.len().div_ceil(64)].into_boxed_slice(),
            allows_all_commands: false,
            first_arguments: BTreeMap::new(),
            rules: Vec::new(),
            starts_with_all: false,
            has_all_keys: false,
            keys: Vec::new(),
            has_all_channels: false,
            channels: Vec::new(),
        }
    }

    /// Parses what is between parentheses.
    pub(super) fn parse(catalogue: &Catalogue, rules: &[u8]) -> Result<Self, RuleError> {
        let mut selector = Selector::new(catalogue);
        let words = rules.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.into_iter().try_for_each(|word| selector.apply(catalogue, word))?;
        Ok(selector)
    }

    /// Whether it allows everything.
    pub(super) fn allows_everything(&self) -> bool {
        self.allows_all_commands && self.has_all_keys && self.has_all_channels
    }

    /// Applies a rule.
    pub(super) fn apply(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.set_all_keys(true),
            b"resetkeys" => self.set_all_keys(false),
            b"allchannels" | b"&*" => self.set_all_channels(true),
            b"resetchannels" => self.set_all_channels(false),
            b"allcommands" | b"+@all" => self.set_all_commands(true),
            b"nocommands" | b"-@all" => self.set_all_commands(false),
            _ => match rule {
                [b'~', pattern @ ..] => self.add_key(pattern, KeyRights { reads: true, writes: true })?,
                [b'%', rest @ ..] => self.add_limited_key(rest)?,
                [b'&', pattern @ ..] => self.add_channel(pattern)?,
                [b'+', b'@', category @ ..] => self.set_category(catalogue, category, true)?,
                [b'-', b'@', category @ ..] => self.set_category(catalogue, category, false)?,
                [b'+', name @ ..] => self.allow(catalogue, name)?,
                [b'-', name @ ..] => {
                    let named = catalogue.find(name).ok_or(RuleError::Unknown)?;
                    self.set(catalogue, named, false);
                    self.add_rule('-', name);
                }
                _ => return Err(RuleError::Syntax),
            },
        }
        Ok(())
    }

    fn set_all_keys(&mut self, all: bool) {
        self.has_all_keys = all;
        self.keys.clear();
    }

    fn set_all_channels(&mut self, all: bool) {
        self.has_all_channels = all;
        self.channels.clear();
    }

    fn set_all_commands(&mut self, all: bool) {
        self.allowed.fill(if all { u64::MAX } else { 0 });
        (self.allows_all_commands, self.starts_with_all) = (all, all);
        self.first_arguments.clear();
        self.rules.clear();
    }

    fn add_key(&mut self, pattern: &[u8], rights: KeyRights) -> Result<(), RuleError> {
        if self.has_all_keys {
            return Err(RuleError::AllKeys);
        }
        let pattern = NamePattern::new(pattern)?;
        match self.keys.iter_mut().find(|(known, _)| known.text == pattern.text) {
            Some((_, known)) => {
                known.reads |= rights.reads;
                known.writes |= rights.writes;
            }
            None => self.keys.push((pattern, rights)),
        }
        Ok(())
    }

    /// `R`, `W` or both, before `~` and the pattern.
    fn add_limited_key(&mut self, rest: &[u8]) -> Result<(), RuleError> {
        let mut rights = KeyRights { reads: false, writes: false };
        let tilde = rest.iter().position(|byte| *byte == b'~').filter(|tilde| *tilde > 0);
        let (letters, pattern) = rest.split_at(tilde.ok_or(RuleError::Syntax)?);
        for letter in letters {
            match letter.to_ascii_uppercase() {
                b'R' => rights.reads = true,
                b'W' => rights.writes = true,
                _ => return Err(RuleError::Syntax),
            }
        }
        self.add_key(&pattern[1..], rights)
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.has_all_channels {
            return Err(RuleError::AllChannels);
        }
        let pattern = NamePattern::new(pattern)?;
        if !self.channels.iter().any(|known| known.text == pattern.text) {
            self.channels.push(pattern);
        }
        Ok(())
    }

    fn set_category(
        &mut self,
        catalogue: &Catalogue,
        category: &[u8],
        is_allowed: bool,
    ) -> Result<(), RuleError> {
        let known = CATEGORIES.iter().find(|known| category.eq_ignore_ascii_case(known.as_bytes()));
        let known = known.ok_or(RuleError::Unknown)?;
        for named in catalogue.iter().filter(|named| named.is_in(known)) {
            self.set(catalogue, named, is_allowed);
        }
        self.add_rule(if is_allowed { '+' } else { '-' }, &[b"@", category].concat());
        Ok(())
    }

    /// Allows a command, a subcommand, or a command with a first argument.
    fn allow(&mut self, catalogue: &Catalogue, name: &[u8]) -> Result<(), RuleError> {
        if let Some(named) = catalogue.find(name) {
            self.set(catalogue, named, true);
            self.add_rule('+', name);
            return Ok(());
        }
        let bar = name.iter().rposition(|byte| *byte == b'|').ok_or(RuleError::Unknown)?;
        let named = catalogue.find(&name[..bar]).ok_or(RuleError::Unknown)?;
        let argument = &name[bar + 1..];
        match named.subcommand {
            Some(_) => return Err(RuleError::FirstArgumentOfSubcommand),
            None if !named.spec.subcommands.is_empty() => return Err(RuleError::Unknown),
            None if argument.is_empty() => return Err(RuleError::Syntax),
            None => {}
        }
        let known = self.first_arguments.entry(named.spec.index).or_default();
        if !known.iter().any(|known| known.eq_ignore_ascii_case(argument)) {
            known.push(argument.into());
        }
        self.add_rule('+', name);
        Ok(())
    }

    /// Sets whether a command with all its subcommands is allowed, or one subcommand.
    fn set(&mut self, catalogue: &Catalogue, named: Named, is_allowed: bool) {
        self.set_bit(catalogue.number(named), is_allowed);
        if named.subcommand.is_none() {
            self.first_arguments.remove(&named.spec.index);
            for position in 0..named.spec.subcommands.len() {
                let subcommand = Named { subcommand: Some(position), ..named };
                self.set_bit(catalogue.number(subcommand), is_allowed);
            }
        }
        self.allows_all_commands &= is_allowed;
    }

    fn set_bit(&mut self, number: usize, is_set: bool) {
        let (word, bit) = (&mut self.allowed[number / 64], 1 << (number % 64));
        *word = if is_set { *word | bit } else { *word & !bit };
    }

    /// Remembers a rule in the place of the former ones about the same command, or about its subcommands.
    fn add_rule(&mut self, sign: char, name: &[u8]) {
        let name = String::from_utf8_lossy(name).to_lowercase();
        self.rules.retain(|rule| {
            let rest = rule[1..].strip_prefix(name.as_str());
            rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('|'))
        });
        self.rules.push(format!("{sign}{name}"));
    }

    /// Whether a request is allowed.
    pub(super) fn check(&self, catalogue: &Catalogue, uses: &Uses<'_>) -> Result<(), Denied> {
        if !self.allows_command(catalogue, uses.named, uses.first_argument) {
            return Err(Denied::Command);
        }
        for (index, (key, access)) in uses.keys.iter().enumerate() {
            if !self.allows_key(key, KeyRights::needed(*access)) {
                return Err(Denied::Key(index, (*key).into()));
            }
        }
        uses.args.map_or(Ok(()), |args| self.check_channels(uses.named, args))
    }

    fn allows_command(&self, catalogue: &Catalogue, named: Named, first_argument: Option<&[u8]>) -> bool {
        let number = catalogue.number(named);
        let is_first_argument = || {
            let known = self.first_arguments.get(&named.spec.index).zip(first_argument);
            known.is_some_and(|(known, given)| known.iter().any(|known| known.eq_ignore_ascii_case(given)))
        };
        self.allows_all_commands
            || named.spec.is(Flags::NO_AUTH)
            || self.allowed[number / 64] >> (number % 64) & 1 == 1
            || is_first_argument()
    }

    fn allows_key(&self, key: &[u8], needed: KeyRights) -> bool {
        let is_allowed = |(pattern, rights): &(NamePattern, KeyRights)| {
            rights.include(needed) && pattern.compiled.matches(key)
        };
        self.has_all_keys || self.keys.iter().any(is_allowed)
    }

    fn check_channels(&self, named: Named, args: Args<'_>) -> Result<(), Denied> {
        let channels = named.spec.channels;
        for (index, channel) in channels.of(args).enumerate() {
            if !self.allows_channel(channel, channels == Channels::Patterns) {
                return Err(Denied::Channel(index, channel.into()));
            }
        }
        Ok(())
    }

    /// Whether a channel is allowed. A pattern is only if it is one of those of the rules.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let is_allowed = |pattern: &NamePattern| match is_pattern {
            true => *pattern.text == *channel,
            false => pattern.compiled.matches(channel),
        };
        self.has_all_channels || self.channels.iter().any(is_allowed)
    }

    /// Whether every key may be read.
    pub(super) fn reads_all_keys(&self) -> bool {
        self.has_all_keys || self.keys.iter().any(|(pattern, rights)| rights.reads && *pattern.text == *b"*")
    }

    /// The rules of commands.
    pub(super) fn describe_commands(&self) -> String {
        let base = if self.starts_with_all { "+@all" } else { "-@all" };
        std::iter::once(base).chain(self.rules.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    /// The rules of keys.
    pub(super) fn describe_keys(&self) -> Vec<u8> {
        if self.has_all_keys {
            return b"~*".to_vec();
        }
        let rule = |(pattern, rights): &(NamePattern, KeyRights)| {
            let prefix: &[u8] = match (rights.reads, rights.writes) {
                (true, true) => b"~",
                (true, false) => b"%R~",
                (false, _) => b"%W~",
            };
            [prefix, &pattern.text].concat()
        };
        let mut rules: Vec<_> = self.keys.iter().map(rule).collect();
        // Behind this one, another rule of keys would be refused when the rules are read again.
        rules.sort_by_key(|rule| rule == b"~*");
        rules.join(&b' ')
    }

    /// The rules of channels.
    pub(super) fn describe_channels(&self) -> Vec<u8> {
        if self.has_all_channels {
            return b"&*".to_vec();
        }
        let rules = self.channels.iter().map(|pattern| [b"&", &*pattern.text].concat());
        rules.collect::<Vec<_>>().join(&b' ')
    }

    /// All rules, from a selector without rights, separated by spaces.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut rules = Vec::new();
        let keys = self.describe_keys();
        if !keys.is_empty() {
            rules.push(keys);
        }
        if !self.has_all_channels {
            rules.push(b"resetchannels".to_vec());
        }
        let channels = self.describe_channels();
        if !channels.is_empty() {
            rules.push(channels);
        }
        rules.push(self.describe_commands().into_bytes());
        rules.join(&b' ')
    }
}
