# frozen_string_literal: true

# Rails' own tests of cache stores, in memory and over Redis. LARDER_RAILS_TESTS is the folder into which source.rb has unpacked
# them.

require_relative "support"

RAILS_TESTS = ENV.fetch("LARDER_RAILS_TESTS") { abort("LARDER_RAILS_TESTS names no folder: see source.rb") }
require File.join(RAILS_TESTS, "activesupport/test/cache/behaviors")

# Tests of Rails that are left out, and why.
module LeftOut
  CLOCK = "it moves the clock of Ruby, and larder has its own; values_test.rb waits for real times instead"
  WRITES = "a block's value is stored by the fetch that has run it, without a call of write"
  ENTRY = "it looks into an Entry, which this store does not have; larder compresses what it writes to Redis"
  POOL = "there is no pool: all threads share the connections of the process"
  CODER = "an Entry for a coder, which this store does not have"
  RAW = "it expects a number where a raw value is a text everywhere else"

  TESTS = {
    CacheStoreBehavior => {
      test_read_multi_with_expires: CLOCK,
      test_expires_in: CLOCK,
      test_race_condition_protection: CLOCK,
      test_race_condition_protection_is_limited: CLOCK,
      test_race_condition_protection_is_safe: CLOCK,
      test_race_condition_protection_skipped_if_not_defined: CLOCK,
      test_fetch_with_cache_miss: WRITES,
      test_fetch_with_forced_cache_miss: WRITES,
      **CacheStoreBehavior.instance_methods.grep(/\Atest_.*(compress|incompressable)/).to_h { |name| [name, ENTRY] },
    },
    CacheInstrumentationBehavior => {
      test_fetch_multi_uses_write_multi_entries_store_provider_interface: WRITES,
    },
    LocalCacheBehavior => {
      test_local_cache_of_increment: RAW,
      test_local_cache_of_decrement: RAW,
    },
    ConnectionPoolBehavior => { test_connection_pool: POOL, test_no_connection_pool: POOL },
    CacheStoreCoderBehavior => CacheStoreCoderBehavior.instance_methods.grep(/\Atest_/).to_h { |name| [name, CODER] },
  }.freeze

  # Called in a class that has included behaviors.
  def leave_out
    names = ancestors.filter_map { |behavior| TESTS[behavior] }.flat_map(&:keys)
    names.each { |name| undef_method(name) if method_defined?(name) }
  end
end

# What every store of Rails does.
class BehaviorTest < StoreTest
  extend LeftOut

  def setup
    @cache = lookup_store(expires_in: 60)
  end

  def lookup_store(options = {})
    store(**options)
  end

  include CacheStoreBehavior
  include CacheStoreVersionBehavior
  include CacheIncrementDecrementBehavior
  include CacheDeleteMatchedBehavior
  include CacheInstrumentationBehavior
  include EncodedKeyCacheBehavior
  include AutoloadingCacheBehavior
  include CacheStoreCoderBehavior
  leave_out
end

class BehaviorOverRedisTest < BehaviorTest
  def lookup_store(options = {})
    node(**options)
  end
end

# The same with the local cache of a request, over Redis: other stores see another node.
class LocalCacheTest < BehaviorOverRedisTest
  def setup
    super
    @peek = lookup_store(expires_in: 60)
  end

  def lookup_store(options = {})
    node(**options, local_cache: true)
  end

  include LocalCacheBehavior
  leave_out
end

# All of it while a local cache is active, except what unloads classes: a local cache has objects of them.
class WithinLocalCacheTest < LocalCacheTest
  AutoloadingCacheBehavior.instance_methods.grep(/\Atest_/).each { |name| undef_method(name) }

  REGISTRY = ActiveSupport::Cache::Strategy::LocalCache::LocalCacheRegistry

  def setup
    super
    REGISTRY.set_cache_for(@cache.middleware.local_cache_key, ActiveSupport::Cache::Strategy::LocalCache::LocalStore.new)
  end

  def teardown
    REGISTRY.set_cache_for(@cache.middleware.local_cache_key, nil)
    super
  end
end

# A store that finds its Redis away.
class FailureSafetyTest < StoreTest
  include FailureSafetyBehavior

  def setup
    @server = RedisServer.new
    @cache = store(redis: @server)
  end

  def teardown
    @server.remove
  end

  private
    def emulating_unavailability
      @server.stop
      yield store(redis: @server)
    ensure
      @server.start
    end
end

class LeftOutTest < ActiveSupport::TestCase
  test "tests that are left out exist, and the others are many" do
    LeftOut::TESTS.each do |behavior, tests|
      tests.each_key { |name| assert_includes behavior.instance_methods, name }
    end
    behaviors = Object.constants.grep(/Behavior\z/).map { |name| Object.const_get(name) } - [ConnectionPoolBehavior]
    tests = [LocalCacheTest, FailureSafetyTest, BehaviorTest]
    assert_equal [], behaviors.reject { |behavior| tests.any? { |test| test.include?(behavior) } }
    run = [BehaviorTest, BehaviorOverRedisTest, LocalCacheTest, WithinLocalCacheTest].sum { |tests| tests.runnable_methods.size }
    assert_operator run, :>, 400
  end
end
