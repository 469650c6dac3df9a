# frozen_string_literal: true

# A cache of Ruby over Redis that `larder-bench run stale` judges: each program is one node.
#
#     ruby peers.rb rails    RedisCacheStore of ActiveSupport, which has no memory of its own
#
# It obeys the lines `open`, `fetch`, `read`, `write` and `delete` of bindings/interop/protocol.md. Keys and values are plain words.

require "active_support"
require "active_support/cache"
require "active_support/cache/redis_cache_store"

TTL = 3600

# One node: each call has a thread of its own.
class Node
  def initialize
    @loading = {}
    @said = Mutex.new
  end

  def receive(line)
    name, number, *words = line.chomp.split(" ")
    if name == "loaded"
      @loading.delete(number) << words[0][1..]
    else
      Thread.new { answer(name, number, words) }
    end
  end

  private

  def answer(name, number, words)
    say("done", number, *call(name, number, *words))
  rescue StandardError => e
    say("failed", number, "other", e.message.gsub(/[^A-Za-z0-9]/, "."))
  end

  def call(name, number, key, value = nil, *)
    case name
    when "open" then open(key)
    when "read" then word(@store.read(key))
    when "write" then @store.write(key, value[1..], expires_in: TTL) && "yes"
    when "delete" then @store.delete(key) && %w[yes yes]
    when "fetch" then word(@store.fetch(key, expires_in: TTL) { load(number, key) })
    end
  end

  def open(url)
    # It raises where it cannot do what it was asked for, instead of a silent miss.
    failed = ->(method:, returning:, exception:) { raise exception }
    @store = ActiveSupport::Cache::RedisCacheStore.new(url: url, error_handler: failed, reconnect_attempts: 3)
    @store.read("first")
    nil
  end

  def load(number, key)
    loaded = @loading[number] = Queue.new
    say("loading", number, key)
    loaded.pop
  end

  def word(value)
    value.nil? ? "-" : "t#{value}"
  end

  def say(*words)
    @said.synchronize do
      $stdout.puts(words.compact.join(" "))
      $stdout.flush
    end
  end
end

node = Node.new
puts "ready"
$stdout.flush
$stdin.each_line { |line| node.receive(line) }
