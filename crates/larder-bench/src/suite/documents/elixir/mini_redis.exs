# The mini Redis of document 3: a public ETS table, and a server in one of its stages.
#   elixir mini_redis.exs sequential|task line|raw BACKLOG
defmodule MiniRedis do
  def start([accept, packet, backlog]) do
    :ets.new(:kv, [:named_table, :public, read_concurrency: true, write_concurrency: true])
    {:ok, supervisor} = Task.Supervisor.start_link()

    options = [
      :binary,
      packet: String.to_atom(packet),
      backlog: String.to_integer(backlog),
      active: false,
      reuseaddr: true,
      nodelay: true,
      ip: {127, 0, 0, 1}
    ]

    {:ok, listener} = :gen_tcp.listen(0, options)
    {:ok, port} = :inet.port(listener)
    IO.puts("listening 127.0.0.1:#{port}")
    accept(listener, if(accept == "task", do: supervisor))
  end

  defp accept(listener, supervisor) do
    {:ok, client} = :gen_tcp.accept(listener)

    if supervisor do
      {:ok, pid} = Task.Supervisor.start_child(supervisor, fn -> serve(client, "") end)
      :gen_tcp.controlling_process(client, pid)
    else
      serve(client, "")
    end

    accept(listener, supervisor)
  end

  # Parses from the start of the buffer after each packet, as the document does.
  defp serve(client, buffer) do
    case :gen_tcp.recv(client, 0) do
      {:ok, data} -> serve(client, reply(client, buffer <> data))
      {:error, _} -> :gen_tcp.close(client)
    end
  end

  defp reply(client, buffer) do
    case decode(buffer) do
      {:ok, command, rest} ->
        :gen_tcp.send(client, handle(command))
        reply(client, rest)

      :incomplete ->
        buffer
    end
  end

  defp handle([set, key, value]) when set in ["SET", "set"] do
    :ets.insert(:kv, {key, value})
    "+OK\r\n"
  end

  defp handle([get, key]) when get in ["GET", "get"] do
    case :ets.lookup(:kv, key) do
      [{_, value}] -> ["$", Integer.to_string(byte_size(value)), "\r\n", value, "\r\n"]
      [] -> "$-1\r\n"
    end
  end

  defp handle(_), do: "+OK\r\n"

  defp decode("*" <> rest) do
    with {:ok, count, rest} <- number(rest), do: bulks(count, rest, [])
  end

  defp decode(_), do: :incomplete

  defp bulks(0, rest, parts), do: {:ok, Enum.reverse(parts), rest}

  defp bulks(count, "$" <> rest, parts) do
    with {:ok, size, rest} <- number(rest) do
      case rest do
        <<bulk::binary-size(size), "\r\n", rest::binary>> -> bulks(count - 1, rest, [bulk | parts])
        _ -> :incomplete
      end
    end
  end

  defp bulks(_, _, _), do: :incomplete

  defp number(text) do
    case :binary.split(text, "\r\n") do
      [digits, rest] -> {:ok, String.to_integer(digits), rest}
      _ -> :incomplete
    end
  end
end

# Ends with the bench, which holds the other end of the standard input.
spawn(fn ->
  IO.read(:stdio, :line)
  System.halt(0)
end)

MiniRedis.start(System.argv())
