# frozen_string_literal: true

# What the store does with options, values and their times.

require_relative "support"
require "active_support/core_ext/hash/indifferent_access"

class OptionsTest < StoreTest
  test "wrong option is named" do
    {
      { ttl: 5 } => /\Attl is 5; it must not be given: expires_in/,
      { codec: :json } => /\Acodec is :json; it must be :marshal or :messagepack/,
      { coder: Marshal } => /\Acoder is Marshal; the codec is/,
      { local_cache: 1 } => /\Alocal_cache is 1; it must be true or false/,
      { socket_timeout: 1 } => /"?socket_timeout"?/,
      { memory_bytes: "much" } => /memory_bytes/,
    }.each do |options, message|
      error = assert_raises(Larder::OptionError, options) { store(**options).read("k") }
      assert_match message, error.message
    end
  end

  test "codec marshal needs a secret, at the first call" do
    error = assert_raises(Larder::OptionError) { store(secret: nil).read("k") }
    assert_match(/\Asecret is missing/, error.message)
    assert_raises(Larder::OptionError) { store(secret: "").read("k") }
    assert_raises(Larder::OptionError) { store(secret: []).read("k") }
    assert_nil store(secret: -> { SECRET }).read("k")
    assert_nil store(secret: nil, codec: :messagepack).read("k")
  end

  test "an address that is empty is none" do
    [nil, ""].each do |address|
      cache = ActiveSupport::Cache.lookup_store(:larder_store, address, { name: @name, secret: SECRET })
      cache.write("k", 1)
      assert_equal [1, "memory"], [cache.read("k"), cache.larder.coherence[:mode].to_s]
    end
  end

  test "inspect shows neither the secret nor the address" do
    shown = store(redis: redis, expires_in: 5).inspect
    assert_includes shown, "expires_in"
    assert_not_includes shown, SECRET
    assert_not_includes shown, "redis"
  end

  test "values are kept as they are" do
    cache = store
    binary = Random.bytes(300).b
    latin = "m\u00e4h".encode(Encoding::ISO_8859_1)
    broken = (+"\xFF\xFE").force_encoding(Encoding::UTF_8)
    values = [
      nil, true, false, 0, -1, 2**62, 2**64, -(2**80), 1.5, -0.0, Float::INFINITY, "", "text", "\u00e4", :symbol,
      binary, latin, broken, [], {}, [1, [nil, :a]], { a: 1, "b" => [2], 3 => nil }, 1..5, Time.now, Rational(1, 3), Struct,
      ActiveSupport::SafeBuffer.new("<b>"), { "a" => 1 }.with_indifferent_access, 5.minutes, Date.today
    ]
    values.each_with_index { |value, number| cache.write("key-#{number}", value) }
    2.times do
      values.each_with_index do |value, number|
        found = cache.read("key-#{number}")
        value.nil? ? assert_nil(found) : assert_equal(value, found)
        assert_equal value.class, found.class
        assert_equal value.encoding, found.encoding if value.is_a?(String)
        assert_not found.frozen?, value if value.is_a?(String) || value.is_a?(Array) || value.is_a?(Hash)
      end
    end
  end

  test "raw values are texts, and whole numbers can be added to" do
    cache = store
    texts = ["1", "1".encode("UTF-16LE"), "1\0", "\xff", " 1", "1_0", "+1", "-0", "007", ""]
    values = [*texts, nil, 5, 2**70, 2**63, -(2**63), :a, 1.5]
    values.each do |value|
      cache.write("k", value, raw: true)
      assert_equal value.to_s, cache.read("k", raw: true)
      assert_equal value.to_s, cache.fetch("k", raw: true) { flunk("it is there") }
    end
    assert_equal "7", cache.fetch("n", raw: true) { 7 }
    assert_equal [8, "8"], [cache.increment("n"), cache.read("n", raw: true)]
    cache.write_multi({ "m" => 3 }, raw: true)
    assert_equal [1, { "m" => "1" }], [cache.decrement("m", 2), cache.read_multi("m", raw: true)]
    cache.write("text", "word", raw: true)
    assert_raises(Larder::Error) { cache.increment("text") }
  end

  test "callers do not share what they get" do
    cache = store
    given = { list: [+"a"] }
    cache.write("k", given)
    given[:list] << "b"
    cache.read("k")[:list].first << "c"
    cache.read("k")[:list] << "d"
    assert_equal({ list: ["a"] }, cache.read("k"))
    cache.write("text", "frozen".freeze)
    cache.read("text") << "!"
    assert_equal "frozen", cache.read("text")
  end

  test "view of messagepack is that of other languages" do
    cache = node(codec: :messagepack, secret: nil, view: "product")
    other = Larder::Cache.new(@name, ttl: 60, redis: redis.url)
    view = other.view("product")
    cache.write("apple", { name: "Apple", price: 120 })
    assert_equal({ "name" => "Apple", "price" => 120 }, view.read("apple"))
    view.write("pear", ["a", 1])
    assert_equal ["a", 1], cache.read("pear")
    cache.write(["a", "b"], 1)
    assert_equal 1, view.read("a/b")
    assert_match(/version is "2"/, assert_raises(Larder::OptionError) { cache.write("k", 1, version: 2) }.message)
    assert_raises(Larder::EncodeError) { cache.write("k", Object.new) }
  ensure
    other&.close(0.5)
  end

  test "compression is that of the store" do
    text = "0" * 4_000
    sizes = [{ compress: true }, { compress: false }, {}, { compress: true, compress_threshold: 1.megabyte }].map do |options|
      cache = node(**options, name: "#{@name}-#{options.hash.abs}")
      cache.write("k", text)
      assert_equal text, cache.read("k")
      key = redis.command("KEYS", "#{cache.larder.namespace}:rails:*").first
      redis.command("STRLEN", key)
    end
    assert_operator sizes[0], :<, 1_000
    assert(sizes[1..].all? { |size| size > 4_000 }, sizes)
  end
end

class PageTest < ActiveSupport::TestCase
  PAGE = File.read(File.expand_path("../../../../docs/rails.md", __dir__))

  test "the page for users names each option and each call" do
    settings = ActiveSupport::Cache::LarderStore::Settings
    added = ActiveSupport::Cache::LarderStore.public_instance_methods - ActiveSupport::Cache::Store.public_instance_methods
    names = settings::OWN.keys + settings::OF_RAILS + added
    assert_equal %i[invalidate_on_commit invalidate_tags larder], added.sort
    assert_equal([], names.reject { |name| PAGE.match?(/`#{name}\b/) })
  end
end

class TimesTest < StoreTest
  test "expires_in and expires_at are times to live" do
    cache = store(expires_in: 1.0)
    cache.write("default", 1)
    cache.write("for ever", 1, expires_in: nil)
    cache.write("longer", 1, expires_in: 1.hour)
    cache.write("at", 1, expires_at: Time.now + 1.0)
    cache.write("later", 1, expires_at: 1.hour.from_now)
    cache.write_multi({ "multi" => 1 }, expires_in: 1.0)
    cache.fetch("fetched", expires_in: 1.0) { 1 }
    all = ["default", "for ever", "longer", "at", "later", "multi", "fetched"]
    assert_equal all, cache.read_multi(*all).keys
    eventually("they expire") { cache.read_multi("default", "at", "multi", "fetched").empty? }
    assert_equal ["for ever", "longer", "later"], cache.read_multi(*all).keys
  end

  test "what would have expired is not stored" do
    cache = store
    cache.write("k", 1)
    assert cache.write("k", 2, expires_in: 0)
    assert_nil cache.read("k")
    cache.write("k", 1)
    cache.write_multi({ "k" => 2 }, expires_at: 1.minute.ago)
    assert_not cache.exist?("k")
    assert_equal [1, 2], Array.new(2) { |turn| cache.fetch("k", expires_in: -1) { turn + 1 } }
    assert_not cache.exist?("k")
  end

  test "with race_condition_ttl one caller loads and the others get the stale value" do
    cache = store
    cache.fetch("k", expires_in: 0.1, race_condition_ttl: 30) { "old" }
    eventually("it is stale") { cache.read("k").nil? }
    loading, go_on = Queue.new, Queue.new
    leader = Thread.new { cache.fetch("k", expires_in: 60, race_condition_ttl: 30) { loading << true; go_on.pop; "new" } }
    loading.pop
    others = in_threads(5) { cache.fetch("k", expires_in: 60, race_condition_ttl: 30) { flunk("another load") } }
    assert_equal ["old"] * 5, others
    go_on << true
    assert_equal "new", leader.value
    assert_equal "new", cache.fetch("k") { flunk("it is there") }
  end

  test "with race_condition_ttl a block that raises is answered by the stale value" do
    cache, calls = store, 0
    cache.fetch("k", expires_in: 0.1, race_condition_ttl: 30) { "old" }
    eventually("it is stale") { cache.read("k").nil? }
    3.times do
      assert_equal "old", cache.fetch("k", expires_in: 60, race_condition_ttl: 30) { calls += 1; raise "away" }
    end
    assert_equal 1, calls, "it counts as fresh for a while"
  end

  test "without race_condition_ttl an expired value is not served" do
    cache = store
    cache.fetch("k", expires_in: 0.1) { "old" }
    eventually("it is expired") { cache.read("k").nil? }
    assert_equal "away", assert_raises(RuntimeError) { cache.fetch("k") { raise "away" } }.message
  end
end
