import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs cases against the server whose address is in the arguments, and prints one line of JSON for each. */
final class Suite {
    /** A case, or a part of one. It has passed if it returns. */
    interface Case {
        void run() throws Exception;
    }

    private record Survivor(String client, Integer protocol, Case use) {}

    final String host;
    final int port;
    private final Gson json = new Gson();
    private final List<Survivor> survivors = new ArrayList<>();
    // Daemons, so that a case that hangs does not keep the process alive.
    private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });
    private int keys;

    Suite(String host, int port) {
        this.host = host;
        this.port = port;
    }

    String url() {
        return "redis://" + host + ":" + port;
    }

    /** A name that no other case uses. */
    synchronized String key() {
        keys++;
        return "java:" + keys;
    }

    /** Runs a case, for ten seconds at most. */
    void test(String client, Integer protocol, String name, Case run) throws Exception {
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("client", client);
        if (protocol != null) {
            outcome.put("protocol", protocol);
        }
        outcome.put("case", name);
        long started = System.nanoTime();
        Future<?> running = threads.submit(() -> {
            run.run();
            return null;
        });
        try {
            running.get(10, TimeUnit.SECONDS);
        } catch (ExecutionException failure) {
            outcome.put("error", failure.getCause().toString());
        } catch (TimeoutException late) {
            outcome.put("error", "nothing within ten seconds");
        }
        outcome.put("ms", (System.nanoTime() - started) / 1_000_000);
        print(outcome);
    }

    /** Calls `use` before the restart, and after it until it succeeds: a connection that broke may cost an error. */
    void survives(String client, Integer protocol, Case use) {
        survivors.add(new Survivor(client, protocol, use));
    }

    /** Restarts the server between two uses of each client. */
    void finish() throws Exception {
        for (Survivor survivor : survivors) {
            survivor.use.run();
        }
        print(Map.of("restart", true));
        equal(new BufferedReader(new InputStreamReader(System.in)).readLine(), "restarted");
        for (Survivor survivor : survivors) {
            test(survivor.client, survivor.protocol, "restart", () -> eventually(survivor.use));
        }
    }

    /** Runs a function in another thread. */
    CompletableFuture<Void> start(Case run) {
        return CompletableFuture.runAsync(() -> {
            try {
                run.run();
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        }, threads);
    }

    private void print(Map<String, Object> line) {
        System.out.println(json.toJson(line));
        System.out.flush();
    }

    /** Calls a function until it returns; its last error is the error. */
    static void eventually(Case use) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(4);
        while (true) {
            try {
                use.run();
                return;
            } catch (Exception failure) {
                if (System.nanoTime() > deadline) {
                    throw failure;
                }
                Thread.sleep(20);
            }
        }
    }

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionFailed(found + " instead of " + expected);
        }
    }

    static final class AssertionFailed extends RuntimeException {
        AssertionFailed(String message) {
            super(message);
        }
    }
}
