# frozen_string_literal: true

# A product catalogue over Rails: products are read through larder, and a change invalidates them in every process.
#
#     REDIS_URL    the Redis of all processes, such as redis://localhost:6379; without it there is only memory
#     ORIGIN_FILE  a JSON file that is the database of all processes; without it the database is in memory

require "rails"
require "action_controller/railtie"
require "active_support/core_ext/integer/time"
require "larder/prometheus"

# The application, and what one would find in config/application.rb.
class Shop < Rails::Application
  config.root = __dir__
  config.eager_load = true
  config.hosts = ["localhost", "127.0.0.1"]
  config.logger = Logger.new($stderr, level: :warn)
  config.secret_key_base = ENV.fetch("SECRET_KEY_BASE") { SecureRandom.hex(64) }
  # Programs in other languages have the same view: they must agree on name, view, codec and keys.
  config.cache_store = :larder_store, ENV["REDIS_URL"],
    { name: "shop", view: "product", codec: :messagepack, expires_in: 5.minutes, grace: "1h" }

  routes.append do
    root to: "products#page"
    get "products/:id", to: "products#show", id: /[\w-]{1,60}/
    put "products/:id", to: "products#change", id: /[\w-]{1,60}/
    get "metrics", to: "products#metrics"
  end
end

# The database.
module Origin
  FILE = ENV["ORIGIN_FILE"].presence
  # The seconds of a query, so that one can see whether there was one.
  QUERY = 0.3
  # One thread changes it at a time.
  CHANGING = Mutex.new

  class Missing < StandardError; end

  class << self
    def read
      FILE ? JSON.parse(File.read(FILE)) : @in_memory
    end

    def write(products)
      @in_memory = products
      return unless FILE

      # Renamed, so that no process reads half of it.
      draft = "#{FILE}.#{Process.pid}"
      File.write(draft, JSON.pretty_generate(products))
      File.rename(draft, FILE)
    end

    def find(id)
      product = read[id] or raise Missing, "there is no product #{id.to_json.first(40)}"
      { "id" => id, **product }
    end

    def change(id, price)
      CHANGING.synchronize do
        product = find(id).merge("price" => price)
        write(read.merge(id => product.except("id")))
        product
      end
    end
  end

  @in_memory = {
    "apple" => { "name" => "Apple", "price" => 120 },
    "pear" => { "name" => "Pear", "price" => 150 },
    "plum" => { "name" => "Plum", "price" => 90 },
  }
  write(@in_memory) if FILE && !File.exist?(FILE)
end

class ProductsController < ActionController::API
  # In cents.
  MAX_PRICE = 1_000_000

  rescue_from(Origin::Missing) { |missing| refuse(404, missing.message) }

  def page
    send_file(Rails.root.join("index.html"), type: "text/html", disposition: "inline")
  end

  def show
    outcome = "hit"
    product = Rails.cache.fetch(id, tags: ["product-#{id}"]) do
      outcome = "fwd=miss"
      Origin.find(id).tap { sleep(Origin::QUERY) }
    end
    response.headers.update("Cache-Control" => "no-store", "Cache-Status" => "Rails; #{outcome}")
    render json: product
  end

  def change
    sent = JSON.parse(request.raw_post)
    price = sent.is_a?(Hash) ? sent["price"] : nil
    unless price.is_a?(Integer) && price.between?(0, MAX_PRICE)
      return refuse(400, "price is #{price.to_json.first(40)}; it must be a whole number of cents from 0 to #{MAX_PRICE}")
    end

    product = Origin.change(id, price)
    # After the change: what is loaded from now on is the new product. A load that has begun before is not stored.
    # With a database of ActiveRecord it would be `invalidate_on_commit(tags: …)`, inside the transaction.
    Rails.cache.invalidate_tags("product-#{id}")
    render json: product
  rescue JSON::ParserError
    refuse(400, "the body is no JSON")
  end

  def metrics
    render plain: Larder::Prometheus.text(Rails.cache.larder), content_type: Larder::Prometheus::CONTENT_TYPE
  end

  private
    # `params` would parse the body.
    def id
      request.path_parameters[:id]
    end

    def refuse(status, error)
      render json: { error: error }, status: status
    end
end

Shop.initialize!
