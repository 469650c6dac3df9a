# frozen_string_literal: true

# What the tests share: a real redis-server on a socket of its own, caches of one namespace, and waiting for something.

require "larder"
require "minitest/autorun"
require "open3"
require "rbconfig"
require "socket"
require "stringio"
require "timeout"
require "tmpdir"

# A redis-server without a port, and without files that outlive it.
class RedisServer
  attr_reader :socket

  def initialize
    @folder = Dir.mktmpdir("larder-")
    @socket = "#{@folder}/redis.sock"
    start
  end

  def url
    "redis+unix://#{@socket}"
  end

  def start
    words = ["redis-server", "--port", "0", "--unixsocket", @socket, "--save", "", "--dir", @folder]
    @pid = Process.spawn(*words, out: File::NULL)
    Waiting.eventually("redis-server starts") do
      UNIXSocket.new(@socket).close
      true
    rescue SystemCallError
      false
    end
  end

  def pause
    Process.kill("STOP", @pid)
  end

  def go_on
    Process.kill("CONT", @pid)
  end

  def stop
    go_on
    Process.kill("KILL", @pid)
    Process.wait(@pid)
  end

  def remove
    stop
    FileUtils.rm_rf(@folder)
  end

  # The server is not where its clients look for it, and they lose what they have.
  def hide
    File.rename(@socket, "#{@socket}.hidden")
    %w[normal pubsub].each { |kind| command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "no", at: "#{@socket}.hidden") }
  end

  def show
    File.rename("#{@socket}.hidden", @socket)
  end

  # One command, for what the package does not do itself.
  def command(*words, at: @socket)
    UNIXSocket.open(at) do |client|
      client.write("*#{words.length}\r\n", *words.map { |word| "$#{word.to_s.bytesize}\r\n#{word}\r\n" })
      reply(client)
    end
  end

  private

  def reply(client)
    line = client.gets.chomp
    case line[0]
    when "$" then line == "$-1" ? nil : client.read(line[1..].to_i + 2)[0...-2]
    when "*" then Array.new(line[1..].to_i) { reply(client) }
    when ":" then line[1..].to_i
    else line[1..]
    end
  end
end

# Waiting for what other threads and processes do.
module Waiting
  module_function

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # Waits until the block is true.
  def eventually(what, seconds = 10)
    over = now + seconds
    until yield
      raise Minitest::Assertion, "#{what}: not within #{seconds} s" if now > over

      sleep 0.01
    end
  end

  # The results of a block in so many threads: what it returns or raises.
  def in_threads(count)
    threads = Array.new(count) do |number|
      Thread.new do
        yield number
      rescue StandardError => error
        error
      end
    end
    threads.map { |thread| (thread.join(60) || raise(Minitest::Assertion, "a thread hangs")).value }
  end

  # Waits until a thread waits in a call.
  def until_waiting(thread)
    eventually("the thread waits") { thread.status == "sleep" }
  end
end

# The base of the tests.
class LarderTest < Minitest::Test
  include Waiting

  LIB = $LOAD_PATH.find { |folder| File.exist?("#{folder}/larder.rb") }
  FOLDER = File.expand_path("..", __dir__)

  class << self
    # One server for all tests that let it run.
    def redis
      @@redis ||= RedisServer.new.tap { |server| Minitest.after_run { server.remove if Process.pid == @@pid } }
    end
  end
  @@pid = Process.pid

  def setup
    @opened = []
    @servers = []
  end

  def teardown
    @opened.each { |cache| cache.close(0.5) }
    @servers.each(&:remove)
  end

  def redis
    LarderTest.redis
  end

  # A server that the test may stop.
  def own_redis
    RedisServer.new.tap { |server| @servers << server }
  end

  def namespace
    "#{self.class.name}-#{name}".gsub(/[^A-Za-z0-9]/, "-")
  end

  # A cache of the namespace of this test: each is a node.
  def make_cache(**options)
    Larder::Cache.new(namespace, ttl: "5m", redis: redis.url, **options).tap { |cache| @opened << cache }
  end

  # A cache without Redis.
  def memory(**options)
    make_cache(redis: nil, **options)
  end

  # Runs a program in Ruby: what it writes, and how it ended.
  def run_program(text, *arguments, seconds: 60)
    words = [RbConfig.ruby, "-I", LIB, "-W:no-experimental", "-rlarder", "-e", text, *arguments.map(&:to_s)]
    Timeout.timeout(seconds) { Open3.capture3(*words) }
  end

  def assert_program(text, *arguments, **words)
    written, errors, status = run_program(text, *arguments, **words)
    assert status.success?, "#{status}: #{errors}#{written}"
    assert_empty errors
    written
  end

  # A value with what `==` does not tell: classes, encodings, the sign of zero, and that NaN is itself.
  def shape(value)
    case value
    when Hash then [value.class, value.map { |key, element| [shape(key), shape(element)] }]
    when Array then [value.class, value.map { |element| shape(element) }]
    when String then [value.class, value, value.encoding]
    when Float then [value.class, value.to_s]
    when Time then [value.class, value, value.utc?]
    else [value.class, value]
    end
  end

  # The log lines of larder meanwhile.
  def logged
    before = Larder.logger
    log = StringIO.new
    Larder.logger = Logger.new(log)
    yield
    log.string.lines
  ensure
    Larder.logger = before
  end
end
