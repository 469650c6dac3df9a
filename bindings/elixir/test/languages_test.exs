# A node in Rust and one in Elixir over one Redis: they read each other's values, and serve nothing that the other invalidated.
defmodule LanguagesTest do
  use ExUnit.Case, async: true
  import Support

  @apple %{"name" => "apple", "price" => 3, "tags" => ["fruit"], "weight" => nil}

  setup do
    redis = Support.Redis.start()
    namespace = namespace()
    name = cache(namespace: namespace, redis: redis.url)
    products = Larder.view(name, "product", schema: {"product", 1})
    %{redis: redis, namespace: namespace, cache: name, products: products, peer: Support.Peer.start(redis, namespace)}
  end

  test "each language reads what the other has written", %{peer: peer, products: products} do
    assert peer.(["write", "apple", "apple", 3]) == "ok"
    assert Larder.read(products, "apple") == {:ok, @apple}
    assert Larder.write(products, "pear", %{name: :pear, price: 0x7FFFFFFFFFFFFFFF, tags: [], weight: 0.5}) == :ok
    assert peer.(["read", "pear"]) == "pear 9223372036854775807"
    assert Larder.write(products, "incomplete", %{name: "x"}) == :ok
    assert peer.(["read", "incomplete"]) == "-"
  end

  test "neither language serves what the other has invalidated", %{cache: cache, peer: peer, products: products} do
    for turn <- 1..20 do
      assert peer.(["write", "k", "name", 2 * turn]) == "ok"
      eventually("what Rust wrote", fn -> match?({:ok, %{"price" => price}} when price == 2 * turn, Larder.read(products, "k")) end)
      assert Larder.write(products, "k", %{@apple | "price" => 2 * turn + 1}) == :ok
      eventually("what Elixir wrote", fn -> peer.(["read", "k"]) == "apple #{2 * turn + 1}" end)
    end

    assert peer.(["delete", "k"]) == "ok"
    eventually("the deletion", fn -> Larder.read(products, "k") == :miss end)
    assert peer.(["fetch", "tagged", "t", 1, 0]) == "loaded t 1"
    assert {:ok, %{"price" => 1}} = Larder.read(products, "tagged")
    assert Larder.invalidate_tags(cache, ["rust"]) == :ok
    eventually("the tag", fn -> peer.(["read", "tagged"]) == "-" end)
    Larder.fetch(products, "mine", [tags: ["mine"]], fn -> @apple end)
    assert peer.(["tag", "mine"]) == "ok"
    eventually("the tag of Rust", fn -> Larder.hit(products, "mine") == :miss end)
  end

  test "one caller of both languages loads", %{redis: redis, namespace: namespace, peer: peer, products: products} do
    leased = fn key ->
      eventually("the lease", fn -> Support.Redis.command(redis, ["EXISTS", "#{namespace}:product:#{key}"]) == 1 end)
    end

    # The one loads.
    test = self()

    leader =
      Task.async(fn ->
        Larder.fetch(products, "own", fn ->
          leased.("own")
          send(test, :loading)
          receive(do: (:go_on -> @apple))
        end)
      end)

    assert_receive :loading, 5_000
    Process.send_after(leader.pid, :go_on, 200)
    assert peer.(["fetch", "own", "rust", 1, 0]) == "found apple 3"
    assert Task.await(leader) == @apple

    # The other one loads: this waits for its line.
    follower =
      Task.async(fn ->
        leased.("slow")
        Larder.fetch(products, "slow", fn -> flunk("Rust loads it") end)
      end)

    assert peer.(["fetch", "slow", "rust", 1, 1_000]) == "loaded rust 1"
    assert Task.await(follower)["name"] == "rust"
  end
end
