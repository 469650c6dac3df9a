<?php
// Predis, a client in PHP: pipelines, transactions, messages, scripts, and its handler of PHP sessions.

require '/usr/share/php/Predis/Autoloader.php';
Predis\Autoloader::register();

function predis_cases(Suite $suite): void
{
    $client = predis($suite);
    $cases = [
        'values' => predis_values(...),
        'pipeline' => predis_pipeline(...),
        'MULTI' => predis_multi(...),
        'WATCH' => predis_watch(...),
        'script' => predis_script(...),
        'publish and subscribe' => predis_messages(...),
        'sessions' => predis_session(...),
        'lists' => fn (Suite $suite, Predis\Client $client, string $key) => equal($client->rpush($key, ['item']), 1),
    ];
    foreach ($cases as $name => $run) {
        $suite->test('Predis', $name, fn () => $run($suite, $client, $suite->key()));
    }
    $suite->survives('Predis', fn () => equal((string) $client->set('php:survivor', '1'), 'OK'));
}

function predis(Suite $suite): Predis\Client
{
    return new Predis\Client(['host' => $suite->host, 'port' => $suite->port, 'read_write_timeout' => 10]);
}

function predis_values(Suite $suite, Predis\Client $client, string $key): void
{
    equal((string) $client->setex($key, 60, '1'), 'OK');
    equal($client->get($key), '1');
    equal($client->incrby($key, 41), 42);
    equal($client->mget([$key, "$key:missing"]), ['42', null]);
    equal($client->ttl($key) > 0, true);
    equal(iterator_to_array(new Predis\Collection\Iterator\Keyspace($client, $key), false), [$key]);
    equal($client->del([$key]), 1);
}

function predis_pipeline(Suite $suite, Predis\Client $client, string $key): void
{
    $replies = $client->pipeline(fn ($pipe) => $pipe->set($key, 41)->incr($key)->get($key));
    equal(array_map('strval', $replies), ['OK', '42', '42']);
}

function predis_multi(Suite $suite, Predis\Client $client, string $key): void
{
    $replies = $client->transaction(fn ($transaction) => $transaction->set($key, 41)->incr($key));
    equal(array_map('strval', $replies), ['OK', '42']);
}

function predis_watch(Suite $suite, Predis\Client $client, string $key): void
{
    $other = predis($suite);
    $change = function ($transaction) use ($other, $key) {
        $transaction->get($key);
        $other->set($key, 'changed');
        $transaction->multi();
        $transaction->set($key, 'lost');
    };
    $options = ['watch' => $key, 'cas' => true];
    fails(Predis\Transaction\AbortedMultiExecException::class, fn () => $client->transaction($options, $change));
    equal($client->get($key), 'changed');
}

function predis_script(Suite $suite, Predis\Client $client, string $key): void
{
    $add = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    equal($client->eval($add, 1, $key, 5), 5);
    equal($client->evalsha(sha1($add), 1, $key, 5), 10);
}

/** A process publishes when this one has subscribed. */
function predis_messages(Suite $suite, Predis\Client $client, string $key): void
{
    in_child(function () use ($suite, $key) {
        eventually(fn () => equal(predis($suite)->publish($key, 'message'), 1));
    });
    $received = null;
    $loop = predis($suite)->pubSubLoop();
    $loop->subscribe($key);
    foreach ($loop as $message) {
        if ($message->kind === 'message') {
            $received = $message->payload;
            $loop->unsubscribe();
        }
    }
    equal($received, 'message');
}

function predis_session(Suite $suite, Predis\Client $client, string $key): void
{
    (new Predis\Session\Handler($client, ['gc_maxlifetime' => 60]))->register();
    session_visits('predis', 1);
    session_visits('predis', 2);
    equal($client->ttl('predis') > 0, true);
}
