# The cache of Rails with its store for Redis.

require "active_support"
require "active_support/cache"
require "active_support/cache/redis_cache_store"
require "active_support/core_ext/numeric/time"

def rails_cases(suite)
  name = "Rails' RedisCacheStore"
  errors = []
  handler = ->(method:, returning:, exception:) { errors << exception }
  store = ActiveSupport::Cache::RedisCacheStore.new(url: suite.url, namespace: "rails", error_handler: handler)
  cases = {
    "values" => :store_values, "multi" => :store_multi, "increment" => :store_increment,
    "delete_matched" => :store_delete_matched, "race_condition_ttl" => :store_race_condition
  }
  cases.each do |title, run|
    suite.test(name, title) do
      errors.clear
      send(run, store, suite.key)
      raise errors.first unless errors.empty?
    end
  end
  suite.survives(name) { equal([store.write("survivor", 1), store.read("survivor")], ["OK", 1]) }
end

def store_values(store, key)
  equal(store.write(key, { a: [1, nil] }, expires_in: 1.minute), "OK")
  equal(store.read(key), { a: [1, nil] })
  equal(store.fetch(key) { "other" }, { a: [1, nil] })
  equal(store.fetch("#{key}:made") { "made" }, "made")
  equal(store.write(key, "kept", unless_exist: true), false)
  equal(store.exist?(key), true)
  equal(store.delete(key), 1)
  equal(store.read(key), nil)
end

def store_multi(store, key)
  values = { "#{key}:1" => 1, "#{key}:2" => "two" }
  store.write_multi(values, expires_in: 1.minute)
  equal(store.read_multi(*values.keys, "#{key}:missing"), values)
  equal(store.fetch_multi("#{key}:1", "#{key}:3") { |name| name }, { "#{key}:1" => 1, "#{key}:3" => "#{key}:3" })
  equal(store.delete_multi(values.keys), 2)
end

def store_increment(store, key)
  equal(store.increment(key, 41, expires_in: 1.minute), 41)
  equal(store.increment(key), 42)
  equal(store.decrement(key, 2), 40)
end

def store_delete_matched(store, key)
  30.times { |number| store.write("#{key}:#{number}", number) }
  store.delete_matched("#{key}:*")
  equal(store.read_multi(*30.times.map { |number| "#{key}:#{number}" }), {})
end

# The expired value is extended for others while one caller makes a new one.
def store_race_condition(store, key)
  store.write(key, "old", expires_in: 0.05, race_condition_ttl: 10.seconds)
  sleep 0.1
  seen = nil
  made = store.fetch(key, race_condition_ttl: 10.seconds, expires_in: 1.minute) do
    seen = store.read(key)
    "new"
  end
  equal([made, seen, store.read(key)], %w[new old new])
end
