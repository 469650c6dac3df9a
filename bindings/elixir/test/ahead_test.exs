# Loads of values that are still fresh: the caller that finds one due makes it, and the others go on with the value.
defmodule AheadTest do
  use ExUnit.Case, async: true
  import Support

  # A loader of a number that grows with each load.
  defp counting do
    counter = :counters.new(1, [])

    fn ->
      :counters.add(counter, 1, 1)
      :counters.get(counter, 1)
    end
  end

  test "a value that is due is loaded long before its end" do
    for options <- [[], [redis: Support.Redis.start().url]] do
      view = Larder.view(cache(options), "v", ttl: "1h", refresh_ahead: 0)
      load = counting()
      assert [Larder.fetch(view, "k", load), Larder.fetch(view, "k", [], load)] == [1, 2]
      eventually("it is stored", fn -> Larder.hit(view, "k") == {:ok, 2} end)
      assert {:ok, ttl} = Larder.ttl(view, "k")
      assert ttl > 3_000_000
    end
  end

  test "other callers get the value meanwhile" do
    view = Larder.view(cache(), "v", ttl: "1h", refresh_ahead: 0)
    assert Larder.fetch(view, "k", fn -> 1 end) == 1
    test = self()

    leader =
      Task.async(fn ->
        Larder.fetch(view, "k", fn ->
          send(test, :loading)
          receive do: (value -> value)
        end)
      end)

    assert_receive :loading
    assert Larder.fetch(view, "k", fn -> flunk("another one loads") end) == 1
    send(leader.pid, 2)
    assert Task.await(leader) == 2
    eventually("it is stored", fn -> Larder.hit(view, "k") == {:ok, 2} end)
  end

  test "it is an option of a call, and a load that fails leaves the value" do
    cache = cache()
    view = Larder.view(cache, "v", ttl: "1h")
    options = [refresh_ahead: 0]
    assert Larder.fetch(view, "k", options, fn -> 1 end) == 1
    assert Larder.fetch(view, "k", fn -> flunk("a call without the option begins none") end) == 1
    assert Larder.fetch(view, "k", options, fn -> raise "broken" end) == 1
    eventually("it has failed", fn -> Larder.stats(cache).load_failures == 1 end)
    # The next one begins after `retry_after`.
    assert Larder.fetch(view, "k", options, fn -> flunk("it does not pause") end) == 1
  end

  test "a process that is killed while it loads ahead fails nobody" do
    view = Larder.view(cache(), "v", ttl: "1h", refresh_ahead: 0)
    assert Larder.fetch(view, "k", fn -> 1 end) == 1
    test = self()
    pid = spawn(fn -> Larder.fetch(view, "k", fn -> send(test, :loading) && Process.sleep(:infinity) end) end)
    assert_receive :loading
    Process.exit(pid, :kill)
    assert Larder.hit(view, "k") == {:ok, 1}
  end

  test "a loader has the value that it replaces, and may fetch it" do
    view = Larder.view(cache(), "v", ttl: "1h", refresh_ahead: 0)
    assert Larder.fetch(view, "k", fn -> 1 end) == 1
    loader = fn load -> [elem(load.stale, 1), Larder.fetch(view, "k", fn -> flunk("it is there") end)] end
    assert Larder.fetch(view, "k", loader) == [1, 1]
  end

  test "its values" do
    cache = cache()
    for right <- [0.8, 1, "0.5", :by_cost, "by_cost:2", :never], do: Larder.view(cache, "v", refresh_ahead: right)

    for wrong <- [1.5, -1, "often", []] do
      assert_raise Larder.OptionError, ~r/refresh_ahead/, fn -> Larder.view(cache, "v", refresh_ahead: wrong) end
    end

    view = Larder.view(cache, "v")
    # It would do nothing there.
    assert_raise Larder.OptionError, fn -> Larder.write(view, "k", 1, refresh_ahead: 0.8) end
    assert_raise Larder.OptionError, fn -> Larder.touch(view, "k", ttl: 1, refresh_ahead: 0.8) end
  end
end
