//! `larder top` in a real terminal: tmux, of which the test reads the screen.

use crate::process::{Up, larder, run};
use crate::resp::command;
use crate::shortener::{create, follow};
use larder_testkit::{program, until};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A session of a tmux server of its own, which ends with the test.
struct Tmux {
    program: PathBuf,
    socket: PathBuf,
}

impl Tmux {
    /// Runs a shell command in a terminal of 80 by 24.
    fn start(program: PathBuf, folder: &Path, line: &str) -> Tmux {
        let tmux = Tmux { program, socket: folder.join("tmux") };
        tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", line]);
        tmux
    }

    fn run(&self, words: &[&str]) -> String {
        let output = Command::new(&self.program).arg("-S").arg(&self.socket).args(words).output();
        let output = output.expect("tmux can be run");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The lines of the screen.
    fn screen(&self) -> Vec<String> {
        self.run(&["capture-pane", "-p"]).lines().map(str::to_owned).collect()
    }

    fn press(&self, key: &str) {
        self.run(&["send-keys", key]);
    }

    /// Waits for a line on the screen that begins so, and returns the screen.
    #[track_caller]
    fn await_line(&self, start: &str) -> Vec<String> {
        until(&format!("a line {start:?} on the screen"), || {
            let screen = self.screen();
            screen.iter().any(|line| line.starts_with(start)).then_some(screen)
        })
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        _ = Command::new(&self.program).arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

#[test]
fn top_shows_a_running_larder_and_gives_the_terminal_back() {
    let Some(tmux) = program("tmux") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut up = Up::start(&folder.path().join("data"));
    let slug = create(up.http, "https://example.com/");
    follow(up.http, &slug);
    assert_eq!(command(up.resp, "SET greeting hello"), "+OK");
    let line = format!(
        "echo before; '{}' top --interval 1 --admin http://{}; echo ended with $?; exec sleep 1000",
        env!("CARGO_BIN_EXE_larder"),
        up.admin
    );
    let tmux = Tmux::start(tmux, folder.path(), &line);

    let screen = tmux.await_line("links, memory ");
    assert!(
        screen[0].starts_with("larder ") && screen[0].ends_with(&format!("http://{}", up.admin)),
        "{screen:#?}"
    );
    assert_eq!(screen[23], "q quit   ↑ ↓ select   p pause", "{screen:#?}");
    for start in ["part, tier ", "links, redirects ", "api responses, http ", "server, memory "] {
        assert!(screen.iter().any(|line| line.starts_with(start)), "no {start:?} in {screen:#?}");
    }
    tmux.await_line("coherence: full: ");
    tmux.await_line("rates of the last 1 s");
    (0..9).for_each(|_| tmux.press("Down"));
    tmux.await_line("server──");
    tmux.run(&["resize-window", "-x", "50", "-y", "12"]);
    until("it is drawn in the new size", || {
        let screen = tmux.screen();
        (screen.len() == 12 && screen[11].starts_with("q quit")).then_some(())
    });
    tmux.run(&["resize-window", "-x", "80", "-y", "24"]);
    tmux.press("p");
    tmux.await_line("paused");
    tmux.press("p");

    // A process that answers nothing for a while.
    up.process.running().pause();
    let old = tmux.await_line("trying again; the figures are old: ");
    assert!(old.iter().any(|line| line.starts_with("server, memory ")), "{old:#?}");
    up.process.running().resume();
    tmux.await_line("rates of the last ");
    up.stop();
    tmux.await_line("trying again; the figures are old: cannot reach http://127.0.0.1:");

    tmux.press("q");
    let after = tmux.await_line("ended with 0");
    assert_eq!(after[0], "before", "the former screen is back: {after:#?}");
    assert!(after.iter().all(|line| !line.contains("links, memory")), "{after:#?}");
}

#[test]
fn top_needs_a_terminal() {
    run(&mut larder(["top"]))
        .assert_failure("larder top: it needs a terminal; `larder stats` prints the figures once");
}

/// The terminal was closed, and the program went on to read the end of it, with a whole processor.
#[test]
fn top_ends_with_its_terminal() {
    let Some(program) = program("tmux") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let line = format!("exec '{}' top --admin http://127.0.0.1:1", env!("CARGO_BIN_EXE_larder"));
    let tmux = Tmux::start(program, folder.path(), &line);
    tmux.await_line("q quit");
    let process = Path::new("/proc").join(tmux.run(&["display-message", "-p", "#{pane_pid}"]).trim());
    assert!(process.exists());
    drop(tmux);
    until("its end", || (!process.exists()).then_some(()));
}
