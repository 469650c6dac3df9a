defmodule RedirectTo.Web do
  # The HTTP server, which is Erlang's own. Each connection is a process, in which the loader runs.
  @moduledoc false
  alias RedirectTo.Links

  require Record
  Record.defrecordp(:mod, Record.extract(:mod, from_lib: "inets/include/httpd.hrl"))

  def child_spec(port), do: %{id: __MODULE__, start: {__MODULE__, :start_link, [port]}, type: :supervisor}

  def start_link(port) do
    folder = to_charlist(System.tmp_dir!())

    options = [
      port: port,
      server_name: 'redirect_to',
      server_root: folder,
      document_root: folder,
      modules: [__MODULE__],
      # Of requests and their bodies.
      max_body_size: 10_000,
      max_uri_size: 4_000
    ]

    :inets.start(:httpd, options, :stand_alone)
  end

  @doc "What the server calls with each request."
  def unquote(:do)(request) do
    mod(method: method, request_uri: uri, entity_body: body) = request
    path = uri |> to_string() |> String.split("?") |> hd()
    {code, headers, body} = answer(to_string(method), path, to_string(body))
    head = [code: code, content_length: body |> byte_size() |> Integer.to_charlist()] ++ headers
    {:break, response: {:response, head, [body]}}
  end

  defp answer("GET", "/metrics", _) do
    {200, [content_type: to_charlist(Larder.Prometheus.content_type())], Larder.Prometheus.text([RedirectTo.Cache])}
  end

  defp answer("POST", "/", long_url), do: put(fn -> Links.put(long_url) end, long_url, 201)
  defp answer("PUT", "/" <> slug, long_url) when slug != "", do: put(fn -> Links.put(slug, long_url) end, long_url, 200)

  defp answer("GET", "/" <> slug, _) when slug != "" do
    case Links.fetch(slug) do
      {nil, source} -> text(404, "there is no link #{slug}", cache_status(source))
      {%{"long_url" => long_url}, source} -> text(302, long_url, [{'location', to_charlist(long_url)} | cache_status(source)])
    end
  end

  defp answer("DELETE", "/" <> slug, _) when slug != "" do
    Links.delete(slug)
    text(200, "deleted")
  end

  defp answer(_, _, _), do: text(404, "GET /SLUG, POST /, PUT /SLUG, DELETE /SLUG or GET /metrics")

  defp put(put, long_url, code) do
    if valid?(long_url), do: text(code, put.()), else: text(400, "the body must be an http or https address")
  end

  defp valid?(long_url) do
    match?({:ok, %URI{scheme: scheme, host: host}} when scheme in ["http", "https"] and host not in [nil, ""], URI.new(long_url))
  end

  # As RFC 9211 has it.
  defp cache_status(:cache), do: [{'cache-status', 'larder; hit'}]
  defp cache_status(:database), do: [{'cache-status', 'larder; fwd=miss'}]

  defp text(code, body, headers \\ []), do: {code, [{:content_type, 'text/plain; charset=utf-8'} | headers], body <> "\n"}
end
