# Values: what is written comes back equal from the loader, from memory and from Redis, or is refused with its place.
defmodule ValuesTest do
  use ExUnit.Case, async: true
  import Support
  alias Larder.{EncodeError, KeyTypeError, OptionError}

  @secret String.duplicate("k", 32)

  # Each of them comes back as it is.
  @values [
    nil,
    true,
    false,
    0,
    -1,
    1.5,
    -0.0,
    1.0e300,
    0xFFFFFFFFFFFFFFFF,
    -0x8000000000000000,
    :nan,
    :infinity,
    :neg_infinity,
    "",
    "äpfel",
    "with\0zero",
    <<0, 255>>,
    String.duplicate("x", 100_000),
    :binary.copy(<<200>>, 3_000_000),
    ~U[1970-01-01 00:00:00Z],
    ~U[2026-11-26 12:00:00.123456Z],
    ~U[0000-02-29 23:59:59.999999Z],
    ~U[9999-12-31 23:59:59Z],
    ~U[-0001-01-01 00:00:00Z],
    [],
    [1, [2, [3]]],
    %{},
    %{"a" => 1, "b" => %{"c" => [nil, "x"]}},
    %{"" => 0, "a.b" => 1},
    Map.new(1..100, &{"key #{&1}", &1}),
    Enum.to_list(1..100_000)
  ]

  # In the external format every term does.
  @terms [
    :apple,
    {1, :two, "three"},
    ~D[2026-01-01],
    %{1 => {2}},
    MapSet.new([1]),
    [a: 1],
    [1 | 2],
    <<1::1>>,
    0x10000000000000000,
    {:bytes, "x"},
    {:external, "x"}
  ]

  # Values of which `==` says that 0.0 is -0.0.
  defp same?(one, other), do: :erlang.term_to_binary(one) == :erlang.term_to_binary(other)

  defp nodes(options) do
    redis = Support.Redis.start()
    namespace = namespace()
    for _ <- 1..2, do: Larder.view(cache(namespace: namespace, redis: redis.url), "v", options)
  end

  defp check(values, [here, there]) do
    for {value, number} <- Enum.with_index(values) do
      assert same?(Larder.fetch(here, number, fn -> value end), value), inspect(value)
      # Made of the bytes, and then the term that is kept.
      for _ <- 1..3, do: assert(same?(Larder.hit(here, number), {:ok, value}), inspect(value))
      assert same?(Larder.read(there, number), {:ok, value}), inspect(value)
    end
  end

  test "values come back equal from the loader, from memory and from Redis" do
    check(@values, nodes([]))
  end

  test "values of a JSON view come back equal, and views of MessagePack read them" do
    redis = Support.Redis.start()
    namespace = namespace()
    [json, other] = for options <- [[codec: :json], []], do: Larder.view(cache(namespace: namespace, redis: redis.url), "v", options)

    json? = fn
      %DateTime{} -> false
      value when value in [:nan, :infinity, :neg_infinity] -> false
      value -> not is_binary(value) or String.valid?(value)
    end

    @values |> Enum.filter(json?) |> check([json, other])
    assert Larder.increment(json, "n", 2, initial: 5) == {:ok, 5}
    assert Larder.read(other, "n") == {:ok, 5}

    for {value, part} <- [
          {%{"a" => [<<255>>]}, "at $.a[0]: JSON has no bytes"},
          {~U[2026-01-01 00:00:00Z], "at $: JSON has no points in time"},
          {[:nan], "at $[0]: JSON has no numbers that are not finite"}
        ] do
      error = assert_raise EncodeError, fn -> Larder.write(json, "refused", value) end
      assert error.message =~ part
    end
  end

  test "a private view has every term" do
    check(@values ++ @terms, nodes(codec: :etf, keys: [@secret]))
    [here, _] = nodes(codec: :etf, keys: [@secret])
    fun = fn number -> number + 1 end
    Larder.write(here, "fun", fun)
    assert {:ok, ^fun} = Larder.hit(here, "fun")
    assert Larder.increment(here, "n", 2, initial: 5) == {:ok, 5}
    assert Larder.increment(here, "n", 2) == {:ok, 7}
    assert_raise Larder.Error, ~r/is no integer/, fn -> Larder.increment(here, "fun") end
  end

  test "private values need the key that has signed them, at their own place" do
    redis = Support.Redis.start()
    namespace = namespace()
    view = fn keys -> Larder.view(cache(namespace: namespace, redis: redis.url), "v", codec: :etf, keys: keys) end
    old = view.([@secret])
    assert Larder.write(old, "k", {:secret}) == :ok
    other = String.duplicate("o", 32)
    assert Larder.read(view.([other, @secret]), "k") == {:ok, {:secret}}
    assert Larder.read(view.([other]), "k") == :miss
    # Somebody moves the bytes to another key.
    stored = Support.Redis.command(redis, ["GET", "#{namespace}:v:k"])
    "OK" = Support.Redis.command(redis, ["SET", "#{namespace}:v:moved", stored])
    assert Larder.read(view.([@secret]), "moved") == :miss
    assert Larder.fetch(view.([@secret]), "moved", fn -> {:own} end) == {:own}

    for {options, message} <- [
          {[codec: :etf], ~r/keys is missing/},
          {[codec: :etf, keys: []], ~r/there is no key/},
          {[codec: :etf, keys: ["short"]], ~r/at least 16/},
          {[codec: :etf, keys: [@secret], negative_ttl: 1], ~r/negative_ttl/},
          {[keys: [@secret]], ~r/codec is :etf/},
          {[codec: :yaml], ~r/codec is :yaml/}
        ] do
      assert_raise OptionError, message, fn -> Larder.view(cache(), "w", options) end
    end

    refute inspect(old) =~ "kkkk"
  end

  test "what is lost on the way is written down" do
    view = view()

    for {written, read} <- [
          {:apple, "apple"},
          {:Ł, "Ł"},
          {:ÿ, "ÿ"},
          {%{name: :apple, tags: [:a]}, %{"name" => "apple", "tags" => ["a"]}},
          {{:bytes, "text"}, "text"},
          {'abc', [97, 98, 99]},
          {DateTime.new!(~D[2026-07-01], ~T[02:00:00.5], "Etc/UTC"), ~U[2026-07-01 02:00:00.500000Z]},
          {%{~U[2026-07-01 02:00:00Z] | utc_offset: 3600, std_offset: 3600, time_zone: "Europe/Berlin", zone_abbr: "CEST"},
           ~U[2026-07-01 00:00:00Z]}
        ] do
      assert Larder.fetch(view, "k", [refresh: true], fn -> written end) == read
    end
  end

  test "what other languages do not have is refused with its place, and stored nowhere" do
    view = view()

    for {value, message} <- [
          {{1, 2}, "at $: a tuple"},
          {[a: 1], "at $[0]: a tuple"},
          {%{a: [1, self()]}, "at $.a[1]: a process, port, reference or function"},
          {%{"a" => %{b: fn -> 1 end}}, "at $.a.b: a process, port, reference or function"},
          {%{d: ~D[2026-01-01]}, "at $.d: a struct, %Date{}"},
          {MapSet.new(), "at $: a struct, %MapSet{}"},
          {%{1 => 2}, "a map with the key 1"},
          {%{"a" => 1, a: 2}, ~s(a map with both "a" and the atom)},
          {%{<<255>> => 1}, "a key of a map that is not UTF-8"},
          {[1 | 2], "at $: an improper list"},
          {<<1::1>>, "at $: a bitstring that is no binary"},
          {[0x10000000000000000], "at $[0]: an integer outside of -2^63 to 2^64 - 1"},
          {{:bytes, 1}, "at $: {:bytes, …} without a binary"},
          {%{~U[2026-01-01 00:00:00Z] | microsecond: {-1, 6}}, "at $: a DateTime"},
          {Enum.reduce(1..200, [], fn _, list -> [list] end), "more than 128 lists and maps are around it"}
        ] do
      error = assert_raise EncodeError, fn -> Larder.write(view, "k", value) end
      assert error.message =~ message
      assert_raise EncodeError, fn -> Larder.fetch(view, "k", fn -> value end) end
      assert_raise EncodeError, fn -> Larder.fetch_multi(view, ["k"], fn _ -> [{"k", value}] end) end
      assert Larder.hit(view, "k") == :miss
    end

    assert Larder.fetch(view, "k", fn -> 1 end) == 1
  end

  test "a value that is too long is refused, on every thread" do
    view = view(max_value_bytes: "100KiB")

    for {value, fits} <- [
          {String.duplicate("x", 99_000), true},
          {Enum.to_list(1..30_000), true},
          {String.duplicate("x", 110_000), false},
          {Enum.to_list(1..50_000), false}
        ] do
      if fits do
        assert Larder.fetch(view, "k", [refresh: true], fn -> value end) == value
      else
        assert_raise EncodeError, ~r/102400/, fn -> Larder.write(view, "k", value) end
      end
    end

    private = Larder.view(cache(max_value_bytes: "100KiB"), "v", codec: :etf, keys: [@secret])
    assert_raise EncodeError, ~r/102400/, fn -> Larder.write(private, "k", Enum.to_list(1..60_000)) end
    assert Larder.write(private, "k", Enum.to_list(1..15_000)) == :ok
    assert Larder.hit(private, "k") == {:ok, Enum.to_list(1..15_000)}
  end

  test "a key is what a key is in every language" do
    view = view()
    assert Larder.write(view, {"eu", 17}, "composed") == :ok
    assert Larder.hit(view, "eu:17") == {:ok, "composed"}
    Larder.write(view, 17, "number")
    assert Larder.hit(view, "17") == {:ok, "number"}
    assert Larder.key_bytes({:a, {"b", true}, 0xFFFFFFFFFFFFFFFF}) == "a:b\\:true:18446744073709551615"
    assert Larder.key_bytes(<<255>>) == <<255>>

    for key <- [nil, 1.5, [], 'abc', %{}, {}, {1, nil}, 0x10000000000000000, self(), <<1::1>>] do
      assert_raise KeyTypeError, fn -> Larder.hit(view, key) end
      assert_raise KeyTypeError, fn -> Larder.fetch(view, key, fn -> 1 end) end
      assert_raise KeyTypeError, fn -> Larder.write_multi(view, [{key, 1}]) end
    end
  end
end
