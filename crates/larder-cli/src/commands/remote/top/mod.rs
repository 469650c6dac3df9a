//! `larder top`: the figures of a running Larder in a terminal, again and again.
//!
//! ```text
//! admin port ── a task asks it at each interval ──┐
//! signals ────────────────────────────────────────┼─► messages ─► Screen ─► view
//! keys, new sizes of the terminal ────────────────┘
//! ```

mod screen;
mod view;

use super::client::AdminClient;
use crate::flags::TopFlags;
use crate::options::settings::File;
use crate::output::one_line;
use crate::parts::runtime;
use crate::process::signals;
use anyhow::{Context, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use screen::{Message, Screen};
use std::io::{IsTerminal, stdin, stdout};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How long a key waits at most.
const TICK: Duration = Duration::from_millis(50);
/// How often it is asked whether the terminal is still there.
const LOOK_AT_TERMINAL: Duration = Duration::from_millis(500);
/// How long the end of the program takes at most.
const LAST_DRAWING: Duration = Duration::from_secs(1);
/// An admin port that takes longer is said not to answer.
const TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn run(flags: TopFlags, file: File) -> Result<()> {
    if !(stdin().is_terminal() && stdout().is_terminal()) {
        bail!("it needs a terminal; `larder stats` prints the figures once");
    }
    let address = file.admin_authority(flags.admin.admin);
    let mut screen = Screen::new(format!("http://{address}"));
    let (sender, messages) = channel();
    let runtime = runtime()?;
    let client = runtime.block_on(async {
        let stop = signals::stop_signal(false)?;
        let stopped = sender.clone();
        tokio::spawn(async move {
            stop.await;
            _ = stopped.send(Message::Stop);
            end_soon().await
        });
        tokio::spawn(async {
            while !is_terminal_gone() {
                tokio::time::sleep(LOOK_AT_TERMINAL).await;
            }
            end_soon().await
        });
        anyhow::Ok(AdminClient::new(address))
    })?;
    runtime.spawn(ask(client, Duration::from_secs(flags.interval), sender));

    // A panic restores the terminal too.
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let watched = watch(&mut terminal, &messages, &mut screen);
    let restored = ratatui::try_restore().context("cannot restore the terminal");
    runtime.shutdown_background();
    watched.and(restored)
}

/// Ends the process, unless it ends by itself. What reads the keys reads the end of a terminal that is gone again and again, and
/// never returns.
async fn end_soon() -> ! {
    tokio::time::sleep(LAST_DRAWING).await;
    std::process::exit(1)
}

/// Whether the other side of the terminal was closed.
fn is_terminal_gone() -> bool {
    let stdin = stdin();
    let mut keys = [PollFd::new(&stdin, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut keys, Some(&at_once)).is_ok() && keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Asks the admin port at each interval, until nobody wants to know.
async fn ask(client: AdminClient, interval: Duration, sender: Sender<Message>) {
    loop {
        let answer = tokio::time::timeout(TIMEOUT, client.get("/api/stats")).await;
        let message = match answer {
            Err(_) => Message::Problem(format!("it did not answer within {} s", TIMEOUT.as_secs())),
            Ok(Err(error)) => Message::Problem(one_line(&error)),
            Ok(Ok(answer)) => match serde_json::from_str(&answer) {
                Ok(figures) => Message::Figures(figures),
                Err(error) => Message::Problem(format!("the answer has no figures: {error}")),
            },
        };
        if sender.send(message).is_err() {
            return;
        }
        tokio::time::sleep(interval).await;
    }
}

/// Draws whenever there is something new, until a key or a signal ends it.
fn watch(terminal: &mut DefaultTerminal, messages: &Receiver<Message>, screen: &mut Screen) -> Result<()> {
    while !screen.is_over() {
        terminal.draw(|frame| view::draw(frame, screen)).context("cannot draw")?;
        let mut is_new = false;
        while !is_new {
            if event::poll(TICK).context("cannot read keys")? {
                // A new size needs to be drawn, too.
                is_new = true;
                if let Event::Key(key) = event::read().context("cannot read keys")? {
                    screen.press(key);
                }
            }
            while let Ok(message) = messages.try_recv() {
                is_new = true;
                screen.take(message);
            }
        }
    }
    Ok(())
}
