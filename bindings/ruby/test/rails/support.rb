# frozen_string_literal: true

# What the tests of the store for Rails share, beside what all tests do: stores, and forked processes.

require_relative "../support"
require "active_support"
require "active_support/test_case"
require "active_support/testing/method_call_assertions"
require "active_support/cache"
require "active_support/cache/larder_store"
require "active_support/logger"
require "active_support/core_ext/integer/time"
require "minitest/mock"
require "fileutils"
require "securerandom"

I18n.enforce_available_locales = false
ActiveSupport.test_order = :random

# A test with stores of a name of its own.
class StoreTest < ActiveSupport::TestCase
  include ActiveSupport::Testing::MethodCallAssertions
  include Waiting

  SECRET = "a secret of the tests"

  # The log of larder during a test.
  attr_reader :log

  def before_setup
    @logger, Larder.logger = Larder.logger, Logger.new(@log = StringIO.new)
    @name = "test-#{SecureRandom.hex(4)}"
    @stores = []
    super
  end

  def after_teardown
    super
    @stores.each do |store|
      waits = store.instance_variable_get(:@waits)
      left = waits.instance_variables.map { |name| waits.instance_variable_get(name) }.grep(Hash)
      assert_equal [{}, {}], left, "a thread that neither loads nor waits"
    end
    @stores.each { |store| store.larder.close(0.5) }
    ActiveSupport::Cache::Store.logger = nil
    Larder.logger = @logger
  end

  def redis
    LarderTest.redis
  end

  # A store that is a node of its own. In memory only, unless a server is given.
  def store(redis: nil, **options)
    words = [redis&.url].compact
    store = ActiveSupport::Cache.lookup_store(:larder_store, *words, { name: @name, secret: SECRET, **options })
    @stores << store
    store
  end

  # One that is a node over Redis, which notices changes within 0.2 s.
  def node(**options)
    store(redis: redis, max_lag: "200ms", **options)
  end

  # A forked process that runs the block with a pipe to this one. Returns its number and the pipe.
  def forked
    from_child, to_parent = IO.pipe
    process = fork do
      from_child.close
      to_parent.sync = true
      yield to_parent
      to_parent.close
      # Not the tests that the parent runs at its exit.
      exit!(0)
    rescue Exception => error # rubocop:disable Lint/RescueException
      to_parent.puts("failed: #{error.full_message(highlight: false)}")
      exit!(1)
    end
    to_parent.close
    [process, from_child]
  end
end
