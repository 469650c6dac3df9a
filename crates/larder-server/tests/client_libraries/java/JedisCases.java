import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.builders.StandaloneClientBuilder;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.SetParams;

/** Jedis: pipelines, transactions, WATCH, messages, scripts, and the client-side cache. */
final class JedisCases {
    private static final String NAME = "Jedis";

    private interface Operation {
        void run(Suite suite, RedisClient client, String key) throws Exception;
    }

    static void run(Suite suite) throws Exception {
        Map<String, Operation> cases = new LinkedHashMap<>();
        cases.put("values", (s, client, key) -> values(client, key));
        cases.put("pipeline", (s, client, key) -> pipeline(client, key));
        cases.put("MULTI", (s, client, key) -> multi(client, key));
        cases.put("WATCH", (s, client, key) -> watch(client, key));
        cases.put("publish and subscribe", JedisCases::messages);
        cases.put("script", (s, client, key) -> script(client, key));
        cases.put("lists", (s, client, key) -> Suite.equal(client.rpush(key, "item"), 1L));
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            int version = protocol == RedisProtocol.RESP2 ? 2 : 3;
            RedisClient client = builder(suite, protocol).build();
            for (Map.Entry<String, Operation> entry : cases.entrySet()) {
                Operation operation = entry.getValue();
                suite.test(NAME, version, entry.getKey(), () -> operation.run(suite, client, suite.key()));
            }
            String survivor = suite.key();
            suite.survives(NAME, version, () -> Suite.equal(client.set(survivor, "1"), "OK"));
        }
        suite.test(NAME, 3, "client-side cache", () -> clientSideCache(suite));
    }

    private static StandaloneClientBuilder<RedisClient> builder(Suite suite, RedisProtocol protocol) {
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).build();
        return RedisClient.builder().hostAndPort(new HostAndPort(suite.host, suite.port)).clientConfig(config);
    }

    private static void values(RedisClient client, String key) {
        Suite.equal(client.set(key, "1", SetParams.setParams().ex(60)), "OK");
        Suite.equal(client.set(key, "2", SetParams.setParams().nx()), null);
        Suite.equal(client.incrBy(key, 41), 42L);
        Suite.equal(client.mget(key, key + ":missing"), Arrays.asList("42", null));
        Suite.equal(client.ttl(key) > 0, true);
        Suite.equal(client.keys(key), java.util.Set.of(key));
        Suite.equal(client.del(key), 1L);
    }

    private static void pipeline(RedisClient client, String key) {
        try (AbstractPipeline pipeline = client.pipelined()) {
            Response<String> set = pipeline.set(key, "text");
            Response<Long> incremented = pipeline.incr(key);
            Response<String> got = pipeline.get(key);
            pipeline.sync();
            Suite.equal(set.get(), "OK");
            Suite.equal(got.get(), "text");
            try {
                throw new IllegalStateException("no error but " + incremented.get());
            } catch (JedisDataException expected) {
                // The error belongs to its command.
            }
        }
    }

    private static void multi(RedisClient client, String key) {
        try (AbstractTransaction transaction = client.multi()) {
            transaction.set(key, "41");
            transaction.incr(key);
            Suite.equal(transaction.exec(), List.of("OK", 42L));
        }
    }

    private static void watch(RedisClient client, String key) {
        try (AbstractTransaction transaction = client.transaction(false)) {
            transaction.watch(key);
            client.set(key, "changed");
            transaction.multi();
            transaction.set(key, "lost");
            Suite.equal(transaction.exec(), null);
        }
        try (AbstractTransaction transaction = client.transaction(false)) {
            transaction.watch(key);
            transaction.multi();
            transaction.set(key, "kept");
            Suite.equal(transaction.exec(), List.of("OK"));
        }
    }

    private static void messages(Suite suite, RedisClient client, String key) throws Exception {
        CompletableFuture<String> received = new CompletableFuture<>();
        JedisPubSub subscriber = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                received.complete(message);
                unsubscribe();
            }
        };
        CompletableFuture<Void> running = suite.start(() -> client.subscribe(subscriber, key));
        Suite.eventually(() -> Suite.equal(client.publish(key, "message"), 1L));
        Suite.equal(received.get(5, TimeUnit.SECONDS), "message");
        running.get(5, TimeUnit.SECONDS);
    }

    private static void script(RedisClient client, String key) {
        String add = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
        Suite.equal(client.eval(add, List.of(key), List.of("5")), 5L);
        String digest = client.scriptLoad(add);
        Suite.equal(client.evalsha(digest, List.of(key), List.of("5")), 10L);
    }

    private static void clientSideCache(Suite suite) throws Exception {
        String key = suite.key();
        CacheConfig config = CacheConfig.builder().maxSize(100).build();
        try (RedisClient cached = builder(suite, RedisProtocol.RESP3).cacheConfig(config).build();
                RedisClient writer = builder(suite, RedisProtocol.RESP3).build()) {
            writer.set(key, "old");
            Suite.equal(cached.get(key), "old");
            Suite.equal(cached.get(key), "old");
            Suite.equal(cached.getCache().getStats().getHitCount(), 1L);
            writer.set(key, "new");
            Suite.eventually(() -> Suite.equal(cached.get(key), "new"));
        }
    }
}
