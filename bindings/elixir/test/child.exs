# A node in Elixir that a test in Rust calls by lines: bindings/interop/protocol.md describes them. Each call is a process.

defmodule Child do
  defmodule LoaderError do
    defexception [:message]
  end

  def main do
    {:ok, _} = Application.ensure_all_started(:larder_cache)
    Logger.configure(level: :error)
    # Lines are bytes here as there.
    :ok = :io.setopts(:standard_io, encoding: :latin1)
    say(["ready"])
    :ets.new(__MODULE__, [:named_table, :public])
    read()
  end

  # This process owns the caches, which end with it.
  defp read do
    case IO.binread(:stdio, :line) do
      line when is_binary(line) ->
        [verb, id | words] = line |> String.trim_trailing("\n") |> String.split(" ")
        receive_line(verb, id, words)
        read()

      _ ->
        # Calls that never end keep no child alive.
        System.halt(0)
    end
  end

  defp receive_line(verb, id, words) when verb in ["loaded", "updated", "raise"], do: tell(id, {verb, parts(words)})

  defp receive_line("cancel", id, _) do
    for {_, pid} <- :ets.lookup(__MODULE__, id), do: Process.exit(pid, :kill)
  end

  # Later calls are of the new cache.
  defp receive_line("open", id, words), do: obey("open", id, words)

  defp receive_line(verb, id, words) do
    {:ok, pid} = Task.start(fn -> receive(do: (:begin -> obey(verb, id, words))) end)
    :ets.insert(__MODULE__, {id, pid})
    send(pid, :begin)
  end

  defp tell(id, message), do: for({_, pid} <- :ets.lookup(__MODULE__, id), do: send(pid, message))

  defp obey(verb, id, words) do
    answer =
      try do
        {words, options} = parts(words)
        ["done", id | call(verb, id, words, options)]
      rescue
        error in Larder.LoadTimeout -> ["failed", id, "timeout", quoted(error.message)]
        error in LoaderError -> ["failed", id, "loader", quoted(error.message)]
        error in Larder.LoadFailed -> ["failed", id | failure(error)]
        error -> ["failed", id, "other", quoted(Exception.format(:error, error, __STACKTRACE__))]
      end

    :ets.delete(__MODULE__, id)
    say(answer)
  end

  defp failure(%{cause: %LoaderError{message: message}}), do: ["loader", quoted(message)]
  defp failure(error), do: ["other", quoted(error.message)]

  # The words before the options, and the options.
  defp parts(words) do
    {words, options} = Enum.split_while(words, &(not String.contains?(&1, "=")))

    options =
      Enum.map(options, fn option ->
        [name, value] = String.split(option, "=")
        {String.to_atom(name), if(value == "yes", do: true, else: text(value))}
      end)

    {tags, options} = Keyword.pop_values(options, :tag)
    {words, if(tags == [], do: options, else: [{:tags, tags} | options])}
  end

  defp call("open", _, [url, namespace], options) do
    if Process.whereis(__MODULE__.Cache), do: GenServer.stop(__MODULE__.Cache)
    redis = if url == "-", do: nil, else: text(url)
    options = Keyword.delete(options, :tags)
    {:ok, _} = Larder.start_link([name: __MODULE__.Cache, namespace: text(namespace), redis: redis] ++ options)
    []
  end

  defp call("hit", _, [key], _), do: [word_of(Larder.hit(view(), text(key)))]
  defp call("read", _, [key], _), do: [word_of(Larder.read(view(), text(key)))]
  defp call("exist", _, [key], _), do: [yes(Larder.exists?(view(), text(key)))]

  defp call("read_many", _, keys, _) do
    keys = Enum.map(keys, &text/1)
    words_of(keys, Larder.read_multi(view(), keys))
  end

  defp call("fetch", id, [key], options) do
    key = text(key)
    loader = fn _ -> load(id, [key], fn [word] -> value_of(word) end) end
    [word_of({:ok, Larder.fetch(view(), key, options, loader)})]
  end

  defp call("fetch_many", id, keys, options) do
    keys = Enum.map(keys, &text/1)
    words_of(keys, Larder.fetch_multi(view(), keys, options, fn wanted -> load(id, wanted, &pairs/1) end))
  end

  defp call("update", id, [key], options) do
    ask = fn found ->
      say(["updating", id, word_of(found)])

      receive do
        {"raise", {[message], _}} -> raise LoaderError, text(message)
        {"updated", {_, [keep: true]}} -> :keep
        {"updated", {["-"], _}} -> :remove
        {"updated", {[word], _}} -> {:ok, value_of(word)}
      end
    end

    [word_of(Larder.update(view(), text(key), options, ask))]
  end

  defp call("write", _, [key, value], options), do: [known(Larder.write(view(), text(key), value_of(value), options))]
  defp call("write_many", _, words, options), do: [known(Larder.write_multi(view(), pairs(words), options))]
  defp call("add", _, [key, value], options), do: [yes(Larder.add(view(), text(key), value_of(value), options))]

  defp call("delete", _, [key], _) do
    {reach, existed} = Larder.delete(view(), text(key))
    [yes(existed), known(reach)]
  end

  defp call("delete_many", _, keys, _) do
    {_, count} = Larder.delete_multi(view(), Enum.map(keys, &text/1))
    [to_string(count)]
  end

  defp call("take", _, [key], _), do: [word_of(Larder.take(view(), text(key)))]
  defp call("expire", _, [key], _), do: [yes(elem(Larder.expire(view(), text(key)), 1))]
  defp call("touch", _, [key], options), do: [yes(Larder.touch(view(), text(key), options))]

  defp call("increment", _, [key, by], _) do
    number = String.to_integer(by)
    numbers = Larder.view(__MODULE__.Cache, "n", schema: {"n", 1})
    {:ok, sum} = Larder.increment(numbers, text(key), number, initial: number)
    [to_string(sum)]
  end

  defp call("tags", _, tags, options), do: [known(Larder.invalidate_tags(__MODULE__.Cache, Enum.map(tags, &text/1), options))]
  defp call("clear", _, [], _), do: [known(Larder.clear(__MODULE__.Cache))]

  defp call("delete_matched", _, [pattern], _) do
    {reach, _} = Larder.delete_matched(__MODULE__.Cache, text(pattern))
    [known(reach)]
  end

  defp call("state", _, [], _) do
    %{mode: mode, memory_trusted: trusted, pending_invalidations: pending} = Larder.coherence(__MODULE__.Cache)
    [quoted(mode |> to_string() |> String.replace("_", " ")), yes(trusted), to_string(pending)]
  end

  defp view, do: Larder.view(__MODULE__.Cache, "v", schema: {"v", 1})

  # A loader: the test has it, and is told that it begins.
  defp load(id, keys, value) do
    say(["loading", id | Enum.map(keys, &quoted/1)])

    receive do
      {"raise", {[message], _}} -> raise LoaderError, text(message)
      {"loaded", {words, options}} -> loaded(words, options, value)
    end
  end

  defp loaded(words, options, value) do
    {no_store, options} = Keyword.pop(options, :no_store, false)

    case Keyword.pop(options, :keep, false) do
      {true, _} -> Larder.keep()
      {false, options} -> Larder.loaded(value.(words), [{:store, not no_store} | options])
    end
  end

  defp pairs(words), do: words |> Enum.chunk_every(2) |> Enum.map(fn [key, word] -> {text(key), value_of(word)} end)

  defp value_of("n"), do: nil
  defp value_of("t" <> word), do: text(word)

  defp value_of("v" <> word) do
    [version, write] = String.split(word, ".")
    %{version: String.to_integer(version), write: String.to_integer(write)}
  end

  defp words_of(keys, found), do: Enum.map(keys, &word_of(Map.fetch(found, &1)))

  defp word_of({:ok, nil}), do: "n"
  defp word_of({:ok, value}) when is_binary(value), do: "t" <> quoted(value)
  defp word_of({:ok, %{"version" => version, "write" => write}}), do: "v#{version}.#{write}"
  defp word_of(nothing) when nothing in [:miss, :error], do: "-"

  defp yes(true), do: "yes"
  defp yes(false), do: "no"
  defp known(reach), do: yes(reach == :ok)

  defp text(word), do: URI.decode(word)
  defp quoted(text), do: URI.encode(text, &URI.char_unreserved?/1)
  defp say(words), do: IO.binwrite(:stdio, [Enum.intersperse(words, " "), "\n"])
end

Child.main()
