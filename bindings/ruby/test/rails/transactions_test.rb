# frozen_string_literal: true

# The store and transactions of ActiveRecord, over a database in memory.

require_relative "support"
begin
  require "active_record"
  require "sqlite3"
rescue LoadError => missing
  StoreTest.test("transactions of ActiveRecord") { skip missing.message }
  return
end

ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:")
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define { create_table(:products) { |table| table.string :name } }

class TransactionsTest < StoreTest
  class Product < ActiveRecord::Base
    after_commit { raise "a callback" if name == "raising" }
  end

  def setup
    @cache = store
  end

  def transaction(**options, &block)
    ActiveRecord::Base.transaction(**options, &block)
  end

  test "invalidate_on_commit removes after the commit" do
    @cache.write("a", 1)
    @cache.write("b", 1, tags: ["red"])
    transaction do
      @cache.invalidate_on_commit("a", tags: "red")
      assert @cache.exist?("a")
      transaction(requires_new: true) { assert @cache.exist?("b") }
    end
    assert_equal({}, @cache.read_multi("a", "b"))
  end

  test "invalidate_on_commit without a transaction removes at once" do
    @cache.write("n:a", 1)
    @cache.invalidate_on_commit("a", namespace: "n")
    assert_not @cache.exist?("n:a")
  end

  test "a rollback removes nothing" do
    @cache.write_multi({ "a" => 1, "b" => 1, "c" => 1 })
    transaction do
      @cache.invalidate_on_commit("a")
      raise ActiveRecord::Rollback
    end
    transaction do
      transaction(requires_new: true) do
        @cache.invalidate_on_commit("b")
        raise ActiveRecord::Rollback
      end
      transaction(requires_new: true) { @cache.invalidate_on_commit("c") }
      assert @cache.exist?("c"), "the outer one is open"
    end
    assert_equal %w[a b], @cache.read_multi("a", "b", "c").keys
  end

  test "a callback that raises does not keep what is invalidated" do
    @cache.write("a", 1)
    assert_raises(RuntimeError) do
      transaction do
        Product.create!(name: "raising")
        @cache.invalidate_on_commit("a")
      end
    end
    assert_equal 1, Product.where(name: "raising").count
    assert_not @cache.exist?("a")
  end

  test "a transaction around a test is none" do
    @cache.write("a", 1)
    transaction(joinable: false) do
      transaction { @cache.invalidate_on_commit("a"); assert @cache.exist?("a") }
      assert_not @cache.exist?("a")
      @cache.write("a", 1)
      @cache.invalidate_on_commit("a")
      assert_not @cache.exist?("a")
      raise ActiveRecord::Rollback
    end
  end

  test "a value of an open transaction is not stored if told so" do
    cache = store(store_in_transaction: false)
    transaction do
      assert_equal [1, 2], Array.new(2) { |turn| cache.fetch("k") { turn + 1 } }
      assert_equal({ "k" => 3 }, cache.fetch_multi("k") { 3 })
      assert_equal 4, cache.fetch("k", force: true) { 4 }
      assert_not cache.exist?("k")
      assert_equal 5, @cache.fetch("k") { 5 }
      assert @cache.exist?("k"), "by default it is stored"
      # Another thread has no transaction.
      assert_equal 6, Thread.new { cache.fetch("k") { 6 } }.value
      assert_equal 6, cache.fetch("k") { flunk("what is stored is served") }
    end
    assert_equal 6, cache.fetch("k") { 7 }
  end

  test "records are keys with versions" do
    product = Product.create!(name: "Apple")
    assert_equal "apple", @cache.fetch(product) { "apple" }
    assert_equal "apple", @cache.fetch(product) { flunk("it is there") }
    cached = @cache.fetch("record") { product }
    assert_equal product, cached
    assert_equal product, @cache.read("record")
    assert_equal "Apple", @cache.read("record").name
  end
end
