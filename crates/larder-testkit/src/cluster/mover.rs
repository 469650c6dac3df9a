//! Slots that move while servers are killed, stopped and replaced: every step may fail.
//!
//! A slot whose move has failed is *open*. Some of its keys may be at a server that does not own it, where nothing invalidates
//! them, and a command that timed out may still be executed. So an open slot is not moved again before it is repaired, as a
//! careful operator would do it: once all servers answer, its keys are removed from all but its owner.

use super::Cluster;
use super::slots::{BATCH, SLOTS, exchange, items};
use super::view::Line;
use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take to reply: one that is stopped does not hold up the others.
const REPLY_LIMIT: Duration = Duration::from_millis(1_500);
/// How long the source of a slot waits for the target, in milliseconds; it serves nobody meanwhile.
const MIGRATE_LIMIT_MS: &str = "300";
/// How long the others may take to know who owns a slot, and a move at once may take.
const MOVE_LIMIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// How a slot moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveMethod {
    /// By SETSLOT and MIGRATE. In between the former owner answers with ASK for keys that it does not have.
    Stepwise,
    /// By MIGRATESLOTS, which Valkey has since 9.0: the keys are copied, and the slot changes its owner at once.
    Atomic,
}

/// Moves slots of a cluster from a thread of its own.
#[derive(Debug)]
pub struct Mover {
    servers: Vec<Peer>,
    knows_migrateslots: bool,
    open: Vec<u16>,
}

#[derive(Debug)]
struct Peer {
    id: String,
    host: &'static str,
    port: u16,
    socket: PathBuf,
}

impl Cluster {
    /// What moves slots of the servers that there are now.
    ///
    /// # Panics
    /// If the first server does not answer.
    pub fn mover(&self) -> Mover {
        let servers = self.servers().map(|server| Peer {
            id: self.id(server).to_owned(),
            host: self.servers[server].identity.host,
            port: self.port(server),
            socket: self.servers[server].process.socket(),
        });
        let servers: Vec<_> = servers.collect();
        let help = servers[0].ask("CLUSTER HELP").expect("the first server answers");
        Mover { servers, knows_migrateslots: help.contains("MIGRATESLOTS"), open: Vec::new() }
    }
}

impl Mover {
    /// Whether the servers can move a slot by this method.
    pub fn knows(&self, method: MoveMethod) -> bool {
        method == MoveMethod::Stepwise || self.knows_migrateslots
    }

    /// Whether a move of the slot has failed and is not repaired.
    pub fn is_open(&self, slot: u16) -> bool {
        self.open.contains(&slot)
    }

    /// Moves a slot to one of the other primaries, by this choice, and calls `pause` between the steps.
    ///
    /// # Errors
    /// If a server does not answer or refuses. The slot is open then, unless nothing has begun.
    pub fn move_slot(
        &mut self,
        slot: u16,
        choice: u64,
        method: MoveMethod,
        mut pause: impl FnMut(),
    ) -> io::Result<()> {
        let (from, to) = self.ends(slot, choice)?;
        let moved = match method {
            MoveMethod::Stepwise => self.by_steps(slot, from, to, &mut pause),
            MoveMethod::Atomic => self.at_once(slot, from, to),
        };
        if moved.is_err() {
            self.open.push(slot);
        }
        moved
    }

    /// The owner of a slot, and another primary.
    fn ends(&self, slot: u16, choice: u64) -> io::Result<(&Peer, &Peer)> {
        let primaries = self.primaries();
        let from =
            owner(&primaries, slot).ok_or_else(|| io::Error::other(format!("nobody owns slot {slot}")))?;
        let others: Vec<_> =
            primaries.iter().map(|(peer, _)| *peer).filter(|peer| peer.id != from.id).collect();
        let to = others.get(choice as usize % others.len().max(1));
        Ok((from, to.ok_or_else(|| io::Error::other("there is no other primary"))?))
    }

    /// The primaries that answer.
    fn primaries(&self) -> Vec<(&Peer, Line)> {
        let answering = self.servers.iter().filter_map(|peer| Some((peer, peer.own_line().ok()?)));
        answering.filter(|(_, line)| line.is_primary()).collect()
    }

    fn by_steps(&self, slot: u16, from: &Peer, to: &Peer, pause: &mut impl FnMut()) -> io::Result<()> {
        to.execute(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id))?;
        from.execute(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id))?;
        pause();
        // While a slot moves, new keys are made at the target, others are still at the source.
        from.send_keys(slot, to)?;
        pause();
        from.send_keys(slot, to)?;
        let given = format!("CLUSTER SETSLOT {slot} NODE {}", to.id);
        to.execute(&given)?;
        // The source gives the slot away once others know who has it: if it were the first, and the target were lost now, then
        // nobody would own the slot.
        self.await_owner(slot, to)?;
        for (peer, _) in self.primaries() {
            peer.execute(&given)?;
        }
        Ok(())
    }

    fn at_once(&self, slot: u16, from: &Peer, to: &Peer) -> io::Result<()> {
        from.execute(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", to.id))?;
        self.await_owner(slot, to)
    }

    /// Waits until all that answer know the owner of a slot.
    fn await_owner(&self, slot: u16, to: &Peer) -> io::Result<()> {
        let start = Instant::now();
        loop {
            let mut views = self.servers.iter().filter_map(|peer| peer.view().ok());
            if views.all(|view| view.iter().any(|line| line.id == to.id && line.owns(slot))) {
                return Ok(());
            }
            if start.elapsed() > MOVE_LIMIT {
                return Err(io::Error::other(format!("not all know the owner of slot {slot}")));
            }
            sleep(PAUSE);
        }
    }

    /// Repairs the open slots that can be repaired now. Returns whether none is left.
    pub fn repair(&mut self) -> bool {
        // A replica may have been told of a move that its primary has forgotten, and be the primary now.
        let moving: Vec<_> = self.primaries().into_iter().flat_map(|(_, line)| line.moving).collect();
        for slot in moving {
            if !self.is_open(slot) {
                self.open.push(slot);
            }
        }
        let left = self.open.iter().copied().filter(|slot| self.repair_slot(*slot).is_err());
        self.open = left.collect();
        self.open.is_empty()
    }

    fn repair_slot(&self, slot: u16) -> io::Result<()> {
        let primaries = self.primaries();
        for (peer, _) in &primaries {
            if self.knows_migrateslots {
                // An error means that it moves none.
                _ = peer.ask("CLUSTER CANCELSLOTMIGRATIONS ALL");
            }
            // Also while a server is lost: one that imports a slot does not learn who owns it now, and finds the cluster down.
            peer.execute(&format!("CLUSTER SETSLOT {slot} STABLE"))?;
        }
        let Some(owner) = owner(&primaries, slot) else { return self.adopt(slot, &primaries) };
        // What was sent to one that was stopped is executed before it answers.
        self.servers.iter().try_for_each(|peer| peer.own_line().map(drop))?;
        let others = primaries.iter().filter(|(peer, _)| peer.id != owner.id);
        others.map(|(peer, _)| peer).try_for_each(|peer| peer.drop_keys(slot, owner))?;
        self.await_owner(slot, owner)
    }

    /// Gives a slot that nobody owns to a primary: its target was lost when only the source knew that it has the slot.
    fn adopt(&self, slot: u16, primaries: &[(&Peer, Line)]) -> io::Result<()> {
        let is_lost = |slot| owner(primaries, slot).is_none();
        let all_lost = (0..SLOTS).filter(|slot| is_lost(*slot)).collect::<Vec<_>>();
        if !all_lost.iter().all(|lost| *lost == slot || self.is_open(*lost)) {
            return Err(io::Error::other("a primary is lost, and no replica has replaced it yet"));
        }
        let [(first, _), (other, _), ..] = primaries else {
            return Err(io::Error::other("too few primaries"));
        };
        first.drop_keys(slot, other)?;
        first.execute(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", other.id))?;
        first.execute(&format!("CLUSTER SETSLOT {slot} NODE {}", first.id))?;
        Err(io::Error::other("others may still have its keys"))
    }
}

/// The primary with the latest claim to a slot.
fn owner<'a>(primaries: &[(&'a Peer, Line)], slot: u16) -> Option<&'a Peer> {
    let claims = primaries.iter().filter(|(_, line)| line.owns(slot));
    claims.max_by_key(|(_, line)| line.epoch).map(|(peer, _)| *peer)
}

impl Peer {
    fn request(&self, words: &[&[u8]]) -> io::Result<Vec<u8>> {
        Ok(exchange(&self.socket, REPLY_LIMIT, &[words])?.remove(0))
    }

    fn ask(&self, line: &str) -> io::Result<String> {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        self.request(&words).map(|reply| String::from_utf8_lossy(&reply).into_owned())
    }

    /// The same for a command that has no other reply than OK.
    fn execute(&self, line: &str) -> io::Result<()> {
        let reply = self.ask(line)?;
        if reply == "+OK\r\n" {
            Ok(())
        } else {
            Err(io::Error::other(format!("{}: {line}: {reply}", self.port)))
        }
    }

    /// What the server knows.
    fn view(&self) -> io::Result<Vec<Line>> {
        Ok(self.ask("CLUSTER NODES")?.lines().filter_map(Line::parse).collect())
    }

    /// What it knows of itself.
    fn own_line(&self) -> io::Result<Line> {
        let own = self.view()?.into_iter().find(|line| line.is_own);
        own.ok_or_else(|| io::Error::other("a server does not know itself"))
    }

    fn keys(&self, slot: u16) -> io::Result<Vec<Vec<u8>>> {
        let slot = slot.to_string();
        let words: [&[u8]; 4] = [b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), BATCH.as_bytes()];
        self.request(&words).map(|reply| items(&reply))
    }

    /// Moves the keys of a slot that there are now.
    fn send_keys(&self, slot: u16, to: &Peer) -> io::Result<()> {
        loop {
            let (keys, port) = (self.keys(slot)?, to.port.to_string());
            if keys.is_empty() {
                return Ok(());
            }
            let mut words: Vec<&[u8]> = vec![b"MIGRATE", to.host.as_bytes(), port.as_bytes(), b"", b"0"];
            words.extend([MIGRATE_LIMIT_MS.as_bytes(), b"KEYS"]);
            words.extend(keys.iter().map(Vec::as_slice));
            let reply = self.request(&words)?;
            // Keys may expire, or be removed by others, in between: of all of them, nothing is left to move.
            if ![&b"+OK\r\n"[..], b"+NOKEY\r\n"].contains(&&reply[..]) {
                return Err(io::Error::other(String::from_utf8_lossy(&reply).into_owned()));
            }
        }
    }

    /// Removes the keys of a slot that another server owns.
    fn drop_keys(&self, slot: u16, owner: &Peer) -> io::Result<()> {
        let keys = self.keys(slot)?;
        if keys.is_empty() {
            return Ok(());
        }
        self.execute(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", owner.id))?;
        for key in keys {
            // Only so does it execute a command for a key that it does not own.
            exchange(&self.socket, REPLY_LIMIT, &[&[b"ASKING"], &[b"UNLINK", &key]])?;
        }
        self.execute(&format!("CLUSTER SETSLOT {slot} STABLE"))?;
        if self.keys(slot)?.is_empty() { Ok(()) } else { Err(io::Error::other("there are keys left")) }
    }
}
