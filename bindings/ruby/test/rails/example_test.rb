# frozen_string_literal: true

# The example over Rails as a process of its own: alone, as two processes, and as workers of one server.

require_relative "support"
require "json"
require "net/http"

# The example under puma, on a free port.
class Shop
  include Waiting

  FOLDER = File.expand_path("../../examples/rails_shop", __dir__)

  def initialize(redis, log, origin: "", words: [])
    environment = { "REDIS_URL" => redis&.url, "ORIGIN_FILE" => origin, "RAILS_ENV" => "production" }
    environment["RUBYLIB"] = $LOAD_PATH.join(":")
    @log = log
    words = ["puma", "--bind", "tcp://127.0.0.1:0", *words, "config.ru"]
    @process = Process.spawn(environment, *words, out: log, err: %i[child out], chdir: FOLDER)
    eventually("puma listens", 30) { @port = port }
    eventually("the workers answer", 30) { call("GET", "/metrics") }
  end

  # One request: the status, the value of the body if it is JSON and its text otherwise, and the answer.
  def call(method, path, body = nil)
    Net::HTTP.start("127.0.0.1", @port, read_timeout: 20) do |http|
      answer = http.send_request(method, path, body)
      is_json = answer.content_type == "application/json"
      [answer.code.to_i, is_json ? JSON.parse(answer.body) : answer.body, answer]
    end
  rescue SystemCallError, EOFError
    nil
  end

  def get(name = "apple")
    status, product = call("GET", "/products/#{name}")
    raise product.inspect unless status == 200

    product
  end

  def put(price, name = "apple")
    status, product = call("PUT", "/products/#{name}", { price: price }.to_json)
    raise product.inspect unless [status, product["price"]] == [200, price]
  end

  def figures
    lines = call("GET", "/metrics")[1].lines.reject { |line| line.start_with?("#") }
    lines.to_h { |line| line.rpartition(" ").values_at(0, 2) }.transform_values(&:to_f)
  end

  def remove
    Process.kill(:TERM, @process)
    Process.wait(@process)
  end

  private
    def port
      raise File.read(@log) if Process.wait(@process, Process::WNOHANG)

      File.read(@log)[/Listening on http:\S+:(\d+)/, 1]&.to_i
    end
end

class ExampleTest < ActiveSupport::TestCase
  include Waiting

  APPLE = { "id" => "apple", "name" => "Apple", "price" => 120 }.freeze
  LOADS = 'larder_tier_operations_total{operation="load",part="shop",tier="origin"}'
  COHERENT = 'larder_coherent{part="shop"}'
  PENDING = 'larder_pending_invalidations{part="shop"}'

  def setup
    @folder = Dir.mktmpdir("larder-")
    @redis = RedisServer.new
    @shops = []
  end

  def teardown
    @shops.each(&:remove)
    @redis.remove
    FileUtils.rm_rf(@folder)
  end

  def start(redis: @redis, **options)
    skip "puma is not installed" unless system("which", "puma", out: File::NULL)
    Shop.new(redis, File.join(@folder, "log-#{@shops.size}"), **options).tap { |shop| @shops << shop }
  end

  test "of several requests one loads" do
    shop = start
    answers = in_threads(4) { shop.call("GET", "/products/apple") }
    assert_equal [APPLE] * 4, answers.map { |_, product| product }
    outcomes = answers.map { |*, answer| answer["Cache-Status"] }
    assert_equal ["Rails; fwd=miss", *["Rails; hit"] * 3], outcomes.sort
    assert_equal 1, shop.figures[LOADS]
    # As a program in any language reads it.
    cache = Larder::Cache.new("shop", ttl: 60, redis: @redis.url)
    assert_equal APPLE, cache.view("product").read("apple")
  ensure
    cache&.close(0.5)
  end

  test "a change is shown by the next answer" do
    shop = start
    [1, 2, 3].each do |price|
      shop.get
      shop.put(price)
      assert_equal [price, price], Array.new(2) { shop.get["price"] }
    end
    loading = Thread.new { shop.get("plum") }
    shop.put(7, "plum")
    loading.join
    assert_equal 7, shop.get("plum")["price"]
  end

  test "what is wrong is refused with a reason" do
    shop = start(redis: nil)
    ['"abc"', "1.5", "-1", "1000001", "true", "null"].each do |price|
      status, answer = shop.call("PUT", "/products/apple", "{\"price\":#{price}}")
      assert_equal [400, "price is #{price}; it must be a whole number of cents from 0 to 1000000"], [status, answer["error"]]
    end
    ['{"price": ', "[]", ""].each { |body| assert_equal 400, shop.call("PUT", "/products/apple", body)[0] }
    assert_equal([404, { "error" => 'there is no product "nothing"' }], shop.call("GET", "/products/nothing").first(2))
    assert_equal 404, shop.call("PUT", "/products/nothing", '{"price":1}')[0]
    assert_equal APPLE, shop.get
    page = File.binread(File.join(Shop::FOLDER, "index.html"))
    assert_equal page, shop.call("GET", "/")[1].b
    assert_equal page, File.binread(File.expand_path("../../../node/examples/express/index.html", __dir__))
  end

  test "two processes, one with workers, show what the other has changed" do
    origin = File.join(@folder, "origin.json")
    shops = [start(origin: origin, words: ["--workers", "2", "--preload"]), start(origin: origin)]
    6.times do |turn|
      changing, showing = turn.even? ? shops : shops.reverse
      # Several, so that each worker has it in memory.
      in_threads(4) { showing.get }
      changing.put(turn)
      # After `max_lag` no worker has the old one.
      sleep 1.3
      assert_equal [turn] * 6, in_threads(6) { showing.get["price"] }
    end
  end

  test "it answers without Redis" do
    shop = start
    shop.get
    @redis.stop
    assert_equal APPLE, shop.get
    assert_equal 150, shop.get("pear")["price"]
    shop.put(5)
    assert_equal 5, shop.get["price"]
    eventually("the figures tell that Redis is away") { shop.figures[COHERENT].zero? }
    assert_operator shop.figures[PENDING], :>, 0
    @redis.start
    eventually("the invalidation is confirmed") { shop.figures[PENDING].zero? }
    assert_equal 5, shop.get["price"]
  end
end
