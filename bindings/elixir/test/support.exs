# What the tests share: servers, nodes in Rust, programs of Erlang, and waiting.

defmodule Support do
  @moduledoc false
  import ExUnit.Callbacks

  @doc "The folder of the repository."
  def root, do: System.get_env("LARDER_ROOT") || raise("LARDER_ROOT names no folder: `cargo xtask test --stage elixir` sets it")

  @doc "A namespace that no other test has."
  def namespace, do: "test-#{System.unique_integer([:positive])}"

  @doc "Starts a cache, which ends with the test. Returns its name."
  def cache(options \\ []) do
    name = Keyword.get_lazy(options, :name, fn -> :"cache-#{System.unique_integer([:positive])}" end)
    start_supervised!({Larder, Keyword.merge([name: name, namespace: namespace(), ttl: "5m"], options)}, id: name)
    name
  end

  @doc "A view of a cache of its own."
  def view(options \\ []) do
    {of_view, of_cache} = Keyword.split(options, [:schema, :codec, :keys, :grace, :soft_timeout, :hard_timeout])
    Larder.view(cache(of_cache), "v", of_view)
  end

  @doc "Waits until a check is true."
  def eventually(what, check, milliseconds \\ 10_000) do
    wait(what, check, System.monotonic_time(:millisecond) + milliseconds)
  end

  defp wait(what, check, deadline) do
    cond do
      check.() ->
        :ok

      System.monotonic_time(:millisecond) > deadline ->
        raise "#{what} does not happen"

      true ->
        Process.sleep(5)
        wait(what, check, deadline)
    end
  end

  @doc "Runs a program in an emulator of its own. Returns what it prints and its exit status."
  def run(source, words \\ [], environment \\ []) do
    paths = Enum.flat_map([Mix.Project.compile_path(), __DIR__], &["-pa", &1])
    System.cmd("elixir", words ++ paths ++ ["-e", source], env: environment, stderr_to_stdout: true)
  end

  @doc "A program that runs as long as this one does, and its process in the system."
  def spawn_program(program, words) do
    # The shell ends it when this program closes the pipe, however it ends.
    script = ~S("$@" </dev/null >/dev/null 2>&1 & echo $!; cat >/dev/null; kill -CONT $! 2>/dev/null; kill -9 $! 2>/dev/null)
    port = Port.open({:spawn_executable, "/bin/sh"}, [:binary, line: 100, args: ["-c", script, "sh", program | words]])

    receive do
      {^port, {:data, {:eol, pid}}} -> {port, pid}
    after
      10_000 -> raise "#{program} does not start"
    end
  end
end

defmodule Support.Redis do
  @moduledoc false
  import ExUnit.Callbacks
  import Support

  defstruct [:folder, :socket, :url, :pid]

  @doc "A redis-server without a port and without files that outlive the test."
  def start do
    folder = Path.join(System.tmp_dir!(), "larder-elixir-#{System.pid()}-#{System.unique_integer([:positive])}")
    File.mkdir_p!(folder)
    socket = Path.join(folder, "socket")
    redis = %__MODULE__{folder: folder, socket: socket, url: "redis+unix://#{socket}"}
    on_exit(fn -> File.rm_rf!(folder) end)
    %{redis | pid: run_server(redis)}
  end

  defp run_server(redis) do
    words = ["--port", "0", "--unixsocket", redis.socket, "--save", "", "--dir", redis.folder]
    {port, pid} = spawn_program(System.find_executable("redis-server"), words)
    # The port closes with the process of the test, and the server ends with it.
    eventually("the start of redis-server", fn -> answers?(redis) end)
    true = is_port(port)
    pid
  end

  defp answers?(redis) do
    case connect(redis) do
      {:ok, socket} -> :gen_tcp.close(socket) == :ok
      {:error, _} -> false
    end
  end

  def pause(redis), do: signal(redis, "-STOP")
  def go_on(redis), do: signal(redis, "-CONT")

  defp signal(redis, name), do: {_, 0} = System.cmd("kill", [name, redis.pid])

  @doc "One command. Returns its reply: a text, an integer, or nothing."
  def command(redis, words) do
    {:ok, socket} = connect(redis)
    parts = for word <- words, do: "$#{byte_size(word)}\r\n#{word}\r\n"
    :ok = :gen_tcp.send(socket, ["*#{length(words)}\r\n" | parts])
    {:ok, <<kind, rest::binary>>} = :gen_tcp.recv(socket, 0, 5_000)

    reply =
      case {kind, String.trim_trailing(rest)} do
        {?:, number} -> String.to_integer(number)
        {?$, "-1"} -> nil
        {?$, _} -> receive_bytes(socket, String.to_integer(String.trim_trailing(rest)))
        {_, line} -> line
      end

    :gen_tcp.close(socket)
    reply
  end

  defp receive_bytes(socket, bytes) do
    :ok = :inet.setopts(socket, packet: :raw)
    {:ok, data} = :gen_tcp.recv(socket, bytes + 2, 5_000)
    binary_part(data, 0, bytes)
  end

  defp connect(redis), do: :gen_tcp.connect({:local, redis.socket}, 0, [:binary, packet: :line, active: false])
end

defmodule Support.Peer do
  @moduledoc false

  @doc "A node in Rust: a function that sends it words and returns the line of its answer."
  def start(redis, namespace) do
    program = System.get_env("LARDER_PEER") || raise("LARDER_PEER names no program: `cargo xtask test --stage elixir` sets it")
    port = Port.open({:spawn_executable, program}, [:binary, line: 1_000_000, args: [redis.url, namespace]])

    fn words ->
      Port.command(port, Enum.join(words, " ") <> "\n")

      receive do
        {^port, {:data, {:eol, line}}} -> line
      after
        20_000 -> raise "the node in Rust does not answer #{inspect(words)}"
      end
    end
  end
end

defmodule Support.Json do
  @moduledoc false

  @doc "The value of a JSON text. Numbers are integers: the corpus has no others."
  def decode(text) do
    {value, rest} = value(skip(text))
    "" = skip(rest)
    value
  end

  defp value("{" <> rest), do: object(skip(rest), %{})
  defp value("[" <> rest), do: array(skip(rest), [])
  defp value("\"" <> rest), do: string(rest, [])
  defp value("true" <> rest), do: {true, rest}
  defp value("false" <> rest), do: {false, rest}
  defp value("null" <> rest), do: {nil, rest}
  defp value(text), do: Integer.parse(text)

  defp object("}" <> rest, map), do: {map, rest}

  defp object("," <> rest, map), do: object(skip(rest), map)

  defp object("\"" <> rest, map) do
    {key, rest} = string(rest, [])
    ":" <> rest = skip(rest)
    {value, rest} = value(skip(rest))
    object(skip(rest), Map.put(map, key, value))
  end

  defp array("]" <> rest, list), do: {Enum.reverse(list), rest}
  defp array("," <> rest, list), do: array(skip(rest), list)

  defp array(text, list) do
    {value, rest} = value(text)
    array(skip(rest), [value | list])
  end

  defp string("\"" <> rest, parts), do: {parts |> Enum.reverse() |> IO.iodata_to_binary(), rest}

  defp string("\\u" <> <<high::binary-4, "\\u", low::binary-4, rest::binary>>, parts) when high >= "d800" and high < "dc00" do
    string(rest, [:unicode.characters_to_binary(Base.decode16!(high <> low, case: :lower), {:utf16, :big}) | parts])
  end

  defp string("\\u" <> <<code::binary-4, rest::binary>>, parts), do: string(rest, [<<String.to_integer(code, 16)::utf8>> | parts])
  defp string("\\n" <> rest, parts), do: string(rest, ["\n" | parts])
  defp string("\\" <> <<sign::utf8, rest::binary>>, parts), do: string(rest, [<<sign::utf8>> | parts])
  defp string(<<sign::utf8, rest::binary>>, parts), do: string(rest, [<<sign::utf8>> | parts])

  defp skip(<<space, rest::binary>>) when space in ' \n\r\t', do: skip(rest)
  defp skip(text), do: text
end
