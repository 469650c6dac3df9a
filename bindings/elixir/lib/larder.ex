defmodule Larder do
  @moduledoc """
  A cache that stays coherent: memory in each node, Redis behind it.

      children = [
        {Larder, name: Shop, namespace: "shop", ttl: "5m", redis: "redis://localhost"}
      ]

      prices = Larder.view(Shop, "price")
      Larder.fetch(prices, "apple", fn -> 3 end)

  A cache is a process under a supervisor (`Larder.Cache`), which its `name` stands for. Its options, beside `name` and `namespace`,
  are those of larder: an integer is a number of milliseconds where the option is a time, and text has a unit: `"5m"`.

  All functions raise: what fails is a mistake in the program, a cache that does not run, or a call that needs an answer of Redis
  while that is away. Reads and mutations that can do without Redis do so.
  """

  alias Larder.{Cache, Call, Loaded, Loading, Native, Updating, View}

  @typedoc "A binary, an integer of 64 bits, an atom other than `nil`, or a tuple of them that is not empty."
  @type key :: binary() | integer() | atom() | tuple()

  @typedoc "What a view stores: see `view/3`."
  @type value :: term()

  @typedoc "Milliseconds, or text with a unit."
  @type time :: non_neg_integer() | String.t()

  @typedoc "Whether all nodes know of a mutation. `:queued`: it holds in this node, and Redis gets it later."
  @type reach :: :ok | :queued

  @type loader :: (() -> value() | Loaded.t()) | (Larder.Load.t() -> value() | Loaded.t())

  @type view_option ::
          {:schema, {String.t() | atom(), non_neg_integer()}}
          | {:codec, :messagepack | :json | :etf}
          | {:keys, [binary()]}
          | write_option()
          | {:negative_ttl | :retry_after | :soft_timeout | :hard_timeout, time()}
          | {:jitter, float()}
          | {:refresh_ahead, ahead()}

  @typedoc """
  When a fetch loads a value again that is still fresh: after this part of its TTL, from 0 to 1, or `:by_cost`, by a chance that is the
  greater the longer its last load took (`"by_cost:2"`: twice as early). `:never` is the default.
  """
  @type ahead :: number() | :by_cost | :never | String.t()

  @type write_option :: {:ttl | :grace, time()} | {:tags, [String.t()]}

  @type fetch_option ::
          write_option()
          | {:retry_after | :soft_timeout | :hard_timeout, time()}
          | {:jitter, float()}
          | {:refresh, boolean()}
          | {:refresh_ahead, ahead()}

  @doc false
  defdelegate child_spec(options), to: Cache

  @doc "Starts a cache that no supervisor starts. See `Larder.Cache`."
  @spec start_link(keyword()) :: GenServer.on_start()
  defdelegate start_link(options), to: Cache

  # Views

  @doc """
  A view: values of one kind, under the name of a cache that runs. The second call with the same options finds the view of the first
  one, so call it where it is needed, with options that are constants.

    * `schema`: the name and the number of the schema of the values, `{name, 1}` by default. Values of another schema are misses:
      raise the number when their shape changes.
    * `codec`: `:messagepack`, which every language reads; `:json`, which they read too, and other programs as text in Redis; or
      `:etf`, which stores every term, for programs with one of the `keys`.
    * `ttl`, `grace`, `tags`, `jitter`, `negative_ttl`, `retry_after`, `soft_timeout`, `hard_timeout`, `refresh_ahead`: of its values
      and loads.
  """
  @spec view(atom(), String.t() | atom(), [view_option()]) :: View.t()
  def view(cache, name, options \\ []), do: View.open(cache, name, options)

  # Reading

  @doc "The value in the memory of this node. Never waits."
  @spec hit(View.t(), key()) :: {:ok, value()} | :miss
  def hit(%View{native: native} = view, key) do
    case Native.hit(native, key) do
      :closed -> view |> View.renew() |> hit(key)
      found -> found
    end
  end

  @doc "The value in memory or in Redis."
  @spec read(View.t(), key()) :: {:ok, value()} | :miss
  def read(%View{} = view, key) do
    case hit(view, key) do
      :miss -> Call.of_view(view, &Native.read(&1, &2, key))
      found -> found
    end
  end

  @doc "A map of the values that are in memory or in Redis, by their keys."
  @spec read_multi(View.t(), [key()]) :: %{key() => value()}
  def read_multi(%View{} = view, keys) do
    found(keys, Call.of_view(view, &Native.read_multi(&1, &2, keys)))
  end

  @doc false
  def found(keys, values), do: for({key, {:ok, value}} <- Enum.zip(keys, values), into: %{}, do: {key, value})

  @doc "Whether there is a value that is not stale."
  @spec exists?(View.t(), key()) :: boolean()
  def exists?(%View{} = view, key), do: Call.of_view(view, &Native.exists(&1, &2, key))

  @doc "The milliseconds for which the value is fresh."
  @spec ttl(View.t(), key()) :: {:ok, non_neg_integer()} | :miss
  def ttl(%View{} = view, key), do: Call.of_view(view, &Native.ttl(&1, &2, key))

  # Loading

  @doc """
  The value. If no tier has it, one caller loads it by calling `fun` in its own process, and all others wait for that, also those in
  other nodes.

  `fun` has no argument, or one: a `Larder.Load`, which has the stale value. It returns a value, or what `loaded/2` or `keep/0`
  return. All callers get the value as it is stored.

  What `fun` raises, throws or exits with goes to its caller unchanged. Those who wait get a `Larder.LoadFailed` with that as the
  `cause`. A stale value within its `grace` is returned instead. If the process of the loader is killed, the next caller loads.

  With `refresh_ahead`, of the call or of the view, the first caller that finds the value due loads it while it is fresh, and gets what
  it has loaded; the others go on with the value. If that load fails, the caller gets the value too.

  A `fun` that fetches its own key raises `Larder.RecursiveLoad` there. It must not wait for another process that fetches this key.
  """
  @spec fetch(View.t(), key(), loader()) :: value()
  def fetch(%View{loads_ahead: true} = view, key, fun) when is_function(fun, 0) or is_function(fun, 1) do
    Loading.fetch(view, key, [], fun)
  end

  def fetch(%View{} = view, key, fun) when is_function(fun, 0) or is_function(fun, 1) do
    case Native.hit(view.native, key) do
      {:ok, value} -> value
      _ -> Loading.fetch(view, key, [], fun)
    end
  end

  @doc "`fetch/3` with options. `refresh: true` loads although there is a value."
  @spec fetch(View.t(), key(), [fetch_option()], loader()) :: value()
  def fetch(%View{} = view, key, options, fun) when is_function(fun, 0) or is_function(fun, 1) do
    with false <- Keyword.get(options, :refresh, false),
         false <- view.loads_ahead or Keyword.has_key?(options, :refresh_ahead),
         {:ok, value} <- Native.hit(view.native, key) do
      value
    else
      _ -> Loading.fetch(view, key, options, fun)
    end
  end

  @doc """
  A map of the values by their keys. `fun` is called with a list of the keys that this caller loads, and returns pairs of keys and
  values, such as a map, or `loaded(pairs, options)`. A key without a value is not in the result.
  """
  @spec fetch_multi(View.t(), [key()], [fetch_option()], ([key()] -> Enumerable.t() | Loaded.t())) :: %{key() => value()}
  def fetch_multi(%View{} = view, keys, options \\ [], fun) when is_function(fun, 1) do
    Loading.fetch_multi(view, keys, options, fun)
  end

  @doc """
  For a loader to return: a value with options of its own.

  `ttl`, `grace` and `tags` are those of the value; the tags are added to those of the view. With `store: false` the callers get the
  value, and no tier keeps it.
  """
  @spec loaded(value(), [write_option() | {:store, boolean()}]) :: Loaded.t()
  def loaded(value, options), do: %Loaded{value: value, options: options}

  @doc "For a loader to return that has found the stale value unchanged: it is fresh again."
  @spec keep() :: Loaded.t()
  def keep, do: %Loaded{keep: true}

  # Writing

  @doc "Stores a value."
  @spec write(View.t(), key(), value(), [write_option()]) :: reach()
  def write(%View{} = view, key, value, options \\ []) do
    value = View.encode(view, value)
    Call.of_view(view, &Native.write(&1, &2, key, value, options))
  end

  @doc "Stores the values of a map or of a list of pairs."
  @spec write_multi(View.t(), Enumerable.t(), [write_option()]) :: reach()
  def write_multi(%View{} = view, values, options \\ []) do
    pairs = for {key, value} <- values, do: {key, View.encode(view, value)}
    Call.of_view(view, &Native.write_multi(&1, &2, pairs, options))
  end

  @doc "Stores a value if there is none. Returns whether it did so."
  @spec add(View.t(), key(), value(), [write_option()]) :: boolean()
  def add(%View{} = view, key, value, options \\ []) do
    value = View.encode(view, value)
    Call.of_view(view, &Native.add(&1, &2, key, value, options))
  end

  @doc """
  Adds to an integer. If there is no value it stores `initial`, if that is given, with the other options.

  Raises `Larder.Error` if the value is no integer, or the sum has more than 64 bits.
  """
  @spec increment(View.t(), key(), integer(), [write_option() | {:initial, integer()}]) :: {:ok, integer()} | :miss
  def increment(%View{} = view, key, by \\ 1, options \\ []) do
    {initial, options} = Keyword.pop(options, :initial)

    case Call.of_view(view, &Native.increment(&1, &2, key, by, initial, options)) do
      :no_number -> raise Larder.Error, "the value of key #{inspect(key)} is no integer, or the sum has more than 64 bits"
      sum -> sum
    end
  end

  @doc """
  Replaces or removes a value by what `fun` makes of it, in one step. Returns the value that is there then.

      Larder.update(stock, "apple", fn
        {:ok, count} when count > 0 -> {:ok, count - 1}
        _ -> :keep
      end)

  `fun` gets `{:ok, value}` or `:miss`, and returns `{:ok, value}`, `:keep` or `:remove`. It runs in this process, and is called again if
  another writer comes first: it must be short, have no effects of its own, and not update that key. A value keeps the times and tags of
  the one that it replaces, or has those of the options, if there are any.
  """
  @spec update(View.t(), key(), [write_option()], ({:ok, value()} | :miss -> {:ok, value()} | :keep | :remove)) ::
          {:ok, value()} | :miss
  def update(%View{} = view, key, options \\ [], fun) when is_function(fun, 1), do: Updating.update(view, key, options, fun)

  @doc "Gives a value another lifetime. Returns whether there was one."
  @spec touch(View.t(), key(), [{:ttl | :grace, time()}]) :: boolean()
  def touch(%View{} = view, key, options \\ []), do: Call.of_view(view, &Native.touch(&1, &2, key, options))

  # Removing

  @doc "Removes a value from all nodes. Tells whether there was one."
  @spec delete(View.t(), key()) :: {reach(), boolean()}
  def delete(%View{} = view, key), do: Call.of_view(view, &Native.delete(&1, &2, key))

  @doc "Removes several values. Tells how many there were."
  @spec delete_multi(View.t(), [key()]) :: {reach(), non_neg_integer()}
  def delete_multi(%View{} = view, keys), do: Call.of_view(view, &Native.delete_multi(&1, &2, keys))

  @doc "Makes a value stale: it stays for its grace period. Tells whether there was one."
  @spec expire(View.t(), key()) :: {reach(), boolean()}
  def expire(%View{} = view, key), do: Call.of_view(view, &Native.expire(&1, &2, key))

  @doc "Removes a value and returns it: of several callers one gets it."
  @spec take(View.t(), key()) :: {:ok, value()} | :miss
  def take(%View{} = view, key), do: Call.of_view(view, &Native.take(&1, &2, key))

  @doc "Removes the values of all views that have one of the tags. With `soft: true` they become stale."
  @spec invalidate_tags(atom(), [String.t()], soft: boolean()) :: reach()
  def invalidate_tags(cache, tags, options \\ []) do
    Cache.call(cache, &Native.invalidate_tags(&1, &2, tags, Keyword.get(options, :soft, false)))
  end

  @doc "Removes all values of the cache."
  @spec clear(atom()) :: reach()
  def clear(cache), do: Cache.call(cache, &Native.clear(&1, &2))

  @doc "Removes the values whose view and key match a pattern, such as `\"price:a*\"`. Tells how many were in Redis."
  @spec delete_matched(atom(), String.t()) :: {reach(), non_neg_integer()}
  def delete_matched(cache, pattern), do: Cache.call(cache, &Native.delete_matched(&1, &2, pattern))

  # The cache

  @doc "Waits until Redis has confirmed all invalidations, for `limit` at most. Returns how many are pending still."
  @spec drain(atom(), time()) :: non_neg_integer()
  def drain(cache, limit \\ 2_000), do: Cache.call(cache, &Native.drain(&1, &2, limit))

  @doc "Turns the cache off, so that each fetch loads, or on again."
  @spec set_enabled(atom(), boolean()) :: :ok
  def set_enabled(cache, enabled), do: Native.set_enabled(Cache.fetch!(cache).native, enabled)

  @doc "How this node stands to Redis. Times are milliseconds; `problem` says why Redis cannot be used now."
  @spec coherence(atom()) :: %{
          mode: :memory | :full | :lost | :unsupported | :unknown | :shut_down,
          memory_trusted: boolean(),
          proof_age: non_neg_integer(),
          disconnected: non_neg_integer(),
          pending_invalidations: non_neg_integer(),
          problem: String.t() | nil
        }
  def coherence(cache), do: Native.coherence(Cache.fetch!(cache).native)

  @doc "The figures of the cache and of its tiers; `redis` is `nil` if there is none."
  @spec stats(atom()) :: %{atom() => non_neg_integer() | nil | %{atom() => non_neg_integer() | nil}}
  def stats(cache), do: Native.stats(Cache.fetch!(cache).native)

  @doc "The bytes of a key, as they follow the name of the view in Redis."
  @spec key_bytes(key()) :: binary()
  defdelegate key_bytes(key), to: Native
end
