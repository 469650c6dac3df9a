//! Users and passwords of Redis: in the address, as an option, and from a function that is asked at each connect.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with, over};
use larder::{Builder, Cache, CoherenceMode, CoherenceProblem, RedisCredentials, View};
use larder_testkit::{RedisServer, eventually};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Characters with a meaning in an address.
const PASSWORD: &str = "p@ss:w/rd?#%&=[ö]";
const ENCODED: &str = "p%40ss%3Aw%2Frd%3F%23%25%26%3D%5B%C3%B6%5D";

/// Makes a user with this password only.
fn set_password(server: &RedisServer, user: &str, password: &str) {
    let reply = server.command(&format!("ACL SETUSER {user} reset on \">{password}\" ~* &* +@all"));
    assert_eq!(reply, "+OK\r\n");
}

/// Closes every connection, also the subscriptions.
fn close_connections(server: &RedisServer) {
    assert_ne!(server.command("CLIENT KILL TYPE normal"), ":0\r\n");
    assert_ne!(server.command("CLIENT KILL TYPE pubsub"), ":0\r\n");
}

/// A node, and the errors that it reports.
fn node(url: String, change: impl FnOnce(Builder) -> Builder) -> (Cache, Arc<Mutex<Vec<String>>>) {
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = errors.clone();
    let cache = node_with(url, |options| {
        change(options.redis_timeout(Duration::from_secs(5)))
            .on_error(move |error| log.lock().expect("no panic").push(format!("{error} {error:?}")))
    });
    (cache, errors)
}

async fn works(cache: &Cache) {
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    assert_eq!(cached(&view, "k").await, 1);
    eventually("announcements are received", async || cache.coherence().mode == CoherenceMode::Full).await;
}

#[tokio::test]
async fn user_and_password_may_have_any_characters() {
    let Some((server, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    set_password(&server, "ada:1@", PASSWORD);
    server.command("ACL SETUSER default off");
    let url = format!("redis://ada%3A1%40:{ENCODED}@127.0.0.1:{port}");
    works(&node(url, |options| options).0).await;
    let credentials = RedisCredentials::new("ada:1@", PASSWORD);
    works(&node(format!("redis://127.0.0.1:{port}"), |options| options.redis_user(credentials.clone())).0)
        .await;
    let url = format!("redis://nobody:wrong@127.0.0.1:{port}");
    works(&node(url, |options| options.redis_user(credentials)).0).await;
}

#[tokio::test]
async fn password_without_user_is_that_of_the_default_user() {
    let Some((server, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    server.command(&format!("CONFIG SET requirepass \"{PASSWORD}\""));
    works(&node(format!("redis://:{ENCODED}@127.0.0.1:{port}"), |options| options).0).await;
    let credentials = RedisCredentials::password(PASSWORD);
    works(&node(format!("redis://ada@127.0.0.1:{port}"), |options| options.redis_user(credentials)).0).await;
}

#[tokio::test]
async fn user_and_password_may_be_options_as_text() {
    let Some(server) = RedisServer::start() else { return };
    set_password(&server, "ada:1@", PASSWORD);
    let with = |options: [(&'static str, &'static str); 2]| {
        let set = |builder: Builder, (name, text)| builder.option(name, text).expect("a valid text");
        node(server.url(), |builder| options.into_iter().fold(builder, set)).0
    };
    works(&with([("redis_user", "ada:1@"), ("redis_password", PASSWORD)])).await;
    works(&with([("redis_password", PASSWORD), ("redis_user", "ada:1@")])).await;
}

#[tokio::test]
async fn password_file_is_read_for_each_connection() {
    let Some(server) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    let (cache, errors) = node(server.url(), |options| {
        let file = file.to_str().expect("the path is text");
        let options = options.option("redis_password_file", file).expect("a valid text");
        options.option("redis_user", "ada").expect("a valid text")
    });
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "the cache works without it");
    let missing = format!("redis_password_file failed: cannot read {}: No such file", file.display());
    assert!(errors.lock().expect("no panic").iter().any(|error| error.contains(&missing)), "{errors:?}");
    for (round, line_break) in (0..).zip(["", "\n", "\r\n"]) {
        let password = format!("pass word-{round}");
        set_password(&server, "ada", &password);
        std::fs::write(&file, password + line_break).expect("a file");
        if round > 0 {
            close_connections(&server);
        }
        eventually("it works again", async || {
            view.write("k", round).await.is_ok_and(|reach| reach == larder::Reach::Everywhere)
                && server.command("CLIENT LIST TYPE pubsub").contains("user=ada")
        })
        .await;
    }
}

#[tokio::test]
async fn wrong_password_is_an_error_that_does_not_show_it() {
    let Some(server) = RedisServer::start() else { return };
    set_password(&server, "ada", "right");
    let wrong = RedisCredentials::new("ada", "hunter2");
    let (cache, errors) = node(server.url(), |options| options.redis_user(wrong.clone()));
    cache.connect().await;
    let problem = cache.coherence().problem;
    assert!(
        matches!(&problem, Some(CoherenceProblem::Refused(reason)) if reason.contains("WRONGPASS")),
        "{problem:?}"
    );
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "the cache works without it");
    let reach = view.delete("k").await;
    assert_eq!(cache.coherence().mode, CoherenceMode::Unknown);
    let errors = errors.lock().expect("no panic");
    assert!(errors.iter().all(|error| error.contains("WRONGPASS")), "{errors:?}");
    let shown = format!(
        "{problem:?} {errors:?} {reach:?} {wrong:?} {cache:?} {:?}",
        Cache::builder("b").redis_user(wrong.clone())
    );
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("ada"), "the user is shown");
}

#[tokio::test]
async fn closed_connections_come_back_with_the_rotated_password() {
    let Some(server) = RedisServer::start() else { return };
    set_password(&server, "ada", "first");
    let current = Arc::new(Mutex::new("first".to_owned()));
    let asked = current.clone();
    let (cache, _) = node(server.url(), |options| {
        options.redis_credentials(move || {
            let password = asked.lock().expect("no panic").clone();
            async move { Ok::<_, String>(RedisCredentials::new("ada", password)) }
        })
    });
    let view: View<str, u32> = cache.view("n");
    works(&cache).await;
    let elsewhere = over(server.url());
    let writer: View<str, u32> = elsewhere.view("n");
    for round in 0..5 {
        let password = format!("password-{round}");
        set_password(&server, "ada", &password);
        *current.lock().expect("no panic") = password;
        close_connections(&server);
        eventually("it works again", async || {
            view.write("k", round).await.is_ok_and(|reach| reach == larder::Reach::Everywhere)
        })
        .await;
        writer.write("there", round).await.everywhere();
        eventually("announcements are received", async || cached(&view, "there").await == round).await;
    }
}

#[tokio::test]
async fn failure_of_credentials_is_reported_and_asked_again() {
    let Some(server) = RedisServer::start() else { return };
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let (cache, errors) = node(server.url(), |options| {
        options.redis_timeout(Duration::from_millis(200)).redis_credentials(move || {
            let call = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match call {
                    0..3 => Err("the vault is sealed"),
                    3..6 => panic!("a bug of the program"),
                    6..9 => pending().await,
                    _ => Ok(RedisCredentials::new("default", "")),
                }
            }
        })
    });
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "the cache works without it");
    eventually("it connects", async || {
        // Reads reach the server too, so that errors are reported.
        _ = view.read("other").await;
        cache.coherence().mode == CoherenceMode::Full
    })
    .await;
    let errors = errors.lock().expect("no panic");
    let reported = |reason: &str| errors.iter().any(|error| error.contains(reason));
    assert!(reported("redis_credentials failed: the vault is sealed"), "{errors:?}");
}
