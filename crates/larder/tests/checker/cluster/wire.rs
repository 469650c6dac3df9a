//! One connection of a node to a server: bytes take time, in order, and the connection may break or stall.

use super::machine::{Outcome, Session};
use super::store::Command;
use super::world::World;
use crate::network::TIMEOUT;
use larder_resp::{Encoder, Limits, Progress, Protocol, RequestParser};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long a command waits for a server that hands over, before it is looked at again.
const HELD: Duration = Duration::from_millis(3);
/// How often nothing arrives any more of what was sent on a connection that the node has closed, in thousandths.
const ABANDONED_LOST: u64 = 500;
/// The longest time after a stall until the system sends again what did not arrive.
const MAX_RESEND_MS: u64 = 3_000;

#[derive(Debug)]
pub(super) struct Wire {
    pub(super) node: usize,
    pub(super) machine: usize,
    line: Mutex<Line>,
    more: Notify,
}

/// What is on its way.
#[derive(Debug, Default)]
struct Line {
    session: Session,
    requests: VecDeque<(Instant, VecDeque<Command>)>,
    replies: VecDeque<(Instant, Vec<u8>)>,
    /// When the last request and the last reply arrive.
    last_request: Option<Instant>,
    last_reply: Option<Instant>,
    is_closed: bool,
    /// The node has closed it. What it had sent still arrives.
    is_abandoned: bool,
}

impl Wire {
    pub(super) fn new(node: usize, machine: usize, id: i64) -> Arc<Self> {
        let line = Mutex::new(Line { session: Session::new(id), ..Line::default() });
        Arc::new(Wire { node, machine, line, more: Notify::new() })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("nobody panics with it")
    }

    pub(super) fn id(&self) -> i64 {
        self.line().session.id
    }

    /// What is on its way is lost.
    pub(super) fn close(&self) {
        self.line().is_closed = true;
        self.more.notify_one();
    }

    /// Sends a message to a subscriber of its channel.
    pub(super) fn publish(&self, world: &World, channel: &[u8], message: &[u8]) {
        if self.line().session.channel.as_deref() != Some(channel) {
            return;
        }
        let mut push = Vec::new();
        let mut out = Encoder::new(&mut push, Protocol::Resp3);
        out.push(3);
        [b"message", channel, message].iter().for_each(|field| out.bulk(field));
        let late =
            if world.rng.chance(world.weather.late_pushes) { world.rng.ms(0..2_000) } else { Duration::ZERO };
        self.reply(world, push, late);
    }

    fn reply(&self, world: &World, bytes: Vec<u8>, late: Duration) {
        let arrives = world.arrival(self.node, world.usual_delay() + late);
        let mut line = self.line();
        let arrives = line.last_reply.map_or(arrives, |last| arrives.max(last));
        line.last_reply = Some(arrives);
        line.replies.push_back((arrives, bytes));
        drop(line);
        self.more.notify_one();
    }

    /// The server's end. Dropping the stream closes the connection.
    pub(super) async fn serve(self: Arc<Self>, world: Arc<World>, mut stream: DuplexStream) {
        let (mut input, mut received) = (Vec::new(), vec![0; 4_096]);
        loop {
            let next = {
                let line = self.line();
                if line.is_closed || line.is_abandoned && line.requests.is_empty() {
                    return;
                }
                let first = line.requests.front().map(|(arrives, _)| *arrives);
                first.into_iter().chain(line.replies.front().map(|(arrives, _)| *arrives)).min()
            };
            tokio::select! {
                biased;
                () = self.more.notified() => {}
                read = stream.read(&mut received), if !self.line().is_abandoned => match read {
                    Ok(length) if length > 0 => {
                        input.extend_from_slice(&received[..length]);
                        self.receive(&world, &mut input);
                    }
                    _ => self.abandon(&world),
                },
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    let bytes = self.work(&world);
                    let is_heard = !self.line().is_abandoned;
                    if let Some(bytes) = bytes.filter(|_| is_heard) && stream.write_all(&bytes).await.is_err() {
                        self.abandon(&world);
                    }
                }
            }
        }
    }

    /// The node has closed its end. The system goes on to send what it was given, after a pause if nothing passed meanwhile, or
    /// has lost it.
    fn abandon(&self, world: &World) {
        if world.rng.chance(ABANDONED_LOST) {
            return self.close();
        }
        let stalled = world.stalled_until(self.node, self.machine);
        let resent = stalled.map(|open| open + world.rng.ms(0..MAX_RESEND_MS));
        let mut line = self.line();
        line.is_abandoned = true;
        line.replies.clear();
        if let (Some(resent), Some((arrives, _))) = (resent, line.requests.front_mut()) {
            *arrives = resent.max(*arrives);
        }
    }

    /// Takes complete commands out of what has been sent. They arrive later.
    fn receive(&self, world: &World, input: &mut Vec<u8>) {
        let (mut commands, mut parser, mut start) = (VecDeque::new(), RequestParser::new(), 0);
        while let Ok(Progress::Complete { consumed, .. }) = parser.parse(&input[start..], &Limits::default())
        {
            let args = parser.args(&input[start..]);
            commands.push_back(args.iter().map(<[u8]>::to_vec).collect());
            start += consumed;
        }
        input.drain(..start);
        if commands.is_empty() {
            return;
        }
        if world.rng.chance(world.weather.lost) {
            world.note(|| format!("a connection of node {} to s{} breaks", self.node, self.machine));
            return self.close();
        }
        let slow = world.rng.chance(world.weather.slow);
        let late = if slow { world.rng.ms(0..2 * TIMEOUT.as_millis() as u64) } else { Duration::ZERO };
        let arrives = world.arrival(self.node, world.usual_delay() + late);
        let mut line = self.line();
        let arrives = line.last_request.map_or(arrives, |last| arrives.max(last));
        line.last_request = Some(arrives);
        line.requests.push_back((arrives, commands));
    }

    /// Does what is due: returns bytes that have arrived at the node, or lets the server execute a request.
    fn work(&self, world: &Arc<World>) -> Option<Vec<u8>> {
        let now = Instant::now();
        if let Some(open) = world.stalled_until(self.node, self.machine) {
            let mut line = self.line();
            line.requests.front_mut().into_iter().for_each(|(arrives, _)| *arrives = open.max(*arrives));
            line.replies.front_mut().into_iter().for_each(|(arrives, _)| *arrives = open.max(*arrives));
            return None;
        }
        let mut line = self.line();
        if line.replies.front().is_some_and(|(arrives, _)| *arrives <= now) {
            return line.replies.pop_front().map(|(_, bytes)| bytes);
        }
        let (arrives, commands) = line.requests.pop_front()?;
        if arrives > now {
            line.requests.push_front((arrives, commands));
            return None;
        }
        if let Some(goes_on) = world.machine_stopped_until(self.machine) {
            line.requests.push_front((goes_on, commands));
            return None;
        }
        drop(line);
        self.execute(world, commands);
        None
    }

    /// Lets the server execute commands. Between two of them others may come.
    fn execute(&self, world: &Arc<World>, mut commands: VecDeque<Command>) {
        let mut bytes = Vec::new();
        while let Some(command) = commands.pop_front() {
            let (outcome, published) = {
                let mut session = std::mem::take(&mut self.line().session);
                let outcome = world.execute(self, &mut session, &command, &mut bytes);
                self.line().session = session;
                match outcome {
                    Outcome::Replied(published) => (None, published),
                    other => (Some(other), Vec::new()),
                }
            };
            match outcome {
                Some(Outcome::Held) => {
                    commands.push_front(command);
                    self.line().requests.push_front((Instant::now() + HELD, commands));
                    break;
                }
                Some(Outcome::Kill(id)) => world.close_client(self.machine, id),
                _ => {}
            }
            for message in &published {
                world.publish(self.machine, message);
            }
            if !commands.is_empty() && world.rng.chance(50) {
                self.line().requests.push_front((Instant::now() + world.rng.ms(0..3), commands));
                break;
            }
        }
        if world.rng.chance(world.weather.unanswered) {
            world.note(|| {
                format!("a connection of node {} to s{} breaks before a reply", self.node, self.machine)
            });
            return self.close();
        }
        if !bytes.is_empty() {
            self.reply(world, bytes, Duration::ZERO);
        }
    }
}
