//! The options of the Redis behind the cache.

use crate::support::open_with;
use http::StatusCode;
use larder_links::{Config, Deps, LinksError};
use larder_testkit::{Deadline, RedisServer, eventually};
use std::path::Path;

fn set_password(server: &RedisServer, password: &str) {
    let reply = server.command(&format!("ACL SETUSER ada reset on >{password} ~* &* +@all"));
    assert_eq!(reply, "+OK\r\n");
}

#[tokio::test]
async fn password_file_is_read_again_for_each_connection() {
    let Some(server) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    set_password(&server, "first");
    std::fs::write(&file, "first\n").unwrap();
    let fixture = open_with(|config| {
        config.redis = Some(server.url());
        config.redis_user = Some("ada".into());
        config.redis_password_file = Some(file.clone());
    });
    let slug = fixture.link(None, "https://example.com/").await;
    for round in 0..3 {
        eventually("it subscribes as this user", async || {
            assert_eq!(fixture.get(&format!("/{slug}")).await.status, StatusCode::FOUND);
            server.command("CLIENT LIST TYPE pubsub").contains("user=ada")
        })
        .await;
        let password = format!("password-{round}");
        set_password(&server, &password);
        std::fs::write(&file, password).unwrap();
        server.command("CLIENT KILL TYPE normal");
        assert_eq!(server.command("CLIENT KILL TYPE pubsub"), ":1\r\n");
    }
}

#[test]
fn certificate_option_that_cannot_be_used_is_refused_by_name() {
    let _deadline = Deadline::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("some.pem"), "").unwrap();
    let refused = |change: fn(&mut Config, &Path)| {
        let mut config = Config {
            database: folder.path().join("links.db").display().to_string(),
            redis: Some("rediss://localhost".into()),
            ..Config::default()
        };
        change(&mut config, folder.path());
        let error = Deps::open(&config).and_then(|deps| larder_links::Links::open(config, deps)).err();
        assert!(matches!(error, Some(LinksError::Config { .. })), "{error:?}");
        error.map(|error| error.to_string()).unwrap_or_default()
    };
    let unreadable = refused(|config, folder| config.redis_roots = Some(folder.join("missing")));
    assert!(unreadable.starts_with("redis_roots is "), "{unreadable}");
    let alone = refused(|config, folder| config.redis_certificate = Some(folder.join("some.pem")));
    assert!(alone.starts_with("redis_key is missing"), "{alone}");
    let alone = refused(|config, folder| config.redis_key = Some(folder.join("some.pem")));
    assert!(alone.starts_with("redis_certificate is missing"), "{alone}");
}

/// A slug of one database led to the target of the other.
#[tokio::test]
async fn shorteners_of_different_databases_may_share_a_redis() {
    let Some(server) = RedisServer::start() else { return };
    let [one, other] = ["one", "other"].map(|name| {
        let fixture = open_with(|config| config.redis = Some(server.url()));
        (name, fixture)
    });
    for (name, fixture) in [&one, &other] {
        fixture.link(Some("docs"), &format!("https://{name}.example/")).await;
    }
    for (name, fixture) in [&one, &other] {
        assert_eq!(fixture.get("/docs").await.header("location"), format!("https://{name}.example/"));
    }
    let keys = server.command("KEYS links-*:slug:docs");
    assert!(keys.starts_with("*2\r\n"), "{keys}");
}
