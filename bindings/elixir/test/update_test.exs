# Updates by a function, which runs in its caller: of concurrent ones in all nodes none is lost.
defmodule UpdateTest do
  use ExUnit.Case, async: true
  import Support

  defp count(view, options \\ []) do
    Larder.update(view, "k", options, fn
      {:ok, count} -> {:ok, count + 1}
      :miss -> {:ok, 1}
    end)
  end

  test "updates of processes on two nodes add up" do
    redis = Support.Redis.start()
    namespace = namespace()
    views = for _ <- 1..2, do: Larder.view(cache(redis: redis.url, namespace: namespace), "v")
    tasks = for number <- 1..100, do: Task.async(fn -> count(Enum.at(views, rem(number, 2))) end)
    sums = tasks |> Task.await_many(60_000) |> Enum.map(&elem(&1, 1)) |> Enum.sort()
    assert sums == Enum.to_list(1..100)
    assert Enum.map(views, &Larder.read(&1, "k")) == [{:ok, 100}, {:ok, 100}]
  end

  test "the function is called again if another writer comes first" do
    redis = Support.Redis.start()
    namespace = namespace()
    [view, other] = for _ <- 1..2, do: Larder.view(cache(redis: redis.url, namespace: namespace), "v")
    test = self()

    made =
      Larder.update(view, "k", fn found ->
        send(test, {:got, found})
        if found == :miss, do: Larder.write(other, "k", "theirs")
        {:ok, [if(found == :miss, do: nil, else: elem(found, 1))]}
      end)

    assert made == {:ok, ["theirs"]}
    assert_received {:got, :miss}
    assert_received {:got, {:ok, "theirs"}}
  end

  test "a value is kept or removed, and keeps its time unless the update has one" do
    view = view()
    assert Larder.update(view, "k", fn :miss -> :keep end) == :miss
    :ok = Larder.write(view, "k", 1, ttl: "1h")
    assert count(view) == {:ok, 2}
    assert elem(Larder.ttl(view, "k"), 1) > 3_000_000
    assert count(view, ttl: 60_000) == {:ok, 3}
    assert elem(Larder.ttl(view, "k"), 1) <= 60_000
    assert Larder.update(view, "k", fn _ -> :keep end) == {:ok, 3}
    assert Larder.update(view, "k", fn _ -> :remove end) == :miss
    assert Larder.read(view, "k") == :miss
  end

  test "a function that raises, throws or is killed changes nothing and holds nobody up" do
    view = view()
    :ok = Larder.write(view, "k", 1)
    assert_raise ArithmeticError, fn -> Larder.update(view, "k", fn {:ok, one} -> {:ok, one / 0} end) end
    assert catch_throw(Larder.update(view, "k", fn _ -> throw(:out) end)) == :out
    assert_raise Larder.EncodeError, fn -> Larder.update(view, "k", fn _ -> {:ok, {1, 2}} end) end
    assert_raise ArgumentError, ~r/:keep or :remove/, fn -> Larder.update(view, "k", fn _ -> 2 end) end
    test = self()
    pid = spawn(fn -> Larder.update(view, "k", fn _ -> send(test, :deciding) && Process.sleep(:infinity) end) end)
    assert_receive :deciding
    Process.exit(pid, :kill)
    began = System.monotonic_time(:millisecond)
    assert count(view) == {:ok, 2}
    assert System.monotonic_time(:millisecond) - began < 900
  end
end
