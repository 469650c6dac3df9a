# The calls of a view and of a cache.
defmodule ViewTest do
  use ExUnit.Case, async: true
  import Support

  # With Redis, and without it: what they return is the same.
  for with_redis <- [false, true] do
    describe "with Redis: #{with_redis}" do
      setup do
        options = if unquote(with_redis), do: [redis: Support.Redis.start().url], else: []
        name = cache(options)
        %{cache: name, view: Larder.view(name, "v", grace: "1m")}
      end

      test "values are written, read and removed", %{view: view} do
        assert Larder.read(view, "k") == :miss
        assert Larder.write(view, "k", %{a: 1}) == :ok
        assert Larder.read(view, "k") == {:ok, %{"a" => 1}}
        assert Larder.exists?(view, "k")
        assert Larder.delete(view, "k") == {:ok, true}
        assert Larder.delete(view, "k") == {:ok, false}
        refute Larder.exists?(view, "k")
        assert Larder.read(view, "k") == :miss
        assert Larder.write(view, "nothing", nil) == :ok
        assert Larder.read(view, "nothing") == {:ok, nil}
      end

      test "many values are written, read and removed", %{view: view} do
        assert Larder.write_multi(view, %{"a" => 1, {"b", 2} => "two"}, ttl: "1m") == :ok
        assert Larder.write_multi(view, [{"c", nil}]) == :ok
        assert Larder.read_multi(view, ["a", "x", {"b", 2}, "c", "a"]) == %{"a" => 1, {"b", 2} => "two", "c" => nil}
        assert Larder.delete_multi(view, ["a", "x", "c"]) == {:ok, 2}
        assert Larder.read_multi(view, []) == %{}
      end

      test "a value is added, touched, expired and taken", %{view: view} do
        assert Larder.add(view, "k", 1, ttl: 60_000)
        refute Larder.add(view, "k", 2)
        assert {:ok, ttl} = Larder.ttl(view, "k")
        assert ttl in 50_000..60_000
        assert Larder.touch(view, "k", ttl: "2h")
        assert {:ok, ttl} = Larder.ttl(view, "k")
        assert ttl in 7_000_000..7_200_000
        refute Larder.touch(view, "missing", ttl: 1)
        assert Larder.ttl(view, "missing") == :miss
        assert Larder.expire(view, "k") == {:ok, true}
        assert Larder.read(view, "k") == :miss
        assert Larder.fetch(view, "k", fn load -> load.stale end |> then(&fn load -> elem(&1.(load), 1) end)) == 1
        assert Larder.take(view, "k") == {:ok, 1}
        assert Larder.take(view, "k") == :miss
      end

      test "numbers are added to", %{view: view} do
        assert Larder.increment(view, "n") == :miss
        assert Larder.increment(view, "n", 5, initial: 7) == {:ok, 7}
        assert Larder.increment(view, "n", -2) == {:ok, 5}
        Larder.write(view, "text", "x")
        Larder.write(view, "max", 0x7FFFFFFFFFFFFFFF)
        for key <- ["text", "max"], do: assert_raise(Larder.Error, fn -> Larder.increment(view, key) end)
        assert_raise Larder.OptionError, ~r/by is 1.5/, fn -> Larder.increment(view, "n", 1.5) end
      end

      test "values are removed by tags and patterns", %{cache: cache, view: view} do
        tagged = Larder.view(cache, "tagged", tags: ["view"], grace: "1m")
        Larder.write(view, "one", 1, tags: ["a", "b"])
        Larder.fetch(view, "two", [tags: ["b"]], fn -> 2 end)
        Larder.fetch(view, "three", fn -> Larder.loaded(3, tags: ["c"]) end)
        Larder.write(tagged, "four", 4)
        assert Larder.invalidate_tags(cache, ["b", "view"]) == :ok
        assert Larder.read_multi(view, ["one", "two", "three"]) == %{"three" => 3}
        assert Larder.read(tagged, "four") == :miss
        assert Larder.invalidate_tags(cache, ["c"], soft: true) == :ok
        assert Larder.fetch(view, "three", fn %{stale: {:ok, stale}} -> stale + 1 end) == 4
        assert {:ok, _} = Larder.delete_matched(cache, "v:thr*")
        assert Larder.read(view, "three") == :miss
        Larder.write(view, "one", 1)
        assert Larder.clear(cache) == :ok
        assert Larder.read(view, "one") == :miss
        assert Larder.drain(cache) == 0
      end

      test "a cache that is off loads each time", %{cache: cache, view: view} do
        Larder.write(view, "k", 1)
        assert Larder.set_enabled(cache, false) == :ok
        assert Larder.hit(view, "k") == :miss
        assert Larder.fetch(view, "k", fn -> 2 end) == 2
        assert Larder.fetch_multi(view, ["k"], fn ["k"] -> %{"k" => 3} end) == %{"k" => 3}
        assert Larder.set_enabled(cache, true) == :ok
        assert Larder.read(view, "k") == {:ok, 1}
      end
    end
  end

  test "figures and the state of coherence are there" do
    redis = Support.Redis.start()
    name = cache(redis: redis.url)
    view = Larder.view(name, "v")
    for _ <- 1..3, do: Larder.fetch(view, "k", fn -> 1 end)
    eventually("the proof", fn -> Larder.coherence(name).mode == :full end)
    assert %{memory_trusted: true, pending_invalidations: 0, problem: nil, proof_age: age} = Larder.coherence(name)
    assert is_integer(age)
    assert %{loads: 1, load_failures: 0, memory: %{hits: hits, capacity: 67_108_864}, redis: %{misses: 1}} = Larder.stats(name)
    assert hits >= 1
    assert %{redis: nil} = Larder.stats(cache())
  end

  test "values expire after their TTL" do
    view = view()
    Larder.write(view, "k", 1, ttl: 30)
    Larder.fetch(view, "own", fn -> Larder.loaded(1, ttl: "30ms") end)
    Larder.write(view, "lasting", 1)
    eventually("the end of the TTL", fn -> Larder.hit(view, "k") == :miss and Larder.hit(view, "own") == :miss end, 2_000)
    assert Larder.hit(view, "lasting") == {:ok, 1}
  end

  test "a view is found again, and has one form" do
    name = cache()
    assert Larder.view(name, "v", ttl: "1m") == Larder.view(name, "v", ttl: "1m")
    assert Larder.view(name, :atom).name == :atom
    Larder.view(name, "product", schema: {"product", 1})
    assert_raise Larder.OptionError, ~r/schema product\/1/, fn -> Larder.view(name, "product", schema: {"product", 2}) end

    for {view, options, message} <- [
          {"a:b", [], ~r/without ':'/},
          {"v", [schema: "v"], ~r/schema is "v"/},
          {"v", [schema: {"a b", 1}], ~r/the name of a schema/},
          {"v", [schema: {"v", -1}], ~r/from 0 to 2\^32 - 1/},
          {"v", [ttl: -1], ~r/ttl is -1/},
          {"v", [ttl: "soon"], ~r/ttl is "soon"/},
          {"v", [ttl: 1.5], ~r/ttl is 1.5/},
          {"v", [tags: "one"], ~r/tags is "one"/},
          {"v", [tags: [:one]], ~r/tags is a list/},
          {"v", [jitter: 2], ~r/jitter is 2/},
          {"v", [grase: 1], ~r/did you mean grace/}
        ] do
      assert_raise Larder.OptionError, message, fn -> Larder.view(name, view, options) end
    end
  end

  test "options of a call and of a cache are checked" do
    view = view()
    assert_raise Larder.OptionError, ~r/did you mean tags/, fn -> Larder.write(view, "k", 1, tag: ["a"]) end
    assert_raise Larder.OptionError, ~r/keyword list/, fn -> Larder.write(view, "k", 1, ["a"]) end
    assert_raise Larder.OptionError, ~r/refresh is 1/, fn -> Larder.fetch(view, "k", [refresh: 1], fn -> 1 end) end
    assert_raise Larder.OptionError, ~r/no option "ttll"/, fn -> Larder.fetch(view, "k", fn -> Larder.loaded(1, ttll: 1) end) end
    assert_raise Larder.OptionError, ~r/refresh/, fn -> Larder.fetch_multi(view, ["k"], [refresh: true], fn _ -> [] end) end
    graced = fn _ -> Larder.loaded([{"k", 1}], grace: 1) end
    assert_raise Larder.OptionError, ~r/grace of the call/, fn -> Larder.fetch_multi(view, ["k"], graced) end
    # The loads were given up.
    assert Larder.fetch(view, "k", fn -> 1 end) == 1
    assert Larder.write(view, "k", 1, ttl: nil, tags: nil) == :ok

    for {options, message} <- [
          {[name: Wrong, namespace: "n"], ~r/ttl/},
          {[name: Wrong, ttl: "1m"], ~r/namespace is missing/},
          {[name: Wrong, namespace: "n", ttl: "1m", memory_byte: 1], ~r/memory_byte/},
          {[name: Wrong, namespace: "n", ttl: "1m", memory_bytes: {1}], ~r/memory_bytes is a tuple/}
        ] do
      Process.flag(:trap_exit, true)
      assert {:error, %Larder.OptionError{message: said}} = Larder.start_link(options)
      assert said =~ message
    end

    assert_raise Larder.OptionError, ~r/name is "text"/, fn -> Larder.start_link(name: "text", namespace: "n", ttl: 1) end
    assert {:ok, _} = Larder.start_link(name: Right, namespace: :atom, ttl: 60_000, memory_bytes: 4_000_000, foreign_writers: true)
  end
end
