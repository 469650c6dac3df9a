# The stores of document 2: prints what one of them does a second, and how many objects it allocates.
#   ruby stores.rb STORE MILLISECONDS REDIS_SOCKET MEMCACHED_SOCKET
# Each line is a workload, a measure and a number; for the store "versions", a name and a version.
require "active_support"
require "active_support/cache"
require "active_support/cache/mem_cache_store"
require "active_support/cache/redis_cache_store"
require "connection_pool"
require "hiredis"
require "json"
require "oj"

STORE, MILLISECONDS, REDIS, MEMCACHED = ARGV
KEYS = ("a".."z").to_a.freeze
VALUES = KEYS.to_h { |key| [key, key * 1024] }.freeze
PAIRS = KEYS.to_h { |key| [key, key] }.freeze

# As Readthis does it: a pool of connections, entries without a wrapper, and at most two commands for many keys.
class Readthis
  PASSTHROUGH = Struct.new(:name) { def dump(value) = value.to_s; def load(text) = text }.new("passthrough")
  OJ = Struct.new(:name) { def dump(value) = Oj.dump(value, mode: :compat); def load(text) = Oj.load(text) }.new("Oj")

  def initialize(driver: :hiredis, serializer: Marshal, expires_in: 60)
    @pool = ConnectionPool.new(size: 5, timeout: 5) { Redis.new(path: REDIS, driver: driver) }
    @serializer, @expires_in = serializer, expires_in
  end

  def read(key) = @pool.with { |redis| load(redis.get(key)) }

  def write(key, value) = @pool.with { |redis| redis.setex(key, @expires_in, @serializer.dump(value)) }

  def read_multi(*keys)
    values = @pool.with { |redis| redis.mget(*keys) }
    keys.zip(values).each_with_object({}) { |(key, value), found| found[key] = load(value) if value }
  end

  def write_multi(values)
    @pool.with do |redis|
      redis.multi { |all| values.each { |key, value| all.setex(key, @expires_in, @serializer.dump(value)) } }
    end
  end

  def fetch_multi(*keys)
    found = read_multi(*keys)
    missing = (keys - found.keys).to_h { |key| [key, yield(key)] }
    write_multi(missing) unless missing.empty?
    found.merge(missing)
  end

  private

  def load(value) = value && @serializer.load(value)
end

# How many times a second a block runs.
def rate
  seconds = MILLISECONDS.to_f / 1000
  clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
  [0.2 * seconds, seconds].map do |limit|
    start, count = clock.call, 0
    while (elapsed = clock.call - start) < limit
      yield
      count += 1
    end
    count / elapsed
  end.last
end

def report(workload, measure, number) = puts([workload, measure, number].join("\t"))

def check(found, expected) = found == expected || abort("#{STORE} returns a wrong value")

def multi(store)
  store.write_multi(VALUES)
  check(store.read_multi(*KEYS), VALUES)
  check(store.fetch_multi(*KEYS) { |key| abort("#{STORE} has lost #{key}") }, VALUES)
  report("multi", "read-multi", rate { store.read_multi(*KEYS) })
  report("multi", "fetch-multi", rate { store.fetch_multi(*KEYS) { |key| key * 1024 } })
  before = GC.stat(:total_allocated_objects)
  100.times { store.read_multi(*KEYS) }
  report("allocations", "allocations", (GC.stat(:total_allocated_objects) - before).fdiv(100 * KEYS.size))
end

def driver(name)
  store = Readthis.new(driver: name)
  store.write_multi(VALUES)
  check(store.read_multi(*KEYS), VALUES)
  report("driver", "read-multi", rate { store.read_multi(*KEYS) })
end

def marshal(serializer, loaded)
  store = Readthis.new(serializer: serializer)
  store.write("pairs", PAIRS)
  check(store.read("pairs"), loaded)
  report("marshal", "load", rate { store.read("pairs") })
  report("marshal", "dump", rate { store.write("pairs", PAIRS) })
end

case STORE
when "memory" then multi(ActiveSupport::Cache::MemoryStore.new(expires_in: 60))
when "readthis" then multi(Readthis.new)
when "memcached" then multi(ActiveSupport::Cache::MemCacheStore.new(MEMCACHED, expires_in: 60))
when "redis" then multi(ActiveSupport::Cache::RedisCacheStore.new(redis: -> { Redis.new(path: REDIS, driver: :hiredis) }, expires_in: 60))
when "driver-ruby" then driver(:ruby)
when "driver-hiredis" then driver(:hiredis)
when "marshal-passthrough" then marshal(Readthis::PASSTHROUGH, PAIRS.to_s)
when "marshal-oj" then marshal(Readthis::OJ, PAIRS)
when "marshal-json" then marshal(JSON, PAIRS)
when "marshal-marshal" then marshal(Marshal, PAIRS)
when "versions"
  versions = { "ActiveSupport" => ActiveSupport::VERSION::STRING, "dalli" => Dalli::VERSION, "redis-rb" => Redis::VERSION,
               "hiredis-rb" => Hiredis::VERSION, "connection_pool" => ConnectionPool::VERSION, "Oj" => Oj::VERSION }
  versions.each { |name, version| puts("#{name}\t#{version}") }
else abort("there is no store #{STORE}")
end
