# frozen_string_literal: true

# What a store reads of what others have written to Redis: signed values, and classes that are gone, are misses and no danger.

require_relative "support"

class SecretsTest < StoreTest
  # Tells that Marshal has made one.
  class Planted
    class << self
      attr_accessor :loaded
    end

    def marshal_dump
      nil
    end

    def marshal_load(_)
      self.class.loaded = true
    end
  end

  class Product < Struct.new(:name, :price); end

  def setup
    Planted.loaded = nil
  end

  def redis_key
    redis.command("KEYS", "#{@name}:rails:*").first
  end

  # Another node, which has nothing in its memory.
  def reader(**options)
    node(**options)
  end

  test "another secret reads nothing, and loads nothing" do
    node(secret: "of somebody else").write("k", Planted.new)
    assert_nil reader.read("k")
    assert_equal({}, reader.read_multi("k"))
    assert_not reader.exist?("k")
    assert_equal "mine", reader.fetch("k") { "mine" }
    assert_nil Planted.loaded
    assert_equal "mine", reader.read("k")
  end

  test "a value without a signature, or with a changed byte, is a miss and is never loaded" do
    node.write("k", Planted.new)
    written = redis.command("GET", redis_key)
    reader.read("k")
    assert Planted.loaded, "it is loaded if nobody has changed it"
    Planted.loaded = nil
    # The last bytes are those of Marshal. The signature is before them.
    marshalled = Marshal.dump(Planted.new)
    assert_operator written, :end_with?, marshalled
    signed = (written.bytesize - marshalled.bytesize - 1...written.bytesize)
    changed = signed.map { |at| written.dup.tap { |bytes| bytes.setbyte(at, bytes.getbyte(at) ^ 1) } }
    key = redis_key
    [marshalled, Marshal.dump("text"), "", "\x04\x08", written[0...-1], "#{written}i", *changed].each do |bytes|
      redis.command("SET", key, bytes)
      assert_equal "loaded anew", reader.fetch("k") { "loaded anew" }
    end
    assert_nil Planted.loaded
  end

  test "a value that was moved to another key is a miss" do
    cache = node
    cache.write("mine", Planted.new)
    cache.write("yours", 1)
    moved = redis.command("GET", "#{@name}:rails:mine")
    redis.command("SET", "#{@name}:rails:yours", moved)
    assert_nil reader.read("yours")
    assert_nil Planted.loaded
    assert_equal 5, reader.fetch("yours") { 5 }
  end

  test "a list of secrets reads what the old one has signed" do
    node(secret: "old").write("k", [1])
    assert_nil reader(secret: "new").read("k")
    both = reader(secret: %w[new old])
    assert_equal [1], both.read("k")
    both.write("k", [2])
    assert_equal [2], reader(secret: "new").read("k")
    assert_nil reader(secret: "old").read("k")
  end

  test "a class that is gone is a miss" do
    cache, other = node, node
    cache.write("product", Product.new("Apple", 120))
    cache.write("list", [1, { product: Product.new("Apple", 120) }])
    cache.write("number", 5)
    assert_equal 120, cache.read("product").price
    product = self.class.send(:remove_const, :Product)
    begin
      # One has it in memory, one in Redis.
      [cache, other].each do |store|
        assert_nil store.read("product")
        assert_nil store.read("list")
        assert_not store.exist?("product")
        assert_equal({ "number" => 5 }, store.read_multi("product", "list", "number"))
      end
      assert_equal "new", other.fetch("product") { "new" }
      assert_equal({ "list" => "new", "number" => 5 }, other.fetch_multi("list", "number") { "new" })
      assert_match(/the value of key "product" cannot be read: /, log.string)
      # It loads anew, too: the one in its memory cannot be read.
      assert_equal "newer", cache.fetch("product") { "newer" }
      assert_equal "newer", cache.read("product")
    ensure
      self.class.const_set(:Product, product)
    end
  end

  test "a class that nobody has used yet is loaded" do
    Dir.mktmpdir("larder-") do |folder|
      file = File.join(folder, "lazy.rb")
      File.write(file, "class SecretsTest::Lazy < Struct.new(:name); end")
      [node, reader].each_with_index do |store, turn|
        self.class.autoload(:Lazy, file)
        store.write("k", [Lazy.new("of a file")]) if turn.zero?
        assert_equal "of a file", store.read("k").first.name
        self.class.send(:remove_const, :Lazy)
        $LOADED_FEATURES.delete(file)
      end
    end
  end

  test "a class that has changed its fields is a miss" do
    node.write("product", Product.new("Apple", 120))
    product = self.class.send(:remove_const, :Product)
    begin
      self.class.const_set(:Product, Struct.new(:title))
      assert_equal "new", reader.fetch("product") { "new" }
    ensure
      self.class.send(:remove_const, :Product)
      self.class.const_set(:Product, product)
    end
  end
end
