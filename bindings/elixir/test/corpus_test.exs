# The values and keys that every language must agree on, in `bindings/interop`.
defmodule CorpusTest do
  use ExUnit.Case, async: true
  import Support

  defp corpus(name), do: [root(), "bindings/interop", name] |> Path.join() |> File.read!() |> Support.Json.decode()

  # A value as Elixir has it.
  defp value_of(%{"nil" => _}), do: nil
  defp value_of(%{"bool" => value}), do: value
  defp value_of(%{"integer" => text}), do: String.to_integer(text)
  defp value_of(%{"float" => "nan"}), do: :nan
  defp value_of(%{"float" => "inf"}), do: :infinity
  defp value_of(%{"float" => "-inf"}), do: :neg_infinity
  defp value_of(%{"float" => "5e-324"}), do: 5.0e-324
  defp value_of(%{"float" => text}), do: String.to_float(text)
  defp value_of(%{"text" => text}), do: text
  defp value_of(%{"bytes" => text}), do: {:bytes, Base.decode16!(text, case: :lower)}
  defp value_of(%{"list" => values}), do: Enum.map(values, &value_of/1)
  defp value_of(%{"map" => pairs}), do: Map.new(pairs, fn [key, value] -> {key, value_of(value)} end)

  defp value_of(%{"time" => [seconds, nanoseconds]}) do
    digits = if nanoseconds == 0, do: 0, else: 6
    %{DateTime.from_unix!(seconds) | microsecond: {div(nanoseconds, 1000), digits}}
  end

  # What is read: bytes and text are both binaries.
  defp read({:bytes, bytes}), do: bytes
  defp read(values) when is_list(values), do: Enum.map(values, &read/1)
  defp read(%DateTime{} = time), do: time
  defp read(%{} = map), do: Map.new(map, fn {key, value} -> {key, read(value)} end)
  defp read(value), do: value

  test "values are written and read as every language does" do
    redis = Support.Redis.start()
    namespace = namespace()
    peer = Support.Peer.start(redis, namespace)
    [written, read] = for _ <- 1..2, do: Larder.view(cache(namespace: namespace, redis: redis.url), "golden")
    rows = corpus("values.json")
    assert length(rows) > 40

    for {row, number} <- Enum.with_index(rows) do
      value = value_of(row["value"])
      assert Larder.write(written, "of-elixir-#{number}", value) == :ok
      assert peer.(["payload", "of-elixir-#{number}"]) == row["messagepack"], row["name"]
      assert peer.(["put", "of-rust-#{number}", row["messagepack"]]) == "ok"
      # The sign of zero counts too.
      assert {:ok, found} = Larder.read(read, "of-rust-#{number}")
      assert :erlang.term_to_binary(found) == :erlang.term_to_binary(read(value)), row["name"]
    end
  end

  test "keys have the bytes of every language" do
    for %{"key" => key, "bytes" => bytes} <- corpus("keys.json") do
      assert Base.encode16(Larder.key_bytes(tuples(key)), case: :lower) == bytes
    end
  end

  defp tuples(key) when is_list(key), do: key |> Enum.map(&tuples/1) |> List.to_tuple()
  defp tuples(key), do: key
end
