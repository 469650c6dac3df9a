# frozen_string_literal: true

# Processes that fork: each child is a node of its own, and handles from before the fork work in it.

require_relative "support"

class ForksTest < LarderTest
  FORKS = 300

  # The result of a block in a child.
  def in_child
    read, write = IO.pipe
    child = fork do
      write.write(Marshal.dump(yield))
      write.close
      exit!(0)
    end
    write.close
    text = read.read
    _, status = Process.wait2(child)
    assert_predicate status, :success?
    Marshal.load(text)
  end

  def test_forked_child_is_a_node_of_its_own
    view = make_cache(max_lag: 0.2).view("value")
    view.write("k", "old")
    assert_equal "old", view.read("k")
    to_child, from_parent = IO.pipe
    from_child, to_parent = IO.pipe
    child = fork do
      to_parent.puts [view.hit("k"), view.read("k")].inspect
      to_child.gets
      eventually("the child hears its parent", 5) { view.read("k") == "new" }
      to_parent.puts [view.read("k"), view.delete("k"), view.write("of the child", 1)].inspect
      exit!(0)
    end
    assert_equal %([nil, "old"]\n), from_child.gets
    view.write("k", "new")
    from_parent.puts
    assert_equal %(["new", true, true]\n), from_child.gets
    Process.wait(child)
    eventually("the parent hears its child") { view.read("k").nil? }
    assert_equal 1, view.read("of the child")
  end

  def test_children_change_what_others_serve
    view = make_cache(max_lag: 0.2).view("value")
    view.write("k", 0)
    3.times do |turn|
      assert_equal true, in_child { view.write("k", turn) }
      eventually("turn #{turn} is seen") { view.read("k") == turn }
      assert_equal [turn, turn], [in_child { view.read("k") }, in_child { in_child { view.read("k") } }]
    end
  end

  def test_objects_that_a_parent_keeps_are_not_those_of_its_child
    view = make_cache.view("value", shared: true)
    100.times { |number| view.write(number, ["of the parent", number]) && view.read(number) }
    kept = view.read(1)
    found = in_child do
      GC.start
      100.times { |number| view.write(number + 100, ["of the child", number]) && view.read(number + 100) }
      GC.start
      [view.read(1), view.read(1).equal?(view.read(1)), view.read(150), kept]
    end
    assert_equal [["of the parent", 1], true, ["of the child", 50], ["of the parent", 1]], found
    assert_same kept, view.read(1)
  end

  def test_child_of_a_thread_that_leads_gives_nothing_up
    view = make_cache.view("value")
    value = view.fetch("k") do |load|
      found = in_child do
        # The load is that of the parent.
        load = nil
        GC.start
        view.read("k")
      end
      [found, "of the parent"]
    end
    assert_equal [nil, "of the parent"], value
    assert_equal value, view.read("k")
  end

  def test_parent_that_has_done_nothing_has_children_that_do
    view = make_cache.view("value")
    assert_equal true, in_child { view.write("k", 1) }
    assert_equal 1, view.read("k")
  end

  def test_child_that_ends_with_its_handlers_drains_what_it_has_queued_alone
    program = <<~'RUBY'
      cache = Larder::Cache.new(ARGV[1], ttl: 60, redis: ARGV[0])
      view = cache.view("v")
      view.write("k", 1)
      threads = -> { Dir.children("/proc/self/task").length }
      at_exit { $stdout.write("#{threads.call} ") }
      # It runs its handlers, and starts nothing for that.
      Process.wait(fork { nil })
      Process.wait(fork { view.write("of the child", 2) })
      p view.read("of the child")
    RUBY
    alone, with_cache, value = assert_program(program, redis.url, namespace).split
    assert_equal "2", value
    assert_operator alone.to_i, :<, with_cache.to_i
  end

  def test_many_forks_under_load
    cache = make_cache
    view = cache.view("value", shared: true)
    view.write("k", { "n" => 0 })
    ended = false
    threads = Array.new(3) do |number|
      Thread.new do
        count = 0
        until ended
          count += 1
          view.write([number, count % 50], { "n" => count })
          view.read([number, count % 50])
          view.fetch([number, "loaded", count]) { count }
        end
      end
    end
    FORKS.times do |number|
      child = fork do
        # Some of them only inherit the cache, some start their own.
        right = number % 10 != 0 || view.fetch("k") { nil } == { "n" => 0 }
        GC.start if number % 10 == 5
        exit!(right)
      end
      Timeout.timeout(30) { Process.wait(child) }
      assert_predicate $?, :success?, number
    end
    ended = true
    threads.each(&:join)
    assert_equal({ "n" => 0 }, view.read("k"))
    assert_equal "full", cache.coherence[:mode]
  end
end
