//! The file of users: what is written can be read, a fault in it changes nothing, and no file opens the server to a network.

use std::os::unix::fs::PermissionsExt;

use larder_resp::Frame;
use larder_server::{Config, Password, Server, ServerError};

use crate::differential::words;
use crate::support::TestServer;
use crate::users::{error, ok};

/// Behind `~*` further patterns are refused, wherever it comes from.
#[test]
fn saved_file_is_read_again_if_two_rules_have_made_one_for_all_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    std::fs::write(&path, "").unwrap();
    let server = TestServer::with(Config { aclfile: Some(path.clone()), ..Config::default() });
    let mut admin = server.connect();
    assert_eq!(admin.call(&words("ACL SETUSER ada on nopass %R~* %W~* ~a +set")), ok());
    assert_eq!(admin.call(&words("ACL SAVE")), ok());
    assert_eq!(admin.call(&words("ACL LOAD")), ok());
    let mut ada = server.connect();
    assert_eq!(ada.call(&words("AUTH ada x")), ok());
    assert_eq!(ada.call(&words("SET b 1")), ok());
}

#[test]
fn file_of_users_is_read_and_written_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    std::fs::write(&path, "user ada on >pw ~a +get\n\nuser bob on nopass +@all ~* &*\n").unwrap();
    let config = Config { aclfile: Some(path.clone()), ..Config::default() };
    let server = TestServer::with(config.clone());
    let mut admin = server.connect();
    assert_eq!(admin.call(&words("AUTH ada pw")), ok());
    assert_eq!(admin.call(&words("AUTH bob x")), ok());
    let (mut ada, mut bob) = (server.connect(), server.connect());
    assert_eq!(ada.call(&words("AUTH ada pw")), ok());
    assert_eq!(bob.call(&words("AUTH bob x")), ok());
    // A name, a password and patterns with characters that have a meaning in the file.
    assert_eq!(admin.call(&["ACL", "SETUSER", "a\"b'\\\u{e9}", "on", ">p", "~q\"x", "(+set ~\"s)"]), ok());
    let list = admin.call(&words("ACL LIST"));
    assert_eq!(admin.call(&words("ACL SAVE")), ok());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(admin.call(&words("ACL LOAD")), ok());
    assert_eq!(admin.call(&words("ACL LIST")), list);
    // One line that is not valid: all faults are named with their lines, and nothing changes.
    std::fs::write(
        &path,
        "user ada off\nuser ada on\nfoo\nuser x +foo\nuser y \"a\nuser z (+get\nuser w <secret\n",
    )
    .unwrap();
    let Frame::Error(text) = admin.call(&words("ACL LOAD")) else { panic!("it is read") };
    for part in [
        "users.acl:2: duplicate user 'ada'",
        "users.acl:3: should start with user keyword",
        "users.acl:4: error in applying operation '+foo': Unknown command",
        "users.acl:5: unbalanced quotes",
        "users.acl:6: unmatched parenthesis",
        "users.acl:7: error in applying operation '<…'",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("secret"));
    assert_eq!(admin.call(&words("ACL LIST")), list);
    let error =
        Server::bind(Config { listen: Some("127.0.0.1:0".parse().unwrap()), ..config.clone() }).map(drop);
    assert!(matches!(&error, Err(ServerError::Users(text)) if text.contains(":4:")), "{error:?}");
    // Users that are gone lose their connections, and the others get their new rights.
    std::fs::write(&path, "user bob on nopass +@all -get ~* &*\n").unwrap();
    assert_eq!(admin.call(&words("ACL LOAD")), ok());
    assert!(ada.read_to_end().is_empty());
    assert!(matches!(bob.call(&words("GET a")), Frame::Error(text) if text.starts_with("NOPERM")));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(admin.call(&words("ACL LOAD")), Frame::Error(text) if text.contains("cannot read")));
    assert!(TestServer::start().connect().call(&words("ACL LOAD")) != ok());
}

/// Others on the network must not be users without a password, whichever way that is set.
#[test]
fn server_beyond_loopback_has_no_default_user_without_password() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    let listen = Some("0.0.0.0:0".parse().unwrap());
    let with = |line: &str| {
        std::fs::write(&path, line).unwrap();
        Server::bind(Config { listen, aclfile: Some(path.clone()), ..Config::default() }).map(drop)
    };
    assert!(matches!(with("user ada on nopass +@all\n"), Err(ServerError::Unprotected(_))));
    assert!(matches!(with("user default on nopass -@all\n"), Err(ServerError::Unprotected(_))));
    assert!(with("user default off\n").is_ok() && with("user default on >pw +@all\n").is_ok());
    let requirepass = Some(Password::new("secret"));
    let server =
        TestServer::exposed(Config { requirepass, aclfile: Some(path.clone()), ..Config::default() });
    let mut client = server.connect();
    assert_eq!(client.call(&words("AUTH pw")), ok());
    let refused = "ERR the user default needs a password, because the server listens beyond loopback";
    assert_eq!(client.call(&words("ACL SETUSER default nopass")), error(refused));
    std::fs::write(&path, "user default on nopass +@all\n").unwrap();
    assert_eq!(client.call(&words("ACL LOAD")), error(refused));
    assert_eq!(client.call(&words("ACL SETUSER default off nopass")), ok());
}
