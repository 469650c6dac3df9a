# An Elixir app over Erlang's own HTTP server, which knows nothing of a cache in front of it. It prints its address.

defmodule App do
  require Record
  Record.defrecordp(:mod, Record.extract(:mod, from_lib: "inets/include/httpd.hrl"))

  def start do
    {:ok, _} = Application.ensure_all_started(:inets)
    :ets.new(:calls, [:named_table, :public])
    folder = to_charlist(System.tmp_dir!())

    {:ok, server} =
      :inets.start(:httpd,
        port: 0,
        bind_address: 'localhost',
        server_name: 'app',
        server_root: folder,
        document_root: folder,
        max_body_size: 16_777_216,
        modules: [App]
      )

    [port: port] = :httpd.info(server, [:port])
    IO.puts("http://localhost:#{port}")
  end

  def unquote(:do)(request) do
    path = request |> mod(:request_uri) |> to_string() |> String.split("?") |> hd()
    headers = for {name, value} <- mod(request, :parsed_header), do: {to_string(name), to_string(value)}
    body = request |> mod(:entity_body) |> IO.iodata_to_binary()
    {status, fields, body} = answer(to_string(mod(request, :method)), path, Map.new(headers), body)
    fields = for {name, value} <- fields, do: {to_charlist(name), to_charlist(value)}
    length = body |> byte_size() |> Integer.to_charlist()
    head = [{:code, status}, {:content_length, length} | fields]
    {:proceed, [response: {:response, head, [body]}]}
  end

  defp answer("GET", "/page", _, _), do: {200, [{"cache-control", "public, max-age=60"}], "page #{calls()}"}

  defp answer("GET", "/news", %{"if-none-match" => "\"news\""}, _) do
    calls()
    {304, [{"etag", "\"news\""}, {"cache-control", "no-cache"}], ""}
  end

  defp answer("GET", "/news", _, _) do
    calls()
    {200, [{"etag", "\"news\""}, {"cache-control", "no-cache"}], "the same news"}
  end

  defp answer("GET", "/visits", headers, _) do
    visits = String.to_integer(cookies(headers)["visits"] || "0") + 1
    {200, [{"set-cookie", "visits=#{visits}"}], "visits #{visits}"}
  end

  defp answer("GET", "/form", _, _) do
    secret = Base.encode16(:crypto.strong_rand_bytes(8))
    {200, [{"set-cookie", "secret=#{secret}"}, {"cache-control", "no-store"}], proof(secret)}
  end

  defp answer("POST", "/form", headers, body) do
    secret = cookies(headers)["secret"]

    if secret && URI.decode_query(body)["token"] == proof(secret) do
      {303, [{"location", "http://#{headers["host"]}/page"}], ""}
    else
      {403, [], "no token"}
    end
  end

  defp answer("GET", "/old", _, _), do: {302, [{"location", "/page"}], ""}

  defp answer("POST", "/upload", _, body) do
    sum = for <<byte <- body>>, reduce: 0, do: (sum -> sum + byte)
    {200, [], "#{byte_size(body)} bytes, #{rem(sum, 65536)}"}
  end

  defp answer(_, _, _, _), do: {404, [], "not here"}

  defp calls, do: :ets.update_counter(:calls, :calls, 1, {:calls, 0})
  defp proof(secret), do: Base.encode16(:crypto.hash(:sha256, "of a test #{secret}"))

  defp cookies(headers) do
    for cookie <- String.split(headers["cookie"] || "", "; ", trim: true), into: %{} do
      [name, value] = String.split(cookie, "=", parts: 2)
      {name, value}
    end
  end
end

App.start()
Process.sleep(:infinity)
