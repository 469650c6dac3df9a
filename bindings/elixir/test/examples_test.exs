# The examples run, and do what their pages say.
defmodule ExamplesTest do
  use ExUnit.Case, async: false
  import Support

  @moduletag :capture_log

  test "the URL shortener redirects, and hears of changes" do
    {:ok, _} = Application.ensure_all_started(:inets)

    root()
    |> Path.join("bindings/elixir/examples/links/lib/**/*.ex")
    |> Path.wildcard()
    |> Enum.sort(:desc)
    |> Kernel.ParallelCompiler.require()

    redis = Support.Redis.start()
    Application.put_env(:mnesia, :dir, to_charlist(Path.join(redis.folder, "mnesia")))
    :ok = :mnesia.start()
    on_exit(fn -> :mnesia.stop() end)
    # `httpd` does not tell a port that the system has chosen.
    {:ok, socket} = :gen_tcp.listen(0, [])
    {:ok, port} = :inet.port(socket)
    :ok = :gen_tcp.close(socket)
    {:ok, supervisor} = apply(RedirectTo, :start_link, [[port: port, redis: redis.url]])
    base = "http://localhost:#{port}"

    request = fn method, path, body ->
      url = to_charlist(base <> path)
      request = if body, do: {url, [], 'text/plain', body}, else: {url, []}
      {:ok, {{_, code, _}, headers, body}} = :httpc.request(method, request, [autoredirect: false], body_format: :binary)
      {code, Map.new(headers, fn {name, value} -> {to_string(name), to_string(value)} end), String.trim(body)}
    end

    get = fn path ->
      {code, headers, _} = request.(:get, path, nil)
      {code, headers["location"], headers["cache-status"]}
    end

    {201, _, slug} = request.(:post, "/", "https://example.com/a")
    assert get.("/#{slug}") == {302, "https://example.com/a", "larder; fwd=miss"}
    assert get.("/#{slug}") == {302, "https://example.com/a", "larder; hit"}
    assert {200, _, ^slug} = request.(:put, "/#{slug}", "https://example.com/b")
    assert get.("/#{slug}") == {302, "https://example.com/b", "larder; fwd=miss"}
    assert {200, _, "deleted"} = request.(:delete, "/#{slug}", nil)
    assert get.("/#{slug}") == {404, nil, "larder; fwd=miss"}
    assert get.("/#{slug}") == {404, nil, "larder; hit"}
    assert {400, _, _} = request.(:post, "/", "javascript:alert(1)")
    assert {404, _, _} = request.(:get, "/", nil)
    assert {200, %{"content-type" => "text/plain; version=0.0.4; charset=utf-8"}, page} = request.(:get, "/metrics", nil)
    assert page =~ ~s(larder_tier_operations_total{part="redirect_to",tier="origin",operation="load"} 3)
    Supervisor.stop(supervisor)
  end
end
