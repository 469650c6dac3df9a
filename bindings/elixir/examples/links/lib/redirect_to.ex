defmodule RedirectTo do
  # A URL shortener whose links are read through larder: the cache, and the HTTP server, under one supervisor.
  @moduledoc false
  use Application

  @impl true
  def start(_type, _arguments) do
    start_link(
      port: String.to_integer(System.get_env("PORT", "4000")),
      redis: System.get_env("REDIS_URL"),
      join: System.get_env("JOIN")
    )
  end

  def start_link(options) do
    :ok = RedirectTo.Database.open(options[:join])

    children = [
      # Memory is bounded by bytes, however many links there are.
      {Larder,
       name: RedirectTo.Cache, namespace: "redirect_to", ttl: "10m", grace: "1h", memory_bytes: "16MiB", redis: options[:redis]},
      {RedirectTo.Web, options[:port]}
    ]

    Supervisor.start_link(children, strategy: :one_for_one, name: RedirectTo.Supervisor)
  end
end
