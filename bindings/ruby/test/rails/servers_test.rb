# frozen_string_literal: true

# Servers that load the program and fork then, puma in its cluster mode and unicorn: each worker is a node of its own.

require_relative "support"
require "net/http"

# A server on a socket of its own, with two workers and a store that was made before the fork.
class Server
  include Waiting

  APP = File.join(__dir__, "servers_app.ru")
  # Words that only a fault writes to the log.
  FAULTS = ["panicked", "SEGV", "SIGABRT", "SIGKILL", "SIGTRAP", "Segmentation", "[BUG]", "Error:", "timeout", "Traceback"].freeze

  def initialize(kind, redis, name)
    @folder = Dir.mktmpdir("larder-")
    @socket = File.join(@folder, "http.sock")
    @log = File.join(@folder, "log")
    environment = { "LARDER_TEST_REDIS" => redis.url, "LARDER_TEST_NAME" => name, "RUBYLIB" => $LOAD_PATH.join(":") }
    @process = Process.spawn(environment, *words(kind), out: @log, err: %i[child out], chdir: @folder)
    eventually("#{kind} answers", 30) { answers? }
  end

  def words(kind)
    return ["puma", "--bind", "unix://#{@socket}", "--workers", "2", "--threads", "1:4", "--preload", APP] if kind == "puma"

    config = File.join(@folder, "unicorn.rb")
    File.write(config, "listen #{@socket.inspect}\nworker_processes 2\npreload_app true\ntimeout 20\n")
    ["unicorn", "--config-file", config, "--env", "none", APP]
  end

  def log
    File.read(@log)
  end

  # How many requests load something, or wait for that.
  def requests
    Dir.glob("request-*", base: @folder).size
  end

  # One request. Returns the number of the worker, and the result as Ruby shows it.
  def call(*parts)
    UNIXSocket.open(@socket) do |socket|
      socket.write("GET /#{parts.join("/")} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      head, body = socket.read.split("\r\n\r\n", 2)
      raise "#{head}\n#{log}" unless head.start_with?("HTTP/1.1 200")

      body = body.lines[1].chomp if head.match?(/chunked/i)
      worker, result = body.split(" ", 2)
      [worker.to_i, result]
    end
  end

  # The same, again until this worker answers.
  def call_of(worker, *parts)
    result = nil
    eventually("#{worker} answers", 20) do
      answering, result = call(*parts)
      answering == worker
    end
    result
  end

  # The numbers of both workers, each of which has the value in its memory then.
  def workers
    seen = []
    eventually("both workers answer", 20) do
      # At once, so that not the same one answers each.
      seen |= in_threads(4) { call("read", "k").first }
      seen.size == 2
    end
    seen
  end

  # Stops it gracefully. Returns whether it exits as it should.
  def stop
    Process.kill(:QUIT, @process) if unicorn?
    Process.kill(:TERM, @process) unless unicorn?
    _, status = Process.wait2(@process)
    @process = nil
    status.success? || status.termsig == Signal.list["TERM"]
  end

  def remove
    if @process
      Process.kill(:TERM, @process)
      Process.wait(@process)
    end
    FileUtils.rm_rf(@folder)
  end

  def faults
    FAULTS.select { |fault| log.include?(fault) }
  end

  private
    def unicorn?
      File.exist?(File.join(@folder, "unicorn.rb"))
    end

    def answers?
      raise log if Process.wait(@process, Process::WNOHANG)

      call("read", "k")
    rescue SystemCallError, NoMethodError
      nil
    end
end

class ServersTest < StoreTest
  MAX_LAG, ANSWER = 0.2, 0.3

  def start(kind)
    skip "#{kind} is not installed" unless system("which", kind, out: File::NULL)
    @server = Server.new(kind, LarderTest.redis, @name)
  end

  def teardown
    @server&.remove
  end

  %w[puma unicorn].each do |kind|
    test "#{kind}: a worker serves what another one has changed" do
      server = start(kind)
      first, second = server.workers
      10.times do |turn|
        changing, serving = turn.even? ? [first, second] : [second, first]
        server.call_of(serving, "read", "k")
        assert_equal "true", server.call_of(changing, "write-in", changing, "k", "value-#{turn}")
        sleep(MAX_LAG + ANSWER)
        assert_equal "\"value-#{turn}\"", server.call_of(serving, "read", "k")
      end
      assert_equal "true", server.call_of(first, "delete-in", first, "k")
      sleep(MAX_LAG + ANSWER)
      assert_equal "nil", server.call_of(second, "read", "k")
      assert server.stop
      assert_empty server.faults, server.log
    end

    test "#{kind}: workers load once, and a graceful stop ends their requests" do
      server = start(kind)
      server.workers
      # A worker of unicorn has one request at a time: one for each of the two.
      requests = Array.new(2) { Thread.new { server.call("load", "new") } }
      eventually("both requests have come") { server.requests == 2 }
      assert server.stop
      answers = requests.map { |request| request.join(20).value.last }
      assert_equal 1, answers.uniq.size, answers
      assert_match(/\A"loaded by \d+"\z/, answers.first)
      assert_empty server.faults, server.log
    end
  end
end
