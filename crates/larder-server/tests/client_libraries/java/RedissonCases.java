import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.BatchOptions;
import org.redisson.api.RBatch;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RMapCache;
import org.redisson.api.RTopic;
import org.redisson.api.RedissonClient;
import org.redisson.api.map.event.EntryExpiredListener;
import org.redisson.config.Config;

/** Redisson: objects in single keys, batches, topics; and what is a hash: its lock, and a map whose entries expire. */
final class RedissonCases {
    private static final String NAME = "Redisson";
    private static final long WATCHDOG_MS = 1_000;

    private interface Operation {
        void run(RedissonClient client, String key) throws Exception;
    }

    static void run(Suite suite) throws Exception {
        Config config = new Config();
        // The client extends its locks three times in this time.
        config.setLockWatchdogTimeout(WATCHDOG_MS);
        // Seconds between two searches for entries that have expired.
        config.setMinCleanUpDelay(1);
        config.useSingleServer().setAddress(suite.url());
        RedissonClient client = Redisson.create(config);
        Map<String, Operation> cases = new LinkedHashMap<>();
        cases.put("RBucket", RedissonCases::bucket);
        cases.put("RBucket.getAndDelete", RedissonCases::getAndDelete);
        cases.put("RBucket.compareAndSet", RedissonCases::compareAndSet);
        cases.put("RAtomicLong", (redisson, key) -> Suite.equal(redisson.getAtomicLong(key).addAndGet(42), 42L));
        cases.put("RBatch", RedissonCases::batch);
        cases.put("RTopic", RedissonCases::topic);
        cases.put("RLock", RedissonCases::lock);
        cases.put("RLock.lock", (redisson, key) -> exclusive(suite, redisson, key));
        cases.put("RMapCache", RedissonCases::mapCache);
        cases.put("RMapCache.addListener", RedissonCases::expiredEntry);
        for (Map.Entry<String, Operation> entry : cases.entrySet()) {
            Operation operation = entry.getValue();
            suite.test(NAME, null, entry.getKey(), () -> operation.run(client, suite.key()));
        }
        RBucket<String> survivor = client.getBucket(suite.key());
        suite.survives(NAME, null, () -> {
            survivor.set("value");
            Suite.equal(survivor.get(), "value");
        });
    }

    private static void bucket(RedissonClient client, String key) {
        RBucket<Map<String, Integer>> bucket = client.getBucket(key);
        bucket.set(Map.of("a", 1), Duration.ofMinutes(1));
        Suite.equal(bucket.get(), Map.of("a", 1));
        Suite.equal(bucket.setIfAbsent(Map.of()), false);
        Suite.equal(bucket.remainTimeToLive() > 0, true);
        Suite.equal(bucket.delete(), true);
        Suite.equal(bucket.isExists(), false);
    }

    private static void getAndDelete(RedissonClient client, String key) {
        RBucket<String> bucket = client.getBucket(key);
        bucket.set("value");
        Suite.equal(bucket.getAndDelete(), "value");
    }

    private static void compareAndSet(RedissonClient client, String key) {
        RBucket<String> bucket = client.getBucket(key);
        bucket.set("old");
        Suite.equal(bucket.compareAndSet("other", "new"), false);
        Suite.equal(bucket.compareAndSet("old", "new"), true);
        Suite.equal(bucket.get(), "new");
    }

    private static void batch(RedissonClient client, String key) {
        BatchOptions atomic = BatchOptions.defaults().executionMode(BatchOptions.ExecutionMode.REDIS_WRITE_ATOMIC);
        RBatch batch = client.createBatch(atomic);
        batch.getBucket(key).setAsync("value");
        batch.getAtomicLong(key + ":count").incrementAndGetAsync();
        Suite.equal(batch.execute().getResponses().get(1), 1L);
    }

    private static void topic(RedissonClient client, String key) throws Exception {
        BlockingQueue<String> received = new LinkedBlockingQueue<>();
        RTopic topic = client.getTopic(key);
        topic.addListener(String.class, (channel, message) -> received.add(message));
        Suite.equal(topic.publish("message"), 1L);
        Suite.equal(received.poll(5, TimeUnit.SECONDS), "message");
    }

    private static void lock(RedissonClient client, String key) throws Exception {
        RLock lock = client.getLock(key);
        Suite.equal(lock.tryLock(1, 10, TimeUnit.SECONDS), true);
        Suite.equal(lock.isLocked(), true);
        lock.unlock();
        Suite.equal(lock.isLocked(), false);
    }

    /** A lock without a time lasts while its owner lives, and wakes up a thread that waits for it. */
    private static void exclusive(Suite suite, RedissonClient client, String key) throws Exception {
        RLock lock = client.getLock(key);
        lock.lock();
        lock.lock();
        // Others try for longer than the lock would last if the client did not extend it.
        suite.start(() -> Suite.equal(lock.tryLock(WATCHDOG_MS * 3 / 2, TimeUnit.MILLISECONDS), false)).get();
        CompletableFuture<Void> other = suite.start(() -> {
            lock.lock();
            lock.unlock();
        });
        Suite.equal(lock.getHoldCount(), 2);
        lock.unlock();
        lock.unlock();
        other.get(5, TimeUnit.SECONDS);
        Suite.equal(lock.isLocked(), false);
        lock.lock(WATCHDOG_MS, TimeUnit.MILLISECONDS);
        suite.start(() -> Suite.equal(lock.tryLock(5, 5, TimeUnit.SECONDS), true)).get();
        Suite.equal(lock.isHeldByCurrentThread(), false);
    }

    private static void mapCache(RedissonClient client, String key) throws Exception {
        RMapCache<String, Integer> map = client.getMapCache(key);
        map.put("kept", 1);
        map.put("idle", 3, 1, TimeUnit.HOURS, 1, TimeUnit.SECONDS);
        map.put("short", 2, 1, TimeUnit.SECONDS);
        Suite.equal(map.putIfAbsent("short", 4, 1, TimeUnit.HOURS), 2);
        Suite.equal(map.getAll(Set.of("kept", "short")), Map.of("kept", 1, "short", 2));
        Suite.equal(map.remainTimeToLive("short") > 0, true);
        Suite.eventually(() -> Suite.equal(map.containsKey("short"), false));
        Suite.equal(map.readAllMap(), Map.of("kept", 1));
        Suite.equal(map.replace("kept", 1, 42), true);
        map.trySetMaxSize(2);
        map.put("second", 2);
        map.put("third", 3);
        Suite.equal(map.readAllKeySet().size(), 2);
        map.destroy();
    }

    private static void expiredEntry(RedissonClient client, String key) throws Exception {
        RMapCache<String, String> map = client.getMapCache(key);
        BlockingQueue<String> expired = new LinkedBlockingQueue<>();
        map.addListener((EntryExpiredListener<String, String>) event -> expired.add(event.getKey() + event.getValue()));
        map.put("a", "1", 100, TimeUnit.MILLISECONDS);
        Suite.equal(expired.poll(8, TimeUnit.SECONDS), "a1");
        map.destroy();
    }
}
