# frozen_string_literal: true

# Callers that wait for the load of another one, and how each of them may end.

require_relative "support"

class WaitingTest < LarderTest
  # An interruption ends a wait within 100 ms. This is what a busy machine may add.
  SOON = 2

  def test_one_of_many_threads_loads
    view = make_cache.view("value")
    calls = 0
    found = in_threads(32) do
      view.fetch("k") do
        calls += 1
        sleep 0.2
        7
      end
    end
    assert_equal [[7] * 32, 1], [found, calls]
  end

  def test_leader_gets_its_exception_and_followers_a_copy_with_its_cause
    view = make_cache.view("value")
    error = ArgumentError.new("broken")
    results = in_threads(5) do
      view.fetch("k") do
        sleep 0.3
        raise error
      end
    end
    copies = results.grep(Larder::LoadFailed)
    assert_equal [1, 4], [results.count { |result| result.equal?(error) }, copies.length]
    copies.each { |copy| assert_same error, copy.cause }
    assert_equal 4, copies.map(&:object_id).uniq.length
    assert_match(/broken \(ArgumentError\)/, copies.first.message)
    assert_match(/waiting_test.rb/, copies.first.backtrace.join)
  end

  # Ways to leave a block which fail nobody.
  LEAVING = {
    "Thread#kill" => ->(view, began) { view.fetch("k") { began.push(Thread.current) && sleep } },
    "break" => ->(view, began) { view.fetch("k") { began.push(nil) && sleep(0.2) && break } },
    "throw" => ->(view, began) { catch(:out) { view.fetch("k") { began.push(nil) && sleep(0.2) && throw(:out) } } },
    "Timeout" => lambda do |view, began|
      Timeout.timeout(0.3) { view.fetch("k") { began.push(nil) && sleep } }
    rescue Timeout::Error
      nil
    end,
    "Interrupt" => lambda do |view, began|
      view.fetch("k") { began.push(nil) && sleep(0.2) && raise(Interrupt) }
    rescue Interrupt
      nil
    end,
    "exit" => lambda do |view, began|
      view.fetch("k") { began.push(nil) && sleep(0.2) && exit(3) }
    rescue SystemExit
      nil
    end
  }.freeze

  LEAVING.each do |name, leave|
    define_method("test_follower_loads_where_the_leader_has_left_by_#{name}") do
      view = make_cache.view("value")
      began = Thread::Queue.new
      leader = Thread.new { leave.call(view, began) }
      killed = began.pop
      follower = Thread.new { view.fetch("k") { "of the follower" } }
      until_waiting(follower)
      killed&.kill
      assert_equal "of the follower", follower.value
      leader.join
    end
  end

  def test_return_from_a_block_is_its_own
    view = memory.view("value")
    assert_equal 3, returning(view)
    assert_equal 4, view.fetch("k") { next 4 }
  end

  def returning(view)
    view.fetch("k") { return 3 }
  end

  # What may end the wait of a follower.
  def test_follower_that_is_interrupted_leaves_the_load
    view = make_cache.view("value")
    began = Thread::Queue.new
    go_on = Thread::Queue.new
    leader = Thread.new { view.fetch("k") { began.push(true) && go_on.pop } }
    began.pop
    error = Class.new(StandardError)
    [
      ->(thread) { thread.kill },
      ->(thread) { thread.raise(error) },
      ->(thread) { thread.raise(Interrupt) }
    ].each do |interrupt|
      follower = Thread.new do
        view.fetch("k") { flunk }
      rescue error, Interrupt
        nil
      end
      until_waiting(follower)
      interrupt.call(follower)
      assert follower.join(SOON), "it does not end"
    end
    assert_raises(Timeout::Error) { Timeout.timeout(0.1) { view.fetch("k") { flunk } } }
    go_on.push(1)
    assert_equal [1, 1], [leader.value, view.fetch("k") { flunk }]
  end

  def test_interruption_that_is_masked_comes_after_the_wait
    view = make_cache.view("value")
    began = Thread::Queue.new
    go_on = Thread::Queue.new
    leader = Thread.new { view.fetch("k") { began.push(true) && go_on.pop } }
    began.pop
    found = used = nil
    follower = Thread.new do
      Thread.current.report_on_exception = false
      Thread.handle_interrupt(RuntimeError => :never) do
        found = view.fetch("k") { flunk }
        used = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
      end
    end
    until_waiting(follower)
    follower.raise("masked")
    sleep 0.5
    go_on.push(1)
    assert_equal "masked", assert_raises(RuntimeError) { follower.join }.message
    assert_equal [1, 1], [leader.value, found]
    assert_operator used, :<, 0.3, "it waits without using the processor"
  end

  def test_handler_of_a_signal_runs_while_a_call_waits
    program = <<~'RUBY'
      view = Larder::Cache.new(ARGV[1], ttl: 60, redis: ARGV[0]).view("v")
      began, go_on = Thread::Queue.new, Thread::Queue.new
      leader = Thread.new { view.fetch("k") { began.push(true) && go_on.pop } }
      began.pop
      trap("USR1") do
        # The cache may be used in a handler.
        view.write("of the handler", 1)
        go_on.push(7)
      end
      Thread.new { sleep 0.2; Process.kill("USR1", Process.pid) }
      p view.fetch("k") { 8 }, leader.value, view.read("of the handler")
    RUBY
    assert_equal "7\n7\n1\n", assert_program(program, redis.url, namespace)
  end

  def test_signal_ends_a_blocked_call_of_the_only_thread
    server = own_redis
    program = <<~'RUBY'
      view = Larder::Cache.new("n", ttl: 60, redis: ARGV[0], redis_timeout: "1m").view("v")
      view.write("k", 1)
      $stdout.sync = true
      puts "ready"
      $stdin.gets
      began = nil
      trap("INT") { began = Process.clock_gettime(Process::CLOCK_MONOTONIC); raise Interrupt }
      begin
        puts "waits"
        view.read("other")
      rescue Interrupt
        puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
        puts Thread.list.length
        exit!(0)
      end
    RUBY
    Open3.popen3(RbConfig.ruby, "-I", LIB, "-rlarder", "-e", program, server.url) do |input, output, errors, process|
      assert_equal "ready\n", output.gets
      server.pause
      input.puts
      assert_equal "waits\n", output.gets
      sleep 0.3
      began = now
      Process.kill("INT", process.pid)
      ended = output.gets
      elapsed = now - began
      assert ended, errors.read
      assert_operator elapsed, :<, 0.2 + SOON
      assert_equal "1\n", output.gets, "it has no thread beside the main one"
    end
  end

  def test_stopped_redis_holds_up_a_call_for_two_timeouts
    server = own_redis
    view = make_cache(redis: server.url, redis_timeout: 0.3).view("value")
    view.write("k", 1)
    server.pause
    [-> { view.read("other") }, -> { view.fetch("third") { 3 } }, -> { view.write("k", 2) }].each do |call|
      began = now
      logged(&call)
      assert_operator now - began, :<, 2 * 0.3 + SOON
    end
  end

  def test_threads_whose_blocks_fetch_the_keys_of_each_other_do_not_wait_for_ever
    view = make_cache.view("value")
    inner = [
      ->(key) { view.fetch(key) { 1 } },
      ->(key) { view.fetch_multi(key, "more") { |keys| keys.to_h { |missing| [missing, 1] } } }
    ]
    inner.product(inner).each do |fetches|
      began = { "a" => Thread::Queue.new, "b" => Thread::Queue.new }
      results = in_threads(2) do |number|
        own, other = number.zero? ? %w[a b] : %w[b a]
        view.fetch(own) do
          began[own].push(true)
          began[other].pop
          fetches[number].call(other)
        end
      end
      # The one that closes the circle is told so. The other one that its load has failed, unless it comes later and loads itself.
      others = results.grep_v(Larder::RecursiveLoad)
      assert_equal 1, others.length
      assert_kind_of Larder::RecursiveLoad, others.first.cause if others.first.is_a?(StandardError)
      assert_equal(1, view.fetch("a") { view.fetch("b") { 1 } })
      view.delete_multi(%w[a b more])
    end
  end

  def test_block_that_fetches_its_own_key_raises
    view = make_cache.view("value")
    error = assert_raises(Larder::RecursiveLoad) { view.fetch("k") { view.fetch("k") { 1 } } }
    assert_match(/"k" of view "value"/, error.message)
    assert_raises(Larder::RecursiveLoad) { view.fetch(:k) { view.fetch("k", refresh: true) { 1 } } }
    assert_raises(Larder::RecursiveLoad) { view.fetch_multi("a") { { "a" => view.fetch("a") { 1 } } } }
    assert_raises(Larder::RecursiveLoad) { view.fetch("a") { view.fetch_multi("b", "a") { {} } } }
    assert_raises(Larder::RecursiveLoad) { view.fetch("a") { view.fetch("b") { view.fetch("a") { 1 } } } }
    assert_equal 1, view.fetch("k") { view.fetch("other") { 1 } }
    assert_equal 2, view.fetch("k", refresh: true) { view.cache.view("second").fetch("k") { 2 } }
    assert_equal 3, view.fetch("last") { (view.fetch("last") { 1 } rescue 3) }
    # Other threads and fibers wait or load.
    assert_equal 5, view.fetch("of a thread") { Thread.new { view.fetch("in it") { 5 } }.value }
    assert_nil Thread.current[:larder_loads]&.first
  end

  def test_loads_that_exceed_their_time_end_for_others
    view = make_cache.view("value")
    began = Thread::Queue.new
    leader = Thread.new { view.fetch("k", hard_timeout: 1) { began.push(true) && sleep(2.5) && "late" } }
    began.pop
    assert_raises(Larder::LoadTimeout) { view.fetch("k", hard_timeout: 1) { 1 } }
    assert_equal "late", leader.value
    assert_nil view.read("k")
  end

  def test_other_threads_run_while_one_waits
    view = make_cache.view("value")
    began = Thread::Queue.new
    leader = Thread.new { view.fetch("k") { began.push(true) && sleep(0.5) && 1 } }
    began.pop
    follower = Thread.new { view.fetch("k") { 2 } }
    until_waiting(follower)
    turns = 0
    turns += 1 while follower.alive?
    assert_operator turns, :>, 1_000
    assert_equal [1, 1], [leader.value, follower.value]
  end

  def test_objects_whose_end_calls_the_cache_do_not_hang
    view = memory(memory_entries: 8).view("value", codec: :marshal, keys: ["k" * 16], shared: true)
    ended = false
    ending = proc do
      view.hit("k")
      view.write("k", 1) unless ended
    end
    done = in_threads(16) do |number|
      100.times do |turn|
        object = Object.new
        ObjectSpace.define_finalizer(object, ending)
        view.fetch("#{number}-#{turn % 16}") { [turn] }
      end
      GC.start
      true
    end
    assert_equal [true] * 16, done
  ensure
    ended = true
  end

  # An interruption may come while a method returns: what that returns is lost, and a load must not be.
  def test_callers_that_are_interrupted_at_random_lose_no_load
    reported = Thread.report_on_exception
    Thread.report_on_exception = false
    view = make_cache.view("value")
    random = Random.new(7)
    200.times do |turn|
      key = "k#{turn}"
      load = -> { view.fetch(key) { sleep(0.001) && 1 } }
      calls = [
        load,
        -> { Timeout.timeout(random.rand * 0.01 + 0.0001) { load.call } },
        -> { view.fetch_multi(key, "other#{turn}") { |keys| sleep(0.001) && keys.to_h { |missing| [missing, 1] } } },
        -> { view.fetch(key, refresh: true) { sleep(0.001) && 1 } }
      ]
      # No load that is left behind is freed.
      GC.disable
      threads = (calls * 2).map do |call|
        Thread.new { call.call }
      end
      threads.each do |thread|
        sleep random.rand * 0.001
        random.rand < 0.5 ? thread.kill : thread.raise("interrupted") if random.rand < 0.5
      end
      threads.each do |thread|
        assert thread.join(20), "a caller hangs"
      rescue Timeout::Error, RuntimeError, Larder::LoadFailed
        next
      end
      began = now
      view.fetch(key) { 2 }
      assert_operator now - began, :<, SOON
    ensure
      GC.enable
    end
  ensure
    Thread.report_on_exception = reported
  end

  def test_process_has_three_connections_and_two_threads
    server = own_redis
    program = <<~'RUBY'
      threads = -> { Dir.children("/proc/self/task").map { |task| File.read("/proc/self/task/#{task}/comm").chomp } }
      before = threads.call.length
      cache = Larder::Cache.new(ARGV[1], ttl: 60, redis: ARGV[0])
      view = cache.view("v")
      raise "threads before the first call" if threads.call.length != before
      100.times { |number| view.write(number, number) && view.read(number) && view.read("no #{number}") }
      # A thread gives itself its name.
      named = -> { threads.call.count { |name| name.start_with?("larder-") } }
      500.times { named.call == 2 ? break : sleep(0.01) }
      p named.call, threads.call.length - before
      $stdout.flush
      $stdin.gets
    RUBY
    Open3.popen2(RbConfig.ruby, "-I", LIB, "-rlarder", "-e", program, server.url, namespace) do |input, output|
      assert_equal %W[2\n 2\n], [output.gets, output.gets]
      # Its own connection is one of the list.
      clients = server.command("CLIENT", "LIST").lines
      assert_equal 3 + 1, clients.length, clients.join
      input.puts
    end
  end

  def test_program_that_ends_while_calls_are_under_way_does_not_crash
    program = <<~'RUBY'
      view = Larder::Cache.new("ends", ttl: 60, redis: ARGV[0]).view("v")
      view.write("k", 1)
      4.times { |number| Thread.new { view.fetch("slow") { sleep 0.02; 1 } } }
      4.times { |number| Thread.new { loop { view.write("#{number}", [1] * 100); view.read("none") } } }
      sleep 0.05
    RUBY
    20.times { assert_program(program, redis.url) }
  end

  def test_program_that_ends_drains_what_is_queued
    server = own_redis
    reader = make_cache(redis: server.url).view("v")
    reader.write("k", "old")
    program = <<~'RUBY'
      cache = Larder::Cache.new(ARGV[1], ttl: 60, redis: ARGV[0], redis_timeout: "100ms")
      Larder.logger = nil
      view = cache.view("v")
      view.read("k")
      $stdout.sync = true
      puts "ready"
      $stdin.gets
      p view.delete_with_reach("k").last, cache.coherence[:pending_invalidations]
      puts "ends"
    RUBY
    Open3.popen2(RbConfig.ruby, "-I", LIB, "-rlarder", "-e", program, server.url, namespace) do |input, output, process|
      assert_equal "ready\n", output.gets
      server.hide
      input.puts
      assert_equal %W[false\n 1\n ends\n], Array.new(3) { output.gets }
      server.show
      assert_predicate process.value, :success?
    end
    eventually("the deletion is replayed") { reader.read("k").nil? }
  end
end
