//! A simulated server of a cluster: what it does with a command.

use super::script::{Script, digest};
use super::store::{Command, Published, Store, is_write, key_of, slot_of};
use super::view::{Role, View, place};
use crate::forgery::Forgery;
use larder_resp::{Encoder, Protocol};
use std::collections::BTreeMap;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Machine {
    number: usize,
    run: u64,
    /// Names what it has been told in a row: another number after it was restarted or took over.
    pub(super) history: u64,
    /// That of the primary whose place it took.
    pub(super) former_history: Option<u64>,
    pub(super) view: View,
    pub(super) store: Store,
    /// What its replica has.
    pub(super) replicated: Store,
    scripts: BTreeMap<Vec<u8>, Script>,
    pub(super) is_dead: bool,
    /// Whether it neither hears from the other servers nor reaches them.
    pub(super) is_cut_off: bool,
    /// Until when it does nothing.
    pub(super) stopped_until: Option<Instant>,
    /// From when on it refuses commands on keys: it has not heard from the others for long enough, or has just started.
    pub(super) down_from: Option<Instant>,
    /// It hands over: writes wait.
    pub(super) holds_writes: bool,
    pub(super) forgery: Forgery,
}

/// What one connection has said before.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) id: i64,
    asking: bool,
    pub(super) channel: Option<Vec<u8>>,
    /// Whether the last command but `PUBLISH` of this request changed a key.
    has_changed: bool,
}

impl Session {
    pub(super) fn new(id: i64) -> Self {
        Session { id, ..Session::default() }
    }
}

/// What became of a command.
pub(super) enum Outcome {
    Replied(Vec<Published>),
    /// It must wait.
    Held,
    Kill(i64),
}

impl Machine {
    pub(super) fn new(number: usize, forgery: Forgery) -> Self {
        Machine {
            number,
            run: 1,
            history: number as u64 + 1,
            former_history: None,
            view: View::new(number),
            store: Store::default(),
            replicated: Store::default(),
            scripts: BTreeMap::new(),
            is_dead: false,
            is_cut_off: false,
            stopped_until: None,
            down_from: None,
            holds_writes: false,
            forgery,
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped_until.is_some_and(|until| until > Instant::now())
    }

    /// Whether it takes part in the cluster.
    pub(super) fn works(&self) -> bool {
        !self.is_dead && !self.is_cut_off && !self.is_stopped()
    }

    pub(super) fn is_primary(&self) -> bool {
        self.view.role() == Role::Primary
    }

    fn is_down(&self) -> bool {
        self.down_from.is_some_and(|from| from <= Instant::now())
    }

    /// Removes what it has of slots that it neither owns nor receives.
    pub(super) fn forget_what_others_own(&mut self) {
        let view = &self.view;
        let stays = |slot| view.owner(slot) == Some(self.number) || view.importing.contains_key(&slot);
        self.store.retain(|key| stays(slot_of(key)));
    }

    /// Starts again, without data. It serves nothing until it has heard from the others.
    pub(super) fn restart(&mut self, history: u64) {
        self.run += 1;
        self.history = history;
        self.former_history = None;
        self.is_dead = false;
        self.down_from = Some(Instant::now());
        self.store = Store::default();
        self.replicated = Store::default();
        self.scripts.clear();
        self.view.migrating.clear();
        self.view.importing.clear();
    }

    /// Why a command on a key is not executed here.
    fn refusal(&mut self, name: &[u8], key: &[u8], asking: bool, now: u64) -> Option<String> {
        let reads_when_down = self.forgery == Forgery::ProvesWithoutWriting && !is_write(name);
        if self.is_down() && !reads_when_down {
            return Some("CLUSTERDOWN The cluster is down".into());
        }
        let slot = slot_of(key);
        let Some(owner) = self.view.owner(slot) else {
            return Some("CLUSTERDOWN Hash slot not served".into());
        };
        if owner == self.number && self.is_primary() {
            let to = *self.view.migrating.get(&slot)?;
            let executes =
                self.forgery == Forgery::ExecutesAtSource && matches!(name, b"UNLINK" | b"GETRANGE");
            let redirects = !self.store.has(key, now) && !executes;
            return redirects.then(|| format!("ASK {slot} {}", place(to)));
        }
        let imports = asking && self.view.importing.contains_key(&slot);
        (!imports).then(|| format!("MOVED {slot} {}", place(owner)))
    }

    /// Does what a client asks for, and writes the reply.
    pub(super) fn execute(
        &mut self,
        session: &mut Session,
        command: &Command,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let out = &mut Encoder::new(out, Protocol::Resp3);
        let name = command[0].to_ascii_uppercase();
        let asking = std::mem::take(&mut session.asking);
        let is_forged_proof = self.forgery == Forgery::ProvesWithoutWriting && self.is_marker(&name, command);
        if self.holds_writes && is_write(&name) && !is_forged_proof {
            session.asking = asking;
            return Outcome::Held;
        }
        if is_forged_proof {
            out.simple("OK");
            return Outcome::Replied(Vec::new());
        }
        if let Some(key) = key_of(&name, command) {
            if let Some(refusal) = self.refusal(&name, key, asking, now) {
                out.error(&refusal);
                return Outcome::Replied(Vec::new());
            }
            session.has_changed |= is_write(&name);
        }
        let argument = |at: usize| command.get(at).map(|argument| &argument[..]);
        match (&name[..], argument(1)) {
            (b"HELLO", _) => self.hello(session, out),
            (b"INFO", Some(section)) => out.bulk(self.info(section).as_bytes()),
            (b"TIME", _) => {
                out.array(2);
                out.bulk((now / 1_000_000).to_string().as_bytes());
                out.bulk((now % 1_000_000).to_string().as_bytes());
            }
            (b"CLIENT", Some(b"KILL")) => {
                out.simple("OK");
                let id = std::str::from_utf8(&command[3]).ok().and_then(|id| id.parse().ok());
                return Outcome::Kill(id.expect("a number"));
            }
            (b"CLUSTER", Some(b"NODES")) => out.bulk(self.view.nodes().as_bytes()),
            (b"CLUSTER", Some(b"SLOTS")) => self.view.slots(out),
            (b"ASKING", _) => {
                session.asking = true;
                out.simple("OK");
            }
            (b"SCRIPT" | b"EVAL", _) => {
                let text = &command[if name == b"EVAL" { 1 } else { 2 }];
                let name = digest(text);
                self.scripts.insert(name.clone(), Script::of(&String::from_utf8_lossy(text)));
                if command[0] == b"EVAL" { out.integer(1) } else { out.bulk(&name) }
            }
            (b"EVALSHA", Some(digest)) if !self.scripts.contains_key(digest) => {
                out.error("NOSCRIPT No matching script");
            }
            (b"SUBSCRIBE", Some(channel)) => {
                session.channel = Some(channel.to_vec());
                out.push(3);
                out.bulk(b"subscribe");
                out.bulk(channel);
                out.integer(1);
            }
            (b"PUBLISH", Some(channel)) => {
                out.integer(0);
                let is_about_others = !std::mem::take(&mut session.has_changed);
                let is_lost = self.forgery == Forgery::AnnouncesOnlyItsOwn && is_about_others;
                let message = Published { channel: channel.to_vec(), message: command[2].clone() };
                return Outcome::Replied(if is_lost { Vec::new() } else { vec![message] });
            }
            (_, digest) => {
                let script = digest.and_then(|digest| self.scripts.get(digest).copied());
                return Outcome::Replied(self.store.execute(self.history, &name, command, script, now, out));
            }
        }
        Outcome::Replied(Vec::new())
    }

    fn info(&self, section: &[u8]) -> String {
        match section {
            b"replication" => {
                let (now, former) = (self.history, self.former_history.unwrap_or_default());
                format!("master_replid:{now:011x}{now:029x}\r\nmaster_replid2:{former:011x}{former:029x}\r\n")
            }
            _ => format!("run_id:run{}-{}\r\n", self.number, self.run),
        }
    }

    /// Whether a command is the write of a heartbeat.
    fn is_marker(&self, name: &[u8], command: &Command) -> bool {
        name == b"SET" && command.get(3).is_some_and(|option| option == b"EX")
    }

    fn hello(&self, session: &Session, out: &mut Encoder<'_>) {
        let role = if self.is_primary() { "master" } else { "replica" };
        out.map(4);
        for (field, value) in [("server", "redis"), ("mode", "cluster"), ("role", role)] {
            out.bulk(field.as_bytes());
            out.bulk(value.as_bytes());
        }
        out.bulk(b"id");
        out.integer(session.id);
    }
}
