# frozen_string_literal: true

# What is read is equal to what was written, and of the same class, from every tier.

require_relative "support"
require "bigdecimal"
require "date"
require "set"

class ValuesTest < LarderTest
  KEYS = ["k" * 16].freeze
  PRIVATE = { codec: :marshal, keys: KEYS }.freeze
  VALUES = [
    nil, true, false, 0, -1, 2**30, 2**31, 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**62), -(2**62) - 1, -(2**63),
    0.0, -0.0, 1.5, 5e-324, 1.7976931348623157e308, Float::INFINITY, -Float::INFINITY, Float::NAN,
    "", "äpfel", "\0", "x" * 23, "x" * 24, "x" * 10_000, "".b, "\xff\x00".b, "apple".b,
    [], {}, [1, [2, [3, { "four" => [nil] }]]],
    { "name" => "apple", "price" => 3, "tags" => ["fruit"], "weight" => 0.5, "" => nil },
    Time.at(0).utc, Time.at(1, 123_456_789, :nsec).utc, Time.at(-1, 1, :nsec).utc, Time.utc(1, 1, 1), Time.utc(9999, 12, 31, 23, 59, 59),
    Time.at(2**40).utc
  ].freeze

  def test_value_is_equal_and_of_the_same_class_from_block_memory_and_redis
    [{}, { shared: true }, PRIVATE, { shared: true, **PRIVATE }].each_with_index do |options, number|
      writer = make_cache.view("value-#{number}", **options)
      reader = make_cache.view("value-#{number}", **options)
      VALUES.each_with_index do |value, key|
        loaded = writer.fetch(key) { value }
        remembered = writer.fetch(key) { flunk("it is in memory") }
        from_redis = reader.fetch(key) { flunk("it is in redis") }
        [loaded, remembered, from_redis, reader.hit(key), reader.read(key)].each do |found|
          assert_equal shape(value), shape(found), options
        end
      end
    end
  end

  def test_value_of_a_json_view_is_equal_from_every_tier_and_read_by_other_views
    writer, reader = make_cache.view("value", codec: :json), make_cache.view("value", codec: :json)
    other = make_cache.view("value")
    values = VALUES.reject do |value|
      value.is_a?(Time) || (value.is_a?(Float) && !value.finite?) || (value.is_a?(String) && value.encoding == Encoding::BINARY)
    end
    values.each_with_index do |value, key|
      loaded = writer.fetch(key) { value }
      [loaded, writer.hit(key), reader.read(key), other.read(key)].each { |found| assert_equal shape(value), shape(found) }
    end
    { { "a" => ["x".b << 255] } => "at $.a[0]: JSON has no bytes",
      Time.at(0) => "at $: JSON has no points in time",
      [Float::NAN] => "at $[0]: JSON has no numbers that are not finite" }.each do |value, part|
      assert_includes assert_raises(Larder::EncodeError) { writer.write("refused", value) }.message, part
    end
  end

  def test_symbols_and_strings_of_ascii_are_text
    view = make_cache.view("value")
    view.write("k", { fruit: :apple, "encoded" => "apple".encode("US-ASCII"), "kana" => "a".encode("Shift_JIS") })
    found = view.read("k")
    assert_equal({ "fruit" => "apple", "encoded" => "apple", "kana" => "a" }, found)
    assert_equal [Encoding::UTF_8], found.flatten.map(&:encoding).uniq
    view.write("binary", { "apple".b => "apple".b })
    assert_equal shape({ "apple" => "apple".b }), shape(view.read("binary"))
    view.write("local", Time.at(5, in: "+09:00"))
    assert_equal [Time.at(5), true], [view.read("local"), view.read("local").utc?]
  end

  def test_changed_object_changes_no_other_callers
    [{}, PRIVATE].each_with_index do |options, number|
      view = make_cache.view("value-#{number}", **options)
      value = { "names" => [+"apple"] }
      view.write("k", value)
      value["names"] << "changed by its writer"
      view.read("k")["names"] << "changed by a reader"
      view.read("k")["names"].first << "changed too"
      assert_equal({ "names" => ["apple"] }, view.read("k"))
      view.write("text", "apple")
      view.read("text") << "changed"
      assert_equal "apple", view.read("text")
    end
  end

  def test_shared_view_returns_one_object_which_is_frozen_throughout
    [{}, PRIVATE].each_with_index do |options, number|
      view = make_cache.view("value-#{number}", shared: true, **options)
      view.write("k", { "names" => ["apple".dup, { "time" => Time.now }], "bytes" => "\xff".b })
      found = view.read("k")
      assert_same found, view.read("k")
      assert_same found, view.hit("k")
      assert Ractor.shareable?(found)
      assert_raises(FrozenError) { found["names"].last["more"] = 1 }
      view.write("set", Set["apple"]) if number == 1
      assert_predicate view.read("set"), :frozen?
    end
  end

  Point = Struct.new(:x, :y)

  class Named < Hash; end

  class Text < String; end

  def test_value_that_other_languages_do_not_read_is_refused_where_it_is_written
    view = make_cache.view("value")
    endless = []
    endless << { "more" => endless }
    {
      BigDecimal("1") => "a value of class BigDecimal",
      { "a" => [1, Set[2, 3]] } => "at $.a[1]: a value of class Set",
      { 1 => 2 } => "a key of class Integer",
      { nil => 2 } => "a key of class NilClass",
      { "\xff".b => 2 } => "a key that is not UTF-8",
      { "\xff" => 2 } => "a key that is not UTF-8",
      2**64 => "an integer outside of",
      -(2**63) - 1 => "an integer outside of",
      2**200 => "an integer outside of",
      -(2**64) => "an integer outside of",
      Point.new(1, 2) => "a value of class ValuesTest::Point",
      Named.new => "a value of class ValuesTest::Named",
      Text.new("a") => "a value of class ValuesTest::Text",
      Date.today => "a value of class Date",
      "\xff" => "no valid UTF-8",
      "größe".encode("ISO-8859-1") => "a string that is not UTF-8",
      "größe".encode("UTF-16LE") => "a string that is not UTF-8",
      (1..2) => "a value of class Range",
      BasicObject => "a value of class Class",
      endless => "128 lists and maps"
    }.each do |value, part|
      [-> { view.write("key", value) }, -> { view.fetch("key") { value } }, -> { view.add("key", value) }].each do |write|
        assert_includes assert_raises(Larder::EncodeError, &write).message, part
      end
      assert_nil view.read("key")
      # The refused load holds up nobody.
      assert_equal 1, view.fetch("key") { 1 }
      view.delete("key")
    end
  end

  def test_basic_object_is_refused
    assert_raises(Larder::EncodeError) { memory.view("value").write("key", BasicObject.new) }
  end

  def test_deepest_value_is_written_and_read_in_a_fiber_too
    deepest = 127.times.inject(1) { |inner, number| number.odd? ? [inner] : { "k" => inner } }
    work = lambda do
      view = memory.view("value")
      view.write("deep", deepest)
      assert_equal deepest, view.read("deep")
      deeper = [{ "k" => [{ "k" => deepest }] }]
      assert_raises(Larder::EncodeError) { view.write("deeper", deeper) }
      true
    end
    assert work.call
    assert Fiber.new(&work).resume
    assert Thread.new(&work).value
  end

  def test_too_long_value_is_refused_before_it_is_stored
    [{}, PRIVATE].each_with_index do |options, number|
      view = make_cache(max_value_bytes: "1KiB").view("value-#{number}", **options)
      ["x" * 2000, ["x" * 2000]].each do |long|
        assert_match(/1024 bytes/, assert_raises(Larder::EncodeError) { view.write("key", long) }.message)
      end
      assert_nil view.read("key")
    end
  end

  def test_private_view_keeps_objects_of_ruby
    writer = make_cache.view("value", **PRIVATE)
    reader = make_cache.view("value", **PRIVATE)
    with_variable = +"apple"
    with_variable.instance_variable_set(:@colour, "red")
    values = [
      BigDecimal("1.5"), Set[1, 2], Point.new(1, 2), 2**80, Named.new.update(a: 1), Text.new("a"), :apple, { 1 => :b }, 1..2,
      "größe".encode("ISO-8859-1"), "a".encode("US-ASCII"), "\xff", with_variable, Class, [+"a"] * 2
    ]
    values.each_with_index do |value, key|
      writer.write(key, value)
      found = reader.read(key)
      assert_equal Marshal.dump(value), Marshal.dump(found)
      assert_equal value.class, found.class
    end
    assert_equal 3, [writer.write("n", 1), writer.increment("n", 2)].last
    error = assert_raises(Larder::EncodeError) { writer.write("k", proc {}) }
    assert_match(/_dump_data is defined for class Proc/, error.message)
  end

  def test_private_view_gives_back_what_marshal_would
    view = make_cache.view("value", **PRIVATE)
    twice = +"apple"
    with_default = Hash.new(7).update("a" => 1)
    by_identity = {}.compare_by_identity.update("a" => 1)
    extended = [1].extend(Comparable)
    own = []
    own.instance_variable_set(:@a, 1)
    endless = []
    endless << endless
    deep = 300.times.inject("x") { |inner, _| [inner] }
    values = [
      { "name" => "apple", "tags" => ["red", nil, 1.5, true], "bytes" => "\xff".b }, [[], {}, ["a"]], { a: 1 }, { "a" => { b: 1 } },
      { 1 => 2 }, { "k".b => 1 }, [twice, twice], with_default, by_identity, extended, own, endless, deep, ["größe".encode("UTF-16LE")],
      [2**70], [Time.at(5)], ["\xff"], { "a" => Point.new(1, 2) }
    ]
    values.each_with_index do |value, key|
      view.write(key, value)
      assert_equal Marshal.dump(Marshal.load(Marshal.dump(value))), Marshal.dump(view.read(key)), value.inspect[0, 60]
    end
    found = view.read(values.index(with_default))
    assert_equal [7, true], [found["none"], view.read(values.index(by_identity)).compare_by_identity?]
    same = view.read(6)
    assert_same same.first, same.last
    assert_kind_of Comparable, view.read(values.index(extended))
  end

  # As ActiveSupport, which loads a class that is not there yet.
  def test_class_that_marshal_loads_itself_is_found
    program = <<~'RUBY'
      module Loads
        def load(*words)
          super
        rescue ArgumentError => error
          raise unless error.message.include?("undefined class/module Later")

          Object.const_set(:Later, Struct.new(:a))
          super
        end
      end
      Marshal.singleton_class.prepend(Loads)
      view = Larder::Cache.new("later", ttl: 60).view("v", codec: :marshal, keys: ["k" * 16])
      Later = Struct.new(:a)
      view.write("k", Later.new(1))
      Object.__send__(:remove_const, :Later)
      p view.read("k").to_a
    RUBY
    assert_equal "[1]\n", assert_program(program)
  end

  def test_value_that_no_key_has_signed_is_never_read
    new, old, other = %w[n o x].map { |letter| letter * 16 }
    make_cache.view("value", codec: :marshal, keys: [old]).write("k", Set[1, 2])
    assert_equal Set[1, 2], make_cache.view("value", codec: :marshal, keys: [new, old]).read("k")
    stranger = make_cache.view("value", codec: :marshal, keys: [other])
    assert_nil stranger.read("k")
    assert_equal Set[3], stranger.fetch("k") { Set[3] }
  end

  def test_value_moved_to_another_key_is_loaded_anew
    make_cache.view("value", **PRIVATE).write("alice", Set["admin"])
    moved = redis.command("GET", "#{namespace}:value:alice")
    redis.command("SET", "#{namespace}:value:bob", moved)
    victim = make_cache.view("value", **PRIVATE)
    assert_nil victim.read("bob")
    assert_nil victim.hit("bob")
    assert_equal Set["user"], victim.fetch("bob") { Set["user"] }
    assert_equal Set["user"], victim.read("bob")
  end

  def test_class_that_does_not_exist_any_more_is_a_miss
    ValuesTest.const_set(:Removed, Struct.new(:a))
    make_cache.view("value", **PRIVATE).write("k", ValuesTest::Removed.new(1))
    reader = make_cache.view("value", **PRIVATE)
    ValuesTest.__send__(:remove_const, :Removed)
    lines = logged do
      3.times { assert_equal "default", reader.read("k", "default") }
      assert_equal "new", reader.fetch("k") { "new" }
    end
    assert_equal "new", reader.read("k")
    assert_match(/the value of key "k" cannot be read: undefined class.*Removed/, lines.join)
    assert_equal 1, lines.length, "it says so once"
  end

  def test_older_schema_is_a_miss
    make_cache.view("value", schema: ["product", 1]).write("k", 1)
    assert_nil make_cache.view("value", schema: ["product", 2]).read("k")
    assert_equal 1, make_cache.view("value", schema: ["product", 1]).read("k")
  end

  def test_error_in_a_rescue_leaves_what_was_raised_there
    view = memory.view("value", **PRIVATE)
    ValuesTest.const_set(:Gone, Struct.new(:a))
    view.write("k", ValuesTest::Gone.new(1))
    ValuesTest.__send__(:remove_const, :Gone)
    error = assert_raises(RuntimeError) do
      raise "own"
    rescue RuntimeError
      logged { view.read("k") }
      raise
    end
    assert_equal "own", error.message
  end
end
