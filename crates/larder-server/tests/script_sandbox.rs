//! Scripts that try to leave their sandbox, to change what later scripts find, or to use up a resource.

use larder_resp::Frame;

use crate::support::{Client, TestServer, encode};

/// Attacks, each as one script. Whatever they return, what later scripts find must be unchanged.
const ATTACKS: &[&str] = &[
    // Global variables and libraries.
    "x = 1",
    "_G.x = 1",
    "rawset(_G, 'x', 1)",
    "setmetatable(_G, {})",
    "setmetatable(_G, nil)",
    "local m = getmetatable(_G) m.__index = nil",
    "local m = getmetatable(_G) m.__newindex = nil x = 1",
    "redis.call = nil",
    "rawset(redis, 'call', function() return 'evil' end)",
    "for k in pairs(redis) do redis[k] = nil end",
    "table.insert(redis, 1)",
    "table.insert(string, 1, 'x')",
    "table.remove(redis)",
    "table.sort(string)",
    "local _, t = pairs(redis) t.call = nil",
    "local n, t = pairs(_G) t.x = 1",
    "local f, t = ipairs(string) t.rep = nil",
    "local f, t = pairs(string) rawset(t, 'rep', 1)",
    "getmetatable('').__index = nil",
    "getmetatable('').__index.rep = nil",
    "rawset(getmetatable(''), '__index', {})",
    "rawset(getmetatable('').__index, 'rep', nil)",
    "setmetatable(getmetatable(''), {})",
    "local m = getmetatable(redis) m.__index.call = nil",
    "next(redis).x = 1",
    "string.rep = nil",
    "math.random = nil",
    "math.huge = 1",
    "bit.band = nil",
    "cjson.null = 1",
    "coroutine.wrap = nil",
    "KEYS = nil",
    "ARGV.x = 1 KEYS.x = 1",
    "_G._G = nil",
    "_G._G.x = 1",
    "rawget(_G, '_G').x = 1",
    "local g = rawget(_G, '_G') rawset(g, 'x', 1)",
    "local _, g = next(_G) if type(g) == 'table' then g.x = 1 end",
    "for _, t in pairs(_G) do if type(t) == 'table' then rawset(t, 'x', 1) end end",
    "cjson.encode_max_depth(1) cjson.encode_sparse_array(true) cjson.decode_max_depth(1) cjson.encode_number_precision(1)",
    "collectgarbage('stop')",
    "collectgarbage('setpause', 1000000)",
    "collectgarbage('setstepmul', 1)",
    "xpcall(error, function(m) x = 1 end)",
    "local f = loadstring('x = 1') f()",
    "load(coroutine.wrap(function() coroutine.yield('x = 1') end))()",
    "coroutine.wrap(function() x = 1 end)()",
    // Compiled code.
    "return loadstring(string.dump(function() return 1 end))",
    "return load(coroutine.wrap(function() coroutine.yield(string.dump(function() end)) end))",
    "local first = true return load(function() if first then first = false return '\\27Lua' end end)",
    // Functions that are not there.
    "return dofile('/etc/passwd')",
    "return loadfile('/etc/passwd')",
    "return io.open('/etc/passwd')",
    "return os.execute('true')",
    "return require('os')",
    "return debug.getregistry()",
    "return getfenv(0)",
    "return setfenv(1, {})",
    "return newproxy(true)",
    "return package.loadlib",
    "return print('x')",
    // Errors of every type.
    "error({foo = 1})",
    "error(setmetatable({}, {__index = function() error('x') end, __tostring = function() return {} end}))",
    "error(function() end)",
    "error(coroutine.create(function() end))",
    "error(string.rep('x', 10000))",
    "error({err = string.rep('x', 10000)})",
    "error({err = 'a\\r\\n+OK\\r\\n'})",
    "return {err = 'a\\r\\n+OK\\r\\n'}",
    "return setmetatable({}, {__index = function() error('x') end})",
    "return redis.call(setmetatable({}, {__tostring = function() return 'get' end}))",
    "return redis.call('get', string.rep('x', 1000000))",
    "pcall(redis.call)",
    "return redis.pcall('get', 'k', unpack({}, 1, 5000))",
    "return select('#', unpack({}, 1, 7000))",
    "return unpack({}, 1, 1e8)",
    "return unpack({}, -2147483648, 2147483647)",
    "return {pcall(unpack, {}, -2147483647, 1)}",
    "return select('#', unpack({}, 2147483640, 2147483647))",
    // Names of chunks that nothing else refers to.
    "for i = 1, 200 do loadstring('local a = ' .. i .. string.rep(' ', 2000) .. 'b = {' .. string.rep('1,', 500) .. '}', 'name' .. i .. '\\0x') end",
    "for i = 1, 50 do load(function() collectgarbage() return nil end, 'name' .. i .. '\\0x') end",
    "for i = 1, 200 do loadstring('-- ' .. i .. '\\0' .. string.rep('x', 2000)) end",
    "local t = {} t[1] = t return t",
    "local t = {} for i = 1, 100000 do t = {t} end return t",
    "local t = {} t.map = t return t",
    "local t = {} t.set = {[t] = true} return t",
    "local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
    "cjson.encode_max_depth(2000000000) local t = {} t[1] = t return cjson.encode(t)",
    "cjson.decode_max_depth(2000000000) return cjson.decode(string.rep('[', 1000000))",
    "return cmsgpack.unpack(string.rep('\\145', 1000000))",
    "return cmsgpack.unpack(string.rep('\\221\\255\\255\\255\\255', 10000))",
    "local function f() return f() + 1 end return f()",
    "local function f() return pcall(f) end return f()",
    "local s = string.rep('(', 10000) return string.find(s, s)",
    "return ('a'):rep(100000):find(('a?'):rep(100000))",
    "return ('a'):rep(100000):match(('a-'):rep(100000) .. 'b')",
    "return ('a'):rep(100000):gsub(('a*'):rep(100000), '')",
    "for x in ('a'):rep(100000):gfind(('a+'):rep(100000)) do end",
    "for x in ('a'):rep(100000):gmatch(('a+'):rep(100000)) do end",
    "return ('a'):rep(1000):find(('a?'):rep(1000)) == 1 and ('-'):rep(9000):find(('-'):rep(9000), 1, true) == 1",
    "return string.format('%99999d', 1)",
    "return string.rep('x', -1)",
    "return struct.pack('c2000000000', 'x')",
    "return struct.unpack('!2147483647i', 'x')",
    "return struct.unpack('i', 'xxxx', 2^62)",
    "return bit.tohex(1, -2147483648)",
    "return math.random(-2147483648, 2147483647)",
    "return ('x'):rep(1e9)",
    "return tostring(redis) .. tostring(_G)",
    "return cjson.encode(_G)",
    "return cmsgpack.pack(redis)",
];

/// What a script of another client finds.
const CHECK: &str = "
    assert(rawget(_G, 'x') == nil and rawget(redis, 'x') == nil and rawget(string, 'x') == nil)
    assert(redis.call('echo', 'x') == 'x' and ('ab'):rep(2) == 'abab' and math.huge == 1 / 0)
    assert(cjson.encode({1.5, {}, {[1] = 1}}) == '[1.5,{},[1]]' and cjson.decode('[[1]]')[1][1] == 1)
    assert(bit.band(7, 3) == 3 and cmsgpack.unpack(cmsgpack.pack(5)) == 5 and struct.size('i') == 4)
    assert(type(math.random()) == 'number' and type(coroutine.wrap) == 'function' and _G._G == _G)
    assert(#KEYS == 1 and #ARGV == 1 and KEYS.x == nil and ARGV.x == nil and cjson.null ~= nil)
    local names = 0
    for name in pairs(redis) do names = names + 1 end
    return {names, tostring(getmetatable('').__index == string)}";

#[test]
fn no_script_changes_what_later_scripts_find() {
    let server = TestServer::start();
    let mut client = server.connect();
    let check = |client: &mut Client<_>| client.call(&["EVAL", CHECK, "1", "key", "argument"]);
    let expected = check(&mut client);
    assert!(matches!(&expected, Frame::Array(items) if items[0] == Frame::Integer(23)), "{expected:?}");
    for attack in ATTACKS {
        let mut attacker = server.connect();
        attacker.send(&encode(&["EVAL", attack, "0"]));
        attacker.send(b"ECHO end\r\n");
        // Some replies are nested more deeply than a client allows.
        attacker.read_until(b"$3\r\nend\r\n");
        assert_eq!(check(&mut client), expected, "after {attack}");
    }
    assert_eq!(server.stats().snapshot().panics, 0);
}

#[test]
fn writes_to_global_tables_are_refused() {
    let server = TestServer::start();
    let mut client = server.connect();
    for attack in ATTACKS.iter().take_while(|attack| !attack.starts_with("local n, t")) {
        let reply = client.call(&["EVAL", attack, "0"]);
        assert!(matches!(&reply, Frame::Error(_)), "{attack}: {reply:?}");
    }
}

#[test]
fn compiled_code_is_not_loaded() {
    let server = TestServer::start();
    let mut client = server.connect();
    for script in [
        "return loadstring(string.dump(function() return 1 end)) == nil",
        "return load(coroutine.wrap(function() coroutine.yield(string.dump(function() end)) end)) == nil",
        "local p = {'\\27', 'Lua'} local i = 0 return load(function() i = i + 1 return p[i] end) == nil",
        "return loadstring('return 1')() == 1",
        "local p = {'return', ' 7'} local i = 0 return load(function() i = i + 1 return p[i] end)() == 7",
    ] {
        assert_eq!(client.call(&["EVAL", script, "0"]), Frame::Integer(1), "{script}");
    }
    let reply = client.call(&[&b"EVAL"[..], b"\x1bLua\x51\x00\x01", b"0"]);
    assert!(matches!(&reply, Frame::Error(text) if text.contains("compiling")), "{reply:?}");
}

/// Each of them needs more memory than a script may have.
#[test]
fn memory_of_a_script_is_limited() {
    let server = TestServer::start();
    let mut client = server.connect();
    for bomb in [
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2^30)",
        "local t = {} for i = 1, 1e9 do t[i] = {i} end",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000000) .. #t end",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return cjson.encode(t)",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return cmsgpack.pack(t)",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return #table.concat(t)",
        "return cjson.decode('[' .. ('[],'):rep(8000000) .. '1]')",
        "return cmsgpack.unpack('\\221\\1\\0\\0\\0' .. ('\\144'):rep(16777216))",
        "return table.concat({struct.pack(('c10000000'):rep(20), unpack({}, 1, 0))})",
        "for i = 1, 1e9 do redis.call('set', 'key' .. i, ('x'):rep(100)) end",
        "local t = {} for i = 1, 1000 do redis.call('append', 'big', ('x'):rep(1000000)) t[i] = redis.call('get', 'big') end",
        "local f = {} for i = 1, 1e9 do f[i] = coroutine.create(function() end) end",
    ] {
        let reply = client.call(&["EVAL", bomb, "0"]);
        assert!(matches!(&reply, Frame::Error(_)), "{bomb}: {reply:?}");
        assert_eq!(
            client.call(&["EVAL", "return #('x'):rep(1000000)", "0"]),
            Frame::Integer(1_000_000),
            "{bomb}"
        );
    }
    assert_eq!(server.stats().snapshot().panics, 0);
}

/// A result that repeats a long string needs little memory in the script.
#[test]
fn result_above_the_limit_is_an_error() {
    let server = TestServer::with(larder_server::Config {
        max_reply_bytes: larder_server::ByteSize(10_000_000),
        ..larder_server::Config::default()
    });
    let mut client = server.connect();
    let script = "local s = ('x'):rep(1000000) local t = {} for i = 1, 100000 do t[i] = s end return t";
    let reply = client.call(&["EVAL", script, "0"]);
    assert!(
        matches!(&reply, Frame::Error(text) if text.starts_with("ERR the reply would exceed 10000000 bytes")),
        "{reply:?}"
    );
    assert_eq!(client.call(&["EVAL", "return 1", "0"]), Frame::Integer(1));
}
