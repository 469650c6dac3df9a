# frozen_string_literal: true

# The program of the servers in servers_test.rb, which servers_app.ru runs. Its store is made, and used, before the server forks.

require "active_support"
require "active_support/cache"

STORE = ActiveSupport::Cache.lookup_store(
  :larder_store, ENV.fetch("LARDER_TEST_REDIS"), { name: ENV.fetch("LARDER_TEST_NAME"), secret: "of the tests", max_lag: "200ms" }
)
# The threads and connections of the parent exist at the fork.
STORE.write("k", "of the parent")
STORE.read("k")

CALLS = {
  "read" => ->(key) { STORE.read(key) },
  "write" => ->(key, value) { STORE.write(key, value) },
  # Of the worker that is meant only: the others answer that they have done nothing.
  "write-in" => ->(worker, key, value) { worker.to_i == Process.pid ? STORE.write(key, value) : "nothing" },
  "delete-in" => ->(worker, key) { worker.to_i == Process.pid ? STORE.delete(key) : "nothing" },
  "load" => lambda do |key|
    # In the folder of the server: the test waits for it.
    File.write("request-#{Process.pid}-#{Thread.current.object_id}", "")
    STORE.fetch(key) do
      sleep 1
      "loaded by #{Process.pid}"
    end
  end,
}.freeze

# Answers with the number of the process and the result of the call that the path names.
APP = lambda do |environment|
  _, call, *arguments = environment["PATH_INFO"].split("/")
  [200, { "Content-Type" => "text/plain" }, ["#{Process.pid} #{CALLS.fetch(call).call(*arguments).inspect}"]]
end
