# frozen_string_literal: true

# The store as the cache of an application of Rails: its fragments, its sessions, its secret, and its local cache.

require_relative "support"
begin
  require "rails"
  require "action_controller/railtie"
  require "rack/mock"
rescue LoadError => missing
  StoreTest.test("an application of Rails") { skip missing.message }
  return
end

class Application < Rails::Application
  config.eager_load = false
  config.hosts.clear
  config.logger = Logger.new(nil)
  config.consider_all_requests_local = false
  config.action_dispatch.show_exceptions = false
  config.secret_key_base = "a secret key base of the tests"
  config.action_controller.perform_caching = true
  config.cache_store = :larder_store, LarderTest.redis.url, { name: "test-application", max_lag: "200ms", local_cache: true }
  config.session_store :cache_store, key: "_session"
  routes.append do
    get "fragment", to: "application_pages#fragment"
    get "collection", to: "application_pages#collection"
    get "session", to: "application_pages#count"
    get "request", to: "application_pages#twice"
  end
end

class ApplicationPagesController < ActionController::Base
  Record = Struct.new(:id, :cache_version) do
    def cache_key
      "records/#{id}"
    end
  end

  class << self
    attr_accessor :version, :rendered, :between
  end

  def fragment
    @record = Record.new(1, self.class.version)
    text = "version <%= @record.cache_version %><% controller.rendered %>"
    render inline: "<% cache(@record, skip_digest: true) do %>#{text}<% end %>"
  end

  def rendered
    self.class.rendered += 1
    nil
  end

  def collection
    records = [Record.new(1, self.class.version), Record.new(2, "1")]
    found = Rails.cache.fetch_multi(*records) { |record| rendered || "#{record.id} in #{record.cache_version}" }
    render plain: found.values.join(", ")
  end

  def count
    session[:count] = session[:count].to_i + 1
    render plain: session[:count].to_s
  end

  # What it reads before and after something else happens.
  def twice
    before = Rails.cache.read("k")
    self.class.between.call
    render plain: [before, Rails.cache.read("k")].inspect
  end
end

Application.initialize!

class ApplicationTest < StoreTest
  def setup
    Rails.cache.clear
    ApplicationPagesController.version = "1"
    ApplicationPagesController.rendered = 0
    @requests = Rack::MockRequest.new(Rails.application)
  end

  def get(path, **headers)
    answer = @requests.get(path, headers)
    assert_equal 200, answer.status
    answer
  end

  # A node beside that of the application.
  def other
    @other ||= node(name: "test-application", secret: Rails.application.secret_key_base)
  end

  test "fragments are kept for a version of their record" do
    2.times { assert_equal "version 1", get("/fragment").body.strip }
    assert_equal 1, ApplicationPagesController.rendered
    ApplicationPagesController.version = "2"
    2.times { assert_equal "version 2", get("/fragment").body.strip }
    assert_equal 2, ApplicationPagesController.rendered
  end

  test "collections are kept by their records" do
    2.times { assert_equal "1 in 1, 2 in 1", get("/collection").body }
    ApplicationPagesController.version = "2"
    2.times { assert_equal "1 in 2, 2 in 1", get("/collection").body }
    assert_equal 3, ApplicationPagesController.rendered
  end

  test "sessions are kept" do
    first = get("/session")
    cookie = first["Set-Cookie"][/\A[^;]+/]
    counts = Array.new(3) { get("/session", "HTTP_COOKIE" => cookie).body }
    assert_equal %w[1 2 3 4], [first.body, *counts]
    assert_equal "1", get("/session").body
  end

  test "a request sees one value, and the next one what has changed" do
    other.write("k", "old")
    ApplicationPagesController.between = lambda do
      other.write("k", "new")
      eventually("the node knows") { Rails.cache.send(:bypass_local_cache) { Rails.cache.read("k") } == "new" }
    end
    assert_equal '["old", "old"]', get("/request").body
    ApplicationPagesController.between = -> {}
    assert_equal '["new", "new"]', get("/request").body
  end

  test "the secret is the secret_key_base" do
    Rails.cache.write("k", [1])
    assert_equal [1], other.read("k")
    assert_nil node(name: "test-application", secret: "another").read("k")
  end
end
