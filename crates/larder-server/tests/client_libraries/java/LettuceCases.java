import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Lettuce: transactions, WATCH, messages, scripts, and its cache that the server invalidates. */
final class LettuceCases {
    private static final String NAME = "Lettuce";

    private interface Operation {
        void run(RedisClient client, RedisCommands<String, String> commands, String key) throws Exception;
    }

    static void run(Suite suite) throws Exception {
        Map<String, Operation> cases = new LinkedHashMap<>();
        cases.put("values", (client, commands, key) -> values(commands, key));
        cases.put("MULTI", (client, commands, key) -> multi(commands, key));
        cases.put("WATCH", LettuceCases::watch);
        cases.put("publish and subscribe", LettuceCases::messages);
        cases.put("script", (client, commands, key) -> script(commands, key));
        cases.put("hashes", (client, commands, key) -> Suite.equal(commands.hset(key, "field", "value"), true));
        for (int version : List.of(2, 3)) {
            RedisClient client = RedisClient.create(RedisURI.create(suite.url()));
            ProtocolVersion protocol = version == 2 ? ProtocolVersion.RESP2 : ProtocolVersion.RESP3;
            client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            RedisCommands<String, String> commands = client.connect().sync();
            for (Map.Entry<String, Operation> entry : cases.entrySet()) {
                Operation operation = entry.getValue();
                suite.test(NAME, version, entry.getKey(), () -> operation.run(client, commands, suite.key()));
            }
            if (version == 3) {
                suite.test(NAME, version, "CacheFrontend", () -> cacheFrontend(client, commands, suite.key()));
            }
            suite.survives(NAME, version, survivor(client, commands, suite.key()));
        }
    }

    private static void values(RedisCommands<String, String> commands, String key) {
        Suite.equal(commands.set(key, "1", SetArgs.Builder.ex(60)), "OK");
        Suite.equal(commands.set(key, "2", SetArgs.Builder.nx()), null);
        Suite.equal(commands.incrby(key, 41), 42L);
        List<KeyValue<String, String>> found = commands.mget(key, key + ":missing");
        Suite.equal(found.get(0).getValue(), "42");
        Suite.equal(found.get(1).hasValue(), false);
        Suite.equal(commands.ttl(key) > 0, true);
        Suite.equal(commands.keys(key), List.of(key));
        Suite.equal(commands.del(key), 1L);
    }

    private static void multi(RedisCommands<String, String> commands, String key) {
        Suite.equal(commands.multi(), "OK");
        commands.set(key, "41");
        commands.incr(key);
        TransactionResult result = commands.exec();
        Suite.equal(result.get(1), 42L);
    }

    private static void watch(RedisClient client, RedisCommands<String, String> commands, String key) {
        try (StatefulRedisConnection<String, String> other = client.connect()) {
            commands.watch(key);
            other.sync().set(key, "changed");
            commands.multi();
            commands.set(key, "lost");
            Suite.equal(commands.exec().wasDiscarded(), true);
            commands.watch(key);
            commands.multi();
            commands.set(key, "kept");
            Suite.equal(commands.exec().wasDiscarded(), false);
        }
    }

    private static void messages(RedisClient client, RedisCommands<String, String> commands, String key)
            throws Exception {
        BlockingQueue<String> received = new LinkedBlockingQueue<>();
        try (StatefulRedisPubSubConnection<String, String> subscriber = subscribe(client, key, received)) {
            subscriber.sync().psubscribe(key + ":*");
            Suite.equal(commands.publish(key, "first"), 1L);
            Suite.equal(commands.publish(key + ":a", "second"), 1L);
            Suite.equal(received.poll(5, TimeUnit.SECONDS), "first");
            Suite.equal(received.poll(5, TimeUnit.SECONDS), "second");
        }
    }

    private static StatefulRedisPubSubConnection<String, String> subscribe(
            RedisClient client, String channel, BlockingQueue<String> received) {
        StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub();
        subscriber.addListener(new RedisPubSubAdapter<>() {
            @Override
            public void message(String channel, String message) {
                received.add(message);
            }

            @Override
            public void message(String pattern, String channel, String message) {
                received.add(message);
            }
        });
        subscriber.sync().subscribe(channel);
        return subscriber;
    }

    private static void script(RedisCommands<String, String> commands, String key) {
        String add = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
        String[] keys = {key};
        Long first = commands.eval(add, ScriptOutputType.INTEGER, keys, "5");
        Long second = commands.evalsha(commands.scriptLoad(add), ScriptOutputType.INTEGER, keys, "5");
        Suite.equal(List.of(first, second), List.of(5L, 10L));
    }

    private static void cacheFrontend(RedisClient client, RedisCommands<String, String> writer, String key)
            throws Exception {
        Map<String, String> local = new ConcurrentHashMap<>();
        CacheFrontend<String, String> cached =
                ClientSideCaching.enable(CacheAccessor.forMap(local), client.connect(), TrackingArgs.Builder.enabled());
        writer.set(key, "old");
        Suite.equal(cached.get(key), "old");
        Suite.equal(local.get(key), "old");
        writer.set(key, "new");
        Suite.eventually(() -> Suite.equal(cached.get(key), "new"));
        cached.close();
    }

    /** The connection and the subscription come back by themselves. */
    private static Suite.Case survivor(RedisClient client, RedisCommands<String, String> commands, String key) {
        BlockingQueue<String> received = new LinkedBlockingQueue<>();
        subscribe(client, key, received);
        return () -> {
            Suite.equal(commands.publish(key, "message"), 1L);
            Suite.equal(received.poll(1, TimeUnit.SECONDS), "message");
        };
    }
}
