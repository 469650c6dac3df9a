//! `larder doctor` with running parts: one set that is well, and one that is broken in several ways.

use crate::certificate::certificate_until;
use crate::http::connect;
use crate::process::{Ended, Up, larder, run};
use crate::resp::Client;
use crate::shortener::{create, follow};
use larder_testkit::{RedisServer, until};
use serde_json::Value;
use std::io::Read;
use std::time::{Duration, SystemTime};

fn doctor(up: &Up, flags: &[&str]) -> Ended {
    let mut command = larder(["doctor", "--seconds", "0"]);
    run(command.args(flags).env("LARDER_ADMIN", format!("http://{}", up.admin)))
}

#[test]
fn well_system_has_no_findings() {
    let fit = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lfu", "--protected-mode", "yes"];
    let Some((_redis, port)) = RedisServer::start_with_port("--port", &fit) else { return };
    let data = tempfile::tempdir().unwrap();
    let up = Up::start(data.path());
    let slug = create(up.http, "https://example.com/");
    follow(up.http, &slug);
    for url in [format!("redis://127.0.0.1:{port}"), format!("redis://{}", up.resp)] {
        let ended = doctor(&up, &["--redis", &url]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{url}: {ended:?}");
        assert!(ended.stdout.ends_with("; totals since then\n\nnothing is wrong\n"), "{ended:?}");
    }
    let watched =
        run(larder(["doctor", "--seconds", "1", "--admin", &format!("http://{}", up.admin)]).arg("--json"));
    assert_eq!(
        (watched.code, watched.stdout.as_str()),
        (Some(0), "{\"version\":1,\"findings\":[]}\n"),
        "{watched:?}"
    );
    let admin = up.admin;
    up.stop();
    run(&mut larder(["doctor", "--admin", &format!("http://{admin}")])).assert_failure(&format!(
        "larder doctor: cannot reach http://{admin}: Connection refused (os error 111); is `larder up` running?"
    ));
}

#[test]
fn broken_system_has_a_finding_for_each_fault() {
    let Some(mut redis) = RedisServer::start() else { return };
    let Some((_unfit, port)) = RedisServer::start_with_port("--port", &["--timeout", "3"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    let [chain, key] = certificate_until(folder.path(), tomorrow);
    let url = redis.url();
    let flags = ["up", "--max-memory", "1mb", "--max-memory-policy", "noeviction", "--maxclients", "3"];
    let tls = ["--tls-port", "0", "--tls-cert", &chain, "--tls-key", &key, "--redis", &url];
    let up = Up::start_as(larder(flags.into_iter().chain(tls)), &folder.path().join("data"));

    // The shortener loses its Redis, the server its memory and its room for clients.
    let slug = create(up.http, "https://example.com/");
    follow(up.http, &slug);
    redis.kill();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(up.resp)).collect();
    let long = "x".repeat(50_000);
    let replies = (0..40).map(|n| clients[0].call(&format!("SET {n} {long}")).unwrap());
    assert!(replies.filter(|reply| reply.starts_with("-OOM ")).count() > 0);
    let mut refused = String::new();
    connect(up.resp).unwrap().read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("-ERR max number of clients reached"), "{refused}");

    let unfit = format!("redis://127.0.0.1:{port}");
    let findings = until("the loss of Redis is seen", || {
        let ended = doctor(&up, &["--json", "--redis", &unfit]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        findings.iter().any(|own| own["part"] == "links").then_some(findings)
    });
    let expected = [
        ("critical", "server", "its certificate expires in "),
        ("critical", "server", "commands were refused: the memory limit is reached"),
        ("critical", "server", "1 connection was refused: maxclients is reached"),
        ("critical", "links", "(os error 2)): memory is served for "),
        ("warning", &format!("127.0.0.1:{port}"), "it has no memory limit"),
        ("warning", &format!("127.0.0.1:{port}"), "it closes connections that are idle for 3 s"),
    ];
    for (severity, part, text) in expected {
        let is_meant = |own: &&Value| {
            own["finding"].as_str().unwrap().contains(text)
                && own["severity"] == severity
                && own["part"] == part
        };
        assert!(findings.iter().any(|own| is_meant(&own)), "no {severity} {text} of {part} in {findings:#?}");
    }

    let ended = doctor(&up, &["--redis", &format!("redis://user:secret@127.0.0.1:{}", 1)]);
    let last = ended.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("larder doctor: ") && last.ends_with(" findings, 5 of them critical"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("\ncritical  redis   cannot ask 127.0.0.1:1: "), "{ended:?}");
    assert!(!format!("{ended:?}").contains("secret"), "{ended:?}");
    up.stop();
}
