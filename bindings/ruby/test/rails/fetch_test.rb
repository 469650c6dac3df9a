# frozen_string_literal: true

# Loads: one block for many callers, exceptions, versions, and threads that would wait for each other.

require_relative "support"
require_relative "../scheduler"

class FetchTest < StoreTest
  test "of twenty threads one runs its block" do
    [store, node].each do |cache|
      calls, mutex = 0, Mutex.new
      answers = in_threads(20) do
        cache.fetch("k") { mutex.synchronize { calls += 1 }; sleep 0.1; "value" }
      end
      assert_equal [["value"] * 20, 1], [answers, calls]
    end
  end

  test "of two nodes one runs its block" do
    first, second = node, node
    calls = Queue.new
    answers = in_threads(10) { |number| [first, second][number % 2].fetch("k") { calls << 1; sleep 0.1; "value" } }
    assert_equal [["value"] * 10, 1], [answers, calls.size]
  end

  test "those who wait raise a copy of what the block has raised" do
    cache, calls = store, Queue.new
    missing = Class.new(StandardError) { attr_accessor :record }
    threads = Queue.new
    errors = in_threads(5) do
      threads << Thread.current
      cache.fetch("k") do
        calls << 1
        all = Array.new(5) { threads.pop }
        eventually("the others wait") { (all - [Thread.current]).all? { |thread| thread.status == "sleep" } }
        raise missing.new("no row").tap { |error| error.record = 17 }
      end
    end
    assert_equal 1, calls.size
    errors.each { |error| assert_equal [missing, "no row", 17], [error.class, error.message, error.record] }
    assert_equal 5, errors.map(&:object_id).uniq.size
    assert_equal 4, errors.count { |error| error.cause.is_a?(Larder::LoadFailed) }
    assert_equal 1, cache.fetch("k") { 1 }
  end

  test "a block that is overtaken stores nothing" do
    cache, other = node, node
    [cache, other].each do |changing|
      assert_equal("old", cache.fetch("k") { changing.delete("k"); "old" })
      assert_equal("old", cache.fetch("k", tags: "t") { changing.invalidate_tags("t"); "old" })
      assert_equal("old", cache.fetch("k") { changing.clear; "old" })
      assert_equal({ "k" => "old" }, cache.fetch_multi("k") { changing.delete_multi(["k"]); "old" })
      assert_not cache.exist?("k") || other.exist?("k")
      cache.fetch("k") { changing.write("k", "new"); "old" }
      eventually("both have the new one") { [cache, other].all? { |store| store.read("k") == "new" } }
      cache.delete("k")
      eventually("both have none") { !other.exist?("k") }
    end
  end

  test "a block that returns for its method stores nothing" do
    cache = store
    method = -> { cache.fetch("k") { return_early } }
    cache.define_singleton_method(:leave) { fetch("k") { return :left } }
    assert_equal :left, cache.leave
    assert_equal(:thrown, catch(:out) { cache.fetch("k") { throw :out, :thrown } })
    cache.fetch("k") { break }
    assert_raises(NameError) { method.call }
    assert_not cache.exist?("k")
    assert_equal 1, cache.fetch("k") { 1 }
  end

  test "a timeout ends a block, and a wait for the block of another one" do
    cache, loading = store, Queue.new
    leader = Thread.new { Timeout.timeout(0.5) { cache.fetch("k") { loading << true; sleep } } rescue $!.class }
    loading.pop
    assert_raises(Timeout::Error) { Timeout.timeout(0.1) { cache.fetch("k") { flunk("another load") } } }
    assert_raises(Timeout::Error) { Timeout.timeout(0.1) { cache.fetch_multi("k") { flunk("another load") } } }
    assert_equal Timeout::Error, leader.value
    assert_equal 1, cache.fetch("k") { 1 }
  end

  test "a killed thread does not stop the others" do
    cache, loading = store, Queue.new
    leader = Thread.new { cache.fetch("k") { loading << true; sleep } }
    loading.pop
    follower = Thread.new { cache.fetch("k") { "of the follower" } }
    eventually("the other one waits") { follower.status == "sleep" }
    leader.kill
    assert_equal "of the follower", follower.join(10)&.value
  end

  test "force runs the block and other processes see its value" do
    cache, other = node, node
    cache.write("k", 1)
    assert_equal 1, other.read("k")
    assert_equal [2, 3], Array.new(2) { |turn| cache.fetch("k", force: true) { turn + 2 } }
    eventually("it is seen") { other.read("k") == 3 }
    assert_equal "away", assert_raises(RuntimeError) { cache.fetch("k", force: true) { raise "away" } }.message
    assert_equal 3, cache.read("k")
  end

  test "skip_nil stores no nil" do
    cache = store
    assert_equal [nil, nil], Array.new(2) { cache.fetch("k", skip_nil: true) { nil } }
    assert_not cache.exist?("k")
    assert_nil cache.fetch("k", skip_nil: true, force: true) { nil }
    assert_not cache.exist?("k")
    assert_nil cache.fetch("k") { nil }
    assert cache.exist?("k")
    assert_nil(cache.fetch("k") { flunk("nil is a value") })
  end

  test "fetch of its own key in its block raises" do
    cache = store
    assert_raises(Larder::RecursiveLoad) { cache.fetch("k") { cache.fetch("k") { 1 } } }
    assert_equal 2, cache.fetch("k") { cache.fetch("inner") { 2 } }
  end

  test "threads whose blocks fetch each other's names do not wait for ever" do
    ring = lambda do |cache, count, fetch|
      ready = Queue.new
      in_threads(count) do |number|
        cache.public_send(fetch, "ring-#{number}") do |name|
          ready << name
          eventually("all are within their blocks") { ready.size == count }
          inner = cache.public_send(fetch, "ring-#{(number + 1) % count}") { |wanted| "#{wanted} apart" }
          "#{name} with #{inner.is_a?(Hash) ? inner.values.first : inner}"
        end
      end
    end
    [[2, :fetch], [3, :fetch], [2, :fetch_multi], [5, :fetch_multi]].each do |count, fetch|
      [store(name: "#{@name}-#{count}-#{fetch}"), node(name: "#{@name}-#{count}-#{fetch}")].each do |cache|
        found = ring.call(cache, count, fetch).map { |answer| answer.is_a?(Hash) ? answer.values.first : answer }
        assert(found.each_with_index.all? { |text, number| text.start_with?("ring-#{number} with ring-") }, found.inspect)
        names = Array.new(count) { |number| "ring-#{number}" }
        assert_equal names, cache.read_multi(*names).keys
      end
    end
  end

  test "fibers load once, and do not wait for each other for ever" do
    cache, calls, answers = store, 0, []
    thread = Thread.new do
      Fiber.set_scheduler(SmallScheduler.new)
      5.times { Fiber.schedule { answers << cache.fetch("k") { calls += 1; sleep 0.05; "value" } } }
      2.times do |number|
        Fiber.schedule { answers << cache.fetch("ring-#{number}") { sleep 0.05; cache.fetch("ring-#{1 - number}") { "value" } } }
      end
    end
    assert thread.join(20), "it hangs"
    assert_equal [["value"] * 7, 1], [answers, calls]
  end

  test "fetch_multi loads what is missing once, in the order of the names" do
    cache = node
    cache.write("b", "B")
    blocks = []
    found = cache.fetch_multi("a", "b", "a", [:c, 1], 5) { |name| blocks << name; name.to_s }
    assert_equal({ "a" => "a", "b" => "B", [:c, 1] => "[:c, 1]", 5 => "5" }, found)
    assert_equal ["a", "b", [:c, 1], 5], found.keys
    assert_equal ["a", [:c, 1], 5], blocks
    assert_equal({ "a" => "a", "c/1" => "[:c, 1]", "5" => "5" }, cache.read_multi("a", "c/1", "5"))
    calls = Queue.new
    many = in_threads(8) { cache.fetch_multi("x", "y") { |name| calls << name; sleep 0.05; name * 2 } }
    assert_equal [{ "x" => "xx", "y" => "yy" }] * 8, many
    assert_equal %w[x y], Array.new(calls.size) { calls.pop }.sort
  end
end

class VersionsTest < StoreTest
  Record = Struct.new(:cache_key, :cache_version)

  test "a new version is loaded once, and other processes get it" do
    cache, other = node, node
    old, new = Record.new("products/1", "1"), Record.new("products/1", "2")
    [cache, other].each { |store| assert_equal "one", store.fetch(old) { "one" } }
    calls = Queue.new
    answers = in_threads(12) do |number|
      [cache, other][number % 2].fetch(new) { calls << 1; sleep 0.1; "two" }
    end
    assert_equal ["two"] * 12, answers
    eventually("both have it") { [cache, other].all? { |store| store.read(new) == "two" } }
    assert_operator calls.size, :<=, 2, "at most one for each node"
    assert_nil cache.read(old)
    assert_equal "two", cache.read("products/1"), "a caller without a version gets any"
    newest = Record.new("products/1", "3")
    assert_equal "three", cache.fetch(newest) { "three" }
    eventually("the other one has it without a load") { other.read(newest) == "three" }
  end

  test "a value without a version is one for each" do
    cache = store
    cache.write("products/1", "any")
    assert_equal "any", cache.read(Record.new("products/1", "5"))
    cache.write(["a", "b"], 1)
    assert_equal 2, cache.increment(["a", "b"])
  end

  test "versions hold for each call" do
    cache = store
    old, new = Record.new("p", "1"), Record.new("p", "2")
    cache.write_multi({ old => "one" })
    assert_equal [{ old => "one" }, {}], [cache.read_multi(old), cache.read_multi(new)]
    assert_equal [true, false], [cache.exist?(old), cache.exist?(new)]
    assert_equal({ new => "two" }, cache.fetch_multi(new) { "two" })
    assert_equal({ new => "two" }, cache.fetch_multi(new) { flunk("it is there") })
    assert_equal "three", cache.fetch(new, version: "3") { "three" }
    assert_equal "three", cache.fetch("p", version: 3) { flunk("it is there") }
    assert_nil(cache.fetch(new, version: "4", skip_nil: true) { nil })
  end
end
