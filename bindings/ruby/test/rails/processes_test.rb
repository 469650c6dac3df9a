# frozen_string_literal: true

# The store in several processes, which have their parent's store by a fork.

require_relative "support"

class ProcessesTest < StoreTest
  MAX_LAG = 0.2
  # Time for the call itself.
  ANSWER = 0.3

  test "forked processes and threads load once" do
    cache = node
    assert_equal 1, cache.fetch("warm") { 1 }
    calls = File.join(Dir.mktmpdir("larder-"), "calls")
    children = Array.new(4) do
      forked do |parent|
        answers = in_threads(20) do
          cache.fetch("k") do
            File.write(calls, "called\n", mode: "a")
            sleep 0.3
            "value"
          end
        end
        parent.puts(answers.uniq.inspect)
      end
    end
    answers = children.map { |process, pipe| pipe.read.chomp.tap { Process.wait(process) } }
    assert_equal ['["value"]'] * 4, answers
    assert_equal "called\n", File.read(calls)
    assert_equal "value", cache.read("k")
  ensure
    FileUtils.rm_rf(File.dirname(calls)) if calls
  end

  test "nobody serves what another process has changed" do
    cache = node
    cache.write("k", 0)
    to_child, from_parent = nil
    children = Array.new(2) do
      from_parent, to_child = IO.pipe
      process, from_child = forked do |parent|
        to_child.close
        while (name, *words = from_parent.gets.split).first != "exit"
          answer = name == "write" ? cache.write("k", words.first.to_i) : cache.public_send(name, "k")
          parent.puts(answer.inspect)
        end
      end
      from_parent.close
      [process, to_child, from_child]
    end
    call = lambda do |child, words|
      child[1].puts(words)
      child[2].gets.chomp
    end
    first, second = children
    10.times do |turn|
      changing, serving = turn.even? ? [first, second] : [second, first]
      assert_equal turn.to_s, call.(serving, "read").tap { cache.read("k") }
      assert_equal "true", call.(changing, "write #{turn + 1}")
      sleep(MAX_LAG + ANSWER)
      assert_equal [(turn + 1).to_s, turn + 1], [call.(serving, "read"), cache.read("k")]
    end
    assert_equal "true", call.(first, "delete")
    sleep(MAX_LAG + ANSWER)
    assert_equal ["nil", nil], [call.(second, "read"), cache.read("k")]
    assert_equal ["1", "2", 3], [call.(first, "increment"), call.(second, "increment"), cache.increment("k")]
  ensure
    # The end of a pipe tells nothing: the other child has it, too.
    children&.each do |process, pipe, _|
      pipe.puts("exit")
      Process.wait(process)
    end
  end

  test "a child that ends leaves its parent alone" do
    cache = node
    3.times do |turn|
      cache.write("k", turn)
      process, pipe = forked { |parent| parent.puts(cache.read("k").inspect) }
      assert_equal turn.to_s, pipe.read.chomp
      Process.wait(process)
      assert_predicate $?, :success?
      assert_equal turn, cache.read("k")
    end
    other = node
    other.write("k", "after")
    eventually("the parent hears it", MAX_LAG + ANSWER) { cache.read("k") == "after" }
  end
end
