import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.BatchOptions;
import org.redisson.api.RBatch;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RTopic;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson: objects in single keys, batches, topics; and its lock, which is a hash. */
final class RedissonCases {
    private static final String NAME = "Redisson";

    private interface Operation {
        void run(RedissonClient client, String key) throws Exception;
    }

    static void run(Suite suite) throws Exception {
        Config config = new Config();
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
}
