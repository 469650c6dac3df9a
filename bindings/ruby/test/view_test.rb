# frozen_string_literal: true

# Each call of a view, with Redis and without.

require_relative "support"

class ViewTest < LarderTest
  # With each set of tiers.
  def each_view
    [{}, { redis: nil }].each_with_index { |options, number| yield make_cache(**options).view("value-#{number}") }
  end

  def test_each_call_does_what_it_says
    each_view do |view|
      assert_nil view.read("k")
      assert_equal 7, view.read("k", 7)
      assert_equal false, view.exist?("k")
      assert_equal true, view.write("k", 1)
      assert_equal [1, 1, true], [view.read("k", 7), view.hit("k"), view.exist?("k")]
      assert_equal false, view.add("k", 2)
      assert_equal true, view.add("l", 2, ttl: 60)
      assert_in_delta 60, view.ttl("l"), 1
      assert_equal true, view.touch("l", ttl: 100)
      assert_in_delta 100, view.ttl("l"), 1
      assert_equal false, view.touch("nothing", ttl: 100)
      assert_nil view.ttl("nothing")
      assert_equal [2, -3], [view.increment("k"), view.increment("k", -5)]
      assert_nil view.increment("n")
      assert_equal [10, 11], [view.increment("n", initial: 10), view.increment("n", initial: 10)]
      assert_equal true, view.write_multi({ "a" => 1, "b" => [2], 3 => nil })
      assert_equal({ "a" => 1, "b" => [2], 3 => nil }, view.read_multi("a", "b", 3, "nothing", "a"))
      assert_equal [1, "gone"], [view.take("a"), view.take("a", "gone")]
      assert_equal [true, false], [view.delete("b"), view.delete("b")]
      assert_equal 2, view.delete_multi(["b", 3, "k"])
      assert_equal 5, view.fetch("k") { 5 }
      assert_equal 5, view.fetch("k") { 6 }
      assert_equal 6, view.fetch("k", refresh: true) { 6 }
      assert_equal({ "k" => 6, "m" => "M" }, view.fetch_multi("k", "m") { |keys| keys.to_h { |key| [key, key.upcase] } })
      assert_equal({ "y" => 1 }, view.fetch_multi("x", "y") { { "y" => 1 } })
      assert_equal [true, true], view.delete_with_reach("k")
      assert_equal [false, true], view.delete_with_reach("k")
    end
  end

  def test_hit_returns_nil_and_false_as_they_are
    each_view do |view|
      view.write_multi({ "nil" => nil, "false" => false })
      assert_equal [nil, false], [view.hit("nil", 7), view.hit("false", 7)]
      assert_nil view.fetch("nil") { flunk }
      assert_equal false, view.fetch("false") { flunk }
      assert_equal [nil, 7], [view.hit("nothing"), view.hit("nothing", 7)]
      assert_nil view.take("nil", 7)
    end
  end

  def test_tags_and_patterns_invalidate
    cache = make_cache
    view = cache.view("value")
    other = make_cache.view("value")
    view.write("a", 1, tags: ["fruit"])
    view.fetch("b", tags: [:fruit]) { 2 }
    view.fetch("c") do |load|
      load.tag("fruit", "red")
      3
    end
    view.write("d", 4)
    all = { "a" => 1, "b" => 2, "c" => 3, "d" => 4 }
    assert_equal all, other.read_multi(*all.keys)
    assert_equal true, cache.invalidate_tags("fruit")
    assert_equal({ "d" => 4 }, view.read_multi(*all.keys))
    eventually("the other node hears of it") { other.read_multi(*all.keys) == { "d" => 4 } }
    # The bytes that the tag has invalidated are there until they expire.
    assert_equal 4, cache.delete_matched("value:*")
    view.write("d", 4)
    assert_equal true, cache.clear
    assert_nil view.read("d")
    assert_equal 0, cache.drain
  end

  def test_keys_of_two_classes_with_the_same_bytes_have_one_value
    each_view do |view|
      view.write(:apple, 1)
      assert_equal({ "apple" => 1, :apple => 1 }, view.read_multi("apple", :apple))
      asked = []
      loaded = view.fetch_multi(:pear, "pear", 17, "17") do |missing|
        asked = missing
        missing.to_h { |key| [key, key.to_s] }
      end
      assert_equal [:pear, 17], asked
      assert_equal({ :pear => "pear", "pear" => "pear", 17 => "17", "17" => "17" }, loaded)
    end
  end

  def test_key_of_a_wrong_class_names_it
    recursive = []
    recursive << recursive
    utf16 = "größe".encode("UTF-16LE")
    each_view do |view|
      [nil, 1.5, [], {}, ["a", nil], Object.new, Time.now, recursive, utf16, [utf16], utf16.to_sym].each do |key|
        [
          -> { view.read(key) },
          -> { view.hit(key) },
          -> { view.write(key, 1) },
          -> { view.fetch(key) { flunk } },
          -> { view.delete(key) },
          -> { view.read_multi(key) },
          -> { view.fetch_multi(key) { flunk } },
          -> { view.write_multi({ key => 1 }) }
        ].each do |wrong|
          error = assert_raises(Larder::KeyTypeError, &wrong)
          assert_match(/ is of class #{key.class}; it must be a String of UTF-8 or bytes, a Symbol/, error.message)
        end
      end
    end
  end

  def test_times_are_numbers_durations_or_text
    view = memory.view("value")
    [90, 90.0, 90r, "90s", "1.5m", Duration.new(90)].each do |ttl|
      view.write("k", 1, ttl: ttl)
      assert_in_delta 90, view.ttl("k"), 1
    end
    [-1, Float::NAN, Float::INFINITY, true, "soon", [], Object, 2**70].each do |ttl|
      error = assert_raises(Larder::OptionError) { view.write("k", 1, ttl: ttl) }
      assert_match(/\Attl is /, error.message)
    end
  end

  # As ActiveSupport::Duration: it says it is a number, and is none.
  class Duration
    def initialize(seconds)
      @seconds = seconds
    end

    def is_a?(kind)
      kind == Duration || @seconds.is_a?(kind)
    end

    def to_f
      @seconds.to_f
    end
  end

  def test_options_of_a_cache_are_those_of_larder
    assert_refused(/did you mean max_lag/) { Larder::Cache.new("shop", ttl: 1, max_lagg: 1) }
    assert_refused(/needs a time to live/) { Larder::Cache.new("shop") }
    assert_refused(/namespace/) { Larder::Cache.new("a:b", ttl: 1) }
    assert_refused(/the namespace is 7/) { Larder::Cache.new(7, ttl: 1) }
    assert_equal "shop", Larder::Cache.new("shop", ttl: Duration.new(300), grace: 0.5, sentinel_fence: false).namespace
    # As in a program that Unicorn evaluates.
    assert_equal "shop", Larder::Cache.new("shop".b, ttl: "5m".b, memory_bytes: "16MiB".b).namespace
    assert_equal "shop", Larder::Cache.new(:shop, ttl: "5m", redis: nil).namespace
  end

  def test_options_of_a_view_are_checked
    cache = memory
    assert_refused(/must be a name without/) { cache.view("b:c") }
    assert_refused(/the name of a schema/) { cache.view("b", schema: ["b c", 1]) }
    [["b"], ["b", -1], ["b", 2**32], ["b", 1, 2], "b", [:b, 1]].each do |schema|
      assert_refused(/schema is .*; it must be a name and a number/) { cache.view("b", schema: schema) }
    end
    cache.view("b")
    [{ schema: ["b", 2] }, { codec: :marshal, keys: ["k" * 32] }].each do |other|
      assert_refused(%r{of this cache has schema b/1 and codec 3}) { cache.view("b", **other) }
    end
    assert_equal "b", cache.view("b", ttl: 2).name
    assert_same cache, cache.view(:b).cache
    assert_refused(/there is no option "tll"; did you mean ttl/) { cache.view("c", tll: 2) }
    assert_refused(/codec is :yaml/) { cache.view("c", codec: :yaml) }
    assert_refused(/needs keys/) { cache.view("c", codec: :marshal) }
    assert_refused(/no other codec has keys/) { cache.view("c", keys: ["k" * 16]) }
    assert_refused(/a key has 4 bytes/) { cache.view("c", codec: :marshal, keys: ["tiny"]) }
    assert_refused(/keys is of class String/) { cache.view("c", codec: :marshal, keys: "secret") }
    assert_refused(/keys is of class Array/) { cache.view("c", codec: :marshal, keys: [1]) }
    assert_refused(/negative_ttl/) { cache.view("c", codec: :marshal, keys: ["k" * 16], negative_ttl: 1) }
  end

  def test_options_of_a_call_are_checked
    view = memory.view("value")
    assert_refused(/there is no option "negativ_ttl"/) { view.write("k", 1, negativ_ttl: 1) }
    ["fruit", 7, { "a" => 1 }, [1], ["\xff"]].each do |tags|
      assert_refused(/tags is .*; it must be an array of texts/) { view.write("k", 1, tags: tags) }
    end
    require "set"
    assert view.write("k", 1, tags: Set["fruit"], ttl: nil)
    [1.5, -0.1, "x", true].each { |share| assert_refused(/jitter is /) { view.write("k", 1, jitter: share) } }
    assert_refused(/by is 1.5; it must be an Integer of 64 bits/) { view.increment("k", 1.5) }
    assert_refused(/initial is /) { view.increment("k", initial: 2**63) }
  end

  def assert_refused(pattern, &block)
    assert_match pattern, assert_raises(Larder::OptionError, &block).message
  end

  def test_objects_cannot_be_made_without_a_cache
    assert_raises(NoMethodError) { Larder::View.new }
    [Larder::Cache, Larder::View, Larder::Load, Larder::BulkLoad].each do |kind|
      assert_raises(TypeError, NoMethodError) { kind.allocate }
    end
    view = memory.view("value")
    assert_raises(TypeError) { Larder::View.instance_method(:hit).bind_call(Object.new, 1) }
    assert_raises(TypeError) { view.dup }
    assert_raises(TypeError) { Marshal.dump(view) }
    assert_raises(ArgumentError) { view.hit }
    assert_raises(ArgumentError) { view.hit("a", 1, 2) }
    assert_raises(Larder::Error) { Larder::View.__send__(:_open, Object.new, "a", "a", 1, false, "messagepack", nil, {}) }
  end

  def test_counter_that_is_none_is_refused
    each_view do |view|
      view.write("k", "text")
      assert_match(/"k" is no integer/, assert_raises(Larder::Error) { view.increment("k") }.message)
      view.write("k", 2**63 - 1)
      assert_match(/more than 64 bits/, assert_raises(Larder::Error) { view.increment("k") }.message)
      assert_equal 2**63 - 1, view.read("k")
    end
  end

  def test_counter_in_a_cache_of_tiny_values_is_refused_or_counts
    view = make_cache(max_value_bytes: 1).view("value")
    assert_equal 5, view.increment("small", initial: 5)
    assert_raises(Larder::EncodeError) { view.increment("large", initial: 2**40) }
  end

  def test_negative_ttl_is_that_of_nil
    view = make_cache.view("value", ttl: 100, negative_ttl: 10)
    view.fetch("a") { nil }
    view.fetch("b") { 0 }
    assert_operator view.ttl("a"), :<=, 10
    assert_operator view.ttl("b"), :>, 10
    assert_nil view.fetch("a") { flunk }
  end

  def test_stale_value_is_served_while_the_block_fails
    view = make_cache.view("value", ttl: 0.05, grace: 60, retry_after: 0)
    view.write("k", 1)
    sleep 0.1
    seen = []
    served = view.fetch("k") do |load|
      seen << load.stale
      raise "broken"
    end
    assert_equal [1, [1]], [served, seen]
    assert_equal 1, view.fetch("k") { Larder::KEEP }
    assert_equal "broken", assert_raises(RuntimeError) { view.fetch("other") { raise "broken" } }.message
    error = assert_raises(Larder::Error) { view.fetch("other") { Larder::KEEP } }
    assert_match(/NotModified without a stale value/, error.message)
  end

  def test_load_sets_options_of_its_value
    each_view do |view|
      view.fetch("k") do |load|
        load.ttl = 10
        load.grace = "1m"
        assert_nil load.stale
        1
      end
      assert_in_delta 10, view.ttl("k"), 1
      view.fetch_multi("a", "b") do |missing, load|
        load.ttl = 10
        load.tag(:fruit)
        missing.to_h { |key| [key, 1] }
      end
      assert_in_delta 10, view.ttl("a"), 1
      view.cache.invalidate_tags(:fruit)
      assert_empty view.read_multi("a", "b")
    end
  end

  def test_value_that_is_not_to_be_stored_is_returned
    each_view do |view|
      value = view.fetch("k") do |load|
        load.no_store!
        1
      end
      assert_equal [1, nil], [value, view.read("k")]
    end
  end

  def test_load_that_has_ended_says_so
    view = memory.view("value")
    left = nil
    view.fetch("k") { |load| (left = load) && 1 }
    [-> { left.stale }, -> { left.ttl = 1 }, -> { left.tag("a") }, -> { left.no_store! }, -> { left._complete(1) }].each do |call|
      assert_match(/the load has ended/, assert_raises(Larder::Error, &call).message)
    end
  end

  def test_fetch_without_a_block_is_an_error_where_nothing_is_there
    each_view do |view|
      view.write("k", 1)
      assert_equal 1, view.fetch("k")
      assert_raises(ArgumentError) { view.fetch("other") }
      assert_raises(ArgumentError) { view.fetch_multi("other") }
      assert_equal 2, view.fetch("other") { 2 }
    end
  end

  def test_statistics_and_coherence_are_told
    cache = make_cache
    view = cache.view("value")
    2.times { view.fetch("k") { 1 } }
    stats = cache.stats
    assert_equal [1, 1, 1], [stats[:loads], stats[:memory][:hits], stats[:redis][:misses]]
    state = cache.coherence.values_at(:mode, :memory_trusted, :pending_invalidations, :problem)
    assert_equal ["full", true, 0, nil], state
    assert_nil memory.stats[:redis]
  end

  def test_cache_that_is_off_loads_each_time
    cache = memory
    view = cache.view("value")
    cache.enabled = false
    values = [0, 1, 2]
    assert_equal [0, 1, 2], Array.new(3) { view.fetch("k") { values.shift } }
    cache.enabled = true
    assert_equal [7, 7], [view.fetch("k") { 7 }, view.fetch("k") { 8 }]
  end

  def test_closed_cache_says_so
    cache = make_cache
    view = cache.view("value")
    view.write("k", 1)
    assert_equal 0, cache.close
    assert_closed cache, view
  end

  def test_cache_that_is_closed_before_its_first_call_does_not_start
    cache = make_cache
    view = cache.view("value")
    threads = Dir.children("/proc/self/task").length
    assert_equal 0, cache.close
    assert_closed cache, view
    assert_equal threads, Dir.children("/proc/self/task").length
  end

  # Each call says so, and starts nothing.
  def assert_closed(cache, view)
    {
      hit: -> { view.hit("k") },
      read: -> { view.read("k") },
      fetch: -> { view.fetch("k") { 1 } },
      fetch_multi: -> { view.fetch_multi("k") { {} } },
      write: -> { view.write("k", 1) },
      increment: -> { view.increment("k", initial: 1) },
      delete: -> { view.delete("k") },
      view: -> { cache.view("other") },
      tags: -> { cache.invalidate_tags("t") },
      clear: -> { cache.clear },
      drain: -> { cache.drain },
      stats: -> { cache.stats },
      coherence: -> { cache.coherence },
      enabled: -> { cache.enabled = false }
    }.each { |name, call| assert_raises(Larder::CacheClosed, name.to_s, &call) }
    assert_equal 0, cache.close
  end
end
