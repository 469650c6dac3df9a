# frozen_string_literal: true

# Redis is away, hangs, or comes back: a fetch loads, and an invalidation is queued.

require_relative "support"

class OutageTest < LarderTest
  def test_fetch_loads_and_invalidations_are_queued_while_redis_is_away
    server = own_redis
    cache = make_cache(redis: server.url, redis_timeout: "100ms")
    view = cache.view("value")
    other = make_cache(redis: server.url, redis_timeout: "100ms").view("value")
    view.write("k", 1)
    assert_equal 1, other.read("k")
    server.pause
    logged do
      assert_equal false, view.write("k", 2)
      assert_equal 3, view.fetch("loaded") { 3 }
      assert_equal [false, false], view.delete_with_reach("nothing")
      [-> { view.add("k", 1) }, -> { view.increment("k") }, -> { view.take("k") }].each do |call|
        assert_raises(Larder::RedisError, &call)
      end
      assert_operator cache.coherence[:pending_invalidations], :>, 0
      server.go_on
      eventually("the invalidations are replayed") { cache.drain(1).zero? }
      eventually("the other node hears of it") { other.read("k") != 1 }
    end
  end

  def test_nothing_waits_longer_than_its_timeouts_and_the_log_says_why
    began = now
    lines = logged do
      cache = make_cache(redis: "redis://127.0.0.1:1", redis_timeout: "100ms")
      view = cache.view("value")
      assert_nil view.read("k")
      assert_match(/\AConnection refused/, cache.coherence[:problem])
      assert_equal 1, view.fetch("k") { 1 }
      assert_equal false, view.write("k", 2)
    end
    assert_operator now - began, :<, 5
    assert_match(/WARN.*request to redis failed/, lines.join)
  end

  def test_logger_that_fails_fails_no_call
    before = Larder.logger
    broken = Object.new
    def broken.warn(*)
      raise "the disk is full"
    end
    Larder.logger = broken
    view = make_cache(redis: "redis://127.0.0.1:1", redis_timeout: "100ms").view("value")
    _, errors = capture_io { assert_equal 1, view.fetch("k") { 1 } }
    assert_match(/larder: the logger has failed: the disk is full \(RuntimeError\)/, errors)
    Larder.logger = nil
    assert_equal 2, view.fetch("other") { 2 }
  ensure
    Larder.logger = before
  end
end
