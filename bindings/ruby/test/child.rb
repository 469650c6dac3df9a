# frozen_string_literal: true

# A node in Ruby that a test in Rust calls by lines: bindings/interop/protocol.md describes them.
#
#     ruby child.rb threads    each call in a thread of its own
#     ruby child.rb fibers     each call in a fiber of one thread

require "io/wait"
require "larder"
require "socket"
require_relative "scheduler"

# The caller of a load has left: the next one loads.
class Abandoned < Exception; end

# What a loader raises because the test says so.
class LoaderError < StandardError; end

# Words and values.
module Words
  NOTHING = Object.new

  module_function

  def text(word)
    word.gsub(/%(\h\h)/) { Regexp.last_match(1).hex.chr.b }.force_encoding(Encoding::UTF_8)
  end

  def quoted(text)
    text.to_s.b.gsub(/[^A-Za-z0-9\-._~]/n) { |byte| format("%%%02X", byte.ord) }
  end

  def value_of(word)
    case word[0]
    when "n" then nil
    when "t" then text(word[1..])
    when "v" then %w[version write].zip(word[1..].split(".").map(&:to_i)).to_h
    else raise ArgumentError, word
    end
  end

  def word_of(value)
    case value
    when NOTHING then "-"
    when nil then "n"
    when String then "t#{quoted(value)}"
    else "v#{value.fetch('version')}.#{value.fetch('write')}"
    end
  end

  def yes(truth)
    truth ? "yes" : "no"
  end

  # The pairs of a line, of keys and values.
  def pairs(words)
    words.each_slice(2).to_h { |key, value| [text(key), value_of(value)] }
  end
end

# The calls of a cache. How they wait is left to a subclass.
class Node
  include Words

  def initialize(reader, writer, cache = nil, view = nil, numbers = nil)
    @reader = reader
    @writer = writer
    @writer.sync = true
    @cache = cache
    @view = view
    @numbers = numbers
    @lock = Thread::Mutex.new
    # The queues of the loaders that wait for the test, and what runs the calls, by the numbers of the calls.
    @loading = {}
    @running = {}
  end

  def say(*words)
    @lock.synchronize { @writer.write("#{words.join(' ')}\n") }
  end

  def receive(line)
    verb, number, *rest = line.chomp("\n").split(/ /, -1)
    words, options = parts(rest)
    case verb
    when "loaded", "updated", "raise" then @loading[number]&.push([verb, words, options])
    when "cancel" then cancel(number)
    else start(number) { answer(verb, number, words, options) }
    end
  end

  # The words before the options, and the options.
  def parts(words)
    options = {}
    words, named = words.partition { |word| !word.include?("=") }
    named.each do |word|
      name, text = word.split("=", 2)
      name == "tag" ? (options[:tags] ||= []) << text(text) : options[name.to_sym] = text == "yes" || text(text)
    end
    [words, options]
  end

  def answer(verb, number, words, options)
    done = uninterrupted { interrupted { __send__("call_#{verb}", number, words, options) } }
    say("done", number, *done)
  rescue LoaderError => error
    say("failed", number, "loader", quoted(error.message))
  rescue Larder::LoadFailed => error
    say("failed", number, "loader", quoted(error.cause.message))
  rescue Larder::LoadTimeout
    say("failed", number, "timeout", "")
  rescue Abandoned
    say("failed", number, "other", "cancelled")
  rescue StandardError, NotImplementedError => error
    say("failed", number, "other", quoted(error.full_message(highlight: false)))
  ensure
    @loading.delete(number)
    @running.delete(number)
  end

  def call_open(_, (url, namespace), options)
    @cache&.close(0)
    url = text(url)
    @cache = Larder::Cache.new(text(namespace), redis: url == "-" ? nil : url, **options)
    @view = @cache.view("v", schema: ["v", 1])
    @numbers = @cache.view("n")
    []
  end

  def call_hit(_, (key), _)
    [word_of(@view.hit(text(key), NOTHING))]
  end

  def call_read(_, (key), _)
    [word_of(@view.read(text(key), NOTHING))]
  end

  def call_read_many(_, keys, _)
    keys = keys.map { |key| text(key) }
    found = @view.read_multi(*keys)
    keys.map { |key| word_of(found.fetch(key, NOTHING)) }
  end

  def call_exist(_, (key), _)
    [yes(@view.exist?(text(key)))]
  end

  def call_fetch(number, (key), options)
    key = text(key)
    value = @view.fetch(key, **options) do |load|
      loaded(number, [key], load) { |words| value_of(words[0]) }
    end
    [word_of(value)]
  end

  def call_fetch_many(number, keys, options)
    keys = keys.map { |key| text(key) }
    found = @view.fetch_multi(*keys, **options) do |missing, load|
      loaded(number, missing, load) { |words| pairs(words) }
    end
    keys.map { |key| word_of(found.fetch(key, NOTHING)) }
  end

  # What a loader returns or raises, by the answer of the test.
  def loaded(number, keys, load)
    queue = @loading[number] = Thread::Queue.new
    say("loading", number, *keys.map { |key| quoted(key) })
    verb, words, options = queue.pop
    raise LoaderError, text(words[0]) if verb == "raise"
    return Larder::KEEP if options[:keep]

    load.ttl = options[:ttl] if options[:ttl]
    load.tag(*options[:tags]) if options[:tags]
    load.no_store! if options[:no_store]
    yield words
  end

  def call_update(number, (key), options)
    value = @view.update(text(key), NOTHING, **options) do |found|
      queue = @loading[number] = Thread::Queue.new
      say("updating", number, word_of(found))
      verb, words, answer = queue.pop
      raise LoaderError, text(words[0]) if verb == "raise"
      next Larder::KEEP if answer[:keep]

      words[0] == "-" ? Larder::REMOVE : value_of(words[0])
    end
    [word_of(value)]
  end

  def call_write(_, (key, value), options)
    [yes(@view.write(text(key), value_of(value), **options))]
  end

  def call_write_many(_, words, options)
    [yes(@view.write_multi(pairs(words), **options))]
  end

  def call_add(_, (key, value), options)
    [yes(@view.add(text(key), value_of(value), **options))]
  end

  def call_delete(_, (key), _)
    @view.delete_with_reach(text(key)).map { |truth| yes(truth) }
  end

  def call_delete_many(_, keys, _)
    [@view.delete_multi(keys.map { |key| text(key) })]
  end

  def call_take(_, (key), _)
    [word_of(@view.take(text(key), NOTHING))]
  end

  def call_expire(_, (key), _)
    [yes(@view.expire(text(key)))]
  end

  def call_touch(_, (key), options)
    [yes(@view.touch(text(key), **options))]
  end

  def call_increment(_, (key, by), _)
    [@numbers.increment(text(key), by.to_i, initial: by.to_i)]
  end

  def call_tags(_, tags, options)
    [yes(@cache.invalidate_tags(*tags.map { |tag| text(tag) }, **options))]
  end

  def call_clear(*)
    [yes(@cache.clear)]
  end

  def call_delete_matched(_, (pattern), _)
    [yes(@cache.delete_matched_with_reach(text(pattern)).last)]
  end

  def call_state(*)
    now = @cache.coherence
    [quoted(now[:mode]), yes(now[:memory_trusted]), now[:pending_invalidations]]
  end
end

# Each call has a thread of its own.
class ThreadNode < Node
  OPTIONAL = ["fork"].freeze

  def start(number, &call)
    Thread.handle_interrupt(Abandoned => :never) do
      @running[number] = Thread.new(&call)
    end
  end

  # A line is written whole: nobody interrupts that.
  def uninterrupted(&call)
    Thread.handle_interrupt(Abandoned => :never, &call)
  end

  def interrupted(&call)
    Thread.handle_interrupt(Abandoned => :immediate, &call)
  end

  def cancel(number)
    @running[number]&.raise(Abandoned)
  end

  def call_fork(_, (path), _)
    pid = fork do
      stream = UNIXSocket.new(text(path))
      ThreadNode.new(stream, stream, @cache, @view, @numbers).serve
    end
    Process.detach(pid)
    [pid]
  end

  def serve
    @reader.each_line { |line| receive(line) }
    # Threads may be in larder, or in a loader that never returns.
    exit!(0)
  end
end

# Each call is a fiber of one thread.
class FiberNode < Node
  OPTIONAL = [].freeze

  # The lines of a pipe. Its own methods would block the thread, and all fibers with it.
  def each_line
    buffer = +""
    while (read = @reader.read_nonblock(65_536, exception: false))
      next @reader.wait_readable if read == :wait_readable

      buffer << read
      while (line = buffer.slice!(/\A[^\n]*\n/))
        yield line
      end
    end
  end

  def start(number, &call)
    Fiber.schedule do
      @running[number] = Fiber.current
      call.call
    end
  end

  def uninterrupted
    yield
  end

  def interrupted
    yield
  end

  def cancel(number)
    fiber = @running[number]
    @scheduler.raise_into(fiber, Abandoned.new) if fiber
  end

  def serve
    @scheduler = SmallScheduler.new
    Fiber.set_scheduler(@scheduler)
    Fiber.schedule do
      each_line { |line| receive(line) }
      exit!(0)
    end
  end
end

if $PROGRAM_NAME == __FILE__
  Larder.logger = nil
  Thread.report_on_exception = true
  node = { "threads" => ThreadNode, "fibers" => FiberNode }.fetch(ARGV[0]).new($stdin, $stdout)
  node.say("ready", *node.class::OPTIONAL)
  node.serve
end
