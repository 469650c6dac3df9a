# frozen_string_literal: true

# Garbage collection: what is kept is alive and in its place, what is dropped is freed, and memory stays within its bound.

require_relative "support"

class MemoryTest < LarderTest
  WRITES = 1_000_000

  def megabytes
    GC.start
    File.read("/proc/self/statm").split[1].to_i * 4096 / 2**20
  end

  def value(number)
    { "name" => "apple #{number}", "tags" => ["fruit", number, 0.5, 2**63], "time" => Time.at(number).utc, "bytes" => "\xff".b }
  end

  def under_stress
    GC.stress = true
    yield
  ensure
    GC.stress = false
  end

  def test_values_survive_the_collection_at_each_allocation
    [{}, { shared: true }, { shared: true, codec: :marshal, keys: ["k" * 16] }].each_with_index do |options, number|
      view = make_cache.view("value-#{number}", **options)
      written = Array.new(5) { |key| value(key) }
      under_stress do
        written.each_with_index { |value, key| view.write("key #{key}", value) }
        written.each_with_index do |value, key|
          assert_equal value, view.read("key #{key}")
          assert_equal value, view.hit("key #{key}")
          assert_equal [key, "loaded"], view.fetch("other #{key}") { [key, "loaded"] }
        end
        assert_equal written.first, view.read_multi("key 0", "none")["key 0"]
        assert_equal({ "a" => ["b"] }, view.fetch_multi("a") { { "a" => ["b"] } })
        assert_raises(Larder::EncodeError) { view.write("k", proc {}) }
        assert_raises(Larder::KeyTypeError) { view.read(1.5) }
        assert_instance_of Hash, view.cache.stats
      end
    end
  end

  def test_errors_and_waits_survive_the_collection_at_each_allocation
    view = make_cache.view("value")
    began = Thread::Queue.new
    leader = Thread.new do
      view.fetch("k") { began.push(true) && sleep(0.2) && raise("broken") }
    rescue RuntimeError => error
      error
    end
    began.pop
    follower = Thread.new do
      under_stress { view.fetch("k") { flunk } }
    rescue Larder::LoadFailed => error
      error
    end
    assert_same leader.value, follower.value.cause
  end

  def test_shared_objects_survive_compaction
    skip "this Ruby cannot compact" unless GC.respond_to?(:compact)
    view = memory.view("value", shared: true)
    objects = Array.new(2_000) do |number|
      view.write(number, value(number))
      view.read(number).object_id
    end
    3.times do
      # Holes for the objects to move to.
      Array.new(10_000) { |number| "garbage #{number}" }
      GC.compact
      objects.each_with_index do |id, number|
        assert_equal value(number), view.read(number)
        assert_equal id, view.read(number).object_id
      end
    end
  end

  def test_calls_work_while_each_collection_compacts
    skip "this Ruby cannot compact" unless GC.respond_to?(:auto_compact=)
    before = GC.auto_compact
    GC.auto_compact = true
    view = make_cache.view("value", shared: true)
    300.times do |number|
      view.write(number, value(number))
      assert_equal value(number), view.read(number)
      GC.start if (number % 20).zero?
    end
  ensure
    GC.auto_compact = before
  end

  def test_dropped_objects_are_freed
    view = memory.view("value", shared: true)
    count = lambda do
      GC.start
      ObjectSpace.each_object(Array).count { |array| array.frozen? && array.first == "of this test".freeze }
    end
    500.times { |number| view.write(number, ["of this test", number]) && view.read(number) }
    assert_operator count.call, :>=, 500
    view.cache.clear
    500.times { |number| view.read(number) }
    # Any call releases what was dropped.
    eventually("they are freed") { view.write("k", 1) && count.call < 20 }
  end

  def test_shared_objects_of_a_dropped_cache_are_freed
    make = lambda do
      view = Larder::Cache.new("dropped", ttl: 60).view("value", shared: true)
      view.write("k", ["of a dropped cache"])
      ObjectSpace::WeakMap.new.tap { |map| map[view.read("k")] = true }
    end
    kept = make.call
    other = memory.view("value")
    eventually("it is freed") do
      Array.new(100) { |number| [number] }
      GC.start
      other.write("k", 1)
      kept.size.zero?
    end
  end

  def test_many_writes_leave_no_objects_behind
    view = memory(memory_entries: 100).view("value")
    write = lambda do |count|
      count.times do |number|
        view.write(number % 1000, value(number))
        view.read(number % 1000)
        view.fetch("loaded #{number}") { number }
      end
      GC.start
      GC.stat(:heap_live_slots)
    end
    write.call(2_000)
    before = write.call(2_000)
    assert_operator write.call(20_000) - before, :<, 2_000
  end

  def test_memory_stays_within_its_bound_through_a_million_writes
    cache = memory(memory_bytes: "4MiB")
    view = cache.view("value", shared: true)
    first = nil
    (0...WRITES).step(10_000) do |start|
      numbers = (start...start + 10_000)
      view.write_multi(numbers.to_h { |number| [number % 50_000, { "n" => number, "text" => "x" * 100 }] })
      numbers.step(10) { |number| view.hit(number % 50_000) }
      first = megabytes if start == 300_000
    end
    assert_operator megabytes - first, :<, 40
    assert_operator cache.stats[:memory][:bytes], :<=, 4 << 20
  end

  def test_loads_that_nobody_ends_are_given_up
    view = make_cache.view("value")
    # A load that was left, without its end: as if the block were never run.
    view.__send__(:_load, "k")._lease({})
    follower = Thread.new { view.fetch("k") { 1 } }
    eventually("the load is freed") do
      Array.new(100) { |number| [number] }
      GC.start
      follower.join(0.05)
    end
    assert_equal 1, follower.value
  end
end
