/** All cases of the clients for Java. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        Suite suite = new Suite(arguments[0], Integer.parseInt(arguments[1]));
        JedisCases.run(suite);
        LettuceCases.run(suite);
        RedissonCases.run(suite);
        SpringSessionCases.run(suite);
        suite.finish();
        // Some clients have threads that keep the process alive.
        System.exit(0);
    }
}
