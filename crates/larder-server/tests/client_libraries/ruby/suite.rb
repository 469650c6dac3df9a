# Runs cases against the server whose address is in the arguments, and prints one line of JSON for each.

require "json"

class Suite
  attr_reader :host, :port, :url

  def initialize(host, port)
    @host, @port, @url = host, port, "redis://#{host}:#{port}"
    @keys = 0
    @survivors = []
  end

  # A name that no other case uses.
  def key
    @keys += 1
    "ruby:#{@keys}"
  end

  # Runs a case. It has passed if the block returns.
  def test(client, name)
    started = now
    outcome = { client: client, case: name }
    begin
      yield
    rescue StandardError => error
      outcome[:error] = "#{error.class}: #{error.message}"
    end
    print_line(outcome.merge(ms: ((now - started) * 1000).round))
  end

  # Calls the block before the restart, and after it until it succeeds: a connection that broke may cost an error.
  def survives(client, &use)
    @survivors << [client, use]
  end

  # Restarts the server between two uses of each client.
  def finish
    @survivors.each { |_, use| use.call }
    print_line({ restart: true })
    equal($stdin.gets, "restarted\n")
    @survivors.each { |client, use| test(client, "restart") { eventually(&use) } }
  end

  private

  def print_line(line)
    puts line.to_json
    $stdout.flush
  end
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Calls a block until it returns; its last error is the error.
def eventually
  deadline = now + 4
  begin
    yield
  rescue StandardError
    raise if now > deadline

    sleep 0.02
    retry
  end
end

def equal(found, expected)
  raise "#{found.inspect} instead of #{expected.inspect}" unless found == expected
end

# Runs a block that must raise this error.
def fails(error)
  yield
rescue error
  nil
else
  raise "no #{error}"
end
