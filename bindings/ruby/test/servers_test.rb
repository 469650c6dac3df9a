# frozen_string_literal: true

# Servers that load the program and fork then, and the example: each worker is a node of its own.

require_relative "support"
require "json"
require "net/http"

# A server as a process of its own, on a free port.
class Server
  attr_reader :port

  # +port+ is what the server shows of its own; without it a port is chosen before.
  def initialize(words, environment, folder)
    @log = "#{folder}/log"
    @pid = Process.spawn(environment, *words, chdir: folder, in: File::NULL, out: @log, err: @log)
    @port = environment.fetch("PORT").to_i
    Waiting.eventually("#{words.first} answers", 30) do
      raise Minitest::Assertion, log if Process.wait(@pid, Process::WNOHANG)

      Net::HTTP.get_response("127.0.0.1", "/", @port)
      true
    rescue SystemCallError, EOFError
      false
    end
  end

  def log
    File.read(@log)
  end

  def call(method, path, body = nil)
    Net::HTTP.start("127.0.0.1", @port, read_timeout: 20) do |http|
      http.send_request(method, path, body, { "Content-Type" => "application/json", "Connection" => "close" })
    end
  end

  # Stops it gracefully: its exit status.
  def stop
    Process.kill("TERM", @pid)
    _, status = Timeout.timeout(30) { Process.wait2(@pid) }
    @pid = nil
    status
  end

  def remove
    stop if @pid
  rescue Timeout::Error
    Process.kill("KILL", @pid)
    Process.wait(@pid)
  end
end

class ServersTest < LarderTest
  # That of the cache, and time for the answer itself.
  MAX_LAG = 0.2
  ANSWER = 0.3

  # Its cache is made, and used, before the server forks.
  PROGRAM = <<~'RUBY'
    require "larder"
    cache = Larder::Cache.new(ENV.fetch("NAMESPACE"), ttl: "5m", redis: ENV.fetch("REDIS_URL"), max_lag: 0.2)
    view = cache.view("value")
    view.write("k", "of the parent")
    view.read("k")
    run(lambda do |env|
      _, call, worker, *words = env["PATH_INFO"].split("/")
      result =
        case call
        when "read" then view.read("k")
        when "write" then worker.to_i == Process.pid ? view.write("k", words.first) : "nothing"
        when "load" then view.fetch(worker) { sleep 1; "loaded" }
        end
      [200, { "content-type" => "text/plain" }, ["#{Process.pid} #{result}"]]
    end)
  RUBY

  SERVERS = {
    puma: ->(port) { ["puma", "-b", "tcp://127.0.0.1:#{port}", "-w", "2", "-t", "4:4", "--preload", "config.ru"] },
    unicorn: ->(port) { ["unicorn", "-l", "127.0.0.1:#{port}", "-c", "unicorn.rb", "config.ru"] }
  }.freeze

  def serve(name)
    skip "#{name} is not installed" unless system("which", name.to_s, out: File::NULL)

    folder = Dir.mktmpdir("larder-")
    File.write("#{folder}/config.ru", PROGRAM)
    File.write("#{folder}/unicorn.rb", "worker_processes 2\npreload_app true\n")
    start(SERVERS.fetch(name), folder, "REDIS_URL" => redis.url, "NAMESPACE" => namespace)
  end

  def start(words, folder, **environment)
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    environment = { "RUBYLIB" => LIB, "PORT" => port.to_s, **environment.transform_keys(&:to_s) }
    Server.new(words.call(port), environment, folder).tap { |server| @servers << server }
  end

  SERVERS.each_key do |name|
    define_method("test_worker_of_#{name}_serves_what_another_one_has_changed") do
      server = serve(name)
      call = ->(path) { server.call("GET", path).body.split(" ", 2) }
      call_of = lambda do |worker, path|
        eventually("worker #{worker} answers", 20) do
          answered, result = call.call(path)
          return_value = result if answered == worker
          break return_value if return_value
        end
      end
      workers = []
      eventually("both workers answer", 20) { (workers |= [call.call("/read").first]).length == 2 }
      6.times do |turn|
        changing, serving = workers.rotate(turn)
        # The other one has the old value in its memory.
        call_of.call(serving, "/read")
        assert_equal "true", call_of.call(changing, "/write/#{changing}/turn-#{turn}")
        sleep MAX_LAG + ANSWER
        assert_equal "turn-#{turn}", call_of.call(serving, "/read")
      end
      # A request that is pending at the stop is answered.
      pending = Thread.new { call.call("/load/slow").last }
      sleep 0.5
      stopped = name == :unicorn ? nil : server.stop
      assert_equal "loaded", pending.value
      assert(stopped.nil? || stopped.success? || stopped.termsig == 15, server.log)
      refute_match(/panicked|\[BUG\]|SIGSEGV|SIGABRT|Error/, server.log)
    end
  end

  EXAMPLE = File.join(FOLDER, "examples/rack_shop")
  APPLE = { "id" => "apple", "name" => "Apple", "price" => 120 }.freeze
  LOADS = 'larder_tier_operations_total{operation="load",part="shop",tier="origin"}'

  # The example, as one process or with workers.
  def example(*words, **environment)
    skip "puma is not installed" unless system("which", "puma", out: File::NULL)

    folder = Dir.mktmpdir("larder-")
    FileUtils.cp(Dir.glob("#{EXAMPLE}/*"), folder)
    start(->(port) { ["puma", "-b", "tcp://127.0.0.1:#{port}", *words] }, folder, **environment)
  end

  def product(server, name = "apple")
    answer = server.call("GET", "/products/#{name}")
    assert_equal "200", answer.code, answer.body
    JSON.parse(answer.body)
  end

  def put(server, price, name = "apple")
    answer = server.call("PUT", "/products/#{name}", JSON.generate({ price: price }))
    assert_equal ["200", price], [answer.code, JSON.parse(answer.body)["price"]]
  end

  # The lines of the metrics that are no comments.
  def figures(server)
    lines = server.call("GET", "/metrics").body.lines.reject { |line| line.start_with?("#") }
    lines.to_h { |line| line.chomp.rpartition(" ").values_at(0, 2) }.transform_values(&:to_f)
  end

  def test_example_loads_once_and_shows_changes
    server = example(REDIS_URL: own_redis.url)
    answers = in_threads(2) { server.call("GET", "/products/apple") }
    assert_equal [APPLE] * 2, answers.map { |answer| JSON.parse(answer.body) }
    assert_equal ["Rack; fwd=miss", "Rack; hit"], answers.map { |answer| answer["cache-status"] }.sort
    assert_equal 1.0, figures(server)[LOADS]
    [1, 2, 3].each do |price|
      put(server, price)
      assert_equal [{ **APPLE, "price" => price }] * 2, [product(server), product(server)]
    end
    assert_equal 10, server.call("GET", "/metrics").body.scan(/^# TYPE larder_/).length
    assert_equal 10, server.call("GET", "/metrics").body.scan(/^# HELP larder_/).length
    assert_equal 1.0, figures(server)['larder_coherent{part="shop"}']
    assert_equal File.read("#{EXAMPLE}/index.html"), server.call("GET", "/").body.force_encoding("UTF-8")
  end

  def test_example_refuses_what_is_wrong_with_a_reason
    server = example
    ['"abc"', "1.5", "-1", "1000001", "true", "null"].each do |price|
      answer = server.call("PUT", "/products/apple", %({"price": #{price}}))
      assert_equal ["400", "price is #{price}; it must be a whole number of cents from 0 to 1000000"],
                   [answer.code, JSON.parse(answer.body)["error"]]
    end
    ['{"price": ', "[]", ""].each { |body| assert_equal "400", server.call("PUT", "/products/apple", body).code }
    [["GET", nil], ["PUT", '{"price": 1}']].each do |method, body|
      answer = server.call(method, "/products/nothing", body)
      assert_equal ["404", 'there is no product "nothing"'], [answer.code, JSON.parse(answer.body)["error"]]
    end
    ["%00", "a%20b", "x" * 2_000].each { |name| assert_equal "404", server.call("GET", "/products/#{name}").code }
    assert_equal "405", server.call("DELETE", "/products/apple").code
    assert_equal APPLE, product(server)
  end

  def test_example_answers_without_redis
    server = own_redis
    app = example(REDIS_URL: server.url)
    product(app)
    server.stop
    assert_equal [APPLE, 150], [product(app), product(app, "pear")["price"]]
    put(app, 5)
    assert_equal 5, product(app)["price"]
    eventually("the figures tell that Redis is away") { figures(app)['larder_coherent{part="shop"}'].zero? }
    server.start
    eventually("the invalidation is confirmed", 20) { figures(app)['larder_pending_invalidations{part="shop"}'].zero? }
    assert_equal 5, product(app)["price"]
  end

  def test_workers_and_processes_of_the_example_show_the_same
    url = own_redis.url
    file = "#{Dir.mktmpdir('larder-')}/origin.json"
    workers = example("-w", "2", "--preload", REDIS_URL: url, ORIGIN_FILE: file)
    other = example(REDIS_URL: url, ORIGIN_FILE: file)
    4.times do |turn|
      changing, showing = [workers, other].rotate(turn)
      5.times { product(showing) }
      put(changing, turn)
      eventually("the change is shown", 3) { Array.new(5) { product(showing)["price"] }.uniq == [turn] }
    end
    assert_equal 3, JSON.parse(File.read(file))["apple"]["price"]
  end

  def test_page_is_that_of_the_other_examples
    page = File.read("#{EXAMPLE}/index.html")
    assert_equal File.read(File.join(FOLDER, "../node/examples/express/index.html")), page
    refute_match(/https?:/, page)
  end
end
