<?php
// Laravel: its queue with its worker, cache tags, locks and limits, over phpredis and over Predis.

require 'Illuminate/Redis/autoload.php';
require 'Illuminate/Cache/autoload.php';
require 'Illuminate/Queue/autoload.php';
require 'Illuminate/Events/autoload.php';

use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Events\Dispatcher;
use Illuminate\Queue\Capsule\Manager as QueueManager;
use Illuminate\Queue\Jobs\RedisJob;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;
use Illuminate\Redis\RedisManager;

function laravel_cases(Suite $suite): void
{
    foreach (['phpredis', 'predis'] as $driver) {
        $laravel = new Laravel($suite, $driver);
        $cases = [
            'queue' => laravel_queue(...),
            'failed jobs' => laravel_failed_jobs(...),
            'delayed jobs' => laravel_delayed_jobs(...),
            'abandoned jobs' => laravel_abandoned_jobs(...),
            'cache' => laravel_cache(...),
            'cache tags' => laravel_tags(...),
            'cache locks' => laravel_locks(...),
            'rate limits' => laravel_limits(...),
            'funnel and throttle' => laravel_funnel(...),
        ];
        foreach ($cases as $name => $run) {
            $suite->test('Laravel', "$name, $driver", fn () => $run($laravel, $suite->key()));
        }
        $key = $suite->key();
        $suite->survives('Laravel', fn () => laravel_queue($laravel, $key));
    }
}

/** What an application of Laravel has. */
final class Laravel
{
    public readonly RedisManager $redis;
    public readonly Repository $cache;
    private readonly Container $container;

    public function __construct(Suite $suite, string $driver)
    {
        $server = ['host' => $suite->host, 'port' => $suite->port, 'database' => 0];
        $options = ['prefix' => "laravel-$driver:"];
        $this->container = new Container();
        $this->redis = new RedisManager($this->container, $driver, ['default' => $server, 'options' => $options]);
        $this->container->instance('redis', $this->redis);
        $events = new Dispatcher($this->container);
        $this->container->instance('events', $events);
        $this->container->instance(Illuminate\Contracts\Events\Dispatcher::class, $events);
        $this->cache = new Repository(new RedisStore($this->redis, 'cache:'));
    }

    /** A queue, from which a job that a worker does not end is taken back after these seconds. */
    public function queue(string $name, int $retryAfter = 60): Illuminate\Contracts\Queue\Queue
    {
        return $this->manager($name, ['retry_after' => $retryAfter])->getConnection();
    }

    /** Runs a worker until its queue has been empty for these seconds. */
    public function work(string $name, int $tries = 1, ?int $blockFor = null): void
    {
        $options = new WorkerOptions(maxTries: $tries, stopWhenEmpty: true, sleep: 0);
        $manager = $this->manager($name, ['block_for' => $blockFor])->getQueueManager();
        $worker = new Worker($manager, $this->container->make('events'), new Silent(), fn () => false);
        equal($worker->daemon('default', $name, $options), 0);
    }

    private function manager(string $name, array $options): QueueManager
    {
        $manager = new QueueManager($this->container);
        $manager->addConnection(['driver' => 'redis', 'queue' => $name, ...$options]);
        return $manager;
    }
}

/** Jobs are expected to fail. */
final class Silent implements ExceptionHandler
{
    public function report(Throwable $e)
    {
    }

    public function shouldReport(Throwable $e)
    {
        return false;
    }

    public function render($request, Throwable $e)
    {
    }

    public function renderForConsole($output, Throwable $e)
    {
    }
}

/** A job that writes down what it was given. */
final class Record
{
    public static array $seen = [];

    public function fire(RedisJob $job, array $data): void
    {
        self::$seen[] = [$data['n'], $job->attempts()];
        $job->delete();
    }
}

/** A job that fails as often as it was told to. */
final class Fails
{
    public static array $failed = [];

    public function fire(RedisJob $job, array $data): void
    {
        if ($job->attempts() <= $data['times']) {
            throw new RuntimeException('on purpose');
        }
        (new Record())->fire($job, $data);
    }

    public function failed(array $data): void
    {
        self::$failed[] = $data['n'];
    }
}

function laravel_queue(Laravel $laravel, string $key): void
{
    Record::$seen = [];
    $queue = $laravel->queue($key);
    foreach ([1, 2] as $n) {
        $queue->push(Record::class, ['n' => $n]);
    }
    $queue->bulk([Record::class], ['n' => 3]);
    equal($queue->size(), 3);
    $laravel->work($key, blockFor: 1);
    equal([Record::$seen, $queue->size()], [[[1, 1], [2, 1], [3, 1]], 0]);
    $queue->push(Record::class, ['n' => 4]);
    equal($queue->clear($key), 1);
}

/** A job is tried again, until it succeeds or was tried too often. */
function laravel_failed_jobs(Laravel $laravel, string $key): void
{
    Record::$seen = Fails::$failed = [];
    $queue = $laravel->queue($key);
    $queue->push(Fails::class, ['n' => 1, 'times' => 2]);
    $queue->push(Fails::class, ['n' => 2, 'times' => 9]);
    $laravel->work($key, tries: 3);
    equal([Record::$seen, Fails::$failed, $queue->size()], [[[1, 3]], [2], 0]);
}

/** A job waits for its time. */
function laravel_delayed_jobs(Laravel $laravel, string $key): void
{
    Record::$seen = [];
    $queue = $laravel->queue($key);
    $queue->later(2, Record::class, ['n' => 1]);
    $queue->later(3600, Record::class, ['n' => 2]);
    equal([$queue->size(), $queue->pop()], [2, null]);
    eventually(function () use ($laravel, $key) {
        $laravel->work($key);
        equal(Record::$seen, [[1, 1]]);
    });
    equal($queue->size(), 1);
}

/** A job goes to another worker if the first one neither deletes nor releases it. */
function laravel_abandoned_jobs(Laravel $laravel, string $key): void
{
    Record::$seen = [];
    $queue = $laravel->queue($key, retryAfter: 0);
    $queue->push(Record::class, ['n' => 1]);
    equal($queue->pop()->attempts(), 1);
    equal($laravel->queue($key)->size(), 1);
    $laravel->work($key, tries: 3);
    equal([Record::$seen, $queue->size()], [[[1, 2]], 0]);
    $queue->push(Record::class, ['n' => 2]);
    $queue->pop()->release(3600);
    equal([$queue->size(), $queue->pop()], [1, null]);
}

function laravel_cache(Laravel $laravel, string $key): void
{
    $cache = $laravel->cache;
    equal($cache->put($key, ['a' => 1], 60), true);
    equal($cache->add($key, 2, 60), false);
    equal($cache->get($key), ['a' => 1]);
    equal($cache->remember("$key:made", 60, fn () => 'once'), 'once');
    equal($cache->remember("$key:made", 60, fn () => 'twice'), 'once');
    equal($cache->putMany(["$key:1" => 1, "$key:2" => 'two'], 60), true);
    equal($cache->many(["$key:1", "$key:2", "$key:3"]), ["$key:1" => '1', "$key:2" => 'two', "$key:3" => null]);
    equal($cache->increment("$key:1", 41), 42);
    equal($cache->pull($key), ['a' => 1]);
    equal($cache->has($key), false);
}

/** To flush a tag removes what was stored with it, and nothing else. */
function laravel_tags(Laravel $laravel, string $key): void
{
    $people = $laravel->cache->tags(["$key:people", "$key:artists"]);
    $artists = $laravel->cache->tags("$key:artists");
    $places = $laravel->cache->tags("$key:places");
    $people->put('alice', 1, 60);
    $people->forever('bob', 2);
    $artists->put('carol', 3, 60);
    $places->put('rome', 4, 60);
    equal([$people->get('alice'), $people->get('bob'), $artists->get('alice')], ['1', '2', null]);
    $laravel->cache->tags("$key:people")->flush();
    equal([$people->get('alice'), $people->get('bob')], [null, null]);
    equal([$artists->get('carol'), $places->get('rome')], ['3', '4']);
    $artists->flush();
    equal([$artists->get('carol'), $places->get('rome')], [null, '4']);
}

function laravel_locks(Laravel $laravel, string $key): void
{
    $store = $laravel->cache->getStore();
    $first = $store->lock($key, 10);
    $second = $store->lock($key, 10);
    equal([$first->get(), $second->get(), $second->release()], [true, false, false]);
    equal($store->restoreLock($key, $first->owner())->release(), true);
    equal($second->get(fn () => 'result'), 'result');
    $short = $store->lock($key, 1);
    equal($short->get(), true);
    equal($store->lock($key, 10)->block(3, fn () => 'waited'), 'waited');
}

function laravel_limits(Laravel $laravel, string $key): void
{
    $limiter = new RateLimiter($laravel->cache);
    $attempts = array_map(fn () => $limiter->attempt($key, 2, fn () => true, 60), range(1, 3));
    equal([$attempts, $limiter->remaining($key, 2)], [[true, true, false], 0]);
    equal($limiter->availableIn($key) > 50, true);
    $limiter->clear($key);
    equal($limiter->tooManyAttempts($key, 2), false);
}

/** At most so many at once, and at most so many in a time. */
function laravel_funnel(Laravel $laravel, string $key): void
{
    $redis = $laravel->redis->connection();
    $inner = fn () => $redis->funnel($key)->limit(1)->block(0)->then(fn () => 'second', fn () => 'full');
    equal($redis->funnel($key)->limit(1)->block(0)->then($inner), 'full');
    equal($inner(), 'second');
    $throttled = fn () => $redis->throttle("$key:t")->allow(2)->every(60)->block(0)->then(fn () => 'ran', fn () => 'full');
    equal([$throttled(), $throttled(), $throttled()], ['ran', 'ran', 'full']);
}
