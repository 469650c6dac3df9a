# frozen_string_literal: true

# Updates by a block, which runs in its caller: of concurrent ones in all processes none is lost.

require_relative "support"

class UpdateTest < LarderTest
  def count(view)
    view.update("k", 0) { |count| count + 1 }
  end

  def test_updates_of_threads_on_two_nodes_add_up
    views = Array.new(2) { make_cache.view("value") }
    assert_equal [20] * 4, in_threads(4) { |number| 20.times { count(views[number % 2]) } }
    assert_equal [80, 80], views.map { |view| view.read("k") }
  end

  def test_updates_of_processes_add_up
    view = make_cache.view("value")
    pids = Array.new(3) { fork { 30.times { count(view) } } }
    30.times { count(view) }
    pids.each { |pid| assert Process.wait2(pid).last.success? }
    assert_equal 120, view.read("k")
  end

  def test_block_is_called_again_if_another_writer_comes_first
    view, other = Array.new(2) { make_cache.view("value") }
    got = []
    made = view.update("k") do |found|
      got << found
      other.write("k", "theirs") if got.length == 1
      [found]
    end
    assert_equal [["theirs"], [nil, "theirs"]], [made, got]
  end

  def test_value_is_kept_or_removed_and_keeps_its_time
    view = memory.view("value")
    assert_equal "none", (view.update("k", "none") { Larder::KEEP })
    view.write("k", 1, ttl: "1h")
    assert_equal 2, count(view)
    assert_operator view.ttl("k"), :>, 3000
    assert_equal(3, view.update("k", 0, ttl: 60) { |found| found + 1 })
    assert_operator view.ttl("k"), :<=, 60
    assert_equal(3, view.update("k") { Larder::KEEP })
    assert_equal(:gone, view.update("k", :gone) { Larder::REMOVE })
    assert_nil view.read("k")
  end

  def test_block_that_is_left_changes_nothing_and_holds_nobody_up
    view = memory.view("value")
    view.write("k", 1)
    assert_raises(ZeroDivisionError) { view.update("k") { 1 / 0 } }
    assert_raises(Larder::EncodeError) { view.update("k") { 2r } }
    catch(:out) { view.update("k") { throw :out } }
    began = now
    assert_equal 2, count(view)
    assert_operator now - began, :<, 1
  end

  def test_values_of_marshal_are_updated_too
    view = make_cache.view("value", codec: :marshal, keys: ["sixteen bytes or more"])
    view.update("k", [].freeze) { |found| [*found, 1r] }
    assert_equal([1r, 2r], view.update("k") { |found| [*found, 2r] })
  end
end
