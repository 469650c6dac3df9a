# frozen_string_literal: true

# A product catalogue over Rack: products are read through larder, and a change invalidates them in every process.
#
#   REDIS_URL    the Redis of all processes, such as redis://localhost:6379; without it there is only memory
#   ORIGIN_FILE  a JSON file that is the database of all processes; without it the database is in memory

require "json"
require "larder"
require "larder/prometheus"

# The database.
class Origin
  PRODUCTS = {
    "apple" => { "name" => "Apple", "price" => 120 },
    "pear" => { "name" => "Pear", "price" => 150 },
    "plum" => { "name" => "Plum", "price" => 90 }
  }.freeze
  # The seconds of a query, so that one can see whether there was one.
  QUERY = 0.3

  def initialize(file)
    @file = file unless file.to_s.empty?
    @in_memory = PRODUCTS
    # One thread changes it at a time.
    @changing = Mutex.new
    write(PRODUCTS) if @file && !File.exist?(@file)
  end

  def find(id)
    product = read[id]
    product && { "id" => id, **product }
  end

  def query(id)
    product = find(id)
    sleep QUERY
    product
  end

  # The product with the new price, or +nil+.
  def change(id, price)
    @changing.synchronize do
      product = find(id) or return
      write({ **read, id => { "name" => product["name"], "price" => price } })
      { **product, "price" => price }
    end
  end

  private

  def read
    @file ? JSON.parse(File.read(@file)) : @in_memory
  end

  def write(products)
    @in_memory = products
    return unless @file

    # Renamed, so that no process reads half of it.
    draft = "#{@file}.#{Process.pid}"
    File.write(draft, JSON.pretty_generate(products))
    File.rename(draft, @file)
  end
end

# The service.
class Shop
  # In cents.
  MAX_PRICE = 1_000_000
  PAGE = File.read(File.join(__dir__, "index.html"))

  def initialize(origin, cache)
    @origin = origin
    @cache = cache
    # Programs in other languages have the same view: namespace, name and schema are all that they must agree on.
    @products = cache.view("product", schema: ["product", 1])
  end

  def call(env)
    # A tag has 255 bytes at most.
    case [env["REQUEST_METHOD"], env["PATH_INFO"]]
    in ["GET", "/"] then [200, { "content-type" => "text/html; charset=utf-8" }, [PAGE]]
    in ["GET", "/metrics"] then [200, { "content-type" => Larder::Prometheus::CONTENT_TYPE }, [Larder::Prometheus.text(@cache)]]
    in ["GET", %r{\A/products/([\w-]{1,60})\z}] then show(Regexp.last_match(1))
    in ["PUT", %r{\A/products/([\w-]{1,60})\z}] then change(Regexp.last_match(1), env["rack.input"].read)
    in [_, "/" | "/metrics" | %r{\A/products/[\w-]{1,60}\z}] then refuse(405, "the method is not allowed")
    else refuse(404, "there is no page #{shown(env['PATH_INFO'])}")
    end
  end

  private

  def show(id)
    outcome = "hit"
    product = @products.fetch(id) do |load|
      outcome = "fwd=miss"
      found = @origin.query(id)
      # Nothing is kept of a name that somebody has made up.
      found ? load.tag("product-#{id}") : load.no_store!
      found
    end
    return refuse(404, "there is no product #{shown(id)}") unless product

    answer(200, product, "cache-control" => "no-store", "cache-status" => "Rack; #{outcome}")
  end

  def change(id, body)
    sent = JSON.parse(body)
    price = sent["price"] if sent.is_a?(Hash)
    unless price.is_a?(Integer) && price.between?(0, MAX_PRICE)
      return refuse(400, "price is #{shown(price)}; it must be a whole number of cents from 0 to #{MAX_PRICE}")
    end

    product = @origin.change(id, price) or return refuse(404, "there is no product #{shown(id)}")
    # After the change: what is loaded from now on is the new product. A load that has begun before is not stored.
    @cache.invalidate_tags("product-#{id}")
    answer(200, product)
  rescue JSON::ParserError
    refuse(400, "the body is no JSON")
  end

  def refuse(status, error)
    answer(status, { "error" => error })
  end

  def answer(status, value, headers = {})
    [status, { "content-type" => "application/json", **headers }, [JSON.generate(value)]]
  end

  def shown(value)
    JSON.generate(value)[0, 40]
  end
end

cache = Larder::Cache.new("shop", ttl: "5m", grace: "1h", redis: ENV.fetch("REDIS_URL", nil))
run Shop.new(Origin.new(ENV.fetch("ORIGIN_FILE", nil)), cache)
