# frozen_string_literal: true

# Fibers of a scheduler: none of them blocks the thread, and one may wait for the load of another one.

require_relative "support"
require_relative "scheduler"

class FibersTest < LarderTest
  # Runs fibers in a thread with a scheduler, until all of them have ended.
  def in_fibers
    thread = Thread.new do
      scheduler = SmallScheduler.new
      Fiber.set_scheduler(scheduler)
      yield scheduler
    end
    assert thread.join(30), "a fiber hangs"
  end

  def test_one_of_many_fibers_loads_and_others_run_meanwhile
    view = make_cache.view("value")
    found = []
    calls = turns = 0
    in_fibers do
      20.times do
        Fiber.schedule do
          found << view.fetch("k") do
            calls += 1
            sleep 0.3
            7
          end
        end
      end
      Fiber.schedule do
        while found.empty?
          turns += 1
          sleep 0.01
        end
      end
    end
    assert_equal [[7] * 20, 1], [found, calls]
    assert_operator turns, :>, 5
  end

  def test_fibers_and_threads_share_a_load
    view = make_cache.view("value")
    calls = 0
    load = proc do
      calls += 1
      sleep 0.2
      7
    end
    found = in_threads(4) do |number|
      next view.fetch("k", &load) if number.zero?

      results = []
      in_fibers { 10.times { Fiber.schedule { results << view.fetch("k", &load) } } }
      results
    end
    assert_equal [7, *[[7] * 10] * 3], found
    assert_equal 1, calls
  end

  def test_each_call_works_in_a_fiber
    cache = make_cache
    view = cache.view("value")
    done = false
    in_fibers do
      Fiber.schedule do
        assert_equal [true, 1], [view.write("k", 1), view.read("k")]
        assert_equal({ "k" => 1 }, view.read_multi("k", "nothing"))
        assert_equal [true, false], [view.add("l", 2), view.add("l", 3)]
        assert_equal [2, 4], [view.increment("k"), view.increment("k", 2)]
        assert_equal({ "k" => 4, "m" => 5 }, view.fetch_multi("k", "m") { { "m" => 5 } })
        assert_equal [true, true, 2], [view.touch("l", ttl: 60), view.expire("m"), view.take("l")]
        assert_equal [true, false], [view.delete("k"), view.delete("k")]
        assert_nil view.ttl("k")
        assert_equal [true, 0, true, 0], [cache.invalidate_tags("a"), cache.delete_matched("x*"), cache.clear, cache.drain]
        assert_raises(Larder::EncodeError) { view.fetch("k") { Object.new } }
        assert_raises(Larder::RecursiveLoad) { view.fetch("k") { view.fetch("k") { 1 } } }
        done = true
      end
    end
    assert done
  end

  def test_errors_of_a_load_reach_all_fibers
    view = make_cache.view("value")
    errors = []
    in_fibers do
      3.times do
        Fiber.schedule do
          view.fetch("k") do
            sleep 0.1
            raise "broken"
          end
        rescue RuntimeError, Larder::LoadFailed => error
          errors << error
        end
      end
    end
    own, *copies = errors.sort_by { |error| error.class.name }.reverse
    assert_equal [RuntimeError, [own, own]], [own.class, copies.map(&:cause)]
  end

  def test_fiber_that_is_stopped_while_it_leads_hands_the_load_over
    view = make_cache.view("value")
    found = nil
    in_fibers do |scheduler|
      leader = Fiber.schedule do
        view.fetch("k") { sleep }
      rescue Interrupt
        nil
      end
      Fiber.schedule { found = view.fetch("k") { "of the follower" } }
      Fiber.schedule do
        sleep 0.1
        scheduler.raise_into(leader, Interrupt.new)
      end
    end
    assert_equal "of the follower", found
  end

  def test_fiber_that_is_stopped_while_it_waits_leaves_the_load
    view = make_cache.view("value")
    ended = []
    in_fibers do |scheduler|
      Fiber.schedule { ended << view.fetch("k") { sleep(0.3) && "of the leader" } }
      follower = Fiber.schedule do
        view.fetch("k") { flunk }
      rescue Interrupt
        ended << "stopped"
      end
      Fiber.schedule do
        sleep 0.1
        scheduler.raise_into(follower, Interrupt.new)
      end
    end
    assert_equal ["stopped", "of the leader"], ended
    assert_equal "of the leader", view.read("k")
  end

  class Stopped < Exception; end

  def test_fibers_that_are_stopped_at_random_lose_no_load
    view = make_cache.view("value")
    random = Random.new(7)
    60.times do |turn|
      # No load that is left behind is freed.
      GC.disable
      in_fibers do |scheduler|
        fibers = Array.new(8) do |number|
          Fiber.schedule do
            view.fetch("k#{turn}", refresh: number.odd?) { sleep(0.002) && 1 }
          rescue Stopped
            nil
          end
        end
        Fiber.schedule do
          fibers.each do |fiber|
            sleep random.rand * 0.001
            scheduler.raise_into(fiber, Stopped.new) if random.rand < 0.5
          end
        end
      end
      began = now
      view.fetch("k#{turn}") { 2 }
      assert_operator now - began, :<, 1
    ensure
      GC.enable
    end
  end

  def test_fiber_that_is_never_resumed_gives_its_load_up
    view = make_cache.view("value")
    leave_behind = lambda do
      Fiber.new { view.fetch("k") { Fiber.yield } }.resume
      nil
    end
    leave_behind.call
    follower = Thread.new { view.fetch("k") { "of the follower" } }
    eventually("the fiber is freed") do
      # What is on the stack is overwritten.
      Array.new(100) { |number| [number] }
      GC.start
      follower.join(0.1)
    end
    assert_equal "of the follower", follower.value
  end

  def test_cache_that_is_closed_ends_the_waits_of_fibers
    cache = make_cache
    view = cache.view("value")
    began = Thread::Queue.new
    go_on = Thread::Queue.new
    leader = Thread.new do
      view.fetch("k") { began.push(true) && go_on.pop }
    rescue Larder::CacheClosed
      "closed"
    end
    began.pop
    ended = nil
    in_fibers do
      Fiber.schedule do
        view.fetch("k") { flunk }
      rescue Larder::CacheClosed => error
        ended = error
      end
      Fiber.schedule { cache.close(0.1) }
    end
    assert_instance_of Larder::CacheClosed, ended
    go_on.push(1)
    leader.join
  end

  def test_fork_in_a_program_of_fibers_waits_in_its_own
    view = make_cache.view("value")
    in_fibers { Fiber.schedule { view.write("k", 1) } }
    read, write = IO.pipe
    child = fork do
      found = nil
      in_fibers { Fiber.schedule { found = [view.read("k"), view.fetch("of the child") { 2 }] } }
      write.write(found.inspect)
      exit!(0)
    end
    write.close
    assert_equal "[1, 2]", read.read
    Process.wait(child)
    in_fibers { Fiber.schedule { assert_equal 2, view.read("of the child") } }
  end

  def test_gem_async_waits_in_its_tasks
    begin
      gem "async"
    rescue LoadError
      skip "the gem async is not installed"
    end
    program = <<~'RUBY'
      require "async"
      view = Larder::Cache.new(ARGV[1], ttl: 60, redis: ARGV[0]).view("v")
      Async do |task|
        calls = 0
        tasks = Array.new(10) { task.async { view.fetch("k") { calls += 1; sleep 0.2; 7 } } }
        p tasks.map(&:wait).uniq, calls
        leader = task.async { view.fetch("other") { sleep 3600 } }
        follower = task.async { view.fetch("other") { "of the follower" } }
        sleep 0.1
        leader.stop
        p follower.wait
      end
    RUBY
    assert_equal "[7]\n1\n\"of the follower\"\n", assert_program(program, redis.url, namespace)
  end
end
