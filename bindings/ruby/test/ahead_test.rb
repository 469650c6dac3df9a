# frozen_string_literal: true

# Loads of values that are still fresh: the caller that finds one due makes it, and the others go on with the value.

require_relative "support"

class AheadTest < LarderTest
  def setup
    super
    @loads = 0
  end

  # A number that grows with each load.
  def count(view, **options)
    view.fetch("k", **options) { @loads += 1 }
  end

  def test_due_value_is_loaded_long_before_its_end
    [memory, make_cache].each do |cache|
      @loads = 0
      view = cache.view("value", ttl: "1h", refresh_ahead: 0)
      assert_equal [1, 2], [count(view), count(view)], "the caller gets what it has loaded"
      eventually("it is stored") { view.hit("k") == 2 }
      assert_equal 2, @loads
      assert_operator view.ttl("k"), :>, 3000
    end
  end

  def test_other_callers_get_the_value_meanwhile
    view = memory.view("value", ttl: "1h", refresh_ahead: 0)
    assert_equal 1, count(view)
    began = Thread::Queue.new
    go_on = Thread::Queue.new
    leader = Thread.new { view.fetch("k") { began.push(true) && go_on.pop } }
    eventually("the load begins") { !began.empty? }
    assert_equal [1, 1], [count(view), view.fetch("k") { flunk }]
    go_on.push(2)
    assert_equal 2, leader.value
    eventually("it is stored") { view.hit("k") == 2 }
  end

  def test_option_of_a_call_and_load_that_fails
    cache = memory
    view = cache.view("value", ttl: "1h")
    assert_equal 1, count(view, refresh_ahead: 0)
    assert_equal 1, view.fetch("k") { flunk }, "a call without the option begins none"
    assert_equal 1, view.fetch("k", refresh_ahead: 0) { raise "broken" }
    eventually("it has failed") { cache.stats[:load_failures] == 1 }
    # The next one begins after `retry_after`.
    assert_equal 1, count(view, refresh_ahead: 0)
    assert_equal 1, @loads
  end

  def test_load_ahead_that_its_block_leaves_fails_nobody
    view = memory.view("value", ttl: "1h", refresh_ahead: 0)
    assert_equal 1, count(view)
    catch(:out) { view.fetch("k") { throw :out } }
    assert_equal 1, view.hit("k")
  end

  def test_block_has_the_value_that_it_replaces_and_may_fetch_it
    view = memory.view("value", ttl: "1h", refresh_ahead: 0)
    assert_equal 1, count(view)
    found = view.fetch("k") { |load| [load.stale, view.fetch("k") { flunk }] }
    assert_equal [1, 1], found
  end

  def test_values_of_the_option
    cache = memory
    [0.8, 1, "0.5", :by_cost, "by_cost:2", :never].each { |right| cache.view("value", refresh_ahead: right) }
    [1.5, -1, "often", true].each do |wrong|
      assert_match(/refresh_ahead/, assert_raises(Larder::OptionError) { cache.view("value", refresh_ahead: wrong) }.message)
    end
    view = cache.view("value")
    # It would do nothing there.
    assert_raises(Larder::OptionError) { view.write("k", 1, refresh_ahead: 0.8) }
    assert_raises(Larder::OptionError) { view.touch("k", ttl: 1, refresh_ahead: 0.8) }
  end
end
