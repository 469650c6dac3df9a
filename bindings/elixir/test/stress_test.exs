# Many processes at a small memory, some of which are killed in the middle of a call: every value that is read is right.
defmodule StressTest do
  use ExUnit.Case, async: false
  import Support

  @keys 3_000
  @milliseconds 4_000

  test "terms stay right while they are written, evicted, removed and loaded" do
    view = view(memory_bytes: "1MiB")
    seed = System.os_time()
    stop = System.monotonic_time(:millisecond) + @milliseconds

    tasks =
      for number <- 1..40 do
        Task.async(fn ->
          :rand.seed(:exsss, {seed, number, 0})
          work(view, stop, 0)
        end)
      end

    calls = tasks |> Task.await_many(60_000) |> Enum.sum()
    assert calls > 10_000, "#{calls} calls with the seed #{seed}"
    assert Larder.stats(view.cache).memory.evicted > 0
  end

  defp work(view, stop, count) do
    if rem(count, 64) == 0 and System.monotonic_time(:millisecond) > stop do
      count
    else
      step(view, :rand.uniform(@keys), count, :rand.uniform(20))
      work(view, stop, count + 1)
    end
  end

  defp step(view, key, count, 1), do: Larder.write(view, key, value(key, count))
  defp step(view, key, _, 2), do: Larder.delete(view, key)
  defp step(view, key, count, 3), do: check(key, Larder.fetch(view, key, fn -> value(key, count) end))

  defp step(view, key, _, 4) do
    for {key, found} <- Larder.read_multi(view, Enum.to_list(key..(key + 9))), do: check(key, found)
  end

  defp step(_, _, _, 5), do: :erlang.garbage_collect()

  defp step(view, key, count, 6) do
    pid = spawn(fn -> Larder.fetch(view, key, fn -> :erlang.yield() && value(key, count) end) end)
    if rem(count, 2) == 0, do: :erlang.yield()
    Process.exit(pid, :kill)
  end

  defp step(view, key, _, _) do
    case Larder.hit(view, key) do
      {:ok, found} -> check(key, found)
      :miss -> :ok
    end
  end

  defp value(key, count) do
    %{
      "key" => key,
      "count" => count,
      "list" => Enum.to_list(0..rem(key, 50)),
      "text" => String.duplicate(<<rem(key, 26) + ?a>>, 20 + rem(key, 200)),
      "nested" => [%{"a" => [key, nil, 1.5]}]
    }
  end

  defp check(key, %{"count" => count} = found), do: assert(found == value(key, count))
end
