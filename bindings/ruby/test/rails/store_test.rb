# frozen_string_literal: true

# Removals, the local cache, events, and a Redis that is away.

require_relative "support"

class RemovalTest < StoreTest
  test "delete_matched takes globs and what Regexp says the same" do
    {
      "fo*" => %w[foo foo/bar], "*o?" => %w[foo], /oo/ => %w[foo foo/bar], /^fo/ => %w[foo foo/bar], /bar$/ => %w[foo/bar],
      /\Afoo\z/ => %w[foo], %r{^foo/.*r} => %w[foo/bar], /a\*b/ => %w[a*b], /a\.b/ => [], "a\\*b" => %w[a*b], "[f]u" => %w[fu],
      /ü/ => %w[ü]
    }.each do |pattern, removed|
      [store(namespace: "n*"), node(namespace: "n*")].each do |cache|
        names = %w[foo fu foo/bar a*b a-b ü]
        cache.write_multi(names.to_h { |name| [name, 1] })
        cache.write("foo", 1, namespace: "nx")
        cache.delete_matched(pattern)
        assert_equal names - removed, cache.read_multi(*names).keys, pattern.inspect
        assert cache.exist?("foo", namespace: "nx")
      end
    end
    [/oo/i, /a|b/, /[ab]/, /a+/, /a.b/, /(a)/, /\d/, /a{2}/, /a*/, /a.*?/, /\*+/, 5].each do |pattern|
      assert_raises(ArgumentError, pattern.inspect) { store.delete_matched(pattern) }
    end
  end

  test "clear removes the namespace, or everything" do
    cache = node
    cache.write("a", 1)
    cache.write("a", 1, namespace: "one")
    cache.write("a", 1, namespace: "two")
    cache.clear(namespace: "one")
    assert_equal([true, false, true], [nil, "one", "two"].map { |namespace| cache.exist?("a", namespace: namespace) })
    cache.clear
    assert_not cache.exist?("a") || cache.exist?("a", namespace: "two")
  end

  test "tags invalidate on every node" do
    cache, other = node, node
    cache.write("a", 1, tags: :red)
    cache.fetch("b", tags: %w[red green]) { 2 }
    cache.write_multi({ "c" => 3 }, tags: ["green"])
    assert_equal({ "a" => 1, "b" => 2, "c" => 3 }, other.read_multi("a", "b", "c"))
    assert_equal true, cache.invalidate_tags("red")
    assert_equal({ "c" => 3 }, cache.read_multi("a", "b", "c"))
    eventually("the other one knows") { other.read_multi("a", "b", "c") == { "c" => 3 } }
  end

  test "a namespace may be a Proc, and any bytes are a key" do
    namespace = "one"
    cache = store(namespace: -> { namespace })
    cache.write("k", 1)
    namespace = "two"
    assert_nil cache.read("k")
    broken = "\xFF\x00:\xC3"
    cache.write(broken, 2)
    assert_equal [2, { broken => 2 }], [cache.read(broken.b), cache.read_multi(broken)]
    assert_equal({ broken => 2 }, cache.fetch_multi(broken) { flunk("it is there") })
    cache.write(nil, 3)
    assert_equal 3, cache.read("")
    cache.write(:symbol, 4)
    assert_equal 4, cache.read("symbol")
  end
end

class RequestCacheTest < StoreTest
  test "a request sees one value although others change it" do
    cache, other = node(local_cache: true), node
    cache.write("k", 1)
    cache.with_local_cache do
      assert_equal 1, cache.read("k")
      other.write("k", 2)
      eventually("the node knows") { cache.send(:bypass_local_cache) { cache.read("k") } == 2 }
      assert_equal [1, 1, { "k" => 1 }], [cache.read("k"), cache.fetch("k") { 3 }, cache.read_multi("k")]
      cache.invalidate_tags("any")
      assert_equal 2, cache.read("k")
    end
    assert_equal 2, cache.read("k")
  end

  test "a request sees one value however it reads it" do
    cache, other = node(local_cache: true), node
    reads = [->(name) { cache.read(name) }, ->(name) { cache.fetch(name) { flunk("it is there") } },
      ->(name) { cache.read_multi(name)[name] }, ->(name) { cache.fetch_multi(name) { flunk("it is there") }[name] }]
    reads.product([true, false]).each_with_index do |(read, in_memory), number|
      name = "k-#{number}"
      other.write(name, "old")
      assert_equal "old", cache.read(name) if in_memory
      cache.with_local_cache do
        assert_equal "old", read.call(name)
        other.write(name, "new")
        eventually("the node knows") { cache.send(:bypass_local_cache) { cache.read(name) } == "new" }
        assert_equal(["old"] * 4, reads.map { |again| again.call(name) })
      end
    end
  end

  test "requests of several threads load once" do
    cache, calls = node(local_cache: true), Queue.new
    answers = in_threads(10) do
      cache.with_local_cache { [cache.fetch("k") { calls << 1; sleep 0.1; [+"value"] }, cache.read("k")] }
    end
    assert_equal [[["value"], ["value"]]] * 10, answers
    assert_equal 1, calls.size
  end

  test "without the option there is none" do
    assert_not_respond_to store, :middleware
  end
end

class EventsTest < StoreTest
  test "operations have events only if somebody listens" do
    cache, events = store, []
    assert_not_called(cache, :instrument) { cache.fetch("a") { 1 } && cache.read("a") && cache.write("a", 1) }
    ActiveSupport::Notifications.subscribed(->(*arguments) { events << arguments }, /\.active_support\z/) do
      cache.fetch("b", expires_in: 5) { 1 }
      cache.fetch("b") { 2 }
      cache.invalidate_tags("t")
      cache.delete_matched(/x/)
    end
    names = %w[cache_read cache_generate cache_write cache_read cache_fetch_hit cache_invalidate_tags cache_delete_matched]
    assert_equal(names, events.map { |name, *| name.delete_suffix(".active_support") })
    payloads = events.map(&:last)
    assert_equal([false, true], payloads.filter_map { |payload| [payload[:hit]] if payload.key?(:hit) }.flatten)
    assert_equal 5, payloads.first[:expires_in]
  end

  test "the logger gets what Rails logs" do
    output = StringIO.new
    cache = store(namespace: "n")
    cache.logger = ActiveSupport::Logger.new(output)
    cache.fetch("k") { 1 }
    logged = output.string.lines.map { |line| line[/Cache \w+: \S+/] }
    assert_equal ["Cache read: n:k", "Cache generate: n:k", "Cache write: n:k"], logged
    output.reopen(+"")
    cache.mute { cache.fetch("k") { 1 } }
    assert_empty output.string
    cache.write_multi({ "a" => 1, [:b, 2] => 2 })
    assert_equal [2, true], [cache.delete_multi(["a", [:b, 2]]), cache.invalidate_tags("t")]
    assert_equal [true, 1, 1], [cache.write("n", 0), cache.increment("n"), cache.delete_matched("n")]
    cache.fetch_multi("x", "y") { 1 } && cache.read_multi("x") && cache.exist?("x") && cache.delete("x")
    cache.clear
    assert_equal 11, output.string.lines.size, output.string
  end
end

class FailureTest < StoreTest
  # A server that the test may stop.
  def setup
    @server = RedisServer.new
  end

  def teardown
    @server.remove
  end

  test "without Redis reads miss, blocks run and changes are queued" do
    errors = []
    handler = ->(method:, returning:, exception:) { errors << [method, returning, exception.class] }
    cache = store(redis: @server, disconnected: 0, error_handler: handler)
    cache.write("k", 1)
    @server.pause
    assert_equal false, cache.write("k", 2)
    assert_nil cache.read("unknown")
    assert_equal({}, cache.read_multi("unknown"))
    assert_equal 5, cache.fetch("other") { 5 }
    assert_equal({ "a" => "aa" }, cache.fetch_multi("a") { "aa" })
    assert_equal false, cache.write("new", 1, unless_exist: true)
    assert_nil cache.increment("number")
    assert_nil cache.decrement("number")
    assert_nil cache.clear
    assert_equal false, cache.invalidate_tags("t")
    assert_equal false, cache.write_multi({ "a" => 1 })
    assert_equal [false, 0], [cache.delete("unknown"), cache.delete_multi(["unknown"])]
    cache.delete_matched("a*")
    methods = %i[write write increment increment clear invalidate_tags write_multi delete delete_multi delete_matched]
    assert_equal(methods, errors.map(&:first))
    assert(errors.all? { |*, error| error == Larder::RedisError })
    @server.go_on
    assert_equal 0, cache.larder.drain(10)
    eventually("it answers again") { cache.increment("number") }
  end

  test "the default handler warns, not for each call" do
    output = StringIO.new
    cache = store(redis: @server)
    cache.logger = ActiveSupport::Logger.new(output, level: :warn)
    cache.write("k", 1)
    @server.pause
    3.times { cache.write("k", 2) }
    assert_equal 1, output.string.lines.size, output.string
    assert_match(/LarderStore: write returned false: Larder::RedisError: redis did not confirm/, output.string)
  end

  test "without a logger of the store it is that of larder" do
    cache = store(redis: @server)
    cache.write("k", 1)
    @server.pause
    3.times { cache.delete("k") }
    assert_equal 1, log.string.scan(/LarderStore: delete returned/).size, log.string
  end

  test "a handler may raise" do
    cache = store(redis: @server, error_handler: ->(exception:, **) { raise exception })
    cache.write("k", 1)
    @server.pause
    assert_raises(Larder::RedisError) { cache.write("k", 2) }
    assert_raises(Larder::RedisError) { cache.increment("n") }
  end
end
