//! `larder server --check` with a real Redis.

use crate::process::{larder, run};
use larder_testkit::RedisServer;

#[test]
fn check_counts_what_a_redis_has_executed() {
    let Some((redis, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    let check = || larder(["server", "--check", &format!("redis://127.0.0.1:{port}")]);
    for line in ["CONFIG RESETSTAT", "SET k v", "GET k", "GET k", "WAIT 0 0"] {
        redis.command(line);
    }
    let known = run(&mut check());
    assert_eq!((known.code, known.stderr.as_str()), (Some(0), ""), "{known:?}");
    assert_eq!(row(&known.stdout, "get"), "get 2 yes");
    assert!(row(&known.stdout, "wait").starts_with("wait 1 in part: "), "{known:?}");

    redis.command("LCS k other");
    redis.command("CONFIG SET requirepass secret");
    let refused = run(&mut check());
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.stderr.starts_with("larder server: cannot ask 127.0.0.1:"), "{refused:?}");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("password");
    std::fs::write(&file, "secret\n").expect("the file can be written");
    let by_file = run(check().arg("--redis-password-file").arg(&file));
    let by_variable = run(check().env("LARDER_SERVER_REDIS_PASSWORD", "secret"));
    for ended in [by_file, by_variable] {
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(1), "larder server: missing here: lcs\n"),
            "{ended:?}"
        );
        assert_eq!(row(&ended.stdout, "lcs"), "lcs 1 missing");
    }
}

/// The row of a command, with single spaces.
fn row(text: &str, name: &str) -> String {
    let mut rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.first() == Some(&name));
    row.unwrap_or_else(|| panic!("no {name} in {text}")).join(" ")
}

#[test]
fn check_of_nothing_is_an_error_without_the_address_that_was_given() {
    for (url, code) in [("http://user:secret@h", 2), ("redis://user:secret@127.0.0.1:1", 1)] {
        let ended = run(&mut larder(["server", "--check", url]));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stderr.starts_with("larder server: ") && !ended.stderr.contains("secret"), "{ended:?}");
    }
}
