# frozen_string_literal: true

# The calls that `larder-bench run languages` measures in Ruby, of larder and of its peers.
#
# A line on stdin names a workload, a subject and a number of calls. The answer is the nanoseconds of one call, or why there are
# none. The only argument is the address of a Redis.

KEYS = Array.new(1_000) { |number| "product:#{number}" }.freeze
VALUE = {
  "name" => "apple", "price" => 3, "tags" => %w[fruit red], "description" => "a" * 160, "weight" => 0.5
}.freeze
TEXT = ("a" * 254).freeze
TTL = 600

def now(clock)
  Process.clock_gettime(clock, :nanosecond)
end

# A view that has all keys.
def larder(name, value, **options)
  require "larder"
  view = Larder::Cache.new("bench", ttl: TTL, memory_bytes: "64MiB").view(name, **options)
  KEYS.each { |key| view.write(key, value) }
  view
end

def of_hash
  table = KEYS.to_h { |key| [key, VALUE] }
  ->(keys) { keys.each { |key| table[key] } }
end

# A Hash that threads may share.
def of_mutex
  table = KEYS.to_h { |key| [key, VALUE] }
  lock = Mutex.new
  ->(keys) { keys.each { |key| lock.synchronize { table[key] } } }
end

# A store of Rails that has all keys.
def of_store(value, *words)
  require "active_support"
  require "active_support/cache"
  store = ActiveSupport::Cache.lookup_store(*words)
  KEYS.each { |key| store.write(key, value, expires_in: TTL) }
  ->(keys) { keys.each { |key| store.read(key) } }
end

def of_larder_store(value)
  of_store(value, :larder_store, { name: "bench", secret: "signs nothing else" })
end

def of_memory_store(value)
  of_store(value, :memory_store, { size: 64 << 20 })
end

def of_hit(view)
  ->(keys) { keys.each { |key| view.hit(key) } }
end

def of_read(view)
  ->(keys) { keys.each { |key| view.read(key) } }
end

def of_fetch(view)
  ->(keys) { keys.each { |key| view.fetch(key) { nil } } }
end

CALLS = {
  %w[ruby-shared larder] => -> { of_hit(larder("shared", VALUE, shared: true)) },
  ["ruby-shared", "larder fetch"] => -> { of_fetch(larder("fetched", VALUE, shared: true)) },
  %w[ruby-shared Mutex] => -> { of_mutex },
  %w[ruby-shared Hash] => -> { of_hash },
  %w[ruby-copied larder] => -> { of_read(larder("copied", VALUE)) },
  %w[ruby-rails larder] => -> { of_larder_store(VALUE) },
  %w[ruby-rails MemoryStore] => -> { of_memory_store(VALUE) },
  %w[ruby-rails-text larder] => -> { of_larder_store(TEXT) },
  %w[ruby-rails-text MemoryStore] => -> { of_memory_store(TEXT) }
}.freeze

# The processor time of a hit, with that of the loop around it.
def hits(call, count)
  keys = Array.new(count) { KEYS.sample }
  began = now(Process::CLOCK_THREAD_CPUTIME_ID)
  call.call(keys)
  (now(Process::CLOCK_THREAD_CPUTIME_ID) - began).fdiv(count)
end

# The time of a fetch that no tier answers, with a block that takes none.
def cold_fetches(count)
  require "larder"
  cache = Larder::Cache.new("bench-ruby", ttl: TTL, redis: ARGV.fetch(0))
  view = cache.view("cold")
  view.fetch("connects") { {} }
  keys = Array.new(count) { |number| "#{Process.pid}-#{now(Process::CLOCK_MONOTONIC)}-#{number}" }
  began = now(Process::CLOCK_MONOTONIC)
  keys.each { |key| view.fetch(key) { VALUE } }
  elapsed = (now(Process::CLOCK_MONOTONIC) - began).fdiv(count)
  cache.close
  elapsed
end

$stdout.sync = true
calls = {}
$stdin.each_line(chomp: true) do |line|
  workload, subject, count = line.split("\t")
  count = Integer(count)
  if workload == "ruby-cold"
    puts cold_fetches(count)
  else
    call = calls[[workload, subject]] ||= CALLS.fetch([workload, subject]).call.tap { |made| hits(made, count) }
    puts hits(call, count)
  end
rescue StandardError, LoadError => error
  puts "failed: #{error.message.lines.first&.chomp.inspect} (#{error.class})"
end
