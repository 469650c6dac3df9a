//! Scripts: the same scripts to a real Redis and to this server, with equal replies, errors and effects.

use larder_testkit::RedisServer;
use proptest::collection::vec;
use proptest::test_runner::{Config as ProptestConfig, TestCaseError, TestRunner};

use crate::differential::{Pair, SEQUENCE, requests, words};
use crate::support::TestServer;
use crate::transactions::is_comparable;
use crate::{blocking, hashes, lists, sets, sorted_sets, sorting, streams};

/// Values and errors of scripts, of `redis` functions and of `SCRIPT`.
const REQUESTS: &[&[&str]] = &[
    &["eval", "error('x')", "0"],
    &["eval", "error({err='My error'})", "0"],
    &["eval", "error()", "0"],
    &["eval", "error(nil)", "0"],
    &["eval", "error(5)", "0"],
    &["eval", "error({err=5})", "0"],
    &["eval", "error(true)", "0"],
    &["eval", "return redis.call('incr','a','b')", "0"],
    &["eval", "return redis.call('nosuch','a','b')", "0"],
    &["eval", "return redis.pcall('nosuch','a','b')", "0"],
    &["eval", "return redis.call()", "0"],
    &["eval", "return redis.call({})", "0"],
    &["eval", "return redis.call('get', {})", "0"],
    &["eval", "return redis.call('get', nil)", "0"],
    &["eval", "return redis.call('get', true)", "0"],
    &["eval", "return redis.pcall()", "0"],
    &["eval", "return redis.call(5)", "0"],
    &["eval", "return redis.call('set', 'n', 3.5)", "0"],
    &["eval", "return redis.call('get','n')", "0"],
    &["eval", "return redis.call('set', 'n', 1e15)", "0"],
    &["eval", "return redis.call('get','n')", "0"],
    &["eval", "return redis.call('set', 'n', 1e17)", "0"],
    &["eval", "return redis.call('get','n')", "0"],
    &["eval", "return redis.call('set', 'n', 1/3)", "0"],
    &["eval", "return redis.call('get','n')", "0"],
    &["eval", "return redis.call('set', 'n', -0)", "0"],
    &["eval", "return redis.call('get','n')", "0"],
    &["eval", "return redis.call('set', 'n', 1/0)", "0"],
    &["eval", "return redis.call('get','n')", "0"],
    &["eval", "return redis.call('set', 'n', 0/0)", "0"],
    &["eval", "return redis.call('get','n')", "0"],
    &["eval", "return redis.call('set', 'n', 2^63)", "0"],
    &["eval", "return redis.call('get','n')", "0"],
    &["eval", "return redis.call('set', 'n', 1e100)", "0"],
    &["eval", "return redis.call('get','n')", "0"],
    &["set", "s", "v"],
    &["eval", "return redis.call('zadd', 's', 1, 2)", "0"],
    &["eval", "return redis.pcall('zadd', 's', 1, 2)", "0"],
    &["eval", "return redis.pcall('zadd', 's', 1, 2).err", "0"],
    &["eval", "local ok,e = pcall(redis.call,'zadd', 's', 1, 2) return e", "0"],
    &["eval", "local ok,e = pcall(redis.call,'zadd', 's', 1, 2) error(e)", "0"],
    &["eval", "local ok,e = pcall(redis.call,'zadd', 's', 1, 2)\n error(e.err)", "0"],
    &["eval", "\n\nreturn redis.call('zadd', 's', 1, 2)", "0"],
    &[
        "eval",
        "local function f() return redis.call('zadd', 's', 1, 2) end\n\n local x = f()\n return x",
        "0",
    ],
    &["eval", "x = 1", "0"],
    &["eval", "return x", "0"],
    &["eval", "redis.x = 1", "0"],
    &["eval", "string.x = 1", "0"],
    &["eval", "rawset(_G, 'x', 1)", "0"],
    &["eval", "setmetatable(_G, {})", "0"],
    &["eval", "return type(getmetatable(''))", "0"],
    &["eval", "table.insert(string, 1)", "0"],
    &["eval", "KEYS = 3", "0"],
    &["eval", "KEYS[1] = 3 return KEYS", "1", "a"],
    &["eval", "KEYS[2] = 'x' return KEYS", "1", "a"],
    &["eval", "_G.x = 1", "0"],
    &["eval", "_G['x']=1", "0"],
    &["eval", "return redis.call('eval','return 1',0)", "0"],
    &["eval", "return redis.call('subscribe','x')", "0"],
    &["eval", "return redis.pcall('subscribe','x')", "0"],
    &["eval_ro", "return redis.call('set','x',1)", "1", "x"],
    &["eval_ro", "return redis.pcall('set','x',1)", "1", "x"],
    &["eval", "return foo(", "0"],
    &["eval", "return 'a", "0"],
    &["eval", "return 1", "a"],
    &["eval", "return 1", "2", "a"],
    &["eval", "return 1", "-1"],
    &["evalsha", "abc", "0"],
    &["evalsha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["eval", "return 1"],
    &["script"],
    &["script", "foo"],
    &["script", "load"],
    &["script", "exists"],
    &["script", "kill"],
    &["script", "flush", "foo"],
    &["script", "flush"],
    &["script", "flush", "sync"],
    &["script", "flush", "async"],
    &["script", "flush", "sync", "x"],
    &["script", "load", "return 1"],
    &["script", "load", "return"],
    &["script", "load", "return foo("],
    &["script", "exists", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "12"],
    &["evalsha", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"],
    &["script", "load"],
    &["eval", "return {1,2.9,-2.9,'a',true,false,nil,4}", "0"],
    &["eval", "return 1e300", "0"],
    &["eval", "return -1e300", "0"],
    &["eval", "return 0/0", "0"],
    &["eval", "return {ok='fine'}", "0"],
    &["eval", "return {err='Bad'}", "0"],
    &["eval", "return {err='ERR bad\\r\\nx'}", "0"],
    &["eval", "return {ok='a\\r\\nb'}", "0"],
    &["eval", "return {ok=5}", "0"],
    &["eval", "return {err=5}", "0"],
    &["eval", "return {ok={}}", "0"],
    &["eval", "return redis.error_reply('bad')", "0"],
    &["eval", "return redis.error_reply('-BAD x')", "0"],
    &["eval", "return redis.error_reply('BAD x')", "0"],
    &["eval", "return redis.error_reply()", "0"],
    &["eval", "return redis.error_reply(1,2)", "0"],
    &["eval", "return redis.error_reply(1)", "0"],
    &["eval", "return redis.error_reply('')", "0"],
    &["eval", "return redis.status_reply('bad')", "0"],
    &["eval", "return redis.status_reply()", "0"],
    &["eval", "return redis.error_reply('a\\nb')", "0"],
    &["eval", "return redis.error_reply('ERR a')", "0"],
    &["eval", "return redis.sha1hex('bad')", "0"],
    &["eval", "return redis.sha1hex()", "0"],
    &["eval", "return redis.sha1hex(5)", "0"],
    &["eval", "return redis.sha1hex({})", "0"],
    &["eval", "return redis.log(1)", "0"],
    &["eval", "return redis.log(9,'a')", "0"],
    &["eval", "return redis.log('x','a')", "0"],
    &["eval", "return redis.log(redis.LOG_DEBUG,'a')", "0"],
    &["eval", "return redis.log()", "0"],
    &["eval", "return redis.setresp(4)", "0"],
    &["eval", "return redis.setresp()", "0"],
    &["eval", "return redis.setresp('3')", "0"],
    &["eval", "return redis.setresp(2)", "0"],
    &["eval", "return redis.replicate_commands()", "0"],
    &["eval", "return redis.set_repl(redis.REPL_ALL)", "0"],
    &["eval", "return redis.set_repl(55)", "0"],
    &["eval", "return redis.set_repl()", "0"],
    &["eval", "return redis.breakpoint()", "0"],
    &["eval", "return redis.debug('x')", "0"],
    &["eval", "return redis.acl_check_cmd('get','x')", "0"],
    &["eval", "return redis.acl_check_cmd('nosuch','x')", "0"],
    &["eval", "return redis.acl_check_cmd()", "0"],
    &["eval", "return redis.acl_check_cmd({})", "0"],
    &["eval", "return redis.register_function('x')", "0"],
    &["eval", "return type(loadstring(string.dump(function() end)))", "0"],
    &["eval", "local f,e= loadstring('x =') return tostring(e)", "0"],
    &["eval", "local f,e= loadstring('error(1)','name') return {pcall(f)}", "0"],
    &["eval", "return tostring(print)", "0"],
    &["eval", "return {double=3.5}", "0"],
    &["eval", "return {map={a=1}}", "0"],
    &["eval", "return {set={a=true}}", "0"],
    &["eval", "return {double='x'}", "0"],
    &["eval", "return {verbatim_string={string='x',format='txt'}}", "0"],
    &["eval", "return {big_number='123'}", "0"],
    &["eval", "return function() end", "0"],
    &["eval", "", "0"],
    &["eval", "return", "0"],
    &["eval", "return nil", "0"],
    &["eval", "return coroutine.create(function() end)", "0"],
    &["eval", "local t = {} t[1]={} t[1][1]={} return t", "0"],
    &["eval", "return 1,2", "0"],
    &["eval", "#!lua flags=no-writes\nreturn redis.call('set','a','b')", "0"],
    &["eval", "#!lua flags=no-writes\nreturn redis.call('publish','a','b')", "0"],
    &["eval_ro", "return redis.call('publish','a','b')", "0"],
    &["eval_ro", "return redis.call('pfcount',KEYS[1])", "1", "{nothing}"],
    &["eval", "#!lua flags=foo\nreturn 1", "0"],
    &["eval", "#!lua foo=foo\nreturn 1", "0"],
    &["eval", "#!python\nreturn 1", "0"],
    &["eval", "#!lua\nreturn redis.call('set','zzz','b')", "0"],
    &["eval", "#!lua", "0"],
    &["eval", "#!lua name=x\nreturn 1", "0"],
    &["eval", "#!lua flags=\nreturn 1", "0"],
    &["eval", "#!lua flags=no-writes,allow-oom\nreturn 1", "0"],
    &["eval", "#!lua flags=no-writes flags=allow-oom\nreturn 1", "0"],
    &["eval", "#!lua \nerror('x')", "0"],
    &["eval", "#! lua\nreturn 1", "0"],
    &["eval", "#!lua flags=no-cluster,allow-stale,allow-cross-slot-keys\nreturn 1", "0"],
    &["script", "load", "#!lua flags=foo\nreturn 1"],
    &["eval", "return pcall(function() error('x') end)", "0"],
    &["eval", "local a,b=pcall(function() error('x') end) return b", "0"],
    &["eval", "local a,b=pcall(function() error({err='x'}) end) return b", "0"],
    &["eval", "local a,b=pcall(cjson.decode,'x') return b", "0"],
    &["eval", "cjson.decode('x')", "0"],
    &["eval", "return tostring(cjson.null)", "0"],
    &["eval_ro", "return 1", "0"],
];

fn owned(request: &[&str]) -> Vec<String> {
    request.iter().map(|word| (*word).to_owned()).collect()
}

/// A request that runs a script without keys.
pub(crate) fn eval(script: &str) -> Vec<String> {
    ["EVAL", script, "0"].map(str::to_owned).to_vec()
}

/// Sends all requests to both servers, with both protocol versions.
pub(crate) fn compare_all(requests: impl IntoIterator<Item = Vec<String>> + Clone) {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    for version in ["2", "3"] {
        let mut pair = Pair::connect(&redis, &server);
        for command in ["FLUSHALL".to_owned(), "SCRIPT FLUSH".to_owned(), format!("HELLO {version}")] {
            pair.call(&words(&command));
        }
        let differences: Vec<String> =
            requests.clone().into_iter().filter_map(|request| pair.compare(&request).err()).collect();
        assert!(differences.is_empty(), "RESP{version}:\n{}", differences.join("\n"));
    }
}

#[test]
fn scripts_get_equal_replies_in_both_versions() {
    compare_all(REQUESTS.iter().map(|request| owned(request)));
}

/// Scripts that are well known, with the arguments that their libraries send.
const WELL_KNOWN: &[&[&str]] = &[
    // redlock, redis-py's Lock: acquire by SET, extend and release.
    &["SET", "lock", "owner", "NX", "PX", "30000"],
    &[
        "EVAL",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end",
        "1",
        "lock",
        "owner",
        "60000",
    ],
    &[
        "EVAL",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "1",
        "lock",
        "other",
    ],
    &[
        "EVAL",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "1",
        "lock",
        "owner",
    ],
    &["EXISTS", "lock"],
    &["SET", "lock", "token", "PX", "10000"],
    &[
        "EVAL",
        "local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 end local expiration = redis.call('pttl', KEYS[1]) if not expiration then expiration = 0 end if expiration < 0 then return 0 end local newttl = ARGV[2] if ARGV[3] == \"0\" then newttl = ARGV[2] + expiration end redis.call('pexpire', KEYS[1], newttl) return 1",
        "1",
        "lock",
        "token",
        "1000",
        "0",
    ],
    &[
        "EVAL",
        "local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 end redis.call('pexpire', KEYS[1], ARGV[2]) return 1",
        "1",
        "lock",
        "token",
        "5000",
    ],
    // Laravel and Rails: add if absent, increment with a deadline.
    &[
        "EVAL",
        "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])",
        "1",
        "added",
        "value",
        "60",
    ],
    &[
        "EVAL",
        "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])",
        "1",
        "added",
        "value",
        "60",
    ],
    &[
        "EVAL",
        "local c = redis.call('incr',KEYS[1]) if tonumber(c) == 1 then redis.call('expire',KEYS[1],ARGV[1]) end return c",
        "1",
        "counter",
        "60",
    ],
    &[
        "EVAL",
        "local c = redis.call('incr',KEYS[1]) if tonumber(c) == 1 then redis.call('expire',KEYS[1],ARGV[1]) end return c",
        "1",
        "counter",
        "60",
    ],
    // A sliding window in a sorted set.
    &[
        "EVAL",
        "redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1] - ARGV[2]) local n = redis.call('ZCARD', KEYS[1]) if n < tonumber(ARGV[3]) then redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1]) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return {1, ARGV[3] - n - 1} end return {0, 0}",
        "1",
        "window",
        "1000",
        "500",
        "2",
    ],
    &[
        "EVAL",
        "redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1] - ARGV[2]) local n = redis.call('ZCARD', KEYS[1]) if n < tonumber(ARGV[3]) then redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1]) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return {1, ARGV[3] - n - 1} end return {0, 0}",
        "1",
        "window",
        "1100",
        "500",
        "2",
    ],
    &[
        "EVAL",
        "redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1] - ARGV[2]) local n = redis.call('ZCARD', KEYS[1]) if n < tonumber(ARGV[3]) then redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1]) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return {1, ARGV[3] - n - 1} end return {0, 0}",
        "1",
        "window",
        "1200",
        "500",
        "2",
    ],
    &["ZRANGE", "window", "0", "-1", "WITHSCORES"],
    // GCRA: the theoretical arrival time.
    &[
        "EVAL",
        "local tat = redis.call('GET', KEYS[1]) local now = tonumber(ARGV[1]) local interval = ARGV[2] / ARGV[3] if not tat then tat = now else tat = math.max(tonumber(tat), now) end local new = tat + interval if new - now > tonumber(ARGV[4]) * interval then return {0, tostring(new - now)} end redis.call('SET', KEYS[1], new, 'PX', math.ceil((new - now) * 1000)) return {1, tostring(new)}",
        "1",
        "gcra",
        "100.25",
        "10",
        "3",
        "2",
    ],
    &[
        "EVAL",
        "local tat = redis.call('GET', KEYS[1]) local now = tonumber(ARGV[1]) local interval = ARGV[2] / ARGV[3] if not tat then tat = now else tat = math.max(tonumber(tat), now) end local new = tat + interval if new - now > tonumber(ARGV[4]) * interval then return {0, tostring(new - now)} end redis.call('SET', KEYS[1], new, 'PX', math.ceil((new - now) * 1000)) return {1, tostring(new)}",
        "1",
        "gcra",
        "100.5",
        "10",
        "3",
        "2",
    ],
    &["GET", "gcra"],
    // Sidekiq: the jobs of a schedule that are due.
    &["ZADD", "schedule", "1", "first", "2", "second", "9", "later"],
    &[
        "EVAL",
        "local key, now = KEYS[1], ARGV[1] local jobs = redis.call('zrange', key, '-inf', now, 'byscore', 'limit', 0, 1) if jobs[1] then redis.call('zrem', key, jobs[1]) return jobs[1] end",
        "1",
        "schedule",
        "5",
    ],
    &[
        "EVAL",
        "local key, now = KEYS[1], ARGV[1] local jobs = redis.call('zrange', key, '-inf', now, 'byscore', 'limit', 0, 1) if jobs[1] then redis.call('zrem', key, jobs[1]) return jobs[1] end",
        "1",
        "schedule",
        "0",
    ],
    // Keys by a pattern, and keys that are computed.
    &[
        "EVAL",
        "local n = 0 for _, key in ipairs(redis.call('keys', ARGV[1])) do n = n + redis.call('del', key) end return n",
        "0",
        "w*",
    ],
    &[
        "EVAL",
        "for i = 1, 50 do redis.call('set', 'computed:' .. i, i) end return redis.call('mget', 'computed:1', 'computed:50', 'computed:51')",
        "0",
    ],
    &[
        "EVAL",
        "redis.call('set', KEYS[1], 1) redis.call('set', 'not declared', 2) return redis.call('get', KEYS[1]) + redis.call('get', 'not declared')",
        "1",
        "declared",
    ],
    &["DBSIZE"],
    &["EVAL", "redis.call('select', 1) redis.call('set', 'elsewhere', 1) return redis.call('dbsize')", "0"],
    &["EXISTS", "elsewhere"],
    &["EVAL", "redis.call('flushall') return redis.call('dbsize')", "0"],
    &["EVAL", "redis.setresp(3) return redis.call('zadd', KEYS[1], 1.5, 'a', 2, 'b')", "1", "z"],
    &["EVAL", "redis.setresp(3) return redis.call('zscore', KEYS[1], 'a')", "1", "z"],
    &["EVAL", "redis.setresp(3) return redis.call('zscore', KEYS[1], 'a').double", "1", "z"],
    &["EVAL", "redis.setresp(3) return redis.call('zscore', KEYS[1], 'none') == nil", "1", "z"],
    &["EVAL", "redis.setresp(3) return redis.call('get', 'none') == nil", "0"],
    &["EVAL", "return redis.call('get', 'none') == false", "0"],
    &["EVAL", "redis.setresp(3) return {true, false, {map={a=true}}, {set={x=true}}, {double=1e100}}", "0"],
    &["EVAL", "return {map={a={b=1}}}", "0"],
    &[
        "EVAL",
        "redis.setresp(3) local r = redis.call('zrange', KEYS[1], 0, -1, 'withscores') return {r[1][1], r[2][2].double}",
        "1",
        "z",
    ],
    &["EVAL", "return redis.call('publish', 'channel', 'message')", "0"],
    &["EVAL", "local t = redis.call('time') return #t", "0"],
    &["EVAL", "redis.call('set', KEYS[1], 'x') error('after a write')", "1", "written"],
    &["GET", "written"],
    &["EVAL", "redis.call('incr', KEYS[1])", "1", "written"],
    &["EVAL", "return {pcall(redis.call, 'incr', KEYS[1])}", "1", "written"],
    &["EVAL", "local r = redis.pcall('incr', KEYS[1]) return {r.err, type(r)}", "1", "written"],
    &[
        "EVAL",
        "return xpcall(function() redis.call('incr', KEYS[1]) end, function(e) return type(e) end)",
        "1",
        "written",
    ],
    &[
        "EVAL",
        "local c = coroutine.wrap(function(k) coroutine.yield(redis.call('get', k)) return 2 end) return {c(KEYS[1]), c()}",
        "1",
        "written",
    ],
    &[
        "EVAL",
        "math.randomseed(7) return {math.random(1000), math.random(5, 900), math.floor(math.random() * 1e6)}",
        "0",
    ],
    &["EVAL", "local ok, e = pcall(math.random, 0) return e", "0"],
    &[
        "EVAL",
        "return #KEYS .. #ARGV .. table.concat(KEYS, ',') .. table.concat(ARGV, ',')",
        "2",
        "a",
        "b",
        "c",
        "d",
    ],
    &["MULTI"],
    &["EVAL", "redis.call('set', 'x' .. ARGV[1], 1) return redis.call('get', 'x1')", "0", "1"],
    &["SET", "x1", "2"],
    &["EVAL", "return redis.call('get', KEYS[1])", "1", "x1"],
    &["EVAL", "return redis.call('incr', 'written')", "0"],
    &["SCRIPT", "LOAD", "return ARGV[1]"],
    &["EVALSHA", "098e0f0d1448c0a81dafe820f66d460eb09263da", "0", "hello"],
    &["EXEC"],
];

#[test]
fn well_known_scripts_have_equal_effects() {
    compare_all(WELL_KNOWN.iter().map(|request| owned(request)));
}

/// A script that executes its arguments as one command.
const EXECUTE: &str = "return redis.pcall(unpack(ARGV))";

fn executed(command: &[String]) -> Vec<String> {
    [&eval(EXECUTE), command].concat()
}

/// Each command uses the locks that the script holds.
#[test]
fn each_command_gets_the_same_reply_in_a_script() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let mut pair = Pair::connect(&redis, &server);
    pair.call(&words("FLUSHALL"));
    let lines = SEQUENCE
        .iter()
        .chain(hashes::SEQUENCE)
        .chain(lists::SEQUENCE)
        .chain(sets::ordered())
        .chain(streams::SEQUENCE)
        .chain(sorting::SEQUENCE)
        .chain(blocking::SEQUENCE);
    let commands = lines.chain(sorted_sets::SEQUENCE).map(|line| words(line));
    let commands = commands.filter(|command| is_comparable(command) && is_in_both(command));
    let differences: Vec<String> =
        commands.filter_map(|command| pair.compare(&executed(&command)).err()).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(server.stats().snapshot().panics, 0);
}

/// Commands that only this server has are unknown to scripts of Redis; `FUNCTION` is another library.
fn is_in_both(command: &[String]) -> bool {
    !["DELIFEQ", "FUNCTION", "FLUSHALL", "DEBUG"].contains(&command[0].to_uppercase().as_str())
}

#[test]
fn random_scripts_have_equal_effects() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let pair = std::cell::RefCell::new(Pair::connect(&redis, &server));
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() });
    let outcome = runner.run(&vec(requests(), 0..40), |commands| {
        let mut pair = pair.borrow_mut();
        pair.compare(&words("FLUSHALL")).map_err(TestCaseError::fail)?;
        let commands = commands.iter().filter(|command| is_comparable(command) && is_in_both(command));
        commands
            .map(|command| executed(command))
            .try_for_each(|command| pair.compare(&command))
            .map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
