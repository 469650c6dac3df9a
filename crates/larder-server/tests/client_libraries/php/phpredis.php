<?php
// phpredis, the extension: pipelines, transactions, WATCH, messages, scripts, and PHP sessions with and without locks.

function phpredis_cases(Suite $suite): void
{
    $client = phpredis($suite);
    $cases = [
        'values' => phpredis_values(...),
        'pipeline' => phpredis_pipeline(...),
        'MULTI' => phpredis_multi(...),
        'WATCH' => phpredis_watch(...),
        'script' => phpredis_script(...),
        'publish and subscribe' => phpredis_messages(...),
        'hashes' => fn (Suite $suite, Redis $client, string $key) => answered($client, $client->hSet($key, 'f', 'v')),
    ];
    foreach ($cases as $name => $run) {
        $suite->test('phpredis', $name, fn () => $run($suite, $client, $suite->key()));
    }
    foreach (['sessions' => '0', 'sessions with locks' => '1'] as $name => $locking) {
        $suite->test('phpredis', $name, fn () => phpredis_session($suite, $client, $locking));
    }
    $suite->survives('phpredis', fn () => equal($client->set('php:survivor', '1'), true));
}

function phpredis(Suite $suite): Redis
{
    $client = new Redis();
    $client->connect($suite->host, $suite->port);
    return $client;
}

/** The result of a command; phpredis returns false for an error reply. */
function answered(Redis $client, mixed $result): mixed
{
    $error = $client->getLastError();
    $client->clearLastError();
    return $error === null ? $result : throw new RedisException($error);
}

function phpredis_values(Suite $suite, Redis $client, string $key): void
{
    equal($client->set($key, '1', ['ex' => 60]), true);
    equal($client->set($key, '2', ['nx']), false);
    equal($client->get($key), '1');
    equal($client->incrBy($key, 41), 42);
    equal($client->mGet([$key, "$key:missing"]), ['42', false]);
    equal($client->ttl($key) > 0, true);
    $cursor = null;
    $found = [];
    while (($names = $client->scan($cursor, $key)) !== false) {
        array_push($found, ...$names);
    }
    equal($found, [$key]);
    equal($client->del($key), 1);
}

function phpredis_pipeline(Suite $suite, Redis $client, string $key): void
{
    equal($client->pipeline()->set($key, 'text')->incr($key)->get($key)->exec(), [true, false, 'text']);
    $client->clearLastError();
}

function phpredis_multi(Suite $suite, Redis $client, string $key): void
{
    equal(answered($client, $client->multi()->set($key, 1)->incr($key)->get($key)->exec()), [true, 2, '2']);
    $client->multi()->set($key, 'discarded');
    equal($client->discard(), true);
    equal($client->get($key), '2');
}

function phpredis_watch(Suite $suite, Redis $client, string $key): void
{
    $other = phpredis($suite);
    $client->watch($key);
    $other->set($key, 'changed');
    equal($client->multi()->set($key, 'lost')->exec(), false);
    $client->watch($key);
    equal($client->multi()->set($key, 'kept')->exec(), [true]);
}

function phpredis_script(Suite $suite, Redis $client, string $key): void
{
    $add = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    equal(answered($client, $client->eval($add, [$key, 5], 1)), 5);
    equal(answered($client, $client->evalSha(sha1($add), [$key, 5], 1)), 10);
}

/** A process publishes when this one has subscribed. */
function phpredis_messages(Suite $suite, Redis $client, string $key): void
{
    in_child(function () use ($suite, $key) {
        eventually(fn () => equal(phpredis($suite)->publish($key, 'message'), 1));
    });
    $received = null;
    $subscriber = phpredis($suite);
    $subscriber->setOption(Redis::OPT_READ_TIMEOUT, 5);
    $receive = function (Redis $subscriber, string $channel, string $message) use (&$received) {
        $received = $message;
        $subscriber->close();
    };
    // A subscription ends with its connection.
    fails(RedisException::class, fn () => $subscriber->subscribe([$key], $receive));
    equal($received, 'message');
}

function phpredis_session(Suite $suite, Redis $client, string $locking): void
{
    ini_set('session.save_handler', 'redis');
    ini_set('session.save_path', "tcp://$suite->host:$suite->port");
    ini_set('redis.session.locking_enabled', $locking);
    $id = "phpredis$locking";
    session_visits($id, 1);
    session_visits($id, 2);
    // A lock that cannot be released stays behind.
    equal($client->keys("*$id*"), ["PHPREDIS_SESSION:$id"]);
}

/** A request of a browser, whose session counts its visits. */
function session_visits(string $id, int $expected): void
{
    ini_set('session.use_cookies', '0');
    ini_set('session.cache_limiter', '');
    session_id($id);
    equal(session_start(), true);
    $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
    equal($_SESSION['visits'], $expected);
    session_write_close();
}
