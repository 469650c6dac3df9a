//! A network of two parts that can be cut off from each other, for servers and threads of a test.
//!
//! Each part is a network namespace without a name. It is gone with the last process, thread and file that refers to it, so
//! nothing is left of it however a test ends.

use crate::program::{note_skip, program, test_name};
use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread::{Builder, scope};

/// The addresses of the parts, which no other network has, and the devices that connect them.
const PARTS: [(&str, &str); 2] = [("10.231.7.1", "near"), ("10.231.7.2", "far")];

/// A part of the network of a test.
#[derive(Debug)]
pub struct NetworkPart {
    namespace: File,
    ip: PathBuf,
    host: &'static str,
    device: &'static str,
}

/// Two parts, which reach each other until they are [cut](Network::cut) off.
#[derive(Debug)]
pub struct Network {
    parts: [Arc<NetworkPart>; 2],
}

impl Network {
    /// Two parts that reach each other. `None` and a note if there is no `ip`, or the test does not run as root.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn start() -> Option<Self> {
        if !geteuid().is_root() {
            note_skip(&format!("{}: only root may make network namespaces", test_name()));
            return None;
        }
        let ip = program("ip")?;
        let parts = PARTS.map(|(host, device)| {
            let namespace = on_a_thread(new_namespace).expect("the system makes a namespace");
            Arc::new(NetworkPart { namespace, ip: ip.clone(), host, device })
        });
        let [near, far] = &parts;
        let there = format!("/proc/{}/fd/{}", std::process::id(), far.namespace.as_fd().as_raw_fd());
        near.ip(&format!("link add {} type veth peer name {} netns {there}", near.device, far.device));
        let network = Network { parts };
        for (part, other) in network.pairs() {
            part.ip("link set lo up");
            // Not an address of the device: a part that is cut off still reaches itself.
            part.ip(&format!("address add {}/32 dev lo", part.host));
            part.connect_to(other);
        }
        Some(network)
    }

    /// The first part.
    pub fn near(&self) -> &Arc<NetworkPart> {
        &self.parts[0]
    }

    /// The second part.
    pub fn far(&self) -> &Arc<NetworkPart> {
        &self.parts[1]
    }

    /// Loses all that either part sends to the other.
    pub fn cut(&self) {
        self.far().ip(&format!("link set {} down", self.far().device));
    }

    /// Ends [`Network::cut`].
    pub fn heal(&self) {
        self.pairs().for_each(|(part, other)| part.connect_to(other));
    }

    fn pairs(&self) -> impl Iterator<Item = (&NetworkPart, &NetworkPart)> {
        let [near, far] = self.parts.each_ref().map(|part| &**part);
        [(near, far), (far, near)].into_iter()
    }
}

impl NetworkPart {
    /// The address in this part.
    pub fn host(&self) -> &'static str {
        self.host
    }

    /// Lets the calling thread be in this part, with each socket that it makes from now on and each process that it starts.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn enter(&self) {
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("the thread may enter the namespace");
    }

    /// Runs this in this part, on a thread of its own.
    ///
    /// # Panics
    /// If it panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        on_a_thread(|| {
            self.enter();
            work()
        })
    }

    fn connect_to(&self, other: &NetworkPart) {
        self.ip(&format!("link set {} up", self.device));
        self.ip(&format!("route replace {}/32 dev {} src {}", other.host, self.device, self.host));
    }

    fn ip(&self, arguments: &str) {
        let status = self.run(|| Command::new(&self.ip).args(arguments.split(' ')).status());
        assert!(status.is_ok_and(|status| status.success()), "ip {arguments}");
    }
}

/// Runs this on another thread with the name of this one, which is that of the test.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    scope(|scope| {
        let thread = Builder::new().name(test_name()).spawn_scoped(scope, work).expect("a thread starts");
        thread.join().expect("it does not panic")
    })
}

/// Moves the calling thread into a new namespace.
fn new_namespace() -> io::Result<File> {
    // SAFETY: threads go on to share their files.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    File::open("/proc/thread-self/ns/net")
}
