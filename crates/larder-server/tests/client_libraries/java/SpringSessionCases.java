import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.springframework.data.redis.connection.RedisConnection;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.RedisTemplate;
import org.springframework.data.redis.listener.ChannelTopic;
import org.springframework.data.redis.listener.PatternTopic;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;
import org.springframework.data.redis.serializer.RedisSerializer;
import org.springframework.session.FindByIndexNameSessionRepository;
import org.springframework.session.Session;
import org.springframework.session.data.redis.RedisIndexedSessionRepository;
import org.springframework.session.data.redis.config.ConfigureNotifyKeyspaceEventsAction;
import org.springframework.session.events.AbstractSessionEvent;
import org.springframework.session.events.SessionCreatedEvent;
import org.springframework.session.events.SessionDeletedEvent;
import org.springframework.session.events.SessionExpiredEvent;

/** Spring Session: sessions that are found by their user, and the events of their ends, which are events of keys. */
final class SpringSessionCases {
    private static final String NAME = "Spring Session";

    private final FindByIndexNameSessionRepository<Session> sessions;
    private final BlockingQueue<AbstractSessionEvent> events = new LinkedBlockingQueue<>();

    static void run(Suite suite) throws Exception {
        SpringSessionCases cases = new SpringSessionCases(suite);
        suite.test(NAME, null, "sessions", cases::save);
        suite.test(NAME, null, "principal", () -> cases.principal(suite.key()));
        suite.test(NAME, null, "new id", () -> cases.newId(suite.key()));
        suite.test(NAME, null, "expiry", () -> cases.expiry(suite.key()));
        suite.survives(NAME, null, cases::save);
    }

    /** As the configuration of Spring Session does in an application for the web. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private SpringSessionCases(Suite suite) {
        LettuceConnectionFactory factory = new LettuceConnectionFactory(suite.host, suite.port);
        factory.afterPropertiesSet();
        factory.start();
        try (RedisConnection connection = factory.getConnection()) {
            new ConfigureNotifyKeyspaceEventsAction().configure(connection);
        }
        RedisTemplate<String, Object> template = new RedisTemplate<>();
        template.setConnectionFactory(factory);
        template.setKeySerializer(RedisSerializer.string());
        template.setHashKeySerializer(RedisSerializer.string());
        template.afterPropertiesSet();
        RedisIndexedSessionRepository repository = new RedisIndexedSessionRepository(template);
        repository.setApplicationEventPublisher(event -> events.add((AbstractSessionEvent) event));
        repository.afterPropertiesSet();
        RedisMessageListenerContainer messages = new RedisMessageListenerContainer();
        messages.setConnectionFactory(factory);
        messages.addMessageListener(repository, List.of(
            new ChannelTopic(repository.getSessionDeletedChannel()),
            new ChannelTopic(repository.getSessionExpiredChannel())));
        messages.addMessageListener(repository, new PatternTopic(repository.getSessionCreatedChannelPrefix() + "*"));
        messages.afterPropertiesSet();
        messages.start();
        sessions = (FindByIndexNameSessionRepository) repository;
    }

    private Session create(String user) {
        Session session = sessions.createSession();
        session.setAttribute(FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME, user);
        sessions.save(session);
        return session;
    }

    private void save() {
        Session session = sessions.createSession();
        session.setAttribute("cart", List.of("apple"));
        sessions.save(session);
        Session found = sessions.findById(session.getId());
        Suite.equal(found.getAttribute("cart"), List.of("apple"));
        found.setAttribute("cart", List.of("apple", "pear"));
        found.setAttribute("visits", 2);
        sessions.save(found);
        found = sessions.findById(session.getId());
        Suite.equal(List.of(found.getAttribute("cart"), found.getAttribute("visits")), List.of(List.of("apple", "pear"), 2));
        sessions.deleteById(session.getId());
        Suite.equal(sessions.findById(session.getId()), null);
    }

    private void principal(String user) throws Exception {
        Session first = create(user);
        Session second = create(user);
        create(user + ":other");
        Map<String, Session> found = sessions.findByPrincipalName(user);
        Suite.equal(found.keySet(), Set.of(first.getId(), second.getId()));
        await(SessionCreatedEvent.class, second.getId());
        sessions.deleteById(first.getId());
        Suite.equal(sessions.findByPrincipalName(user).keySet(), Set.of(second.getId()));
        await(SessionDeletedEvent.class, first.getId());
    }

    /** After a login the session has another id, which two renamed keys give it. */
    private void newId(String user) {
        Session session = create(user);
        String before = session.getId();
        session.changeSessionId();
        sessions.save(session);
        Suite.equal(sessions.findById(before), null);
        Suite.equal(sessions.findByPrincipalName(user).keySet(), Set.of(session.getId()));
    }

    /** The server reports the end of a session that nobody asks for, and the session is still readable then. */
    private void expiry(String user) throws Exception {
        Session session = create(user);
        session.setMaxInactiveInterval(Duration.ofSeconds(1));
        sessions.save(session);
        Session expired = await(SessionExpiredEvent.class, session.getId()).getSession();
        Suite.equal(expired.getAttribute(FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME), user);
        Suite.equal(sessions.findByPrincipalName(user), Map.of());
    }

    private <E extends AbstractSessionEvent> E await(Class<E> kind, String id) throws Exception {
        while (true) {
            AbstractSessionEvent event = events.poll(5, TimeUnit.SECONDS);
            if (event == null) {
                throw new Suite.AssertionFailed("no " + kind.getSimpleName());
            }
            if (kind.isInstance(event) && event.getSessionId().equals(id)) {
                return kind.cast(event);
            }
        }
    }
}
