# frozen_string_literal: true

# A node in Rust and nodes in Ruby over one Redis: they read each other's values, and serve nothing that the other invalidated.

require_relative "support"
require "json"

# The program in Rust.
class Peer
  def initialize(url, namespace)
    program = ENV.fetch("LARDER_PEER") { raise Minitest::Assertion, "LARDER_PEER names no program: it is an example of larder-host" }
    @pipe = IO.popen([program, url, namespace], "r+")
  end

  def call(*words)
    @pipe.puts(words.join(" "))
    @pipe.gets.chomp
  end

  # Its exit status.
  def end
    @pipe.close_write
    @pipe.close
    $?.exitstatus
  end
end

class LanguagesTest < LarderTest
  APPLE = { "name" => "apple", "price" => 3, "tags" => ["fruit"], "weight" => nil }.freeze
  INTEROP = File.expand_path("../../interop", __dir__)

  def setup
    super
    @peer = Peer.new(redis.url, namespace)
    @products = make_cache.view("product", schema: ["product", 1])
  end

  def teardown
    assert_equal 0, @peer.end
    super
  end

  def test_values_are_written_and_read_as_every_language_does
    written = make_cache.view("golden")
    read = make_cache.view("golden")
    rows = JSON.parse(File.read("#{INTEROP}/values.json"))
    refute_empty rows
    rows.each_with_index do |row, number|
      value = object_of(row["value"])
      assert_equal true, written.write("of-ruby-#{number}", value)
      assert_equal row["messagepack"], @peer.call("payload", "of-ruby-#{number}"), row["name"]
      assert_equal "ok", @peer.call("put", "of-rust-#{number}", row["messagepack"])
      assert_equal shape(value), shape(read.read("of-rust-#{number}", "it is missing")), row["name"]
    end
  end

  def test_keys_have_the_bytes_of_every_language
    rows = JSON.parse(File.read("#{INTEROP}/keys.json"))
    refute_empty rows
    rows.each { |row| assert_equal row["bytes"], Larder.key_bytes(row["key"]).unpack1("H*"), row["key"] }
    view = make_cache.view("key")
    rows.each_with_index do |row, number|
      view.write(row["key"], number)
      name = [row["bytes"]].pack("H*")
      assert_equal 1, redis.command("EXISTS", "#{namespace}:key:".b + name), row["key"]
    end
  end

  def test_each_language_reads_what_the_other_has_written
    assert_equal "ok", @peer.call("write", "apple", "apple", 3)
    assert_equal APPLE, @products.read("apple")
    pear = { **APPLE, "name" => "pear", "price" => 2**63 - 1, "weight" => 0.5 }
    assert_equal true, @products.write("pear", pear)
    assert_equal "pear #{2**63 - 1}", @peer.call("read", "pear")
    # In another order, and with symbols.
    assert_equal [], @products.fetch("plum") { { price: 5, weight: 1.0, tags: [], name: :plum } }["tags"]
    assert_equal "plum 5", @peer.call("read", "plum")
  end

  def test_what_the_other_language_has_no_type_for_is_a_miss
    @products.write("apple", { "name" => "apple" })
    assert_equal "-", @peer.call("read", "apple")
    assert_equal "loaded apple 3", @peer.call("fetch", "apple", "apple", 3, 0)
    # This node has a valid value of its own, and another one reads that of the loader.
    assert_equal({ "name" => "apple" }, @products.read("apple"))
    assert_equal APPLE, make_cache.view("product", schema: ["product", 1]).read("apple")
    assert_nil make_cache.view("product", schema: ["product", 2]).read("apple")
  end

  def test_neither_language_serves_what_the_other_has_invalidated
    20.times do |turn|
      assert_equal "ok", @peer.call("write", "apple", "apple", turn)
      eventually("the value of Rust is seen") { (@products.read("apple") || APPLE)["price"] == turn }
      @products.write("apple", { **APPLE, "price" => turn + 1000 })
      eventually("the value of Ruby is seen") { @peer.call("read", "apple") == "apple #{turn + 1000}" }
    end
    assert_equal "ok", @peer.call("delete", "apple")
    eventually("the deletion is seen") { @products.read("apple").nil? }
  end

  def test_tags_are_those_of_both_languages
    assert_equal "loaded apple 3", @peer.call("fetch", "apple", "apple", 3, 0)
    assert_equal APPLE, @products.read("apple")
    assert_equal true, @products.cache.invalidate_tags("rust")
    eventually("the tag is seen in Rust") { @peer.call("read", "apple") == "-" }
    @products.fetch("pear", tags: ["ruby"]) { { **APPLE, "name" => "pear" } }
    assert_equal "pear 3", @peer.call("read", "pear")
    assert_equal "ok", @peer.call("tag", "ruby")
    eventually("the tag is seen in Ruby") { @products.read("pear").nil? }
  end

  def test_one_caller_of_both_languages_loads
    loads = 0
    5.times do |turn|
      key = "apple-#{turn}"
      in_rust = Thread.new { @peer.call("fetch", key, "apple", 3, 300) }
      eventually("Rust has the lease") { redis.command("EXISTS", "#{namespace}:product:#{key}") == 1 }
      found = @products.fetch(key) do
        loads += 1
        APPLE
      end
      assert_equal [APPLE, "loaded apple 3"], [found, in_rust.value]
    end
    assert_equal 0, loads
  end

  private

  def object_of(value)
    kind, value = value.first
    case kind
    when "list" then value.map { |element| object_of(element) }
    when "map" then value.to_h { |key, element| [key, object_of(element)] }
    when "time" then Time.at(value[0], value[1], :nsec).utc
    when "integer" then Integer(value)
    when "float" then { "inf" => Float::INFINITY, "-inf" => -Float::INFINITY, "nan" => Float::NAN }.fetch(value) { Float(value) }
    when "bytes" then [value].pack("H*")
    else value
    end
  end
end
