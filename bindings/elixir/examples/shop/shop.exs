# A product catalogue over Erlang's own HTTP server: products are read through larder, and a change invalidates them in every
# process.
#
#     PORT         the port, 4000 by default
#     REDIS_URL    the Redis of all processes, such as redis://localhost:6379; without it there is only memory
#     ORIGIN_FILE  a JSON file that is the database of all processes

defmodule Origin do
  # The database. Elixir 1.14 has no JSON: these are the products of the file, and the change of a price, by patterns.
  @query 300
  @rows [{"apple", "Apple", 120}, {"pear", "Pear", 150}, {"plum", "Plum", 90}]

  def open do
    unless File.exists?(file()) do
      rows = for {id, name, price} <- @rows, do: ~s|  "#{id}": {\n    "name": "#{name}",\n    "price": #{price}\n  }|
      write("{\n#{Enum.join(rows, ",\n")}\n}")
    end
  end

  def query(id) do
    product = find(File.read!(file()), id)
    # One can see whether there was a query.
    Process.sleep(@query)
    product
  end

  def set_price(id, price) do
    text = File.read!(file())

    if find(text, id) do
      changed = Regex.replace(row(id), text, "\\g{1}\\g{2}\\g{3}#{price}", global: false)
      write(changed)
      find(changed, id)
    end
  end

  defp find(text, id) do
    case Regex.run(row(id), text) do
      [_, _, name, _, price] -> %{"id" => id, "name" => name, "price" => String.to_integer(price)}
      nil -> nil
    end
  end

  defp row(id), do: ~r/("#{Regex.escape(id)}"\s*:\s*\{\s*"name"\s*:\s*")([^"]*)("\s*,\s*"price"\s*:\s*)(\d+)/

  # Renamed, so that no process reads half of it.
  defp write(text) do
    draft = "#{file()}.#{System.pid()}"
    File.write!(draft, text)
    File.rename!(draft, file())
  end

  defp file, do: System.get_env("ORIGIN_FILE") || Path.join(System.tmp_dir!(), "shop.json")
end

defmodule Web do
  # Each connection is a process, in which the loader runs.
  require Record
  Record.defrecordp(:mod, Record.extract(:mod, from_lib: "inets/include/httpd.hrl"))

  @max_price 1_000_000

  def start(port) do
    folder = to_charlist(System.tmp_dir!())

    options = [
      port: port,
      bind_address: 'localhost',
      server_name: 'shop',
      server_root: folder,
      document_root: folder,
      modules: [Web]
    ]

    {:ok, server} = :inets.start(:httpd, options)
    [port: port] = :httpd.info(server, [:port])
    IO.puts("http://localhost:#{port}")
  end

  def unquote(:do)(request) do
    mod(method: method, request_uri: uri, entity_body: body) = request
    {code, headers, text} = answer(to_string(method), to_string(uri), to_string(body))
    head = [code: code, content_length: text |> byte_size() |> Integer.to_charlist(), cache_control: 'no-store'] ++ headers
    {:break, response: {:response, head, [text]}}
  end

  # Programs in other languages have the same view: namespace, name and schema are all that they must agree on.
  defp products, do: Larder.view(Shop, "product", schema: {"product", 1})

  defp answer("GET", "/products/" <> id, _) do
    caller = self()

    product =
      Larder.fetch(products(), id, fn ->
        send(caller, :loaded)

        case Origin.query(id) do
          # Nothing is kept of a name that somebody has made up.
          nil -> Larder.loaded(nil, store: false)
          product -> Larder.loaded(product, tags: ["product-#{id}"])
        end
      end)

    outcome =
      receive do
        :loaded -> 'Elixir; fwd=miss'
      after
        0 -> 'Elixir; hit'
      end

    if product, do: json(200, product, [{'cache-status', outcome}]), else: refuse(404, "there is no such product")
  end

  defp answer("PUT", "/products/" <> id, body) do
    with [_, digits] <- Regex.run(~r/^\s*\{\s*"price"\s*:\s*(\d{1,7})\s*\}\s*$/, body),
         price when price <= @max_price <- String.to_integer(digits) do
      case Origin.set_price(id, price) do
        nil ->
          refuse(404, "there is no such product")

        product ->
          # After the change: what is loaded from now on is the new product. A load that has begun before is not stored.
          Larder.invalidate_tags(Shop, ["product-#{id}"])
          json(200, product, [])
      end
    else
      _ -> refuse(400, "price must be a whole number of cents from 0 to #{@max_price}")
    end
  end

  defp answer("GET", "/metrics", _) do
    {200, [content_type: to_charlist(Larder.Prometheus.content_type())], Larder.Prometheus.text([Shop])}
  end

  defp answer(_, _, _), do: refuse(404, "GET /products/ID, PUT /products/ID or GET /metrics")

  defp json(code, %{"id" => id, "name" => name, "price" => price}, headers) do
    {code, [{:content_type, 'application/json'} | headers], ~s|{"id":"#{id}","name":"#{name}","price":#{price}}|}
  end

  defp refuse(code, error), do: {code, [content_type: 'application/json'], ~s|{"error":"#{error}"}|}
end

Origin.open()
redis = if url = System.get_env("REDIS_URL"), do: [redis: url], else: []

{:ok, _} =
  Supervisor.start_link([{Larder, [name: Shop, namespace: "shop", ttl: "5m", grace: "1h"] ++ redis}], strategy: :one_for_one)

{:ok, _} = Application.ensure_all_started(:inets)
Web.start(String.to_integer(System.get_env("PORT", "4000")))
Process.sleep(:infinity)
