# redis-rb: pipelines, transactions, WATCH, messages, and scripts.

require "redis"

def redis_rb_cases(suite)
  client = Redis.new(url: suite.url)
  cases = {
    "values" => :values, "pipelined" => :pipelined, "MULTI" => :multi, "WATCH" => :watch,
    "publish and subscribe" => :messages, "script" => :script, "sorted sets" => :sorted_sets, "sets" => :sets
  }
  cases.each { |name, run| suite.test("redis-rb", name) { send(run, client, suite.key) } }
  suite.survives("redis-rb") { equal(client.set("ruby:survivor", 1), "OK") }
end

def values(client, key)
  equal(client.set(key, 1, ex: 60), "OK")
  equal(client.set(key, 2, nx: true), false)
  equal(client.incrby(key, 41), 42)
  equal(client.mget(key, "#{key}:missing"), ["42", nil])
  equal(client.ttl(key).positive?, true)
  equal(client.scan_each(match: key).to_a, [key])
  equal(client.del(key), 1)
end

def pipelined(client, key)
  replies = client.pipelined do |pipeline|
    pipeline.set(key, 41)
    pipeline.incr(key)
  end
  equal(replies, ["OK", 42])
  fails(Redis::CommandError) do
    client.pipelined do |pipeline|
      pipeline.set(key, "text")
      pipeline.incr(key)
    end
  end
end

def multi(client, key)
  replies = client.multi do |transaction|
    transaction.set(key, 41)
    transaction.incr(key)
  end
  equal(replies, ["OK", 42])
end

def watch(client, key)
  other = client.dup
  lost = client.watch(key) do
    other.set(key, "changed")
    client.multi { |transaction| transaction.set(key, "lost") }
  end
  equal(lost, nil)
  equal(client.watch(key) { client.multi { |transaction| transaction.set(key, "kept") } }, ["OK"])
end

# A thread publishes when this one has subscribed.
def messages(client, key)
  subscriber = client.dup
  received = []
  publisher = nil
  subscriber.psubscribe("#{key}*") do |on|
    on.psubscribe do
      publisher = Thread.new { [client.publish(key, "first"), client.publish("#{key}:a", "second")] }
    end
    on.pmessage do |_, _, message|
      received << message
      subscriber.punsubscribe if received.size == 2
    end
  end
  equal(publisher.value, [1, 1])
  equal(received, %w[first second])
end

def script(client, key)
  add = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
  equal(client.eval(add, keys: [key], argv: [5]), 5)
  equal(client.evalsha(client.script(:load, add), keys: [key], argv: [5]), 10)
end

def sorted_sets(client, key)
  equal(client.zadd(key, [[1, "a"], [2.5, "b"]]), 2)
  equal(client.zrange(key, 0, -1, with_scores: true), [["a", 1.0], ["b", 2.5]])
end

def sets(client, key)
  equal(client.sadd(key, ["member"]), 1)
end
