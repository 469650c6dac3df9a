//! Users and their rights, compared with a real Redis: rules, what they allow, and each place at which a right is asked for.

use std::collections::BTreeSet;

use larder_resp::Frame;
use larder_server::{Config, commands};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config as ProptestConfig, TestCaseError, TestRunner};

use crate::differential::{Pair, assert_equal_replies, words};
use crate::support::TestServer;

pub(crate) fn ok() -> Frame {
    Frame::Simple("OK".into())
}

pub(crate) fn error(text: &str) -> Frame {
    Frame::Error(text.into())
}

fn texts(frame: Frame) -> BTreeSet<String> {
    let Frame::Array(parts) = frame else { panic!("{frame:?}") };
    let text = |part: &Frame| String::from_utf8_lossy(part.as_bytes().expect("a text")).into_owned();
    parts.iter().map(text).collect()
}

/// Rules and requests of administrators, in this order.
const SEQUENCE: &[&str] = &[
    "ACL WHOAMI",
    "ACL LIST",
    "ACL USERS",
    "ACL GETUSER default",
    "ACL GETUSER nobody",
    "ACL SETUSER ada",
    "ACL LIST",
    "ACL GETUSER ada",
    "ACL SETUSER ada on >pw +get ~a* %R~b* %W~c* &ch*",
    "ACL LIST",
    "ACL GETUSER ada",
    "ACL SETUSER ada %R~c* ~a*",
    "ACL LIST",
    "ACL SETUSER ada (+set ~x*) (%W~y +del)",
    "ACL SETUSER ada (+set ~z* &q )",
    "ACL LIST",
    "ACL GETUSER ada",
    "ACL SETUSER ada +foo",
    "ACL SETUSER ada -foo",
    "ACL SETUSER ada +@foo",
    "ACL SETUSER ada +get|x",
    "ACL SETUSER ada -get|x",
    "ACL DRYRUN ada get|x",
    "ACL SETUSER ada +get",
    "ACL SETUSER ada +config|foo",
    "ACL SETUSER ada +config|get|x",
    "ACL SETUSER ada +get|",
    "ACL SETUSER ada +",
    "ACL SETUSER ada +|",
    "ACL SETUSER ada foo",
    "ACL SETUSER ada %~x",
    "ACL SETUSER ada %RX~x",
    "ACL SETUSER ada #abc",
    "ACL SETUSER ada !abc",
    "ACL SETUSER ada !2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    "ACL SETUSER ada #2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    "ACL SETUSER ada !2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    "ACL SETUSER ada (+get",
    "ACL SETUSER ada (foo)",
    "ACL SETUSER ada )",
    "ACL SETUSER ada ''",
    "ACL SETUSER ada clearselectors allkeys",
    "ACL SETUSER ada ~x",
    "ACL SETUSER ada +set bad",
    "ACL DRYRUN ada set k v",
    "ACL SETUSER ada allchannels",
    "ACL SETUSER ada &x",
    "ACL LIST",
    "ACL SETUSER ada resetkeys resetchannels nocommands nopass",
    "ACL GETUSER ada",
    "ACL SETUSER ada skip-sanitize-payload",
    "ACL LIST",
    "ACL SETUSER ada reset",
    "ACL LIST",
    "ACL SETUSER ada ALLCOMMANDS -get",
    "ACL LIST",
    "ACL DRYRUN ada get x",
    "ACL DRYRUN ada GET",
    "ACL DRYRUN ada set x y",
    "ACL DRYRUN ada foo",
    "ACL DRYRUN nobody get x",
    "ACL DRYRUN ada config get x",
    "ACL DRYRUN ada config foo",
    "ACL DRYRUN ada config",
    "ACL SETUSER ada -config|get +publish ~k &ab",
    "ACL DRYRUN ada config get x",
    "ACL DRYRUN ada config set x y",
    "ACL DRYRUN ada publish ab x",
    "ACL DRYRUN ada publish b x",
    "ACL DRYRUN ada subscribe ab b",
    "ACL DRYRUN ada psubscribe ab",
    "ACL DRYRUN ada psubscribe ab*",
    "ACL DRYRUN ada ssubscribe b",
    "ACL DRYRUN ada unsubscribe b",
    "ACL DRYRUN ada mset k 1 l 2",
    "ACL DRYRUN ada object encoding l",
    "ACL DRYRUN ada zunionstore k 1 l",
    "AUTH ada wrong",
    "HELLO 2 AUTH nobody wrong",
    "ACL SETUSER",
    "ACL",
    "ACL FOO",
    "ACL GETUSER",
    "ACL DELUSER",
    "ACL DELUSER default",
    "ACL DELUSER nobody",
    "ACL CAT",
    "ACL CAT foo",
    "ACL CAT read x",
    "ACL WHOAMI x",
    "ACL GENPASS 0",
    "ACL GENPASS 4097",
    "ACL GENPASS x",
    "ACL GENPASS 1 2",
    "ACL LOG x",
    "ACL LOG -1",
    "ACL LOG 0",
    "ACL LOG 1 2",
    "ACL LOG RESET",
    "ACL LOG",
    "CONFIG GET acllog-max-len",
    "CONFIG GET aclfile",
    "CLIENT KILL USER nobody",
    "CLIENT KILL USER ada",
    "ACL DELUSER ada nobody",
    "ACL USERS",
    "RESET",
];

#[test]
fn rules_and_replies_equal_those_of_redis() {
    assert_equal_replies(SEQUENCE);
}

#[test]
fn categories_equal_those_of_redis() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    let (ours, theirs) =
        (texts(pair.larder.call(&["COMMAND", "LIST"])), texts(pair.redis.call(&["COMMAND", "LIST"])));
    let both: BTreeSet<String> = ours.intersection(&theirs).cloned().collect();
    let mut differences = Vec::new();
    for category in texts(pair.redis.call(&["ACL", "CAT"])) {
        let request = ["ACL", "CAT", &category];
        let [larder, redis] =
            [pair.larder.call(&request), pair.redis.call(&request)].map(|reply| &texts(reply) & &both);
        differences.extend(larder.symmetric_difference(&redis).map(|name| format!("{name} @{category}")));
    }
    differences.sort();
    // The one describes commands of its group, the other has nothing to write.
    assert_eq!(differences, ["function|flush @write", "pubsub|help @pubsub"]);
    assert!(both.len() > 150, "{}", both.len());
}

/// A rule, which may not be valid.
fn rule() -> impl Strategy<Value = String> {
    const COMMANDS: &[&str] = &[
        "get",
        "set",
        "mget",
        "del",
        "exists",
        "hset",
        "hget",
        "lpush",
        "blpop",
        "zadd",
        "zunionstore",
        "config",
        "config|get",
        "client",
        "client|id",
        "client|list",
        "object",
        "object|encoding",
        "publish",
        "subscribe",
        "psubscribe",
        "eval",
        "multi",
        "select",
        "ping",
        "acl|whoami",
        "copy",
        "rename",
        "getex",
        "setrange",
        "smove",
        "incr",
        "nothing",
        "strlen",
    ];
    const CATEGORIES: &[&str] = &[
        "all",
        "read",
        "write",
        "keyspace",
        "string",
        "hash",
        "list",
        "sortedset",
        "set",
        "fast",
        "slow",
        "dangerous",
        "admin",
        "connection",
        "pubsub",
        "blocking",
        "transaction",
        "scripting",
        "nothing",
    ];
    let pattern = prop_oneof![Just("a*"), Just("b"), Just("*"), Just("?b"), Just("[a-c]c"), Just("")];
    let sign = || prop_oneof![Just("+"), Just("-")];
    let simple = prop_oneof![
        4 => (sign(), prop::sample::select(COMMANDS)).prop_map(|(sign, name)| format!("{sign}{name}")),
        3 => (sign(), prop::sample::select(CATEGORIES)).prop_map(|(sign, name)| format!("{sign}@{name}")),
        3 => (prop_oneof![Just("~"), Just("%R~"), Just("%W~"), Just("%RW~"), Just("&")], pattern)
            .prop_map(|(kind, pattern)| format!("{kind}{pattern}")),
        2 => prop_oneof![
            Just("+select|1"), Just("+select|2"), Just("allkeys"), Just("resetkeys"), Just("allchannels"),
            Just("resetchannels"), Just("reset"), Just("clearselectors"), Just("nocommands"), Just("allcommands"),
        ].prop_map(str::to_owned),
    ];
    prop_oneof![
        6 => simple.clone(),
        1 => vec(simple, 0..4).prop_map(|rules| format!("({})", rules.join(" "))),
    ]
}

/// A request, for which a right may be missing.
fn request() -> impl Strategy<Value = Vec<String>> {
    const FORMS: &[&str] = &[
        "get K",
        "set K v",
        "set K v get",
        "mget K K",
        "del K K",
        "exists K",
        "strlen K",
        "hset K f v",
        "hget K f",
        "lpush K x",
        "blpop K K 0.01",
        "lmpop 1 K left",
        "zadd K 1 m",
        "zunionstore K 2 K K",
        "config get port",
        "config",
        "client id",
        "client list id 0",
        "client foo",
        "object encoding K",
        "memory usage K",
        "publish K m",
        "spublish K m",
        "ping",
        "select 1",
        "select 0",
        "acl whoami",
        "copy K K",
        "rename K K",
        "getex K",
        "getdel K",
        "incr K",
        "setrange K 0 x",
        "smove K K m",
        "eval return_1 1 K",
        "eval return_1 0",
        "touch K",
        "expire K 100",
        "type K",
        "pfcount K",
        "pfmerge K K",
        "sinterstore K K",
        "sort K",
        "sort K store K",
        "sort K store K desc store K",
        "sort K by store limit 0 1 store K",
        "sort K by store K",
        "unsubscribe K",
        "dbsize",
        "randomkey",
        "time",
        "wait 0 0",
        "mset K v K v",
        "bitop and K K",
        "zinter 1 K",
        "hmget K f g",
        "lmove K K left left",
        "persist K",
        "get",
        "nothing",
        "object help",
        "command count",
        "info server",
    ];
    let key = prop_oneof![Just("a"), Just("ab"), Just("b"), Just("bb"), Just("cc"), Just("x")];
    (prop::sample::select(FORMS), vec(key, 4)).prop_map(|(form, keys)| {
        let mut keys = keys.into_iter();
        let word = |word: &str| match word {
            "K" => keys.next().expect("enough keys").to_owned(),
            word => word.replace('_', " "),
        };
        form.split(' ').map(word).collect()
    })
}

/// What both say of a request without the names of commands that only one of them has.
fn is_missing_here(request: &[String]) -> bool {
    !commands().iter().any(|spec| spec.name == request[0])
}

#[test]
fn random_rules_allow_what_redis_allows() {
    let Some((_pair, servers)) = Pair::start() else { return };
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let cases = (vec(rule(), 0..12), vec(request(), 12));
    let result = runner.run(&cases, |(rules, requests)| {
        let mut admin = Pair::connect(&servers.0, &servers.1);
        let fail = |text| TestCaseError::fail(format!("{rules:?}\n{text}"));
        let setuser = |rules: &[String]| [&words("ACL SETUSER ada"), rules].concat();
        admin.compare(&setuser(&words("reset on nopass"))).map_err(fail)?;
        for rule in &rules {
            admin.compare(&setuser(std::slice::from_ref(rule))).map_err(fail)?;
        }
        let mut user = Pair::connect(&servers.0, &servers.1);
        user.compare(&words("AUTH ada x")).map_err(fail)?;
        let mut transaction = Pair::connect(&servers.0, &servers.1);
        transaction.compare(&words("AUTH ada x")).map_err(fail)?;
        let allows_multi = transaction.larder.call(&["MULTI"]) == ok();
        transaction.redis.call(&["MULTI"]);
        for request in requests.iter().filter(|request| !is_missing_here(request)) {
            admin.compare(&[&words("ACL DRYRUN ada"), &request[..]].concat()).map_err(fail)?;
            // The replies themselves are the matter of other tests.
            let is_denied = |reply: &Frame| matches!(reply, Frame::Error(text) if text.starts_with("NOPERM"));
            let [larder, redis] = [user.larder.call(request), user.redis.call(request)];
            if (is_denied(&larder) || is_denied(&redis)) && larder != redis {
                return Err(fail(format!("{request:?}: {larder:?} {redis:?}")));
            }
            if allows_multi && request[0] != "blpop" {
                let [larder, redis] = [transaction.larder.call(request), transaction.redis.call(request)];
                if (is_denied(&larder) || is_denied(&redis)) && larder != redis {
                    return Err(fail(format!("queued {request:?}: {larder:?} {redis:?}")));
                }
            }
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// `SORT` finds keys by names that are not arguments.
#[test]
fn sort_by_other_keys_needs_the_right_to_read_all() {
    let Some((mut admin, servers)) = Pair::start() else { return };
    let mut user = Pair::connect(&servers.0, &servers.1);
    admin.compare(&words("ACL SETUSER ada on nopass +@all ~list ~w_*")).unwrap();
    admin.compare(&words("RPUSH list 2 1")).unwrap();
    user.compare(&words("AUTH ada x")).unwrap();
    let requests =
        ["SORT list", "SORT list BY w_*", "SORT_RO list BY x", "SORT list GET #", "SORT list GET w_*"];
    for request in requests {
        user.compare(&words(request)).unwrap();
    }
    admin.compare(&words("ACL SETUSER ada %R~*")).unwrap();
    for request in requests {
        user.compare(&words(request)).unwrap();
    }
    // A selector that reads all keys is enough.
    admin.compare(&words("ACL SETUSER ada resetkeys ~list (+sort %R~*)")).unwrap();
    for request in requests {
        user.compare(&words(request)).unwrap();
    }
}

/// The key in which `SORT` stores stands behind an option.
#[test]
fn sort_that_stores_needs_the_right_to_write_there() {
    let Some((mut admin, servers)) = Pair::start() else { return };
    let mut user = Pair::connect(&servers.0, &servers.1);
    for line in ["ACL SETUSER ada on nopass +@all %R~list ~own", "RPUSH list 2 1", "SET other x"] {
        admin.compare(&words(line)).unwrap();
    }
    user.compare(&words("AUTH ada x")).unwrap();
    for line in [
        "SORT list STORE own",
        "SORT list STORE other",
        "SORT list STORE own STORE other",
        "SORT list BY store LIMIT 0 1 STORE other",
        "SORT list STORE list",
        "MULTI",
        "SORT list STORE other",
        "EXEC",
    ] {
        user.compare(&words(line)).unwrap();
    }
    let script = ["EVAL", "return redis.call('sort', 'list', 'store', 'other')", "0"];
    assert!(matches!(user.larder.call(&script), Frame::Error(text) if text.contains("can't access")));
    admin.compare(&words("GET other")).unwrap();
}

#[test]
fn denied_requests_are_logged_and_counted_as_in_redis() {
    let Some((mut admin, servers)) = Pair::start() else { return };
    let mut user = Pair::connect(&servers.0, &servers.1);
    let lines = ["ACL SETUSER ada on nopass +@all -set -acl -config|set ~y &a* +eval", "ACL LOG RESET"];
    lines.iter().for_each(|line| admin.compare(&words(line)).unwrap());
    for line in [
        "AUTH ada x",
        "GET y",
        "GET x",
        "GET x",
        "SET y 1",
        "SET",
        "ACL WHOAMI",
        "CONFIG SET port 1",
        "SUBSCRIBE b",
        "MULTI",
        "GET x",
        "SET y 2",
        "EXEC",
        "AUTH foo bar",
        "HELLO 3 AUTH foo bar",
    ] {
        user.compare(&words(line)).unwrap();
    }
    for script in [
        "return redis.call('get','x')",
        "return redis.pcall('set','y','x')",
        "return redis.call('publish','b','x')",
        "return {redis.acl_check_cmd('set','y','x'), redis.acl_check_cmd('get','y'), redis.acl_check_cmd('get','x')}",
        "return redis.acl_check_cmd('foo')",
        "return redis.acl_check_cmd()",
    ] {
        user.compare(&["EVAL", script, "0"].map(str::to_owned)).unwrap();
    }
    let entries = |reply: Frame| -> Vec<String> {
        let Frame::Array(entries) = reply else { panic!("{reply:?}") };
        let shown = |entry: &Frame| match entry {
            // Without age and client.
            Frame::Array(fields) => format!("{:?}", &fields[..10]),
            other => panic!("{other:?}"),
        };
        entries.iter().map(shown).collect()
    };
    let log = ["ACL", "LOG", "50"];
    assert_eq!(entries(admin.larder.call(&log)), entries(admin.redis.call(&log)));
    assert_eq!(entries(admin.larder.call(&["ACL", "LOG", "3"])).len(), 3);
    let info = admin.larder.call(&["INFO", "stats"]);
    let info = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
    for line in ["auth:2", "cmd:5", "key:4", "channel:2"] {
        assert!(info.contains(&format!("acl_access_denied_{line}\r\n")), "{line}: {info}");
    }
    assert_eq!(admin.larder.call(&["CONFIG", "SET", "acllog-max-len", "2"]), ok());
    user.larder.call(&["GET", "x"]);
    assert_eq!(entries(admin.larder.call(&log)).len(), 2);
}

#[test]
fn rights_are_checked_again_at_exec() {
    let Some((mut admin, servers)) = Pair::start() else { return };
    let mut user = Pair::connect(&servers.0, &servers.1);
    admin.compare(&words("ACL SETUSER ada on nopass +@all ~* &*")).unwrap();
    for line in ["AUTH ada x", "MULTI", "GET x", "SET x 1", "PUBLISH c m", "SET y 1"] {
        user.compare(&words(line)).unwrap();
    }
    admin.compare(&words("ACL SETUSER ada -get resetkeys ~y resetchannels")).unwrap();
    user.compare(&words("EXEC")).unwrap();
    admin.compare(&words("MGET x y")).unwrap();
    for line in ["MULTI", "SET y 2"] {
        user.compare(&words(line)).unwrap();
    }
    admin.compare(&words("ACL SETUSER ada -exec")).unwrap();
    user.compare(&words("EXEC")).unwrap();
    admin.compare(&words("GET y")).unwrap();
}

/// A pipeline that changes the rights of its own user.
#[test]
fn changed_rights_hold_for_the_next_command_of_a_pipeline() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    let lines = ["SET k v", "ACL SETUSER default -get", "GET k", "ACL SETUSER default +get", "GET k"];
    pair.compare_pipeline(&lines).unwrap();
    let lines =
        ["MULTI", "ACL SETUSER default -get", "GET k", "EXEC", "GET k", "ACL SETUSER default +@all", "GET k"];
    pair.compare_pipeline(&lines).unwrap();
}

/// On several threads: whoever has the reply to SETUSER knows that later requests of others are checked.
#[test]
fn changed_rights_hold_for_requests_after_the_reply() {
    let server = TestServer::with(Config { threads: Some(2), ..Config::default() });
    let mut admin = server.connect();
    admin.call(&words("ACL SETUSER ada on nopass +@all ~*"));
    let mut users: Vec<_> = (0..8).map(|_| server.connect()).collect();
    users.iter_mut().for_each(|user| assert_eq!(user.call(&words("AUTH ada x")), ok()));
    for round in 0..20 {
        let (rule, expected) = match round % 2 {
            0 => ("-get", error("NOPERM this user has no permissions to run the 'get' command")),
            _ => ("+get", Frame::Null),
        };
        assert_eq!(admin.call(&["ACL", "SETUSER", "ada", rule]), ok());
        for user in &mut users {
            assert_eq!(user.call(&["GET", "k"]), expected);
        }
    }
}

#[test]
fn connection_that_waits_gets_nothing_that_its_user_may_not_take_any_more() {
    let server = TestServer::start();
    let mut admin = server.connect();
    for (request, rule, text) in [
        ("BLPOP l 0", "-blpop", "run the 'blpop' command"),
        ("BRPOPLPUSH l m 0", "resetkeys ~l", "access one of the keys used as arguments"),
        ("BZPOPMIN l 0", "resetkeys %R~l", "access one of the keys used as arguments"),
    ] {
        admin.call(&words("ACL SETUSER ada on nopass +@all ~*"));
        let mut user = server.connect();
        user.call(&words("AUTH ada x"));
        user.send(format!("{request}\r\n").as_bytes());
        wait_for_blocked(&mut admin);
        assert_eq!(admin.call(&words(&format!("ACL SETUSER ada {rule}"))), ok());
        let push = if request.starts_with("BZ") { "ZADD l 1 m" } else { "RPUSH l x" };
        assert_eq!(admin.call(&words(push)), Frame::Integer(1));
        assert_eq!(user.receive(), error(&format!("NOPERM this user has no permissions to {text}")));
        assert_eq!(admin.call(&["EXISTS", "l", "m"]), Frame::Integer(1), "nothing was taken");
        admin.call(&["FLUSHALL"]);
    }
    // One that may take it gets it all the same, and the next one in the queue after one that may not.
    admin.call(&words("ACL SETUSER ada reset on nopass +@all ~*"));
    let (mut first, mut second) = (server.connect(), server.connect());
    first.call(&words("AUTH ada x"));
    first.send(b"BLPOP l 0\r\n");
    wait_for_blocked(&mut admin);
    second.send(b"BLPOP l 0\r\n");
    while !info(&mut admin, "clients").contains("blocked_clients:2\r\n") {}
    admin.call(&words("ACL SETUSER ada -blpop"));
    admin.call(&words("RPUSH l x"));
    assert!(matches!(first.receive(), Frame::Error(text) if text.starts_with("NOPERM")));
    assert!(matches!(second.receive(), Frame::Array(_)));
}

fn info(client: &mut crate::support::Client<std::net::TcpStream>, section: &str) -> String {
    String::from_utf8_lossy(client.call(&["INFO", section]).as_bytes().unwrap()).into_owned()
}

fn wait_for_blocked(client: &mut crate::support::Client<std::net::TcpStream>) {
    while !info(client, "clients").contains("blocked_clients:1\r\n") {}
}

#[test]
fn connections_of_removed_users_and_of_lost_channels_are_closed() {
    let server = TestServer::with(Config { threads: Some(2), ..Config::default() });
    let mut admin = server.connect();
    admin.call(&words("ACL SETUSER ada on nopass +@all ~* &a* &b*"));
    let mut connected: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for user in &mut connected {
        assert_eq!(user.call(&words("AUTH ada x")), ok());
    }
    assert_eq!(admin.call(&words("CLIENT KILL USER default SKIPME yes")), Frame::Integer(0));
    let mut subscribers = connected.split_off(1);
    let mut idle = connected.remove(0);
    for (user, line) in subscribers.iter_mut().zip(["SUBSCRIBE a1", "PSUBSCRIBE a*", "SSUBSCRIBE b1"]) {
        assert!(!matches!(user.call(&words(line)), Frame::Error(_)));
    }
    // A wider set of channels closes nobody.
    assert_eq!(admin.call(&words("ACL SETUSER ada &c*")), ok());
    assert_eq!(admin.call(&words("PUBLISH a1 m")), Frame::Integer(2));
    assert_eq!(admin.call(&words("ACL SETUSER ada resetchannels &b*")), ok());
    subscribers[..2].iter_mut().for_each(|user| _ = user.read_to_end());
    assert_eq!(admin.call(&words("SPUBLISH b1 m")), Frame::Integer(1));
    assert_eq!(idle.call(&["PING"]), Frame::Simple("PONG".into()));
    assert_eq!(admin.call(&words("ACL DELUSER ada")), Frame::Integer(1));
    assert!(idle.read_to_end().is_empty());
    subscribers[2].read_to_end();
    // Its own connection closes after the reply.
    admin.call(&words("ACL SETUSER bob on nopass +@all"));
    admin.call(&words("AUTH bob x"));
    admin.send(b"ACL DELUSER bob\r\nPING\r\n");
    assert_eq!(admin.read_to_end(), b":1\r\n");
}

#[test]
fn client_list_kill_and_reset_know_the_user() {
    let server = TestServer::start();
    let (mut admin, mut user) = (server.connect(), server.connect());
    admin.call(&words("ACL SETUSER ada on >pw +@all ~*"));
    assert_eq!(user.call(&words("AUTH ada pw")), ok());
    assert_eq!(user.call(&words("ACL WHOAMI")).as_bytes(), Some(&b"ada"[..]));
    let line = user.call(&words("CLIENT INFO"));
    assert!(String::from_utf8_lossy(line.as_bytes().unwrap()).contains(" user=ada "), "{line:?}");
    assert_eq!(user.call(&["RESET"]), Frame::Simple("RESET".into()));
    assert_eq!(user.call(&words("ACL WHOAMI")).as_bytes(), Some(&b"default"[..]));
    assert!(matches!(user.call(&words("HELLO 3 AUTH ada pw")), Frame::Map(_)));
    assert_eq!(admin.call(&words("CLIENT KILL USER ada")), Frame::Integer(1));
    user.read_to_end();
    // One that is off cannot log in, and the default user may be off.
    assert_eq!(admin.call(&words("ACL SETUSER ada off")), ok());
    let wrong = error("WRONGPASS invalid username-password pair or user is disabled.");
    assert_eq!(admin.call(&words("AUTH ada pw")), wrong);
    assert_eq!(admin.call(&words("ACL SETUSER ada on")), ok());
    assert_eq!(admin.call(&words("ACL SETUSER default off")), ok());
    let mut later = server.connect();
    assert_eq!(later.call(&["PING"]), error("NOAUTH Authentication required."));
    assert_eq!(later.call(&words("AUTH ada pw")), ok());
    assert_eq!(later.call(&["PING"]), Frame::Simple("PONG".into()));
}

#[test]
fn generated_passwords_differ_and_have_the_length_that_is_asked_for() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (bits, digits) in [("1", 1), ("5", 2), ("4096", 1024)] {
        assert_eq!(client.call(&["ACL", "GENPASS", bits]).as_bytes().unwrap().len(), digits);
    }
    let [one, other] = [(); 2].map(|()| client.call(&["ACL", "GENPASS"]));
    assert!(one != other && one.as_bytes().unwrap().len() == 64);
}

#[test]
fn no_reply_and_no_log_entry_has_a_password() {
    let server = TestServer::start();
    let mut client = server.connect();
    for line in [
        "ACL SETUSER ada on >hunter2 nothing",
        "ACL SETUSER ada <hunter2",
        "ACL SETUSER ada >hunter2",
        "AUTH ada hunter2x",
        "AUTH hunter2",
        "HELLO 3 AUTH ada hunter2x",
        "ACL LIST",
        "ACL GETUSER ada",
        "ACL LOG",
        "CLIENT LIST",
    ] {
        let reply = format!("{:?}", client.call(&words(line)));
        assert!(!reply.contains("hunter2"), "{line}: {reply}");
    }
}
