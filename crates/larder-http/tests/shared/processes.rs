//! Three processes over one Redis: each is this test program again, which answers requests that it reads from its
//! standard input, one a line.

use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::support::{Replica, tagged};

/// Where the child process finds its Redis.
const REDIS: &str = "LARDER_REPLICA_REDIS";
/// What the children print before each answer, so that the output of the test runner is no answer.
const MARK: &str = "replica: ";
/// How long a purge may take to reach a process of a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Process {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(server: &RedisServer) -> Process {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["--exact", "processes::replica_process", "--nocapture"])
            .env(REDIS, server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let (requests, answers) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Process { child, requests, answers: BufReader::new(answers) }
    }

    fn begin(&mut self, request: &str) {
        writeln!(self.requests, "{request}").expect("the process reads");
    }

    fn end(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.answers.read_line(&mut line).expect("the process writes") > 0,
                "the process has ended"
            );
            if let Some((_, answer)) = line.split_once(MARK) {
                return answer.trim_end().to_owned();
            }
        }
    }

    fn ask(&mut self, request: &str) -> String {
        self.begin(request);
        self.end()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The life of a child process. Without its variable this test has nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_process() {
    let Ok(url) = std::env::var(REDIS) else { return };
    let id = std::process::id();
    let replica = Arc::new(Replica::new(url, move |_, call| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        tagged(format!("{id}:{call}"))
    }));
    for line in stdin().lines() {
        let line = line.expect("text");
        let (what, of) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match what {
            "get" => replica.body(of).await,
            "storm" => {
                let mut requests = JoinSet::new();
                for _ in 0..334 {
                    let (replica, target) = (replica.clone(), of.to_owned());
                    requests.spawn(async move { replica.body(&target).await });
                }
                let mut bodies = requests.join_all().await;
                bodies.sort_unstable();
                bodies.dedup();
                bodies.join(",")
            }
            "calls" => replica.calls().to_string(),
            "mode" => format!("{:?}", replica.redis.coherence().mode),
            "purge-uri" => format!("{:?}", replica.cache.purge_uri(of).await.expect("a uri")),
            "purge-prefix" => format!("{:?}", replica.cache.purge_prefix(of).await.expect("a prefix")),
            "purge-tag" => format!("{:?}", replica.cache.purge_tag(of).await),
            other => panic!("{other:?} is no request"),
        };
        println!("{MARK}{answer}");
    }
}

fn calls(processes: &mut [Process]) -> usize {
    processes.iter_mut().map(|process| process.ask("calls").parse::<usize>().expect("a number")).sum()
}

/// Asks until the answer is as expected.
fn until(process: &mut Process, request: &str, is_so: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let answer = process.ask(request);
        if is_so(&answer) {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "{request} answers {answer}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn three_processes_share_fills_and_purges_and_survive_redis() {
    let Some(mut server) = RedisServer::start() else { return };
    let mut processes: Vec<Process> = (0..3).map(|_| Process::start(&server)).collect();

    // A thousand concurrent requests for a cold key.
    processes.iter_mut().for_each(|process| process.begin("storm /shop/cold"));
    let bodies: Vec<_> = processes.iter_mut().map(Process::end).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    assert_eq!(calls(&mut processes), 1);

    // Purges by each of them.
    let uri = "http://site.example/shop/cold";
    let purges =
        [format!("purge-uri {uri}"), "purge-tag t".into(), "purge-prefix http://site.example/shop/".into()];
    for (at, purge) in purges.iter().enumerate() {
        let old = processes[0].ask("get /shop/cold");
        assert_eq!(processes[at].ask(purge), "Everywhere");
        let new = processes[at].ask("get /shop/cold");
        assert_ne!(new, old, "{purge}: at once where it was called");
        for process in &mut processes {
            until(process, "get /shop/cold", |body| body == new);
        }
        assert_eq!(calls(&mut processes), 2 + at, "{purge}: one more");
    }

    // A fresh process.
    let warm = processes[0].ask("get /shop/cold");
    processes[2] = Process::start(&server);
    assert_eq!(processes[2].ask("get /shop/cold"), warm);
    assert_eq!(processes[2].ask("calls"), "0");

    // Redis is killed: what they have is served, and a purge is queued.
    server.kill();
    until(&mut processes[1], "mode", |mode| mode == "Lost");
    assert_eq!(processes[1].ask("get /shop/cold"), warm);
    assert_eq!(processes[1].ask("purge-tag t"), "HereAndQueued");
    let new = processes[1].ask("get /shop/cold");
    assert_ne!(new, warm);
    server.restart();
    until(&mut processes[1], "mode", |mode| mode == "Full");
    for process in &mut processes {
        until(process, "get /shop/cold", |body| body != warm);
    }

    // A process that was stopped serves nothing that was purged meanwhile.
    let before = until(&mut processes[0], "get /shop/stopped", |_| true);
    until(&mut processes[1], "get /shop/stopped", |body| body == before);
    let stopped = processes[1].child.id().to_string();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &stopped]).status().expect("kill runs").success());
    };
    signal("-STOP");
    assert_eq!(processes[0].ask("purge-tag t"), "Everywhere");
    std::thread::sleep(crate::support::LAG + Duration::from_millis(50));
    signal("-CONT");
    assert_ne!(processes[1].ask("get /shop/stopped"), before);
}
